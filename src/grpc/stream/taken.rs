//! Decides when a stream reports the last number taken: with any reply, or, after a while without
//! replies, in a message of its own.

use std::time::Duration;

use tokio::time::Instant;

use super::super::session::REPORT_AFTER;

/// The longest delay of a report.
const REPORT_WITHIN: Duration = Duration::from_millis(100);

/// The reports of one stream.
#[derive(Debug, Default)]
pub(super) struct TakenReports {
    /// The last number reported.
    reported: u64,
    /// When the next report is due. `None` if nothing new was taken.
    due: Option<Instant>,
}

impl TakenReports {
    /// The headers have reported `taken`.
    pub(super) fn since(taken: u64) -> Self {
        Self { reported: taken, due: None }
    }

    pub(super) fn reported(&self) -> u64 {
        self.reported
    }

    /// Records that a message reports `taken`.
    pub(super) fn report(&mut self, taken: u64) {
        *self = Self::since(taken);
    }

    /// Whether to send a message that only reports `taken`. If the client does not know it yet,
    /// sets the time at which it is [due](Self::due).
    pub(super) fn is_due(&mut self, taken: u64, now: Instant) -> bool {
        if taken <= self.reported {
            return false;
        }
        let due = *self.due.get_or_insert(now + REPORT_WITHIN);
        taken - self.reported >= REPORT_AFTER || due <= now
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_is_due_after_a_time_or_many_requests() {
        let start = Instant::now();
        let mut reports = TakenReports::since(5);
        assert!(!reports.is_due(5, start));
        assert_eq!(reports.due(), None, "nothing is open");
        assert!(!reports.is_due(6, start));
        assert_eq!(reports.due(), Some(start + REPORT_WITHIN));
        assert!(!reports.is_due(7, start + REPORT_WITHIN / 2), "the time counts from the first");
        assert!(reports.is_due(7, start + REPORT_WITHIN));
        reports.report(7);
        assert!(!reports.is_due(7, start + REPORT_WITHIN));
        assert!(reports.is_due(7 + REPORT_AFTER, start + REPORT_WITHIN));
    }
}
