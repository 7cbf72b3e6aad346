//! Section `callback`: predicates and notifications of an RM with a callback stream.
//!
//! The defaults suit a shim in the same cluster. An RM may set each key for itself in its
//! `extraConfig`, because shims differ in how fast they answer and in how their absence should be
//! handled.

use std::collections::HashMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::seconds;

/// Section `callback`.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `callback.KEY` or MONOCEROS__CALLBACK__KEY)"
)]
pub struct CallbackSettings {
    /// Whether predicates are called. Default `auto`.
    pub predicates: Asking,
    /// As `predicates`, for single resource managers by rmID. Default: none.
    #[serde(default)]
    pub predicates_of: HashMap<String, Asking>,
    /// Longest wait for the answer to a question. Default 2 s, from 10 ms to 30 s. A longer wait
    /// tolerates slower shims, and holds quota and node of an unanswered question for longer.
    #[serde(deserialize_with = "question_timeout")]
    pub predicate_timeout: Duration,
    /// The answer assumed when `predicate_timeout` is over. Default `fail`.
    pub on_timeout: OnTimeout,
    /// How long decisions wait for a stream before `after_grace` applies. Default 60 s.
    #[serde(deserialize_with = "span")]
    pub reattach_grace: Duration,
    /// The answer assumed when `reattach_grace` is over. Default `hold`.
    pub after_grace: AfterGrace,
    /// Most unanswered batches. Default 16. A larger number hides a longer round trip.
    pub max_inflight_batches: NonZeroU32,
    /// Most nodes per batch. Default 512.
    pub max_nodes_per_batch: NonZeroU32,
    /// Most questions per batch. Default 64.
    pub max_queries_per_batch: NonZeroU32,
    /// Most full batches of questions in the queue. Default 64.
    pub queue_batches: NonZeroUsize,
    /// Time limit for the Hello of a new stream. Default 5 s.
    #[serde(deserialize_with = "span")]
    pub hello_timeout: Duration,
    /// How long a shim may be silent before it must answer a heartbeat. Default 10 s.
    #[serde(deserialize_with = "span")]
    pub heartbeat: Duration,
    /// How long a shim may accept no message while some are queued. Default 30 s.
    #[serde(deserialize_with = "span")]
    pub idle_timeout: Duration,
    /// Time limit for the shim's part of a state dump. Default 30 s.
    #[serde(deserialize_with = "span")]
    pub state_dump_timeout: Duration,
    /// Largest size of the shim's part of a state dump, in bytes. Default 64 MiB.
    pub state_dump_max_bytes: NonZeroUsize,
    /// How long an allocation is withheld until the shim's `CacheSync` for it is written or, if the
    /// shim confirms allocations first, acknowledged. Default 2 s.
    #[serde(deserialize_with = "span")]
    pub cache_sync_timeout: Duration,
    /// Most events kept for a slow shim. Default: as many as it may receive in a second
    /// ([`EventSettings::request_capacity`](super::EventSettings)).
    pub event_capacity: Option<NonZeroUsize>,
}

/// Whether predicates are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Asking {
    /// Predicates are not called until a stream that answers them was attached in the session.
    /// Afterwards as [`Required`](Self::Required), unless the shim states otherwise.
    Auto,
    /// Never: every node passes.
    None,
    /// While a stream is attached. Otherwise every node passes.
    Optional,
    /// Always: nothing is decided without a stream.
    Required,
}

/// The answer assumed for a question that was not answered in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum OnTimeout {
    /// No node passes.
    Fail,
    /// The first node passes.
    Pass,
}

/// The answer assumed when no stream was attached again in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum AfterGrace {
    /// Nothing is decided.
    Hold,
    /// No node passes.
    Fail,
    /// Every node passes.
    Pass,
}

/// Shortest and longest value of `predicate_timeout`.
const QUESTION_TIMEOUT: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(30));

