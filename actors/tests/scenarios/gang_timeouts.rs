//! Gangs whose placeholders are not complete, or not used, in time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use expect_test::expect;
use monoceros_actors::{ResourceManagerCallback, Scheduler};
use monoceros_proto::si::v1 as si;

use crate::recording_callback::{Notification, RecordingCallback};
use crate::world::{ONE_LEAF, check, in_virtual_time, register, send_lines};

#[test]
fn an_incomplete_soft_gang_continues_without_placeholders() {
    check(
        "
        queue root.a
        node n1 vcore=3
        app a1 in root.a gang vcore=4 style Soft timeout 5000
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        wait 4999ms
        wait 1ms
        show apps
        show queues
        show task-groups
        withdraw a1 p2 as TIMEOUT
        release a1 uuid=p1 as TIMEOUT
        show apps
        show task-groups
        wait 100s
        ask a1 r1 vcore=2 group=tg
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 is Resuming
            a1/p1 released: TIMEOUT
            ask a1/p2 released: TIMEOUT
            a1 in root.a is Resuming since 1000s: used nothing, pending nothing, holds [p1 for tg], asks []
            root: used vcore=2, pending nothing, headroom vcore=1, running 0, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=1, running 0, priority none
            a1/tg: 2 placeholders of vcore=2, 0 replaced, 1 timed out
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending nothing, holds [], asks []
            a1/tg: 2 placeholders of vcore=2, 0 replaced, 2 timed out
            a1 is Running
            a1/r1 placed on n1
        "#]],
    );
}

/// Later asks are rejected, and the id can be used again once the application has failed.
#[test]
fn an_incomplete_hard_gang_fails_after_its_placeholders() {
    check(
        "
        queue root.a
        node n1 vcore=3
        app a1 in root.a gang vcore=4 style Hard timeout 5000
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        wait 5s
        show apps
        ask a1 k1 vcore=1
        request a1 k2 vcore=1
        exists a1 k3 on n1 vcore=1
        ask a1 p2 vcore=2 placeholder=tg
        app a1 in root.a
        release a1 uuid=p1 as TIMEOUT
        release a1 uuid=p1 as TIMEOUT
        show apps
        show queues
        app a1 in root.a
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 is Failing
            a1/p1 released: TIMEOUT
            ask a1/p2 released: TIMEOUT
            a1 in root.a is Failing since 1000s: used nothing, pending nothing, holds [p1 for tg], asks []
            ask a1/k1 rejected: R_APP_STATE
            allocation a1/k2 rejected: R_APP_STATE
            allocation a1/k3 rejected: R_APP_STATE
            ask a1/p2 rejected: R_APP_STATE
            a1 rejected: R_APP_EXISTS
            a1 is Failed
            root: used nothing, pending nothing, headroom vcore=3, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=3, running 0, priority none
            a1 accepted
        "#]],
    );
}

/// The present form has no release of asks.
#[test]
fn pending_requests_end_after_placed_ones() {
    check(
        "
        queue root.a
        node n1 vcore=3
        app a1 in root.a gang vcore=4 timeout 5000
        request a1 p0 vcore=2 placeholder=tg
        request a1 p1 vcore=2 placeholder=tg
        request a1 r1 vcore=9
        wait 5s
        show apps
        confirm *
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p0 placed on n1
            a1 is Resuming
            a1/p0 released: TIMEOUT
            a1/p1 released: TIMEOUT
            a1/r1 released: TIMEOUT
            a1 in root.a is Resuming since 1000s: used nothing, pending nothing, holds [p0 for tg], asks []
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

/// An unknown style is the soft one.
#[test]
fn an_unknown_style_is_soft() {
    check(
        "
        queue root.a
        node n1 vcore=3
        app a1 in root.a gang vcore=4 style hard timeout 5000
        ask a1 p1 vcore=2 placeholder=tg
        wait 5s
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 is Resuming
            a1/p1 released: TIMEOUT
        "#]],
    );
}

/// Unused places end, and swaps in flight continue.
#[test]
fn a_complete_gang_loses_unused_places() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=6 timeout 5000
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        ask a1 p3 vcore=2 placeholder=tg
        ask a1 r1 vcore=2 group=tg
        confirm *
        ask a1 r2 vcore=1 group=tg
        wait 5s
        show apps
        release a1 uuid=p2 as PLACEHOLDER_REPLACED
        release a1 uuid=p3 as TIMEOUT
        show apps
        show task-groups
        wait 1000s
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1/p2 placed on n1
            a1 is Running
            a1/p3 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1/r1 placed on n1
            a1/p2 released: PLACEHOLDER_REPLACED
            a1/p3 released: TIMEOUT
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [p2 for tg, p3 for tg, r1], asks []
            a1/r2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=3, pending nothing, holds [r1, r2], asks []
            a1/tg: 3 placeholders of vcore=2, 2 replaced, 1 timed out
        "#]],
    );
}

