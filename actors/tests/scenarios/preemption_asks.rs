//! Which asks may have victims, however many equal ones exist: no allocation is evicted for an ask
//! that could not run afterwards (`docs/preemption.md`).

use expect_test::expect;

use crate::preemption_rules::check;

/// Two allocations of one queue fill the only node; the other queue has a guarantee of all of it,
/// and its application `b` asks.
fn full(q2: &str) -> String {
    format!(
        "
        queue root.q1
        queue root.q2 guaranteed vcore=10 {q2}
        node n1 vcore=10
        app a in root.q1
        app b in root.q2 user ann
        ask a v1 vcore=5
        ask a v2 vcore=5
        "
    )
}

#[test]
fn of_equal_asks_only_permitted_ones_have_victims() {
    check(
        &full(""),
        "
        ask b no vcore=5 policy=itself
        ask b yes vcore=5 policy=both
        ask b unsaid vcore=5
        wait 30s
        wait 60s
        confirm *
        wait 60s
        ",
        &expect![[r#"
            b is Accepted
            a/v1 released: PREEMPTED_BY_SCHEDULER
            b is Running
            b/yes placed on n1
            why b/no unsaid: its policy does not allow it to preempt others
        "#]],
    );
}

/// An ask made after its application lost an allocation gets no victims together with earlier asks.
#[test]
fn asks_before_and_after_a_loss_search_separately() {
    let before = "
        queue root.q1 guaranteed vcore=5
        queue root.q2 guaranteed vcore=5
        queue root.q3 prop preemption.policy=disabled
        ";
    let after = "
        queue root.q1 guaranteed vcore=20
        queue root.q2 guaranteed vcore=5
        queue root.q3
        ";
    check(
        &format!(
            "
            {before}
            node n1 vcore=10
            app a in root.q1
            app b in root.q2
            app c in root.q3
            ask a w x2 vcore=5
            node n2 vcore=10
            ask c v x2 vcore=5
            "
        ),
        &format!(
            "
            ask a early vcore=5 policy=both
            ask b k vcore=5 policy=both
            wait 30s
            ask a late vcore=5 policy=both
            forget
            {after}
            reload
            wait 60s
            show nodes
            confirm *
            wait 60s
            "
        ),
        &expect![[r#"
            b is Accepted
            a/w#1 of w released: PREEMPTED_BY_SCHEDULER
            c/v#1 of v released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing, reserved for [k]
            n2: total vcore=10, used vcore=10, occupied nothing, left nothing, reserved for [early]
            b is Running
            b/k placed on n1
            a/early placed on n2
            c/v#2 of v released: PREEMPTED_BY_SCHEDULER
            why a/late: others leave for it, and 1 of them have still to go
        "#]],
    );
}

#[test]
fn an_ask_waiting_for_a_limit_evicts_nothing() {
    let expect = expect![[r#"
        b is Accepted
        a/v1 released: PREEMPTED_BY_SCHEDULER
        b is Running
        b/k1 placed on n1
        why b/k2: the limits of its user or group leave too little for it
    "#]];
    for q2 in ["limit users=ann vcore=5", "limit users=ann vcore=5 limit groups=dev vcore=9"] {
        check(
            &full(q2),
            "
            ask b k1 vcore=5 policy=both
            ask b k2 vcore=5 policy=both
            wait 30s
            wait 60s
            confirm *
            wait 60s
            ",
            &expect,
        );
    }
}

#[test]
fn nominations_count_for_the_shared_user_limit() {
    check(
        &(full("limit users=ann vcore=5") + "app c in root.q2 user ann"),
        "
        ask b k vcore=5 policy=both
        ask c k vcore=5 policy=both
        wait 30s
        wait 60s
        ",
        &expect![[r#"
            b is Accepted
            c is Accepted
            a/v1 released: PREEMPTED_BY_SCHEDULER
            why b/k: others leave for it, and 1 of them have still to go
            why c/k: the limits of its user or group leave too little for it
        "#]],
    );
}

#[test]
fn a_limit_that_fills_prevents_victims() {
    check(
        &(full("limit users=ann vcore=5") + "app c in root.q2 user ann"),
        "
        ask b k vcore=5 policy=both
        wait 20s
        node n2 vcore=5 holds c/e vcore=5
        wait 60s
        release c key=e
        wait 60s
        ",
        &expect![[r#"
            b is Accepted
            n2 accepted
            c is Accepted
            c is Running
            c/e released: STOPPED_BY_RM
            c is Completing
            b is Running
            b/k placed on n2
            c is Completed
        "#]],
    );
}

#[test]
fn a_full_running_limit_prevents_victims() {
    let expect = expect![[r#"
        b is Accepted
        n2 accepted
        c is Accepted
        c is Running
        why b/k: its application does not run yet, and as many run as may
    "#]];
    for q2 in ["maxapps=1", "limit users=ann vcore=50 apps=1"] {
        check(
            &(full(q2) + "app c in root.q2 user ann"),
            "
            ask b k vcore=5 policy=both
            wait 20s
            node n2 vcore=5 holds c/e vcore=5
            wait 60s
            ",
            &expect,
        );
    }
}

#[test]
fn of_two_daemons_over_quota_one_preempts() {
    check(
        "
        queue root.q1
        queue root.q2 max vcore=5
        node n1 vcore=5
        node n2 vcore=5
        app a in root.q1
        app b in root.q2
        app c in root.q2
        ask a v1 vcore=5
        ask a v2 vcore=5
        ",
        "
        ask b d1 vcore=5 node=n1
        ask c d2 vcore=5 node=n2
        wait 60s
        show nodes
        confirm *
        wait 60s
        release b key=d1
        wait 60s
        confirm *
        show nodes
        ",
        &expect![[r#"
            b is Accepted
            a/v1 released: PREEMPTED_BY_SCHEDULER
            c is Accepted
            n1: total vcore=5, used vcore=5, occupied nothing, left nothing, reserved for [d1]
            n2: total vcore=5, used vcore=5, occupied nothing, left nothing
            b is Running
            b/d1 placed on n1
            b/d1 released: STOPPED_BY_RM
            b is Completing
            a/v2 released: PREEMPTED_BY_SCHEDULER
            b is Completed
            a is Completing
            c is Running
            c/d2 placed on n2
            n1: total vcore=5, used nothing, occupied nothing, left vcore=5
            n2: total vcore=5, used vcore=5, occupied nothing, left nothing
        "#]],
    );
}

#[test]
fn of_two_daemons_over_a_user_limit_one_preempts() {
    check(
        "
        queue root.q1
        queue root.q2 limit users=ann vcore=5
        node n1 vcore=5
        node n2 vcore=5
        app a in root.q1
        app b in root.q2 user ann
        app c in root.q2 user ann
        ask a v1 vcore=5
        ask a v2 vcore=5
        ",
        "
        ask b d1 vcore=5 node=n1
        ask c d2 vcore=5 node=n2
        wait 60s
        confirm *
        wait 60s
        release b key=d1
        wait 60s
        confirm *
        show nodes
        ",
        &expect![[r#"
            b is Accepted
            a/v1 released: PREEMPTED_BY_SCHEDULER
            c is Accepted
            b is Running
            b/d1 placed on n1
            b/d1 released: STOPPED_BY_RM
            b is Completing
            a/v2 released: PREEMPTED_BY_SCHEDULER
            b is Completed
            a is Completing
            c is Running
            c/d2 placed on n2
            n1: total vcore=5, used nothing, occupied nothing, left vcore=5
            n2: total vcore=5, used vcore=5, occupied nothing, left nothing
        "#]],
    );
}

#[test]
fn an_ask_using_held_places_is_placed_first() {
    check(
        "
        queue root.q1
        queue root.q2 guaranteed vcore=10
        node n1 vcore=10
        app g in root.q1 needs w x4 vcore=2
        app b in root.q2
        ",
        "
        show apps
        ask b k1 vcore=4 policy=both
        ask b k2 vcore=4 policy=both
        wait 30s
        show nodes
        show apps
        ",
        &expect![[r#"
            g in root.q1 is Running since 1000s: used nothing, pending nothing, holds [(w~1), (w~2), (w~3), (w~4)], asks []
            b in root.q2 is New since 1000s: used nothing, pending nothing, holds [], asks []
            b is Accepted
            b is Running
            b/k1 placed on n1
            b/k2 placed on n1
            n1: total vcore=10, used vcore=8, occupied nothing, left vcore=2
            g in root.q1 is Running since 1000s: used nothing, pending vcore=8, holds [], asks [(w) x4]
            b in root.q2 is Running since 1000s: used vcore=8, pending nothing, holds [k1, k2], asks []
        "#]],
    );
}

const IN_ZONE: &str = r#"where={"simpleConstraint":{"nodeAffinityConstraint":{"targetExpressions":[{"targetKey":"zone","targetOperator":"IN","targetValues":["x"]}]}}}"#;

const ALONE: &str = r#"where={"simpleConstraint":{"allocationAffinityAttribute":{"scope":"hostname","targetExpressions":[{"targetKey":"app","targetOperator":"IN","targetValues":["web"]}],"minCardinality":0,"maxCardinality":1,"required":true}}}"#;

#[test]
fn a_daemon_on_an_unsuitable_node_evicts_nothing() {
    check(
        "
        queue root.q1
        queue root.q2
        node n1 vcore=10
        app a in root.q1
        app b in root.q2
        ask a v1 vcore=5
        ask a v2 vcore=5
        ",
        &format!(
            "
            ask a waits vcore=8
            wait 3s
            ask b d vcore=5 node=n1 {IN_ZONE}
            wait 60s
            show nodes
            "
        ),
        &expect![[r#"
            b is Accepted
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing
            why a/waits: neither its queue nor one above it is guaranteed anything
            why b/d: whatever may leave the node that it requires, it would not fit there: others are more important, require that node, too, hold too little, or stayed a moment ago
        "#]],
    );
}

#[test]
fn a_daemon_evicts_allocations_it_excludes() {
    check(
        "
        queue root.q1
        queue root.q2
        node n1 vcore=10
        app a in root.q1
        app b in root.q2
        ask a v1 vcore=5
        ask a v2 vcore=5 tags=app:web
        ",
        &format!(
            "
            ask a waits vcore=8
            wait 3s
            ask b d vcore=5 node=n1 {ALONE}
            wait 1s
            show nodes
            confirm *
            show nodes
            "
        ),
        &expect![[r#"
            b is Accepted
            a/v2 released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing, reserved for [d]
            b is Running
            b/d placed on n1
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing
            why a/waits: neither its queue nor one above it is guaranteed anything
        "#]],
    );
}

#[test]
fn victims_of_a_withdrawn_ask_are_used_first() {
    check(
        &full(""),
        "
        ask b k1 vcore=5 policy=both
        wait 30s
        withdraw b k1
        ask b k2 vcore=5 policy=both
        wait 60s
        show nodes
        ask b k3 vcore=10 policy=both
        wait 60s
        ",
        &expect![[r#"
            b is Accepted
            a/v1 released: PREEMPTED_BY_SCHEDULER
            b is Completing
            b is Running
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing
            why b/k2: others are leaving already whose room nobody was promised, and it is enough
            why b/k3: no node would have room for it, whatever may be taken there
        "#]],
    );
}

#[test]
fn a_daemon_waits_for_orphaned_victims_of_its_node() {
    check(
        &full(""),
        "
        ask b k1 vcore=5 policy=both
        wait 30s
        withdraw b k1
        ask b d vcore=5 node=n1
        wait 60s
        confirm *
        wait 60s
        ",
        &expect![[r#"
            b is Accepted
            a/v1 released: PREEMPTED_BY_SCHEDULER
            b is Completing
            b is Running
            b/d placed on n1
        "#]],
    );
}

#[test]
fn a_resized_request_searches_again() {
    check(
        &full(""),
        "
        ask b k1 vcore=5 policy=both
        wait 30s
        withdraw b k1
        request b k2 vcore=2 policy=both
        wait 31s
        request b k2 vcore=10 policy=both
        wait 1s
        ",
        &expect![[r#"
            b is Accepted
            a/v1 released: PREEMPTED_BY_SCHEDULER
            b is Completing
            b is Running
            why b/k2: no node would have room for it, whatever may be taken there
        "#]],
    );
}
