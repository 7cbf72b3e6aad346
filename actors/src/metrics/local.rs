//! Counts of the thread of a partition, without atomics.
//!
//! # Why
//! A partition handles up to a million messages a second on one core, most of them in well under a
//! microsecond. An atomic addition or two readings of the clock per message would be noticeable; adding one
//! to a number in the cache is not. So a step adds here, and [`LocalCounts::flush`] is called when the step
//! is complete. One message in [`SAMPLE_EVERY`] is timed.
//!
//! # Invariants
//! * After [`LocalCounts::flush`], or once the counts are dropped, the shared metrics include all counts.

use std::sync::Arc;

use prometheus::local::{LocalHistogram, LocalIntCounter};
use prometheus::{Histogram, HistogramTimer, IntCounter, IntGauge};

use super::Metrics;
use super::actors::{PerKind, SAMPLE_EVERY};
use super::kind::ActorKind;

/// Counts of one thread. They travel with the baton, so that any handler can reach them.
#[derive(Debug)]
pub struct LocalCounts {
    /// Allocations sent to the RM.
    pub allocated: LocalIntCounter,
    /// Releases sent to the RM.
    pub released: LocalIntCounter,
    /// Asks and allocations that were refused.
    pub rejected: LocalIntCounter,
    /// Invalid updates, and updates that name unknown objects.
    pub errors: LocalIntCounter,
    /// Placements that a node accepted.
    pub placed: LocalIntCounter,
    /// Placements that a node refused.
    pub refused: LocalIntCounter,
    /// Allocations that the RM could not start.
    pub failed_starts: LocalIntCounter,
    /// Predicates that an RM answers later.
    pub predicates: PredicateCounts,
    offers: LocalIntCounter,
    offer_decisions: LocalHistogram,
    messages: PerKind<LocalIntCounter>,
    passes: Represented,
    cycles: Represented,
    /// By [`Level`].
    choices: [Represented; 2],
    node_rounds: Represented,
    node_tries: Represented,
    until_sample: u32,
    shared: Arc<Metrics>,
}

/// Operations that are all counted and of which a sample is timed: an operation that is not timed counts with
/// the duration of the last timed one.
///
/// # Why
/// Two readings of the clock for each operation would be noticeable, and a histogram with one operation in
/// sixty shows a dashboard a rate that is too low.
///
/// At most one operation is under way. It ends, or is given up.
#[derive(Debug)]
struct Represented {
    histogram: LocalHistogram,
    shared: Histogram,
    is_under_way: bool,
    /// Runs while a timed operation is under way.
    timer: Option<HistogramTimer>,
    /// The duration of the last timed operation, in seconds; `None`: none was timed yet.
    took: Option<f64>,
}

impl Represented {
    fn new(shared: &Histogram) -> Self {
        let (histogram, shared) = (shared.local(), shared.clone());
        Self { histogram, shared, is_under_way: false, timer: None, took: None }
    }

    /// An operation begins. It is timed if `is_due`, or if none was timed yet. An operation that is
    /// still under way is given up.
    fn begins(&mut self, is_due: bool) {
        self.is_given_up();
        self.is_under_way = true;
        if is_due || self.took.is_none() {
            self.timer = Some(self.shared.start_timer());
        }
    }

    /// Counts the operation under way, if there is one.
    fn is_over(&mut self) {
        if !std::mem::take(&mut self.is_under_way) {
            return;
        }
        self.took = self.timer.take().map(HistogramTimer::stop_and_discard).or(self.took);
        if let Some(took) = self.took {
            self.histogram.observe(took);
        }
    }

    /// Ends the operation under way without counting it.
    fn is_given_up(&mut self) {
        self.is_under_way = false;
        if let Some(timer) = self.timer.take() {
            // A timer that is dropped would count.
            timer.stop_and_discard();
        }
    }
}

impl Drop for Represented {
    fn drop(&mut self) {
        self.is_given_up();
    }
}

/// The objects among which the first in order is chosen, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The applications of a leaf.
    Applications,
    /// The queues below a queue.
    Queues,
}

/// The counts of predicates that an RM answers later.
#[derive(Debug)]
pub struct PredicateCounts {
    /// Questions sent.
    pub asked: LocalIntCounter,
    /// Answers that a node passes.
    pub passed: LocalIntCounter,
    /// Answers that no node passes.
    pub failed: LocalIntCounter,
    /// Questions that were returned without an answer.
    pub unanswered: LocalIntCounter,
    /// Answers that had become void.
    pub void: LocalIntCounter,
    /// Questions that were withdrawn, and answers that were not accepted although the RM had assumed the
    /// placement.
    pub cancelled: LocalIntCounter,
    open: IntGauge,
    /// The part of the gauge that is from this partition.
    included: i64,
}

impl PredicateCounts {
    fn new(shared: &Metrics) -> Self {
        let [passed, failed, unanswered, void] =
            shared.predicates.answers.each_ref().map(IntCounter::local);
        let asked = shared.predicates.questions.local();
        let cancelled = shared.predicates.cancelled.local();
        let open = shared.predicates.open.clone();
        Self { asked, passed, failed, unanswered, void, cancelled, open, included: 0 }
    }

    /// Sets the number of open questions.
    pub fn in_flight(&mut self, questions: usize) {
        let open = i64::try_from(questions).unwrap_or(i64::MAX);
        if open != self.included {
            self.open.add(open - self.included);
            self.included = open;
        }
    }

