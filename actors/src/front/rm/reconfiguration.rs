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
use crate::partition::PartitionDocument;

/// A configuration that is being put in force.
pub(super) struct Reconfiguration {
    pub(super) next: InForce,
    /// The configuration of each partition, by its name with the RM's prefix.
    pub(super) partitions: BTreeMap<Arc<str>, PartitionDocument>,
    /// Partitions that have not answered yet.
    pub(super) unanswered: BTreeSet<Arc<str>>,
    /// Partitions that are not configured any more and have not closed yet.
    pub(super) leaving: BTreeSet<Arc<str>>,
    pub(super) effect: Effect,
    /// The first refusal, or the usage that partitions have reported.
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

    /// Whether the configuration is only validated, or a partition has refused it.
    pub(super) fn is_without_effect(&self) -> bool {
        matches!(self.effect, Effect::None) || self.outcome.is_err()
    }
}

#[cfg(test)]
mod tests {
    use monoceros_config::difference::{Difference, Usage};
    use monoceros_proto::si::v1 as si;

    use super::*;
    use crate::api::outcomes::ConfigurationUpdate;
    use crate::front::document::Document;

    fn reconfiguration(partitions: &[Arc<str>]) -> Reconfiguration {
        let document = Document::read(config::DEFAULT.to_owned()).unwrap();
        let registration = si::RegisterResourceManagerRequest::default();
        let update = ConfigurationUpdate {
            rm_id: "rm".to_owned(),
            old_config: String::new(),
            old_checksum: String::new(),
            new_checksum: String::new(),
            changed: true,
            difference: Difference::default(),
            warnings: Vec::new(),
        };
        let (old, new) = (Arc::clone(&document), Arc::clone(&document));
        let comparison = Comparison { old, new, usage: Usage::default() };
        Reconfiguration {
            next: InForce::of(&registration, document),
            partitions: BTreeMap::new(),
            unanswered: partitions.iter().cloned().collect(),
            leaving: BTreeSet::new(),
            effect: Effect::Apply,
            outcome: Ok((update, comparison)),
            reply: oneshot::channel().0,
        }
    }

    #[test]
    fn the_first_refusal_decides_and_the_last_answer_completes() {
        let [one, other] = ["[rm]one", "[rm]other"].map(Arc::<str>::from);
        let mut change = reconfiguration(&[Arc::clone(&one), Arc::clone(&other)]);
        assert!(!change.record(&one, Ok(PartitionUsage::default())));
        assert!(!change.record(&one, Err(ConfigurationError::Stopped)), "it had answered");
        assert!(!change.is_without_effect());
        assert!(change.record(&other, Err(ConfigurationError::RmIdMissing)));
        assert!(change.is_without_effect());
        assert_eq!(change.outcome.err(), Some(ConfigurationError::RmIdMissing));
    }

    #[test]
    fn usage_is_kept_by_the_plain_name_of_the_partition() {
        let one: Arc<str> = Arc::from("[rm]one");
        let mut change = reconfiguration(&[Arc::clone(&one)]);
        assert!(change.record(&one, Ok(PartitionUsage::default())));
        let (_, comparison) = change.outcome.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(comparison.usage.partitions.keys().collect::<Vec<_>>(), ["one"]);
    }

    #[test]
    fn a_validation_has_no_effect() {
        let mut change = reconfiguration(&[]);
        change.effect = Effect::None;
        assert!(change.is_without_effect());
    }
}
