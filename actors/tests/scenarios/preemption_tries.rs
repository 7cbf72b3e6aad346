//! When and how often requests search for victims, and the messages about it
//! (`docs/preemption.md`).

use expect_test::expect;

use crate::preemption_rules::{check, events_of, full_queue, full_queue_on_three_nodes, siblings};
use crate::world::{How, World, in_virtual_time};

/// Nodes with free capacity were not tried for the ask yet, so its second try may still use them.
#[test]
fn an_ask_without_quota_searches_free_nodes_too() {
    check(
        &full_queue_on_three_nodes("prop preemption.policy=disabled"),
        &format!(
            "
            ask b k vcore=10 policy=both
            wait 31s
            forget
            {}
            reload
            show nodes
            wait 14s
            show nodes
            ",
            full_queue("")
        ),
        &expect![[r#"
            b is Accepted
            n1: total vcore=20, used vcore=5, occupied nothing, left vcore=15
            n2: total vcore=20, used vcore=5, occupied nothing, left vcore=15
            n3: total vcore=20, used vcore=5, occupied nothing, left vcore=15
            a/v3 released: PREEMPTED_BY_SCHEDULER
            a/v2 released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=20, used vcore=5, occupied nothing, left vcore=15, reserved for [k]
            n2: total vcore=20, used vcore=5, occupied nothing, left vcore=15
            n3: total vcore=20, used vcore=5, occupied nothing, left vcore=15
            why b/k: others leave for it, and 2 of them have still to go
        "#]],
    );
}

#[test]
fn a_failed_search_is_repeated_after_15_seconds() {
    let queues = |q1: u32| {
        format!(
            "
            queue root.q1 guaranteed vcore={q1}
            queue root.q2 guaranteed vcore=5
            "
        )
    };
    let (before, after) = (queues(10), queues(5));
    check(
        &format!(
            "
            {before}
            node n1 vcore=10
            app a in root.q1
            app b in root.q2
            ask a old vcore=5
            wait 1s
            ask a new vcore=5
            ask b k vcore=5 policy=both
            wait 30s
            "
        ),
        &format!(
            "
            wait 10s
            forget
            {after}
            reload
            wait 4999ms
            show nodes
            wait 1ms
            show nodes
            "
        ),
        &expect![[r#"
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing
            a/new released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing, reserved for [k]
            why b/k: others leave for it, and 1 of them have still to go
        "#]],
    );
}

#[test]
fn a_blocked_daemon_is_reported_every_15_seconds() {
    // All allocations on the daemon's node are more important, and the one that ends is too small.
    let notified = events_of(
        "
        queue root.q
        node n1 vcore=10
        app a in root.q
        app b in root.q
        ask a x1 vcore=7 prio=10
        ask a x2 vcore=1 prio=10
        ask a x3 vcore=1 prio=10
        ask a x4 vcore=1 prio=10
        ask b daemon vcore=5 node=n1
        wait 14s
        release a key=x2
        wait 1s
        release a key=x3
        wait 14s
        release a key=x4
        wait 60s
        ",
        |it| it.message.contains("may leave"),
    );
    expect![[r#"
        0s: REQUEST daemon NONE DETAILS_NONE of b vcore=5: request `daemon` runs on node `n1` only, and nothing there may leave for it
        15s: REQUEST daemon NONE DETAILS_NONE of b vcore=5: request `daemon` runs on node `n1` only, and nothing there may leave for it
    "#]].assert_eq(&notified);
}

#[test]
fn only_searches_for_victims_are_timed() {
    let timed = |steps: &str| {
        in_virtual_time(async {
            let mut world = World::new(How::Plain);
            world.play(&(siblings("", "") + steps)).await;
            let families = world.scheduler.metrics().gather();
            let name = "yunikorn_scheduler_trypreemption_latency_milliseconds";
            let family = families.iter().find(|family| family.name() == name).unwrap();
            family.get_metric()[0].get_histogram().get_sample_count()
        })
    };
    let k = "ask b k vcore=5 policy=both\n";
    assert_eq!(timed(&format!("{k} wait 29s")), 0, "it is too young");
    assert_eq!(timed(&format!("{k} wait 60s")), 1);
    assert_eq!(timed(&format!("{k} ask b l vcore=5 policy=both\n wait 60s")), 2, "one in vain");
    assert_eq!(timed("ask b k vcore=5\n wait 60s"), 0, "it may not");
}

/// A request shows its victims as long as one of them is leaving for it.
#[test]
fn a_request_shows_its_leaving_victims() {
    let triggered = |steps: &str| {
        in_virtual_time(async {
            let mut world = World::new(How::Plain);
            let asks = "
                ask b k vcore=5 policy=both
                ask b l vcore=5 policy=both
                wait 30s
            ";
            world.play(&(siblings("", "") + asks + steps)).await;
            let apps = world.scheduler.applications("default", "root.q2").await.unwrap();
            let asks = apps[0].requests.iter().filter(|ask| ask.triggered_preemption);
            asks.map(|ask| ask.allocation_key.clone()).collect::<Vec<_>>()
        })
    };
    assert_eq!(triggered(""), ["k"]);
    assert_eq!(triggered("remove n1"), [""; 0], "its reservation is lost");
}
