//! Questions, batches and answers: single rules here, whole histories in `history`.

use monoceros_actors::metrics::Metrics;

use super::super::results::Violation;
use super::*;

mod assumptions;
mod history;

const SECOND: Duration = Duration::from_secs(1);

const LIMITS: Limits = Limits {
    batches: 2,
    queries: 4,
    nodes: 16,
    bytes: 10_000,
    waiting: 100,
    timeout: SECOND,
    on_timeout: OnTimeout::Fail,
    follows: true,
    assume: true,
};

/// A batcher with its surroundings and a time that tests advance.
struct Bench {
    batcher: Batcher,
    dictionary: Dictionary,
    bundles: Bundles,
    now: Instant,
    number: u64,
    cache_seq: u64,
}

impl Bench {
    fn new(limits: Limits) -> Self {
        Self {
            batcher: Batcher::new(limits, Metrics::new().callback.clone()),
            dictionary: Dictionary::default(),
            bundles: Bundles::default(),
            now: Instant::now(),
            number: 0,
            cache_seq: 0,
        }
    }

    /// Asks about `key` and these nodes; the key is also the number of the question.
    fn ask(&mut self, key: u64, nodes: &[&str]) {
        assert_eq!(self.batcher.ask(question(key, nodes)), None);
    }

    fn batch(&mut self) -> Option<cb::PredicateBatch> {
        self.number += 1;
        let Self { now, number, cache_seq, dictionary, bundles, batcher } = self;
        batcher.next_batch(*now, *number, *cache_seq, dictionary, bundles)
    }

    fn say(&mut self, batch: u64, results: Vec<cb::PredicateResult>) -> Turn {
        let results = cb::PredicateResults {
            batch_id: batch,
            cache_seq: self.cache_seq,
            results,
            ..Default::default()
        };
        let (turn, violation) = self.batcher.results(self.now, &results);
        assert_eq!(violation, None);
        turn
    }

    fn metric(&self, outcome: QueryOutcome) -> u64 {
        self.batcher.metrics.queries_so_far(outcome)
    }
}

fn question(key: u64, nodes: &[&str]) -> Question {
    Question {
        ticket: ticket(key),
        application: "app".into(),
        key: key.to_string().into(),
        group: None,
        nodes: nodes.iter().map(|node| (*node).into()).collect(),
        candidates: (0..nodes.len()).collect(),
        allocate: true,
        bundle: None,
    }
}

fn ticket(id: u64) -> Ticket {
    Ticket { id: QuestionId(id), partition: 0 }
}

fn request(key: &str) -> RequestName {
    RequestName { application: "app".into(), key: key.into() }
}

fn keys(batch: &cb::PredicateBatch) -> Vec<&str> {
    batch.queries.iter().map(|query| &*query.allocation_key).collect()
}

fn result(query_id: u32, evaluated: u32, bitmap: &[u8]) -> cb::PredicateResult {
    cb::PredicateResult {
        query_id,
        outcome: cb::Outcome::Evaluated.into(),
        evaluated,
        pass_bitmap: bitmap.to_vec(),
        scope: cb::Scope::Node.into(),
        ..Default::default()
    }
}

fn outcome(query_id: u32, outcome: cb::Outcome) -> cb::PredicateResult {
    cb::PredicateResult { query_id, outcome: outcome.into(), ..Default::default() }
}

fn passed(position: usize, assumed: bool) -> Verdict {
    Verdict::Passed { position, scope: Scope::Node, assumed }
}

fn verdicts(turn: &Turn) -> Vec<(u64, &Verdict)> {
    turn.answers.iter().map(|answer| (answer.ticket.id.0, &answer.verdict)).collect()
}

fn forgotten(turn: &Turn) -> Vec<&str> {
    turn.forget.iter().map(|request| &*request.key).collect()
}

