//! Cost of a release while 1,000 declared gangs are pending that cannot be placed.
//!
//! `cargo bench --bench parked_gangs -- [FILTER]` prints two rows per case: without gangs (the cost
//! of the release itself, with its notification) and with them. A row has CPU time and heap
//! allocations per release, the number of gangs that start after the releases, CPU time of three
//! seconds without changes, and CPU time to take in a gang. The figures are medians of five runs,
//! except the number of gangs and the time without changes, which are of the first run. FILTER is a
//! part of the name of a case.
//!
//! In most cases capacity is short: each of 1,000 nodes has a little room, and the quota is
//! sufficient. A release makes room on its node for no member, for some members of a gang, or for
//! one whole gang. In the other cases the quota of the queue is short: a release makes room for a
//! part of a gang, or for a whole one. Heap allocations hardly depend on the load of the machine,
//! CPU times do. See docs/performance.md for the figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

mod shim;

use std::time::Duration;

use mimalloc::MiMalloc;
use monoceros_actors::Threads;
use monoceros_proto::si::v1 as si;
use stats_alloc::{Region, StatsAlloc};

use crate::shim::{Shim, cpu_time, median, resource};

#[global_allocator]
static HEAP: StatsAlloc<MiMalloc> = StatsAlloc::new(MiMalloc);

const NODES: usize = 1_000;
const GANGS: usize = 1_000;
/// Amount held on each node when the gangs arrive.
const HELD: i64 = 100;
const RUNS: usize = 5;
const IDLE: Duration = Duration::from_secs(3);
const FILLER: &str = "app-000000";

/// Pending gangs, and the releases.
struct Case {
    name: &'static str,
    /// The number of members of the `n`th gang, and the amount of each.
    gang: fn(usize) -> (i32, i64),
    /// Amount of each allocation that holds the nodes, and of each release.
    filler: i64,
    /// Free amount of each node besides the held one: less than a member needs.
    spare: i64,
    /// Quota of the queue, if that is what is short.
    quota: Option<i64>,
    releases: usize,
}

const CASES: [Case; 7] = [
    Case {
        name: "room for no member",
        gang: |_| (20, 10),
        filler: 5,
        spare: 4,
        quota: None,
        releases: 1_000,
    },
    Case {
        name: "room for one member of 800",
        gang: |_| (800, 10),
        filler: 10,
        spare: 9,
        quota: None,
        releases: 700,
    },
    Case {
        name: "room for one member of 20",
        gang: |_| (20, 10),
        filler: 10,
        spare: 9,
        quota: None,
        releases: 1_000,
    },
    Case {
        name: "room for one gang",
        gang: |_| (20, 5),
        filler: 100,
        spare: 4,
        quota: None,
        releases: 500,
    },
    Case {
        name: "room for a part of many small members, and for no large one",
        gang: |n| if n % 2 == 0 { (500, 2) } else { (2, 50) },
        filler: 2,
        spare: 1,
        quota: None,
        releases: 400,
    },
    Case {
        name: "quota for a part of a gang",
        gang: |_| (400, 2),
        filler: 1,
        spare: 0,
        quota: Some(1_000),
        releases: 500,
    },
    Case {
        name: "quota for one gang",
        gang: |_| (20, 5),
        filler: 100,
        spare: 0,
        quota: Some(50_000),
        releases: 400,
    },
];

/// Costs of a run, mostly per release.
struct Taken {
    cpu_us: f64,
    allocations: f64,
    bytes: f64,
    started: u64,
    /// CPU time of the whole time without changes.
    idle_ms: f64,
    /// CPU time per gang until the search for it has ended.
    intake_us: f64,
}

async fn submit(shim: &Shim, case: &Case) {
    let new = (1..=GANGS).map(|number| {
        let (min_members, size) = (case.gang)(number);
        let group = si::TaskGroup {
            name: "workers".into(),
            min_members,
            member: Some(resource(&[("vcore", size)])),
            ..Default::default()
        };
        si::AddApplicationRequest {
            application_id: format!("app-{number:06}"),
            queue_name: "root.jobs".into(),
            ugi: Some(si::UserGroupInformation { user: "bench".into(), groups: vec![] }),
            task_groups: vec![group],
            ..Default::default()
        }
    });
    let new = new.collect();
    let request = si::ApplicationRequest { rm_id: "bench".into(), new, ..Default::default() };
    shim.scheduler.update_application(request).await.unwrap();
    shim.scheduler.settle().await;
}

