//! Repeated requests and reports in the present form: which fields may change, while pending and
//! while running (`docs/applications.md#the-same-key-again`).

use expect_test::expect;

use crate::world::{check, check_plain};

#[test]
fn a_changed_priority_moves_the_request() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        request a1 k1 vcore=1 prio=9
        request a1 k2 vcore=1 policy=itself
        request a1 k3 vcore=1 policy=itself
        request a1 k4 vcore=1 policy=itself
        request a1 k4 vcore=1 prio=5 policy=itself
        request a1 k2 vcore=1 prio=5 policy=itself
        show queues
        request a1 k4 vcore=1 prio=-1 policy=itself
        release a1 key=k1
        release a1 key=k2
        release a1 key=k3
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            root: used vcore=1, pending vcore=3, headroom vcore=0, running 1, priority 5
            root.a: used vcore=1, pending vcore=3, headroom vcore=0, running 1, priority 5
            a1/k1 released: STOPPED_BY_RM
            a1/k2 placed on n1
            a1/k2 released: STOPPED_BY_RM
            a1/k3 placed on n1
            a1/k3 released: STOPPED_BY_RM
            a1/k4 placed on n1
        "#]],
    );
}

#[test]
fn a_repetition_without_policy_only_changes_the_size() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        request a1 k1 vcore=2 prio=9 policy=none
        request a1 k2 vcore=2 prio=3 policy=itself
        request a1 k3 vcore=1 prio=2 policy=itself
        request a1 k2 vcore=1 prio=0
        show queues
        release a1 key=k1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            root: used vcore=2, pending vcore=2, headroom vcore=0, running 1, priority 3
            root.a: used vcore=2, pending vcore=2, headroom vcore=0, running 1, priority 3
            a1/k1 released: STOPPED_BY_RM
            a1/k2 placed on n1
            a1/k3 placed on n1
        "#]],
    );
}

/// Two queues with a guarantee of half of the one node; one of them uses all of it.
const FULL: &str = "
    queue root.q1 guaranteed vcore=5
    queue root.q2 guaranteed vcore=5
    node n1 vcore=10
    app a1 in root.q1
    app a2 in root.q2
    request a1 old vcore=5
    request a1 new vcore=5
    request a2 k vcore=5 policy=POLICY
    settle
";

#[test]
fn a_request_gaining_preemption_has_victims() {
    check_plain(
        &format!(
            "{}
            wait 60s
            request a2 k vcore=5 policy=others
            ",
            FULL.replace("POLICY", "none")
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
        "#]],
    );
}

#[test]
fn a_request_losing_preemption_has_none() {
    check_plain(
        &format!(
            "{}
            wait 29s
            request a2 k vcore=5 policy=itself
            wait 60s
            ",
            FULL.replace("POLICY", "both")
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
        "#]],
    );
}

#[test]
fn a_reported_policy_protects_a_running_allocation() {
    check_plain(
        &format!(
            "{}
            exists a1 new on n1 vcore=5 policy=none
            wait 60s
            ",
            FULL.replace("POLICY", "both")
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
            a1/old released: PREEMPTED_BY_SCHEDULER
        "#]],
    );
}

#[test]
fn a_lowered_running_priority_allows_preemption() {
    check_plain(
        "
        queue root.q1
        node n1 vcore=5
        app a1 in root.q1
        app a2 in root.q1
        request a1 k vcore=5 prio=5 policy=itself
        request a2 daemon vcore=5 prio=3 node=n1 policy=both
        wait 60s
        exists a1 k on n1 vcore=5 prio=1 policy=itself
        wait 60s
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/k placed on n1
            a2 is Accepted
            a1/k released: PREEMPTED_BY_SCHEDULER
        "#]],
    );
}

#[test]
fn changed_tags_of_allocations_count_for_constraints() {
    let apart = r#"where={"simpleConstraint":{"allocationAffinityAttribute":{"scope":"hostname","targetExpressions":[{"targetKey":"app","targetValues":["web"]}],"maxCardinality":1,"required":true}}}"#;
    check_plain(
        &format!(
            "
            queue root.a
            node n1 vcore=4
            app a1 in root.a
            request a1 k1 vcore=1 tags=app:web policy=itself
            request a1 k2 vcore=1 {apart}
            exists a1 k1 on n1 vcore=1 tags=app:db policy=itself
            exists a1 k1 on n1 vcore=1 tags=app:web policy=itself
            request a1 k3 vcore=1 {apart}
            "
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k2 placed on n1
        "#]],
    );
}
