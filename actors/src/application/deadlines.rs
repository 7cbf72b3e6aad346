//! Deadlines of an application as a whole: its back-off, and the time that it may run.

use monoceros_rules::applications::application_state::{ApplicationEvent, ApplicationState};
use monoceros_rules::applications::backoff::{self, Backoff};
use monoceros_rules::order::keys::AskKey;

use super::Application;
use super::effects::VisitEffects;
use crate::step::{Baton, Op};

/// What the RM is told of an application that ran for too long.
const STATE_TEXT: &str = "ExecutionTimeout";
/// What it is told of everything that ends with it.
const TEXT: &str = "execution timeout of the application";

impl Application {
    /// The pass ended with this ask: nothing more is tried for a while.
    pub(super) fn back_off(&mut self, reached: AskKey, baton: &mut Baton) {
        let delay = self.leaf_facts.config.settings.backoff_delay.max(backoff::LEAST);
        let backoff = Backoff::begin(reached, delay, baton.now_ns);
        if let Some(until_ns) = backoff.until_ns() {
            baton.effects.remind(delay, self.alarm(Op::BackoffOver { until_ns }));
        }
        self.backoff = Some(backoff);
        tracing::debug!(application = %self.book.id, ?delay, "backs off");
    }

    /// Until when it is left alone, ns since the epoch; `None` if it does not back off.
    pub(super) fn backs_off_until(&self) -> Option<i64> {
        self.backoff.as_ref().and_then(Backoff::until_ns)
    }

    /// Its time is over: it fails, and everything that it asks for and holds is to go. One that
    /// completes at the moment is left alone.
    pub(super) fn run_over(
        &mut self,
        until_ns: i64,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        if !self.run_limit.is_over(until_ns) {
            return;
        }
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
