//! Running applications and allocations in each minute of the last day.
//!
//! # Invariants
//! * Samples are in order of time, a minute apart, and cover at most a day: the oldest is dropped.
//! * A sample does not wait for a partition that hangs: it is then taken without numbers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::SchedulerHandle;
use serde::Serialize;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use crate::clock::now_ns;
use crate::locked::locked;

const MINUTE: Duration = Duration::from_secs(60);

/// Samples of one day.
const SAMPLES_MAX: usize = 1_440;

/// Time limit for the partitions to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The samples. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Minutes(Arc<Mutex<VecDeque<Sample>>>);

/// Numbers at one time. `None` if they could not be read.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Nanoseconds since the epoch.
    at_ns: i64,
    ran: Option<Ran>,
}

/// Totals of all partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ran {
    applications: i64,
    allocations: usize,
}

/// A sample of applications as clients know it: the number is a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationsThen {
    timestamp: i64,
    /// `-1` if it could not be read.
    total_applications: String,
}

/// A sample of allocations as clients know it: the number is a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainersThen {
    timestamp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_containers: Option<String>,
}

impl Minutes {
    /// Lists the numbers of running applications, the oldest sample first.
    pub fn applications(&self) -> Vec<ApplicationsThen> {
        let shown = |sample: &Sample| ApplicationsThen {
            timestamp: sample.at_ns,
            total_applications: sample.ran.map_or(-1, |ran| ran.applications).to_string(),
        };
        locked(&self.0).iter().map(shown).collect()
    }

    /// Lists the numbers of allocations, placeholders included, the oldest sample first.
    pub fn containers(&self) -> Vec<ContainersThen> {
        let shown = |sample: &Sample| ContainersThen {
            timestamp: sample.at_ns,
            total_containers: sample.ran.map(|ran| ran.allocations.to_string()),
        };
        locked(&self.0).iter().map(shown).collect()
    }

    /// Takes a sample each minute, the first one after a minute.
    pub(super) async fn keep_sampling(self, handle: SchedulerHandle) {
        let mut minutes = interval_at(Instant::now() + MINUTE, MINUTE);
        // A process that was suspended does not catch up on missed minutes.
        minutes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            minutes.tick().await;
            let ran = timeout(PATIENCE, handle.running()).await.ok();
            let ran = ran.map(|(applications, allocations)| Ran { applications, allocations });
            self.note(Sample { at_ns: now_ns(), ran });
        }
    }

    fn note(&self, sample: Sample) {
        let mut samples = locked(&self.0);
        if samples.len() == SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(sample);
    }
}

#[cfg(test)]
mod tests {
    use monoceros_actors::Scheduler;
    use tokio::task::LocalSet;
    use tokio::time::sleep;

    use super::*;

    #[test]
    fn a_day_is_kept_and_older_minutes_dropped() {
        let minutes = Minutes::default();
        assert_eq!((minutes.applications(), minutes.containers()), (vec![], vec![]));
        for at_ns in 0..=1_440 {
            minutes.note(Sample { at_ns, ran: Some(Ran { applications: at_ns, allocations: 7 }) });
        }
        let kept = minutes.applications();
        assert_eq!(kept.len(), 1_440);
        let of = |at: i64| ApplicationsThen { timestamp: at, total_applications: at.to_string() };
        assert_eq!((&kept[0], &kept[1_439]), (&of(1), &of(1_440)));
        assert_eq!(minutes.containers()[0].total_containers.as_deref(), Some("7"));
    }

    #[test]
    fn unread_samples_have_no_number() {
        let minutes = Minutes::default();
        minutes.note(Sample { at_ns: 5, ran: None });
        let shown = |value: serde_json::Value| value.to_string();
        let applications = serde_json::to_value(minutes.applications()).unwrap();
        assert_eq!(shown(applications), r#"[{"timestamp":5,"totalApplications":"-1"}]"#);
        let containers = serde_json::to_value(minutes.containers()).unwrap();
        assert_eq!(shown(containers), r#"[{"timestamp":5}]"#);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sample_is_taken_after_each_minute() {
        let play = async {
            let handle = Scheduler::builder().start_local().unwrap();
            let minutes = Minutes::default();
            let sampling = tokio::task::spawn_local(minutes.clone().keep_sampling(handle.clone()));
            let mut taken = Vec::new();
            for seconds in [59, 2, 60, 600] {
                sleep(Duration::from_secs(seconds)).await;
                taken.push(minutes.applications().len());
            }
            assert_eq!(taken, [0, 1, 2, 12]);
            sampling.abort();
            handle.shutdown().await;
        };
        LocalSet::new().run_until(play).await;
    }
}
