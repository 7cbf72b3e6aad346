//! All metrics of this crate: one struct, registered once, shared by all actors. For readers of the
//! numbers, `docs/metrics.md`.
//!
//! # Three ways of counting
//! * Rare events are counted directly in [`Metrics`].
//! * Events that happen up to a million times a second are added to plain numbers of their thread,
//!   [`LocalCounts`], and added to the shared metrics once per step.
//! * States (queues, load of nodes) are not counted: they are read off a snapshot for a scrape
//!   ([`Metrics::set_queues`]). Series of a removed queue vanish, and a decision costs nothing.
//!
//! # Invariants
//! * No handler looks up a series by text: labels come from enums, and every series that a handler
//!   writes exists from the start. The exceptions are items of an RM that were refused or ignored,
//!   which are counted by its name, and ended applications, which are counted by their queue.
//! * Names, labels and buckets that begin with `yunikorn` are those of existing dashboards; the
//!   histograms among them hold seconds, whatever their names say.
//! * Each family is in [`Metrics::inventory`], from which `docs/metrics.md` is made; a test fails
//!   when the page is stale.

use std::sync::Arc;

use monoceros_rules::applications::application_state::ApplicationState;
use monoceros_rules::specs::rejection::{self, Ignored};
use monoceros_rules::values::resources::Resources;
use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge, Registry};

use crate::snapshot::QueueSnapshot;

mod actors;
mod callback;
mod cluster;
mod ended;
mod events;
mod inventory;
mod kind;
mod local;
mod log;
mod posted;
mod process;
mod run_times;
mod scraped;
mod states;
#[cfg(test)]
mod tests;
mod traces;
mod watchdog;

pub use actors::SAMPLE_EVERY;
pub use callback::{CallbackMetrics, QueryOutcome};
pub use cluster::{ClaimOutcome, ClusterMetrics, ForwardKind, MemberStatus, TakeoverCause};
pub use events::Events;
pub use inventory::Family;
pub use kind::ActorKind;
pub use local::{Level, LocalCounts};
pub use log::LogMetrics;
pub(crate) use posted::Counted;
pub use posted::Posted;
pub use process::Build;
pub use run_times::RunTimeMetrics;
pub use traces::TraceMetrics;
pub use watchdog::WatchdogMetrics;

use actors::Actors;
use ended::EndedApplications;
use inventory::Maker;
use scraped::Scraped;
use states::label;

/// Every metric of the process.
#[derive(Debug)]
pub struct Metrics {
    /// Allocations, releases, and what was refused.
    pub attempts: Attempts,
    /// Registered nodes.
    pub nodes: Nodes,
    /// Callback streams.
    pub callback: CallbackMetrics,
    /// Membership in a cluster.
    pub cluster: ClusterMetrics,
    /// Events.
    pub events: Events,
    /// Log lines.
    pub log: LogMetrics,
    /// Run times of allocations.
    pub run_times: RunTimeMetrics,
    /// Reports of measured use.
    pub utilization: Utilization,
    /// Traced placements.
    pub traces: TraceMetrics,
    /// Findings of the watchdog.
    pub watchdog: WatchdogMetrics,
    submissions: [IntCounter; 3],
    applications: [IntGauge; COUNTED.len()],
    ended: EndedApplications,
    scheduling_latency: Histogram,
    scheduling_cycle: Histogram,
    /// Latencies by [`Level`].
    choosing_latency: [Histogram; 2],
    node_round: Histogram,
    node_try_latency: Histogram,
    preemption_try_latency: Histogram,
    offers: IntCounter,
    offer_decisions: Histogram,
    placements: [IntCounter; 2],
    failed_starts: IntCounter,
    predicates: Predicates,
    actors: Actors,
    si_ignored: IntCounterVec,
    si_rejected: IntCounterVec,
    scraped: Scraped,
    inventory: Vec<Family>,
    registry: Registry,
}

