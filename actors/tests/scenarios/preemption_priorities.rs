//! No preemptor evicts more important allocations: comparison of the priorities of requests and the
//! offsets of queues (`docs/preemption.md`, `docs/scheduling.md`).

use expect_test::{Expect, expect};

use crate::preemption_rules::check;

/// A queue with a guarantee asks with this priority, while the other uses the only node with an old
/// and a new allocation of these priorities.
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
fn more_important_allocations_are_spared() {
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
            a/old released: PREEMPTED_BY_SCHEDULER
            why b/k: others leave for it, and 1 of them have still to go
        "#]],
    );
}

#[test]
fn the_less_important_of_two_victims_is_evicted() {
    check_ask(
        QUEUES,
        (0, 100),
        1000,
        &expect![[r#"
        b is Accepted
        a/old released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
}

/// Nodes of size 5, each full with an allocation of this priority, the later ones newer.
fn on_nodes(priorities: &[i32], guaranteed: i32) -> String {
    let queues = format!("queue root.q1\nqueue root.q2 guaranteed vcore={guaranteed}");
    let nodes = priorities.iter().enumerate().map(|(at, priority)| {
        let n = at + 1;
        format!("\nnode n{n} vcore=5\nask a v{n} vcore=5 prio={priority}\nwait 1s")
    });
    format!("{queues}\napp a in root.q1\napp b in root.q2{}", nodes.collect::<String>())
}

#[test]
fn node_choice_compares_importance_then_age() {
    let ask = "ask b k vcore=5 prio=1000 policy=both\nwait 30s\nshow nodes";
    check(
        &on_nodes(&[0, 100], 5),
        ask,
        &expect![[r#"
        b is Accepted
        a/v1 released: PREEMPTED_BY_SCHEDULER
        n1: total vcore=5, used vcore=5, occupied nothing, left nothing, reserved for [k]
        n2: total vcore=5, used vcore=5, occupied nothing, left nothing
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
    check(
        &on_nodes(&[100, 0], 5),
        ask,
        &expect![[r#"
        b is Accepted
        a/v2 released: PREEMPTED_BY_SCHEDULER
        n1: total vcore=5, used vcore=5, occupied nothing, left nothing
        n2: total vcore=5, used vcore=5, occupied nothing, left nothing, reserved for [k]
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
    check(
        &on_nodes(&[7, 7], 5),
        ask,
        &expect![[r#"
        b is Accepted
        a/v2 released: PREEMPTED_BY_SCHEDULER
        n1: total vcore=5, used vcore=5, occupied nothing, left nothing
        n2: total vcore=5, used vcore=5, occupied nothing, left nothing, reserved for [k]
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
}

/// Two allocations of priority 0 on one node, and one of priority 100 on another: sets of different
/// sizes.
#[test]
fn two_low_priority_victims_win_over_one_high() {
    check(
        "
        queue root.q1
        queue root.q2 guaranteed vcore=5
        node n1 vcore=5
        app a in root.q1
        app b in root.q2
        ask a low x2 vcore=2
        node n2 vcore=5
        ask a high vcore=5 prio=100
        ",
        "ask b k vcore=4 prio=1000 policy=both\nwait 30s\nshow nodes",
        &expect![[r#"
            b is Accepted
            a/low#1 of low released: PREEMPTED_BY_SCHEDULER
            a/low#2 of low released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=5, used vcore=4, occupied nothing, left vcore=1, reserved for [k]
            n2: total vcore=5, used vcore=5, occupied nothing, left nothing
            why b/k: others leave for it, and 2 of them have still to go
        "#]],
    );
}

/// The priority of a request counts up to its fence.
#[test]
fn a_fence_hides_a_high_victim_priority() {
    let fenced = |offset: i32| {
        format!(
            "
            queue root.team prop priority.policy=fence prop priority.offset={offset}
            queue root.team.leaf
            queue root.other
            queue root.mine guaranteed vcore=5
            node n1 vcore=10
            app a in root.team.leaf
            app b in root.mine
            app c in root.other
            ask a inside vcore=5 prio=500
            wait 1s
            ask c outside vcore=5 prio=10
            "
        )
    };
    let ask = "ask b k vcore=5 prio=1000 policy=both\nwait 30s";
    check(
        &fenced(9),
        ask,
        &expect![[r#"
        b is Accepted
        a/inside released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
    check(
        &fenced(11),
        ask,
        &expect![[r#"
        b is Accepted
        c/outside released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
}

/// A gang evicts allocations that are less important, and its member is a victim by the member's
/// own priority.
#[test]
fn gangs_evict_and_lose_the_less_important() {
    check(
        &on_nodes(&[5, 1, 7, 3], 10),
        "
        app g in root.q2 needs w x2 vcore=5 prio=9 policy=both
        wait 30s
        confirm *
        show nodes
        ",
        &expect![[r#"
            g accepted
            g is Accepted
            a/v2 released: PREEMPTED_BY_SCHEDULER
            a/v4 released: PREEMPTED_BY_SCHEDULER
            g is Running
            n1: total vcore=5, used vcore=5, occupied nothing, left nothing
            n2: total vcore=5, used vcore=5, occupied nothing, left nothing
            n3: total vcore=5, used vcore=5, occupied nothing, left nothing
            n4: total vcore=5, used vcore=5, occupied nothing, left nothing
        "#]],
    );
    check(
        "
        queue root.q1
        queue root.q2 guaranteed vcore=2
        node n1 vcore=3
        app a in root.q1 needs w x3 vcore=1
        app b in root.q2
        ask a m1 vcore=1 group=w prio=3
        ask a m2 vcore=1 group=w prio=1
        ask a m3 vcore=1 group=w prio=2
        ",
        "ask b k vcore=2 prio=1000 policy=both\nwait 30s",
        &expect![[r#"
            b is Accepted
            a/m2 released: PREEMPTED_BY_SCHEDULER
            a/m3 released: PREEMPTED_BY_SCHEDULER
            why b/k: others leave for it, and 2 of them have still to go
        "#]],
    );
}

/// A daemon chooses its victims by priority, too.
#[test]
fn a_daemon_takes_the_less_important() {
    check(
        "
        queue root.q1
        queue root.d
        node n1 vcore=10
        app a in root.q1
        app b in root.d
        ask a low vcore=5 prio=0
        wait 1s
        ask a high vcore=5 prio=100
        ",
        "ask b daemon vcore=5 prio=1000 node=n1",
        &expect![[r#"
            b is Accepted
            a/low released: PREEMPTED_BY_SCHEDULER
            why b/daemon: others leave for it, and 1 of them have still to go
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
fn behind_a_fence_only_the_offset_counts() {
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

/// A queue of lower rank does not preempt.
#[test]
fn a_higher_ranked_queue_preempts_up_to_its_guarantee() {
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
