//! What an RM, a deadline or the partition may want of an application, as a value: the partition
//! makes it of a request, the reorder buffer may keep it for a while, and the application that is
//! visited does it (`application/ops.rs`). It is here and not with the application because it is
//! part of what enters a partition, and must not know an actor.

use std::sync::Arc;

use monoceros_rules::allocations::Grounds;
use monoceros_rules::asks::preemption::NoPreemption;
use monoceros_rules::decide::preemption::Chosen;
use monoceros_rules::nodes::Exclusion;
use monoceros_rules::specs::ask::{AskSpec, TaskGroup};
use monoceros_rules::specs::hold_again::HoldAgain;
use monoceros_rules::specs::rejection::Rejection;
use monoceros_rules::values::ids::AllocationId;
use serde::{Deserialize, Serialize};

use crate::api::predicates::{Invalidation, QuestionId};
use crate::session::Notice;

/// One order to an application, from its RM, a deadline or the partition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Op {
    /// An ask, new or replacing what is outstanding of its key.
    Ask(Arc<AskSpec>),
    /// An ask in today's form: of a key that exists only the resources change.
    Unified(Arc<AskSpec>),
    /// An allocation that exists already on a node.
    Existing(Box<Existing>),
    /// An ask, or an allocation with its UUID, that is rejected whatever state the application is
    /// in. If it is allocated already, it stays as it is, without an answer.
    Refused { spec: Arc<AskSpec>, uuid: Option<Arc<str>>, reason: Box<Rejection> },
    /// An ask is withdrawn; no key: all of them.
    WithdrawAsks(Option<Arc<str>>),
    /// Allocations end. `had_waiting`: some that waited to be taken have ended with it, so that it
    /// is not in vain if there are no others. `reason`: the RM's, of a failed start.
    Release { which: Which, cause: Cause, reason: Option<Arc<str>>, had_waiting: bool },
    /// The rest of many allocations ends.
    EndMany(ManyEnd),
    /// The RM removes the application.
    Remove,
    /// The application has joined its queue: what it declared of its members is asked for.
    Declare,
    /// Another bundle is not in the air any more.
    WakeBundle,
    /// Places that a scheduler before this one held for its gang are to be held again.
    HoldAgain(Box<HoldAgain>),
    /// The search for such places has lasted as long as it may; `order` numbers the order that began it.
    HoldAgainOver { order: u32 },
    /// There are too few of such places: it looks for fewer.
    SettleForLess,
    /// Its bundle in the air is taken back.
    GroundBundle,
    /// More questions about members of its bundle may be asked.
    AskMembers,
    /// The first answer about a bundle that was void came at this time, long ago.
    BundleVoid { since_ns: i64 },
    /// The places held for members of this task group end: they are too small.
    EndHolds { group: TaskGroup },
    /// Members of a declared gang that nodes refused may be tried again; `retry` numbers the refusal.
    RetryBundle { retry: u32 },
    /// A node that only some asks may use appeared or grew.
    WakeNamed(Arc<str>),
    /// A placement that was never settled gave such a node back what it held.
    WakeNamedByReturn(Arc<str>),
    /// An ask that every node refused may be tried again; `retry` numbers the refusal.
    Retry { key: Arc<str>, retry: u32 },
    /// A choice of the placement constraint of an ask may open.
    ChoiceOpens(Arc<str>),
    /// The deadline of a failed start has come.
    StartTimeOver(StartTime),
    /// An ask may go to a node again that the RM said could never run it.
    ExclusionOver { key: Arc<str>, over: Exclusion },
    /// Asks that found no node are old enough to reserve one from this time on.
    OldEnough { at_ns: i64 },
    /// The reservation of the ask with this key was ended, `replaced` by that of one that comes before
    /// it or not.
    Unreserved { key: Arc<str>, replaced: bool },
    /// The reservation of the ask with this key is suspended.
    Suspended(Arc<str>),
    /// The reservation of the ask with this key may have waited for quota as long as it may.
    ReservationWaited(Arc<str>),
    /// The question whether an ask may reserve a node was answered, or will never be.
    Claimed { question: QuestionId, answer: ClaimAnswer },
    /// The back-off that was to end at this time is over.
    BackoffOver { until_ns: i64 },
    /// The application was Completing since then for as long as it may.
    CompletingOver { since_ns: i64 },
    /// These allocations of it were on a node that left.
    Stranded(Vec<AllocationId>),
    /// The application has run for as long as it may, until then.
    RunOver { until_ns: i64 },
    /// An allocation ran for as long as its ask allows.
    Overdue(AllocationId),
    /// The placeholders of the application have waited for as long as they may.
    PlaceholdersOver,
    /// Members that nodes refused may be tried again in place of placeholders.
    RetryPairs { retry: u32 },
    /// Placements that wait for their predicate are taken back, and places held for members end.
    GiveUp(Vec<AllocationId>),
    /// Earlier answers of predicates may be wrong by now.
    Invalidated(Arc<Invalidation>),
    /// Asks that waited until this time may look for victims of preemption; none: those that waited
    /// for a change.
    MayPreempt { at_ns: Option<i64> },
    /// These allocations are preempted.
    Preempted { ids: Vec<AllocationId>, grounds: Arc<Grounds>, chosen: Arc<Vec<Chosen>> },
    /// No victims were found for the ask with this key; without a key, for the gang.
    NotPreempted { key: Option<Arc<str>>, found: NoVictims },
    /// Others leave this node for the ask with this key.
    Nominated { key: Arc<str>, node: Arc<str> },
    /// The last of those has left who made room for the gang.
    RoomsAreFree,
    /// What was nominated to a preemptor for whom something of this application was to leave, or to this
    /// application, is nominated no more.
    NominationEnded,
}

