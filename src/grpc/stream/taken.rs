//! When a stream reports the last number taken: with any reply, or in a message of its own after a
//! while without replies.

use std::time::Duration;

use tokio::time::Instant;

use super::super::session::TOLD_AFTER;

/// The longest delay of a report.
const TOLD_WITHIN: Duration = Duration::from_millis(100);

/// The reports of one stream.
#[derive(Debug, Default)]
pub(super) struct TakenTold {
    /// The last number reported.
    told: u64,
    /// When the next report is due. `None` if nothing new was taken.
    due: Option<Instant>,
}

impl TakenTold {
    /// The headers have reported `taken`.
    pub(super) fn since(taken: u64) -> Self {
        Self { told: taken, due: None }
    }

    pub(super) fn told(&self) -> u64 {
        self.told
    }

    /// Records that a message reports `taken`.
    pub(super) fn tells(&mut self, taken: u64) {
        *self = Self::since(taken);
    }

    /// Whether to send a message that only reports `taken`. If the client does not know it yet,
    /// sets the time at which it is [due](Self::due).
    pub(super) fn is_due(&mut self, taken: u64, now: Instant) -> bool {
        if taken <= self.told {
            return false;
        }
        let due = *self.due.get_or_insert(now + TOLD_WITHIN);
        taken - self.told >= TOLD_AFTER || due <= now
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_its_own_leaves_after_a_time_or_after_many_requests_and_once() {
        let start = Instant::now();
        let mut told = TakenTold::since(5);
        assert!(!told.is_due(5, start));
        assert_eq!(told.due(), None, "nothing is open");
        assert!(!told.is_due(6, start));
        assert_eq!(told.due(), Some(start + TOLD_WITHIN));
        assert!(!told.is_due(7, start + TOLD_WITHIN / 2), "the time counts from the first");
        assert!(told.is_due(7, start + TOLD_WITHIN));
        told.tells(7);
        assert!(!told.is_due(7, start + TOLD_WITHIN));
        assert!(told.is_due(7 + TOLD_AFTER, start + TOLD_WITHIN));
    }
}
