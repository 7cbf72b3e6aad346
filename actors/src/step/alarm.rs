//! Alarms: reminders that a step sets, as plain data.
//!
//! A step collects alarms on its baton. The partition sets their deadlines when the step is
//! complete, and each is an input of its own when it goes off.

use std::sync::Arc;

use monoceros_rules::values::ids::{AllocationId, ApplicationSlot};
use serde::{Deserialize, Serialize};

use super::op::Op;

/// A reminder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Alarm {
    /// An order to an application. It is dropped if the slot belongs to another application when
    /// the alarm goes off. The order names the state that it ends, so an order that is too late
    /// changes nothing.
    Order { application: ApplicationSlot, id: Arc<str>, op: Box<Op> },
    /// An allocation has run for as long as its ask allowed.
    ExecutionTimeout { allocation: AllocationId },
    /// A reservation may have reached the longest wait for quota.
    ReservationsWaited,
    /// A nomination may have reached its longest wait.
    NominationsWaited,
    /// A queue may have been above its maximum for the longest time allowed. `at_ns` is the time of
    /// this check, ns since the epoch.
    QuotaScan { at_ns: i64 },
    /// The RM is due a scale-up signal.
    ScaleUp,
    /// A dynamic queue may have been empty for long enough to be removed.
    CleanQueues,
    /// Terminated applications may have reached the end of their retention.
    Retention,
    /// Items of the reorder buffer may have reached their longest wait.
    ReorderWindow,
}

/// The application or node that an item waits for in the reorder buffer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum WaitsFor {
    Application(Arc<str>),
    Node(Arc<str>),
}
