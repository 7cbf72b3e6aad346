//! The longest step of the largest and most varied applications that are allowed.
//!
//! `cargo bench --bench steps -- [FILTER]` prints a table. A step blocks the rest of its partition,
//! so it has to be short whatever the application is. All actors share one thread with a task that
//! measures the longest time between two of its own turns. That time is an upper bound for a step:
//! several steps may lie in it, but none was longer. FILTER is a part of the name of a case, which
//! then runs alone. See docs/performance.md for the figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

mod aims;

use std::cell::Cell;
use std::future::poll_fn;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle};
use monoceros_proto::si::v1 as si;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::Instant;

use crate::aims::at_most;

/// Target for a step, in ms.
const AIM_MS: f64 = 50.0;
const RUNS: usize = 3;
const CONFIG: &str = "partitions:\n- name: default\n  queues:\n  - name: root\n    submitacl: '*'\n    \
                      queues:\n    - {name: jobs, properties: {application.sort.policy: fifo}}\n";

/// The resource manager's predicates.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Predicates {
    /// Every node passes.
    Pass,
    /// Nine of ten nodes refuse a request, different ones for each.
    NineOfTen,
    /// All nodes refuse all requests.
    Refuse,
}

struct Shim {
    predicates: Predicates,
    allocated: AtomicU64,
}

impl ResourceManagerCallback for Shim {
    fn update_allocation(&self, response: si::AllocationResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
        self.allocated.fetch_add(response.new.len() as u64, Ordering::Relaxed);
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
    }

    fn update_node(&self, response: si::NodeResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
    }

    fn predicates(&self, args: &si::PredicatesArgs) -> Result<(), String> {
        let passes = match self.predicates {
            Predicates::Pass => true,
            Predicates::Refuse => false,
            Predicates::NineOfTen => {
                let mut hasher = DefaultHasher::new();
                (&args.allocation_key, &args.node_id).hash(&mut hasher);
                hasher.finish().is_multiple_of(10)
            }
        };
        if passes { Ok(()) } else { Err("not here".to_owned()) }
    }
}

/// A scheduler on this thread, with the measuring task.
struct Bench {
    scheduler: SchedulerHandle,
    shim: Arc<Shim>,
    longest: Rc<Cell<Duration>>,
}

impl Bench {
    async fn start(predicates: Predicates, nodes: usize, capacity: &[(&str, i64)]) -> Self {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let shim = Arc::new(Shim { predicates, allocated: AtomicU64::new(0) });
        let (rm_id, config) = ("bench".to_owned(), CONFIG.to_owned());
        let request = si::RegisterResourceManagerRequest { rm_id, config, ..Default::default() };
        let callback = Arc::clone(&shim);
        scheduler.register_resource_manager(request, callback).await.unwrap();
        let nodes = (0..nodes).map(|number| si::NodeInfo {
            node_id: format!("node-{number:06}"),
            action: si::node_info::ActionFromRm::Create as i32,
            schedulable_resource: Some(resource(capacity)),
            ..Default::default()
        });
        let nodes = nodes.collect();
        let request = si::NodeRequest { rm_id: "bench".into(), nodes, ..Default::default() };
        scheduler.update_node(request).await.unwrap();
        let longest = Rc::new(Cell::new(Duration::ZERO));
        let seen = Rc::clone(&longest);
        spawn_local(async move {
            let mut before = Instant::now();
            loop {
                turn_of_others().await;
                let now = Instant::now();
                seen.set(seen.get().max(now - before));
                before = now;
            }
        });
        let bench = Self { scheduler, shim, longest };
        bench.scheduler.settle().await;
        bench
    }

    async fn application(&self, id: &str, user: &str, task_groups: Vec<si::TaskGroup>) {
        let new = vec![si::AddApplicationRequest {
            application_id: id.to_owned(),
            queue_name: "root.jobs".into(),
            ugi: Some(si::UserGroupInformation {
                user: user.to_owned(),
                groups: vec![format!("of-{user}")],
            }),
            task_groups,
            ..Default::default()
        }];
        let request = si::ApplicationRequest { rm_id: "bench".into(), new, ..Default::default() };
        self.scheduler.update_application(request).await.unwrap();
    }

