//! Who uses how much of which queue, and how much each user and group may (queues-and-config
//! chapter, section 7).
//!
//! # Trackers
//! Every user and every group that matters has a tracker: a tree that mirrors the queues, in which
//! each place counts what is used there and below, with the limit that applies there. Counting is
//! never refused: limits are looked at before something is placed, so that recovery can exceed them.
//!
//! # Lanes
//! Applications of one leaf whose user and group are tracked at the same places are in one *lane*:
//! what user and group leave of headroom is the same for all of them. A leaf treats a lane that is
//! limited as a queue between itself and its applications: what the lane's own headroom holds back
//! is seen by nobody above, and a loosening of the lane is noted with its number
//! ([`Trackers::loosened`]). What a lane holds back is noted here ([`Trackers::hold_back`]), and when
//! a tracker is loosened, [`Trackers::take_reopened`] names the leaves that must look again.
//!
//! # Invariants
//! * The usage of a place is the sum of what was charged to lanes at or below it, without zeros.
//! * An application has joined at most one lane, and a lane without applications is gone.
//! * A place is there as long as something is used, runs, is limited or joins at or below it.

mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::tables::{Limit, Tables, upward};
use crate::config::QueueConfig;
use crate::resources::{Limits, Resources};

/// A lane: a place in [`Trackers`]. A number may be used again once its lane is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(u32);

/// What a lane's headroom, or its number of running applications, holds back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeldBack {
    /// The component-wise least of what waits for headroom.
    pub short: Option<Resources>,
    /// Applications wait to start.
    pub starting: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Trackers {
    tables: Tables,
    users: BTreeMap<Arc<str>, Tracker>,
    groups: BTreeMap<Arc<str>, Tracker>,
    places: Vec<Option<Place>>,
    free_places: Vec<PlaceId>,
    lanes: Vec<Option<Lane>>,
    free_lanes: Vec<LaneId>,
    lane_by: BTreeMap<LaneKey, LaneId>,
    reopened: BTreeSet<Arc<str>>,
}

/// User, group if any, leaf.
type LaneKey = (Arc<str>, Option<Arc<str>>, Arc<str>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PlaceId(u32);

#[derive(Debug)]
struct Tracker {
    root: PlaceId,
    /// Of a user: its applications that count for a group, each with the group. Of a group: its
    /// applications, each with the user.
    applications: BTreeMap<Arc<str>, Arc<str>>,
    /// Lanes that hold something back.
    waiting: BTreeSet<LaneId>,
}

/// Whose tracker a place is in.
#[derive(Clone, Debug)]
enum Owner {
    User(Arc<str>),
    Group(Arc<str>),
}

/// What a user or group uses of a queue.
#[derive(Debug)]
struct Place {
    owner: Owner,
    path: Arc<str>,
    above: Option<PlaceId>,
    below: BTreeMap<Arc<str>, PlaceId>,
    usage: Resources,
    running: BTreeSet<Arc<str>>,
    limit: Option<Arc<Limit>>,
    /// The last loosening here.
    loosened: u64,
    /// Lanes that end here.
    lanes: u32,
}

#[derive(Debug)]
struct Lane {
    key: LaneKey,
    user: PlaceId,
    group: Option<PlaceId>,
    members: u32,
    held_back: HeldBack,
}

/// What an application is told when it joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Its lane.
    pub lane: LaneId,
    /// The group it counts for, decided once (7.3).
    pub group: Option<Arc<str>>,
}

impl Trackers {
    /// Trackers for a queue tree: of everybody whom a limit names.
    pub fn new(root: &QueueConfig) -> Self {
        let mut trackers = Self { tables: Tables::of(root), ..Self::default() };
        trackers.plant_named();
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
        let lane = self.lane_by.get(&key).copied().unwrap_or_else(|| self.open_lane(key));
        self.lane_mut(lane).members += 1;
        if let Some(group) = &group {
            let tracker = self.users.get_mut(user).expect("a lane has its trackers");
            tracker.applications.insert(Arc::clone(application), Arc::clone(group));
            let tracker = self.groups.get_mut(group).expect("a lane has its trackers");
            tracker.applications.insert(Arc::clone(application), Arc::clone(user));
        }
        Joined { lane, group }
    }

    /// The application leaves its lane. What it used was discharged before.
    pub fn leave(&mut self, lane: LaneId, application: &str) {
        let Lane { key: (user, group, _), members, .. } = self.lane_mut(lane);
        *members -= 1;
        let (user, group, is_last) = (Arc::clone(user), group.clone(), *members == 0);
        if let Some(group) = group {
            for tracker in [self.users.get_mut(&user), self.groups.get_mut(&group)] {
                tracker.expect("a lane has its trackers").applications.remove(application);
            }
        }
        if is_last {
            self.close_lane(lane);
        }
    }

    /// Whether anything limits the lane: if not, it need not be looked at.
    pub fn is_limited(&self, lane: LaneId) -> bool {
        self.places_of(lane).any(|place| place.limit.is_some())
    }

