//! A question on its way: asked, pending, and sent as a query of a batch.

use std::sync::Arc;

use monoceros_actors::{QuestionBundle, QuestionId, Verdict};
use monoceros_proto::v1 as cb;
use tokio::time::Instant;

use super::super::cache::RequestName;
use super::super::dictionary::Dictionary;

/// Identifies a question and the receiver of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::grpc::attach) struct Ticket {
    /// The number of the question, unique over all partitions.
    pub(in crate::grpc::attach) id: QuestionId,
    /// The number of the asking partition's sink.
    pub(in crate::grpc::attach) partition: u32,
}

/// Asks for the first of these nodes on which a request may run or a place may be held.
#[derive(Clone, Debug)]
pub(in crate::grpc::attach) struct Question {
    pub(in crate::grpc::attach) ticket: Ticket,
    pub(in crate::grpc::attach) application: Arc<str>,
    pub(in crate::grpc::attach) key: Arc<str>,
    /// The task group of a gang member for which a place would be held and whose request does not
    /// exist yet; the key is then empty.
    pub(in crate::grpc::attach) group: Option<Arc<str>>,
    /// All nodes as given by the scheduler; answers name positions in this list.
    pub(in crate::grpc::attach) nodes: Vec<Arc<str>>,
    /// Positions of the nodes to ask about, in order.
    pub(in crate::grpc::attach) candidates: Vec<usize>,
    pub(in crate::grpc::attach) allocate: bool,
    /// The gang that is decided as a whole, if the request is a member of one.
    pub(in crate::grpc::attach) bundle: Option<Arc<QuestionBundle>>,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::grpc::attach) struct Answer {
    pub(in crate::grpc::attach) ticket: Ticket,
    pub(in crate::grpc::attach) verdict: Verdict,
}

/// A question to be sent, for the first time or again.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) question: Question,
    /// The number of candidates that were refused.
    pub(super) refused: usize,
    pub(super) reasons: Vec<(String, u32)>,
    /// When the question was first sent, if the shim has returned it unread since.
    pub(super) sent: Option<Instant>,
}

/// A question in a batch in flight.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) pending: Pending,
    /// The number of candidates asked about.
    pub(super) nodes: usize,
    pub(super) assume: bool,
    pub(super) cancelled: bool,
    /// Whether the shim was notified to forget the request, before or after it assumed it.
    pub(super) forgotten: bool,
}

/// Maximum size of a query without its names, and of a batch without its queries.
const QUERY_OVERHEAD_BYTES: usize = 64;

/// Maximum size of a node index.
const INDEX_BYTES: usize = 5;

impl Question {
    /// The name of the request.
    pub(super) fn request(&self) -> RequestName {
        let (application, key) = (Arc::clone(&self.application), Arc::clone(&self.key));
        RequestName { application, key }
    }

    /// The maximum size in a batch when asked about this many nodes.
    pub(super) fn bytes(&self, nodes: usize) -> usize {
        let names = [&self.key, &self.application].into_iter().chain(&self.group);
        let names: usize = names.map(|name| name.len()).sum();
        names + nodes * INDEX_BYTES + QUERY_OVERHEAD_BYTES
    }
}

impl Pending {
    /// Positions of the nodes that were not refused, in order.
    pub(super) fn candidates(&self) -> &[usize] {
        &self.question.candidates[self.refused..]
    }
}

impl Query {
    /// Encodes the query under its number within the batch.
    pub(super) fn message(&self, query_id: u32, dictionary: &mut Dictionary) -> cb::PredicateQuery {
        let question = &self.pending.question;
        let named = &self.pending.candidates()[..self.nodes];
        cb::PredicateQuery {
            query_id,
            allocation_key: question.key.to_string(),
            application_id: question.application.to_string(),
            allocate: question.allocate,
            mode: cb::EvalMode::FirstFit.into(),
            want: 1,
            node_index: named
                .iter()
                .map(|position| dictionary.index(&question.nodes[*position]))
                .collect(),
            node_ids: Vec::new(),
            assume: self.assume,
            bundle_id: question.bundle.as_ref().map_or(0, |bundle| bundle.id),
            task_group_name: question.group.as_deref().unwrap_or_default().to_owned(),
        }
    }
}
