//! The report of a replay, as `report.json`.
//!
//! # Invariant
//! The text is a function of the trace, the queue configuration and the seed: it has no wall-clock
//! time, no path and no hash order. Equal inputs give equal bytes. Shares are rounded to six
//! decimals, and times are in seconds on the clock of the trace.

use std::collections::BTreeMap;

use serde::Serialize;

use super::amount::{Amount, ResourceKind, ratio};
use super::history::{History, LeafSample, PodHistory, PodOutcome, Sample};
use super::policy::{self, Evictions, FairnessFacts};
use super::replay::Assumptions;
use super::trace::{Pod, Trace};
use crate::replay::numbers::{rounded, seconds};
use crate::replay::waits::Waits;

/// Version of the format, raised when readers of the file have to change.
const FORMAT: u32 = 1;

/// The whole report. `docs/simulation.md` explains the fields.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    format: u32,
    pub(crate) seed: u64,
    pub(crate) trace: TraceFacts,
    pub(crate) assumptions: AssumedFacts,
    pub(crate) totals: Totals,
    pub(crate) queues: Vec<QueueTotals>,
    pub(crate) evictions: Evictions,
    pub(crate) fairness: FairnessFacts,
    pub(crate) series: SeriesColumns,
    pub(crate) pods: Vec<PodRow>,
}

#[derive(Debug, Serialize)]
pub(crate) struct TraceFacts {
    pub(crate) nodes: usize,
    pub(crate) pods: usize,
    pub(crate) start: f64,
    pub(crate) end: f64,
    pub(crate) capacity: Named<i64>,
}

/// Assumptions that are not in the trace.
#[derive(Debug, Serialize)]
pub(crate) struct AssumedFacts {
    all_preempt: bool,
    confirm_after: f64,
    keep_progress: bool,
}

/// A value per resource, by the scheduler's name.
pub(crate) type Named<T> = BTreeMap<&'static str, T>;

#[derive(Debug, Serialize)]
pub(crate) struct Totals {
    pub(crate) pods: usize,
    /// Pods that had a machine at least once.
    pub(crate) placed: usize,
    pub(crate) never_placed: usize,
    pub(crate) completed: usize,
    pub(crate) preempted: usize,
    pub(crate) withdrawn: usize,
    pub(crate) unplaced: usize,
    pub(crate) rejected: usize,
    pub(crate) preemptions: u64,
    pub(crate) most_pending: usize,
    /// The time from the first creation to the last event, in seconds.
    pub(crate) makespan: f64,
    pub(crate) wait: Waits,
    /// Mean allocated share of the capacity over the makespan.
    pub(crate) mean_utilisation: Named<f64>,
    pub(crate) peak_utilisation: Named<f64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct QueueTotals {
    pub(crate) queue: String,
    pub(crate) pods: usize,
    pub(crate) placed: usize,
    pub(crate) wait: Waits,
}

/// The series, one array per quantity. Equal indexes belong to one time.
#[derive(Debug, Serialize)]
pub(crate) struct SeriesColumns {
    pub(crate) time: Vec<f64>,
    pub(crate) allocated: Named<Vec<i64>>,
    pub(crate) pending: Named<Vec<i64>>,
    pub(crate) running_pods: Vec<usize>,
    pub(crate) pending_pods: Vec<usize>,
    /// Share of the free amount that a random pod of the trace cannot use.
    pub(crate) fragmentation: Named<Vec<f64>>,
    /// Jain's index of how well the leaves are served. `None` while no pod is pending.
    pub(crate) jain: Vec<Option<f64>>,
    /// Number of evictions up to each time.
    pub(crate) evictions: Vec<usize>,
    pub(crate) queues: BTreeMap<String, QueueColumns>,
}

#[derive(Debug, Serialize)]
pub(crate) struct QueueColumns {
    /// Largest share of the cluster's capacity in any resource.
    pub(crate) dominant_share: Vec<f64>,
    /// Share of the queue's entitlement, and how well it is served, as `fairness` defines them.
    pub(crate) of_owed: Vec<Option<f64>>,
    pub(crate) served: Vec<Option<f64>>,
    pub(crate) allocated: Named<Vec<i64>>,
}

#[derive(Debug, Serialize)]
pub(crate) struct PodRow {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    gang: Option<String>,
    queue: String,
    phase: String,
    ask: Named<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gpu_models: Vec<String>,
    creation: f64,
    start: Option<f64>,
    wait: Option<f64>,
    end: Option<f64>,
    node: Option<String>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    preemptions: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i32>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Report {
    pub(crate) fn new(
        trace: &Trace,
        history: &History,
        seed: u64,
        assumptions: Assumptions,
    ) -> Self {
        let capacity = trace.capacity();
        Self {
            format: FORMAT,
            seed,
            trace: TraceFacts {
                nodes: trace.machines.len(),
                pods: trace.pods.len(),
                start: trace.start() as f64,
                end: trace.end as f64,
                capacity: amounts(&capacity),
            },
            assumptions: AssumedFacts {
                all_preempt: assumptions.all_preempt,
                confirm_after: seconds(assumptions.confirm_after),
                keep_progress: assumptions.keep_progress,
            },
            totals: totals(trace, history, &capacity),
            queues: queue_totals(trace, history),
            evictions: policy::evictions(trace, history),
            fairness: policy::fairness(trace, history),
            series: columns(history.samples.samples(), &capacity),
            pods: trace
                .pods
                .iter()
                .zip(&history.pods)
                .map(|(pod, history)| pod_row(trace, pod, history))
                .collect(),
        }
    }

    /// Returns the text of `report.json`.
    pub(crate) fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self).map(|json| json + "\n")
    }
}

