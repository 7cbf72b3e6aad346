//! Ended applications: logged when they end or are removed, kept when they end, are removed or are
//! rejected, reported when they expire, and then forgotten
//! (`docs/applications.md#what-is-kept-of-an-application-that-is-over`).
//! `monoceros_rules::applications::ended` decides what is kept, and for how long.
//!
//! # Invariants
//! * An application is kept in the step in which it ends or is removed, so that every reader sees
//!   it either among the live applications or among the ended ones, and never twice.
//! * An application that ran is logged once, whether it ended or was removed.
//! * At most one deadline is armed for all kept applications, and none while none is kept.

use std::sync::Arc;

use monoceros_config as config;
use monoceros_rules::applications::application_state::{ApplicationEvent, ApplicationState};
use monoceros_rules::applications::ended::Ended;
use monoceros_rules::applications::resource_seconds::Account;
use monoceros_rules::values::instant;

use super::Partition;
use crate::events::{Event, EventKind, Message, Summary};
use crate::step::{Alarm, Baton, Entered, Notice};

impl Partition {
    /// Logs and keeps the applications that ended or were removed in the step that is over.
    pub(super) fn keep_terminated(&mut self, baton: &mut Baton) {
        if baton.effects.ended.terminated.is_empty() && baton.effects.ended.removed.is_empty() {
            return;
        }
        for removed in std::mem::take(&mut baton.effects.ended.removed) {
            self.sum_up(&removed, baton);
            self.keep_ended(removed.into_removed(), baton);
        }
        for ended in std::mem::take(&mut baton.effects.ended.terminated) {
            self.sum_up(&ended, baton);
            self.application_gone(&ended.id, baton);
            self.keep_ended(ended, baton);
        }
    }

    /// Keeps an application that ended, was removed or was rejected.
    pub(super) fn keep_ended(&mut self, ended: Ended, baton: &mut Baton) {
        self.ended.keep(ended);
        self.arm_retention(baton);
    }

    fn arm_retention(&mut self, baton: &mut Baton) {
        if let Some(due_ns) = self.ended.due_to_arm() {
            baton.effects.remind_at(due_ns, baton.now_ns, Alarm::Retention);
        }
    }

    /// Lets applications expire whose time among the terminated ones is over, and reports that.
    /// They are removed some time later.
    pub(super) fn expire_ended(&mut self, baton: &mut Baton) {
        let now_ns = baton.now_ns;
        for expired in self.ended.expire(now_ns) {
            let state = ApplicationState::Expired;
            let is_again = baton.directory.application_slot(&expired.id).is_some();
            if expired.is_rejected || is_again {
                // The RM does not know of a rejected application, and would take the expiry of an
                // earlier run for that of the new one.
                baton.happens(|at| {
                    Event::of(EventKind::AppState(state), &expired.id, at).in_queue(&expired.queue)
                });
                continue;
            }
            baton.effects.notify(Notice::ApplicationUpdated(Arc::new(Entered {
                application: expired.id,
                queue: expired.queue,
                state,
                at_ns: now_ns,
                message: ApplicationEvent::Expire.text(),
            })));
        }
        self.arm_retention(baton);
    }

    /// Reports in the log and in events how an application ended and what it has used, if it ever
    /// ran.
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
