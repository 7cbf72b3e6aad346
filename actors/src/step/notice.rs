//! What a step tells the RM, and what it wants to be reminded of later.
//!
//! A step cannot send anything while it is under way: were its baton lost, the RM would have been
//! told of something that is not in force. So both are collected on the baton and leave when it is
//! home.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use actix::Message;
use monoceros_rules::allocations::Allocation;
use monoceros_rules::allocations::journey::Course;
use monoceros_rules::applications::application_state::ApplicationState;
use monoceros_rules::audit::Decision;
use monoceros_rules::nodes::Exclusion;
use monoceros_rules::specs::ask::{AskSpec, Form, TaskGroup};
use monoceros_rules::specs::rejection::{Ignored, Rejection};
use monoceros_rules::values::ids::{AllocationId, ApplicationSlot};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::api::predicates::{PredicateQuestion, PreemptionQuestions, QuestionId};
use crate::events::Happening;
use crate::mailbox::Destination;
use crate::step::{Existing, StartTime};

/// Something that a partition tells its RM. Small, since lists of them are moved: what few of them have is boxed.
#[derive(Debug)]
pub(crate) enum Notice {
    /// The leaf that an application is in: told before its acceptance, and with `None` once it has
    /// left.
    ApplicationPlaced {
        id: Arc<str>,
        queue: Option<Arc<str>>,
    },
    ApplicationAccepted(Arc<str>),
    ApplicationRejected {
        id: Arc<str>,
        reason: Box<Rejection>,
    },
    ApplicationUpdated(Arc<Entered>),
    Allocated(Arc<Allocated>),
    Released(Box<Released>),
    /// A pending ask ends without its RM having withdrawn it: its time is over, or it goes with its
    /// application.
    AskReleased(Box<AskReleased>),
    AskRejected {
        form: Form,
        key: Arc<str>,
        application: Arc<str>,
        reason: Box<Rejection>,
    },
    NodeAccepted(Arc<str>),
    NodeRejected {
        id: Arc<str>,
        reason: Box<Rejection>,
    },
    /// More machines would help these requests.
    WantsMachines(Box<WantsMachines>),
    /// Something happened, of which there are events. Those of a placement or of a state that is
    /// entered are derived from the other notices and are not among these.
    Happened(Happening),
    /// Something had no effect and has no answer: it is counted.
    Ignored(Ignored),
    /// A question to the RM's predicate.
    Asked(Box<PredicateQuestion>),
    /// Questions to the RM's predicate about nodes that others would leave.
    AskedPreemption(Box<PreemptionQuestions>),
    /// The answer to this question is not wanted any more.
    Withdrawn(QuestionId),
    /// All members of a declared gang have their places; those that are held, by task group, each
    /// with its node. Only where a full search is compared with what is decided, and told to nobody.
    GangPlaced {
        application: Arc<str>,
        held: Vec<(TaskGroup, Arc<str>)>,
    },
    /// A member of a declared gang has taken the place that was held for it; told as
    /// [`Self::GangPlaced`] is.
    HoldTaken(Box<Decision>),
    /// The barrier has come through: everything before it was decided and said.
    Barrier(Arc<Barrier>),
}

/// Once the last copy is gone, the session answers: after everything that it was told until then,
/// the loss of the partition that held the copy included.
#[derive(Debug)]
pub(crate) struct Barrier {
    reply: Option<Reply>,
    session: Destination<BarrierPassed>,
}

/// Answers when it is dropped, by a session that handled it or with one that has ended.
#[derive(Debug)]
struct Reply(Option<oneshot::Sender<()>>);

/// The last copy of a barrier is gone.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct BarrierPassed {
    _reply: Reply,
}

impl Barrier {
    pub(crate) fn new(reply: oneshot::Sender<()>, session: Destination<BarrierPassed>) -> Self {
        Self { reply: Some(Reply(Some(reply))), session }
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            self.session.post(BarrierPassed { _reply: reply });
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(reply) = self.0.take() {
            let _ = reply.send(());
        }
    }
}

/// Whose an ask or an allocation is: its application, with queue, user and group.
///
/// # Why
/// Each ask and each decision is told to another thread. Four names are four counts of who has them,
/// which both threads change, so that they go to and fro between processors; an owner has one.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) application: Arc<str>,
    /// Path of the application's leaf.
    pub(crate) queue: Arc<str>,
    pub(crate) user: Arc<str>,
    /// The group that the application counts for, if it does for one.
    pub(crate) group: Option<Arc<str>>,
}

/// An application is in this state from now on.
#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) application: Arc<str>,
    /// Path of its leaf.
    pub(crate) queue: Arc<str>,
    pub(crate) state: ApplicationState,
    /// ns since the epoch.
    pub(crate) at_ns: i64,
    /// Why, as its RM is told.
    pub(crate) message: &'static str,
}

/// An allocation that exists from now on.
#[derive(Debug)]
pub(crate) struct Allocated {
    pub(crate) owner: Arc<Owner>,
    /// What was asked for; the allocation has the amount in it.
    pub(crate) spec: Arc<AskSpec>,
    pub(crate) uuid: Arc<str>,
    pub(crate) node: Arc<str>,
    /// ns since the epoch.
    pub(crate) at_ns: i64,
    /// The way that it came, if it is followed.
    pub(crate) course: Option<Box<(AllocationId, Course)>>,
}

/// What ended an allocation or ask, as the RM is told: it decides the termination type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    StoppedByRm,
    Timeout,
    Replaced,
    Preempted,
}

/// What an RM is told of an allocation that it released.
pub(crate) const RELEASED_BY_RM: &str = "released by the resource manager";

