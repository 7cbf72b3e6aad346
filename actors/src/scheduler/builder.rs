//! The builder of a scheduler: its settings, and its start. All settings are given before the start, since
//! partitions copy them when they are started.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use actix::prelude::*;
use monoceros_rules::asks::failed_starts::StartRetry;
use monoceros_rules::runtimes::RunTimeSettings;
use monoceros_rules::specs::quotas::Quotas;
use tokio::sync::watch;

use super::{SchedulerHandle, StartError};
use crate::api::traces::{Sampling, TraceReceiver, TraceSink};
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
use crate::run_times::{RunTimeShelf, RunTimesOf};
use crate::spin::Spin;

/// The default number of ended applications in a list.
const ENDED_APPLICATIONS: usize = 10_000;

/// The default number of decisions that a partition keeps.
const DECISIONS: usize = 4_096;

/// The default number of threads for partitions: with four file descriptors each, they need half of the 1,024
/// descriptors that a process commonly has.
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

/// The entry point of this crate: [`Scheduler::simple`] for a start, [`Scheduler::builder`] for all settings.
#[derive(Debug)]
pub struct Scheduler;

impl Scheduler {
    /// A builder with default settings.
    pub fn builder() -> SchedulerBuilder {
        SchedulerBuilder::default()
    }

    /// A builder with one queue that accepts all users, for RMs that do not need queues. An RM may still register
    /// with a queue configuration of its own.
    ///
    /// Applications name their users nevertheless, for events and lists.
    pub fn simple() -> SchedulerBuilder {
        Self::builder().default_queues(ONE_QUEUE)
    }
}

/// Configures and starts a scheduler. Defaults: the embedded queue configuration, a thread per partition, the
/// time of the machine.
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
    is_without_run_times: bool,
    run_times: RunTimeSettings,
    known_run_times: Vec<RunTimesOf>,
    watch: Watch,
    events: EventSettings,
    resolvers: Resolvers,
    traces: Option<TraceReceiver>,
}

impl SchedulerBuilder {
    /// The queue configuration of RMs that register without one (YAML).
    #[must_use]
    pub fn default_queues(mut self, yaml: impl Into<String>) -> Self {
        self.default_queues = yaml.into();
        self
    }

    /// The threads on which actors run, for [`Self::start`].
    #[must_use]
    pub fn threads(mut self, threads: Threads) -> Self {
        self.threads = threads;
        self
    }

    /// The most threads for partitions, in addition to the front's; default 128, at least one. Each needs four
    /// file descriptors. If there are more partitions, some share a thread, first those of the same RM.
    #[must_use]
    pub fn partition_threads(mut self, most: usize) -> Self {
        self.partition_threads = Some(most);
        self
    }

    /// How long the threads of the front and of partitions spin after the last message before they sleep; default
    /// zero. A lone ask is then decided sooner, and costs this much CPU on each thread
    /// (`docs/performance.md#a-lone-ask`). At most as many threads spin at a time as there are cores, and none on
    /// a single core. Values above [`SPIN_MAX`](crate::SPIN_MAX) count as that. No effect on
    /// [`Self::start_local`].
    #[must_use]
    pub fn spin(mut self, lasts: Duration) -> Self {
        self.spin = lasts;
        self
    }

    /// The epoch time at the start, ns; default the machine's. Time advances with `tokio::time`.
    #[must_use]
    pub fn epoch_ns(mut self, epoch_ns: i64) -> Self {
        self.epoch_ns = Some(epoch_ns);
        self
    }

    /// How long asks wait for an application that has not arrived, before they are rejected: for RMs whose
    /// requests come by several streams. Default zero.
    #[must_use]
    pub fn reorder_window(mut self, window: Duration) -> Self {
        self.reorder_window = window;
        self
    }

    /// The most bytes of the id of an application, node, request or allocation; default 1,024. An item with a
    /// longer one is rejected.
    #[must_use]
    pub fn id_bytes(mut self, bytes: usize) -> Self {
        self.intake.id_bytes = bytes;
        self
    }

    /// The most allocations of one ask (`maxAllocations`); default 10,000. An ask for more is rejected.
    #[must_use]
    pub fn max_repeat(mut self, allocations: u32) -> Self {
        self.intake.max_repeat = allocations;
        self
    }

