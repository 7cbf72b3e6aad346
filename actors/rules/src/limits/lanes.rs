//! Lanes: what user and group leave is the same for all applications of one.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::places::PlaceId;
use crate::resources::Resources;

/// A lane: a place in [`Trackers`](super::Trackers). A number may be used again once its lane is
/// gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub(super) u32);

/// What a lane's headroom, or its number of running applications, holds back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeldBack {
    /// The component-wise least of what waits for headroom.
    pub short: Option<Resources>,
    /// Applications wait to start.
    pub starting: bool,
}

/// User, group if any, leaf.
pub(super) type LaneKey = (Arc<str>, Option<Arc<str>>, Arc<str>);

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) key: LaneKey,
    /// The user's place for the leaf.
    pub(super) user: PlaceId,
    /// The group's.
    pub(super) group: Option<PlaceId>,
    /// Of both and of those above them the places with a limit: all that is looked at when something
    /// is to be placed.
    pub(super) limited: SmallVec<[PlaceId; 4]>,
    /// Its applications, and whether each counts as running.
    pub(super) applications: BTreeMap<Arc<str>, bool>,
    pub(super) held_back: HeldBack,
    /// The last reload took a limit away that its group was chosen by.
    pub(super) lost_limit: bool,
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
            lost_limit: false,
        }
    }

    /// The places where it ends.
    pub(super) fn ends(&self) -> impl Iterator<Item = PlaceId> + use<> {
        [Some(self.user), self.group].into_iter().flatten()
    }

    /// An application counts as running from now on, or not any more.
    pub(super) fn run(&mut self, application: &str, is_running: bool) {
        let counts = self.applications.get_mut(application).expect("it is in its lane");
        debug_assert_ne!(*counts, is_running, "{application} starts or stops twice");
        *counts = is_running;
    }

    pub(super) fn leaf(&self) -> &Arc<str> {
        &self.key.2
    }
}

impl HeldBack {
    /// Whether there is anything.
    pub(super) fn is_any(&self) -> bool {
        self.short.is_some() || self.starting
    }

    /// Lowers this to the least of both.
    pub(super) fn include(&mut self, other: &Self) {
        self.starting |= other.starting;
        match (&mut self.short, &other.short) {
            (Some(least), Some(short)) => least.lower_to(short),
            (None, short) => self.short.clone_from(short),
            (Some(_), None) => {}
        }
    }
}
