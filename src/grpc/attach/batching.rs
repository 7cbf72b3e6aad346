//! Questions of one stream: joined into batches, sent within a window, answered exactly once.
//!
//! # Why batches
//! A message costs a round trip and a wake-up of the shim, whatever is in it. Questions that come
//! while others are out leave together, so a slow connection makes batches larger and not decisions
//! fewer.
//!
//! # Invariants
//! * Each question that came in gets one answer, unless it was cancelled: from the shim, from the
//!   deadline, or [when the stream ends](Batcher::close).
//! * At most [`Limits::batches`] batches are out, of at most [`Limits::queries`] questions and
//!   [`Limits::nodes`] nodes each. A question about more nodes is asked in parts.
//! * What the shim assumed for a question whose answer is not used is told to be
//!   [forgotten](Turn::forget), also when its answer comes late.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::metrics::{CallbackMetrics, QueryOutcome};
use monoceros_actors::{QuestionBundle, QuestionId, Scope, Verdict};
use monoceros_proto::v1 as cb;
use tokio::time::Instant;

use super::bundles::Bundles;
use super::cache::RequestName;
use super::dictionary::Dictionary;
use super::results::{self, clamped};
use super::window::Window;
use crate::settings::callback::OnTimeout;

mod answers;
#[cfg(test)]
mod tests;

/// Names a question, and who is to hear its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket {
    /// The number of the question; no two partitions give the same.
    pub(super) id: QuestionId,
    /// The number of the partition that asked.
    pub(super) partition: u32,
}

/// May this request run on the first of these nodes that passes? Or may a place be held there?
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) ticket: Ticket,
    pub(super) application: Arc<str>,
    pub(super) key: Arc<str>,
    /// The task group of the member for which a place would be held, whose request is not there yet;
    /// the key is empty then.
    pub(super) group: Option<Arc<str>>,
    /// As the scheduler gave them; what an answer names is a position here.
    pub(super) nodes: Vec<Arc<str>>,
    /// Positions of those that are worth asking about, in their order.
    pub(super) candidates: Vec<usize>,
    pub(super) allocate: bool,
    /// The gang that is decided as a whole, if the request is a member of one.
    pub(super) bundle: Option<Arc<QuestionBundle>>,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) ticket: Ticket,
    pub(super) verdict: Verdict,
}

/// What was agreed on for one stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Batches that are out.
    pub(super) batches: usize,
    /// Questions of a batch.
    pub(super) queries: usize,
    /// Nodes of a batch.
    pub(super) nodes: usize,
    /// Bytes of a batch, unless one question takes more.
    pub(super) bytes: usize,
    /// Questions that wait for a batch.
    pub(super) waiting: usize,
    /// How long a batch may be out.
    pub(super) timeout: Duration,
    /// What holds for its questions then.
    pub(super) on_timeout: OnTimeout,
    /// The shim keeps a view that follows the decisions.
    pub(super) follows: bool,
    /// It may assume requests on nodes with its answers, which only one that follows can.
    pub(super) assume: bool,
}

/// What a step comes to.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Answers for the scheduler, in order.
    pub(super) answers: Vec<Answer>,
    /// Requests that the shim may have assumed and that do not run there.
    pub(super) forget: Vec<RequestName>,
    /// Batches that nobody waits for any more.
    pub(super) cancelled: Vec<u64>,
    /// For the first time, the shim's view is behind this one.
    pub(super) behind: Option<u64>,
    /// Set once for a stream, when an answer first has `elsewhere` without CACHE_SYNC.
    pub(super) is_unheeded: bool,
}

/// The questions of one stream.
#[derive(Debug)]
pub(super) struct Batcher {
    limits: Limits,
    metrics: CallbackMetrics,
    window: Window,
    /// Sent back by the shim, or to be asked about more nodes: they go first.
    again: VecDeque<Pending>,
    waiting: VecDeque<Pending>,
    /// The state of each question. One in the two lists that has none was cancelled meanwhile.
    states: BTreeMap<Ticket, QuestionState>,
    out: BTreeMap<u64, SentBatch>,
    /// What the shim assumed with an answer and the scheduler has not told yet, by allocation key.
    assumed: HashMap<Arc<str>, Vec<Assumed>>,
    abandoned: BTreeMap<u64, Abandoned>,
    /// Messages in a row with results that answered nothing and were not late.
    useless: usize,
    /// The shim's view was behind before.
    was_behind: bool,
    /// An answer had `elsewhere` without CACHE_SYNC before.
    was_unheeded: bool,
}

