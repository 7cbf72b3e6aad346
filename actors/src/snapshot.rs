//! What actors show of themselves: one plain struct per kind, which REST sends as it is and tests
//! assert on. Where each is read is in `docs/rest.md`.
//!
//! # Why the shape of the wire is kept here
//! A snapshot is read by clients that exist already. Were it reshaped on the way out, each field
//! would be named twice; so the names, the fields that are left out and the order of the fields
//! are decided once, by the derives below.
//!
//! # Invariants
//! * A field with `skip_serializing_if` is left out where it is empty, zero or false, because
//!   clients expect that; every other field is present in each document.
//! * One state gives one document, byte by byte: maps are ordered, resources go by name, and
//!   whoever fills a list sorts it by the id named in its description.
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
    ForeignAllocationSnapshot, PlaceholderData, ResourceHistory, StateLogEntry,
};
pub use decision::{DecisionLevel, DecisionNodes, DecisionSnapshot, PassedOverNodes};
pub use explanation::{
    ChangeSnapshot, ExplanationSnapshot, NodeCounts, ObstacleSnapshot, RankSnapshot,
};
pub use health::{HealthCheckSnapshot, HealthSnapshot};
pub use monoceros_config::placement::{ShownFilter, ShownRule};
pub use usage::{GroupSnapshot, UsageSnapshot, UserSnapshot};
pub use utilization::{NodeUtilizationSnapshot, TypeUtilization, UtilizationClass};

/// The name of every cluster: clients never saw another one.
pub const CLUSTER_NAME: &str = "kubernetes";

/// The key of [`PartitionSnapshot::applications`] for all states together.
pub const TOTAL: &str = "total";

/// What size a node should have, and why: `docs/admin.md#measured-use`.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRecommendation {
    /// The node's id.
    pub node: String,
    /// Why the node should have that size.
    pub kind: RecommendationKind,
    /// The size that it should have; nothing, if the node can go.
    pub recommended: Resources,
    /// When this became known: at the measurement, or now.
    pub at_ns: i64,
}

/// A request that would run on more machines (`docs/scheduling.md#the-scale-up-signal`): it was
/// tried, fits its quotas beside those before it, and is not bound to one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutstandingRequest {
    /// Name without the brackets of its RM.
    pub partition: String,
    /// The application that asks.
    pub application: String,
    /// Its allocation key; empty where no RM has asked, for members of a declared gang.
    pub key: String,
    /// The name of its task group; empty when it is in none.
    pub task_group: String,
    /// Path of the leaf.
    pub queue: String,
    /// What each allocation takes.
    pub resource: Resources,
    /// How many of its allocations would run.
    pub count: u64,
    /// The tags that were sent with it.
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
    /// What its nodes have, and how much of it is used.
    pub capacity: PartitionCapacity,
    /// How nodes are ordered.
    pub node_sorting_policy: NodeSortingPolicy,
    /// True unless the configuration of the partition disables preemption.
    pub preemption_enabled: bool,
    /// Whether queues over a lowered quota are shrunk by preemption.
    pub quota_preemption_enabled: bool,
    /// Registered nodes. Sent when zero too: the web UI shows "Undefined" otherwise.
    pub total_nodes: i32,
    /// Applications by name of their state, live and finished, states of none left out; and their
    /// sum under [`TOTAL`], which is never left out.
    pub applications: BTreeMap<String, i32>,
    /// Current allocations, placeholders included, foreign ones not.
    #[serde(skip_serializing_if = "is_default")]
    pub total_containers: i32,
    /// `Active`, `Draining` or `Stopped`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// Creation or last change of [`Self::state`].
    #[serde(skip_serializing_if = "is_default")]
    pub last_state_transition_time: i64,
    /// How many of its last decisions are kept at most. Sent when zero too, which says that none are.
    pub decisions_kept: u64,
    /// How many of them there are now.
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
    /// How much of each resource is used, in whole percent.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub utilization: Resources,
}

/// How nodes are ordered.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSortingPolicy {
    /// `fair` or `binpacking`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What a resource counts in the order.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_weights: BTreeMap<String, f64>,
}

