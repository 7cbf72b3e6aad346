//! Rows of queues.

use std::sync::Arc;

use monoceros_rules::decide::quota_timer::QuotaTimer;
use monoceros_rules::order::ledger::QueueLedger;
use monoceros_rules::order::used_names::UsedNames;
use monoceros_rules::values::resources::Limits;

use crate::queue::QueueFacts;
use crate::step::QueueCounts;

/// A queue, without the queues below it.
pub(crate) struct QueueRow {
    pub(crate) facts: Arc<QueueFacts>,
    /// The headroom below its own maximum, without ancestors; of root, the capacity left on nodes.
    pub(crate) headroom: Limits,
    pub(crate) ledger: QueueLedger,
    pub(crate) used_names: UsedNames,
    pub(crate) priority: i32,
    pub(crate) quota_timer: QuotaTimer,
    pub(crate) counts: QueueCounts,
    /// The accepted applications of this leaf that count as running.
    pub(crate) allocating: Vec<Arc<str>>,
}

impl QueueRow {
    pub(crate) fn path(&self) -> &Arc<str> {
        &self.facts.config.path
    }
}
