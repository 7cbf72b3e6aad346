//! Starting a scheduler and talking to it: the embedding API.

mod configuration;
mod usage;
mod utilization;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use actix::prelude::*;
use monoceros_config as config;
use monoceros_config::ConfigErrors;
use monoceros_proto::si::v1 as si;
use monoceros_rules::audit::Facts;
use monoceros_rules::values::resources::Resources;
use monoceros_rules::work::rejection::Ignored;
use tokio::sync::{oneshot, watch};

pub use self::configuration::{
    ConfigurationError, ConfigurationSnapshot, ConfigurationUpdate, OutcomeOfDefaults,
    PartitionStateError, Removed,
};
use crate::api::callback::ResourceManagerCallback;
use crate::api::control::ResourceManagerControl;
use crate::api::users::{Resolvers, UserGroupResolver};
use crate::clock::wall_clock_ns;
use crate::events::{EventLog, EventReader, EventSettings, StreamLimits};
use crate::front::rm::{Body, DefaultQueues, Intake, Update};
use crate::front::rm_proxy::{
    Deregister, FindRm, ListPartitions, ListRms, PartitionEntry, Register, RmProxy, Route,
    Shutdown, check_rm_id,
};
use crate::metrics::{CallbackMetrics, Metrics};
use crate::partition::oracle::Watch;
use crate::partition::surveys::{self, Read};
use crate::snapshot::{
    ApplicationSnapshot, ClusterSnapshot, NodeSnapshot, OutstandingRequest, PartitionSnapshot,
    QueueSnapshot,
};
use crate::step::Survey;

/// On which threads the actors live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// Front on one thread, each partition on a thread of its own.
    #[default]
    PerPartition,
    /// All on the front's thread: fewer crossings for a single partition, and required for a
    /// paused clock.
    One,
}

/// The scheduler did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The default queue configuration is not valid.
    #[error("the default queue configuration is not valid:\n{0}")]
    Queues(#[from] ConfigErrors),
    /// The operating system gave no thread.
    #[error("no thread for the scheduler: {0}")]
    Thread(#[from] std::io::Error),
    /// The thread ended before it had started the scheduler.
    #[error("the scheduler's thread ended while it started")]
    Ended,
}

/// A registration was refused; an earlier session of the same RM goes on.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The request names no RM.
    #[error("rmID missing")]
    RmIdMissing,
    /// The id is too long or has characters that are not allowed.
    #[error("rmID `{0}` is not valid: 1 to 128 bytes without control characters and brackets")]
    RmIdInvalid(String),
    /// The queue configuration is not valid.
    #[error("queue configuration is not valid:\n{0}")]
    Config(#[from] ConfigErrors),
    /// The scheduler has been shut down.
    #[error("the scheduler is stopped")]
    Stopped,
}

/// A request was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The request names no RM.
    #[error("rmID missing")]
    RmIdMissing,
    /// No such RM is registered.
    #[error("resource manager `{0}` is not registered")]
    NotRegistered(String),
    /// The scheduler has been shut down.
    #[error("the scheduler is stopped")]
    Stopped,
}

/// A read found nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No such partition.
    #[error("partition `{0}` not found")]
    PartitionNotFound(String),
    /// No such queue.
    #[error("queue `{0}` not found")]
    QueueNotFound(String),
    /// The scheduler has been shut down.
    #[error("the scheduler is stopped")]
    Stopped,
}

/// What a scheduler is started with.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) threads: Threads,
    /// For RMs that register without a configuration.
    pub(crate) default_queues: DefaultQueues,
    /// Epoch time at the start, ns.
    pub(crate) epoch_ns: i64,
    pub(crate) reorder_window: Duration,
    pub(crate) intake: Intake,
    pub(crate) watch: Watch,
    /// Where the events of all RMs go.
    pub(crate) events: Arc<EventLog>,
    pub(crate) resolvers: Resolvers,
}

/// The entry to this crate: [`Scheduler::builder`].
#[derive(Debug)]
pub struct Scheduler;

impl Scheduler {
    /// Begins to set a scheduler up.
    pub fn builder() -> SchedulerBuilder {
        SchedulerBuilder::default()
    }
}

