//! An obstacle of an ask, with its figures, and the sentence that states it.
//!
//! # Why one type
//! The debug log, the admin service, REST and the command line explain why an ask is pending. Each
//! of them uses this value, so that each obstacle has one text, and each reader knows the same
//! obstacles.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::gang::GangWhy;
use crate::asks::failed_starts::NotStarted;
use crate::books::Books;
use crate::decide::pairs::FreePlaces;
use crate::limits::Subject;
use crate::nodes::affinity::Excluding;
use crate::nodes::{Domain, Fits, Nearest, NodeLacks, NodeRequest};
use crate::specs::ask::TaskGroup;
use crate::values::readable::{amounts, by_weight, enumeration, of_most, title};
use crate::values::resources::{Limits, Resources};

/// Most texts of predicates in a sentence.
const TEXTS_SHOWN: usize = 8;

/// The cause for which an ask is pending, without figures. The texts are part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A stopped partition or queue.
    Stopped,
    /// A hold: nothing is decided until it is lifted.
    Held,
    /// The maximum of running applications.
    NotRunnable,
    /// The maximum of a queue.
    QueueQuota,
    /// A limit of its user or group.
    UserQuota,
    /// A time that has to pass.
    Delay,
    /// A time that has to pass because its last start failed.
    StartFailed,
    /// An undecided gang.
    Gang,
    /// The placeholders of its task group.
    Placeholders,
    /// The node that it requires.
    RequiredNode,
    /// The placement constraint, which excludes every node with capacity.
    Constraints,
    /// No domain has capacity for a group that has to stay together.
    Topology,
    /// No node with capacity.
    NoNode,
    /// Predicates, which refused every node with capacity.
    Predicates,
    /// No obstacle: it was not tried yet.
    Next,
}

impl Cause {
    /// Returns the text that clients read.
    pub fn text(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Held => "held",
            Self::NotRunnable => "notRunnable",
            Self::QueueQuota => "queueQuota",
            Self::UserQuota => "userQuota",
            Self::Delay => "delay",
            Self::StartFailed => "startFailed",
            Self::Gang => "gang",
            Self::Placeholders => "placeholders",
            Self::RequiredNode => "requiredNode",
            Self::Constraints => "constraints",
            Self::Topology => "topology",
            Self::NoNode => "noNode",
            Self::Predicates => "predicates",
            Self::Next => "next",
        }
    }
}

/// Amounts above a maximum, only of the resource types that are short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Over {
    /// The maximum.
    pub most: Resources,
    /// The used amount.
    pub used: Resources,
    /// The requested amount.
    pub want: Resources,
}

impl Over {
    /// Returns the amounts that do not fit below a maximum; `None` if all fit.
    pub fn of(max: &Limits, used: &Resources, wanted: &Resources) -> Option<Self> {
        let (mut most, mut short_used, mut want) =
            (Resources::new(), Resources::new(), Resources::new());
        for (name, quantity) in wanted.entries().filter(|(_, quantity)| *quantity > 0) {
            let Some(max) = max.find(name) else { continue };
            let used = used.get(name);
            if quantity > max.saturating_sub(used) {
                most.set(name, max);
                short_used.set(name, used);
                want.set(name, quantity);
            }
        }
        (!want.is_empty()).then_some(Self { most, used: short_used, want })
    }

    /// Returns the amount left; negative if more is used than allowed.
    pub fn have(&self) -> Resources {
        self.most.minus(&self.used)
    }

    /// Returns the amount by which the maximum is too low.
    pub fn short(&self) -> Resources {
        self.want.minus(&self.have())
    }
}

/// The obstacle in the node that an ask requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequiredState {
    /// The node does not exist.
    Missing,
    /// The node could not hold the ask even if it were empty.
    TooSmall {
        /// The size that the node would need, for the ask in addition to all allocations on it.
        needs: Resources,
    },
    /// The node has too little left. Contains the missing amount.
    Lacks(Resources),
    /// The RM refused the node for good; it is asked again at the end of the exclusion.
    Excluded {
        /// End of the exclusion, ns since the epoch.
        until_ns: i64,
    },
}

