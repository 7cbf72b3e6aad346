//! What a gang costs: the same members as ordinary requests, and by way of placeholders.
//!
//! `cargo bench --bench gangs` prints a table of gangs 500 × 20, 20 × 500 and 1 × 10,000 on 1,000
//! nodes. Timed is everything from the first request to the last member that was told to be
//! allocated, in process, with a resource manager that confirms at once. See docs/performance.md for
//! the figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

mod allocator;
mod shim;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle, Threads};
use monoceros_proto::si::v1 as si;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::shim::{cpu_time, median, resource};

const RUNS: usize = 5;
const NODES: usize = 1_000;
const SHAPES: [(usize, usize); 3] = [(500, 20), (20, 500), (1, 10_000)];
const CONFIG: &str = "partitions:\n- name: default\n  queues:\n  - name: root\n    submitacl: '*'\n    \
                      queues:\n    - {name: jobs, properties: {application.sort.policy: fifo}}\n";
const MEMBER: [(&str, i64); 2] = [("memory", 10), ("vcore", 1)];

/// Counts what is allocated, and hands on what is to be confirmed.
struct GangShim {
    allocated: AtomicU64,
    wanted: AtomicU64,
    reached: Notify,
    to_confirm: mpsc::UnboundedSender<Vec<si::AllocationRelease>>,
}

impl ResourceManagerCallback for GangShim {
    fn update_allocation(&self, response: si::AllocationResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
        if !response.released.is_empty() {
            let _ = self.to_confirm.send(response.released);
        }
        let new = response.new.len() as u64;
        let allocated = self.allocated.fetch_add(new, Ordering::AcqRel) + new;
        let wanted = self.wanted.load(Ordering::Acquire);
        if allocated - new < wanted && allocated >= wanted {
            self.reached.notify_one();
        }
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
    }

    fn update_node(&self, response: si::NodeResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
    }
}

struct Bench {
    scheduler: SchedulerHandle,
    shim: Arc<GangShim>,
    gangs: usize,
    members: usize,
}

impl Bench {
    async fn start(gangs: usize, members: usize) -> Self {
        let scheduler = Scheduler::builder().threads(Threads::PerPartition).start().unwrap();
        let (to_confirm, mut confirmed) = mpsc::unbounded_channel();
        let shim = Arc::new(GangShim {
            allocated: AtomicU64::new(0),
            wanted: AtomicU64::new(u64::MAX),
            reached: Notify::new(),
            to_confirm,
        });
        let request = si::RegisterResourceManagerRequest {
            rm_id: "bench".into(),
            config: CONFIG.into(),
            ..Default::default()
        };
        let callback = Arc::clone(&shim);
        scheduler.register_resource_manager(request, callback).await.unwrap();
        let confirms = scheduler.clone();
        tokio::spawn(async move {
            while let Some(releases) = confirmed.recv().await {
                let releases = si::AllocationReleasesRequest {
                    allocations_to_release: releases,
                    ..Default::default()
                };
                let request = si::AllocationRequest {
                    rm_id: "bench".into(),
                    releases: Some(releases),
                    ..Default::default()
                };
                if confirms.update_allocation(request).await.is_err() {
                    return;
                }
            }
        });
        let bench = Self { scheduler, shim, gangs, members };
        bench.nodes().await;
        bench
    }

    async fn nodes(&self) {
        let nodes = (0..NODES).map(|number| si::NodeInfo {
            node_id: format!("node-{number:06}"),
            action: si::node_info::ActionFromRm::Create as i32,
            schedulable_resource: Some(resource(&[("memory", 1_000), ("vcore", 100)])),
            ..Default::default()
        });
        let nodes = nodes.collect();
        let request = si::NodeRequest { rm_id: "bench".into(), nodes, ..Default::default() };
        self.scheduler.update_node(request).await.unwrap();
    }

