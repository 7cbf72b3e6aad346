//! What the actors of one thread count, in the words of the handlers.
//!
//! A tally travels with the baton (or lives in an actor of the front). Counting is adding to plain
//! numbers, and [`Tally::flush`] carries them over once per turn, because an atomic counter that
//! several threads share would be touched several times per decision.

use std::sync::Arc;

use monoceros_rules::applications::application::StateChange;
use monoceros_rules::applications::application_state::ApplicationState;
use prometheus::HistogramTimer;

use crate::metrics::{ActorKind, Level, LocalCounts, Metrics};

/// The counts of one thread since they were last carried over to the shared metrics.
pub(crate) struct Tally {
    counts: LocalCounts,
    /// Runs while a sampled message is in a mailbox.
    posted: Option<HistogramTimer>,
}

impl Tally {
    pub(crate) fn new(metrics: &Arc<Metrics>) -> Self {
        let counts = LocalCounts::new(Arc::clone(metrics));
        Self { counts, posted: None }
    }

    /// A handler of `kind` begins; what it returns is kept until the handler ends.
    #[must_use = "the timer ends when it is dropped"]
    pub(crate) fn message(&mut self, kind: ActorKind) -> Option<HistogramTimer> {
        self.posted = None;
        self.counts.message(kind)
    }

    /// The baton is about to be sent to an actor of `kind`.
    pub(crate) fn post(&mut self, kind: ActorKind) {
        self.posted = self.counts.mailed(kind);
    }

    pub(crate) fn offer_leaves(&mut self) {
        self.counts.pass_begins();
    }

    pub(crate) fn offer_home(&mut self, decided: u32) {
        self.counts.pass_over();
        self.counts.offer_came_home(decided);
    }

    /// What follows from the last offer is done. May be said more often.
    pub(crate) fn cycle_over(&mut self) {
        self.counts.cycle_over();
    }

    /// A queue looks for the first of those below it, until [it knows](Self::choice_over).
    pub(crate) fn choice_begins(&mut self, level: Level) {
        self.counts.choice_begins(level);
    }

    pub(crate) fn choice_over(&mut self, level: Level) {
        self.counts.choice_over(level);
    }

    /// A node is looked for, until there is one or [none](Self::node_round_over), or
    /// [none is needed](Self::node_round_given_up).
    pub(crate) fn node_round_begins(&mut self) {
        self.counts.node_round_begins();
    }

    pub(crate) fn node_round_over(&mut self) {
        self.counts.node_round_over();
    }

    pub(crate) fn node_round_given_up(&mut self) {
        self.counts.node_round_given_up();
    }

    /// A node is tried, until it [took](Self::node_took) or [refused](Self::node_refused) what was
    /// offered.
    pub(crate) fn node_try_begins(&mut self) {
        self.counts.node_try_begins();
    }

    pub(crate) fn node_took(&mut self) {
        self.counts.node_took();
    }

    pub(crate) fn node_refused(&mut self) {
        self.counts.node_refused();
    }

    #[must_use = "the timer ends when it is dropped"]
    pub(crate) fn preemption_try(&self) -> HistogramTimer {
        self.counts.preemption_try()
    }

    pub(crate) fn placed(&mut self) {
        self.counts.placed.inc();
        self.counts.allocated.inc();
    }

    pub(crate) fn refused(&mut self) {
        self.counts.refused.inc();
    }

    /// The RM could not start what was placed.
    pub(crate) fn start_failed(&mut self) {
        self.counts.failed_starts.inc();
    }

    /// The RM is asked for a predicate.
    pub(crate) fn asked(&mut self) {
        self.counts.predicates.asked.inc();
    }

    /// The RM's answer is that a node passes; the answer may be void by now.
    pub(crate) fn predicate_passed(&mut self, is_void: bool) {
        let counts = &self.counts.predicates;
        if is_void { counts.void.inc() } else { counts.passed.inc() }
    }

    pub(crate) fn predicate_failed(&mut self) {
        self.counts.predicates.failed.inc();
    }

    pub(crate) fn predicate_unanswered(&mut self) {
        self.counts.predicates.unanswered.inc();
    }

    pub(crate) fn predicate_cancelled(&mut self) {
        self.counts.predicates.cancelled.inc();
    }

    /// Sets the number of open questions of the partition.
    pub(crate) fn in_flight(&mut self, questions: usize) {
        self.counts.predicates.in_flight(questions);
    }

    /// An allocation that the RM reported itself was taken over.
    pub(crate) fn recovered(&mut self) {
        self.counts.allocated.inc();
    }

    pub(crate) fn released(&mut self) {
        self.counts.released.inc();
    }

    /// An ask or allocation was refused; `makes_sense` is false where it named what is not there.
    pub(crate) fn ask_rejected(&mut self, makes_sense: bool) {
        self.counts.rejected.inc();
        if !makes_sense {
            self.counts.errors.inc();
        }
    }

    pub(crate) fn application_new(&mut self) {
        self.counts.shared().application_placed();
    }

    /// An application was rejected that is in no queue. `queue` is the one that it named, if there is
    /// one of this path.
    pub(crate) fn application_rejected(&mut self, queue: Option<&Arc<str>>) {
        let (from, to) = (ApplicationState::New, ApplicationState::Rejected);
        let shared = self.counts.shared();
        shared.application_moved(from, to);
        shared.application_ended(queue, to);
    }

    /// An application of this leaf entered another state.
    pub(crate) fn state_change(&mut self, change: StateChange, queue: &Arc<str>) {
        let shared = self.counts.shared();
        shared.application_moved(change.from, change.to);
        shared.application_ended(Some(queue), change.to);
    }

    pub(crate) fn shared(&self) -> &Arc<Metrics> {
        self.counts.shared()
    }

    pub(crate) fn flush(&mut self) {
        self.counts.flush();
    }
}
