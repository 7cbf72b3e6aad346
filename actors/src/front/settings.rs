//! The settings of a scheduler, for the front and everything that it starts.
//!
//! They are apart from the builder of the embedding API, so that the front need not know the builder.

use std::sync::Arc;
use std::time::Duration;

use crate::api::traces::TraceReceiver;
use crate::api::users::Resolvers;
use crate::events::EventLog;
use crate::front::default_queues::DefaultQueues;
use crate::front::translate::Intake;
use crate::partition::oracle::Watch;
use crate::run_times::RunTimeShelf;
use crate::spin::Spin;

/// The threads on which actors run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// The front on one thread, and each partition on a thread of its own. Beyond
    /// [`SchedulerBuilder::partition_threads`](crate::SchedulerBuilder::partition_threads), partitions
    /// share threads.
    #[default]
    PerPartition,
    /// All actors on the front's thread: fewer messages between threads for a single partition, and
    /// required for a paused clock.
    One,
}

/// The settings of a scheduler.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) threads: Threads,
    /// The most threads for partitions.
    pub(crate) partition_threads: usize,
    /// The time for which threads poll for further messages before they sleep.
    pub(crate) spin: Spin,
    /// The configurations of RMs that register without one.
    pub(crate) default_queues: DefaultQueues,
    /// Epoch time at the start, ns.
    pub(crate) epoch_ns: i64,
    pub(crate) reorder_window: Duration,
    pub(crate) intake: Intake,
    /// The most ended applications that a partition keeps in each of its three lists.
    pub(crate) ended_applications: usize,
    /// The number of last decisions that a partition keeps.
    pub(crate) decisions: usize,
    pub(crate) watch: Watch,
    /// The log of events of all RMs.
    pub(crate) events: Arc<EventLog>,
    pub(crate) resolvers: Resolvers,
    /// The receiver of traces; `None`: placements are not traced.
    pub(crate) traces: Option<TraceReceiver>,
    /// The run times of partitions that are not there; `None`: run times are not measured.
    pub(crate) run_times: Option<RunTimeShelf>,
}
