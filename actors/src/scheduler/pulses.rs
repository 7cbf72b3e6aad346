//! The pulses of the front and of all partitions, for a watchdog.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_config as config;

use super::SchedulerHandle;
use crate::front::rm_proxy::RmProxy;
use crate::partition::Partition;
use crate::pulse::{PartitionSign, Pulse, Sign};

/// The pulses of the front and of every partition. From [`SchedulerHandle::pulses`].
pub struct Pulses {
    handle: SchedulerHandle,
    front: Pulse<RmProxy>,
    partitions: BTreeMap<(Arc<str>, Arc<str>), Pulse<Partition>>,
}

impl Pulses {
    /// The signs since the last call, of the front and of each present partition. Sends the next pings,
    /// and never waits.
    pub fn feel(&mut self) -> (Sign, Vec<PartitionSign>) {
        let mut before = std::mem::take(&mut self.partitions);
        let mut signs = Vec::new();
        for entry in self.handle.partition_entries() {
            let key = (Arc::clone(&entry.rm_id), Arc::clone(&entry.name));
            // If the known partition has closed, another of the same name was started since.
            let known = before.remove(&key).filter(|pulse| pulse.mailbox.is_open());
            let mut pulse = known.unwrap_or_else(|| Pulse::of(entry.mailbox));
            signs.push(PartitionSign {
                rm_id: entry.rm_id,
                partition: entry.name,
                sign: pulse.feel(),
            });
            self.partitions.insert(key, pulse);
        }
        (self.front.feel(), signs)
    }

    /// Counts a late step of a partition, and makes an event of it.
    pub fn step_is_late(&self, sign: &PartitionSign) {
        let SchedulerHandle { metrics, events, clock, .. } = &self.handle;
        metrics.watchdog.late_steps.inc();
        let partition = config::plain_name(&sign.partition);
        events.late_step(&sign.rm_id, partition, clock.now_ns());
    }
}

impl SchedulerHandle {
    /// The pulses of the front and the partitions, for a watchdog.
    pub fn pulses(&self) -> Pulses {
        let front = Pulse::of(self.proxy.clone());
        Pulses { handle: self.clone(), front, partitions: BTreeMap::new() }
    }
}
