//! Usage of queues, users and groups, for the comparison of configurations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::KnownTypes;
use crate::reload::{QueueChange, StandingQueue, Tree};
use monoceros_rules::queues::QueueConfig;
use monoceros_rules::queues::object_state::ObjectState;
use monoceros_rules::values::resources::Resources;

/// Usage of all partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Usage by the name of the partition, without the brackets of its RM.
    pub partitions: BTreeMap<String, PartitionUsage>,
}

impl Usage {
    /// Returns the known resource types of each partition.
    pub fn types(&self) -> KnownTypes {
        let types = self.partitions.iter();
        types.map(|(name, partition)| (name.clone(), partition.types.clone())).collect()
    }
}

/// Usage of one partition. A user or group that is not listed uses nothing, as far as is known. A
/// queue that is not listed does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionUsage {
    /// Usage of queues by path.
    pub queues: BTreeMap<String, Used>,
    /// Usage of users by queue path, then by name.
    pub users: BTreeMap<String, BTreeMap<String, Used>>,
    /// Usage of groups by queue path, then by name.
    pub groups: BTreeMap<String, BTreeMap<String, Used>>,
    /// Number of [`Concerned`] queues whose usage was not read.
    pub left_out: usize,
    /// Resource types that nodes have or requests name.
    pub types: BTreeSet<String>,
}

/// Usage of a queue, or of a user or group in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Resources held by allocations.
    pub allocated: Resources,
    /// Number of running applications.
    pub running: u64,
    /// Number of applications in the queue and below, waiting ones included. For a user or group,
    /// only running applications are known.
    pub applications: u64,
}

/// The queues whose usage has to be read before the changes are applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Concerned {
    /// Paths in the order of importance: queues that may use less, then existing queues that become
    /// configured, then draining queues without those below them.
    pub paths: Vec<Arc<str>>,
    /// Number of queues beyond the wanted maximum.
    pub left_out: usize,
}

impl Concerned {
    /// Lists at most `most` queues that the changes of `tree` concern.
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
                        debug_assert!(false, "`{}` is set and does not exist", config.path);
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

/// Whether a limit that did not apply before may now block something.
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
