//! Which queues lose allocations to the guarantee of another, and which rules protect them
//! (`docs/preemption.md`).

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use monoceros_proto::si::v1 as si;

use crate::events;
use crate::world::{BEGIN_S, How, World, in_virtual_time};

/// Plays both scripts with default settings and in three other ways, which must agree. Compares the
/// notifications of the second, and the final reasons why requests do not preempt.
#[track_caller]
pub(crate) fn check(given: &str, steps: &str, expect: &Expect) {
    let notified = notified(given, steps, How::Plain);
    expect.assert_eq(&notified);
    for how in [How::OneAtATime, How::Watched, How::Later(1)] {
        assert_eq!(self::notified(given, steps, how), notified, "{how:?} differs from the default");
    }
}

fn notified(given: &str, steps: &str, how: How) -> String {
    in_virtual_time(async {
        let mut world = World::new(how);
        let mut text = String::new();
        for script in [given, steps] {
            world.play(script).await;
            world.settle().await;
            let played = world.take_played();
            assert_eq!(played.wrong, Vec::<String>::new(), "{script}");
            text = played.text;
        }
        for app in ["a", "b", "c"] {
            let Ok(classes) = world.scheduler.explain("default", app, 0).await else { continue };
            for class in classes.iter().filter(|class| !class.preemption.is_empty()) {
                let keys = class.allocation_keys.join(" ");
                writeln!(text, "why {app}/{keys}: {}", class.preemption).unwrap();
            }
        }
        world.scheduler.shutdown().await;
        text
    })
}

/// The events of a script that match, with their times.
pub(crate) fn events_of(script: &str, matters: impl Fn(&si::EventRecord) -> bool) -> String {
    in_virtual_time(async {
        let mut world = World::new(How::Plain);
        world.play(script).await;
        let range = world.scheduler.events().range(0, u64::MAX);
        let notified = range.records.iter().filter(|it| matters(it)).map(|it| {
            let at_s = it.timestamp_nano / 1_000_000_000 - BEGIN_S;
            format!("{at_s}s: {}\n", events::line(it))
        });
        notified.collect()
    })
}

/// Plays a script, then lets `b` ask for this amount, with the right to preempt, and waits long
/// enough.
#[track_caller]
fn check_ask(given: &str, vcore: u32, expect: &Expect) {
    check(given, &format!("ask b k vcore={vcore} policy=both\nwait 30s"), expect);
}

/// Two queues, of which the first uses all of the only node with two equal allocations.
pub(crate) fn siblings(q1: &str, q2: &str) -> String {
    format!(
        "
        queue root.q1 guaranteed vcore=5 {q1}
        queue root.q2 guaranteed vcore=5 {q2}
        node n1 vcore=10
        app a in root.q1
        app b in root.q2
        ask a old vcore=5
        wait 1s
        ask a new vcore=5
        "
    )
}

