//! What is in use, as far as somebody knows it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::KnownTypes;
use crate::reload::{QueueChange, StandingQueue, Tree};
use monoceros_rules::queues::QueueConfig;
use monoceros_rules::queues::object_state::ObjectState;
use monoceros_rules::values::resources::Resources;

/// By the name of the partition, without the brackets of its RM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// What is in use in each.
    pub partitions: BTreeMap<String, PartitionUsage>,
}

impl Usage {
    /// The resource types that are known of each partition.
    pub fn types(&self) -> KnownTypes {
        let types = self.partitions.iter();
        types.map(|(name, partition)| (name.clone(), partition.types.clone())).collect()
    }
}

/// What is in use in a partition. A user or group that is not listed uses nothing, as far as is
/// known; a queue that is not listed does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionUsage {
    /// By path.
    pub queues: BTreeMap<String, Used>,
    /// By path, then by user.
    pub users: BTreeMap<String, BTreeMap<String, Used>>,
    /// By path, then by group.
    pub groups: BTreeMap<String, BTreeMap<String, Used>>,
    /// Queues that are [`Concerned`] and were not looked at.
    pub left_out: usize,
    /// The resource types that its nodes have and its requests name.
    pub types: BTreeSet<String>,
}

/// What a queue, or somebody in a queue, uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// What allocations hold.
    pub allocated: Resources,
    /// Applications that run.
    pub running: u64,
    /// Applications in it and below, those that do not run yet included. Of a user or a group only
    /// those that run are known.
    pub applications: u64,
}

/// The queues of which it has to be known what they use, before they change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Concerned {
    /// Those that may use less come first; then those that were there without being configured; of
    /// a branch that drains only the top.
    pub paths: Vec<Arc<str>>,
    /// How many there are beyond as many as are wanted.
    pub left_out: usize,
}

impl Concerned {
    /// At most `most` queues of those that the changes of `tree` concern.
    pub fn of(tree: &Tree, changes: &[QueueChange], most: usize) -> Self {
        let drained: BTreeSet<&str> = changes
            .iter()
            .filter_map(|change| match change {
                QueueChange::Drain(path) => Some(&**path),
                QueueChange::Set(_) | QueueChange::Add(_) => None,
            })
            .collect();
        let is_below_drained =
            |path: &str| path.rsplit_once('.').is_some_and(|(above, _)| drained.contains(above));
        let [mut lowered, mut taken_up, mut tops] = [const { Vec::new() }; 3];
        for change in changes {
            match change {
                QueueChange::Drain(path) if !is_below_drained(path) => tops.push(Arc::clone(path)),
                QueueChange::Set(config) => {
                    let Some(StandingQueue { config: was, state }) = tree.get(&config.path) else {
                        continue;
                    };
                    let path = Arc::clone(&config.path);
                    if may_use_less(was, config) {
                        lowered.push(path);
                    } else if was.is_dynamic || *state != ObjectState::Active {
                        taken_up.push(path);
                    }
                }
                QueueChange::Drain(_) | QueueChange::Add(_) => {}
            }
        }
        let mut paths = lowered;
        paths.append(&mut taken_up);
        paths.append(&mut tops);
        let left_out = paths.len().saturating_sub(most);
        paths.truncate(most);
        Self { paths, left_out }
    }
}

/// Whether a limit may hold something back now that did not before.
fn may_use_less(was: &QueueConfig, now: &QueueConfig) -> bool {
    let most = |queue: &QueueConfig| match queue.max_applications {
        0 => u64::MAX,
        most => most,
    };
    let is_lower = |(name, max)| {
        let before = was.max.as_ref().and_then(|limits| limits.find(name));
        before.is_none_or(|before| max < before)
    };
    most(now) < most(was)
        || now.max.as_ref().is_some_and(|max| max.entries().any(is_lower))
        || (!now.limits.is_empty() && now.limits != was.limits)
}
