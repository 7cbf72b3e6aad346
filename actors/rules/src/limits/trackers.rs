//! The trackers of all users and groups, and the changes that applications make to them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ids::{LaneId, LimitId};
use super::lanes::{Lane, LaneKey, Lanes};
use super::numbers::{Numbers, ShownBy};
use super::places::{Forest, Place};
use super::subject::Subject;
use super::tables::{self, Tables};
use crate::queues::QueueConfig;
use crate::values::epoch::Loosening;
use crate::values::resources::{Limits, Resources};

/// The trackers of a partition's users and groups, and the lanes of its leaves.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Trackers {
    pub(super) tables: Arc<Tables>,
    pub(super) forest: Forest,
    pub(super) lanes: Lanes,
    pub(super) numbers: Numbers,
    /// The number of the last reload that changed limits.
    pub(super) loosened: Loosening,
}

/// The lane and group that an application gets when it joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The lane of the application.
    pub lane: LaneId,
    /// The group that it counts for.
    pub group: Option<Arc<str>>,
}

impl Trackers {
    /// Builds trackers for a queue tree, first with every user and group that a limit names.
    pub fn new(root: &QueueConfig) -> Self {
        let mut trackers = Self::default();
        trackers.reload(&Arc::new(Tables::of(root)), Loosening::NONE);
        trackers
    }

    /// Adds an application of a user to a lane of its leaf, and chooses the group that it counts
    /// for.
    pub fn join(
        &mut self,
        user: &Arc<str>,
        groups: &[String],
        application: &Arc<str>,
        leaf: &Arc<str>,
    ) -> Joined {
        let group = self.tables.select_group(leaf, groups);
        let key = (Arc::clone(user), group.clone(), Arc::clone(leaf));
        let lane = self.lanes.find(&key).unwrap_or_else(|| self.open_lane(key));
        let applications = &mut self.lanes.get_mut(lane).applications;
        let before = applications.insert(Arc::clone(application), false);
        debug_assert!(before.is_none(), "{application} joins twice");
        Joined { lane, group }
    }

    /// Returns the first limit whose maximum is smaller than this amount, so that it could never
    /// admit it for an application of this user, whatever the usage. Searches from the leaf up, the
    /// user before the group.
    pub fn never_holds(
        &self,
        user: &Arc<str>,
        groups: &[String],
        leaf: &str,
        amount: &Resources,
    ) -> Option<(Subject, Arc<str>, Limits)> {
        let group = self.tables.select_group(leaf, groups);
        let subjects = [Some(Subject::User(Arc::clone(user))), group.map(Subject::Group)];
        let subjects: Vec<Subject> = subjects.into_iter().flatten().collect();
        tables::upward(leaf).find_map(|path| {
            subjects.iter().find_map(|subject| {
                let max = self.tables.limit(path, subject)?.resources.as_ref()?;
                (!max.allows(amount)).then(|| (subject.clone(), Arc::from(path), max.clone()))
            })
        })
    }

    /// Removes the application from its lane. The caller subtracted its usage and stopped it
    /// before.
    pub fn leave(&mut self, lane: LaneId, application: &str) {
        let applications = &mut self.lanes.get_mut(lane).applications;
        let was_running = applications.remove(application);
        debug_assert_eq!(was_running, Some(false), "{application} leaves as it came");
        if applications.is_empty() {
            self.close_lane(lane);
        }
    }

    /// Whether a limit applies to the lane; if none does, it need not be checked. The answer
    /// changes only with a reload that changes limits.
    pub fn is_limited(&self, lane: LaneId) -> bool {
        !self.lanes.get(lane).limited.is_empty()
    }

    /// Returns the headroom under the limits of user and group; negative in amounts that exceed
    /// them.
    pub fn headroom(&self, lane: LaneId) -> Limits {
        let mut headroom = Limits::unlimited();
        self.narrow(lane, &mut headroom);
        headroom
    }

