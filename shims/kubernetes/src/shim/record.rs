//! State kept of pods, applications and nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use monoceros_proto::si::v1::TerminationType;
use tokio_util::sync::DropGuard;

use super::gangs::{Contribution, PodCounts};
use super::group_status::GroupReport;
use super::messages::Key;
use super::waiting::{WaitReason, WrittenReason};
use crate::objects::{Meta as _, Node, Pod};
use crate::translate::{Amounts, DeclaredGang, node_amounts};

/// Position of a pod in its application: second of creation, order of arrival, key.
pub(super) type PodPosition = (i64, u64, Key);

/// A pod that has not ended and is ours or has a node.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) pod: Arc<Pod>,
    /// Number of pods that arrived before it.
    pub(super) number: u64,
    /// Its application. `None` for pods of other schedulers.
    pub(super) application: Option<Arc<str>>,
    pub(super) engine: EngineState,
    /// Fingerprint of the last message about it.
    pub(super) fingerprint: u64,
    pub(super) api_work: ApiWork,
    /// Cancels the work at the API server when dropped.
    pub(super) cancel_guard: Option<DropGuard>,
    /// Node of a binding whose outcome is not known or not reported yet.
    pub(super) target: Option<Arc<str>>,
    /// Contribution to the counts of its application.
    pub(super) contribution: Contribution,
    /// The engine's request to end it.
    pub(super) ending: Option<Ending>,
    /// Whether the pod has ended. It is removed from the engine.
    pub(super) is_gone: bool,
    /// How the pod ends, by its status.
    pub(super) end: End,
    /// Earliest time of the next ask.
    pub(super) not_before: Duration,
    /// When the pod was first seen.
    pub(super) seen: Duration,
    /// Reason of the engine's last refusal.
    pub(super) refused: Option<String>,
    /// Number of refusals in a row.
    pub(super) refusals: u32,
    /// Whether the engine has confirmed an allocation of it.
    pub(super) is_confirmed: bool,
    /// When refused amounts of a running pod are sent again.
    pub(super) resend_at: Option<Duration>,
    /// Why no ask is sent.
    pub(super) blocked_by: Option<WaitReason>,
    /// Time of the last ask.
    pub(super) asked: Duration,
    /// Whether the engine has signalled that more nodes would help.
    pub(super) scale_up: bool,
    /// The last condition about its waiting.
    pub(super) written: Option<WrittenReason>,
    /// When its waiting is next examined.
    pub(super) due: Option<Duration>,
}

/// The engine's request to end a pod.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) type_: TerminationType,
    pub(super) message: String,
    /// Whether an event about it was written.
    pub(super) is_reported: bool,
}

/// The end of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The pod succeeds, is deleted, or the outcome is unknown.
    ByItself,
    /// The pod fails or is disrupted, and is lost to a gang that needs it.
    Lost,
}

/// State of a pod in the engine, as far as it was reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EngineState {
    Absent,
    /// A pending ask.
    Asked,
    /// An allocation on this node.
    Placed(Arc<str>),
    /// A foreign allocation on this node.
    Foreign(Arc<str>),
    /// A released allocation, until the engine confirms the release.
    Releasing,
}

/// Work in flight for a pod at the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiWork {
    Idle,
    Binding,
    /// The binding has succeeded, and the watch has not reported it yet.
    Bound,
    Evicting,
}

impl Record {
    pub(super) fn new(
        pod: Arc<Pod>,
        number: u64,
        application: Option<Arc<str>>,
        now: Duration,
    ) -> Self {
        Self {
            pod,
            number,
            application,
            engine: EngineState::Absent,
            fingerprint: 0,
            api_work: ApiWork::Idle,
            cancel_guard: None,
            target: None,
            contribution: Contribution::default(),
            ending: None,
            is_gone: false,
            end: End::ByItself,
            not_before: Duration::ZERO,
            seen: now,
            refused: None,
            refusals: 0,
            is_confirmed: false,
            resend_at: None,
            blocked_by: None,
            asked: now,
            scale_up: false,
            written: None,
            due: None,
        }
    }