/// How far a question has come.
#[derive(Debug)]
enum QuestionState {
    /// To be sent.
    Waiting,
    /// Sent, and not answered.
    Out { batch: u64, query: usize },
    /// Answered with a node on which the shim assumed the request; not yet told as an allocation.
    Answered { request: RequestName },
}

/// A question that waits to be sent, the first time or again.
#[derive(Debug)]
struct Pending {
    question: Question,
    /// How many of its candidates have been refused so far, and why.
    refused: usize,
    reasons: Vec<(String, u32)>,
    /// When it was first sent, if the shim sent it back since.
    sent: Option<Instant>,
}

/// A batch that is out.
#[derive(Debug)]
struct SentBatch {
    deadline: Instant,
    sent: Instant,
    cache_seq: u64,
    queries: Vec<Option<Query>>,
    /// Queries without an answer, and those of them whose question was not cancelled.
    open: usize,
    wanted: usize,
    /// The shim left some of it unread.
    shed: bool,
    /// The shim answered some of it from a view that is too old.
    stale: bool,
}

/// A question in a batch that is out.
#[derive(Debug)]
struct Query {
    pending: Pending,
    /// How many candidates it names.
    nodes: usize,
    assume: bool,
    cancelled: bool,
    /// The shim was told to forget its request, perhaps before and perhaps after it assumed it.
    forgotten: bool,
}

/// A batch that is not waited for.
#[derive(Debug)]
struct Abandoned {
    /// What the shim may yet assume, by query.
    requests: Vec<Option<RequestName>>,
    /// In how many messages an honest shim may still answer it: one for each query, and an end.
    messages_left: usize,
}

/// A request that the shim assumed on a node with its answer.
#[derive(Debug)]
struct Assumed {
    ticket: Ticket,
    application: Arc<str>,
    node: Arc<str>,
}

/// Batches whose late results are told from results to nothing.
const ABANDONED: usize = 256;

/// What a question takes beside its names, and its batch beside its questions, at most.
const QUERY_OVERHEAD_BYTES: usize = 64;

/// What a node's index takes.
const INDEX_BYTES: usize = 5;

impl Question {
    /// The request that it is about.
    fn request(&self) -> RequestName {
        let (application, key) = (Arc::clone(&self.application), Arc::clone(&self.key));
        RequestName { application, key }
    }

    /// What it takes in a batch when it names so many nodes, at most.
    fn bytes(&self, nodes: usize) -> usize {
        let names = [&self.key, &self.application].into_iter().chain(&self.group);
        let names: usize = names.map(|name| name.len()).sum();
        names + nodes * INDEX_BYTES + QUERY_OVERHEAD_BYTES
    }
}

impl Pending {
    /// Positions of the nodes that it may still be asked about, in their order.
    fn candidates(&self) -> &[usize] {
        &self.question.candidates[self.refused..]
    }
}

