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

use super::actors::PerKind;
use super::{ActorKind, Metrics};

/// One in how many things is timed. A prime: if the number of messages of a step divided it, the
/// same hop of each step would be timed, and the others never.
pub const SAMPLE_EVERY: u32 = 61;

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
    /// Predicates that an RM answers later.
    pub predicates: PredicateCounts,
    offers: LocalIntCounter,
    offer_decisions: LocalHistogram,
    messages: PerKind<LocalIntCounter>,
    passes: Represented,
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
#[derive(Debug)]
struct Represented {
    histogram: LocalHistogram,
    /// Seconds that the last one took that was timed; `None`: the first is to be.
    took: Option<f64>,
}

impl Represented {
    fn new(histogram: &Histogram) -> Self {
        Self { histogram: histogram.local(), took: None }
    }

    /// One is over; `timer` ran meanwhile, if it was timed.
    fn over(&mut self, timer: Option<HistogramTimer>) {
        self.took = timer.map(HistogramTimer::stop_and_discard).or(self.took);
        if let Some(took) = self.took {
            self.histogram.observe(took);
        }
    }
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
            predicates: PredicateCounts::new(&shared),
            offers: shared.offers.local(),
            offer_decisions: shared.offer_decisions.local(),
            messages: shared.actors.messages.each_ref().map(IntCounter::local),
            passes: Represented::new(&shared.scheduling_latency),
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

    /// A pass over the partition begins. To be kept until it is [over](Self::pass_over).
    pub fn pass(&mut self) -> Option<HistogramTimer> {
        let is_first = self.passes.took.is_none();
        (self.sample() || is_first).then(|| self.shared.scheduling_latency.start_timer())
    }

    /// A pass over the partition is over.
    pub fn pass_over(&mut self, timer: Option<HistogramTimer>) {
        self.passes.over(timer);
    }

    /// A node is tried. To be kept until it [has taken](Self::node_took) what was offered, and
    /// discarded (`stop_and_discard`) if it refuses.
    pub fn node_try(&mut self) -> Option<HistogramTimer> {
        let is_first = self.node_tries.took.is_none();
        (self.sample() || is_first).then(|| self.shared.node_try_latency.start_timer())
    }

    /// A node has taken what was offered.
    pub fn node_took(&mut self, timer: Option<HistogramTimer>) {
        self.node_tries.over(timer);
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
            &self.offers,
        ];
        for counter in singles.into_iter().chain(&self.messages) {
            counter.flush();
        }
        self.offer_decisions.flush();
        self.passes.histogram.flush();
        self.node_tries.histogram.flush();
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
