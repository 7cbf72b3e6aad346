//! Lanes: each has the applications of one leaf to which the same limits of user and group apply.
//!
//! The headroom by user and group is the same for all applications of a lane, so it is computed
//! once per lane. A leaf may have thousands of applications of one user, and an offer would
//! otherwise compute the same headroom for each of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::ids::{LaneId, LaneSlot, PlaceId};
use super::numbers::ShownBy;
use crate::values::resources::Resources;
use crate::values::slots::Slots;

/// The asks and applications that the limits of a lane keep from being placed or started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeldBack {
    /// The component-wise least amount of the asks that wait for headroom.
    pub short: Option<Resources>,
    /// Whether applications wait to start.
    pub starting: bool,
}

/// The key of a lane: its user, its group if any, and the path of its leaf.
pub(super) type LaneKey = (Arc<str>, Option<Arc<str>>, Arc<str>);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Lane {
    pub(super) key: LaneKey,
    /// The entry of the user for the leaf.
    pub(super) user: PlaceId,
    /// The entry of the group for the leaf.
    pub(super) group: Option<PlaceId>,
    /// The entries on both paths to root that have a limit: a placement is checked against only
    /// these.
    pub(super) limited: SmallVec<[PlaceId; 4]>,
    /// The applications, each with whether it counts as running.
    pub(super) applications: BTreeMap<Arc<str>, bool>,
    pub(super) held_back: HeldBack,
    /// The numbered limits with which it shows its held-back asks to the queues above.
    pub(super) shown: ShownBy,
    /// Whether the group of its applications is to be chosen again: the last reload removed a limit
    /// of their group on the path, or limits another group while they count for none.
    pub(super) chooses_anew: bool,
}

/// The lanes of all leaves, by id and by key.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Lanes {
    slots: Slots<LaneSlot, (LaneId, Lane)>,
    #[serde(with = "crate::values::pairs")]
    by_key: BTreeMap<LaneKey, LaneId>,
    opened: u64,
}

impl Lanes {
    pub(super) fn find(&self, key: &LaneKey) -> Option<LaneId> {
        self.by_key.get(key).copied()
    }

    /// Returns the lane, if it was not closed.
    pub(super) fn find_mut(&mut self, id: LaneId) -> Option<&mut Lane> {
        let there = self.slots.find_mut(id.slot)?;
        (there.0 == id).then_some(&mut there.1)
    }

    pub(super) fn ids(&self) -> Vec<LaneId> {
        self.by_key.values().copied().collect()
    }

    pub(super) fn get(&self, id: LaneId) -> &Lane {
        let (own, lane) = &self.slots[id.slot];
        debug_assert_eq!(*own, id, "a lane is used while it has applications");
        lane
    }

    pub(super) fn get_mut(&mut self, id: LaneId) -> &mut Lane {
        let (own, lane) = &mut self.slots[id.slot];
        debug_assert_eq!(*own, id, "a lane is used while it has applications");
        lane
    }

    pub(super) fn open(&mut self, lane: Lane) -> LaneId {
        let key = lane.key.clone();
        self.opened += 1;
        let serial = self.opened;
        let slot = self.slots.insert_with(|slot| (LaneId { serial, slot }, lane));
        let id = LaneId { serial, slot };
        self.by_key.insert(key, id);
        id
    }

    pub(super) fn close(&mut self, id: LaneId) -> Lane {
        let (_, lane) = self.slots.remove(id.slot);
        self.by_key.remove(&lane.key);
        lane
    }
}

impl Lane {
    pub(super) fn new(key: LaneKey, user: PlaceId, group: Option<PlaceId>) -> Self {
        Self {
            key,
            user,
            group,
            limited: SmallVec::new(),
            applications: BTreeMap::new(),
            held_back: HeldBack::default(),
            shown: ShownBy::default(),
            chooses_anew: false,
        }
    }

    /// Returns the entries for its leaf: that of the user, and if it has a group, that of the
    /// group.
    pub(super) fn ends(&self) -> impl Iterator<Item = PlaceId> + use<> {
        [Some(self.user), self.group].into_iter().flatten()
    }

    /// Counts an application as running, or no longer.
    pub(super) fn run(&mut self, application: &str, is_running: bool) {
        let counts = self.applications.get_mut(application).expect("it is in its lane");
        debug_assert_ne!(*counts, is_running, "{application} starts or stops twice");
        *counts = is_running;
    }
}

impl HeldBack {
    /// Whether anything is held back.
    pub(super) fn is_any(&self) -> bool {
        self.short.is_some() || self.starting
    }

    /// Lowers this to the lower bound of both.
    pub(super) fn include(&mut self, other: &Self) {
        self.starting |= other.starting;
        match (&mut self.short, &other.short) {
            (Some(least), Some(short)) => least.lower_to(short),
            (None, short) => self.short.clone_from(short),
            (Some(_), None) => {}
        }
    }
}
