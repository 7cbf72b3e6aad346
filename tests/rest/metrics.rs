//! Metric families that YuniKorn's dashboards know, on the page of a working service, with their
//! types, labels and buckets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::harness::{PATIENCE, Rm, Service, application, ask};

const SECONDS: [&str; 9] = ["0.0001", "0.001", "0.01", "0.1", "1", "10", "100", "1000", "+Inf"];
const STATES: [&str; 9] = [
    "new",
    "accepted",
    "running",
    "resuming",
    "failing",
    "completing",
    "completed",
    "failed",
    "rejected",
];
const RANGES: [&str; 10] = [
    "[0,10%]",
    "(10%,20%]",
    "(20%,30%]",
    "(30%,40%]",
    "(40%,50%]",
    "(50%,60%]",
    "(60%,70%]",
    "(70%,80%]",
    "(80%,90%]",
    "(90%,100%]",
];

/// A family: name, type, and labels with the values that are always there, and the optional ones.
struct Row {
    name: &'static str,
    kind: &'static str,
    labels: &'static [(&'static str, &'static [&'static str], &'static [&'static str])],
    /// A part of its HELP text.
    says: &'static str,
}

/// A label whose values are names.
const ANY: &[&str] = &["*"];

const fn row(
    name: &'static str,
    kind: &'static str,
    labels: &'static [(&'static str, &'static [&'static str], &'static [&'static str])],
    says: &'static str,
) -> Row {
    Row { name, kind, labels, says }
}

const LE: (&str, &[&str], &[&str]) = ("le", &SECONDS, &[]);
const RESOURCE_STATES: &[&str] =
    &["guaranteed", "max", "allocated", "pending", "preempting", "maxRunningApps"];

const ROWS: [Row; 28] = [
    row(
        "yunikorn_scheduler_container_allocation_attempt_total",
        "counter",
        &[("state", &["allocated", "released", "rejected", "error"], &[])],
        "releases sent",
    ),
    row(
        "yunikorn_scheduler_application_submission_total",
        "counter",
        &[("result", &["new", "accepted", "rejected"], &[])],
        "placed in a queue",
    ),
    row(
        "yunikorn_scheduler_application_total",
        "gauge",
        &[("state", &["running", "resuming", "failing", "completing", "completed", "failed"], &[])],
        "in a state",
    ),
    row(
        "yunikorn_scheduler_node",
        "gauge",
        &[("state", &["active", "draining", "failed", "decommissioned", "unhealthy"], &[])],
        "drain",
    ),
    row(
        "yunikorn_scheduler_vcore_node_usage_total",
        "gauge",
        &[("range", &RANGES, &[])],
        "how much",
    ),
    row(
        "yunikorn_scheduler_memory_node_usage_total",
        "gauge",
        &[("range", &RANGES, &[])],
        "how much",
    ),
    row(
        "yunikorn_scheduler_scheduling_latency_milliseconds",
        "histogram",
        &[LE],
        "a pass over a partition",
    ),
    row(
        "yunikorn_scheduler_scheduling_cycle_milliseconds",
        "histogram",
        &[LE],
        "until the next may begin",
    ),
    row(
        "yunikorn_scheduler_node_sorting_latency_milliseconds",
        "histogram",
        &[("level", &["app", "queue"], &[]), LE],
        "who comes first",
    ),
    row(
        "yunikorn_scheduler_trynode_latency_milliseconds",
        "histogram",
        &[LE],
        "successful attempt at a node",
    ),
    row(
        "yunikorn_scheduler_trynode_evaluation_milliseconds",
        "histogram",
        &[LE],
        "for one request",
    ),
    row(
        "yunikorn_scheduler_trypreemption_latency_milliseconds",
        "histogram",
        &[LE],
        "look for victims",
    ),
    row(
        "yunikorn_queue_app",
        "gauge",
        &[("queue", ANY, &[]), ("state", &["running"], &STATES)],
        "in a state",
    ),
    row(
        "yunikorn_queue_app_total",
        "counter",
        &[("queue", ANY, &[]), ("state", &["rejected"], &["completed", "failed"])],
        "ended",
    ),
    row(
        "yunikorn_queue_resource",
        "gauge",
        &[
            ("queue", ANY, &[]),
            ("resource", ANY, &[]),
            ("state", &["allocated", "maxRunningApps"], RESOURCE_STATES),
        ],
        "quotas",
    ),
    row(
        "yunikorn_root_a_queue_container",
        "counter",
        &[("state", &["allocated", "released"], &[])],
        "gave back",
    ),
    row("yunikorn_root_a_queue_app", "gauge", &[("state", &["running"], &STATES)], "in a state"),
    row(
        "yunikorn_root_a_queue_resource",
        "gauge",
        &[("resource", ANY, &[]), ("state", &["allocated"], RESOURCE_STATES)],
        "quotas",
    ),
    row("yunikorn_event_total_created", "gauge", &[], "made"),
    row("yunikorn_event_total_channeled", "gauge", &[], "handed out"),
    row("yunikorn_event_total_not_channeled", "gauge", &[], "lost"),
    row("yunikorn_event_total_processed", "gauge", &[], "ring"),
    row("yunikorn_event_total_stored", "gauge", &[], "kept for their RM"),
    row("yunikorn_event_total_not_stored", "gauge", &[], "too many"),
    row("yunikorn_event_total_collected", "gauge", &[], "taken out"),
    row(
        "monoceros_build_info",
        "gauge",
        &[
            ("version", &[env!("CARGO_PKG_VERSION")], &[]),
            ("commit", ANY, &[]),
            ("target", ANY, &[]),
            ("rustc", ANY, &[]),
        ],
        "which build",
    ),
    row(
        "monoceros_actor_mailbox_depth",
        "gauge",
        &[("kind", &["partition", "rm", "rm_proxy"], &["queue", "application", "node"])],
        "not handled",
    ),
    row(
        "monoceros_actor_restarts_total",
        "counter",
        &[("kind", &["partition", "rm"], &[])],
        "lost",
    ),
];

