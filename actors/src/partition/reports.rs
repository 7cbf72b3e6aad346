//! Reports of the measured use of nodes and allocations, handed to all partitions of an RM.
//!
//! Reports are handed in like the RM's requests, in one order with them, so that a report may
//! directly follow its node. No decision ever depends on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use monoceros_rules::values::resources::Resources;
use tokio::sync::oneshot;

/// Measurements of one time, shared by all partitions of an RM: each takes those of its own nodes
/// and allocations. When the last copy is dropped, the sender gets two numbers: the usages that a
/// partition knew, and those that none knew.
#[derive(Debug)]
pub(crate) struct Reports {
    pub(super) usages: Vec<(Arc<str>, Resources)>,
    /// ns since the epoch; `None`: now.
    pub(super) at_ns: Option<i64>,
    /// Whether a partition knows the node or allocation, for each usage.
    known: Vec<AtomicBool>,
    reply: Option<oneshot::Sender<(u64, u64)>>,
}

impl Reports {
    pub(crate) fn new(
        usages: Vec<(Arc<str>, Resources)>,
        at_ns: Option<i64>,
        reply: oneshot::Sender<(u64, u64)>,
    ) -> Self {
        let known = usages.iter().map(|_| AtomicBool::new(false)).collect();
        Self { usages, at_ns, known, reply: Some(reply) }
    }

    /// Returns the number of items that the reports count as in a chunk.
    pub(super) fn items(&self) -> usize {
        self.usages.len().max(1)
    }

    /// Notes that a partition knows the node or allocation of the usage with this number.
    pub(super) fn is_known(&self, number: usize) {
        self.known[number].store(true, Ordering::Relaxed);
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        let Some(reply) = self.reply.take() else { return };
        let known = self.known.iter().filter(|known| known.load(Ordering::Relaxed)).count();
        // The sender may have given up.
        let _ = reply.send((known as u64, (self.known.len() - known) as u64));
    }
}
