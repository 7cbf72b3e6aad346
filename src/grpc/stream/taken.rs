//! When a stream tells its client up to which number requests were taken: with whatever it has to
//! say, and by a message of its own when it has had nothing to say for a while.

use std::time::Duration;

use tokio::time::Instant;

use super::super::session::TOLD_AFTER;

/// A client hears of what was taken at the latest after so long.
const TOLD_WITHIN: Duration = Duration::from_millis(100);

/// What one stream has told.
#[derive(Debug, Default)]
pub(super) struct TakenTold {
    /// Up to this number the client knows.
    told: u64,
    /// When it has to hear more.
    due: Option<Instant>,
}

impl TakenTold {
    /// The client knows of `taken` from the headers.
    pub(super) fn since(taken: u64) -> Self {
        Self { told: taken, due: None }
    }

    /// The number up to which the client knows.
    pub(super) fn told(&self) -> u64 {
        self.told
    }

    /// A message leaves that says `taken`.
    pub(super) fn tells(&mut self, taken: u64) {
        *self = Self::since(taken);
    }

    /// There is nothing else to say: whether to send a message for `taken` alone. If not, but the
    /// client does not know it yet, it is [due](Self::due) at some time.
    pub(super) fn is_due(&mut self, taken: u64, now: Instant) -> bool {
        if taken <= self.told {
            return false;
        }
        let due = *self.due.get_or_insert(now + TOLD_WITHIN);
        taken - self.told >= TOLD_AFTER || due <= now
    }

    /// When to look again.
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
