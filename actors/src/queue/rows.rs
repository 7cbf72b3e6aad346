//! Rows: the children of a queue. Those with pending asks are in order, each with its bound.
//!
//! Applications whose user or group is limited are ordered lane by lane ([`Lanes`]), since a lane
//! at its limit can be skipped as a whole; all other applications, and queues, are in one order.
//! The first child of the queue is the earlier of the first children of both orders.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monoceros_rules::limits::{LaneId, Trackers};
use monoceros_rules::order::keys::{MIN_PRIORITY, SiblingOrder, Verdict};
use monoceros_rules::order::tree::{Bound, OrderedTree};
use monoceros_rules::values::slots::Slots;
use monoceros_rules::waiting::{Phase, View, Waits};

use super::lanes::{Lanes, lower};
use crate::step::{RowKey, RowSlot, RowUpdate};

/// A rank among siblings with pending asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    /// The number of siblings before it.
    pub(crate) before: usize,
    /// The number of siblings with pending asks, itself included.
    pub(crate) of: usize,
    /// The path of the first queue, or the id of the first application.
    pub(crate) first: Arc<str>,
}

/// The child that an offer goes to.
pub(super) struct First<C> {
    pub(super) child: C,
    /// The runner-up: no other child that may use the offer comes before this key.
    pub(super) runner_up: Option<RowKey>,
    /// The rule that put it before its runner-up, if that was requested.
    pub(super) verdict: Verdict,
}

#[derive(Clone, Serialize, Deserialize)]
struct Row<C> {
    child: C,
    /// `None` while nothing is pending.
    key: Option<RowKey>,
    /// The lane of an application that a limit of its user or group concerns.
    lane: Option<LaneId>,
    priority: i32,
}

/// The children of a queue, each in a numbered row. A child is the address of an actor, or a number
/// in tests.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Rows<C> {
    table: Slots<RowSlot, Row<C>>,
    /// The rows without a lane, in order.
    order: OrderedTree<RowKey, RowSlot, Waits>,
    lanes: Lanes,
    /// The number of ordered rows of each priority.
    priorities: BTreeMap<i32, u32>,
}

impl<C> Default for Rows<C> {
    fn default() -> Self {
        Self {
            table: Slots::default(),
            order: OrderedTree::default(),
            lanes: Lanes::default(),
            priorities: BTreeMap::new(),
        }
    }
}

impl<C> Rows<C> {
    /// Returns the same rows in the same order, with other children.
    pub(super) fn map<D>(&self, child: impl Fn(RowSlot, &C) -> D) -> Rows<D> {
        let Self { table, order, lanes, priorities } = self;
        let row = |slot, row: &Row<C>| Row {
            child: child(slot, &row.child),
            key: row.key.clone(),
            lane: row.lane,
            priority: row.priority,
        };
        Rows {
            table: table.map(row),
            order: order.clone(),
            lanes: lanes.clone(),
            priorities: priorities.clone(),
        }
    }
}

impl<C: Clone> Rows<C> {
    /// Returns the row that the next child gets.
    pub(super) fn next(&self) -> RowSlot {
        self.table.next()
    }

    pub(super) fn add(&mut self, child: C) -> RowSlot {
        self.table.insert(Row { child, key: None, lane: None, priority: MIN_PRIORITY })
    }

    pub(super) fn remove(&mut self, slot: RowSlot) {
        if let Some(Row { key: Some(key), lane, priority, .. }) = self.table.take(slot) {
            debug_assert!(lane.is_none(), "whoever leaves asks for nothing");
            self.order.remove(&key);
            self.forget_priority(priority);
        }
    }

    /// Returns the first child in order that may use an offer in this phase. If `ordered` has the
    /// order of the rows, the result names the rule that put the child first.
    pub(super) fn first(
        &mut self,
        phase: Phase,
        view: &View<'_>,
        trackers: &mut Trackers,
        ordered: Option<SiblingOrder>,
    ) -> Option<First<C>> {
        let found = |row: &Row<C>, key: &RowKey, runner_up: Option<RowKey>| {
            let verdict = ordered.map(|order| key.verdict(runner_up.as_ref(), order));
            let verdict = verdict.unwrap_or_default();
            First { child: row.child.clone(), runner_up, verdict }
        };
        let may = |waits: &Waits| waits.may(phase, &View { limits: Some(trackers), ..*view });
        if self.lanes.is_empty() {
            let [first, second] = self.order.first_two(may);
            let (key, slot, _) = first?;
            return Some(found(self.row(*slot), key, second.map(|(key, ..)| key.clone())));
        }
        let first = self.order.first(may);
        let leaders = self.lanes.first(phase, view, first.map(|(key, ..)| key), trackers);
        let mut runner_up = leaders.next;
        match (&leaders.first, first) {
            (Some((key, slot)), first) => {
                lower(&mut runner_up, first.map(|(key, ..)| key.clone()));
                Some(found(self.row(*slot), key, runner_up))
            }
            (None, Some((key, slot, _))) => {
                let second = self.order.first_after(key, |waits| waits.may(phase, view));
                lower(&mut runner_up, second.map(|(key, ..)| key.clone()));
                Some(found(self.row(*slot), key, runner_up))
            }
            (None, None) => None,
        }
    }

