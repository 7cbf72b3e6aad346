//! Heap use of a decision: allocations of memory, bytes, CPU time, and voluntary context switches.
//!
//! `cargo bench --bench heap -- [FILTER]` prints a row per shape: medians of some runs after a
//! warm-up. Every heap allocation of every thread is counted, from the first ask sent to the last
//! allocation received: for receiving, deciding, notifying, and the mailboxes between. The messages
//! with the asks are made before. A reallocation counts as one, with the bytes by which it grows.
//!
//! Counts hardly depend on the machine and its load: three runs agreed within one per cent, or
//! three for U with 5,000 nodes, since messages to the resource manager are merged depending on the
//! threads' timing. CPU time and rate include the counting; `scheduling` measures them without it.
//! See docs/performance.md for the figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

mod aims;
mod shapes;
mod shim;

use std::time::Duration;

use mimalloc::MiMalloc;
use monoceros_actors::{Scheduler, Threads};
use stats_alloc::{Region, StatsAlloc};
use tokio::time::Instant;

use crate::aims::at_most;
use crate::shapes::{SMALL, Shape, queues, shape_a, shape_b, shape_small, shape_u};
use crate::shim::{Shim, ask_requests, context_switches, cpu_time, median};

#[global_allocator]
static HEAP: StatsAlloc<MiMalloc> = StatsAlloc::new(MiMalloc);

const RUNS: usize = 5;
const LONE_ASKS: usize = 2_000;

/// Costs per decision.
struct Taken {
    allocations: f64,
    bytes: f64,
    context_switches: f64,
    cpu_us: f64,
    wall_us: f64,
}

/// Counts heap allocations and time from now on.
struct Measure {
    heap: Region<'static, MiMalloc>,
    start: Instant,
    cpu: Duration,
    context_switches: i64,
}

impl Measure {
    fn begin() -> Self {
        let (start, cpu) = (Instant::now(), cpu_time());
        Self { heap: Region::new(&HEAP), start, cpu, context_switches: context_switches() }
    }

    fn end(self, decisions: usize) -> Taken {
        let heap = self.heap.change();
        let (wall, cpu) = (self.start.elapsed(), cpu_time().saturating_sub(self.cpu));
        let context_switches = context_switches() - self.context_switches;
        let per_decision = |sum: f64| sum / decisions as f64;
        Taken {
            allocations: per_decision((heap.allocations + heap.reallocations) as f64),
            bytes: per_decision(heap.bytes_allocated as f64),
            context_switches: per_decision(context_switches as f64),
            cpu_us: per_decision(cpu.as_secs_f64() * 1e6),
            wall_us: per_decision(wall.as_secs_f64() * 1e6),
        }
    }
}

/// Measures a shape with all asks sent at once.
async fn at_once(shape: &Shape, in_messages: bool) -> Taken {
    let builder = Scheduler::builder().threads(Threads::PerPartition).decisions(shape.kept);
    let shim = Shim::start_told(builder, &shape.config, in_messages).await;
    shim.nodes(shape.nodes, &shape.capacity).await;
    shim.applications(shape.applications, shape.queue).await;
    shim.scheduler.settle().await;
    let requests: Vec<_> = ask_requests("ask", shape.asks, shape.applications, &SMALL).collect();
    shim.expect(shape.asks);
    let measure = Measure::begin();
    for request in requests {
        shim.scheduler.update_allocation(request).await.unwrap();
    }
    shim.all_allocated().await;
    let taken = measure.end(shape.asks);
    shim.scheduler.shutdown().await;
    taken
}

/// Measures one ask after another on an idle cluster.
async fn one_by_one() -> Taken {
    let shim = Shim::start(&queues("fair", "{name: a}"), Threads::PerPartition).await;
    shim.nodes(5_000, &[("memory", 1_000), ("vcore", 100)]).await;
    shim.applications(1, |_| "root.a".into()).await;
    shim.scheduler.settle().await;
    let request = |number| ask_requests(&format!("lone-{number}"), 1, 1, &SMALL).next().unwrap();
    let requests: Vec<_> = (0..LONE_ASKS).map(request).collect();
    let measure = Measure::begin();
    for request in requests {
        shim.expect(1);
        shim.scheduler.update_allocation(request).await.unwrap();
        shim.all_allocated().await;
    }
    let taken = measure.end(LONE_ASKS);
    shim.scheduler.shutdown().await;
    taken
}

/// Returns the targets of a row, if it has any: heap allocations, context switches, and their text.
fn aims(row: &str) -> (f64, f64, &'static str) {
    let none = f64::INFINITY;
    let has = |start: &str| row.starts_with(start);
    if row.ends_with("in messages") {
        (none, none, "")
    } else if has("U ") || has("A 100 ") || has("B ") {
        (8.0, none, "8")
    } else if has("A 10000 ") {
        (14.0, 0.1, "14; 0.1")
    } else if has("lone ") {
        (25.0, none, "25")
    } else {
        (none, none, "")
    }
}

/// Prints the row of some runs, of which the first is a warm-up.
fn print_row(name: &str, decisions: usize, runs: &[Taken]) {
    let of =
        |field: fn(&Taken) -> f64| median(&mut runs[1..].iter().map(field).collect::<Vec<_>>());
    let (most, most_switches, aim) = aims(name);
    println!(
        "| {name} | {decisions} | {} | {:.0} | {} | {aim} | {:.2} | {:.0} |",
        at_most(of(|taken| taken.allocations), most, 1),
        of(|taken| taken.bytes),
        at_most(of(|taken| taken.context_switches), most_switches, 3),
        of(|taken| taken.cpu_us),
        1e6 / of(|taken| taken.wall_us),
    );
}

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    let mut shapes = vec![shape_u(1_000), shape_u(5_000)];
    shapes.extend([2, 100, 1_000, 10_000].map(|applications| shape_a(applications, "fair")));
    shapes.extend([shape_b(), shape_small()]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    println!(
        "| shape | decisions | heap allocations each | bytes each | context switches each | aims | CPU µs each \
         | decisions/s |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for shape in shapes.iter().filter(|shape| shape.name.contains(filter.as_str())) {
        for (how, in_messages) in [("", false), (", told in messages", true)] {
            let run = |_| runtime.block_on(at_once(shape, in_messages));
            print_row(
                &format!("{}{how}", shape.name),
                shape.asks,
                &(0..=RUNS).map(run).collect::<Vec<_>>(),
            );
        }
    }
    if "lone ask".contains(filter.as_str()) {
        let runs: Vec<_> = (0..=RUNS).map(|_| runtime.block_on(one_by_one())).collect();
        print_row("lone ask", LONE_ASKS, &runs);
    }
}
