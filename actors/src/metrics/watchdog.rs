//! Metrics of the watchdog, which runs in the service; they are here because all metrics are registered in
//! one place.

use prometheus::{IntCounter, IntGauge};

use super::inventory::Maker;

/// `monoceros_late_steps_total`, and gauges of late partitions and a stuck front.
#[derive(Clone, Debug)]
pub struct WatchdogMetrics {
    pub(crate) late_steps: IntCounter,
    /// Partitions with a late step.
    pub late_partitions: IntGauge,
    /// 1 while the front does not answer, else 0.
    pub front_stuck: IntGauge,
}

impl WatchdogMetrics {
    pub(super) fn with(make: &mut Maker) -> Self {
        Self {
            late_steps: make.counter(
                "monoceros_late_steps_total",
                "Steps of partitions that did not come home within a second.",
            ),
            late_partitions: make.gauge(
                "monoceros_late_partitions",
                "Partitions with a step that has not come home within a second.",
            ),
            front_stuck: make.gauge(
                "monoceros_front_stuck",
                "1 while the thread that all resource managers are served by does not answer.",
            ),
        }
    }
}
