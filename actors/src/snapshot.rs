//! Snapshots of objects for clients: one plain struct per kind, which REST sends as it is and tests
//! compare. `docs/rest.md` lists their paths.
//!
//! # Why they have the form of the wire
//! Snapshots are read by existing clients. If REST converted them, each field would have two names. So the
//! names, the order of the fields, and the fields that are left out are decided once, by the derives below.
//!
//! # Invariants
//! * A field with `skip_serializing_if` is left out where it is empty, zero or false, because
//!   clients expect that; every other field is present in each document.
//! * Equal states have equal documents, byte by byte: maps are ordered, resources are sorted by name, and
//!   lists by the id in their description.
//! * Times are nanoseconds of the Unix epoch unless a field says otherwise; zero means unknown.

use std::collections::BTreeMap;

use monoceros_rules::applications::application_state::ApplicationState;
pub use monoceros_rules::nodes::utilization::RecommendationKind;
use monoceros_rules::order::used_names::UsedNames;
use monoceros_rules::values::resources::{Limits, Resources};
use serde::Serialize;

mod application;
mod decision;
mod explanation;
mod health;
mod usage;
mod utilization;

pub use application::{
    AllocationLogEntry, AllocationSnapshot, ApplicationSnapshot, AskSnapshot,
    ForeignAllocationSnapshot, PlaceholderData, ResourceHistory, StateLogEntry, WaitLogEntry,
};
pub use decision::{DecisionLevel, DecisionNodes, DecisionSnapshot, PassedOverNodes};
pub use explanation::{
    ChangeSnapshot, ExplanationSnapshot, NodeCounts, ObstacleSnapshot, RankSnapshot,
};
pub use health::{HealthCheckSnapshot, HealthSnapshot};
pub use monoceros_config::placement::{ShownFilter, ShownRule};
pub use usage::{GroupSnapshot, UsageSnapshot, UserSnapshot};
pub use utilization::{NodeUtilizationSnapshot, TypeUtilization, UtilizationClass};

/// The name of every cluster: clients have never received another one.
pub const CLUSTER_NAME: &str = "kubernetes";

/// The key of [`PartitionSnapshot::applications`] for all states together.
pub const TOTAL: &str = "total";

/// A recommendation for the size of a node: `docs/admin.md#measured-use`.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRecommendation {
    /// The node's id.
    pub node: String,
    /// The reason of the recommendation.
    pub kind: RecommendationKind,
    /// The recommended size; empty if the node is not needed.
    pub recommended: Resources,
    /// The time of the measurement, or now.
    pub at_ns: i64,
}

/// A request that more machines would help (`docs/scheduling.md#the-scale-up-signal`): it was tried, fits
/// its quotas in addition to the requests before it, and requires no node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutstandingRequest {
    /// Name without the brackets of its RM.
    pub partition: String,
    /// The id of its application.
    pub application: String,
    /// Its allocation key; empty for members of a declared gang whose asks have not arrived.
    pub key: String,
    /// The name of its task group; empty when it is in none.
    pub task_group: String,
    /// Path of the leaf.
    pub queue: String,
    /// The amount of each allocation.
    pub resource: Resources,
    /// The number of its allocations that would run.
    pub count: u64,
    /// The tags of the request.
    pub tags: BTreeMap<String, String>,
    /// When it was created.
    pub pending_since_ns: i64,
}

/// One partition as an element of `/ws/v1/clusters`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSnapshot {
    /// When this scheduler started.
    #[serde(skip_serializing_if = "is_default")]
    pub start_time: i64,
    /// One map per registered RM, ordered by RM id: its build information and `rmId`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rm_build_information: Vec<BTreeMap<String, String>>,
    /// Name without the brackets of its RM.
    pub partition: String,
    /// Always [`CLUSTER_NAME`].
    pub cluster_name: &'static str,
}

impl Default for ClusterSnapshot {
    fn default() -> Self {
        Self {
            start_time: 0,
            rm_build_information: Vec::new(),
            partition: String::new(),
            cluster_name: CLUSTER_NAME,
        }
    }
}

