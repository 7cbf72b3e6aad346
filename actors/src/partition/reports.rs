//! Reports of what nodes and allocations really use, on their way through the partitions of an RM.
//!
//! They go by the way of the RM's requests and keep their place among them, so that a report may
//! follow the node that it is about at once. No decision ever depends on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use monoceros_rules::values::resources::Resources;
use tokio::sync::oneshot;

/// Measurements of one time, shared by all partitions of an RM: each takes those of its own nodes
/// and allocations. When the last copy is gone, the sender is told how many were taken by a
/// partition and how many by none.
#[derive(Debug)]
pub(crate) struct Reports {
    pub(super) usages: Vec<(Arc<str>, Resources)>,
    /// ns since the epoch; `None`: now.
    pub(super) at_ns: Option<i64>,
    /// Of each usage, whether a partition knows what it is of.
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

    /// How much of a chunk they take.
    pub(super) fn items(&self) -> usize {
        self.usages.len().max(1)
    }

    /// A partition knows what the usage with this number is of.
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
