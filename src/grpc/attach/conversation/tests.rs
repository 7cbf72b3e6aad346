//! Consecutive streams of a session in virtual time: messages, effects and answers.

use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::metrics::Metrics;
use monoceros_actors::{BundlePlace, QuestionBundle, QuestionId, Scope};
use monoceros_proto::v1::shim_message::Body as ShimBody;

use super::super::batching::Question;
use super::*;
use crate::settings::callback::AfterGrace;

mod gangs;
mod requests;

/// A conversation and a time that tests advance.
struct TestedConversation {
    conversation: Conversation,
    metrics: CallbackMetrics,
    now: Instant,
}

impl TestedConversation {
    fn new(change: impl FnOnce(&mut CallbackOptions)) -> Self {
        let mut options = CallbackOptions::for_tests();
        change(&mut options);
        let metrics = Metrics::new().callback.clone();
        let mut conversation = Conversation::new(options, metrics.clone());
        let now = Instant::now();
        conversation.begin(now);
        Self { conversation, metrics, now }
    }

    fn required() -> Self {
        Self::new(|options| options.callback.predicates = Asking::Required)
    }

    fn attach(&mut self, hello: &cb::Hello) {
        let identity = StreamIdentity { scheduler_id: "me".to_owned(), session: 7, attach: 1 };
        self.conversation.attach(self.now, hello, &identity);
    }

    fn ask(&mut self, id: u64, nodes: &[&str]) {
        let question = Question {
            ticket: Ticket { id: QuestionId(id), partition: 0 },
            application: "app".into(),
            key: id.to_string().into(),
            group: None,
            nodes: nodes.iter().map(|node| Arc::from(*node)).collect(),
            candidates: (0..nodes.len()).collect(),
            allocate: true,
            bundle: None,
        };
        self.conversation.ask(self.now, vec![question]);
    }

    /// Takes all queued messages.
    fn messages(&mut self) -> Vec<Body> {
        let now = self.now;
        std::iter::from_fn(|| self.conversation.take(now)).filter_map(|one| one.body).collect()
    }

    fn batches(&mut self) -> Vec<cb::PredicateBatch> {
        let batch = |body| match body {
            Body::PredicateBatch(batch) => Some(batch),
            _ => None,
        };
        self.messages().into_iter().filter_map(batch).collect()
    }

    fn say(&mut self, body: ShimBody) {
        let message = cb::ShimMessage { body: Some(body) };
        self.conversation.receive(self.now, message).unwrap();
    }

    fn pass(&mut self, batch: &cb::PredicateBatch) {
        let results = batch.queries.iter().map(|query| cb::PredicateResult {
            query_id: query.query_id,
            outcome: cb::Outcome::Evaluated.into(),
            evaluated: 1,
            pass_bitmap: vec![1],
            ..Default::default()
        });
        self.say(ShimBody::PredicateResults(cb::PredicateResults {
            batch_id: batch.batch_id,
            cache_seq: batch.cache_seq,
            last: true,
            results: results.collect(),
        }));
    }

    fn effects(&mut self) -> Vec<Effect> {
        self.conversation.effects()
    }

    /// Advances the time and applies all timeouts. Returns the end of the stream, if it ended.
    fn wait(&mut self, time: Duration) -> Option<StreamEnd> {
        let until = self.now + time;
        while let Some(due) = self.conversation.due(self.now)
            && due <= until
        {
            self.now = due.max(self.now);
            if let Err(end) = self.conversation.tick(self.now) {
                return Some(end);
            }
        }
        self.now = until;
        None
    }
}

fn hello(capabilities: &[cb::Capability]) -> cb::Hello {
    let capabilities = capabilities.iter().map(|one| (*one).into()).collect();
    cb::Hello { capabilities, ..Default::default() }
}

fn predicates() -> cb::Hello {
    hello(&[cb::Capability::Predicates])
}

fn answer(id: u64, verdict: Verdict) -> Effect {
    Effect::Answer(Answer { ticket: Ticket { id: QuestionId(id), partition: 0 }, verdict })
}