#[derive(Debug)]
pub(crate) struct Released {
    pub(crate) application: Arc<str>,
    /// In which form it came in.
    pub(crate) form: Form,
    pub(crate) key: Arc<str>,
    pub(crate) uuid: Arc<str>,
    pub(crate) ending: Ending,
    pub(crate) message: Cow<'static, str>,
    /// What takes its place.
    pub(crate) replaced_by: Option<Successor>,
}

/// What takes the place of a placeholder.
#[derive(Debug)]
pub(crate) struct Successor {
    /// The key of the ask.
    pub(crate) key: Arc<str>,
    /// The id of the node where it is to run.
    pub(crate) node: Arc<str>,
}

/// Requests of an application that more machines would help: one notice for some of them, since there
/// may be as many as asks wait.
#[derive(Debug)]
pub(crate) struct WantsMachines {
    pub(crate) application: Arc<str>,
    pub(crate) requests: Vec<WantsOne>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct WantsOne {
    pub(crate) spec: Arc<AskSpec>,
    /// There was room, which predicates refused.
    pub(crate) by_predicates: bool,
}

/// A pending ask that ends.
#[derive(Debug)]
pub(crate) struct AskReleased {
    pub(crate) form: Form,
    pub(crate) key: Arc<str>,
    pub(crate) application: Arc<str>,
    pub(crate) ending: Ending,
    pub(crate) message: &'static str,
}

impl Released {
    /// That an allocation of an application ends.
    pub(crate) fn of(
        application: &Arc<str>,
        entry: &Allocation,
        ending: Ending,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            application: Arc::clone(application),
            form: entry.spec.form,
            key: Arc::clone(entry.key()),
            uuid: Arc::clone(&entry.uuid),
            ending,
            message: message.into(),
            replaced_by: None,
        }
    }

    /// That an allocation which the RM reported ends before it could be taken.
    pub(crate) fn of_waiting(application: &Arc<str>, existing: &Existing) -> Self {
        Self {
            application: Arc::clone(application),
            form: existing.spec.form,
            key: Arc::clone(&existing.spec.key),
            uuid: Arc::clone(&existing.uuid),
            ending: Ending::StoppedByRm,
            message: RELEASED_BY_RM.into(),
            replaced_by: None,
        }
    }
}

/// The shortest back-off: a shorter one would have the partition look at nothing else.
pub(crate) const BACKOFF_LEAST: Duration = Duration::from_millis(100);

/// How long a gang waits for its placeholders unless it says otherwise.
pub(crate) const PLACEHOLDER_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Something to come back to later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Alarm {
    /// An application has been Completing for its time; `since_ns` is its entry into that state.
    Completing { application: ApplicationSlot, id: Arc<str>, since_ns: i64 },
    /// An ask that every node refused may be tried again.
    PredicateRetry { application: ApplicationSlot, id: Arc<str>, key: Arc<str>, retry: u32 },
    /// A choice of the placement constraint of an ask may open.
    ChoiceOpens { application: ApplicationSlot, id: Arc<str>, key: Arc<str> },
    /// An ask may go again to a node that the RM said could never run it.
    ExclusionOver { application: ApplicationSlot, id: Arc<str>, key: Arc<str>, over: Exclusion },
    /// An application has backed off until then, ns since the epoch.
    Backoff { application: ApplicationSlot, id: Arc<str>, until_ns: i64 },
    /// The deadline of a failed start has come.
    Start { application: ApplicationSlot, id: Arc<str>, over: StartTime },
    /// An ask that found no node is old enough to reserve one from then on, ns since the epoch.
    OldEnough { application: ApplicationSlot, id: Arc<str>, at_ns: i64 },
    /// Some reservation may have waited for quota as long as it may.
    ReservationsWaited,
    /// It is time to tell the RM what more machines would help.
    ScaleUp,
    /// A dynamic queue may have been empty for its time.
    CleanQueues,
    /// Applications that are over may have been kept for their time.
    Retention,
    /// Items have waited for what they name for as long as they may.
    ReorderWindow,
    /// An allocation has run for as long as its ask allowed.
    ExecutionTimeout { allocation: AllocationId },
    /// An ask may look for victims of preemption from then on, ns since the epoch.
    MayPreempt { application: ApplicationSlot, id: Arc<str>, at_ns: i64 },
    /// Some may have waited too long for what they were promised.
    PromisesWaited,
    /// Some queue may have been above its maximum for as long as it may, ns since the epoch.
    QuotaScan { at_ns: i64 },
    /// An application has run for as long as it may, until then, ns since the epoch.
    RunOver { application: ApplicationSlot, id: Arc<str>, until_ns: i64 },
    /// The placeholders of an application have waited for as long as they may.
    PlaceholderTimeout { application: ApplicationSlot, id: Arc<str> },
    /// Members that nodes refused may be tried again in place of placeholders; `retry` numbers the
    /// refusal.
    PairRetry { application: ApplicationSlot, id: Arc<str>, retry: u32 },
    /// Answers about a bundle in the air are void since then.
    BundleVoid { application: ApplicationSlot, id: Arc<str>, since_ns: i64 },
    /// Places that a gang had before this scheduler began were looked for as long as they may be.
    HoldAgainOver { application: ApplicationSlot, id: Arc<str>, order: u32 },
    /// A declared gang of which a member was refused by every node may be tried again.
    BundleRetry { application: ApplicationSlot, id: Arc<str>, retry: u32 },
}

/// What an item may wait for that came before it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WaitsFor {
    Application(Arc<str>),
    Node(Arc<str>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_small_for_lists_of_them_are_moved() {
        assert!(size_of::<Notice>() <= 48, "{} bytes", size_of::<Notice>());
    }
}