/// An obstacle of an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The partition is stopped.
    PartitionStopped {
        /// The name of the partition.
        partition: Arc<str>,
    },
    /// Decisions are on hold in the partition.
    OnHold {
        /// The name of the partition.
        partition: Arc<str>,
        /// The resource manager that is away, that cannot be asked, or that asked for the hold.
        rm: Arc<str>,
        /// Whether it is there, but cannot be asked about predicates.
        cannot_be_asked: bool,
    },
    /// The RM uses as much memory as its quota allows.
    QuotaOfBytes {
        /// The partition.
        partition: Arc<str>,
        /// The quota in bytes.
        limit: u64,
    },
    /// A queue above it is stopped.
    QueueStopped {
        /// The path of the queue.
        queue: Arc<str>,
    },
    /// The queue has its maximum of running applications, and the application of the ask does not
    /// run yet.
    QueueRuns {
        /// The path of the queue.
        queue: Arc<str>,
        /// The number of running applications.
        running: u64,
        /// The most running applications.
        most: u64,
    },
    /// The maximum of a queue leaves too little.
    Queue {
        /// The path of the queue.
        queue: Arc<str>,
        /// The amounts that are short.
        over: Over,
    },
    /// The user or group has its maximum of running applications, and the application of the ask
    /// does not run yet.
    LimitRuns {
        /// The user or group.
        whose: Subject,
        /// The path of the queue that the limit is set on.
        queue: Arc<str>,
        /// The number of running applications.
        running: u64,
        /// The most running applications.
        most: u64,
    },
    /// The limit of its user or group leaves too little.
    Limit {
        /// The user or group.
        whose: Subject,
        /// The path of the queue that the limit is set on.
        queue: Arc<str>,
        /// The amounts that are short.
        over: Over,
    },
    /// Allocations of its application were preempted for another application, which has to run
    /// before it.
    GivesWay {
        /// The other application.
        application: Arc<str>,
    },
    /// The application backs off, because too many of its asks found no node.
    BacksOff {
        /// End of the back-off, ns since the epoch.
        until_ns: i64,
    },
    /// The ask or its gang failed to start, and waits before the next try.
    StartFailed {
        /// The number of failures, and the begin and end of the wait.
        failed: NotStarted,
        /// Whether the gang waits: none of its members could be started.
        of_gang: bool,
    },
    /// The gang of the ask is undecided.
    Gang(GangWhy),
    /// The ask takes the place of a placeholder of its task group.
    Placeholders {
        /// The name of the task group.
        group: TaskGroup,
        /// The number of placeholders still to be placed.
        pending: u64,
        /// Counts of placed placeholders that no member is about to take.
        free: FreePlaces,
        /// The number of placeholders that members will take if predicates pass; the RM is being
        /// asked.
        asked: u64,
        /// The number of placeholders that the RM has still to end.
        leaving: u64,
        /// Whether the scheduler holds the places itself, for members that were declared.
        is_held: bool,
        /// The node of a placeholder that refused the ask, and the reasons.
        refused: Option<(Arc<str>, BTreeMap<String, u32>)>,
    },
    /// No node has capacity, takes new allocations, and can run the ask.
    Nodes {
        /// Counts of nodes by what they lack.
        lacks: NodeLacks,
        /// The node that lacks the least; `None` if all are too small or closed.
        nearest: Option<Nearest>,
        /// If there is no nearest node: one that would hold the ask if it did not drain.
        drained: Option<Arc<str>>,
        /// A node that has capacity and is reserved, if there is one.
        held: Option<HeldNode>,
        /// The requested amount.
        want: Resources,
    },
    /// The ask can use none of the open nodes, whatever capacity they have.
    Unfit {
        /// Counts of nodes by their reasons.
        lacks: NodeLacks,
        /// The requested amount.
        want: Resources,
    },
    /// The placement constraint excludes every node with capacity.
    Constraints {
        /// Counts of nodes by what they lack.
        lacks: NodeLacks,
        /// The conditions, each with the nodes that it leaves; the condition that excludes most
        /// comes first.
        excluding: Vec<Excluding>,
        /// The node that lacks the least, among those that the ask may use.
        nearest: Option<Nearest>,
        /// The time at which a later choice of the constraint begins for which there is a node, ns
        /// since the epoch.
        opens_ns: Option<i64>,
        /// The requested amount.
        want: Resources,
    },
    /// The task group has to stay in a domain where no node has capacity.
    Topology {
        /// The domain.
        domain: Domain,
        /// Counts of nodes by what they lack.
        lacks: NodeLacks,
        /// The node of the domain that lacks the least.
        nearest: Option<Nearest>,
        /// The requested amount.
        want: Resources,
    },
    /// The required node cannot take the ask.
    RequiredNode {
        /// The id of the node.
        node: Arc<str>,
        /// The obstacle in the node.
        state: RequiredState,
        /// The requested amount.
        want: Resources,
    },
    /// Every node with capacity refused the ask, or its RM did not answer in time.
    Refused {
        /// The id of the node, if the ask may use no other.
        node: Option<Arc<str>>,
        /// Counts of nodes by what they lack.
        lacks: NodeLacks,
        /// The reasons of predicates, each with the number of nodes.
        texts: BTreeMap<String, u32>,
        /// The time of the next try without a change, ns since the epoch; `None` if it is not
        /// known.
        retry_ns: Option<i64>,
    },
    /// The obstacle no longer exists.
    Loosened,
}

