//! Quotas of one resource manager, so that none exhausts the memory or the threads of all:
//! `docs/quotas.md`.

use monoceros_actors::{Quotas, SchedulerBuilder};
use serde::Deserialize;

use super::LimitSettings;

/// Section `quotas`: the most that one resource manager may have. New items beyond a quota are
/// rejected.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `quotas.KEY` or MONOCEROS__QUOTAS__KEY)"
)]
pub struct QuotaSettings {
    /// Pending requests. Default 2,000,000.
    pub pending_asks: u64,
    /// Applications that have not ended. Default 500,000.
    pub applications: u64,
    /// Nodes. Default 200,000.
    pub nodes: u64,
    /// Partitions of its configuration. Default 64.
    pub partitions: u64,
    /// Queues, configured or created on demand. Default 50,000.
    pub queues: u64,
    /// Approximate bytes of all these objects. Default 4 GiB.
    pub bytes: u64,
}

impl LimitSettings {
    /// Applies the settings to the scheduler.
    pub fn apply(&self, builder: SchedulerBuilder) -> SchedulerBuilder {
        builder
            .id_bytes(self.id_bytes.get())
            .tag_bytes(self.tag_bytes.get())
            .resource_names(self.resource_names.get())
    }
}

impl QuotaSettings {
    /// Applies the settings to the scheduler.
    pub fn apply(&self, builder: SchedulerBuilder) -> SchedulerBuilder {
        builder.quotas(Quotas {
            asks: self.pending_asks,
            applications: self.applications,
            nodes: self.nodes,
            partitions: self.partitions,
            queues: self.queues,
            bytes: self.bytes,
        })
    }
}