    /// Whether an allocation is released when it has run for the `executionTimeoutMilliSeconds` of its ask
    /// (`docs/applications.md#execution-timeout`). Default true.
    #[must_use]
    pub fn enforce_execution_timeout(mut self, enforce: bool) -> Self {
        self.intake.enforces_execution_timeout = enforce;
        self
    }

    /// Whether an application fails when it has run for its `executionTimeoutMilliSeconds`
    /// (`docs/applications.md#applications-that-run-for-too-long`). Default false.
    #[must_use]
    pub fn enforce_application_timeout(mut self, enforce: bool) -> Self {
        self.intake.enforces_application_timeout = enforce;
        self
    }

    /// The most ended applications, and the most rejected ones, that a partition keeps
    /// (`docs/applications.md#what-is-kept-of-an-application-that-is-over`); default 10,000. Beyond that the
    /// oldest are dropped.
    #[must_use]
    pub fn ended_applications(mut self, most: usize) -> Self {
        self.ended_applications = Some(most);
        self
    }

    /// The number of last decisions that a partition keeps with their explanations (`docs/decisions.md`); default
    /// 4,096, at most 100,000. Zero: none.
    #[must_use]
    pub fn decisions(mut self, most: usize) -> Self {
        self.decisions = Some(most);
        self
    }

    /// Sets how run times of allocations are measured (`docs/applications.md#how-long-things-run`). `None`: they
    /// are not measured. Default: with a half-life of 7 days, in at most 10,000 classes.
    #[must_use]
    pub fn run_times(mut self, settings: Option<RunTimeSettings>) -> Self {
        self.is_without_run_times = settings.is_none();
        self.run_times = settings.unwrap_or_default();
        self
    }

    /// Run times that an earlier scheduler has measured. A partition begins with those of its name.
    #[must_use]
    pub fn known_run_times(mut self, known: Vec<RunTimesOf>) -> Self {
        self.known_run_times = known;
        self
    }

    /// Whether there are metrics with the path of a queue in their names, as in releases of `YuniKorn` up to 1.7;
    /// its dashboards still read them. Default true.
    #[must_use]
    pub fn legacy_queue_metrics(mut self, are_made: bool) -> Self {
        self.is_without_legacy_names = !are_made;
        self
    }

    /// Whether changes of an unknown node are rejected; otherwise they are ignored and counted
    /// (`docs/nodes.md#another-capacity`). Default false, because older clients do not expect rejections.
    #[must_use]
    pub fn reject_node_updates(mut self, reject: bool) -> Self {
        self.intake.rejects_node_updates = reject;
        self
    }

    /// The number of waiting items of an RM above which [`SchedulerHandle::update_allocation`] and similar calls
    /// wait, too; default 65,536. These calls return when at most half of that number waits.
    #[must_use]
    pub fn ingress_items(mut self, items: usize) -> Self {
        self.intake.waiting_items = items;
        self
    }

    /// The most resource types that an RM may use; default 1,024. The four that every scheduler knows (`vcore`,
    /// `memory`, `pods`, `ephemeral-storage`) do not count. An item that names a further type is rejected.
    #[must_use]
    pub fn resource_names(mut self, names: usize) -> Self {
        self.intake.resource_names = names;
        self
    }

    /// The quotas of an RM. New objects beyond a quota are rejected; [`Quotas`] has the defaults.
    #[must_use]
    pub fn quotas(mut self, quotas: Quotas) -> Self {
        self.intake.quotas = quotas;
        self
    }

    /// The most bytes of all tags of one item, or of all attributes of a node; default 2 MiB. An item with more is
    /// rejected.
    #[must_use]
    pub fn tag_bytes(mut self, bytes: usize) -> Self {
        self.intake.tag_bytes = bytes;
        self
    }

    /// The settings of events. An RM may change only the number of events that it is sent itself.
    #[must_use]
    pub fn events(mut self, settings: EventSettings) -> Self {
        self.events = settings;
        self
    }

    /// Adds a resolver of groups, for partitions whose configuration has `name` as `usergroupresolver.type`. With
    /// an empty or unknown name, a user is in one group of the same name.
    #[must_use]
    pub fn user_group_resolver(
        mut self,
        name: impl Into<String>,
        resolver: Arc<dyn UserGroupResolver>,
    ) -> Self {
        self.resolvers.add(name.into(), resolver);
        self
    }

    /// The timeout of a lookup of a user; default 10 s. Later requests of the RM wait for the lookup,
    /// in order. After the timeout the user counts as not resolvable.
    #[must_use]
    pub fn user_lookup_timeout(mut self, timeout: Duration) -> Self {
        self.resolvers.set_timeout(timeout);
        self
    }