/// A node that has capacity, and that another ask has reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldNode {
    /// The node's id.
    pub node: Arc<str>,
    /// The id of the application of the other ask.
    pub application: Arc<str>,
    /// The key of the other ask.
    pub key: Arc<str>,
    /// The time of the reservation, ns since the epoch.
    pub since_ns: i64,
}

impl HeldNode {
    /// Returns the first node in order that has capacity for a request, is reserved by another ask,
    /// and could be used.
    pub fn first(books: &Books, request: &NodeRequest<'_>, fits: &Fits) -> Option<Self> {
        let may_use = |node| fits.refusal(books.nodes.id(node)).is_none().then_some(node);
        let node = books.nodes.first_lent(None, request, may_use)?;
        let of = books.reservations.of(books.reservations.normal_on(node)?)?;
        Some(Self {
            node: Arc::clone(books.nodes.id(node)),
            application: Arc::clone(&of.holder.application),
            key: Arc::clone(&of.spec.key),
            since_ns: of.since_ns,
        })
    }
}

impl fmt::Display for HeldNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, application, key, .. } = self;
        write!(
            f,
            "{node} has room and is reserved for ask `{key}` of {application}: to withdraw that would \
             do, too"
        )
    }
}

impl Why {
    /// Returns the cause in short.
    pub fn cause(&self) -> Cause {
        match self {
            Self::PartitionStopped { .. } | Self::QueueStopped { .. } => Cause::Stopped,
            Self::OnHold { .. } | Self::QuotaOfBytes { .. } => Cause::Held,
            Self::QueueRuns { .. } | Self::LimitRuns { .. } => Cause::NotRunnable,
            Self::Queue { .. } => Cause::QueueQuota,
            Self::Limit { .. } => Cause::UserQuota,
            Self::BacksOff { .. } | Self::GivesWay { .. } => Cause::Delay,
            Self::StartFailed { .. } => Cause::StartFailed,
            Self::Gang(why) => why.cause(),
            Self::Placeholders { .. } => Cause::Placeholders,
            Self::Nodes { .. } => Cause::NoNode,
            Self::Constraints { .. } => Cause::Constraints,
            Self::Topology { .. } => Cause::Topology,
            Self::RequiredNode { .. } => Cause::RequiredNode,
            Self::Unfit { .. } | Self::Refused { .. } => Cause::Predicates,
            Self::Loosened => Cause::Next,
        }
    }

    /// Returns the partition, queue, user, group or node that decides.
    pub fn object(&self) -> Option<&Arc<str>> {
        match self {
            Self::PartitionStopped { partition }
            | Self::OnHold { partition, .. }
            | Self::QuotaOfBytes { partition, .. } => Some(partition),
            Self::QueueStopped { queue }
            | Self::QueueRuns { queue, .. }
            | Self::Queue { queue, .. } => Some(queue),
            Self::LimitRuns { whose, .. } | Self::Limit { whose, .. } => Some(match whose {
                Subject::User(name) | Subject::Group(name) => name,
            }),
            Self::Nodes { nearest: None, drained, .. } => drained.as_ref(),
            Self::Nodes { nearest, .. }
            | Self::Constraints { nearest, .. }
            | Self::Topology { nearest, .. } => nearest.as_ref().map(|nearest| &nearest.node),
            Self::RequiredNode { node, .. } => Some(node),
            Self::Refused { node, .. } => node.as_ref(),
            Self::GivesWay { application } => Some(application),
            Self::BacksOff { .. }
            | Self::StartFailed { .. }
            | Self::Gang(_)
            | Self::Placeholders { .. }
            | Self::Unfit { .. }
            | Self::Loosened => None,
        }
    }

