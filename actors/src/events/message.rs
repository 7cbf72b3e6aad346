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

/// The content of an event's message; its text is made when the event is read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    Nothing,
    Says(&'static str),
    Rejected(Box<Rejection>),
    /// The event is about so many places that are held for members of a task group, or were.
    Held(u64),
    /// An application that ran is over.
    Summary(Box<Summary>),
    /// The ask does not fit what the queues on its path have left.
    OverQuota {
        queue: Arc<str>,
        available: Box<Limits>,
    },
    /// The ask fits what the queues on its path have left, again.
    WithinQuota {
        queue: Arc<str>,
    },
    /// The ask does not fit what its user and group have left.
    OverUserQuota {
        available: Box<Limits>,
    },
    /// The ask fits what its user and group have left, again.
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
    /// Nothing leaves the node that a request requires.
    NodeNotCleared(Arc<str>),
    /// For whom an allocation is preempted, and by which rule.
    Preempted(Preempted),
    /// What a queue gives back that is above its maximum.
    GivesBack(Box<GivenBack>),
}

/// For whom an allocation is preempted, and what its gang is left with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Preempted {
    pub(crate) grounds: Arc<Grounds>,
    /// Its gang has fewer members than it needs.
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

/// What a queue gives back that is above its maximum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GivenBack {
    /// What is too much, as far as guarantees let it be taken.
    pub(crate) planned: Resources,
    /// What the victims hold.
    pub(crate) claimed: Resources,
    /// How many allocations could be chosen.
    pub(crate) candidates: usize,
    /// How many were.
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

/// A member and a placeholder of its group that it is larger than; the event is about the
/// placeholder, with the amount of the member.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TooSmall {
    pub(crate) application: Arc<str>,
    pub(crate) group: TaskGroup,
    /// The member's pod, or else its key.
    pub(crate) member: Arc<str>,
    /// What the placeholder has.
    pub(crate) placeholder: Resources,
}

/// What there is to say of an application that is over, beside what it used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Summary {
    /// The RM that it belonged to.
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
