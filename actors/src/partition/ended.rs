//! Applications that are over: summed up when they end or are removed, taken in when they end or are
//! rejected, told when they expire, and forgotten
//! (`docs/applications.md#what-is-kept-of-an-application-that-is-over`). What is kept, and for how
//! long, is decided by `monoceros_rules::applications::ended`.
//!
//! # Invariants
//! * An application is kept in the step in which it ends, so that nobody sees it in both places or
//!   in neither.
//! * An application that ran is summed up once, however it left.
//! * One deadline at most is armed for all of them, and none while nothing is kept.

use std::sync::Arc;
use std::time::Duration;

use monoceros_config as config;
use monoceros_rules::applications::application_state::{ApplicationEvent, ApplicationState};
use monoceros_rules::applications::ended::{Ended, EndedApplications};
use monoceros_rules::applications::resource_seconds::Account;
use monoceros_rules::values::instant;

use super::Partition;
use crate::events::{Event, EventKind, Message, Summary};
use crate::step::{Alarm, Baton, Entered, Notice};

/// The applications of a partition that are over, and whether a deadline is armed for them.
pub(super) struct Kept {
    applications: EndedApplications,
    is_armed: bool,
}

impl Kept {
    /// At most so many in each list.
    pub(super) fn new(most: usize) -> Self {
        Self { applications: EndedApplications::new(most), is_armed: false }
    }

    pub(super) fn applications(&self) -> &EndedApplications {
        &self.applications
    }

    /// Arms a deadline for what is due next, unless one is armed: what comes later is due later.
    fn arm(&mut self, baton: &mut Baton) {
        if self.is_armed {
            return;
        }
        let Some(due_ns) = self.applications.due_ns() else { return };
        let wait = u64::try_from(due_ns.saturating_sub(baton.now_ns)).unwrap_or(0);
        baton.alarms.push((Duration::from_nanos(wait), Alarm::Retention));
        self.is_armed = true;
    }
}

impl Partition {
    /// Sums up what left in the step that came home, and takes in what ended.
    pub(super) fn keep_terminated(&mut self, baton: &mut Baton) {
        if baton.terminated.is_empty() && baton.removed.is_empty() {
            return;
        }
        for removed in std::mem::take(&mut baton.removed) {
            self.sum_up(&removed, baton);
        }
        for ended in std::mem::take(&mut baton.terminated) {
            self.sum_up(&ended, baton);
            self.application_gone(&ended.id, baton);
            self.keep_ended(ended, baton);
        }
    }

    /// Takes in an application that ended or was rejected.
    pub(super) fn keep_ended(&mut self, ended: Ended, baton: &mut Baton) {
        self.ended.applications.keep(ended);
        self.ended.arm(baton);
    }

    /// What was kept for its time expires, and is removed some time later.
    pub(super) fn expire_ended(&mut self, baton: &mut Baton) {
        self.ended.is_armed = false;
        let now_ns = baton.now_ns;
        for expired in self.ended.applications.pass(now_ns) {
            let state = ApplicationState::Expired;
            let is_again = baton.directory.application_slot(&expired.id).is_some();
            if expired.is_rejected || is_again {
                // The RM was never told of the one, and would take the other for the new run.
                baton.happens(|at| {
                    Event::of(EventKind::AppState(state), &expired.id, at).in_queue(&expired.queue)
                });
                continue;
            }
            baton.notices.push(Notice::ApplicationUpdated(Arc::new(Entered {
                application: expired.id,
                queue: expired.queue,
                state,
                at_ns: now_ns,
                message: ApplicationEvent::Expire.text(),
            })));
        }
        self.ended.arm(baton);
    }

    /// Tells in the log and in events what became of an application, and what it has used, if it
    /// ever ran.
    fn sum_up(&self, ended: &Ended, baton: &mut Baton) {
        let Some(started_ns) = ended.started_ns else { return };
        let rm = config::rm_id(&self.name);
        let [submitted, started, finished] =
            [ended.submitted_ns, started_ns, ended.finished_ns].map(instant::rfc3339);
        tracing::info!(
            target: "core.scheduler.application.usage",
            application = %ended.id,
            state = %ended.state,
            %submitted,
            %started,
            %finished,
            %rm,
            user = %ended.user,
            queue = %ended.queue,
            used = %ended.history.used,
            preempted = %ended.history.preempted,
            placeholder = %ended.history.placeholder,
            "application summary"
        );
        let summary = Summary {
            rm: Arc::from(rm),
            queue: Arc::clone(&ended.queue),
            user: Arc::clone(&ended.user),
            state: ended.state,
            submitted_ns: ended.submitted_ns,
            started_ns,
            finished_ns: ended.finished_ns,
        };
        let event = |kind, at| Event::of(kind, &ended.id, at).in_queue(&ended.queue);
        let message = Message::Summary(Box::new(summary));
        baton.happens(|at| event(EventKind::AppSummary, at).with_message(message));
        for (account, counted) in [
            (Account::Used, &ended.history.used),
            (Account::Preempted, &ended.history.preempted),
            (Account::Placeholder, &ended.history.placeholder),
        ] {
            let text = Message::Says(account.text());
            for (instance_type, amount) in counted.iter() {
                baton.happens(|at| {
                    let used = event(EventKind::AppUsed(account), at).referring(instance_type);
                    used.amount(amount).with_message(text.clone())
                });
            }
        }
    }
}
