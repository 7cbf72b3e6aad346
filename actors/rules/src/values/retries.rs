//! Retries after refusals: tries that are repeated, after growing pauses, although nothing has
//! changed.
//!
//! # Invariants
//! * A pause is longer only after consecutive refusals. After a refusal that follows a change, the
//!   first pause applies again.
//! * Each refusal has its own number, so that the deadline of an earlier refusal is recognized as
//!   stale.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The first pause after a refusal, before a try without a change. The pause doubles with each
/// consecutive refusal, up to [`LONGEST_PAUSE`].
pub const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The refusals of an ask or gang that is tried repeatedly.
///
/// ```
/// use monoceros_rules::values::retries::Retries;
///
/// let mut retries = Retries::default();
/// let mut pause = || {
///     retries.refused();
///     let (pause, number) = retries.pause(0);
///     assert!(retries.begin(number));
///     pause.as_secs()
/// };
/// assert_eq!([(); 7].map(|()| pause()), [1, 2, 4, 8, 16, 30, 30]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retries {
    /// The number of consecutive refusals, between which only time has passed.
    in_a_row: u32,
    /// The number of the last refusal.
    number: u32,
    /// The end of the pause, ns since the epoch; `None` if no try is scheduled.
    until_ns: Option<i64>,
    /// Whether the present try was begun because the pause was over.
    is_by_time: bool,
}

impl Retries {
    /// Notes a refusal.
    pub fn refused(&mut self) {
        let is_by_time = std::mem::take(&mut self.is_by_time);
        self.in_a_row = if is_by_time { self.in_a_row.saturating_add(1) } else { 1 };
        self.number = self.number.wrapping_add(1);
    }

    /// Begins the pause after the last refusal. Returns its length, and the number of that refusal.
    pub fn pause(&mut self, now_ns: i64) -> (Duration, u32) {
        let doublings = self.in_a_row.clamp(1, 16) - 1;
        let pause = FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
        let pause_ns = i64::try_from(pause.as_nanos()).unwrap_or(i64::MAX);
        self.until_ns = Some(now_ns.saturating_add(pause_ns));
        (pause, self.number)
    }

    /// The end of the pause, ns since the epoch; `None` if no try is scheduled.
    pub fn until_ns(&self) -> Option<i64> {
        self.until_ns
    }

    /// Whether the refusal with this number is the last one.
    pub fn is_last(&self, number: u32) -> bool {
        self.number == number
    }

    /// Begins a try because the pause after this refusal is over, unless there was another refusal
    /// since. Returns whether it began one.
    pub fn begin(&mut self, number: u32) -> bool {
        let is_last = self.is_last(number);
        self.is_by_time |= is_last;
        is_last
    }

    /// Begins a try before which only time has passed.
    pub fn begin_by_time(&mut self) {
        self.is_by_time = true;
    }

    /// Begins a try because of a change, now or with the next try: the first pause applies again.
    pub fn begin_again(&mut self) {
        self.is_by_time = false;
    }

    /// Schedules no try by time: only a change leads to the next one.
    pub fn stop(&mut self) {
        self.until_ns = None;
    }

    /// Forgets consecutive refusals, after a try that was not refused.
    pub fn passed(&mut self) {
        self.in_a_row = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_grows_only_while_nothing_but_time_passes() {
        let mut retries = Retries::default();
        let mut seconds = |by_time: bool| {
            if by_time {
                retries.begin_by_time();
            }
            retries.refused();
            retries.pause(5).0.as_secs()
        };
        assert_eq!([true, true, false, true].map(&mut seconds), [1, 2, 1, 2]);
        assert_eq!(retries.until_ns(), Some(2_000_000_005));
        retries.begin_by_time();
        retries.begin_again();
        retries.refused();
        assert_eq!(retries.pause(0).0.as_secs(), 1, "a change came before it was tried");
        retries.stop();
        assert_eq!(retries.until_ns(), None);
    }

    #[test]
    fn an_earlier_deadline_begins_nothing() {
        let mut retries = Retries::default();
        retries.refused();
        let (_, first) = retries.pause(0);
        retries.refused();
        let (_, second) = retries.pause(0);
        assert_eq!([retries.begin(first), retries.begin(second)], [false, true]);
    }
}
