//! Cost of images: the state of a large cluster is copied while it places at full rate.
//!
//! `cargo bench --bench images`: 10,000 nodes, 100,000 allocations and 50,000 requests that wait, of
//! 100 applications (the first argument divides all three: `-- 10`), in this process. Another
//! application keeps 200 requests outstanding and releases each allocation on receipt. It prints the
//! rate and the latency of placements: first alone, then while images are taken, one after another
//! with a pause of a second; then how long an image takes, and how long a scheduler that goes on
//! from it. See docs/performance.md for the figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_precision_loss, missing_docs)]

mod aims;
mod shim;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::image::ResourceManagerImage;
use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle};
use monoceros_proto::si::v1 as si;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::aims::at_most;
use crate::shim::median;

const OUTSTANDING: usize = 200;
const MEASURED: Duration = Duration::from_secs(8);
const PAUSE: Duration = Duration::from_secs(1);
const RUNS: usize = 9;
const QUEUES: &str = "partitions: [{name: default, queues: [{name: root, submitacl: '*', \
                      queues: [{name: a}, {name: b}]}]}]";

/// Passes on the keys of allocations of the application that places.
struct Shim(mpsc::UnboundedSender<Vec<String>>);

impl ResourceManagerCallback for Shim {
    fn update_allocation(&self, response: si::AllocationResponse) {
        let placed = response.new.into_iter().filter(|it| it.application_id == "busy");
        let _ = self.0.send(placed.map(|it| it.allocation_key).collect());
    }
    fn update_application(&self, _: si::ApplicationResponse) {}
    fn update_node(&self, _: si::NodeResponse) {}
}

/// Does nothing: the resource manager of a copy.
struct Nobody;

impl ResourceManagerCallback for Nobody {
    fn update_allocation(&self, _: si::AllocationResponse) {}
    fn update_application(&self, _: si::ApplicationResponse) {}
    fn update_node(&self, _: si::NodeResponse) {}
}

fn amount(vcore: i64) -> si::Resource {
    si::Resource { resources: [("vcore".to_owned(), si::Quantity { value: vcore })].into() }
}

/// Reports the cluster, with what runs and what waits for more than any node has.
async fn fill(scheduler: &SchedulerHandle, divisor: usize) {
    let (n_nodes, n_allocations, n_asks) = (10_000 / divisor, 100_000 / divisor, 50_000 / divisor);
    let nodes = (0..n_nodes).map(|n| si::NodeInfo::new(format!("node-{n:05}"), amount(12_000)));
    scheduler.update_node(si::NodeRequest::report("rm", nodes.collect::<Vec<_>>())).await.unwrap();
    let applications = (0..100).map(|n| {
        si::AddApplicationRequest::new(format!("app-{n:03}"), format!("user-{}", n % 20))
            .in_queue("root.a")
    });
    let busy = si::AddApplicationRequest::new("busy", "ada").in_queue("root.b");
    let applications = applications.chain([busy]);
    scheduler
        .update_application(si::ApplicationRequest::submit("rm", applications.collect::<Vec<_>>()))
        .await
        .unwrap();
    for n in 0..n_allocations {
        let ask =
            si::Allocation::ask(format!("app-{:03}", n % 100), format!("a-{n}"), amount(1_000));
        let existing = ask.running_on(format!("node-{:05}", n % n_nodes));
        scheduler.update_allocation(si::AllocationRequest::ask("rm", [existing])).await.unwrap();
    }
    for n in 0..n_asks {
        let size = amount(3_000 + i64::try_from(n % 20).unwrap());
        let ask = si::Allocation::ask(format!("app-{:03}", n % 100), format!("w-{n}"), size);
        scheduler.update_allocation(si::AllocationRequest::ask("rm", [ask])).await.unwrap();
    }
    scheduler.settle().await;
}

