//! The clock of the scheduler: epoch times that advance with the runtime's clock.
//!
//! A reading is a base plus the time that has passed according to `tokio::time`. So a paused clock
//! drives epoch times, too, and a simulation of weeks stamps its messages with simulated time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Reads epoch times. Copies share the base.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    base_ns: i64,
    start: Instant,
}

impl Clock {
    /// A clock that shows `base_ns` now.
    pub(crate) fn new(base_ns: i64) -> Self {
        Self { base_ns, start: Instant::now() }
    }

    /// Now, in ns since the epoch.
    pub(crate) fn now_ns(&self) -> i64 {
        let passed = i64::try_from(self.start.elapsed().as_nanos()).unwrap_or(i64::MAX);
        self.base_ns.saturating_add(passed)
    }

    /// The epoch time of an instant, ns; of one before the clock began, that of the beginning.
    pub(crate) fn ns_at(&self, instant: Instant) -> i64 {
        let passed = instant.saturating_duration_since(self.start).as_nanos();
        self.base_ns.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX))
    }

    /// The instant of an epoch time in ns; of one before the clock began, the beginning. `None`: too far off.
    pub(crate) fn instant_at(&self, at_ns: i64) -> Option<Instant> {
        let passed = at_ns.saturating_sub(self.base_ns);
        self.start.checked_add(Duration::from_nanos(u64::try_from(passed).unwrap_or(0)))
    }
}

/// The epoch time of the machine, ns. Read once, when a scheduler starts.
pub(crate) fn wall_clock_ns() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    let now = SystemTime::now();
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
