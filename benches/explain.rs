//! Latency of explanations, at rest and while the scheduler decides at full rate, and their cost to
//! those decisions.
//!
//! `cargo bench --bench explain`: 10,000 nodes, 1,000 applications in 100 leaves, a million
//! requests of five sizes that fit no node. The client has its own thread, since the thread that
//! makes the load is busy. See docs/performance.md for the figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_possible_truncation)]
#![allow(clippy::cast_sign_loss, missing_docs)]

mod aims;
mod allocator;
mod shapes;
mod shim;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use monoceros_actors::{SchedulerHandle, Threads};
use monoceros_proto::si::v1 as si;
use tokio::time::Instant;

use crate::aims::at_most;
use crate::shapes::{SMALL, shape_b};
use crate::shim::Shim;

const NODES: usize = 10_000;
const APPLICATIONS: usize = 1_000;
const PARKED: usize = 1_000_000;
const SIZES: usize = 5;
/// Requests of a round, which are released when all are placed.
const ROUND: usize = 100_000;
const ROUNDS: usize = 20;

/// Requests explanations, one application after another, until stopped.
struct Asker {
    stops: Arc<AtomicBool>,
    thread: JoinHandle<Vec<f64>>,
}

impl Asker {
    fn start(scheduler: &SchedulerHandle, pause: Duration) -> Self {
        let stops = Arc::new(AtomicBool::new(false));
        let (told, scheduler) = (Arc::clone(&stops), scheduler.clone());
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut taken = Vec::new();
                while !told.load(Ordering::Acquire) {
                    let id = format!("app-{:06}", taken.len() * 7 % APPLICATIONS);
                    let start = Instant::now();
                    let explained = scheduler.explain("default", &id, 0).await.unwrap();
                    taken.push(start.elapsed().as_secs_f64() * 1e6);
                    assert!(explained.len() >= SIZES, "{} kinds wait", explained.len());
                    tokio::time::sleep(pause).await;
                }
                taken
            })
        });
        Self { stops, thread }
    }

    fn stop(self) -> Vec<f64> {
        self.stops.store(true, Ordering::Release);
        let mut taken = self.thread.join().unwrap();
        taken.sort_by(f64::total_cmp);
        taken
    }
}

fn row(name: &str, taken: &[f64], rate: Option<f64>) {
    let at = |share: f64| taken.get((taken.len() as f64 * share) as usize).copied().unwrap_or(0.0);
    let rate = rate.map_or("–".to_owned(), |rate| format!("{rate:.0}"));
    let (p50, p99, aim) = match taken {
        [] => ("–".to_owned(), "–".to_owned(), "–"),
        _ => (format!("{:.0}", at(0.5)), at_most(at(0.99), 1_000.0, 0), "1,000"),
    };
    println!("| {name} | {} | {p50} | {p99} | {aim} | {rate} |", taken.len());
}

/// Places and releases rounds of small requests. Returns allocations per second.
async fn load(shim: &Shim, prefix: &str) -> f64 {
    let start = Instant::now();
    for round in 0..ROUNDS {
        shim.expect(ROUND);
        shim.asks(&format!("{prefix}-{round}"), ROUND, APPLICATIONS, &SMALL).await;
        shim.all_allocated().await;
        release_all(shim).await;
    }
    shim.scheduler.settle().await;
    (ROUND * ROUNDS) as f64 / start.elapsed().as_secs_f64()
}

async fn release_all(shim: &Shim) {
    let of_application = |number| si::AllocationRelease {
        application_id: format!("app-{number:06}"),
        termination_type: si::TerminationType::StoppedByRm as i32,
        ..Default::default()
    };
    let allocations_to_release = (0..APPLICATIONS).map(of_application).collect();
    let releases =
        Some(si::AllocationReleasesRequest { allocations_to_release, ..Default::default() });
    let request = si::AllocationRequest { rm_id: "bench".into(), releases, ..Default::default() };
    shim.scheduler.update_allocation(request).await.unwrap();
}

async fn measure() {
    let shape = shape_b();
    let shim = Shim::start(&shape.config, Threads::PerPartition).await;
    shim.nodes(NODES, &[("memory", 500), ("vcore", 50)]).await;
    shim.applications(APPLICATIONS, shape.queue).await;
    for size in 0..SIZES {
        // More than any node has.
        let wanted = [("memory", 1_000 + i64::try_from(size).unwrap())];
        shim.asks(&format!("parked-{size}"), PARKED / SIZES, APPLICATIONS, &wanted).await;
    }
    shim.scheduler.settle().await;
    println!("| meanwhile | answers | p50 µs | p99 µs | aim, p99 µs | allocations/s |");
    println!("|---|---|---|---|---|---|");
    let asker = Asker::start(&shim.scheduler, Duration::from_millis(1));
    tokio::time::sleep(Duration::from_secs(4)).await;
    row("nothing else happens", &asker.stop(), None);
    load(&shim, "warm").await;
    let alone = load(&shim, "alone").await;
    row("full load, nobody asks", &[], Some(alone));
    for pause in [Duration::from_millis(10), Duration::from_millis(1)] {
        let asker = Asker::start(&shim.scheduler, pause);
        let rate = load(&shim, &format!("asked-{}", pause.as_millis())).await;
        row(&format!("full load, asked every {pause:?}"), &asker.stop(), Some(rate));
    }
    shim.scheduler.shutdown().await;
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(measure());
}
