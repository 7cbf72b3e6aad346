//! Sets the placement constraint of an ask, and opens its later *choices* (alternative lists of
//! conditions) as the ask waits or is tried without result.

use std::sync::Arc;

use super::table::Asks;
use super::wish::AskWish;
use crate::nodes::{NodeIndex, Terms};
use crate::values::ids::{ApplicationSlot, AskSlot, ClassId};
use crate::waiting::WaitSet;

impl Asks {
    /// Sets the terms of an ask with a constraint.
    pub fn set_wish(
        &mut self,
        slot: AskSlot,
        terms: Arc<Terms>,
        now_ns: i64,
        mates: Option<ApplicationSlot>,
    ) {
        let wish = &mut self.table[slot].search.make().wish;
        // A request that is sent again with the same constraint keeps its waiting time.
        if !wish.as_ref().is_some_and(|wish| Arc::ptr_eq(&wish.terms, &terms)) {
            *wish = Some(Box::new(AskWish::new(terms, now_ns, mates)));
        }
    }

    /// Records that an ask has no constraint any more.
    pub fn clear_wish(&mut self, slot: AskSlot) {
        if let Some(search) = self.table[slot].search.find_mut() {
            search.wish = None;
        }
    }

    fn wish_mut(&mut self, slot: AskSlot) -> Option<&mut AskWish> {
        self.table[slot].search.find_mut()?.wish.as_deref_mut()
    }

    /// Records that an ask was tried without result. Returns whether it may use more nodes now, so
    /// that it is to be tried again at once.
    pub fn tried_without_result(&mut self, slot: AskSlot, now_ns: i64) -> bool {
        self.wish_mut(slot).is_some_and(|wish| {
            wish.attempts = wish.attempts.saturating_add(1);
            wish.open_by(now_ns)
        })
    }

    /// Records that an ask was tried without result: its constraint may let it use more nodes, now
    /// or later. If now, its class becomes due. Returns whether it does; `None` if the ask has no
    /// constraint.
    pub fn widen(
        &mut self,
        (class, slot): (ClassId, AskSlot),
        now_ns: i64,
        nodes: &mut NodeIndex,
    ) -> Option<bool> {
        let terms = Arc::clone(self.ask(slot).wish()?.terms());
        let may_now = self.tried_without_result(slot, now_ns);
        if may_now {
            self.set_waits(class, WaitSet::Due);
        } else {
            nodes.wait_for(&terms);
        }
        Some(may_now)
    }

    /// Records that a choice of the constraint of the ask with this key may be due. If one opens,
    /// the ask is tried again. Returns the ask, and whether one opens; `None` if the ask is not
    /// pending.
    pub fn choice_opens(&mut self, key: &str, now_ns: i64) -> Option<(AskSlot, bool)> {
        let slot = self.slot_of(key)?;
        let is_due = self.wish_is_due(slot, now_ns);
        let class = self.class_of(slot)?;
        if is_due {
            self.ask_mut(slot).refresh();
            self.set_waits(class, WaitSet::Due);
        }
        Some((slot, is_due))
    }

    /// Returns the time at which the next choice of an ask may be used, ns since the epoch, so that
    /// a try can be scheduled; `None` if that time was returned before.
    pub fn arm_wish(&mut self, slot: AskSlot) -> Option<i64> {
        let wish = self.wish_mut(slot)?;
        let at = wish.opens_ns(wish.open + 1)?;
        (wish.armed_ns.replace(at) != Some(at)).then_some(at)
    }

    /// Opens those choices of the ask's constraint that may be used at this time. Returns whether
    /// the ask may use more nodes than before.
    pub fn wish_is_due(&mut self, slot: AskSlot, now_ns: i64) -> bool {
        self.wish_mut(slot).is_some_and(|wish| {
            wish.armed_ns = None;
            wish.open_by(now_ns)
        })
    }
}
