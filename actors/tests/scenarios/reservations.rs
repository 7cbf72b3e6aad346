//! Asks that find no node reserve one: which node, and what the reservation allows
//! (`docs/scheduling.md#reservations`).

use std::sync::Arc;

use expect_test::expect;
use monoceros_actors::Scheduler;

use crate::recording_callback::RecordingCallback;
use crate::world::{check, in_virtual_time, register, send_lines};

/// n1 and n2 are half full, n3 is too small for the large ask, and n8 is closed: quotas leave
/// enough. Running allocations have a higher priority than the asks that require a node, so that
/// none is evicted for them.
pub(crate) const HALF_FULL: &str = "
    node n1 vcore=4
    node n2 vcore=4
    node n3 vcore=2
    node n8 vcore=9 drained
    app a1 in root.default
    app a2 in root.default
    exists a1 e1 on n1 vcore=3 prio=1
    exists a1 e2 on n2 vcore=2 prio=1
";

pub(crate) fn half_full(steps: &str) -> String {
    format!("{HALF_FULL}{steps}")
}

#[test]
fn a_two_second_old_ask_reserves_the_best_node() {
    check(
        &half_full(
            "
            ask a2 large vcore=4
            wait 2000ms
            show nodes
            wait 1ms
            show nodes
            show apps
            ",
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            n8 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/e1 placed on n1
            a1/e2 placed on n2
            a2 is Accepted
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2, reserved for [large]
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            a1 in root.default is Running since 1000s: used vcore=5, pending nothing, holds [e1, e2], asks []
            a2 in root.default is Accepted since 1000s: used nothing, pending vcore=4, holds [], asks [large x1]
        "#]],
    );
}

#[test]
fn a_long_created_ask_reserves_at_once() {
    check(
        &half_full(
            "
            ask a2 large vcore=4 created=990
            show nodes
            ",
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            n8 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/e1 placed on n1
            a1/e2 placed on n2
            a2 is Accepted
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2, reserved for [large]
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

#[test]
fn without_reservations_only_required_nodes_are_reserved() {
    check(
        &format!(
            "reservations never 60s{HALF_FULL}
            ask a2 large vcore=4 created=1
            ask a2 bound vcore=4 node=n1
            wait 60s
            show nodes
            "
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            n8 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/e1 placed on n1
            a1/e2 placed on n2
            a2 is Accepted
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1, reserved for [bound]
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

#[test]
fn a_node_lacking_a_type_is_never_reserved() {
    check(
        &half_full(
            "
            ask a2 large vcore=1 gpu=1 created=1
            show nodes
            ",
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            n8 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/e1 placed on n1
            a1/e2 placed on n2
            a2 is Accepted
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

#[test]
fn a_reserved_node_is_closed_to_others() {
    check(
        &half_full(
            "
            ask a2 large vcore=4 created=1
            ask a1 small x3 vcore=1
            show nodes
            release a1 uuid=e2
            show nodes
            ",
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            n8 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/e1 placed on n1
            a1/e2 placed on n2
            a2 is Accepted
            a1/small#1 of small placed on n3
            a1/small#2 of small placed on n3
            a1/small#3 of small placed on n1
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2, reserved for [large]
            n3: total vcore=2, used vcore=2, occupied nothing, left nothing
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            a1/e2 released: STOPPED_BY_RM
            a2 is Running
            a2/large placed on n2
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            n2: total vcore=4, used vcore=4, occupied nothing, left nothing
            n3: total vcore=2, used vcore=2, occupied nothing, left nothing
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

#[test]
fn a_reserving_ask_may_use_another_node() {
    check(
        &half_full(
            "
            ask a2 large vcore=4 created=1
            show nodes
            node n4 vcore=5
            show nodes
            ",
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            n8 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/e1 placed on n1
            a1/e2 placed on n2
            a2 is Accepted
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2, reserved for [large]
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            n4 accepted
            a2 is Running
            a2/large placed on n4
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n4: total vcore=5, used vcore=4, occupied nothing, left vcore=1
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

#[test]
fn an_ask_for_several_reserves_one_node_at_once() {
    check(
        &half_full(
            "
            ask a2 large x2 vcore=4 created=1
            show nodes
            release a1 uuid=e2
            show nodes
            ",
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            n8 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/e1 placed on n1
            a1/e2 placed on n2
            a2 is Accepted
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2, reserved for [large]
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            a1/e2 released: STOPPED_BY_RM
            a2 is Running
            a2/large#1 of large placed on n2
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1, reserved for [large]
            n2: total vcore=4, used vcore=4, occupied nothing, left nothing
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

#[test]
fn a_reserving_application_counts_as_running() {
    check(
        "
        queue root.a maxapps=1
        queue root.b
        node n1 vcore=4
        node n2 vcore=1
        node n9 vcore=9 drained
        app a0 in root.b
        app a1 in root.a
        app a2 in root.a
        exists a0 e1 on n1 vcore=3
        ask a1 large vcore=4 created=1
        ask a2 small vcore=1 created=2
        show apps
        withdraw a1 large
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n9 accepted
            a0 accepted
            a1 accepted
            a2 accepted
            a0 is Accepted
            a0 is Running
            a0/e1 placed on n1
            a1 is Accepted
            a2 is Accepted
            a1 in root.a is Accepted since 1s: used nothing, pending vcore=4, holds [], asks [large x1]
            a2 in root.a is Accepted since 2s: used nothing, pending vcore=1, holds [], asks [small x1]
            a0 in root.b is Running since 1000s: used vcore=3, pending nothing, holds [e1], asks []
            a1 is Completing
            a2 is Running
            a2/small placed on n2
            a1 in root.a is Completing since 1s: used nothing, pending nothing, holds [], asks []
            a2 in root.a is Running since 2s: used vcore=1, pending nothing, holds [small], asks []
            a0 in root.b is Running since 1000s: used vcore=3, pending nothing, holds [e1], asks []
        "#]],
    );
}

#[test]
fn a_reserving_ask_counts_for_the_back_off() {
    check(
        "
        queue root.a prop application.unschedasks.backoff=2
        queue root.b
        node n1 vcore=4
        node n2 vcore=4
        node n3 vcore=1
        app a1 in root.a
        app b1 in root.b
        exists b1 e1 on n1 vcore=1
        exists b1 e2 on n2 vcore=1
        ask a1 k1 vcore=4 created=1 ; ask a1 k2 vcore=4 created=2 ; ask a1 k3 vcore=1
        show nodes
        release b1 uuid=e1
        wait 31s
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            b1 accepted
            b1 is Accepted
            b1 is Running
            b1/e1 placed on n1
            b1/e2 placed on n2
            a1 is Accepted
            n1: total vcore=4, used vcore=1, occupied nothing, left vcore=3, reserved for [k1]
            n2: total vcore=4, used vcore=1, occupied nothing, left vcore=3, reserved for [k2]
            n3: total vcore=1, used nothing, occupied nothing, left vcore=1
            b1/e1 released: STOPPED_BY_RM
            a1 is Running
            a1/k1 placed on n1
            a1/k3 placed on n3
        "#]],
    );
}

#[test]
fn a_reservation_shows_on_node_application_and_queues() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().epoch_ns(9_000_000_000).start_local().unwrap();
        let config = r#"{partitions: [{queues: [{name: root, submitacl: "*", queues: [
            {name: a, queues: [{name: x}]}, {name: b}]}]}]}"#;
        register(&scheduler, "rm", config, Arc::new(RecordingCallback::default())).await;
        send_lines(
            &scheduler,
            "rm",
            "
            node n1 vcore=4 ; node n2 vcore=8 drained
            app a1 in root.a.x ; app a2 in root.b ; app a3 in root.b
            exists a3 e1 on n1 vcore=3
            ask a1 k2 vcore=4 node=n1
            ask a1 k1 vcore=2 node=n1
            ask a2 k3 vcore=4 created=1
            ",
        )
        .await;
        let node = scheduler.nodes("[rm]default").await.unwrap().remove(0);
        assert_eq!((node.is_reserved, node.reservations), (true, vec!["k1".into(), "k2".into()]));
        let node = scheduler.nodes("[rm]default").await.unwrap().remove(1);
        assert_eq!((node.is_reserved, node.reservations), (false, vec![]));
        let apps = scheduler.applications("[rm]default", "root.a.x").await.unwrap();
        assert_eq!((apps[0].has_reserved, &*apps[0].reservations.join(" ")), (true, "k1 k2"));
        let root = scheduler.queues("[rm]default").await.unwrap();
        let allocating = |path: &str| {
            let queue =
                if path == "root" { Some(root.clone()) } else { root.clone().descendant(path) };
            queue.unwrap().allocating_accepted_apps
        };
        for (path, listed) in [
            ("root", vec!["a1"]),
            ("root.a", vec!["a1"]),
            ("root.a.x", vec!["a1"]),
            ("root.b", vec![]),
        ] {
            assert_eq!(allocating(path), listed, "{path}");
        }
    });
}

/// The request must run beside an allocation, which is placed on a node that is full afterwards.
#[test]
fn a_full_node_admitted_by_a_constraint_is_reserved() {
    let beside = r#"where={"simpleConstraint":{"allocationAffinityAttribute":{"scope":"hostname","targetExpressions":[{"targetKey":"app","targetOperator":"IN","targetValues":["web"]}],"minCardinality":2,"maxCardinality":0,"required":true}}}"#;
    let in_zone = r#"where={"simpleConstraint":{"nodeAffinityConstraint":{"targetExpressions":[{"targetKey":"zone","targetOperator":"IN","targetValues":["x"]}]}}}"#;
    check(
        &format!(
            "
            queue root.q
            node n1 vcore=2
            node n2 vcore=2
            node n3 vcore=1
            app a in root.q
            app b in root.q
            app c in root.q
            ask a k1 vcore=2
            ask b near vcore=1 {beside}
            ask c there vcore=1 {in_zone}
            wait 3s
            ask a k2 vcore=2 tags=app:web
            show nodes
            resize n1 attr zone=x
            show nodes
            "
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a accepted
            b accepted
            c accepted
            a is Accepted
            a is Running
            a/k1 placed on n1
            b is Accepted
            c is Accepted
            a/k2 placed on n2
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing, reserved for [near]
            n3: total vcore=1, used nothing, occupied nothing, left vcore=1
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing, reserved for [there]
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing, reserved for [near]
            n3: total vcore=1, used nothing, occupied nothing, left vcore=1
        "#]],
    );
}
