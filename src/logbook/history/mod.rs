//! Usage of queues, users and nodes over time, in a bounded part of the memory.
//!
//! # What is kept
//! * Queues: usage, pending amount, guarantee, maximum. Users: usage, and the limit at the root. A
//!   day of both is kept, with a sample in each `history.interval`.
//! * Nodes: allocated amount, capacity. An hour is kept, with a sample in four intervals (a minute
//!   by default), because a read of all nodes visits each of them.
//!
//! # Invariants
//! * All series together take at most `history.bytes` (module `store`).
//! * Decisions do not wait for a sample: it is read as lists are. A partition without a step since
//!   its last sample is not read. A partition that hangs does not delay the samples of others.
//! * A read of the history does not query the scheduler.
//! * Ticks are of the wall clock. If it goes back by more than a few ticks, the series begin anew.

mod points;
mod series;
mod store;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use monoceros_actors::snapshot::{QueueSnapshot, UserSnapshot};
use monoceros_actors::{Page, ReadError, Resources, SchedulerHandle, Steps};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout_at};

pub use self::points::{AmountHistory, POINTS_MAX, Range, SubjectHistory};
use self::series::Meaning;
pub use self::store::HistorySubject;
use self::store::{Row, Store};
use crate::clock::now_ns;
use crate::locked::locked;
use crate::settings::HistorySettings;

/// Time limit for all reads of a partition.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most partitions that are read at once.
const READS_MAX: usize = 8;

/// The series of this service. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct History(Option<Arc<SharedStore>>);

#[derive(Debug)]
struct SharedStore {
    /// Pause between two samples.
    period: Duration,
    store: Mutex<Store>,
}

/// A sample of all subjects of a kind in one partition.
struct KindSample {
    kind: HistorySubject,
    partition: String,
    tick: u32,
    /// Steps of the partition before the read.
    steps: Steps,
    /// `None`: nothing has changed since the last one.
    rows: Option<Vec<Row>>,
}

/// The step of a partition at the last sample of a kind.
type LastSteps = BTreeMap<(String, HistorySubject), Steps>;

impl History {
    /// Makes an empty history. Without any bytes, none is kept.
    pub(super) fn new(settings: &HistorySettings) -> Self {
        let seconds = settings.interval.get();
        let period = Duration::from_secs(seconds.into());
        let store = || Mutex::new(Store::new(settings.bytes, seconds));
        Self((settings.bytes > 0).then(|| Arc::new(SharedStore { period, store: store() })))
    }

    /// Whether a history is kept.
    pub fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Reads a range of a queue, user or node, named with its partition (`[rm]name`). It is empty
    /// before the first sample of the partition. `None` if later samples have nothing of it.
    ///
    /// The store is read in a thread for blocking work, because a sample that is being added holds
    /// it while series are rewritten.
    pub async fn read(
        &self,
        kind: HistorySubject,
        (partition, name): (String, String),
        range: Range,
    ) -> Result<Option<SubjectHistory>, JoinError> {
        let Some(shared) = self.0.clone() else { return Ok(None) };
        let read = move || points::read(&locked(&shared.store), kind, (&partition, &name), &range);
        spawn_blocking(read).await
    }

    /// Takes samples until it is dropped.
    pub(super) async fn keep_sampling(self, handle: SchedulerHandle) {
        let Some(shared) = self.0 else { return };
        let mut ticks = interval_at(Instant::now() + shared.period, shared.period);
        // A process that was suspended does not catch up on missed samples.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_steps = LastSteps::new();
        loop {
            ticks.tick().await;
            let seconds = u64::try_from(now_ns() / 1_000_000_000).unwrap_or(0);
            let samples = samples(&shared, &handle, seconds, &mut last_steps).await;
            let shared = Arc::clone(&shared);
            let _ = spawn_blocking(move || shared.add(&samples)).await;
        }
    }
}

impl SharedStore {
    fn add(&self, samples: &[KindSample]) {
        for KindSample { kind, partition, tick, rows, .. } in samples {
            let mut store = locked(&self.store);
            match rows {
                Some(rows) => store.sample(*kind, partition, *tick, rows),
                None => store.repeat(*kind, partition, *tick),
            }
        }
    }