/// A parsed page of metrics.
struct Page {
    types: BTreeMap<String, String>,
    help: BTreeMap<String, String>,
    /// Each series with its labels and its value.
    series: Vec<(String, BTreeMap<String, String>, f64)>,
}

impl Page {
    /// Parses the page. Fails at anything that the format does not allow.
    fn parse(text: &str) -> Self {
        let mut page = Self { types: BTreeMap::new(), help: BTreeMap::new(), series: Vec::new() };
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                assert!(page.help.insert(name.to_owned(), help.to_owned()).is_none(), "{line}");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(page.types.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
            } else {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let (name, inside) = series.split_once('{').unwrap_or((series, "}"));
                let inside = inside.strip_suffix('}').unwrap();
                let pairs = inside.split("\",").filter(|pair| !pair.is_empty()).map(|pair| {
                    let (label, value) = pair.split_once("=\"").unwrap();
                    (label.to_owned(), value.trim_end_matches('"').to_owned())
                });
                page.series.push((name.to_owned(), pairs.collect(), value.parse().unwrap()));
            }
        }
        page
    }

    /// Returns the labels of a family's series with all their values.
    fn labels(&self, name: &str, kind: &str) -> BTreeMap<&str, BTreeSet<&str>> {
        let member = if kind == "histogram" { format!("{name}_bucket") } else { name.to_owned() };
        let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let of_family = self.series.iter().filter(|(series, ..)| *series == member);
        for (label, value) in of_family.flat_map(|(_, labels, _)| labels) {
            found.entry(label).or_default().insert(value);
        }
        found
    }

    /// Returns the sum of the series with this name.
    fn sum(&self, name: &str) -> f64 {
        self.series.iter().filter(|(series, ..)| series == name).map(|(.., value)| value).sum()
    }

    /// Returns missing and unexpected parts of a family.
    fn faults(&self, row: &Row) -> Vec<String> {
        let name = row.name;
        if self.types.get(name).map(String::as_str) != Some(row.kind) {
            return vec![format!("{name} is {:?}", self.types.get(name))];
        }
        let mut faults = Vec::new();
        if !self.help[name].contains(row.says) {
            faults.push(format!("{name} says {}", self.help[name]));
        }
        let labels = self.labels(name, row.kind);
        let wanted: BTreeSet<&str> = row.labels.iter().map(|(label, ..)| *label).collect();
        if labels.keys().copied().collect::<BTreeSet<_>>() != wanted {
            faults.push(format!("{name} has labels {labels:?}"));
        }
        for (label, always, maybe) in row.labels.iter().filter(|(_, always, _)| *always != ANY) {
            let shown = labels.get(label).cloned().unwrap_or_default();
            let missing: Vec<_> = always.iter().filter(|value| !shown.contains(**value)).collect();
            let known = |value: &&&str| always.contains(*value) || maybe.contains(*value);
            let unknown: Vec<_> = shown.iter().filter(|value| !known(value)).collect();
            if !missing.is_empty() || !unknown.is_empty() {
                faults.push(format!("{label} of {name} is never {missing:?}, but {unknown:?}"));
            }
        }
        faults
    }
}