/// One partition as an element of `/ws/v1/partitions`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionSnapshot {
    /// The RM that owns the partition.
    pub cluster_id: String,
    /// Name without the brackets of its RM.
    pub name: String,
    /// The capacity of its nodes, and its usage.
    pub capacity: PartitionCapacity,
    /// The order of nodes.
    pub node_sorting_policy: NodeSortingPolicy,
    /// True unless the configuration of the partition disables preemption.
    pub preemption_enabled: bool,
    /// Whether queues over a lowered quota are shrunk by preemption.
    pub quota_preemption_enabled: bool,
    /// Registered nodes. Sent when zero too: the web UI shows "Undefined" otherwise.
    pub total_nodes: i32,
    /// The numbers of applications, live and ended, by name of their state. States without applications
    /// are left out, but never the sum under [`TOTAL`].
    pub applications: BTreeMap<String, i32>,
    /// Allocations, including placeholders and without foreign ones.
    #[serde(skip_serializing_if = "is_default")]
    pub total_containers: i32,
    /// `Active`, `Draining` or `Stopped`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// Creation or last change of [`Self::state`].
    #[serde(skip_serializing_if = "is_default")]
    pub last_state_transition_time: i64,
    /// The most decisions that are kept. Sent when zero, too: then none are kept.
    pub decisions_kept: u64,
    /// The number of decisions that are kept now.
    #[serde(skip_serializing_if = "is_default")]
    pub decisions: u64,
}

/// Totals of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionCapacity {
    /// Sum of the capacities of its nodes.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub capacity: Resources,
    /// The part of it that is allocated in the root queue.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub used_capacity: Resources,
    /// Usage of each resource, in whole percent of the capacity.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub utilization: Resources,
}

/// The order of nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSortingPolicy {
    /// `fair` or `binpacking`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The weights of resources in the order.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_weights: BTreeMap<String, f64>,
}

/// A queue, with or without the queues below it.
///
/// The default is an empty parent queue; fields that are text have no useful default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "the document has as many")]
pub struct QueueSnapshot {
    /// Full path, lower case.
    #[serde(rename = "queuename")]
    pub queue_name: String,
    /// `Active`, `Draining` or `Stopped`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// Filled on the root of a whole tree only, otherwise the empty text.
    pub partition: String,
    /// Sum of the pending asks, here and below.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub pending_resource: Resources,
    /// Configured maximum; of root, the capacity of the partition.
    #[serde(skip_serializing_if = "Limits::is_unlimited")]
    pub max_resource: Limits,
    /// Configured guarantee.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub guaranteed_resource: Resources,
    /// Current usage, including placeholders.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub allocated_resource: Resources,
    /// The part of the usage that is marked for preemption.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub preempting_resource: Resources,
    /// The headroom below the maxima of the queue and its ancestors.
    #[serde(skip_serializing_if = "Limits::is_unlimited")]
    pub headroom: Limits,
    /// Whether it holds applications; otherwise queues.
    pub is_leaf: bool,
    /// Whether it is configured; otherwise it was created by a placement.
    pub is_managed: bool,
    /// Effective properties, including inherited ones.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    /// Path of the parent; empty for the root.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parent: String,
    /// Of a parent: the template of queues created below, its own or that of the nearest ancestor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<TemplateSnapshot>,
    /// The queues directly below, by path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<QueueSnapshot>,
    /// Full paths of the queues directly below, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub child_names: Vec<String>,
    /// Usage in whole percent of the queue's own maximum, for resources in the maximum.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub abs_used_capacity: Resources,
    /// The most running applications; zero means no limit.
    #[serde(skip_serializing_if = "is_default")]
    pub max_running_apps: u64,
    /// Running applications, here and below.
    #[serde(skip_serializing_if = "is_default")]
    pub running_apps: u64,
    /// Effective priority; `i32::MIN` when nothing is pending.
    pub current_priority: i32,
    /// Accepted applications that count as running already, because they hold an allocation or a
    /// reservation, sorted. Only gangs are among them; a placement in flight does not count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocating_accepted_apps: Vec<String>,
    /// `fifo` or `fair`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sorting_policy: String,
    /// Whether priority takes precedence over the sorting policy.
    pub priority_sorting: bool,
    /// False only for the preemption policy `disabled`.
    pub preemption_enabled: bool,
    /// The preemption policy `fence`.
    pub is_preemption_fence: bool,
    /// In Go notation, `30s`.
    pub preemption_delay: String,
    /// In Go notation, `0s`.
    pub quota_preemption_delay: String,
    /// The priority policy `fence`.
    pub is_priority_fence: bool,
    /// The offset that is added to the priorities below.
    #[serde(skip_serializing_if = "is_default")]
    pub priority_offset: i32,
    /// Whether quota preemption is in progress.
    pub is_quota_preemption_running: bool,
    /// When quota preemption is due, or when it started.
    #[serde(skip_serializing_if = "is_default")]
    pub quota_preemption_start_time: i64,
    /// The number of unschedulable asks at which an application backs off.
    #[serde(rename = "unschedAskBackoff", skip_serializing_if = "is_default")]
    pub unscheduled_ask_backoff: u64,
    /// Length of a back-off in Go notation, `30s`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ask_backoff_delay: String,
    /// The numbers of applications placed in this queue itself, by state; ended ones stay counted while the
    /// queue exists. For metrics, not in the document.
    #[serde(skip)]
    pub applications: BTreeMap<ApplicationState, i64>,
    /// Allocations made in this queue itself since it exists. Not in the document.
    #[serde(skip)]
    pub allocated_containers: u64,
    /// The number of them that were released. Not in the document.
    #[serde(skip)]
    pub released_containers: u64,
    /// Resources that were ever used, pending or being preempted. Not in the document.
    #[serde(skip)]
    pub used_names: UsedNames,
}

