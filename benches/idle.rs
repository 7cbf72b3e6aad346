//! A scheduler without decisions to make: CPU of a full cluster, CPU from a release to the next
//! allocation, and memory per item.
//!
//! `cargo bench --bench idle -- [FILTER]` prints a table for each: `full` and `memory`. See
//! docs/performance.md for the figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_possible_truncation)]
#![allow(clippy::cast_sign_loss, missing_docs)]

mod aims;
mod allocator;
mod shapes;
mod shim;

use std::future::poll_fn;
use std::process::Command;
use std::task::Poll;
use std::time::Duration;

use monoceros_actors::{Scheduler, Threads};
use monoceros_proto::si::v1 as si;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::Instant;

use crate::aims::at_most;
use crate::shapes::{SMALL, queues};
use crate::shim::{Shim, cpu_time, median, peak_kib, resident_kib, thread_time};

/// The argument with which this program prints the memory of a large cluster.
const LARGE: &str = "bytes-of-large";

/// The amount of 20 asks, which are small.
const ROOM_FOR_20: [(&str, i64); 3] = [("memory", 200), ("vcore", 20), ("pods", 110)];

/// One queue for all.
fn config() -> String {
    queues("fair", "{name: a}")
}

/// Fills the cluster, and adds 100,000 asks that cannot be placed.
async fn fill(shim: &Shim) {
    shim.nodes(100, &[("memory", 50), ("vcore", 5)]).await;
    shim.applications(1_000, |_| "root.a".into()).await;
    shim.expect(500);
    shim.asks("ask", 100_500, 1_000, &SMALL).await;
    shim.scheduler.settle().await;
}

/// Time in which the scan for the scale-up signal ends. It begins a second after the asks arrive.
const LOOKED: Duration = Duration::from_secs(2);

/// Returns the CPU time of all threads during this time, in ms.
async fn cpu_ms(during: Duration) -> f64 {
    let cpu = cpu_time();
    tokio::time::sleep(during).await;
    cpu_time().saturating_sub(cpu).as_secs_f64() * 1e3
}

