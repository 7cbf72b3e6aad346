//! The counts of one partition, with a method for each event that handlers count.
//!
//! A tally travels with the baton. Counting adds to plain numbers, and [`Tally::flush`] adds them to the
//! shared metrics once per turn: an atomic counter shared by threads would otherwise be written
//! several times per decision.

use std::sync::Arc;

use monoceros_rules::applications::application::StateChange;
use monoceros_rules::applications::application_state::ApplicationState;
use prometheus::HistogramTimer;

use crate::metrics::{ActorKind, Level, LocalCounts, Metrics};

/// The counts of a partition since the last flush.
pub(crate) struct Tally {
    counts: LocalCounts,
    /// Measures the wait of a sampled message; `None` while no sampled message is in a mailbox.
    posted: Option<HistogramTimer>,
}

impl Tally {
    pub(crate) fn new(metrics: &Arc<Metrics>) -> Self {
        let counts = LocalCounts::new(Arc::clone(metrics));
        Self { counts, posted: None }
    }

    /// A handler of `kind` begins. The timer is to be kept until the handler ends.
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

    /// The follow-up of the last offer is done. May be called more than once.
    pub(crate) fn cycle_over(&mut self) {
        self.counts.cycle_over();
    }

    /// A queue begins to choose its first child or application; see [`choice_over`](Self::choice_over).
    pub(crate) fn choice_begins(&mut self, level: Level) {
        self.counts.choice_begins(level);
    }

    pub(crate) fn choice_over(&mut self, level: Level) {
        self.counts.choice_over(level);
    }

    /// A search for a node begins. It ends with or without a node
    /// ([`node_round_over`](Self::node_round_over)), or turns out not to be needed
    /// ([`node_round_given_up`](Self::node_round_given_up)).
    pub(crate) fn node_round_begins(&mut self) {
        self.counts.node_round_begins();
    }

    pub(crate) fn node_round_over(&mut self) {
        self.counts.node_round_over();
    }

    pub(crate) fn node_round_given_up(&mut self) {
        self.counts.node_round_given_up();
    }

    /// A node is tried; see [`node_took`](Self::node_took) and [`node_refused`](Self::node_refused).
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

    /// The RM could not start an allocation.
    pub(crate) fn start_failed(&mut self) {
        self.counts.failed_starts.inc();
    }

    /// A predicate question was sent to the RM.
    pub(crate) fn asked(&mut self) {
        self.counts.predicates.asked.inc();
    }

    /// The RM answered that a node passes. `is_void`: a change has made the answer void.
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

    /// An existing allocation that the RM reported was accepted.
    pub(crate) fn recovered(&mut self) {
        self.counts.allocated.inc();
    }

    pub(crate) fn released(&mut self) {
        self.counts.released.inc();
    }

    /// An ask or allocation was refused. `makes_sense` is false if it is invalid, or names an unknown
    /// object.
    pub(crate) fn ask_rejected(&mut self, makes_sense: bool) {
        self.counts.rejected.inc();
        if !makes_sense {
            self.counts.errors.inc();
        }
    }

    pub(crate) fn application_new(&mut self) {
        self.counts.shared().application_placed();
    }

    /// An application that is in no queue was rejected. `queue` is the queue that it named, if that
    /// exists.
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