impl QueueSnapshot {
    /// The queue with this path: this one, or one below it.
    pub fn descendant(self, path: &str) -> Option<Self> {
        if self.queue_name == path {
            return Some(self);
        }
        let below = path.strip_prefix(&self.queue_name)?;
        if !below.starts_with('.') {
            return None;
        }
        self.children.into_iter().find_map(|child| child.descendant(path))
    }
}

/// The template of queues created below a parent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateSnapshot {
    /// The most running applications; zero means no limit.
    #[serde(skip_serializing_if = "is_default")]
    pub max_applications: u64,
    /// Maximum.
    #[serde(skip_serializing_if = "Limits::is_unlimited")]
    pub max_resource: Limits,
    /// Guarantee.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub guaranteed_resource: Resources,
    /// Properties.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
}

/// A node of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSnapshot {
    /// The node's id.
    #[serde(rename = "nodeID")]
    pub node_id: String,
    /// The host name, from the attributes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host_name: String,
    /// The name of the rack, from the attributes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rack_name: String,
    /// The attributes, as registered. Sent when empty, too: the web UI fails without it.
    pub attributes: BTreeMap<String, String>,
    /// The capacity for scheduling.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub capacity: Resources,
    /// Used by this scheduler.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub allocated: Resources,
    /// Used by others.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub occupied: Resources,
    /// The rest; negative if the node is overcommitted.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub available: Resources,
    /// [`Self::allocated`] in percent of the capacity, for resources with a capacity.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub utilized: Resources,
    /// The allocations on it, by allocation key; empty in a brief row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<AllocationSnapshot>,
    /// The number of its allocations, in a brief row, too.
    #[serde(skip)]
    pub allocation_count: usize,
    /// The foreign allocations on it, by allocation key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub foreign_allocations: Vec<ForeignAllocationSnapshot>,
    /// Whether it is neither draining nor unhealthy.
    pub schedulable: bool,
    /// The number of requests that it refused since it was added: predicates that said no, and starts
    /// that failed there.
    #[serde(skip_serializing_if = "is_default")]
    pub refusals: u64,
    /// Whether [`Self::reservations`] has an entry.
    pub is_reserved: bool,
    /// The pods among [`Self::reservations`], as `NAMESPACE/NAME`, by allocation key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reserving_pods: BTreeMap<String, String>,
    /// Allocation keys of the asks that reserve the node, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reservations: Vec<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests;
