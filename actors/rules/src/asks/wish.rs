//! What the placement constraint of an ask expects of nodes by now.
//!
//! A constraint may have choices that open later, so what may be used depends on how long the ask has
//! waited and how often it was tried in vain. Both count from when it came, or from when its
//! constraint was changed.

use std::sync::Arc;

use super::Asks;
use crate::nodes::{Terms, Wish};
use crate::values::ids::{ApplicationSlot, AskSlot};

/// Nanoseconds of a millisecond.
const MS: i64 = 1_000_000;

/// What an ask expects of nodes.
#[derive(Debug)]
pub struct AskWish {
    terms: Arc<Terms>,
    /// How many of its choices it may use.
    open: usize,
    /// When it came with this constraint, ns since the epoch.
    came_ns: i64,
    /// How often it was tried in vain since.
    attempts: u64,
    /// When it is looked at next though nothing changed, ns since the epoch.
    armed_ns: Option<i64>,
    /// Its application, if that is a declared gang: places that are held for it count.
    mates: Option<ApplicationSlot>,
}

impl AskWish {
    fn new(terms: Arc<Terms>, now_ns: i64, mates: Option<ApplicationSlot>) -> Self {
        let open = terms.open_after(0, 0);
        Self { terms, open, came_ns: now_ns, attempts: 0, armed_ns: None, mates }
    }

    /// The terms of its constraint.
    pub fn terms(&self) -> &Arc<Terms> {
        &self.terms
    }

    /// As a search is given it.
    pub fn wish(&self) -> Wish<'_> {
        Wish { open: self.open, mates: self.mates, ..Wish::of(&self.terms) }
    }

    /// How many of its choices it may use.
    pub fn open(&self) -> usize {
        self.open
    }

    /// When so many of its choices are open, ns since the epoch, if it is not tried before and there
    /// are so many.
    pub fn opens_ns(&self, open: usize) -> Option<i64> {
        let delay = self.terms.opens_next(open.checked_sub(1)?, self.attempts)?;
        let delay = i64::try_from(delay).unwrap_or(i64::MAX).saturating_mul(MS);
        Some(self.came_ns.saturating_add(delay))
    }

    /// Opens what may be used by now; says whether that is more than before.
    fn open_by(&mut self, now_ns: i64) -> bool {
        let waited = u64::try_from(now_ns.saturating_sub(self.came_ns) / MS).unwrap_or(0);
        let open = self.terms.open_after(waited, self.attempts);
        let is_more = open > self.open;
        self.open = self.open.max(open);
        is_more
    }
}

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

    /// An ask was tried in vain. Says whether it may use more nodes now, so that it is to be tried
    /// again at once.
    pub fn tried_in_vain(&mut self, slot: AskSlot, now_ns: i64) -> bool {
        self.wish_mut(slot).is_some_and(|wish| {
            wish.attempts = wish.attempts.saturating_add(1);
            wish.open_by(now_ns)
        })
    }

    /// When an ask is to be looked at because a choice of its opens then, ns since the epoch, unless
    /// that was said before.
    pub fn arm_wish(&mut self, slot: AskSlot) -> Option<i64> {
        let wish = self.wish_mut(slot)?;
        let at = wish.opens_ns(wish.open + 1)?;
        (wish.armed_ns.replace(at) != Some(at)).then_some(at)
    }

    /// The time has come at which a choice of an ask may open. Says whether it may use more nodes now.
    pub fn wish_is_due(&mut self, slot: AskSlot, now_ns: i64) -> bool {
        self.wish_mut(slot).is_some_and(|wish| {
            wish.armed_ns = None;
            wish.open_by(now_ns)
        })
    }
}
