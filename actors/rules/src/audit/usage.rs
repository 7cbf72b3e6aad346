//! Checks of users and groups: their usage is summed up from applications, and their limits are
//! read from the configuration of queues. The trackers are not read for that, because they are what
//! is checked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::check::same;
use super::{ApplicationFact, Facts, QueueFact};
use crate::applications::application_state::ApplicationState;
use crate::limits::{PlaceUsage, Subject};
use crate::queues::LimitConfig;
use crate::queues::object_state::ObjectState;
use crate::values::resources::{Limits, Resources};

/// The usage of a user or group in a queue, counted from the applications.
#[derive(Clone, Debug, Default)]
struct Counted {
    usage: Resources,
    /// The applications that hold an amount, and so count as running.
    holders: BTreeSet<Arc<str>>,
    /// Applications that may count as running without holding an amount, because they held one and
    /// ask for more.
    may_run: BTreeSet<Arc<str>>,
}

impl ApplicationFact {
    /// Whether the application counts as running: it holds an allocation, or has a node reserved.
    fn holds(&self) -> bool {
        !self.allocations.is_empty() || !self.unsettled.is_empty() || self.reserved > self.suspended
    }

    fn subjects(&self) -> impl Iterator<Item = Subject> {
        let user = Subject::User(Arc::clone(&self.user));
        std::iter::once(user).chain(self.group.clone().map(Subject::Group))
    }
}

impl QueueFact {
    /// Returns the limit of a user or group in this queue. A queue that is not configured any more
    /// has no limits.
    fn limit(&self, subject: &Subject) -> Option<&LimitConfig> {
        if self.state == ObjectState::Draining {
            return None;
        }
        let limits = &self.config.limits;
        let of_user = |name: &str| limits.iter().find(|l| l.users.iter().any(|user| user == name));
        match subject {
            Subject::User(name) => of_user(name).or_else(|| of_user("*")),
            Subject::Group(name) => {
                limits.iter().find(|l| l.groups.iter().any(|group| **group == **name))
            }
        }
    }
}

impl Facts {
    /// Returns the headroom that the limits of user and group leave to an application.
    pub(super) fn user_headroom(&self, application: &ApplicationFact) -> Limits {
        let mut headroom = Limits::unlimited();
        for (queue, subject, limit) in self.limits_of(application) {
            if let Some(max) = &limit.max_resources {
                headroom.narrow(&max.less(&self.counted(queue, &subject).usage));
            }
        }
        headroom
    }

    /// Whether the limits of user and group let an application run. It is called only for an
    /// application that is Accepted and does not count as running yet.
    pub(super) fn may_run(&self, application: &ApplicationFact) -> bool {
        if application.state != ApplicationState::Accepted || application.holds() {
            return true;
        }
        self.limits_of(application).all(|(queue, subject, limit)| {
            let running = self.running(queue, &subject) as u64;
            limit.max_applications == 0 || running < limit.max_applications
        })
    }

    /// Returns every limit of an application, with its queue and its user or group.
    fn limits_of(
        &self,
        application: &ApplicationFact,
    ) -> impl Iterator<Item = (&QueueFact, Subject, &LimitConfig)> {
        self.path_of(application.leaf).flat_map(move |queue| {
            application.subjects().filter_map(move |subject| {
                let limit = queue.limit(&subject)?;
                Some((queue, subject, limit))
            })
        })
    }

    fn counted(&self, queue: &QueueFact, subject: &Subject) -> Counted {
        let mut counted = Counted::default();
        for application in &self.applications {
            let is_below = self.path_of(application.leaf).any(|above| above.slot == queue.slot);
            if is_below && application.subjects().any(|other| other == *subject) {
                counted.add(application);
            }
        }
        counted
    }

    /// Counts the applications of a user or group that run in a queue. For those that hold no
    /// amount, only the trackers know it.
    fn running(&self, queue: &QueueFact, subject: &Subject) -> usize {
        let counted = self.counted(queue, subject);
        let running = self.applications.iter().filter(|application| {
            let of_user = self.users.iter().find(|user| user.name == application.user);
            of_user.is_some_and(|user| user.queues.running.contains(&application.id))
        });
        let more = running.filter(|application| counted.may_run.contains(&application.id));
        counted.holders.len() + more.count()
    }

