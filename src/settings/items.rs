//! Settings of what resource managers may send, and of the events that are made of it.
//!
//! No registration can change `applications`, `asks` and `nodes`: they guard what all resource
//! managers share. It may change `event`, because only a shim knows how many events it can pass on.

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
    /// How many applications that have ended a partition keeps, and how many that it rejected.
    /// Default 10,000.
    pub max_ended: usize,
    /// Whether an application that is no gang fails when it has run for its
    /// `executionTimeoutMilliSeconds`. Default false, since shims use it for gangs.
    pub enforce_execution_timeout: bool,
}

/// Section `decisions`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `decisions.KEY` or MONOCEROS__DECISIONS__KEY)"
)]
pub struct DecisionSettings {
    /// How many of its last decisions a partition keeps, each with what it was decided by; 0: none.
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
    /// Whether there are families with the path of a queue in their names, too, as older dashboards
    /// read them. Default true.
    pub legacy_queue_names: bool,
}

/// Section `asks`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `asks.KEY` or MONOCEROS__ASKS__KEY)"
)]
pub struct AskSettings {
    /// Most allocations that one ask may want. Default 10,000.
    pub max_repeat: NonZeroU32,
    /// Whether allocations are taken back when they have run for the
    /// `executionTimeoutMilliSeconds` of their ask. Default true.
    pub enforce_execution_timeout: bool,
}

/// Section `nodes`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `nodes.KEY` or MONOCEROS__NODES__KEY)"
)]
pub struct NodeSettings {
    /// Whether changes of a node that is not there are rejected; otherwise they are ignored and
    /// counted, as clients of every revision know it. Default false.
    pub reject_updates: bool,
}

/// Section `health`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `health.KEY` or MONOCEROS__HEALTH__KEY)"
)]
pub struct HealthSettings {
    /// How long after one look over the scheduler the next one is made; with 0 there is only the
    /// one at the start. Default 30 seconds.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub check_interval: Duration,
}

/// Section `event`. It holds for all resource managers, apart from how many events each is told of:
/// `event.requestCapacity` in its `extraConfig` goes before that.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `event.KEY` or MONOCEROS__EVENT__KEY)"
)]
pub struct EventSettings {
    /// Whether events are made. Default true; without them nobody learns afterwards what happened.
    pub tracking_enabled: bool,
    /// Most events that a resource manager is told of in a second. Default 1,000.
    pub request_capacity: NonZeroUsize,
    /// How many events of all resource managers are kept to be read. Default 100,000; each holds
    /// some hundred bytes.
    pub ring_buffer_capacity: NonZeroUsize,
    /// Most events of one answer over HTTP. Default 10,000.
    pub rest_response_size: NonZeroUsize,
    /// How many readers may follow the events at a time. Default 100.
    pub max_streams: usize,
    /// How many of them from one host. Default 15.
    pub max_streams_per_host: usize,
}

impl ApplicationSettings {
    /// Hands them to the scheduler.
    pub fn apply(&self, builder: SchedulerBuilder) -> SchedulerBuilder {
        builder
            .ended_applications(self.max_ended)
            .enforce_application_timeout(self.enforce_execution_timeout)
    }
}

impl DecisionSettings {
    /// Hands them to the scheduler.
    pub fn apply(&self, builder: SchedulerBuilder) -> SchedulerBuilder {
        builder.decisions(self.kept)
    }
}

impl MetricSettings {
    /// Hands them to the scheduler.
    pub fn apply(&self, builder: SchedulerBuilder) -> SchedulerBuilder {
        builder.legacy_queue_metrics(self.legacy_queue_names)
    }
}

impl AskSettings {
    /// Hands them to the scheduler.
    pub fn apply(&self, builder: SchedulerBuilder) -> SchedulerBuilder {
        builder
            .max_repeat(self.max_repeat.get())
            .enforce_execution_timeout(self.enforce_execution_timeout)
    }
}

impl HealthSettings {
    /// How long the pause between two looks is; `None`: there is one look.
    pub fn interval(&self) -> Option<Duration> {
        Some(self.check_interval).filter(|pause| !pause.is_zero())
    }
}

impl EventSettings {
    /// As the scheduler has them.
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