/// A deadline that a failed start sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StartTime {
    /// The back-off of the ask with this key, or without a key that of the gang. It ends at this
    /// time, ns since the epoch.
    Backoff { key: Option<Arc<str>>, until_ns: i64 },
    /// An allocation of the ask with this key, of which so many starts had failed when it was made:
    /// if no other has failed since, it has started.
    Holds { key: Arc<str>, times: u32 },
}

/// A look for victims that found none.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NoVictims {
    pub(crate) why: NoPreemption,
    /// The nodes that have room had been tried in vain before.
    pub(crate) nodes_were_tried: bool,
    /// How many changes there had been when it was looked ([`Books::changes`]): there may be some
    /// after another.
    ///
    /// [`Books::changes`]: monoceros_rules::books::Books::changes
    pub(crate) changes: u64,
    /// There may be some when the first bound ends that keeps something from being taken, ns since
    /// the epoch.
    pub(crate) bound_ends_ns: Option<i64>,
}

/// Allocations that end together, be it in several steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ManyEnd {
    pub(crate) ids: Vec<AllocationId>,
    pub(crate) cause: Cause,
    /// The RM's, of a failed start.
    pub(crate) reason: Option<Arc<str>>,
    /// They are all that the application has.
    pub(crate) are_all: bool,
}

/// An allocation that the RM says exists.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Existing {
    pub(crate) spec: Arc<AskSpec>,
    /// The name that the RM gave it, or the key where it gave none.
    pub(crate) uuid: Arc<str>,
    pub(crate) node: Arc<str>,
}

/// What became of the question whether an ask may reserve a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ClaimAnswer {
    /// It may.
    Passed,
    /// It may not, or nobody said that it may and that counts as a refusal.
    Refused,
    /// There is no answer: it is asked again.
    None,
    /// The answer is not wanted any more.
    Cancelled,
}

/// Which allocations a release names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Which {
    Uuid(Arc<str>),
    Key(Arc<str>),
    All,
}

/// Why an RM sends a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cause {
    /// It wants the allocation to end: it gets an answer.
    Stopped,
    /// The same, because what ran has failed.
    Failed,
    /// It confirms that it was preempted, as the scheduler asked for: no answer.
    ConfirmedPreemption,
    /// It confirms that it was replaced: no answer.
    ConfirmedReplacement,
    /// It confirms a timeout: no answer, and pending asks stay.
    ConfirmedTimeout,
    /// It could not bind the allocation: the ask is pending again.
    SchedulingFailed,
    /// It can never bind the allocation on that node: the ask is pending again, and does not go
    /// back there for a while.
    RefusedForGood,
}

impl Op {
    /// The specification of what is asked for; `None` of an op that asks for nothing.
    pub(crate) fn spec(&self) -> Option<&AskSpec> {
        match self {
            Self::Ask(spec) | Self::Unified(spec) => Some(spec),
            Self::Existing(existing) => Some(&existing.spec),
            _ => None,
        }
    }

    /// The notice that what is asked for is rejected; `None` of an op that asks for nothing.
    pub(crate) fn rejected(
        &self,
        application: &Arc<str>,
        reason: impl FnOnce(&AskSpec) -> Rejection,
    ) -> Option<Notice> {
        self.spec().map(|spec| Notice::AskRejected {
            form: spec.form,
            key: Arc::clone(&spec.key),
            application: Arc::clone(application),
            reason: Box::new(reason(spec)),
        })
    }
}
