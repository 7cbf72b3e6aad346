//! Scaling with partitions: each has its own thread, and one front thread feeds all.
//!
//! `cargo bench --bench partitions`: 1, 2 and 4 partitions of 1,000 nodes, each with 100
//! applications in one leaf that ask for 50,000 allocations. Either each partition belongs to its
//! own resource manager, or one has all of them. All messages are made before, and are sent in
//! turns, one per partition. The time is from the first ask sent to the last allocation received.
//! The arrangements take turns, so that other work of the machine affects all of them.
//!
//! CPU is measured per thread, which shows what the rate of one machine cannot: the cost of an
//! allocation to the front's thread and to a partition's, and so how many partitions one front
//! could feed if each had a core. See docs/performance.md for the figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

mod allocator;
mod shim;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use monoceros_actors::{
    AllocationNotices, ResourceManagerCallback, Scheduler, SchedulerHandle, Threads,
};
use monoceros_proto::si::v1 as si;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::shim::{cpu_time, median, resource};

const RUNS: usize = 9;
const NODES: usize = 1_000;
const APPLICATIONS: usize = 100;
/// Asks per partition.
const ASKS: usize = 50_000;
const BATCH: usize = 1_000;
const NODE: [(&str, i64); 2] = [("memory", 1_000), ("vcore", 100)];
const SMALL: [(&str, i64); 2] = [("memory", 10), ("vcore", 1)];
const FRONT: &str = "monoceros-front";
/// The system's truncated name of a partition's thread.
const PARTITION: &str = "actix-rt";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// One resource manager for each partition.
    Each,
    /// One resource manager for all.
    One,
}

/// A number of partitions and their owner.
#[derive(Clone, Copy)]
struct Arrangement {
    partitions: usize,
    owner: Owner,
    /// Whether the resource manager is notified by messages, as an embedding program may be.
    /// Otherwise it is notified before messages are made.
    in_messages: bool,
}

const ARRANGEMENTS: [Arrangement; 8] = [
    Arrangement { partitions: 1, owner: Owner::Each, in_messages: false },
    Arrangement { partitions: 2, owner: Owner::Each, in_messages: false },
    Arrangement { partitions: 2, owner: Owner::One, in_messages: false },
    Arrangement { partitions: 4, owner: Owner::Each, in_messages: false },
    Arrangement { partitions: 4, owner: Owner::One, in_messages: false },
    Arrangement { partitions: 1, owner: Owner::Each, in_messages: true },
    Arrangement { partitions: 2, owner: Owner::Each, in_messages: true },
    Arrangement { partitions: 4, owner: Owner::Each, in_messages: true },
];

impl Arrangement {
    fn rms(self) -> usize {
        if self.owner == Owner::Each { self.partitions } else { 1 }
    }

    /// Returns the resource manager of a partition, and its name for the partition.
    fn names(self, partition: usize) -> (String, String) {
        match self.owner {
            Owner::Each => (format!("rm-{partition}"), "default".to_owned()),
            Owner::One => ("rm-0".to_owned(), format!("p{partition}")),
        }
    }

    /// Returns the partitions of each resource manager.
    fn config(self) -> String {
        let mut config = "partitions:\n".to_owned();
        for partition in 0..self.partitions / self.rms() {
            let (_, name) = self.names(partition);
            let _ = writeln!(
                config,
                "- {{name: {name}, queues: [{{name: root, submitacl: '*', queues: [{{name: a}}]}}]}}"
            );
        }
        config
    }
}

/// Counts the allocations of all resource managers.
#[derive(Default)]
struct Count {
    allocated: AtomicUsize,
    wanted: usize,
    reached: Notify,
}

struct CountingCallback {
    count: Arc<Count>,
    in_messages: bool,
}

impl CountingCallback {
    fn count_new(&self, new: usize) {
        let before = self.count.allocated.fetch_add(new, Ordering::AcqRel);
        if before < self.count.wanted && before + new >= self.count.wanted {
            self.count.reached.notify_one();
        }
    }
}

impl ResourceManagerCallback for CountingCallback {
    fn update_allocation(&self, response: si::AllocationResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
        self.count_new(response.new.len());
    }
    fn allocations(&self, notices: AllocationNotices<'_>) {
        if self.in_messages {
            return self.update_allocation(notices.into_message());
        }
        assert!(notices.others().rejected.is_empty(), "{:?}", notices.others().rejected.first());
        self.count_new(notices.new_allocations().len());
    }
    fn update_application(&self, response: si::ApplicationResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
    }
    fn update_node(&self, response: si::NodeResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
    }
}

/// Creates nodes and applications of a partition.
async fn prepare(scheduler: &SchedulerHandle, rm_id: &str, partition: &str) {
    let attributes: BTreeMap<_, _> =
        [("si/node-partition".to_owned(), partition.to_owned())].into();
    let nodes = (0..NODES).map(|number| si::NodeInfo {
        node_id: format!("{partition}-node-{number:04}"),
        action: si::node_info::ActionFromRm::Create as i32,
        schedulable_resource: Some(resource(&NODE)),
        attributes: attributes.clone(),
        ..Default::default()
    });
    let nodes = nodes.collect();
    let request = si::NodeRequest { rm_id: rm_id.to_owned(), nodes, ..Default::default() };
    scheduler.update_node(request).await.unwrap();
    let new = (0..APPLICATIONS).map(|number| si::AddApplicationRequest {
        application_id: format!("app-{number:03}"),
        queue_name: "root.a".to_owned(),
        partition_name: partition.to_owned(),
        ugi: Some(si::UserGroupInformation { user: "bench".to_owned(), groups: vec![] }),
        ..Default::default()
    });
    let new = new.collect();
    let request = si::ApplicationRequest { rm_id: rm_id.to_owned(), new, ..Default::default() };
    scheduler.update_application(request).await.unwrap();
}

