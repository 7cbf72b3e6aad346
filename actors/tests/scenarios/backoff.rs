//! Back-off of applications of which too many asks found no node. Without it, an application with
//! thousands of hopeless asks would cost a search for each of them whenever a node changes.

use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use monoceros_actors::Scheduler;

use crate::recording_callback::RecordingCallback;
use crate::world::{check, in_virtual_time, register, send_lines};

/// The third ask would find a node, and still waits.
#[test]
fn two_failed_asks_put_the_application_in_back_off() {
    check(
        "
        queue root.a prop application.unschedasks.backoff=2
        node n1 vcore=4 ; node n2 vcore=4 ; node n3 vcore=4
        app a1 in root.a
        app a2 in root.a
        ask a1 k1 vcore=5 ; ask a1 k2 vcore=6 ; ask a1 k3 vcore=1
        ask a2 k1 vcore=1
        wait 29s
        show apps
        node n9 vcore=9
        wait 999ms
        show apps
        wait 1ms
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=12, holds [], asks [k1 x1, k2 x1, k3 x1]
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            n9 accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=12, holds [], asks [k1 x1, k2 x1, k3 x1]
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            a1 is Running
            a1/k1 placed on n9
            a1/k3 placed on n2
            a1 in root.a is Running since 1000s: used vcore=6, pending vcore=6, holds [k1, k3], asks [k2 x1]
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
        "#]],
    );
}

#[test]
fn failures_up_to_the_bound_cause_no_back_off() {
    check(
        "
        queue root.a prop application.unschedasks.backoff=2
        node n1 vcore=4 ; node n2 vcore=4 ; node n3 vcore=4
        app a1 in root.a
        ask a1 k1 vcore=5 ; ask a1 k2 vcore=6
        node n9 vcore=9
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            n9 accepted
            a1 is Running
            a1/k1 placed on n9
        "#]],
    );
}

/// An ask that found no node before counts again in each pass, without a search.
#[test]
fn each_decision_restarts_the_count_of_failures() {
    check(
        "
        queue root.a prop application.unschedasks.backoff=2
        node n1 vcore=4 ; node n2 vcore=4 ; node n3 vcore=4
        app a1 in root.a
        ask a1 k1 vcore=5
        ask a1 k2 vcore=1
        ask a1 k3 vcore=5 ; ask a1 k4 vcore=1
        ask a1 k5 vcore=1
        wait 30s
        ask a1 k6 vcore=1 prio=1
        wait 30s
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k2 placed on n1
            a1/k6 placed on n2
            a1 in root.a is Running since 1000s: used vcore=2, pending vcore=12, holds [k2, k6], asks [k1 x1, k3 x1, k4 x1, k5 x1]
        "#]],
    );
}

#[test]
fn equal_asks_count_singly_and_repeated_allocations_once() {
    check(
        "
        queue root.a prop application.unschedasks.backoff=3
        node n1 vcore=4 ; node n2 vcore=4 ; node n3 vcore=4
        app a1 in root.a
        ask a1 k1 x9 vcore=5 ; ask a1 k2 vcore=5 ; ask a1 k3 vcore=1
        ask a1 k4 vcore=5 ; ask a1 k5 vcore=1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k3 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending vcore=56, holds [k3], asks [k1 x9, k2 x1, k4 x1, k5 x1]
        "#]],
    );
}

#[test]
fn quota_and_required_node_failures_are_not_counted() {
    check(
        "
        queue root.a max gpu=1 prop application.unschedasks.backoff=1 limit users=ada disk=1
        node n1 vcore=4 gpu=9 disk=9 ; node n2 vcore=8
        app a1 in root.a user ada
        ask a1 k1 gpu=2 ; ask a1 k2 disk=2 ; ask a1 k3 vcore=1 node=n7 ; ask a1 k4 vcore=1
        ask a1 k5 vcore=9 ; ask a1 k6 vcore=1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k4 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending disk=2 gpu=2 vcore=11, holds [k4], asks [k1 x1, k2 x1, k3 x1, k5 x1, k6 x1]
        "#]],
    );
}

#[test]
fn asks_refused_everywhere_are_counted() {
    check(
        "
        queue root.a prop application.unschedasks.backoff=2 prop application.unschedasks.backoff.delay=10s
        refuse k1 *
        refuse k2 *
        node n1 vcore=4 ; node n2 vcore=4 ; node n3 vcore=4
        app a1 in root.a
        ask a1 k1 vcore=1 ; ask a1 k2 vcore=1 ; ask a1 k3 vcore=1
        wait 9s
        show apps
        allow k1 *
        wait 1s
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=3, holds [], asks [k1 x1, k2 x1, k3 x1]
            a1 is Running
            a1/k1 placed on n1
            a1/k3 placed on n2
            a1 in root.a is Running since 1000s: used vcore=2, pending vcore=1, holds [k1, k3], asks [k2 x1]
        "#]],
    );
}

