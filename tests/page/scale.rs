//! Measures the page on a large cluster: 10,000 nodes, 100,000 applications, 1,000,000 pending
//! requests. `docs/performance-notebook.md` has the command and the aims.

use std::time::Duration;

use monoceros_proto::si::v1 as si;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::browser::{Chromium, Tab};
use crate::harness::programs::skipped;
use crate::harness::{Rm, Service, application, ask, node, registration};

const NODES: usize = 10_000;
const APPLICATIONS: usize = 100_000;
const PENDING: usize = 1_000_000;
/// Leaf queues, each with a user of its own.
const QUEUES: usize = 100;
/// Allocations that the maximum of each queue admits.
const RUNNING_EACH: usize = 100;
/// Items of one message.
const BATCH: usize = 1_000;
/// Visits of each view.
const ROUNDS: usize = 50;
/// Time limit until all requests are pending, sufficient for a build without optimizations.
const PATIENCE: Duration = Duration::from_secs(600);

/// Notes when parts of the overview are shown, in milliseconds since the navigation began.
const FIRST: &str = r"
    window.shown = {};
    const parts = {queues: '#queues tbody tr', waiting: '#waiting tbody tr', nodes: '#nodes canvas'};
    const look = () => {
      for (const [name, part] of Object.entries(parts)) {
        if (!(name in shown) && document.querySelector(part)) shown[name] = performance.now();
      }
      if (Object.keys(shown).length < 3) requestAnimationFrame(look);
    };
    requestAnimationFrame(look);";

/// Visits a view from the overview and returns, for each round, the milliseconds until its frame is
/// shown, and until its data is.
const VISIT: &str = r"(async (path, rounds) => {
    const until = async (is) => { while (!is()) await new Promise(then => requestAnimationFrame(then)); };
    const go = (to) => document.querySelector(`header nav a[href^='${to}'], header a.home[href='${to}']`).click();
    const times = [];
    for (let round = 0; round < rounds; round++) {
      go('/');
      await until(() => location.pathname === '/' && document.querySelector('#queues tbody tr'));
      const began = performance.now();
      go(path);
      await until(() => location.pathname === path && !document.querySelector('#totals'));
      const frame = performance.now() - began;
      await until(() => document.querySelector('main tbody tr, main .decision'));
      times.push([frame, performance.now() - began]);
    }
    return times;
  })";

/// Starts the service with that cluster, at rest.
async fn start() -> (Service, Rm) {
    let service = Service::start_with(&[("QUOTAS__BYTES", "17179869184")]);
    let leaves: Vec<_> = (0..QUEUES)
        .map(|n| {
            format!("          - {{name: q{n:02}, resources: {{max: {{vcore: {RUNNING_EACH}}}}}}}")
        })
        .collect();
    let queues = format!(
        "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: '*'\n        \
         queues:\n{}\n",
        leaves.join("\n")
    );
    let mut client = service.client().await;
    client.register_resource_manager(registration("rm", &queues)).await.unwrap();
    let rm = Rm::open(client, "rm").await;
    for first in (0..NODES).step_by(BATCH) {
        let nodes = first..first + BATCH;
        rm.send_nodes(nodes.map(|n| node(&format!("node-{n:05}"), 16_000, 64)).collect()).await;
    }
    rm.until("the nodes", |seen| seen.accepted_nodes.len() == NODES).await;
    let id = |n: usize| format!("job-{n:06}");
    for first in (0..APPLICATIONS).step_by(BATCH) {
        let new = (first..first + BATCH).map(|n| {
            let of = n % QUEUES;
            let user = format!("user-{of:02}");
            let ugi = si::UserGroupInformation { user, groups: vec![format!("group-{}", of % 10)] };
            let new = application(&id(n), &format!("root.q{of:02}"));
            si::AddApplicationRequest { ugi: Some(ugi), ..new }
        });
        rm.send_applications(new.collect(), vec![]).await;
    }
    rm.until("the applications", |seen| seen.accepted_applications.len() == APPLICATIONS).await;
    for first in (0..PENDING + QUEUES * RUNNING_EACH).step_by(BATCH) {
        let asks = (first..first + BATCH)
            .map(|n| ask(&id(n % APPLICATIONS), &format!("task-{}", n / APPLICATIONS)));
        rm.send_allocations(vec![], asks.collect(), vec![]).await;
    }
    let waits =
        format!("\"pendingResource\":{{\"memory\":{PENDING}000000000,\"vcore\":{PENDING}000}}");
    let root = "/ws/v1/partition/default/queue/root";
    let at_rest = async {
        while !service.get(root).await.contains(&waits) {
            sleep(Duration::from_millis(500)).await;
        }
    };
    timeout(PATIENCE, at_rest).await.expect("all other requests are pending");
    (service, rm)
}

/// Prints median and 99th percentile.
#[allow(clippy::print_stdout)] // It is the output of a measurement.
fn report(what: &str, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    println!("{what}: median {:.0} ms, p99 {:.0} ms", at(50), at(99));
}

/// Opens the overview in tabs of their own, without anything cached.
async fn first_paint(chromium: &Chromium, address: &str) -> Tab {
    let mut parts = [("queues", vec![]), ("waiting", vec![]), ("nodes", vec![])];
    let mut last = None;
    for _ in 0..10 {
        let tab = chromium.tab().await;
        tab.before_all(FIRST).await;
        tab.open(address).await;
        tab.until("Object.keys(shown).length === 3").await;
        let shown: Value = tab.value("shown").await;
        for (part, times) in &mut parts {
            times.push(shown[&**part].as_f64().unwrap());
        }
        last = Some(tab);
    }
    for (part, times) in parts {
        report(&format!("overview, {part}"), times);
    }
    last.expect("a tab was opened")
}

/// `MONOCEROS_SCALE=1` measures, which takes minutes and is meant for an optimized build. Otherwise
/// the test prints a line.
#[tokio::test]
async fn a_large_cluster_is_shown() {
    if std::env::var_os("MONOCEROS_SCALE").is_none() {
        return skipped("the page on a large cluster is measured only with MONOCEROS_SCALE=1");
    }
    let Some(chromium) = Chromium::start().await else { return };
    let (service, _rm) = start().await;
    let tab = first_paint(&chromium, &format!("http://{}", service.http)).await;
    tab.show().await;
    for path in ["/ui/applications", "/ui/queues", "/ui/nodes", "/ui/decisions", "/ui/events"] {
        let times: Vec<(f64, f64)> =
            tab.value(&format!("{VISIT}({}, {ROUNDS})", Value::from(path))).await;
        let (frames, data) = times.into_iter().unzip();
        report(&format!("{path}, frame"), frames);
        report(&format!("{path}, data"), data);
    }
    assert!(tab.text("#age").await.starts_with("Step "));
    chromium.end().await;
}
