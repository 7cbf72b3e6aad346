//! Reloads limits while the trackers have usage.
//!
//! # What changes
//! Limits change at once and everywhere; usage never changes. An application that counts for a
//! group keeps it, because a new choice with every reload would move the usage of running work
//! between groups. Its group is chosen again only if a limit was removed that the group had on the
//! path of its leaf. An application that counts for no group chooses one if another group gets a
//! limit there, as a new application would: otherwise its usage would not count under the new
//! limit. In both cases the usage of the application moves with it.
//!
//! The rule for people is in `docs/limits.md#other-limits-while-applications-run`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ids::{LaneId, PlaceId};
use super::lanes::Lane;
use super::places::Place;
use super::subject::Subject;
use super::tables::{Tables, upward};
use super::trackers::{Joined, Trackers};
use crate::values::epoch::Loosening;
use crate::values::resources::Resources;

/// The effects of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Leaves that have a lane whose limits changed, or whose applications choose their group
    /// again: [`Trackers::rejoin`] has to be called for each application of them.
    pub leaves: BTreeSet<Arc<str>>,
    /// Every limit of a tracked user or group, and every removed one: users by name, then groups by
    /// name, each from root down, queues by path. Each is reported as an event.
    pub events: Vec<LimitEvent>,
}

/// A limit that a user or group has on a queue, or no longer has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitEvent {
    /// The user or group.
    pub subject: Subject,
    /// The path of the queue.
    pub path: Arc<str>,
    /// Whether there is a limit, changed or not.
    pub is_set: bool,
}

/// The applications whose group is chosen again when other limits come into force.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Regrouping {
    tables: Arc<Tables>,
    /// The limits of groups that are removed, each with the path of its queue.
    gone: BTreeSet<(Arc<str>, Arc<str>)>,
    /// The queues on which a further group is limited.
    gained: BTreeSet<Arc<str>>,
}

impl Regrouping {
    fn of(old: &Tables, new: &Arc<Tables>) -> Self {
        let groups = |tables: &Tables| -> BTreeSet<(Arc<str>, Arc<str>)> {
            let named = tables.named().filter_map(|(path, subject)| match subject {
                Subject::Group(group) => Some((Arc::clone(path), group)),
                Subject::User(_) => None,
            });
            named.collect()
        };
        let (before, after) = (groups(old), groups(new));
        let gained = after.difference(&before).map(|(path, _)| Arc::clone(path)).collect();
        let gone = before.difference(&after).cloned().collect();
        Self { tables: Arc::clone(new), gone, gained }
    }

    /// Whether applications of the lane choose their group again. Applications that count for no
    /// group had no limited group to choose before.
    fn concerns(&self, lane: &Lane) -> bool {
        let (_, group, leaf) = &lane.key;
        match group {
            None => upward(leaf).any(|path| self.gained.contains(path)),
            Some(group) if !self.gone.is_empty() => {
                upward(leaf).any(|path| self.gone.contains(&(Arc::from(path), Arc::clone(group))))
            }
            Some(_) => false,
        }
    }

    /// Returns the leaves of all lanes whose applications choose their group again.
    pub fn leaves(&self, trackers: &Trackers) -> BTreeSet<Arc<str>> {
        let lanes = trackers.lanes.ids().into_iter().map(|id| trackers.lanes.get(id));
        lanes.filter(|lane| self.concerns(lane)).map(|lane| Arc::clone(&lane.key.2)).collect()
    }

    /// Returns the group that an application of the lane counts for now, and the one that it would
    /// count for; `None` if both are the same.
    pub fn moves(&self, trackers: &Trackers, lane: LaneId, groups: &[String]) -> Option<Moves> {
        let lane = trackers.lanes.get(lane);
        let (_, from, leaf) = &lane.key;
        let to = self.concerns(lane).then(|| self.tables.select_group(leaf, groups))?;
        (to != *from).then(|| Moves { from: from.clone(), to })
    }
}

/// A move from one group, or none, to another group, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moves {
    /// The group before the move.
    pub from: Option<Arc<str>>,
    /// The group after the move.
    pub to: Option<Arc<str>>,
}

impl Trackers {
    /// Returns the applications whose group would be chosen again if these limits came into force.
    pub fn regrouping(&self, tables: &Arc<Tables>) -> Regrouping {
        Regrouping::of(&self.tables, tables)
    }