    /// What user and group leave (7.5); negative where they are above their limits.
    pub fn headroom(&self, lane: LaneId) -> Limits {
        let mut headroom = Limits::unlimited();
        self.narrow(lane, &mut headroom);
        headroom
    }

    /// Narrows a headroom by what user and group leave.
    pub fn narrow(&self, lane: LaneId, headroom: &mut Limits) {
        for place in self.places_of(lane) {
            if let Some(max) = place.limit.as_ref().and_then(|limit| limit.resources.as_ref()) {
                headroom.narrow(&max.less(&place.usage));
            }
        }
    }

    /// Whether one more application of the lane may run (7.6).
    pub fn may_start(&self, lane: LaneId) -> bool {
        self.places_of(lane).all(|place| {
            let most = place.limit.as_ref().map_or(0, |limit| limit.applications);
            most == 0 || (place.running.len() as u64) < most
        })
    }

    /// The number of the last loosening of user or group on the lane's path.
    pub fn loosened(&self, lane: LaneId) -> u64 {
        self.places_of(lane).map(|place| place.loosened).max().unwrap_or(0)
    }

    /// More is used, or less by a negative change. `loosening` numbers the step where it is less.
    pub fn charge(&mut self, lane: LaneId, change: &Resources, loosening: u64) {
        self.each_place(lane, |place| {
            place.usage.add(change);
            place.usage.prune();
            if loosening > 0 {
                place.loosened = loosening;
            }
        });
        if loosening > 0 {
            self.look_again(lane);
        }
    }

    /// The application holds something from now on: it counts as running (7.4).
    pub fn start(&mut self, lane: LaneId, application: &Arc<str>) {
        self.each_place(lane, |place| {
            place.running.insert(Arc::clone(application));
        });
    }

    /// The application does not count as running any more.
    pub fn stop(&mut self, lane: LaneId, application: &str, loosening: u64) {
        self.each_place(lane, |place| {
            place.running.remove(application);
            place.loosened = loosening;
        });
        self.look_again(lane);
    }

    /// Notes what a lane holds back, so that its leaf is told when that may have changed.
    pub fn hold_back(&mut self, lane: LaneId, held_back: HeldBack) {
        let is_waiting = held_back != HeldBack::default();
        let slot = self.lane_mut(lane);
        slot.held_back = held_back;
        let (user, group, _) = slot.key.clone();
        let group = group.and_then(|group| self.groups.get_mut(&group));
        for tracker in self.users.get_mut(&user).into_iter().chain(group) {
            if is_waiting {
                tracker.waiting.insert(lane);
            } else {
                tracker.waiting.remove(&lane);
            }
        }
    }

