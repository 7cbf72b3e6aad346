//! An application that may run for a certain time only:
//! `docs/applications.md#applications-that-run-for-too-long`.
//!
//! # Invariant
//! * The time begins with the first entry into Running and is never set anew, so that an
//!   application cannot gain time by completing and coming back.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use monoceros_rules::applications::application_state::{ApplicationEvent, ApplicationState};

use super::Application;
use super::ops::VisitEffects;
use crate::step::{Alarm, Baton};

/// What the RM is told of an application that ran for too long.
const STATE_TEXT: &str = "ExecutionTimeout";
/// What it is told of everything that ends with it.
const TEXT: &str = "execution timeout of the application";

/// How long an application may run, and until when it may.
#[derive(Default)]
pub(super) struct RunLimit {
    /// None: for ever.
    limit_ms: Option<NonZeroU64>,
    /// The end of its time, ns since the epoch, and the timer for it; once it has begun to run.
    until: Option<(i64, u64)>,
}

impl RunLimit {
    pub(super) fn new(limit_ms: Option<NonZeroU64>) -> Self {
        Self { limit_ms, until: None }
    }
}

impl Application {
    /// It enters Running: its time begins, unless it has begun before.
    pub(super) fn begin_run(&mut self, baton: &mut Baton) {
        let Some(limit_ms) = self.run_limit.limit_ms.take() else { return };
        let wait = Duration::from_millis(limit_ms.get());
        let wait_ns = i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX);
        let until_ns = baton.now_ns.saturating_add(wait_ns);
        let id = Arc::clone(&self.book.id);
        let timer = baton.arm(wait, Alarm::RunOver { application: self.slot, id, until_ns });
        self.run_limit.until = Some((until_ns, timer));
    }

    /// It is over or leaves: its time does not matter any more.
    pub(super) fn end_run(&mut self, baton: &mut Baton) {
        baton.disarmed.extend(self.run_limit.until.take().map(|(_, timer)| timer));
    }

    /// Its time is over: it fails, and everything that it asks for and holds is to go. One that
    /// completes at the moment is left alone.
    pub(super) fn run_over(
        &mut self,
        until_ns: i64,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        if self.run_limit.until.is_none_or(|(until, _)| until != until_ns) {
            return;
        }
        self.run_limit.until = None;
        let now_ns = baton.now_ns;
        self.book.fire_because(ApplicationEvent::Fail, STATE_TEXT, now_ns, &mut self.changes);
        if self.book.state() != ApplicationState::Failing {
            return;
        }
        effects.delta.running += self.tell_changes(baton);
        for id in self.all_allocations() {
            self.overdue(id, TEXT, baton, effects);
        }
        self.give_up_asks(false, TEXT, baton, effects);
        // One that holds nothing has failed at once.
        effects.left.asks = true;
        effects.touched = true;
    }
}