/// Makes releases on one node after another, the oldest allocation first.
fn releases(case: &Case) -> Vec<si::AllocationRequest> {
    let release = |number: usize| {
        let release = si::AllocationRelease {
            application_id: FILLER.into(),
            allocation_key: format!("filler-{number:07}"),
            termination_type: si::TerminationType::StoppedByRm as i32,
            ..Default::default()
        };
        let releases = si::AllocationReleasesRequest {
            allocations_to_release: vec![release],
            ..Default::default()
        };
        si::AllocationRequest {
            rm_id: "bench".into(),
            releases: Some(releases),
            ..Default::default()
        }
    };
    (0..case.releases).map(release).collect()
}

async fn run(case: &Case, with_gangs: bool, idle: Duration) -> Taken {
    let most = case
        .quota
        .map_or(String::new(), |vcores| format!(", resources: {{max: {{vcore: '{vcores}m'}}}}"));
    let config = format!(
        "partitions:\n- name: default\n  queues:\n  - name: root\n    submitacl: '*'\n    \
         queues:\n    - {{name: jobs{most}}}\n"
    );
    let shim = Shim::start(&config, Threads::PerPartition).await;
    shim.nodes(NODES, &[("vcore", HELD + case.spare)]).await;
    shim.applications(1, |_| "root.jobs".into()).await;
    let filled = case.quota.unwrap_or(HELD * i64::try_from(NODES).unwrap());
    let fillers = usize::try_from(filled / case.filler).unwrap();
    shim.expect(fillers);
    shim.asks("filler", fillers, 1, &[("vcore", case.filler)]).await;
    shim.all_allocated().await;
    shim.scheduler.settle().await;
    let before = shim.running();
    let cpu = cpu_time();
    if with_gangs {
        submit(&shim, case).await;
    }
    let intake = cpu_time().saturating_sub(cpu);
    assert_eq!(shim.running(), before, "no gang fits");

    // After this pause the scan for the scale-up signal is over.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let cpu = cpu_time();
    tokio::time::sleep(idle).await;
    let idle = cpu_time().saturating_sub(cpu);

    let requests = releases(case);
    let (heap, cpu) = (Region::new(&HEAP), cpu_time());
    for request in requests {
        shim.scheduler.update_allocation(request).await.unwrap();
        shim.scheduler.settle().await;
    }
    let (heap, cpu) = (heap.change(), cpu_time().saturating_sub(cpu));
    let started = shim.running() - before;
    shim.scheduler.shutdown().await;
    let each = |sum: f64| sum / case.releases as f64;
    Taken {
        cpu_us: each(cpu.as_secs_f64() * 1e6),
        allocations: each((heap.allocations + heap.reallocations) as f64),
        bytes: each(heap.bytes_allocated as f64),
        started,
        idle_ms: idle.as_secs_f64() * 1e3,
        intake_us: intake.as_secs_f64() * 1e6 / GANGS as f64,
    }
}

fn print_row(case: &Case, with_gangs: bool, runs: &[Taken]) {
    let of = |field: fn(&Taken) -> f64| median(&mut runs.iter().map(field).collect::<Vec<_>>());
    println!(
        "| {} | {} | {} | {:.1} | {:.1} | {:.0} | {} | {:.2} | {:.1} |",
        case.name,
        if with_gangs { GANGS } else { 0 },
        case.releases,
        of(|taken| taken.cpu_us),
        of(|taken| taken.allocations),
        of(|taken| taken.bytes),
        runs[0].started,
        runs[0].idle_ms,
        of(|taken| taken.intake_us),
    );
}

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    println!(
        "| a release gives | gangs that wait | releases | CPU µs each | heap allocations each | \
         bytes each | gangs that run then | idle, ms CPU in {} s | taken in, µs CPU per gang |",
        IDLE.as_secs()
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for case in CASES.iter().filter(|case| case.name.contains(filter.as_str())) {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for number in 0..RUNS {
            let idle = if number == 0 { IDLE } else { Duration::ZERO };
            without.push(runtime.block_on(run(case, false, idle)));
            with.push(runtime.block_on(run(case, true, idle)));
        }
        print_row(case, false, &without);
        print_row(case, true, &with);
    }
}
