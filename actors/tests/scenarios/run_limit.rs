//! Applications that may run for a certain time only, where that is enforced.

use std::time::Duration;

use expect_test::{Expect, expect};
use monoceros_actors::Scheduler;

use crate::ended::Stage;
use crate::script::{Script, Step};
use crate::world::in_virtual_time;

/// Says the lines of a script, some of which wait, and tells what the RM hears.
async fn heard(enforced: bool, text: &str) -> String {
    let builder = Scheduler::builder().enforce_application_timeout(enforced);
    let stage = Stage::begin(builder, "").await;
    for step in Script::parse(text).0 {
        match step {
            Step::Wait(time) => {
                tokio::time::sleep(time).await;
                stage.scheduler.settle().await;
            }
            step => stage.say(&step.to_string()).await,
        }
    }
    let mut told = stage.heard();
    told.extend(stage.live().await);
    told.extend(stage.completed().await);
    let wrong = stage.scheduler.check_books("default").await.unwrap();
    assert_eq!(wrong, [""; 0]);
    told.join("\n") + "\n"
}

#[track_caller]
fn check(text: &str, expect: &Expect) {
    expect.assert_eq(&in_virtual_time(heard(true, text)));
}

/// Two allocations of three, and five seconds.
const RUNNING: &str = "
    node n1 vcore=2
    app a1 in root.q timeout 5000
    ask a1 k1 x3 vcore=1
    request a1 k2 vcore=1
";

#[test]
fn an_application_that_ran_for_its_time_fails_and_is_failed_when_everything_is_confirmed() {
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
fn what_the_resource_manager_was_asked_to_end_before_is_not_told_twice() {
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

/// It may wait for as long as it takes before it runs.
#[test]
fn the_time_begins_when_an_application_runs_and_not_before() {
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

/// The time is not set anew when it comes back; and completing is not interrupted.
#[test]
fn the_time_is_not_set_anew_and_does_not_matter_while_it_completes() {
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
fn an_application_that_asks_and_holds_nothing_of_its_own_fails_and_is_failed_in_one_step() {
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
fn two_runs_of_an_id_that_end_within_a_second_are_two_entries() {
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

/// A timer of an earlier run does nothing to a later one.
#[test]
fn a_removed_application_leaves_no_timer_for_the_next_of_its_id() {
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
fn of_a_gang_the_time_is_that_of_its_placeholders() {
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
fn an_application_runs_for_ever_unless_its_time_is_enforced() {
    let told = in_virtual_time(heard(false, &format!("{RUNNING}\nwait 1000s")));
    assert!(told.ends_with("Accepted@0 Running@0\n"), "{told}");
    let limitless = RUNNING.replace("5000", "-1");
    let told = in_virtual_time(heard(true, &format!("{limitless}\nwait 1000s")));
    assert!(told.ends_with("Accepted@0 Running@0\n"), "{told}");
}

#[test]
fn the_asks_that_are_given_up_are_told_as_events() {
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
