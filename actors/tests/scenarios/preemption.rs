//! Asks of a queue below its guarantee preempt (`docs/preemption.md`).

use expect_test::expect;

use crate::world::check;

/// Two queues with a guarantee of half of the one node; one of them uses all of it.
const ONE_NODE: &str = "
    queue root.q1 guaranteed vcore=5
    queue root.q2 guaranteed vcore=5
    node n1 vcore=10
    app a1 in root.q1
    app a2 in root.q2
    ask a1 old vcore=5
    ask a1 new vcore=5
    settle
";

fn one_node(steps: &str) -> String {
    format!("{ONE_NODE}{steps}")
}

#[test]
fn the_newer_of_two_is_evicted_for_the_preemptor() {
    check(
        &one_node(
            "
            ask a2 k vcore=5 policy=both
            wait 29999ms
            show queues
            wait 1ms
            show queues
            show nodes
            confirm *
            show queues
            show nodes
            ",
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/old placed on n1
            a1/new placed on n1
            a2 is Accepted
            root: used vcore=10, pending vcore=5, headroom vcore=0, running 1, priority 0
            root.q1: used vcore=10, pending nothing, headroom vcore=0, running 1, priority none
            root.q2: used nothing, pending vcore=5, headroom vcore=0, running 0, priority 0
            a1/new released: PREEMPTED_BY_SCHEDULER
            root: used vcore=10, of which vcore=5 is preempted, pending vcore=5, headroom vcore=0, running 1, priority 0
            root.q1: used vcore=10, of which vcore=5 is preempted, pending nothing, headroom vcore=0, running 1, priority none
            root.q2: used nothing, pending vcore=5, headroom vcore=0, running 0, priority 0
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing, reserved for [k]
            a2 is Running
            a2/k placed on n1
            root: used vcore=10, pending nothing, headroom vcore=0, running 2, priority none
            root.q1: used vcore=5, pending nothing, headroom vcore=0, running 1, priority none
            root.q2: used vcore=5, pending nothing, headroom vcore=0, running 1, priority none
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing
        "#]],
    );
}

#[test]
fn an_ask_without_preemption_evicts_nothing() {
    check(
        &one_node(
            "
            ask a2 k vcore=5 policy=itself
            wait 60s
            show queues
            ",
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/old placed on n1
            a1/new placed on n1
            a2 is Accepted
            root: used vcore=10, pending vcore=5, headroom vcore=0, running 1, priority 0
            root.q1: used vcore=10, pending nothing, headroom vcore=0, running 1, priority none
            root.q2: used nothing, pending vcore=5, headroom vcore=0, running 0, priority 0
        "#]],
    );
}

#[test]
fn an_ask_without_a_policy_takes_nothing() {
    check(
        &one_node(
            "
            ask a2 k vcore=5
            wait 60s
            show queues
            ",
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/old placed on n1
            a1/new placed on n1
            a2 is Accepted
            root: used vcore=10, pending vcore=5, headroom vcore=0, running 1, priority 0
            root.q1: used vcore=10, pending nothing, headroom vcore=0, running 1, priority none
            root.q2: used nothing, pending vcore=5, headroom vcore=0, running 0, priority 0
        "#]],
    );
}

#[test]
fn an_ask_above_the_unused_guarantee_evicts_nothing() {
    check(
        &one_node(
            "
            ask a2 k vcore=6 policy=both
            wait 60s
            show queues
            ",
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/old placed on n1
            a1/new placed on n1
            a2 is Accepted
            root: used vcore=10, pending vcore=6, headroom vcore=0, running 1, priority 0
            root.q1: used vcore=10, pending nothing, headroom vcore=0, running 1, priority none
            root.q2: used nothing, pending vcore=6, headroom vcore=0, running 0, priority 0
        "#]],
    );
}

#[test]
fn two_asks_take_no_more_than_the_guarantee() {
    check(
        &one_node(
            "
            ask a2 k vcore=5 policy=both
            ask a2 l vcore=5 policy=both
            wait 60s
            show queues
            confirm *
            wait 60s
            show queues
            ",
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/old placed on n1
            a1/new placed on n1
            a2 is Accepted
            a1/new released: PREEMPTED_BY_SCHEDULER
            root: used vcore=10, of which vcore=5 is preempted, pending vcore=10, headroom vcore=0, running 1, priority 0
            root.q1: used vcore=10, of which vcore=5 is preempted, pending nothing, headroom vcore=0, running 1, priority none
            root.q2: used nothing, pending vcore=10, headroom vcore=0, running 0, priority 0
            a2 is Running
            a2/k placed on n1
            root: used vcore=10, pending vcore=5, headroom vcore=0, running 2, priority 0
            root.q1: used vcore=5, pending nothing, headroom vcore=0, running 1, priority none
            root.q2: used vcore=5, pending vcore=5, headroom vcore=0, running 1, priority 0
        "#]],
    );
}

#[test]
fn a_loser_waits_for_its_preemptor() {
    check(
        &one_node(
            "
            ask a2 k vcore=5 policy=both
            wait 30s
            ask a1 again vcore=5
            release a1 uuid=old
            settle
            show nodes
            confirm *
            show nodes
            ",
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/old placed on n1
            a1/new placed on n1
            a2 is Accepted
            a1/new released: PREEMPTED_BY_SCHEDULER
            a1/old released: STOPPED_BY_RM
            a2 is Running
            a2/k placed on n1
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing
            a1/again placed on n1
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing
        "#]],
    );
}

#[test]
fn a_withdrawn_preemptor_frees_its_nomination() {
    check(
        &one_node(
            "
            ask a2 k vcore=5 policy=both
            wait 30s
            ask a1 again vcore=5
            withdraw a2 k
            settle
            confirm *
            show nodes
            show queues
            ",
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/old placed on n1
            a1/new placed on n1
            a2 is Accepted
            a1/new released: PREEMPTED_BY_SCHEDULER
            a2 is Completing
            a1/again placed on n1
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing
            root: used vcore=10, pending nothing, headroom vcore=0, running 1, priority none
            root.q1: used vcore=10, pending nothing, headroom vcore=0, running 1, priority none
            root.q2: used nothing, pending nothing, headroom vcore=0, running 0, priority none
        "#]],
    );
}

#[test]
fn a_removed_node_ends_the_nomination() {
    check(
        &one_node(
            "
            ask a2 k vcore=5 policy=both
            wait 30s
            node n2 vcore=10
            ask a1 more vcore=5
            ask a1 most vcore=5
            settle
            show nodes
            remove n1
            wait 60s
            show nodes
            show queues
            ",
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/old placed on n1
            a1/new placed on n1
            a2 is Accepted
            a1/new released: PREEMPTED_BY_SCHEDULER
            n2 accepted
            a2 is Running
            a2/k placed on n2
            a1/more placed on n2
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing
            n2: total vcore=10, used vcore=10, occupied nothing, left nothing
            a1/old released: STOPPED_BY_RM
            a1/new released: STOPPED_BY_RM
            n2: total vcore=10, used vcore=10, occupied nothing, left nothing
            root: used vcore=10, pending vcore=5, headroom vcore=0, running 2, priority 0
            root.q1: used vcore=5, pending vcore=5, headroom vcore=0, running 1, priority 0
            root.q2: used vcore=5, pending nothing, headroom vcore=0, running 1, priority none
        "#]],
    );
}

#[test]
fn a_daemon_gets_its_node_in_a_full_cluster() {
    check(
        "
        queue root.q1
        queue root.q2
        node n1 vcore=10
        node n2 vcore=10
        app a1 in root.q1
        app a2 in root.q2
        ask a1 old vcore=10
        ask a1 far vcore=10
        settle
        ask a2 daemon vcore=2 node=n1
        show queues
        show nodes
        confirm *
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/old placed on n1
            a1/far placed on n2
            a2 is Accepted
            a1/old released: PREEMPTED_BY_SCHEDULER
            root: used vcore=20, of which vcore=10 is preempted, pending vcore=2, headroom vcore=0, running 1, priority 0
            root.q1: used vcore=20, of which vcore=10 is preempted, pending nothing, headroom vcore=0, running 1, priority none
            root.q2: used nothing, pending vcore=2, headroom vcore=0, running 0, priority 0
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing, reserved for [daemon]
            n2: total vcore=10, used vcore=10, occupied nothing, left nothing
            a2 is Running
            a2/daemon placed on n1
            n1: total vcore=10, used vcore=2, occupied nothing, left vcore=8
            n2: total vcore=10, used vcore=10, occupied nothing, left nothing
        "#]],
    );
}

/// Allocations that asked to stay are evicted after ordinary ones, originators last.
#[test]
fn a_daemon_evicts_ordinary_allocations_first() {
    check(
        "
        queue root.q1
        node n1 vcore=12
        app a1 in root.q1
        app a2 in root.q1
        ask a1 first vcore=4 originator=true policy=itself
        ask a1 stays vcore=4 policy=none
        ask a1 plain vcore=4 policy=itself
        settle
        ask a2 d1 vcore=4 node=n1
        ask a2 d2 vcore=4 node=n1
        ask a2 d3 vcore=4 node=n1
        confirm *
        confirm *
        confirm *
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/first placed on n1
            a1/stays placed on n1
            a1/plain placed on n1
            a2 is Accepted
            a1/plain released: PREEMPTED_BY_SCHEDULER
            a1/stays released: PREEMPTED_BY_SCHEDULER
            a1/first released: PREEMPTED_BY_SCHEDULER
            a1 is Completing
            a2 is Running
            a2/d1 placed on n1
            a2/d2 placed on n1
            a2/d3 placed on n1
            n1: total vcore=12, used vcore=12, occupied nothing, left nothing
        "#]],
    );
}

#[test]
fn a_daemon_evicts_nothing_more_important_or_unrelated() {
    check(
        "
        queue root.q1
        node n1 vcore=10 gpu=1
        app a1 in root.q1
        app a2 in root.q1
        ask a1 high vcore=10 prio=10
        ask a1 gpu gpu=1
        settle
        ask a2 daemon vcore=2 node=n1
        wait 60s
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/high placed on n1
            a1/gpu placed on n1
            a2 is Accepted
            n1: total gpu=1 vcore=10, used gpu=1 vcore=10, occupied nothing, left nothing, reserved for [daemon]
        "#]],
    );
}

/// The RM does not know held places, so no confirmation is needed.
#[test]
fn held_places_of_a_gang_are_evicted_at_once() {
    check(
        "
        queue root.q1 guaranteed vcore=5
        queue root.q2 guaranteed vcore=5
        node n1 vcore=10
        app g1 in root.q1 needs w x2 vcore=5
        app a2 in root.q2
        settle
        show queues
        ask a2 k vcore=5 policy=both
        wait 30s
        show queues
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            g1 accepted
            g1 is Accepted
            g1 is Running
            a2 accepted
            root: used vcore=10, pending nothing, headroom vcore=0, running 1, priority none
            root.q1: used vcore=10, pending nothing, headroom vcore=0, running 1, priority none
            root.q2: used nothing, pending nothing, headroom vcore=0, running 0, priority none
            a2 is Accepted
            a2 is Running
            a2/k placed on n1
            root: used vcore=5, pending vcore=10, headroom vcore=5, running 2, priority 0
            root.q1: used nothing, pending vcore=10, headroom vcore=5, running 1, priority 0
            root.q2: used vcore=5, pending nothing, headroom vcore=5, running 1, priority none
            n1: total vcore=10, used vcore=5, occupied nothing, left vcore=5
        "#]],
    );
}

/// An ask that is old on arrival reserves a node at its first try. It searches for victims all the
/// same.
#[test]
fn an_immediate_reservation_also_searches_victims() {
    check(
        "
        queue root.q1 guaranteed vcore=5
        queue root.q2 guaranteed vcore=5
        node n1 vcore=10
        app a1 in root.q1
        ask a1 v x2 vcore=5
        settle
        node n2 vcore=3
        node n3 vcore=3
        app a2 in root.q2
        ask a2 k vcore=5 policy=both created=900
        settle
        confirm *
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/v#1 of v placed on n1
            a1/v#2 of v placed on n1
            n2 accepted
            n3 accepted
            a2 accepted
            a2 is Accepted
            a1/v#1 of v released: PREEMPTED_BY_SCHEDULER
            a2 is Running
            a2/k placed on n1
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing
            n2: total vcore=3, used nothing, occupied nothing, left vcore=3
            n3: total vcore=3, used nothing, occupied nothing, left vcore=3
        "#]],
    );
}
