//! Rows of allocations, and reading them in parts.

use std::sync::Arc;

use monoceros_rules::allocations::Allocation;
use monoceros_rules::values::ids::AllocationId;

use crate::step::Baton;

/// An allocation, with the names of its node and its application.
#[derive(Clone, Debug)]
pub(crate) struct AllocationRow {
    pub(crate) allocation: Allocation,
    pub(crate) node: Arc<str>,
    pub(crate) application: Arc<str>,
}

impl AllocationRow {
    fn of(allocation: &Allocation, baton: &Baton) -> Self {
        Self {
            node: Arc::clone(baton.books.nodes.id(allocation.node)),
            application: baton.directory.application_id(allocation.application),
            allocation: allocation.clone(),
        }
    }
}

/// Progress in a list of allocations: those that existed when reading it began.
#[derive(Clone, Debug)]
pub(crate) struct AllocationsProgress {
    ids: Arc<[AllocationId]>,
    pub(super) taken: usize,
}

impl AllocationsProgress {
    pub(super) fn begin(ids: impl Iterator<Item = AllocationId>) -> Self {
        Self { ids: ids.collect(), taken: 0 }
    }

    /// Reads at most `most` of the next allocations. Leaves out allocations that have ended, or for
    /// which `is_it` does not hold any more.
    pub(super) fn take<'b>(
        &mut self,
        most: usize,
        is_it: impl Fn(&Allocation) -> bool + 'b,
        baton: &'b Baton,
    ) -> Vec<AllocationRow> {
        let from = self.taken;
        self.taken = self.ids.len().min(from + most);
        let ids = self.ids[from..self.taken].iter();
        let entries = ids.filter_map(|id| baton.books.allocations.get(*id));
        entries.filter(|entry| is_it(entry)).map(|entry| AllocationRow::of(entry, baton)).collect()
    }

    pub(super) fn is_done(&self) -> bool {
        self.taken == self.ids.len()
    }
}
