//! The handle of a running scheduler: the calling side of the embedding API.
//!
//! A call is a message to `RmProxy`, or a survey of a partition. So a handle works from any thread, and a
//! read sees a partition between two steps, never in the middle of one.

mod builder;
mod configuration;
pub mod control;
mod decisions;
mod explaining;
mod images;
mod lists;
mod outstanding;
pub(crate) mod pulses;
mod reading;
mod run_times;
mod scrape;
mod slices;
mod soundness;
mod usage;
mod utilization;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use actix::System;
use monoceros_config as config;
use monoceros_proto::si::v1 as si;
use monoceros_rules::audit::Facts;
use monoceros_rules::specs::quotas::Quotas;
use monoceros_rules::specs::rejection::Ignored;
use tokio::sync::{oneshot, watch};

pub use self::builder::{Scheduler, SchedulerBuilder, Threads};
use self::control::ResourceManagerControl;
use self::slices::ask;
use crate::api::callback::ResourceManagerCallback;
pub use crate::api::outcomes::{
    ConfigurationError, ConfigurationSnapshot, ConfigurationUpdate, ExplainError,
    OutcomeOfDefaults, PartitionStateError, PendingOutcome, PendingUpdate, ReadError,
    RegisterError, Removed, StartError, TooBusy, UpdateError,
};
use crate::clock::Clock;
use crate::events::{ClusterEvent, EventLog, EventReader, EventSettings};
use crate::front::rm::{Body, Update};
use crate::front::rm_proxy::{
    Deregister, FindSession, Register, RmProxy, Route, SettleAll, Shutdown, check_rm_id,
};
use crate::front::rosters::{PartitionEntry, Rosters};
use crate::mailbox::Mailbox;
use crate::metrics::{
    Build, CallbackMetrics, ClusterMetrics, LogMetrics, Metrics, RunTimeMetrics, TraceMetrics,
    WatchdogMetrics,
};
use crate::partition::surveys;
use crate::run_times::RunTimeShelf;
use crate::snapshot::{ClusterSnapshot, PartitionSnapshot};

/// The handle of a running scheduler. It works from any thread, and so do its clones.
#[derive(Clone, Debug)]
pub struct SchedulerHandle {
    proxy: Mailbox<RmProxy>,
    /// The partitions, for reads.
    rosters: Rosters,
    system: Option<System>,
    metrics: Arc<Metrics>,
    events: Arc<EventLog>,
    /// Epoch time of the start, ns.
    start_ns: i64,
    clock: Clock,
    /// The quotas of an RM.
    quotas: Quotas,
    /// The run times of partitions that are not there; `None`: run times are not measured.
    run_times: Option<RunTimeShelf>,
    /// Held while an image is taken: a partition has one under way.
    image_turn: Arc<tokio::sync::Mutex<()>>,
    /// Closed when the front's thread ends; `None` if the front has no thread of its own.
    ended: Option<watch::Receiver<()>>,
}

/// A request that was sent. Resolves when the scheduler has accepted it, or to the reason why not. The
/// request is sent even if this is not awaited.
#[derive(Debug)]
#[must_use = "a sender that does not wait sends more than the scheduler can take"]
pub struct Handover(oneshot::Receiver<Result<(), UpdateError>>);

impl Future for Handover {
    type Output = Result<(), UpdateError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let taken = ready!(Pin::new(&mut self.0).poll(cx));
        Poll::Ready(taken.unwrap_or(Err(UpdateError::Stopped)))
    }
}

impl SchedulerHandle {
    /// Waits until the scheduler has ended: by [`Self::shutdown`], or because its front was lost, without
    /// which nothing can be reached. Never returns after
    /// [`start_local`](SchedulerBuilder::start_local).
    pub async fn ended(&self) {
        match self.ended.clone() {
            // The sender sends nothing, so this resolves when it is dropped.
            Some(mut ended) => drop(ended.changed().await),
            None => std::future::pending().await,
        }
    }

    /// Registers an RM. An earlier session of the same RM ends first: its partitions are removed, and its
    /// callback is not called any more. A long configuration (64 KiB) is read before that, which delays no
    /// other RM.
    pub async fn register_resource_manager(
        &self,
        request: si::RegisterResourceManagerRequest,
        callback: Arc<dyn ResourceManagerCallback>,
    ) -> Result<si::RegisterResourceManagerResponse, RegisterError> {
        check_rm_id(&request.rm_id)?;
        let document = if request.config.is_empty() {
            None
        } else {
            Some(reading::read_in_turn(request.config.clone(), self.quotas).await?)
        };
        let register = Register { request, document, callback, images: BTreeMap::new() };
        self.proxy.ask(register).await.map_err(|_| RegisterError::Stopped)?;
        Ok(si::RegisterResourceManagerResponse::default())
    }

