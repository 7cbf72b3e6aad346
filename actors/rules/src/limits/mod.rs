//! Who uses how much of which queue, and how much each user and group may.
//!
//! # Why lanes
//! What user and group leave has to be known for every ask that is tried. To compute it per
//! application would make a leaf with ten thousand applications of one user ten thousand times as
//! dear as need be.
//!
//! # Trackers
//! Every user and every group that matters has a tracker: a tree that mirrors the queues, in which
//! each place counts what is used there and below, with the limit that applies there. Counting is
//! never refused: limits are looked at before something is placed, so that recovery can exceed
//! them.
//!
//! # Lanes
//! Applications of one leaf whose user and group are tracked at the same places are in one *lane*:
//! what user and group leave of headroom is the same for all of them. A leaf treats a lane that is
//! limited as a queue between itself and its applications: what the lane's own headroom holds back
//! is not seen from above, and a loosening of the lane is noted with its number
//! ([`Trackers::loosened`]). What a lane holds back is noted here ([`Trackers::hold_back`]), and
//! when a tracker is loosened, [`Trackers::take_reopened`] names the lanes to be looked at again. What
//! waits for a limit that several lanes share is seen from above all the same (`shared.rs`).
//!
//! # Invariants
//! * The usage of a place is the sum of what was charged to lanes at or below it, without zeros,
//!   and what runs there the number of applications that were started in them.
//! * An application is in at most one lane, and a lane without applications is gone, with what no
//!   limit names and no other lane needs.
//! * A lane is reported as reopened exactly when what it holds back may go on since something was
//!   loosened.
//!
//! ```
//! use std::sync::Arc;
//! use monoceros_rules::queues::{LimitConfig, QueueConfig};
//! use monoceros_rules::limits::Trackers;
//! use monoceros_rules::values::epoch::Loosening;
//! use monoceros_rules::values::resources::{Limits, Resources};
//!
//! let limit = |user: &str, vcores, max_applications| LimitConfig {
//!     users: vec![user.to_owned()],
//!     max_resources: Some(Limits::of(&[("vcore", vcores)])),
//!     max_applications,
//!     ..LimitConfig::default()
//! };
//! let mut root = QueueConfig::bare("root", false);
//! root.limits.push(limit("*", 8, 0));
//! root.children.push(QueueConfig::bare("root.etl", true));
//! root.children[0].limits.push(limit("ann", 6, 1));
//!
//! let mut trackers = Trackers::new(&root);
//! let [ann, app, leaf]: [Arc<str>; 3] = ["ann", "app-1", "root.etl"].map(Arc::from);
//! let lane = trackers.join(&ann, &[], &app, &leaf).lane;
//! trackers.charge(lane, &Resources::of(&[("vcore", 5)]), Loosening::NONE);
//! trackers.start(lane, &app);
//! assert_eq!(trackers.headroom(lane).to_string(), "map[vcore:1]");
//! assert!(!trackers.may_start(lane));
//! ```

mod lanes;
mod places;
mod reload;
mod shared;
mod tables;
mod views;
mod waiting;

use std::fmt;
use std::sync::Arc;

pub use self::lanes::{HeldBack, LaneId};
use self::lanes::{Lane, LaneKey, Lanes};
use self::places::{Forest, Place, PlaceId};
pub use self::reload::{LimitEvent, Moves, Regrouping, Reloaded};
use self::shared::Numbers;
pub use self::shared::{SharedLimits, ShownBy};
pub use self::tables::Tables;
pub use self::views::{GroupUsage, LimitUse, PlaceUsage, UserUsage};
use crate::queues::QueueConfig;
use crate::values::epoch::Loosening;
use crate::values::resources::{Limits, Resources};

/// A user or a group that is tracked. Users come before groups.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A user, by name.
    User(Arc<str>),
    /// A group, by name, or `*`: all who count for no named group, together.
    Group(Arc<str>),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "user `{name}`"),
            Self::Group(name) => write!(f, "group `{name}`"),
        }
    }
}

/// A limit of a user or a group on a queue, for as long as nothing is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LimitId(PlaceId);

#[cfg(test)]
impl LimitId {
    /// An id that no limit has.
    pub(crate) fn numbered(number: u32) -> Self {
        Self(crate::values::slots::Slot::at(number))
    }
}

/// The trackers of a partition's users and groups, and the lanes of its leaves.
#[derive(Debug, Default)]
pub struct Trackers {
    tables: Arc<Tables>,
    forest: Forest,
    lanes: Lanes,
    numbers: Numbers,
    /// The step of the last reload that changed limits.
    loosened: Loosening,
}

