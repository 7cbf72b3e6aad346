//! Target for the callback conversation between a session and its shim, in any order and in virtual
//! time: streams that begin and break, questions of the scheduler, results, acknowledgements,
//! events and nodes. Messages of the shim are built from those it received, or are arbitrary bytes.
//!
//! # Properties for every input
//! * Nothing panics.
//! * Each question is answered once, unless the scheduler cancelled it, and at the latest when the
//!   session ends. So is each request for a state dump, a configuration or a preemption.
//! * Every response reaches the allocation stream, in order.
//! * Questions name nodes by indexes that were sent on the stream. The number of nodes, the number
//!   of batches and the size of messages are within the agreed bounds.
//! * Numbers of cache syncs, of dictionaries and of events rise; the number of events is within the
//!   credit.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use monoceros::grpc::fuzzing::{Received, TestedConversation};
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as cb;
use monoceros_proto::v1::core_message::Body;
use monoceros_proto::v1::shim_message::Body as Said;
use prost::Message as _;

use super::draw::Draw;

/// Initial event credit if the shim requests none.
const FIRST_CREDIT: u64 = 256;

/// Names of nodes.
const NODES: [&str; 10] = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"];

/// Keys of requests.
const KEYS: [&str; 6] = ["k0", "k1", "k2", "k3", "k4", "k5"];

/// Runs steps until the bytes are used up, and ends the session. Returns the number of messages
/// that the shim has read.
pub fn conversation(data: &[u8]) -> usize {
    let draw = &mut Draw::new(data);
    let mut play = Play::new(draw.one_in(2));
    play.attach(draw);
    while !draw.is_over() {
        play.step(draw);
        play.read_responses();
    }
    play.end()
}

/// A session with the state observed from outside.
struct Play {
    talk: TestedConversation,
    /// Unanswered questions.
    open: BTreeSet<u64>,
    n_questions: u64,
    /// Unanswered requests of other kinds.
    asked: BTreeSet<u64>,
    /// Responses that were not delivered yet, by the message of their only release.
    undelivered: VecDeque<String>,
    n_responses: usize,
    n_events: usize,
    last_sync: u64,
    n_read: usize,
    shim: Option<Shim>,
}

/// The shim's side of one stream.
struct Shim {
    hello: cb::Hello,
    welcome: cb::Welcome,
    dictionary: BTreeMap<u32, String>,
    last_dictionary: u64,
    /// Batches with at least one unanswered question.
    batches: BTreeMap<u64, cb::PredicateBatch>,
    preemptions: Vec<(u64, usize)>,
    states: Vec<(u64, u32)>,
    saves: Vec<u64>,
    last_event: u64,
    credit: u64,
}

impl Play {
    fn new(is_required: bool) -> Self {
        Self {
            talk: TestedConversation::new(is_required),
            open: BTreeSet::new(),
            n_questions: 0,
            asked: BTreeSet::new(),
            undelivered: VecDeque::new(),
            n_responses: 0,
            n_events: 0,
            last_sync: 0,
            n_read: 0,
            shim: None,
        }
    }

