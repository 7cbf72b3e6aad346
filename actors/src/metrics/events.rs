//! Metrics of events.

use prometheus::IntGauge;

use super::inventory::Maker;

/// `yunikorn_event_total_…`: gauges that only rise, because existing dashboards expect gauges.
#[derive(Debug)]
pub struct Events {
    created: IntGauge,
    channeled: IntGauge,
    processed: IntGauge,
    stored: IntGauge,
    not_stored: IntGauge,
    collected: IntGauge,
}

impl Events {
    pub(super) fn with(make: &mut Maker) -> Self {
        // Stays 0: notices are not lost on their way.
        make.gauge(
            "yunikorn_event_total_not_channeled",
            "Events that were lost before they were handed out: none.",
        );
        Self {
            created: make.gauge("yunikorn_event_total_created", "Events that were made."),
            channeled: make.gauge(
                "yunikorn_event_total_channeled",
                "Events that were taken to be handed out.",
            ),
            processed: make.gauge(
                "yunikorn_event_total_processed",
                "Events that are in the ring and were handed to those who follow.",
            ),
            stored: make
                .gauge("yunikorn_event_total_stored", "Events that were kept for their RM."),
            not_stored: make.gauge(
                "yunikorn_event_total_not_stored",
                "Events that their RM was not told of, because there were too many at a time.",
            ),
            collected: make.gauge(
                "yunikorn_event_total_collected",
                "Events that were taken out to tell their RM.",
            ),
        }
    }

    /// Counts events of a partition that are in the ring.
    pub fn passed(&self, events: usize) {
        for gauge in [&self.created, &self.channeled, &self.processed] {
            gauge.add(count(events));
        }
    }

    /// Counts events that were kept for their RM, and events that were dropped because too many
    /// were waiting.
    pub fn stored(&self, kept: usize, dropped: usize) {
        self.stored.add(count(kept));
        self.not_stored.add(count(dropped));
    }

    /// Counts events that are sent to their RM.
    pub fn collected(&self, events: usize) {
        self.collected.add(count(events));
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