/// Sets a scheduler up. Defaults: the embedded queue configuration, a thread per partition, the
/// machine's time.
#[derive(Clone, Debug, Default)]
pub struct SchedulerBuilder {
    threads: Threads,
    default_queues: String,
    epoch_ns: Option<i64>,
    reorder_window: Duration,
    intake: Intake,
    watch: Watch,
    events: EventSettings,
    resolvers: Resolvers,
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
    /// of its ask (applications chapter, 2.8). It is unless set.
    #[must_use]
    pub fn enforce_execution_timeout(mut self, enforce: bool) -> Self {
        self.intake.enforces_execution_timeout = enforce;
        self
    }

    /// Whether changes of a node that is not there are rejected, rather than ignored and counted
    /// (scheduler-interface chapter, V48). They are not unless set: no client of old expects it.
    #[must_use]
    pub fn reject_node_updates(mut self, reject: bool) -> Self {
        self.intake.rejects_node_updates = reject;
        self
    }

    /// How many items of an RM may wait for its partitions before
    /// [`SchedulerHandle::update_allocation`] and its like wait, too; 65,536 unless set. Whoever
    /// waits goes on at half of it.
    #[must_use]
    pub fn ingress_items(mut self, items: usize) -> Self {
        self.intake.waiting_items = items;
        self
    }

    /// Whether events are made (`event.trackingEnabled`). They are unless set. This and the other
    /// settings of events hold where the `extraConfig` of the RM that registered or updated last
    /// says nothing else.
    #[must_use]
    pub fn event_tracking(mut self, enabled: bool) -> Self {
        self.events.tracking = enabled;
        self
    }

    /// Most events that an RM is told of in 2 s (`event.requestCapacity`); the default is 1,000,
    /// and 0 means that.
    #[must_use]
    pub fn event_request_capacity(mut self, events: usize) -> Self {
        if events > 0 {
            self.events.request_capacity = events;
        }
        self
    }

    /// How many events are kept to be read (`event.ringBufferCapacity`); the default is 100,000,
    /// and 0 means that.
    #[must_use]
    pub fn event_ring_capacity(mut self, events: usize) -> Self {
        if events > 0 {
            self.events.ring_capacity = events;
        }
        self
    }

    /// How many readers may follow the events over the network (`event.maxStreams`,
    /// `event.maxStreamsPerHost`); 100 and 15 unless set. It is for the edges to keep to it.
    #[must_use]
    pub fn event_streams(mut self, limits: StreamLimits) -> Self {
        self.events.streams = limits;
        self
    }

    /// Who says which groups a user is in, for partitions whose configuration names `name` as
    /// `usergroupresolver.type`. The empty name, and each that is not known, means that a user is in
    /// one group of the same name.
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
        let settings = self.settings()?;
        let start_ns = settings.epoch_ns;
        let events = Arc::clone(&settings.events);
        let metrics = Metrics::new();
        let (sender, started) = mpsc::channel();
        let for_thread = Arc::clone(&metrics);
        let (alive, ended) = watch::channel(());
        std::thread::Builder::new().name("monoceros-front".to_owned()).spawn(move || {
            // Dropped with the thread, whatever ends it.
            let _alive = alive;
            let system = System::new();
            let proxy = system.block_on(async { RmProxy::new(settings, for_thread).start() });
            if sender.send((proxy, System::current())).is_ok() {
                let _ = system.run();
            }
        })?;
        let (proxy, system) = started.recv().map_err(|_| StartError::Ended)?;
        let ended = Some(ended);
        Ok(SchedulerHandle { proxy, system: Some(system), metrics, events, start_ns, ended })
    }

    /// Starts the scheduler with every actor on the present thread, which must be inside a
    /// `tokio::task::LocalSet` (or an actix system) on a current-thread runtime. With a paused
    /// clock it runs in virtual time.
    pub fn start_local(mut self) -> Result<SchedulerHandle, StartError> {
        self.threads = Threads::One;
        let metrics = Metrics::new();
        let settings = self.settings()?;
        let start_ns = settings.epoch_ns;
        let events = Arc::clone(&settings.events);
        let proxy = RmProxy::new(settings, Arc::clone(&metrics)).start();
        Ok(SchedulerHandle { proxy, system: None, metrics, events, start_ns, ended: None })
    }

    fn settings(self) -> Result<Settings, StartError> {
        let default_queues = DefaultQueues::read(&self.default_queues)?;
        Ok(Settings {
            threads: self.threads,
            default_queues,
            epoch_ns: self.epoch_ns.unwrap_or_else(wall_clock_ns),
            reorder_window: self.reorder_window,
            intake: self.intake,
            watch: self.watch,
            events: EventLog::new(self.events),
            resolvers: self.resolvers,
        })
    }
}

