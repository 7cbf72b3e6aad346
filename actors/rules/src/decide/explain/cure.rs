//! The smallest change that lets an ask run.
//!
//! # How it is found
//! Every obstacle has one change that removes it. The end of a stop or hold comes first, since
//! nothing is decided before; the others are the smallest by this order: only time; capacity on the
//! node that lacks the least, or the opening of one; a quota; one more running application; a node.
//! If all these changes are made, no obstacle is left. Other asks that would use the same capacity
//! are not considered: an ask behind them may need the change again.

use std::fmt;
use std::sync::Arc;

use super::why::{HeldNode, RequiredState, Why, missing_runs, named};
use crate::nodes::{Nearest, NodeLacks};
use crate::specs::ask::TaskGroup;
use crate::values::instant::rfc3339_ms;
use crate::values::readable::{amounts, enumeration};
use crate::values::resources::Resources;

/// Maximum number of reasons of nodes in a sentence.
const REASONS_SHOWN: usize = 3;

/// A change. The tests of this module show its effect on the figures of an explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// No change: the ask is tried in its turn.
    Nothing,
    /// The passage of time.
    Time {
        /// The end of the wait, ns since the epoch; `None` if it is not known.
        at_ns: Option<i64>,
    },
    /// More capacity on a node.
    NodeRoom {
        /// The node's id.
        node: Arc<str>,
        /// The amount in addition to the node's own.
        resources: Resources,
    },
    /// The end of the draining of a node that has the capacity.
    OpenNode {
        /// The node's id.
        node: Arc<str>,
    },
    /// A larger maximum of a queue, or the release of this amount below it.
    Quota {
        /// The path of the queue.
        queue: Arc<str>,
        /// The additional amount.
        resources: Resources,
    },
    /// A larger limit, or the release of this amount by the user or group.
    UserLimit {
        /// `user ann in root.etl`.
        whose: String,
        /// The additional amount.
        resources: Resources,
    },
    /// More running applications.
    RunningApplications {
        /// The path of the queue, or `user ann in root.etl`.
        of: String,
        /// The additional number.
        count: u64,
    },
    /// Nodes that are added.
    Node {
        /// The id, if the ask requires this node.
        node: Option<Arc<str>>,
        /// The least size of each.
        resources: Resources,
        /// The number of nodes.
        count: u64,
    },
    /// Nodes that are added and that the placement constraint admits.
    AdmittedNode {
        /// The least size of each.
        resources: Resources,
        /// The number of nodes.
        count: u64,
        /// The condition of the constraint.
        constraint: String,
    },
    /// Nodes to be added that do not themselves exclude the ask.
    UsableNode {
        /// The least size of each.
        resources: Resources,
        /// Their number.
        count: u64,
        /// The reasons why other nodes exclude the ask, the most frequent first.
        reasons: Vec<Arc<str>>,
    },
    /// A change of nodes, or the withdrawal of the request that has reserved one.
    OrWithdrawn {
        /// The change of nodes.
        change: Box<Self>,
        /// The node, and the request that has reserved it.
        held: HeldNode,
    },
    /// Nodes to be added to a domain.
    NodeInDomain {
        /// The attribute.
        key: Arc<str>,
        /// The value of the attribute; `None`: any value that is the same for all of them.
        value: Option<Arc<str>>,
        /// The least size of each.
        resources: Resources,
        /// The number of nodes.
        count: u64,
        /// A further condition of a placement constraint.
        constraint: Option<String>,
    },
    /// A larger size of a node.
    LargerNode {
        /// The id of the node.
        node: Arc<str>,
        /// The least size.
        resources: Resources,
    },
    /// The decision about the application's gang, which has an explanation of its own.
    Gang,
    /// Placed placeholders of a task group.
    Placeholders {
        /// The name of the task group.
        group: TaskGroup,
        /// Their number.
        count: u64,
    },
    /// Asks for members of a task group.
    GangMembers {
        /// The name of the task group.
        group: TaskGroup,
        /// Their number.
        count: u64,
    },
    /// A resource manager that is there and lets decisions be made.
    ResourceManager {
        /// Its id.
        rm: Arc<str>,
        /// Whether it is there, but cannot be asked about predicates.
        cannot_be_asked: bool,
    },
    /// The end of a stop.
    State {
        /// The path of the queue or the name of the partition.
        object: Arc<str>,
    },
}

