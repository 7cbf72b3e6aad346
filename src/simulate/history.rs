//! What happened in a replay: the raw material of the report.
//!
//! It is kept apart from the report so that the replay records facts (who started when) and knows
//! nothing of percentiles and charts.

use super::amount::{Amount, ResourceKind};
use super::evictions::Eviction;
use super::fairness::Fairness;
use super::series::Series;

/// A whole replay.
#[derive(Debug)]
pub(crate) struct History {
    /// In the order of the trace.
    pub(crate) pods: Vec<PodHistory>,
    pub(crate) usage: Usage,
    pub(crate) samples: Series,
    pub(crate) fairness: Fairness,
    /// In order of time.
    pub(crate) evictions: Vec<Eviction>,
    /// The last event, in milliseconds on the clock of the trace.
    pub(crate) end: i64,
}

/// What became of one pod. Times are in milliseconds on the clock of the trace.
#[derive(Clone, Debug)]
pub(crate) struct PodHistory {
    /// The leaf that it was submitted to.
    pub(crate) queue: String,
    pub(crate) outcome: PodOutcome,
    /// Its first start.
    pub(crate) start: Option<i64>,
    pub(crate) end: Option<i64>,
    /// The last machine that it had.
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

    /// The outcome of a pod that has no machine now: it may have lost one.
    pub(crate) fn outcome_unplaced(&self, never_placed: PodOutcome) -> PodOutcome {
        if self.start.is_some() { PodOutcome::Preempted } else { never_placed }
    }
}

/// How a pod ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PodOutcome {
    /// It started and ran its time.
    Completed,
    /// It was preempted and got no machine again.
    Preempted,
    /// It waited in vain until the time at which it was deleted in the trace.
    Withdrawn,
    /// It still waited when nothing was left to happen.
    Unplaced,
    /// The scheduler refused it.
    Rejected { reason: String },
}

/// What runs and waits now, with sums over the time passed.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// What running pods hold.
    pub(crate) now: Amount,
    pub(crate) running: usize,
    pub(crate) pending: usize,
    pub(crate) most_pending: usize,
    /// The most that was held of each kind.
    peak: [i64; 3],
    /// Quantity × milliseconds of each kind; no sum of `i64` quantities over `i64` time exceeds it.
    integral: [i128; 3],
    passed: i64,
}

impl Usage {
    /// `milliseconds` pass in which nothing changes.
    pub(crate) fn pass(&mut self, milliseconds: i64) {
        for kind in ResourceKind::ALL {
            self.integral[kind as usize] += i128::from(self.now[kind]) * i128::from(milliseconds);
        }
        self.passed += milliseconds;
    }

    /// A pod starts.
    pub(crate) fn take(&mut self, ask: &Amount) {
        self.now.add(ask);
        self.running += 1;
        for kind in ResourceKind::ALL {
            self.peak[kind as usize] = self.peak[kind as usize].max(self.now[kind]);
        }
    }

    /// A pod leaves its machine.
    pub(crate) fn give_back(&mut self, ask: &Amount) {
        self.now.subtract(ask);
        self.running -= 1;
    }

    /// Called when the scheduler is idle: a pod that is placed at once does not count as pending.
    pub(crate) fn note_pending(&mut self) {
        self.most_pending = self.most_pending.max(self.pending);
    }

    /// The most that was held at once.
    pub(crate) fn peak(&self, kind: ResourceKind) -> i64 {
        self.peak[kind as usize]
    }

    /// Quantity × milliseconds of all that was held.
    pub(crate) fn used(&self, kind: ResourceKind) -> i128 {
        self.integral[kind as usize]
    }

    /// The mean of what was held over all the time that passed.
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
    fn the_mean_weighs_by_time_and_the_peak_does_not() {
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
    fn a_pod_that_lost_its_machine_is_not_called_never_placed() {
        let mut pod = PodHistory::new("root.be");
        assert_eq!(pod.outcome_unplaced(PodOutcome::Withdrawn), PodOutcome::Withdrawn);
        pod.start = Some(1);
        assert_eq!(pod.outcome_unplaced(PodOutcome::Withdrawn), PodOutcome::Preempted);
    }
}
