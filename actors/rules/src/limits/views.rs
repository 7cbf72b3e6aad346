//! Copies of the counts of the trackers, for REST and for the audit.
//!
//! Both get copies in an order that suits them, since an entry of a tracker knows only its
//! neighbours, and its id has no meaning elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ids::{LaneId, PlaceId};
use super::subject::Subject;
use super::trackers::Trackers;
use crate::values::resources::{Limits, Resources};

/// The usage of one tracked user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserUsage {
    /// The user's name.
    pub name: Arc<str>,
    /// The group of each application that counts for a group, by application.
    pub groups: BTreeMap<Arc<str>, Arc<str>>,
    /// The usage by queue, from root down.
    pub queues: PlaceUsage,
}

/// The usage of one tracked group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupUsage {
    /// The group's name, or `*`.
    pub name: Arc<str>,
    /// The applications that count for it, by id.
    pub applications: Vec<Arc<str>>,
    /// The usage by queue, from root down.
    pub queues: PlaceUsage,
}

/// The usage of a user or group in one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceUsage {
    /// The path of the queue.
    pub path: Arc<str>,
    /// The usage in the queue and below.
    pub usage: Resources,
    /// The applications that run in the queue or below, by id.
    pub running: Vec<Arc<str>>,
    /// The limit on amounts in this queue.
    pub max_resources: Option<Limits>,
    /// The number of applications that may run in the queue and below; 0 is unlimited.
    pub max_applications: u64,
    /// The queues below in which the user or group is tracked, by path.
    pub children: Vec<PlaceUsage>,
}

/// A limit of a user or a group on a queue, with the usage that counts against it.
#[derive(Clone, Copy, Debug)]
pub struct LimitUse<'a> {
    /// The user or group.
    pub subject: &'a Subject,
    /// The path of the queue that the limit is set on.
    pub path: &'a Arc<str>,
    /// The limit on amounts.
    pub max: Option<&'a Limits>,
    /// The usage in the queue and below.
    pub usage: &'a Resources,
    /// The number of applications that run in the queue and below.
    pub running: u64,
    /// The most running applications; 0 is unlimited.
    pub most_running: u64,
}

impl Trackers {
    /// Returns every limit that applies to a lane, for people.
    pub fn limits_of(&self, lane: LaneId) -> impl Iterator<Item = LimitUse<'_>> {
        self.limited(lane).map(|place| {
            let limit = place.limit.as_deref();
            LimitUse {
                subject: &place.subject,
                path: &place.path,
                max: limit.and_then(|limit| limit.resources.as_ref()),
                usage: &place.usage,
                running: place.running,
                most_running: limit.map_or(0, |limit| limit.applications),
            }
        })
    }

    /// Returns all tracked users, by name.
    pub fn users(&self) -> impl Iterator<Item = UserUsage> {
        self.forest.roots().filter_map(|(subject, root)| match subject {
            Subject::User(name) => Some(self.user_usage(name, root)),
            Subject::Group(_) => None,
        })
    }

    /// Returns all tracked groups, by name.
    pub fn groups(&self) -> impl Iterator<Item = GroupUsage> {
        self.forest.roots().filter_map(|(subject, root)| match subject {
            Subject::User(_) => None,
            Subject::Group(name) => Some(self.group_usage(name, root)),
        })
    }

    /// Returns the tracked users after this name, by name; after an empty name, all of them. Users
    /// before it are not read.
    pub fn users_behind<'a>(&'a self, name: &str) -> impl Iterator<Item = UserUsage> + use<'a> {
        let behind = self.forest.roots_behind(&Subject::User(Arc::from(name)));
        behind.map_while(|(subject, root)| match subject {
            Subject::User(name) => Some(self.user_usage(name, root)),
            Subject::Group(_) => None,
        })
    }

    /// Returns the tracked groups after this name, by name, as [`Self::users_behind`] does.
    pub fn groups_behind<'a>(&'a self, name: &str) -> impl Iterator<Item = GroupUsage> + use<'a> {
        let behind = self.forest.roots_behind(&Subject::Group(Arc::from(name)));
        behind.map_while(|(subject, root)| match subject {
            Subject::User(_) => None,
            Subject::Group(name) => Some(self.group_usage(name, root)),
        })
    }

    /// Calls `tell` with the usage of each user and group in each queue where it is tracked, and
    /// the number of its running applications there.
    pub fn each_use(&self, mut tell: impl FnMut(&Subject, &str, &Resources, u64)) {
        for id in self.forest.in_order() {
            let place = self.forest.get(id);
            tell(&place.subject, &place.path, &place.usage, place.running);
        }
    }

    /// Returns one user, if tracked.
    pub fn user(&self, name: &str) -> Option<UserUsage> {
        let name = Arc::from(name);
        let root = self.forest.root(&Subject::User(Arc::clone(&name)))?;
        Some(self.user_usage(&name, root))
    }

    /// Returns one group, if tracked.
    pub fn group(&self, name: &str) -> Option<GroupUsage> {
        let name = Arc::from(name);
        let root = self.forest.root(&Subject::Group(Arc::clone(&name)))?;
        Some(self.group_usage(&name, root))
    }

    fn user_usage(&self, name: &Arc<str>, root: PlaceId) -> UserUsage {
        let mut groups = BTreeMap::new();
        self.each_application(root, &mut |application, group| {
            if let Some(group) = group {
                groups.insert(Arc::clone(application), Arc::clone(group));
            }
        });
        UserUsage { name: Arc::clone(name), groups, queues: self.place_usage(root) }
    }

    fn group_usage(&self, name: &Arc<str>, root: PlaceId) -> GroupUsage {
        let mut applications = Vec::new();
        self.each_application(root, &mut |id, _| applications.push(Arc::clone(id)));
        applications.sort();
        GroupUsage { name: Arc::clone(name), applications, queues: self.place_usage(root) }
    }

    /// Calls `tell` with every application in a lane that ends at the entry or below, and with the
    /// group that it counts for.
    fn each_application(&self, at: PlaceId, tell: &mut impl FnMut(&Arc<str>, Option<&Arc<str>>)) {
        let place = self.forest.get(at);
        for lane in place.lanes.iter().map(|lane| self.lanes.get(*lane)) {
            for application in lane.applications.keys() {
                tell(application, lane.key.1.as_ref());
            }
        }
        for below in place.below.values() {
            self.each_application(*below, tell);
        }
    }

    fn place_usage(&self, at: PlaceId) -> PlaceUsage {
        let place = self.forest.get(at);
        let children: Vec<_> = place.below.values().map(|below| self.place_usage(*below)).collect();
        let here = place.lanes.iter().flat_map(|lane| &self.lanes.get(*lane).applications);
        let running = here.filter(|(_, is_running)| **is_running).map(|(id, _)| id);
        let below = children.iter().flat_map(|child| &child.running);
        let mut running: Vec<_> = running.chain(below).map(Arc::clone).collect();
        running.sort();
        debug_assert_eq!(running.len() as u64, place.running, "{} counts wrong", place.path);
        let limit = place.limit.as_deref();
        PlaceUsage {
            path: Arc::clone(&place.path),
            usage: place.usage.clone(),
            running,
            max_resources: limit.and_then(|limit| limit.resources.clone()),
            max_applications: limit.map_or(0, |limit| limit.applications),
            children,
        }
    }
}
