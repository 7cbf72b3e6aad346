//! Deadlines: one ordered list and one timer per partition, whoever asked to be reminded.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use monoceros_rules::allocations::ApplicationSlot;
use tokio::time::Instant;

use super::{Entry, Partition, Task};
use crate::application::Op;
use crate::baton::{Alarm, Baton};

/// How long an application stays Completing (applications chapter, 0.1).
pub(crate) const COMPLETING_TIMEOUT: Duration = Duration::from_secs(30);
/// After how long an ask that every node refused is tried again, at first and at most.
pub(crate) const PREDICATE_RETRY: Duration = Duration::from_secs(1);
pub(crate) const PREDICATE_RETRY_MAX: Duration = Duration::from_secs(30);
/// The earliest deadline is due.
#[derive(Message)]
#[rtype(result = "()")]
struct Ring;

impl Partition {
    /// Notes the step's deadlines and keeps one timer for the earliest.
    pub(super) fn arm(&mut self, baton: &mut Baton, ctx: &mut Context<Self>) {
        if !baton.alarms.is_empty() {
            let now = Instant::now();
            for (wait, alarm) in baton.alarms.drain(..) {
                // A wait beyond what the clock can hold never ends.
                if let Some(due) = now.checked_add(wait) {
                    self.deadlines.insert((due, self.next_deadline), alarm);
                    self.next_deadline += 1;
                }
            }
        }
        let Some(&(due, _)) = self.deadlines.keys().next() else { return };
        if self.timer.as_ref().is_some_and(|(at, _)| *at <= due) {
            return;
        }
        if let Some((_, handle)) = self.timer.take() {
            ctx.cancel_future(handle);
        }
        let wait = due.saturating_duration_since(Instant::now());
        let handle = ctx.run_later(wait, |partition, ctx| {
            partition.timer = None;
            ctx.notify(Ring);
        });
        self.timer = Some((due, handle));
    }

    pub(super) fn alarm(&mut self, alarm: Alarm, baton: &mut Baton) {
        let is_same = |baton: &Baton, slot: ApplicationSlot, id: &Arc<str>| {
            baton.directory.application(slot).is_some_and(|entry| entry.id == *id)
        };
        match alarm {
            Alarm::Completing { application, id, since_ns } => {
                if is_same(baton, application, &id) {
                    let ops = vec![Op::CompletingOver { since_ns }];
                    self.agenda.push_back(Task::Visit(application, ops));
                }
            }
            Alarm::PredicateRetry { application, id, key, changes } => {
                if !is_same(baton, application, &id) {
                    return;
                }
                if baton.books.node_changes() == changes {
                    let again = Alarm::PredicateRetry { application, id, key, changes };
                    baton.alarms.push((PREDICATE_RETRY_MAX, again));
                } else {
                    self.agenda.push_back(Task::Visit(application, vec![Op::Retry { key }]));
                }
            }
            Alarm::ExecutionTimeout { allocation } => {
                if let Some(entry) = baton.books.allocations.get(allocation) {
                    let ops = vec![Op::Overdue(allocation)];
                    self.agenda.push_back(Task::Visit(entry.application, ops));
                }
            }
        }
    }
}

impl Handler<Ring> for Partition {
    type Result = ();

    fn handle(&mut self, _: Ring, ctx: &mut Self::Context) {
        let now = Instant::now();
        while let Some(entry) = self.deadlines.first_entry() {
            if entry.key().0 > now {
                break;
            }
            self.door.push_back(Entry::Alarm(entry.remove()));
        }
        self.turn(ctx);
    }
}
