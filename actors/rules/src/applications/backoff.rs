//! The back-off of an application for which too many asks found no node:
//! `docs/scheduling.md#back-off`.
//!
//! # Begin
//! A pass is one search for the next decision. It starts again with each decision, and counts every
//! ask that passes its quotas and has no node, including those that found none before and are not
//! searched again. When it has counted as many as the leaf allows and one more ask is pending, the
//! pass ends. Asks that require a node are not counted.
//!
//! # End
//! Until the deadline the row in the leaf shows no pending asks, so the application gets no offer.
//! Then it is due, whatever its asks wait for, and the next pass decides again. New asks and new
//! nodes do not end a back-off. A configuration without back-off does.
//!
//! # Invariant
//! * An application that backs off has a deadline of its own; the end of an older one changes
//!   nothing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::order::keys::AskKey;
use crate::waiting::WaitSet;

/// The shortest back-off; a shorter one would keep the partition busy with nothing else.
pub const LEAST: Duration = Duration::from_millis(100);

/// The state of an application whose last pass ended before it had tried every ask.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Backoff {
    /// The end of the back-off, ns since the epoch. `None` if it is over, and the application got
    /// no offer since.
    until_ns: Option<i64>,
    /// The last ask that was tried.
    reached: AskKey,
}

impl Backoff {
    /// Begins a back-off after a pass that ended with the ask `reached`.
    pub fn begin(reached: AskKey, delay: Duration, now_ns: i64) -> Self {
        let delay_ns = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
        Self { until_ns: Some(now_ns.saturating_add(delay_ns)), reached }
    }

    /// The end of the back-off, ns since the epoch; `None` once it is over.
    pub fn until_ns(&self) -> Option<i64> {
        self.until_ns
    }

    /// The last ask that was tried.
    pub fn reached(&self) -> AskKey {
        self.reached
    }

    /// Returns the bound that the application shows in its leaf.
    pub fn waits(&self) -> WaitSet {
        if self.until_ns.is_some() { WaitSet::Nothing } else { WaitSet::Due }
    }

    /// Records that a deadline has passed. Returns whether it ended the back-off: an older deadline
    /// does not.
    pub fn deadline_over(&mut self, deadline_ns: i64) -> bool {
        let ends = self.until_ns == Some(deadline_ns);
        if ends {
            self.end();
        }
        ends
    }

    /// Ends the back-off, because the configuration of the leaf has none any more.
    pub fn end(&mut self) {
        self.until_ns = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached() -> AskKey {
        AskKey::new(0, 1, 2)
    }

    #[test]
    fn only_its_own_deadline_ends_a_back_off() {
        let mut backoff = Backoff::begin(reached(), Duration::from_nanos(10), 5);
        assert_eq!((backoff.until_ns(), backoff.waits()), (Some(15), WaitSet::Nothing));
        assert!(!backoff.deadline_over(14), "the deadline of an earlier one");
        assert!(backoff.deadline_over(15));
        assert_eq!((backoff.until_ns(), backoff.waits()), (None, WaitSet::Due));
        assert!(!backoff.deadline_over(15), "it has ended");
        assert_eq!(backoff.reached(), reached());
    }

    #[test]
    fn a_delay_beyond_all_time_ends_never() {
        let backoff = Backoff::begin(reached(), Duration::MAX, 5);
        assert_eq!(backoff.until_ns(), Some(i64::MAX));
    }
}