    /// Returns the tick of a kind at a time, and the tick of its last sample. The wait for the store
    /// is short: samples are added by the task that calls this, and a read takes one series.
    fn ticks(&self, kind: HistorySubject, partition: &str, seconds: u64) -> (u32, Option<u32>) {
        let store = locked(&self.store);
        let ledger = store.ledger(kind);
        let tick = u32::try_from(seconds / u64::from(ledger.period)).unwrap_or(u32::MAX);
        (tick, ledger.last(partition, tick))
    }
}

/// Reads what is due of all partitions.
async fn samples(
    shared: &SharedStore,
    handle: &SchedulerHandle,
    seconds: u64,
    last_steps: &mut LastSteps,
) -> Vec<KindSample> {
    let partitions = handle.partition_names();
    last_steps.retain(|(partition, _), _| partitions.contains(partition));
    let known = &*last_steps;
    let reads: Vec<_> = partitions
        .iter()
        .map(|partition| of_partition(shared, handle, partition, seconds, known))
        .collect();
    let samples: Vec<KindSample> = concurrently(reads).await.into_iter().flatten().collect();
    last_steps.extend(samples.iter().map(|one| ((one.partition.clone(), one.kind), one.steps)));
    samples
}

/// Waits for all reads, of which at most `READS_MAX` run at once.
async fn concurrently<F: Future>(reads: Vec<F>) -> Vec<F::Output> {
    let places = &Semaphore::new(READS_MAX);
    let in_turn = reads.into_iter().map(|read| async move {
        let _place = places.acquire().await;
        read.await
    });
    join_all(in_turn).await
}

/// Reads what is due of a partition. If it hangs or has ended, it has no sample.
async fn of_partition(
    shared: &SharedStore,
    handle: &SchedulerHandle,
    partition: &str,
    seconds: u64,
    last_steps: &LastSteps,
) -> Vec<KindSample> {
    let mut samples = Vec::new();
    let end = Instant::now() + PATIENCE;
    let Ok(Ok(steps)) = timeout_at(end, handle.steps(partition)).await else { return samples };
    for kind in [HistorySubject::Queue, HistorySubject::User, HistorySubject::Node] {
        let (tick, last) = shared.ticks(kind, partition, seconds);
        if last.is_some_and(|last| tick <= last) {
            continue;
        }
        // Without a last sample there is nothing to repeat.
        let known = last.and_then(|_| last_steps.get(&(partition.to_owned(), kind)));
        let rows = if known == Some(&steps) {
            None
        } else {
            let read = timeout_at(end, rows(handle, kind, partition)).await;
            let Ok(Ok(rows)) = read else { continue };
            Some(rows)
        };
        samples.push(KindSample { kind, partition: partition.to_owned(), tick, steps, rows });
    }
    samples
}

/// Reads all subjects of a kind.
async fn rows(
    handle: &SchedulerHandle,
    kind: HistorySubject,
    partition: &str,
) -> Result<Vec<Row>, ReadError> {
    let mut rows = Vec::new();
    match kind {
        HistorySubject::Queue => {
            let (tree, _) = handle.queue_tree(partition, None).await?;
            if let Some(root) = tree {
                add_queues(&root, &mut rows);
            }
        }
        HistorySubject::User => {
            let users = handle.list_users(partition, Page::default()).await?;
            rows.extend(users.rows.iter().map(user));
        }
        HistorySubject::Node => {
            let nodes = handle.node_loads(partition).await?;
            rows.extend(nodes.into_iter().map(|node| {
                let mut amounts = of(Meaning::Used, &node.allocated);
                amounts.extend(of(Meaning::Maximum, &node.total));
                Row { name: node.id.to_string(), amounts }
            }));
        }
    }
    Ok(rows)
}

