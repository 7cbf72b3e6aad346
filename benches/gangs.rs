//! Cost of gangs: the same members as ordinary requests, with placeholders, and declared with their
//! application.
//!
//! `cargo bench --bench gangs -- [FILTER]` prints a table of gangs 500 × 20, 20 × 500 and 1 ×
//! 10,000 on 1,000 nodes: for each way to allocate the members, wall and CPU time, and the rate as
//! a share of that without gangs. FILTER is a part of the name of a way, which then runs alone. The
//! ways take turns, so that other work of the machine affects all of them.
//!
//! The time is from the first request to the notification of the last member's allocation, in
//! process, with a resource manager that confirms at once. Applications exist before. Two ways
//! differ: where *all requests come first* nothing is decided before they have arrived, so that
//! receiving and deciding do not overlap, and where *places are held first* the time begins with
//! the search for places. See docs/performance.md for the figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

mod aims;
mod allocator;
mod shim;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle, Threads};
use monoceros_proto::si::v1 as si;
use tokio::sync::{Notify, mpsc};

use crate::aims::at_least;
use crate::shim::{Clock, Measured, median, resource};

const RUNS: usize = 5;
const NODES: usize = 1_000;
const SHAPES: [(usize, usize); 3] = [(500, 20), (20, 500), (1, 10_000)];
const CONFIG: &str = "partitions:\n- name: default\n  queues:\n  - name: root\n    submitacl: '*'\n    \
                      queues:\n    - {name: jobs, properties: {application.sort.policy: fifo}}\n";
const GROUP: &str = "workers";
const MEMBER: [(&str, i64); 2] = [("memory", 10), ("vcore", 1)];

/// The way in which the members are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// As ordinary requests.
    Alone,
    /// As ordinary requests, decided when all have arrived.
    AloneAtOnce,
    /// With a placeholder for each member, which the member replaces.
    Placeholders,
    /// As a declared gang of members without a size, decided when the last of them asks.
    Declared,
    /// As a declared gang of members with a size, decided when all of them have asked.
    DeclaredAtOnce,
    /// As a declared gang that is decided before any member asks.
    HeldFirst,
}

impl Way {
    const ALL: [Self; 6] = [
        Self::Alone,
        Self::AloneAtOnce,
        Self::Placeholders,
        Self::Declared,
        Self::DeclaredAtOnce,
        Self::HeldFirst,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Alone => "without gangs",
            Self::AloneAtOnce => "without gangs, all requests come first",
            Self::Placeholders => "placeholders, then members",
            Self::Declared => "declared, of any size",
            Self::DeclaredAtOnce => "declared, all requests come first",
            Self::HeldFirst => "declared, places are held first",
        }
    }

    /// Returns the target as a share of the rate without gangs, and its text.
    fn aim(self) -> (f64, &'static str) {
        match self {
            Self::Declared | Self::DeclaredAtOnce | Self::HeldFirst => (0.9, "≥ 0.9"),
            _ => (0.0, ""),
        }
    }

    /// Returns the reference scheduler's rate per second, if it was measured.
    fn reference(self, shape: (usize, usize)) -> &'static str {
        match (self, shape) {
            (Self::Alone, (500, 20)) => "6,335",
            (Self::Placeholders, (500, 20)) => "2,264",
            _ => "",
        }
    }

    /// Returns the same way without gangs.
    fn base(self) -> Self {
        match self {
            Self::AloneAtOnce | Self::DeclaredAtOnce => Self::AloneAtOnce,
            _ => Self::Alone,
        }
    }
}

/// A count with a target that can be awaited.
#[derive(Default)]
struct Count {
    so_far: AtomicU64,
    wanted: AtomicU64,
    reached: Notify,
}

impl Count {
    fn add(&self, more: usize) {
        let before = self.so_far.fetch_add(more as u64, Ordering::AcqRel);
        let wanted = self.wanted.load(Ordering::Acquire);
        if before < wanted && before + more as u64 >= wanted {
            self.reached.notify_one();
        }
    }

    fn expect(&self, more: usize) {
        let so_far = self.so_far.load(Ordering::Acquire);
        self.wanted.store(so_far + more as u64, Ordering::Release);
    }

    async fn reached(&self) {
        let reached = self.reached.notified();
        tokio::time::timeout(Duration::from_secs(120), reached).await.expect("everything fits");
    }
}

/// Counts allocations and running applications, and passes on releases to confirm.
struct GangShim {
    allocated: Count,
    running: Count,
    to_confirm: mpsc::UnboundedSender<Vec<si::AllocationRelease>>,
}

