//! The report's sections on evictions and fairness.

use std::collections::BTreeMap;

use serde::Serialize;

use super::evictions::{Losses, losses};
use super::history::{History, Sample};
use super::report::{Named, by_kind};
use super::trace::Trace;
use crate::replay::numbers::{rounded, seconds};

/// Parts of the makespan in the table of fairness.
const PARTS: usize = 8;

/// Evictions and their losses.
#[derive(Debug, Serialize)]
pub(crate) struct Evictions {
    pub(crate) count: usize,
    /// Amounts × seconds whose work was lost.
    pub(crate) wasted: Named<f64>,
    /// The wasted share of all used amounts.
    pub(crate) wasted_share: Named<f64>,
    pub(crate) by_grounds: Vec<LossRow>,
    pub(crate) pods: Vec<EvictionRow>,
}

/// The losses of a queue on one kind of grounds.
#[derive(Debug, Serialize)]
pub(crate) struct LossRow {
    pub(crate) queue: String,
    pub(crate) grounds: String,
    /// The queue that gained by the evictions.
    pub(crate) for_queue: Option<String>,
    pub(crate) count: usize,
    pub(crate) wasted: Named<f64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct EvictionRow {
    time: f64,
    pod: String,
    queue: String,
    node: String,
    grounds: String,
    for_queue: Option<String>,
    /// The time that the pod ran on its machine, and the part of it that was lost, in seconds.
    ran: f64,
    lost: f64,
}

/// Figures of how well the leaf queues were served, as `fairness` defines them.
#[derive(Debug, Serialize)]
pub(crate) struct FairnessFacts {
    /// Mean and minimum of Jain's index while a pod was pending.
    pub(crate) jain: f64,
    pub(crate) least_jain: f64,
    /// The time in which a pod was pending, in seconds.
    pub(crate) waited: f64,
    pub(crate) queues: Vec<QueueFairness>,
    pub(crate) over_time: FairnessTable,
}

#[derive(Debug, Serialize)]
pub(crate) struct QueueFairness {
    pub(crate) queue: String,
    /// Mean share of the queue's entitlement over the makespan.
    pub(crate) of_owed: f64,
    /// How well the queue was served on average while it wanted something (1 is fully).
    pub(crate) served: Option<f64>,
    /// Seconds for which the queue had pending requests and less than its due.
    pub(crate) short: f64,
}

/// Means over equal parts of the makespan. `None` if the queue wanted nothing, or no pod was
/// pending.
#[derive(Debug, Serialize)]
pub(crate) struct FairnessTable {
    /// End of each part, in seconds on the clock of the trace.
    pub(crate) until: Vec<f64>,
    /// The share of its due that each leaf had.
    pub(crate) served: BTreeMap<String, Vec<Option<f64>>>,
    pub(crate) jain: Vec<Option<f64>>,
}

pub(crate) fn evictions(trace: &Trace, history: &History) -> Evictions {
    let (all, apart) = losses(trace, history);
    let wasted = |losses: &Losses| by_kind(|kind| losses.wasted.of(kind));
    let by_grounds = apart.iter().map(|((queue, grounds), losses)| LossRow {
        queue: queue.clone(),
        grounds: grounds.to_string(),
        for_queue: grounds.queue().map(str::to_owned),
        count: losses.evictions,
        wasted: wasted(losses),
    });
    let pods = history.evictions.iter().map(|eviction| EvictionRow {
        time: seconds(eviction.at),
        pod: trace.pods[eviction.pod].name.clone(),
        queue: history.pods[eviction.pod].queue.clone(),
        node: trace.machines[eviction.machine].name.clone(),
        grounds: eviction.grounds.to_string(),
        for_queue: eviction.grounds.queue().map(str::to_owned),
        ran: seconds(eviction.ran),
        lost: seconds(eviction.lost),
    });
    Evictions {
        count: all.evictions,
        wasted: wasted(&all),
        wasted_share: by_kind(|kind| rounded(all.wasted.share(kind, history.usage.used(kind)))),
        by_grounds: by_grounds.collect(),
        pods: pods.collect(),
    }
}

pub(crate) fn fairness(trace: &Trace, history: &History) -> FairnessFacts {
    let (jain, least_jain) = history.fairness.mean_and_least();
    let queues = history.fairness.leaves().map(|(path, of_owed, served, short)| QueueFairness {
        queue: path.to_owned(),
        of_owed: rounded(of_owed),
        served: served.map(rounded),
        short: seconds(short),
    });
    FairnessFacts {
        jain: rounded(jain),
        least_jain: rounded(least_jain),
        waited: seconds(history.fairness.waited()),
        queues: queues.collect(),
        over_time: over_time(history.samples.samples(), trace.start() * 1000, history.end),
    }
}

fn over_time(samples: &[Sample], start: i64, end: i64) -> FairnessTable {
    let length = end.saturating_sub(start).max(0);
    let parts = i64::try_from(PARTS).unwrap_or(1);
    // The product overflows only after hundreds of thousands of years.
    let bound = |part: usize| start + length * i64::try_from(part).unwrap_or(0) / parts;
    let bounds: Vec<(i64, i64)> = (0..PARTS).map(|part| (bound(part), bound(part + 1))).collect();
    let means = |value: &dyn Fn(&Sample) -> Option<f64>| -> Vec<Option<f64>> {
        bounds.iter().map(|part| mean(samples, *part, end, value)).collect()
    };
    let mut served = BTreeMap::new();
    for leaf in samples.iter().flat_map(|sample| &sample.leaves) {
        if !served.contains_key(&leaf.path) {
            let of_leaf = |sample: &Sample| {
                sample.leaves.iter().find(|it| it.path == leaf.path).and_then(|it| it.served)
            };
            served.insert(leaf.path.clone(), means(&of_leaf));
        }
    }
    FairnessTable {
        until: bounds.iter().map(|(_, until)| seconds(*until)).collect(),
        served,
        jain: means(&|sample| sample.jain),
    }
}

/// Returns the mean over a period of a value that is valid from its sample to the next.
fn mean(
    samples: &[Sample],
    (from, until): (i64, i64),
    end: i64,
    value: &dyn Fn(&Sample) -> Option<f64>,
) -> Option<f64> {
    let (mut sum, mut time) = (0.0, 0);
    for (at, sample) in samples.iter().enumerate() {
        if sample.at >= until {
            break;
        }
        let next = samples.get(at + 1).map_or(end, |next| next.at);
        let held = next.min(until) - sample.at.max(from);
        if held <= 0 {
            continue;
        }
        if let Some(value) = value(sample) {
            sum += value * held as f64;
            time += held;
        }
    }
    (time > 0).then(|| rounded(sum / time as f64))
}

#[cfg(test)]
mod tests {
    use super::super::amount::Amount;
    use super::*;

    fn sample(at: i64, jain: Option<f64>) -> Sample {
        Sample {
            at,
            allocated: Amount::default(),
            running: 0,
            pending: Amount::default(),
            n_pending: 0,
            jain,
            leaves: Vec::new(),
            n_evicted: 0,
            fragmentation: [0.0; 3],
        }
    }

    #[test]
    fn parts_have_the_mean_of_their_values() {
        let samples = [sample(0, Some(1.0)), sample(1500, Some(0.5)), sample(2000, None)];
        let table = over_time(&samples, 0, 8000);
        assert_eq!(table.until[..3], [1.0, 2.0, 3.0]);
        assert_eq!(table.jain[..3], [Some(1.0), Some(0.75), None]);
        assert_eq!((table.jain.len(), table.jain[7]), (8, None));
        assert_eq!(over_time(&[], 5, 5).jain, vec![None; 8]);
    }
}
