//! Metrics of callback streams. The service, which serves the streams, counts; the metrics are here
//! because all metrics are registered in one place.

use prometheus::IntCounter;

use super::inventory::Maker;

/// Counters of all callback streams together.
#[derive(Clone, Debug)]
pub struct CallbackMetrics {
    batches: [IntCounter; 2],
    queries: [IntCounter; QueryOutcome::ALL.len()],
    ignored: [IntCounter; 2],
    /// Allocations that were sent without the RM's confirmation, which took too long.
    pub cache_sync_timeouts: IntCounter,
    /// Placements that were undone because the RM could not assume them.
    pub cache_sync_failures: IntCounter,
    /// Events that were not sent in time.
    pub dropped_events: IntCounter,
}

/// The outcome of a question to an RM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryOutcome {
    /// A node passed.
    Passed,
    /// No node passed.
    Failed,
    /// The RM does not know the request; counts as failed.
    UnknownAllocation,
    /// The RM had an error; counts as failed.
    Error,
    /// The RM's view was too old: the question is asked again.
    Stale,
    /// The RM was overloaded: the question is asked again.
    Shed,
    /// There was no answer in time.
    Timeout,
    /// The scheduler withdrew the question.
    Cancelled,
    /// The stream was lost, or too many questions waited: the question is asked again later.
    Lost,
}

impl QueryOutcome {
    const ALL: [Self; 9] = [
        Self::Passed,
        Self::Failed,
        Self::UnknownAllocation,
        Self::Error,
        Self::Stale,
        Self::Shed,
        Self::Timeout,
        Self::Cancelled,
        Self::Lost,
    ];

    fn text(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::UnknownAllocation => "unknown_allocation",
            Self::Error => "error",
            Self::Stale => "stale",
            Self::Shed => "shed",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
        }
    }
}

impl CallbackMetrics {
    pub(super) fn new(make: &mut Maker) -> Self {
        Self {
            batches: make.counters(
                "monoceros_callback_batches_total",
                "Batches of questions sent to RMs.",
                ("kind", ["predicate", "preemption"]),
            ),
            queries: make.counters(
                "monoceros_callback_queries_total",
                "Predicate questions to RMs by what became of them.",
                ("outcome", QueryOutcome::ALL.map(QueryOutcome::text)),
            ),
            ignored: make.counters(
                "monoceros_callback_ignored_results_total",
                "Results of RMs that came too late, or to no question.",
                ("reason", ["late", "unknown"]),
            ),
            cache_sync_timeouts: make.counter(
                "monoceros_callback_cache_sync_timeouts_total",
                "Responses with allocations that an RM was to confirm first and did not in time.",
            ),
            cache_sync_failures: make.counter(
                "monoceros_callback_cache_sync_failures_total",
                "Placements undone because an RM could not take them into its view.",
            ),
            dropped_events: make.counter(
                "monoceros_callback_dropped_events_total",
                "Events that a callback stream wanted and did not take in time.",
            ),
        }
    }

    /// A batch of predicate questions was sent.
    pub fn predicate_batch(&self) {
        let [predicate, _] = &self.batches;
        predicate.inc();
    }

    /// A batch of preemption questions was sent.
    pub fn preemption_batch(&self) {
        let [_, preemption] = &self.batches;
        preemption.inc();
    }

    /// Counts a question with this outcome.
    pub fn query(&self, outcome: QueryOutcome) {
        self.queries[outcome as usize].inc();
    }

    /// Counts questions with this outcome.
    pub fn queries(&self, outcome: QueryOutcome, n: usize) {
        self.queries[outcome as usize].inc_by(n as u64);
    }

    /// The number of questions that have had this outcome.
    pub fn queries_so_far(&self, outcome: QueryOutcome) -> u64 {
        self.queries[outcome as usize].get()
    }

    /// A result arrived after its question was withdrawn.
    pub fn late_result(&self) {
        let [late, _] = &self.ignored;
        late.inc();
    }

    /// A result arrived for an unknown question.
    pub fn unknown_result(&self) {
        let [_, unknown] = &self.ignored;
        unknown.inc();
    }

    /// The numbers of late results, and of results for unknown questions.
    pub fn ignored_so_far(&self) -> [u64; 2] {
        self.ignored.each_ref().map(IntCounter::get)
    }
}