impl ResourceManagerCallback for GangShim {
    fn update_allocation(&self, response: si::AllocationResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
        if !response.released.is_empty() {
            let _ = self.to_confirm.send(response.released);
        }
        self.allocated.add(response.new.len());
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
        let running = response.updated.iter().filter(|application| application.state == "Running");
        self.running.add(running.count());
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
            allocated: Count::default(),
            running: Count::default(),
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

    async fn applications(&self, way: Way) {
        let sum = i64::try_from(self.members).unwrap();
        let total: Vec<_> = MEMBER.iter().map(|(name, each)| (*name, each * sum)).collect();
        let group = |member| si::TaskGroup {
            name: GROUP.to_owned(),
            min_members: i32::try_from(sum).unwrap(),
            member,
            ..Default::default()
        };
        let task_groups = match way {
            Way::Alone | Way::AloneAtOnce | Way::Placeholders => vec![],
            Way::Declared => vec![group(None)],
            Way::DeclaredAtOnce | Way::HeldFirst => vec![group(Some(resource(&MEMBER)))],
        };
        let new = (0..self.gangs).map(|number| si::AddApplicationRequest {
            application_id: format!("app-{number:06}"),
            queue_name: "root.jobs".into(),
            ugi: Some(si::UserGroupInformation { user: "bench".into(), groups: vec![] }),
            placeholder_ask: (way == Way::Placeholders).then(|| resource(&total)),
            task_groups: task_groups.clone(),
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

    async fn hold(&self, hold: bool) {
        self.scheduler.control("bench").await.unwrap().hold(hold);
    }
}

async fn run(way: Way, (gangs, members): (usize, usize)) -> Measured {
    let total = gangs * members;
    let bench = Bench::start(gangs, members).await;
    let shim = &bench.shim;
    let all_come_first = matches!(way, Way::AloneAtOnce | Way::DeclaredAtOnce);
    if all_come_first || way == Way::HeldFirst {
        bench.hold(true).await;
    }
    bench.applications(way).await;
    let clock = Clock::start();
    match way {
        Way::Placeholders => {
            shim.allocated.expect(total);
            bench.asks("place", true, GROUP).await;
            shim.allocated.reached().await;
        }
        Way::HeldFirst => {
            shim.running.expect(gangs);
            bench.hold(false).await;
            shim.running.reached().await;
        }
        Way::Alone | Way::AloneAtOnce | Way::Declared | Way::DeclaredAtOnce => {}
    }
    shim.allocated.expect(total);
    let group = if way.base() == way { "" } else { GROUP };
    bench.asks("member", false, group).await;
    if all_come_first {
        bench.scheduler.settle().await;
        bench.hold(false).await;
    }
    shim.allocated.reached().await;
    let took = clock.took();
    bench.scheduler.shutdown().await;
    took
}

/// The rates of the runs of one way.
struct Rates {
    /// Median of members per second.
    rate: f64,
    /// Maximum of members per second.
    best: f64,
    /// Median of CPU µs per member.
    cpu: f64,
}

impl Rates {
    fn of((gangs, members): (usize, usize), took: &[Measured]) -> Self {
        let n_members = (gangs * members) as f64;
        let rate = |it: &Measured| n_members / it.wall.as_secs_f64();
        let cpu = |it: &Measured| it.cpu.as_secs_f64() * 1e6 / n_members;
        Self {
            rate: median(&mut took.iter().map(rate).collect::<Vec<_>>()),
            best: took.iter().map(rate).fold(0.0, f64::max),
            cpu: median(&mut took.iter().map(cpu).collect::<Vec<_>>()),
        }
    }
}

fn print_table(shape: (usize, usize), runs: &[(Way, Vec<Measured>)]) {
    let of = |way| runs.iter().find(|(it, _)| *it == way).map(|(_, took)| Rates::of(shape, took));
    for (way, took) in runs {
        let Rates { rate, best, cpu } = Rates::of(shape, took);
        let (gangs, members) = shape;
        let (least, aim) = way.aim();
        print!("| {gangs} × {members} | {} | {cpu:.2} | {rate:.0} ({best:.0}) |", way.name());
        match of(way.base()).filter(|_| way.base() != *way) {
            Some(base) => print!(
                " {} ({:.2}) | {:.2} |",
                at_least(rate / base.rate, least, 2),
                best / base.best,
                cpu / base.cpu
            ),
            None => print!(" | |"),
        }
        println!(" {aim} | {} |", way.reference(shape));
    }
}

#[tokio::main]
async fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    println!(
        "| gangs | way | CPU µs each | members/s, median (best) | of the rate without (of the best) | \
         of the CPU without | aim, of the rate | reference, members/s |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for shape in SHAPES {
        let ways = Way::ALL.into_iter().filter(|way| way.name().contains(filter.as_str()));
        let mut runs: Vec<_> = ways.map(|way| (way, Vec::new())).collect();
        for _ in 0..RUNS {
            for (way, took) in &mut runs {
                took.push(run(*way, shape).await);
            }
        }
        print_table(shape, &runs);
    }
}
