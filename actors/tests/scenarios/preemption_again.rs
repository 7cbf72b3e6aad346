//! A preemptor without victims searches again when its obstacle has changed, at the earliest 15
//! seconds after its last search (`docs/preemption.md`).

use expect_test::{Expect, expect};

use crate::preemption_rules::check;
use crate::world::{How, World, in_virtual_time};

/// Asserts that a request finds no victims after 30 seconds, and finds some at once after `change`
/// at 50 seconds.
#[track_caller]
fn check_change(given: &str, change: &str, expect: &Expect) {
    let steps = |change: &str| format!("ask b k vcore=5 policy=both\nwait 50s\n{change}\nwait 1ms");
    check(given, &steps(change), expect);
    // Without the change the request finds no victims.
    in_virtual_time(async {
        let mut world = World::new(How::Plain);
        world.play(&format!("{given}\n{}\nwait 100s", steps(""))).await;
        let notified = world.take_played().text;
        assert!(!notified.contains("PREEMPTED_BY_SCHEDULER"), "{notified}");
        world.scheduler.shutdown().await;
    });
}

const QUEUES: &str = "
    queue root.q1
    queue root.q2 guaranteed vcore=5
";

/// Allocations of one queue on one node, followed by changes of the node.
fn one_node(queues: &str, then: &str) -> String {
    format!(
        "
        {queues}
        node n1 vcore=5
        app a in root.q1
        app b in root.q2
        ask a v vcore=5
        {then}
        "
    )
}

