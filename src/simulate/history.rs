//! The events of a replay, from which the report is made.
//!
//! It is separate from the report so that the replay only records facts (which pod started when),
//! without percentiles and charts.

use super::amount::{Amount, ResourceKind};
use super::evictions::Eviction;
use super::fairness::Fairness;
use crate::replay::series::{Sampled, Series};

/// The record of a whole replay.
#[derive(Debug)]
pub(crate) struct History {
    /// The pods in the order of the trace.
    pub(crate) pods: Vec<PodHistory>,
    pub(crate) usage: Usage,
    pub(crate) samples: Series<Sample>,
    pub(crate) fairness: Fairness,
    /// The evictions in order of time.
    pub(crate) evictions: Vec<Eviction>,
    /// Time of the last event, in milliseconds on the clock of the trace.
    pub(crate) end: i64,
}

/// The record of a pod. Times are in milliseconds on the clock of the trace.
#[derive(Clone, Debug)]
pub(crate) struct PodHistory {
    /// The leaf to which the pod was submitted.
    pub(crate) queue: String,
    pub(crate) outcome: PodOutcome,
    /// Time of its first start.
    pub(crate) start: Option<i64>,
    pub(crate) end: Option<i64>,
    /// The last machine of the pod.
    pub(crate) machine: Option<usize>,
    pub(crate) preemptions: u32,
}

impl PodHistory {
    pub(crate) fn new(queue: &str) -> Self {
        Self {
            queue: queue.to_owned(),
            outcome: PodOutcome::Unplaced,
            start: None,
            end: None,
            machine: None,
            preemptions: 0,
        }
    }

    /// Returns the outcome of a pod that has no machine. `never_placed` is the outcome if it never
    /// had a machine.
    pub(crate) fn outcome_unplaced(&self, never_placed: PodOutcome) -> PodOutcome {
        if self.start.is_some() { PodOutcome::Preempted } else { never_placed }
    }
}

/// The end of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PodOutcome {
    /// The pod ran for its whole time.
    Completed,
    /// The pod was preempted and not placed again.
    Preempted,
    /// The pod was pending until the time at which the trace deleted it.
    Withdrawn,
    /// The pod was pending when no events were left.
    Unplaced,
    /// The scheduler rejected it.
    Rejected { reason: String },
}

/// The state of the cluster at one time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    /// Virtual time on the clock of the trace, in milliseconds.
    pub(crate) at: i64,
    pub(crate) allocated: Amount,
    pub(crate) running: usize,
    pub(crate) pending: Amount,
    pub(crate) n_pending: usize,
    /// Jain's index of how well the leaves are served (`fairness`). `None` while no pod is pending.
    pub(crate) jain: Option<f64>,
    /// The state of each leaf, by path.
    pub(crate) leaves: Vec<LeafSample>,
    /// Number of evictions up to this time.
    pub(crate) n_evicted: usize,
    /// The share of free amounts that the pods of the trace cannot use, by kind (`fragmentation`).
    pub(crate) fragmentation: [f64; 3],
}

impl Sampled for Sample {
    fn at(&self) -> i64 {
        self.at
    }
}

/// The state of a leaf queue at one time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LeafSample {
    pub(crate) path: String,
    /// Amount held by its pods.
    pub(crate) held: Amount,
    /// The largest share of its entitlement to any resource that the leaf holds. `None` if it is
    /// entitled to nothing.
    pub(crate) of_owed: Option<f64>,
    /// The share of its due that the leaf holds, at most 1 (`fairness`). `None` if it wants nothing
    /// to which it is entitled.
    pub(crate) served: Option<f64>,
    /// Whether any of its pods is pending.
    pub(crate) waits: bool,
}

/// Present usage, with sums over time.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// Amount held by running pods.
    pub(crate) now: Amount,
    pub(crate) running: usize,
    pub(crate) pending: usize,
    pub(crate) most_pending: usize,
    /// Largest amount of each kind.
    peak: [i64; 3],
    /// Quantity × milliseconds of each kind. `i128` holds any sum of `i64` quantities over `i64`
    /// time.
    integral: [i128; 3],
    passed: i64,
}

impl Usage {
    /// Advances the time by `milliseconds` without a change.
    pub(crate) fn pass(&mut self, milliseconds: i64) {
        for kind in ResourceKind::ALL {
            self.integral[kind as usize] += i128::from(self.now[kind]) * i128::from(milliseconds);
        }
        self.passed += milliseconds;
    }

    /// Adds a started pod.
    pub(crate) fn take(&mut self, ask: &Amount) {
        self.now.add(ask);
        self.running += 1;
        for kind in ResourceKind::ALL {
            self.peak[kind as usize] = self.peak[kind as usize].max(self.now[kind]);
        }
    }

    /// Removes a pod from its machine.
    pub(crate) fn give_back(&mut self, ask: &Amount) {
        self.now.subtract(ask);
        self.running -= 1;
    }

    /// Updates `most_pending`. Called when the scheduler is idle, so that a pod that is placed at
    /// once does not count as pending.
    pub(crate) fn note_pending(&mut self) {
        self.most_pending = self.most_pending.max(self.pending);
    }

    /// Returns the largest amount that was in use at one time.
    pub(crate) fn peak(&self, kind: ResourceKind) -> i64 {
        self.peak[kind as usize]
    }

    /// Returns quantity × milliseconds.
    pub(crate) fn used(&self, kind: ResourceKind) -> i128 {
        self.integral[kind as usize]
    }

    /// Returns the mean amount over the whole time.
    pub(crate) fn mean(&self, kind: ResourceKind) -> f64 {
        if self.passed == 0 {
            return 0.0;
        }
        self.integral[kind as usize] as f64 / self.passed as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_weighted_by_time() {
        let mut usage = Usage::default();
        let ask = Amount::new(0, 0, 8);
        usage.pass(100);
        usage.take(&ask);
        usage.pass(100);
        usage.give_back(&ask);
        usage.pass(200);
        assert_eq!(usage.peak(ResourceKind::Vcore), 8);
        assert!((usage.mean(ResourceKind::Vcore) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn a_pod_without_its_machine_counts_as_preempted() {
        let mut pod = PodHistory::new("root.be");
        assert_eq!(pod.outcome_unplaced(PodOutcome::Withdrawn), PodOutcome::Withdrawn);
        pod.start = Some(1);
        assert_eq!(pod.outcome_unplaced(PodOutcome::Withdrawn), PodOutcome::Preempted);
    }
}