impl Change {
    /// Returns the kind of change, as clients read it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Time { .. } => "time",
            Self::NodeRoom { .. } => "nodeRoom",
            Self::OpenNode { .. } => "openNode",
            Self::Quota { .. } => "quota",
            Self::UserLimit { .. } => "userLimit",
            Self::RunningApplications { .. } => "runningApplications",
            Self::Node { .. }
            | Self::AdmittedNode { .. }
            | Self::UsableNode { .. }
            | Self::NodeInDomain { .. }
            | Self::LargerNode { .. } => "node",
            Self::OrWithdrawn { change, .. } => change.kind(),
            Self::Gang | Self::Placeholders { .. } | Self::GangMembers { .. } => "gangMembers",
            Self::State { .. } | Self::ResourceManager { .. } => "state",
        }
    }

    /// Returns the object of the change.
    pub fn object(&self) -> Option<&str> {
        match self {
            Self::Nothing
            | Self::Time { .. }
            | Self::Gang
            | Self::AdmittedNode { .. }
            | Self::UsableNode { .. } => None,
            Self::OrWithdrawn { change, .. } => change.object(),
            Self::NodeRoom { node, .. }
            | Self::OpenNode { node }
            | Self::LargerNode { node, .. } => Some(node),
            Self::Quota { queue, .. } => Some(queue),
            Self::UserLimit { whose, .. } => Some(whose),
            Self::RunningApplications { of, .. } => Some(of),
            Self::Node { node, .. } => node.as_deref(),
            Self::Placeholders { group, .. } | Self::GangMembers { group, .. } => Some(group),
            Self::NodeInDomain { value, .. } => value.as_deref(),
            Self::State { object } | Self::ResourceManager { rm: object, .. } => Some(object),
        }
    }

    /// Returns the amount of the change.
    pub fn resources(&self) -> Option<&Resources> {
        match self {
            Self::NodeRoom { resources, .. }
            | Self::Quota { resources, .. }
            | Self::UserLimit { resources, .. }
            | Self::Node { resources, .. }
            | Self::AdmittedNode { resources, .. }
            | Self::UsableNode { resources, .. }
            | Self::NodeInDomain { resources, .. }
            | Self::LargerNode { resources, .. } => Some(resources),
            Self::OrWithdrawn { change, .. } => change.resources(),
            _ => None,
        }
    }

    /// Returns the rank of the change in the order of preference.
    fn preference(&self) -> u8 {
        match self {
            Self::State { .. } | Self::ResourceManager { .. } => 0,
            Self::Nothing | Self::Time { .. } => 1,
            Self::NodeRoom { .. } | Self::OpenNode { .. } => 2,
            Self::Quota { .. } => 3,
            Self::UserLimit { .. } => 4,
            Self::RunningApplications { .. } => 5,
            Self::Node { .. }
            | Self::AdmittedNode { .. }
            | Self::UsableNode { .. }
            | Self::NodeInDomain { .. }
            | Self::LargerNode { .. } => 6,
            Self::OrWithdrawn { change, .. } => change.preference(),
            Self::Gang | Self::Placeholders { .. } | Self::GangMembers { .. } => 7,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing has to change: the ask is tried in its turn"),
            Self::Time { at_ns: Some(at_ns) } => write!(f, "wait until {}", rfc3339_ms(*at_ns)),
            Self::Time { at_ns: None } => f.write_str("wait"),
            Self::NodeRoom { node, resources } => {
                write!(f, "free {} on node {node}", amounts(resources))
            }
            Self::OpenNode { node } => write!(f, "open node {node}"),
            Self::Quota { queue, resources } => write!(
                f,
                "raise the maximum of {queue} by {}, or free as much there",
                amounts(resources)
            ),
            Self::UserLimit { whose, resources } => {
                write!(f, "raise the limit of {whose} by {}, or free as much", amounts(resources))
            }
            Self::RunningApplications { of, count: 1 } => {
                write!(f, "let one more application run: {of}")
            }
            Self::RunningApplications { of, count } => {
                write!(f, "let {count} more applications run: {of}")
            }
            Self::Node { node: Some(node), resources, .. } => {
                write!(f, "add node {node} with at least {}", amounts(resources))
            }
            Self::AdmittedNode { resources, count: 1, constraint } => write!(
                f,
                "add a node with at least {} that its placement constraint admits: {constraint}",
                amounts(resources)
            ),
            Self::AdmittedNode { resources, count, constraint } => write!(
                f,
                "add {count} nodes with at least {} each, or as much room for as many, that its \
                 placement constraint admits: {constraint}",
                amounts(resources)
            ),
            Self::UsableNode { resources, count, reasons } => {
                let nodes = match count {
                    1 => format!("a node with at least {}", amounts(resources)),
                    _ => format!("{count} nodes with at least {} each", amounts(resources)),
                };
                let reasons = reasons.iter().take(REASONS_SHOWN).map(|it| format!("`{it}`"));
                let reasons = enumeration(&reasons.collect::<Vec<_>>());
                write!(f, "add {nodes} that it may use: others say {reasons}")
            }
            Self::OrWithdrawn { change, held } => {
                let HeldNode { node, application, key, since_ns } = held;
                let since = rfc3339_ms(*since_ns);
                write!(
                    f,
                    "{change}, or withdraw ask `{key}` of {application}, for which {node} is reserved \
                     since {since}"
                )
            }
            Self::NodeInDomain { key, value, resources, count, constraint } => {
                let nodes = if *count == 1 { "a node" } else { "nodes" };
                let room = amounts(resources);
                let of_each = if *count == 1 { String::new() } else { format!("{count} times ") };
                match value {
                    Some(value) => {
                        write!(f, "add {nodes} to {key} {value} with room for {of_each}{room}")
                    }
                    None => {
                        write!(f, "add {nodes} of one {key} with room for {of_each}{room}")
                    }
                }?;
                match constraint {
                    None => Ok(()),
                    Some(constraint) => {
                        write!(f, " that its placement constraint admits: {constraint}")
                    }
                }
            }
            Self::LargerNode { node, resources } => {
                write!(f, "make node {node} as large as {}", amounts(resources))
            }
            Self::Node { node: None, resources, count: 1 } => {
                write!(f, "add a node with at least {}", amounts(resources))
            }
            Self::Node { node: None, resources, count } => write!(
                f,
                "add {count} nodes with at least {} each, or as much room for as many",
                amounts(resources)
            ),
            Self::Gang => f.write_str("have the gang decided: its own entry says how"),
            Self::Placeholders { group, count } => {
                let noun = if *count == 1 { "placeholder" } else { "placeholders" };
                write!(f, "have {count} {noun} of task group {group} placed")
            }
            Self::GangMembers { group, count } => {
                let noun = if *count == 1 { "member" } else { "members" };
                write!(f, "ask for {count} more {noun} of task group {group}")
            }
            Self::State { object } => write!(f, "let {object} go on"),
            Self::ResourceManager { rm, cannot_be_asked } => {
                f.write_str(&end_of_hold(rm, *cannot_be_asked))
            }
        }
    }
}

