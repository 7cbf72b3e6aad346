//! An application that is left alone for a while because too many of its asks found no node:
//! `docs/scheduling.md#back-off`.
//!
//! # When it begins
//! A pass is one search for the next decision: it begins anew with each decision, and counts anew
//! every ask that passes its quotas and has no node, also those that were found so before and are
//! not searched for again. Where as many as the leaf says are counted and one more is pending, the
//! pass ends. Asks that need a node of their own are not counted.
//!
//! # Until when
//! The row in the leaf says that nothing waits here, so nobody visits the application until its
//! deadline; then it is due, whatever its asks wait for, and the next pass decides anew. New asks
//! and new nodes do not end it. A configuration without back-off does.
//!
//! # Invariants
//! * Where the leaf has no back-off, nothing is counted and no deadline is armed.
//! * An application that backs off has a deadline of its own; an older one changes nothing.

use std::sync::Arc;

use monoceros_rules::order::keys::AskKey;
use monoceros_rules::waiting::{Phase, WaitSet};

use super::Application;
use crate::step::{Alarm, BACKOFF_LEAST, Baton};

/// The state of an application whose last pass ended before it had tried every ask.
pub(super) struct Backoff {
    /// Until when the application is left alone, ns since the epoch. `None`: that time is over, and
    /// the application was not offered anything since.
    until_ns: Option<i64>,
    /// The last ask that was tried.
    reached: AskKey,
}

impl Application {
    /// The pass ended with this ask: nothing more is tried for a while.
    pub(super) fn back_off(&mut self, reached: AskKey, baton: &mut Baton) {
        let delay = self.leaf_facts.config.settings.backoff_delay.max(BACKOFF_LEAST);
        let delay_ns = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
        let until_ns = baton.now_ns.saturating_add(delay_ns);
        self.backoff = Some(Backoff { until_ns: Some(until_ns), reached });
        let id = Arc::clone(&self.book.id);
        baton.alarms.push((delay, Alarm::Backoff { application: self.slot, id, until_ns }));
        tracing::debug!(application = %self.book.id, ?delay, "backs off");
    }

    /// Until when it is left alone, ns since the epoch; `None` if it does not back off.
    pub(super) fn backs_off_until(&self) -> Option<i64> {
        self.backoff.as_ref().and_then(|backoff| backoff.until_ns)
    }

    /// The last ask that was tried, if the last pass did not come to all.
    pub(super) fn reached(&self) -> Option<AskKey> {
        self.backoff.as_ref().map(|backoff| backoff.reached)
    }

    /// What its asks wait for, as far as they are looked at.
    pub(super) fn waits(&self) -> WaitSet {
        match &self.backoff {
            None if self.book.undecided().is_some() => self.bundle_waits(),
            None => self.book.asks.waits().declined(self.declined.at(Phase::Normal)),
            Some(Backoff { until_ns: Some(_), .. }) => WaitSet::Nothing,
            Some(Backoff { until_ns: None, .. }) => WaitSet::Due,
        }
    }

    /// A deadline is over. Says whether it was the one that counts.
    pub(super) fn end_backoff(&mut self, deadline_ns: i64) -> bool {
        match &mut self.backoff {
            Some(Backoff { until_ns, .. }) if *until_ns == Some(deadline_ns) => {
                *until_ns = None;
                true
            }
            _ => false,
        }
    }

    /// The leaf may have been configured anew, without back-off.
    pub(super) fn refresh_backoff(&mut self) {
        if self.leaf_facts.config.settings.backoff_asks == 0
            && let Some(backoff) = &mut self.backoff
        {
            backoff.until_ns = None;
        }
    }
}