#[test]
fn without_any_guarantee_nothing_is_taken() {
    check_ask(
        "
        queue root.q1
        queue root.q2
        node n1 vcore=5
        app a in root.q1
        app b in root.q2
        ask a v vcore=5
        ",
        5,
        &expect![[r#"
            b is Accepted
            why b/k: neither its queue nor one above it is guaranteed anything
        "#]],
    );
}

/// A parent with a guarantee and children without: the children share its guarantee.
fn below_one_guarantee(guaranteed: u32) -> String {
    format!(
        "
        queue root.p guaranteed vcore={guaranteed}
        queue root.p.one
        queue root.p.two
        queue root.out
        node n1 vcore=10
        app a in root.p.one
        app b in root.p.two
        app c in root.out
        "
    )
}

#[test]
fn children_of_one_guarantee_do_not_preempt_each_other() {
    let taken_by_the_sibling = "
        ask a v1 vcore=5
        ask a v2 vcore=5
    ";
    check_ask(
        &(below_one_guarantee(10) + taken_by_the_sibling),
        5,
        &expect![[r#"
        b is Accepted
        why b/k: it does not fit what its queue has left of the guarantee
    "#]],
    );
    // No allocation is evicted either if the siblings use more than their parent's guarantee.
    check_ask(
        &(below_one_guarantee(9) + taken_by_the_sibling),
        5,
        &expect![[r#"
        b is Accepted
        why b/k: no node would have room for it, whatever may be taken there
    "#]],
    );
}

#[test]
fn a_child_preempts_others_for_its_parent() {
    check_ask(
        &(below_one_guarantee(10)
            + "
            ask c out vcore=5
            wait 1s
            ask a sibling vcore=5
            "),
        5,
        &expect![[r#"
            b is Accepted
            c/out released: PREEMPTED_BY_SCHEDULER
            why b/k: others leave for it, and 1 of them have still to go
        "#]],
    );
}

#[test]
fn a_child_with_a_guarantee_preempts_one_without() {
    check_ask(
        "
        queue root.p guaranteed vcore=10
        queue root.p.mine guaranteed vcore=1
        queue root.p.other
        node n1 vcore=2
        app a in root.p.other
        app b in root.p.mine
        ask a old vcore=1
        wait 1s
        ask a new vcore=1
        ",
        1,
        &expect![[r#"
            b is Accepted
            a/new released: PREEMPTED_BY_SCHEDULER
            why b/k: others leave for it, and 1 of them have still to go
        "#]],
    );
}

#[test]
fn an_ask_above_the_unused_guarantee_evicts_nothing() {
    check_ask(
        &(siblings("", "")
            + "
            node n2 vcore=4
            ask b mine vcore=4
            "),
        2,
        &expect![[r#"
            why b/k: it does not fit what its queue has left of the guarantee
        "#]],
    );
}

#[test]
fn no_queue_drops_below_its_guarantee() {
    check_ask(
        "
        queue root.q1 guaranteed vcore=5
        queue root.q2 guaranteed vcore=5
        node n1 vcore=6
        app a in root.q1
        app b in root.q2
        ask a six vcore=6
        ",
        5,
        &expect![[r#"
            b is Accepted
            why b/k: no node would have room for it, whatever may be taken there
        "#]],
    );
}

/// A leaf below a parent, a sibling of it and a queue outside; one of them is a fence.
fn with_a_fence(root: &str, parent: &str, leaf: &str) -> String {
    format!(
        "
        queue root {root}
        queue root.p {parent}
        queue root.p.mine guaranteed vcore=5 {leaf}
        queue root.p.other
        queue root.out
        node n1 vcore=10
        app a in root.p.other
        app b in root.p.mine
        app c in root.out
        ask a inside vcore=5
        wait 1s
        ask c outside vcore=5
        "
    )
}

#[test]
fn nothing_is_taken_from_outside_a_fence() {
    const FENCE: &str = "prop preemption.policy=fence";
    check_ask(
        &with_a_fence("", "", FENCE),
        5,
        &expect![[r#"
        b is Accepted
        why b/k: queue `root.p.mine` is at its maximum or a fence, and nothing is below but its own
    "#]],
    );
    check_ask(
        &with_a_fence("", FENCE, ""),
        5,
        &expect![[r#"
        b is Accepted
        a/inside released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
    check_ask(
        &with_a_fence(FENCE, "", ""),
        5,
        &expect![[r#"
        b is Accepted
        c/outside released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
}

#[test]
fn a_leaf_above_its_maximum_evicts_nothing() {
    check_ask(
        &(siblings("", "max vcore=5")
            + "
            node n2 vcore=1
            ask b mine vcore=1
            "),
        5,
        &expect![[r#"
            why b/k: queue `root.q2` is at its maximum or a fence, and nothing is below but its own
        "#]],
    );
}

#[test]
fn a_disabled_leaf_loses_nothing_and_may_take() {
    const DISABLED: &str = "prop preemption.policy=disabled";
    check_ask(
        &siblings(DISABLED, ""),
        5,
        &expect![[r#"
        b is Accepted
        why b/k: no allocation may be taken: others are within their guarantees, more important, protected, or stayed a moment ago
    "#]],
    );
    check_ask(
        &siblings("", DISABLED),
        5,
        &expect![[r#"
        b is Accepted
        a/new released: PREEMPTED_BY_SCHEDULER
        why b/k: others leave for it, and 1 of them have still to go
    "#]],
    );
}

#[test]
fn switched_off_preemption_still_serves_daemons() {
    check(
        "
        config {partitions: [{preemption: {enabled: false}, queues: [{name: root, submitacl: '*', queues: [{name: q1}, {name: q2, resources: {guaranteed: {vcore: 5m}}}]}]}]}
        node n1 vcore=10
        app a in root.q1
        app b in root.q2
        ask a old vcore=5
        wait 1s
        ask a new vcore=5
        ",
        "
        ask b k vcore=5 policy=both
        wait 60s
        ask b daemon vcore=2 node=n1
        ",
        &expect![[r#"
            b is Accepted
            a/new released: PREEMPTED_BY_SCHEDULER
            why b/k: preemption is switched off in this partition
            why b/daemon: others leave for it, and 1 of them have still to go
        "#]],
    );
}

/// A parent at its maximum of 15, all used by the sibling, on nodes with free capacity.
pub(crate) fn full_queue(sibling: &str) -> String {
    format!(
        "
        queue root.p max vcore=15
        queue root.p.q1 {sibling}
        queue root.p.q2 guaranteed vcore=10
        "
    )
}

pub(crate) fn full_queue_on_three_nodes(sibling: &str) -> String {
    full_queue(sibling)
        + "
        node n1 vcore=20
        node n2 vcore=20
        node n3 vcore=20
        app a in root.p.q1
        app b in root.p.q2
        ask a v1 vcore=5
        wait 1s
        ask a v2 vcore=5
        wait 1s
        ask a v3 vcore=5
        "
}

#[test]
fn a_full_queue_may_have_victims_anywhere() {
    check(
        &full_queue_on_three_nodes(""),
        "
        show nodes
        ask b k vcore=10 policy=both
        wait 30s
        confirm *
        show nodes
        ",
        &expect![[r#"
            n1: total vcore=20, used vcore=5, occupied nothing, left vcore=15
            n2: total vcore=20, used vcore=5, occupied nothing, left vcore=15
            n3: total vcore=20, used vcore=5, occupied nothing, left vcore=15
            b is Accepted
            a/v3 released: PREEMPTED_BY_SCHEDULER
            a/v2 released: PREEMPTED_BY_SCHEDULER
            b is Running
            b/k placed on n1
            n1: total vcore=20, used vcore=15, occupied nothing, left vcore=5
            n2: total vcore=20, used nothing, occupied nothing, left vcore=20
            n3: total vcore=20, used nothing, occupied nothing, left vcore=20
        "#]],
    );
}