#[test]
fn questions_are_batched_within_the_window() {
    let mut bench = Bench::new(LIMITS);
    (1..=11).for_each(|key| bench.ask(key, &["n1"]));
    let first = bench.batch().unwrap();
    assert_eq!(keys(&first), ["1", "2", "3", "4"]);
    assert_eq!(keys(&bench.batch().unwrap()), ["5", "6", "7", "8"]);
    assert!(bench.batch().is_none(), "the window is full");
    bench.say(first.batch_id, (0..4).map(|query| result(query, 1, &[1])).collect());
    assert_eq!(keys(&bench.batch().unwrap()), ["9", "10", "11"]);
}

#[test]
fn batch_names_nodes_by_index() {
    let mut bench = Bench::new(LIMITS);
    bench.ask(1, &["n7", "n8"]);
    bench.ask(2, &["n8"]);
    let batch = bench.batch().unwrap();
    let asked = &batch.queries[1];
    assert_eq!(
        (batch.queries[0].node_index.as_slice(), &*asked.node_index),
        (&[0, 1][..], &[1][..])
    );
    assert_eq!((asked.mode(), asked.want, asked.assume), (cb::EvalMode::FirstFit, 1, true));
    assert_eq!(&*asked.application_id, "app");
}

#[test]
fn answer_is_the_first_passing_candidate() {
    let mut bench = Bench::new(LIMITS);
    bench.ask(1, &["n1", "n2", "n3"]);
    bench.ask(2, &["n1", "n2"]);
    let batch = bench.batch().unwrap().batch_id;
    let turn = bench.say(batch, vec![result(0, 2, &[0b10]), result(1, 2, &[])]);
    let reasons = vec![("refused by the shim".to_owned(), 2)];
    assert_eq!(verdicts(&turn), [(1, &passed(1, true)), (2, &Verdict::Failed { reasons })]);
}

#[test]
fn only_candidates_are_asked_about() {
    let mut bench = Bench::new(LIMITS);
    let mut question = question(1, &["n1", "n2", "n3"]);
    question.candidates = vec![0, 2];
    bench.batcher.ask(question);
    let batch = bench.batch().unwrap();
    assert_eq!(batch.queries[0].node_index.len(), 2);
    let turn = bench.say(batch.batch_id, vec![result(0, 2, &[0b10])]);
    assert_eq!(verdicts(&turn), [(1, &passed(2, true))]);
}

#[test]
fn long_questions_are_asked_in_parts() {
    let mut bench = Bench::new(Limits { nodes: 2, ..LIMITS });
    bench.ask(1, &["n1", "n2", "n3", "n4", "n5"]);
    let batch = bench.batch().unwrap();
    assert_eq!(batch.queries[0].node_index, [0, 1]);
    let turn = bench.say(batch.batch_id, vec![result(0, 2, &[])]);
    assert!(turn.answers.is_empty());
    let batch = bench.batch().unwrap();
    assert_eq!(batch.queries[0].node_index, [2, 3]);
    // The shim evaluated one node; the other is unknown.
    bench.say(batch.batch_id, vec![result(0, 1, &[])]);
    let batch = bench.batch().unwrap();
    assert_eq!(batch.queries[0].node_index, [3, 4]);
    let turn = bench.say(batch.batch_id, vec![result(0, 2, &[0b10])]);
    assert_eq!(verdicts(&turn), [(1, &passed(4, true))]);
}

#[test]
fn reasons_of_all_parts_are_merged() {
    let mut bench = Bench::new(Limits { nodes: 2, ..LIMITS });
    bench.ask(1, &["n1", "n2", "n3"]);
    for looked in [2, 1] {
        let batch = bench.batch().unwrap().batch_id;
        let turn = bench.say(batch, vec![result(0, looked, &[])]);
        let Some(answer) = turn.answers.first() else { continue };
        let reasons = vec![("refused by the shim".to_owned(), 3)];
        assert_eq!(answer.verdict, Verdict::Failed { reasons });
        return;
    }
    panic!("no answer");
}