/// The timeout counts from the creation time of the application, if it has one. After a restart at
/// least a millisecond is left.
#[test]
fn a_gang_past_its_timeout_times_out_at_once() {
    check(
        "
        queue root.a
        node n1 vcore=3
        app a1 in root.a gang vcore=4 timeout 5000 tag yunikorn.apache.org/creationTime=900
        ask a1 p1 vcore=2 placeholder=tg
        wait 1ms
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 is Resuming
            a1/p1 released: TIMEOUT
        "#]],
    );
}

#[test]
fn a_gang_created_earlier_has_the_remaining_time() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=4 timeout 5000 tag yunikorn.apache.org/creationTime=998
        app a2 in root.a gang vcore=4 timeout 5000 tag yunikorn.apache.org/creationTime=once
        ask a1 p1 vcore=2 placeholder=tg
        ask a2 p1 vcore=2 placeholder=tg
        wait 2999ms
        wait 1ms
        wait 1999ms
        show apps
        wait 1ms
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a2 is Accepted
            a2/p1 placed on n1
            a1 is Resuming
            a1/p1 released: TIMEOUT
            a1 in root.a is Resuming since 1000s: used nothing, pending nothing, holds [p1 for tg], asks []
            a2 in root.a is Accepted since 1000s: used nothing, pending nothing, holds [p1 for tg], asks []
            a2 is Resuming
            a2/p1 released: TIMEOUT
        "#]],
    );
}

/// No timer runs before the first placeholder is placed; then it runs for a quarter of an hour by
/// default.
#[test]
fn a_gang_without_any_placeholder_waits_forever() {
    check(
        "
        queue root.a
        app a1 in root.a gang vcore=4
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        wait 100000s
        show apps
        node n1 vcore=3
        wait 899s
        show apps
        wait 1s
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=4, holds [], asks [p1 x1, p2 x1]
            n1 accepted
            a1/p1 placed on n1
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=2, holds [p1 for tg], asks [p2 x1]
            a1 is Resuming
            a1/p1 released: TIMEOUT
            ask a1/p2 released: TIMEOUT
        "#]],
    );
}

/// The timer ends with the last placeholder, and restarts with the next one.
#[test]
fn the_timer_restarts_after_all_placeholders_ended() {
    check(
        "
        queue root.a
        node n1 vcore=3
        app a1 in root.a gang vcore=6 timeout 5000
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        wait 3s
        release a1 uuid=p1
        wait 4999ms
        wait 1ms
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1/p1 released: STOPPED_BY_RM
            a1/p2 placed on n1
            a1 is Resuming
            a1/p2 released: TIMEOUT
        "#]],
    );
}

/// Pending members end with the placeholders and have to be requested again; placed members are
/// never ended by this timer.
#[test]
fn pending_members_end_with_a_timed_out_gang() {
    check(
        "
        queue root.a
        node n1 vcore=3
        app a1 in root.a gang vcore=4 timeout 5000
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        ask a1 big x2 vcore=9 prio=1
        wait 5s
        show apps
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 is Resuming
            a1/p1 released: TIMEOUT
            ask a1/p2 released: TIMEOUT
            ask a1/big released: TIMEOUT
            a1 in root.a is Resuming since 1000s: used nothing, pending nothing, holds [p1 for tg], asks []
            root: used vcore=2, pending nothing, headroom vcore=1, running 0, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=1, running 0, priority none
        "#]],
    );
}

/// The swap makes the application run, whatever is still unconfirmed.
#[test]
fn a_swap_in_flight_at_a_soft_timeout_makes_it_run() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=9 timeout 5000
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        ask a1 r1 vcore=2 group=tg
        wait 5s
        release a1 uuid=p1 as PLACEHOLDER_REPLACED
        release a1 uuid=p2 as TIMEOUT
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1/p2 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1 is Resuming
            a1/p2 released: TIMEOUT
            a1 is Accepted
            a1 is Running
            a1/r1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [r1], asks []
        "#]],
    );
}

/// The swap completes after the other placeholders have ended: it is the last event that a resuming
/// gang waits for.
#[test]
fn a_soft_gang_runs_with_its_last_swap() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=9 timeout 5000
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        ask a1 r1 vcore=2 group=tg
        wait 5s
        release a1 uuid=p2 as TIMEOUT
        show apps
        release a1 uuid=p1 as PLACEHOLDER_REPLACED
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1/p2 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1 is Resuming
            a1/p2 released: TIMEOUT
            a1 in root.a is Resuming since 1000s: used nothing, pending nothing, holds [p1 for tg], asks []
            a1 is Accepted
            a1 is Running
            a1/r1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [r1], asks []
        "#]],
    );
}

