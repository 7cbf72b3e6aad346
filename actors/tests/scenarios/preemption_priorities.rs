//! Nobody takes from what is more important: how priorities of requests and offsets of queues are
//! compared (`docs/preemption.md`, `docs/scheduling.md`).

use expect_test::{Expect, expect};

use crate::preemption_rules::check;

/// A queue with a guarantee asks with this priority, where the other has the only node with an old
/// and a new allocation of these.
#[track_caller]
fn check_ask(queues: &str, (old, new): (i32, i32), ask: i32, expect: &Expect) {
    check(
        &format!(
            "
            {queues}
            node n1 vcore=10
            app a in root.p.q1
            app b in root.p.q2
            ask a old vcore=5 prio={old}
            wait 1s
            ask a new vcore=5 prio={new}
            "
        ),
        &format!("ask b k vcore=5 policy=both prio={ask}\nwait 30s"),
        expect,
    );
}

const QUEUES: &str = "
    queue root.p.q1
    queue root.p.q2 guaranteed vcore=5
";

#[test]
fn what_is_more_important_is_spared() {
    check_ask(
        QUEUES,
        (0, 1),
        0,
        &expect![[r#"
        b is Accepted
        a/old released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
    check_ask(
        QUEUES,
        (1, 1),
        0,
        &expect![[r#"
        b is Accepted
        why b/k: no allocation may be taken: others are within their guarantees, more important, protected, or stayed a moment ago
    "#]],
    );
    check_ask(
        QUEUES,
        (1, 1),
        1,
        &expect![[r#"
        b is Accepted
        a/new released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
    check_ask(
        QUEUES,
        (-1, 0),
        5,
        &expect![[r#"
        b is Accepted
        a/new released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
}

#[test]
fn offsets_of_queues_above_both_play_no_part() {
    let below_an_offset = format!("queue root.p prop priority.offset=100{QUEUES}");
    check_ask(
        &below_an_offset,
        (50, 50),
        0,
        &expect![[r#"
        b is Accepted
        why b/k: no allocation may be taken: others are within their guarantees, more important, protected, or stayed a moment ago
    "#]],
    );
    check_ask(
        &below_an_offset,
        (50, 50),
        50,
        &expect![[r#"
        b is Accepted
        a/new released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
    let below_a_fence =
        format!("queue root.p prop priority.offset=100 prop priority.policy=fence{QUEUES}");
    check_ask(
        &below_a_fence,
        (50, 50),
        0,
        &expect![[r#"
        b is Accepted
        why b/k: no allocation may be taken: others are within their guarantees, more important, protected, or stayed a moment ago
    "#]],
    );
}

#[test]
fn behind_a_priority_fence_only_its_offset_is_seen() {
    let fence = |offset: i32| {
        format!(
            "
            queue root.p.q1 prop priority.policy=fence prop priority.offset={offset}
            queue root.p.q2 guaranteed vcore=5
            "
        )
    };
    check_ask(
        &fence(0),
        (0, 1000),
        5,
        &expect![[r#"
        b is Accepted
        a/new released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
    check_ask(
        &fence(5),
        (0, 1000),
        5,
        &expect![[r#"
        b is Accepted
        a/new released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
    check_ask(
        &fence(6),
        (0, 0),
        5,
        &expect![[r#"
        b is Accepted
        why b/k: no allocation may be taken: others are within their guarantees, more important, protected, or stayed a moment ago
    "#]],
    );
}

#[test]
fn a_queue_of_a_higher_rank_takes_until_its_guarantee_and_a_lower_one_nothing() {
    check(
        "
        queue root.high guaranteed vcore=6 prop priority.offset=100
        queue root.norm guaranteed vcore=6
        queue root.low guaranteed vcore=6 prop priority.offset=-100
        node n1 vcore=18
        app a in root.norm
        app b in root.high
        app c in root.low
        ask a v x9 vcore=2
        ",
        "
        ask b h1 vcore=2 policy=both
        ask b h2 vcore=2 policy=both
        ask b h3 vcore=2 policy=both
        ask b h4 vcore=2 policy=both
        ask c l vcore=2 policy=both
        wait 30s
        confirm *
        confirm *
        confirm *
        wait 60s
        show queues
        ",
        &expect![[r#"
            b is Accepted
            c is Accepted
            a/v#1 of v released: PREEMPTED_BY_SCHEDULER
            b is Running
            b/h1 placed on n1
            a/v#2 of v released: PREEMPTED_BY_SCHEDULER
            b/h2 placed on n1
            a/v#3 of v released: PREEMPTED_BY_SCHEDULER
            b/h3 placed on n1
            root: used vcore=18, pending vcore=4, headroom vcore=0, running 2, priority 100
            root.high: used vcore=6, pending vcore=2, headroom vcore=0, running 1, priority 100
            root.low: used nothing, pending vcore=2, headroom vcore=0, running 0, priority -100
            root.norm: used vcore=12, pending nothing, headroom vcore=0, running 1, priority none
            why b/h4: it does not fit what its queue has left of the guarantee
            why c/l: no allocation may be taken: others are within their guarantees, more important, protected, or stayed a moment ago
        "#]],
    );
}
