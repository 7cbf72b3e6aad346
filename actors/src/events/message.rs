//! The contents of events' messages. Texts are made when an event is read
//! ([`Event::record`](super::Event::record)).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use monoceros_rules::allocations::Grounds;
use monoceros_rules::applications::application_state::ApplicationState;
use monoceros_rules::applications::gang::Lacking;
use monoceros_rules::asks::failed_starts::NotStarted;
use monoceros_rules::specs::ask::TaskGroup;
use monoceros_rules::specs::rejection::Rejection;
use monoceros_rules::values::instant;
use monoceros_rules::values::resources::{Limits, Resources};

/// The content of an event's message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    Nothing,
    Says(&'static str),
    /// The text of an event of the cluster.
    Reports(Arc<str>),
    Rejected(Box<Rejection>),
    /// The number of places that are held for members of a task group, or were.
    Held(u64),
    /// An application that ran has ended.
    Summary(Box<Summary>),
    /// The ask does not fit the headroom of the queues on its path.
    OverQuota {
        queue: Arc<str>,
        available: Box<Limits>,
    },
    /// The ask fits the headroom of the queues on its path again.
    WithinQuota {
        queue: Arc<str>,
    },
    /// The ask does not fit the limits of its user and group.
    OverUserQuota {
        available: Box<Limits>,
    },
    /// The ask fits the limits of its user and group again.
    WithinUserQuota,
    /// The reasons of predicates that refused the ask, each with the number of nodes.
    Refused(BTreeMap<String, u32>),
    /// An allocation of a request could not be started.
    NotStarted(Box<NotStarted>),
    /// No member of a gang could be started.
    GangNotStarted(Box<NotStarted>),
    /// A task group has fewer members than it needs.
    LacksMembers(Box<Lacking>),
    /// A placeholder is too small for a member.
    TooSmall(Box<TooSmall>),
    /// No allocation may be evicted from this node, which a request requires.
    NodeNotCleared(Arc<str>),
    /// The grounds on which an allocation is preempted.
    Preempted(Preempted),
    /// Preemption of a queue above its maximum.
    GivesBack(Box<GivenBack>),
}

/// The preemption of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Preempted {
    pub(crate) grounds: Arc<Grounds>,
    /// Whether the gang of the allocation then has fewer members than it needs.
    pub(crate) leaves_short: bool,
}

impl fmt::Display for Preempted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.grounds.fmt(f)?;
        f.write_str(if self.leaves_short {
            "; its task group has fewer members now than it needs"
        } else {
            ""
        })
    }
}

/// Preemption of a queue above its maximum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GivenBack {
    /// The amount above the maximum, as far as guarantees allow to take it.
    pub(crate) planned: Resources,
    /// The amount of the victims.
    pub(crate) claimed: Resources,
    /// The number of allocations that could be victims.
    pub(crate) candidates: usize,
    /// The number of victims.
    pub(crate) victims: usize,
}

impl fmt::Display for GivenBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { planned, claimed, candidates, victims } = self;
        write!(
            f,
            "above its maximum: planned to take {planned}, claimed {claimed}, preempted {victims} \
             of {candidates} candidates"
        )
    }
}

/// A member of a gang that is larger than a placeholder of its group. The event is about the placeholder,
/// with the amount of the member.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TooSmall {
    pub(crate) application: Arc<str>,
    pub(crate) group: TaskGroup,
    /// The pod of the member, or its key.
    pub(crate) member: Arc<str>,
    /// The amount of the placeholder.
    pub(crate) placeholder: Resources,
}

/// The summary of an application that has ended, apart from its usage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Summary {
    /// The id of its RM.
    pub(crate) rm: Arc<str>,
    pub(crate) queue: Arc<str>,
    pub(crate) user: Arc<str>,
    pub(crate) state: ApplicationState,
    pub(crate) submitted_ns: i64,
    pub(crate) started_ns: i64,
    pub(crate) finished_ns: i64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rm, queue, user, state, .. } = self;
        let [submitted, started, finished] =
            [self.submitted_ns, self.started_ns, self.finished_ns].map(instant::rfc3339);
        write!(
            f,
            "state={state} submitted={submitted} started={started} finished={finished} rm={rm} \
             user={user} queue={queue}"
        )
    }
}
