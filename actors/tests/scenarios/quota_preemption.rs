//! Evictions in queues above a maximum that was lowered (`docs/preemption.md`). The time of the
//! evictions is tested in `quota_delays`.

use expect_test::expect;

use crate::events::line;
use crate::script::Script;
use crate::world::{How, World, check, in_virtual_time, play};
/// The words of a script for these queues below root, in a partition with quota preemption.
pub(crate) fn queues(queues: &str) -> String {
    format!(
        "config {{partitions: [{{preemption: {{quotapreemptionenabled: true}}, queues: [{{name: root, \
         submitacl: '*', queues: [{queues}]}}]}}]}}\n"
    )
}

/// A queue with this maximum and this quota preemption delay.
pub(crate) fn q(max: u32, delay: &str) -> String {
    queues(&format!(
        "{{name: q, resources: {{max: {{vcore: {max}m}}}}, properties: {{quota.preemption.delay: \
         {delay}}}}}"
    ))
}

/// Such a queue with a maximum of 20 on a node of 20, which uses 18 with three allocations.
pub(crate) fn three_of_six(steps: &str) -> String {
    let before = q(20, "1m");
    format!(
        "{before}
        node n1 vcore=20
        app a in root.q
        ask a k vcore=6 x3
        settle
        {steps}"
    )
}

/// Another maximum of that queue.
pub(crate) fn then(max: u32) -> String {
    format!("{}reload\n", q(max, "1m"))
}

