//! The configured limits: by queue, and for each queue by user and group.
//!
//! # Named and wildcard
//! A user who is named on a queue has the named limit there, and no other: it applies even if the
//! wildcard would allow less. The wildcard among the groups is a group like the named ones, shared
//! by all applications that count for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::subject::Subject;
use crate::queues::{LimitConfig, QueueConfig};
use crate::values::resources::Limits;

/// The name of the wildcard: every user or group that is not named.
const WILDCARD: &str = "*";

/// The limit of one user or one group on one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Limit {
    pub(super) resources: Option<Limits>,
    /// The number of applications that may run at a time; 0 is unlimited.
    pub(super) applications: u64,
}

/// The limits of all queues, by path; queues without limits are not in it. Building it takes time
/// in proportion to the number of names, so a reload builds it before its step begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tables {
    by_path: BTreeMap<Arc<str>, QueueLimits>,
}

/// The limits of one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct QueueLimits {
    users: BTreeMap<Arc<str>, Arc<Limit>>,
    any_user: Option<Arc<Limit>>,
    /// The groups, each with its index in the order in which they were written; the wildcard is
    /// last.
    groups: BTreeMap<Arc<str>, (usize, Arc<Limit>)>,
}

impl Tables {
    /// Builds the tables of a queue tree.
    pub fn of(root: &QueueConfig) -> Self {
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

    /// Returns every user and group that a limit names, with the path of the queue. The wildcard
    /// among groups is included.
    pub(super) fn named(&self) -> impl Iterator<Item = (&Arc<str>, Subject)> {
        self.by_path.iter().flat_map(|(path, limits)| {
            let users = limits.users.keys().map(|user| Subject::User(Arc::clone(user)));
            let groups = limits.groups.keys().map(|group| Subject::Group(Arc::clone(group)));
            users.chain(groups).map(move |subject| (path, subject))
        })
    }

    /// The limit of a user or group on the queue at `path`.
    pub(super) fn limit(&self, path: &str, subject: &Subject) -> Option<&Arc<Limit>> {
        let limits = self.by_path.get(path)?;
        match subject {
            Subject::User(user) => limits.users.get(user).or(limits.any_user.as_ref()),
            Subject::Group(group) => limits.groups.get(group).map(|(_, limit)| limit),
        }
    }

    /// Whether a limit on the queue at `path` names the user or group; then the entry of its
    /// tracker exists even without usage.
    pub(super) fn names(&self, path: &str, subject: &Subject) -> bool {
        self.by_path.get(path).is_some_and(|limits| match subject {
            Subject::User(user) => limits.users.contains_key(user),
            Subject::Group(group) => limits.groups.contains_key(group),
        })
    }

    /// Returns the group that an application of a user with these groups counts for. The deepest
    /// queue with a limit for any of them decides: it is the first one written there, and the
    /// wildcard comes after all named ones.
    pub(super) fn select_group(&self, leaf: &str, groups: &[String]) -> Option<Arc<str>> {
        if groups.is_empty() {
            return None;
        }
        upward(leaf).find_map(|path| {
            let limits = &self.by_path.get(path)?.groups;
            let names = groups.iter().map(String::as_str).chain([WILDCARD]);
            let limited = names.filter_map(|name| limits.get_key_value(name));
            let first = limited.min_by_key(|(_, (place, _))| *place);
            first.map(|(group, _)| Arc::clone(group))
        })
    }
}

impl QueueLimits {
    fn add(&mut self, config: &LimitConfig) {
        // Zeros alone limit nothing; one zero among other quantities does.
        let is_limit = |limits: &&Limits| limits.entries().any(|(_, limit)| limit != 0);
        let limit = Arc::new(Limit {
            resources: config.max_resources.as_ref().filter(is_limit).cloned(),
            applications: config.max_applications,
        });
        for user in &config.users {
            if user == WILDCARD {
                self.any_user.get_or_insert_with(|| Arc::clone(&limit));
            } else {
                self.users.entry(Arc::from(&**user)).or_insert_with(|| Arc::clone(&limit));
            }
        }
        for group in &config.groups {
            let place = if group == WILDCARD { usize::MAX } else { self.groups.len() };
            let entry = self.groups.entry(Arc::from(&**group));
            entry.or_insert_with(|| (place, Arc::clone(&limit)));
        }
    }
}

/// Returns a path and the paths of all queues above it, the longest first.
pub(super) fn upward(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rsplit_once('.').map(|(above, _)| above))
}
