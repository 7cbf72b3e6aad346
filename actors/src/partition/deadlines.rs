//! Deadlines: one ordered list and one timer per partition, for all its actors.
//!
//! A deadline that is over is a step like any other: it enters the partition and changes state with
//! the baton in hand, which a timer inside an application could not have.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use monoceros_rules::values::ids::ApplicationSlot;
use tokio::time::Instant;

use super::input::Input;
use super::surveys::QuotaScan;
use super::{Partition, Task};
use crate::metrics::ActorKind;
use crate::step::{Alarm, Baton, Op};

/// How long a dynamic queue is kept while it is empty.
pub(super) const CLEANING_INTERVAL: Duration = Duration::from_secs(10);

/// Sent by the timer: the earliest deadline is due.
#[derive(Message)]
#[rtype(result = "()")]
struct Ring;

impl Partition {
    /// Notes the step's deadlines and keeps one timer for the earliest.
    pub(super) fn arm(&mut self, baton: &mut Baton, ctx: &mut Context<Self>) {
        if !baton.alarms.is_empty() || !baton.timers.is_empty() {
            let now = Instant::now();
            for (wait, alarm) in baton.alarms.drain(..) {
                self.note_deadline(now, wait, None, alarm);
            }
            for (wait, timer, alarm) in baton.timers.drain(..) {
                self.note_deadline(now, wait, Some(timer), alarm);
            }
        }
        for timer in baton.disarmed.drain(..) {
            if let Some(deadline) = self.due.remove(&timer) {
                self.deadlines.remove(&deadline);
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

    /// Notes a deadline; `timer` is the number by which it can be disarmed.
    fn note_deadline(&mut self, now: Instant, wait: Duration, timer: Option<u64>, alarm: Alarm) {
        // A wait beyond what the clock can hold never ends.
        let Some(due) = now.checked_add(wait) else { return };
        let deadline = (due, self.next_deadline);
        self.next_deadline += 1;
        if let Some(timer) = timer {
            self.due.insert(timer, deadline);
        }
        self.deadlines.insert(deadline, (timer, alarm));
    }

    pub(super) fn alarm(&mut self, alarm: Alarm, baton: &mut Baton) {
        let mut visit = |application: ApplicationSlot, id: &Arc<str>, op: Op| {
            let entry = baton.directory.application(application);
            // Its slot may be that of another by now.
            if entry.is_some_and(|entry| entry.id == *id) {
                self.agenda.push_back(Task::Visit(application, vec![op]));
            }
        };
        match alarm {
            Alarm::Completing { application, id, since_ns } => {
                visit(application, &id, Op::CompletingOver { since_ns });
            }
            Alarm::PredicateRetry { application, id, key, retry } => {
                visit(application, &id, Op::Retry { key, retry });
            }
            Alarm::ChoiceOpens { application, id, key } => {
                visit(application, &id, Op::ChoiceOpens(key));
            }
            Alarm::ExclusionOver { application, id, key, over } => {
                visit(application, &id, Op::ExclusionOver { key, over });
            }
            Alarm::Backoff { application, id, until_ns } => {
                visit(application, &id, Op::BackoffOver { until_ns });
            }
            Alarm::Start { application, id, over } => {
                visit(application, &id, Op::StartTimeOver(over));
            }
            Alarm::OldEnough { application, id, at_ns } => {
                visit(application, &id, Op::OldEnough { at_ns });
            }
            Alarm::MayPreempt { application, id, at_ns } => {
                visit(application, &id, Op::MayPreempt { at_ns: Some(at_ns) });
            }
            Alarm::PlaceholderTimeout { application, id } => {
                visit(application, &id, Op::PlaceholdersOver);
            }
            Alarm::BundleVoid { application, id, since_ns } => {
                visit(application, &id, Op::BundleVoid { since_ns });
            }
            Alarm::HoldAgainOver { application, id, order } => {
                visit(application, &id, Op::HoldAgainOver { order });
            }
            Alarm::BundleRetry { application, id, retry } => {
                visit(application, &id, Op::RetryBundle { retry });
            }
            Alarm::PairRetry { application, id, retry } => {
                visit(application, &id, Op::RetryPairs { retry });
            }
            Alarm::RunOver { application, id, until_ns } => {
                visit(application, &id, Op::RunOver { until_ns });
            }
            Alarm::PromisesWaited => baton.end_waited_promises(),
            Alarm::QuotaScan { at_ns } => {
                // An earlier look was armed after this one.
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
                    let ops = vec![Op::Overdue(allocation)];
                    self.agenda.push_back(Task::Visit(entry.application, ops));
                }
            }
        }
    }
}

impl Partition {
    /// Some reservations may have waited for quota as long as they may: whether they are given up
    /// is found out by the next offer.
    fn reservations_waited(&mut self, baton: &mut Baton) {
        let timeout = baton.patience.wait_timeout;
        let (waited, next_ns) = baton.books.reservations.waited(baton.now_ns, timeout);
        for (application, key) in waited {
            self.agenda.push_back(Task::Visit(application, vec![Op::ReservationWaited(key)]));
        }
        if let Some(next_ns) = next_ns {
            let wait_ns = u64::try_from(next_ns.saturating_sub(baton.now_ns)).unwrap_or(0);
            baton.alarms.push((Duration::from_nanos(wait_ns), Alarm::ReservationsWaited));
        }
    }
}

impl Handler<Ring> for Partition {
    type Result = ();

    fn handle(&mut self, _: Ring, ctx: &mut Self::Context) {
        let _timer = self.metrics.handles(ActorKind::Partition);
        let now = Instant::now();
        while let Some(entry) = self.deadlines.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let (timer, alarm) = entry.remove();
            if let Some(timer) = timer {
                self.due.remove(&timer);
            }
            self.inbox.push_input(Input::Alarm(alarm));
        }
        self.turn(ctx);
    }
}
