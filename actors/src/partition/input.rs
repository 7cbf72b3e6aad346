//! The two kinds of entries of a partition: an [`Input`] can change decisions, a [`LocalRequest`]
//! cannot.
//!
//! # Why the two are apart
//! An input is plain data: no address, no reply, no callback and no clock of this process. It can
//! be written to a file, read, and handed in again, here or elsewhere; a partition with the same
//! configuration that is handed the same inputs with the same times decides the same. An entry that
//! has a meaning in this process alone (a read with its reply, a barrier, the credit for a chunk)
//! is a local request, and leaves no trace in what is decided.
//!
//! # The seam of record and replay
//! * Every input takes effect in [`Partition::enter`](super::Partition), and only there; a plain report
//!   that follows another is planned as a visit at once, which is what `enter` does with it. The inbox
//!   stamps an input when it is taken out, and the stamp is the time of its step; the time of
//!   arrival decides nothing. The [`inbox`](super::inbox) also decides whether an offer leaves
//!   between two inputs; the time of the offer is that of its turn.
//! * A replay hands the recorded inputs to `enter`, in the same order. The recorded alarms and
//!   acknowledgements replace those of the timer and the RM. The number of notices that are sent
//!   together depends on the other entries in the inbox, and decides nothing.
//! * The number of notices that the RM has taken can change decisions, because offers stop while
//!   too many notices are outstanding: [`Input::Acknowledged`].
//! * The answers of an RM in this process come in the middle of an offer, all from
//!   `node::predicates::answer`, as plain data, too. They are inputs of that offer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use monoceros_config::PartitionConfig;
use monoceros_config::reload::{self, Flat};
use monoceros_rules::applications::application::NewApplication;
use monoceros_rules::decide::preemption::Answer as PreemptionAnswer;
use monoceros_rules::limits::Tables;
use monoceros_rules::queues::object_state::ObjectState;
use monoceros_rules::specs::ask::Form;
use monoceros_rules::specs::quotas::Held;
use monoceros_rules::specs::rejection::Rejection;
use monoceros_rules::values::ids::ApplicationSlot;
use monoceros_rules::values::resources::Resources;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::reports::Reports;
use crate::api::outcomes::PartitionStateError;
use crate::api::predicates::{Invalidation, Predicates, QuestionId, Verdict};
use crate::step::{Alarm, Barrier, Existing, ForeignReport, NodeChange, Notice, Op};

/// An input with the time of its step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stamped {
    /// ns since the epoch.
    pub(crate) at_ns: i64,
    pub(crate) input: Input,
}

/// An entry that can change decisions: plain data, without an address or a reply.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Input {
    Request(Request),
    /// The rest of orders to an application that were too long for one step.
    Unfinished(ApplicationSlot, Vec<Op>),
    /// Answers to questions; no verdict: the question never reached the RM.
    Answers(Vec<(QuestionId, Option<Verdict>)>),
    /// Answers to questions about preemption, in their order.
    PreemptionAnswers(QuestionId, Vec<PreemptionAnswer>),
    Control(Control),
    /// A deadline is over.
    Alarm(Alarm),
    /// The RM has taken this many notices.
    Acknowledged(usize),
    /// The partition is to enter this state.
    State(ObjectState),
    /// A configuration is proposed: could this partition have it? `None`: the partition is to be
    /// closed. Nothing else happens until the proposal is concluded.
    Prepare(Option<PartitionDocument>),
    /// The proposal is carried out, or is forgotten.
    Conclude(Conclude),
}

/// A request of an RM, translated. Each is one step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    AddApplication(Box<NewApplication>),
    RemoveApplication(Arc<str>),
    /// All orders of one message to one application, in order.
    Application {
        id: Arc<str>,
        ops: Vec<Op>,
    },
    CreateNode(Box<NewNode>),
    ChangeNode {
        id: Arc<str>,
        change: Box<NodeChange>,
    },
    RemoveNode(Arc<str>),
    /// A foreign allocation is reported.
    Foreign(Box<ForeignRequest>),
    ForeignGone(Arc<str>),
    /// An item that the translation refused; it is answered in its turn among the other items.
    Refused(Box<RefusedItem>),
}

/// A node as its RM reports it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NewNode {
    pub(crate) id: Arc<str>,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) total: Resources,
    pub(crate) occupied: Resources,
    pub(crate) existing: Vec<(Arc<str>, Existing)>,
    pub(crate) draining: bool,
}

/// A foreign allocation, as its RM reports it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ForeignRequest {
    pub(crate) node: Arc<str>,
    pub(crate) report: ForeignReport,
}

