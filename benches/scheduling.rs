//! Allocations per second through the full actor path, in process, metrics on.
//!
//! `cargo bench --bench scheduling -- [FILTER]` prints a table; `shapes` has a row for each shape: the median of some runs of
//! wall and CPU time from the first ask sent to the last allocation heard, so that receiving,
//! deciding and telling are all in it. See docs/performance.md for the shapes and the figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_possible_truncation)]
#![allow(clippy::cast_sign_loss, missing_docs)]

mod allocator;
mod shapes;
mod shim;

use std::time::Duration;

use monoceros_actors::{Predicates, Scheduler, Threads};
use monoceros_proto::si::v1 as si;
use tokio::time::Instant;

use crate::shapes::{
    KEPT, SMALL, Shape, queues, shape_a, shape_b, shape_quota_fair, shape_small, shape_u,
};
use crate::shim::{
    Shim, ask_requests, context_switches, cpu_time, median, peak_kib, resident_kib, resource,
};

const RUNS: usize = 5;

/// So few decisions that memory for them has been touched before long, as it has after a while.
const FEW: usize = 256;

/// Pairs of runs, for what costs little.
const PAIRS: usize = 31;

/// One run: seconds of wall and CPU.
async fn run(shape: &Shape, threads: Threads) -> (f64, f64) {
    let builder = Scheduler::builder().threads(threads).decisions(shape.kept);
    let shim = Shim::start_with(builder, &shape.config).await;
    if let Some(in_flight) = shape.in_flight {
        let control = shim.scheduler.control("bench").await.unwrap();
        control.set_predicates(Predicates::Remote { in_flight, holds: false });
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

/// What some runs of a shape took.
struct Figures {
    /// Allocations per second.
    median: f64,
    best: f64,
    /// CPU of all threads per allocation.
    cpu_us: f64,
}

impl Figures {
    /// As the columns of a table.
    fn columns(&self) -> String {
        format!("{:.0} ({:.0}) | {:.2}", self.median, self.best, self.cpu_us)
    }
}

/// Runs something several times that makes so many allocations, and takes seconds of wall and CPU.
async fn several(allocations: usize, run: impl AsyncFn() -> (f64, f64)) -> Figures {
    let (mut walls, mut cpus) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (wall, cpu) = run().await;
        walls.push(wall);
        cpus.push(cpu);
    }
    let allocations = allocations as f64;
    let best = walls.iter().copied().fold(f64::INFINITY, f64::min);
    Figures {
        median: allocations / median(&mut walls),
        best: allocations / best,
        cpu_us: median(&mut cpus) * 1e6 / allocations,
    }
}

/// Runs a shape several times.
async fn figures(shape: &Shape, threads: Threads) -> Figures {
    several(shape.asks, async || run(shape, threads).await).await
}

/// Prints the row of a shape.
async fn row(shape: &Shape, threads: Threads) {
    println!("| {} | {threads:?} | {} |", shape.name, figures(shape, threads).await.columns());
}

async fn throughput(filter: &str) {
    let mut shapes: Vec<Shape> = [500, 1_000, 2_000, 5_000].map(shape_u).into();
    for policy in ["fair", "binpacking"] {
        shapes.extend([2, 100, 1_000, 10_000].map(|applications| shape_a(applications, policy)));
    }
    shapes.extend([shape_b(), shape_small()]);
    println!(
        "| shape | own threads, allocations/s | CPU µs each | one thread, allocations/s | CPU µs each | reference |"
    );
    println!("|---|---|---|---|---|---|");
    for shape in shapes.iter().filter(|shape| shape.name.contains(filter)) {
        let own = figures(shape, Threads::PerPartition).await;
        let one = figures(shape, Threads::One).await;
        let reference = if shape.reference.is_empty() { "–" } else { shape.reference };
        println!("| {} | {} | {} | {reference} |", shape.name, own.columns(), one.columns());
    }
}

/// What a quota-fair engine for batch jobs measures itself by, on one thread, as it does: first fills,
/// and a few places for many who wait.
async fn quota_fair() {
    println!("\n| one thread | allocations/s, median (best) | CPU µs each | that engine |");
    println!("|---|---|---|---|");
    for (queues, nodes, asks, reference) in
        [(10, 1_000, 32_000, "7,100"), (100, 5_000, 100_000, "6,200")]
    {
        let shape = shape_quota_fair(queues, nodes, asks, reference);
        let columns = figures(&shape, Threads::One).await.columns();
        println!("| {} | {columns} | {reference} |", shape.name);
    }
    let backlog = several(3_200, async || run_backlog(320_000, 3_200).await).await;
    println!("| 3,200 places for 320,000 asks that wait | {} | 1,700 |", backlog.columns());
}

/// So many asks wait for nodes; then those come that have so many places. From the first node to the last
/// allocation.
async fn run_backlog(asks: usize, places: usize) -> (f64, f64) {
    let shape = shape_quota_fair(10, 100, asks, "");
    let shim = Shim::start(&shape.config, Threads::One).await;
    // One that is full, so that they have been tried.
    shim.nodes(1, &[("memory", 1), ("vcore", 1)]).await;
    shim.applications(shape.applications, shape.queue).await;
    shim.asks("ask", asks, shape.applications, &SMALL).await;
    shim.scheduler.settle().await;
    shim.expect(places);
    let (start, cpu) = (Instant::now(), cpu_time());
    let per_node = i64::try_from(places / 100).unwrap();
    shim.nodes_named("more", 100, &[("memory", 10 * per_node), ("vcore", per_node)]).await;
    shim.all_allocated().await;
    let (wall, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
    shim.scheduler.shutdown().await;
    (wall.as_secs_f64(), cpu.as_secs_f64())
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

/// What it costs to keep decisions: pairs of runs, one without and one with, in turns, since the
/// machine is never as quiet as what is measured is small.
async fn decisions() {
    println!("\n| decisions kept | threads | CPU µs without | with | median of the pairs |");
    println!("|---|---|---|---|---|");
    for base in [shape_u(1_000), shape_a(100, "fair"), shape_b()] {
        for kept in [FEW, KEPT] {
            for threads in [Threads::One, Threads::PerPartition] {
                let (mut without, mut with, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
                for _ in 0..PAIRS {
                    let none = run(&Shape { kept: 0, ..base.clone() }, threads).await.1;
                    let some = run(&Shape { kept, ..base.clone() }, threads).await.1;
                    without.push(none * 1e6 / base.asks as f64);
                    with.push(some * 1e6 / base.asks as f64);
                    ratios.push(some / none);
                }
                println!(
                    "| {}, {kept} | {threads:?} | {:.3} | {:.3} | {:+.1} % |",
                    base.name,
                    median(&mut without),
                    median(&mut with),
                    (median(&mut ratios) - 1.0) * 100.0,
                );
            }
        }
    }
}

/// Ten thousand asks that keep apart on as many nodes, each beside the same asks without a constraint.
/// With bin packing the nodes that are excluded are those that a search comes to first.
async fn keep_apart() {
    println!(
        "\n| 10,000 asks over 10,000 nodes | allocations/s, median (best) | CPU µs per allocation |"
    );
    println!("|---|---|---|");
    for policy in ["fair", "binpacking"] {
        for (how, max_cardinality) in [("free", 0), ("one per node", 1), ("two per node", 2)] {
            let figures = several(10_000, async || run_apart(policy, max_cardinality).await).await;
            println!("| {policy}, {how} | {} |", figures.columns());
        }
    }
}

/// One run of asks of which so many may be on a node; 0: any number, and there is no constraint.
async fn run_apart(policy: &str, max_cardinality: i32) -> (f64, f64) {
    let shim = Shim::start(&queues(policy, "{name: a}"), Threads::PerPartition).await;
    shim.nodes(10_000, &[("memory", 50), ("vcore", 5)]).await;
    shim.applications(1, |_| "root.a".into()).await;
    shim.scheduler.settle().await;
    shim.expect(10_000);
    let web = si::AffinityTargetExpression {
        target_key: "app".into(),
        target_values: vec!["web".into()],
        ..Default::default()
    };
    let near = si::AllocationAffinityConstraints {
        scope: "hostname".into(),
        target_expressions: vec![web],
        max_cardinality,
        required: true,
        ..Default::default()
    };
    let simple = si::SimplePlacementConstraint {
        allocation_affinity_attribute: Some(near),
        ..Default::default()
    };
    let kind = si::placement_constraint::Constraint::SimpleConstraint(simple);
    let constraint = si::PlacementConstraint { constraint: Some(kind) };
    let (start, cpu) = (Instant::now(), cpu_time());
    for mut request in ask_requests("ask", 10_000, 1, &SMALL) {
        for ask in &mut request.asks {
            ask.tags.insert("app".into(), "web".into());
            ask.placement_constraint = (max_cardinality > 0).then(|| constraint.clone());
        }
        shim.scheduler.update_allocation(request).await.unwrap();
    }
    shim.all_allocated().await;
    let (wall, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
    shim.scheduler.shutdown().await;
    (wall.as_secs_f64(), cpu.as_secs_f64())
}

/// A thousand gangs of eight over 200 racks of 50 nodes, with and without a topology.
async fn racks() {
    println!(
        "\n| 1,000 gangs of 8 over 200 racks | allocations/s, median (best) | CPU µs per allocation |"
    );
    println!("|---|---|---|");
    for policy in ["fair", "binpacking"] {
        for (how, required, preferred) in [
            ("free", "", &[][..]),
            ("one rack required", "rack", &[]),
            ("one rack preferred", "", &["rack"]),
            ("one rack required, one host preferred", "rack", &["host"]),
        ] {
            let figures =
                several(8_000, async || run_racks(policy, required, preferred).await).await;
            println!("| {policy}, {how} | {} |", figures.columns());
        }
    }
}

/// One run from the first request of a gang to the last allocation.
async fn run_racks(policy: &str, required: &str, preferred: &[&str]) -> (f64, f64) {
    let shim = Shim::start(&queues(policy, "{name: a}"), Threads::PerPartition).await;
    for rack in 0..200 {
        let node = |number: usize| si::NodeInfo {
            node_id: format!("node-{rack:03}-{number:02}"),
            action: si::node_info::ActionFromRm::Create as i32,
            attributes: [
                ("rack".to_owned(), format!("r{rack:03}")),
                ("host".to_owned(), format!("h{rack:03}-{number:02}")),
            ]
            .into(),
            schedulable_resource: Some(resource(&[("memory", 50), ("vcore", 5)])),
            ..Default::default()
        };
        let nodes = (0..50).map(node).collect();
        let request = si::NodeRequest { rm_id: "bench".into(), nodes, ..Default::default() };
        shim.scheduler.update_node(request).await.unwrap();
    }
    let topology = si::Topology {
        required: required.to_owned(),
        preferred: preferred.iter().map(|&key| key.to_owned()).collect(),
    };
    let gang = |number: usize| si::AddApplicationRequest {
        application_id: format!("app-{number:06}"),
        queue_name: "root.a".into(),
        ugi: Some(si::UserGroupInformation { user: "bench".into(), groups: vec![] }),
        // No size: the gang is decided when its requests are there.
        task_groups: vec![si::TaskGroup {
            name: "w".into(),
            min_members: 8,
            topology: Some(topology.clone()),
            ..Default::default()
        }],
        ..Default::default()
    };
    let new = (0..1_000).map(gang).collect();
    let request = si::ApplicationRequest { rm_id: "bench".into(), new, ..Default::default() };
    shim.scheduler.update_application(request).await.unwrap();
    shim.scheduler.settle().await;
    shim.expect(8_000);
    let mut requests: Vec<_> = ask_requests("ask", 8_000, 1_000, &SMALL).collect();
    for request in &mut requests {
        for ask in &mut request.asks {
            ask.task_group_name = "w".into();
        }
    }
    let (start, cpu) = (Instant::now(), cpu_time());
    for request in requests {
        shim.scheduler.update_allocation(request).await.unwrap();
    }
    shim.all_allocated().await;
    let (wall, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
    shim.scheduler.shutdown().await;
    (wall.as_secs_f64(), cpu.as_secs_f64())
}

/// One ask at a time on an idle cluster, with threads that sleep at once and such that look out for more.
async fn lone_ask() {
    println!(
        "\n| lone ask, 5,000 idle nodes | p50 µs | p99 µs | context switches | CPU µs |\n|---|---|---|---|---|"
    );
    for (threads, spin_us) in [
        (Threads::PerPartition, 0),
        (Threads::PerPartition, 50),
        (Threads::PerPartition, 200),
        (Threads::One, 0),
        (Threads::One, 200),
    ] {
        let spin = Duration::from_micros(spin_us);
        let builder = Scheduler::builder().threads(threads).spin(spin);
        let shim = Shim::start_with(builder, &queues("fair", "{name: a}")).await;
        shim.nodes(5_000, &[("memory", 1_000), ("vcore", 100)]).await;
        shim.applications(1, |_| "root.a".into()).await;
        shim.scheduler.settle().await;
        let asks = 5_000;
        let mut taken = Vec::new();
        let (switches, cpu) = (context_switches(), cpu_time());
        for number in 0..asks {
            shim.expect(1);
            let start = Instant::now();
            shim.asks(&format!("lone-{number}"), 1, 1, &SMALL).await;
            shim.all_allocated().await;
            taken.push(start.elapsed().as_secs_f64() * 1e6);
        }
        let cpu_us = cpu_time().saturating_sub(cpu).as_secs_f64() * 1e6 / asks as f64;
        let switches = (context_switches() - switches) as f64 / asks as f64;
        taken.sort_by(f64::total_cmp);
        let at = |share: f64| taken[(taken.len() as f64 * share) as usize];
        let how = match (threads, spin_us) {
            (Threads::PerPartition, 0) => "own threads".to_owned(),
            (Threads::PerPartition, _) => format!("own threads, spin {spin_us} µs"),
            (Threads::One, 0) => "one thread".to_owned(),
            (Threads::One, _) => format!("one thread, spin {spin_us} µs"),
        };
        println!("| {how} | {:.1} | {:.1} | {switches:.1} | {cpu_us:.0} |", at(0.5), at(0.99));
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
    // In this time the resource manager is told for which requests more machines would help.
    let cpu = cpu_time();
    tokio::time::sleep(Duration::from_millis(2_000)).await;
    let telling = cpu_time().saturating_sub(cpu);
    assert_eq!(shim.told_waiting(), 100_000);
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
    println!("| CPU in the two seconds after they were parked | {} µs |", telling.as_micros());
    println!("| CPU in 5 idle seconds | {} ms |", idle.as_millis());
    println!("| release to reuse, median | {:.0} µs |", median(&mut taken));
    println!("| release to reuse, worst of 200 | {:.0} µs |", taken[taken.len() - 1]);
    shim.scheduler.shutdown().await;
}

/// Bytes per allocation that runs, with its ask.
async fn running_allocation() -> u64 {
    let shim = Shim::start(&queues("fair", "{name: a}"), Threads::PerPartition).await;
    let running = 500_000;
    shim.nodes(1_000, &[("memory", 5_000), ("vcore", 500)]).await;
    shim.applications(100, |_| "root.a".into()).await;
    shim.scheduler.settle().await;
    let before = resident_kib();
    shim.expect(running);
    shim.asks("ask", running, 100, &SMALL).await;
    shim.all_allocated().await;
    shim.scheduler.settle().await;
    let bytes = (resident_kib() - before) * 1024 / running as u64;
    shim.scheduler.shutdown().await;
    bytes
}

/// Bytes per pending ask and per node, and what stays resident after all of them have gone.
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
    println!("| per running allocation | {} |", running_allocation().await);
    let resident = |when: &str| println!("| {when} | {} MiB |", resident_kib() / 1024);
    println!("\n| {nodes} nodes, {asks} asks | resident |\n|---|---|");
    println!("| before | {} MiB |", before / 1024);
    resident("all asks wait");
    shim.remove_applications(100).await;
    shim.remove_nodes(nodes).await;
    shim.scheduler.settle().await;
    resident("all is gone");
    // Three rounds in which every ask is placed, and everything is released.
    for _ in 0..3 {
        shim.nodes(10_000, &[("memory", 500), ("vcore", 500), ("pods", 110)]).await;
        shim.applications(100, |_| "root.a".into()).await;
        shim.expect(asks);
        shim.asks("ask", asks, 100, &SMALL).await;
        shim.all_allocated().await;
        shim.scheduler.settle().await;
        resident("10,000 nodes, all asks placed");
        shim.remove_applications(100).await;
        shim.remove_nodes(10_000).await;
        shim.scheduler.settle().await;
        resident("all is gone");
    }
    // Memory allocators give pages back after a delay of up to ten seconds, when something is allocated.
    for _ in 0..15 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        shim.scheduler.settle().await;
    }
    resident("15 seconds later");
    shim.scheduler.shutdown().await;
    resident("the scheduler is gone");
    println!("| at most | {} MiB |", peak_kib() / 1024);
}

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let wants = |name: &str| filter.is_empty() || name.starts_with(filter.as_str());
        if wants("shapes") {
            throughput("").await;
        } else if filter.starts_with(['U', 'A', 'B', '5']) {
            throughput(&filter).await;
        }
        if wants("quota-fair") {
            quota_fair().await;
        }
        if wants("lone") {
            lone_ask().await;
        }
        if wants("apart") {
            keep_apart().await;
        }
        if wants("racks") {
            racks().await;
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
        if wants("decisions") {
            decisions().await;
        }
        if wants("growth") {
            growth().await;
        }
    });
}
