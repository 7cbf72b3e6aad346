//! The tags of applications, asks and allocations, and the name of a pod in them.
//!
//! # Why a type of its own
//! The key of a pod is its UID, which people do not know. Events, reservations and reasons name the
//! pod instead, and some of them are kept long after its ask was removed. So the name is built
//! once, when the tags arrive, and shared by all of these: that costs a reference each, and does
//! not keep the tags, which may be large, in memory.
//!
//! # Invariant
//! * The name agrees with the tags, since they cannot be changed.
//!
//! ```
//! use monoceros_rules::specs::tags::{NAMESPACE, POD, TagMap};
//!
//! let tags = TagMap::from([(NAMESPACE.into(), "lab".into()), (POD.into(), "job-0".into())]);
//! assert_eq!(tags.pod().map(|pod| &**pod), Some("lab/job-0"));
//! assert_eq!(&tags[POD], "job-0");
//! ```

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::values::duration::{self, DurationError};
use crate::values::texts::Texts;

/// The tag with the namespace of a pod.
pub const NAMESPACE: &str = "kubernetes.io/meta/namespace";
/// The tag with the name of a pod.
pub const POD: &str = "kubernetes.io/meta/podName";

/// The tag of an application that is submitted again only to report the changed queue settings of
/// its namespace.
pub const NAMESPACE_CHANGED: &str = "monoceros.io/namespace-changed";

/// The tag of an application that is submitted again only to have places held again for members of
/// its gang. The value is the time since when they were held before, in seconds since the epoch.
pub const HOLD_AGAIN_SINCE: &str = "monoceros.io/hold-again-since";
/// The prefix of a tag with the number of members of a task group for which places are to be held
/// again. The name of the group follows the prefix.
pub const HOLD_AGAIN: &str = "monoceros.io/hold-again.";
/// The message to the RM about such an application, sent with its state once all places that fit
/// are held again.
pub const HELD_AGAIN: &str = "places are held again";

/// The tag of an application or ask with the longest time that an allocation of it runs, such as
/// `2h30m`. It is a claim: nothing ends because of it.
pub const RUN_TIME_LIMIT: &str = "monoceros.io/run-time-limit";

/// The tag of an ask with the only node that may be used.
pub const REQUIRED_NODE: &str = "yunikorn.apache.org/requiredNode";
/// The tag of an ask without a preemption policy; `false` protects it.
pub const ALLOW_PREEMPTION: &str = "yunikorn.apache.org/allowPreemption";
/// The tag of an ask or allocation with its time of creation, in seconds since the epoch.
pub const CREATION_TIME: &str = "creationTime";
/// The tag of an application, ask or allocation with its time of creation, in ns since the epoch.
/// It is read before [`CREATION_TIME`]. A report of a scheduler's state has it, since ages that are
/// equal in seconds would change the order of applications.
pub const CREATED_NS: &str = "monoceros.io/creation-time-ns";
/// The tag of a reported allocation with the time since when it is on its node, in ns since the
/// epoch. A report of a scheduler's state has it; nothing reads it.
pub const STARTED_NS: &str = "monoceros.io/start-time-ns";
/// The tag of an application with the time since when its placeholders wait, in seconds since the
/// epoch. With it, a restart of the scheduler does not prolong their time.
pub const PLACEHOLDERS_SINCE: &str = "yunikorn.apache.org/creationTime";
/// The tag that marks an allocation of another scheduler; its value is the kind.
pub const FOREIGN: &str = "foreign";

/// The longest accepted namespace or name of a pod, in bytes.
const NAME_BYTES: usize = 253;

/// Tags of an application, ask or allocation, shared between the holders.
pub type Tags = Arc<TagMap>;

/// Tags, by name, with the name of their pod. Dereferences to the tags as texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "BTreeMap<String, String>")]
pub struct TagMap {
    by_name: Texts,
    pod: Option<Arc<str>>,
}

impl TagMap {
    /// Returns namespace and name of the pod to which the tags belong, as `NAMESPACE/NAME`.
    pub fn pod(&self) -> Option<&Arc<str>> {
        self.pod.as_ref()
    }
}

impl Deref for TagMap {
    type Target = Texts;

    fn deref(&self) -> &Self::Target {
        &self.by_name
    }
}

impl From<BTreeMap<String, String>> for TagMap {
    fn from(by_name: BTreeMap<String, String>) -> Self {
        let pod = pod_of(&by_name).map(|(namespace, name)| format!("{namespace}/{name}").into());
        Self { by_name: by_name.into(), pod }
    }
}

impl<const N: usize> From<[(String, String); N]> for TagMap {
    fn from(tags: [(String, String); N]) -> Self {
        Self::from(BTreeMap::from(tags))
    }
}

impl FromIterator<(String, String)> for TagMap {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(tags: I) -> Self {
        Self::from(BTreeMap::from_iter(tags))
    }
}

impl Serialize for TagMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.by_name.serialize(serializer)
    }
}

/// Returns namespace and name of the pod that has these tags: the name that people know. Tags come
/// from outside: a text that is too long for the name of a pod is not taken for one.
pub fn pod_of(tags: &BTreeMap<String, String>) -> Option<(&str, &str)> {
    let name = |tag| tags.get(tag).map(String::as_str).filter(|name| name.len() <= NAME_BYTES);
    Some((name(NAMESPACE)?, name(POD)?))
}

/// Reads a claimed limit of run times, ms. A part of a millisecond counts as a whole one, and zero as
/// no claim.
///
/// ```
/// use monoceros_rules::specs::tags::run_time_limit;
/// assert_eq!(run_time_limit("2h").unwrap().map(u64::from), Some(7_200_000));
/// assert_eq!(run_time_limit("1ns").unwrap().map(u64::from), Some(1));
/// assert_eq!(run_time_limit("0"), Ok(None));
/// assert!(run_time_limit("soon").is_err());
/// ```
pub fn run_time_limit(text: &str) -> Result<Option<NonZeroU64>, DurationError> {
    let milliseconds = duration::parse(text)?.as_nanos().div_ceil(1_000_000);
    Ok(NonZeroU64::new(u64::try_from(milliseconds).unwrap_or(u64::MAX)))
}

/// Reads the time of creation in ns. A text that is no number counts as absent.
pub fn created_ns<'t>(get: impl FnOnce(&str) -> Option<&'t str>) -> Option<i64> {
    get(CREATED_NS)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(all: &[(&str, &str)]) -> TagMap {
        all.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn a_pod_is_named_by_both_tags_and_by_no_long_ones() {
        let long = "x".repeat(NAME_BYTES + 1);
        let pod = |namespace, name| tags(&[(NAMESPACE, namespace), (POD, name)]).pod().cloned();
        assert_eq!(pod("lab", "job-0").as_deref(), Some("lab/job-0"));
        assert_eq!(pod("lab", &long), None);
        assert_eq!(pod(&long, "job-0"), None);
        assert_eq!(tags(&[(NAMESPACE, "lab")]).pod(), None);
        assert_eq!(tags(&[(POD, "job-0")]).pod(), None);
    }

    #[test]
    fn they_are_written_as_a_map_and_read_with_their_name() {
        let tags = tags(&[(NAMESPACE, "lab"), (POD, "job-0")]);
        let written = serde_json::to_string(&tags).unwrap();
        assert_eq!(written, format!(r#"{{"{NAMESPACE}":"lab","{POD}":"job-0"}}"#));
        assert_eq!(serde_json::from_str::<TagMap>(&written).unwrap(), tags);
    }
}
