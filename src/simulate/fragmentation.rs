//! How much of what is free lies where the work of this trace cannot use it.
//!
//! # The measure
//! Let `P` be the pods of the trace that ask for a resource `r`, each row counted once. On one
//! machine, the free amount of `r` is *stranded* for a pod of `P` if the pod does not fit into what
//! is free there (in any resource), or does not accept its GPU model. Then
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
//! An idle cluster need not be at zero: a pod of eight GPUs never fits a machine of two.
//!
//! # Cost
//! Only the machine that changed is looked at again, once for each different shape of pod. Of a
//! trace with more than [`SHAPES`] shapes, the most frequent ones stand for all.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::amount::{Amount, ResourceKind};
use super::trace::{Pod, Trace};

/// The most shapes of pods that are tried.
const SHAPES: usize = 1000;

/// The measure, kept up to date machine by machine.
pub(crate) struct Fragmentation {
    /// Distinct asks and model requirements with the number of their rows.
    shapes: Vec<(Pod, i128)>,
    /// Per machine: its free amount and, by kind, free × rows for which that is stranded.
    machines: Vec<(Amount, [i128; 3])>,
    models: Vec<String>,
    /// Rows that ask for each kind.
    rows: [i128; 3],
    free: [i128; 3],
    stranded: [i128; 3],
}

impl Fragmentation {
    /// Starts with every machine empty.
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

    /// Says what is free on a machine now.
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

    /// The fragmentation of a resource now, from 0 to 1; 0 where nothing is free or nobody asks.
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

/// The most frequent shapes, each as its first pod with the number of pods.
fn shapes(pods: &[Pod]) -> Vec<(Pod, i128)> {
    let mut counted: BTreeMap<(Amount, &[String]), (&Pod, i128)> = BTreeMap::new();
    for pod in pods {
        counted.entry((pod.ask, &pod.models)).or_insert((pod, 0)).1 += 1;
    }
    let mut shapes: Vec<_> = counted.into_values().map(|(pod, n)| (pod.clone(), n)).collect();
    // Stable: shapes of one frequency stay in the order of their amounts.
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
    fn what_no_pod_can_use_is_stranded_by_the_share_of_pods_that_cannot() {
        let machines = vec![machine(1000, 10, "T4"), machine(3000, 10, "L4")];
        let pods = vec![pod(2000, 1, &[]), pod(1000, 1, &["T4"]), pod(0, 1, &[])];
        let mut measure = Fragmentation::new(&Trace::new(machines, pods, 0));
        // 1000 stranded for one of two GPU pods, 3000 for the other one.
        assert!((measure.of(ResourceKind::Gpu) - 0.5).abs() < 1e-12);
        assert!(
            (measure.of(ResourceKind::Vcore) - 1.0 / 3.0).abs() < 1e-12,
            "of three pods with cores"
        );
        measure.set_free(1, Amount::new(0, 1000, 0));
        // 1000 × 1/2 and 1000 × 2/2: without cores, free GPUs are stranded for everyone.
        assert!((measure.of(ResourceKind::Gpu) - 0.75).abs() < 1e-12);
        measure.set_free(0, Amount::default());
        measure.set_free(1, Amount::default());
        assert!(measure.of(ResourceKind::Gpu).abs() < 1e-12, "nothing is free");
    }

    #[test]
    fn a_change_there_and_back_leaves_the_measure_as_it_was() {
        let trace = super::super::sample::sample_trace(1);
        let mut measure = Fragmentation::new(&trace);
        let before = ResourceKind::ALL.map(|kind| measure.of(kind).to_bits());
        measure.set_free(40, Amount::new(1, 2, 3));
        measure.set_free(40, trace.machines[40].capacity);
        assert_eq!(ResourceKind::ALL.map(|kind| measure.of(kind).to_bits()), before);
    }
}
