//! What a scheduler is started with, for the front and all that it starts. It is a file of its own
//! so that the front need not know the builder of the embedding API.

use std::sync::Arc;
use std::time::Duration;

use crate::api::journeys::Following;
use crate::api::users::Resolvers;
use crate::events::EventLog;
use crate::front::rm::DefaultQueues;
use crate::front::translate::Intake;
use crate::partition::oracle::Watch;
use crate::spin::Spin;

/// On which threads the actors live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// Front on one thread, each partition on a thread of its own. Where there would be more than
    /// [`SchedulerBuilder::partition_threads`](crate::SchedulerBuilder::partition_threads),
    /// partitions share them.
    #[default]
    PerPartition,
    /// All on the front's thread: fewer crossings for a single partition, and required for a
    /// paused clock.
    One,
}

/// What a scheduler is started with.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) threads: Threads,
    /// The most threads for partitions.
    pub(crate) partition_threads: usize,
    /// For how long the threads look out for more before they sleep.
    pub(crate) spin: Spin,
    /// The configuration of RMs that register without one.
    pub(crate) default_queues: DefaultQueues,
    /// Epoch time at the start, ns.
    pub(crate) epoch_ns: i64,
    pub(crate) reorder_window: Duration,
    pub(crate) intake: Intake,
    /// How many applications that are over a partition keeps in each of its two lists.
    pub(crate) ended_applications: usize,
    /// How many of its last decisions a partition keeps.
    pub(crate) decisions: usize,
    pub(crate) watch: Watch,
    /// Where the events of all RMs go.
    pub(crate) events: Arc<EventLog>,
    pub(crate) resolvers: Resolvers,
    /// Who is told of placements that are followed.
    pub(crate) following: Option<Following>,
}
