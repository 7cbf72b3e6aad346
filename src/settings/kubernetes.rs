//! Section `kubernetes`: how `monoceros kubernetes` reads a cluster and acts on it.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use serde::Deserialize;

use super::seconds;

/// Section `kubernetes`.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `kubernetes.KEY` or MONOCEROS__KUBERNETES__KEY)"
)]
pub struct KubernetesSettings {
    /// Pods with one of these as `schedulerName` are scheduled. Default `monoceros`.
    pub scheduler_names: Vec<String>,
    /// Namespace of the lease and the ConfigMaps. Default: the namespace of the own pod or, outside
    /// a cluster, of the context.
    pub namespace: Option<String>,
    /// Name of the lease that selects the active replica. Default: none, and there is one replica.
    pub lease: Option<String>,
    /// Duration of a lease in seconds, at most an hour. Default 10.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub lease_duration: Duration,
    /// Whether a pod without an application belongs to an application of its controller, in place
    /// of its namespace. Default false.
    pub application_by_controller: bool,
    /// Whether the user that a pod names is trusted. Default false.
    pub trust_user: bool,
    /// Scoring of the nodes that may run a pod.
    pub score: ScoreSettings,
    /// Most concurrent bindings. Default 64.
    pub bindings: NonZeroUsize,
    /// Most pod conditions written per second. Default 50.
    pub conditions_per_second: NonZeroU32,
    /// Most events written per second. Others are dropped. Default 50.
    pub events_per_second: NonZeroU32,
    /// How victims of preemption are removed. Default `evict_then_delete`.
    pub victims: Victims,
    /// How long an eviction that a budget forbids is retried, in seconds, at most 7 days. Default
    /// 60.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub eviction_timeout: Duration,
    /// Longest wait for the volumes of a pod, in seconds, at most 7 days. Default 600.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub volume_timeout: Duration,
}

/// Section `kubernetes.score`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct ScoreSettings {
    /// Whether the preferred affinity of a pod ranks all nodes that may run it. Otherwise it only
    /// ranks nodes that are equal in the order of the partition. Default false.
    pub preferred: bool,
}

/// How victims of preemption are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Victims {
    /// By eviction, and by deletion if budgets forbid it for `eviction_timeout`.
    EvictThenDelete,
    /// By eviction. If budgets forbid it for `eviction_timeout`, the victim stays and the scheduler
    /// searches for other victims.
    EvictThenGiveBack,
    /// By eviction, however long budgets forbid it.
    Evict,
    /// By deletion, without regard to budgets.
    Delete,
}

/// Longest timeout for a pod: far below the range of any clock.
const LONGEST_WAIT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Checks the name of a Kubernetes object: parts of small letters, digits and hyphens that begin
/// and end with a letter or digit, separated by points. `Err` states the mistake.
pub(crate) fn object_name(name: &str) -> Result<String, &'static str> {
    let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        let (first, last) = (part.as_bytes().first(), part.as_bytes().last());
        let is_inner = part.bytes().all(|byte| is_plain(&byte) || byte == b'-');
        is_inner && first.is_some_and(is_plain) && last.is_some_and(is_plain)
    };
    if name.len() <= 253 && name.split('.').all(is_part) {
        return Ok(name.to_owned());
    }
    Err("is not the name of an object: small letters and digits, with `-` and `.` between them")
}

impl KubernetesSettings {
    /// Checks bounds that the types do not have.
    pub(super) fn check(&self) -> Result<(), String> {
        /// Shortest lease: three renewals must fit in.
        const SHORTEST: Duration = Duration::from_secs(2);
        /// Longest lease: the time without a scheduler when a leader is lost.
        const LONGEST: Duration = Duration::from_secs(60 * 60);
        if self.scheduler_names.is_empty() {
            return Err(
                "`kubernetes.scheduler_names` is empty: no pod would be scheduled".to_owned()
            );
        }
        if self.scheduler_names.iter().any(String::is_empty) {
            return Err(
                "`kubernetes.scheduler_names` has an empty name, which no pod has".to_owned()
            );
        }
        for (key, name) in
            [("kubernetes.namespace", &self.namespace), ("kubernetes.lease", &self.lease)]
        {
            if let Some(name) = name {
                object_name(name).map_err(|why| format!("`{key}` (`{name}`) {why}"))?;
            }
        }
        if self.lease_duration < SHORTEST || self.lease_duration > LONGEST {
            return Err(format!(
                "`kubernetes.lease_duration` ({:?}) is not between {SHORTEST:?} and {LONGEST:?}",
                self.lease_duration
            ));
        }
        for (key, time) in [
            ("kubernetes.eviction_timeout", self.eviction_timeout),
            ("kubernetes.volume_timeout", self.volume_timeout),
        ] {
            if time > LONGEST_WAIT {
                return Err(format!("`{key}` ({time:?}) is more than {LONGEST_WAIT:?} (7 days)"));
            }
        }
        Ok(())
    }
}
