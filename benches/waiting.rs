//! Cost of many requests that are pending for capacity, with and without reservations.
//!
//! `cargo bench --bench waiting`: 1,000 nodes, each so full that none of 100,000 requests fits. The
//! requests belong to 100 applications and are old enough to reserve a node. In one half of the
//! cases all have the same size, in the other no two have. The benchmark measures the CPU time of
//! the process until all were tried, while nothing changes, and for each of 1,000 releases that let
//! one request run; for a release also the elapsed time. The cases run alternately, `RUNS` times
//! each; the table has the medians. See docs/performance.md for the figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

mod allocator;
mod shim;

use std::time::Duration;

use monoceros_actors::{Scheduler, Threads};
use monoceros_proto::si::v1 as si;

use crate::shim::{Clock, Shim, median, resource};

const NODES: usize = 1_000;
const WAITING: usize = 100_000;
const APPLICATIONS: usize = 100;
const IDLE: Duration = Duration::from_secs(3);
/// Age at which a request reserves a node.
const DELAY: Duration = Duration::from_secs(2);
const RUNS: usize = 3;
const CONFIG: &str = "partitions:\n- name: default\n  queues:\n  - name: root\n    submitacl: '*'\n    \
                      queues:\n    - {name: jobs}\n";

/// Makes requests with the oldest possible creation time.
fn waiting(distinct: bool) -> impl Iterator<Item = si::AllocationRequest> {
    let ask = move |number: usize| {
        let memory = if distinct { i64::try_from(number).unwrap() } else { 0 };
        si::AllocationAsk {
            allocation_key: format!("waits-{number:06}"),
            application_id: format!("app-{:06}", number * APPLICATIONS / WAITING),
            resource_ask: Some(resource(&[("memory", 1 + memory), ("vcore", 70)])),
            max_allocations: 1,
            tags: [("creationTime".to_owned(), "1".to_owned())].into(),
            ..Default::default()
        }
    };
    (0..WAITING).step_by(1_000).map(move |from| si::AllocationRequest {
        rm_id: "bench".into(),
        asks: (from..from + 1_000).map(ask).collect(),
        ..Default::default()
    })
}

async fn release(shim: &Shim, number: usize) {
    let release = si::AllocationRelease {
        application_id: format!("app-{:06}", number * APPLICATIONS / NODES),
        allocation_key: format!("held-{number:07}"),
        termination_type: si::TerminationType::StoppedByRm as i32,
        ..Default::default()
    };
    let releases = si::AllocationReleasesRequest {
        allocations_to_release: vec![release],
        ..Default::default()
    };
    let request = si::AllocationRequest {
        rm_id: "bench".into(),
        releases: Some(releases),
        ..Default::default()
    };
    shim.scheduler.update_allocation(request).await.unwrap();
}

/// Costs of a run.
struct Taken {
    reserved: usize,
    intake_us: f64,
    /// CPU time of the whole time without changes.
    idle_ms: f64,
    release_cpu_us: f64,
    release_us: f64,
}

async fn case(distinct: bool, delay: Option<Duration>) -> Taken {
    let builder = Scheduler::builder().threads(Threads::PerPartition).reservation_delay(delay);
    let shim = Shim::start_with(builder, CONFIG).await;
    shim.nodes(NODES, &[("memory", 1_000_000), ("vcore", 100)]).await;
    shim.applications(APPLICATIONS, |_| "root.jobs".to_owned()).await;
    shim.expect(NODES);
    shim.asks("held", NODES, APPLICATIONS, &[("vcore", 60)]).await;
    shim.all_allocated().await;
    shim.scheduler.settle().await;

    let requests: Vec<_> = waiting(distinct).collect();
    let clock = Clock::start();
    for request in requests {
        shim.scheduler.update_allocation(request).await.unwrap();
    }
    shim.scheduler.settle().await;
    let taken_in = clock.took();

    let nodes = shim.scheduler.nodes("[bench]default").await.unwrap();
    let reserved = nodes.iter().filter(|node| node.is_reserved).count();

    // After this pause the scan for the scale-up signal is over.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let clock = Clock::start();
    tokio::time::sleep(IDLE).await;
    let idle = clock.took();

    let clock = Clock::start();
    for number in 0..NODES {
        release(&shim, number).await;
        shim.scheduler.settle().await;
    }
    let released = clock.took();

    shim.scheduler.shutdown().await;
    let micros = |cpu: Duration, of: usize| cpu.as_secs_f64() * 1e6 / of as f64;
    Taken {
        reserved,
        intake_us: micros(taken_in.cpu, WAITING),
        idle_ms: idle.cpu.as_secs_f64() * 1e3,
        release_cpu_us: micros(released.cpu, NODES),
        release_us: micros(released.wall, NODES),
    }
}

#[tokio::main]
async fn main() {
    println!(
        "| requests | reserved nodes | taken in, CPU µs each | nothing changes, CPU ms in {} s | a \
         release, CPU µs | until decided, µs |\n|---|---|---|---|---|---|",
        IDLE.as_secs()
    );
    let cases = [
        ("alike, without reservations", false, None),
        ("alike, with", false, Some(DELAY)),
        ("all different, without", true, None),
        ("all different, with", true, Some(DELAY)),
    ];
    let mut runs = cases.map(|_| Vec::new());
    for _ in 0..RUNS {
        for ((_, distinct, delay), runs) in cases.iter().zip(&mut runs) {
            runs.push(case(*distinct, *delay).await);
        }
    }
    for ((name, ..), runs) in cases.iter().zip(&runs) {
        let of = |field: fn(&Taken) -> f64| median(&mut runs.iter().map(field).collect::<Vec<_>>());
        println!(
            "| {name} | {} | {:.2} | {:.1} | {:.0} | {:.0} |",
            runs[0].reserved,
            of(|taken| taken.intake_us),
            of(|taken| taken.idle_ms),
            of(|taken| taken.release_cpu_us),
            of(|taken| taken.release_us),
        );
    }
}
