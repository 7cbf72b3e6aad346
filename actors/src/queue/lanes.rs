//! Lanes: the applications of a leaf whose user or group is limited, grouped by the limits that
//! apply to them.
//!
//! # A lane is a queue between leaf and applications
//! All applications of a lane have the same headroom by the limits of their user and group, and all
//! or none of them may start. So a lane narrows an offer as a queue does ([`Narrowed`]), and asks
//! that it holds back are not seen from above: ten thousand applications of a user at the limit are
//! one entry of the leaf that is skipped.
//!
//! # Order
//! Lanes are sorted by their first applications. To find the first application that may use an
//! offer, lanes are searched in this order, until the next lane begins behind the best application
//! found. A lane without such an application notes the epoch of the search, as a queue does, and is
//! skipped until something changes.
//!
//! The chosen application keeps the offer while it comes before its runner-up. The runner-up may be
//! the head of a lane that was not searched, though that application may be unable to use the
//! offer. Then the offer comes back to the leaf once more than needed, and the leaf decides as it
//! would have otherwise.
//!
//! # Invariants
//! * Every lane in [`Lanes`] has a row, and is in the order under the key of its first row. If rows
//!   move to another lane, the old lane is reseated (put into the order again) first: no two lanes
//!   are ever under the same key.
//! * A lane that is not in [`Lanes`] holds nothing back.
//! * The bound that a lane shows above may rest on wider limits than those in force: a lane is not
//!   notified when its limits get tighter. When limits get looser and a pending ask here may
//!   continue, the partition has the lane checked ([`Lanes::look_again`]); it knows of such lanes
//!   because each reports to the trackers the asks that it holds back ([`Trackers::hold_back`]).
//!   Asks that wait for a limit shared by many lanes are seen from above, and no lane holds them
//!   back ([`ShownBy`]).

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use monoceros_rules::limits::{HeldBack, LaneId, ShownBy, Trackers};
use monoceros_rules::order::tree::OrderedTree;
use monoceros_rules::values::epoch::Loosening;
use monoceros_rules::values::resources::{Limits, Resources};
use monoceros_rules::waiting::{Declined, Phase, View, WaitSet, Waits};

use crate::step::{RowKey, RowSlot};

/// The headroom left by queues, user and group.
pub(crate) struct Narrowed {
    headroom: Limits,
    loosening: Loosening,
    may_start: bool,
}

impl Narrowed {
    pub(crate) fn of(lane: LaneId, view: &View<'_>, trackers: &Trackers) -> Self {
        let mut headroom = view.headroom.clone();
        trackers.narrow(lane, &mut headroom);
        Self {
            headroom,
            loosening: view.loosening.max(trackers.loosened(lane)),
            may_start: view.may_start && trackers.may_start(lane),
        }
    }

    /// Calls `look` with the view of an application: the view of its leaf, narrowed by its lane if
    /// the application is in one.
    pub(crate) fn looking<T>(
        lane: Option<LaneId>,
        view: &View<'_>,
        trackers: &Trackers,
        look: impl FnOnce(&View<'_>) -> T,
    ) -> T {
        match lane {
            None => look(view),
            Some(lane) => look(&Self::of(lane, view, trackers).view(view)),
        }
    }

    /// Returns `view` with this narrower headroom.
    pub(crate) fn view<'a>(&'a self, view: &View<'a>) -> View<'a> {
        let Self { headroom, loosening, may_start } = self;
        View { headroom, loosening: *loosening, may_start: *may_start, limits: None, ..*view }
    }
}

/// The lanes of a leaf, each with its rows, in the order of their first rows.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Lanes {
    #[serde(with = "monoceros_rules::values::pairs")]
    lanes: BTreeMap<LaneId, LaneRows>,
    order: OrderedTree<RowKey, LaneId, Waits>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct LaneRows {
    rows: OrderedTree<RowKey, RowSlot, Waits>,
    /// The key of the lane in the order of lanes; `None` until it is in that order.
    head: Option<RowKey>,
    /// The epochs of the last search without result.
    declined: Declined,
    /// The asks that the lane holds back, as last reported to the trackers.
    held_back: HeldBack,
    /// The limits under which the lane shows the asks that wait for them, as last reported to the
    /// trackers.
    shown: ShownBy,
}

/// The row that gets an offer, and its runner-up.
#[derive(Default)]
pub(super) struct Leaders {
    pub(super) first: Option<(RowKey, RowSlot)>,
    /// The runner-up: no other row that may use the offer comes before this key.
    pub(super) next: Option<RowKey>,
}

impl Lanes {
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Whether one more application of each lane may run, as far as limits of users and groups go.
    pub(super) fn may_start(&self, trackers: &Trackers) -> bool {
        self.lanes.keys().all(|lane| trackers.may_start(*lane))
    }