    fn flush(&mut self) {
        let Self { asked, passed, failed, unanswered, void, cancelled, .. } = self;
        for counter in [asked, passed, failed, unanswered, void, cancelled] {
            counter.flush();
        }
    }
}

impl Drop for PredicateCounts {
    fn drop(&mut self) {
        self.in_flight(0);
        self.flush();
    }
}

impl LocalCounts {
    /// Counts at zero, to be added to `shared`.
    pub fn new(shared: Arc<Metrics>) -> Self {
        let [placed, refused] = shared.placements.each_ref().map(IntCounter::local);
        Self {
            allocated: shared.attempts.allocated.local(),
            released: shared.attempts.released.local(),
            rejected: shared.attempts.rejected.local(),
            errors: shared.attempts.errors.local(),
            placed,
            refused,
            failed_starts: shared.failed_starts.local(),
            predicates: PredicateCounts::new(&shared),
            offers: shared.offers.local(),
            offer_decisions: shared.offer_decisions.local(),
            messages: shared.actors.messages.each_ref().map(IntCounter::local),
            passes: Represented::new(&shared.scheduling_latency),
            cycles: Represented::new(&shared.scheduling_cycle),
            choices: shared.choosing_latency.each_ref().map(Represented::new),
            node_rounds: Represented::new(&shared.node_round),
            node_tries: Represented::new(&shared.node_try_latency),
            until_sample: SAMPLE_EVERY,
            shared,
        }
    }

    /// The shared metrics, for events that are counted there directly.
    pub fn shared(&self) -> &Arc<Metrics> {
        &self.shared
    }

    /// Counts a message that an actor of `kind` begins to handle. The timer is to be kept to the end of the
    /// handler: dropping it records the duration.
    #[must_use = "the timer ends when it is dropped"]
    pub fn message(&mut self, kind: ActorKind) -> Option<HistogramTimer> {
        self.messages[kind as usize].inc();
        self.sample().then(|| self.shared.actors.handler_seconds[kind as usize].start_timer())
    }

    /// A timer for a message to an actor of `kind`, to be dropped first in its handler.
    #[must_use = "the timer ends when it is dropped"]
    pub fn mailed(&mut self, kind: ActorKind) -> Option<HistogramTimer> {
        self.sample().then(|| self.shared.actors.mailbox_wait_seconds[kind as usize].start_timer())
    }

    /// A pass over the partition begins, and a cycle with it. Each is timed, since a pass makes up to 64
    /// decisions.
    pub fn pass_begins(&mut self) {
        self.passes.begins(true);
        self.cycles.begins(true);
    }

    /// A pass over the partition has ended; its follow-up is still to be done.
    pub fn pass_over(&mut self) {
        self.passes.is_over();
    }

    /// The follow-up of the last pass is done. May be called more than once.
    pub fn cycle_over(&mut self) {
        self.cycles.is_over();
    }

    /// A queue begins to choose the first in order of its children or applications.
    pub fn choice_begins(&mut self, level: Level) {
        let is_due = self.sample();
        self.choices[level as usize].begins(is_due);
    }

    /// The choice is made.
    pub fn choice_over(&mut self, level: Level) {
        self.choices[level as usize].is_over();
    }

    /// A search for a node begins, for one ask or gang.
    pub fn node_round_begins(&mut self) {
        let is_due = self.sample();
        self.node_rounds.begins(is_due);
    }

    /// The search has ended: a node accepted the placement, the RM is asked about one, or no node
    /// fits. Without a search under way, nothing happens.
    pub fn node_round_over(&mut self) {
        self.node_rounds.is_over();
    }

    /// The search was not needed: no ask needs a node, or the ask may not use any.
    pub fn node_round_given_up(&mut self) {
        self.node_rounds.is_given_up();
    }

    /// A node is tried.
    pub fn node_try_begins(&mut self) {
        let is_due = self.sample();
        self.node_tries.begins(is_due);
    }

    /// The node has accepted the placement.
    pub fn node_took(&mut self) {
        self.node_tries.is_over();
    }

    /// The node has refused the placement.
    pub fn node_refused(&mut self) {
        self.node_tries.is_given_up();
    }

    /// A timer for a search for victims, to be discarded if the search is not needed any more. Each search
    /// is timed, since it is rare and takes long.
    #[must_use = "the timer ends when it is dropped"]
    pub fn preemption_try(&self) -> HistogramTimer {
        self.shared.preemption_try_latency.start_timer()
    }

    /// Counts an offer that has returned with this number of decisions.
    pub fn offer_came_home(&mut self, decisions: u32) {
        self.offers.inc();
        self.offer_decisions.observe(f64::from(decisions));
    }

    /// Adds all counts to the shared metrics.
    pub fn flush(&mut self) {
        let singles = [
            &self.allocated,
            &self.released,
            &self.rejected,
            &self.errors,
            &self.placed,
            &self.refused,
            &self.failed_starts,
            &self.offers,
        ];
        for counter in singles.into_iter().chain(&self.messages) {
            counter.flush();
        }
        self.offer_decisions.flush();
        let timed = [&self.passes, &self.cycles, &self.node_rounds, &self.node_tries];
        for timed in timed.into_iter().chain(&self.choices) {
            timed.histogram.flush();
        }
        self.predicates.flush();
    }

    fn sample(&mut self) -> bool {
        self.until_sample -= 1;
        if self.until_sample > 0 {
            return false;
        }
        self.until_sample = SAMPLE_EVERY;
        true
    }
}

impl Drop for LocalCounts {
    fn drop(&mut self) {
        self.flush();
    }
}
