//! Nodes, namespaces, priority classes, budgets, PodGroups and ConfigMaps.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::Deserialize;

use super::meta::{Quantities, known, or_default};
use super::pod::PodCondition;

/// A node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Name and labels.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
    /// Desired state.
    pub spec: NodeSpec,
    /// Observed state.
    pub status: NodeStatus,
}

/// Desired state of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// Whether the node is cordoned.
    pub unschedulable: bool,
    /// Taints, which keep away pods without a matching toleration.
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<Taint>,
}

/// Observed state of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// Amounts that pods may use.
    #[serde(deserialize_with = "or_default")]
    pub allocatable: Quantities,
    /// Optional features that the node's version and settings provide.
    #[serde(deserialize_with = "or_default")]
    pub declared_features: Vec<String>,
}

/// A namespace.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Namespace {
    /// Name, labels and annotations.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
}

/// A priority class.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PriorityClass {
    /// Name and annotations.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
}

/// A limit on how many of some pods may be disrupted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodDisruptionBudget {
    /// Its name.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
    /// Pods that the budget covers.
    pub spec: BudgetSpec,
    /// Observed state.
    pub status: BudgetStatus,
}

/// Pods that a budget covers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct BudgetSpec {
    /// Selects pods of the namespace. No pod if `None`, all pods if empty.
    pub selector: Option<LabelSelector>,
}

/// Observed state of a budget.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetStatus {
    /// Number of pods that may be evicted now.
    pub disruptions_allowed: i32,
}

/// A ConfigMap.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConfigMap {
    /// Its name.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
    /// Values by key.
    #[serde(deserialize_with = "or_default")]
    pub data: BTreeMap<String, String>,
}

/// A group of pods that are scheduled together.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodGroup {
    /// Name and namespace.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
    /// Desired state.
    pub spec: PodGroupSpec,
    /// Observed state.
    pub status: PodGroupStatus,
}

/// Observed state of a PodGroup.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodGroupStatus {
    /// Conditions of the group.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<PodCondition>,
}

impl PodGroup {
    /// Whether a condition of this type is true.
    pub fn is(&self, type_: &str) -> bool {
        let mut all = self.status.conditions.iter();
        all.any(|condition| condition.type_ == type_ && condition.status == "True")
    }
}

/// Desired state of a PodGroup.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupSpec {
    /// The composite group that contains this one.
    pub parent_composite_pod_group_name: Option<String>,
    /// Policy: all pods at once, or each by itself.
    pub scheduling_policy: PodGroupPolicy,
    /// Topology constraints of its pods.
    #[serde(deserialize_with = "or_default")]
    pub scheduling_constraints: Topologies,
    /// The mode in which its pods are disrupted.
    #[serde(deserialize_with = "or_default")]
    pub disruption_mode: DisruptionMode,
    /// Its priority class.
    pub priority_class_name: Option<String>,
    /// Its priority; a higher number is scheduled first.
    pub priority: Option<i32>,
    /// `Never`, or else its pods may preempt.
    pub preemption_policy: Option<String>,
}

/// Scheduling policy of a PodGroup.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodGroupPolicy {
    /// Schedules all pods at once. `None` schedules each pod by itself.
    pub gang: Option<Gang>,
}

/// Gang policy.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Gang {
    /// Number of pods that the group starts with.
    pub min_count: i32,
}

/// Topology constraints of a PodGroup.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Topologies {
    /// Node labels of which all pods of the group must have the same value.
    #[serde(deserialize_with = "or_default")]
    pub topology: Vec<TopologyKey>,
}

/// A node label that defines a topology.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct TopologyKey {
    /// Key of the label.
    pub key: String,
}

/// The mode in which the pods of a group are disrupted.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct DisruptionMode {
    /// Set if all pods are disrupted together. Otherwise each one is disrupted by itself.
    pub all: Option<All>,
}

/// A mark without fields.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct All {}