#[test]
fn a_configuration_without_back_off_ends_it() {
    check(
        "
        queue root.a prop application.unschedasks.backoff=1 prop application.unschedasks.backoff.delay=1h
        node n1 vcore=4 ; node n2 vcore=4 ; node n3 vcore=4
        app a1 in root.a
        ask a1 k1 vcore=5 ; ask a1 k2 vcore=1
        wait 60s
        forget
        queue root.a prop application.unschedasks.backoff=1 prop application.unschedasks.backoff.delay=10s
        reload
        wait 60s
        show apps
        forget
        queue root.a
        reload
        forget
        queue root.a prop application.unschedasks.backoff=1 prop application.unschedasks.backoff.delay=10s
        reload
        ask a1 k3 vcore=1
        show apps
        wait 10s
        ask a1 k4 vcore=1 prio=1
        wait 10s
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=6, holds [], asks [k1 x1, k2 x1]
            a1 is Running
            a1/k2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending vcore=6, holds [k2], asks [k1 x1, k3 x1]
            a1/k4 placed on n2
            a1 in root.a is Running since 1000s: used vcore=2, pending vcore=6, holds [k2, k4], asks [k1 x1, k3 x1]
        "#]],
    );
}

/// The deadline of the removed application does not apply to the new one, which has the same id and
/// slot.
#[test]
fn a_returning_application_starts_without_back_off() {
    check(
        "
        queue root.a prop application.unschedasks.backoff=1
        node n1 vcore=4 ; node n2 vcore=4 ; node n3 vcore=4
        app a1 in root.a
        ask a1 k1 vcore=5 ; ask a1 k2 vcore=1
        wait 20s
        remove-app a1
        app a1 in root.a
        ask a1 k2 vcore=1
        ask a1 k1 vcore=5 ; ask a1 k3 vcore=1
        node n9 vcore=9
        wait 29s
        show apps
        wait 1s
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            ask a1/k1 released: STOPPED_BY_RM
            ask a1/k2 released: STOPPED_BY_RM
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k2 placed on n1
            n9 accepted
            a1 in root.a is Running since 1020s: used vcore=1, pending vcore=6, holds [k2], asks [k1 x1, k3 x1]
            a1/k1 placed on n9
            a1/k3 placed on n2
        "#]],
    );
}

/// The shortest back-off is a tenth of a second.
#[test]
fn the_end_of_the_back_off_is_shown() {
    const QUEUES: &str = "
        queue root.a prop application.unschedasks.backoff=1 prop application.unschedasks.backoff.delay=90s
        queue root.b prop application.unschedasks.backoff=1 prop application.unschedasks.backoff.delay=1ns
    ";
    in_virtual_time(async {
        let scheduler = Scheduler::builder().epoch_ns(0).start_local().unwrap();
        let script = crate::script::Script::parse(QUEUES).0;
        let queue = |step| match step {
            crate::script::Step::Queue(queue) => queue,
            step => panic!("`{step}` is no queue"),
        };
        let queues: Vec<_> = script.into_iter().map(queue).collect();
        let config = crate::wire::configuration(None, &queues);
        register(&scheduler, "rm", &config, Arc::new(RecordingCallback::default())).await;
        send_lines(
            &scheduler,
            "rm",
            "node n1 vcore=4 ; node n2 vcore=4\napp a1 in root.a\napp b1 in root.b",
        )
        .await;
        let deadlines = async || {
            let mut deadlines = Vec::new();
            for queue in ["root.a", "root.b"] {
                for app in scheduler.applications("default", queue).await.unwrap() {
                    deadlines.push(app.backoff_deadline);
                }
            }
            deadlines
        };
        assert_eq!(deadlines().await, ["", ""]);
        let asks = ["a1", "b1"].map(|app| format!("ask {app} k1 vcore=5 ; ask {app} k2 vcore=1"));
        send_lines(&scheduler, "rm", &asks.join("\n")).await;
        assert_eq!(deadlines().await, ["1970-01-01T00:01:30.0Z", "1970-01-01T00:00:00.1Z"]);
        tokio::time::sleep(Duration::from_millis(250)).await;
        assert_eq!(deadlines().await, ["1970-01-01T00:01:30.0Z", "1970-01-01T00:00:00.3Z"]);
        send_lines(&scheduler, "rm", "withdraw a1 k1\nwithdraw b1 k1").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(deadlines().await, ["1970-01-01T00:01:30.0Z", ""]);
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(deadlines().await, ["", ""]);
        scheduler.shutdown().await;
    });
}
