//! Setting a scheduler up and starting it. All settings are given before the start, since
//! partitions copy them when they begin.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use actix::prelude::*;
use monoceros_rules::asks::failed_starts::StartRetry;
use monoceros_rules::specs::quotas::Quotas;
use tokio::sync::watch;

use super::{SchedulerHandle, StartError};
use crate::api::journeys::{Following, Journeys, Sampling};
use crate::api::users::{Resolvers, UserGroupResolver};
use crate::clock::{Clock, wall_clock_ns};
use crate::events::{EventLog, EventSettings};
use crate::front::default_queues::DefaultQueues;
use crate::front::rm_proxy::RmProxy;
use crate::front::rosters::Rosters;
use crate::front::settings::Settings;
pub use crate::front::settings::Threads;
use crate::front::translate::Intake;
use crate::mailbox::Mailbox;
use crate::metrics::Metrics;
use crate::partition::oracle::Watch;
use crate::spin::Spin;

/// How many applications that are over are kept in a list, unless it is set.
const ENDED_APPLICATIONS: usize = 10_000;

/// How many of its last decisions a partition keeps, unless it is set.
const DECISIONS: usize = 4_096;

/// The most threads for partitions, unless it is set: with four file descriptors each, half of the
/// 1,024 that a process commonly has.
const PARTITION_THREADS: usize = 128;

/// The queues of [`Scheduler::simple`].
const ONE_QUEUE: &str = "\
partitions:
  - name: default
    placementrules:
      - name: fixed
        value: root.default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: default
";

type Front = (Mailbox<RmProxy>, Option<System>, Option<watch::Receiver<()>>);

/// The entry to this crate: [`Scheduler::simple`] to begin with, [`Scheduler::builder`] for more.
#[derive(Debug)]
pub struct Scheduler;

impl Scheduler {
    /// Begins to set a scheduler up.
    pub fn builder() -> SchedulerBuilder {
        SchedulerBuilder::default()
    }

    /// Begins to set a scheduler up for RMs that have no use for queues: there is one, which takes
    /// whoever comes. Queues that an RM brings along are taken instead.
    ///
    /// An application names its user all the same, since events and lists do.
    pub fn simple() -> SchedulerBuilder {
        Self::builder().default_queues(ONE_QUEUE)
    }
}

/// Sets a scheduler up. Defaults: the embedded queue configuration, a thread per partition, the
/// machine's time.
#[derive(Clone, Debug, Default)]
pub struct SchedulerBuilder {
    threads: Threads,
    partition_threads: Option<usize>,
    spin: Duration,
    default_queues: String,
    epoch_ns: Option<i64>,
    reorder_window: Duration,
    intake: Intake,
    ended_applications: Option<usize>,
    decisions: Option<usize>,
    is_without_legacy_names: bool,
    watch: Watch,
    events: EventSettings,
    resolvers: Resolvers,
    following: Option<Following>,
}

impl SchedulerBuilder {
    /// The queue configuration of RMs that register without one (YAML).
    #[must_use]
    pub fn default_queues(mut self, yaml: impl Into<String>) -> Self {
        self.default_queues = yaml.into();
        self
    }

    /// On which threads the actors live, for [`Self::start`].
    #[must_use]
    pub fn threads(mut self, threads: Threads) -> Self {
        self.threads = threads;
        self
    }

    /// The most threads for partitions, beside the front's; 128 unless set, and one at least. Each
    /// takes four file descriptors. With more partitions than that, some share a thread; those of one
    /// RM share among themselves first.
    #[must_use]
    pub fn partition_threads(mut self, most: usize) -> Self {
        self.partition_threads = Some(most);
        self
    }