    /// Returns the number of rows in all lanes.
    pub(super) fn len(&self) -> usize {
        self.lanes.values().map(|lane| lane.rows.len()).sum()
    }

    /// Returns the number of rows before this key.
    pub(super) fn rank(&self, key: &RowKey) -> usize {
        self.lanes.values().map(|lane| lane.rows.rank(key)).sum()
    }

    /// Returns the key of the first row.
    pub(super) fn first_key(&self) -> Option<&RowKey> {
        self.order.iter().next().map(|(first, ..)| first)
    }

    /// Returns the bound over all lanes.
    pub(super) fn waits(&self) -> Option<&Waits> {
        self.order.bound()
    }

    // The next three functions change rows of a lane, which is not in order until it is reseated.

    pub(super) fn insert(&mut self, lane: LaneId, key: RowKey, row: RowSlot, waits: Waits) {
        self.lanes.entry(lane).or_default().rows.insert(key, row, waits);
    }

    pub(super) fn remove(&mut self, lane: LaneId, key: &RowKey) {
        if let Some(lane) = self.lanes.get_mut(&lane) {
            lane.rows.remove(key);
        }
    }

    pub(super) fn rekey(&mut self, lane: LaneId, old: &RowKey, new: RowKey, waits: Waits) {
        if let Some(lane) = self.lanes.get_mut(&lane) {
            if *old == new {
                lane.rows.set_bound(old, waits);
            } else {
                lane.rows.rekey(old, new, waits);
            }
        }
    }

    /// Reseats many lanes at once. First, each lane whose first row has changed gives up its old
    /// key. Only then lanes get new keys, because an old key may belong to another lane now.
    pub(super) fn reseat_all(&mut self, ids: &BTreeSet<LaneId>, trackers: &mut Trackers) {
        for id in ids {
            let Some(lane) = self.lanes.get_mut(id) else { continue };
            let first = lane.rows.iter().next().map(|(first, ..)| first);
            if first != lane.head.as_ref()
                && let Some(head) = lane.head.take()
            {
                self.order.remove(&head);
            }
        }
        for id in ids {
            self.reseat(*id, trackers);
        }
    }

    /// Puts a lane into the order under the key of its first row, with the bound that is seen from
    /// above. A lane without rows is removed and holds nothing back.
    pub(super) fn reseat(&mut self, id: LaneId, trackers: &mut Trackers) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        let Some((first, ..)) = lane.rows.iter().next() else {
            if let Some(head) = &lane.head {
                self.order.remove(head);
            }
            self.lanes.remove(&id);
            trackers.hold_back(id, HeldBack::default());
            trackers.show(id, ShownBy::default());
            return;
        };
        let (seen, held_back, shown) = lane.seen(id, trackers);
        if lane.held_back != held_back {
            trackers.hold_back(id, held_back.clone());
            lane.held_back = held_back;
        }
        if lane.shown != shown {
            trackers.show(id, shown);
            lane.shown = shown;
        }
        let is_there = match &lane.head {
            Some(head) if head == first => {
                if self.order.get(head).is_some_and(|(_, bound)| *bound == seen) {
                    return;
                }
                self.order.set_bound(head, seen)
            }
            Some(head) => self.order.rekey(head, first.clone(), seen),
            None => {
                self.order.insert(first.clone(), id, seen);
                true
            }
        };
        debug_assert!(is_there, "a lane stands under its head");
        lane.head = Some(first.clone());
    }

    /// Checks lanes again whose limits were loosened.
    pub(super) fn look_again(&mut self, lanes: &[LaneId], trackers: &mut Trackers) {
        for lane in lanes {
            self.reseat(*lane, trackers);
        }
    }

