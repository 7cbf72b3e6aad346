//! Counting on the thread of a partition, without atomics.
//!
//! # Why
//! A partition handles up to a million messages a second on one core, most of them in well under
//! a microsecond. An atomic add per message, or two readings of the clock, would show; adding one
//! to a number in the cache does not. So the owner of these counts adds here and calls
//! [`LocalCounts::flush`] when a step has come home; one message in [`SAMPLE_EVERY`] is timed.
//!
//! # Invariants
//! * After [`LocalCounts::flush`], or once the counts are dropped, the shared metrics hold
//!   everything that was counted.

use std::sync::Arc;

use prometheus::local::{LocalHistogram, LocalIntCounter};
use prometheus::{Histogram, HistogramTimer, IntCounter, IntGauge};

use super::Metrics;
use super::actors::{PerKind, SAMPLE_EVERY};
use super::kind::ActorKind;

/// Counts of one thread. Part of what a step carries, so that any handler can reach them.
#[derive(Debug)]
pub struct LocalCounts {
    /// Allocations sent to the RM: one each.
    pub allocated: LocalIntCounter,
    /// Releases sent to the RM: one each.
    pub released: LocalIntCounter,
    /// Asks and allocations that were refused: one each.
    pub rejected: LocalIntCounter,
    /// Updates that made no sense: one each.
    pub errors: LocalIntCounter,
    /// Placements that a node took: one each.
    pub placed: LocalIntCounter,
    /// Placements that a node refused: one each.
    pub refused: LocalIntCounter,
    /// Allocations that the RM could not start: one each.
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

/// Things of which each is counted and some are timed: one that was not timed counts with the time of
/// the last that was.
///
/// # Why
/// Two readings of the clock for each would show, and a histogram that has one in sixty of them tells
/// a dashboard a rate that is too low.
///
/// There is one at a time: it begins, and is over or given up.
#[derive(Debug)]
struct Represented {
    histogram: LocalHistogram,
    shared: Histogram,
    is_under_way: bool,
    /// Runs while one is under way that is timed.
    timer: Option<HistogramTimer>,
    /// Seconds that the last one took that was timed; `None`: the first is to be.
    took: Option<f64>,
}

impl Represented {
    fn new(shared: &Histogram) -> Self {
        let (histogram, shared) = (shared.local(), shared.clone());
        Self { histogram, shared, is_under_way: false, timer: None, took: None }
    }

    /// One begins, and is timed if it is due. If another is under way, that one is given up.
    fn begins(&mut self, is_due: bool) {
        self.is_given_up();
        self.is_under_way = true;
        if is_due || self.took.is_none() {
            self.timer = Some(self.shared.start_timer());
        }
    }

    /// The one that is under way counts; without one, nothing happens.
    fn is_over(&mut self) {
        if !std::mem::take(&mut self.is_under_way) {
            return;
        }
        self.took = self.timer.take().map(HistogramTimer::stop_and_discard).or(self.took);
        if let Some(took) = self.took {
            self.histogram.observe(took);
        }
    }

    /// The one that is under way does not count.
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

/// Among whom the first in order is looked for, as a label.
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
    /// Questions asked: one each.
    pub asked: LocalIntCounter,
    /// Answers that a node passes.
    pub passed: LocalIntCounter,
    /// Answers that none passes.
    pub failed: LocalIntCounter,
    /// Questions that came back without an answer.
    pub unanswered: LocalIntCounter,
    /// Answers that were no longer valid.
    pub void: LocalIntCounter,
    /// Questions that were withdrawn, and answers that were not taken although the RM had assumed
    /// what they said.
    pub cancelled: LocalIntCounter,
    open: IntGauge,
    /// The number of open questions of this partition that the gauge includes.
    told: i64,
}

impl PredicateCounts {
    fn new(shared: &Metrics) -> Self {
        let [passed, failed, unanswered, void] =
            shared.predicates.answers.each_ref().map(IntCounter::local);
        let asked = shared.predicates.questions.local();
        let cancelled = shared.predicates.cancelled.local();
        let open = shared.predicates.open.clone();
        Self { asked, passed, failed, unanswered, void, cancelled, open, told: 0 }
    }

    /// Sets the number of open questions.
    pub fn in_flight(&mut self, questions: usize) {
        let open = i64::try_from(questions).unwrap_or(i64::MAX);
        if open != self.told {
            self.open.add(open - self.told);
            self.told = open;
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
    /// Counts at zero that flow into `shared`.
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

    /// What the counts flow into, for the things that are counted there.
    pub fn shared(&self) -> &Arc<Metrics> {
        &self.shared
    }

    /// Counts a message that an actor of `kind` begins to handle. Keep the timer, where there is
    /// one, to the end of the handler: dropping it takes the time.
    #[must_use = "the timer ends when it is dropped"]
    pub fn message(&mut self, kind: ActorKind) -> Option<HistogramTimer> {
        self.messages[kind as usize].inc();
        self.sample().then(|| self.shared.actors.handler_seconds[kind as usize].start_timer())
    }

    /// To be put into a message for an actor of `kind`, whose handler drops it first of all.
    #[must_use = "the timer ends when it is dropped"]
    pub fn mailed(&mut self, kind: ActorKind) -> Option<HistogramTimer> {
        self.sample().then(|| self.shared.actors.mailbox_wait_seconds[kind as usize].start_timer())
    }

    /// A pass over the partition begins, and with it a cycle. A pass makes up to 64 decisions, so that
    /// each is timed.
    pub fn pass_begins(&mut self) {
        self.passes.begins(true);
        self.cycles.begins(true);
    }

    /// A pass over the partition is over; what follows from it is still to be done.
    pub fn pass_over(&mut self) {
        self.passes.is_over();
    }

    /// All that follows from the last pass is done. May be said more often than a pass is over.
    pub fn cycle_over(&mut self) {
        self.cycles.is_over();
    }

    /// A queue looks for the first in order of those below it.
    pub fn choice_begins(&mut self, level: Level) {
        let is_due = self.sample();
        self.choices[level as usize].begins(is_due);
    }

    /// It knows who comes first.
    pub fn choice_over(&mut self, level: Level) {
        self.choices[level as usize].is_over();
    }

    /// A node is looked for, for one ask or gang.
    pub fn node_round_begins(&mut self) {
        let is_due = self.sample();
        self.node_rounds.begins(is_due);
    }

    /// A node took it, or was found that asks the RM first, or none will do. Without a round under way,
    /// nothing happens.
    pub fn node_round_over(&mut self) {
        self.node_rounds.is_over();
    }

    /// There was no ask that needed a node, or it may not have any.
    pub fn node_round_given_up(&mut self) {
        self.node_rounds.is_given_up();
    }

    /// A node is tried.
    pub fn node_try_begins(&mut self) {
        let is_due = self.sample();
        self.node_tries.begins(is_due);
    }

    /// The node has taken what was offered.
    pub fn node_took(&mut self) {
        self.node_tries.is_over();
    }

    /// The node has refused what was offered.
    pub fn node_refused(&mut self) {
        self.node_tries.is_given_up();
    }

    /// To be kept while victims are looked for, and discarded if they are not needed any more. This
    /// is rare and takes long, so that each is timed.
    #[must_use = "the timer ends when it is dropped"]
    pub fn preemption_try(&self) -> HistogramTimer {
        self.shared.preemption_try_latency.start_timer()
    }

    /// Counts an offer that came home with so many decisions.
    pub fn offer_came_home(&mut self, decisions: u32) {
        self.offers.inc();
        self.offer_decisions.observe(f64::from(decisions));
    }

    /// Carries everything over to the shared metrics.
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