/// `yunikorn_scheduler_container_allocation_attempt_total`. Partitions count in [`LocalCounts`].
#[derive(Debug)]
pub struct Attempts {
    /// Allocations sent to an RM.
    pub allocated: IntCounter,
    /// Releases sent to an RM.
    pub released: IntCounter,
    /// Asks and allocations that were refused.
    pub rejected: IntCounter,
    /// Invalid updates, and updates that name unknown objects.
    pub errors: IntCounter,
}

impl Attempts {
    fn with(make: &mut Maker) -> Self {
        let [allocated, released, rejected, errors] = make.counters(
            "yunikorn_scheduler_container_allocation_attempt_total",
            "Allocations and releases sent to RMs, asks and allocations that were refused, and \
             updates that made no sense.",
            ("state", ["allocated", "released", "rejected", "error"]),
        );
        Self { allocated, released, rejected, errors }
    }
}

/// `yunikorn_scheduler_node`, over all partitions.
#[derive(Debug)]
pub struct Nodes {
    /// Registered nodes, including draining and unhealthy ones.
    pub active: IntGauge,
    /// Draining nodes.
    pub draining: IntGauge,
    /// Nodes that were refused, because their partition is unknown or one of their allocations was
    /// refused. Never lowered.
    pub failed: IntGauge,
    /// Nodes that were removed by their RM. Never lowered.
    pub decommissioned: IntGauge,
    /// Nodes that are not ready.
    pub unhealthy: IntGauge,
}

/// `monoceros_utilization_reports_total`.
#[derive(Debug)]
pub struct Utilization {
    /// Reports of known nodes and allocations.
    pub accepted: IntCounter,
    /// Reports of unknown nodes and allocations.
    pub unknown: IntCounter,
    /// Reports with a negative or unreadable amount.
    pub refused: IntCounter,
}

impl Utilization {
    fn with(make: &mut Maker) -> Self {
        let [accepted, unknown, refused] = make.counters(
            "monoceros_utilization_reports_total",
            "Reports of what nodes and allocations really use, by what became of them.",
            ("outcome", ["accepted", "unknown", "refused"]),
        );
        Self { accepted, unknown, refused }
    }
}

/// Predicates that an RM answers later. Partitions count in [`LocalCounts`].
#[derive(Debug)]
struct Predicates {
    questions: IntCounter,
    answers: [IntCounter; 4],
    cancelled: IntCounter,
    open: IntGauge,
}

impl Predicates {
    fn with(make: &mut Maker) -> Self {
        Self {
            questions: make.counter(
                "monoceros_predicate_questions_total",
                "Questions to RMs that answer predicates later, one per placement and try.",
            ),
            answers: make.counters(
                "monoceros_predicate_answers_total",
                "Answers to such questions by what they said; void ones are asked again.",
                ("outcome", ["passed", "failed", "unanswered", "void"]),
            ),
            cancelled: make.counter(
                "monoceros_predicate_questions_cancelled_total",
                "Such questions that were withdrawn, and answers that could not be used although \
                 the RM counted on them.",
            ),
            open: make.gauge(
                "monoceros_predicate_questions_open",
                "Placements that wait for such an answer.",
            ),
        }
    }
}

/// The counter of failed starts, whatever the form of the RM's report.
fn failed_starts(make: &mut Maker) -> IntCounter {
    make.counter(
        "monoceros_failed_starts_total",
        "Allocations that an RM could not start. Their requests wait before they are tried again.",
    )
}

/// The states that `yunikorn_scheduler_application_total` shows.
const COUNTED: [ApplicationState; 6] = [
    ApplicationState::Running,
    ApplicationState::Resuming,
    ApplicationState::Failing,
    ApplicationState::Completing,
    ApplicationState::Completed,
    ApplicationState::Failed,
];

const LATENCY_BUCKETS: [f64; 8] = [0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0];