fn totals(trace: &Trace, history: &History, capacity: &Amount) -> Totals {
    let count = |wanted: fn(&PodHistory) -> bool| history.pods.iter().filter(|p| wanted(p)).count();
    let placed = count(|pod| pod.start.is_some());
    let usage = &history.usage;
    Totals {
        pods: history.pods.len(),
        placed,
        never_placed: history.pods.len() - placed,
        completed: count(|pod| pod.outcome == PodOutcome::Completed),
        preempted: count(|pod| pod.outcome == PodOutcome::Preempted),
        withdrawn: count(|pod| pod.outcome == PodOutcome::Withdrawn),
        unplaced: count(|pod| pod.outcome == PodOutcome::Unplaced),
        rejected: count(|pod| matches!(pod.outcome, PodOutcome::Rejected { .. })),
        preemptions: history.pods.iter().map(|pod| u64::from(pod.preemptions)).sum(),
        most_pending: usage.most_pending,
        makespan: seconds(history.end - trace.start() * 1000),
        wait: waits(trace.pods.iter().zip(&history.pods)),
        mean_utilisation: by_kind(|kind| share_of(usage.mean(kind), capacity[kind])),
        peak_utilisation: by_kind(|kind| rounded(ratio(usage.peak(kind), capacity[kind]))),
    }
}

fn share_of(mean: f64, whole: i64) -> f64 {
    if whole == 0 { 0.0 } else { rounded(mean / whole as f64) }
}

fn queue_totals(trace: &Trace, history: &History) -> Vec<QueueTotals> {
    let mut by_queue: BTreeMap<&str, Vec<(&Pod, &PodHistory)>> = BTreeMap::new();
    for pair in trace.pods.iter().zip(&history.pods) {
        by_queue.entry(&pair.1.queue).or_default().push(pair);
    }
    let row = |(queue, pods): (&str, Vec<(&Pod, &PodHistory)>)| QueueTotals {
        queue: queue.to_owned(),
        pods: pods.len(),
        placed: pods.iter().filter(|(_, history)| history.start.is_some()).count(),
        wait: waits(pods.into_iter()),
    };
    by_queue.into_iter().map(row).collect()
}