#[test]
fn a_reopened_node_is_searched_again() {
    check_change(
        &one_node(QUEUES, "drain n1"),
        "undrain n1",
        &expect![[r#"
        b is Accepted
        a/v released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
    check_change(
        &one_node(QUEUES, "resize n1 attr ready=false"),
        "resize n1 attr ready=true",
        &expect![[r#"
            b is Accepted
            a/v released: PREEMPTED_BY_SCHEDULER
            why b/k: others leave for it, and 1 of them have still to go
        "#]],
    );
}

/// The node was opened within 15 seconds after the search.
#[test]
fn a_node_opened_soon_is_searched_after_the_pause() {
    check(
        &one_node(QUEUES, "drain n1"),
        "
        ask b k vcore=5 policy=both
        wait 32s
        undrain n1
        wait 12999ms
        show nodes
        wait 1ms
        show nodes
        ",
        &expect![[r#"
            b is Accepted
            n1: total vcore=5, used vcore=5, occupied nothing, left nothing
            a/v released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=5, used vcore=5, occupied nothing, left nothing, reserved for [k]
            why b/k: others leave for it, and 1 of them have still to go
        "#]],
    );
}

/// The node is reserved by another ask, whose reservation may be replaced.
#[test]
fn a_reopened_reserved_node_is_searched() {
    check_change(
        &one_node(
            QUEUES,
            "
            node n2 vcore=4
            node n3 vcore=4
            app c in root.q1
            ask c waits vcore=5 created=900 prio=-1
            show nodes
            drain n1
            ",
        ),
        "undrain n1",
        &expect![[r#"
            b is Accepted
            a/v released: PREEMPTED_BY_SCHEDULER
            why b/k: others leave for it, and 1 of them have still to go
            why c/waits: neither its queue nor one above it is guaranteed anything
        "#]],
    );
}

/// The other ask is more important at first, and gives up its reservation later.
#[test]
fn a_replaceable_reservation_is_taken() {
    check_change(
        &one_node(
            &format!("{QUEUES} queue root.q3 guaranteed vcore=5"),
            "
            node n2 vcore=4
            node n3 vcore=4
            app c in root.q3
            request c waits vcore=5 created=900 prio=7 policy=itself
            ",
        ),
        "request c waits vcore=5 prio=-7 policy=itself",
        &expect![[r#"
            b is Accepted
            a/v released: PREEMPTED_BY_SCHEDULER
            why b/k: others leave for it, and 1 of them have still to go
            why c/waits: its policy does not allow it to preempt others
        "#]],
    );
}

#[test]
fn a_node_with_a_new_attribute_is_searched() {
    let constraint = r#"{"simpleConstraint":{"nodeAffinityConstraint":{"targetExpressions":[{"targetKey":"zone","targetOperator":"IN","targetValues":["x"]}]}}}"#;
    check(
        &one_node(QUEUES, ""),
        &format!(
            "
            ask b k vcore=5 policy=both where={constraint}
            wait 50s
            show nodes
            resize n1 attr zone=x
            wait 1ms
            show nodes
            "
        ),
        &expect![[r#"
            b is Accepted
            n1: total vcore=5, used vcore=5, occupied nothing, left nothing
            a/v released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=5, used vcore=5, occupied nothing, left nothing, reserved for [k]
            why b/k: others leave for it, and 1 of them have still to go
        "#]],
    );
}

#[test]
fn a_new_or_grown_node_is_searched() {
    check_change(
        &one_node(QUEUES, "node n2 vcore=4\nask a w vcore=4\ndrain n1"),
        "resize n2 vcore=6\nexists a x on n2 vcore=1",
        &expect![[r#"
            b is Accepted
            a/w released: PREEMPTED_BY_SCHEDULER
            a/x placed on n2
            why b/k: others leave for it, and 1 of them have still to go
        "#]],
    );
    check_change(
        &one_node(QUEUES, "drain n1"),
        "node n2 vcore=5 holds a/w vcore=5",
        &expect![[r#"
            b is Accepted
            n2 accepted
            a/w released: PREEMPTED_BY_SCHEDULER
            why b/k: others leave for it, and 1 of them have still to go
        "#]],
    );
}

#[test]
fn a_victim_that_becomes_less_important_may_go() {
    let given = format!(
        "
        {QUEUES}
        node n1 vcore=5
        app a in root.q1
        app b in root.q2
        request a v vcore=5 prio=9 policy=itself
        "
    );
    check_change(
        &given,
        "request a v vcore=5 prio=0 policy=itself",
        &expect![[r#"
        b is Accepted
        a/v released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
}

/// A reload changes which queues may lose allocations, their importance, and the guarantee of the
/// preemptor's queue.
#[test]
fn a_reloaded_queue_may_lose_or_preempt() {
    let leaves = expect![[r#"
        b is Accepted
        a/v released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]];
    for (loser, preemptor) in [
        ("prop preemption.policy=disabled", "guaranteed vcore=5"),
        ("prop priority.offset=3", "guaranteed vcore=5"),
        ("prop preemption.min.runtime=3600s", "guaranteed vcore=5"),
        ("prop preemption.min.runtime=3600s prop preemption.max.evictions=1", "guaranteed vcore=5"),
        ("guaranteed vcore=5", "guaranteed vcore=5"),
        ("", "guaranteed vcore=5 prop preemption.policy=fence"),
        ("", "guaranteed vcore=5 prop preemption.delay=3600s"),
        ("", "guaranteed vcore=4"),
        ("", ""),
    ] {
        let before = format!("queue root.q1 {loser}\nqueue root.q2 {preemptor}");
        check_change(&one_node(&before, ""), &format!("forget\n{QUEUES}\nreload"), &leaves);
    }
}

/// The guarantee of a queue above the preemptor's, and the partition's switch of preemption.
#[test]
fn a_parent_guarantee_or_the_switch_allows_a_search() {
    let leaves = expect![[r#"
        b is Accepted
        a/v released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]];
    let config = |is_enabled: bool, guaranteed: &str| {
        format!(
            "config {{partitions: [{{name: default, preemption: {{enabled: {is_enabled}}}, queues: [{{name: \
             root, submitacl: '*', queues: [{{name: q1}}, {{name: p, {guaranteed} queues: [{{name: q2}}]}}]}}]}}]}}"
        )
    };
    let guaranteed = "resources: {guaranteed: {vcore: 5m}},";
    let then = "
        node n1 vcore=5
        app a in root.q1
        app b in root.p.q2
        ask a v vcore=5
    ";
    let after = format!("forget\n{}\nreload", config(true, guaranteed));
    for before in [config(true, ""), config(false, guaranteed)] {
        check_change(&format!("{before}\n{then}"), &after, &leaves);
    }
}

/// An application has lost as many allocations as its leaf allows in ten minutes.
#[test]
fn a_raised_eviction_bound_allows_a_search() {
    let given = |property: &str| {
        format!(
            "
            queue root.q1 {property}
            queue root.q2 guaranteed vcore=10
            node n1 vcore=10
            app a in root.q1
            app b in root.q2
            ask a v x2 vcore=5
            "
        )
    };
    let steps = |reload: &str| {
        format!(
            "
            ask b first vcore=5 policy=both created=900
            confirm *
            ask b k vcore=5 policy=both created=900
            wait 50s
            {reload}
            wait 1ms
            "
        )
    };
    let before = given("prop preemption.max.evictions=1");
    for (property, expect) in [
        (
            "prop preemption.max.evictions=2",
            expect![[r#"
            b is Accepted
            a/v#1 of v released: PREEMPTED_BY_SCHEDULER
            b is Running
            b/first placed on n1
            a/v#2 of v released: PREEMPTED_BY_SCHEDULER
            why b/k: others leave for it, and 1 of them have still to go
        "#]],
        ),
        (
            "prop preemption.max.evictions=1 prop preemption.window=10s",
            expect![[r#"
            b is Accepted
            a/v#1 of v released: PREEMPTED_BY_SCHEDULER
            b is Running
            b/first placed on n1
            a/v#2 of v released: PREEMPTED_BY_SCHEDULER
            why b/k: others leave for it, and 1 of them have still to go
        "#]],
        ),
    ] {
        let queues = given(property);
        let queues = queues.split("node").next().unwrap();
        check(&before, &steps(&format!("forget\n{queues}\nreload")), &expect);
    }
}

/// The queue is within its guarantee until its usage grows: by an allocation that grows in place,
/// and by a report.
#[test]
fn a_queue_growing_above_its_guarantee_may_lose() {
    let given = "
        queue root.q1 guaranteed vcore=6
        queue root.q2 guaranteed vcore=5
        node n1 vcore=5
        app a in root.q1
        app b in root.q2
        request a v1 vcore=5 policy=itself
        node n2 vcore=6
        request a v2 vcore=1 policy=itself
        drain n2
    ";
    check_change(
        given,
        "exists a v2 on n2 vcore=6",
        &expect![[r#"
        b is Accepted
        a/v1 released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
    check_change(
        given,
        "exists a v3 on n2 vcore=5",
        &expect![[r#"
        b is Accepted
        a/v3 placed on n2
        a/v1 released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
}

/// An ask that replaces another with its key is a new ask: the smaller one searches at once.
#[test]
fn a_replacing_ask_searches_by_itself() {
    check(
        &one_node(QUEUES, ""),
        "
        ask b k vcore=6 policy=both created=900
        show nodes
        ask b k vcore=5 policy=both
        show nodes
        ",
        &expect![[r#"
            b is Accepted
            n1: total vcore=5, used vcore=5, occupied nothing, left nothing
            a/v released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=5, used vcore=5, occupied nothing, left nothing, reserved for [k]
            why b/k: others leave for it, and 1 of them have still to go
        "#]],
    );
}

/// A daemon waits until the remaining victim may be asked again, and until allocations that can
/// only go together with others, on other nodes, may go.
#[test]
fn a_daemon_searches_when_an_allocation_becomes_evictable() {
    check(
        &one_node(QUEUES, ""),
        "
        ask b k vcore=5 node=n1
        exists a v on n1 vcore=5 tags=monoceros.io/stays:true
        wait 299s
        show nodes
        wait 1s
        show nodes
        ",
        &expect![[r#"
            b is Accepted
            a/v released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=5, used vcore=5, occupied nothing, left nothing, reserved for [k]
            a/v released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=5, used vcore=5, occupied nothing, left nothing, reserved for [k]
            why b/k: others leave for it, and 1 of them have still to go
        "#]],
    );
    check(
        "
        queue root.q1
        queue root.q2
        node n1 vcore=5
        app a in root.q1 tag monoceros.io/disruption=all
        app b in root.q2
        request a here vcore=5 policy=itself
        node n2 vcore=5
        request a there vcore=5 prio=9 policy=itself
        ",
        "
        ask b k vcore=5 node=n1
        wait 7s
        request a there vcore=5 prio=0 policy=itself
        show nodes
        wait 8s
        show nodes
        ",
        &expect![[r#"
            b is Accepted
            n1: total vcore=5, used vcore=5, occupied nothing, left nothing, reserved for [k]
            n2: total vcore=5, used vcore=5, occupied nothing, left nothing
            a/here released: PREEMPTED_BY_SCHEDULER
            a/there released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=5, used vcore=5, occupied nothing, left nothing, reserved for [k]
            n2: total vcore=5, used vcore=5, occupied nothing, left nothing
            why b/k: others leave for it, and 2 of them have still to go
        "#]],
    );
}

/// Obstacles of an earlier search are not reported as present ones.
#[test]
fn explanations_mark_outdated_obstacles() {
    in_virtual_time(async {
        let mut world = World::new(How::Plain);
        world.play(&one_node(QUEUES, "drain n1\nask b k vcore=5 policy=both\nwait 32s")).await;
        let mut said = Vec::new();
        for step in ["", "undrain n1", "drain n1", "wait 14s", "undrain n1", "wait 1s"] {
            world.play(step).await;
            let classes = world.scheduler.explain("default", "b", 0).await.unwrap();
            said.push(format!("{step}: {}", classes[0].preemption));
        }
        expect![[r#"
            : no node would have room for it, whatever may be taken there
            undrain n1: when it looked last, no node would have room for it, whatever may be taken there; that may be otherwise now, and it looks again 15 seconds after that at the latest
            drain n1: when it looked last, no node would have room for it, whatever may be taken there; that may be otherwise now, and it looks again 15 seconds after that at the latest
            wait 14s: no node would have room for it, whatever may be taken there
            undrain n1: when it looked last, no node would have room for it, whatever may be taken there; that may be otherwise now, and it looks again 15 seconds after that at the latest
            wait 1s: when it looked last, no node would have room for it, whatever may be taken there; that may be otherwise now, and it looks again 15 seconds after that at the latest"#]].assert_eq(&said.join("\n"));
        world.scheduler.shutdown().await;
    });
}

/// The nominated node closes before or after its victim has ended: another victim is evicted.
#[test]
fn a_preemptor_searches_again_when_its_node_closes() {
    let given = "
        queue root.q1
        queue root.q2 guaranteed vcore=5
        node n1 vcore=5
        node n2 vcore=5
        app a in root.q1
        app b in root.q2
        ask a low vcore=5
        ask a mid vcore=5 prio=5
    ";
    check(
        given,
        "
        ask b k vcore=5 policy=both prio=10
        wait 31s
        drain n1
        wait 1s
        show nodes
        wait 15s
        confirm *
        wait 1s
        show nodes
        ",
        &expect![[r#"
            b is Accepted
            a/low released: PREEMPTED_BY_SCHEDULER
            n1 closed: total vcore=5, used vcore=5, occupied nothing, left nothing
            n2: total vcore=5, used vcore=5, occupied nothing, left nothing
            a/mid released: PREEMPTED_BY_SCHEDULER
            a is Completing
            b is Running
            b/k placed on n2
            n1 closed: total vcore=5, used nothing, occupied nothing, left vcore=5
            n2: total vcore=5, used vcore=5, occupied nothing, left nothing
        "#]],
    );
    check(
        given,
        "
        ask b k vcore=5 policy=both prio=10
        wait 31s
        resize n1 attr ready=false
        confirm *
        wait 16s
        confirm *
        wait 1s
        show nodes
        ",
        &expect![[r#"
            b is Accepted
            a/low released: PREEMPTED_BY_SCHEDULER
            a/mid released: PREEMPTED_BY_SCHEDULER
            a is Completing
            b is Running
            b/k placed on n2
            n1 closed: total vcore=5, used nothing, occupied nothing, left vcore=5
            n2: total vcore=5, used vcore=5, occupied nothing, left nothing
        "#]],
    );
}
