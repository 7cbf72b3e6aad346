//! Cost of features, each compared with the same asks without it: events, recorded decisions, run
//! times, asynchronous predicates, anti-affinity, and gangs with a topology.
//!
//! `cargo bench --bench features -- [FILTER]` prints a table for each. See docs/performance.md for
//! the figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_possible_truncation)]
#![allow(clippy::cast_sign_loss, missing_docs)]

mod aims;
mod allocator;
mod runs;
mod shapes;
mod shim;

use monoceros_actors::runtimes::RunTimeSettings;
use monoceros_actors::{Scheduler, Threads};
use monoceros_proto::si::v1 as si;
use tokio::time::Instant;

use crate::aims::at_most;
use crate::runs::{figures, in_turns, run};
use crate::shapes::{KEPT, SMALL, Shape, queues, shape_a, shape_b, shape_u};
use crate::shim::{Shim, ask_requests, cpu_time, median, resource};

/// A small number of recorded decisions, so that their memory is soon in use, as it is in a long
/// run.
const FEW: usize = 256;

/// Number of pairs of runs, for small costs.
const PAIRS: usize = 31;

/// Predicates answered asynchronously, by an RM in this process that takes no time: the cost of
/// waiting for answers, without the network.
async fn remote_predicates() {
    println!(
        "\n| remote predicates | own threads: CPU µs each | allocations/s | one thread: CPU µs each | allocations/s | aim |"
    );
    println!("|---|---|---|---|---|---|");
    for base in [shape_u(1_000), shape_a(100, "fair"), shape_b()] {
        for in_flight in [None, Some(1), Some(8), Some(64), Some(512)] {
            let how = in_flight.map_or("local".to_owned(), |most| format!("{most} in flight"));
            let shape = Shape { in_flight, ..base.clone() };
            let own = figures(&shape, Threads::PerPartition).await;
            let one = figures(&shape, Threads::One).await;
            // The default, which should not limit an RM that answers in time.
            let aim = if in_flight == Some(64) { 100_000.0 } else { 0.0 };
            let columns = [own, one].map(|it| it.columns_beside(aim, f64::INFINITY));
            let aim = if aim > 0.0 { "100,000" } else { "–" };
            println!("| {}, {how} | {} | {aim} |", base.name, columns.join(" | "));
        }
    }
}

/// Prints the row of a small cost of shapes without and with the feature. `aim` is in percent.
async fn pairs(name: &str, (without, with): (&Shape, &Shape), aim: f64) {
    let cpu =
        async |has_it: bool, threads| run(if has_it { with } else { without }, threads).await.1;
    pairs_of(name, without.asks, cpu, aim).await;
}

/// Prints the row of a small cost: pairs of runs, without and with the feature, in turns, because
/// the noise of the machine exceeds the difference. `cpu` makes a run of this many allocations, and
/// returns its seconds of CPU. `aim` is in percent.
async fn pairs_of(
    name: &str,
    allocations: usize,
    cpu: impl AsyncFn(bool, Threads) -> f64,
    aim: f64,
) {
    for (how, threads) in [("one", Threads::One), ("own", Threads::PerPartition)] {
        let (mut nones, mut somes, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            let none = cpu(false, threads).await;
            let some = cpu(true, threads).await;
            nones.push(none * 1e6 / allocations as f64);
            somes.push(some * 1e6 / allocations as f64);
            ratios.push(some / none);
        }
        println!(
            "| {name} | {how} | {:.2} | {:.2} | {} | ≤ {aim} |",
            median(&mut nones),
            median(&mut somes),
            at_most((median(&mut ratios) - 1.0) * 100.0, aim, 1),
        );
    }
}

/// Measures the cost of recording decisions.
async fn decisions() {
    println!(
        "\n| decisions kept | threads | CPU µs without | with | more, of the pairs, % | aim |"
    );
    println!("|---|---|---|---|---|---|");
    for base in [shape_u(1_000), shape_a(100, "fair"), shape_b()] {
        for kept in [FEW, KEPT] {
            let name = format!("{}, {kept}", base.name);
            let (without, with) =
                (Shape { kept: 0, ..base.clone() }, Shape { kept, ..base.clone() });
            pairs(&name, (&without, &with), 3.0).await;
        }
    }
}

/// Measures the cost of recording events, and of sending them.
async fn events() {
    println!("\n| events | threads | CPU µs without | with | more, of the pairs, % | aim |");
    println!("|---|---|---|---|---|---|");
    for base in [shape_u(1_000), shape_a(100, "fair"), shape_b()] {
        let without = Shape { events: false, ..base.clone() };
        pairs(&base.name, (&without, &base), 5.0).await;
    }
}

