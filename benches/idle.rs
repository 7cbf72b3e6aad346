//! What a scheduler takes that has nothing to decide: CPU while a full cluster waits, the way from one release
//! to the next allocation, and memory for what is there.
//!
//! `cargo bench --bench idle -- [FILTER]` prints a table of each: `full` and `memory`. See docs/performance.md
//! for the figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_possible_truncation)]
#![allow(clippy::cast_sign_loss, missing_docs)]

mod allocator;
mod shapes;
mod shim;

use std::time::Duration;

use monoceros_actors::Threads;
use monoceros_proto::si::v1 as si;
use tokio::time::Instant;

use crate::shapes::{SMALL, queues};
use crate::shim::{Shim, cpu_time, median, peak_kib, resident_kib};

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
    println!("\n| 100,000 asks parked in 1,000 applications | measured | aim |\n|---|---|---|");
    println!("| CPU in 5 idle seconds | {} µs | not measurable |", idle.as_micros());
    println!(
        "| from a release to the next allocation, median of 200 | {:.0} µs | 1,000 µs |",
        median(&mut taken)
    );
    println!("| the slowest of 200 | {:.0} µs | 1,000 µs |", taken[taken.len() - 1]);
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
    println!("\n| memory | bytes | aim |\n|---|---|---|");
    println!("| per node | {} | 2,048 |", (with_nodes - before) * 1024 / nodes as u64);
    println!("| per pending ask | {} | 300 |", (with_asks - with_nodes) * 1024 / asks as u64);
    println!("| per running allocation | {} | 500 |", running_allocation().await);
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
        if wants("full") {
            full_cluster().await;
        }
        if wants("memory") {
            memory().await;
        }
    });
}