    /// Puts other limits in force; `loosening` is the number of the step. `None` if the limits are
    /// the same, which costs one comparison.
    pub fn reload(&mut self, tables: &Arc<Tables>, loosening: Loosening) -> Option<Reloaded> {
        if self.tables == *tables {
            return None;
        }
        let regrouping = self.regrouping(tables);
        self.tables = Arc::clone(tables);
        self.loosened = loosening;
        for (path, subject) in self.tables.named() {
            self.forest.place(&subject, path, &self.tables);
        }
        let (events, changed) = self.apply_limits();
        let leaves = self.move_lanes(&regrouping, &changed);
        Some(Reloaded { leaves, events })
    }

    /// Returns every limit of a tracked user or group: users by name, then groups by name, each
    /// from root down, queues by path.
    pub fn limits(&self) -> Vec<LimitEvent> {
        let places = self.forest.in_order().into_iter().map(|id| self.forest.get(id));
        let limited = places.filter(|place| place.limit.is_some());
        let event = |place: &Place| {
            let (subject, path) = (place.subject.clone(), Arc::clone(&place.path));
            LimitEvent { subject, path, is_set: true }
        };
        limited.map(event).collect()
    }

    /// Removes the entries that no limit names any more and that are not in use, and updates the
    /// limits of all others. Returns the events to be reported, and the entries whose limit
    /// changed.
    fn apply_limits(&mut self) -> (Vec<LimitEvent>, BTreeSet<PlaceId>) {
        let mut places = Vec::new();
        for id in self.forest.in_order() {
            let place = self.forest.get(id);
            places.push((id, place.subject.clone(), Arc::clone(&place.path), place.limit.clone()));
        }
        for (id, ..) in &places {
            self.forest.sweep(*id, &self.tables);
        }
        let (mut events, mut changed) = (Vec::new(), BTreeSet::new());
        for (id, subject, path, old) in places {
            let mut limit = None;
            if self.forest.is_there(id) {
                limit = self.tables.limit(&path, &subject).cloned();
                self.forest.get_mut(id).limit.clone_from(&limit);
                if old != limit {
                    self.forest.mark(id);
                    changed.insert(id);
                }
            }
            let is_set = limit.is_some();
            if is_set || old.is_some() {
                events.push(LimitEvent { subject, path, is_set });
            }
        }
        (events, changed)
    }

    /// Records which entries limit each lane, and whether its applications choose their group
    /// again. Returns the leaves with a lane for which either changed.
    fn move_lanes(
        &mut self,
        regrouping: &Regrouping,
        changed: &BTreeSet<PlaceId>,
    ) -> BTreeSet<Arc<str>> {
        let mut leaves = BTreeSet::new();
        for id in self.lanes.ids() {
            let lane = self.lanes.get_mut(id);
            let leaf = Arc::clone(&lane.key.2);
            let chooses_anew = regrouping.concerns(lane);
            lane.chooses_anew = chooses_anew;
            let before = std::mem::take(&mut lane.limited);
            self.note_limited(id);
            let limited = &self.lanes.get(id).limited;
            if chooses_anew || before != *limited || limited.iter().any(|it| changed.contains(it)) {
                leaves.insert(leaf);
            }
        }
        leaves
    }

    /// Moves an application of [`Reloaded::leaves`] with its usage; to be called once for each.
    /// `None` if it stays in its lane. Otherwise its group was chosen again: its own usage moved
    /// from the old group to the new one, and it is in another lane.
    ///
    /// A new limit does not move it from one group to another, even if that limit is closer to the
    /// leaf than the one by which its group was chosen.
    pub fn rejoin(
        &mut self,
        lane: LaneId,
        application: &Arc<str>,
        groups: &[String],
        used: &Resources,
    ) -> Option<Joined> {
        let slot = self.lanes.get(lane);
        if !slot.chooses_anew {
            return None;
        }
        let (whose, before, leaf) = slot.key.clone();
        if self.tables.select_group(&leaf, groups) == before {
            return None;
        }
        // The usage is subtracted before it is added: the sum of both might be more than can be
        // counted.
        let is_running = slot.applications[application];
        let step = self.loosened;
        self.charge(lane, &Resources::new().minus(used), step);
        if is_running {
            self.stop(lane, application, step);
        }
        let joined = self.join(&whose, groups, application, &leaf);
        self.charge(joined.lane, used, Loosening::NONE);
        if is_running {
            self.start(joined.lane, application);
        }
        self.leave(lane, application);
        Some(joined)
    }
}