/// Adds the rows of a queue and of all queues below it.
fn add_queues(queue: &QueueSnapshot, rows: &mut Vec<Row>) {
    let mut amounts = of(Meaning::Used, &queue.allocated_resource);
    amounts.extend(of(Meaning::Waiting, &queue.pending_resource));
    amounts.extend(of(Meaning::Guaranteed, &queue.guaranteed_resource));
    let maxima = queue.max_resource.sorted().into_iter();
    amounts.extend(maxima.map(|(name, amount)| (Meaning::Maximum, name, amount)));
    rows.push(Row { name: queue.queue_name.clone(), amounts });
    for child in &queue.children {
        add_queues(child, rows);
    }
}

fn user(user: &UserSnapshot) -> Row {
    let mut amounts = of(Meaning::Used, &user.queues.resource_usage);
    let maxima = user.queues.max_resources.sorted().into_iter();
    amounts.extend(maxima.map(|(name, amount)| (Meaning::Maximum, name, amount)));
    Row { name: user.user_name.clone(), amounts }
}

fn of(meaning: Meaning, amounts: &Resources) -> Vec<(Meaning, Arc<str>, i64)> {
    amounts.sorted().into_iter().map(|(name, amount)| (meaning, name, amount)).collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::mpsc;
    use std::thread;

    use monoceros_actors::{ResourceManagerCallback, Scheduler};
    use monoceros_proto::si::v1 as si;
    use tokio::sync::oneshot;
    use tokio::task::yield_now;
    use tokio::time::sleep;

    use super::*;

    const ALL: Range = Range { from: None, to: None, points: POINTS_MAX };

    struct Deaf;

    impl ResourceManagerCallback for Deaf {
        fn update_allocation(&self, _: si::AllocationResponse) {}

        fn update_application(&self, _: si::ApplicationResponse) {}

        fn update_node(&self, _: si::NodeResponse) {}
    }

    fn history() -> (History, Arc<SharedStore>) {
        let interval = NonZeroU32::new(15).unwrap();
        let history = History::new(&HistorySettings { bytes: 1 << 20, interval });
        let shared = history.0.clone().unwrap();
        (history, shared)
    }

    fn root() -> (String, String) {
        ("[rm]default".to_owned(), "root".to_owned())
    }

    #[tokio::test]
    async fn samples_go_on_after_the_clock_went_back() {
        let scheduler = Scheduler::simple().start().unwrap();
        let registration = si::RegisterResourceManagerRequest::new("rm");
        scheduler.register_resource_manager(registration, Arc::new(Deaf)).await.unwrap();
        scheduler.settle().await;
        let (history, shared) = history();
        let mut last_steps = LastSteps::new();
        for seconds in [90_000, 90_015, 60_000, 60_015] {
            let samples = samples(&shared, &scheduler, seconds, &mut last_steps).await;
            shared.add(&samples);
        }
        let read = history.read(HistorySubject::Queue, root(), ALL).await.unwrap().unwrap();
        assert_eq!(read.times, [60_000, 60_015].map(|second: i64| second * 1_000_000_000));
        scheduler.shutdown().await;
    }

    #[tokio::test(start_paused = true)]
    async fn partitions_are_read_concurrently_in_bounded_number() {
        let start = Instant::now();
        concurrently((0..2 * READS_MAX).map(|_| async { sleep(PATIENCE).await }).collect()).await;
        let took = start.elapsed();
        assert!((2 * PATIENCE..3 * PATIENCE).contains(&took), "{took:?}");
    }

    #[tokio::test]
    async fn a_read_that_waits_for_the_store_blocks_no_task() {
        let (history, shared) = history();
        let (locks, is_locked) = oneshot::channel();
        let (release, released) = mpsc::channel::<()>();
        let holder = thread::spawn(move || {
            let _store = locked(&shared.store);
            locks.send(()).unwrap();
            let _ = released.recv_timeout(PATIENCE);
        });
        is_locked.await.unwrap();
        let read =
            tokio::spawn(async move { history.read(HistorySubject::Queue, root(), ALL).await });
        // The runtime has one thread: it runs the read until that waits.
        yield_now().await;
        assert!(!read.is_finished());
        release.send(()).unwrap();
        assert!(read.await.unwrap().unwrap().is_some());
        holder.join().unwrap();
    }
}