    /// For how long the front's thread and those of partitions look out for more, after the last
    /// message, before they sleep; they sleep at once unless set. An ask that comes alone is decided
    /// sooner for it, and costs that much CPU on each thread (`docs/performance.md#a-lone-ask`). No more
    /// threads do so at a time than there are cores, and none where there is one. What is longer than
    /// [`SPIN_MAX`](crate::SPIN_MAX) counts as that. Without effect on [`Self::start_local`].
    #[must_use]
    pub fn spin(mut self, lasts: Duration) -> Self {
        self.spin = lasts;
        self
    }

    /// The epoch time at the start, ns; the machine's unless given. Time goes on with
    /// `tokio::time`.
    #[must_use]
    pub fn epoch_ns(mut self, epoch_ns: i64) -> Self {
        self.epoch_ns = Some(epoch_ns);
        self
    }

    /// How long asks may wait for an application that has not come yet, before they are rejected:
    /// for RMs whose requests come by several streams. None unless set.
    #[must_use]
    pub fn reorder_window(mut self, window: Duration) -> Self {
        self.reorder_window = window;
        self
    }

    /// The most bytes of the id of an application, node, request or allocation; 1,024 unless set.
    /// What is longer is rejected.
    #[must_use]
    pub fn id_bytes(mut self, bytes: usize) -> Self {
        self.intake.id_bytes = bytes;
        self
    }

    /// The most allocations that one ask may want (`maxAllocations`); 10,000 unless set. An ask
    /// that wants more is rejected.
    #[must_use]
    pub fn max_repeat(mut self, allocations: u32) -> Self {
        self.intake.max_repeat = allocations;
        self
    }

    /// Whether an allocation is taken back when it has run for the `executionTimeoutMilliSeconds`
    /// of its ask (`docs/applications.md#execution-timeout`). It is unless set.
    #[must_use]
    pub fn enforce_execution_timeout(mut self, enforce: bool) -> Self {
        self.intake.enforces_execution_timeout = enforce;
        self
    }

    /// Whether an application fails when it has run for its `executionTimeoutMilliSeconds`
    /// (`docs/applications.md#applications-that-run-for-too-long`). It does not unless set.
    #[must_use]
    pub fn enforce_application_timeout(mut self, enforce: bool) -> Self {
        self.intake.enforces_application_timeout = enforce;
        self
    }

    /// How many applications that have ended a partition keeps to be read, and how many that it
    /// rejected (`docs/applications.md#what-is-kept-of-an-application-that-is-over`); 10,000 unless
    /// set. Beyond, the oldest goes.
    #[must_use]
    pub fn ended_applications(mut self, most: usize) -> Self {
        self.ended_applications = Some(most);
        self
    }

    /// How many of its last decisions a partition keeps to be read, each with what it was decided by
    /// (`docs/decisions.md`); 4,096 unless set, 100,000 at most, and none with 0.
    #[must_use]
    pub fn decisions(mut self, most: usize) -> Self {
        self.decisions = Some(most);
        self
    }

    /// Whether metrics have the families with the path of a queue in their names, too, which releases
    /// of YuniKorn up to 1.7 had and its dashboards still read. They have unless set.
    #[must_use]
    pub fn legacy_queue_metrics(mut self, are_made: bool) -> Self {
        self.is_without_legacy_names = !are_made;
        self
    }

    /// Whether changes of a node that is not there are rejected, rather than ignored and counted
    /// (`docs/nodes.md#another-capacity`). They are not unless set, because older clients do not
    /// expect it.
    #[must_use]
    pub fn reject_node_updates(mut self, reject: bool) -> Self {
        self.intake.rejects_node_updates = reject;
        self
    }

    /// How many items of an RM may wait for its partitions before
    /// [`SchedulerHandle::update_allocation`] and its like wait, too; 65,536 unless set. The
    /// calls that wait return when no more than half of that many items wait.
    #[must_use]
    pub fn ingress_items(mut self, items: usize) -> Self {
        self.intake.waiting_items = items;
        self
    }

