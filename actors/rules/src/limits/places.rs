//! The trackers: for each user and group a tree that mirrors the queues, with an entry (place) for
//! each.
//!
//! A limit on a queue counts the usage below it, too. So usage is kept at every level of the path:
//! the headroom follows from reading each level, and no subtree has to be summed up.
//!
//! # Invariants
//! * An entry exists as long as a limit names its owner for the queue, a lane ends there, or an
//!   entry below it exists. The paths of a tracker's entries are the paths of their queues, each
//!   below its parent.
//! * Usage and running count are zero at an entry if no lane ends there or below it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ids::{LaneId, PlaceId};
use super::lanes::HeldBack;
use super::subject::Subject;
use super::tables::{Limit, Tables, upward};
use crate::values::epoch::Loosening;
use crate::values::resources::Resources;
use crate::values::slots::Slots;

/// The entry of a user or group for one queue: its usage and limit there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) subject: Subject,
    pub(super) path: Arc<str>,
    pub(super) above: Option<PlaceId>,
    pub(super) below: BTreeMap<Arc<str>, PlaceId>,
    pub(super) usage: Resources,
    /// The number of applications that count as running.
    pub(super) running: u64,
    pub(super) limit: Option<Arc<Limit>>,
    /// The number of the last step that freed headroom under the limit here.
    pub(super) loosened: Loosening,
    /// The number of lanes that end here or below.
    pub(super) n_lanes: u32,
    /// The id (*number*) under which this limit is shared by several lanes; `None` if it has none.
    /// See [`super::shared`].
    pub(super) number: Option<u8>,
    /// Lanes that end here.
    pub(super) lanes: BTreeSet<LaneId>,
    /// The lanes that end here and hold asks or applications back.
    pub(super) waiting: BTreeSet<LaneId>,
    /// A lower bound of all that lanes ending here or below hold back.
    pub(super) bound: HeldBack,
    /// Whether the entry is among [`Forest::marked`].
    is_marked: bool,
}

/// The trees of all users and groups.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Forest {
    #[serde(with = "crate::values::pairs")]
    roots: BTreeMap<Subject, PlaceId>,
    places: Slots<PlaceId, Place>,
    /// Entries whose lanes may continue since their last check.
    marked: Vec<PlaceId>,
}

impl Place {
    /// Whether the limit here lets one more application run.
    pub(super) fn may_start(&self) -> bool {
        let most = self.limit.as_ref().map_or(0, |limit| limit.applications);
        most == 0 || self.running < most
    }

    /// Whether the limit here leaves at least this amount.
    pub(super) fn allows(&self, amount: &Resources) -> bool {
        let max = self.limit.as_ref().and_then(|limit| limit.resources.as_ref());
        max.is_none_or(|max| max.less(&self.usage).allows(amount))
    }

    /// Whether the limit here may let any of the asks and applications continue that are held back
    /// here and below.
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

    /// Returns the top entry of each tracker: users by name, then groups by name.
    pub(super) fn roots(&self) -> impl Iterator<Item = (&Subject, PlaceId)> {
        self.roots.iter().map(|(subject, root)| (subject, *root))
    }

    /// Returns the top entries after the one of this subject, which need not exist; see
    /// [`Self::roots`].
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

    /// Returns an entry and all above it.
    pub(super) fn chain(&self, from: PlaceId) -> impl Iterator<Item = PlaceId> {
        std::iter::successors(Some(from), |id| self.get(*id).above)
    }

    /// Returns all entries, tracker by tracker, each before the entries below it.
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

    /// Changes an entry and all above it.
    pub(super) fn change(&mut self, from: PlaceId, mut change: impl FnMut(&mut Place)) {
        let mut at = Some(from);
        while let Some(id) = at {
            let place = self.get_mut(id);
            change(place);
            at = place.above;
        }
    }

    /// Changes an entry and all above it so that headroom is freed. Marks the highest limited entry
    /// on the way, so that lanes waiting below it are checked.
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

    /// Marks an entry, so that lanes waiting there and below are checked.
    pub(super) fn mark(&mut self, id: PlaceId) {
        if !std::mem::replace(&mut self.get_mut(id).is_marked, true) {
            self.marked.push(id);
        }
    }

    /// Returns a marked entry and clears its mark.
    pub(super) fn take_marked(&mut self) -> Option<PlaceId> {
        loop {
            let id = self.marked.pop()?;
            // An entry may have been removed since it was marked; its slot may be free or have
            // another entry now.
            if self.is_there(id) {
                self.get_mut(id).is_marked = false;
                return Some(id);
            }
        }
    }

    /// Returns the entry of a user or group for a path. Adds it, and missing ones above it, if
    /// there is none.
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

    /// Removes an entry that is not needed, and then each one above it that is not needed any more.
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