fn end_of_hold(rm: &str, cannot_be_asked: bool) -> String {
    if cannot_be_asked {
        format!("have resource manager {rm} open its callback stream")
    } else {
        format!("start resource manager {rm}, or have it lift its hold")
    }
}

/// Returns the changes that together remove all of these obstacles, in order of preference.
pub fn cure(obstacles: &[Why]) -> Vec<Change> {
    let mut changes: Vec<Change> = obstacles.iter().filter_map(removes).collect();
    join_nodes(&mut changes);
    join_times(&mut changes);
    if changes.is_empty() {
        changes.push(Change::Nothing);
    }
    changes.sort_by_key(Change::preference);
    changes
}

/// Returns the sentence for changes that are needed together.
pub fn sentence(changes: &[Change]) -> String {
    let texts: Vec<_> = changes.iter().map(Change::to_string).collect();
    texts.join("; and ")
}

/// Returns the smallest change that removes an obstacle.
fn removes(why: &Why) -> Option<Change> {
    Some(match why {
        Why::PartitionStopped { partition: object }
        | Why::QuotaOfBytes { partition: object, .. }
        | Why::QueueStopped { queue: object } => Change::State { object: Arc::clone(object) },
        Why::OnHold { rm, cannot_be_asked, .. } => {
            Change::ResourceManager { rm: Arc::clone(rm), cannot_be_asked: *cannot_be_asked }
        }
        Why::QueueRuns { queue, running, most } => Change::RunningApplications {
            of: queue.to_string(),
            count: missing_runs(*running, *most),
        },
        Why::LimitRuns { whose, queue, running, most } => Change::RunningApplications {
            of: format!("{} in {queue}", named(whose)),
            count: missing_runs(*running, *most),
        },
        Why::Queue { queue, over } => {
            Change::Quota { queue: Arc::clone(queue), resources: over.short() }
        }
        Why::Limit { whose, queue, over } => Change::UserLimit {
            whose: format!("{} in {queue}", named(whose)),
            resources: over.short(),
        },
        Why::BacksOff { until_ns } => Change::Time { at_ns: Some(*until_ns) },
        Why::StartFailed { failed, .. } => Change::Time { at_ns: failed.until_ns },
        Why::Gang(why) => why.change(),
        Why::Placeholders { group, pending: 1.., free, .. } if free.untried + free.refused == 0 => {
            Change::Placeholders { group: Arc::clone(group), count: 1 }
        }
        Why::Placeholders { .. } | Why::GivesWay { .. } => Change::Time { at_ns: None },
        Why::Constraints { opens_ns: Some(at_ns), .. } => Change::Time { at_ns: Some(*at_ns) },
        Why::Constraints { nearest: None, want, excluding, .. } => {
            let conditions: Vec<_> = excluding.iter().map(|it| it.condition.clone()).collect();
            let constraint = conditions.join(" and ");
            Change::AdmittedNode { resources: want.clone(), count: 1, constraint }
        }
        Why::Topology { nearest: None, domain, want, .. } => Change::NodeInDomain {
            key: Arc::clone(&domain.key),
            value: Some(Arc::clone(&domain.value)),
            resources: want.clone(),
            count: 1,
            constraint: None,
        },
        Why::Nodes { nearest, drained, lacks, held, want } => {
            let change = match (nearest, drained) {
                (Some(Nearest { node, lacks }), _) => {
                    Change::NodeRoom { node: Arc::clone(node), resources: lacks.clone() }
                }
                (None, Some(node)) => Change::OpenNode { node: Arc::clone(node) },
                (None, None) => more_nodes(want, 1, lacks),
            };
            match held {
                Some(held) => Change::OrWithdrawn { change: Box::new(change), held: held.clone() },
                None => change,
            }
        }
        Why::Unfit { lacks, want } => more_nodes(want, 1, lacks),
        Why::Topology { nearest: Some(nearest), .. }
        | Why::Constraints { nearest: Some(nearest), .. } => {
            Change::NodeRoom { node: Arc::clone(&nearest.node), resources: nearest.lacks.clone() }
        }
        Why::RequiredNode { node, state, want } => match state {
            RequiredState::Lacks(lacks) => {
                Change::NodeRoom { node: Arc::clone(node), resources: lacks.clone() }
            }
            RequiredState::Missing => {
                let node = Some(Arc::clone(node));
                Change::Node { node, resources: want.clone(), count: 1 }
            }
            RequiredState::TooSmall { needs } => {
                Change::LargerNode { node: Arc::clone(node), resources: needs.clone() }
            }
            RequiredState::Excluded { until_ns } => Change::Time { at_ns: Some(*until_ns) },
        },
        Why::Refused { retry_ns, .. } => Change::Time { at_ns: *retry_ns },
        Why::Loosened => return None,
    })
}

