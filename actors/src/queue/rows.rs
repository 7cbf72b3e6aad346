//! The children of a queue: those with something pending in order, each with its bound.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::Addr;
use monoceros_rules::order::MIN_PRIORITY;
use monoceros_rules::ordered::OrderedTree;
use monoceros_rules::waits::{View, Waits};

use super::Queue;
use crate::application::Application;
use crate::baton::{RowKey, RowSlot, RowUpdate};

/// Who is below a row.
#[derive(Clone)]
pub(super) enum Child {
    Queue(Arc<Addr<Queue>>),
    Application(Arc<Addr<Application>>),
}

struct Row {
    child: Child,
    /// `None` while nothing is pending.
    key: Option<RowKey>,
    priority: i32,
}

/// See the module.
#[derive(Default)]
pub(super) struct Rows {
    places: Vec<Option<Row>>,
    free: Vec<u32>,
    order: OrderedTree<RowKey, RowSlot, Waits>,
    /// How many ordered rows have each priority.
    priorities: BTreeMap<i32, u32>,
}

impl Rows {
    /// The row that the next child gets.
    pub(super) fn next(&self) -> RowSlot {
        let fresh = || u32::try_from(self.places.len()).expect("the children of a queue fit u32");
        RowSlot(self.free.last().copied().unwrap_or_else(fresh))
    }

    pub(super) fn add(&mut self, child: Child) -> RowSlot {
        let row = Row { child, key: None, priority: MIN_PRIORITY };
        if let Some(slot) = self.free.pop() {
            self.places[slot as usize] = Some(row);
            return RowSlot(slot);
        }
        self.places.push(Some(row));
        RowSlot(u32::try_from(self.places.len() - 1).expect("the children of a queue fit u32"))
    }

    pub(super) fn remove(&mut self, slot: RowSlot) {
        if let Some(Row { key: Some(key), priority, .. }) = self.places[slot.0 as usize].take() {
            self.order.remove(&key);
            self.forget_priority(priority);
        }
        self.free.push(slot.0);
    }

    /// The first child in order that may use an offer, and the key of the next one that may.
    pub(super) fn first(&self, view: &View<'_>) -> Option<(Child, Option<RowKey>)> {
        let may = |waits: &Waits| waits.may(view);
        let (key, slot, _) = self.order.first(may)?;
        let runner_up = self.order.first_after(key, may).map(|(key, _, _)| key.clone());
        Some((self.row(*slot).child.clone(), runner_up))
    }

    /// The bound over all rows.
    pub(super) fn waits(&self) -> Waits {
        self.order.bound().cloned().unwrap_or_default()
    }

    /// The highest priority of what is pending.
    pub(super) fn priority(&self) -> i32 {
        self.priorities.last_key_value().map_or(MIN_PRIORITY, |(priority, _)| *priority)
    }

    pub(super) fn update(&mut self, update: RowUpdate) {
        let row = self.places[update.row.0 as usize].as_mut().expect("a child that speaks is here");
        let old_priority = std::mem::replace(&mut row.priority, update.priority);
        match (row.key.take(), update.key) {
            (None, None) => {}
            (Some(old), None) => {
                self.order.remove(&old);
                self.forget_priority(old_priority);
            }
            (None, Some(new)) => {
                row.key = Some(new.clone());
                self.order.insert(new, update.row, update.waits);
                *self.priorities.entry(update.priority).or_default() += 1;
            }
            (Some(old), Some(new)) => {
                row.key = Some(new.clone());
                if old == new {
                    self.order.set_bound(&old, update.waits);
                } else {
                    self.order.rekey(&old, new, update.waits);
                }
                if old_priority != update.priority {
                    *self.priorities.entry(update.priority).or_default() += 1;
                    self.forget_priority(old_priority);
                }
            }
        }
    }

    fn row(&self, slot: RowSlot) -> &Row {
        self.places[slot.0 as usize].as_ref().expect("an ordered row is in use")
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