#[test]
fn late_answer_is_ignored_and_forgotten() {
    let mut bench = Bench::new(LIMITS);
    bench.ask(1, &["n1", "n2"]);
    let batch = bench.batch().unwrap().batch_id;
    assert_eq!(bench.batcher.due(bench.now), Some(bench.now + SECOND));
    bench.now += SECOND;
    let turn = bench.batcher.expire(bench.now);
    let reasons = vec![("the shim did not answer in time".to_owned(), 2)];
    assert_eq!(verdicts(&turn), [(1, &Verdict::Presumed { reasons })]);
    let turn = bench.say(batch, vec![result(0, 1, &[1])]);
    assert_eq!((verdicts(&turn), forgotten(&turn)), (vec![], vec!["1"]));
    assert_eq!(bench.batcher.metrics.ignored_so_far(), [1, 0]);
    let turn = bench.say(999, vec![result(0, 1, &[1])]);
    assert_eq!((verdicts(&turn), forgotten(&turn)), (vec![], vec![]));
    assert_eq!(bench.batcher.metrics.ignored_so_far(), [1, 1]);
}

#[test]
fn timed_out_question_may_pass() {
    let mut bench = Bench::new(Limits { on_timeout: OnTimeout::Pass, ..LIMITS });
    bench.ask(1, &["n1", "n2"]);
    bench.batch().unwrap();
    let turn = bench.batcher.expire(bench.now + SECOND);
    let passed = Verdict::Passed { position: 0, scope: Scope::Topology, assumed: false };
    assert_eq!(verdicts(&turn), [(1, &passed)]);
}

#[test]
fn stale_result_is_no_answer() {
    let mut bench = Bench::new(LIMITS);
    bench.cache_seq = 5;
    bench.ask(1, &["n1"]);
    bench.ask(2, &["n1"]);
    let batch = bench.batch().unwrap().batch_id;
    bench.cache_seq = 4;
    let turn = bench.say(batch, vec![result(0, 1, &[1])]);
    assert_eq!((verdicts(&turn), forgotten(&turn)), (vec![(1, &Verdict::Unanswered)], vec!["1"]));
    bench.cache_seq = 5;
    let turn = bench.say(batch, vec![outcome(1, cb::Outcome::Stale)]);
    assert_eq!(verdicts(&turn), [(2, &Verdict::Unanswered)]);
    assert_eq!(bench.metric(QueryOutcome::Stale), 2);
}

#[test]
fn stale_shim_is_slowed_and_reported_once() {
    let mut bench = Bench::new(Limits { batches: 1, ..LIMITS });
    let start = bench.now;
    let mut n_batches = 0;
    let mut behind = Vec::new();
    bench.ask(1, &["n1"]);
    // Unanswered questions are asked again at once, as the scheduler does.
    while bench.now < start + 20 * SECOND {
        bench.cache_seq = 5;
        let Some(batch) = bench.batch() else {
            bench.now = bench.batcher.due(bench.now).unwrap();
            continue;
        };
        n_batches += 1;
        bench.cache_seq = 0;
        let turn = bench.say(batch.batch_id, vec![result(0, 1, &[1])]);
        behind.extend(turn.behind);
        bench.ask(1, &["n1"]);
    }
    assert!(n_batches < 20, "{n_batches}");
    assert_eq!(behind, [5]);

    let batch = bench.batch().unwrap().batch_id;
    let turn = bench.say(batch, vec![result(0, 1, &[1])]);
    assert_eq!(verdicts(&turn), [(1, &passed(0, true))]);
    bench.ask(2, &["n1"]);
    bench.cache_seq = 6;
    let batch = bench.batch().unwrap().batch_id;
    bench.say(batch, vec![outcome(0, cb::Outcome::Stale)]);
    bench.ask(2, &["n1"]);
    let opens = bench.batcher.due(bench.now).unwrap();
    assert_eq!(opens - bench.now, Duration::from_millis(100), "as at first");
}

#[test]
fn unknown_request_and_error_fail() {
    let mut bench = Bench::new(LIMITS);
    bench.ask(1, &["n1"]);
    bench.ask(2, &["n1"]);
    let batch = bench.batch().unwrap().batch_id;
    let results = vec![outcome(0, cb::Outcome::UnknownAllocation), outcome(1, cb::Outcome::Error)];
    let turn = bench.say(batch, results);
    assert!(turn.answers.iter().all(|answer| matches!(answer.verdict, Verdict::Failed { .. })));
    assert_eq!(turn.answers.len(), 2);
    assert_eq!(bench.metric(QueryOutcome::UnknownAllocation), 1);
}