/// Measures the cost of counting run times: each allocation is made and released.
async fn run_times() {
    println!("\n| run times | threads | CPU µs without | with | more, of the pairs, % | aim |");
    println!("|---|---|---|---|---|---|");
    for shape in [shape_u(1_000), shape_a(100, "fair"), shape_b()] {
        let cpu = async |has_it: bool, threads| run_and_release(&shape, has_it, threads).await;
        pairs_of(&shape.name, shape.asks, cpu, 1.0).await;
    }
}

/// Makes all allocations of a shape and releases them. Returns the seconds of CPU.
async fn run_and_release(shape: &Shape, measures: bool, threads: Threads) -> f64 {
    let settings = measures.then(RunTimeSettings::default);
    let builder = Scheduler::builder().threads(threads).run_times(settings);
    let shim = Shim::start_with(builder, &shape.config).await;
    shim.nodes(shape.nodes, &shape.capacity).await;
    shim.applications(shape.applications, shape.queue).await;
    shim.scheduler.settle().await;
    shim.expect(shape.asks);
    let requests: Vec<_> = ask_requests("ask", shape.asks, shape.applications, &SMALL).collect();
    let ending = |ask: &si::AllocationAsk| {
        si::AllocationRelease::new(&*ask.application_id, &*ask.allocation_key)
    };
    let releases = requests.iter().map(|request| {
        let releases: Vec<_> = request.asks.iter().map(ending).collect();
        si::AllocationRequest::release("bench", releases)
    });
    let releases: Vec<_> = releases.collect();
    let cpu = cpu_time();
    shim.send(requests).await;
    shim.all_allocated().await;
    shim.send(releases).await;
    shim.scheduler.settle().await;
    let cpu = cpu_time().saturating_sub(cpu);
    shim.scheduler.shutdown().await;
    cpu.as_secs_f64()
}

/// Ten thousand asks with anti-affinity on as many nodes, compared with the same asks without a
/// constraint. With bin packing, a search comes to the excluded nodes first.
async fn keep_apart() {
    println!(
        "\n| 10,000 asks over 10,000 nodes | CPU µs each | allocations/s, median (best) | of that without | aim |"
    );
    println!("|---|---|---|---|---|");
    let ways = [("no constraint", 0), ("one per node", 1), ("two per node", 2)];
    for policy in ["fair", "binpacking"] {
        let run = async |way: usize| run_apart(policy, ways[way].1).await;
        let figures = in_turns(ways.len(), 10_000, run).await;
        for ((how, most), of_it) in ways.iter().zip(&figures) {
            let (ratio, aim) = match most {
                0 => (String::new(), ""),
                _ => (at_most(of_it.cpu_us / figures[0].cpu_us, 2.0, 2), "≤ 2"),
            };
            println!("| {policy}, {how} | {} | {ratio} | {aim} |", of_it.columns());
        }
    }
}

/// Runs asks of which at most this many may be on a node. 0 means no constraint.
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
        "\n| 1,000 gangs of 8 over 200 racks | CPU µs each | members/s, median (best) | rate, of that without | \
         CPU, of that without | aim |"
    );
    println!("|---|---|---|---|---|---|");
    let ways = [
        ("no topology", "", &[][..], ""),
        ("one rack required", "rack", &[], "rate ≥ 0.5"),
        ("one rack preferred", "", &["rack"], ""),
        ("one rack required, one host preferred", "rack", &["host"], ""),
    ];
    for policy in ["fair", "binpacking"] {
        let run = async |way: usize| run_racks(policy, ways[way].1, ways[way].2).await;
        let figures = in_turns(ways.len(), 8_000, run).await;
        let without = &figures[0];
        for ((how, .., aim), of_it) in ways.iter().zip(&figures) {
            let (rate, cpu) = (of_it.median / without.median, of_it.cpu_us / without.cpu_us);
            println!("| {policy}, {how} | {} | {rate:.2} | {cpu:.2} | {aim} |", of_it.columns());
        }
    }
}

/// Measures a run from the first request of a gang to the last allocation.
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
        // No size: the gang is decided when its requests have arrived.
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

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let wants = |name: &str| filter.is_empty() || name.starts_with(filter.as_str());
        if wants("remote") {
            remote_predicates().await;
        }
        if wants("events") {
            events().await;
        }
        if wants("decisions") {
            decisions().await;
        }
        if wants("runtimes") {
            run_times().await;
        }
        if wants("apart") {
            keep_apart().await;
        }
        if wants("racks") {
            racks().await;
        }
    });
}
