//! What is replayed: machines, and pods that come, run for a while, and go.
//!
//! # How a row becomes a pod
//! Three times are recorded of a pod: creation, start and deletion. The replay decides the start
//! anew, so that only the creation and *how long the pod holds its resources* are taken over. The
//! times alone decide this ([`Lifetime::of`]); the phase is carried into the report and nothing
//! else. A failed pod, for instance, held its resources until it failed.

use std::cmp::max;
use std::collections::BTreeMap;

use super::amount::Amount;
use super::wishes::Wishes;
use crate::chance::Chance;

/// A cluster and the pods that were submitted to it. Names are unique among the machines and
/// among the pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    pub(crate) machines: Vec<Machine>,
    /// In order of creation; pods of the same second in the order of their rows.
    pub(crate) pods: Vec<Pod>,
    /// The latest time that the trace mentions, in seconds: nothing is known beyond it.
    pub(crate) end: i64,
}

/// A machine, here from the first second to the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) capacity: Amount,
    /// The model of its GPUs; empty where it has none.
    pub(crate) model: String,
    /// What else is known of it: placement constraints look at these.
    pub(crate) attributes: BTreeMap<String, String>,
}

/// One pod of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) ask: Amount,
    /// The GPU models it accepts; empty means any machine.
    pub(crate) models: Vec<String>,
    pub(crate) qos: String,
    pub(crate) phase: String,
    /// When it is submitted, in seconds.
    pub(crate) creation: i64,
    pub(crate) lifetime: Lifetime,
    /// The gang that it is in: its pods start together or not at all.
    pub(crate) gang: Option<String>,
    /// What else its ask says.
    pub(crate) wishes: Wishes,
}

impl Pod {
    /// The id of its application, which is that of its gang if it is in one.
    pub(crate) fn application(&self) -> &str {
        self.gang.as_ref().unwrap_or(&self.name)
    }

    /// Whether its model requirement admits a machine with GPUs of `model`.
    pub(crate) fn admits(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|wanted| wanted == model)
    }
}

/// The models of a requirement such as `V100M16|V100M32`; none of an empty one.
pub(crate) fn models_of(spec: &str) -> Vec<String> {
    spec.split('|').map(str::trim).filter(|model| !model.is_empty()).map(str::to_owned).collect()
}

/// How long a pod holds its resources once it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// It runs this many seconds, whenever it starts.
    Runs(i64),
    /// It was deleted before it ever ran: it is wanted until this time, in seconds. If it has
    /// started by then it ends; if it still waits it is withdrawn.
    WantedUntil(i64),
    /// Nothing usable is recorded: it runs to the end of the trace, and not at all if it starts
    /// later.
    RunsToEnd,
}

impl Lifetime {
    /// Reads the three recorded times of a pod, in seconds.
    pub(crate) fn of(creation: i64, scheduled: Option<i64>, deletion: Option<i64>) -> Self {
        match (scheduled, deletion) {
            (Some(start), Some(end)) if end >= start => Self::Runs(end - start),
            (None, Some(end)) if end >= creation => Self::WantedUntil(end),
            _ => Self::RunsToEnd,
        }
    }
}

impl Trace {
    /// Puts the pods into order of creation and finds the end.
    ///
    /// `last_mentioned` is the latest time of any row, in seconds.
    pub(crate) fn new(machines: Vec<Machine>, mut pods: Vec<Pod>, last_mentioned: i64) -> Self {
        pods.sort_by_key(|pod| pod.creation);
        let last_creation = pods.last().map_or(0, |pod| pod.creation);
        Self { machines, pods, end: max(last_mentioned, last_creation) }
    }

    /// Puts pods that were created in the same second into an order of the seed's choice; seed 0
    /// keeps the order of the rows.
    pub(crate) fn shuffle_ties(&mut self, seed: u64) {
        if seed == 0 {
            return;
        }
        let mut chance = Chance::new(seed);
        for tied in self.pods.chunk_by_mut(|a, b| a.creation == b.creation) {
            chance.shuffle(tied);
        }
    }

    /// The first creation, in seconds: virtual time begins here.
    pub(crate) fn start(&self) -> i64 {
        self.pods.first().map_or(0, |pod| pod.creation)
    }

    /// The sum over all machines.
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
