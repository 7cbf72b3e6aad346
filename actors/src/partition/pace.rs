//! The pace of list slices among other work.
//!
//! A slice is short, but a thousand consecutive slices are not. While there is other work, slices
//! get a fifth of the time: a slice that took 100 µs is followed by 400 µs for other work. Without
//! other work there is no pause.
//!
//! # Invariants
//! * Between two slices other work has its turn, if there is any. That holds in virtual time, too,
//!   where a slice takes no time.

/// The time that other work gets between two slices, as a multiple of the first slice's time.
const TIMES: i64 = 4;

/// The turns of slices. Times are in ns since the epoch.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The time when the slice under way began.
    out_since: Option<i64>,
    /// The time until which other work goes first.
    rests_until: i64,
    /// Whether the last turn was a slice's.
    was_slice: bool,
}

impl Pace {
    /// Notes that the partition has its turn: a slice under way has come home.
    pub(super) fn at(&mut self, now_ns: i64) {
        if let Some(since_ns) = self.out_since.take() {
            let took_ns = now_ns.saturating_sub(since_ns).max(0);
            self.rests_until = now_ns.saturating_add(took_ns.saturating_mul(TIMES));
        }
    }

    /// Whether a slice may begin although there is other work.
    pub(super) fn lets(&self, now_ns: i64) -> bool {
        !self.was_slice && now_ns >= self.rests_until
    }

    /// Notes that a slice begins.
    pub(super) fn begins(&mut self, now_ns: i64) {
        self.out_since = Some(now_ns);
        self.was_slice = true;
    }

    /// Notes that other work has its turn.
    pub(super) fn something_else(&mut self) {
        self.was_slice = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_others_have_four_times_as_long_as_a_slice_took() {
        let mut pace = Pace::default();
        assert!(pace.lets(1_000));
        pace.begins(1_000);
        pace.at(1_100);
        assert!(!pace.lets(1_100), "something else comes first");
        pace.something_else();
        assert!(!pace.lets(1_499));
        assert!(pace.lets(1_500));
    }

    #[test]
    fn where_slices_take_no_time_they_take_turns_with_the_others() {
        let mut pace = Pace::default();
        pace.begins(7);
        pace.at(7);
        assert!(!pace.lets(7));
        pace.something_else();
        assert!(pace.lets(7));
    }
}