/// The sorted latencies of placements in ms.
async fn latencies(
    scheduler: &SchedulerHandle,
    placed: &mut mpsc::UnboundedReceiver<Vec<String>>,
    next: &mut usize,
) -> Vec<f64> {
    let (mut asked, mut latencies) = (HashMap::new(), Vec::new());
    let end = Instant::now() + MEASURED;
    let mut release = Vec::new();
    loop {
        let now = Instant::now();
        let is_over = now >= end;
        let mut allocations = Vec::new();
        while !is_over && asked.len() < OUTSTANDING {
            *next += 1;
            let key = format!("busy-{next}");
            allocations.push(si::Allocation::ask("busy", key.clone(), amount(500)));
            asked.insert(key, now);
        }
        let releases: Vec<_> = std::mem::take(&mut release);
        if !allocations.is_empty() || !releases.is_empty() {
            let mut request = si::AllocationRequest::ask("rm", allocations);
            let stop = |key: String| si::AllocationRelease {
                partition_name: "default".to_owned(),
                application_id: "busy".to_owned(),
                allocation_key: key,
                termination_type: si::TerminationType::StoppedByRm as i32,
                ..Default::default()
            };
            request.releases = Some(si::AllocationReleasesRequest {
                allocations_to_release: releases.into_iter().map(stop).collect(),
                ..Default::default()
            });
            scheduler.update_allocation(request).await.unwrap();
        }
        if asked.is_empty() {
            break;
        }
        let keys = placed.recv().await.unwrap();
        let now = Instant::now();
        for key in keys {
            if let Some(since) = asked.remove(&key) {
                latencies.push((now - since).as_secs_f64() * 1_000.0);
                release.push(key);
            }
        }
    }
    latencies.sort_by(f64::total_cmp);
    latencies
}

fn at(sorted: &[f64], share: f64) -> f64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let index = (sorted.len() as f64 * share) as usize;
    sorted[index.min(sorted.len() - 1)]
}

fn show(name: &str, sorted: &[f64], alone: Option<f64>) {
    let p99 = at(sorted, 0.99);
    let ratio = alone.map_or_else(String::new, |alone| at_most(p99 / alone, 2.0, 2));
    println!(
        "| {name} | {:.0} | {:.2} | {p99:.2} | {:.1} | {ratio} |",
        sorted.len() as f64 / MEASURED.as_secs_f64(),
        at(sorted, 0.5),
        at(sorted, 1.0),
    );
}

/// Takes images, one after another, until it is told to stop. Returns how long each took.
fn take_images(
    scheduler: SchedulerHandle,
    stop: Arc<AtomicBool>,
) -> std::thread::JoinHandle<Vec<f64>> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut took = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let begin = Instant::now();
                let image = scheduler.image("rm").await.unwrap();
                took.push(begin.elapsed().as_secs_f64() * 1_000.0);
                drop(image);
                tokio::time::sleep(PAUSE).await;
            }
            took
        })
    })
}

/// How long a scheduler on this thread takes to go on from an image, in ms.
async fn restore(image: ResourceManagerImage) -> f64 {
    let begin = Instant::now();
    let fork = Scheduler::builder().epoch_ns(image.at_ns()).start_local().unwrap();
    fork.restore(image, Arc::new(Nobody)).await.unwrap();
    fork.settle().await;
    let took = begin.elapsed().as_secs_f64() * 1_000.0;
    fork.shutdown().await;
    took
}

fn main() {
    let divisor = std::env::args().skip(1).find_map(|it| it.parse().ok()).unwrap_or(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let kept: Mutex<Option<ResourceManagerImage>> = Mutex::default();
    runtime.block_on(async {
        let scheduler = Scheduler::builder().default_queues(QUEUES).start().unwrap();
        let (sender, mut placed) = mpsc::unbounded_channel();
        let request = si::RegisterResourceManagerRequest::new("rm");
        scheduler.register_resource_manager(request, Arc::new(Shim(sender))).await.unwrap();
        fill(&scheduler, divisor).await;
        let mut next = 0;
        println!("| | placements/s | median, ms | p99, ms | longest, ms | p99, to alone |");
        println!("|---|---|---|---|---|---|");
        let alone = latencies(&scheduler, &mut placed, &mut next).await;
        show("alone", &alone, None);
        let stop = Arc::new(AtomicBool::new(false));
        let images = take_images(scheduler.clone(), Arc::clone(&stop));
        let beside = latencies(&scheduler, &mut placed, &mut next).await;
        stop.store(true, Ordering::Relaxed);
        let mut took = images.join().unwrap();
        show("while images are taken", &beside, Some(at(&alone, 0.99)));
        let n_images = took.len();
        println!("\n{n_images} images meanwhile, {:.1} ms each", median(&mut took));
        let mut took = Vec::new();
        for _ in 0..RUNS {
            let begin = Instant::now();
            let image = scheduler.image("rm").await.unwrap();
            took.push(begin.elapsed().as_secs_f64() * 1_000.0);
            *kept.lock().unwrap() = Some(image);
        }
        println!("an image of a partition at rest: {:.1} ms", median(&mut took));
        scheduler.shutdown().await;
    });
    let image = kept.lock().unwrap().take().unwrap();
    let mut took = Vec::new();
    for _ in 0..3 {
        let image = image.clone();
        took.push(tokio::task::LocalSet::new().block_on(&runtime, restore(image)));
    }
    println!("a scheduler that goes on from it: {:.1} ms", median(&mut took));
}