impl Query {
    /// As it is sent, under a number within its batch.
    fn message(&self, query_id: u32, dictionary: &mut Dictionary) -> cb::PredicateQuery {
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

impl Batcher {
    /// A batcher without questions.
    pub(super) fn new(limits: Limits, metrics: CallbackMetrics) -> Self {
        Self {
            limits,
            metrics,
            window: Window::new(limits.batches),
            again: VecDeque::new(),
            waiting: VecDeque::new(),
            states: BTreeMap::new(),
            out: BTreeMap::new(),
            assumed: HashMap::new(),
            abandoned: BTreeMap::new(),
            useless: 0,
            was_behind: false,
            was_unheeded: false,
        }
    }

    /// Takes a question in, to be sent with the [next batch](Self::next_batch). One too many is
    /// answered at once.
    pub(super) fn ask(&mut self, question: Question) -> Option<Answer> {
        let ticket = question.ticket;
        if self.waiting.len() >= self.limits.waiting {
            self.waiting.retain(|pending| self.states.contains_key(&pending.question.ticket));
        }
        if self.waiting.len() >= self.limits.waiting {
            self.metrics.query(QueryOutcome::Lost);
            return Some(Answer { ticket, verdict: Verdict::Unanswered });
        }
        self.states.insert(ticket, QuestionState::Waiting);
        let pending = Pending { question, refused: 0, reasons: Vec::new(), sent: None };
        self.waiting.push_back(pending);
        None
    }

    /// The next batch, if questions wait and one more may be out. The dictionary then knows all
    /// nodes that it names, and `bundles` all bundles; what both have to tell must be sent first.
    pub(super) fn next_batch(
        &mut self,
        now: Instant,
        number: u64,
        cache_seq: u64,
        dictionary: &mut Dictionary,
        bundles: &mut Bundles,
    ) -> Option<cb::PredicateBatch> {
        if !self.window.has_room(self.out.len(), now) {
            return None;
        }
        let queries = self.fill();
        if queries.is_empty() {
            return None;
        }
        self.metrics.predicate_batch();
        let asked: Vec<_> = queries
            .iter()
            .enumerate()
            .map(|(id, query)| query.message(clamped(id), dictionary))
            .collect();
        for (query, sent) in queries.iter().enumerate() {
            bundles.note(&sent.pending.question);
            let state = QuestionState::Out { batch: number, query };
            self.states.insert(sent.pending.question.ticket, state);
        }
        let (open, wanted) = (queries.len(), queries.len());
        let batch = SentBatch {
            deadline: now + self.limits.timeout,
            sent: now,
            cache_seq,
            queries: queries.into_iter().map(Some).collect(),
            open,
            wanted,
            shed: false,
            stale: false,
        };
        self.out.insert(number, batch);
        Some(cb::PredicateBatch {
            batch_id: number,
            cache_seq,
            dict_version: dictionary.version(),
            deadline_ms: clamped(usize::try_from(self.limits.timeout.as_millis()).unwrap_or(0)),
            queries: asked,
        })
    }

    /// As many of the questions that wait as one batch takes, at least one if there is any.
    fn fill(&mut self) -> Vec<Query> {
        let mut queries: Vec<Query> = Vec::new();
        let (mut n_nodes, mut n_bytes) = (0, 0);
        while queries.len() < self.limits.queries {
            let Some(pending) = self.next_pending() else { break };
            let n_candidates = pending.candidates().len();
            let room = self.limits.nodes - n_nodes;
            let nodes = n_candidates.min(room);
            let bytes = pending.question.bytes(nodes);
            let is_full = n_candidates > room || n_bytes + bytes > self.limits.bytes;
            if is_full && !queries.is_empty() {
                self.again.push_front(pending);
                break;
            }
            n_nodes += nodes;
            n_bytes += bytes;
            // Nobody would tell it of a place that is held, or of its end.
            let is_hold = pending.question.group.is_some();
            let assume = self.limits.assume && pending.question.allocate && !is_hold;
            queries.push(Query { pending, nodes, assume, cancelled: false, forgotten: false });
        }
        queries
    }

    /// These questions are not wanted any more.
    pub(super) fn cancel(&mut self, ids: &[QuestionId]) -> Turn {
        let mut turn = Turn::default();
        for &id in ids {
            // Which partition asked is not said, and need not be.
            let among = Ticket { id, partition: 0 }..=Ticket { id, partition: u32::MAX };
            let ticket = self.states.range(among).next().map(|(ticket, _)| *ticket);
            if let Some(ticket) = ticket {
                self.cancel_one(ticket, &mut turn);
            }
        }
        turn
    }

    /// An allocation was told. Whether the shim knows it, because it assumed it with its answer.
    pub(super) fn confirm(&mut self, application: &str, key: &str, node: &str) -> bool {
        let Some(assumed) = self.assumed.get_mut(key) else { return false };
        let is_it = |one: &Assumed| *one.application == *application && *one.node == *node;
        let Some(at) = assumed.iter().position(is_it) else { return false };
        let settled = assumed.swap_remove(at);
        if assumed.is_empty() {
            self.assumed.remove(key);
        }
        self.states.remove(&settled.ticket);
        true
    }

    /// The node on which the shim assumed this request, if that still holds.
    pub(super) fn assumed_on(&self, request: &RequestName) -> Option<&Arc<str>> {
        let mut of_key = self.assumed.get(&request.key)?.iter().rev();
        of_key.find(|assumed| assumed.application == request.application).map(|one| &one.node)
    }

    /// The shim is being told to forget this request, while questions about it may be out: whether
    /// it assumes it after that or before is not known.
    pub(super) fn forgotten(&mut self, request: &RequestName) {
        for batch in self.out.values_mut() {
            for query in batch.queries.iter_mut().flatten() {
                let question = &query.pending.question;
                query.forgotten |= query.assume
                    && question.key == request.key
                    && question.application == request.application;
            }
        }
    }

    /// How many batches wait for a place in the window.
    pub(super) fn queued_batches(&self) -> usize {
        (self.again.len() + self.waiting.len()).div_ceil(self.limits.queries)
    }

    /// Whether results of this batch are waited for.
    pub(super) fn is_out(&self, batch: u64) -> bool {
        self.out.contains_key(&batch)
    }

    /// Answers what is not answered in time.
    pub(super) fn expire(&mut self, now: Instant) -> Turn {
        let mut turn = Turn::default();
        while let Some(entry) = self.out.first_entry()
            && entry.get().deadline <= now
        {
            let (id, mut batch) = entry.remove_entry();
            for query in &mut batch.queries {
                if let Some(query) = query
                    && !query.cancelled
                {
                    query.cancelled = true;
                    self.states.remove(&query.pending.question.ticket);
                    turn.answers.push(self.timed_out(&query.pending));
                }
            }
            self.abandon(id, batch, &mut turn);
        }
        let deadline = |pending: &Pending| pending.sent.map(|sent| sent + self.limits.timeout);
        let (over, again): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.again)
            .into_iter()
            .partition(|pending| deadline(pending).is_some_and(|deadline| deadline <= now));
        self.again = again;
        for pending in over {
            if self.states.remove(&pending.question.ticket).is_some() {
                turn.answers.push(self.timed_out(&pending));
            }
        }
        turn
    }

    /// The time at which to [expire](Self::expire) or ask for the [next batch](Self::next_batch).
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let batch = self.out.first_key_value().map(|(_, batch)| batch.deadline);
        let sent = self.again.iter().filter_map(|pending| pending.sent).min();
        let again = sent.map(|sent| sent + self.limits.timeout);
        let waits = !self.again.is_empty() || !self.waiting.is_empty();
        let opens = self.window.opens_at(now).filter(|_| waits);
        [batch, again, opens].into_iter().flatten().min()
    }

