//! The trackers: for each user and group a tree of places that mirrors the queues.
//!
//! A limit on a queue counts the usage below it, too. So usage is kept at every level of the path:
//! reading each level gives what is left, and otherwise a whole subtree would have to be summed up.
//!
//! # Invariants
//! * A place exists as long as a limit names its owner there, a lane ends there, or a place below
//!   it exists. The paths of a tracker's places are its queues' paths, each below the one above.
//! * Usage and running count are zero at a place where no lane ends, nor below it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::ids::{LaneId, PlaceId};
use super::lanes::HeldBack;
use super::subject::Subject;
use super::tables::{Limit, Tables, upward};
use crate::values::epoch::Loosening;
use crate::values::resources::Resources;
use crate::values::slots::Slots;

/// The place of a user or group for one queue: its usage and limit there.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) subject: Subject,
    pub(super) path: Arc<str>,
    pub(super) above: Option<PlaceId>,
    pub(super) below: BTreeMap<Arc<str>, PlaceId>,
    pub(super) usage: Resources,
    /// Applications that count as running.
    pub(super) running: u64,
    pub(super) limit: Option<Arc<Limit>>,
    /// The number of the last step that gave more room under the limit here.
    pub(super) loosened: Loosening,
    /// The number of lanes that end here or below.
    pub(super) n_lanes: u32,
    /// The number of its limit, if it has one ([`super::shared`]).
    pub(super) number: Option<u8>,
    /// Lanes that end here.
    pub(super) lanes: BTreeSet<LaneId>,
    /// The lanes that end here and hold something back.
    pub(super) waiting: BTreeSet<LaneId>,
    /// A lower bound of everything that lanes ending here or below hold back.
    pub(super) bound: HeldBack,
    /// Whether the place is among [`Forest::marked`].
    is_marked: bool,
}

/// The trees of places of all users and groups.
#[derive(Debug, Default)]
pub(super) struct Forest {
    roots: BTreeMap<Subject, PlaceId>,
    places: Slots<PlaceId, Place>,
    /// Places whose lanes may continue since their last check.
    marked: Vec<PlaceId>,
}

impl Place {
    /// Whether one more application may run, as far as this place goes.
    pub(super) fn may_start(&self) -> bool {
        let most = self.limit.as_ref().map_or(0, |limit| limit.applications);
        most == 0 || self.running < most
    }

    /// Whether the limit here leaves this amount.
    pub(super) fn allows(&self, amount: &Resources) -> bool {
        let max = self.limit.as_ref().and_then(|limit| limit.resources.as_ref());
        max.is_none_or(|max| max.less(&self.usage).allows(amount))
    }

    /// Whether any of what is held back here and below may continue, as far as this place is
    /// concerned.
    pub(super) fn may_let_on(&self) -> bool {
        let HeldBack { short, starting } = &self.bound;
        short.as_ref().is_some_and(|least| self.allows(least)) || (*starting && self.may_start())
    }
}

impl Forest {
    pub(super) fn get(&self, id: PlaceId) -> &Place {
        &self.places[id]
    }

    pub(super) fn get_mut(&mut self, id: PlaceId) -> &mut Place {
        &mut self.places[id]
    }

    pub(super) fn is_there(&self, id: PlaceId) -> bool {
        self.places.find(id).is_some()
    }

    /// The first place of each tracker: users by name, then groups by name.
    pub(super) fn roots(&self) -> impl Iterator<Item = (&Subject, PlaceId)> {
        self.roots.iter().map(|(subject, root)| (subject, *root))
    }

