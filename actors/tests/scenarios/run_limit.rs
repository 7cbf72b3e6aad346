//! Applications with an enforced run time.

use std::time::Duration;

use expect_test::{Expect, expect};
use monoceros_actors::Scheduler;

use crate::ended::Stage;
use crate::script::{Script, Step};
use crate::world::in_virtual_time;

/// Plays the lines of a script, some of which wait, and returns the notifications.
async fn received(enforced: bool, text: &str) -> String {
    let builder = Scheduler::builder().enforce_application_timeout(enforced);
    let stage = Stage::begin(builder, "").await;
    for step in Script::parse(text).0 {
        match step {
            Step::Wait(time) => {
                tokio::time::sleep(time).await;
                stage.scheduler.settle().await;
            }
            step => stage.send_lines(&step.to_string()).await,
        }
    }
    let mut notified = stage.received();
    notified.extend(stage.live().await);
    notified.extend(stage.completed().await);
    let wrong = stage.scheduler.check_books("default").await.unwrap();
    assert_eq!(wrong, [""; 0]);
    notified.join("\n") + "\n"
}

#[track_caller]
fn check(text: &str, expect: &Expect) {
    expect.assert_eq(&in_virtual_time(received(true, text)));
}

/// Two allocations of three, and a run time of five seconds.
const RUNNING: &str = "
    node n1 vcore=2
    app a1 in root.q timeout 5000
    ask a1 k1 x3 vcore=1
    request a1 k2 vcore=1
";