#[test]
fn a_queue_loses_its_excess_after_the_delay() {
    check(
        &three_of_six(&format!(
            "
            {}
            wait 59s
            show queues
            wait 2s
            show queues
            confirm *
            wait 600s
            show queues
            ",
            then(10)
        )),
        &expect![[r#"
            n1 accepted
            a accepted
            a is Accepted
            a is Running
            a/k#1 of k placed on n1
            a/k#2 of k placed on n1
            a/k#3 of k placed on n1
            root: used vcore=18, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, pending nothing, headroom vcore=-8, running 1, priority none
            a/k#1 of k released: PREEMPTED_BY_SCHEDULER
            root: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=-8, running 1, priority none
            root: used vcore=12, pending nothing, headroom vcore=8, running 1, priority none
            root.q: used vcore=12, pending nothing, headroom vcore=-2, running 1, priority none
        "#]],
    );
}

#[test]
fn raising_a_maximum_calls_no_victim_back() {
    check(
        &three_of_six(&format!(
            "
            {}
            wait 60s
            {}
            show queues
            confirm *
            wait 600s
            show queues
            ",
            then(10),
            then(20)
        )),
        &expect![[r#"
            n1 accepted
            a accepted
            a is Accepted
            a is Running
            a/k#1 of k placed on n1
            a/k#2 of k placed on n1
            a/k#3 of k placed on n1
            a/k#1 of k released: PREEMPTED_BY_SCHEDULER
            root: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=2, running 1, priority none
            root: used vcore=12, pending nothing, headroom vcore=8, running 1, priority none
            root.q: used vcore=12, pending nothing, headroom vcore=8, running 1, priority none
        "#]],
    );
}

#[test]
fn a_parent_loses_before_its_child() {
    let tree = |parent, child| {
        queues(&format!(
            "{{name: p, resources: {{max: {{vcore: {parent}m}}}}, properties: \
             {{quota.preemption.delay: 1m}}, queues: [{{name: x, resources: {{max: {{vcore: \
             {child}m}}}}}}]}}"
        ))
    };
    check(
        &format!(
            "{}
            node n1 vcore=20
            app a in root.p.x
            ask a k vcore=2 x9
            settle
            {}reload
            wait 60s
            show queues
            wait 1s
            show queues
            ",
            tree(20, 20),
            tree(10, 7)
        ),
        &expect![[r#"
            n1 accepted
            a accepted
            a is Accepted
            a is Running
            a/k#1 of k placed on n1
            a/k#2 of k placed on n1
            a/k#3 of k placed on n1
            a/k#4 of k placed on n1
            a/k#5 of k placed on n1
            a/k#6 of k placed on n1
            a/k#7 of k placed on n1
            a/k#8 of k placed on n1
            a/k#9 of k placed on n1
            a/k#1 of k released: PREEMPTED_BY_SCHEDULER
            a/k#2 of k released: PREEMPTED_BY_SCHEDULER
            a/k#3 of k released: PREEMPTED_BY_SCHEDULER
            a/k#4 of k released: PREEMPTED_BY_SCHEDULER
            root: used vcore=18, of which vcore=8 is preempted, pending nothing, headroom vcore=2, running 1, priority none
            root.p: used vcore=18, of which vcore=8 is preempted, pending nothing, headroom vcore=-8, running 1, priority none
            root.p.x: used vcore=18, of which vcore=8 is preempted, pending nothing, headroom vcore=-11, running 1, priority none
            a/k#5 of k released: PREEMPTED_BY_SCHEDULER
            root: used vcore=18, of which vcore=10 is preempted, pending nothing, headroom vcore=2, running 1, priority none
            root.p: used vcore=18, of which vcore=10 is preempted, pending nothing, headroom vcore=-8, running 1, priority none
            root.p.x: used vcore=18, of which vcore=10 is preempted, pending nothing, headroom vcore=-11, running 1, priority none
        "#]],
    );
}

/// The children lose in proportion to their usage above their guarantees.
#[test]
fn a_parents_excess_is_shared_by_its_children() {
    let tree = |max| {
        queues(&format!(
            "{{name: p, resources: {{max: {{vcore: {max}m}}}}, properties: \
             {{quota.preemption.delay: 1m}}, queues: [{{name: x, resources: {{guaranteed: {{vcore: \
             6m}}}}}}, {{name: y}}]}}"
        ))
    };
    check(
        &format!(
            "{}
            node n1 vcore=20
            app a in root.p.x
            app b in root.p.y
            ask a k vcore=2 x4
            ask b k vcore=2 x4
            settle
            {}reload
            wait 60s
            show queues
            ",
            tree(20),
            tree(10)
        ),
        &expect![[r#"
            n1 accepted
            a accepted
            b accepted
            a is Accepted
            a is Running
            a/k#1 of k placed on n1
            a/k#2 of k placed on n1
            a/k#3 of k placed on n1
            a/k#4 of k placed on n1
            b is Accepted
            b is Running
            b/k#1 of k placed on n1
            b/k#2 of k placed on n1
            b/k#3 of k placed on n1
            b/k#4 of k placed on n1
            b/k#1 of k released: PREEMPTED_BY_SCHEDULER
            b/k#2 of k released: PREEMPTED_BY_SCHEDULER
            root: used vcore=16, of which vcore=4 is preempted, pending nothing, headroom vcore=4, running 2, priority none
            root.p: used vcore=16, of which vcore=4 is preempted, pending nothing, headroom vcore=-6, running 2, priority none
            root.p.x: used vcore=8, pending nothing, headroom vcore=-6, running 1, priority none
            root.p.y: used vcore=8, of which vcore=4 is preempted, pending nothing, headroom vcore=-6, running 1, priority none
        "#]],
    );
}

#[test]
fn dynamic_queues_lose_nothing() {
    let quota = |vcore| format!("{{\"resources\":{{\"vcore\":{{\"value\":{vcore}}}}}}}");
    check(
        &format!(
            "config {{partitions: [{{preemption: {{quotapreemptionenabled: true}}, placementrules: \
             [{{name: provided, create: true}}], queues: [{{name: root, submitacl: '*', properties: \
             {{quota.preemption.delay: 1m}}, childtemplate: {{properties: {{quota.preemption.delay: \
             1m}}}}}}]}}]}}
            node n1 vcore=20
            app a in root.d tag namespace.resourcequota={}
            ask a k vcore=6 x3
            settle
            app b in root.d tag namespace.resourcequota={}
            wait 600s
            show queues
            ",
            quota(20),
            quota(10)
        ),
        &expect![[r#"
            n1 accepted
            a accepted
            a is Accepted
            a is Running
            a/k#1 of k placed on n1
            a/k#2 of k placed on n1
            a/k#3 of k placed on n1
            b accepted
            root: used vcore=18, pending nothing, headroom vcore=2, running 1, priority none
            root.d: used vcore=18, pending nothing, headroom vcore=-8, running 1, priority none
        "#]],
    );
}

#[test]
fn a_victim_larger_than_the_excess_stays() {
    check(
        &format!(
            "{}
            node n1 vcore=20
            app a in root.q
            ask a nine vcore=9
            ask a eleven vcore=11
            settle
            {}
            wait 60s
            ",
            q(20, "1m"),
            then(10)
        ),
        &expect![[r#"
            n1 accepted
            a accepted
            a is Accepted
            a is Running
            a/nine placed on n1
            a/eleven placed on n1
            a/nine released: PREEMPTED_BY_SCHEDULER
        "#]],
    );
}

#[test]
fn a_resized_victim_counts_with_its_new_size() {
    check(
        &format!(
            "{}
            node n1 vcore=20
            app a in root.q
            ask a nine vcore=9
            ask a eleven vcore=11
            settle
            {}
            wait 60s
            exists a nine on n1 vcore=5
            show queues
            confirm *
            show queues
            ",
            q(20, "1m"),
            then(10)
        ),
        &expect![[r#"
            n1 accepted
            a accepted
            a is Accepted
            a is Running
            a/nine placed on n1
            a/eleven placed on n1
            a/nine released: PREEMPTED_BY_SCHEDULER
            root: used vcore=16, of which vcore=5 is preempted, pending nothing, headroom vcore=4, running 1, priority none
            root.q: used vcore=16, of which vcore=5 is preempted, pending nothing, headroom vcore=-6, running 1, priority none
            root: used vcore=11, pending nothing, headroom vcore=9, running 1, priority none
            root.q: used vcore=11, pending nothing, headroom vcore=-1, running 1, priority none
        "#]],
    );
}

#[test]
fn the_originator_stays_if_another_suffices() {
    for first in ["originator=true", "originator=false"] {
        let second = if first.ends_with("true") { "originator=false" } else { "originator=true" };
        let (goes, stays) = if first.ends_with("true") { ("k2", "k1") } else { ("k1", "k2") };
        let script = format!(
            "{}
            node n1 vcore=20
            app a in root.q
            ask a k1 vcore=9 {first}
            ask a k2 vcore=9 {second}
            settle
            {}
            wait 60s
            ",
            q(20, "1m"),
            then(9)
        );
        let released = play(&Script::parse(&script), How::Plain).text;
        assert!(released.contains(&format!("a/{goes} released: PREEMPTED")), "{released}");
        assert!(!released.contains(&format!("a/{stays} released")), "{released}");
    }
}

#[test]
fn quota_evictions_obey_the_window_bound() {
    let bounded = |max| {
        queues(&format!(
            "{{name: q, resources: {{max: {{vcore: {max}m}}}}, properties: \
             {{quota.preemption.delay: 1m, preemption.max.evictions: 1}}}}"
        ))
    };
    check(
        &format!(
            "{}
            node n1 vcore=20
            app a in root.q
            ask a k vcore=3 x6
            settle
            {}reload
            wait 60s
            confirm *
            {}reload
            wait 60s
            show queues
            wait 480s
            {}reload
            wait 120s
            show queues
            ",
            bounded(20),
            bounded(10),
            bounded(9),
            bounded(8)
        ),
        &expect![[r#"
            n1 accepted
            a accepted
            a is Accepted
            a is Running
            a/k#1 of k placed on n1
            a/k#2 of k placed on n1
            a/k#3 of k placed on n1
            a/k#4 of k placed on n1
            a/k#5 of k placed on n1
            a/k#6 of k placed on n1
            a/k#1 of k released: PREEMPTED_BY_SCHEDULER
            root: used vcore=15, pending nothing, headroom vcore=5, running 1, priority none
            root.q: used vcore=15, pending nothing, headroom vcore=-6, running 1, priority none
            a/k#2 of k released: PREEMPTED_BY_SCHEDULER
            root: used vcore=15, of which vcore=3 is preempted, pending nothing, headroom vcore=5, running 1, priority none
            root.q: used vcore=15, of which vcore=3 is preempted, pending nothing, headroom vcore=-7, running 1, priority none
        "#]],
    );
}

#[test]
fn quota_evictions_have_events() {
    let notified = in_virtual_time(async {
        let mut world = World::new(How::Plain);
        let script = three_of_six(&format!("{}wait 59s\n", then(10)));
        world.play(&script).await;
        let past = world.scheduler.events().range(0, 0).highest + 1;
        world.play("wait 1s").await;
        world.settle().await;
        let range = world.scheduler.events().range(past, u64::MAX);
        range.records.iter().fold(String::new(), |text, record| text + &line(record) + "\n")
    });
    expect![[r#"
        QUEUE root.q SET QUEUE_PREEMPTION vcore=10: above its maximum: planned to take map[vcore:8], claimed map[vcore:6], preempted 1 of 3 candidates
        REQUEST k NONE DETAILS_NONE of a vcore=6: preempted because queue `root.q` is above its maximum
    "#]].assert_eq(&notified);
}
