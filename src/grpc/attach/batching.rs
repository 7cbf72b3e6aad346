//! The predicate questions of one stream: joined into batches, sent within a window, and each
//! answered exactly once.
//!
//! # Why batches
//! Every message costs a round trip and a wake-up of the shim, whatever its size. Questions that
//! arrive while batches are in flight are sent together, so a slow connection makes batches larger
//! and not decisions fewer.
//!
//! # Invariants
//! * Each question gets one answer, unless it was cancelled: from the shim, at the deadline, or
//!   [when the stream ends](Batcher::close).
//! * At most [`Limits::batches`] batches are in flight, each of at most [`Limits::queries`]
//!   questions and [`Limits::nodes`] nodes. A question about more nodes is asked in parts.
//! * If the shim assumed a request and its answer is not used, it must [forget](Turn::forget)
//!   the request, even if the answer is late.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::metrics::{CallbackMetrics, QueryOutcome};
use monoceros_actors::{QuestionId, Scope, Verdict};
use monoceros_proto::v1 as cb;
use tokio::time::Instant;

use crate::settings::callback::OnTimeout;

pub(super) use self::question::{Answer, Question, Ticket};
use self::question::{Pending, Query};
use super::bundles::Bundles;
use super::cache::RequestName;
use super::dictionary::Dictionary;
use super::results;
use super::results::clamped;
use super::window::Window;

mod answers;
mod question;
#[cfg(test)]
mod tests;

/// The limits agreed for one stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Batches in flight.
    pub(super) batches: usize,
    /// Questions per batch.
    pub(super) queries: usize,
    /// Nodes per batch.
    pub(super) nodes: usize,
    /// Bytes per batch, unless a single question takes more.
    pub(super) bytes: usize,
    /// Questions queued for a batch.
    pub(super) waiting: usize,
    /// How long a batch may be in flight.
    pub(super) timeout: Duration,
    /// The verdict when the time is over.
    pub(super) on_timeout: OnTimeout,
    /// Whether the shim keeps a cache of the scheduler's decisions.
    pub(super) follows: bool,
    /// Whether the shim may assume a request with its answer; requires `follows`.
    pub(super) assume: bool,
}

/// The result of a step.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Answers for the scheduler, in order.
    pub(super) answers: Vec<Answer>,
    /// Requests that the shim may have assumed and must forget.
    pub(super) forget: Vec<RequestName>,
    /// Batches that are no longer waited for.
    pub(super) cancelled: Vec<u64>,
    /// Set once per stream, when the shim first reports a view older than this cache sync.
    pub(super) behind: Option<u64>,
    /// Set once per stream, when an answer first has `elsewhere` without CACHE_SYNC.
    pub(super) is_unheeded: bool,
}

/// The questions of one stream.
#[derive(Debug)]
pub(super) struct Batcher {
    limits: Limits,
    metrics: CallbackMetrics,
    window: Window,
    /// Questions that the shim returned unread, or that have more nodes to be asked about; sent
    /// before `waiting`.
    retries: VecDeque<Pending>,
    waiting: VecDeque<Pending>,
    /// The state of each question. A question in the two queues without a state was cancelled.
    states: BTreeMap<Ticket, QuestionState>,
    in_flight: BTreeMap<u64, SentBatch>,
    /// Requests that the shim assumed and the scheduler has not allocated yet, by allocation key.
    assumed: HashMap<Arc<str>, Vec<Assumed>>,
    abandoned: BTreeMap<u64, Abandoned>,
    /// Consecutive messages whose results answered nothing and were not late.
    useless: usize,
    /// Whether the shim's view was behind before.
    was_behind: bool,
    /// Whether an answer had `elsewhere` without CACHE_SYNC before.
    was_unheeded: bool,
}

/// The progress of a question.
#[derive(Debug)]
enum QuestionState {
    Waiting,
    /// In flight.
    InFlight {
        batch: u64,
        query: usize,
    },
    /// Answered with a node on which the shim assumed the request; not allocated yet.
    Answered {
        request: RequestName,
    },
}

/// A batch in flight.
#[derive(Debug)]
struct SentBatch {
    deadline: Instant,
    sent: Instant,
    cache_seq: u64,
    queries: Vec<Option<Query>>,
    /// The number of queries without an answer.
    open: usize,
    wanted: usize,
    /// Whether the shim left a query unread.
    shed: bool,
    /// Whether the shim answered a query from an old view.
    stale: bool,
}

/// A batch that is no longer waited for.
#[derive(Debug)]
struct Abandoned {
    /// Requests that the shim may still assume, by query.
    requests: Vec<Option<RequestName>>,
    /// The most messages in which a correct shim may still answer: one per query, and an end.
    messages_left: usize,
}

/// A request that the shim assumed on a node with its answer.
#[derive(Debug)]
struct Assumed {
    ticket: Ticket,
    application: Arc<str>,
    node: Arc<str>,
}

/// Most abandoned batches remembered, whose late results are not counted as useless.
const ABANDONED: usize = 256;

impl Batcher {
    pub(super) fn new(limits: Limits, metrics: CallbackMetrics) -> Self {
        Self {
            limits,
            metrics,
            window: Window::new(limits.batches),
            retries: VecDeque::new(),
            waiting: VecDeque::new(),
            states: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            assumed: HashMap::new(),
            abandoned: BTreeMap::new(),
            useless: 0,
            was_behind: false,
            was_unheeded: false,
        }
    }