const DECISION_BUCKETS: [f64; 8] = [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

impl Metrics {
    /// All metrics, at zero, including families with the path of a queue in their names, as in releases of
    /// `YuniKorn` up to 1.7: the common dashboard reads those.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::with(Scraped::with_legacy_names()))
    }

    /// [`Self::new`] without the families of releases up to 1.7.
    pub fn without_legacy_names() -> Arc<Self> {
        Arc::new(Self::with(Scraped::without_legacy_names()))
    }

    /// The registry to gather from. Clones are cheap and share the numbers.
    pub fn registry(&self) -> Registry {
        self.registry.clone()
    }

    /// All families, by name.
    pub fn inventory(&self) -> &[Family] {
        &self.inventory
    }

    /// An application was placed in a queue, and is `New`.
    pub fn application_placed(&self) {
        let [placed, _, _] = &self.submissions;
        placed.inc();
    }

    /// An application changed its state.
    pub fn application_moved(&self, from: ApplicationState, to: ApplicationState) {
        let [_, accepted, rejected] = &self.submissions;
        match to {
            ApplicationState::Accepted => accepted.inc(),
            ApplicationState::Rejected => rejected.inc(),
            _ => {}
        }
        self.application_lost(from);
        if let Some(at) = COUNTED.iter().position(|state| *state == to) {
            self.applications[at].inc();
        }
    }

    /// Counts an application that entered a state, if that is an end. `queue`: its leaf; for an
    /// application that was rejected before it was in a leaf, the queue that it named, if that
    /// exists.
    pub(crate) fn application_ended(&self, queue: Option<&Arc<str>>, to: ApplicationState) {
        self.ended.count(queue, to);
    }

    /// An application was removed with its partition, without having ended; `from` is its last
    /// state.
    pub fn application_lost(&self, from: ApplicationState) {
        if let Some(at) = COUNTED.iter().position(|state| *state == from)
            && !from.is_terminated()
        {
            self.applications[at].dec();
        }
    }

    /// An application goes on in this state, in a partition that is restored.
    pub fn application_restored(&self, to: ApplicationState) {
        if let Some(at) = COUNTED.iter().position(|state| *state == to)
            && !to.is_terminated()
        {
            self.applications[at].inc();
        }
    }

    /// The number of running applications in all partitions.
    pub fn running_applications(&self) -> i64 {
        let [running, ..] = &self.applications;
        running.get()
    }

    /// An item of an RM had no effect and gets no answer.
    pub fn count_ignored(&self, rm_id: &str, dialect: &str, reason: Ignored) {
        self.si_ignored.with_label_values(&[rm_id, dialect, reason.code()]).inc();
    }

    /// An item of an RM was refused. `reason` is the text for the RM, which ends with a code.
    pub fn count_rejected(&self, rm_id: &str, dialect: &str, reason: &str) {
        let code = rejection::code_of(reason);
        self.si_rejected.with_label_values(&[rm_id, dialect, code]).inc();
    }

    /// Sets the families of queues. `trees` has the whole trees of all partitions; queues with the same
    /// path are summed.
    pub fn set_queues(&self, trees: &[QueueSnapshot]) {
        self.scraped.set_queues(trees);
    }

    /// Sets the families of node load, from the capacity and the allocated resources of every node.
    pub fn set_node_load<'a>(
        &self,
        nodes: impl IntoIterator<Item = (&'a Resources, &'a Resources)>,
    ) {
        self.scraped.set_node_load(nodes);
    }

    /// Sets the family of measured use: the sums over all nodes, and over all allocations, with a recent
    /// measurement.
    pub fn set_observed(&self, by_nodes: &Resources, by_allocations: &Resources) {
        self.scraped.set_observed(by_nodes, by_allocations);
    }

    /// Adds metrics of the process and the build. A second call changes nothing.
    pub fn describe_process(&self, build: Build) {
        process::show(&self.registry, build);
    }

    fn with(scraped: Scraped) -> Self {
        let mut make = Maker::default();
        process::note(&mut make);
        let [active, draining, failed, decommissioned, unhealthy] = make.gauges(
            "yunikorn_scheduler_node",
            "Nodes in partitions, those of them that drain or are not ready, and (only rising) \
             those that were refused or taken away.",
            ("state", ["active", "draining", "failed", "decommissioned", "unhealthy"]),
        );
        Self {
            attempts: Attempts::with(&mut make),
            nodes: Nodes { active, draining, failed, decommissioned, unhealthy },
            callback: CallbackMetrics::new(&mut make),
            cluster: ClusterMetrics::with(&mut make),
            events: Events::with(&mut make),
            log: LogMetrics::with(&mut make),
            run_times: RunTimeMetrics::with(&mut make),
            utilization: Utilization::with(&mut make),
            traces: TraceMetrics::with(&mut make),
            watchdog: WatchdogMetrics::with(&mut make),
            submissions: make.counters(
                "yunikorn_scheduler_application_submission_total",
                "Applications that were placed in a queue, accepted (also again), or rejected.",
                ("result", ["new", "accepted", "rejected"]),
            ),
            applications: make.gauges(
                "yunikorn_scheduler_application_total",
                "Applications in a state; completed and failed only rise.",
                ("state", COUNTED.map(label)),
            ),
            ended: EndedApplications::with(&mut make),
            scheduling_cycle: make.histogram(
                "yunikorn_scheduler_scheduling_cycle_milliseconds",
                "Seconds that a pass over a partition takes with what follows from it, until the next \
                 may begin; some are timed, and stand for the others. Partitions do not wait for each \
                 other, so that there is no cycle over all of them.",
                &LATENCY_BUCKETS,
            ),
            choosing_latency: make.histograms(
                "yunikorn_scheduler_node_sorting_latency_milliseconds",
                "Seconds that finding who comes first among applications or queues takes; some are \
                 timed, and stand for the others. Both are kept in order, as nodes are: nothing is \
                 sorted.",
                ("level", ["app", "queue"]),
                &LATENCY_BUCKETS,
            ),
            node_round: make.histogram(
                "yunikorn_scheduler_trynode_evaluation_milliseconds",
                "Seconds from looking for a node for one request, or for those of a gang, until one took \
                 it, asks the RM about it, or none will do; some are timed, and stand for the others.",
                &LATENCY_BUCKETS,
            ),
            scheduling_latency: make.histogram(
                "yunikorn_scheduler_scheduling_latency_milliseconds",
                "Seconds that a pass over a partition takes; some are timed, and stand for the others.",
                &LATENCY_BUCKETS,
            ),
            node_try_latency: make.histogram(
                "yunikorn_scheduler_trynode_latency_milliseconds",
                "Seconds that a successful attempt at a node takes; some are timed, and stand for the \
                 others.",
                &LATENCY_BUCKETS,
            ),
            preemption_try_latency: make.histogram(
                "yunikorn_scheduler_trypreemption_latency_milliseconds",
                "Seconds that a request's, or a gang's, look for victims for a guarantee takes, with \
                 the answers of the RM.",
                &LATENCY_BUCKETS,
            ),
            offers: make.counter("monoceros_offers_total", "Offers that left a partition."),
            offer_decisions: make.histogram(
                "monoceros_offer_decisions",
                "Decisions that an offer brings home.",
                &DECISION_BUCKETS,
            ),
            placements: make.counters(
                "monoceros_placements_total",
                "Placements by what the node said.",
                ("outcome", ["placed", "refused"]),
            ),
            failed_starts: failed_starts(&mut make),
            predicates: Predicates::with(&mut make),
            actors: Actors::with(&mut make),
            si_ignored: make.counters_by_name(
                "monoceros_si_ignored_total",
                "Items of an RM that had no effect and got no answer, by reason.",
                ["rm", "dialect", "reason"],
            ),
            si_rejected: make.counters_by_name(
                "monoceros_si_rejected_total",
                "Items of an RM that were refused, by the code of the reason.",
                ["rm", "dialect", "reason"],
            ),
            scraped: scraped.registered(&mut make),
            inventory: make.inventory(),
            registry: make.registry(),
        }
    }
}
