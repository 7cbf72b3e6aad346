//! Changes and notices of one application that need the baton and the application's book, but no
//! state of its actor.

use std::sync::Arc;

use monoceros_rules::allocations::Allocation;
use monoceros_rules::applications::application::{Application as Book, StateChange};
use monoceros_rules::applications::application_state::ApplicationState;
use monoceros_rules::runtimes::{ClassCache, Run, RunLength, Whose};
use monoceros_rules::specs::ask::{AskSpec, Form};
use monoceros_rules::specs::quotas::{Held, Quota};
use monoceros_rules::specs::rejection::{Ignored, Rejection};
use monoceros_rules::values::ids::{AllocationId, ApplicationSlot};

use super::{AskReleased, Baton, Ending, Entered, Notice, QueueSlot};

impl Baton {
    /// Counts the present usage of an application against the quotas of its RM. An application that
    /// was removed is not counted.
    pub(crate) fn count_application(&mut self, slot: ApplicationSlot, now: Held) {
        if let Some(entry) = self.directory.applications.find_mut(slot)
            && entry.held != now
        {
            let before = std::mem::replace(&mut entry.held, now);
            self.books.quotas.change(before, now);
        }
    }

    /// Adds an allocation that ends to the application's usage over time.
    pub(crate) fn count_use(&self, book: &mut Book, entry: &Allocation, was_preempted: bool) {
        let instance_type = self.directory.instance_types.find(entry.node);
        book.count_use(entry, was_preempted, instance_type, self.now_ns);
    }

    /// Counts how long an allocation of an application ran that ends now, if run times are measured.
    pub(crate) fn count_run(
        &mut self,
        (book, cache): (&Book, &mut Option<Box<ClassCache>>),
        entry: &Allocation,
        length: RunLength,
    ) {
        let now_ns = self.now_ns;
        if let Some(run_times) = self.run_times.counting(now_ns)
            && let Some(run) = Run::of(entry, length, now_ns)
        {
            let whose = Whose { queue: &book.queue, user: &book.user, application: &book.id };
            run_times.count(whose, cache.get_or_insert_default(), &run, now_ns);
        }
    }

    /// Counts an application's change of state, and notes the new state in the directory.
    pub(crate) fn count_change(
        &mut self,
        slot: ApplicationSlot,
        leaf: QueueSlot,
        change: StateChange,
        queue: &Arc<str>,
    ) {
        self.tally.state_change(change, queue);
        self.directory.counts(leaf).moved(Some(change.from), Some(change.to));
        if let Some(entry) = self.directory.applications.find_mut(slot) {
            entry.state = change.to;
        }
    }

    /// Notifies the RM that an application is in this state from now on.
    pub(crate) fn notify_entered(
        &mut self,
        book: &Book,
        state: ApplicationState,
        message: &'static str,
    ) {
        let (application, queue) = (Arc::clone(&book.id), Arc::clone(&book.queue));
        let entered = Entered { application, queue, state, at_ns: self.now_ns, message };
        self.effects.notify(Notice::ApplicationUpdated(Arc::new(entered)));
    }

    /// Rejects an ask or a reported allocation of an application.
    pub(crate) fn reject_ask(&mut self, application: &Arc<str>, spec: &AskSpec, reason: Rejection) {
        let names_nothing = matches!(reason, Rejection::NodeUnknown(_));
        self.tally.ask_rejected(!names_nothing);
        self.effects.notify(Notice::AskRejected {
            form: spec.form,
            key: Arc::clone(&spec.key),
            application: Arc::clone(application),
            reason: Box::new(reason),
        });
    }

    /// Ignores the node in a report of an allocation, with a warning and a notice, because the
    /// allocation is on another node. The allocation stays there.
    pub(crate) fn ignore_place(&mut self, application: &str, allocation: &str, node: &str) {
        tracing::warn!(%application, %allocation, %node,
            "an allocation is said to be on another node than it was placed on, ignored");
        self.effects.notify(Notice::Ignored(Ignored::AllocationChange));
    }

    /// Checks the RM's quota for one more request of an application, whose present usage is `now`.
    pub(crate) fn may_have_more(
        &mut self,
        slot: ApplicationSlot,
        key: &Arc<str>,
        now: Held,
    ) -> Result<(), Rejection> {
        self.count_application(slot, now);
        let takes = self.quotas().takes(Quota::Asks, 1);
        takes.map_err(|over| Rejection::OverQuota { id: Arc::clone(key), over })
    }

    /// Notifies the RM that a pending ask ends which the RM has not withdrawn.
    pub(crate) fn notify_ask_released(
        &mut self,
        application: &Arc<str>,
        (form, key): (Form, Arc<str>),
        ending: Ending,
        message: &'static str,
    ) {
        let application = Arc::clone(application);
        let released = AskReleased { form, key, application, ending, message };
        self.effects.notify(Notice::AskReleased(Box::new(released)));
    }

    /// Sets priority, preemption policy and tags of an allocation to those of `said`. Returns
    /// whether anything changed.
    pub(crate) fn restate(&mut self, id: AllocationId, said: &AskSpec) -> bool {
        let Some(node) = self.books.restate(id, said) else { return false };
        let node_id = Arc::clone(self.books.nodes.id(node));
        self.wake_named(node, &node_id);
        true
    }
}