/// Lets each ready task of this thread run once.
async fn turn_of_others() {
    let mut had_one = false;
    poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut had_one, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Returns the longest CPU time, in ms, for which other tasks had to wait on a single thread.
/// Several actors may have run during it, so no slice of the scan took longer.
async fn longest_slice_ms() -> f64 {
    let work = async {
        let shim = Shim::start_local(Scheduler::builder(), &config()).await;
        fill(&shim).await;
        let watch = async {
            let end = Instant::now() + LOOKED;
            let (mut before, mut longest) = (thread_time(), Duration::ZERO);
            while Instant::now() < end {
                turn_of_others().await;
                let now = thread_time();
                longest = longest.max(now.saturating_sub(before));
                before = now;
            }
            longest
        };
        let longest = spawn_local(watch).await.unwrap();
        assert_eq!(shim.told_waiting(), 100_000);
        shim.scheduler.shutdown().await;
        longest.as_secs_f64() * 1e3
    };
    LocalSet::new().run_until(work).await
}

/// Returns the CPU time of five seconds without changes, with threads that spin after a message, in
/// ms.
async fn idle_spinning_ms() -> f64 {
    let builder = Scheduler::builder().spin(Duration::from_micros(200));
    let shim = Shim::start_with(builder, &config()).await;
    fill(&shim).await;
    tokio::time::sleep(LOOKED).await;
    let idle = cpu_ms(Duration::from_secs(5)).await;
    shim.scheduler.shutdown().await;
    idle
}

/// Measures asks that cannot be placed, after their arrival and without changes, and one release.
async fn full_cluster() {
    let shim = Shim::start(&config(), Threads::PerPartition).await;
    fill(&shim).await;
    let once = cpu_ms(LOOKED).await;
    assert_eq!(shim.told_waiting(), 100_000);
    let idle = cpu_ms(Duration::from_secs(5)).await;
    let mut taken = Vec::new();
    for number in 0..200 {
        shim.expect(1);
        let release = si::AllocationRelease {
            application_id: format!("app-{:06}", number * 1_000 / 100_500),
            uuid: format!("ask-{number:07}"),
            termination_type: si::TerminationType::StoppedByRm as i32,
            ..Default::default()
        };
        let start = Instant::now();
        shim.release(release).await;
        shim.all_allocated().await;
        taken.push(start.elapsed().as_secs_f64() * 1e6);
    }
    shim.scheduler.shutdown().await;
    let (longest, idle_spinning) = (longest_slice_ms().await, idle_spinning_ms().await);
    println!("\n| 100,000 asks parked in 1,000 applications | measured | aim |\n|---|---|---|");
    println!("| CPU in 2 seconds after they came, ms | {} | 10 |", at_most(once, 10.0, 1));
    println!("| its longest slice, ms | {} | 1 |", at_most(longest, 1.0, 2));
    println!("| CPU in 5 idle seconds then, ms | {} | 1 |", at_most(idle, 1.0, 2));
    println!("| the same with a spin of 200 µs, ms | {} | 1 |", at_most(idle_spinning, 1.0, 2));
    let (middle, slowest) = (median(&mut taken), taken[taken.len() - 1]);
    let rows = [("median of 200", middle), ("the slowest of them", slowest)];
    for (which, micros) in rows {
        let micros = at_most(micros, 1_000.0, 0);
        println!("| from a release to the next allocation, {which}, µs | {micros} | 1,000 |");
    }
}

/// Runs [`large`] in its own process, because memory that is reused would not be counted.
fn large_elsewhere() -> Vec<u64> {
    let output = Command::new(std::env::current_exe().unwrap()).arg(LARGE).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    said.split_whitespace().map(|figure| figure.parse().expect("bytes")).collect()
}

/// Creates 50,000 nodes, a million running allocations and a million pending asks. Returns the
/// bytes of each, and the resident memory at the end. Each kind is created in two halves, of which
/// the second is measured: the first one covers messages, whose memory is reused, and bounded
/// collections such as events.
async fn large() -> Vec<u64> {
    let shim = Shim::start(&queues("fair", "{name: a}"), Threads::PerPartition).await;
    shim.applications(100, |_| "root.a".into()).await;
    let mut bytes = Vec::new();
    let mut known = 0;
    let mut note = |half: u64, of: usize| {
        let now = resident_kib();
        if half == 1 {
            bytes.push((now - known) * 1024 / of as u64);
        }
        known = now;
    };
    for half in 0..2 {
        // Exactly as many allocations fit as will run.
        shim.nodes_named(&format!("node-{half}"), 25_000, &ROOM_FOR_20).await;
        shim.scheduler.settle().await;
        note(half, 25_000);
    }
    for half in 0..2 {
        shim.expect(500_000);
        shim.asks(&format!("runs-{half}"), 500_000, 100, &SMALL).await;
        shim.all_allocated().await;
        shim.scheduler.settle().await;
        note(half, 500_000);
    }
    for half in 0..2 {
        shim.asks(&format!("waits-{half}"), 500_000, 100, &SMALL).await;
        shim.scheduler.settle().await;
        note(half, 500_000);
    }
    bytes.push(resident_kib() * 1024);
    shim.scheduler.shutdown().await;
    bytes
}

/// Prints the bytes per node, running allocation and pending ask, and the resident memory after all
/// are removed.
async fn memory() {
    println!("\n| memory | bytes | aim |\n|---|---|---|");
    let large = large_elsewhere();
    let rows = ["per node", "per running allocation, with its ask", "per pending ask"];
    for ((what, aim), bytes) in rows.into_iter().zip([2_048, 500, 300]).zip(&large) {
        println!("| {what} | {} | {aim} |", at_most(*bytes as f64, f64::from(aim), 0));
    }
    let gigabytes = at_most(large[rows.len()] as f64 / 1e9, 0.95, 2);
    println!(
        "| all of 50,000 nodes, 1,000,000 that run and 1,000,000 that wait, GB | {gigabytes} | 0.95 |"
    );
    let shim = Shim::start(&queues("fair", "{name: a}"), Threads::PerPartition).await;
    shim.applications(100, |_| "root.a".into()).await;
    shim.scheduler.settle().await;
    let (nodes, asks) = (50_000, 500_000);
    let resident = |when: &str| println!("| {when} | {} MiB |", resident_kib() / 1024);
    println!("\n| {nodes} nodes, {asks} asks | resident |\n|---|---|");
    resident("before");
    shim.nodes(nodes, &[("memory", 5), ("vcore", 5), ("pods", 110)]).await;
    shim.scheduler.settle().await;
    resident("all nodes are there");
    shim.asks("ask", asks, 100, &SMALL).await;
    shim.scheduler.settle().await;
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
    // Memory allocators return pages after up to ten seconds, at an allocation.
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
        if filter == LARGE {
            let figures: Vec<String> = large().await.iter().map(u64::to_string).collect();
            println!("{}", figures.join(" "));
        }
    });
}
