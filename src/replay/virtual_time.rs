//! Virtual time: a clock that is paused, and jumps to the next timer when all tasks wait.
//!
//! The scheduler, its replay and the clock share one thread in their own runtime, so that the clock
//! jumps only when all of them wait. None of them may wait for a thread of another runtime: the
//! clock would jump meanwhile.

use std::time::Duration;

use anyhow::Context;
use tokio::time::Instant;

/// Runs a replay on a paused clock, in a runtime of its own. It must not be called within one.
pub(crate) fn in_virtual_time<T: 'static>(
    replay: impl Future<Output = anyhow::Result<T>> + 'static,
) -> anyhow::Result<T> {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime without threads needs only a poller of the system")
    };
    // The replay is a task and not the root future, which the runtime would poll far too often.
    let system = actix_rt::System::with_tokio_rt(runtime);
    system.block_on(async { tokio::task::spawn_local(replay).await.context("the replay broke")? })
}

/// The clock of a replay, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The instant at which the replay began, and its time.
    start: Instant,
    start_ms: i64,
}

impl Clock {
    /// Starts the clock at a time.
    pub(crate) fn start(start_ms: i64) -> Self {
        Self { start: Instant::now(), start_ms }
    }

    pub(crate) fn now(&self) -> i64 {
        self.time_of(Instant::now())
    }

    /// Converts an instant to a time. Fractions of a millisecond are dropped.
    pub(crate) fn time_of(&self, instant: Instant) -> i64 {
        let passed = instant.saturating_duration_since(self.start).as_millis();
        self.start_ms.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX))
    }

    /// Converts a time to an instant. A time before the start becomes the start.
    pub(crate) fn instant_of(&self, time: i64) -> Instant {
        let passed = time.saturating_sub(self.start_ms);
        self.start + Duration::from_millis(u64::try_from(passed).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_days_pass_at_once() {
        let passed = in_virtual_time(async {
            let clock = Clock::start(5_000);
            tokio::time::sleep_until(clock.instant_of(86_405_000)).await;
            let (now, begun) = (clock.now(), clock.instant_of(0));
            Ok((now, clock.time_of(begun)))
        });
        assert_eq!(passed.unwrap(), (86_405_000, 5_000));
    }

    #[test]
    fn a_replay_that_panics_is_an_error() {
        let broken = in_virtual_time::<()>(async { panic!("it has a fault") });
        assert_eq!(broken.unwrap_err().to_string(), "the replay broke");
    }
}
