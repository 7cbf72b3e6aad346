//! Deadlines: one ordered list and one timer per partition, for all its actors.
//!
//! A deadline that is over is a step like any other: it enters the partition and changes state with
//! the baton in hand, which a timer inside an application could not have.

use std::time::Duration;

use actix::prelude::*;
use tokio::time::Instant;

use super::input::Input;
use super::surveys::QuotaScan;
use super::{Partition, Task};
use crate::metrics::ActorKind;
use crate::step::{Alarm, Baton, DueOp, Op, ReservationOp};

/// Time that a dynamic queue is kept while it is empty.
pub(super) const CLEANING_INTERVAL: Duration = Duration::from_secs(10);

/// Sent by the timer: the earliest deadline is due.
#[derive(Message)]
#[rtype(result = "()")]
struct Ring;

impl Partition {
    /// Adds the deadlines armed in the step, and sets the one timer to the earliest deadline.
    pub(super) fn arm(&mut self, baton: &mut Baton, ctx: &mut Context<Self>) {
        self.deadlines.take_in(&mut baton.effects.deadlines);
        let Some(due) = self.deadlines.next_due() else { return };
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
        match alarm {
            Alarm::Order { application, id, op } => {
                let entry = baton.directory.application(application);
                // The application may have been removed, and its slot given to another.
                if entry.is_some_and(|entry| entry.id == id) {
                    self.agenda.push_back(Task::Visit(application, vec![*op]));
                }
            }
            Alarm::NominationsWaited => baton.end_waited_nominations(),
            Alarm::QuotaScan { at_ns } => {
                // Otherwise an earlier scan was armed after this one, and replaced it.
                if baton.directory.next_quota_scan_ns == Some(at_ns) {
                    baton.directory.next_quota_scan_ns = None;
                    self.agenda.push_back(Task::survey(QuotaScan::default()));
                }
            }
            Alarm::ReservationsWaited => self.reservations_waited(baton),
            Alarm::ScaleUp => self.signal_scale_up(baton),
            Alarm::CleanQueues => self.clean_queues(baton),
            Alarm::Retention => self.expire_ended(baton),
            Alarm::ReorderWindow => self.expire_waiting(baton),
            Alarm::ExecutionTimeout { allocation } => {
                if let Some(entry) = baton.books.allocations.get(allocation) {
                    let ops = vec![Op::Due(DueOp::Overdue(allocation))];
                    self.agenda.push_back(Task::Visit(entry.application, ops));
                }
            }
        }
    }
}

impl Partition {
    /// Visits the applications whose reservations may have waited for quota as long as they may.
    fn reservations_waited(&mut self, baton: &mut Baton) {
        let timeout = baton.settings.patience.wait_timeout;
        let (waited, next_ns) = baton.books.reservations.waited(baton.now_ns, timeout);
        for (application, key) in waited {
            self.agenda.push_back(Task::Visit(
                application,
                vec![Op::Reservation(ReservationOp::ReservationWaited(key))],
            ));
        }
        if let Some(next_ns) = next_ns {
            baton.effects.remind_at(next_ns, baton.now_ns, Alarm::ReservationsWaited);
        }
    }
}

impl Handler<Ring> for Partition {
    type Result = ();

    fn handle(&mut self, _: Ring, ctx: &mut Self::Context) {
        let _timer = self.metrics.handles(ActorKind::Partition);
        let now = Instant::now();
        while let Some(alarm) = self.deadlines.pop_due(now) {
            self.inbox.push_input(Input::Alarm(alarm));
        }
        self.turn(ctx);
    }
}
