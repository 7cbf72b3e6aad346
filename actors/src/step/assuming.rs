//! What the RM counts as running before it is told, and what it does not count any more:
//! [`ResourceManagerCallback::assumed`].
//!
//! # Invariants
//! * An entry of the allocation table is assumed from when it is booked until it is told or leaves the
//!   table; one whose predicate is still asked is not.
//! * Whoever takes an assumed entry out of the table, without having told it, says that it is forgotten.

use std::panic::{AssertUnwindSafe, catch_unwind};

use monoceros_rules::allocations::Allocation;
use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::values::ids::{AllocationId, ApplicationSlot, NodeSlot};

use super::Baton;
use crate::api::callback::{Assumed, ResourceManagerCallback};

/// What the RM is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// To count it as running on the node.
    Assumes,
    /// Not to count it any more.
    Forgets,
}

impl Baton {
    /// The placement is booked, or the place is held.
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

    /// The place is not held for now. It stays in the table.
    pub(crate) fn forget(&mut self, id: AllocationId) {
        if let Some(entry) = self.books.allocations.get(id) {
            self.forget_gone(entry);
        }
        if let Some(entry) = self.books.allocations.get_mut(id) {
            entry.is_assumed = false;
        }
    }

    /// It has left the table.
    pub(crate) fn forget_gone(&self, entry: &Allocation) {
        if entry.is_assumed {
            self.count_on(Counting::Forgets, (entry.application, &entry.spec), entry.node);
        }
    }

    /// Has the RM count something as running on a node, or not any more. The caller keeps count of
    /// what is in no table.
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
