//! Fragmentation: the share of free resources that the pods of the trace cannot use.
//!
//! # The measure
//! Let `P` be the pods of the trace that ask for a resource `r`, each row counted once. On one
//! machine, the free amount of `r` is *stranded* for a pod of `P` if the pod does not fit into the
//! free amounts there (of any resource), or does not accept its GPU model. Then
//!
//! ```text
//! fragmentation(r) = Σ over machines: free(r) × (share of P for which it is stranded)
//!                    ───────────────────────────────────────────────────────────────
//!                                 Σ over machines: free(r)
//! ```
//!
//! in words: the part of the free amount that is stranded for a pod picked at random. It is the
//! statistical measure of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023), taken per
//! machine instead of per card, because the scheduler counts GPUs per machine.
//!
//! An idle cluster need not have zero fragmentation: a pod of eight GPUs never fits a machine of
//! two.
//!
//! # Cost
//! Only a changed machine is evaluated again, once per shape of pod. If a trace has more than
//! [`SHAPES`] shapes, only the most frequent ones are counted.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::amount::{Amount, ResourceKind};
use super::trace::{Pod, Trace};

/// Most shapes of pods that are counted.
const SHAPES: usize = 1000;

/// The measure, updated machine by machine.
pub(crate) struct Fragmentation {
    /// Distinct asks and GPU models, with the number of their rows.
    shapes: Vec<(Pod, i128)>,
    /// The free amount of each machine and, by kind, that amount × the rows for which it is
    /// stranded.
    machines: Vec<(Amount, [i128; 3])>,
    models: Vec<String>,
    /// Number of rows that ask for each kind.
    rows: [i128; 3],
    free: [i128; 3],
    stranded: [i128; 3],
}

impl Fragmentation {
    /// Starts with all machines empty.
    pub(crate) fn new(trace: &Trace) -> Self {
        let shapes = shapes(&trace.pods);
        let mut rows = [0; 3];
        for (shape, count) in &shapes {
            for kind in ResourceKind::ALL {
                rows[kind as usize] += if shape.ask[kind] > 0 { *count } else { 0 };
            }
        }
        let models = trace.machines.iter().map(|machine| machine.model.clone()).collect();
        let machines = vec![(Amount::default(), [0; 3]); trace.machines.len()];
        let mut fragmentation =
            Self { shapes, machines, models, rows, free: [0; 3], stranded: [0; 3] };
        for (at, machine) in trace.machines.iter().enumerate() {
            fragmentation.set_free(at, machine.capacity);
        }
        fragmentation
    }

    pub(crate) fn set_free(&mut self, machine: usize, free: Amount) {
        let stranded = self.stranded_on(machine, &free);
        let (free_before, stranded_before) =
            std::mem::replace(&mut self.machines[machine], (free, stranded));
        for kind in ResourceKind::ALL {
            let at = kind as usize;
            self.free[at] += i128::from(free[kind]) - i128::from(free_before[kind]);
            self.stranded[at] += stranded[at] - stranded_before[at];
        }
    }

    /// Returns the fragmentation of a resource, from 0 to 1. 0 if nothing is free or no pod asks
    /// for it.
    pub(crate) fn of(&self, kind: ResourceKind) -> f64 {
        let whole = self.free[kind as usize] * self.rows[kind as usize];
        if whole == 0 { 0.0 } else { self.stranded[kind as usize] as f64 / whole as f64 }
    }

    fn stranded_on(&self, machine: usize, free: &Amount) -> [i128; 3] {
        let mut misfits = [0; 3];
        for (shape, count) in &self.shapes {
            if free.holds(&shape.ask) && shape.admits(&self.models[machine]) {
                continue;
            }
            for kind in ResourceKind::ALL {
                misfits[kind as usize] += if shape.ask[kind] > 0 { *count } else { 0 };
            }
        }
        ResourceKind::ALL.map(|kind| i128::from(free[kind]) * misfits[kind as usize])
    }
}

/// Returns the most frequent shapes, each as its first pod with the number of pods.
fn shapes(pods: &[Pod]) -> Vec<(Pod, i128)> {
    let mut counted: BTreeMap<(Amount, &[String]), (&Pod, i128)> = BTreeMap::new();
    for pod in pods {
        counted.entry((pod.ask, &pod.models)).or_insert((pod, 0)).1 += 1;
    }
    let mut shapes: Vec<_> = counted.into_values().map(|(pod, n)| (pod.clone(), n)).collect();
    // The sort is stable: equally frequent shapes stay in the order of their amounts.
    shapes.sort_by_key(|(_, count)| Reverse(*count));
    shapes.truncate(SHAPES);
    shapes
}

#[cfg(test)]
mod tests {
    use super::super::trace::{Lifetime, Machine};
    use super::super::wishes::Wishes;
    use super::*;

    fn pod(gpu_milli: i64, vcore: i64, models: &[&str]) -> Pod {
        Pod {
            name: String::new(),
            ask: Amount::new(0, gpu_milli, vcore),
            models: models.iter().map(|&model| model.to_owned()).collect(),
            qos: String::new(),
            phase: String::new(),
            creation: 0,
            lifetime: Lifetime::RunsToEnd,
            gang: None,
            wishes: Wishes::default(),
        }
    }

    fn machine(gpu_milli: i64, vcore: i64, model: &str) -> Machine {
        let capacity = Amount::new(0, gpu_milli, vcore);
        let (name, model) = (String::new(), model.to_owned());
        Machine { name, capacity, model, attributes: BTreeMap::new() }
    }

    #[test]
    fn free_amounts_are_stranded_by_share_of_pods() {
        let machines = vec![machine(1000, 10, "T4"), machine(3000, 10, "L4")];
        let pods = vec![pod(2000, 1, &[]), pod(1000, 1, &["T4"]), pod(0, 1, &[])];
        let mut measure = Fragmentation::new(&Trace::new(machines, pods, 0));
        // 1000 stranded for one of two GPU pods, 3000 for the other.
        assert!((measure.of(ResourceKind::Gpu) - 0.5).abs() < 1e-12);
        assert!(
            (measure.of(ResourceKind::Vcore) - 1.0 / 3.0).abs() < 1e-12,
            "of three pods with cores"
        );
        measure.set_free(1, Amount::new(0, 1000, 0));
        // 1000 × 1/2 and 1000 × 2/2: without free cores, free GPUs are stranded for all pods.
        assert!((measure.of(ResourceKind::Gpu) - 0.75).abs() < 1e-12);
        measure.set_free(0, Amount::default());
        measure.set_free(1, Amount::default());
        assert!(measure.of(ResourceKind::Gpu).abs() < 1e-12, "nothing is free");
    }

    #[test]
    fn a_reverted_change_restores_the_measure() {
        let trace = super::super::sample::sample_trace(1);
        let mut measure = Fragmentation::new(&trace);
        let before = ResourceKind::ALL.map(|kind| measure.of(kind).to_bits());
        measure.set_free(40, Amount::new(1, 2, 3));
        measure.set_free(40, trace.machines[40].capacity);
        assert_eq!(ResourceKind::ALL.map(|kind| measure.of(kind).to_bits()), before);
    }
}