    /// How many resource types an RM may have in use; 1,024 unless set. The four that every
    /// scheduler knows (`vcore`, `memory`, `pods`, `ephemeral-storage`) do not count. An item that
    /// names one more is rejected.
    #[must_use]
    pub fn resource_names(mut self, names: usize) -> Self {
        self.intake.resource_names = names;
        self
    }

    /// How much of each kind of thing an RM may have. What is new and would be more is rejected; see
    /// [`Quotas`] for the defaults.
    #[must_use]
    pub fn quotas(mut self, quotas: Quotas) -> Self {
        self.intake.quotas = quotas;
        self
    }

    /// The most bytes that the tags of one item, or the attributes of a node, may have together; 2
    /// MiB unless set. An item with more is rejected.
    #[must_use]
    pub fn tag_bytes(mut self, bytes: usize) -> Self {
        self.intake.tag_bytes = bytes;
        self
    }

    /// What is kept and told of events. No RM changes it, apart from how many it is told of itself.
    #[must_use]
    pub fn events(mut self, settings: EventSettings) -> Self {
        self.events = settings;
        self
    }

    /// Who says which groups a user is in, for partitions whose configuration names `name` as
    /// `usergroupresolver.type`. The empty name, and each that is not known, means that a user is
    /// in one group of the same name.
    #[must_use]
    pub fn user_group_resolver(
        mut self,
        name: impl Into<String>,
        resolver: Arc<dyn UserGroupResolver>,
    ) -> Self {
        self.resolvers.add(name.into(), resolver);
        self
    }

    /// How long a resolver may take for one user before the user counts as one that cannot be
    /// resolved; 10 s unless set. What an RM sends waits for it, in order.
    #[must_use]
    pub fn user_lookup_timeout(mut self, timeout: Duration) -> Self {
        self.resolvers.set_timeout(timeout);
        self
    }

    /// How old an ask has to be before it reserves a node that it does not require
    /// (`docs/scheduling.md#reservations`); 2 s unless set. `None`: no such reservation is made.
    #[must_use]
    pub fn reservation_delay(mut self, delay: Option<Duration>) -> Self {
        self.watch.patience.delay = delay;
        self
    }

    /// How much of the capacity of open nodes may be reserved by asks that may go elsewhere, in percent
    /// (`docs/scheduling.md#reservations`); 20 unless set. Two nodes may be in any case.
    #[must_use]
    pub fn reservation_share(mut self, percent: u32) -> Self {
        self.watch.patience.share_percent = percent;
        self
    }

    /// After how long a reservation is given up whose ask does not fit its quotas; an hour unless
    /// set.
    #[must_use]
    pub fn reservation_wait_timeout(mut self, timeout: Duration) -> Self {
        self.watch.patience.wait_timeout = timeout;
        self
    }

    /// The back-off of a request whose allocation could not be started
    /// (`docs/scheduling.md#starts-that-fail`): after the first failure, and at most; 1 s and 60 s
    /// unless set.
    #[must_use]
    pub fn start_retry(mut self, first: Duration, longest: Duration) -> Self {
        self.watch.start_retry = StartRetry { first, longest };
        self
    }

    /// Decisions after which an offer comes home. 1 is the reference that any other must agree
    /// with; the default is 64.
    #[must_use]
    pub fn decisions_per_trip(mut self, decisions: u32) -> Self {
        self.watch.decisions_per_trip = decisions.max(1);
        self
    }

    /// The most nodes that one question about a predicate that is answered later names, at least
    /// one; 512 unless set. The first question of an ask names one, the next 16, then twice as
    /// many each time.
    #[must_use]
    pub fn candidates_per_question(mut self, nodes: usize) -> Self {
        self.watch.candidates_per_question = nodes.max(1);
        self
    }

    /// Compares the books, every decision and every silence with a full search, and panics where
    /// they disagree: the partition is lost and its RM asked to resync. For tests; costs a
    /// visit to all actors per decision.
    #[must_use]
    pub fn compare_with_full_search(mut self) -> Self {
        self.watch.oracle = true;
        self.watch.decisions_per_trip = 1;
        self
    }

