//! Runs of a shape with their costs, for several benchmarks.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    dead_code,
    clippy::print_stdout,
    reason = "every benchmark uses a part of this"
)]

use std::time::Duration;

use monoceros_actors::{EventSettings, Predicates, Scheduler, Threads};
use tokio::time::{Instant, sleep};

use crate::aims::{at_least, at_most};
use crate::shapes::{SMALL, Shape};
use crate::shim::{Shim, ask_requests, cpu_time, median};

/// Number of runs, of which the median is printed.
pub const RUNS: usize = 5;

/// Makes one run. Returns seconds of wall and CPU.
pub async fn run(shape: &Shape, threads: Threads) -> (f64, f64) {
    let events = EventSettings { tracking: shape.events, ..EventSettings::default() };
    let builder = Scheduler::builder().threads(threads).decisions(shape.kept).events(events);
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
        shim.scheduler.settle().await;
        // The scan for the scale-up signal follows a second later, and is measured in `idle`.
        sleep(Duration::from_secs(3)).await;
    }
    shim.scheduler.settle().await;
    shim.expect(shape.asks);
    // Making the messages is not the scheduler's work.
    let requests: Vec<_> = ask_requests("ask", shape.asks, shape.applications, &SMALL).collect();
    let (start, cpu) = (Instant::now(), cpu_time());
    shim.send(requests).await;
    shim.all_allocated().await;
    let (wall, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
    shim.scheduler.shutdown().await;
    (wall.as_secs_f64(), cpu.as_secs_f64())
}

/// Costs of some runs of a shape.
pub struct Figures {
    /// Allocations per second.
    pub median: f64,
    pub best: f64,
    /// CPU of all threads per allocation.
    pub cpu_us: f64,
}

impl Figures {
    /// Makes the figures from the seconds of wall and CPU time of each run.
    fn of(allocations: usize, mut walls: Vec<f64>, mut cpus: Vec<f64>) -> Self {
        let allocations = allocations as f64;
        let best = walls.iter().copied().fold(f64::INFINITY, f64::min);
        Self {
            median: allocations / median(&mut walls),
            best: allocations / best,
            cpu_us: median(&mut cpus) * 1e6 / allocations,
        }
    }

    /// Formats the columns of a table.
    pub fn columns(&self) -> String {
        self.columns_beside(0.0, f64::INFINITY)
    }

    /// Formats the columns with targets: minimum of allocations per second, and maximum of CPU µs.
    pub fn columns_beside(&self, least: f64, most_us: f64) -> String {
        let (cpu_us, median) = (at_most(self.cpu_us, most_us, 2), at_least(self.median, least, 0));
        format!("{cpu_us} | {median} ({:.0})", self.best)
    }
}

/// Runs a case several times. Each run makes `allocations` and returns seconds of wall and CPU.
pub async fn several(allocations: usize, run: impl AsyncFn() -> (f64, f64)) -> Figures {
    let mut figures = in_turns(1, allocations, async |_| run().await).await;
    figures.remove(0)
}

/// Runs a shape several times.
pub async fn figures(shape: &Shape, threads: Threads) -> Figures {
    several(shape.asks, async || run(shape, threads).await).await
}

/// Runs several cases in turns, each as often as in [`several`], so that other work of the machine
/// affects all. `run` gets the number of its case.
pub async fn in_turns(
    cases: usize,
    allocations: usize,
    run: impl AsyncFn(usize) -> (f64, f64),
) -> Vec<Figures> {
    let mut runs = vec![(Vec::new(), Vec::new()); cases];
    for _ in 0..RUNS {
        for (case, (walls, cpus)) in runs.iter_mut().enumerate() {
            let (wall, cpu) = run(case).await;
            walls.push(wall);
            cpus.push(cpu);
        }
    }
    runs.into_iter().map(|(walls, cpus)| Figures::of(allocations, walls, cpus)).collect()
}

/// Prints the head of a table of growth.
pub fn print_growth_head() {
    println!("| what grows | CPU µs per allocation | ratio, last to first | aim |");
    println!("|---|---|---|---|");
}

/// Prints the row of a growing dimension: CPU per allocation, and its increase from the first to
/// the last case, with a target.
pub fn print_growth(what: &str, sizes: &[Figures], aim: f64) {
    let each: Vec<_> = sizes.iter().map(|figures| format!("{:.2}", figures.cpu_us)).collect();
    let ratio = sizes[sizes.len() - 1].cpu_us / sizes[0].cpu_us;
    println!("| {what} | {} | {} | ≤ {aim} |", each.join(" · "), at_most(ratio, aim, 2));
}