    /// Returns the amount missing at the object.
    pub fn short(&self) -> Resources {
        match self {
            Self::Queue { over, .. } | Self::Limit { over, .. } => over.short(),
            Self::Gang(why) => why.short(),
            Self::Nodes { nearest: Some(nearest), .. }
            | Self::Constraints { nearest: Some(nearest), .. }
            | Self::Topology { nearest: Some(nearest), .. } => nearest.lacks.clone(),
            Self::RequiredNode { state: RequiredState::Lacks(lacks), .. } => lacks.clone(),
            _ => Resources::new(),
        }
    }

    /// Returns the amount that the object has left, of the types that are short.
    pub fn have(&self) -> Resources {
        match self {
            Self::Queue { over, .. } | Self::Limit { over, .. } => over.have(),
            Self::Gang(_) => Resources::new(),
            _ => self.want().minus(&self.short()),
        }
    }

    /// Returns the requested amount, of the types that are short.
    pub fn want(&self) -> Resources {
        match self {
            Self::Queue { over, .. } | Self::Limit { over, .. } => over.want.clone(),
            Self::Nodes { nearest: Some(nearest), want, .. }
            | Self::Constraints { nearest: Some(nearest), want, .. }
            | Self::Topology { nearest: Some(nearest), want, .. } => only(want, &nearest.lacks),
            Self::RequiredNode { state: RequiredState::Lacks(lacks), want, .. } => {
                only(want, lacks)
            }
            _ => Resources::new(),
        }
    }

    /// Returns the sort key among all obstacles of an ask: the outermost first, and a queue before
    /// its users.
    pub(super) fn place(&self) -> (u8, usize, u8) {
        let depth = |queue: &str| queue.split('.').count();
        match self {
            Self::PartitionStopped { .. } | Self::OnHold { .. } | Self::QuotaOfBytes { .. } => {
                (0, 0, 0)
            }
            Self::QueueStopped { queue } => (1, depth(queue), 0),
            Self::QueueRuns { queue, .. } => (1, depth(queue), 1),
            Self::Queue { queue, .. } => (1, depth(queue), 2),
            Self::LimitRuns { queue, .. } => (1, depth(queue), 3),
            Self::Limit { queue, .. } => (1, depth(queue), 4),
            Self::BacksOff { .. } | Self::GivesWay { .. } => (2, 0, 0),
            Self::StartFailed { .. } => (0, 1, 0),
            Self::Gang(_) | Self::Placeholders { .. } => (3, 0, 0),
            Self::Nodes { .. }
            | Self::Unfit { .. }
            | Self::Constraints { .. }
            | Self::Topology { .. }
            | Self::RequiredNode { .. }
            | Self::Refused { .. } => (4, 0, 0),
            Self::Loosened => (5, 0, 0),
        }
    }