    async fn asks(
        &self,
        id: &str,
        group: &str,
        count: i64,
        size: impl Fn(i64) -> Vec<(&'static str, i64)>,
    ) {
        for from in (0..count).step_by(1_000) {
            let ask = |number| si::AllocationAsk {
                allocation_key: format!("{group}-{number:06}"),
                application_id: id.to_owned(),
                resource_ask: Some(resource(&size(number))),
                max_allocations: 1,
                task_group_name: group.to_owned(),
                ..Default::default()
            };
            let asks = (from..count.min(from + 1_000)).map(ask).collect();
            let request =
                si::AllocationRequest { rm_id: "bench".into(), asks, ..Default::default() };
            self.scheduler.update_allocation(request).await.unwrap();
        }
    }

    async fn remove(&self, id: &str) {
        let application_id = id.to_owned();
        let remove = vec![si::RemoveApplicationRequest { application_id, ..Default::default() }];
        let request =
            si::ApplicationRequest { rm_id: "bench".into(), remove, ..Default::default() };
        self.scheduler.update_application(request).await.unwrap();
    }

    async fn release_all(&self, id: &str) {
        let allocations_to_release = vec![si::AllocationRelease {
            application_id: id.to_owned(),
            termination_type: si::TerminationType::StoppedByRm as i32,
            ..Default::default()
        }];
        let releases =
            Some(si::AllocationReleasesRequest { allocations_to_release, ..Default::default() });
        let request =
            si::AllocationRequest { rm_id: "bench".into(), releases, ..Default::default() };
        self.scheduler.update_allocation(request).await.unwrap();
    }

    async fn node_leaves(&self, id: &str) {
        let nodes = vec![si::NodeInfo {
            node_id: id.to_owned(),
            action: si::node_info::ActionFromRm::Decomission as i32,
            ..Default::default()
        }];
        let request = si::NodeRequest { rm_id: "bench".into(), nodes, ..Default::default() };
        self.scheduler.update_node(request).await.unwrap();
    }

    fn allocated(&self) -> u64 {
        self.shim.allocated.load(Ordering::Relaxed)
    }

    /// Starts the measurement. Earlier steps were preparation.
    fn watch(&self) {
        self.longest.set(Duration::ZERO);
    }
}

/// Returns after all other tasks had a turn.
async fn turn_of_others() {
    let mut had_one = false;
    poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut had_one, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

fn resource(amounts: &[(&str, i64)]) -> si::Resource {
    let quantity = |&(name, value): &(&str, i64)| (name.to_owned(), si::Quantity { value });
    si::Resource { resources: amounts.iter().map(quantity).collect() }
}

/// A group of members without a size, which is decided when all have asked.
fn group(name: &str, members: i64, member: Option<si::Resource>) -> Vec<si::TaskGroup> {
    let min_members = i32::try_from(members).unwrap();
    vec![si::TaskGroup { name: name.to_owned(), min_members, member, ..Default::default() }]
}

/// Different sizes, of at most 10 of a capacity of 100.
fn own_size(number: i64) -> Vec<(&'static str, i64)> {
    vec![("memory", 900_000 + number), ("vcore", 900_000 + 10 * ((number * 7_919) % 10_000))]
}

const CAPACITY: [(&str, i64); 2] = [("memory", 10_000_000), ("vcore", 10_000_000)];

async fn gang(predicates: Predicates, members: i64, nodes: usize) -> Bench {
    let bench = Bench::start(predicates, nodes, &CAPACITY).await;
    bench.application("gang", "ann", group("g", members, None)).await;
    bench.watch();
    bench.asks("gang", "g", members, own_size).await;
    bench.scheduler.settle().await;
    bench
}

async fn read(case: Case) -> Bench {
    match case {
        Case::ExplainHeld => {
            let bench = Bench::start(Predicates::Pass, 5_000, &CAPACITY).await;
            let member = resource(&[("memory", 1_000_000), ("vcore", 1_000_000)]);
            bench.application("held", "ann", group("g", 50_000, Some(member))).await;
            bench.asks("held", "other", 100, own_size).await;
            bench.scheduler.settle().await;
            bench.watch();
            let waits = bench.scheduler.explain("default", "held", 0).await.unwrap();
            assert!(!waits.is_empty());
            bench
        }
        Case::ExplainGang => {
            let bench = gang(Predicates::Pass, 10_000, 900).await;
            bench.watch();
            assert!(!bench.scheduler.explain("default", "gang", 0).await.unwrap().is_empty());
            bench
        }
        Case::ExplainAsks => {
            let bench =
                Bench::start(Predicates::Pass, 1_000, &[("memory", 10), ("vcore", 10)]).await;
            bench.application("one", "ann", vec![]).await;
            bench.asks("one", "", 10_000, own_size).await;
            bench.scheduler.settle().await;
            bench.watch();
            assert!(!bench.scheduler.explain("default", "one", 0).await.unwrap().is_empty());
            bench
        }
        Case::ApplicationRead => {
            let bench = Bench::start(Predicates::Pass, 2_000, &CAPACITY).await;
            bench.application("large", "ann", vec![]).await;
            bench.asks("large", "", 100_000, |_| vec![("memory", 1), ("vcore", 1)]).await;
            bench.scheduler.settle().await;
            bench.watch();
            let page = bench.scheduler.application("default", "large").await.unwrap();
            assert!(page.is_some());
            bench
        }
        Case::Users | Case::Groups => {
            let bench = Bench::start(Predicates::Pass, 100, &CAPACITY).await;
            for number in 0..10_000 {
                let (id, user) = (format!("app-{number:05}"), format!("user-{number:05}"));
                bench.application(&id, &user, vec![]).await;
                bench.asks(&id, "", 1, |_| vec![("memory", 1), ("vcore", 1)]).await;
            }
            bench.scheduler.settle().await;
            bench.watch();
            if case == Case::Users {
                assert_eq!(bench.scheduler.users("default").await.unwrap().len(), 10_000);
            } else {
                bench.scheduler.groups("default").await.unwrap();
            }
            bench
        }
        _ => unreachable!("{case:?} reads nothing"),
    }
}

async fn run(case: Case) -> Duration {
    let bench = match case {
        Case::GangOfSizes => gang(Predicates::Pass, 10_000, 1_500).await,
        Case::GangThatDoesNotFit => gang(Predicates::Pass, 10_000, 900).await,
        Case::GangPredicates => gang(Predicates::NineOfTen, 6_000, 1_000).await,
        Case::GangRefused => gang(Predicates::Refuse, 6_000, 1_000).await,
        Case::AsksRefused => {
            let bench = Bench::start(Predicates::Refuse, 1_000, &CAPACITY).await;
            bench.application("one", "ann", vec![]).await;
            bench.watch();
            bench.asks("one", "", 10_000, own_size).await;
            bench.scheduler.settle().await;
            bench
        }
        Case::Removal | Case::ReleaseOfAll => {
            let bench = Bench::start(Predicates::Pass, 2_000, &CAPACITY).await;
            bench.application("large", "ann", vec![]).await;
            bench.asks("large", "", 200_000, |_| vec![("memory", 1), ("vcore", 1)]).await;
            bench.scheduler.settle().await;
            assert_eq!(bench.allocated(), 200_000);
            bench.watch();
            if case == Case::Removal {
                bench.remove("large").await;
            } else {
                bench.release_all("large").await;
            }
            bench.scheduler.settle().await;
            bench
        }
        Case::NodeLeaves => {
            let bench = Bench::start(Predicates::Pass, 1, &CAPACITY).await;
            bench.application("large", "ann", vec![]).await;
            bench.asks("large", "", 10_000, |_| vec![("memory", 1), ("vcore", 1)]).await;
            bench.scheduler.settle().await;
            assert_eq!(bench.allocated(), 10_000);
            bench.watch();
            bench.node_leaves("node-000000").await;
            bench.scheduler.settle().await;
            bench
        }
        _ => read(case).await,
    };
    let longest = bench.longest.get();
    let expected = match case {
        Case::GangOfSizes => Some(10_000),
        Case::GangPredicates => Some(6_000),
        Case::GangThatDoesNotFit | Case::GangRefused | Case::AsksRefused => Some(0),
        _ => None,
    };
    assert!(expected.is_none_or(|expected| bench.allocated() == expected), "{}", case.name());
    bench.scheduler.shutdown().await;
    longest
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    GangOfSizes,
    GangThatDoesNotFit,
    GangPredicates,
    GangRefused,
    AsksRefused,
    Removal,
    ReleaseOfAll,
    NodeLeaves,
    ExplainHeld,
    ExplainGang,
    ExplainAsks,
    ApplicationRead,
    Users,
    Groups,
}

impl Case {
    const ALL: [Self; 14] = [
        Self::GangOfSizes,
        Self::GangThatDoesNotFit,
        Self::GangPredicates,
        Self::GangRefused,
        Self::AsksRefused,
        Self::Removal,
        Self::ReleaseOfAll,
        Self::NodeLeaves,
        Self::ExplainHeld,
        Self::ExplainGang,
        Self::ExplainAsks,
        Self::ApplicationRead,
        Self::Users,
        Self::Groups,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::GangOfSizes => "a gang of 10,000 members of own sizes",
            Self::GangThatDoesNotFit => "the same, short of 1,000 places",
            Self::GangPredicates => "a gang of 6,000 of own sizes, 9 of 10 nodes refuse each",
            Self::GangRefused => "the same, all nodes refuse all",
            Self::AsksRefused => "10,000 asks of own sizes, all nodes refuse all",
            Self::Removal => "an application of 200,000 allocations is removed",
            Self::ReleaseOfAll => "all of 200,000 allocations are released",
            Self::NodeLeaves => "a node of 10,000 allocations leaves",
            Self::ExplainHeld => "explain beside 50,000 held places",
            Self::ExplainGang => "explain of a gang of 10,000 members of own sizes",
            Self::ExplainAsks => "explain of 10,000 asks of own sizes",
            Self::ApplicationRead => "an application of 100,000 allocations is read",
            Self::Users => "a list of 10,000 users",
            Self::Groups => "a list of 10,000 groups",
        }
    }
}

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    println!("| case | its longest step, ms | aim |");
    println!("|---|---|---|");
    for case in Case::ALL.into_iter().filter(|case| case.name().contains(filter.as_str())) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut longest: Vec<Duration> =
            (0..RUNS).map(|_| LocalSet::new().block_on(&runtime, run(case))).collect();
        longest.sort_unstable();
        let median = longest[RUNS / 2].as_secs_f64() * 1e3;
        println!("| {} | {} | {AIM_MS} |", case.name(), at_most(median, AIM_MS, 1));
    }
}