/// Talks to a running scheduler. Clones talk to the same one, from any thread.
#[derive(Clone, Debug)]
pub struct SchedulerHandle {
    proxy: Addr<RmProxy>,
    system: Option<System>,
    metrics: Arc<Metrics>,
    events: Arc<EventLog>,
    /// Epoch time of the start, ns.
    start_ns: i64,
    /// Closed when the front's thread ends, where it has one of its own.
    ended: Option<watch::Receiver<()>>,
}

impl SchedulerHandle {
    /// Waits until the scheduler has ended: by [`Self::shutdown`], or because its front is lost,
    /// without which nothing can be reached. Never returns after
    /// [`start_local`](SchedulerBuilder::start_local).
    pub async fn ended(&self) {
        match self.ended.clone() {
            // Nothing is ever sent: this is the end of the sender.
            Some(mut ended) => drop(ended.changed().await),
            None => std::future::pending().await,
        }
    }

    /// Registers an RM. One that is registered already is cleaned up first: its partitions go, and
    /// its earlier callback hears nothing more. With a long configuration (64 KiB) that is when it has
    /// been read, which delays no other RM.
    pub async fn register_resource_manager(
        &self,
        request: si::RegisterResourceManagerRequest,
        callback: Arc<dyn ResourceManagerCallback>,
    ) -> Result<si::RegisterResourceManagerResponse, RegisterError> {
        check_rm_id(&request.rm_id)?;
        let document = if request.config.is_empty() {
            None
        } else {
            Some(configuration::read(request.config.clone()).await?)
        };
        let register = Register { request, document, callback };
        self.proxy.send(register).await.map_err(|_| RegisterError::Stopped)?;
        Ok(si::RegisterResourceManagerResponse::default())
    }

    /// Sends asks, existing allocations and releases. `Ok`: taken; answers come through the
    /// callback. Waits while the scheduler is behind.
    pub async fn update_allocation(&self, r: si::AllocationRequest) -> Result<(), UpdateError> {
        self.update(r.rm_id.clone(), Body::Allocation(r)).await
    }

    /// Sends new and removed applications. As [`Self::update_allocation`].
    pub async fn update_application(&self, r: si::ApplicationRequest) -> Result<(), UpdateError> {
        self.update(r.rm_id.clone(), Body::Application(r)).await
    }

    /// Sends new and changed nodes. As [`Self::update_allocation`].
    pub async fn update_node(&self, r: si::NodeRequest) -> Result<(), UpdateError> {
        self.update(r.rm_id.clone(), Body::Node(r)).await
    }

    /// Returns when everything that all RMs sent so far is decided, said and heard, and nothing more
    /// can be decided without outside change; answers about predicates are waited for, and the end of
    /// a hold is not. Virtual time passes only while asks wait for their application (see
    /// [`SchedulerBuilder::reorder_window`]).
    pub async fn settle(&self) {
        for rm in self.proxy.send(ListRms).await.unwrap_or_default() {
            let (taken, _) = oneshot::channel();
            let (reply, settled) = oneshot::channel();
            rm.do_send(Update { body: Body::Barrier(reply), taken });
            // An RM that ends has nothing left to decide.
            let _ = settled.await;
        }
    }

    /// As [`Self::settle`], for what one RM sent.
    pub async fn settle_resource_manager(&self, rm_id: &str) -> Result<(), UpdateError> {
        let (reply, settled) = oneshot::channel();
        self.update(rm_id.to_owned(), Body::Barrier(reply)).await?;
        settled.await.map_err(|_| UpdateError::Stopped)
    }

    /// What steers the present session of an RM.
    pub async fn control(&self, rm_id: &str) -> Result<ResourceManagerControl, UpdateError> {
        let found = self.proxy.send(FindRm(rm_id.to_owned())).await;
        Ok(ResourceManagerControl::new(found.map_err(|_| UpdateError::Stopped)??))
    }

    /// The RM leaves: its partitions go without another word.
    pub async fn stop_resource_manager(&self, rm_id: &str) -> Result<(), UpdateError> {
        let deregister = Deregister { rm_id: rm_id.to_owned(), reply: None };
        self.proxy.send(deregister).await.map_err(|_| UpdateError::Stopped)?
    }