    /// Narrows a headroom by the limits of user and group.
    pub fn narrow(&self, lane: LaneId, headroom: &mut Limits) {
        for place in self.limited(lane) {
            if let Some(max) = place.limit.as_ref().and_then(|limit| limit.resources.as_ref()) {
                headroom.narrow_to_rest(max, &place.usage);
            }
        }
    }

    /// Returns the headroom of each limit of the lane; the least of them is [`Self::headroom`].
    /// Lanes may share a limit.
    pub fn rooms(&self, lane: LaneId) -> impl Iterator<Item = (LimitId, Limits)> {
        self.lanes.get(lane).limited.iter().filter_map(|id| {
            let place = self.forest.get(*id);
            let max = place.limit.as_ref()?.resources.as_ref()?;
            Some((LimitId(*id), max.less(&place.usage)))
        })
    }

    /// Whether one more application of the lane may start. An application that counts as running
    /// already may run, whatever the answer.
    pub fn may_start(&self, lane: LaneId) -> bool {
        self.limited(lane).all(Place::may_start)
    }

    /// Returns the number of the last loosening of a limit on the lane's path, or of the last
    /// reload that changed limits, if that is later.
    pub fn loosened(&self, lane: LaneId) -> Loosening {
        self.limited(lane).map(|place| place.loosened).fold(self.loosened, Loosening::max)
    }

    /// Charges a change of usage, which may be negative. `loosening` is the number of the step if
    /// it frees an amount, else [`Loosening::NONE`].
    pub fn charge(&mut self, lane: LaneId, change: &Resources, loosening: Loosening) {
        let add = |place: &mut Place| {
            place.usage.add(change);
            place.usage.prune();
            debug_assert!(!place.usage.has_negative(), "{place:?} is below zero");
        };
        for end in self.lanes.get(lane).ends() {
            if loosening.is_some() {
                self.forest.loosen(end, loosening, add);
            } else {
                self.forest.change(end, add);
            }
        }
    }

    /// Counts the application as running, from its first usage on.
    pub fn start(&mut self, lane: LaneId, application: &str) {
        let slot = self.lanes.get_mut(lane);
        slot.run(application, true);
        for end in slot.ends() {
            self.forest.change(end, |place| place.running += 1);
        }
    }

    /// Counts the application as running no longer.
    pub fn stop(&mut self, lane: LaneId, application: &str, loosening: Loosening) {
        let slot = self.lanes.get_mut(lane);
        slot.run(application, false);
        for end in slot.ends() {
            self.forest.loosen(end, loosening, |place| place.running -= 1);
        }
    }

    pub(super) fn open_lane(&mut self, key: LaneKey) -> LaneId {
        let (user, group, leaf) = &key;
        let mut place = |subject: Subject| self.forest.place(&subject, leaf, &self.tables);
        let user = place(Subject::User(Arc::clone(user)));
        let group = group.as_ref().map(|group| place(Subject::Group(Arc::clone(group))));
        let lane = self.lanes.open(Lane::new(key, user, group));
        for end in self.lanes.get(lane).ends() {
            self.forest.get_mut(end).lanes.insert(lane);
            self.count_lane(end, true);
        }
        self.note_limited(lane);
        lane
    }

    pub(super) fn close_lane(&mut self, id: LaneId) {
        self.show(id, ShownBy::default());
        let lane = self.lanes.close(id);
        for end in lane.ends() {
            self.count_lane(end, false);
            let place = self.forest.get_mut(end);
            place.lanes.remove(&id);
            place.waiting.remove(&id);
            self.forest.sweep(end, &self.tables);
        }
    }

    /// Records the entries that limit a lane.
    pub(super) fn note_limited(&mut self, id: LaneId) {
        let lane = self.lanes.get(id);
        let places = lane.ends().flat_map(|end| self.forest.chain(end));
        let limited = places.filter(|place| self.forest.get(*place).limit.is_some()).collect();
        self.lanes.get_mut(id).limited = limited;
    }

    /// Returns the entries of user and group that limit a lane.
    pub(super) fn limited(&self, lane: LaneId) -> impl Iterator<Item = &Place> {
        self.lanes.get(lane).limited.iter().map(|place| self.forest.get(*place))
    }
}