    /// Sends asks, existing allocations and releases at once. Requests take effect in the order of these
    /// calls, even if these are not awaited. `Ok`: the request was accepted; answers come through the
    /// callback. The wait is longer while the scheduler is behind. A caller that does not wait has to limit
    /// its requests by other means.
    pub fn update_allocation(&self, mut r: si::AllocationRequest) -> Handover {
        self.update(take(&mut r.rm_id), Body::Allocation(r))
    }

    /// Sends new and removed applications. As [`Self::update_allocation`].
    pub fn update_application(&self, mut r: si::ApplicationRequest) -> Handover {
        self.update(take(&mut r.rm_id), Body::Application(r))
    }

    /// Sends new and changed nodes. As [`Self::update_allocation`].
    pub fn update_node(&self, mut r: si::NodeRequest) -> Handover {
        self.update(take(&mut r.rm_id), Body::Node(r))
    }

    /// Waits until everything that all RMs have sent is decided and delivered, and nothing more can be decided
    /// without external changes. Includes the wait for answers about predicates, but not for the end of a
    /// hold. Virtual time passes only while asks wait for their application (see
    /// [`SchedulerBuilder::reorder_window`]).
    pub async fn settle(&self) {
        for settled in self.proxy.ask(SettleAll).await.unwrap_or_default() {
            // For an RM that ends, nothing is left to decide.
            let _ = settled.await;
        }
    }

    /// As [`Self::settle`], for one RM.
    pub async fn settle_resource_manager(&self, rm_id: &str) -> Result<(), UpdateError> {
        let (reply, settled) = oneshot::channel();
        self.update(rm_id.to_owned(), Body::Barrier(reply)).await?;
        settled.await.map_err(|_| UpdateError::Stopped)
    }

    /// The controls of the present session of an RM.
    pub async fn control(&self, rm_id: &str) -> Result<ResourceManagerControl, UpdateError> {
        let found = self.proxy.ask(FindSession(rm_id.to_owned())).await;
        let session = found.map_err(|_| UpdateError::Stopped)??;
        Ok(ResourceManagerControl::new(self.proxy.clone(), session))
    }

    /// Deregisters an RM. Its partitions are removed without notifications.
    pub async fn stop_resource_manager(&self, rm_id: &str) -> Result<(), UpdateError> {
        let deregister = Deregister { rm_id: rm_id.to_owned(), reply: None };
        self.proxy.ask(deregister).await.map_err(|_| UpdateError::Stopped)?
    }

    fn update(&self, rm_id: String, body: Body) -> Handover {
        let (taken, answer) = oneshot::channel();
        self.proxy.post(Route { rm_id, update: Update { body, taken } });
        Handover(answer)
    }

    /// One entry per partition, for REST.
    pub fn clusters(&self) -> Vec<ClusterSnapshot> {
        let entries = self.partition_entries();
        let builds: BTreeMap<_, _> =
            entries.iter().map(|entry| (&entry.rm_id, (*entry.build_info).clone())).collect();
        let builds: Vec<_> = builds.into_values().collect();
        let cluster =
            |entry: &PartitionEntry| crate::views::cluster(&entry.name, self.start_ns, &builds);
        entries.iter().map(cluster).collect()
    }

    /// Every partition: `default` first, then by name, then by RM.
    pub async fn partitions(&self) -> Vec<PartitionSnapshot> {
        let mut partitions = Vec::new();
        for entry in self.partition_entries() {
            if let Ok(mut partition) = ask(&entry, surveys::Overview::new).await {
                partition.cluster_id = entry.rm_id.to_string();
                partitions.push(partition);
            }
        }
        partitions
    }

    /// The ids of all registered RMs, sorted.
    pub fn resource_managers(&self) -> Vec<String> {
        let entries = self.partition_entries();
        let ids: BTreeSet<_> = entries.iter().map(|entry| entry.rm_id.to_string()).collect();
        ids.into_iter().collect()
    }

