//! The silence of an owner: when a client in a cluster gives up the member that serves it.
//!
//! In a cluster the owner of a resource manager sends something every 100 ms or so. The connections
//! of a member that stands still stay open, so its silence is the only sign.
//!
//! # What counts as silence
//! Time is counted in ticks of the client's own timer. A tick that fired late counts like one or
//! two: the client itself stood still for the rest, and what the owner sent meanwhile is still
//! unread. Any message of any stream of the session ends a silence.
//!
//! # The bound
//! Three times the mean distance of messages, at least [`LEAST`]. It doubles with each alarm, up to
//! [`MOST`], and falls back once there was none for [`QUIET`]: an alarm that was false costs a
//! report of the whole state.

use std::time::Duration;

use tokio::time::Instant;

/// Interval of ticks.
pub(crate) const TICK: Duration = Duration::from_millis(25);
/// Least bound of a silence.
const LEAST: Duration = Duration::from_millis(300);
/// Largest bound of a silence.
const MOST: Duration = Duration::from_secs(5);
/// Time without an alarm after which the bound falls back.
const QUIET: Duration = Duration::from_secs(60);
/// Number of distances over which the mean is taken, roughly.
const WEIGHT: u32 = 8;

/// Counts the silence of the owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silence {
    /// `None` if the owner promises no beats.
    counted: Option<Counted>,
    /// Alarms of which each came within [`QUIET`] after the one before.
    alarms: u32,
    last_alarm: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Counted {
    /// Mean distance of messages.
    mean: Duration,
    /// Silence up to the last tick.
    silent: Duration,
    /// Time of the last tick or message.
    at: Instant,
}

impl Counted {
    /// Adds the time since the last tick or message. Most of a pause of this process is left out.
    fn advance(&mut self, now: Instant) {
        self.silent += now.duration_since(self.at).min(2 * TICK);
        self.at = now;
    }
}

impl Silence {
    /// Begins with new streams, on which the owner promises a message in each `distance`. `None` if
    /// it promises no beats.
    pub(crate) fn begin(&mut self, distance: Option<Duration>, now: Instant) {
        self.counted =
            distance.map(|mean| Counted { mean: mean.min(MOST), silent: Duration::ZERO, at: now });
    }

    /// Whether the owner promises beats.
    pub(crate) fn is_counted(&self) -> bool {
        self.counted.is_some()
    }

    /// Records a message of any stream.
    pub(crate) fn received(&mut self, now: Instant) {
        let Some(counted) = &mut self.counted else { return };
        counted.advance(now);
        let distance = std::mem::take(&mut counted.silent);
        counted.mean = (counted.mean * (WEIGHT - 1) + distance) / WEIGHT;
    }

    /// Counts a tick of the timer while no message is unread. Returns the silence if it is an alarm.
    /// After an alarm nothing is counted until [`Self::begin`].
    pub(crate) fn tick(&mut self, now: Instant) -> Option<Duration> {
        if self.last_alarm.is_some_and(|last| now.duration_since(last) >= QUIET) {
            (self.alarms, self.last_alarm) = (0, None);
        }
        let bound = self.bound()?;
        let counted = self.counted.as_mut()?;
        counted.advance(now);
        if counted.silent < bound {
            return None;
        }
        let silent = counted.silent;
        self.counted = None;
        self.alarms += 1;
        self.last_alarm = Some(now);
        Some(silent)
    }

