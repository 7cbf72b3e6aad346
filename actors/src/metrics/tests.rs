use std::fmt::Write;

use expect_test::{expect, expect_file};
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::order::used_names::UsedNames;
use monoceros_rules::values::resources::Limits;
use prometheus::TextEncoder;

use super::*;
use crate::metrics::ApplicationState::{
    Accepted, Completed, Completing, Expired, New, Rejected, Running,
};

/// The lines of the page that begin with one of `names`.
fn lines(metrics: &Metrics, names: &[&str]) -> String {
    let page = TextEncoder::new().encode_to_string(&metrics.registry().gather()).unwrap();
    let mut chosen = String::new();
    for line in page.lines().filter(|line| names.iter().any(|name| line.starts_with(name))) {
        writeln!(chosen, "{line}").unwrap();
    }
    chosen
}

fn queue(path: &str, children: Vec<QueueSnapshot>) -> QueueSnapshot {
    let is_leaf = children.is_empty();
    QueueSnapshot { queue_name: path.into(), is_leaf, children, ..QueueSnapshot::default() }
}

#[test]
fn the_documentation_lists_every_family() {
    let mut page = String::from(
        "# Metrics\n\n\
         This page is made from the code: `UPDATE_EXPECT=1 cargo test -p monoceros-actors` writes \
         it again.\n\
         Families that begin with `yunikorn` are those that existing dashboards know; the \
         histograms among them hold seconds whatever their names say.\n\n\
         Where they deliberately say something else than in YuniKorn:\n\n\
         - Queues of equal paths in several partitions, and queues whose paths are equal once they \
         are part of a name, are summed; there the last one wins, or one is left out. Ranges of node \
         usage are summed over partitions, too, and fall to zero when the last node has gone.\n\
         - A maximum that is taken out of the configuration has no series any more; there it falls to \
         zero, which says that nothing may run.\n\
         - `yunikorn_<queue>_queue_container` counts each allocation, there only those that were \
         reported.\n\
         - An application that was rejected at once never counts as `new`, and names no queue that is \
         not there.\n\
         - Nothing is sorted, and there is no cycle over all partitions; what those two histograms \
         measure instead is said below.\n\
         - Each pass is timed. Each choice and each attempt at a node counts, too, but only one in 61 of them is \
         timed: the others count with the time of the last that was.\n\
         - The families with the path of a queue in their names that are gauges were dropped in \
         release 1.8; here they are shown beside the others, since boards still ask for them.\n\
         - `go_*`, `yunikorn_runtime_go_*` and `promhttp_*` tell of a runtime that there is not, and are \
         missing.\n\n\
         | name | type | labels | meaning |\n|---|---|---|---|\n",
    );
    for Family { name, kind, labels, help } in Metrics::new().inventory() {
        let labels: Vec<_> = labels
            .iter()
            .map(|(label, values)| match values.as_slice() {
                [] => format!("`{label}`"),
                values => format!("`{label}` = {}", values.join(", ")),
            })
            .collect();
        writeln!(page, "| `{name}` | {kind} | {} | {help} |", labels.join("; ")).unwrap();
    }
    expect_file!["../../../docs/metrics.md"].assert_eq(&page);
}