    /// Returns the id of its application; empty for a foreign pod.
    pub(super) fn application_id(&self) -> Arc<str> {
        self.application.clone().unwrap_or_default()
    }

    /// Returns its position in its application.
    pub(super) fn position(&self, key: &Key) -> PodPosition {
        (self.pod.created(), self.number, Arc::clone(key))
    }

    /// Returns whether no ask is sent because of the specification of the pod or its application.
    pub(super) fn is_refused(&self) -> bool {
        const REASONS: [&str; 5] =
            ["Refused", "ApplicationRefused", "NotSupported", "GroupNotSupported", "Unreadable"];
        let why = self
            .blocked_by
            .as_ref()
            .filter(|_| self.engine == EngineState::Absent && !self.is_gone);
        why.is_some_and(|why| REASONS.contains(&&*why.reason))
    }

    /// Withdraws the engine's request to end the pod, and cancels an eviction. Returns the request.
    pub(super) fn cancel_ending(&mut self) -> Option<Ending> {
        if self.api_work == ApiWork::Evicting {
            self.api_work = ApiWork::Idle;
            self.cancel_guard = None;
        }
        self.ending.take()
    }
}

/// An application.
#[derive(Debug, Default)]
pub(super) struct Application {
    /// Namespace of its pods.
    pub(super) namespace: String,
    /// The id that its pods name.
    pub(super) declared_id: String,
    /// Its pods, oldest first.
    pub(super) pods: BTreeSet<PodPosition>,
    /// Counts of its pods.
    pub(super) counts: PodCounts,
    pub(super) state: AppState,
    /// Its gang, as it was submitted.
    pub(super) gang: Option<DeclaredGang>,
    /// Whether the engine has accepted it.
    pub(super) is_accepted: bool,
    /// Whether no ask or allocation of it was sent yet.
    pub(super) is_new: bool,
    /// Since when its pods name a task group that no pod declares.
    pub(super) undeclared: Option<Duration>,
    /// Number of rejections in a row.
    pub(super) refusals: u32,
    /// Origin of the gang's declaration.
    pub(super) declared_by: DeclaredBy,
    /// Number of new declarations because of pods larger than their groups.
    pub(super) resized: u32,
    /// Warnings that were sent and are not repeated.
    pub(super) warned: BTreeSet<String>,
    /// The last reported status of its PodGroup.
    pub(super) group_report: Option<GroupReport>,
    /// Whether its PodGroup was reported as preempted.
    pub(super) is_disrupted: bool,
}

impl Application {
    /// Makes an application for pods of the namespace that name this id.
    pub(super) fn new(namespace: &str, declared_id: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            declared_id: declared_id.to_owned(),
            ..Self::default()
        }
    }

    /// Orders applications by their oldest pods.
    pub(super) fn age(&self) -> impl Ord + '_ {
        (self.pods.first().map(|(created, ..)| *created), &self.namespace, &self.declared_id)
    }
}

/// Origin of the declaration of a gang.
#[derive(Debug, Default)]
pub(super) struct DeclaredBy {
    /// UID of a controller, or of a pod.
    pub(super) uid: String,
    /// Whether a warning about another declaration was sent.
    pub(super) is_other_reported: bool,
}

/// State of an application in the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum AppState {
    #[default]
    Unsubmitted,
    Submitted,
    /// Rejected for this reason, until this time.
    Rejected(String, Duration),
    /// Failed for this reason. It is not submitted again while its pods exist.
    Failed(String),
}

/// A node.
#[derive(Debug)]
pub(super) struct NodeRecord {
    pub(super) node: Arc<Node>,
    /// Whether the engine has it.
    pub(super) is_reported: bool,
    /// Whether the engine may place pods there.
    pub(super) is_open: bool,
    pub(super) attributes: BTreeMap<String, String>,
    pub(super) amounts: Amounts,
}

impl NodeRecord {
    pub(super) fn new(node: Arc<Node>) -> Self {
        let attributes = crate::translate::attributes(&node);
        let amounts = node_amounts(&node).unwrap_or_default();
        Self { node, is_reported: false, is_open: false, attributes, amounts }
    }
}
