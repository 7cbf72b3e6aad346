//! The reasons why a declared gang has no places; it gets all of them at once or none.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::cure::{Change, more_nodes};
use super::why::{Cause, said};
use crate::nodes::{Domain, NodeLacks};
use crate::specs::ask::TaskGroup;
use crate::values::readable::amounts;
use crate::values::resources::Resources;

/// An obstacle of a declared gang besides quotas and limits; its asks wait with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GangWhy {
    /// The gang of the ask is undecided: none of its asks is tried by itself before the gang is
    /// decided.
    Undecided,
    /// A group whose members have no size lacks asks.
    Asks {
        /// The name of the task group.
        group: TaskGroup,
        /// The number of missing asks.
        missing: u64,
    },
    /// Members of one size found too few places in the search for all members.
    Places {
        /// The name of the task group.
        group: TaskGroup,
        /// The size of a member.
        size: Resources,
        /// The number of members without a place.
        lacks: u64,
        /// Counts of nodes by what they lack for one more member.
        nodes: NodeLacks,
        /// The condition of their placement constraint, if they have one.
        constraint: Option<String>,
    },
    /// No domain takes all members of a group that has to stay in one.
    Domain {
        /// The group, and what it is short of.
        short: ShortDomain,
        /// Counts of nodes, in the domain where most members found a place, by what they lack for
        /// one more member.
        nodes: NodeLacks,
        /// The condition of their placement constraint, if they have one.
        constraint: Option<String>,
    },
    /// Every node with capacity refused a member.
    Refused {
        /// The name of the task group; empty if it is not known.
        group: TaskGroup,
        /// Texts of predicates about the member, each with the number of nodes.
        texts: BTreeMap<String, u32>,
        /// Counts of nodes by what they lack for the member, if they are known.
        nodes: Option<NodeLacks>,
        /// The time of the next try without a change, ns since the epoch; `None` if it is not
        /// known.
        retry_ns: Option<i64>,
    },
    /// All members have places, and the RM is asked about its predicates.
    InFlight,
}

/// A group that has to stay in one domain, and is too large for each domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShortDomain {
    /// The name of the task group.
    pub group: TaskGroup,
    /// The size of a member.
    pub size: Resources,
    /// The number of members.
    pub members: u64,
    /// The number of members without a place in the domain where most members have one.
    pub lacks: u64,
    /// The attribute whose values are the domains.
    pub key: Arc<str>,
    /// The value of the domain where most members found a place; `None`: no node has the attribute.
    pub value: Option<Arc<str>>,
}

impl ShortDomain {
    /// The domain where most members found a place.
    pub fn domain(&self) -> Option<Domain> {
        Some(Domain { key: Arc::clone(&self.key), value: Arc::clone(self.value.as_ref()?) })
    }
}

impl GangWhy {
    /// The cause in short.
    pub fn cause(&self) -> Cause {
        match self {
            Self::Refused { .. } => Cause::Predicates,
            Self::Domain { .. } => Cause::Topology,
            Self::Undecided | Self::Asks { .. } | Self::Places { .. } | Self::InFlight => {
                Cause::Gang
            }
        }
    }

    /// The task group that is short.
    pub fn group(&self) -> Option<&TaskGroup> {
        match self {
            Self::Asks { group, .. } | Self::Places { group, .. } | Self::Refused { group, .. } => {
                Some(group)
            }
            Self::Domain { short, .. } => Some(&short.group),
            Self::Undecided | Self::InFlight => None,
        }
    }

    /// Returns the amount of all members without a place.
    pub fn short(&self) -> Resources {
        match self {
            Self::Places { size, lacks, .. }
            | Self::Domain { short: ShortDomain { size, lacks, .. }, .. } => {
                size.times(i64::try_from(*lacks).unwrap_or(i64::MAX))
            }
            _ => Resources::new(),
        }
    }

    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Undecided => "nothing of the application is placed by itself before its gang is \
                                decided"
                .to_owned(),
            Self::Asks { group, missing } => {
                let noun = if *missing == 1 { "request" } else { "requests" };
                format!("the gang waits for {missing} more {noun} of task group {group}")
            }
            Self::Places { group, size, lacks, nodes, .. } => {
                let member = if *lacks == 1 { "member" } else { "members" };
                let may = if nodes.unfit.is_empty() { "" } else { " on nodes that they may use" };
                format!(
                    "{lacks} {member} of task group {group} found no place for {}{may} beside the \
                     others ({nodes})",
                    amounts(size)
                )
            }
            Self::Domain { short, nodes, .. } => domain_sentence(short, nodes),
            Self::Refused { group, texts, nodes, .. } => {
                let of = if group.is_empty() { String::new() } else { format!(" of {group}") };
                let has_unfit = nodes.as_ref().is_some_and(|nodes| !nodes.unfit.is_empty());
                let may = if has_unfit { " that it may use" } else { "" };
                let counts = nodes.as_ref().map(|nodes| format!(" ({nodes})")).unwrap_or_default();
                let texts = said(texts);
                format!(
                    "all nodes with room{may} were refused by predicates for a member{of}{texts}{counts}"
                )
            }
            Self::InFlight => {
                "all members have places, and predicates are asked about them".to_owned()
            }
        }
    }

    pub(super) fn change(&self) -> Change {
        match self {
            Self::Undecided => Change::Gang,
            Self::Asks { group, missing } => {
                Change::GangMembers { group: TaskGroup::clone(group), count: *missing }
            }
            Self::Places { size, lacks, constraint: Some(constraint), .. } => {
                Change::AdmittedNode {
                    resources: size.clone(),
                    count: *lacks,
                    constraint: constraint.clone(),
                }
            }
            Self::Places { size, lacks, constraint: None, nodes, .. } => {
                more_nodes(size, *lacks, nodes)
            }
            Self::Domain { short, constraint, .. } => Change::NodeInDomain {
                key: Arc::clone(&short.key),
                value: short.value.clone(),
                resources: short.size.clone(),
                count: short.lacks,
                constraint: constraint.clone(),
            },
            Self::Refused { retry_ns, .. } => Change::Time { at_ns: *retry_ns },
            Self::InFlight => Change::Time { at_ns: None },
        }
    }
}

fn domain_sentence(short: &ShortDomain, nodes: &NodeLacks) -> String {
    let ShortDomain { group, size, members, lacks, key, value } = short;
    let all = format!("no {key} has room for all {members} members of task group {group}");
    match value {
        None => format!("{all}: no node has the attribute `{key}`"),
        Some(value) => format!(
            "{all}: in {key} {value}, which comes nearest, {lacks} of them found no place for {} \
             ({nodes})",
            amounts(size)
        ),
    }
}
