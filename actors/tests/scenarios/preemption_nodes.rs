//! The choice of victims on a node, and of the node (`docs/preemption.md`).

use std::fmt::Write as _;

use expect_test::{Expect, expect};

use crate::preemption_rules::check;

/// A queue with this guarantee asks for an amount, while another queue uses all of these nodes.
#[track_caller]
fn check_ask(guaranteed: u32, nodes: &str, vcore: u32, expect: &Expect) {
    check(
        &format!(
            "
            queue root.q1
            queue root.q2 guaranteed vcore={guaranteed}
            {nodes}
            "
        ),
        &format!("ask b k vcore={vcore} policy=both\nwait 30s"),
        expect,
    );
}

/// A node of `vcore` with allocations of `sizes`, each newer than the one before it.
fn node(vcore: u32, sizes: &[u32]) -> String {
    let mut text = format!("node n1 vcore={vcore}\napp a in root.q1\napp b in root.q2\n");
    for (at, size) in sizes.iter().enumerate() {
        writeln!(text, "ask a v{at} vcore={size}\nwait 1s").expect("a string takes everything");
    }
    text
}

#[test]
fn an_ask_larger_than_every_node_evicts_nothing() {
    check_ask(
        50,
        &(node(10, &[5, 5]) + "node n2 vcore=10 drained"),
        11,
        &expect![[r#"
        b is Accepted
        why b/k: no node would have room for it, whatever may be taken there
    "#]],
    );
}

#[test]
fn free_capacity_of_the_node_counts() {
    check_ask(
        5,
        &node(5, &[2, 2]),
        5,
        &expect![[r#"
        b is Accepted
        a/v1 released: PREEMPTED_BY_SCHEDULER
        a/v0 released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 2 of them have still to go
    "#]],
    );
    check_ask(
        5,
        &node(6, &[2, 2]),
        5,
        &expect![[r#"
        b is Accepted
        a/v1 released: PREEMPTED_BY_SCHEDULER
        a/v0 released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 2 of them have still to go
    "#]],
    );
    check_ask(
        5,
        &node(7, &[2, 2]),
        5,
        &expect![[r#"
        b is Accepted
        a/v1 released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
}

#[test]
fn insufficient_victims_are_not_evicted() {
    let occupied = node(5, &[2, 2]).replace("node n1 vcore=5", "node n1 vcore=5 occupied vcore=1");
    check_ask(
        5,
        &occupied,
        5,
        &expect![[r#"
        b is Accepted
        why b/k: no node would have room for it, whatever may be taken there
    "#]],
    );
}

#[test]
fn one_sufficient_victim_wins_over_newer_ones() {
    check_ask(
        5,
        &node(6, &[5, 1]),
        5,
        &expect![[r#"
        b is Accepted
        a/v0 released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
    check_ask(
        5,
        &node(10, &[5, 1, 1, 1, 1, 1]),
        5,
        &expect![[r#"
        b is Accepted
        a/v0 released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
}

#[test]
fn victims_must_suffice_in_every_resource() {
    let given = |n_victims: u32| {
        format!(
            "
            queue root.q1
            queue root.q2 guaranteed vcore=8 memory=8
            node n1 vcore={} memory={n_victims}
            app a in root.q1
            app b in root.q2
            ask a v x{n_victims} vcore=2 memory=1
            node n2 vcore=8 memory=8 drained
            ",
            2 * n_victims
        )
    };
    let steps = "ask b k vcore=1 memory=4 policy=both\nwait 30s\nshow nodes";
    check(
        &given(4),
        steps,
        &expect![[r#"
        b is Accepted
        a/v#1 of v released: PREEMPTED_BY_SCHEDULER
        a/v#2 of v released: PREEMPTED_BY_SCHEDULER
        a/v#3 of v released: PREEMPTED_BY_SCHEDULER
        a/v#4 of v released: PREEMPTED_BY_SCHEDULER
        n1: total memory=4 vcore=8, used memory=4 vcore=8, occupied nothing, left nothing, reserved for [k]
        n2 closed: total memory=8 vcore=8, used nothing, occupied nothing, left memory=8 vcore=8
        why b/k: others leave for it, and 4 of them have still to go
    "#]],
    );
    check(
        &given(3),
        steps,
        &expect![[r#"
        b is Accepted
        n1: total memory=3 vcore=6, used memory=3 vcore=6, occupied nothing, left nothing
        n2 closed: total memory=8 vcore=8, used nothing, occupied nothing, left memory=8 vcore=8
        why b/k: no node would have room for it, whatever may be taken there
    "#]],
    );
}

#[test]
fn allocations_that_asked_to_stay_go_last() {
    let nodes = |old: &str| {
        format!(
            "
            node n1 vcore=10
            app a in root.q1
            app b in root.q2
            ask a old vcore=5 policy={old}
            wait 1s
            ask a new vcore=5 policy=none
            "
        )
    };
    check_ask(
        5,
        &nodes("itself"),
        5,
        &expect![[r#"
        b is Accepted
        a/old released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
    check_ask(
        5,
        &nodes("none"),
        5,
        &expect![[r#"
        b is Accepted
        a/new released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
}

#[test]
fn prefers_two_victims_over_an_originator() {
    check_ask(
        5,
        "
        node n1 vcore=5
        app a in root.q1
        app b in root.q2
        ask a first vcore=5 originator=true
        node n2 vcore=5
        ask a small vcore=2
        wait 1s
        ask a other vcore=3
        ",
        5,
        &expect![[r#"
            b is Accepted
            a/other released: PREEMPTED_BY_SCHEDULER
            a/small released: PREEMPTED_BY_SCHEDULER
            why b/k: others leave for it, and 2 of them have still to go
        "#]],
    );
}

/// An older request has reserved the only node on which it may run.
fn reserved(guarantee: &str, priority: i32) -> String {
    format!(
        "
        queue root.q1
        queue root.q2 guaranteed vcore=5
        queue root.q3{guarantee}
        node n1 vcore=10
        app a in root.q1
        app b in root.q2
        app c in root.q3
        ask a old vcore=5
        wait 1s
        ask a new vcore=5
        node n2 vcore=4
        node n3 vcore=4
        ask c r vcore=5 prio={priority}
        wait 10s
        "
    )
}

#[test]
fn an_older_ordinary_reservation_is_replaced() {
    check(
        &reserved(" guaranteed vcore=5", 0),
        "
        show nodes
        ask b k vcore=5 policy=both
        wait 30s
        show nodes
        confirm *
        ",
        &expect![[r#"
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing, reserved for [r]
            n2: total vcore=4, used nothing, occupied nothing, left vcore=4
            n3: total vcore=4, used nothing, occupied nothing, left vcore=4
            b is Accepted
            a/new released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing, reserved for [k]
            n2: total vcore=4, used nothing, occupied nothing, left vcore=4
            n3: total vcore=4, used nothing, occupied nothing, left vcore=4
            b is Running
            b/k placed on n1
            why c/r: its policy does not allow it to preempt others
        "#]],
    );
}

#[test]
fn an_important_reservation_with_a_claim_stays() {
    check(
        &reserved(" guaranteed vcore=5", 1),
        "
        ask b k vcore=5 policy=both prio=0
        wait 30s
        show nodes
        ",
        &expect![[r#"
            b is Accepted
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing, reserved for [r]
            n2: total vcore=4, used nothing, occupied nothing, left vcore=4
            n3: total vcore=4, used nothing, occupied nothing, left vcore=4
            why b/k: no node would have room for it, whatever may be taken there
            why c/r: its policy does not allow it to preempt others
        "#]],
    );
}

/// The free capacity of the cluster is still too little for the daemon, but with the victims it is
/// enough.
#[test]
fn a_daemon_searches_after_a_change_on_its_node() {
    check(
        "
        queue root.q
        node n1 vcore=10
        app a in root.q
        app b in root.q
        ask a x vcore=5 prio=10
        ask a y vcore=3 prio=10
        ask a z vcore=2 prio=10
        ask b daemon vcore=5 node=n1
        ",
        "
        release a key=y
        ask a less vcore=3 prio=-1
        release a key=z
        confirm *
        ask b another vcore=5 node=n1
        ",
        &expect![[r#"
            a/y released: STOPPED_BY_RM
            a/z released: STOPPED_BY_RM
            b is Running
            b/daemon placed on n1
            why a/less: neither its queue nor one above it is guaranteed anything
            why b/another: whatever may leave the node that it requires, it would not fit there: others are more important, require that node, too, hold too little, or stayed a moment ago
        "#]],
    );
}
