//! Talking to a scheduler: the handle of the embedding API.
//!
//! A call that asks or changes something is a message to `RmProxy` or a survey of a
//! partition. So a handle works from any thread, and a read sees a partition between two steps,
//! never half of one.

mod builder;
mod configuration;
pub mod control;
mod decisions;
mod explaining;
mod lists;
mod outstanding;
pub(crate) mod pulses;
mod reading;
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
    OutcomeOfDefaults, PartitionStateError, ReadError, RegisterError, Removed, StartError, TooBusy,
    UpdateError,
};
use crate::clock::Clock;
use crate::events::{EventLog, EventReader, EventSettings};
use crate::front::rm::{Body, Update};
use crate::front::rm_proxy::{
    Deregister, FindSession, Register, RmProxy, Route, SettleAll, Shutdown, check_rm_id,
};
use crate::front::rosters::{PartitionEntry, Rosters};
use crate::mailbox::Mailbox;
use crate::metrics::{Build, CallbackMetrics, LogMetrics, Metrics, TraceMetrics, WatchdogMetrics};
use crate::partition::surveys;
use crate::snapshot::{ClusterSnapshot, PartitionSnapshot};

/// Talks to a running scheduler. Clones talk to the same one, from any thread.
#[derive(Clone, Debug)]
pub struct SchedulerHandle {
    proxy: Mailbox<RmProxy>,
    /// Where reads find the partitions.
    rosters: Rosters,
    system: Option<System>,
    metrics: Arc<Metrics>,
    events: Arc<EventLog>,
    /// Epoch time of the start, ns.
    start_ns: i64,
    clock: Clock,
    /// How much an RM may have.
    quotas: Quotas,
    /// Closed when the front's thread ends, where it has one of its own.
    ended: Option<watch::Receiver<()>>,
}

/// A request that was sent; resolves when the scheduler has taken it, or why it has not. It is sent
/// whether this is waited for or not.
#[derive(Debug)]
#[must_use = "whoever does not wait sends more than the scheduler can take"]
pub struct Handover(oneshot::Receiver<Result<(), UpdateError>>);

impl Future for Handover {
    type Output = Result<(), UpdateError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let taken = ready!(Pin::new(&mut self.0).poll(cx));
        Poll::Ready(taken.unwrap_or(Err(UpdateError::Stopped)))
    }
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
    /// its earlier callback hears nothing more. With a long configuration (64 KiB) that is when it
    /// has been read, which delays no other RM.
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
        let register = Register { request, document, callback };
        self.proxy.ask(register).await.map_err(|_| RegisterError::Stopped)?;
        Ok(si::RegisterResourceManagerResponse::default())
    }

    /// Sends asks, existing allocations and releases, at once: requests take effect in the order of
    /// these calls, also of those that were not waited for. `Ok`: taken; answers come through the
    /// callback. The wait is longer while the scheduler is behind, and whoever does not wait has to
    /// bound by other means what it sends.
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

    /// Returns when everything that all RMs sent so far is decided, said and heard, and nothing
    /// more can be decided without outside change; answers about predicates are waited for, and the
    /// end of a hold is not. Virtual time passes only while asks wait for their application (see
    /// [`SchedulerBuilder::reorder_window`]).
    pub async fn settle(&self) {
        for settled in self.proxy.ask(SettleAll).await.unwrap_or_default() {
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

    /// The controls of the present session of an RM.
    pub async fn control(&self, rm_id: &str) -> Result<ResourceManagerControl, UpdateError> {
        let found = self.proxy.ask(FindSession(rm_id.to_owned())).await;
        let session = found.map_err(|_| UpdateError::Stopped)??;
        Ok(ResourceManagerControl::new(self.proxy.clone(), session))
    }

    /// The RM leaves: its partitions go without another word.
    pub async fn stop_resource_manager(&self, rm_id: &str) -> Result<(), UpdateError> {
        let deregister = Deregister { rm_id: rm_id.to_owned(), reply: None };
        self.proxy.ask(deregister).await.map_err(|_| UpdateError::Stopped)?
    }

    fn update(&self, rm_id: String, body: Body) -> Handover {
        let (taken, answer) = oneshot::channel();
        self.proxy.post(Route { rm_id, update: Update { body, taken } });
        Handover(answer)
    }

    /// One entry per partition, as REST shows them.
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

    /// The ids of all RMs that are registered, sorted.
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

    /// The partitions of an RM, or the one of this name, plain or with the RM's prefix.
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

    /// Compares the sums and limits of a partition with what every actor says of itself; empty when
    /// they agree. For tests and doubts: visits all actors in one step.
    pub async fn check_books(&self, partition: &str) -> Result<Vec<String>, ReadError> {
        Ok(self.facts(partition).await?.check())
    }

    /// What every actor of a partition says of itself between two steps.
    pub async fn facts(&self, partition: &str) -> Result<Facts, ReadError> {
        let entry = self.find(partition)?;
        ask(&entry, surveys::Everything::new).await
    }

    /// Reads what happened and follows what happens, in all partitions.
    pub fn events(&self) -> EventReader {
        EventReader(Arc::clone(&self.events))
    }

    /// Has other settings of events hold from now on. Numbers of events go on, and who follows goes on
    /// following; a smaller ring loses its oldest events.
    pub fn set_events(&self, settings: EventSettings) {
        self.events.set(settings);
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

    /// The counters of callback streams, for the service that carries those.
    pub fn callback_metrics(&self) -> CallbackMetrics {
        self.metrics.callback.clone()
    }

    /// The gauges of what a watchdog finds.
    pub fn watchdog_metrics(&self) -> WatchdogMetrics {
        self.metrics.watchdog.clone()
    }

    /// The counters of lines of the log, for the service that writes it.
    pub fn log_metrics(&self) -> LogMetrics {
        self.metrics.log.clone()
    }

    /// The counters of placements that are traced, for the service that does.
    pub fn trace_metrics(&self) -> TraceMetrics {
        self.metrics.traces.clone()
    }

    /// Shows in the metrics which process and build this is; for the owner of the process.
    pub fn describe_process(&self, build: Build) {
        self.metrics.describe_process(build);
    }

    /// Stops everything: every RM leaves, then the threads end.
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
