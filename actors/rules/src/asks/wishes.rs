//! Sets the terms of the placement constraints of asks, and opens further choices as time passes.

use std::sync::Arc;

use super::table::Asks;
use super::wish::AskWish;
use crate::nodes::Terms;
use crate::values::ids::{ApplicationSlot, AskSlot};

impl Asks {
    /// An ask with a constraint expects this of nodes from now on.
    pub fn set_wish(
        &mut self,
        slot: AskSlot,
        terms: Arc<Terms>,
        now_ns: i64,
        mates: Option<ApplicationSlot>,
    ) {
        let wish = &mut self.table[slot].search.make().wish;
        // One that comes again with the same constraint goes on waiting.
        if !wish.as_ref().is_some_and(|wish| Arc::ptr_eq(&wish.terms, &terms)) {
            *wish = Some(Box::new(AskWish::new(terms, now_ns, mates)));
        }
    }

    /// An ask expects nothing of nodes any more.
    pub fn clear_wish(&mut self, slot: AskSlot) {
        if let Some(search) = self.table[slot].search.find_mut() {
            search.wish = None;
        }
    }

    fn wish_mut(&mut self, slot: AskSlot) -> Option<&mut AskWish> {
        self.table[slot].search.find_mut()?.wish.as_deref_mut()
    }

    /// An ask was tried without result. Says whether it may use more nodes now, so that it is to be
    /// tried again at once.
    pub fn tried_in_vain(&mut self, slot: AskSlot, now_ns: i64) -> bool {
        self.wish_mut(slot).is_some_and(|wish| {
            wish.attempts = wish.attempts.saturating_add(1);
            wish.open_by(now_ns)
        })
    }

    /// When an ask is to be looked at because a choice of its opens then, ns since the epoch,
    /// unless that was said before.
    pub fn arm_wish(&mut self, slot: AskSlot) -> Option<i64> {
        let wish = self.wish_mut(slot)?;
        let at = wish.opens_ns(wish.open + 1)?;
        (wish.armed_ns.replace(at) != Some(at)).then_some(at)
    }

    /// The time has come at which a choice of an ask may open. Says whether it may use more nodes
    /// now.
    pub fn wish_is_due(&mut self, slot: AskSlot, now_ns: i64) -> bool {
        self.wish_mut(slot).is_some_and(|wish| {
            wish.armed_ns = None;
            wish.open_by(now_ns)
        })
    }
}
