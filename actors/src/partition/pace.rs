//! How often slices of lists have their turn.
//!
//! A slice is short, but a thousand of them one after another are not. While anything else is to do,
//! slices get a fifth of the time: one that took 100 µs is followed by 400 µs for the others. Without
//! anything else there is no pause.
//!
//! # Invariants
//! * Between two slices something else has its turn, if there is anything: also in virtual time,
//!   where no slice takes any.

/// How many times as long as a slice took the others have until the next.
const TIMES: i64 = 4;

/// The turns of slices. Times are in ns since the epoch.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When the slice began that is out.
    out_since: Option<i64>,
    /// Until when the others have the time.
    rests_until: i64,
    /// A slice was the last that had its turn.
    was_slice: bool,
}

impl Pace {
    /// The partition has its turn now: a slice that was out is home.
    pub(super) fn at(&mut self, now_ns: i64) {
        if let Some(since_ns) = self.out_since.take() {
            let took_ns = now_ns.saturating_sub(since_ns).max(0);
            self.rests_until = now_ns.saturating_add(took_ns.saturating_mul(TIMES));
        }
    }

    /// Whether a slice may go though something else is to do.
    pub(super) fn lets(&self, now_ns: i64) -> bool {
        !self.was_slice && now_ns >= self.rests_until
    }

    /// A slice begins.
    pub(super) fn begins(&mut self, now_ns: i64) {
        self.out_since = Some(now_ns);
        self.was_slice = true;
    }

    /// Something else has its turn.
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