    /// Returns the obstacle as one sentence. It has no times, so that it stays true. `alone` names
    /// the ask if this is its only obstacle.
    pub fn sentence(&self, alone: Option<&str>) -> String {
        let does = alone
            .map_or("would remove this obstacle".to_owned(), |who| format!("would let {who} run"));
        let then = |what: &str| format!("{what} {does}");
        match self {
            Self::PartitionStopped { partition } => {
                format!("partition {partition} is stopped: nothing is decided until it is started")
            }
            Self::OnHold { partition, rm, cannot_be_asked } => {
                on_hold(partition, rm, *cannot_be_asked)
            }
            Self::QuotaOfBytes { partition, limit } => format!(
                "the resource manager of partition {partition} has as much as it may (quotas.bytes, \
                 {limit}): nothing more is placed until something of it ends"
            ),
            Self::QueueStopped { queue } => format!("{queue} is stopped"),
            Self::QueueRuns { queue, running, most } => format!(
                "{queue} runs as many applications as it may ({running} of {most}); {}",
                then(&more_applications(*running, *most))
            ),
            Self::LimitRuns { whose, queue, running, most } => format!(
                "{} runs as many applications as it may in {queue} ({running} of {most}); {}",
                named(whose),
                then(&more_applications(*running, *most))
            ),
            Self::Queue { queue, over } => format!(
                "{queue} {}; {}",
                uses(over, "leaves too little of", "is at its maximum of"),
                then(&more(&over.short()))
            ),
            Self::Limit { whose, queue, over } => format!(
                "{} {} in {queue}; {}",
                named(whose),
                uses(over, "has too little left of", "is at the limit of"),
                then(&more(&over.short()))
            ),
            Self::GivesWay { application } => format!(
                "allocations of its application leave for application `{application}`, which runs \
                 before anything that was asked for afterwards"
            ),
            Self::BacksOff { .. } => {
                "the application is left alone for a while, because too many of \
                                      its asks found no node"
                    .to_owned()
            }
            Self::StartFailed { failed, of_gang: false } => {
                format!("the ask {}", failed.in_short())
            }
            Self::StartFailed { failed, of_gang: true } => {
                format!("no member of the gang runs: it {}", failed.in_short())
            }
            Self::Gang(why) => why.sentence(),
            Self::Placeholders { group, pending, free, asked, leaving, is_held: false, .. } => {
                placeholders(group, *pending, free, *asked, *leaving)
            }
            Self::Placeholders { group, free, asked, refused, .. } => {
                held_places(group, free, *asked, refused.as_ref())
            }
            Self::Nodes { lacks, nearest, drained, held, want } => {
                let would_do = match (nearest, drained) {
                    (Some(Nearest { node, lacks }), _) => {
                        format!("{} on {node}, which comes nearest,", more(lacks))
                    }
                    (None, Some(node)) => format!("node {node}, if it were opened,"),
                    (None, None) => format!("a node with {}", amounts(want)),
                };
                let would_do = then(&would_do);
                let held = held.as_ref().map(|held| format!("; {held}")).unwrap_or_default();
                let may = if lacks.unfit.is_empty() { "" } else { " that it may use" };
                format!("no node{may} has room ({lacks}); {would_do}{held}")
            }
            Self::Unfit { lacks, .. } => format!("it may use none of the nodes ({lacks})"),
            Self::Constraints { lacks, excluding, .. } => {
                let each = excluding.iter().take(TEXTS_SHOWN).map(|it| {
                    format!("`{}` leaves {} of {}", it.condition, it.left, it.left + it.excluded)
                });
                let each: Vec<_> = each.collect();
                format!(
                    "its placement constraint keeps it off every node with room: {} ({lacks})",
                    enumeration(&each)
                )
            }
            Self::Topology { domain, lacks, .. } => {
                format!("its task group stays in {domain}, where no node has room ({lacks})")
            }
            Self::RequiredNode { node, state, want } => required(node, state, want),
            Self::Refused { node, lacks, texts, .. } => {
                let who = match node {
                    Some(node) => format!("node {node}, which is required, was"),
                    None if lacks.unfit.is_empty() => "all nodes with room were".to_owned(),
                    None => "all nodes with room that it may use were".to_owned(),
                };
                let of_nodes = if node.is_some() { String::new() } else { format!(" ({lacks})") };
                format!("{who} refused by predicates{}{of_nodes}", said(texts))
            }
            Self::Loosened => "what kept it is loosened by now".to_owned(),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence(None))
    }
}

fn on_hold(partition: &str, rm: &str, cannot_be_asked: bool) -> String {
    let (state, end) = if cannot_be_asked {
        ("cannot be asked about predicates", "its callback stream is open")
    } else {
        ("is away, catching up, or holds decisions back", "it is there")
    };
    format!(
        "resource manager {rm} {state}: nothing is decided in partition {partition} until {end}"
    )
}

/// Returns the user or group as named in a sentence.
pub(super) fn named(whose: &Subject) -> String {
    match whose {
        Subject::User(name) => format!("user {name}"),
        Subject::Group(name) => format!("group {name}"),
    }
}

/// Returns by how much the maximum of running applications is too low.
pub(super) fn missing_runs(running: u64, most: u64) -> u64 {
    running.saturating_sub(most).saturating_add(1)
}