#[test]
fn fresh_page_has_the_series_of_dashboards() {
    let metrics = Metrics::new();
    expect![[r#"
        yunikorn_scheduler_container_allocation_attempt_total{state="allocated"} 0
        yunikorn_scheduler_container_allocation_attempt_total{state="error"} 0
        yunikorn_scheduler_container_allocation_attempt_total{state="rejected"} 0
        yunikorn_scheduler_container_allocation_attempt_total{state="released"} 0
        yunikorn_scheduler_node{state="active"} 0
        yunikorn_scheduler_node{state="decommissioned"} 0
        yunikorn_scheduler_node{state="draining"} 0
        yunikorn_scheduler_node{state="failed"} 0
        yunikorn_scheduler_node{state="unhealthy"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_bucket{level="app",le="0.0001"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_bucket{level="app",le="0.001"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_bucket{level="app",le="0.01"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_bucket{level="app",le="0.1"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_bucket{level="app",le="1"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_bucket{level="app",le="10"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_bucket{level="app",le="100"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_bucket{level="app",le="1000"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_bucket{level="app",le="+Inf"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_sum{level="app"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_count{level="app"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_bucket{level="queue",le="0.0001"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_bucket{level="queue",le="0.001"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_bucket{level="queue",le="0.01"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_bucket{level="queue",le="0.1"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_bucket{level="queue",le="1"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_bucket{level="queue",le="10"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_bucket{level="queue",le="100"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_bucket{level="queue",le="1000"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_bucket{level="queue",le="+Inf"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_sum{level="queue"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_count{level="queue"} 0
        yunikorn_scheduler_trynode_evaluation_milliseconds_bucket{le="0.0001"} 0
        yunikorn_scheduler_trynode_evaluation_milliseconds_bucket{le="0.001"} 0
        yunikorn_scheduler_trynode_evaluation_milliseconds_bucket{le="0.01"} 0
        yunikorn_scheduler_trynode_evaluation_milliseconds_bucket{le="0.1"} 0
        yunikorn_scheduler_trynode_evaluation_milliseconds_bucket{le="1"} 0
        yunikorn_scheduler_trynode_evaluation_milliseconds_bucket{le="10"} 0
        yunikorn_scheduler_trynode_evaluation_milliseconds_bucket{le="100"} 0
        yunikorn_scheduler_trynode_evaluation_milliseconds_bucket{le="1000"} 0
        yunikorn_scheduler_trynode_evaluation_milliseconds_bucket{le="+Inf"} 0
        yunikorn_scheduler_trynode_evaluation_milliseconds_sum 0
        yunikorn_scheduler_trynode_evaluation_milliseconds_count 0
        yunikorn_scheduler_trynode_latency_milliseconds_bucket{le="0.0001"} 0
        yunikorn_scheduler_trynode_latency_milliseconds_bucket{le="0.001"} 0
        yunikorn_scheduler_trynode_latency_milliseconds_bucket{le="0.01"} 0
        yunikorn_scheduler_trynode_latency_milliseconds_bucket{le="0.1"} 0
        yunikorn_scheduler_trynode_latency_milliseconds_bucket{le="1"} 0
        yunikorn_scheduler_trynode_latency_milliseconds_bucket{le="10"} 0
        yunikorn_scheduler_trynode_latency_milliseconds_bucket{le="100"} 0
        yunikorn_scheduler_trynode_latency_milliseconds_bucket{le="1000"} 0
        yunikorn_scheduler_trynode_latency_milliseconds_bucket{le="+Inf"} 0
        yunikorn_scheduler_trynode_latency_milliseconds_sum 0
        yunikorn_scheduler_trynode_latency_milliseconds_count 0
        yunikorn_scheduler_trypreemption_latency_milliseconds_bucket{le="0.0001"} 0
        yunikorn_scheduler_trypreemption_latency_milliseconds_bucket{le="0.001"} 0
        yunikorn_scheduler_trypreemption_latency_milliseconds_bucket{le="0.01"} 0
        yunikorn_scheduler_trypreemption_latency_milliseconds_bucket{le="0.1"} 0
        yunikorn_scheduler_trypreemption_latency_milliseconds_bucket{le="1"} 0
        yunikorn_scheduler_trypreemption_latency_milliseconds_bucket{le="10"} 0
        yunikorn_scheduler_trypreemption_latency_milliseconds_bucket{le="100"} 0
        yunikorn_scheduler_trypreemption_latency_milliseconds_bucket{le="1000"} 0
        yunikorn_scheduler_trypreemption_latency_milliseconds_bucket{le="+Inf"} 0
        yunikorn_scheduler_trypreemption_latency_milliseconds_sum 0
        yunikorn_scheduler_trypreemption_latency_milliseconds_count 0
    "#]]
    .assert_eq(&lines(
        &metrics,
        &["yunikorn_scheduler_container", "yunikorn_scheduler_node", "yunikorn_scheduler_try"],
    ));
}

#[test]
fn each_family_is_in_the_inventory_once() {
    let metrics = Metrics::new();
    metrics.set_queues(&[queue("root", vec![queue("root.a", vec![])])]);
    let page = metrics.registry().gather();
    let names: Vec<_> = page.iter().map(prometheus::proto::MetricFamily::name).collect();
    let mut once = names.clone();
    once.dedup();
    assert_eq!(names, once);
    for name in names {
        let name = name.replace("root_a", "<queue>").replace("root", "<queue>");
        assert!(metrics.inventory().iter().any(|family| family.name == name), "{name}");
    }
}

#[test]
fn an_application_is_counted_in_one_state_at_a_time() {
    let metrics = Metrics::new();
    metrics.application_placed();
    for [from, to] in [
        [New, Accepted],
        [Accepted, Running],
        [Running, Completing],
        [Completing, Running],
        [Running, Completing],
        [Completing, Completed],
        [Completed, Expired],
        [New, Rejected],
        [New, Accepted],
        [Accepted, Running],
    ] {
        metrics.application_moved(from, to);
    }
    expect![[r#"
        yunikorn_scheduler_application_submission_total{result="accepted"} 2
        yunikorn_scheduler_application_submission_total{result="new"} 1
        yunikorn_scheduler_application_submission_total{result="rejected"} 1
        yunikorn_scheduler_application_total{state="completed"} 1
        yunikorn_scheduler_application_total{state="completing"} 0
        yunikorn_scheduler_application_total{state="failed"} 0
        yunikorn_scheduler_application_total{state="failing"} 0
        yunikorn_scheduler_application_total{state="resuming"} 0
        yunikorn_scheduler_application_total{state="running"} 1
    "#]]
    .assert_eq(&lines(&metrics, &["yunikorn_scheduler_application"]));
    metrics.application_lost(Running);
    assert_eq!(metrics.applications[0].get(), 0);
}

#[test]
fn local_counts_arrive_by_flush_and_by_drop() {
    let metrics = Metrics::new();
    let mut counts = LocalCounts::new(Arc::clone(&metrics));
    for _ in 0..SAMPLE_EVERY * 2 {
        let _timer = counts.message(ActorKind::Queue);
    }
    counts.placed.inc();
    counts.offer_came_home(3);
    assert_eq!(metrics.actors.messages[ActorKind::Queue as usize].get(), 0);
    counts.flush();
    assert_eq!(
        metrics.actors.messages[ActorKind::Queue as usize].get(),
        u64::from(SAMPLE_EVERY * 2)
    );
    assert_eq!(metrics.actors.handler_seconds[ActorKind::Queue as usize].get_sample_count(), 2);
    assert_eq!(metrics.offer_decisions.get_sample_count(), 1);
    counts.placed.inc();
    drop(counts);
    assert_eq!(metrics.placements[0].get(), 2);
}

#[test]
fn every_hop_of_a_regular_step_is_sampled() {
    let metrics = Metrics::new();
    let mut counts = LocalCounts::new(Arc::clone(&metrics));
    for _ in 0..SAMPLE_EVERY {
        for kind in ActorKind::ALL {
            let _timer = counts.message(kind);
        }
    }
    for timed in &metrics.actors.handler_seconds {
        assert_eq!(timed.get_sample_count(), 1);
    }
}

#[test]
fn a_panic_is_counted_as_a_stop_too() {
    let metrics = Metrics::new();
    let counted = metrics.counted(ActorKind::Node);
    let outcome = std::thread::spawn(move || {
        let _counted = counted;
        panic!("as planned");
    })
    .join();
    assert!(outcome.is_err());
    drop(metrics.counted(ActorKind::Node));
    let node = ActorKind::Node as usize;
    let read = [&metrics.actors.starts, &metrics.actors.stops, &metrics.actors.panics]
        .map(|family| family[node].get());
    assert_eq!(read, [2, 2, 1]);
}

#[test]
fn queues_have_series_under_both_names() {
    let metrics = Metrics::new();
    let mut leaf = queue("root.a-b", vec![]);
    leaf.max_resource = Limits::of(&[("memory", 10), ("vcore", 4)]);
    leaf.allocated_resource = Resources::of(&[("nvidia.com/gpu", 1)]);
    leaf.max_running_apps = 3;
    leaf.applications = [(Running, 2), (Rejected, 1), (Expired, 7)].into();
    leaf.allocated_containers = 9;
    metrics.set_queues(&[queue("root", vec![leaf])]);
    expect![[r#"
        yunikorn_queue_app{queue="root.a-b",state="rejected"} 1
        yunikorn_queue_app{queue="root.a-b",state="running"} 2
        yunikorn_queue_resource{queue="root",resource="apps",state="maxRunningApps"} 0
        yunikorn_queue_resource{queue="root.a-b",resource="apps",state="maxRunningApps"} 3
        yunikorn_queue_resource{queue="root.a-b",resource="memory",state="max"} 10
        yunikorn_queue_resource{queue="root.a-b",resource="nvidia.com/gpu",state="allocated"} 1
        yunikorn_queue_resource{queue="root.a-b",resource="vcore",state="max"} 4
        yunikorn_root_a_b_queue_app{state="rejected"} 1
        yunikorn_root_a_b_queue_app{state="running"} 2
        yunikorn_root_a_b_queue_container{state="allocated"} 9
        yunikorn_root_a_b_queue_container{state="released"} 0
        yunikorn_root_a_b_queue_resource{resource="apps",state="maxRunningApps"} 3
        yunikorn_root_a_b_queue_resource{resource="memory",state="max"} 10
        yunikorn_root_a_b_queue_resource{resource="nvidia.com/gpu",state="allocated"} 1
        yunikorn_root_a_b_queue_resource{resource="vcore",state="max"} 4
        yunikorn_root_queue_resource{resource="apps",state="maxRunningApps"} 0
    "#]]
    .assert_eq(&lines(&metrics, &["yunikorn_queue", "yunikorn_root"]));
}

#[test]
fn resource_used_between_scrapes_has_a_series() {
    let metrics = Metrics::without_legacy_names();
    let mut used = UsedNames::default();
    let amount = |name| Resources::of(&[(name, 2)]);
    let delta = LedgerDelta {
        allocated: amount("vcore"),
        pending: amount("memory").into(),
        preempting: amount("pods"),
        ..LedgerDelta::default()
    };
    used.note(&delta);
    used.note(&delta.reversed());
    let mut leaf = queue("root", vec![]);
    leaf.allocated_resource = Resources::of(&[("vcore", 1)]);
    leaf.used_names = used;
    metrics.set_queues(&[leaf]);
    expect![[r#"
        yunikorn_queue_resource{queue="root",resource="apps",state="maxRunningApps"} 0
        yunikorn_queue_resource{queue="root",resource="memory",state="pending"} 0
        yunikorn_queue_resource{queue="root",resource="pods",state="preempting"} 0
        yunikorn_queue_resource{queue="root",resource="vcore",state="allocated"} 1
    "#]]
    .assert_eq(&lines(&metrics, &["yunikorn_queue"]));
}

#[test]
fn untimed_pass_counts_with_the_last_duration() {
    let metrics = Metrics::new();
    let mut counts = LocalCounts::new(Arc::clone(&metrics));
    let passes = 3 * SAMPLE_EVERY;
    for _ in 0..passes {
        counts.pass_begins();
        counts.choice_begins(Level::Queues);
        counts.choice_over(Level::Queues);
        counts.node_round_begins();
        counts.node_try_begins();
        counts.node_refused();
        counts.node_try_begins();
        counts.node_took();
        counts.node_round_over();
        counts.node_round_begins();
        counts.node_round_given_up();
        counts.pass_over();
        counts.cycle_over();
        counts.cycle_over();
    }
    counts.flush();
    let shown = lines(&metrics, &["yunikorn_scheduler_"]);
    let counts: Vec<_> =
        shown.lines().filter(|line| line.contains("_milliseconds_count")).collect();
    expect![[r#"
        yunikorn_scheduler_node_sorting_latency_milliseconds_count{level="app"} 0
        yunikorn_scheduler_node_sorting_latency_milliseconds_count{level="queue"} 183
        yunikorn_scheduler_scheduling_cycle_milliseconds_count 183
        yunikorn_scheduler_scheduling_latency_milliseconds_count 183
        yunikorn_scheduler_trynode_evaluation_milliseconds_count 183
        yunikorn_scheduler_trynode_latency_milliseconds_count 183
        yunikorn_scheduler_trypreemption_latency_milliseconds_count 0"#]]
    .assert_eq(&counts.join("\n"));
}

#[test]
fn operation_that_is_lost_is_not_counted() {
    let metrics = Metrics::new();
    let mut counts = LocalCounts::new(Arc::clone(&metrics));
    counts.pass_begins();
    counts.node_round_begins();
    counts.node_try_begins();
    drop(counts);
    let shown = lines(&metrics, &["yunikorn_scheduler_"]);
    let counted = shown.lines().filter(|line| line.contains("_milliseconds_count"));
    assert!(
        counted.clone().count() > 5 && counted.clone().all(|line| line.ends_with(" 0")),
        "{shown}"
    );
}

#[test]
fn actor_after_a_lost_one_is_a_restart() {
    let metrics = Metrics::new();
    let (a, b): (Arc<str>, Arc<str>) = (Arc::from("a"), Arc::from("b"));
    metrics.actor_named(ActorKind::Partition, &a);
    metrics.actor_lost(ActorKind::Partition, &a);
    for name in [&b, &a, &a] {
        metrics.actor_named(ActorKind::Partition, name);
        metrics.actor_named(ActorKind::Rm, name);
    }
    expect![[r#"
        monoceros_actor_restarts_total{kind="partition"} 1
        monoceros_actor_restarts_total{kind="rm"} 0
    "#]]
    .assert_eq(&lines(&metrics, &["monoceros_actor_restarts_total"]));
}

#[test]
fn process_families_appear_on_request_as_documented() {
    let metrics = Metrics::new();
    let names = |metrics: &Metrics| {
        let families = metrics.registry().gather();
        let names = families.iter().map(|family| family.name().to_owned());
        names.filter(|name| name.starts_with("process_")).collect::<Vec<_>>()
    };
    assert_eq!(names(&metrics), [""; 0]);
    let build = Build { version: "1.2.3", commit: "abc", target: "t", rustc: "1.90.0" };
    metrics.describe_process(build);
    metrics.describe_process(build);
    assert_eq!(
        lines(&metrics, &["monoceros_build_info"]),
        "monoceros_build_info{commit=\"abc\",rustc=\"1.90.0\",target=\"t\",version=\"1.2.3\"} 1\n"
    );
    if cfg!(target_os = "linux") {
        let listed = metrics.inventory().iter().map(|family| family.name);
        let listed: Vec<_> = listed.filter(|name| name.starts_with("process_")).collect();
        assert_eq!(names(&metrics), listed);
    }
}

#[test]
fn unused_resource_falls_to_zero_and_removed_queue_vanishes() {
    let metrics = Metrics::without_legacy_names();
    let mut a = queue("root.a", vec![]);
    a.guaranteed_resource = Resources::of(&[("memory", 10), ("vcore", 4)]);
    a.pending_resource = Resources::of(&[("vcore", 1)]);
    let b = queue("root.b", vec![]);
    metrics.set_queues(&[queue("root", vec![a.clone(), b])]);
    a.guaranteed_resource = Resources::of(&[("memory", 10)]);
    a.pending_resource = Resources::new();
    metrics.set_queues(&[queue("root", vec![a])]);
    expect![[r#"
        yunikorn_queue_resource{queue="root",resource="apps",state="maxRunningApps"} 0
        yunikorn_queue_resource{queue="root.a",resource="apps",state="maxRunningApps"} 0
        yunikorn_queue_resource{queue="root.a",resource="memory",state="guaranteed"} 10
        yunikorn_queue_resource{queue="root.a",resource="vcore",state="guaranteed"} 0
        yunikorn_queue_resource{queue="root.a",resource="vcore",state="pending"} 0
        yunikorn_root_a_queue_container{state="allocated"} 0
        yunikorn_root_a_queue_container{state="released"} 0
    "#]]
    .assert_eq(&lines(&metrics, &["yunikorn_queue", "yunikorn_root"]));
}

#[test]
fn a_maximum_has_a_series_while_it_is_set() {
    let metrics = Metrics::new();
    let tree = |max: &[&[(&str, i64)]; 2]| {
        let mut leaf = queue("root.a", vec![]);
        leaf.max_resource = Limits::of(max[1]);
        let mut root = queue("root", vec![leaf]);
        root.max_resource = Limits::of(max[0]);
        [root]
    };
    let shown = |metrics: &Metrics| {
        let all = lines(metrics, &["yunikorn_queue_resource", "yunikorn_root_a_queue_resource"]);
        all.lines().filter(|line| line.contains("\"max\"")).collect::<Vec<_>>().join("\n")
    };
    metrics.set_queues(&tree(&[&[("memory", 90), ("gpu", 8)], &[("memory", 10), ("gpu", 0)]]));
    metrics.set_queues(&tree(&[&[("memory", 90), ("gpu", 8)], &[("gpu", 0)]]));
    expect![[r#"
        yunikorn_queue_resource{queue="root",resource="gpu",state="max"} 8
        yunikorn_queue_resource{queue="root",resource="memory",state="max"} 90
        yunikorn_queue_resource{queue="root.a",resource="gpu",state="max"} 0
        yunikorn_root_a_queue_resource{resource="gpu",state="max"} 0"#]]
    .assert_eq(&shown(&metrics));
    // The last node with gpu was removed, and with it the amount of gpu that the leaf may use.
    metrics.set_queues(&tree(&[&[("memory", 90)], &[]]));
    expect![[r#"
        yunikorn_queue_resource{queue="root",resource="gpu",state="max"} 0
        yunikorn_queue_resource{queue="root",resource="memory",state="max"} 90"#]]
    .assert_eq(&shown(&metrics));
}

#[test]
fn queues_with_the_same_metric_name_are_summed() {
    let metrics = Metrics::new();
    let with = |path, containers| {
        let mut leaf = queue(path, vec![]);
        leaf.allocated_containers = containers;
        leaf.allocated_resource = Resources::of(&[("vcore", i64::try_from(containers).unwrap())]);
        leaf
    };
    metrics.set_queues(&[
        queue("root", vec![with("root.a-b", 1), with("root.a.b", 2)]),
        queue("root", vec![with("root.a-b", 4)]),
    ]);
    expect![[r#"
        yunikorn_queue_resource{queue="root.a-b",resource="vcore",state="allocated"} 5
        yunikorn_root_a_b_queue_container{state="allocated"} 7
        yunikorn_root_a_b_queue_container{state="released"} 0
        yunikorn_root_a_b_queue_resource{resource="vcore",state="allocated"} 7
    "#]]
    .assert_eq(&lines(
        &metrics,
        &[
            "yunikorn_root_a_b_queue_container",
            "yunikorn_root_a_b_queue_resource{resource=\"vcore\"",
            "yunikorn_queue_resource{queue=\"root.a-b\",resource=\"vcore\"",
        ],
    ));
}

#[test]
fn nodes_fall_into_ranges_that_end_with_their_upper_bound() {
    let metrics = Metrics::new();
    let loads = [(0, 1000), (100, 1000), (101, 1000), (1000, 1000), (1300, 1000), (1, 0)];
    let nodes = loads.map(|(allocated, capacity)| {
        (
            Resources::of(&[("hugepages-2Mi", capacity)]),
            Resources::of(&[("hugepages-2Mi", allocated)]),
        )
    });
    metrics.set_node_load(nodes.iter().map(|(capacity, allocated)| (capacity, allocated)));
    expect![[r#"
        yunikorn_scheduler_hugepages_2Mi_node_usage_total{range="(10%,20%]"} 1
        yunikorn_scheduler_hugepages_2Mi_node_usage_total{range="(20%,30%]"} 0
        yunikorn_scheduler_hugepages_2Mi_node_usage_total{range="(30%,40%]"} 0
        yunikorn_scheduler_hugepages_2Mi_node_usage_total{range="(40%,50%]"} 0
        yunikorn_scheduler_hugepages_2Mi_node_usage_total{range="(50%,60%]"} 0
        yunikorn_scheduler_hugepages_2Mi_node_usage_total{range="(60%,70%]"} 0
        yunikorn_scheduler_hugepages_2Mi_node_usage_total{range="(70%,80%]"} 0
        yunikorn_scheduler_hugepages_2Mi_node_usage_total{range="(80%,90%]"} 0
        yunikorn_scheduler_hugepages_2Mi_node_usage_total{range="(90%,100%]"} 2
        yunikorn_scheduler_hugepages_2Mi_node_usage_total{range="[0,10%]"} 2
    "#]]
    .assert_eq(&lines(&metrics, &["yunikorn_scheduler_hugepages"]));
    metrics.set_node_load([]);
    let after = lines(&metrics, &["yunikorn_scheduler_hugepages"]);
    assert_eq!(after.lines().filter(|line| line.ends_with(" 0")).count(), 10);
}
