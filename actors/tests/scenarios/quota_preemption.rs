//! Queues that are above a maximum that was lowered give back what is too much
//! (`docs/preemption.md`).

use std::sync::Arc;

use expect_test::expect;
use monoceros_actors::Scheduler;
use monoceros_actors::snapshot::QueueSnapshot;

use crate::ear::Ear;
use crate::events::line;
use crate::script::Script;
use crate::world::{How, World, check, in_virtual_time, play, register, say};

/// These queues below root, in a partition that wants quotas to be kept.
fn queues(queues: &str) -> String {
    format!(
        "config {{partitions: [{{preemption: {{quotapreemptionenabled: true}}, queues: [{{name: root, \
         submitacl: '*', queues: [{queues}]}}]}}]}}\n"
    )
}

/// A queue with this maximum, which may be above it for this long.
fn q(max: u32, delay: &str) -> String {
    queues(&format!(
        "{{name: q, resources: {{max: {{vcore: {max}m}}}}, properties: {{quota.preemption.delay: \
         {delay}}}}}"
    ))
}

/// Such a queue with a maximum of 20 on a node of 20, which uses 18 in three pieces.
fn three_of_six(steps: &str) -> String {
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

/// Another maximum for it.
fn then(max: u32) -> String {
    format!("{}reload\n", q(max, "1m"))
}

#[test]
fn a_queue_gives_back_after_its_delay_and_no_more_than_is_too_much() {
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
fn a_queue_that_shrinks_by_itself_in_time_loses_nothing_and_its_time_begins_anew() {
    check(
        &format!(
            "{}
            node n1 vcore=30
            app a in root.q
            ask a k0 vcore=4
            ask a k1 vcore=5
            ask a k2 vcore=9
            settle
            {}
            wait 30s
            release a key=k2
            wait 31s
            show queues
            exists a k3 on n1 vcore=9
            wait 59s
            show queues
            wait 1s
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
            a/k0 placed on n1
            a/k1 placed on n1
            a/k2 placed on n1
            a/k2 released: STOPPED_BY_RM
            root: used vcore=9, pending nothing, headroom vcore=21, running 1, priority none
            root.q: used vcore=9, pending nothing, headroom vcore=1, running 1, priority none
            a/k3 placed on n1
            root: used vcore=18, pending nothing, headroom vcore=12, running 1, priority none
            root.q: used vcore=18, pending nothing, headroom vcore=-8, running 1, priority none
            a/k0 released: PREEMPTED_BY_SCHEDULER
            root: used vcore=18, of which vcore=4 is preempted, pending nothing, headroom vcore=12, running 1, priority none
            root.q: used vcore=18, of which vcore=4 is preempted, pending nothing, headroom vcore=-8, running 1, priority none
        "#]],
    );
}

#[test]
fn a_maximum_that_is_lowered_twice_begins_no_new_delay() {
    check(
        &three_of_six(&format!(
            "
            {}
            wait 30s
            {}
            wait 29s
            show queues
            wait 1s
            show queues
            ",
            then(12),
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
        "#]],
    );
}

#[test]
fn a_maximum_that_is_raised_back_in_time_takes_nothing_and_lowered_again_begins_anew() {
    check(
        &three_of_six(&format!(
            "
            {}
            wait 30s
            {}
            wait 600s
            show queues
            {}
            wait 59s
            show queues
            wait 1s
            show queues
            ",
            then(10),
            then(20),
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
            root.q: used vcore=18, pending nothing, headroom vcore=2, running 1, priority none
            root: used vcore=18, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, pending nothing, headroom vcore=-8, running 1, priority none
            a/k#1 of k released: PREEMPTED_BY_SCHEDULER
            root: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=-8, running 1, priority none
        "#]],
    );
}

#[test]
fn another_delay_counts_from_when_the_time_began() {
    check(
        &three_of_six(&format!(
            "
            {}
            wait 30s
            {}reload
            wait 59s
            show queues
            wait 1s
            show queues
            ",
            then(10),
            q(10, "90s")
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
        "#]],
    );
}

#[test]
fn a_maximum_that_is_raised_while_victims_leave_calls_none_back() {
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
fn of_a_parent_and_a_child_that_are_both_due_the_parent_gives_back_first() {
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

#[test]
fn what_a_parent_gives_back_is_shared_by_what_its_children_have_above_their_guarantees() {
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
fn a_queue_that_nobody_configured_gives_nothing_back() {
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
fn what_would_be_more_than_is_too_much_stays() {
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
fn a_victim_that_changes_its_size_before_it_goes_counts_as_it_is() {
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
fn the_originator_stays_where_another_would_do() {
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
fn after_a_restart_a_queue_above_its_maximum_has_its_whole_delay() {
    check(
        &format!(
            "{}
            node n1 vcore=20
            app a in root.q
            exists a k1 on n1 vcore=6
            exists a k2 on n1 vcore=6
            wait 10s
            exists a k3 on n1 vcore=6
            wait 49s
            show queues
            wait 1s
            show queues
            ",
            q(10, "1m")
        ),
        &expect![[r#"
            n1 accepted
            a accepted
            a is Accepted
            a is Running
            a/k1 placed on n1
            a/k2 placed on n1
            a/k3 placed on n1
            root: used vcore=18, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, pending nothing, headroom vcore=-8, running 1, priority none
            a/k1 released: PREEMPTED_BY_SCHEDULER
            root: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=-8, running 1, priority none
        "#]],
    );
}

#[test]
fn what_grows_in_place_takes_a_queue_above_its_maximum_too() {
    check(
        &format!(
            "{}
            node n1 vcore=20
            app a in root.q
            ask a k1 vcore=5
            ask a k2 vcore=4
            ask a k3 vcore=1
            settle
            exists a k1 on n1 vcore=8
            wait 59s
            show queues
            wait 1s
            show queues
            ",
            q(10, "1m")
        ),
        &expect![[r#"
            n1 accepted
            a accepted
            a is Accepted
            a is Running
            a/k1 placed on n1
            a/k2 placed on n1
            a/k3 placed on n1
            root: used vcore=13, pending nothing, headroom vcore=7, running 1, priority none
            root.q: used vcore=13, pending nothing, headroom vcore=-3, running 1, priority none
            a/k3 released: PREEMPTED_BY_SCHEDULER
            root: used vcore=13, of which vcore=1 is preempted, pending nothing, headroom vcore=7, running 1, priority none
            root.q: used vcore=13, of which vcore=1 is preempted, pending nothing, headroom vcore=-3, running 1, priority none
        "#]],
    );
}

#[test]
fn without_the_switch_nothing_is_taken_and_switched_on_the_whole_delay_begins() {
    let off = |max| q(max, "1m").replace("quotapreemptionenabled: true", "enabled: true");
    check(
        &format!(
            "{}
            node n1 vcore=20
            app a in root.q
            ask a k vcore=6 x3
            settle
            {}reload
            wait 600s
            show queues
            {}
            wait 59s
            show queues
            wait 1s
            show queues
            ",
            off(20),
            off(10),
            then(10)
        ),
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
            root: used vcore=18, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, pending nothing, headroom vcore=-8, running 1, priority none
            a/k#1 of k released: PREEMPTED_BY_SCHEDULER
            root: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=-8, running 1, priority none
        "#]],
    );
}

#[test]
fn switched_off_in_time_nothing_is_taken() {
    let off = q(10, "1m").replace("quotapreemptionenabled: true", "enabled: true");
    check(
        &three_of_six(&format!(
            "
            {}
            wait 59s
            {off}reload
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
        "#]],
    );
}

#[test]
fn without_a_delay_a_queue_stays_above_for_ever() {
    check(
        &three_of_six(&format!(
            "
            {}reload
            wait 86400s
            show queues
            ",
            queues("{name: q, resources: {max: {vcore: 10m}}}")
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
        "#]],
    );
}

#[test]
fn an_application_loses_no_more_than_it_may_in_its_window() {
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
fn what_a_queue_gives_back_is_told_as_events() {
    let told = in_virtual_time(async {
        let mut world = World::new(How::Plain);
        let script = three_of_six(&format!("{}wait 59s\n", then(10)));
        for step in Script::parse(&script).0 {
            world.step(&step).await;
        }
        let past = world.scheduler.events().range(0, 0).highest + 1;
        for step in Script::parse("wait 1s").0 {
            world.step(&step).await;
        }
        world.settle().await;
        let range = world.scheduler.events().range(past, u64::MAX);
        range.records.iter().fold(String::new(), |told, record| told + &line(record) + "\n")
    });
    expect![[r#"
        QUEUE root.q SET QUEUE_PREEMPTION vcore=10: above its maximum: planned to take map[vcore:8], claimed map[vcore:6], preempted 1 of 3 candidates
        REQUEST k NONE DETAILS_NONE of a vcore=6: preempted because queue `root.q` is above its maximum
    "#]].assert_eq(&told);
}

#[test]
fn the_start_time_is_shown_while_there_is_one() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().epoch_ns(0).start_local().unwrap();
        let config = q(10, "1m");
        let config = config.trim().trim_start_matches("config");
        register(&scheduler, "rm", config, Arc::new(Ear::default())).await;
        let queue = async || -> QueueSnapshot {
            scheduler.queues("default").await.unwrap().descendant("root.q").unwrap()
        };
        assert_eq!(queue().await.quota_preemption_start_time, 0);
        say(&scheduler, "rm", "node n1 vcore=20\napp a in root.q\nexists a k on n1 vcore=18").await;
        let shown = queue().await;
        assert!(!shown.is_quota_preemption_running);
        let start_ns = shown.quota_preemption_start_time;
        assert!((60_000_000_000..61_000_000_000).contains(&start_ns), "{start_ns}");
        tokio::time::sleep(std::time::Duration::from_secs(61)).await;
        let shown = queue().await;
        assert!(!shown.is_quota_preemption_running, "a run is over with its step");
        assert_eq!(shown.quota_preemption_start_time, 0);
    });
}