#[tokio::test]
async fn known_families_have_their_types_and_labels() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    rm.send_allocations(vec![], vec![ask("app", "k")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
    rm.send_applications(vec![application("refused", "root.nowhere")], vec![]).await;
    let complete = async {
        loop {
            let page = Page::parse(&service.get("/ws/v1/metrics").await);
            let faults: Vec<String> = ROWS.iter().flat_map(|row| page.faults(row)).collect();
            if faults.is_empty() {
                return (page, faults);
            }
            sleep(Duration::from_millis(100)).await;
        }
    };
    let (page, _) = timeout(PATIENCE, complete).await.unwrap();
    // Durations were recorded in the right families.
    for name in [
        "scheduling_latency",
        "scheduling_cycle",
        "node_sorting_latency",
        "trynode_latency",
        "trynode_evaluation",
    ] {
        let family = format!("yunikorn_scheduler_{name}_milliseconds");
        let (count, sum) =
            (page.sum(&format!("{family}_count")), page.sum(&format!("{family}_sum")));
        assert!(count >= 1.0 && sum > 0.0, "{family}: {count}, {sum}");
    }
}

/// Series that are only shown if they apply.
#[tokio::test]
async fn process_metrics_exist_without_runtime_ones() {
    let service = Service::start();
    let page = Page::parse(&service.get("/ws/v1/metrics").await);
    let faked = ["go_", "promhttp_", "yunikorn_runtime"];
    assert!(page.types.keys().all(|name| faked.iter().all(|it| !name.starts_with(it))));
    assert_eq!(page.sum("monoceros_build_info").to_string(), "1");
    if cfg!(target_os = "linux") {
        let descriptors = service.open_descriptors();
        let near = |value: f64, to: usize| (value - to as f64).abs() < 1.0 + 0.5 * to as f64;
        assert!(near(page.sum("process_open_fds"), descriptors), "{descriptors}");
        assert!(near(page.sum("process_resident_memory_bytes"), service.memory()));
        assert!(page.sum("process_threads") >= 3.0);
        assert!(page.sum("process_start_time_seconds") > 1.6e9);
        for name in ["process_cpu_seconds_total", "process_max_fds", "process_virtual_memory_bytes"]
        {
            assert!(page.types.contains_key(name), "{name}");
        }
    }
}

#[tokio::test]
async fn legacy_families_can_be_switched_off() {
    for (setting, are_there) in [("true", true), ("false", false)] {
        let service = Service::start_with(&[("metrics.legacy_queue_names", setting)]);
        let _rm = Rm::register(&service, "rm").await.with_application("app", "root.a").await;
        let page = service.get("/ws/v1/metrics").await;
        assert!(page.contains("yunikorn_queue_app{queue=\"root.a\""), "{page}");
        assert_eq!(page.contains("yunikorn_root_a_queue_app{"), are_there, "{page}");
    }
}
