//! Assumed placements: placements that the RM counts as running before it is notified of them
//! ([`ResourceManagerCallback::assumed`]), and the end of that.
//!
//! # Invariants
//! * An entry of the allocation table is assumed from the moment it is booked until the RM is
//!   notified of it or it leaves the table. An entry whose predicate is still being asked is not
//!   assumed.
//! * Code that takes an assumed entry out of the table without a notice calls *forgotten* for it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use monoceros_rules::allocations::Allocation;
use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::values::ids::{AllocationId, ApplicationSlot, NodeSlot};

use super::Baton;
use crate::api::callback::{Assumed, ResourceManagerCallback};

/// The change that the RM makes to its counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// The RM counts the entry as running on the node.
    Assumes,
    /// The RM does not count it any more.
    Forgets,
}

impl Baton {
    /// Has the RM count a placement that was booked, or a hold.
    pub(crate) fn assume(&mut self, id: AllocationId) {
        let Some(entry) = self.books.allocations.get_mut(id) else {
            debug_assert!(false, "an allocation is assumed once it is in the table");
            return;
        };
        debug_assert!(!entry.is_assumed, "it is assumed once");
        entry.is_assumed = true;
        if let Some(entry) = self.books.allocations.get(id) {
            self.count_on(Counting::Assumes, (entry.application, &entry.spec), entry.node);
        }
    }

    /// Has the RM stop counting a hold for now. The hold stays in the table.
    pub(crate) fn forget(&mut self, id: AllocationId) {
        if let Some(entry) = self.books.allocations.get(id) {
            self.forget_gone(entry);
        }
        if let Some(entry) = self.books.allocations.get_mut(id) {
            entry.is_assumed = false;
        }
    }

    /// Has the RM stop counting an entry that has left the table.
    pub(crate) fn forget_gone(&self, entry: &Allocation) {
        if entry.is_assumed {
            self.count_on(Counting::Forgets, (entry.application, &entry.spec), entry.node);
        }
    }

    /// Has the RM count an ask, or a hold for a member, as running on a node, or stop counting it.
    /// If it is not in the allocation table, the caller keeps track of whether it is counted.
    pub(crate) fn count_on(
        &self,
        counting: Counting,
        (application, spec): (ApplicationSlot, &AskSpec),
        node: NodeSlot,
    ) {
        let what = Assumed {
            application_id: self.directory.application(application).map_or("", |entry| &*entry.id),
            allocation_key: &spec.key,
            task_group_name: spec.holds_for().unwrap_or_default(),
            node_id: self.books.nodes.id(node),
        };
        let tell: fn(&dyn ResourceManagerCallback, &Assumed<'_>) = match counting {
            Counting::Assumes => |callback, what| callback.assumed(what),
            Counting::Forgets => |callback, what| callback.forgotten(what),
        };
        if catch_unwind(AssertUnwindSafe(|| tell(&*self.services.callback, &what))).is_err() {
            tracing::error!(?what, ?counting, "the callback panicked, and nothing changes");
        }
    }
}
