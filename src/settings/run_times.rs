//! Section `run_times`: how long allocations run, by class.

use std::time::Duration;

use monoceros_actors::SchedulerBuilder;
use monoceros_actors::runtimes::{self, CLASSES_MAX};
use serde::Deserialize;

use super::seconds;

/// Shortest half-life. With a shorter one, hardly a run would be known.
const SHORTEST: Duration = Duration::from_secs(60 * 60);
/// Longest half-life.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Section `run_times`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `run_times.KEY` or MONOCEROS__RUN_TIMES__KEY)"
)]
pub struct RunTimeSettings {
    /// Whether run times are measured. Default true.
    pub enabled: bool,
    /// Seconds after which a run counts half, from an hour to a year. Default 7 days.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub half_life: Duration,
    /// Most classes of a partition. 0 measures none. Default 10,000, at most 100,000.
    pub classes: usize,
}

impl RunTimeSettings {
    /// Returns the values out of their bounds.
    pub(super) fn contradictions(&self) -> Vec<String> {
        let (half_life, classes) = (self.half_life, self.classes);
        let mut found = Vec::new();
        if half_life < SHORTEST || half_life > LONGEST {
            found.push(format!(
                "`run_times.half_life` ({half_life:?}) is not between {SHORTEST:?} and {LONGEST:?}"
            ));
        }
        if classes > CLASSES_MAX {
            found.push(format!("`run_times.classes` ({classes}) is more than {CLASSES_MAX}"));
        }
        found
    }

    /// Returns the settings in the scheduler's form; `None` if run times are not measured.
    pub fn of_scheduler(&self) -> Option<runtimes::RunTimeSettings> {
        let Self { enabled, half_life, classes } = *self;
        (enabled && classes > 0).then_some(runtimes::RunTimeSettings { half_life, classes })
    }

    /// Applies the settings to the scheduler.
    pub fn apply(&self, builder: SchedulerBuilder) -> SchedulerBuilder {
        builder.run_times(self.of_scheduler())
    }
}
