//! Sampling after each step: compares the scheduler's allocated amounts with the replay's, and adds
//! a sample to the report.
//!
//! The scheduler also counts capacity held for gang pods that have not arrived; the replay does not
//! count it. Amounts and entitlements of leaf queues are read from the scheduler, since the replay
//! does not know the queues.

use std::collections::BTreeMap;

use super::super::amount::{Amount, ResourceKind};
use super::super::fairness::entitlements;
use super::super::history::{LeafSample, Sample};
use super::super::queues::leaves;
use super::{PARTITION, Replay, ReplayError};

impl Replay {
    pub(super) async fn sample(&mut self) -> Result<(), ReplayError> {
        let root = self.scheduler.queues(PARTITION).await?;
        let (theirs, ours) = (Amount::of_named(root.allocated_resource.sorted()), self.usage.now);
        let held_of_leaf = self.held_for_gangs().await?;
        let mut held = Amount::default();
        for of_leaf in held_of_leaf.values() {
            held.add(of_leaf);
        }
        let mut of_pods = theirs;
        of_pods.subtract(&held);
        if of_pods != ours {
            return Err(ReplayError::BooksDiffer { at: self.now / 1000, theirs, held, ours });
        }
        let owed = entitlements(&root, &self.trace.capacity());
        let leaves = leaves(&root).into_iter().map(|leaf| {
            let mut held = Amount::of_named(leaf.allocated_resource.sorted());
            held.subtract(held_of_leaf.get(&leaf.queue_name).unwrap_or(&Amount::default()));
            let pending = Amount::of_named(leaf.pending_resource.sorted());
            let owed = owed.get(&leaf.queue_name).copied().unwrap_or_default();
            LeafSample::new(leaf.queue_name.clone(), held, pending, &owed)
        });
        let leaves: Vec<_> = leaves.collect();
        self.usage.note_pending();
        self.fairness.set(&leaves, self.usage.pending > 0);
        self.series.push(Sample {
            at: self.now,
            allocated: ours,
            running: self.usage.running,
            pending: self.pending,
            n_pending: self.usage.pending,
            jain: self.fairness.index(),
            leaves,
            n_evicted: self.evictions.len(),
            fragmentation: ResourceKind::ALL.map(|kind| self.fragmentation.of(kind)),
        });
        Ok(())
    }

    /// Returns the capacity held in each leaf for gang pods that have not arrived.
    async fn held_for_gangs(&self) -> Result<BTreeMap<String, Amount>, ReplayError> {
        let mut held: BTreeMap<String, Amount> = BTreeMap::new();
        for pod in self.jobs.gangs() {
            let id = self.trace.pods[pod].application();
            let Some(gang) = self.scheduler.application(PARTITION, id).await? else { continue };
            let of_leaf = held.entry(gang.queue_name).or_default();
            for place in gang.allocations.iter().filter(|it| it.placeholder) {
                of_leaf.add(&Amount::of_named(place.resource.sorted()));
            }
        }
        Ok(held)
    }
}