/// An item that can be refused without the state of the partition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum RefusedItem {
    Ask { form: Form, key: Arc<str>, application: Arc<str>, reason: Rejection },
    Application { id: Arc<str>, queue: String, reason: Rejection },
    Node { id: Arc<str>, reason: Rejection },
}

impl From<RefusedItem> for Notice {
    fn from(item: RefusedItem) -> Self {
        match item {
            RefusedItem::Ask { form, key, application, reason } => {
                Self::AskRejected { form, key, application, reason: Box::new(reason) }
            }
            RefusedItem::Application { id, reason, .. } => {
                Self::ApplicationRejected { id, reason: Box::new(reason) }
            }
            RefusedItem::Node { id, reason } => Self::NodeRejected { id, reason: Box::new(reason) },
        }
    }
}

/// Treatment of a change of a node that the partition does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownNodes {
    Rejected,
    Ignored,
}

/// A setting of a session, changed by a control message of its RM.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Control {
    Hold(bool),
    Predicates(Predicates),
    Invalidate(Invalidation),
    ReorderWindow(Duration),
    ReorderItems(usize),
    StrictEnums(bool),
    /// The sum of the RM's quota usage in its other partitions.
    Elsewhere(Held),
}

/// The configuration of one partition, in the forms in which the engine needs it. It is serialized as the
/// text that it was read from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "PartitionDocumentText", try_from = "PartitionDocumentText")]
pub(crate) struct PartitionDocument {
    /// The text, with all partitions.
    text: Arc<str>,
    pub(crate) config: Arc<PartitionConfig>,
    /// The queues of the partition.
    pub(crate) queues: Arc<Flat>,
    /// The limits of users and groups on them.
    pub(crate) limits: Arc<Tables>,
}

/// The serialized form of a [`PartitionDocument`].
#[derive(Serialize, Deserialize)]
struct PartitionDocumentText {
    text: Arc<str>,
    /// The name of the partition in the text.
    partition: Arc<str>,
}

impl PartitionDocument {
    /// Returns the document of one partition of the text.
    pub(crate) fn new(text: &Arc<str>, config: PartitionConfig) -> Self {
        let queues = Arc::new(reload::flat(&config.root));
        let limits = Arc::new(Tables::of(&config.root));
        Self { text: Arc::clone(text), config: Arc::new(config), queues, limits }
    }
}

impl From<PartitionDocument> for PartitionDocumentText {
    fn from(PartitionDocument { text, config, .. }: PartitionDocument) -> Self {
        Self { text, partition: Arc::clone(&config.name) }
    }
}

impl TryFrom<PartitionDocumentText> for PartitionDocument {
    type Error = String;

    fn try_from(
        PartitionDocumentText { text, partition }: PartitionDocumentText,
    ) -> Result<Self, String> {
        let read = monoceros_config::parse(&text).map_err(|errors| errors.to_string())?;
        let config = read.partitions.into_iter().find(|config| config.name == partition);
        let config = config.ok_or_else(|| format!("the text has no partition `{partition}`"))?;
        Ok(Self::new(&text, config))
    }
}

/// The conclusion of a proposed configuration. Sent by the Rm.
#[derive(Clone, Copy, Debug, Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub(crate) enum Conclude {
    Apply,
    Forget,
}

/// Puts the partition into another state. The reply is the earlier state.
pub(crate) struct StateChange {
    pub(crate) to: ObjectState,
    pub(crate) reply: oneshot::Sender<Result<ObjectState, PartitionStateError>>,
}

/// An entry that decides nothing: it has a meaning in this process alone. `S` is a survey; the
/// inbox does not know what a survey reads.
pub(crate) enum LocalRequest<S> {
    /// The last entry of a chunk is done: the Rm may hand in another.
    ChunkDone,
    /// A survey visits actors and answers its sender.
    Read(S),
    /// A slice of a list takes its turn among the other slices.
    ReadSlice(S),
    /// The barrier is passed on once nothing is left to decide.
    Barrier(Arc<Barrier>),
    /// Measurements are to be kept.
    Observe(Arc<Reports>),
    /// An [`Input::State`] with a sender for its outcome.
    ChangeState(StateChange),
}

/// An entry of a partition's inbox.
pub(crate) enum Entry<S> {
    Input(Input),
    Local(LocalRequest<S>),
}

impl<S> Entry<S> {
    /// Returns the number of items that this entry counts as in its chunk.
    pub(crate) fn items(&self) -> usize {
        match self {
            Self::Input(Input::Request(Request::Application { ops, .. })) => ops.len(),
            Self::Local(LocalRequest::Observe(reports)) => reports.items(),
            _ => 1,
        }
    }
}

impl<S> From<Request> for Entry<S> {
    fn from(request: Request) -> Self {
        Self::Input(Input::Request(request))
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod written;
