//! Tests queues above a maximum that was lowered.

use super::cluster::{Cluster, NOW, SECOND, vcore};
use crate::decide::preemption::quota::{self, Watched, due, shares, target};
use crate::decide::preemption::{ApplicationFacts, QueueFacts};
use crate::decide::quota_timer::{Quota, QuotaTimer};
use crate::values::ids::ApplicationSlot;
use crate::values::resources::{Limits, Resources};

fn vcores(max: i64) -> Limits {
    Limits::of(&[("vcore", max)])
}

fn planned(cluster: &Cluster, queue: &str) -> quota::QuotaPlan {
    let applications = cluster.applications.iter().enumerate().map(|(at, (_, application))| {
        let slot = ApplicationSlot::at(u32::try_from(at).unwrap());
        ApplicationFacts {
            allowance: application.allowance,
            goes_as_one: application.goes_as_one,
            ..ApplicationFacts::of(slot, cluster.queue_index(&application.queue))
        }
    });
    let applications: Vec<_> = applications.collect();
    let due = cluster.queue_index(queue);
    quota::plan(&cluster.facts(), due, &applications, cluster.table.iter(), NOW)
}

fn shown(cluster: &Cluster, queue: &str) -> String {
    let plan = planned(cluster, queue);
    let leaf = |leaf: &quota::LeafPlan| cluster.names_of(&leaf.victims);
    plan.leaves.iter().map(leaf).collect::<Vec<_>>().join("; ")
}

/// Builds a leaf with a maximum of 10, in which these allocations run, the newest last.
fn leaf(sizes: &[(&str, i64)]) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.queue("root.a").max = Some(vcores(10));
    cluster.node("n1", 100);
    for (name, size) in sizes {
        cluster.runs(name, "root.a", "n1", *size);
    }
    // All are created in the same hour, since otherwise the newest hour would decide.
    for (name, _) in sizes {
        cluster.change(name, |it| it.created_ns = 0);
    }
    cluster
}

#[test]
fn no_more_is_taken_than_is_too_much() {
    let cluster = leaf(&[("a", 9), ("b", 9)]);
    assert_eq!(planned(&cluster, "root.a").target, vcore(8));
    assert_eq!(shown(&cluster, "root.a"), "", "each is more than what is too much");
    let cluster = leaf(&[("a", 6), ("b", 6), ("c", 6)]);
    assert_eq!(shown(&cluster, "root.a"), "a");
    let cluster = leaf(&[("nine", 9), ("eleven", 11)]);
    assert_eq!(planned(&cluster, "root.a").target, vcore(10));
    assert_eq!(shown(&cluster, "root.a"), "nine");
}

#[test]
fn a_first_task_goes_after_ordinary_ones_and_before_who_opted_out() {
    let mut cluster = leaf(&[("first", 6), ("opted", 6), ("normal", 6)]);
    cluster.is_originator("first");
    cluster.opts_out("opted");
    assert_eq!(shown(&cluster, "root.a"), "normal");
    cluster.ends("normal");
    cluster.runs("more", "root.a", "n1", 7);
    cluster.spec("more", |spec| spec.particulars.make().required_node = Some("n1".into()));
    assert_eq!(shown(&cluster, "root.a"), "first");
}

#[test]
fn the_least_important_goes_first_and_hours_make_a_difference() {
    let mut cluster = leaf(&[("a", 4), ("b", 4), ("c", 4), ("d", 4)]);
    cluster.priority("c", -1);
    cluster.change("d", |it| it.created_ns = 3600 * SECOND);
    assert_eq!(planned(&cluster, "root.a").target, vcore(6));
    assert_eq!(shown(&cluster, "root.a"), "c");
    cluster.priority("c", 0);
    assert_eq!(shown(&cluster, "root.a"), "d", "an hour newer");
    cluster.change("d", |it| it.created_ns = 3599 * SECOND);
    assert_eq!(shown(&cluster, "root.a"), "a");
}

#[test]
fn guarantees_bound_what_is_taken() {
    let mut cluster = leaf(&[("a", 4), ("b", 4), ("c", 4), ("d", 4)]);
    cluster.guarantees("root.a", 12);
    assert_eq!(planned(&cluster, "root.a").target, vcore(4));
    cluster.guarantees("root", 14);
    assert_eq!(planned(&cluster, "root.a").target, vcore(2), "that of root as well");
    cluster.guarantees("root", 30);
    assert_eq!(planned(&cluster, "root.a").target, Resources::new());
}

#[test]
fn a_victim_takes_no_queue_below_a_guarantee_in_something_else() {
    let mut cluster = Cluster::new();
    let queue = cluster.queue("root.a");
    queue.max = Some(vcores(4));
    queue.guaranteed = Some(Resources::of(&[("memory", 5)]));
    cluster.node("n1", 100);
    cluster.application("app", "root.a");
    cluster.runs_of("lean", "app", "n1", vcore(4));
    cluster.runs_of("fat", "app", "n1", Resources::of(&[("vcore", 4), ("memory", 5)]));
    assert_eq!(shown(&cluster, "root.a"), "lean");
    cluster.opts_out("lean");
    assert_eq!(shown(&cluster, "root.a"), "lean");
}