    async fn update(&self, rm_id: String, body: Body) -> Result<(), UpdateError> {
        let (taken, answer) = oneshot::channel();
        self.proxy.do_send(Route { rm_id, update: Update { body, taken } });
        answer.await.unwrap_or(Err(UpdateError::Stopped))
    }

    /// One entry per partition, as REST shows them.
    pub async fn clusters(&self) -> Vec<ClusterSnapshot> {
        let entries = self.partition_entries().await;
        let builds: BTreeMap<_, _> =
            entries.iter().map(|entry| (&entry.rm_id, (*entry.build_info).clone())).collect();
        let builds: Vec<_> = builds.into_values().collect();
        let cluster = |entry| crate::views::cluster(entry, self.start_ns, &builds);
        entries.iter().map(cluster).collect()
    }

    /// Every partition: `default` first, then by name, then by RM.
    pub async fn partitions(&self) -> Vec<PartitionSnapshot> {
        let mut partitions = Vec::new();
        for entry in self.partition_entries().await {
            if let Ok(mut partition) = ask(&entry, surveys::Overview::new).await {
                partition.cluster_id = entry.rm_id.to_string();
                partitions.push(partition);
            }
        }
        partitions
    }

    /// The ids of all RMs that are registered, sorted.
    pub async fn resource_managers(&self) -> Vec<String> {
        let entries = self.partition_entries().await;
        let ids: BTreeSet<_> = entries.iter().map(|entry| entry.rm_id.to_string()).collect();
        ids.into_iter().collect()
    }

    /// The names of all partitions with their RMs (`[rm]name`), in the order of
    /// [`Self::partitions`].
    pub async fn partition_names(&self) -> Vec<String> {
        self.partition_entries().await.iter().map(|entry| entry.name.to_string()).collect()
    }

    /// The whole queue tree of a partition, named plainly (the first of that name) or with its RM
    /// (`[rm]name`).
    pub async fn queues(&self, partition: &str) -> Result<QueueSnapshot, ReadError> {
        let entry = self.find(partition).await?;
        ask(&entry, surveys::Queues::new).await
    }

    /// Every node of a partition, by id.
    pub async fn nodes(&self, partition: &str) -> Result<Vec<NodeSnapshot>, ReadError> {
        let entry = self.find(partition).await?;
        ask(&entry, surveys::Nodes::new).await
    }

    /// The applications of a leaf, by id; none for a parent.
    pub async fn applications(
        &self,
        partition: &str,
        queue: &str,
    ) -> Result<Vec<ApplicationSnapshot>, ReadError> {
        let entry = self.find(partition).await?;
        let path = queue.to_lowercase();
        let found = ask(&entry, |reply| surveys::ApplicationsOf::new(path, reply)).await?;
        found.ok_or_else(|| ReadError::QueueNotFound(queue.to_owned()))
    }

    /// The applications of all leaves of a partition, by id, as they are between two steps.
    pub async fn all_applications(
        &self,
        partition: &str,
    ) -> Result<Vec<ApplicationSnapshot>, ReadError> {
        let entry = self.find(partition).await?;
        ask(&entry, surveys::AllApplications::new).await
    }

    /// The requests of an RM for which more machines would help, in the order in which they would
    /// be placed, at most `limit` of them: in one partition, or in all of them. None of a partition
    /// for which nothing is decided at present. Asking does not count as telling the RM.
    pub async fn outstanding_requests(
        &self,
        rm_id: &str,
        partition: Option<&str>,
        limit: usize,
    ) -> Result<Vec<OutstandingRequest>, ReadError> {
        let mut outstanding = Vec::new();
        for entry in self.partitions_of(rm_id, partition).await? {
            let most = limit.saturating_sub(outstanding.len());
            let found = ask(&entry, |reply| surveys::outstanding(most, reply)).await?;
            outstanding.extend(found);
        }
        Ok(outstanding)
    }

    /// The partitions of an RM, or the one of this name, plain or with the RM's prefix.
    async fn partitions_of(
        &self,
        rm_id: &str,
        partition: Option<&str>,
    ) -> Result<Vec<PartitionEntry>, ReadError> {
        let mut entries = self.partition_entries().await;
        entries.retain(|entry| {
            let is_named =
                |name: &str| *entry.name == *name || config::plain_name(&entry.name) == name;
            *entry.rm_id == *rm_id && partition.is_none_or(is_named)
        });
        if entries.is_empty() {
            let name = format!("[{rm_id}]{}", config::plain_name(partition.unwrap_or("default")));
            return Err(ReadError::PartitionNotFound(name));
        }
        Ok(entries)
    }

