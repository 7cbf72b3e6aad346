//! Whether a node that could hold a pending ask has grown since a mark: queries of [`Growths`].

use super::growth::{Growths, LOOKED_AT};
use super::index::NodeIndex;
use super::node::IndexedNode;
use crate::values::epoch::Growth;
use crate::values::ids::NodeSlot;
use crate::values::resources::Resources;

impl NodeIndex {
    /// Returns the number of growths so far (everything that can make a node acceptable: a new open
    /// node, more available or in total, opened, [touched](Self::touch)) and of
    /// [returns](Self::take_back).
    pub fn growth(&self) -> Growth {
        self.grown
    }

    /// Counts a growth of the node if searches may find it, because its attributes have changed or
    /// a predicate's answer about it is void.
    pub fn touch(&mut self, slot: NodeSlot) {
        if self.entry(slot).may_be_found() {
            self.log_growth(slot);
        }
    }

    /// Counts a return of the node if searches may find it, because an allocation that a constraint
    /// counted was withdrawn before it was settled. That makes no vacancy: two asks that are
    /// refused in turn would have each other tried again for ever.
    pub(super) fn touch_by_return(&mut self, slot: NodeSlot) {
        if self.entry(slot).may_be_found() {
            self.grown = self.grown.next();
            self.returns.log(slot, self.grown);
        }
    }

    /// Whether an open node that grew after the growth number `mark` could hold `least` with what
    /// it has available now. `false` is certain. `true` is too while no more than 64 nodes grew
    /// since; beyond, it is the answer of [`Self::may_hold`].
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

    /// Whether a node that is listed after the growth number `mark` is one of these, or there are
    /// too many to read.
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