impl CallbackSettings {
    /// Sets the key that a registration calls `callback.NAME`. An `Err` changes nothing.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "predicates" => self.predicates = value.to_owned().try_into()?,
            "predicateTimeout" => self.predicate_timeout = within_bounds(duration(value)?)?,
            "onTimeout" => self.on_timeout = value.to_owned().try_into()?,
            "reattachGrace" => self.reattach_grace = duration(value)?,
            "afterGrace" => self.after_grace = value.to_owned().try_into()?,
            "maxInflightBatches" => self.max_inflight_batches = number(value)?,
            "maxNodesPerBatch" => self.max_nodes_per_batch = number(value)?,
            "maxQueriesPerBatch" => self.max_queries_per_batch = number(value)?,
            "queueBatches" => self.queue_batches = number(value)?,
            "helloTimeout" => self.hello_timeout = duration(value)?,
            "heartbeat" => self.heartbeat = duration(value)?,
            "idleTimeout" => self.idle_timeout = duration(value)?,
            "stateDumpTimeout" => self.state_dump_timeout = duration(value)?,
            "stateDumpMaxBytes" => self.state_dump_max_bytes = number(value)?,
            "cacheSyncTimeout" => self.cache_sync_timeout = duration(value)?,
            "eventCapacity" => self.event_capacity = Some(number(value)?),
            _ => return Err("there is no such key".to_owned()),
        }
        Ok(())
    }
}

impl TryFrom<String> for Asking {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            "optional" => Ok(Self::Optional),
            "required" => Ok(Self::Required),
            _ => Err(format!("`{text}` is not one of `auto`, `none`, `optional`, `required`")),
        }
    }
}

impl TryFrom<String> for OnTimeout {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "fail" => Ok(Self::Fail),
            "pass" => Ok(Self::Pass),
            _ => Err(format!("`{text}` is neither `fail` nor `pass`")),
        }
    }
}

impl TryFrom<String> for AfterGrace {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "hold" => Ok(Self::Hold),
            "fail" => Ok(Self::Fail),
            "pass" => Ok(Self::Pass),
            _ => Err(format!("`{text}` is not one of `hold`, `fail`, `pass`")),
        }
    }
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number above zero"))
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = seconds::parse(text).filter(|duration| is_sane(*duration));
    duration.ok_or_else(|| format!("`{text}` is not a duration (such as `500ms`, `2s` or `1m30s`)"))
}

/// Whether a duration is plausible. A longer one is a mistake, and could not be added to a time.
fn is_sane(duration: Duration) -> bool {
    const LONGEST: Duration = Duration::from_secs(366 * 24 * 3_600);
    !duration.is_zero() && duration <= LONGEST
}

fn within_bounds(duration: Duration) -> Result<Duration, String> {
    let (least, most) = QUESTION_TIMEOUT;
    if duration < least || duration > most {
        return Err(format!("{duration:?} is not from {least:?} to {most:?}"));
    }
    Ok(duration)
}

fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let duration = seconds::deserialize(deserializer)?;
    if !is_sane(duration) {
        return Err(D::Error::custom(format!("{duration:?} is not a time to wait")));
    }
    Ok(duration)
}

fn question_timeout<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    within_bounds(span(deserializer)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_rms_write_them() {
        for (text, millis) in
            [("500ms", 500), ("2s", 2_000), ("1m30s", 90_000), ("1.5h", 5_400_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "2 s", "2x", "-1s", "0s", "99999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_registration_overrides_keys_and_reports_mistakes() {
        let settings =
            crate::settings::Settings::load(None, &crate::settings::Flags::default()).unwrap();
        let mut callback = settings.callback;
        let complaints: Vec<String> = [
            ("predicates", "required"),
            ("predicateTimeout", "1ms"),
            ("onTimeout", "pass"),
            ("maxInflightBatches", "0"),
            ("colour", "blue"),
        ]
        .into_iter()
        .filter_map(|(name, value)| callback.set(name, value).err())
        .collect();
        assert_eq!(callback.predicates, Asking::Required);
        assert_eq!(callback.on_timeout, OnTimeout::Pass);
        assert_eq!(callback.predicate_timeout, Duration::from_secs(2));
        assert_eq!(callback.max_inflight_batches.get(), 16);
        assert_eq!(complaints.len(), 3, "{complaints:?}");
        assert_eq!(complaints[2], "there is no such key");
    }
}
