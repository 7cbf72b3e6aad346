//! What comes into the shim, and what comes out of it.

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

/// The UID of a pod, which is the key of its request.
pub type Key = Arc<str>;

/// Something of the cluster is now like this, or gone. Objects of a namespace are named
/// `namespace/name`, pods by their UID.
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

/// What the engine says.
#[derive(Clone, Debug)]
pub enum Word {
    /// Pods that have a place.
    Placed(Vec<Placed>),
    /// Allocations, releases, refusals.
    Allocations(si::AllocationResponse),
    /// Applications accepted and refused, and their states.
    Applications(si::ApplicationResponse),
    /// Nodes refused.
    Nodes(si::NodeResponse),
    /// Requests for which more machines would help.
    MoreNodes(Vec<si::UpdateContainerSchedulingStateRequest>),
    /// Why the requests of an application wait; nothing where that cannot be told.
    Explained {
        /// The application.
        application: Arc<str>,
        /// The one request that was asked about; none: all of them.
        about: Option<Key>,
        /// One for each kind of requests.
        entries: Vec<Explanation>,
    },
    /// An explanation asked for a template that is not counted: it is in the next ticks.
    CountNodes,
    /// It has lost what it knew, and why: everything is to be told again.
    Lost(String),
    /// It does not serve this cluster any more, and why.
    Ended(String),
    /// The queues of [`EngineOrder::Configure`] are in force, or why they are not.
    Configured(Result<(), String>),
}

/// A pod that has a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its UID.
    pub key: Key,
    /// The application in which it was asked for.
    pub application: Arc<str>,
    /// The node.
    pub node: Arc<str>,
}

/// Why some requests of an application wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The requests; none for a gang as a whole.
    pub keys: Vec<String>,
    /// In one word.
    pub cause: String,
    /// The queue, user or node that decides.
    pub object: String,
    /// In a sentence.
    pub message: String,
}

impl Explanation {
    /// An entry of the engine's explanation, with its sentence on the gang added to the message.
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

/// How a work of the hands has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The pod is bound, where it was to be.
    Bound(Key),
    /// It is not bound there, and why. Where it is, if anywhere, the watch tells.
    NotBound(Key, String),
    /// The API server lets the pod go, or it is gone.
    Going(Key),
    /// The pod may not go yet, and why; it is tried on.
    Held(Key, String),
    /// The pod may not go, and why; it is not tried any more.
    Stays(Key, String),
    /// Why the pod waits could not be written.
    ConditionFailed(Key),
    /// How a group stands could not be written.
    GroupConditionFailed(GroupCondition),
}

/// What the engine is to be told; one after the other.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineOrder {
    /// Nodes that come, change, go.
    Nodes(Vec<si::NodeInfo>),
    /// Applications that come.
    Submit(Vec<si::AddApplicationRequest>),
    /// Applications that go.
    Remove(Vec<si::RemoveApplicationRequest>),
    /// Requests, and what runs.
    Allocations(Vec<si::Allocation>),
    /// What is over.
    Release(Vec<si::AllocationRelease>),
    /// What predicates refused may be tried again.
    TryAgain,
    /// Other queues (YAML), and everything else of the configuration.
    Configure {
        /// The queues; empty for those that the engine has by itself.
        queues: String,
        /// Everything else.
        extra: BTreeMap<String, String>,
    },
    /// Why the requests of this application wait, or one of them.
    Explain(Arc<str>, Option<Key>),
}

/// What is to be done at the API server; in any order.
#[derive(Clone, Debug)]
pub enum HandOrder {
    /// Bind a pod.
    Bind(Bind),
    /// Have a pod go.
    Evict(Evict),
    /// Write why a pod waits.
    Condition(Condition),
    /// Write how a group of pods stands.
    GroupCondition(GroupCondition),
    /// Write what happened.
    Event(Event),
}

/// Bind a pod.
#[derive(Clone, Debug)]
pub struct Bind {
    /// Its UID.
    pub key: Key,
    /// The pod.
    pub pod: Arc<Pod>,
    /// Its node.
    pub node: Arc<str>,
    /// Volumes that it has to have first.
    pub volumes: Vec<VolumeChoice>,
    /// When the pod was there first.
    pub seen: Duration,
    /// It is not to be bound after all once this is cancelled. What came of it is told all the same.
    pub called_off: CancellationToken,
}

/// Have a pod go.
#[derive(Clone, Debug)]
pub struct Evict {
    /// Its UID.
    pub key: Key,
    /// The pod.
    pub pod: Arc<Pod>,
    /// Why, for people.
    pub message: String,
    /// It is to stay after all, or somebody else sees to it, once this is cancelled.
    pub called_off: CancellationToken,
}

/// Why a pod waits.
#[derive(Clone, Debug)]
pub struct Condition {
    /// Its UID.
    pub key: Key,
    /// The pod.
    pub pod: Arc<Pod>,
    /// In one word.
    pub reason: String,
    /// In a sentence.
    pub message: String,
}

/// How a group of pods stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCondition {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it is about.
    pub type_: &'static str,
    /// Whether it is so.
    pub status: bool,
    /// In one word.
    pub reason: String,
    /// In a sentence.
    pub message: String,
}

/// Something happened to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The object.
    pub about: About,
    /// It went wrong.
    pub is_warning: bool,
    /// In one word.
    pub reason: &'static str,
    /// What was done.
    pub action: &'static str,
    /// In a sentence.
    pub message: String,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace, if it has one.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uid: String,
}

impl About {
    /// A pod.
    pub fn pod(pod: &Pod) -> Self {
        Self::object("Pod", pod)
    }

    /// Any object.
    pub fn object(kind: &'static str, object: &impl crate::objects::Meta) -> Self {
        Self {
            kind,
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
        }
    }
}
