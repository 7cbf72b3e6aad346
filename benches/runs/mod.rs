//! Runs of a shape, and what they took, for the benchmarks that share them.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    dead_code,
    clippy::print_stdout,
    reason = "every benchmark uses a part of this"
)]

use monoceros_actors::{Predicates, Scheduler, Threads};
use tokio::time::Instant;

use crate::shapes::{SMALL, Shape};
use crate::shim::{Shim, cpu_time, median};

/// A figure is the median of so many runs.
pub const RUNS: usize = 5;

/// One run: seconds of wall and CPU.
pub async fn run(shape: &Shape, threads: Threads) -> (f64, f64) {
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
pub struct Figures {
    /// Allocations per second.
    pub median: f64,
    pub best: f64,
    /// CPU of all threads per allocation.
    pub cpu_us: f64,
}

impl Figures {
    /// As the columns of a table.
    pub fn columns(&self) -> String {
        format!("{:.0} ({:.0}) | {:.2}", self.median, self.best, self.cpu_us)
    }
}

/// Runs something several times that makes so many allocations, and takes seconds of wall and CPU.
pub async fn several(allocations: usize, run: impl AsyncFn() -> (f64, f64)) -> Figures {
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
pub async fn figures(shape: &Shape, threads: Threads) -> Figures {
    several(shape.asks, async || run(shape, threads).await).await
}

/// Prints the row of a shape.
pub async fn row(shape: &Shape, threads: Threads) {
    println!("| {} | {threads:?} | {} |", shape.name, figures(shape, threads).await.columns());
}
