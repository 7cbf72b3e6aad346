//! Which limit applies to whom, as configured: by queue, and there by user and group
//! (queues-and-config chapter, 7.1 to 7.3).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::{LimitConfig, QueueConfig};
use crate::resources::Limits;

/// The name that stands for everybody who is not named.
pub(super) const WILDCARD: &str = "*";

/// What one user or one group may use of one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) resources: Option<Limits>,
    /// 0 is unlimited.
    pub(super) applications: u64,
}

/// The limits of all queues. Queues without any are not here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tables {
    by_path: BTreeMap<Arc<str>, QueueLimits>,
}

/// The limits of one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueLimits {
    pub(super) users: BTreeMap<Arc<str>, Arc<Limit>>,
    pub(super) groups: BTreeMap<Arc<str>, Arc<Limit>>,
    /// The named groups in the order they were written.
    pub(super) groups_in_order: Vec<Arc<str>>,
}

impl Tables {
    /// The tables of a queue tree.
    pub(super) fn of(root: &QueueConfig) -> Self {
        let mut tables = Self::default();
        tables.add(root);
        tables
    }

    fn add(&mut self, queue: &QueueConfig) {
        if !queue.limits.is_empty() {
            let mut limits = QueueLimits::default();
            for config in &queue.limits {
                limits.add(config);
            }
            self.by_path.insert(Arc::clone(&queue.path), limits);
        }
        for child in &queue.children {
            self.add(child);
        }
    }

    pub(super) fn at(&self, path: &str) -> Option<&QueueLimits> {
        self.by_path.get(path)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &QueueLimits)> {
        self.by_path.iter()
    }

    /// What `user` may use of the queue at `path` (7.2).
    pub(super) fn user(&self, path: &str, user: &str) -> Option<&Arc<Limit>> {
        let users = &self.at(path)?.users;
        users.get(user).or_else(|| users.get(WILDCARD))
    }

    /// What `group` may use of the queue at `path`; the wildcard is a group of its own.
    pub(super) fn group(&self, path: &str, group: &str) -> Option<&Arc<Limit>> {
        self.at(path)?.groups.get(group)
    }

    /// The group that an application of a user with these groups counts for (7.3).
    pub(super) fn select_group(&self, leaf: &str, groups: &[String]) -> Option<Arc<str>> {
        if groups.is_empty() {
            return None;
        }
        for path in upward(leaf) {
            let Some(limits) = self.at(path) else { continue };
            let own = |group: &&Arc<str>| groups.iter().any(|name| **name == ***group);
            if let Some(group) = limits.groups_in_order.iter().find(own) {
                return Some(Arc::clone(group));
            }
            if let Some((wildcard, _)) = limits.groups.get_key_value(WILDCARD) {
                return Some(Arc::clone(wildcard));
            }
        }
        None
    }
}

impl QueueLimits {
    fn add(&mut self, config: &LimitConfig) {
        let limit = Arc::new(Limit {
            resources: config.max_resources.clone(),
            applications: config.max_applications,
        });
        for user in &config.users {
            self.users.entry(Arc::from(&**user)).or_insert_with(|| Arc::clone(&limit));
        }
        for group in &config.groups {
            let group: Arc<str> = Arc::from(&**group);
            if *group != *WILDCARD && !self.groups.contains_key(&group) {
                self.groups_in_order.push(Arc::clone(&group));
            }
            self.groups.entry(group).or_insert_with(|| Arc::clone(&limit));
        }
    }
}

/// A path and those of all queues above, the longest first.
pub(super) fn upward(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rsplit_once('.').map(|(above, _)| above))
}