    /// Checks that the trackers' figures of users and groups are the sums of their applications.
    pub(super) fn check_usage(&self, wrong: &mut Vec<String>) {
        let mut counted: BTreeMap<(Subject, Arc<str>), Counted> = BTreeMap::new();
        for application in &self.applications {
            for queue in self.path_of(application.leaf) {
                for subject in application.subjects() {
                    let place = (subject, Arc::clone(&queue.config.path));
                    counted.entry(place).or_default().add(application);
                }
            }
        }
        for user in &self.users {
            let name = &user.name;
            self.check_place(&Subject::User(Arc::clone(name)), &user.queues, &mut counted, wrong);
            let own = self.applications.iter().filter(|application| application.user == *name);
            let groups: BTreeMap<_, _> =
                own.filter_map(|a| Some((Arc::clone(&a.id), a.group.clone()?))).collect();
            if user.groups != groups {
                wrong.push(format!("{name} counts for {:?} not {groups:?}", user.groups));
            }
        }
        for group in &self.groups {
            let name = &group.name;
            self.check_place(&Subject::Group(Arc::clone(name)), &group.queues, &mut counted, wrong);
            let own = self.applications.iter().filter(|a| a.group.as_ref() == Some(name));
            let own: BTreeSet<_> = own.map(|application| &application.id).collect();
            if !own.iter().copied().eq(&group.applications) {
                wrong.push(format!("{name} counts {:?} not {own:?}", group.applications));
            }
        }
        for ((subject, path), counted) in counted {
            if !counted.usage.is_zero() {
                wrong.push(format!("{subject:?} is not tracked at {path}"));
            }
        }
        self.check_groups(wrong);
    }

    /// Compares an entry of a tracker with the counted figures, and removes these.
    fn check_place(
        &self,
        subject: &Subject,
        place: &PlaceUsage,
        counted: &mut BTreeMap<(Subject, Arc<str>), Counted>,
        wrong: &mut Vec<String>,
    ) {
        let path = &place.path;
        let whose: Arc<str> = Arc::from(format!("{subject:?} at {path}"));
        let counted_here = counted.remove(&(subject.clone(), Arc::clone(path))).unwrap_or_default();
        same(wrong, "usage", &whose, &place.usage, &counted_here.usage);
        let amount = &place.usage;
        if amount.has_negative() || amount.entries().any(|(_, quantity)| quantity == 0) {
            wrong.push(format!("not above zero: {whose} counts {amount}"));
        }
        let running: BTreeSet<Arc<str>> = place.running.iter().map(Arc::clone).collect();
        let Counted { holders, may_run, .. } = &counted_here;
        let is_right = running.is_superset(holders)
            && running.iter().all(|id| holders.contains(id) || may_run.contains(id));
        if !is_right {
            wrong.push(format!(
                "running: {whose} counts {running:?}: {holders:?} hold something, {may_run:?} may"
            ));
        }
        let queue = self.queues.iter().find(|queue| queue.config.path == *path);
        let limit = queue.and_then(|queue| queue.limit(subject)).cloned().unwrap_or_default();
        let has = (&place.max_resources, place.max_applications);
        if has != (&limit.max_resources, limit.max_applications) {
            wrong.push(format!("{whose} is limited to {has:?}, not as configured"));
        }
        for child in &place.children {
            self.check_place(subject, child, counted, wrong);
        }
    }

    /// Checks that the group of a user is one of its groups, or stands for all of them, and is
    /// limited on the way to root. An application that asks for or holds an amount counts for a
    /// group if there is such a limit.
    fn check_groups(&self, wrong: &mut Vec<String>) {
        for application in &self.applications {
            let Some(group) = &application.group else {
                let counts = application.holds() || !application.pending.is_zero();
                let groups = application.groups.iter().map(|group| Arc::from(&**group));
                let mut groups = groups.chain([Arc::from("*")]).map(Subject::Group);
                let is_limited = |subject| {
                    self.path_of(application.leaf).any(|queue| queue.limit(&subject).is_some())
                };
                let is_choice = !application.groups.is_empty() && groups.any(is_limited);
                if counts && is_choice {
                    wrong.push(format!("{} counts for no group", application.id));
                }
                continue;
            };
            let is_own = application.groups.iter().any(|own| **own == **group);
            let subject = Subject::Group(Arc::clone(group));
            let is_limited =
                self.path_of(application.leaf).any(|queue| queue.limit(&subject).is_some());
            if !is_limited || !(is_own || (**group == *"*" && !application.groups.is_empty())) {
                wrong.push(format!("{} counts for {group}, which cannot be", application.id));
            }
        }
    }
}

impl Counted {
    fn add(&mut self, application: &ApplicationFact) {
        self.usage.add(&application.allocated);
        if application.holds() {
            self.holders.insert(Arc::clone(&application.id));
        } else if application.state == ApplicationState::Running {
            self.may_run.insert(Arc::clone(&application.id));
        }
    }
}
