//! Allocations per second through all actors, in process, with metrics: shapes of load that need no
//! feature besides queues. `features` measures the cost of features, `idle` that of a scheduler at
//! rest.
//!
//! `cargo bench --bench scheduling -- [FILTER]` prints a table. `shapes` has a row per shape:
//! medians of some runs of wall and CPU time from the first ask sent to the last allocation
//! received, which covers receiving, deciding and notifying. See docs/performance.md for the shapes
//! and the figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_possible_truncation)]
#![allow(clippy::cast_sign_loss, missing_docs)]

mod aims;
mod allocator;
mod runs;
mod shapes;
mod shim;

use std::time::Duration;

use monoceros_actors::{Scheduler, Threads};
use tokio::time::Instant;

use crate::aims::{at_least, at_most};
use crate::runs::{Figures, figures, in_turns, print_growth, print_growth_head, run, several};
use crate::shapes::{
    SMALL, Shape, queues, shape_a, shape_b, shape_quota_fair, shape_small, shape_u,
};
use crate::shim::{Shim, context_switches, cpu_time};

async fn throughput(filter: &str) {
    let mut shapes: Vec<Shape> = [500, 1_000, 2_000, 5_000].map(shape_u).into();
    for policy in ["fair", "binpacking"] {
        shapes.extend([2, 100, 1_000, 10_000].map(|applications| shape_a(applications, policy)));
    }
    shapes.extend([shape_b(), shape_small()]);
    println!(
        "| shape | own threads: CPU µs each | allocations/s | one thread: CPU µs each | allocations/s | aims | reference, allocations/s |"
    );
    println!("|---|---|---|---|---|---|---|");
    for shape in shapes.iter().filter(|shape| shape.name.contains(filter)) {
        let own = figures(shape, Threads::PerPartition).await;
        let one = figures(shape, Threads::One).await;
        let (own_aim, one_aim, most_us, aims) = aims(&shape.name);
        let own = own.columns_beside(own_aim, most_us);
        let one = one.columns_beside(one_aim, most_us);
        let reference = if shape.reference.is_empty() { "–" } else { shape.reference };
        println!("| {} | {own} | {one} | {aims} | {reference} |", shape.name);
    }
}

/// Returns the targets of a shape: allocations per second with own threads and with one, CPU µs for
/// each; and their text, CPU first.
fn aims(shape: &str) -> (f64, f64, f64, &'static str) {
    let has = |start: &str| shape.starts_with(start);
    if has("U ") || has("A 100 ") || has("B ") {
        (400_000.0, 300_000.0, 3.0, "3 µs; 400,000; 300,000")
    } else if has("A 10000 ") {
        (250_000.0, 0.0, f64::INFINITY, "250,000")
    } else {
        (0.0, 0.0, f64::INFINITY, "–")
    }
}

/// Compares with a quota-fair engine for batch jobs, on one thread as that engine was measured:
/// filling a cluster, then few places for many pending requests.
async fn quota_fair() {
    println!(
        "\n| one thread | CPU µs each | allocations/s, median (best) | that engine | times it | aim |"
    );
    println!("|---|---|---|---|---|---|");
    let print = |name: &str, figures: &Figures, theirs: u32| {
        let times = at_least(figures.median / f64::from(theirs), 30.0, 1);
        println!("| {name} | {} | {theirs} | {times} | ≥ 30 |", figures.columns());
    };
    for (queues, nodes, asks, theirs) in [(10, 1_000, 32_000, 7_100), (100, 5_000, 100_000, 6_200)]
    {
        let shape = shape_quota_fair(queues, nodes, asks);
        print(&shape.name, &figures(&shape, Threads::One).await, theirs);
    }
    let backlog = several(3_200, async || run_backlog(320_000, 3_200).await).await;
    print("3,200 places for 320,000 asks that wait", &backlog, 1_700);
}

/// Measures `asks` asks that are pending because there is no capacity, from the first of some new
/// nodes to the last allocation. The new nodes have capacity for `places` of them.
async fn run_backlog(asks: usize, places: usize) -> (f64, f64) {
    let shape = shape_quota_fair(10, 100, asks);
    let shim = Shim::start(&shape.config, Threads::One).await;
    // A node too small for any ask, so that every ask has been tried once before the measurement.
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

/// Measures CPU per allocation while one dimension grows.
async fn growth() {
    let base = |applications: usize| Shape {
        nodes: 1_000,
        capacity: vec![("memory", 1_000), ("vcore", 100)],
        asks: 100_000,
        ..shape_a(applications, "fair")
    };
    let nodes = |nodes| Shape { nodes, ..base(100) };
    let parked = |parked| Shape { parked, ..base(100) };
    println!();
    print_growth_head();
    for (what, shapes, aim) in [
        ("nodes 1,000 · 10,000 · 100,000", vec![nodes(1_000), nodes(10_000), nodes(100_000)], 1.5),
        (
            "parked asks 10,000 · 100,000 · 1,000,000",
            vec![parked(10_000), parked(100_000), parked(1_000_000)],
            1.3,
        ),
        (
            "asks in one application 100 · 1,000 · 10,000 · 100,000",
            [1_000, 100, 10, 1].map(base).into(),
            1.3,
        ),
        ("applications 10 · 100 · 1,000 · 10,000", [10, 100, 1_000, 10_000].map(base).into(), 1.5),
    ] {
        let sizes = in_turns(shapes.len(), 100_000, async |size| {
            run(&shapes[size], Threads::PerPartition).await
        });
        print_growth(what, &sizes.await, aim);
    }
}

/// Measures one ask at a time on an idle cluster, with threads that sleep at once, and with threads
/// that spin.
async fn lone_ask() {
    println!(
        "\n| lone ask, 5,000 idle nodes | p50 µs | p99 µs | context switches | CPU µs | aim: p50, switches |"
    );
    println!("|---|---|---|---|---|---|");
    for (name, threads, spin_us) in [
        ("own threads", Threads::PerPartition, 0),
        ("own threads, spin 50 µs", Threads::PerPartition, 50),
        ("own threads, spin 200 µs", Threads::PerPartition, 200),
        ("one thread", Threads::One, 0),
        ("one thread, spin 200 µs", Threads::One, 200),
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
        let cpu_us = cpu_time().saturating_sub(cpu).as_secs_f64() * 1e6 / f64::from(asks);
        let switches = (context_switches() - switches) as f64 / f64::from(asks);
        taken.sort_by(f64::total_cmp);
        let at = |share: f64| taken[(taken.len() as f64 * share) as usize];
        // The targets are for own threads that spin.
        let has_aim = threads == Threads::PerPartition && spin_us > 0;
        let aims = if has_aim { (20.0, 3.0) } else { (f64::INFINITY, f64::INFINITY) };
        let (p50, switches) = (at_most(at(0.5), aims.0, 1), at_most(switches, aims.1, 1));
        let aim = if has_aim { "20, 3" } else { "–" };
        println!("| {name} | {p50} | {:.1} | {switches} | {cpu_us:.0} | {aim} |", at(0.99));
        shim.scheduler.shutdown().await;
    }
    println!("| the reference | 106 | 247 | – | – | – |");
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
        if wants("growth") {
            growth().await;
        }
    });
}