    /// The names of all partitions with their RMs (`[rm]name`), in the order of
    /// [`Self::partitions`].
    pub fn partition_names(&self) -> Vec<String> {
        self.partition_entries().iter().map(|entry| entry.name.to_string()).collect()
    }

    /// The partitions of an RM, or only the one with this name, plain or with the RM's prefix.
    fn partitions_of(
        &self,
        rm_id: &str,
        partition: Option<&str>,
    ) -> Result<Vec<PartitionEntry>, ReadError> {
        let mut entries = self.partition_entries();
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

    /// Compares the sums and limits of a partition with the facts of every actor, and returns the differences.
    /// For tests and diagnosis: visits all actors in one step.
    pub async fn check_books(&self, partition: &str) -> Result<Vec<String>, ReadError> {
        Ok(self.facts(partition).await?.check())
    }

    /// The facts of every actor of a partition, read between two steps.
    pub async fn facts(&self, partition: &str) -> Result<Facts, ReadError> {
        let entry = self.find(partition)?;
        ask(&entry, surveys::Everything::new).await
    }

    /// A reader of past and new events of all partitions.
    pub fn events(&self) -> EventReader {
        EventReader(Arc::clone(&self.events))
    }

    /// Changes the settings of events. Ids of events continue, and followers are kept; a smaller
    /// ring loses its oldest events.
    pub fn set_events(&self, settings: EventSettings) {
        self.events.set(settings);
    }

    /// Counts an item of an RM that was ignored before it reached the scheduler.
    pub fn count_ignored(&self, rm_id: &str, dialect: &str, reason: Ignored) {
        self.metrics.count_ignored(rm_id, dialect, reason);
    }

    /// Counts an item of an RM that was refused before it reached the scheduler. `reason` is the text for the
    /// RM, which ends with a code.
    pub fn count_rejected(&self, rm_id: &str, dialect: &str, reason: &str) {
        self.metrics.count_rejected(rm_id, dialect, reason);
    }

    /// The registry of the scheduler's metrics.
    pub fn metrics(&self) -> prometheus::Registry {
        self.metrics.registry()
    }

    /// The counters of callback streams, for the service that serves these.
    pub fn callback_metrics(&self) -> CallbackMetrics {
        self.metrics.callback.clone()
    }

    /// The metrics of a member of a cluster, for the service that is one.
    pub fn cluster_metrics(&self) -> ClusterMetrics {
        self.metrics.cluster.clone()
    }

    /// Adds an event of the cluster, for the service that is a member of one.
    pub fn report_cluster_event(&self, event: ClusterEvent) {
        self.events.of_cluster(event, self.clock.now_ns());
    }

    /// The metrics of the watchdog, for the service that runs it.
    pub fn watchdog_metrics(&self) -> WatchdogMetrics {
        self.metrics.watchdog.clone()
    }

    /// The counters of log lines, for the service that writes the log.
    pub fn log_metrics(&self) -> LogMetrics {
        self.metrics.log.clone()
    }

    /// The counters of traced placements, for the service that makes the traces.
    pub fn trace_metrics(&self) -> TraceMetrics {
        self.metrics.traces.clone()
    }

    /// The metrics of run times, for the service that keeps them in a file.
    pub fn run_time_metrics(&self) -> RunTimeMetrics {
        self.metrics.run_times.clone()
    }

    /// Adds metrics of the process and the build; for the owner of the process.
    pub fn describe_process(&self, build: Build) {
        self.metrics.describe_process(build);
    }

    /// Stops the scheduler: all sessions end, then the threads.
    pub async fn shutdown(&self) {
        let _ = self.proxy.ask(Shutdown).await;
        if let Some(system) = &self.system {
            system.stop();
        }
    }

    pub(crate) fn partition_entries(&self) -> Vec<PartitionEntry> {
        let mut entries = self.rosters.entries();
        entries.sort_by(|a, b| {
            let order = |entry: &PartitionEntry| {
                let plain = config::plain_name(&entry.name).to_owned();
                (plain != "default", plain, Arc::clone(&entry.rm_id))
            };
            order(a).cmp(&order(b))
        });
        entries
    }

    fn find(&self, partition: &str) -> Result<PartitionEntry, ReadError> {
        let is_it = |entry: &PartitionEntry| {
            *entry.name == *partition || config::plain_name(&entry.name) == partition
        };
        let entries = self.partition_entries();
        let found = entries.into_iter().find(is_it);
        found.ok_or_else(|| ReadError::PartitionNotFound(partition.to_owned()))
    }
}