fn event(n: usize) -> si::EventRecord {
    si::EventRecord { r#type: 1, object_id: n.to_string(), ..Default::default() }
}

#[test]
fn stream_begins_with_welcome_dictionary_snapshot() {
    let mut talk = TestedConversation::required();
    talk.attach(&hello(&[cb::Capability::Predicates, cb::Capability::CacheSync]));
    let messages = talk.messages();
    let [Body::Welcome(welcome), Body::NodeDictionary(nodes), Body::CacheSync(view)] =
        &messages[..]
    else {
        panic!("{messages:?}")
    };
    assert_eq!((welcome.session_id, welcome.attach_id, &*welcome.scheduler_id), (7, 1, "me"));
    assert!(nodes.reset && view.snapshot && view.snapshot_end);
    assert_eq!(welcome.cache_seq, view.cache_seq);
}

#[test]
fn dictionary_precedes_the_batch() {
    let mut talk = TestedConversation::required();
    talk.attach(&predicates());
    talk.messages();
    talk.ask(1, &["n1"]);
    let messages = talk.messages();
    let [Body::NodeDictionary(nodes), Body::PredicateBatch(batch)] = &messages[..] else {
        panic!("{messages:?}")
    };
    assert_eq!((batch.dict_version, &*nodes.add[0].node_id), (nodes.dict_version, "n1"));
}

#[test]
fn mode_changes_before_questions_are_unanswered() {
    let mut talk = TestedConversation::required();
    assert_eq!(talk.effects(), [Effect::Mode(PredicateMode::Hold)]);
    talk.attach(&predicates());
    assert_eq!(talk.effects(), [Effect::Mode(PredicateMode::Remote { holds: false })]);
    talk.ask(1, &["n1"]);
    talk.conversation.detach(talk.now);
    assert_eq!(talk.effects(), [Effect::Mode(PredicateMode::Hold), answer(1, Verdict::Unanswered)]);
    talk.ask(2, &["n1"]);
    assert_eq!(talk.effects(), [answer(2, Verdict::Unanswered)]);
    talk.attach(&predicates());
    talk.ask(3, &["n1"]);
    let batches = talk.batches();
    assert_eq!(batches[0].queries[0].allocation_key, "3");
    talk.pass(&batches[0]);
    let passed = Verdict::Passed { position: 0, scope: Scope::Topology, assumed: false };
    assert_eq!(
        talk.effects(),
        [Effect::Mode(PredicateMode::Remote { holds: false }), answer(3, passed)]
    );
}

#[test]
fn absent_shim_may_pass_or_fail() {
    let wishes = |absent: cb::AbsentPolicy| {
        let mut talk = TestedConversation::new(|_| {});
        talk.attach(&cb::Hello { predicates_absent: absent.into(), ..predicates() });
        talk.conversation.detach(talk.now);
        talk.effects();
        talk.ask(1, &["n1", "n2"]);
        talk.effects()
    };
    let reasons = vec![("no shim is attached".to_owned(), 2)];
    assert_eq!(wishes(cb::AbsentPolicy::AbsentFail), [answer(1, Verdict::Presumed { reasons })]);
    let passed = Verdict::Passed { position: 0, scope: Scope::Topology, assumed: false };
    assert_eq!(wishes(cb::AbsentPolicy::AbsentPass), [answer(1, passed)]);
}

#[test]
fn policy_changes_after_the_grace() {
    let mut talk = TestedConversation::new(|options| {
        options.callback.predicates = Asking::Required;
        options.callback.after_grace = AfterGrace::Pass;
    });
    assert_eq!(talk.effects(), [Effect::Mode(PredicateMode::Hold)]);
    talk.wait(Duration::from_secs(59));
    assert_eq!(talk.effects(), []);
    talk.wait(Duration::from_secs(1));
    assert_eq!(talk.effects(), [Effect::Mode(PredicateMode::Local)]);
    talk.attach(&predicates());
    assert_eq!(talk.effects(), [Effect::Mode(PredicateMode::Remote { holds: false })]);
}

#[test]
fn new_options_apply_at_once() {
    let mut talk = TestedConversation::required();
    talk.attach(&predicates());
    talk.effects();
    let mut options = CallbackOptions::for_tests();
    options.callback.predicates = Asking::Required;
    talk.conversation.configure(talk.now, options.clone());
    assert_eq!(talk.effects(), []);
    options.placements_in_flight = 1;
    talk.conversation.configure(talk.now, options.clone());
    assert_eq!(talk.effects(), [Effect::Mode(PredicateMode::Remote { holds: false })]);
    options.callback.predicates = Asking::None;
    talk.conversation.configure(talk.now, options);
    assert_eq!(talk.effects(), [Effect::Mode(PredicateMode::Local)]);
}

#[test]
fn timed_out_batch_is_not_sent() {
    let mut talk = TestedConversation::required();
    talk.attach(&predicates());
    talk.messages();
    talk.effects();
    talk.ask(1, &["n1"]);
    assert!(talk.wait(Duration::from_secs(2)).is_none());
    assert!(matches!(&talk.effects()[..], [Effect::Answer(_)]));
    assert!(talk.batches().is_empty());
}

#[test]
fn cancelled_assumption_is_forgotten() {
    let mut talk = TestedConversation::required();
    talk.attach(&hello(&[cb::Capability::Predicates, cb::Capability::CacheSync]));
    talk.ask(1, &["n1"]);
    talk.ask(2, &["n1"]);
    for batch in talk.batches() {
        talk.pass(&batch);
    }
    let told = si::Allocation {
        application_id: "app".to_owned(),
        allocation_key: "2".to_owned(),
        node_id: "n1".to_owned(),
        ..Default::default()
    };
    let response = si::AllocationResponse { new: vec![told], ..Default::default() };
    talk.conversation.allocations(talk.now, response);
    talk.conversation.cancel(talk.now, &[QuestionId(1)]);
    let messages = talk.messages();
    let [Body::CacheSync(sync)] = &messages[..] else { panic!("{messages:?}") };
    let args = sync.args.as_ref().unwrap();
    assert!(args.assumed_allocations.is_empty(), "the second one was known");
    assert_eq!(args.forget_allocations[0].allocation_key, "1");
}

#[test]
fn confirming_shim_must_not_assume() {
    let able = hello(&[cb::Capability::Predicates, cb::Capability::CacheSync]);
    for confirm_assume in [false, true] {
        let mut talk = TestedConversation::required();
        talk.attach(&cb::Hello { confirm_assume, ..able.clone() });
        talk.ask(1, &["n1"]);
        assert_eq!(talk.batches()[0].queries[0].assume, !confirm_assume);
    }
}

#[test]
fn permanent_failure_excludes_the_node() {
    let mut talk = TestedConversation::required();
    talk.attach(&hello(&[cb::Capability::Predicates, cb::Capability::CacheSync]));
    let told = si::Allocation {
        application_id: "app".to_owned(),
        allocation_key: "1".to_owned(),
        node_id: "n1".to_owned(),
        ..Default::default()
    };
    let response = si::AllocationResponse { new: vec![told], ..Default::default() };
    talk.conversation.allocations(talk.now, response);
    let failures =
        vec![cb::CacheSyncFailure { allocation_key: "1".to_owned(), ..Default::default() }];
    talk.say(ShimBody::CacheSyncAck(cb::CacheSyncAck { cache_seq: 2, failures }));
    let effects = talk.effects();
    let undone = effects.iter().find_map(|effect| match effect {
        Effect::Undo(release) => Some(release.exclude_node),
        _ => None,
    });
    assert_eq!(undone, Some(true));
}

#[test]
fn events_without_credit_are_bounded() {
    let mut talk = TestedConversation::required();
    talk.attach(&cb::Hello { initial_event_credit: 10, ..hello(&[cb::Capability::Events]) });
    talk.messages();
    talk.conversation.push_events(talk.now, (0..100_000).map(event).collect());
    let sent = |messages: Vec<Body>| -> Vec<(usize, u64)> {
        let batches = messages.into_iter().filter_map(|body| match body {
            Body::EventBatch(batch) => Some((batch.events.len(), batch.dropped)),
            _ => None,
        });
        batches.collect()
    };
    assert_eq!(sent(talk.messages()), [(10, 99_000)]);
    assert_eq!(talk.metrics.dropped_events.get(), 99_000);
    talk.say(ShimBody::EventCredit(cb::EventCredit { add: 300, ack_seq: 0 }));
    assert_eq!(sent(talk.messages()), [(256, 0), (44, 0)]);
    talk.say(ShimBody::EventCredit(cb::EventCredit { add: 10_000, ack_seq: 0 }));
    talk.wait(Duration::from_secs(2));
    let rest: usize = sent(talk.messages()).into_iter().map(|(events, _)| events).sum();
    assert_eq!(rest, 690);
}

#[test]
fn stalled_or_silent_shim_loses_its_stream() {
    let mut talk =
        TestedConversation::new(|options| options.callback.idle_timeout = Duration::from_secs(5));
    talk.attach(&predicates());
    assert!(matches!(talk.wait(Duration::from_secs(5)), Some(StreamEnd::Stalled)));

    let mut talk = TestedConversation::new(|_| {});
    talk.attach(&predicates());
    let mut ended = None;
    for second in 1.. {
        talk.messages();
        ended = talk.wait(Duration::from_secs(1));
        if ended.is_some() {
            assert_eq!(second, 40, "ten to be asked, three missed");
            break;
        }
    }
    assert!(matches!(ended, Some(StreamEnd::Silent)));
}

#[test]
fn invalid_messages_are_violations() {
    let mut talk = TestedConversation::new(|_| {});
    talk.attach(&hello(&[cb::Capability::Predicates, cb::Capability::CacheSync]));
    for body in [
        ShimBody::Hello(cb::Hello::default()),
        ShimBody::CacheSyncAck(cb::CacheSyncAck { cache_seq: 99, failures: vec![] }),
    ] {
        let message = cb::ShimMessage { body: Some(body) };
        let received = talk.conversation.receive(talk.now, message);
        assert!(matches!(received, Err(StreamEnd::Violation(_))), "{received:?}");
    }
    // A batch that was never sent.
    talk.say(ShimBody::PredicateResults(cb::PredicateResults {
        batch_id: 99,
        ..Default::default()
    }));
    assert_eq!(talk.metrics.ignored_so_far(), [0, 1]);
}

#[test]
fn violation_leaves_no_question_unanswered() {
    let result = |query_id, evaluated| cb::PredicateResult {
        query_id,
        evaluated,
        outcome: cb::Outcome::Evaluated.into(),
        ..Default::default()
    };
    for broken in [result(99, 1), result(1, 99)] {
        let mut talk = TestedConversation::required();
        // The first question fills the window, so that the other questions are sent in one batch.
        talk.attach(&cb::Hello { max_inflight_batches: 1, ..predicates() });
        (1..=3).for_each(|id| talk.ask(id, &["n1"]));
        let first = talk.batches().remove(0);
        talk.pass(&first);
        talk.effects();
        let batch_id = talk.batches().remove(0).batch_id;
        let results = vec![result(0, 1), broken];
        let results = cb::PredicateResults { batch_id, results, ..Default::default() };
        let message = cb::ShimMessage { body: Some(ShimBody::PredicateResults(results)) };
        let received = talk.conversation.receive(talk.now, message);
        assert!(matches!(received, Err(StreamEnd::Violation(_))), "{received:?}");
        let reasons = vec![("refused by the shim".to_owned(), 1)];
        assert_eq!(talk.effects(), [answer(2, Verdict::Failed { reasons })]);
        // The next stream may begin before the end of this one is noticed.
        talk.attach(&predicates());
        assert_eq!(talk.effects(), [answer(3, Verdict::Unanswered)]);
    }
}

#[test]
fn reattached_shim_is_asked_again() {
    let mut talk = TestedConversation::new(|_| {});
    let absent = cb::AbsentPolicy::AbsentFail.into();
    talk.attach(&cb::Hello { predicates_absent: absent, ..predicates() });
    talk.conversation.detach(talk.now);
    talk.effects();
    talk.attach(&predicates());
    let all = Invalidation { all: true, ..Invalidation::default() };
    assert_eq!(
        talk.effects(),
        [Effect::Mode(PredicateMode::Remote { holds: false }), Effect::Invalidate(all)]
    );
}

#[test]
fn late_shim_gets_a_snapshot_if_complete() {
    let told = || si::AllocationResponse {
        new: vec![si::Allocation {
            application_id: "app".to_owned(),
            allocation_key: "1".to_owned(),
            node_id: "n1".to_owned(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let snapshot = |asking| {
        let mut talk = TestedConversation::new(|options| options.callback.predicates = asking);
        talk.conversation.allocations(talk.now, told());
        talk.attach(&hello(&[cb::Capability::Predicates, cb::Capability::CacheSync]));
        let assumed = |body| match body {
            Body::CacheSync(sync) => {
                assert!(sync.snapshot && sync.snapshot_end);
                Some(sync.args.unwrap().assumed_allocations.len())
            }
            _ => None,
        };
        talk.messages().into_iter().find_map(assumed)
    };
    for asking in [Asking::Auto, Asking::Optional, Asking::Required] {
        assert_eq!(snapshot(asking), Some(1), "{asking:?}");
    }
    assert_eq!(snapshot(Asking::None), None);
}

#[test]
fn overflowing_stream_ends_at_once() {
    let mut talk = TestedConversation::required();
    talk.attach(&predicates());
    for nonce in 0..100_000 {
        let heartbeat = cb::Heartbeat { nonce, reply: true, ..Default::default() };
        talk.say(ShimBody::Heartbeat(heartbeat));
    }
    assert_eq!(talk.conversation.due(talk.now), Some(talk.now));
    assert!(matches!(talk.wait(Duration::ZERO), Some(StreamEnd::Stalled)));
}

#[test]
fn heartbeat_carries_queued_batches() {
    let mut talk = TestedConversation::required();
    talk.attach(&cb::Hello { max_inflight_batches: 1, max_queries_per_batch: 2, ..predicates() });
    (1..=6).for_each(|id| talk.ask(id, &["n1"]));
    talk.say(ShimBody::Heartbeat(cb::Heartbeat { reply: true, ..Default::default() }));
    let queued = |body| match body {
        Body::Heartbeat(heartbeat) => Some(heartbeat.queued_batches),
        _ => None,
    };
    assert_eq!(talk.messages().into_iter().find_map(queued), Some(3));
}