    /// Shortest silence that is an alarm. `None` if nothing is counted.
    fn bound(&self) -> Option<Duration> {
        let least = (3 * self.counted.as_ref()?.mean).max(LEAST);
        let doubled = 1_u32.checked_shl(self.alarms).and_then(|times| least.checked_mul(times));
        Some(doubled.map_or(MOST, |bound| bound.min(MOST)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DISTANCE: Duration = Duration::from_millis(100);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A client whose timer fires on time, on a virtual clock.
    struct Clock {
        now: Instant,
        silence: Silence,
    }

    impl Clock {
        fn new() -> Self {
            let now = Instant::now();
            let mut silence = Silence::default();
            silence.begin(Some(DISTANCE), now);
            Self { now, silence }
        }

        /// Lets time pass without a message. Returns the silence at the alarm, if there is one.
        fn pass(&mut self, time: Duration) -> Option<Duration> {
            let end = self.now + time;
            while self.now + TICK <= end {
                self.now += TICK;
                if let Some(silent) = self.silence.tick(self.now) {
                    return Some(silent);
                }
            }
            self.now = end;
            None
        }

        fn message(&mut self) {
            self.silence.received(self.now);
        }

        /// The client itself stands still; its timer fires late.
        fn stand_still(&mut self, time: Duration) -> Option<Duration> {
            self.now += time;
            self.silence.tick(self.now)
        }

        /// Time until the alarm of an owner that sends nothing more.
        fn until_alarm(&mut self) -> Duration {
            let begun = self.now;
            self.pass(2 * MOST).expect("an alarm");
            self.now - begun
        }
    }

    #[test]
    fn without_beats_nothing_is_counted() {
        let mut clock = Clock::new();
        clock.silence.begin(None, clock.now);
        assert!(!clock.silence.is_counted());
        assert_eq!(clock.pass(ms(60_000)), None);
    }

    #[test]
    fn the_bound_doubles_with_each_alarm_and_falls_back() {
        let mut clock = Clock::new();
        let mut bounds = Vec::new();
        for _ in 0..6 {
            bounds.push(clock.until_alarm());
            clock.silence.begin(Some(DISTANCE), clock.now);
        }
        assert_eq!(bounds, [300, 600, 1_200, 2_400, 4_800, 5_000].map(ms));
        for _ in 0..600 {
            assert_eq!(clock.pass(DISTANCE), None);
            clock.message();
        }
        assert_eq!(clock.until_alarm(), LEAST);
    }

    #[test]
    fn a_slow_line_has_a_larger_bound() {
        let mut clock = Clock::new();
        for _ in 0..50 {
            assert_eq!(clock.pass(ms(250)), None);
            clock.message();
        }
        let alarm = clock.until_alarm();
        assert!((ms(725)..=ms(775)).contains(&alarm), "{alarm:?}");
    }

    proptest! {
        #[test]
        fn messages_in_time_are_no_alarm(distances in prop::collection::vec(0..300_u64, 0..200)) {
            let mut clock = Clock::new();
            for distance in distances {
                prop_assert_eq!(clock.pass(ms(distance)), None);
                clock.message();
            }
        }

        #[test]
        fn a_silent_owner_is_found_within_the_bound(
            distances in prop::collection::vec(0..150_u64, 0..200),
        ) {
            let mut clock = Clock::new();
            for distance in distances {
                clock.pass(ms(distance));
                clock.message();
            }
            let alarm = clock.until_alarm();
            prop_assert!(alarm >= LEAST && alarm <= ms(450) + TICK, "{:?}", alarm);
        }

        #[test]
        fn pauses_of_the_client_are_no_alarm(
            steps in prop::collection::vec((0..200_u64, 0..100_000_u64), 0..50),
        ) {
            let mut clock = Clock::new();
            for (silent, pause) in steps {
                prop_assert_eq!(clock.pass(ms(silent)), None);
                prop_assert_eq!(clock.stand_still(ms(pause)), None);
                clock.message();
            }
        }

        #[test]
        fn the_bound_stays_within_its_limits(
            steps in prop::collection::vec((0..10_000_u64, any::<bool>()), 0..100),
        ) {
            let mut clock = Clock::new();
            for (time, ends) in steps {
                let alarm = clock.pass(ms(time));
                if let Some(silent) = alarm {
                    prop_assert!(silent >= LEAST && silent < MOST + 2 * TICK);
                } else if ends {
                    clock.message();
                }
                let bound = clock.silence.bound().unwrap_or(LEAST);
                prop_assert!((LEAST..=MOST).contains(&bound));
                if !clock.silence.is_counted() {
                    clock.silence.begin(Some(DISTANCE), clock.now);
                }
            }
        }
    }
}