/// The member gets a release, and its place is freed when the placeholder has ended.
#[test]
fn a_hard_timeout_cancels_a_swap_in_flight() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=9 style Hard timeout 5000
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        ask a1 r1 vcore=2 group=tg
        wait 5s
        release a1 uuid=p1 as PLACEHOLDER_REPLACED
        show apps
        show nodes
        release a1 uuid=p2 as TIMEOUT
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1/p2 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1 is Failing
            a1/p2 released: TIMEOUT
            ask a1/r1 released: TIMEOUT
            a1 in root.a is Failing since 1000s: used nothing, pending nothing, holds [p2 for tg], asks []
            n1: total vcore=9, used vcore=2, occupied nothing, left vcore=7
            a1 is Failed
            n1: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

/// A placeholder that could not be started, of an application that is ending its placeholders, is
/// removed and not pending again.
#[test]
fn an_unbound_placeholder_of_an_ending_gang_is_removed() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=9 style Hard timeout 5000
        app a2 in root.a gang vcore=9 style Soft timeout 5000
        ask a1 p1 vcore=2 placeholder=tg
        ask a2 p1 vcore=2 placeholder=tg
        wait 5s
        release a1 uuid=p1 as SCHEDULING_FAILED_ON_RM
        release a2 uuid=p1 as SCHEDULING_FAILED_ON_RM
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a2 is Accepted
            a2/p1 placed on n1
            a1 is Failing
            a1/p1 released: TIMEOUT
            a2 is Resuming
            a2/p1 released: TIMEOUT
            a1 is Failed
            a2 is Accepted
            a2 in root.a is Accepted since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

/// The message of a state names its cause.
#[test]
fn the_end_of_a_gang_has_a_reason() {
    let words = in_virtual_time(async {
        let recorder = Arc::new(RecordingCallback::default());
        let scheduler = Scheduler::builder().epoch_ns(0).start_local().unwrap();
        register(&scheduler, "rm", ONE_LEAF, recorder.clone()).await;
        for style in ["Soft", "Hard"] {
            let app = format!("{style}-app");
            let text = format!(
                "
                app {app} in root.default gang vcore=9 style {style} timeout 5000
                ask {app} p1 vcore=1 placeholder=tg
                "
            );
            send_lines(&scheduler, "rm", &text).await;
        }
        send_lines(&scheduler, "rm", "node n1 vcore=9").await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        scheduler.settle().await;
        send_lines(&scheduler, "rm", "release Soft-app uuid=p1 as TIMEOUT").await;
        send_lines(&scheduler, "rm", "release Hard-app uuid=p1 as TIMEOUT").await;
        recorder.take()
    });
    let states: Vec<_> = words
        .into_iter()
        .filter_map(|word| if let Notification::AppUpdated(app) = word { Some(app) } else { None })
        .map(|app| format!("{} {}: {}", app.application_id, app.state, app.message))
        .collect();
    assert_eq!(
        states,
        [
            "Soft-app Accepted: runApplication",
            "Hard-app Accepted: runApplication",
            "Hard-app Failing: ResourceReservationTimeout",
            "Soft-app Resuming: ResourceReservationTimeout",
            "Soft-app Accepted: runApplication",
            "Hard-app Failed: failApplication",
        ]
    );
}

/// Records messages one by one.
#[derive(Default)]
struct Messages(Mutex<Vec<String>>);

impl ResourceManagerCallback for Messages {
    fn update_allocation(&self, response: si::AllocationResponse) {
        let released = response.released.iter().map(|gone| gone.allocation_key.clone());
        let asks = response.released_asks.iter().map(|gone| format!("ask {}", gone.allocation_key));
        let keys: Vec<_> = released.chain(asks).collect();
        if !keys.is_empty() {
            self.0.lock().unwrap().push(keys.join(" "));
        }
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        self.0.lock().unwrap().extend(response.updated.into_iter().map(|app| app.state));
    }

    fn update_node(&self, _: si::NodeResponse) {}
}

#[test]
fn the_end_of_a_gang_is_notified_after_its_state() {
    in_virtual_time(async {
        let messages = Arc::new(Messages::default());
        let scheduler = Scheduler::builder().epoch_ns(0).start_local().unwrap();
        register(&scheduler, "rm", ONE_LEAF, messages.clone()).await;
        send_lines(
            &scheduler,
            "rm",
            "
            node n1 vcore=2
            app a1 in root.default gang vcore=9 timeout 5000
            ask a1 p1 vcore=1 placeholder=tg
            ask a1 p2 vcore=1 placeholder=tg
            ask a1 p3 vcore=1 placeholder=tg
            ask a1 p4 vcore=1 placeholder=tg
            ",
        )
        .await;
        messages.0.lock().unwrap().clear();
        tokio::time::sleep(Duration::from_secs(5)).await;
        scheduler.settle().await;
        assert_eq!(*messages.0.lock().unwrap(), ["Resuming", "p1 p2 ask p3 ask p4"]);
    });
}
