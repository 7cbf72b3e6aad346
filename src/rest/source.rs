//! The reads of the REST edge, and their implementation by a running scheduler.

use std::collections::BTreeSet;
use std::future::Future;

use monoceros_actors::config::ConfigErrors;
use monoceros_actors::image::ResourceManagerImage;
use monoceros_actors::runtimes::RunTimes;
use monoceros_actors::snapshot::{
    ApplicationSnapshot, ClusterSnapshot, DecisionSnapshot, ExplanationSnapshot, GroupSnapshot,
    NodeSnapshot, NodeUtilizationSnapshot, PartitionSnapshot, QueueSnapshot, ShownRule,
    UserSnapshot,
};
use monoceros_actors::{
    ApplicationList, ConfigurationError, ConfigurationSnapshot, DecisionFilter, EventReader,
    ExplainError, Listed, Page, ReadError, SchedulerHandle, Steps, TooBusy,
};

use crate::dump::{self, DumpError, DumpRequest};
use crate::logbook::Logbook;
use crate::snapshot::{Replaced, SnapshotError, Snapshots, Turn, Written};

/// The reads of this edge. Each answer is consistent, except lists and long trees of queues, where
/// only each single row is consistent. A partition is named plainly, which selects the first of
/// that name, or with its RM as `[rm]name`.
pub trait Reads: Clone + Send + Sync + 'static {
    /// Returns the names of all partitions with their RMs, in the order of [`Self::partitions`].
    fn partition_names(&self) -> Vec<String>;
    /// Returns one entry per partition, in the order of [`Self::partitions`].
    fn clusters(&self) -> impl Future<Output = Vec<ClusterSnapshot>> + Send;
    /// Lists all partitions: `default` first, then by name, then by RM.
    fn partitions(&self) -> impl Future<Output = Vec<PartitionSnapshot>> + Send;
    /// Returns the configuration in force of a resource manager.
    fn configuration(
        &self,
        rm_id: &str,
    ) -> impl Future<Output = Result<ConfigurationSnapshot, ConfigurationError>> + Send;
    /// Returns the state of a resource manager. An empty id is the only one.
    fn image(
        &self,
        rm_id: &str,
    ) -> impl Future<Output = Result<ResourceManagerImage, ConfigurationError>> + Send;
    /// Returns the checksum of a configuration text, or its errors.
    fn check_configuration(
        &self,
        text: String,
    ) -> impl Future<Output = Result<Result<String, ConfigErrors>, TooBusy>> + Send;
    /// Lists the placement rules in the order of their use.
    fn placement_rules(
        &self,
        partition: &str,
    ) -> impl Future<Output = Result<Vec<ShownRule>, ReadError>> + Send;
    /// Returns the number of a partition's last step, after all inputs that it received before this
    /// call.
    fn steps(&self, partition: &str) -> impl Future<Output = Result<Steps, ReadError>> + Send;
    /// Returns the tree of queues: all, or one queue with its ancestors and its subtree.
    fn queues(
        &self,
        partition: &str,
        around: Option<&str>,
    ) -> impl Future<Output = Result<(Option<QueueSnapshot>, Steps), ReadError>> + Send;
    /// Lists nodes by id.
    fn nodes(
        &self,
        partition: &str,
        page: Page,
    ) -> impl Future<Output = Result<Listed<NodeSnapshot>, ReadError>> + Send;
    /// Returns the node with this id.
    fn node(
        &self,
        partition: &str,
        id: &str,
    ) -> impl Future<Output = Result<Option<NodeSnapshot>, ReadError>> + Send;
    /// Returns the live application with this id.
    fn application(
        &self,
        partition: &str,
        id: &str,
    ) -> impl Future<Output = Result<Option<ApplicationSnapshot>, ReadError>> + Send;
    /// Lists applications of a partition: live ones by id, ended ones the oldest first.
    fn applications(
        &self,
        partition: &str,
        list: ApplicationList,
        page: Page,
    ) -> impl Future<Output = Result<Listed<ApplicationSnapshot>, ReadError>> + Send;
    /// Explains why asks of an application are pending: some classes of asks, after the first
    /// `offset`.
    fn explain(
        &self,
        partition: &str,
        application: &str,
        offset: usize,
    ) -> impl Future<Output = Result<Vec<ExplanationSnapshot>, ExplainError>> + Send;
    /// Explains why one ask of an application is pending.
    fn explain_ask(
        &self,
        partition: &str,
        application: &str,
        key: &str,
    ) -> impl Future<Output = Result<Vec<ExplanationSnapshot>, ExplainError>> + Send;
    /// Lists recent decisions, newest first.
    fn decisions(
        &self,
        partition: &str,
        filter: DecisionFilter,
        page: Page,
    ) -> impl Future<Output = Result<Listed<DecisionSnapshot>, ReadError>> + Send;
    /// Lists tracked users by name.
    fn users(
        &self,
        partition: &str,
        page: Page,
    ) -> impl Future<Output = Result<Listed<UserSnapshot>, ReadError>> + Send;
    /// Returns a tracked user.
    fn user(
        &self,
        partition: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<UserSnapshot>, ReadError>> + Send;
    /// Lists tracked groups by name.
    fn groups(
        &self,
        partition: &str,
        page: Page,
    ) -> impl Future<Output = Result<Listed<GroupSnapshot>, ReadError>> + Send;
    /// Returns a tracked group.
    fn group(
        &self,
        partition: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<GroupSnapshot>, ReadError>> + Send;
    /// Returns the utilization of each partition's nodes, in the order of [`Self::partitions`].
    fn node_utilizations(&self) -> impl Future<Output = Vec<NodeUtilizationSnapshot>> + Send;
    /// Returns a copy of the run times of a partition, with the time of the copy. `None`: they are
    /// not measured.
    fn run_times(
        &self,
        partition: &str,
    ) -> impl Future<Output = Result<Option<(RunTimes, i64)>, ReadError>> + Send;
    /// Returns the reader of events.
    fn events(&self) -> EventReader;
    /// Returns the full state of the scheduler and the logbook as one JSON document.
    fn state_dump(
        &self,
        logbook: &Logbook,
    ) -> impl Future<Output = Result<Vec<u8>, DumpError>> + Send;
    /// Makes a snapshot of a resource manager, or of all.
    fn snapshot(
        &self,
        snapshots: &Snapshots,
        rm_id: Option<&str>,
        replaced: Replaced,
        turn: Turn,
    ) -> impl Future<Output = Result<Written, SnapshotError>> + Send;
    /// Updates the metrics that are read from the state of the cluster.
    fn refresh_metrics(&self) -> impl Future<Output = ()> + Send;
    /// Returns the registry of metrics.
    fn metrics(&self) -> prometheus::Registry;
}

impl Reads for SchedulerHandle {
    fn partition_names(&self) -> Vec<String> {
        self.partition_names()
    }

    async fn clusters(&self) -> Vec<ClusterSnapshot> {
        self.clusters()
    }

    async fn partitions(&self) -> Vec<PartitionSnapshot> {
        self.partitions().await
    }

    async fn configuration(
        &self,
        rm_id: &str,
    ) -> Result<ConfigurationSnapshot, ConfigurationError> {
        self.configuration(rm_id).await
    }

    async fn image(&self, rm_id: &str) -> Result<ResourceManagerImage, ConfigurationError> {
        self.image(rm_id).await
    }

    async fn check_configuration(
        &self,
        text: String,
    ) -> Result<Result<String, ConfigErrors>, TooBusy> {
        self.check_configuration(text).await
    }

    async fn placement_rules(&self, partition: &str) -> Result<Vec<ShownRule>, ReadError> {
        self.placement_rules(partition).await
    }

    async fn steps(&self, partition: &str) -> Result<Steps, ReadError> {
        self.steps(partition).await
    }

    async fn queues(
        &self,
        partition: &str,
        around: Option<&str>,
    ) -> Result<(Option<QueueSnapshot>, Steps), ReadError> {
        self.queue_tree(partition, around).await
    }

    async fn nodes(&self, partition: &str, page: Page) -> Result<Listed<NodeSnapshot>, ReadError> {
        self.list_nodes(partition, &BTreeSet::new(), page).await
    }

    async fn node(&self, partition: &str, id: &str) -> Result<Option<NodeSnapshot>, ReadError> {
        self.node(partition, id).await
    }

    async fn application(
        &self,
        partition: &str,
        id: &str,
    ) -> Result<Option<ApplicationSnapshot>, ReadError> {
        self.application(partition, id).await
    }

    async fn applications(
        &self,
        partition: &str,
        list: ApplicationList,
        page: Page,
    ) -> Result<Listed<ApplicationSnapshot>, ReadError> {
        self.list_applications(partition, list, page).await
    }

    async fn explain(
        &self,
        partition: &str,
        application: &str,
        offset: usize,
    ) -> Result<Vec<ExplanationSnapshot>, ExplainError> {
        self.explain(partition, application, offset).await
    }

    async fn explain_ask(
        &self,
        partition: &str,
        application: &str,
        key: &str,
    ) -> Result<Vec<ExplanationSnapshot>, ExplainError> {
        self.explain_ask(partition, application, key).await
    }

    async fn decisions(
        &self,
        partition: &str,
        filter: DecisionFilter,
        page: Page,
    ) -> Result<Listed<DecisionSnapshot>, ReadError> {
        self.list_decisions(partition, filter, page).await
    }

    async fn users(&self, partition: &str, page: Page) -> Result<Listed<UserSnapshot>, ReadError> {
        self.list_users(partition, page).await
    }

    async fn user(&self, partition: &str, name: &str) -> Result<Option<UserSnapshot>, ReadError> {
        self.user(partition, name).await
    }

    async fn groups(
        &self,
        partition: &str,
        page: Page,
    ) -> Result<Listed<GroupSnapshot>, ReadError> {
        self.list_groups(partition, page).await
    }

    async fn group(&self, partition: &str, name: &str) -> Result<Option<GroupSnapshot>, ReadError> {
        self.group(partition, name).await
    }

    async fn node_utilizations(&self) -> Vec<NodeUtilizationSnapshot> {
        self.node_utilizations().await
    }

    async fn run_times(&self, partition: &str) -> Result<Option<(RunTimes, i64)>, ReadError> {
        self.run_times(partition).await
    }

    fn events(&self) -> EventReader {
        self.events()
    }

    async fn state_dump(&self, logbook: &Logbook) -> Result<Vec<u8>, DumpError> {
        dump::make(self, logbook, &DumpRequest::all()).await
    }

    async fn snapshot(
        &self,
        snapshots: &Snapshots,
        rm_id: Option<&str>,
        replaced: Replaced,
        turn: Turn,
    ) -> Result<Written, SnapshotError> {
        snapshots.make(self, rm_id, replaced, turn).await
    }

    async fn refresh_metrics(&self) {
        self.refresh_metrics().await;
    }

    fn metrics(&self) -> prometheus::Registry {
        self.metrics()
    }
}