#[test]
fn an_expired_application_fails_after_all_confirmations() {
    check(
        &format!(
            "{RUNNING}
            wait 5s
            ask a1 k3 vcore=1
            release a1 uuid=k1#1 as TIMEOUT
            wait 1s
            release a1 uuid=k1#2 as TIMEOUT
            app a1 in root.q
            "
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1 is Failing
            a1/k1#1 of k1 released: TIMEOUT
            a1/k1#2 of k1 released: TIMEOUT
            ask a1/k1 released: TIMEOUT
            a1/k2 released: TIMEOUT
            ask a1/k3 rejected: R_APP_STATE
            a1 is Failed
            a1 accepted
            a1 is New in root.q of ada from 6s to 0s: 
            a1 is Failed in root.q of ada from 0s to 6s: Accepted@0 Running@0 Failing@5 Failed@6
        "#]],
    );
}

#[test]
fn earlier_releases_are_not_repeated() {
    check(
        "
        node n1 vcore=2
        app a1 in root.q timeout 5000
        ask a1 k1 vcore=1 timeout=1000
        ask a1 k2 vcore=1
        wait 5s
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k2 placed on n1
            a1/k1 released: TIMEOUT
            a1 is Failing
            a1/k2 released: TIMEOUT
            a1 is Failing in root.q of ada from 0s to 0s: Accepted@0 Running@0 Failing@5
        "#]],
    );
}

/// The time before the application runs does not count.
#[test]
fn the_run_time_starts_when_it_runs() {
    check(
        "
        app a1 in root.q timeout 5000
        ask a1 k1 vcore=1
        wait 100s
        node n1 vcore=1
        wait 3s
        release a1 uuid=k1 as SCHEDULING_FAILED_ON_RM
        wait 2s
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            n1 accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 placed on n1
            a1 is Failing
            a1/k1 released: TIMEOUT
            a1 is Failing in root.q of ada from 0s to 0s: Accepted@0 Running@100 Failing@105, started at 100000ms
        "#]],
    );
}

/// The time does not restart when the application runs again, and completing is not interrupted.
#[test]
fn the_run_time_does_not_restart() {
    check(
        "
        node n1 vcore=1
        app a1 in root.q timeout 5000
        app a2 in root.q timeout 5000
        ask a1 k1 vcore=1
        release a1 *
        ask a2 k1 vcore=1
        release a2 *
        wait 3s
        ask a1 k2 vcore=9
        wait 2s
        wait 28s
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a2/k1 released: STOPPED_BY_RM
            a2 is Completing
            a1 is Running
            a1 is Failing
            ask a1/k2 released: TIMEOUT
            a1 is Failed
            a2 is Completed
            a1 is Failed in root.q of ada from 0s to 5s: Accepted@0 Running@0 Completing@0 Running@3 Failing@5 Failed@5, started at 3000ms
            a2 is Completed in root.q of ada from 0s to 30s: Accepted@0 Running@0 Completing@0 Completed@30
        "#]],
    );
}

#[test]
fn an_expired_application_without_allocations_fails_at_once() {
    check(
        "
        node n1 vcore=1
        app a1 in root.q timeout 5000
        ask a1 k1 vcore=1
        ask a1 k2 vcore=9
        release a1 uuid=k1
        wait 5s
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1 is Failing
            ask a1/k2 released: TIMEOUT
            a1 is Failed
            a1 is Failed in root.q of ada from 0s to 5s: Accepted@0 Running@0 Failing@5 Failed@5
        "#]],
    );
}

#[test]
fn two_runs_within_a_second_are_two_entries() {
    check(
        "
        node n1 vcore=1
        app a1 in root.q timeout 1
        ask a1 k1 vcore=1
        ask a1 k2 vcore=9
        release a1 uuid=k1
        wait 1ms
        app a1 in root.q timeout 1
        ask a1 k1 vcore=1
        ask a1 k2 vcore=9
        release a1 uuid=k1
        wait 1ms
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1 is Failing
            ask a1/k2 released: TIMEOUT
            a1 is Failed
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1 is Failing
            ask a1/k2 released: TIMEOUT
            a1 is Failed
            a1 is Failed in root.q of ada from 0s to 0s: Accepted@0 Running@0 Failing@0 Failed@0
            a1 is Failed in root.q of ada from 0s to 0s: Accepted@0 Running@0 Failing@0 Failed@0, started at 1ms
        "#]],
    );
}

/// A timer of an earlier run has no effect on a later one.
#[test]
fn a_removed_application_leaves_no_run_timer() {
    check(
        "
        node n1 vcore=1
        app a1 in root.q timeout 5000
        ask a1 k1 vcore=1
        wait 4s
        remove-app a1
        app a1 in root.q timeout 5000
        ask a1 k1 vcore=1
        wait 4s
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 is Running in root.q of ada from 4s to 0s: Accepted@4 Running@4, started at 4000ms
        "#]],
    );
}

#[test]
fn a_gangs_run_time_starts_with_its_placeholders() {
    check(
        "
        node n1 vcore=2
        app a1 in root.q gang vcore=1 timeout 5000
        ask a1 p1 vcore=1 placeholder=tg
        ask a1 k1 vcore=1
        wait 20s
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/k1 placed on n1
            a1/p1 released: TIMEOUT
            a1 is Running in root.q of ada from 0s to 0s: Accepted@0 Running@0
        "#]],
    );
}

#[test]
fn unenforced_run_times_have_no_effect() {
    let notified = in_virtual_time(received(false, &format!("{RUNNING}\nwait 1000s")));
    assert!(notified.ends_with("Accepted@0 Running@0\n"), "{notified}");
    let limitless = RUNNING.replace("5000", "-1");
    let notified = in_virtual_time(received(true, &format!("{limitless}\nwait 1000s")));
    assert!(notified.ends_with("Accepted@0 Running@0\n"), "{notified}");
}

#[test]
fn asks_ended_by_the_run_time_have_events() {
    in_virtual_time(async {
        let builder = Scheduler::builder().enforce_application_timeout(true);
        let stage = Stage::begin(builder, RUNNING).await;
        let past = stage.next_event();
        tokio::time::sleep(Duration::from_secs(5)).await;
        stage.scheduler.settle().await;
        expect![[r#"
            [
                "APP a1 SET APP_FAILING: ExecutionTimeout",
                "APP a1 REMOVE REQUEST_TIMEOUT of k1 vcore=1",
                "APP a1 REMOVE REQUEST_TIMEOUT of k2 vcore=1",
            ]
        "#]]
        .assert_debug_eq(&stage.events(past, "a1"));
    });
}
