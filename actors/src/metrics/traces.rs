//! Metrics of traced placements. The service, which makes the traces, counts; the metrics are here because
//! all metrics are registered in one place.

use prometheus::IntCounter;

use super::inventory::Maker;

/// `monoceros_traces_total` and `monoceros_trace_spans_total`.
#[derive(Clone, Debug)]
pub struct TraceMetrics {
    traces: [IntCounter; 2],
    spans: [IntCounter; 2],
}

impl TraceMetrics {
    pub(super) fn with(make: &mut Maker) -> Self {
        Self {
            traces: make.counters(
                "monoceros_traces_total",
                "Placements that are traced, by whether their RM was told or that was given up: there \
                 were too many, or the process ended.",
                ("outcome", ["told", "untold"]),
            ),
            spans: make.counters(
                "monoceros_trace_spans_total",
                "Spans that were sent to the collector, by whether it took them. There are six for each \
                 placement; what is missing waits, or was lost because too many waited.",
                ("outcome", ["exported", "failed"]),
            ),
        }
    }

    /// The resource manager of a traced placement was notified.
    pub fn told(&self) {
        self.traces[0].inc();
    }

    /// A trace was given up before its resource manager was notified.
    pub fn untold(&self) {
        self.traces[1].inc();
    }

    /// Spans were sent. `is_taken`: the receiver accepted them.
    pub fn exported(&self, spans: u64, is_taken: bool) {
        self.spans[usize::from(!is_taken)].inc_by(spans);
    }
}