    /// Returns the rank of a row among those with pending asks; `None` if no ask is pending below
    /// it.
    pub(super) fn rank(&self, slot: RowSlot) -> Option<Rank> {
        let key = self.table.find(slot)?.key.as_ref()?;
        let first = [self.order.iter().next().map(|(first, ..)| first), self.lanes.first_key()];
        let first = first.into_iter().flatten().min()?;
        Some(Rank {
            before: self.order.rank(key) + self.lanes.rank(key),
            of: self.order.len() + self.lanes.len(),
            first: Arc::clone(first.name()),
        })
    }

    /// Returns the lanes of the rows whose users or groups are limited.
    pub(super) fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// Returns the bound over all rows.
    pub(super) fn waits(&self) -> Waits {
        let mut waits = self.order.bound().cloned().unwrap_or_default();
        if let Some(lanes) = self.lanes.waits() {
            waits.join(lanes);
        }
        waits
    }

    /// Returns the highest pending priority.
    pub(super) fn priority(&self) -> i32 {
        self.priorities.last_key_value().map_or(MIN_PRIORITY, |(priority, _)| *priority)
    }

    /// Applies the update of a child.
    pub(super) fn update(&mut self, update: RowUpdate, trackers: &mut Trackers) {
        let lane = update.lane;
        let old = self.take(update);
        for lane in old.into_iter().chain(lane.filter(|lane| Some(*lane) != old)) {
            self.lanes.reseat(lane, trackers);
        }
    }

    /// Applies the updates of many children; after a change of limits, those of all children
    /// concerned. Children may have changed lanes, so no lane is checked before all updates are
    /// applied.
    pub(super) fn update_all(&mut self, updates: Vec<RowUpdate>, trackers: &mut Trackers) {
        let mut lanes = BTreeSet::new();
        for update in updates {
            lanes.extend(update.lane);
            lanes.extend(self.take(update));
        }
        self.lanes.reseat_all(&lanes, trackers);
    }

    /// Checks lanes again whose limits were loosened; see [`Lanes::look_again`].
    pub(super) fn look_again(&mut self, lanes: &[LaneId], trackers: &mut Trackers) {
        self.lanes.look_again(lanes, trackers);
    }

    /// Applies the update to the rows. Returns the lane that the row was in. This lane and the new
    /// one have still to be reseated.
    fn take(&mut self, update: RowUpdate) -> Option<LaneId> {
        let RowUpdate { row: slot, key, lane, priority, waits } = update;
        let row = &mut self.table[slot];
        let old_priority = std::mem::replace(&mut row.priority, priority);
        let old_lane = std::mem::replace(&mut row.lane, lane);
        let old_key = std::mem::replace(&mut row.key, key.clone());
        if old_key.is_some() != key.is_some() || old_priority != priority {
            if key.is_some() {
                *self.priorities.entry(priority).or_default() += 1;
            }
            if old_key.is_some() {
                self.forget_priority(old_priority);
            }
        }
        match (old_key, key) {
            (None, None) => {}
            (Some(old), Some(new)) if old_lane == lane => match lane {
                Some(lane) => self.lanes.rekey(lane, &old, new, waits),
                None if old == new => {
                    self.order.set_bound(&old, waits);
                }
                None => {
                    self.order.rekey(&old, new, waits);
                }
            },
            (old, new) => {
                match (old, old_lane) {
                    (Some(old), Some(lane)) => self.lanes.remove(lane, &old),
                    (Some(old), None) => {
                        self.order.remove(&old);
                    }
                    (None, _) => {}
                }
                match (new, lane) {
                    (Some(new), Some(lane)) => self.lanes.insert(lane, new, slot, waits),
                    (Some(new), None) => self.order.insert(new, slot, waits),
                    (None, _) => {}
                }
            }
        }
        old_lane
    }

    fn row(&self, slot: RowSlot) -> &Row<C> {
        &self.table[slot]
    }

    fn forget_priority(&mut self, priority: i32) {
        if let Some(count) = self.priorities.get_mut(&priority) {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&priority);
            }
        }
    }
}

#[cfg(test)]
mod tests;
