//! A change of configuration under way: partitions that have not answered whether they could take
//! it, and partitions that have to close.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monoceros_config as config;
use monoceros_config::difference::PartitionUsage;
use tokio::sync::oneshot;

use super::in_force::InForce;
use super::requests::{Comparison, Effect, Outcome};
use crate::api::outcomes::ConfigurationError;
use crate::partition::Wanted;

/// A configuration that is being put in force.
pub(super) struct Reconfiguration {
    pub(super) next: InForce,
    /// The configuration of each partition, by its name with the RM's prefix.
    pub(super) partitions: BTreeMap<Arc<str>, Wanted>,
    /// Partitions that have not answered yet.
    pub(super) unanswered: BTreeSet<Arc<str>>,
    /// Partitions that are not configured any more and have not closed yet.
    pub(super) leaving: BTreeSet<Arc<str>>,
    pub(super) effect: Effect,
    /// The first refusal, or the usage reported so far.
    pub(super) outcome: Outcome,
    pub(super) reply: oneshot::Sender<Outcome>,
}

impl Reconfiguration {
    /// Records the answer of a partition. Returns whether it was the last one: not if the partition
    /// had answered before.
    pub(super) fn record(
        &mut self,
        partition: &Arc<str>,
        answer: Result<PartitionUsage, ConfigurationError>,
    ) -> bool {
        if !self.unanswered.remove(partition) {
            return false;
        }
        match (answer, &mut self.outcome) {
            (Ok(used), Ok((_, Comparison { usage, .. }))) => {
                usage.partitions.insert(config::plain_name(partition).to_owned(), used);
            }
            (Err(error), outcome @ Ok(_)) => *outcome = Err(error),
            (_, Err(_)) => {}
        }
        self.unanswered.is_empty()
    }

    /// Whether it is only tried, or a partition has refused it.
    pub(super) fn is_without_effect(&self) -> bool {
        matches!(self.effect, Effect::None) || self.outcome.is_err()
    }
}
