//! Metrics of run times. The service, which keeps them in a file, counts how that went; the metrics are
//! here because all metrics are registered in one place.

use prometheus::{IntCounter, IntGauge};

use super::inventory::Maker;

/// `monoceros_run_time_classes` and `monoceros_run_times_saved_total`.
#[derive(Clone, Debug)]
pub struct RunTimeMetrics {
    /// Classes of allocations whose run times are known.
    pub classes: IntGauge,
    /// Times that the file was written.
    pub written: IntCounter,
    /// Times that it could not be written.
    pub failed: IntCounter,
}

impl RunTimeMetrics {
    pub(super) fn with(make: &mut Maker) -> Self {
        let classes = make.gauge(
            "monoceros_run_time_classes",
            "Classes of allocations whose run times are measured, in all partitions.",
        );
        let [written, failed] = make.counters(
            "monoceros_run_times_saved_total",
            "Times that the run times were to be kept in a file, by what became of it.",
            ("outcome", ["written", "failed"]),
        );
        Self { classes, written, failed }
    }
}
