//! Alarms: what a step wants to come back to later, as plain data.
//!
//! A step collects alarms on its baton. The partition sets their deadlines when the step is
//! complete, and each is an input of its own when its time has come.

use std::sync::Arc;
use std::time::Duration;

use monoceros_rules::nodes::Exclusion;
use monoceros_rules::work::allocations::{AllocationId, ApplicationSlot};
use serde::{Deserialize, Serialize};

use super::op::StartTime;

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