    /// Leaves with a lane whose user or group was loosened so that what it holds back may be tried.
    pub fn take_reopened(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.reopened)
    }

    /// The tracker of a lane was loosened: which of its lanes may go on?
    fn look_again(&mut self, lane: LaneId) {
        let (user, group, _) = &self.lane(lane).key;
        let trackers = [self.users.get(user), group.as_ref().and_then(|g| self.groups.get(g))];
        let waiting = trackers.into_iter().flatten().flat_map(|tracker| &tracker.waiting);
        let may_go_on = |lane: &&LaneId| {
            let HeldBack { short, starting } = &self.lane(**lane).held_back;
            let fits = |least: &Resources| self.headroom(**lane).allows(least);
            short.as_ref().is_some_and(fits) || (*starting && self.may_start(**lane))
        };
        let leaves = waiting.filter(may_go_on).map(|lane| Arc::clone(&self.lane(*lane).key.2));
        let leaves: Vec<_> = leaves.collect();
        self.reopened.extend(leaves);
    }

    fn open_lane(&mut self, key: LaneKey) -> LaneId {
        let (user, group, leaf) = &key;
        let user = self.place(&Owner::User(Arc::clone(user)), leaf);
        let group = group.as_ref().map(|group| self.place(&Owner::Group(Arc::clone(group)), leaf));
        for place in std::iter::once(user).chain(group) {
            self.place_mut(place).lanes += 1;
        }
        let held_back = HeldBack::default();
        let lane = Lane { key: key.clone(), user, group, members: 0, held_back };
        let id = self.free_lanes.pop().unwrap_or_else(|| {
            self.lanes.push(None);
            LaneId(u32::try_from(self.lanes.len() - 1).expect("lanes fit u32"))
        });
        self.lanes[id.0 as usize] = Some(lane);
        self.lane_by.insert(key, id);
        id
    }

    fn close_lane(&mut self, id: LaneId) {
        self.hold_back(id, HeldBack::default());
        let lane = self.lanes[id.0 as usize].take().expect("a lane closes once");
        self.lane_by.remove(&lane.key);
        self.free_lanes.push(id);
        for place in std::iter::once(lane.user).chain(lane.group) {
            self.place_mut(place).lanes -= 1;
            self.sweep(place);
        }
    }

    /// Everybody whom a limit names has a tracker with it.
    fn plant_named(&mut self) {
        let tables = self.tables.clone();
        for (path, limits) in tables.iter() {
            for user in limits.users.keys().filter(|user| ***user != *tables::WILDCARD) {
                self.place(&Owner::User(Arc::clone(user)), path);
            }
            for group in limits.groups.keys() {
                self.place(&Owner::Group(Arc::clone(group)), path);
            }
        }
    }

    /// The place of a user or group for a path, with all above it.
    fn place(&mut self, owner: &Owner, path: &str) -> PlaceId {
        let (trackers, name) = match owner {
            Owner::User(name) => (&self.users, name),
            Owner::Group(name) => (&self.groups, name),
        };
        let mut names: Vec<&str> = upward(path).collect();
        let mut at = match trackers.get(name) {
            Some(tracker) => tracker.root,
            None => self.plant_tracker(owner, names.last().copied().unwrap_or(path)),
        };
        names.pop();
        for path in names.into_iter().rev() {
            at = match self.place_ref(at).below.get(path) {
                Some(below) => *below,
                None => self.plant_place(owner, path, Some(at)),
            };
        }
        at
    }

    fn plant_tracker(&mut self, owner: &Owner, path: &str) -> PlaceId {
        let root = self.plant_place(owner, path, None);
        let tracker = Tracker { root, applications: BTreeMap::new(), waiting: BTreeSet::new() };
        match owner {
            Owner::User(name) => self.users.insert(Arc::clone(name), tracker),
            Owner::Group(name) => self.groups.insert(Arc::clone(name), tracker),
        };
        root
    }

    fn plant_place(&mut self, owner: &Owner, path: &str, above: Option<PlaceId>) -> PlaceId {
        let limit = match owner {
            Owner::User(name) => self.tables.user(path, name),
            Owner::Group(name) => self.tables.group(path, name),
        };
        let path: Arc<str> = Arc::from(path);
        let place = Place {
            owner: owner.clone(),
            path: Arc::clone(&path),
            above,
            below: BTreeMap::new(),
            usage: Resources::new(),
            running: BTreeSet::new(),
            limit: limit.cloned(),
            loosened: 0,
            lanes: 0,
        };
        let id = self.free_places.pop().unwrap_or_else(|| {
            self.places.push(None);
            PlaceId(u32::try_from(self.places.len() - 1).expect("places fit u32"))
        });
        self.places[id.0 as usize] = Some(place);
        if let Some(above) = above {
            self.place_mut(above).below.insert(path, id);
        }
        id
    }

    /// Takes a place away that nothing needs, and those above it that nothing needs then.
    fn sweep(&mut self, id: PlaceId) {
        let place = self.place_ref(id);
        let is_named = match &place.owner {
            Owner::User(name) => {
                self.tables.at(&place.path).is_some_and(|limits| limits.users.contains_key(name))
            }
            Owner::Group(_) => place.limit.is_some(),
        };
        let is_needed = !place.below.is_empty()
            || !place.running.is_empty()
            || !place.usage.is_empty()
            || place.lanes > 0
            || is_named;
        if is_needed {
            return;
        }
        let place = self.places[id.0 as usize].take().expect("a place is swept once");
        self.free_places.push(id);
        let Some(above) = place.above else {
            match &place.owner {
                Owner::User(name) => self.users.remove(name),
                Owner::Group(name) => self.groups.remove(name),
            };
            return;
        };
        self.place_mut(above).below.remove(&place.path);
        self.sweep(above);
    }

    fn lane(&self, id: LaneId) -> &Lane {
        self.lanes[id.0 as usize].as_ref().expect("a lane is used while it has members")
    }

    fn lane_mut(&mut self, id: LaneId) -> &mut Lane {
        self.lanes[id.0 as usize].as_mut().expect("a lane is used while it has members")
    }

    fn place_ref(&self, id: PlaceId) -> &Place {
        self.places[id.0 as usize].as_ref().expect("a place is used while it is there")
    }

    fn place_mut(&mut self, id: PlaceId) -> &mut Place {
        self.places[id.0 as usize].as_mut().expect("a place is used while it is there")
    }

    /// The places of user and group, each from the leaf upward.
    fn places_of(&self, lane: LaneId) -> impl Iterator<Item = &Place> {
        let Lane { user, group, .. } = self.lane(lane);
        let chain = |from: PlaceId| {
            std::iter::successors(Some(self.place_ref(from)), |place| {
                place.above.map(|above| self.place_ref(above))
            })
        };
        chain(*user).chain(group.iter().flat_map(move |group| chain(*group)))
    }

    fn each_place(&mut self, lane: LaneId, mut change: impl FnMut(&mut Place)) {
        let Lane { user, group, .. } = self.lane(lane);
        for from in [Some(*user), *group] {
            let mut at = from;
            while let Some(id) = at {
                let place = self.place_mut(id);
                change(place);
                at = place.above;
            }
        }
    }
}
