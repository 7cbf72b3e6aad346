//! The terms of the placement constraint that an ask has to meet now.
//!
//! A constraint may have choices that may be used only later. So the usable ones depend on how long
//! the ask has waited and how often it was tried without result. Both are counted from its arrival,
//! or from the last change of its constraint.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::nodes::{Terms, Wish};
use crate::values::ids::ApplicationSlot;
use crate::values::usual::is_usual;

/// The nanoseconds of a millisecond.
const MS: i64 = 1_000_000;

/// The terms that an ask has to meet now.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AskWish {
    #[serde(skip, default = "Terms::not_looked_up")] // looked up by the constraint of the ask
    pub(super) terms: Arc<Terms>,
    /// The number of choices that may be used.
    pub(super) open: usize,
    /// The time at which the ask arrived with this constraint, ns since the epoch.
    pub(super) came_ns: i64,
    /// The number of tries without result since.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub(super) attempts: u64,
    /// The time for which the next try without a change is scheduled, ns since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) armed_ns: Option<i64>,
    /// The application, if it has a declared gang: places that are held for it count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mates: Option<ApplicationSlot>,
}

impl AskWish {
    pub(super) fn new(terms: Arc<Terms>, now_ns: i64, mates: Option<ApplicationSlot>) -> Self {
        let open = terms.open_after(0, 0);
        Self { terms, open, came_ns: now_ns, attempts: 0, armed_ns: None, mates }
    }

    /// Returns the terms of its constraint.
    pub fn terms(&self) -> &Arc<Terms> {
        &self.terms
    }

    /// Returns the wish for a search.
    pub fn wish(&self) -> Wish<'_> {
        Wish { open: self.open, mates: self.mates, ..Wish::of(&self.terms) }
    }

    /// The number of choices that may be used.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Returns the time at which this many of its choices may be used, ns since the epoch, if the
    /// ask is not tried before; `None` if it has fewer.
    pub fn opens_ns(&self, open: usize) -> Option<i64> {
        let delay = self.terms.opens_next(open.checked_sub(1)?, self.attempts)?;
        let delay = i64::try_from(delay).unwrap_or(i64::MAX).saturating_mul(MS);
        Some(self.came_ns.saturating_add(delay))
    }

    /// Opens the choices that may be used now. Returns whether these are more than before.
    pub(super) fn open_by(&mut self, now_ns: i64) -> bool {
        let waited = u64::try_from(now_ns.saturating_sub(self.came_ns) / MS).unwrap_or(0);
        let open = self.terms.open_after(waited, self.attempts);
        let is_more = open > self.open;
        self.open = self.open.max(open);
        is_more
    }
}