    fn step(&mut self, draw: &mut Draw<'_>) {
        match draw.below(20) {
            0 if self.shim.is_none() || draw.one_in(4) => self.attach(draw),
            1 if draw.one_in(4) => {
                self.talk.detach();
                self.shim = None;
            }
            2..5 => self.ask(draw),
            5 => {
                let id = u64::from(draw.byte()) % (self.n_questions + 1);
                self.talk.cancel(id);
                self.open.remove(&id);
            }
            6..9 => self.results(draw),
            9 => {
                if let Ok(message) = cb::ShimMessage::decode(draw.bytes()) {
                    self.send(message);
                }
            }
            10 => self.other_answer(draw),
            11 => {
                // Mostly shorter than the time after which a silent stream is closed.
                let longest = if draw.one_in(16) { 20 } else { 10 };
                let time = Duration::from_millis(1 << draw.below(longest));
                if !self.talk.wait(time, draw.below(64)) {
                    self.shim = None;
                }
            }
            12..14 => self.response(draw),
            14 => {
                let (sync, behind) = (self.last_sync, u64::from(draw.byte()) / 64);
                self.talk.written(sync.saturating_sub(behind));
            }
            15 => self.nodes(draw),
            16 => {
                let (n_events, name) = (draw.below(64), draw.name());
                let events = (0..=5).cycle().map(|r#type| {
                    let object_id = name.to_owned();
                    si::EventRecord { r#type, object_id, ..Default::default() }
                });
                self.n_events += n_events;
                self.talk.push_events(events.take(n_events).collect());
            }
            17 => {
                let state = |draw: &mut Draw<'_>| si::UpdateContainerSchedulingStateRequest {
                    application_id: draw.name().to_owned(),
                    allocation_key: KEYS[draw.below(KEYS.len())].to_owned(),
                    ..Default::default()
                };
                let states = (0..draw.below(4)).map(|_| state(draw)).collect();
                self.talk.push_states(states);
            }
            18 => self.ask_otherwise(draw),
            0 | 1 | 19.. => self.take(),
        }
    }

    fn attach(&mut self, draw: &mut Draw<'_>) {
        let bits = draw.byte();
        let few = |draw: &mut Draw<'_>| u32::from(draw.byte() / 16);
        let hello = cb::Hello {
            capabilities: (1..=7).filter(|bit| bits & (1 << bit) != 0).collect(),
            max_inflight_batches: few(draw),
            max_nodes_per_batch: few(draw),
            max_queries_per_batch: few(draw),
            event_types: if draw.one_in(2) { vec![] } else { vec![1, 2] },
            last_event_seq: u64::from(draw.byte()),
            initial_event_credit: few(draw),
            predicates_absent: draw.small_number() % 5,
            predicate_timeout_ms: few(draw) * 100,
            max_message_bytes: if draw.one_in(2) { 0 } else { draw.small_number().unsigned_abs() },
            confirm_assume: draw.one_in(2),
            ..cb::Hello::default()
        };
        // Messages sent on the last stream and not read are lost.
        self.talk.attach(&hello);
        let Some(cb::CoreMessage { body: Some(Body::Welcome(welcome)) }) = self.talk.take() else {
            panic!("a stream begins with its welcome");
        };
        let credit = u64::from(hello.initial_event_credit);
        self.shim = Some(Shim {
            credit: if credit == 0 { FIRST_CREDIT } else { credit },
            hello,
            welcome,
            dictionary: BTreeMap::new(),
            last_dictionary: 0,
            batches: BTreeMap::new(),
            preemptions: Vec::new(),
            states: Vec::new(),
            saves: Vec::new(),
            last_event: 0,
        });
    }

    fn ask(&mut self, draw: &mut Draw<'_>) {
        self.n_questions += 1;
        let (first, n_nodes) = (draw.below(NODES.len()), draw.below(40));
        let nodes: Vec<&str> =
            (0..n_nodes).map(|n| NODES[(first + n) % NODES.len()]).take(NODES.len()).collect();
        let bundle = draw.one_in(4).then(|| 1 + u64::from(draw.byte()) / 64);
        self.open.insert(self.n_questions);
        self.talk.ask(self.n_questions, KEYS[draw.below(KEYS.len())], &nodes, bundle);
    }

    fn ask_otherwise(&mut self, draw: &mut Draw<'_>) {
        let asked = match draw.below(3) {
            0 => {
                let args = |draw: &mut Draw<'_>| si::PreemptionPredicatesArgs {
                    allocation_key: draw.name().to_owned(),
                    node_id: NODES[draw.below(NODES.len())].to_owned(),
                    preempt_allocation_keys: vec!["victim".to_owned(); draw.below(4)],
                    start_index: draw.small_number(),
                };
                let group: Vec<_> = (0..=draw.below(10)).map(|_| args(draw)).collect();
                self.talk.ask_preemption(group)
            }
            1 => self.talk.ask_state(),
            _ => self.talk.ask_save(draw.text()),
        };
        if let Some(number) = asked {
            assert!(self.asked.insert(number), "the number {number} again");
        }
    }

    fn response(&mut self, draw: &mut Draw<'_>) {
        self.n_responses += 1;
        let name = self.n_responses.to_string();
        let allocation = |draw: &mut Draw<'_>| si::Allocation {
            allocation_key: KEYS[draw.below(KEYS.len())].to_owned(),
            uuid: draw.below(4).to_string(),
            application_id: "application".to_owned(),
            node_id: NODES[draw.below(NODES.len())].to_owned(),
            ..Default::default()
        };
        let new: Vec<_> = (0..draw.below(4)).map(|_| allocation(draw)).collect();
        let released = si::AllocationRelease {
            allocation_key: KEYS[draw.below(KEYS.len())].to_owned(),
            application_id: "application".to_owned(),
            uuid: draw.below(4).to_string(),
            message: name.clone(),
            ..Default::default()
        };
        self.undelivered.push_back(name);
        let released = vec![released];
        self.talk.allocations(si::AllocationResponse { new, released, ..Default::default() });
    }

    fn nodes(&mut self, draw: &mut Draw<'_>) {
        let node = NODES[draw.below(NODES.len())];
        match draw.below(4) {
            0 => self.talk.node_removed(node),
            1 => self.talk.reported_with(node, "application", KEYS[draw.below(KEYS.len())]),
            2 => {
                let accepted =
                    vec![si::AcceptedNode { node_id: node.to_owned(), ..Default::default() }];
                self.talk.nodes(&si::NodeResponse { accepted, ..Default::default() });
            }
            _ => {
                let rejected =
                    vec![si::RejectedNode { node_id: node.to_owned(), reason: String::new() }];
                self.talk.nodes(&si::NodeResponse { rejected, ..Default::default() });
            }
        }
    }

    fn send(&mut self, message: cb::ShimMessage) {
        let credit = match &message.body {
            Some(Said::EventCredit(credit)) => u64::from(credit.add),
            _ => 0,
        };
        let n_results = match &message.body {
            Some(Said::PredicateResults(results)) => Some((results.batch_id, results.last)),
            _ => None,
        };
        if let Some(shim) = &mut self.shim {
            shim.credit = shim.credit.saturating_add(credit);
            if let Some((batch, true)) = n_results {
                shim.batches.remove(&batch);
            }
        }
        if !self.talk.receive(message) {
            self.shim = None;
        }
    }

    /// Sends results about one of the open batches: complete or partial, valid or not.
    fn results(&mut self, draw: &mut Draw<'_>) {
        self.take();
        let Some(shim) = &self.shim else { return };
        let nth = draw.below(shim.batches.len());
        let Some(batch) = shim.batches.values().nth(nth) else { return };
        let last = !draw.one_in(4);
        let result = |query: &cb::PredicateQuery, draw: &mut Draw<'_>| {
            let n_nodes = query.node_index.len();
            let evaluated = if draw.one_in(16) { draw.below(n_nodes + 2) } else { n_nodes };
            cb::PredicateResult {
                query_id: if draw.one_in(64) { u32::from(draw.byte()) } else { query.query_id },
                outcome: if draw.one_in(4) { draw.small_number() % 7 } else { 1 },
                evaluated: u32::try_from(evaluated).unwrap_or_default(),
                pass_bitmap: (0..n_nodes.div_ceil(8)).map(|_| draw.byte()).collect(),
                failures: if draw.one_in(4) { draw.list(failure) } else { vec![] },
                scope: draw.small_number() % 4,
                error: String::new(),
                ..Default::default()
            }
        };
        let asked: Vec<_> = batch.queries.iter().filter(|_| !draw.one_in(8)).collect();
        let results = asked.into_iter().map(|query| result(query, draw)).collect();
        let behind = u64::from(draw.byte()) / 100;
        let results = cb::PredicateResults {
            batch_id: batch.batch_id,
            cache_seq: batch.cache_seq.saturating_sub(behind),
            last,
            results,
        };
        self.send(cb::ShimMessage { body: Some(Said::PredicateResults(results)) });
    }

    fn other_answer(&mut self, draw: &mut Draw<'_>) {
        self.take();
        let Some(shim) = &mut self.shim else { return };
        let body = match draw.below(6) {
            0 => {
                let failure = |draw: &mut Draw<'_>| cb::CacheSyncFailure {
                    allocation_key: KEYS[draw.below(KEYS.len())].to_owned(),
                    application_id: ["", "application"][draw.below(2)].to_owned(),
                    ..Default::default()
                };
                let cache_seq = self.last_sync.saturating_sub(u64::from(draw.byte()) / 64);
                Said::CacheSyncAck(cb::CacheSyncAck { cache_seq, failures: draw.list(failure) })
            }
            1 => Said::EventCredit(cb::EventCredit { add: u32::from(draw.byte()), ack_seq: 0 }),
            2 => {
                let Some((batch_id, n_queries)) = shim.preemptions.pop() else { return };
                let result = |query_id| cb::PreemptionResult {
                    query_id,
                    outcome: draw.small_number() % 6,
                    response: Some(si::PreemptionPredicatesResponse {
                        success: draw.one_in(2),
                        index: draw.small_number(),
                    }),
                    ..Default::default()
                };
                let results = (0..u32::try_from(n_queries).unwrap_or_default()).map(result);
                let results = results.collect();
                let results =
                    cb::PreemptionResults { batch_id, last: true, results, ..Default::default() };
                Said::PreemptionResults(results)
            }
            3 => {
                let Some((request_id, index)) = shim.states.last_mut() else { return };
                let chunk = cb::StateDumpChunk {
                    request_id: *request_id,
                    index: *index,
                    last: draw.one_in(2),
                    data: draw.bytes().to_vec(),
                    ..Default::default()
                };
                *index += 1;
                Said::StateDump(chunk)
            }
            4 => {
                let Some(request_id) = shim.saves.pop() else { return };
                let success = draw.one_in(2);
                Said::ConfigSave(cb::ConfigSaveResult { request_id, success, ..Default::default() })
            }
            _ => Said::Heartbeat(cb::Heartbeat { reply: draw.one_in(2), ..Default::default() }),
        };
        self.send(cb::ShimMessage { body: Some(body) });
    }

    /// Reads all messages that were sent.
    fn take(&mut self) {
        while let Some(message) = self.talk.take() {
            let Some(shim) = &mut self.shim else { panic!("no stream has begun: {message:?}") };
            let Some(body) = message.body else { panic!("a message without a body") };
            self.n_read += 1;
            let bytes = body.encoded_len();
            let n_parts = shim.read(body, &mut self.last_sync, self.n_events);
            let most = shim.welcome.max_message_bytes as usize + 1_024;
            assert!(bytes <= most || n_parts <= 1, "{bytes} bytes, and {n_parts} parts");
        }
    }

    /// Reads the responses received by the scheduler and by the other streams.
    fn read_responses(&mut self) {
        for heard in self.talk.received() {
            match heard {
                Received::Answered(id) => assert!(self.open.remove(&id), "question {id}"),
                Received::Delivered(response) => {
                    let named = response.released.first().map(|release| release.message.clone());
                    assert_eq!(named, self.undelivered.pop_front(), "in order");
                }
                Received::Replied(number) => assert!(self.asked.remove(&number), "{number}"),
                Received::Undone(release) => assert!(KEYS.contains(&&*release.allocation_key)),
            }
        }
    }

    /// Ends the session and checks that no question is left open.
    fn end(mut self) -> usize {
        self.take();
        self.talk.detach();
        self.read_responses();
        assert_eq!(self.open, BTreeSet::new(), "questions without an answer");
        assert_eq!(self.asked, BTreeSet::new(), "requests without an answer");
        assert!(self.undelivered.is_empty(), "{:?}", self.undelivered);
        self.n_read
    }
}