/// Returns nodes to be added; if existing nodes exclude the ask by themselves, nodes that do not.
pub(super) fn more_nodes(resources: &Resources, count: u64, lacks: &NodeLacks) -> Change {
    let resources = resources.clone();
    if lacks.unfit.is_empty() {
        return Change::Node { node: None, resources, count };
    }
    let reasons = lacks.unfit_by_count().map(|(reason, _)| Arc::clone(reason)).collect();
    Change::UsableNode { resources, count, reasons }
}

/// Joins nodes of one size that are added for several groups into one change.
fn join_nodes(changes: &mut Vec<Change>) {
    let mut joined: Vec<Change> = Vec::with_capacity(changes.len());
    for change in changes.drain(..) {
        if let Change::Node { node: None, resources, count } = &change {
            let alike = joined.iter_mut().find_map(|other| match other {
                Change::Node { node: None, resources: size, count } if size == resources => {
                    Some(count)
                }
                _ => None,
            });
            if let Some(sum) = alike {
                *sum += count;
                continue;
            }
        }
        joined.push(change);
    }
    *changes = joined;
}

/// Joins several waits into the last one.
fn join_times(changes: &mut Vec<Change>) {
    let at = |change: &Change| match change {
        Change::Time { at_ns } => Some(*at_ns),
        _ => None,
    };
    let Some(last) = changes.iter().filter_map(at).max() else { return };
    changes.retain(|change| at(change).is_none());
    changes.push(Change::Time { at_ns: last });
}

#[cfg(test)]
mod tests;