/// Makes the message of a partition with its asks, beginning with ask `from`.
fn asks(rm_id: &str, partition: &str, from: usize) -> si::AllocationRequest {
    let ask = |number: usize| si::AllocationAsk {
        allocation_key: format!("ask-{number:07}"),
        application_id: format!("app-{:03}", number * APPLICATIONS / ASKS),
        partition_name: partition.to_owned(),
        resource_ask: Some(resource(&SMALL)),
        max_allocations: 1,
        ..Default::default()
    };
    let asks = (from..from + BATCH).map(ask).collect();
    si::AllocationRequest { rm_id: rm_id.to_owned(), asks, ..Default::default() }
}

/// Returns the CPU time of each thread of this process so far, with its name.
fn cpu_by_thread() -> BTreeMap<u64, (String, Duration)> {
    let mut threads = BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let Ok(number) = task.file_name().to_string_lossy().parse() else { continue };
        // In nanoseconds, which `stat` does not have.
        let spent = read("schedstat");
        let spent = spent.split_whitespace().next().and_then(|text| text.parse().ok());
        let spent = Duration::from_nanos(spent.unwrap_or(0));
        threads.insert(number, (read("comm").trim().to_owned(), spent));
    }
    threads
}

/// Costs of a run, CPU per allocation.
struct Measured {
    /// Allocations per second of all partitions.
    rate: f64,
    front_us: f64,
    /// Sum of the partitions' threads, which is the cost of an allocation to its own thread.
    partition_us: f64,
    all_us: f64,
}

async fn run(arrangement: Arrangement) -> Measured {
    let builder = Scheduler::builder().threads(Threads::PerPartition);
    let scheduler = builder.partition_threads(2 * arrangement.partitions).start().unwrap();
    let total = ASKS * arrangement.partitions;
    let count = Arc::new(Count { wanted: total, ..Count::default() });
    for rm in 0..arrangement.rms() {
        let request = si::RegisterResourceManagerRequest {
            rm_id: format!("rm-{rm}"),
            config: arrangement.config(),
            ..Default::default()
        };
        let callback = Arc::new(CountingCallback {
            count: Arc::clone(&count),
            in_messages: arrangement.in_messages,
        });
        scheduler.register_resource_manager(request, callback).await.unwrap();
    }
    let names: Vec<_> = (0..arrangement.partitions).map(|at| arrangement.names(at)).collect();
    for (rm_id, partition) in &names {
        prepare(&scheduler, rm_id, partition).await;
    }
    let in_turns = |from| names.iter().map(move |(rm_id, name)| asks(rm_id, name, from));
    let requests: Vec<_> = (0..ASKS).step_by(BATCH).flat_map(in_turns).collect();
    scheduler.settle().await;
    let (before, cpu, start) = (cpu_by_thread(), cpu_time(), Instant::now());
    for request in requests {
        scheduler.update_allocation(request).await.unwrap();
    }
    timeout(Duration::from_secs(120), count.reached.notified()).await.expect("everything fits");
    let wall = start.elapsed();
    // The last notifications are sent before threads' times are read.
    scheduler.settle().await;
    let (cpu, after) = (cpu_time().saturating_sub(cpu), cpu_by_thread());
    scheduler.shutdown().await;
    let of = |name: &str| {
        let spent = |(number, (of, spent)): (&u64, &(String, Duration))| {
            let had = before.get(number).map_or(Duration::ZERO, |(_, had)| *had);
            if of.starts_with(name) { spent.saturating_sub(had) } else { Duration::ZERO }
        };
        after.iter().map(spent).sum::<Duration>()
    };
    let each = |spent: Duration| spent.as_secs_f64() * 1e6 / total as f64;
    Measured {
        rate: total as f64 / wall.as_secs_f64(),
        front_us: each(of(FRONT)),
        partition_us: each(of(PARTITION)),
        all_us: each(cpu),
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runs: Vec<Vec<Measured>> = ARRANGEMENTS.iter().map(|_| Vec::new()).collect();
    for _ in 0..RUNS {
        for (arrangement, runs) in ARRANGEMENTS.iter().zip(&mut runs) {
            runs.push(runtime.block_on(run(*arrangement)));
        }
    }
    println!(
        "| partitions | allocations/s, median (best) | of one partition | CPU µs each: front | \
         partition's thread | all threads | one front could do, allocations/s | and feed, partitions |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let of = |runs: &[Measured], field: fn(&Measured) -> f64| {
        median(&mut runs.iter().map(field).collect::<Vec<_>>())
    };
    let mut alone = [0.0; 2];
    for (arrangement, runs) in ARRANGEMENTS.iter().zip(&runs) {
        let rate = of(runs, |took| took.rate);
        let best = runs.iter().map(|took| took.rate).fold(0.0, f64::max);
        let front = of(runs, |took| took.front_us);
        let partition = of(runs, |took| took.partition_us);
        let alone = &mut alone[usize::from(arrangement.in_messages)];
        if arrangement.partitions == 1 {
            *alone = rate;
        }
        let whose = match arrangement {
            Arrangement { partitions: 1, .. } => "",
            Arrangement { owner: Owner::Each, .. } => ", an RM each",
            Arrangement { owner: Owner::One, .. } => " of one RM",
        };
        println!(
            "| {}{whose}{} | {rate:.0} ({best:.0}) | {:.2} | {front:.2} | {partition:.2} | {:.2} | \
             {:.0} | {:.1} |",
            arrangement.partitions,
            if arrangement.in_messages { ", told in messages" } else { "" },
            rate / *alone,
            of(runs, |took| took.all_us),
            1e6 / front,
            partition / front,
        );
    }
}
