//! Alarms: what a step wants to come back to later, as plain data.
//!
//! A step collects alarms on its baton. The partition sets their deadlines when the step is
//! complete, and each is an input of its own when its time has come.

use std::sync::Arc;
use std::time::Duration;

use monoceros_rules::values::ids::{AllocationId, ApplicationSlot};
use serde::{Deserialize, Serialize};

use super::op::Op;

/// How long a gang waits for its placeholders unless it says otherwise.
pub(crate) const PLACEHOLDER_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Something to come back to later.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Alarm {
    /// An order to an application, which is dropped if another one has its slot by then. Each such order
    /// names the state that it ends, so that one that comes too late changes nothing.
    Order { application: ApplicationSlot, id: Arc<str>, op: Box<Op> },
    /// An allocation has run for as long as its ask allowed.
    ExecutionTimeout { allocation: AllocationId },
    /// Some reservation may have waited for quota as long as it may.
    ReservationsWaited,
    /// Some nomination may have waited for as long as it may.
    NominationsWaited,
    /// Some queue may have been above its maximum for as long as it may, ns since the epoch.
    QuotaScan { at_ns: i64 },
    /// The RM is due a scale-up signal.
    ScaleUp,
    /// A dynamic queue may have been empty for its time.
    CleanQueues,
    /// Applications that are over may have been kept for their time.
    Retention,
    /// Items of the reorder buffer may have waited for as long as they may.
    ReorderWindow,
}

/// What an item may wait for that came before it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WaitsFor {
    Application(Arc<str>),
    Node(Arc<str>),
}
