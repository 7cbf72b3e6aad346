//! Orders to an application, from an RM, a deadline or the partition, as values: the partition
//! builds one from a request, the reorder buffer may keep it for a while, and the application that
//! is visited carries it out (`application/ops.rs`). They are here and not with the application
//! because they are part of a partition's inputs, and must not know an actor.

use std::sync::Arc;

use monoceros_rules::allocations::Grounds;
use monoceros_rules::asks::Ask;
use monoceros_rules::asks::preemption::NoPreemption;
use monoceros_rules::decide::preemption::Chosen;
use monoceros_rules::nodes::Exclusion;
use monoceros_rules::specs::ask::{AskSpec, TaskGroup};
use monoceros_rules::specs::hold_again::HoldAgain;
use monoceros_rules::specs::rejection::Rejection;
use monoceros_rules::specs::release::{Cause, Which};
use monoceros_rules::values::ids::AllocationId;
use serde::{Deserialize, Serialize};

use crate::api::predicates::{Invalidation, QuestionId};
use crate::session::Notice;

/// An order to an application, from its RM, a deadline or the partition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Op {
    /// An ask, new or replacing the outstanding one of its key.
    Ask(Arc<AskSpec>),
    /// An ask in the unified form, as an `Allocation`: if its key exists, only its resources,
    /// priority, preemption policy and tags change.
    Unified(Arc<AskSpec>),
    /// An allocation that exists already on a node.
    Existing(Box<Existing>),
    /// An ask, or an allocation with its UUID, that is rejected whatever state the application is
    /// in. If it is allocated already, it stays as it is, without an answer.
    Refused { spec: Arc<AskSpec>, uuid: Option<Arc<str>>, reason: Box<Rejection> },
    /// An ask is withdrawn; without a key, all of them.
    WithdrawAsks(Option<Arc<str>>),
    /// Allocations end. `had_waiting`: the order has already ended allocations that waited in the
    /// reorder buffer, so it had a result even if there are no others. `reason`: the RM's reason
    /// for a failed start.
    Release { which: Which, cause: Cause, reason: Option<Arc<str>>, had_waiting: bool },
    /// The rest of a large number of allocations ends.
    EndMany(ManyEnd),
    /// The RM removes the application.
    Remove,
    /// These allocations of the application were on a node that was removed.
    Stranded(Vec<AllocationId>),
    /// Of these, placements that wait for their predicate are withdrawn, and holds end.
    GiveUp(Vec<AllocationId>),
    /// Earlier answers of predicates may be wrong by now.
    Invalidated(Arc<Invalidation>),
    /// An order to an application with a gang.
    Gang(GangOp),
    /// An order about preemption: of this application, or for it.
    Preemption(PreemptionOp),
    /// A change of a reservation, or of a node that only some asks may use.
    Reservation(ReservationOp),
    /// An order that an alarm brings after some time.
    Due(DueOp),
}

/// An order to an application with a gang.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum GangOp {
    /// The application has joined its queue, and asks for places for its declared members.
    Declare,
    /// No bundle of another application is in flight any more.
    WakeBundle,
    /// Places that an earlier scheduler held for its gang are to be held again.
    HoldAgain(Box<HoldAgain>),
    /// The search for such places has reached its longest time. `order` is the number of the order
    /// that began it.
    HoldAgainOver { order: u32 },
    /// Too few of such places were found: the application searches for fewer.
    SettleForLess,
    /// Its bundle in flight is withdrawn.
    WithdrawBundle,
    /// More questions about members of its bundle may be asked.
    AskMembers,
    /// The longest time has passed since the first void answer about a bundle, at `since_ns`.
    BundleVoid { since_ns: i64 },
    /// The places held for members of this task group end: they are too small.
    EndHolds { group: TaskGroup },
    /// Members of a declared gang that nodes refused may be tried again; `retry` is the number of
    /// the refusal.
    RetryBundle { retry: u32 },
    /// The placeholders of the application have waited for as long as they may.
    PlaceholdersOver,
    /// Members that nodes refused may be tried again in place of placeholders.
    RetryPairs { retry: u32 },
    /// All victims of the gang's preemption are confirmed gone.
    RoomsAreFree,
}

/// An order about preemption: of this application, or for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum PreemptionOp {
    /// Victims may be searched for asks that waited until this time; without a time, for asks that
    /// waited for a change.
    MayPreempt { at_ns: Option<i64> },
    /// These allocations are preempted.
    Preempted { ids: Vec<AllocationId>, grounds: Arc<Grounds>, chosen: Arc<Vec<Chosen>> },
    /// No victims were found for the ask with this key; without a key, for the gang.
    NotPreempted { key: Option<Arc<str>>, found: NoVictims },
    /// The ask with this key has a nomination of this node, from which victims are evicted.
    Nominated { key: Arc<str>, node: Arc<str> },
    /// A nomination has ended that concerns this application: its own, or one of a preemptor for
    /// which allocations of this application were to be evicted.
    NominationEnded,
}