    /// The age at which an ask without a required node may reserve a node
    /// (`docs/scheduling.md#reservations`); default 2 s. `None`: no such reservations.
    #[must_use]
    pub fn reservation_delay(mut self, delay: Option<Duration>) -> Self {
        self.watch.patience.delay = delay;
        self
    }

    /// The most of the capacity of open nodes that asks without a required node may reserve, in percent
    /// (`docs/scheduling.md#reservations`); default 20. Two nodes may be reserved in any case.
    #[must_use]
    pub fn reservation_share(mut self, percent: u32) -> Self {
        self.watch.patience.share_percent = percent;
        self
    }

    /// The time after which a reservation ends if its ask does not fit its quotas; default one hour.
    #[must_use]
    pub fn reservation_wait_timeout(mut self, timeout: Duration) -> Self {
        self.watch.patience.wait_timeout = timeout;
        self
    }

    /// The back-off of a request whose allocation could not be started
    /// (`docs/scheduling.md#starts-that-fail`): after the first failure, and at most; default 1 s and 60 s.
    #[must_use]
    pub fn start_retry(mut self, first: Duration, longest: Duration) -> Self {
        self.watch.start_retry = StartRetry { first, longest };
        self
    }

    /// The number of decisions after which an offer returns to the partition; default 64. Results must not depend
    /// on it: 1 is the reference.
    #[must_use]
    pub fn decisions_per_trip(mut self, decisions: u32) -> Self {
        self.watch.decisions_per_trip = decisions.max(1);
        self
    }

    /// The most candidate nodes in one question to a remote RM, at least one; default 512. The first question of
    /// an ask has one, the next 16, then twice as many each time.
    #[must_use]
    pub fn candidates_per_question(mut self, nodes: usize) -> Self {
        self.watch.candidates_per_question = nodes.max(1);
        self
    }

    /// Compares the books, every decision, and every offer without a decision with a full search. Panics if they
    /// differ: the partition is lost and its RM is asked to resync. For tests; costs a visit to all actors per
    /// decision.
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
                // Dropped at the end of the thread, whatever ends it.
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

    /// Starts the scheduler with all actors on the present thread, which must be inside a
    /// `tokio::task::LocalSet` (or an actix system) on a current-thread runtime. With a paused clock it runs in
    /// virtual time.
    pub fn start_local(mut self) -> Result<SchedulerHandle, StartError> {
        self.threads = Threads::One;
        self.spin = Duration::ZERO;
        self.start_with(|settings, rosters, metrics| {
            Ok((RmProxy::begin(settings, rosters, metrics), None, None))
        })
    }

    /// Traces this share of all placements (from 0 to 1), and those whose sender traces them by the tag
    /// [`TRACEPARENT`](crate::TRACEPARENT). By default no placement is traced.
    #[must_use]
    pub fn traces(mut self, ratio: f64, receiver: Arc<dyn TraceSink>) -> Self {
        let sampling = Sampling::of(ratio);
        self.intake.sampling = Some(sampling);
        self.traces = Some(TraceReceiver(receiver));
        self
    }

    /// Starts the scheduler. `begin` starts the front, and returns its system and the signal of its end, if it has
    /// a thread of its own.
    fn start_with(
        self,
        begin: impl FnOnce(Settings, Rosters, &Arc<Metrics>) -> Result<Front, StartError>,
    ) -> Result<SchedulerHandle, StartError> {
        let (metrics, rosters) = (self.metrics(), Rosters::default());
        let settings = self.settings()?;
        let (start_ns, quotas) = (settings.epoch_ns, settings.intake.quotas);
        let (events, run_times) = (Arc::clone(&settings.events), settings.run_times.clone());
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
            run_times,
            image_turn: Arc::default(),
            ended,
        })
    }

    fn metrics(&self) -> Arc<Metrics> {
        if self.is_without_legacy_names { Metrics::without_legacy_names() } else { Metrics::new() }
    }

    fn settings(self) -> Result<Settings, StartError> {
        let default_queues = DefaultQueues::read(&self.default_queues)?;
        let (run_times, known) = (self.run_times, self.known_run_times);
        let is_measured = !self.is_without_run_times;
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
            traces: self.traces,
            run_times: is_measured.then(|| RunTimeShelf::new(run_times, known)),
        })
    }
}