fn more_applications(running: u64, most: u64) -> String {
    match missing_runs(running, most) {
        1 => "one more".to_owned(),
        count => format!("{count} more"),
    }
}

/// Returns the text of an amount with `more` after the number. The name of its type is omitted if
/// there is one type only, since the sentence has it already.
fn more(short: &Resources) -> String {
    let all = amounts(short);
    if short.entries().len() > 1 {
        return format!("{all} more");
    }
    let one = all.split_once(" of ").map_or(&*all, |(number, _)| number);
    format!("{one} more")
}

/// Returns text like `is at its maximum of memory (40 of 40 GiB used)`.
fn uses(over: &Over, near: &str, at: &str) -> String {
    let types = by_weight(&over.most).into_iter().map(|(name, most)| {
        let used = over.used.sorted().into_iter().find(|(other, _)| *other == name);
        let used = used.map_or(0, |(_, used)| used);
        (used >= most, format!("{} ({} used)", title(&name), of_most(&name, used, most)))
    });
    let types: Vec<_> = types.collect();
    let is_full = types.iter().all(|(is_full, _)| *is_full);
    let texts: Vec<_> = types.into_iter().map(|(_, text)| text).collect();
    format!("{} {}", if is_full { at } else { near }, enumeration(&texts))
}

fn placeholders(group: &str, pending: u64, free: &FreePlaces, asked: u64, leaving: u64) -> String {
    let counts = [
        (pending, "still to be placed"),
        (asked, "taken if predicates pass, which are asked"),
        (leaving, "still to be ended by the resource manager"),
        (free.untried, "placed, and free to be taken"),
        (free.refused, "placed, but refused by predicates"),
        (free.forbidden, "placed where the ask may not go"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<_> = counts.map(|(count, what)| format!("{count} {what}")).collect();
    format!(
        "the ask takes the place of a placeholder of task group {group}: {}",
        enumeration(&counts)
    )
}

/// Returns the text why a member cannot take the places that are held for its group.
fn held_places(
    group: &str,
    free: &FreePlaces,
    asked: u64,
    refused: Option<&(Arc<str>, BTreeMap<String, u32>)>,
) -> String {
    let on = refused.map(|(node, texts)| match texts.len() {
        0 => format!(" (such as that on {node})"),
        _ => format!(" (such as that on {node}){}", said(texts)),
    });
    let refused = format!("refused by predicates{}", on.unwrap_or_default());
    let counts = [
        (asked, "taken if predicates pass, which are asked"),
        (free.untried, "free to be taken"),
        (free.forbidden, "where the ask may not go"),
        (free.refused, refused.as_str()),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<_> = counts.map(|(count, what)| format!("{count} {what}")).collect();
    format!(
        "the ask takes a place that is held for task group {group}, of which there are {}",
        enumeration(&counts)
    )
}

fn required(node: &str, state: &RequiredState, want: &Resources) -> String {
    match state {
        RequiredState::Missing => format!("node {node}, which is required, is not there"),
        RequiredState::TooSmall { .. } => {
            format!("node {node}, which is required, is too small for {}", amounts(want))
        }
        RequiredState::Lacks(lacks) => {
            format!("node {node}, which is required, lacks {}", amounts(lacks))
        }
        RequiredState::Excluded { .. } => {
            format!("node {node}, which is required, can never run it, says the resource manager")
        }
    }
}

/// Returns the text of the reasons of most nodes.
pub(super) fn said(texts: &BTreeMap<String, u32>) -> String {
    let mut most: Vec<_> = texts.iter().collect();
    most.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let shown = most.iter().take(TEXTS_SHOWN).map(|(text, nodes)| {
        let noun = if **nodes == 1 { "node" } else { "nodes" };
        format!("`{text}` on {nodes} {noun}")
    });
    let shown: Vec<_> = shown.collect();
    if shown.is_empty() { String::new() } else { format!(": {}", enumeration(&shown)) }
}

/// Returns the part of an amount whose types are in `types`.
pub(super) fn only(amount: &Resources, types: &Resources) -> Resources {
    let mut only = Resources::new();
    for (name, _) in types.entries() {
        only.set(name, amount.get(name));
    }
    only
}
