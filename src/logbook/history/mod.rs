//! Usage of queues, users and nodes over time, in a bounded part of the memory.
//!
//! # What is kept
//! Of each queue: what it uses, what is waiting in it, its guarantee and its maximum; of each user:
//! usage, and the limit at the root; of both a day, once in `history.interval` seconds. Of each
//! node: what is allocated, and its capacity; of an hour, once in four intervals (a minute by
//! default), because a read of all nodes visits each of them.
//!
//! # Invariants
//! * All series together take at most `history.bytes` (module `store`).
//! * Decisions do not wait for a sample: it is read as lists are. A partition without a step since
//!   its last sample is not read.
//! * A read of the history does not query the scheduler.

mod points;
mod series;
mod store;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use monoceros_actors::snapshot::{QueueSnapshot, UserSnapshot};
use monoceros_actors::{Page, ReadError, Resources, SchedulerHandle, Steps};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

pub use self::points::{AmountHistory, POINTS_MAX, Range, SubjectHistory};
use self::series::Meaning;
pub use self::store::Kind;
use self::store::{Row, Store};
use crate::clock::now_ns;
use crate::settings::HistorySettings;

/// Time limit for a partition to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The series of this service. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct History(Option<Arc<Kept>>);

#[derive(Debug)]
struct Kept {
    /// Pause between two samples.
    period: Duration,
    store: Mutex<Store>,
}

/// A sample of one kind in one partition.
struct Sample {
    kind: Kind,
    partition: String,
    tick: u32,
    /// `None`: nothing has changed since the last one.
    rows: Option<Vec<Row>>,
}

/// The step of a partition at the last sample of a kind.
type LastSteps = BTreeMap<(String, Kind), Steps>;

impl History {
    /// Makes an empty history. Without any bytes, none is kept.
    pub(super) fn new(settings: &HistorySettings) -> Self {
        let seconds = settings.interval.get();
        let period = Duration::from_secs(seconds.into());
        let store = || Mutex::new(Store::new(settings.bytes, seconds));
        Self((settings.bytes > 0).then(|| Arc::new(Kept { period, store: store() })))
    }

    /// Whether a history is kept.
    pub fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Reads a range of a queue, user or node, named with its partition (`[rm]name`). It is empty
    /// before the first sample of the partition. `None` if later samples have nothing of it.
    pub fn read(
        &self,
        kind: Kind,
        (partition, name): (&str, &str),
        range: &Range,
    ) -> Option<SubjectHistory> {
        points::read(&self.0.as_ref()?.store(), kind, (partition, name), range)
    }

    /// Takes samples until it is dropped.
    pub(super) async fn keep_sampling(self, handle: SchedulerHandle) {
        let Some(kept) = self.0 else { return };
        let mut ticks = interval_at(Instant::now() + kept.period, kept.period);
        // A process that was suspended does not catch up on missed samples.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_steps = LastSteps::new();
        loop {
            ticks.tick().await;
            let seconds = u64::try_from(now_ns() / 1_000_000_000).unwrap_or(0);
            let samples = samples(&kept, &handle, seconds, &mut last_steps).await;
            let kept = Arc::clone(&kept);
            let _ = spawn_blocking(move || kept.add(&samples)).await;
        }
    }
}

impl Kept {
    fn store(&self) -> MutexGuard<'_, Store> {
        // A panic between two writes may leave wrong sums, and nothing unsafe.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, samples: &[Sample]) {
        for Sample { kind, partition, tick, rows } in samples {
            match rows {
                Some(rows) => self.store().sample(*kind, partition, *tick, rows),
                None => self.store().repeat(*kind, partition, *tick),
            }
        }
    }

    /// Returns the tick of a kind at a time, and the tick of its last sample.
    fn ticks(&self, kind: Kind, partition: &str, seconds: u64) -> (u32, u32) {
        let store = self.store();
        let ledger = store.ledger(kind);
        let tick = u32::try_from(seconds / u64::from(ledger.period)).unwrap_or(u32::MAX);
        (tick, ledger.shelf(partition).map_or(0, |shelf| shelf.sampled))
    }
}

/// Reads what is due of all partitions.
async fn samples(
    kept: &Kept,
    handle: &SchedulerHandle,
    seconds: u64,
    last_steps: &mut LastSteps,
) -> Vec<Sample> {
    let partitions = handle.partition_names();
    last_steps.retain(|(partition, _), _| partitions.contains(partition));
    let mut samples = Vec::new();
    for partition in partitions {
        // A partition that hangs or has ended has no sample.
        let Ok(Ok(steps)) = timeout(PATIENCE, handle.steps(&partition)).await else { continue };
        for kind in [Kind::Queue, Kind::User, Kind::Node] {
            let (tick, last) = kept.ticks(kind, &partition, seconds);
            if tick <= last {
                continue;
            }
            let known = last_steps.get(&(partition.clone(), kind));
            let rows = if known == Some(&steps) {
                None
            } else {
                let read = timeout(PATIENCE, rows(handle, kind, &partition)).await;
                let Ok(Ok(rows)) = read else { continue };
                last_steps.insert((partition.clone(), kind), steps);
                Some(rows)
            };
            samples.push(Sample { kind, partition: partition.clone(), tick, rows });
        }
    }
    samples
}

/// Reads all subjects of a kind.
async fn rows(
    handle: &SchedulerHandle,
    kind: Kind,
    partition: &str,
) -> Result<Vec<Row>, ReadError> {
    let mut rows = Vec::new();
    match kind {
        Kind::Queue => {
            let (tree, _) = handle.queue_tree(partition, None).await?;
            if let Some(root) = tree {
                add_queues(&root, &mut rows);
            }
        }
        Kind::User => {
            let users = handle.list_users(partition, Page::default()).await?;
            rows.extend(users.rows.iter().map(user));
        }
        Kind::Node => {
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