    /// The stream is lost: whose questions are open.
    pub(super) fn close(self) -> Vec<Ticket> {
        let open = self.states.into_iter();
        let open: Vec<Ticket> = open
            .filter(|(_, place)| !matches!(place, QuestionState::Answered { .. }))
            .map(|(ticket, _)| ticket)
            .collect();
        self.metrics.queries(QueryOutcome::Lost, open.len());
        open
    }

    fn next_pending(&mut self) -> Option<Pending> {
        loop {
            let pending = self.again.pop_front().or_else(|| self.waiting.pop_front())?;
            if self.states.contains_key(&pending.question.ticket) {
                return Some(pending);
            }
        }
    }

    fn cancel_one(&mut self, ticket: Ticket, turn: &mut Turn) {
        match self.states.remove(&ticket) {
            None => {}
            Some(QuestionState::Waiting) => self.metrics.query(QueryOutcome::Cancelled),
            Some(QuestionState::Answered { request }) => {
                if let Some(assumed) = self.assumed.get_mut(&request.key) {
                    assumed.retain(|one| one.ticket != ticket);
                    if assumed.is_empty() {
                        self.assumed.remove(&request.key);
                    }
                }
                turn.forget.push(request);
            }
            Some(QuestionState::Out { batch: id, query }) => {
                self.metrics.query(QueryOutcome::Cancelled);
                let batch = self.out.get_mut(&id).expect("a place that is out names its batch");
                if let Some(query) = &mut batch.queries[query] {
                    query.cancelled = true;
                    batch.wanted -= 1;
                }
                if batch.wanted == 0 {
                    let batch = self.out.remove(&id).expect("just looked up");
                    self.abandon(id, batch, turn);
                    turn.cancelled.push(id);
                }
            }
        }
    }

    /// Remembers what the shim may still assume for a batch that is not waited for.
    fn abandon(&mut self, id: u64, batch: SentBatch, turn: &mut Turn) {
        let request = |query: Query| query.assume.then(|| query.pending.question.request());
        let requests: Vec<_> =
            batch.queries.into_iter().map(|query| query.and_then(request)).collect();
        let messages_left = requests.len() + 1;
        self.abandoned.insert(id, Abandoned { requests, messages_left });
        if self.abandoned.len() > ABANDONED
            && let Some((_, Abandoned { requests, .. })) = self.abandoned.pop_first()
        {
            turn.forget.extend(requests.into_iter().flatten());
        }
    }

    fn timed_out(&self, pending: &Pending) -> Answer {
        self.metrics.query(QueryOutcome::Timeout);
        let ticket = pending.question.ticket;
        let left = pending.candidates();
        let verdict = match self.limits.on_timeout {
            OnTimeout::Pass => {
                Verdict::Passed { position: left[0], scope: Scope::Topology, assumed: false }
            }
            OnTimeout::Fail => {
                let mut reasons = pending.reasons.clone();
                let silent = ("the shim did not answer in time".to_owned(), clamped(left.len()));
                results::merge(&mut reasons, vec![silent]);
                Verdict::Presumed { reasons: results::most_frequent(reasons) }
            }
        };
        Answer { ticket, verdict }
    }
}