#[test]
fn shed_questions_are_retried_until_the_deadline() {
    let mut bench = Bench::new(LIMITS);
    (1..=12).for_each(|key| bench.ask(key, &["n1"]));
    let first = bench.batch().unwrap();
    let second = bench.batch().unwrap();
    let shed = |batch: &cb::PredicateBatch| {
        (0..clamped(batch.queries.len())).map(|query| outcome(query, cb::Outcome::Shed)).collect()
    };
    let turn = bench.say(first.batch_id, shed(&first));
    assert!(turn.answers.is_empty());
    assert!(bench.batch().is_none(), "one of one is out");
    bench.say(second.batch_id, shed(&second));
    assert!(bench.batch().is_none(), "one at a time was too much");
    let opens = bench.batcher.due(bench.now).unwrap();
    assert!(opens > bench.now && opens < bench.now + SECOND);
    bench.now = opens;
    let retries = bench.batch().unwrap();
    assert_eq!(keys(&retries), keys(&first));
    bench.now += SECOND;
    let turn = bench.batcher.expire(bench.now);
    assert_eq!(turn.answers.len(), 8, "four that are out, four that wait to go again");
    assert_eq!(keys(&bench.batch().unwrap()), ["9", "10", "11", "12"]);
}

#[test]
fn batch_is_cancelled_with_its_last_question() {
    let mut bench = Bench::new(LIMITS);
    bench.ask(1, &["n1"]);
    bench.ask(2, &["n1"]);
    let batch = bench.batch().unwrap().batch_id;
    bench.ask(3, &["n1"]);
    let turn = bench.batcher.cancel(&[QuestionId(1), QuestionId(3), QuestionId(77)]);
    assert!(turn.cancelled.is_empty() && turn.answers.is_empty());
    let turn = bench.batcher.cancel(&[QuestionId(2)]);
    assert_eq!(turn.cancelled, [batch]);
    assert!(!bench.batcher.is_in_flight(batch));
    assert!(bench.batch().is_none(), "the third waited and is gone");
    let turn = bench.say(batch, vec![result(0, 1, &[1]), result(1, 1, &[])]);
    assert_eq!((verdicts(&turn), forgotten(&turn)), (vec![], vec!["1"]));
}

#[test]
fn questions_missing_in_the_last_message_fail() {
    let mut bench = Bench::new(LIMITS);
    bench.ask(1, &["n1"]);
    bench.ask(2, &["n1"]);
    let batch = bench.batch().unwrap().batch_id;
    let results = cb::PredicateResults {
        batch_id: batch,
        last: true,
        results: vec![result(1, 1, &[1])],
        ..Default::default()
    };
    let (turn, _) = bench.batcher.results(bench.now, &results);
    let answers = verdicts(&turn);
    assert_eq!(answers[0], (2, &passed(0, true)));
    assert!(matches!(answers[1], (1, Verdict::Presumed { .. })));
}

#[test]
fn unknown_query_is_a_violation() {
    let mut bench = Bench::new(LIMITS);
    bench.ask(1, &["n1"]);
    bench.ask(2, &["n1"]);
    let batch_id = bench.batch().unwrap().batch_id;
    bench.say(batch_id, vec![result(0, 1, &[1])]);
    let turn = bench.say(batch_id, vec![result(0, 1, &[1])]);
    assert!(turn.answers.is_empty());
    assert_eq!(bench.batcher.metrics.ignored_so_far(), [1, 0]);
    let results = vec![result(2, 1, &[1])];
    let results = cb::PredicateResults { batch_id, results, ..Default::default() };
    let (_, violation) = bench.batcher.results(bench.now, &results);
    assert_eq!(violation, Some(Violation::NoSuchQuery { batch: batch_id, query: 2 }));
}