    /// Compares the sums and limits of a partition with what every actor says of itself; empty when
    /// they agree. For tests and doubts: visits all actors in one step.
    pub async fn check_books(&self, partition: &str) -> Result<Vec<String>, ReadError> {
        Ok(self.facts(partition).await?.check())
    }

    /// What every actor of a partition says of itself between two steps.
    pub async fn facts(&self, partition: &str) -> Result<Facts, ReadError> {
        let entry = self.find(partition).await?;
        ask(&entry, surveys::Everything::new).await
    }

    /// Reads what happened and follows what happens, in all partitions.
    pub fn events(&self) -> EventReader {
        EventReader(Arc::clone(&self.events))
    }

    /// Counts an item of an RM that had no effect before it reached the scheduler.
    pub fn count_ignored(&self, rm_id: &str, dialect: &str, reason: Ignored) {
        self.metrics.count_ignored(rm_id, dialect, reason);
    }

    /// Counts an item of an RM that was refused, with this text, before it reached the scheduler.
    pub fn count_rejected(&self, rm_id: &str, dialect: &str, reason: &str) {
        self.metrics.count_rejected(rm_id, dialect, reason);
    }

    /// Where the scheduler's metrics are gathered from.
    pub fn metrics(&self) -> prometheus::Registry {
        self.metrics.registry()
    }

    /// The counters of callback streams, for whoever carries those.
    pub fn callback_metrics(&self) -> CallbackMetrics {
        self.metrics.callback.clone()
    }

    /// Brings the gauges up to date that are read from snapshots, for a scrape.
    pub async fn refresh_metrics(&self) {
        let (mut trees, mut nodes) = (Vec::new(), Vec::new());
        let (mut by_nodes, mut by_allocations) = (Resources::new(), Resources::new());
        for entry in self.partition_entries().await {
            if let Ok(tree) = ask(&entry, surveys::Queues::new).await {
                trees.push(tree);
            }
            if let Ok(loads) = ask(&entry, surveys::NodeLoads::new).await {
                nodes.extend(loads);
            }
            if let Ok(observed) = ask(&entry, surveys::ObservedSums::new).await {
                by_nodes.add(&observed.nodes);
                by_allocations.add(&observed.allocations);
            }
        }
        self.metrics.set_observed(&by_nodes, &by_allocations);
        self.metrics.set_queues(&trees);
        self.metrics.set_node_load(nodes.iter().map(|(total, allocated)| (total, allocated)));
    }

    /// Stops everything: every RM leaves, then the threads end.
    pub async fn shutdown(&self) {
        let _ = self.proxy.send(Shutdown).await;
        if let Some(system) = &self.system {
            system.stop();
        }
    }

    async fn partition_entries(&self) -> Vec<PartitionEntry> {
        let mut entries = self.proxy.send(ListPartitions).await.unwrap_or_default();
        entries.sort_by(|a, b| {
            let order = |entry: &PartitionEntry| {
                let plain = config::plain_name(&entry.name).to_owned();
                (plain != "default", plain, Arc::clone(&entry.rm_id))
            };
            order(a).cmp(&order(b))
        });
        entries
    }

    async fn find(&self, partition: &str) -> Result<PartitionEntry, ReadError> {
        let is_it = |entry: &PartitionEntry| {
            *entry.name == *partition || config::plain_name(&entry.name) == partition
        };
        let entries = self.partition_entries().await;
        let found = entries.into_iter().find(is_it);
        found.ok_or_else(|| ReadError::PartitionNotFound(partition.to_owned()))
    }
}

/// Has a partition do a survey, and waits for the answer that it is made to send.
async fn ask<T, S: Survey>(
    entry: &PartitionEntry,
    survey: impl FnOnce(oneshot::Sender<T>) -> S,
) -> Result<T, ReadError> {
    let (reply, answer) = oneshot::channel();
    entry.address.do_send(Read(Box::new(survey(reply))));
    answer.await.map_err(|_| ReadError::PartitionNotFound(entry.name.to_string()))
}