    async fn applications(&self, gang: bool) {
        let sum = i64::try_from(self.members).unwrap();
        let total: Vec<_> = MEMBER.iter().map(|(name, each)| (*name, each * sum)).collect();
        let new = (0..self.gangs).map(|number| si::AddApplicationRequest {
            application_id: format!("app-{number:06}"),
            queue_name: "root.jobs".into(),
            ugi: Some(si::UserGroupInformation { user: "bench".into(), groups: vec![] }),
            placeholder_ask: gang.then(|| resource(&total)),
            ..Default::default()
        });
        let new = new.collect();
        let request = si::ApplicationRequest { rm_id: "bench".into(), new, ..Default::default() };
        self.scheduler.update_application(request).await.unwrap();
        self.scheduler.settle().await;
    }

    async fn asks(&self, prefix: &str, placeholder: bool, group: &str) {
        let total = self.gangs * self.members;
        let wanted = resource(&MEMBER);
        let ask = |number| si::AllocationAsk {
            allocation_key: format!("{prefix}-{number:07}"),
            application_id: format!("app-{:06}", number / self.members),
            resource_ask: Some(wanted.clone()),
            max_allocations: 1,
            placeholder,
            task_group_name: group.to_owned(),
            ..Default::default()
        };
        for from in (0..total).step_by(1_000) {
            let request = si::AllocationRequest {
                rm_id: "bench".into(),
                asks: (from..total.min(from + 1_000)).map(ask).collect(),
                ..Default::default()
            };
            self.scheduler.update_allocation(request).await.unwrap();
        }
    }

    fn expect(&self, more: usize) {
        let so_far = self.shim.allocated.load(Ordering::Acquire);
        self.shim.wanted.store(so_far + more as u64, Ordering::Release);
    }

    async fn reached(&self) {
        let reached = self.shim.reached.notified();
        tokio::time::timeout(Duration::from_secs(120), reached).await.expect("everything fits");
    }
}

/// Wall and CPU time of one run.
struct Took {
    wall: Duration,
    cpu: Duration,
}

struct Clock(Instant, Duration);

impl Clock {
    fn start() -> Self {
        Self(Instant::now(), cpu_time())
    }

    fn took(self) -> Took {
        Took { wall: self.0.elapsed(), cpu: cpu_time().saturating_sub(self.1) }
    }
}

async fn alone(gangs: usize, members: usize) -> Took {
    let bench = Bench::start(gangs, members).await;
    bench.applications(false).await;
    bench.expect(gangs * members);
    let clock = Clock::start();
    bench.asks("member", false, "").await;
    bench.reached().await;
    clock.took()
}

async fn placeholders(gangs: usize, members: usize) -> (Took, Took) {
    let bench = Bench::start(gangs, members).await;
    bench.applications(true).await;
    bench.expect(gangs * members);
    let (both, first) = (Clock::start(), Clock::start());
    bench.asks("place", true, "workers").await;
    bench.reached().await;
    let first = first.took();
    bench.expect(gangs * members);
    bench.asks("member", false, "workers").await;
    bench.reached().await;
    (first, both.took())
}

fn print(name: &str, (gangs, members): (usize, usize), took: &[Took]) -> f64 {
    let n_members = (gangs * members) as f64;
    let mut rates: Vec<f64> = took.iter().map(|it| n_members / it.wall.as_secs_f64()).collect();
    let mut cpu: Vec<f64> = took.iter().map(|it| it.cpu.as_secs_f64() * 1e6 / n_members).collect();
    let rate = median(&mut rates);
    println!(
        "{gangs:>5} x {members:<6} {name:<28} {rate:>10.0} members/s {:>8.2} us CPU each",
        median(&mut cpu)
    );
    rate
}

#[tokio::main]
async fn main() {
    for shape in SHAPES {
        let (gangs, members) = shape;
        let (mut without, mut first, mut both) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..RUNS {
            without.push(alone(gangs, members).await);
            let (placed, replaced) = placeholders(gangs, members).await;
            first.push(placed);
            both.push(replaced);
        }
        let rate = print("without gangs", shape, &without);
        print("placeholders alone", shape, &first);
        let through = print("placeholders, then members", shape, &both);
        println!("{:>41} {:.2} of the rate without gangs", "", through / rate);
    }
}
