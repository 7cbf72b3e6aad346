//! The grounds of a preemption: the preemptor, and the rule.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The preemptor of an allocation, and the rule by which it was preempted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Grounds {
    /// A queue gets back what it is guaranteed.
    Guarantee {
        /// The application that asked.
        application: Arc<str>,
        /// The key of its ask; `None` for a gang.
        key: Option<Arc<str>>,
        /// Namespace and name of its pod, if it is one.
        #[serde(default)]
        pod: Option<Arc<str>>,
        /// The queue that takes back its guarantee.
        queue: Arc<str>,
    },
    /// An ask requires the node of the allocation.
    RequiredNode {
        /// The application that asked.
        application: Arc<str>,
        /// The key of its ask.
        key: Arc<str>,
        /// Namespace and name of its pod, if it is one.
        #[serde(default)]
        pod: Option<Arc<str>>,
        /// The node.
        node: Arc<str>,
    },
    /// A queue was above its maximum.
    Quota {
        /// The queue.
        queue: Arc<str>,
    },
}

impl fmt::Display for Grounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guarantee { application, key: Some(key), pod, queue } => write!(
                f,
                "preempted for {} of application `{application}`: queue `{queue}` takes \
                 back what it is guaranteed",
                Who { key, pod: pod.as_deref() }
            ),
            Self::Guarantee { application, key: None, queue, .. } => write!(
                f,
                "preempted for the gang of application `{application}`: queue `{queue}` takes back \
                 what it is guaranteed"
            ),
            Self::RequiredNode { application, key, pod, node } => write!(
                f,
                "preempted for {} of application `{application}`, which runs on node `{node}` only",
                Who { key, pod: pod.as_deref() }
            ),
            Self::Quota { queue } => {
                write!(f, "preempted because queue `{queue}` is above its maximum")
            }
        }
    }
}

/// An ask by its name for people: its pod if it has one, else its key.
struct Who<'a> {
    key: &'a str,
    pod: Option<&'a str>,
}

impl fmt::Display for Who<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pod {
            Some(pod) => write!(f, "pod `{pod}`"),
            None => write!(f, "ask `{}`", self.key),
        }
    }
}
