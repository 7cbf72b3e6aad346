//! Queries whether a node that could hold a pending ask has grown since a mark; see [`Growths`].

use super::growth::{Growths, LOOKED_AT};
use super::index::NodeIndex;
use super::node::IndexedNode;
use crate::values::epoch::Growth;
use crate::values::ids::NodeSlot;
use crate::values::resources::Resources;

impl NodeIndex {
    /// Returns the number of growths and of [returns](Self::take_back) until now. A growth is any
    /// change by which a node may become acceptable: a new open node, a larger available amount or
    /// total, a node that opens, or one that is [touched](Self::touch).
    pub fn growth(&self) -> Growth {
        self.grown
    }

    /// Counts a growth of the node if searches may find it, because its attributes have changed or
    /// a predicate's answer about it is no longer valid.
    pub fn touch(&mut self, slot: NodeSlot) {
        if self.entry(slot).may_be_found() {
            self.log_growth(slot);
        }
    }

    /// Counts a return of the node if searches may find it, because a placement that a constraint
    /// counted was withdrawn before it was settled. A return makes no vacancy: two asks that are
    /// refused in turn would make each other be tried again for ever.
    pub(super) fn touch_by_return(&mut self, slot: NodeSlot) {
        if self.entry(slot).may_be_found() {
            self.grown = self.grown.next();
            self.returns.log(slot, self.grown);
        }
    }

    /// Whether an open node that grew after the growth number `mark` could hold `least` in its
    /// present available amount. `false` is never wrong, and `true` is not either if at most 64
    /// nodes grew since. If more did, the answer is that of [`Self::may_hold`].
    pub fn may_hold_since(&self, mark: Growth, least: &Resources) -> bool {
        mark < self.grown
            && self.may_hold(least)
            && (self.one_since(&self.growths, mark, |node| node.holds(least))
                || self.one_since(&self.returns, mark, |node| node.holds(least)))
    }

    /// Answers [`Self::may_hold_since`] for growths alone, without returns.
    pub fn may_hold_grown_since(&self, mark: Growth, least: &Resources) -> bool {
        mark < self.grown
            && self.may_hold(least)
            && self.one_since(&self.growths, mark, |node| node.holds(least))
    }

    /// Whether a node that was listed after the growth number `mark` satisfies `is_one`; also
    /// `true` if there are too many to read.
    pub(super) fn one_since(
        &self,
        growths: &Growths,
        mark: Growth,
        is_one: impl Fn(&IndexedNode) -> bool,
    ) -> bool {
        for (looked_at, (slot, grown)) in growths.newest_first().enumerate() {
            if grown <= mark {
                return false;
            }
            if looked_at == LOOKED_AT || is_one(self.entry(slot)) {
                return true;
            }
        }
        false
    }
}
