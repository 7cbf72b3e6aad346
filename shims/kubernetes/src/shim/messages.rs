//! Inputs and outputs of the shim.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use monoceros_proto::si::v1 as si;
use tokio_util::sync::CancellationToken;

use crate::objects::{
    ConfigMap, CsiNode, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, PodGroup, PriorityClass, StorageClass,
};
use crate::predicates::VolumeChoice;

/// UID of a pod, which is its allocation key in the engine.
pub type Key = Arc<str>;

/// A new state of an object, or its deletion (`None`). Namespaced objects are keyed by
/// `namespace/name`, pods by UID.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Change {
    Pod(Key, Option<Arc<Pod>>),
    Node(String, Option<Arc<Node>>),
    Namespace(String, Option<Arc<Namespace>>),
    PriorityClass(String, Option<Arc<PriorityClass>>),
    Budget(String, Option<Arc<PodDisruptionBudget>>),
    Group(String, Option<Arc<PodGroup>>),
    ConfigMap(String, Option<Arc<ConfigMap>>),
    Claim(String, Option<Arc<PersistentVolumeClaim>>),
    Volume(String, Option<Arc<PersistentVolume>>),
    StorageClass(String, Option<Arc<StorageClass>>),
    CsiNode(String, Option<Arc<CsiNode>>),
}

/// A notification of the engine.
#[derive(Clone, Debug)]
pub enum Notification {
    /// New placements.
    Placed(Vec<Placed>),
    /// Placements, releases and rejections of allocations.
    Allocations(si::AllocationResponse),
    /// Applications that were accepted, rejected, or changed their state.
    Applications(si::ApplicationResponse),
    /// Nodes that were accepted or rejected.
    Nodes(si::NodeResponse),
    /// Pending asks for which more nodes would help.
    ScaleUp(Vec<si::UpdateContainerSchedulingStateRequest>),
    /// Why asks of an application are pending. Empty if that is unknown.
    Explained {
        /// Its id.
        application: Arc<str>,
        /// The ask in question. `None` for all of them.
        about: Option<Key>,
        /// One entry for each group of equal asks.
        entries: Vec<Explanation>,
    },
    /// A callback asked about pods whose nodes are not counted yet. They are counted during the
    /// next ticks.
    CountNodes,
    /// The engine has lost its state, for this reason. Everything must be sent again.
    Lost(String),
    /// The engine no longer serves this cluster, for this reason.
    Ended(String),
    /// The outcome of [`EngineOrder::Configure`].
    Configured(Result<(), String>),
}

/// A placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// UID of the pod.
    pub key: Key,
    /// The application that asked.
    pub application: Arc<str>,
    /// The node.
    pub node: Arc<str>,
}

/// Why some asks of an application are pending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// Keys of the asks. Empty for a gang as a whole.
    pub keys: Vec<String>,
    /// The cause, in one word.
    pub cause: String,
    /// What the cause is about: a queue, user, group, node or partition.
    pub object: String,
    /// The cause, in a sentence.
    pub message: String,
}

impl Explanation {
    /// Makes an entry from the engine's explanation. Appends the sentence about the gang to the
    /// message.
    pub fn new(
        keys: Vec<String>,
        cause: String,
        object: String,
        mut message: String,
        gang: &str,
    ) -> Self {
        if !gang.is_empty() {
            message.push_str("; ");
            message.push_str(gang);
        }
        Self { keys, cause, object, message }
    }
}

/// Outcome of work at the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The pod is bound as ordered.
    Bound(Key),
    /// The pod is not bound as ordered, for this reason. The watch reports its actual node, if it
    /// has one.
    NotBound(Key, String),
    /// The API server has accepted the eviction, or the pod is gone.
    Evicting(Key),
    /// The eviction is forbidden for now, for this reason, and is retried.
    EvictionDelayed(Key, String),
    /// The eviction is given up, for this reason.
    EvictionFailed(Key, String),
    /// The condition of a pod could not be written.
    ConditionFailed(Key),
    /// The condition of a PodGroup was written, or nothing is left to write it to.
    GroupConditionWritten(GroupCondition),
    /// The condition of a PodGroup could not be written.
    GroupConditionFailed(GroupCondition),
}

/// An order for the engine. Orders are carried out in sequence.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineOrder {
    /// New, changed and removed nodes.
    Nodes(Vec<si::NodeInfo>),
    /// New applications.
    Submit(Vec<si::AddApplicationRequest>),
    /// Applications that are removed.
    Remove(Vec<si::RemoveApplicationRequest>),
    /// Asks, and running allocations.
    Allocations(Vec<si::Allocation>),
    /// Asks and allocations that end.
    Release(Vec<si::AllocationRelease>),
    /// Retries all asks that predicates refused.
    TryAgain,
    /// New configuration.
    Configure {
        /// Queues (YAML). Empty for the engine's own queues.
        queues: String,
        /// All other settings.
        extra: BTreeMap<String, String>,
    },
    /// Explains why the asks of this application are pending, or one of them.
    Explain(Arc<str>, Option<Key>),
}

/// Work for the API server, in any order.
#[derive(Clone, Debug)]
pub enum ApiOrder {
    /// Bind a pod.
    Bind(Bind),
    /// Evict a pod.
    Evict(Evict),
    /// Write a condition of a pod.
    Condition(Condition),
    /// Write a condition of a PodGroup.
    GroupCondition(GroupCondition),
    /// Write an event.
    Event(Event),
}

/// A binding.
#[derive(Clone, Debug)]
pub struct Bind {
    /// UID of the pod.
    pub key: Key,
    /// The pod.
    pub pod: Arc<Pod>,
    /// Its node.
    pub node: Arc<str>,
    /// Volumes chosen for its claims.
    pub volumes: Vec<VolumeChoice>,
    /// When the pod was first seen.
    pub seen: Duration,
    /// Cancelled when the pod is not to be bound after all. The outcome is reported all the same.
    pub called_off: CancellationToken,
}

/// An eviction.
#[derive(Clone, Debug)]
pub struct Evict {
    /// UID of the pod.
    pub key: Key,
    /// The pod.
    pub pod: Arc<Pod>,
    /// Reason for people.
    pub message: String,
    /// Cancelled when the pod is to stay, or is evicted by another task.
    pub called_off: CancellationToken,
}

/// A condition: why a pod waits.
#[derive(Clone, Debug)]
pub struct Condition {
    /// UID of the pod.
    pub key: Key,
    /// The pod.
    pub pod: Arc<Pod>,
    /// The reason, in one word.
    pub reason: String,
    /// The reason, in a sentence.
    pub message: String,
}

/// A condition of a PodGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCondition {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Type of the condition.
    pub type_: &'static str,
    /// Whether it is true.
    pub status: bool,
    /// The reason, in one word.
    pub reason: String,
    /// The reason, in a sentence.
    pub message: String,
}

/// An event about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The object.
    pub about: About,
    /// Whether it is a warning.
    pub is_warning: bool,
    /// The reason, in one word.
    pub reason: &'static str,
    /// The action that was taken.
    pub action: &'static str,
    /// The event, in a sentence.
    pub message: String,
}

/// The object of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace, if it has one.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl About {
    /// Names a pod.
    pub fn pod(pod: &Pod) -> Self {
        Self::object("Pod", pod)
    }

    /// Names any object.
    pub fn object(kind: &'static str, object: &impl crate::objects::Meta) -> Self {
        Self {
            kind,
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
        }
    }
}
