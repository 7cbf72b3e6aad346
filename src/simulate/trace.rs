//! A trace: machines, and pods that arrive, run for a while, and end.
//!
//! # How a row becomes a pod
//! A row records three times: creation, start and deletion. The replay decides the start itself, so
//! only the creation and *how long the pod holds its resources* are used ([`Lifetime::of`]). The
//! phase is only copied into the report: a failed pod, for instance, held its resources until it
//! failed.

use std::cmp::max;
use std::collections::BTreeMap;

use super::amount::Amount;
use super::wishes::Wishes;
use crate::chance::Chance;

/// A cluster and its submitted pods. Names are unique among the machines and among the pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    pub(crate) machines: Vec<Machine>,
    /// The pods in order of creation. Pods of one second are in the order of their rows.
    pub(crate) pods: Vec<Pod>,
    /// The latest time in the trace, in seconds. Nothing is known beyond it.
    pub(crate) end: i64,
}

/// A machine, which exists for the whole trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) capacity: Amount,
    /// The model of its GPUs. Empty if it has none.
    pub(crate) model: String,
    /// Attributes for placement constraints.
    pub(crate) attributes: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) ask: Amount,
    /// The GPU models that it accepts. Empty means any machine.
    pub(crate) models: Vec<String>,
    pub(crate) qos: String,
    pub(crate) phase: String,
    /// Time of its submission, in seconds.
    pub(crate) creation: i64,
    pub(crate) lifetime: Lifetime,
    /// The gang of the pod, whose pods start together or not at all.
    pub(crate) gang: Option<String>,
    /// Optional fields of its ask.
    pub(crate) wishes: Wishes,
}

impl Pod {
    /// Returns the id of its application: that of its gang, or its own name.
    pub(crate) fn application(&self) -> &str {
        self.gang.as_ref().unwrap_or(&self.name)
    }

    /// Whether it accepts a machine with GPUs of `model`.
    pub(crate) fn admits(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|wanted| wanted == model)
    }
}

/// Parses GPU models such as `V100M16|V100M32`.
pub(crate) fn models_of(spec: &str) -> Vec<String> {
    spec.split('|').map(str::trim).filter(|model| !model.is_empty()).map(str::to_owned).collect()
}

/// The time that a pod holds its resources after its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// The pod runs for this many seconds.
    Runs(i64),
    /// The pod was deleted before it ran, so it is wanted until this time, in seconds. At that time
    /// it ends if it runs, and is withdrawn if it is pending.
    WantedUntil(i64),
    /// The end is unknown: the pod runs to the end of the trace, or ends at once if it starts
    /// later.
    RunsToEnd,
}

impl Lifetime {
    /// Derives the lifetime from the three recorded times, in seconds.
    pub(crate) fn of(creation: i64, scheduled: Option<i64>, deletion: Option<i64>) -> Self {
        match (scheduled, deletion) {
            (Some(start), Some(end)) if end >= start => Self::Runs(end - start),
            (None, Some(end)) if end >= creation => Self::WantedUntil(end),
            _ => Self::RunsToEnd,
        }
    }
}

impl Trace {
    /// Sorts the pods by creation and finds the end.
    ///
    /// `last_mentioned` is the latest time of any row, in seconds.
    pub(crate) fn new(machines: Vec<Machine>, mut pods: Vec<Pod>, last_mentioned: i64) -> Self {
        pods.sort_by_key(|pod| pod.creation);
        let last_creation = pods.last().map_or(0, |pod| pod.creation);
        Self { machines, pods, end: max(last_mentioned, last_creation) }
    }

    /// Shuffles pods that were created in the same second. Seed 0 keeps the order of the rows.
    pub(crate) fn shuffle_ties(&mut self, seed: u64) {
        if seed == 0 {
            return;
        }
        let mut chance = Chance::new(seed);
        for tied in self.pods.chunk_by_mut(|a, b| a.creation == b.creation) {
            chance.shuffle(tied);
        }
    }

    /// Returns the first creation, in seconds. Virtual time begins there.
    pub(crate) fn start(&self) -> i64 {
        self.pods.first().map_or(0, |pod| pod.creation)
    }

    /// Returns the total capacity of all machines.
    pub(crate) fn capacity(&self) -> Amount {
        let mut capacity = Amount::default();
        for machine in &self.machines {
            capacity.add(&machine.capacity);
        }
        capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_recorded_times_has_its_lifetime() {
        let cases = [
            ("ran", Some(12), Some(20), Lifetime::Runs(8)),
            ("ended when it started", Some(12), Some(12), Lifetime::Runs(0)),
            ("ended before it started", Some(12), Some(11), Lifetime::RunsToEnd),
            ("no end", Some(12), None, Lifetime::RunsToEnd),
            ("never started", None, Some(20), Lifetime::WantedUntil(20)),
            ("deleted at once", None, Some(10), Lifetime::WantedUntil(10)),
            ("deleted before it was created", None, Some(9), Lifetime::RunsToEnd),
            ("nothing recorded", None, None, Lifetime::RunsToEnd),
            ("started before it was created", Some(3), Some(9), Lifetime::Runs(6)),
        ];
        for (name, scheduled, deletion, expected) in cases {
            assert_eq!(Lifetime::of(10, scheduled, deletion), expected, "{name}");
        }
    }
}
