//! Allocations per second through the full actor path, in process, metrics on.
//!
//! `cargo bench --bench scheduling -- [FILTER]` prints a table per shape: the median of some runs of
//! wall and CPU time from the first ask sent to the last allocation heard, so that receiving,
//! deciding and telling are all in it. See docs/performance.md for the shapes and the figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_possible_truncation)]
#![allow(clippy::cast_sign_loss, missing_docs)]

mod shim;

use std::fmt::Write as _;
use std::time::Duration;

use monoceros_actors::{Predicates, Threads};
use monoceros_proto::si::v1 as si;
use tokio::time::Instant;

use crate::shim::{Shim, cpu_time, median, resident_kib};

const RUNS: usize = 5;
const SMALL: [(&str, i64); 2] = [("memory", 10), ("vcore", 1)];

#[derive(Clone)]
struct Shape {
    name: String,
    config: String,
    nodes: usize,
    capacity: Vec<(&'static str, i64)>,
    applications: usize,
    asks: usize,
    parked: usize,
    queue: fn(usize) -> String,
    /// Predicates are answered later, so many at once; `None`: in the middle of a placement.
    in_flight: Option<usize>,
}

fn queues(policy: &str, names: &str) -> String {
    format!(
        "partitions: [{{name: default, nodesortpolicy: {{type: {policy}}}, \
         queues: [{{name: root, submitacl: '*', queues: [{names}]}}]}}]"
    )
}

/// Two queues of one application each; nodes that just hold all asks.
fn shape_u(nodes: usize) -> Shape {
    let per_node = 10_000 / i64::try_from(nodes).unwrap();
    Shape {
        name: format!("U {nodes} nodes"),
        config: queues("fair", "{name: a}, {name: b}"),
        nodes,
        capacity: vec![("memory", 10 * per_node), ("vcore", per_node)],
        applications: 2,
        asks: 10_000,
        parked: 0,
        queue: |number| ["root.a", "root.b"][number % 2].to_owned(),
        in_flight: None,
    }
}

/// One fifo leaf, many nodes.
fn shape_a(applications: usize, policy: &str) -> Shape {
    Shape {
        name: format!("A {applications} apps {policy}"),
        config: queues(policy, "{name: a}"),
        nodes: 10_000,
        capacity: vec![("memory", 50), ("vcore", 5)],
        applications,
        asks: 50_000,
        parked: 0,
        queue: |_| "root.a".to_owned(),
        in_flight: None,
    }
}

/// A hundred fair leaves under ten parents.
fn shape_b() -> Shape {
    let mut config = "partitions:\n- name: default\n  queues:\n  - name: root\n    submitacl: '*'\n    queues:\n"
        .to_owned();
    for parent in 0..10 {
        let _ = writeln!(config, "    - name: p{parent}\n      parent: true\n      queues:");
        for leaf in 0..10 {
            let _ = writeln!(
                config,
                "      - name: l{leaf}\n        properties: {{application.sort.policy: fair}}"
            );
        }
    }
    Shape {
        name: "B 100 fair leaves".into(),
        config,
        nodes: 1_000,
        capacity: vec![("memory", 500), ("vcore", 50)],
        applications: 1_000,
        asks: 50_000,
        parked: 0,
        queue: |number| format!("root.p{}.l{}", number % 10, number / 10 % 10),
        in_flight: None,
    }
}

/// One run: seconds of wall and CPU.
async fn run(shape: &Shape, threads: Threads) -> (f64, f64) {
    let shim = Shim::start(&shape.config, threads).await;
    if let Some(in_flight) = shape.in_flight {
        let control = shim.scheduler.control("bench").await.unwrap();
        control.set_predicates(Predicates::Remote { in_flight });
    }
    shim.nodes(shape.nodes, &shape.capacity).await;
    shim.applications(shape.applications, shape.queue).await;
    if shape.parked > 0 {
        // More than any node has.
        shim.asks("parked", shape.parked, shape.applications, &[("memory", 1_000_000)]).await;
    }
    shim.scheduler.settle().await;
    shim.expect(shape.asks);
    let (start, cpu) = (Instant::now(), cpu_time());
    shim.asks("ask", shape.asks, shape.applications, &SMALL).await;
    shim.all_allocated().await;
    let (wall, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
    shim.scheduler.shutdown().await;
    (wall.as_secs_f64(), cpu.as_secs_f64())
}

/// Runs a shape several times and prints its row.
async fn row(shape: &Shape, threads: Threads) {
    let (mut walls, mut cpus) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (wall, cpu) = run(shape, threads).await;
        walls.push(wall);
        cpus.push(cpu);
    }
    let asks = shape.asks as f64;
    let best = walls.iter().copied().fold(f64::INFINITY, f64::min);
    println!(
        "| {} | {threads:?} | {:.0} ({:.0}) | {:.2} |",
        shape.name,
        asks / median(&mut walls),
        asks / best,
        median(&mut cpus) * 1e6 / asks,
    );
}

async fn throughput(filter: &str) {
    let mut shapes: Vec<Shape> = [500, 1_000, 2_000, 5_000].map(shape_u).into();
    for policy in ["fair", "binpacking"] {
        shapes.extend([2, 100, 1_000, 10_000].map(|applications| shape_a(applications, policy)));
    }
    shapes.push(shape_b());
    println!("| shape | threads | allocations/s, median (best) | CPU µs per allocation |");
    println!("|---|---|---|---|");
    for shape in shapes.iter().filter(|shape| shape.name.contains(filter)) {
        for threads in [Threads::PerPartition, Threads::One] {
            row(shape, threads).await;
        }
    }
}

/// CPU per allocation while one dimension grows.
async fn growth() {
    println!("\n| growth | threads | allocations/s, median (best) | CPU µs per allocation |");
    println!("|---|---|---|---|");
    let base = |name: String, applications: usize| Shape {
        name,
        nodes: 1_000,
        capacity: vec![("memory", 1_000), ("vcore", 100)],
        asks: 100_000,
        ..shape_a(applications, "fair")
    };
    let mut shapes = Vec::new();
    for nodes in [1_000, 10_000, 100_000] {
        shapes.push(Shape { nodes, ..base(format!("{nodes} nodes"), 100) });
    }
    for parked in [10_000, 100_000, 1_000_000] {
        shapes.push(Shape { parked, ..base(format!("{parked} parked asks"), 100) });
    }
    for asks in [100, 1_000, 10_000, 100_000] {
        shapes.push(base(format!("{asks} asks per application"), 100_000 / asks));
    }
    for applications in [10, 100, 1_000, 10_000] {
        shapes.push(base(format!("{applications} applications"), applications));
    }
    for shape in &shapes {
        row(shape, Threads::PerPartition).await;
    }
}

/// Predicates that are answered later, by an RM in this process that needs no time for it: what
/// waiting for answers costs, without the wire.
async fn remote_predicates() {
    println!(
        "\n| remote predicates | threads | allocations/s, median (best) | CPU µs per allocation |"
    );
    println!("|---|---|---|---|");
    for base in [shape_u(1_000), shape_a(100, "fair"), shape_b()] {
        for in_flight in [None, Some(1), Some(8), Some(64), Some(512)] {
            let how = in_flight.map_or("local".to_owned(), |most| format!("{most} in flight"));
            let shape = Shape { name: format!("{}, {how}", base.name), in_flight, ..base.clone() };
            for threads in [Threads::PerPartition, Threads::One] {
                row(&shape, threads).await;
            }
        }
    }
}

/// One ask at a time on an idle cluster.
async fn lone_ask() {
    println!("\n| lone ask, 5,000 idle nodes | p50 µs | p99 µs |\n|---|---|---|");
    for threads in [Threads::PerPartition, Threads::One] {
        let shim = Shim::start(&queues("fair", "{name: a}"), threads).await;
        shim.nodes(5_000, &[("memory", 1_000), ("vcore", 100)]).await;
        shim.applications(1, |_| "root.a".into()).await;
        shim.scheduler.settle().await;
        let mut taken = Vec::new();
        for number in 0..5_000 {
            shim.expect(1);
            let start = Instant::now();
            shim.asks(&format!("lone-{number}"), 1, 1, &SMALL).await;
            shim.all_allocated().await;
            taken.push(start.elapsed().as_secs_f64() * 1e6);
        }
        taken.sort_by(f64::total_cmp);
        let at = |share: f64| taken[(taken.len() as f64 * share) as usize];
        println!("| {threads:?} | {:.1} | {:.1} |", at(0.5), at(0.99));
        shim.scheduler.shutdown().await;
    }
}

/// A full cluster, asks that cannot be placed, and one release.
async fn full_cluster() {
    let shim = Shim::start(&queues("fair", "{name: a}"), Threads::PerPartition).await;
    shim.nodes(100, &[("memory", 50), ("vcore", 5)]).await;
    shim.applications(1_000, |_| "root.a".into()).await;
    shim.expect(500);
    shim.asks("ask", 100_500, 1_000, &SMALL).await;
    shim.scheduler.settle().await;
    let cpu = cpu_time();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let idle = cpu_time().saturating_sub(cpu);
    let mut taken = Vec::new();
    for number in 0..200 {
        shim.expect(1);
        let release = si::AllocationRelease {
            application_id: format!("app-{:06}", number * 1_000 / 100_500),
            uuid: format!("ask-{number:07}"),
            termination_type: si::TerminationType::StoppedByRm as i32,
            ..Default::default()
        };
        let allocations_to_release = vec![release];
        let releases =
            Some(si::AllocationReleasesRequest { allocations_to_release, ..Default::default() });
        let request =
            si::AllocationRequest { rm_id: "bench".into(), releases, ..Default::default() };
        let start = Instant::now();
        shim.scheduler.update_allocation(request).await.unwrap();
        shim.all_allocated().await;
        taken.push(start.elapsed().as_secs_f64() * 1e6);
    }
    println!("\n| full cluster, 100,000 asks parked in 1,000 applications | |\n|---|---|");
    println!("| CPU in 5 idle seconds | {} ms |", idle.as_millis());
    println!("| release to reuse, median | {:.0} µs |", median(&mut taken));
    println!("| release to reuse, worst of 200 | {:.0} µs |", taken[taken.len() - 1]);
    shim.scheduler.shutdown().await;
}

/// Bytes per pending ask and per node.
async fn memory() {
    let shim = Shim::start(&queues("fair", "{name: a}"), Threads::PerPartition).await;
    shim.applications(100, |_| "root.a".into()).await;
    shim.scheduler.settle().await;
    let (nodes, asks) = (50_000, 500_000);
    let before = resident_kib();
    shim.nodes(nodes, &[("memory", 5), ("vcore", 5), ("pods", 110)]).await;
    shim.scheduler.settle().await;
    let with_nodes = resident_kib();
    shim.asks("ask", asks, 100, &SMALL).await;
    shim.scheduler.settle().await;
    let with_asks = resident_kib();
    println!("\n| memory | bytes |\n|---|---|");
    println!("| per node | {} |", (with_nodes - before) * 1024 / nodes as u64);
    println!("| per pending ask | {} |", (with_asks - with_nodes) * 1024 / asks as u64);
    shim.scheduler.shutdown().await;
}

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let wants = |name: &str| filter.is_empty() || name.starts_with(filter.as_str());
        if filter.is_empty() || filter.starts_with(['U', 'A', 'B']) {
            throughput(&filter).await;
        }
        if wants("lone") {
            lone_ask().await;
        }
        if wants("full") {
            full_cluster().await;
        }
        if wants("memory") {
            memory().await;
        }
        if wants("remote") {
            remote_predicates().await;
        }
        if wants("growth") {
            growth().await;
        }
    });
}