    /// Starts the scheduler on threads of its own.
    pub fn start(self) -> Result<SchedulerHandle, StartError> {
        self.start_with(|settings, rosters, metrics| {
            let (sender, started) = mpsc::channel();
            let metrics = Arc::clone(metrics);
            let (alive, ended) = watch::channel(());
            std::thread::Builder::new().name("monoceros-front".to_owned()).spawn(move || {
                // Dropped with the thread, whatever ends it.
                let _alive = alive;
                let system = System::new();
                let proxy = system.block_on(async {
                    if let Some(spinner) = settings.spin.spinner() {
                        actix_rt::spawn(spinner);
                    }
                    RmProxy::begin(settings, rosters, &metrics)
                });
                if sender.send((proxy, System::current())).is_ok() {
                    let _ = system.run();
                }
            })?;
            let (proxy, system) = started.recv().map_err(|_| StartError::Ended)?;
            Ok((proxy, Some(system), Some(ended)))
        })
    }

    /// Starts the scheduler with every actor on the present thread, which must be inside a
    /// `tokio::task::LocalSet` (or an actix system) on a current-thread runtime. With a paused
    /// clock it runs in virtual time.
    pub fn start_local(mut self) -> Result<SchedulerHandle, StartError> {
        self.threads = Threads::One;
        self.spin = Duration::ZERO;
        self.start_with(|settings, rosters, metrics| {
            Ok((RmProxy::begin(settings, rosters, metrics), None, None))
        })
    }

    /// Follows so many of all placements (from 0 to 1), and those whose sender says so by the tag
    /// [`TRACEPARENT`](crate::TRACEPARENT), and tells of them. By default nobody is told.
    #[must_use]
    pub fn journeys(mut self, ratio: f64, told: Arc<dyn Journeys>) -> Self {
        let sampling = Sampling::of(ratio);
        self.intake.sampling = Some(sampling);
        self.following = Some(Following { told });
        self
    }

    /// Starts the scheduler; `begin` starts the front, and says on which system and what is closed when
    /// that ends, where it has one of its own.
    fn start_with(
        self,
        begin: impl FnOnce(Settings, Rosters, &Arc<Metrics>) -> Result<Front, StartError>,
    ) -> Result<SchedulerHandle, StartError> {
        let (metrics, rosters) = (self.metrics(), Rosters::default());
        let settings = self.settings()?;
        let (start_ns, quotas) = (settings.epoch_ns, settings.intake.quotas);
        let events = Arc::clone(&settings.events);
        let (proxy, system, ended) = begin(settings, rosters.clone(), &metrics)?;
        let clock = Clock::new(start_ns);
        Ok(SchedulerHandle {
            proxy,
            rosters,
            system,
            metrics,
            events,
            start_ns,
            clock,
            quotas,
            ended,
        })
    }

    fn metrics(&self) -> Arc<Metrics> {
        if self.is_without_legacy_names { Metrics::without_legacy_names() } else { Metrics::new() }
    }

    fn settings(self) -> Result<Settings, StartError> {
        let default_queues = DefaultQueues::read(&self.default_queues)?;
        Ok(Settings {
            threads: self.threads,
            partition_threads: self.partition_threads.unwrap_or(PARTITION_THREADS),
            spin: Spin::new(self.spin),
            default_queues,
            epoch_ns: self.epoch_ns.unwrap_or_else(wall_clock_ns),
            reorder_window: self.reorder_window,
            intake: self.intake,
            ended_applications: self.ended_applications.unwrap_or(ENDED_APPLICATIONS),
            decisions: self.decisions.unwrap_or(DECISIONS),
            watch: self.watch,
            events: EventLog::new(self.events),
            resolvers: self.resolvers,
            following: self.following,
        })
    }
}
