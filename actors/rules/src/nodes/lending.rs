//! Lending: an ask of a higher priority may use the capacity of a node that another ask has
//! reserved.
//!
//! # Why a tree of its own
//! Most searches end among the nodes that are open to all. An ask that finds nothing there, and may
//! borrow, searches this tree (`lent.rs`), in the same order of nodes. It has few nodes, since the
//! capacity set aside is bounded. Which ask may borrow from which is a separate rule
//! ([`crate::decide::lending`]). The index knows the priority of the ask that reserved a node, so
//! that asks that cannot borrow are not woken.
//!
//! # Invariants
//! * The tree has exactly the open nodes that are set aside as
//!   [`SetAside::Bounded`](super::set_aside::SetAside).
//! * A growth or a return of such a node is listed like that of a node open to all.
//! * [`NodeIndex::may_lend_since`] never returns `false` if a node that grew since has capacity for
//!   `least`, and was reserved by an ask of a lower effective priority.

use super::index::NodeIndex;
use super::node::IndexedNode;
use super::request::NodeRequest;
use super::room::Room;
use super::set_aside::SetAside;
use crate::values::epoch::Growth;
use crate::values::ids::NodeSlot;
use crate::values::resources::Resources;

impl NodeIndex {
    /// Sets whether any ask may come before any other, whatever their own priorities.
    pub fn rank_otherwise(&mut self, ranks_otherwise: bool) {
        self.lent.ranks_otherwise = ranks_otherwise;
    }

    /// Counts a growth of each node whose capacity may be lent, because other asks than before may
    /// borrow it.
    pub fn lend_again(&mut self) {
        let lent: Vec<NodeSlot> = self.lent.tree.iter().map(|(_, slot, _)| *slot).collect();
        for slot in lent {
            self.log_growth(slot);
        }
    }

    /// Counts a change outside of nodes on which lending depends.
    pub fn note_lending(&mut self) {
        if !self.lent.tree.is_empty() {
            self.grown = self.grown.next();
        }
    }

    /// Updates the tree after a node was opened or closed, or set aside or given back. Returns
    /// whether its capacity may be lent.
    pub(super) fn follow_lending(&mut self, slot: NodeSlot) -> bool {
        let entry = &self.nodes[slot];
        if !entry.is_lent() {
            self.lent.tree.remove(&entry.key);
        } else if self.lent.tree.get(&entry.key).is_none() {
            self.lent.enter(slot, entry);
        }
        entry.is_lent()
    }

    /// Calls `find` for the nodes whose capacity may be lent, that have capacity for the request
    /// and that it may use, in order; begins after `after`, if given. Returns the first result that
    /// is not `None`.
    pub fn first_lent<T>(
        &self,
        after: Option<NodeSlot>,
        request: &NodeRequest<'_>,
        find: impl Fn(NodeSlot) -> Option<T>,
    ) -> Option<T> {
        let holds = |room: &Room| room.holds(request.resources);
        let mut found = match after {
            None => self.lent.tree.first(holds),
            Some(after) => self.lent.tree.first_after(&self.entry(after).key, holds),
        };
        while let Some((key, slot, _)) = found {
            let may_use = request.own != Some(*slot) && self.admits(*slot, request);
            if let Some(what) = may_use.then(|| find(*slot)).flatten() {
                return Some(what);
            }
            found = self.lent.tree.first_after(key, holds);
        }
        None
    }

    /// Whether the capacity of the node may be lent.
    pub fn is_lent(&self, slot: NodeSlot) -> bool {
        self.entry(slot).is_lent()
    }

    /// Whether a node whose capacity may be lent could hold `least`. `true` may be wrong, `false`
    /// never is.
    pub fn may_lend(&self, least: &Resources) -> bool {
        self.lent.tree.bound().is_some_and(|room| room.holds(least))
    }

    /// Whether a node that grew after the growth number `mark` could lend `least` to an ask of this
    /// priority (`None`: of any). Unless `only_growths`, a return counts as well. `true` may be
    /// wrong, `false` never is.
    pub fn may_lend_since(
        &self,
        mark: Growth,
        least: &Resources,
        priority: Option<i32>,
        only_growths: bool,
    ) -> bool {
        let lends = |node: &IndexedNode| {
            let SetAside::Bounded(of) = node.aside else { return false };
            node.open
                && (self.lent.ranks_otherwise || priority.is_none_or(|priority| of < priority))
                && node.has_room(least)
        };
        mark < self.grown
            && self.may_lend(least)
            && (self.one_since(&self.growths, mark, lends)
                || (!only_growths && self.one_since(&self.returns, mark, lends)))
    }

    #[cfg(test)]
    pub(super) fn check_lent(&self) {
        self.lent.tree.check();
        let lent = self.nodes.iter().filter(|(_, node)| node.is_lent());
        let mut there: Vec<_> = lent.map(|(slot, node)| (node.key, slot)).collect();
        there.sort_unstable_by_key(|(key, _)| *key);
        let listed: Vec<_> = self.lent.tree.iter().map(|(key, slot, _)| (*key, *slot)).collect();
        assert_eq!(listed, there);
    }
}