#[test]
fn what_leaves_already_is_not_taken_again() {
    let mut cluster = leaf(&[("a", 8), ("b", 8)]);
    cluster.is_being_preempted("a");
    assert_eq!(planned(&cluster, "root.a").target, Resources::new());
}

#[test]
fn an_application_that_goes_as_one_fits_the_target_or_stays() {
    let mut cluster = leaf(&[("a", 4), ("b", 4), ("c", 4), ("d", 4)]);
    cluster.application("root.a", "root.a").goes_as_one = true;
    assert_eq!(shown(&cluster, "root.a"), "");
    cluster.application("pair", "root.a").goes_as_one = true;
    cluster.runs_of("p", "pair", "n1", vcore(3));
    cluster.runs_of("q", "pair", "n1", vcore(3));
    assert_eq!(shown(&cluster, "root.a"), "p q");
    cluster.application("pair", "root.a").allowance = Some(1);
    assert_eq!(shown(&cluster, "root.a"), "");
}

#[test]
fn nothing_goes_before_its_time() {
    let mut cluster = leaf(&[("a", 6), ("b", 6)]);
    cluster.ends("a");
    cluster.runs("c", "root.a", "n1", 2);
    cluster.runs("d", "root.a", "n1", 3);
    cluster.least_runtime("root.a", 60);
    cluster.change("c", |it| it.bound_ns = NOW);
    assert_eq!(planned(&cluster, "root.a").target, vcore(1));
    let queue = cluster.queue("root.a");
    queue.max = Some(vcores(9));
    assert_eq!(shown(&cluster, "root.a"), "", "3 is more than 2, and 2 has just begun");
    cluster.change("c", |it| it.bound_ns = NOW - 60 * SECOND);
    assert_eq!(shown(&cluster, "root.a"), "c");
}

fn facts(path: &str, parent: Option<usize>, used: i64, guaranteed: Option<i64>) -> QueueFacts {
    QueueFacts {
        path: path.into(),
        parent,
        guaranteed: guaranteed.map(vcore),
        max: None,
        capacity: None,
        allocated: vcore(used),
        preempting: Resources::new(),
        nominated: Resources::new(),
        settings: crate::queues::QueueSettings::default(),
    }
}

#[test]
fn a_parent_divides_what_is_too_much_by_what_children_have_above_their_guarantees() {
    let mut queues = vec![
        facts("root", None, 140, None),
        facts("root.a", Some(0), 50, Some(10)),
        facts("root.b", Some(0), 80, None),
        facts("root.c", Some(0), 10, Some(10)),
    ];
    let all = shares(&queues, 0, &vcore(100));
    assert_eq!(all, [(1, vcore(33)), (2, vcore(66))]);
    // The targets of children are divided among their leaves.
    queues.push(facts("root.b.x", Some(2), 80, None));
    queues.push(facts("root.b.y", Some(2), 0, None));
    assert_eq!(shares(&queues, 0, &vcore(100)), [(1, vcore(33)), (4, vcore(66))]);
    // A share is never more than the usage.
    assert_eq!(shares(&queues, 0, &vcore(1_000)), [(1, vcore(40)), (4, vcore(80))]);
    queues[0].max = Some(vcores(100));
    assert_eq!(target(&queues, 0), vcore(40));
}

#[test]
fn queues_are_due_from_root_down_and_none_below_one_that_runs() {
    let (max, used) = (vcores(10), vcore(18));
    let (old, new) = (vcores(20), Quota::of(&max, 60));
    let started = || {
        let mut timer = QuotaTimer::default();
        timer.reconfigured(Quota::of(&old, 60), new, &used, 0);
        timer
    };
    let mut timers = [QuotaTimer::default(), started(), started(), started(), started()];
    let parents = [None, Some(0), Some(1), Some(2), Some(0)];
    let mut scan = |now_ns| {
        let queues = timers.iter_mut().zip(parents);
        let mut queues: Vec<_> = queues
            .map(|(timer, parent)| Watched { parent, timer, quota: new, used: &used })
            .collect();
        due(&mut queues, now_ns)
    };
    assert_eq!(scan(59), [0_usize; 0]);
    assert_eq!(scan(60), [1, 4]);
    assert_eq!(scan(61), [0_usize; 0], "while they run");
    timers[1].ended();
    timers[4].ended();
    let queues = timers.iter_mut().zip(parents);
    let mut queues: Vec<_> =
        queues.map(|(timer, parent)| Watched { parent, timer, quota: new, used: &used }).collect();
    assert_eq!(due(&mut queues, 62), [2], "the one below has its turn now");
}