fn waits<'a>(pods: impl Iterator<Item = (&'a Pod, &'a PodHistory)>) -> Waits {
    Waits::of(pods.filter_map(|(pod, history)| wait(pod, history)).collect())
}

/// Returns the time from creation to the first start, in milliseconds.
fn wait(pod: &Pod, history: &PodHistory) -> Option<i64> {
    history.start.map(|start| start - pod.creation * 1000)
}

fn columns(samples: &[Sample], capacity: &Amount) -> SeriesColumns {
    let mut queues: BTreeMap<String, QueueColumns> = BTreeMap::new();
    for leaf in samples.iter().flat_map(|sample| &sample.leaves) {
        let path = &leaf.path;
        if !queues.contains_key(path) {
            // Dynamic queues hold nothing while they do not exist.
            let found: Vec<_> = samples.iter().map(|sample| leaf_of(sample, path)).collect();
            let held = || found.iter().map(|leaf| leaf.map_or_else(Amount::default, |it| it.held));
            let share = |of: fn(&LeafSample) -> Option<f64>| {
                found.iter().map(|leaf| leaf.and_then(of).map(rounded)).collect()
            };
            let columns = QueueColumns {
                dominant_share: held().map(|it| rounded(it.dominant_share(capacity))).collect(),
                of_owed: share(|leaf| leaf.of_owed),
                served: share(|leaf| leaf.served),
                allocated: by_kind(|kind| held().map(|held| held[kind]).collect()),
            };
            queues.insert(path.clone(), columns);
        }
    }
    SeriesColumns {
        time: samples.iter().map(|sample| seconds(sample.at)).collect(),
        allocated: by_kind(|kind| samples.iter().map(|sample| sample.allocated[kind]).collect()),
        pending: by_kind(|kind| samples.iter().map(|sample| sample.pending[kind]).collect()),
        running_pods: samples.iter().map(|sample| sample.running).collect(),
        pending_pods: samples.iter().map(|sample| sample.n_pending).collect(),
        fragmentation: by_kind(|kind| {
            samples.iter().map(|sample| rounded(sample.fragmentation[kind as usize])).collect()
        }),
        jain: samples.iter().map(|sample| sample.jain.map(rounded)).collect(),
        evictions: samples.iter().map(|sample| sample.n_evicted).collect(),
        queues,
    }
}

fn leaf_of<'a>(sample: &'a Sample, path: &str) -> Option<&'a LeafSample> {
    sample.leaves.iter().find(|leaf| leaf.path == path)
}

fn pod_row(trace: &Trace, pod: &Pod, history: &PodHistory) -> PodRow {
    let (outcome, reason) = match &history.outcome {
        PodOutcome::Completed => ("completed", None),
        PodOutcome::Preempted => ("preempted", None),
        PodOutcome::Withdrawn => ("withdrawn", None),
        PodOutcome::Unplaced => ("unplaced", None),
        PodOutcome::Rejected { reason } => ("rejected", Some(reason.clone())),
    };
    PodRow {
        name: pod.name.clone(),
        gang: pod.gang.clone(),
        queue: history.queue.clone(),
        phase: pod.phase.clone(),
        ask: amounts(&pod.ask),
        gpu_models: pod.models.clone(),
        creation: pod.creation as f64,
        start: history.start.map(seconds),
        wait: wait(pod, history).map(seconds),
        end: history.end.map(seconds),
        node: history.machine.map(|machine| trace.machines[machine].name.clone()),
        outcome,
        reason,
        preemptions: history.preemptions,
        priority: pod.wishes.priority,
    }
}

pub(crate) fn by_kind<T>(value: impl Fn(ResourceKind) -> T) -> Named<T> {
    ResourceKind::ALL.iter().map(|&kind| (kind.name(), value(kind))).collect()
}

fn amounts(amount: &Amount) -> Named<i64> {
    by_kind(|kind| amount[kind])
}
