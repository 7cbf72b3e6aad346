//! Whoever found no victims looks again when that on which it failed has changed, 15 seconds after it
//! looked last at the earliest (`docs/preemption.md`).

use expect_test::{Expect, expect};

use crate::preemption_rules::check;
use crate::world::{How, World, in_virtual_time};

/// A request looks in vain after 30 seconds, and this happens at 50 seconds: somebody leaves at once.
#[track_caller]
fn check_change(given: &str, change: &str, expect: &Expect) {
    let steps = |change: &str| format!("ask b k vcore=5 policy=both\nwait 50s\n{change}\nwait 1ms");
    check(given, &steps(change), expect);
    // And without it nobody does.
    in_virtual_time(async {
        let mut world = World::new(How::Plain);
        world.play(&format!("{given}\n{}\nwait 100s", steps(""))).await;
        let told = world.take_played().text;
        assert!(!told.contains("PREEMPTED_BY_SCHEDULER"), "{told}");
        world.scheduler.shutdown().await;
    });
}

const QUEUES: &str = "
    queue root.q1
    queue root.q2 guaranteed vcore=5
";

/// What a has runs, and the node of it is then as said.
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
fn a_node_that_is_opened_again_is_looked_at() {
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

/// It was opened within the 15 seconds after the look.
#[test]
fn a_node_that_is_opened_a_moment_later_is_looked_at_after_the_pause() {
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

/// Another ask has it reserved, which would give way.
#[test]
fn a_reserved_node_that_is_opened_again_is_looked_at() {
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

/// The other one is more important at first, and gives way then.
#[test]
fn a_reservation_that_gives_way_by_now_is_taken() {
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
fn a_node_that_gets_the_attribute_is_looked_at() {
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
fn a_node_that_comes_or_grows_with_victims_on_it_is_looked_at() {
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

/// Of queues that are configured anew: who may be taken from, how important that is, and what the asking
/// queue is guaranteed.
#[test]
fn a_queue_that_is_configured_otherwise_may_lose_or_take() {
    let leaves = expect![[r#"
        b is Accepted
        a/v released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]];
    for (loser, asker) in [
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
        let before = format!("queue root.q1 {loser}\nqueue root.q2 {asker}");
        check_change(&one_node(&before, ""), &format!("forget\n{QUEUES}\nreload"), &leaves);
    }
}

/// What is guaranteed further up, and the switch of the partition.
#[test]
fn a_guarantee_further_up_or_the_switch_lets_it_look() {
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

/// An application has lost as many as its leaf lets it lose in ten minutes.
#[test]
fn an_application_may_lose_more_when_its_leaf_is_configured_so() {
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

/// Its queue is within its guarantee until it has more than that: by what grows in place, and by what
/// is reported.
#[test]
fn a_queue_that_comes_to_have_more_than_its_guarantee_may_lose() {
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

/// An ask that replaces another with its key is another: the smaller one looks at once.
#[test]
fn an_ask_that_replaces_another_looks_by_itself() {
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

/// What requires a node waits until the one that stayed there may be asked again, and for those that go
/// only with others, which are elsewhere.
#[test]
fn a_daemon_looks_again_when_somebody_on_its_node_may_go() {
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

/// What was so when it looked is not said of what is so now.
#[test]
fn explanations_say_what_has_passed_as_passed() {
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

/// The node that was promised closes, with the victim still there or gone: somebody leaves another.
#[test]
fn who_was_promised_a_node_that_closes_looks_again() {
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
