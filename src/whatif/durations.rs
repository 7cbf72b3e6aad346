//! How long an allocation runs in a replay.
//!
//! * Its limit, if its request or application claims one.
//! * Else the median of what ended like it, of those that ran at least as long as it has run already.
//!   Of several runs of a question, each draws another quantile.
//! * Else its duration is unknown, and it runs until the end of the replay.
//!
//! # Invariant
//! The duration is a function of the question's seed, the run, and the allocation's application,
//! key and number: both replays of a run have the same.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::Resources;
use monoceros_actors::image::ResourceManagerImage;
use monoceros_actors::runtimes::{RowKey, RunTimeSettings, RunTimes, Whose};
use serde::Serialize;

use crate::chance::Chance;

/// The number of different quantiles that are drawn.
const QUANTILES: u32 = 1 << 20;
/// The least rest of a run that has lasted longer than expected.
const LEAST_REST: Duration = Duration::from_secs(1);

/// How the quantile of a duration is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Draw {
    /// Always the median.
    Median,
    /// Drawn with this seed.
    Seed(u64),
}

/// Numbers of runs, by the way in which their durations are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DurationCounts {
    /// Those with a claimed limit.
    pub limit: u64,
    /// Those that are estimated from what ended like them.
    pub measured: u64,
    /// Those of which nothing is known: they run until the horizon.
    pub unknown: u64,
}

impl DurationCounts {
    pub(super) fn add(&mut self, other: Self) {
        self.limit += other.limit;
        self.measured += other.measured;
        self.unknown += other.unknown;
    }
}

/// An allocation whose duration is asked for.
pub(super) struct Subject<'a> {
    /// The partition, without the prefix of the RM.
    pub(super) partition: &'a Arc<str>,
    pub(super) queue: &'a Arc<str>,
    pub(super) user: &'a Arc<str>,
    pub(super) application: &'a str,
    pub(super) key: &'a str,
    /// The number of this allocation among those of its key.
    pub(super) number: u64,
    pub(super) resources: &'a Resources,
    pub(super) limit: Option<Duration>,
    /// How long it has run already.
    pub(super) age: Duration,
}

/// The durations of a replay.
pub(super) struct Durations {
    /// By partition.
    run_times: HashMap<Arc<str>, RunTimes>,
    now_ns: i64,
    draw: Draw,
}

impl Durations {
    pub(super) fn of(image: &ResourceManagerImage, draw: Draw) -> Self {
        let of_partition = |name: &str| {
            let found = image.run_times.iter().find(|of| of.partition == *name)?;
            Some(RunTimes::restored(RunTimeSettings::default(), &found.image))
        };
        let run_times = image.partitions.iter().filter_map(|partition| {
            Some((Arc::from(partition.plain_name()), of_partition(partition.name())?))
        });
        Self { run_times: run_times.collect(), now_ns: image.at_ns(), draw }
    }

    /// Returns how much longer the allocation runs; `None` if that is unknown. Counts it.
    pub(super) fn rest(&self, of: &Subject<'_>, counts: &mut DurationCounts) -> Option<Duration> {
        if let Some(limit) = of.limit.filter(|limit| *limit > of.age) {
            counts.limit += 1;
            return Some(limit.saturating_sub(of.age));
        }
        let Some(lasts) = self.expected(of) else {
            counts.unknown += 1;
            return None;
        };
        counts.measured += 1;
        Some(lasts.saturating_sub(of.age).max(LEAST_REST))
    }

    /// Returns the whole duration that is expected from what ended like it.
    fn expected(&self, of: &Subject<'_>) -> Option<Duration> {
        let run_times = self.run_times.get(of.partition)?;
        let whose = Whose { queue: of.queue, user: of.user, application: of.application };
        let class: RowKey = whose.class(whose.stem(), of.resources);
        let estimate = run_times.estimate(&class, self.now_ns)?;
        estimate.histogram.quantile(self.quantile(of), of.age)
    }

    fn quantile(&self, of: &Subject<'_>) -> f64 {
        let Draw::Seed(seed) = self.draw else { return 0.5 };
        let mut hasher = DefaultHasher::new();
        (seed, of.partition, of.application, of.key, of.number).hash(&mut hasher);
        let drawn = Chance::new(hasher.finish()).below(QUANTILES);
        (f64::from(drawn) + 0.5) / f64::from(QUANTILES)
    }
}
