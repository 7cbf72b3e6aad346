//! A generated trace, so that `monoceros simulate` works without any file.
//!
//! Sixty machines of four kinds and eight hundred pods over two days that are busy in the afternoon
//! and quiet at night. The figures are invented so that pods are pending at the peaks, GPU models
//! matter, some pods are withdrawn, and a few can never run.

use std::collections::BTreeMap;

use super::amount::Amount;
use super::trace::{Lifetime, Machine, Pod, Trace, models_of};
use super::wishes::Wishes;
use crate::chance::Chance;

const GIB: i64 = 1 << 30;
const HOUR: i64 = 3600;
const DAYS: u32 = 2;
const PODS: usize = 800;

/// Relative number of pods in each hour of a day.
const HOURLY: [u32; 24] =
    [3, 2, 2, 1, 1, 2, 4, 7, 12, 16, 18, 17, 14, 17, 20, 22, 21, 18, 13, 10, 8, 7, 5, 4];

pub(crate) fn sample_trace(seed: u64) -> Trace {
    let mut chance = Chance::new(seed);
    let hours: Vec<(u32, i64)> = HOURLY.into_iter().zip(0..).collect();
    let mut pods = Vec::with_capacity(PODS);
    for _ in 0..PODS {
        let day = i64::from(chance.below(DAYS));
        let hour = day * 24 + chance.weighted(&hours);
        let creation = hour * HOUR + i64::from(chance.below(3600));
        pods.push(pod(&mut chance, creation));
    }
    let mut trace = Trace::new(machines(), pods, i64::from(DAYS) * 24 * HOUR);
    for (at, pod) in trace.pods.iter_mut().enumerate() {
        pod.name = format!("pod-{at:04}");
    }
    trace
}

fn machines() -> Vec<Machine> {
    // Number, cores, memory in GiB, GPUs, model.
    let kinds: [(usize, i64, i64, i64, &str); 4] = [
        (24, 32, 128, 0, ""),
        (18, 48, 192, 2, "T4"),
        (12, 64, 384, 4, "L4"),
        (6, 96, 768, 8, "A100"),
    ];
    let mut machines = Vec::new();
    for (count, cores, memory, gpus, model) in kinds {
        for _ in 0..count {
            machines.push(Machine {
                name: format!("node-{:02}", machines.len()),
                capacity: Amount::new(memory * GIB, gpus * 1000, cores * 1000),
                model: model.to_owned(),
                attributes: BTreeMap::new(),
            });
        }
    }
    machines
}

/// The kinds of work that the invented users submit.
#[derive(Clone, Copy)]
enum Work {
    Service,
    Notebook,
    Batch,
    Training,
    Impossible,
}

fn pod(chance: &mut Chance, creation: i64) -> Pod {
    let kinds = [
        (30, Work::Service),
        (22, Work::Notebook),
        (28, Work::Batch),
        (19, Work::Training),
        (1, Work::Impossible),
    ];
    let work = *chance.weighted(&kinds);
    // Cores, memory per core in GiB, GPU thousandths, QoS class, shortest and longest run in hours.
    let (cores, per_core, gpu_milli, qos, shortest, longest) = match work {
        Work::Service => (*chance.weighted(&[(3, 4), (3, 8), (2, 16)]), 4, 0, "LS", 4, 20),
        Work::Notebook => {
            (4, 4, *chance.weighted(&[(3, 250), (3, 500), (1, 1000)]), "Burstable", 1, 9)
        }
        Work::Batch => (*chance.weighted(&[(2, 8), (2, 16), (2, 32)]), 4, 0, "BE", 1, 10),
        Work::Training => {
            let gpus = *chance.weighted(&[(5, 1), (4, 2), (3, 4), (2, 8)]);
            (gpus * 8, 6, gpus * 1000, "Guaranteed", 2, 14)
        }
        Work::Impossible => (8, 4, *chance.weighted(&[(1, 16_000), (1, 9_000)]), "BE", 1, 2),
    };
    let spec = match gpu_milli {
        0 => "",
        4000..=8000 => *chance.weighted(&[(2, ""), (1, "A100")]),
        _ => *chance.weighted(&[(6, ""), (2, "T4|L4"), (2, "A100")]),
    };
    let minutes = chance.below((longest - shortest) * 60) + shortest * 60;
    let run = i64::from(minutes) * 60;
    let impatient = chance.below(100) < 4;
    let lifetime =
        if impatient { Lifetime::WantedUntil(creation + run / 8) } else { Lifetime::Runs(run) };
    Pod {
        name: String::new(),
        ask: Amount::new(cores * per_core * GIB, gpu_milli, cores * 1000),
        models: models_of(spec),
        qos: qos.to_owned(),
        phase: if impatient { "Pending" } else { "Succeeded" }.to_owned(),
        creation,
        lifetime,
        gang: None,
        wishes: Wishes::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::amount::ResourceKind;
    use super::*;

    #[test]
    fn the_seed_determines_the_trace() {
        assert_eq!(sample_trace(1), sample_trace(1));
        assert_ne!(sample_trace(1), sample_trace(2));
    }

    #[test]
    fn every_sample_has_two_days_and_unplaceable_pods() {
        for seed in 0..20 {
            let trace = sample_trace(seed);
            assert_eq!((trace.machines.len(), trace.pods.len()), (60, 800));
            assert!(trace.pods.iter().all(|pod| (0..48 * HOUR).contains(&pod.creation)));
            let most = trace.machines.iter().map(|m| m.capacity[ResourceKind::Gpu]).max().unwrap();
            assert!(trace.pods.iter().any(|pod| pod.ask[ResourceKind::Gpu] > most), "seed {seed}");
        }
    }
}
