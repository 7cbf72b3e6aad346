//! Long work is done in several steps, with other work in between.

use std::future::poll_fn;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle};
use monoceros_proto::si::v1 as si;
use tokio::task::spawn_local;

use crate::common::vcore;
use crate::lists::QUEUES;
use crate::world::{in_virtual_time, register, send_lines};

/// Most refusals of nodes, or releases, in one step.
const PER_STEP: u64 = 2_048;

/// Counts the work between two turns of other work.
#[derive(Default)]
struct Slices {
    placed: AtomicU64,
    /// One of this many nodes accepts a request, another node for each request; 0: all accept.
    one_of: u64,
    refused: AtomicU64,
    refused_in_turn: AtomicU64,
    most_in_turn: AtomicU64,
    on_drained: AtomicU64,
    released: AtomicU64,
    /// Number of releases at the time of the last placement.
    released_before: AtomicU64,
}

impl Slices {
    /// Records that other work had its turn.
    fn turn(&self) {
        let refused = self.refused_in_turn.swap(0, Ordering::Relaxed);
        self.most_in_turn.fetch_max(refused, Ordering::Relaxed);
    }
}

impl ResourceManagerCallback for Slices {
    fn update_allocation(&self, response: si::AllocationResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected);
        if !response.new.is_empty() {
            self.released_before.store(self.released.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.placed.fetch_add(response.new.len() as u64, Ordering::Relaxed);
        self.released.fetch_add(response.released.len() as u64, Ordering::Relaxed);
        let drained = response.new.iter().filter(|it| it.node_id == "n0000").count();
        self.on_drained.fetch_add(drained as u64, Ordering::Relaxed);
    }
    fn update_application(&self, _: si::ApplicationResponse) {}
    fn update_node(&self, _: si::NodeResponse) {}

    fn predicates(&self, args: &si::PredicatesArgs) -> Result<(), String> {
        let mut hasher = DefaultHasher::new();
        (&args.allocation_key, &args.node_id).hash(&mut hasher);
        if self.one_of == 0 || hasher.finish().is_multiple_of(self.one_of) {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.refused_in_turn.fetch_add(1, Ordering::Relaxed);
        Err("not here".to_owned())
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

async fn start(slices: &Arc<Slices>, nodes: usize) -> SchedulerHandle {
    let scheduler = Scheduler::builder().epoch_ns(0).start_local().unwrap();
    register(&scheduler, "rm", QUEUES, Arc::clone(slices) as _).await;
    let node = |number| format!("node n{number:04} vcore=100000\n");
    send_lines(&scheduler, "rm", &(0..nodes).map(node).collect::<String>()).await;
    scheduler
}

fn asks(numbers: Range<i64>, size: impl Fn(i64) -> i64) -> si::AllocationRequest {
    let ask = |number| si::AllocationAsk {
        allocation_key: format!("m{number:04}"),
        application_id: "gang".into(),
        resource_ask: Some(vcore(size(number))),
        max_allocations: 1,
        task_group_name: "g".into(),
        ..Default::default()
    };
    let asks = numbers.map(ask).collect();
    si::AllocationRequest { rm_id: "rm".into(), asks, ..Default::default() }
}

/// Declares a gang of `min_members` members. If they have a size, their asks are known before they
/// arrive.
async fn declare(scheduler: &SchedulerHandle, min_members: i32, member: Option<i64>) {
    let (name, member) = ("g".to_owned(), member.map(vcore));
    let task_groups = vec![si::TaskGroup { name, min_members, member, ..Default::default() }];
    let new = vec![si::AddApplicationRequest {
        application_id: "gang".into(),
        queue_name: "root.a".into(),
        ugi: Some(si::UserGroupInformation { user: "ann".into(), groups: vec![] }),
        task_groups,
        ..Default::default()
    }];
    let request = si::ApplicationRequest { rm_id: "rm".into(), new, ..Default::default() };
    scheduler.update_application(request).await.unwrap();
}

/// All members differ, and most nodes refuse each: no step has more than the maximum of refusals, a
/// node that is removed between two steps is not used, and all members are placed at once.
#[test]
fn a_gang_search_continues_in_later_steps() {
    in_virtual_time(async {
        let slices = Arc::new(Slices { one_of: 30, ..Slices::default() });
        let scheduler = start(&slices, 600).await;
        declare(&scheduler, 600, None).await;
        scheduler.settle().await;
        let watching = Arc::clone(&slices);
        let watch = spawn_local(async move {
            loop {
                turn_of_others().await;
                watching.turn();
            }
        });
        scheduler.update_allocation(asks(0..600, |number| 1 + number)).await.unwrap();
        let node = si::NodeInfo {
            node_id: "n0000".into(),
            action: si::node_info::ActionFromRm::DrainNode as i32,
            ..Default::default()
        };
        let request =
            si::NodeRequest { rm_id: "rm".into(), nodes: vec![node], ..Default::default() };
        scheduler.update_node(request).await.unwrap();
        while slices.refused.load(Ordering::Relaxed) < PER_STEP {
            turn_of_others().await;
        }
        assert_eq!(slices.placed.load(Ordering::Relaxed), 0, "all are placed at once");
        scheduler.settle().await;
        watch.abort();
        assert!(slices.refused.load(Ordering::Relaxed) > 2 * PER_STEP);
        let most = slices.most_in_turn.load(Ordering::Relaxed);
        assert!(most <= PER_STEP, "{most} in one step");
        assert_eq!(slices.placed.load(Ordering::Relaxed), 600);
        assert_eq!(slices.on_drained.load(Ordering::Relaxed), 0);
        assert_eq!(scheduler.check_books("default").await.unwrap(), [""; 0]);
        scheduler.shutdown().await;
    });
}

/// Members ask while places are searched: results for earlier members are kept.
#[test]
fn a_search_continues_when_more_members_ask() {
    in_virtual_time(async {
        let slices = Arc::new(Slices { one_of: 60, ..Slices::default() });
        let scheduler = start(&slices, 800).await;
        let control = scheduler.control("rm").await.unwrap();
        control.hold(true);
        declare(&scheduler, 500, Some(200)).await;
        scheduler.update_allocation(asks(0..450, |_| 200)).await.unwrap();
        scheduler.settle().await;
        control.hold(false);
        while slices.refused.load(Ordering::Relaxed) == 0 {
            turn_of_others().await;
        }
        for from in (450..500).step_by(10) {
            scheduler.update_allocation(asks(from..from + 10, |_| 200)).await.unwrap();
        }
        assert_eq!(slices.placed.load(Ordering::Relaxed), 0, "it goes on still");
        scheduler.settle().await;
        assert_eq!(slices.placed.load(Ordering::Relaxed), 500);
        let refused = slices.refused.load(Ordering::Relaxed);
        // Each has 59 refusals on average.
        assert!(refused < 500 * 75, "{refused}");
        assert_eq!(scheduler.check_books("default").await.unwrap(), [""; 0]);
        scheduler.shutdown().await;
    });
}

async fn steps(scheduler: &SchedulerHandle) -> u64 {
    scheduler.steps("default").await.unwrap().last
}

/// A large application releases its capacity in slices: others use it before the end, and later
/// messages of its resource manager are processed after all of it.
#[test]
fn a_large_application_is_removed_in_slices() {
    in_virtual_time(async {
        let slices = Arc::new(Slices::default());
        let scheduler = start(&slices, 1).await;
        send_lines(&scheduler, "rm", "app a1 in root.a\nask a1 k x5000 vcore=19").await;
        send_lines(&scheduler, "rm", "app b1 in root.b\nask b1 k1 vcore=20000").await;
        assert_eq!(slices.placed.load(Ordering::Relaxed), 5_000);
        let before = steps(&scheduler).await;
        let remove = vec![si::RemoveApplicationRequest {
            application_id: "a1".into(),
            ..Default::default()
        }];
        let request = si::ApplicationRequest { rm_id: "rm".into(), remove, ..Default::default() };
        scheduler.update_application(request).await.unwrap();
        scheduler.settle().await;
        assert_eq!(slices.placed.load(Ordering::Relaxed), 5_001);
        assert_eq!(slices.released.load(Ordering::Relaxed), 5_000);
        let before_b1 = slices.released_before.load(Ordering::Relaxed);
        assert!(before_b1 < 5_000, "{before_b1} were released before b1 was placed");
        send_lines(&scheduler, "rm", "app a1 in root.a\nask a1 k vcore=5").await;
        assert!(steps(&scheduler).await > before + 3);
        assert_eq!(slices.placed.load(Ordering::Relaxed), 5_002);
        let a1 = scheduler.application("default", "a1").await.unwrap().unwrap();
        assert_eq!(a1.allocations.len(), 1);
        assert_eq!(scheduler.check_books("default").await.unwrap(), [""; 0]);
        scheduler.shutdown().await;
    });
}

/// Allocations placed between two slices of a release stay.
#[test]
fn a_full_release_ends_only_earlier_allocations() {
    in_virtual_time(async {
        let slices = Arc::new(Slices::default());
        let scheduler = start(&slices, 1).await;
        send_lines(&scheduler, "rm", "app a1 in root.a\nask a1 k x5000 vcore=19").await;
        send_lines(&scheduler, "rm", "ask a1 late vcore=20000").await;
        let allocations_to_release = vec![si::AllocationRelease {
            application_id: "a1".into(),
            termination_type: si::TerminationType::StoppedByRm as i32,
            ..Default::default()
        }];
        let releases =
            Some(si::AllocationReleasesRequest { allocations_to_release, ..Default::default() });
        let request = si::AllocationRequest { rm_id: "rm".into(), releases, ..Default::default() };
        scheduler.update_allocation(request).await.unwrap();
        scheduler.settle().await;
        assert_eq!(slices.placed.load(Ordering::Relaxed), 5_001);
        let a1 = scheduler.application("default", "a1").await.unwrap().unwrap();
        assert_eq!(a1.allocations.len(), 1, "the late one");
        assert_eq!(scheduler.check_books("default").await.unwrap(), [""; 0]);
        scheduler.shutdown().await;
    });
}
