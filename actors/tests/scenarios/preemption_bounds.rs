//! Bounds of preemption: how much an application may lose, when, to whom, and together with what
//! (`docs/preemption.md`, *Bounds*).

use expect_test::expect;
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::event_record::ChangeDetail as Detail;

use crate::preemption_rules::{check, events_of, siblings};

#[test]
fn an_application_loses_within_its_window_bound() {
    check(
        "
        queue root.q1 prop preemption.max.evictions=1 prop preemption.window=5m
        queue root.q2 guaranteed vcore=6
        node n1 vcore=10
        app a in root.q1
        app b in root.q2
        ask a v x5 vcore=2
        ",
        "
        ask b k1 vcore=2 policy=both
        ask b k2 vcore=2 policy=both
        wait 30s
        confirm *
        wait 299s
        show nodes
        wait 60s
        show nodes
        ",
        &expect![[r#"
            b is Accepted
            a/v#1 of v released: PREEMPTED_BY_SCHEDULER
            b is Running
            b/k1 placed on n1
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing
            a/v#2 of v released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing, reserved for [k2]
            why b/k2: others leave for it, and 1 of them have still to go
        "#]],
    );
}

#[test]
fn allocations_keep_their_minimal_runtime() {
    check(
        &siblings("prop preemption.min.runtime=60s", ""),
        "
        ask b k vcore=5 policy=both
        wait 58s
        show nodes
        wait 1s
        show nodes
        ",
        &expect![[r#"
            b is Accepted
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing
            a/old released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing, reserved for [k]
            why b/k: others leave for it, and 1 of them have still to go
        "#]],
    );
}

/// Three allocations on three nodes, one of which would be enough.
fn goes_as_one(q1: &str, last: &str) -> String {
    format!(
        "
        queue root.q1 {q1}
        queue root.q2 guaranteed vcore=20
        node n1 vcore=5
        app a in root.q1 tag monoceros.io/disruption=all
        app b in root.q2
        ask a v1 vcore=5
        node n2 vcore=5
        ask a v2 vcore=5
        node n3 vcore=5
        ask a v3 vcore=5 {last}
        "
    )
}

#[test]
fn an_all_or_nothing_application_loses_as_a_whole() {
    let steps = "ask b k vcore=5 policy=both\nwait 30s";
    check(
        &goes_as_one("", ""),
        steps,
        &expect![[r#"
        b is Accepted
        a/v1 released: PREEMPTED_BY_SCHEDULER
        a/v2 released: PREEMPTED_BY_SCHEDULER
        a/v3 released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 3 of them have still to go
    "#]],
    );
    // One of the victims may not be evicted, or the queue needs one of them.
    check(
        &goes_as_one("", "prio=1"),
        steps,
        &expect![[r#"
        b is Accepted
        why b/k: no allocation may be taken: others are within their guarantees, more important, protected, or stayed a moment ago
    "#]],
    );
    check(
        &goes_as_one("guaranteed vcore=5", ""),
        steps,
        &expect![[r#"
        b is Accepted
        why b/k: no node would have room for it, whatever may be taken there
    "#]],
    );
}

#[test]
fn a_loser_takes_nothing_back_within_the_window() {
    // After these steps the winner is above its guarantee, and the loser below.
    let given = siblings("", "")
        + "
        ask b k vcore=5 policy=both
        wait 30s
        confirm *
        release a key=old
        ask b l vcore=5
        ";
    let tries = "
        ask a back vcore=5 policy=both
        wait 30s
    ";
    check(
        &given,
        tries,
        &expect![[r#"
        a is Running
        why a/back: its application would get back from application `b` what it lost a moment ago: they would take from each other in turns
    "#]],
    );
    let given = given + tries;
    let is_loop = |it: &si::EventRecord| it.event_change_detail() == Detail::PreemptionLoop;
    expect![[r#"
        61s: APP a NONE PREEMPTION_LOOP of b
    "#]]
    .assert_eq(&events_of(&given, is_loop));
    let waits = "
        wait 599s
        show nodes
        wait 1s
        confirm *
    ";
    check(
        &given,
        waits,
        &expect![[r#"
        n1: total vcore=10, used vcore=10, occupied nothing, left nothing
        b/l released: PREEMPTED_BY_SCHEDULER
        a/back placed on n1
    "#]],
    );
    expect![[r#"
        61s: APP a NONE PREEMPTION_LOOP of b
    "#]]
    .assert_eq(&events_of(&(given + waits), is_loop));
}

#[test]
fn the_losers_window_blocks_taking_back() {
    // Losses are forgotten after 100 seconds.
    let given = siblings("prop preemption.window=100s", "")
        + "
        ask b k vcore=5 policy=both
        wait 30s
        confirm *
        release a key=old
        ask b l vcore=5
        ask a back vcore=5 policy=both
        wait 30s
    ";
    let waits = "
        wait 599s
        show nodes
        wait 1s
        confirm *
    ";
    check(
        &given,
        waits,
        &expect![[r#"
        n1: total vcore=10, used vcore=10, occupied nothing, left nothing
        b/l released: PREEMPTED_BY_SCHEDULER
        a/back placed on n1
    "#]],
    );
}
