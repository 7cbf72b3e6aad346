//! The time for which an application may run:
//! `docs/applications.md#applications-that-run-for-too-long`.
//!
//! # Invariant
//! * The time begins when the application first enters Running and never again, so that it cannot
//!   gain time by completing and running again.

use std::num::NonZeroU64;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The time for which an application may run, and its deadline.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunLimit {
    /// The limit; `None`: there is none, or the time has begun.
    limit_ms: Option<NonZeroU64>,
    /// The end of the time, ns since the epoch, and the number by which its deadline is cancelled.
    until: Option<(i64, u64)>,
}

impl RunLimit {
    /// Builds a limit in milliseconds; `None`: the application may run without limit.
    pub fn new(limit_ms: Option<NonZeroU64>) -> Self {
        Self { limit_ms, until: None }
    }

    /// Begins the time, if it has a limit and has not begun: the application enters Running.
    /// Returns the time for which it may run, and the end of that time, ns since the epoch. The
    /// caller then sets a deadline and calls [`Self::armed`].
    pub fn begin(&mut self, now_ns: i64) -> Option<(Duration, i64)> {
        let wait = Duration::from_millis(self.limit_ms.take()?.get());
        let wait_ns = i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX);
        Some((wait, now_ns.saturating_add(wait_ns)))
    }

    /// Records the number of the deadline for the end of the time.
    pub fn armed(&mut self, until_ns: i64, number: u64) {
        self.until = Some((until_ns, number));
    }

    /// Ends the time, since the application has ended or is removed. Returns the number of the
    /// deadline that is not needed any more.
    pub fn end(&mut self) -> Option<u64> {
        self.until.take().map(|(_, number)| number)
    }

    /// Records that a deadline has passed. Returns whether the application has run for its time.
    pub fn is_over(&mut self, until_ns: i64) -> bool {
        self.until.take_if(|(until, _)| *until == until_ns).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_begins_once() {
        let mut limit = RunLimit::new(NonZeroU64::new(2));
        let (wait, until_ns) = limit.begin(5).unwrap();
        assert_eq!((wait, until_ns), (Duration::from_millis(2), 2_000_005));
        limit.armed(until_ns, 7);
        assert_eq!(limit.begin(6), None, "it comes back to Running");
        assert!(!limit.is_over(2_000_004), "the deadline of another application in its place");
        assert!(limit.is_over(2_000_005));
        assert_eq!(limit.end(), None);
    }

    #[test]
    fn an_application_that_ends_needs_no_deadline() {
        let mut limit = RunLimit::new(NonZeroU64::new(2));
        limit.armed(9, 7);
        assert_eq!(limit.end(), Some(7));
        assert!(!limit.is_over(9));
        assert_eq!(RunLimit::new(None).begin(5), None);
    }
}
