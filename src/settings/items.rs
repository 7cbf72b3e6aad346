//! Sections of applications, asks, nodes, decisions, metrics, health and events.
//!
//! A registration cannot change `applications`, `asks` and `nodes`, which protect resources that
//! all resource managers share. It may change `event`, because only a shim knows how many events it
//! can pass on.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use monoceros_actors::{DECISIONS_MAX, SchedulerBuilder, StreamLimits};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::seconds;

/// Section `applications`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `applications.KEY` or MONOCEROS__APPLICATIONS__KEY)"
)]
pub struct ApplicationSettings {
    /// Most ended applications that a partition keeps, and most rejected ones. Default 10,000.
    pub max_ended: usize,
    /// Whether an application that is no gang fails after its `executionTimeoutMilliSeconds`.
    /// Default false, since shims use the field for gangs.
    pub fail_after_execution_timeout: bool,
}

/// Section `decisions`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `decisions.KEY` or MONOCEROS__DECISIONS__KEY)"
)]
pub struct DecisionSettings {
    /// Most recent decisions that a partition records, each with its reasons. 0 records none.
    /// Default 4,096, at most 100,000.
    #[serde(deserialize_with = "kept")]
    pub kept: usize,
}

fn kept<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let kept = usize::deserialize(deserializer)?;
    if kept > DECISIONS_MAX {
        return Err(D::Error::custom(format!("{kept} decisions are more than {DECISIONS_MAX}")));
    }
    Ok(kept)
}

/// Section `metrics`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `metrics.KEY` or MONOCEROS__METRICS__KEY)"
)]
pub struct MetricSettings {
    /// Whether metric families with queue paths in their names, which older dashboards read, are
    /// exported too. Default true.
    pub legacy_queue_names: bool,
}

/// Section `asks`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `asks.KEY` or MONOCEROS__ASKS__KEY)"
)]
pub struct AskSettings {
    /// Most allocations of one ask. Default 10,000.
    pub max_repeat: NonZeroU32,
    /// Whether allocations are released after the `executionTimeoutMilliSeconds` of their ask.
    /// Default true.
    pub release_after_execution_timeout: bool,
}

/// Section `nodes`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `nodes.KEY` or MONOCEROS__NODES__KEY)"
)]
pub struct NodeSettings {
    /// Whether updates of an unknown node are rejected. Otherwise they are ignored and counted, as
    /// clients of every revision expect. Default false.
    pub reject_updates: bool,
}

/// Section `health`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `health.KEY` or MONOCEROS__HEALTH__KEY)"
)]
pub struct HealthSettings {
    /// Pause between health checks. 0 leaves only the check at the start. Default 30 seconds.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub check_interval: Duration,
}

/// Section `history`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `history.KEY` or MONOCEROS__HISTORY__KEY)"
)]
pub struct HistorySettings {
    /// Most bytes of the usage that is kept of queues, users and nodes. 0 keeps none. Default 64
    /// MiB.
    pub bytes: usize,
    /// Seconds between two samples of queues and users; of nodes, four times as many. Default 15.
    pub interval: NonZeroU32,
}

/// Section `event`. It applies to all resource managers, except that `event.requestCapacity` in an
/// `extraConfig` overrides `request_capacity`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `event.KEY` or MONOCEROS__EVENT__KEY)"
)]
pub struct EventSettings {
    /// Whether events are recorded. Default true; without them there is no history.
    pub tracking_enabled: bool,
    /// Most events sent to a resource manager in a second. Default 1,000.
    pub request_capacity: NonZeroUsize,
    /// Most events kept for readers, of all resource managers. Default 100,000; each takes some
    /// hundred bytes.
    pub ring_buffer_capacity: NonZeroUsize,
    /// Most events in one answer over HTTP. Default 10,000.
    pub rest_response_size: NonZeroUsize,
    /// Most open event streams. Default 100.
    pub max_streams: usize,
    /// Most open event streams of one host. Default 15.
    pub max_streams_per_host: usize,
}

impl ApplicationSettings {
    /// Applies the settings to the scheduler.
    pub fn apply(&self, builder: SchedulerBuilder) -> SchedulerBuilder {
        builder
            .ended_applications(self.max_ended)
            .enforce_application_timeout(self.fail_after_execution_timeout)
    }
}

impl DecisionSettings {
    /// Applies the settings to the scheduler.
    pub fn apply(&self, builder: SchedulerBuilder) -> SchedulerBuilder {
        builder.decisions(self.kept)
    }
}

impl MetricSettings {
    /// Applies the settings to the scheduler.
    pub fn apply(&self, builder: SchedulerBuilder) -> SchedulerBuilder {
        builder.legacy_queue_metrics(self.legacy_queue_names)
    }
}

impl AskSettings {
    /// Applies the settings to the scheduler.
    pub fn apply(&self, builder: SchedulerBuilder) -> SchedulerBuilder {
        builder
            .max_repeat(self.max_repeat.get())
            .enforce_execution_timeout(self.release_after_execution_timeout)
    }
}

impl HealthSettings {
    /// Returns the pause between health checks. `None` if there is only the first check.
    pub fn interval(&self) -> Option<Duration> {
        Some(self.check_interval).filter(|pause| !pause.is_zero())
    }
}

impl EventSettings {
    /// Returns the settings in the scheduler's form.
    pub fn of_scheduler(&self) -> monoceros_actors::EventSettings {
        let streams =
            StreamLimits { in_all: self.max_streams, per_host: self.max_streams_per_host };
        monoceros_actors::EventSettings {
            tracking: self.tracking_enabled,
            request_capacity: self.request_capacity,
            ring_capacity: self.ring_buffer_capacity,
            streams,
        }
    }
}