/// A queue, with or without what is below it.
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
    /// Sum of the asks below that wait.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub pending_resource: Resources,
    /// Configured maximum; for the root, what the partition has.
    #[serde(skip_serializing_if = "Limits::is_unlimited")]
    pub max_resource: Limits,
    /// Configured guarantee.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub guaranteed_resource: Resources,
    /// Current usage, placeholders included.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub allocated_resource: Resources,
    /// The part of the usage that is marked for preemption.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub preempting_resource: Resources,
    /// Least of what the maxima of the queue and its ancestors leave.
    #[serde(skip_serializing_if = "Limits::is_unlimited")]
    pub headroom: Limits,
    /// Whether applications, not queues, are below.
    pub is_leaf: bool,
    /// Configured, as opposed to created by a placement.
    pub is_managed: bool,
    /// Effective properties, inherited ones included.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    /// Path of the parent; empty for the root.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parent: String,
    /// Of a parent: what queues created below start with, here or at the nearest above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<TemplateSnapshot>,
    /// The queues directly below, by path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<QueueSnapshot>,
    /// Full paths of the queues directly below, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub child_names: Vec<String>,
    /// Usage in whole percent of the own maximum, of resources that the maximum names.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub abs_used_capacity: Resources,
    /// Most applications that may run; zero means no limit.
    #[serde(skip_serializing_if = "is_default")]
    pub max_running_apps: u64,
    /// Applications that run, here and below.
    #[serde(skip_serializing_if = "is_default")]
    pub running_apps: u64,
    /// Effective priority; `i32::MIN` when nothing is pending.
    pub current_priority: i32,
    /// Accepted applications that count as running already, for an allocation or a reservation that
    /// they hold, sorted. Only gangs will be such; a placement in the air is neither.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocating_accepted_apps: Vec<String>,
    /// `fifo` or `fair`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sorting_policy: String,
    /// Whether priority comes before the sorting policy.
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
    /// Added to the priorities below.
    #[serde(skip_serializing_if = "is_default")]
    pub priority_offset: i32,
    /// Whether quota preemption is in progress.
    pub is_quota_preemption_running: bool,
    /// When quota preemption is due or has started.
    #[serde(skip_serializing_if = "is_default")]
    pub quota_preemption_start_time: i64,
    /// How many asks that cannot be scheduled make an application back off.
    #[serde(rename = "unschedAskBackoff", skip_serializing_if = "is_default")]
    pub unscheduled_ask_backoff: u64,
    /// Length of a back-off in Go notation, `30s`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ask_backoff_delay: String,
    /// Applications placed in this very queue, by state; those that ended stay counted for as long
    /// as the queue is there. For metrics: not in the document.
    #[serde(skip)]
    pub applications: BTreeMap<ApplicationState, i64>,
    /// Allocations made in this very queue since it is there. Not in the document.
    #[serde(skip)]
    pub allocated_containers: u64,
    /// How many of them were released. Not in the document.
    #[serde(skip)]
    pub released_containers: u64,
    /// Resources that were used, asked for, or to be given back at any time. Not in the document.
    #[serde(skip)]
    pub used_names: UsedNames,
}

impl QueueSnapshot {
    /// The queue with this path, which is here or below.
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

/// What queues created below a parent start with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateSnapshot {
    /// Most applications that may run; zero means no limit.
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
    /// As registered. Sent when empty too: the web UI fails without it.
    pub attributes: BTreeMap<String, String>,
    /// All that can be scheduled.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub capacity: Resources,
    /// Used by this scheduler.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub allocated: Resources,
    /// Used by others.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub occupied: Resources,
    /// The rest; negative where the node is over-committed.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub available: Resources,
    /// [`Self::allocated`] in percent of the capacity, of names with a capacity.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub utilized: Resources,
    /// The allocations on it, by allocation key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<AllocationSnapshot>,
    /// How many there are: all that is said of them in a brief row.
    #[serde(skip)]
    pub allocation_count: usize,
    /// The foreign allocations on it, by allocation key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub foreign_allocations: Vec<ForeignAllocationSnapshot>,
    /// Neither draining nor unhealthy.
    pub schedulable: bool,
    /// Whether [`Self::reservations`] has an entry.
    pub is_reserved: bool,
    /// Namespace and name of those of [`Self::reservations`] that are pods, as `NAMESPACE/NAME`, by
    /// their keys.
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