#[test]
fn results_before_a_violation_count() {
    let mut bench = Bench::new(LIMITS);
    (1..=4).for_each(|key| bench.ask(key, &["n1"]));
    let batch_id = bench.batch().unwrap().batch_id;
    let results = vec![result(0, 1, &[1]), result(1, 1, &[]), result(2, 1, &[0, 0])];
    let results = cb::PredicateResults { batch_id, results, ..Default::default() };
    let (turn, violation) = bench.batcher.results(bench.now, &results);
    assert!(matches!(violation, Some(Violation::LongBitmap { .. })));
    assert_eq!(verdicts(&turn).iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(bench.batcher.close(), [ticket(3), ticket(4)]);
}

#[test]
fn batch_respects_the_message_limit() {
    use prost::Message as _;
    let mut bench =
        Bench::new(Limits { bytes: 500, queries: 100, nodes: 100, batches: 20, ..LIMITS });
    let mut question = question(1, &["n1", "n2", "n3"]);
    question.key = "k".repeat(90).into();
    for id in 1..=12 {
        assert_eq!(bench.batcher.ask(Question { ticket: ticket(id), ..question.clone() }), None);
    }
    question.key = "k".repeat(600).into();
    bench.batcher.ask(Question { ticket: ticket(13), ..question });
    let batches: Vec<_> = std::iter::from_fn(|| bench.batch()).collect();
    let sizes: Vec<_> = batches.iter().map(|batch| batch.queries.len()).collect();
    assert_eq!((sizes.iter().sum::<usize>(), sizes.last()), (13, Some(&1)), "one too large alone");
    let (_, others) = batches.split_last().unwrap();
    assert!(others.iter().all(|batch| batch.encoded_len() <= 500 && batch.queries.len() > 1));
}

#[test]
fn useless_results_become_a_flood() {
    let mut bench = Bench::new(LIMITS);
    for n in 1..=5 {
        assert!(!bench.batcher.is_flooded());
        bench.say(1_000 + n, vec![]);
    }
    assert!(bench.batcher.is_flooded());
}

#[test]
fn late_results_are_no_flood() {
    let mut bench = Bench::new(LIMITS);
    for round in 0..20 {
        (0..4).for_each(|n| bench.ask(10 * round + n, &["n1"]));
        let batch = bench.batch().unwrap().batch_id;
        bench.now += SECOND;
        assert_eq!(bench.batcher.expire(bench.now).answers.len(), 4);
        // One message for each query, and an end.
        for query in 0..4 {
            bench.say(batch, vec![result(query, 1, &[1])]);
        }
        bench.say(batch, vec![]);
        assert!(!bench.batcher.is_flooded());
    }
    (0..4).for_each(|n| bench.ask(1_000 + n, &["n1"]));
    let batch = bench.batch().unwrap().batch_id;
    bench.now += SECOND;
    bench.batcher.expire(bench.now);
    bench.say(batch, vec![result(0, 1, &[1])]);
    let repeated: Vec<_> = (0..4).map(|_| bench.say(batch, vec![result(0, 1, &[1])])).collect();
    assert_eq!(forgotten(&repeated[3]), ["1001", "1002", "1003"], "no more is listened for");
    assert!(!bench.batcher.is_flooded());
    (0..5).for_each(|_| _ = bench.say(batch, vec![result(0, 1, &[1])]));
    assert!(bench.batcher.is_flooded());
}

#[test]
fn full_queue_and_lost_stream_leave_questions_unanswered() {
    let mut bench = Bench::new(Limits { waiting: 2, ..LIMITS });
    bench.ask(1, &["n1"]);
    bench.ask(2, &["n1"]);
    let answer = bench.batcher.ask(question(3, &["n1"])).unwrap();
    assert_eq!(answer.verdict, Verdict::Unanswered);
    bench.batcher.cancel(&[QuestionId(1)]);
    bench.ask(4, &["n1"]);
    bench.batch().unwrap();
    bench.ask(5, &["n1"]);
    assert_eq!(bench.batcher.close(), [ticket(2), ticket(4), ticket(5)]);
}