    /// Returns the first row that may use the offer, if it comes before `rival`.
    pub(super) fn first(
        &mut self,
        phase: Phase,
        view: &View<'_>,
        rival: Option<&RowKey>,
        trackers: &mut Trackers,
    ) -> Leaders {
        let mut leaders = Leaders::default();
        let mut looked_at: Option<RowKey> = None;
        loop {
            let seen = View { limits: Some(trackers), ..*view };
            let may = |waits: &Waits| waits.may(phase, &seen);
            let found = match &looked_at {
                None => self.order.first(may),
                Some(key) => self.order.first_after(key, may),
            };
            let Some((head, id, _)) = found else { return leaders };
            let (head, id) = (head.clone(), *id);
            let leader = leaders.first.as_ref().map(|(key, _)| key).or(rival);
            if leader.is_some_and(|leader| *leader < head) {
                lower(&mut leaders.next, Some(head));
                return leaders;
            }
            let narrowed = Narrowed::of(id, view, trackers);
            let own = narrowed.view(view);
            let lane = self.lanes.get_mut(&id).expect("a lane in order is here");
            let may = |waits: &Waits| waits.may(phase, &own);
            match lane.rows.first(may) {
                None => {
                    lane.declined.note(phase, own.epoch());
                    self.reseat(id, trackers);
                }
                Some((key, row, _)) if leader.is_none_or(|leader| key < leader) => {
                    let second = lane.rows.first_after(key, may).map(|(key, ..)| key.clone());
                    let beaten = leaders.first.replace((key.clone(), *row));
                    lower(&mut leaders.next, beaten.map(|(key, _)| key));
                    lower(&mut leaders.next, second);
                }
                Some((key, ..)) => lower(&mut leaders.next, Some(key.clone())),
            }
            looked_at = Some(head);
        }
    }
}

#[cfg(test)]
impl Lanes {
    /// Checks that every lane is in the order under the key of its first row.
    pub(super) fn check(&self) {
        assert_eq!(self.order.len(), self.lanes.len(), "a lane is out of order");
        for (id, lane) in &self.lanes {
            let head = lane.head.as_ref().expect("a lane is seated");
            assert_eq!(lane.rows.iter().next().map(|(first, ..)| first), Some(head));
            assert_eq!(self.order.get(head).map(|(lane, _)| lane), Some(id));
        }
    }
}

/// Lowers `least` to the other key, if that is smaller.
pub(super) fn lower(least: &mut Option<RowKey>, other: Option<RowKey>) {
    if let Some(other) = other
        && least.as_ref().is_none_or(|least| other < *least)
    {
        *least = Some(other);
    }
}

impl LaneRows {
    /// Returns the bound of the lane as it is seen from above, the asks that the lane holds back
    /// unseen, and the limits under which it shows asks that wait for them.
    fn seen(&self, id: LaneId, trackers: &mut Trackers) -> (Waits, HeldBack, ShownBy) {
        let waits = self.rows.bound().cloned().unwrap_or_default();
        let is_parked = |set: &WaitSet| matches!(set, WaitSet::Parked(_));
        let headroom = if waits.bound_by_quota().any(is_parked) {
            trackers.headroom(id)
        } else {
            Limits::unlimited()
        };
        let (loosening, may_start) = (trackers.loosened(id), trackers.may_start(id));
        let own = View::of_quota(&headroom, loosening, may_start);
        // The least amount over all asks that wait for quota, and not only over those that the lane
        // itself holds back. This least amount may fit although none of the asks does; then only a
        // loosening of this lane starts a new check.
        let short = least_short(waits.bound_by_quota());
        let starting = !may_start && waits.has_starting();
        let by = ShownBy {
            quota: short.as_ref().and_then(|least| trackers.shared_limit(id, least)),
            starts: starting.then(|| trackers.shared_limit_of_starts(id)).flatten(),
        };
        let held_back = HeldBack {
            short: short.filter(|_| by.quota.is_none()),
            starting: starting && by.starts.is_none(),
        };
        (waits.as_seen_past_limits(&own, &self.declined, by), held_back, by)
    }
}

/// Returns the component-wise least amount that waits for quota in any of these sets.
fn least_short<'a>(sets: impl Iterator<Item = &'a WaitSet>) -> Option<Resources> {
    let short = |set: &'a WaitSet| match set {
        WaitSet::Parked(parked) => parked.short.as_ref(),
        WaitSet::Nothing | WaitSet::Due => None,
    };
    let mut all = sets.filter_map(short);
    let mut least = all.next()?.clone();
    for other in all {
        least.lower_to(other);
    }
    Some(least)
}