    /// Returns the roots behind this one, whether it exists or not; see [`Self::roots`].
    pub(super) fn roots_behind<'a>(
        &'a self,
        subject: &Subject,
    ) -> impl Iterator<Item = (&'a Subject, PlaceId)> + use<'a> {
        let behind = self.roots.range((Bound::Excluded(subject), Bound::Unbounded));
        behind.map(|(subject, root)| (subject, *root))
    }

    pub(super) fn root(&self, subject: &Subject) -> Option<PlaceId> {
        self.roots.get(subject).copied()
    }

    /// A place and those above it.
    pub(super) fn chain(&self, from: PlaceId) -> impl Iterator<Item = PlaceId> {
        std::iter::successors(Some(from), |id| self.get(*id).above)
    }

    /// Returns all places, tracker by tracker, each before those below it.
    pub(super) fn in_order(&self) -> Vec<PlaceId> {
        let mut order = Vec::new();
        for (_, root) in self.roots() {
            let mut to_visit = vec![root];
            while let Some(id) = to_visit.pop() {
                order.push(id);
                to_visit.extend(self.get(id).below.values().rev());
            }
        }
        order
    }

    /// Changes a place and all above it.
    pub(super) fn change(&mut self, from: PlaceId, mut change: impl FnMut(&mut Place)) {
        let mut at = Some(from);
        while let Some(id) = at {
            let place = self.get_mut(id);
            change(place);
            at = place.above;
        }
    }

    /// Changes a place and all above it, with more room. Marks the highest limited place on the
    /// way, so that lanes waiting below are checked.
    pub(super) fn loosen(
        &mut self,
        from: PlaceId,
        loosening: Loosening,
        change: impl Fn(&mut Place),
    ) {
        let mut highest = None;
        let mut at = Some(from);
        while let Some(id) = at {
            let place = self.get_mut(id);
            change(place);
            if place.limit.is_some() {
                place.loosened = loosening;
                highest = Some(id);
            }
            at = place.above;
        }
        if let Some(highest) = highest {
            self.mark(highest);
        }
    }

    /// Marks a place, so that lanes waiting there and below are checked.
    pub(super) fn mark(&mut self, id: PlaceId) {
        if !std::mem::replace(&mut self.get_mut(id).is_marked, true) {
            self.marked.push(id);
        }
    }

    /// Takes a marked place and clears its mark.
    pub(super) fn take_marked(&mut self) -> Option<PlaceId> {
        loop {
            let id = self.marked.pop()?;
            // A place may have been removed since it was marked, and its number may be free or
            // another's now.
            if self.is_there(id) {
                self.get_mut(id).is_marked = false;
                return Some(id);
            }
        }
    }

    /// Returns the place of a user or group for a path. Adds it if it is missing, with all above
    /// it.
    pub(super) fn place(&mut self, subject: &Subject, path: &str, tables: &Tables) -> PlaceId {
        let mut paths: Vec<&str> = upward(path).collect();
        let top = paths.pop().expect("a path is one of its own");
        let mut at = match self.root(subject) {
            Some(root) => root,
            None => self.plant(subject, top, None, tables),
        };
        for path in paths.into_iter().rev() {
            at = match self.get(at).below.get(path) {
                Some(below) => *below,
                None => self.plant(subject, path, Some(at), tables),
            };
        }
        at
    }

    fn plant(
        &mut self,
        subject: &Subject,
        path: &str,
        above: Option<PlaceId>,
        tables: &Tables,
    ) -> PlaceId {
        let path: Arc<str> = Arc::from(path);
        let place = Place {
            subject: subject.clone(),
            path: Arc::clone(&path),
            above,
            below: BTreeMap::new(),
            usage: Resources::new(),
            running: 0,
            limit: tables.limit(&path, subject).cloned(),
            loosened: Loosening::NONE,
            n_lanes: 0,
            number: None,
            lanes: BTreeSet::new(),
            waiting: BTreeSet::new(),
            bound: HeldBack::default(),
            is_marked: false,
        };
        let id = self.places.insert(place);
        match above {
            Some(above) => self.get_mut(above).below.insert(path, id),
            None => self.roots.insert(subject.clone(), id),
        };
        id
    }

    /// Removes a place that is not needed, and then each one above it that is not needed any more.
    pub(super) fn sweep(&mut self, id: PlaceId, tables: &Tables) {
        let mut at = Some(id);
        while let Some(id) = at {
            let Some(place) = self.places.find(id) else { return };
            let is_needed = !place.below.is_empty()
                || !place.lanes.is_empty()
                || tables.names(&place.path, &place.subject);
            if is_needed {
                return;
            }
            debug_assert!(place.usage.is_empty() && place.running == 0, "{place:?} is in use");
            let place = self.places.remove(id);
            match place.above {
                Some(above) => self.get_mut(above).below.remove(&place.path),
                None => self.roots.remove(&place.subject),
            };
            at = place.above;
        }
    }
}
