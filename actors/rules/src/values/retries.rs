//! Retries after refusals: tries that are repeated though nothing has changed, after growing
//! pauses.
//!
//! # Invariants
//! * Only consecutive refusals make a pause longer: one that follows any change starts from the
//!   first pause.
//! * Each refusal has a number of its own, so that the deadline of an earlier one is known to be
//!   stale.

use std::time::Duration;

/// The pause after a refusal before the next try without a change. The time doubles with each
/// consecutive refusal, up to [`LONGEST_PAUSE`].
pub const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Refusals of an ask or gang that is tried again and again.
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retries {
    /// The refusals in a row between which nothing but time has passed.
    in_a_row: u32,
    /// The number of the last refusal.
    number: u32,
    /// The end of the pause, ns since the epoch.
    until_ns: Option<i64>,
    /// The present try was begun because time has passed.
    is_by_time: bool,
}

impl Retries {
    /// Notes a refusal.
    pub fn refused(&mut self) {
        let is_by_time = std::mem::take(&mut self.is_by_time);
        self.in_a_row = if is_by_time { self.in_a_row.saturating_add(1) } else { 1 };
        self.number = self.number.wrapping_add(1);
    }

    /// The pause after the last refusal, which begins now, and the number of that refusal.
    pub fn pause(&mut self, now_ns: i64) -> (Duration, u32) {
        let doublings = self.in_a_row.clamp(1, 16) - 1;
        let pause = FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
        let pause_ns = i64::try_from(pause.as_nanos()).unwrap_or(i64::MAX);
        self.until_ns = Some(now_ns.saturating_add(pause_ns));
        (pause, self.number)
    }

    /// The end of the pause, ns since the epoch; none where nothing is tried by time.
    pub fn until_ns(&self) -> Option<i64> {
        self.until_ns
    }

    /// Whether there was no other refusal since the one of this number.
    pub fn is_last(&self, number: u32) -> bool {
        self.number == number
    }

    /// The pause after the refusal of this number is over: begins a try, unless there was another refusal since.
    pub fn begin(&mut self, number: u32) -> bool {
        let is_last = self.is_last(number);
        self.is_by_time |= is_last;
        is_last
    }

    /// Begins a try for which nothing but time has passed.
    pub fn begin_by_time(&mut self) {
        self.is_by_time = true;
    }

    /// Begins a try for a change, now or with the next try: the pauses start from the first again.
    pub fn begin_anew(&mut self) {
        self.is_by_time = false;
    }

    /// Waits for a change alone.
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
        retries.begin_anew();
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
