//! The lowest rate at which a request body may arrive.
//!
//! A client on a slow line is tolerated. A client that has stopped is cut off, and so is one that
//! sends single bytes to seem alive. While other messages wait for the memory that a message holds,
//! its client has to be faster.

use std::time::Duration;

use tokio::time::Instant;

/// The lowest rate in bytes per second.
const LEAST: u64 = 1 << 10;

/// The lowest rate while others wait.
const LEAST_WHILE_OTHERS_WAIT: u64 = 256 << 10;

/// The window in which that rate is measured.
const SHORT: Duration = Duration::from_secs(5);

/// Bytes received in the present windows.
#[derive(Debug)]
pub(crate) struct Pace {
    patience: Duration,
    long: Window,
    short: Window,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    bytes: u64,
}

impl Pace {
    /// Starts both windows; the long one lasts `patience`.
    pub(crate) fn new(patience: Duration, now: Instant) -> Self {
        let window = Window { since: now, bytes: 0 };
        Self { patience, long: window, short: window }
    }

    pub(crate) fn received(&mut self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.long.bytes = self.long.bytes.saturating_add(bytes);
        self.short.bytes = self.short.bytes.saturating_add(bytes);
    }

    /// Extends the windows by a time in which the service did not read.
    pub(crate) fn extend(&mut self, time: Duration) {
        self.long.since += time;
        self.short.since += time;
    }

    /// The latest time of the next check.
    pub(crate) fn next_check(&self) -> Instant {
        (self.long.since + self.patience).min(self.short.since + SHORT)
    }

    /// Whether the client is too slow; `others_wait` if the memory is needed by others.
    pub(crate) fn is_too_slow(&mut self, now: Instant, others_wait: bool) -> bool {
        let is_slow = self.short.ended(SHORT, LEAST_WHILE_OTHERS_WAIT, now) && others_wait;
        self.long.ended(self.patience, LEAST, now) || is_slow
    }
}

impl Window {
    /// Whether the window is over and its rate was too low; a new one then begins.
    fn ended(&mut self, lasts: Duration, least: u64, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) < lasts {
            return false;
        }
        let wanted = u128::from(least) * lasts.as_millis() / 1_000;
        let is_slow = u128::from(self.bytes) < wanted;
        *self = Self { since: now, bytes: 0 };
        is_slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);
    const SECOND: Duration = Duration::from_secs(1);

    /// The number of seconds after which a client with this rate is cut off.
    fn cut_after(bytes: usize, others_wait: bool) -> Option<u32> {
        let start = Instant::now();
        let mut pace = Pace::new(PATIENCE, start);
        (1..200).find(|second| {
            pace.received(bytes);
            pace.is_too_slow(start + SECOND * *second, others_wait)
        })
    }

    #[test]
    fn stopped_client_is_cut_off_and_slow_one_is_not() {
        assert_eq!(cut_after(0, false), Some(30));
        assert_eq!(cut_after(1, false), Some(30));
        assert_eq!(cut_after(2_000, false), None);
    }

    #[test]
    fn clients_must_be_faster_while_others_wait() {
        assert_eq!(cut_after(2_000, true), Some(5));
        assert_eq!(cut_after(1 << 20, true), None);
    }

    #[test]
    fn past_speed_does_not_excuse_a_stop() {
        let start = Instant::now();
        let mut pace = Pace::new(PATIENCE, start);
        pace.received(1 << 30);
        assert!(!pace.is_too_slow(start + 30 * SECOND, false));
        assert!(pace.is_too_slow(start + 60 * SECOND, false));
    }

    #[test]
    fn time_without_reads_does_not_count() {
        let start = Instant::now();
        let mut pace = Pace::new(PATIENCE, start);
        pace.extend(20 * SECOND);
        assert!(!pace.is_too_slow(start + 40 * SECOND, false));
        assert!(pace.is_too_slow(start + 50 * SECOND, false));
    }
}
