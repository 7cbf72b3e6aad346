//! The effects of single events, and of events in any order.

use std::time::Duration;

use proptest::prelude::*;

use super::super::backlog::{CrossesMark, Load, Marks};
use super::*;

fn items(items: usize) -> Load {
    Load { items, bytes: 0 }
}

fn backlog() -> Backlog {
    let of = |items| Load { items, bytes: 1_000 };
    Backlog::new(Marks { high: of(4), low: of(2) })
}

fn status(now: Instant) -> LiveStatus {
    let patience = Patience { attach: Duration::from_secs(60), pause: Duration::from_secs(120) };
    LiveStatus::new(patience, String::new(), None, now)
}

#[test]
fn hold_is_sent_only_after_acceptance() {
    let now = Instant::now();
    let mut status = status(now);
    assert_eq!(status.review(false, &backlog(), now).hold, None);
    assert_eq!(status.begin().hold, Some(true));
    assert_eq!(status.review(false, &backlog(), now).hold, None, "once");
    assert_eq!(status.review(true, &backlog(), now).hold, Some(false));
}

#[test]
fn backlog_holds_a_running_session() {
    let now = Instant::now();
    let (mut status, backlog) = (status(now), backlog());
    let _ = status.begin();
    let _ = status.review(true, &backlog, now);
    assert_eq!(backlog.add(items(4)), CrossesMark(true));
    assert_eq!(status.review(true, &backlog, now).hold, Some(true));
    assert_eq!(backlog.remove(items(1)), CrossesMark(false));
    assert_eq!(status.review(true, &backlog, now).hold, None, "3 are above the low mark");
    let away = status.review(false, &backlog, now);
    assert_eq!((away.entered, away.hold), (Some(SessionState::Paused), None), "held already");
    assert_eq!(backlog.remove(items(1)), CrossesMark(true));
    let caught_up = status.review(false, &backlog, now);
    assert_eq!((caught_up.is_behind, caught_up.hold), (Some(false), None), "still paused");
    assert_eq!(status.review(true, &backlog, now).hold, Some(false));
}

#[test]
fn first_reason_is_final() {
    let now = Instant::now();
    let mut status = status(now);
    status.mark_lost(Cause::ItemsLost);
    let end = status.lose(Cause::Overflow, now).close;
    assert!(matches!(end, Some(StreamEnd::ResyncRequired(Cause::Overflow))), "{end:?}");
    let refusal = status.admits(Dialect::Split, false, None).unwrap_err();
    assert!(matches!(refusal, StreamEnd::ResyncRequired(Cause::ItemsLost)), "{refusal:?}");
    let _ = status.stop(StreamEnd::Deregistered, now);
    assert!(matches!(status.end(), Some(StreamEnd::ResyncRequired(_))));
    assert_eq!(status.life().state(), SessionState::Stopped);
}

#[test]
fn first_bound_stream_fixes_the_dialect() {
    let mut status = status(Instant::now());
    status.admits(Dialect::Legacy, false, None).unwrap();
    status.admits(Dialect::Split, false, None).unwrap();
    status.bound(Dialect::Legacy, false, None);
    let refusal = status.admits(Dialect::Split, false, None).unwrap_err();
    assert!(matches!(refusal, StreamEnd::DialectMixed { has: Dialect::Legacy }));
}

#[test]
fn only_one_instance_may_number() {
    let mut status = status(Instant::now());
    let admits = |status: &LiveStatus, is_numbered, instance| {
        status.admits(Dialect::Split, is_numbered, instance)
    };
    status.bound(Dialect::Split, false, Some("pod-0"));
    admits(&status, true, Some("pod-1")).unwrap();
    assert!(status.bound(Dialect::Split, true, Some("pod-1")), "those without have to end");
    let mixed = admits(&status, false, Some("pod-1")).unwrap_err();
    assert!(matches!(mixed, StreamEnd::Misnumbered(_)));
    for other in [Some("pod-2"), None] {
        let refused = admits(&status, true, other).unwrap_err();
        assert!(matches!(refused, StreamEnd::Superseded { .. }), "it has to register");
    }
    assert!(!status.can_be_continued_by(None));
    assert!(status.can_be_continued_by(Some("pod-2")));
    status.registered_by(Some("pod-2"));
    assert!(!status.can_be_continued_by(None), "also before it has opened a stream");
    admits(&status, true, Some("pod-1")).unwrap_err();
    admits(&status, true, Some("pod-2")).unwrap();
    status.registered_by(Some("pod-3"));
    admits(&status, false, Some("pod-3")).unwrap();
}

#[test]
fn named_instance_cannot_join_an_unnamed_one() {
    let mut status = status(Instant::now());
    status.bound(Dialect::Split, true, None);
    let refused = status.admits(Dialect::Split, true, Some("pod-1")).unwrap_err();
    assert!(matches!(refused, StreamEnd::Superseded { by: None }));
}

#[test]
fn unattached_session_is_paused_then_due_to_stop() {
    let start = Instant::now();
    let mut status = status(start);
    let _ = status.begin();
    let at = |seconds| start + Duration::from_secs(seconds);
    assert!(matches!(status.expire(at(59)), Expiry::GoesOn(Effects { entered: None, .. })));
    let Expiry::GoesOn(effects) = status.expire(at(60)) else { panic!() };
    assert_eq!(effects.entered, Some(SessionState::Paused));
    assert!(matches!(status.expire(at(180)), Expiry::Stop));
    assert_eq!(status.life().state(), SessionState::Paused);
}

/// Events in any order.
#[derive(Clone, Copy, Debug)]
enum Step {
    Begin,
    Attach(bool),
    Push(usize),
    Take(usize),
    Pass(u64),
    Lose,
    Stop,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Begin),
        any::<bool>().prop_map(Step::Attach),
        (1..4usize).prop_map(Step::Push),
        (1..4usize).prop_map(Step::Take),
        (1..200u64).prop_map(Step::Pass),
        Just(Step::Lose),
        Just(Step::Stop),
    ]
}

proptest! {
    #[test]
    fn decisions_require_a_stream_in_any_order(
        steps in prop::collection::vec(step(), 0..40),
    ) {
        let mut now = Instant::now();
        let (mut status, backlog) = (status(now), backlog());
        let (mut begun, mut attached, mut told) = (false, false, false);
        for step in steps {
            let effects = match step {
                Step::Begin => { begun = true; status.begin() }
                Step::Attach(is) => {
                    attached = is && status.is_usable();
                    Effects::default()
                }
                Step::Push(n) => {
                    let _ = backlog.add(items(n));
                    Effects::default()
                }
                Step::Take(n) => {
                    let _ = backlog.remove(items(n.min(backlog.load().items)));
                    Effects::default()
                }
                Step::Pass(seconds) => {
                    now += Duration::from_secs(seconds);
                    match status.expire(now) {
                        Expiry::GoesOn(effects) => effects,
                        Expiry::Stop => status.stop(StreamEnd::Deregistered, now),
                    }
                }
                Step::Lose => status.lose(Cause::Overflow, now),
                Step::Stop => status.stop(StreamEnd::Deregistered, now),
            };
            if effects.close.is_some() {
                attached = false;
            }
            told = effects.hold.unwrap_or(told);
            told = status.review(attached, &backlog, now).hold.unwrap_or(told);
            let decides = begun && !told;
            let is_running = status.life().state() == SessionState::Running;
            prop_assert!(!decides || (is_running && attached && backlog.load().items < 4));
            prop_assert!(!begun || told != (is_running && !status.is_behind));
            prop_assert_eq!(status.end().is_some(), !status.is_usable());
        }
    }
}
