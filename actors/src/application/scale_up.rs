//! What an application says for the scale-up signal (applications chapter, 3.8): see
//! `partition::scale_up`.

use std::sync::Arc;

use monoceros_rules::decide::scale_up::ApplicationWaiting;

use super::{Application, Blocked};
use crate::events::EventKind;
use crate::snapshot::OutstandingRequest;
use crate::step::{Baton, Notice, RowKey};

impl Application {
    /// What was tried and waits; and whether the application itself waits to be let run.
    pub(super) fn say_waiting(&mut self, baton: &mut Baton) {
        let Some(RowKey::Application(key)) = self.key() else { return };
        let leaf = self.leaf_facts.slot;
        let starts = self.book.is_starting();
        let trackers = &baton.books.trackers;
        let lane = self.limited_lane();
        let blocked = Blocked {
            by_queue: starts && !baton.walk.may_start(leaf),
            by_quota: starts && lane.is_some_and(|lane| !trackers.may_start(lane)),
        };
        self.set_blocked(blocked, baton);
        let classes = self.book.asks.tried(self.reached());
        if !classes.is_empty() {
            let rooms = lane.map(|lane| baton.books.trackers.rooms(lane)).into_iter().flatten();
            let mut limits = Vec::new();
            for (limit, left) in rooms {
                baton.walk.limits.insert(limit, left);
                limits.push(limit);
            }
            // The place of the leaf is known when every queue is.
            let application = self.slot;
            let waiting = ApplicationWaiting { application, leaf: 0, key, limits, classes };
            baton.walk.waiting.push((leaf, waiting));
        }
    }

    /// Tells the RM of those asks of the wanted ones that it was not told of.
    pub(super) fn signal(&mut self, baton: &mut Baton) {
        let reached = self.reached();
        for (class, count) in baton.walk.wanted.remove(&self.slot).unwrap_or_default() {
            for key in self.book.asks.signal(class, count, reached) {
                let application = Arc::clone(&self.book.id);
                baton.notices.push(Notice::WantsMachines { application, key });
            }
        }
    }

    /// The wanted asks, for people.
    pub(super) fn show_outstanding(&mut self, baton: &mut Baton) {
        let asks = &self.book.asks;
        for (class, count) in baton.walk.wanted.remove(&self.slot).unwrap_or_default() {
            if asks.shape(class).required_node().is_some() {
                continue;
            }
            for (slot, count) in asks.first_tried(class, count, self.reached()) {
                if baton.walk.outstanding.len() >= baton.walk.outstanding_limit {
                    return;
                }
                let ask = asks.ask(slot);
                baton.walk.outstanding.push(OutstandingRequest {
                    partition: String::new(),
                    application: self.book.id.to_string(),
                    key: ask.key.to_string(),
                    queue: self.book.queue.to_string(),
                    resource: ask.resources.clone(),
                    count,
                    tags: ask.tags.as_deref().cloned().unwrap_or_default(),
                    pending_since_ns: ask.created_ns,
                });
            }
        }
    }

    /// The application may run, or may not because of a maximum of running applications.
    pub(super) fn set_blocked(&mut self, blocked: Blocked, baton: &mut Baton) {
        let was = std::mem::replace(&mut self.blocked, blocked);
        if was.by_queue != blocked.by_queue {
            let is_blocked = blocked.by_queue;
            let row = if is_blocked {
                EventKind::AppBlockedByQueue
            } else {
                EventKind::AppRunnableByQueue
            };
            baton.happens(|at| self.event(row, at));
        }
        if was.by_quota != blocked.by_quota {
            let is_blocked = blocked.by_quota;
            let row = if is_blocked {
                EventKind::AppBlockedByQuota
            } else {
                EventKind::AppRunnableByQuota
            };
            baton.happens(|at| self.event(row, at));
        }
    }
}
