//! Requests that a shim assumes with its answers, and the scope that it states.

use super::*;

#[test]
fn scope_elsewhere_is_ignored_without_cache_sync() {
    let mut bench = Bench::new(Limits { follows: false, assume: false, ..LIMITS });
    let elsewhere = || Some(cb::Elsewhere { depends_on: vec![1], affects: vec![1] });
    for (at, (said, elsewhere, counts)) in [
        (cb::Scope::Static, None, Scope::Static),
        (cb::Scope::Node, None, Scope::Node),
        (cb::Scope::Topology, None, Scope::Topology),
        (cb::Scope::Topology, elsewhere(), Scope::Topology),
        (cb::Scope::Unspecified, elsewhere(), Scope::Topology),
    ]
    .into_iter()
    .enumerate()
    {
        bench.ask(at as u64, &["n1"]);
        let batch = bench.batch().unwrap();
        assert!(!batch.queries[0].assume);
        let result = cb::PredicateResult { scope: said.into(), elsewhere, ..result(0, 1, &[1]) };
        let turn = bench.say(batch.batch_id, vec![result]);
        let passed = Verdict::Passed { position: 0, scope: counts, assumed: false };
        assert_eq!(verdicts(&turn), [(at as u64, &passed)]);
        assert_eq!(turn.is_unheeded, at == 3, "what does not count is told once");
    }
}

#[test]
fn ignored_scope_is_reported_once() {
    let mut bench = Bench::new(Limits { follows: false, assume: false, ..LIMITS });
    bench.ask(1, &["n1"]);
    bench.ask(2, &["n1"]);
    let batch = bench.batch().unwrap();
    let answer = |query| cb::PredicateResult {
        scope: cb::Scope::Topology.into(),
        elsewhere: Some(cb::Elsewhere { depends_on: vec![1], affects: vec![1] }),
        ..result(query, 1, &[1])
    };
    let turn = bench.say(batch.batch_id, vec![answer(0), answer(1)]);
    assert_eq!((turn.answers.len(), turn.is_unheeded), (2, true));
}

#[test]
fn scope_elsewhere_counts_without_assume() {
    let mut bench = Bench::new(Limits { assume: false, ..LIMITS });
    bench.ask(1, &["n1"]);
    let batch = bench.batch().unwrap();
    assert!(!batch.queries[0].assume);
    let turn = bench.say(batch.batch_id, vec![result(0, 1, &[1])]);
    assert_eq!(verdicts(&turn), [(1, &passed(0, false))]);
}

#[test]
fn reservations_are_never_assumed() {
    let mut bench = Bench::new(LIMITS);
    bench.batcher.ask(Question { allocate: false, ..question(1, &["n1"]) });
    let batch = bench.batch().unwrap();
    assert!(!batch.queries[0].assume);
    let turn = bench.say(batch.batch_id, vec![result(0, 1, &[1])]);
    assert_eq!(verdicts(&turn), [(1, &passed(0, false))]);
}

#[test]
fn answer_to_a_cancelled_question_is_forgotten() {
    let mut bench = Bench::new(LIMITS);
    bench.ask(1, &["n1"]);
    bench.ask(2, &["n1"]);
    let batch = bench.batch().unwrap().batch_id;
    bench.batcher.cancel(&[QuestionId(1)]);
    let turn = bench.say(batch, vec![result(0, 1, &[1]), result(1, 1, &[1])]);
    assert_eq!((verdicts(&turn), forgotten(&turn)), (vec![(2, &passed(0, true))], vec!["1"]));
}

#[test]
fn assumption_ends_by_cancel_or_allocation() {
    let mut bench = Bench::new(LIMITS);
    bench.ask(1, &["n1", "n2"]);
    bench.ask(2, &["n1"]);
    let batch = bench.batch().unwrap().batch_id;
    bench.say(batch, vec![result(0, 2, &[0b10]), result(1, 1, &[1])]);
    assert_eq!(bench.batcher.assumed_on(&request("1")).map(|node| &**node), Some("n2"));
    assert!(!bench.batcher.confirm("app", "1", "n1"), "not there");
    assert!(bench.batcher.confirm("app", "1", "n2"));
    assert!(!bench.batcher.confirm("app", "1", "n2"), "once");
    let turn = bench.batcher.cancel(&[QuestionId(1), QuestionId(2)]);
    assert_eq!(forgotten(&turn), ["2"]);
    assert!(bench.batcher.close().is_empty());
}

#[test]
fn request_forgotten_in_flight_is_not_assumed() {
    let mut bench = Bench::new(LIMITS);
    bench.ask(1, &["n1"]);
    let batch = bench.batch().unwrap().batch_id;
    bench.batcher.forgotten(&request("1"));
    let turn = bench.say(batch, vec![result(0, 1, &[1])]);
    assert_eq!(verdicts(&turn), [(1, &passed(0, false))]);
    assert_eq!(forgotten(&turn), ["1"]);
}