/// What an application is told when it joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The lane of the application.
    pub lane: LaneId,
    /// The group it counts for.
    pub group: Option<Arc<str>>,
}

impl Trackers {
    /// Makes trackers for a queue tree, at first of everybody whom a limit names.
    pub fn new(root: &QueueConfig) -> Self {
        let mut trackers = Self::default();
        trackers.reload(&Arc::new(Tables::of(root)), Loosening::NONE);
        trackers
    }

    /// An application of a user joins the lane of its leaf; the group it counts for is chosen.
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

    /// The first limit, from the leaf up, the user's before the group's, that could never hold so
    /// much for an application of this user: as configured, whatever is used of it.
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

    /// The application leaves its lane. What it used was discharged and it was stopped before.
    pub fn leave(&mut self, lane: LaneId, application: &str) {
        let applications = &mut self.lanes.get_mut(lane).applications;
        let was_running = applications.remove(application);
        debug_assert_eq!(was_running, Some(false), "{application} leaves as it came");
        if applications.is_empty() {
            self.close_lane(lane);
        }
    }

    /// Whether anything limits the lane; if nothing does, it need not be looked at. The answer
    /// changes only with a reload that changes limits.
    pub fn is_limited(&self, lane: LaneId) -> bool {
        !self.lanes.get(lane).limited.is_empty()
    }

    /// What user and group leave; negative where they are above their limits.
    pub fn headroom(&self, lane: LaneId) -> Limits {
        let mut headroom = Limits::unlimited();
        self.narrow(lane, &mut headroom);
        headroom
    }

    /// Narrows a headroom by what user and group leave.
    pub fn narrow(&self, lane: LaneId, headroom: &mut Limits) {
        for place in self.limited(lane) {
            if let Some(max) = place.limit.as_ref().and_then(|limit| limit.resources.as_ref()) {
                headroom.narrow_to_rest(max, &place.usage);
            }
        }
    }

    /// What each limit of the lane leaves; the least of them is [`Self::headroom`]. Lanes may share
    /// a limit.
    pub fn rooms(&self, lane: LaneId) -> impl Iterator<Item = (LimitId, Limits)> {
        self.lanes.get(lane).limited.iter().filter_map(|id| {
            let place = self.forest.get(*id);
            let max = place.limit.as_ref()?.resources.as_ref()?;
            Some((LimitId(*id), max.less(&place.usage)))
        })
    }

    /// Whether one more application of the lane may run. One that counts as running already
    /// may, whatever this says.
    pub fn may_start(&self, lane: LaneId) -> bool {
        self.limited(lane).all(Place::may_start)
    }

    /// The number of the last loosening of a limit on the lane's path, or of the last reload that
    /// changed any.
    pub fn loosened(&self, lane: LaneId) -> Loosening {
        self.limited(lane).map(|place| place.loosened).fold(self.loosened, Loosening::max)
    }

    /// Charges a change of what is used, which may be negative. `loosening` is the number of the
    /// step if it gives something back, else 0.
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

    /// The application holds something from now on: it counts as running.
    pub fn start(&mut self, lane: LaneId, application: &str) {
        let slot = self.lanes.get_mut(lane);
        slot.run(application, true);
        for end in slot.ends() {
            self.forest.change(end, |place| place.running += 1);
        }
    }

    /// The application does not count as running any more.
    pub fn stop(&mut self, lane: LaneId, application: &str, loosening: Loosening) {
        let slot = self.lanes.get_mut(lane);
        slot.run(application, false);
        for end in slot.ends() {
            self.forest.loosen(end, loosening, |place| place.running -= 1);
        }
    }

    fn open_lane(&mut self, key: LaneKey) -> LaneId {
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

    fn close_lane(&mut self, id: LaneId) {
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

    /// Finds the places that limit a lane.
    fn note_limited(&mut self, id: LaneId) {
        let lane = self.lanes.get(id);
        let places = lane.ends().flat_map(|end| self.forest.chain(end));
        let limited = places.filter(|place| self.forest.get(*place).limit.is_some()).collect();
        self.lanes.get_mut(id).limited = limited;
    }

    /// The places of user and group that limit a lane.
    fn limited(&self, lane: LaneId) -> impl Iterator<Item = &Place> {
        self.lanes.get(lane).limited.iter().map(|place| self.forest.get(*place))
    }
}

#[cfg(test)]
pub(crate) mod tests;
