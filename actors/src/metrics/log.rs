//! Metrics of the log. The service, which writes the log, counts; the metrics are here because all
//! metrics are registered in one place.

use prometheus::IntCounter;

use super::inventory::Maker;

/// `monoceros_log_lines_total`.
#[derive(Clone, Debug)]
pub struct LogMetrics([IntCounter; 3]);

impl LogMetrics {
    pub(super) fn with(make: &mut Maker) -> Self {
        Self(make.counters(
            "monoceros_log_lines_total",
            "Lines of the log: written, left out because there was one of their kind in the same \
             second, or lost because they could not be written or there was no room for them.",
            ("outcome", ["written", "left_out", "lost"]),
        ))
    }

    /// Sets the total numbers of lines that were written, left out and lost.
    pub fn set(&self, written: u64, left_out: u64, lost: u64) {
        for (counter, total) in self.0.iter().zip([written, left_out, lost]) {
            counter.inc_by(total.saturating_sub(counter.get()));
        }
    }
}