    /// Queues a question for the [next batch](Self::next_batch). If the queue is full, answers it
    /// at once.
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

    /// Returns the next batch, if questions are queued and the window has room. The batch names
    /// nodes and bundles by their entries in `dictionary` and `bundles`; the updates of both must
    /// be sent first.
    pub(super) fn next_batch(
        &mut self,
        now: Instant,
        number: u64,
        cache_seq: u64,
        dictionary: &mut Dictionary,
        bundles: &mut Bundles,
    ) -> Option<cb::PredicateBatch> {
        if !self.window.has_room(self.in_flight.len(), now) {
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
            let state = QuestionState::InFlight { batch: number, query };
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
        self.in_flight.insert(number, batch);
        Some(cb::PredicateBatch {
            batch_id: number,
            cache_seq,
            dict_version: dictionary.version(),
            deadline_ms: clamped(usize::try_from(self.limits.timeout.as_millis()).unwrap_or(0)),
            queries: asked,
        })
    }

    /// Takes queued questions for one batch; at least one if there is any.
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
                self.retries.push_front(pending);
                break;
            }
            n_nodes += nodes;
            n_bytes += bytes;
            // A hold is not an allocation, and the shim is not notified of its end.
            let is_hold = pending.question.group.is_some();
            let assume = self.limits.assume && pending.question.allocate && !is_hold;
            queries.push(Query { pending, nodes, assume, cancelled: false, forgotten: false });
        }
        queries
    }

    /// Cancels questions.
    pub(super) fn cancel(&mut self, ids: &[QuestionId]) -> Turn {
        let mut turn = Turn::default();
        for &id in ids {
            // Numbers are unique, so the partition is not needed.
            let among = Ticket { id, partition: 0 }..=Ticket { id, partition: u32::MAX };
            let ticket = self.states.range(among).next().map(|(ticket, _)| *ticket);
            if let Some(ticket) = ticket {
                self.cancel_one(ticket, &mut turn);
            }
        }
        turn
    }

    /// Confirms an allocation. Returns whether the shim already assumed it with its answer.
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

    /// The node on which the shim assumes this request, if it does.
    pub(super) fn assumed_on(&self, request: &RequestName) -> Option<&Arc<str>> {
        let mut of_key = self.assumed.get(&request.key)?.iter().rev();
        of_key.find(|assumed| assumed.application == request.application).map(|one| &one.node)
    }

    /// Marks queries in flight about a request that the shim has to forget: the shim may assume the
    /// request before or after it is notified.
    pub(super) fn forgotten(&mut self, request: &RequestName) {
        for batch in self.in_flight.values_mut() {
            for query in batch.queries.iter_mut().flatten() {
                let question = &query.pending.question;
                query.forgotten |= query.assume
                    && question.key == request.key
                    && question.application == request.application;
            }
        }
    }

    /// The number of batches that the queued questions would fill.
    pub(super) fn queued_batches(&self) -> usize {
        (self.retries.len() + self.waiting.len()).div_ceil(self.limits.queries)
    }

    /// Whether this batch is in flight.
    pub(super) fn is_in_flight(&self, batch: u64) -> bool {
        self.in_flight.contains_key(&batch)
    }

    /// Answers the questions whose time is over.
    pub(super) fn expire(&mut self, now: Instant) -> Turn {
        let mut turn = Turn::default();
        while let Some(entry) = self.in_flight.first_entry()
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
        let (over, retries): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.retries)
            .into_iter()
            .partition(|pending| deadline(pending).is_some_and(|deadline| deadline <= now));
        self.retries = retries;
        for pending in over {
            if self.states.remove(&pending.question.ticket).is_some() {
                turn.answers.push(self.timed_out(&pending));
            }
        }
        turn
    }

    /// The time of the next [`expire`](Self::expire) or [`next_batch`](Self::next_batch).
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let batch = self.in_flight.first_key_value().map(|(_, batch)| batch.deadline);
        let sent = self.retries.iter().filter_map(|pending| pending.sent).min();
        let retries = sent.map(|sent| sent + self.limits.timeout);
        let waits = !self.retries.is_empty() || !self.waiting.is_empty();
        let opens = self.window.opens_at(now).filter(|_| waits);
        [batch, retries, opens].into_iter().flatten().min()
    }

    /// Ends the stream's batcher. Returns the questions without an answer.
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
            let pending = self.retries.pop_front().or_else(|| self.waiting.pop_front())?;
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
            Some(QuestionState::InFlight { batch: id, query }) => {
                self.metrics.query(QueryOutcome::Cancelled);
                let Entry::Occupied(mut entry) = self.in_flight.entry(id) else {
                    debug_assert!(false, "question {ticket:?} names batch {id}, not in flight");
                    return;
                };
                let batch = entry.get_mut();
                if let Some(query) = &mut batch.queries[query] {
                    query.cancelled = true;
                    batch.wanted -= 1;
                }
                if batch.wanted == 0 {
                    let batch = entry.remove();
                    self.abandon(id, batch, turn);
                    turn.cancelled.push(id);
                }
            }
        }
    }

    /// Remembers the requests that the shim may still assume for an abandoned batch.
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
