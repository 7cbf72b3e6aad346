//! A resource manager whose clock is ahead sends creation times in the future. Wherever age
//! decides, its requests then count from their arrival. Reads show the time as sent.

use std::sync::Arc;

use expect_test::expect;
use monoceros_actors::Scheduler;

use crate::recording_callback::RecordingCallback;
use crate::world::{check, in_virtual_time, register, send_lines};

#[test]
fn an_ask_created_ahead_preempts_after_the_delay() {
    check(
        "
        queue root.q1
        queue root.q2 guaranteed vcore=10
        node n1 vcore=10
        app a1 in root.q1
        app a2 in root.q2
        ask a1 v1 vcore=10
        ask a2 k vcore=10 policy=both created=4600
        wait 29999ms
        show nodes
        wait 1ms
        confirm *
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/v1 placed on n1
            a2 is Accepted
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing
            a1/v1 released: PREEMPTED_BY_SCHEDULER
            a1 is Completing
            a2 is Running
            a2/k placed on n1
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing
        "#]],
    );
}

#[test]
fn an_ask_created_ahead_reserves_after_the_delay() {
    check(
        "
        node n1 vcore=4
        node n2 vcore=4
        node n3 vcore=2
        app a1 in root.default
        app a2 in root.default
        exists a1 e1 on n1 vcore=3
        exists a1 e2 on n2 vcore=2
        ask a2 large vcore=4 created=1600
        wait 2000ms
        show nodes
        wait 1ms
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
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
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2, reserved for [large]
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
        "#]],
    );
}

/// The order of arrival holds among asks, among applications of a leaf, and among equal leaves.
#[test]
fn asks_created_ahead_are_placed_in_order_of_arrival() {
    check(
        "
        queue root.a
        app a1 in root.a
        wait 1s
        app a2 in root.a
        ask a1 k1 vcore=1 created=9000
        wait 1s
        ask a1 k2 vcore=1
        ask a1 k3 vcore=1 created=8000
        ask a2 k4 vcore=1 created=1002
        wait 1s
        ask a1 k3 vcore=1 created=8500
        node n1 vcore=4
        ",
        &expect![[r#"
            a1 accepted
            a2 accepted
            a1 is Accepted
            a2 is Accepted
            n1 accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k2 placed on n1
            a1/k3 placed on n1
            a2 is Running
            a2/k4 placed on n1
        "#]],
    );
}

/// `ahead` arrived first, so it is older than `late`, whatever its creation time.
#[test]
fn the_victim_that_arrived_last_is_evicted() {
    check(
        "
        queue root.q1
        queue root.q2 guaranteed vcore=5
        node n1 vcore=10
        app a1 in root.q1
        app a2 in root.q2
        ask a1 ahead vcore=5 created=9000
        wait 1s
        ask a1 late vcore=5
        ask a2 k vcore=5 policy=both created=900
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/ahead placed on n1
            a1/late placed on n1
            a2 is Accepted
            a1/late released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing, reserved for [k]
        "#]],
    );
}

/// A reported allocation counts as running since the report at the latest.
#[test]
fn runtime_created_ahead_counts_from_the_report() {
    check(
        "
        queue root.q1 prop preemption.min.runtime=60s
        queue root.q2 guaranteed vcore=10
        node n1 vcore=10
        app a1 in root.q1
        app a2 in root.q2
        exists a1 v1 on n1 vcore=10 created=9000
        ask a2 k vcore=10 policy=both
        wait 59s
        show nodes
        wait 1s
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/v1 placed on n1
            a2 is Accepted
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing
            a1/v1 released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing, reserved for [k]
        "#]],
    );
}

#[test]
fn placeholder_timeouts_created_ahead_count_from_arrival() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=4 timeout 5000 tag yunikorn.apache.org/creationTime=9000
        wait 2s
        ask a1 p1 vcore=2 placeholder=tg
        wait 2999ms
        show apps
        wait 1ms
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 in root.a is Accepted since 1000s: used nothing, pending nothing, holds [p1 for tg], asks []
            a1 is Resuming
            a1/p1 released: TIMEOUT
        "#]],
    );
}

#[test]
fn a_creation_time_ahead_is_shown_unchanged() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().epoch_ns(1_000_000_000_000).start_local().unwrap();
        let queues = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]";
        register(&scheduler, "rm", queues, Arc::new(RecordingCallback::default())).await;
        let text = "
            node n1 vcore=1
            app a1 in root.a
            ask a1 k1 vcore=1 created=4600
            ask a1 k2 vcore=1 created=4601
            ask a1 k2 vcore=1
        ";
        send_lines(&scheduler, "rm", text).await;
        let apps = scheduler.applications("default", "root.a").await.unwrap();
        let seconds = |ns: i64| ns / 1_000_000_000;
        let allocation = &apps[0].allocations[0];
        assert_eq!(seconds(allocation.request_time), 4600);
        assert_eq!(seconds(allocation.allocation_time), 4600);
        assert_eq!(seconds(apps[0].requests[0].request_time), 4601);
        assert_eq!(seconds(apps[0].submission_time), 1000, "that is a figure of the scheduler");
        scheduler.shutdown().await;
    });
}