impl Shim {
    /// Reads a message. Returns the number of parts it could have been sent in.
    fn read(&mut self, body: Body, last_sync: &mut u64, n_events: usize) -> usize {
        match body {
            Body::NodeDictionary(part) => {
                assert!(part.dict_version > self.last_dictionary);
                self.last_dictionary = part.dict_version;
                if part.reset {
                    self.dictionary.clear();
                }
                for index in &part.remove {
                    self.dictionary.remove(index);
                }
                let n_parts = part.add.len();
                for entry in part.add {
                    let before = self.dictionary.insert(entry.index, entry.node_id);
                    assert_eq!(before, None, "{} names two", entry.index);
                }
                n_parts
            }
            Body::PredicateBatch(batch) => {
                assert!(batch.dict_version <= self.last_dictionary || self.dictionary.is_empty());
                let n_queries = batch.queries.len();
                assert!((1..=self.welcome.max_queries_per_batch as usize).contains(&n_queries));
                let named = batch.queries.iter().flat_map(|query| &query.node_index);
                let mut n_nodes = 0;
                for index in named {
                    assert!(self.dictionary.contains_key(index), "{index} was not told");
                    n_nodes += 1;
                }
                assert!(n_nodes <= self.welcome.max_nodes_per_batch, "{n_nodes} nodes");
                self.batches.insert(batch.batch_id, batch);
                n_queries
            }
            Body::Cancel(cancel) => {
                for id in &cancel.batch_ids {
                    self.batches.remove(id);
                }
                1
            }
            Body::PreemptionBatch(batch) => {
                for query in &batch.queries {
                    assert!(self.dictionary.contains_key(&query.node_index));
                }
                self.preemptions.push((batch.batch_id, batch.queries.len()));
                1
            }
            Body::CacheSync(sync) => {
                assert!(sync.cache_seq > *last_sync, "{} after {last_sync}", sync.cache_seq);
                *last_sync = sync.cache_seq;
                let args = sync.args.unwrap_or_default();
                args.assumed_allocations.len() + args.forget_allocations.len()
            }
            Body::EventBatch(batch) => {
                assert!(batch.first_seq > self.last_event && batch.first_seq <= batch.last_seq);
                assert!(usize::try_from(batch.last_seq).is_ok_and(|last| last <= n_events));
                self.last_event = batch.last_seq;
                let n_sent = batch.events.len() as u64;
                assert!(n_sent <= self.credit, "{n_sent} for a credit of {}", self.credit);
                self.credit -= n_sent;
                let wanted = &self.hello.event_types;
                let is_wanted = |event: &si::EventRecord| wanted.contains(&event.r#type);
                assert!(wanted.is_empty() || batch.events.iter().all(is_wanted));
                batch.events.len()
            }
            Body::BundlePlaces(places) => {
                for place in &places.places {
                    assert!(self.dictionary.contains_key(&place.node_index));
                }
                places.places.len()
            }
            Body::ContainerStates(batch) => batch.states.len(),
            Body::StateDump(request) => {
                self.states.push((request.request_id, 0));
                1
            }
            Body::ConfigSave(request) => {
                self.saves.push(request.request_id);
                1
            }
            Body::Welcome(_) => panic!("a second welcome"),
            Body::Heartbeat(_) | Body::Goodbye(_) => 1,
        }
    }
}

fn failure(draw: &mut Draw<'_>) -> cb::FailureGroup {
    let (plugin, reason) = (draw.name().to_owned(), draw.text());
    cb::FailureGroup { plugin, reason, ..Default::default() }
}