/// A change of a reservation, or of a node that only some asks may use.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ReservationOp {
    /// A node that an ask of the application requires, or has reserved, was added or changed.
    WakeNamed(Arc<str>),
    /// A placement that was never settled returned its capacity to such a node.
    WakeNamedByReturn(Arc<str>),
    /// The reservation of the ask with this key was ended; `replaced`: by the reservation of an ask
    /// that comes before it.
    Unreserved { key: Arc<str>, replaced: bool },
    /// The reservation of the ask with this key is suspended.
    Suspended(Arc<str>),
    /// The reservation of the ask with this key may have reached its longest wait for quota.
    ReservationWaited(Arc<str>),
    /// The question whether an ask may reserve a node was answered, or will never be.
    Claimed { question: QuestionId, answer: ClaimAnswer },
}

/// An order that an alarm brings after some time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum DueOp {
    /// An ask that every node refused may be tried again; `retry` is the number of the refusal.
    Retry { key: Arc<str>, retry: u32 },
    /// A choice of the placement constraint of an ask may become available.
    ChoiceOpens(Arc<str>),
    /// A deadline that a failed start has set is over.
    StartTimeOver(StartTime),
    /// An ask may be placed again on a node that was excluded for it, because the RM had reported
    /// that it could never run there.
    ExclusionOver { key: Arc<str>, over: Exclusion },
    /// Asks that found no node are old enough from this time on to reserve one.
    OldEnough { at_ns: i64 },
    /// The back-off that was to end at this time is over.
    BackoffOver { until_ns: i64 },
    /// The application has been Completing since this time, for as long as it may.
    CompletingOver { since_ns: i64 },
    /// The application has run until this time, for as long as it may.
    RunOver { until_ns: i64 },
    /// An allocation ran for as long as its ask allows.
    Overdue(AllocationId),
}

/// A deadline that a failed start sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StartTime {
    /// The end of the back-off of the ask with this key, or of the gang if there is no key, at
    /// `until_ns` (ns since the epoch).
    Backoff { key: Option<Arc<str>>, until_ns: i64 },
    /// An allocation of the ask with this key, made after `times` failed starts, has run for a
    /// while. If no further start has failed since it was made, it counts as started.
    Holds { key: Arc<str>, times: u32 },
}

impl StartTime {
    /// Returns the deadline of a new allocation of an ask with failed starts: if no start fails
    /// before it, the allocation has started. `None` if no start of the ask has failed.
    pub(crate) fn of(ask: &Ask) -> Option<Self> {
        let starts = ask.starts()?;
        Some(Self::Holds { key: Arc::clone(&ask.key), times: starts.times() })
    }
}

/// A search for victims that found none.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NoVictims {
    pub(crate) why: NoPreemption,
    /// The nodes with enough capacity had been tried without result before.
    pub(crate) nodes_were_tried: bool,
    /// The count of changes at the time of the search ([`Books::changes`]): there may be victims
    /// after a further change.
    ///
    /// [`Books::changes`]: monoceros_rules::books::Books::changes
    pub(crate) changes: u64,
    /// Time at which the first bound ends that protects an allocation from eviction, ns since the
    /// epoch. Victims may be found then. `None`: no bound will end.
    pub(crate) bound_ends_ns: Option<i64>,
}

/// Allocations that end together, perhaps in several steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ManyEnd {
    pub(crate) ids: Vec<AllocationId>,
    pub(crate) cause: Cause,
    /// The RM's reason for a failed start.
    pub(crate) reason: Option<Arc<str>>,
    /// Whether `ids` are all allocations of the application.
    pub(crate) are_all: bool,
}

/// An existing allocation that the RM reports.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Existing {
    pub(crate) spec: Arc<AskSpec>,
    /// The UUID that the RM gave it, or its key if the RM gave none.
    pub(crate) uuid: Arc<str>,
    pub(crate) node: Arc<str>,
}

/// The outcome of the question whether an ask may reserve a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ClaimAnswer {
    /// The ask may reserve the node.
    Passed,
    /// The ask may not reserve it, or no answer came and that counts as a refusal.
    Refused,
    /// The RM gave no answer: the question is asked again.
    None,
    /// The answer is not needed any more.
    Cancelled,
}

impl Op {
    /// Whether the op reports an allocation that concerns its application, its queues and its node
    /// only. A placement constraint or a task group would concern other nodes as well.
    pub(crate) fn is_plain_report(&self) -> bool {
        let Self::Existing(existing) = self else { return false };
        let spec = &existing.spec;
        !spec.placeholder && spec.constraint.is_none() && spec.task_group.is_none()
    }

    /// Returns the specification of the ask or allocation that this op brings; `None` if it brings
    /// neither.
    pub(crate) fn spec(&self) -> Option<&AskSpec> {
        match self {
            Self::Ask(spec) | Self::Unified(spec) => Some(spec),
            Self::Existing(existing) => Some(&existing.spec),
            _ => None,
        }
    }

    /// Returns the notice that the ask or allocation of this op is rejected; `None` if it has
    /// neither.
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
