//! Nodes, namespaces, classes, budgets, groups and configuration.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::Deserialize;

use super::meta::{Quantities, known, or_default};
use super::pod::PodCondition;

/// A machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Names and labels.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
    /// What somebody wants of it.
    pub spec: NodeSpec,
    /// What it says.
    pub status: NodeStatus,
}

/// What somebody wants of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// It is cordoned.
    pub unschedulable: bool,
    /// What keeps pods away that do not tolerate it.
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<Taint>,
}

/// What a node says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// What pods may have of it.
    #[serde(deserialize_with = "or_default")]
    pub allocatable: Quantities,
    /// What it can do that nodes of other versions or settings cannot.
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

/// A class of priorities.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PriorityClass {
    /// Name and annotations.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
}

/// How many of some pods may be missing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodDisruptionBudget {
    /// Its name.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
    /// Which pods.
    pub spec: BudgetSpec,
    /// How it stands.
    pub status: BudgetStatus,
}

/// Which pods a budget is about.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct BudgetSpec {
    /// Their labels; none at all unless given, and all of the namespace if empty.
    pub selector: Option<LabelSelector>,
}

/// How a budget stands.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetStatus {
    /// How many may go now.
    pub disruptions_allowed: i32,
}

/// A map of texts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConfigMap {
    /// Its name.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
    /// The texts.
    #[serde(deserialize_with = "or_default")]
    pub data: BTreeMap<String, String>,
}

/// Pods that are scheduled together.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodGroup {
    /// Names.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: PodGroupSpec,
    /// What has come of it.
    pub status: PodGroupStatus,
}

/// What has come of a group of pods.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodGroupStatus {
    /// What is known of it.
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

/// What a group of pods wants.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupSpec {
    /// The composite that it is a part of.
    pub parent_composite_pod_group_name: Option<String>,
    /// All at once, or each by itself.
    pub scheduling_policy: PodGroupPolicy,
    /// Where, relative to each other.
    #[serde(deserialize_with = "or_default")]
    pub scheduling_constraints: Topologies,
    /// Who goes at once when it is disrupted.
    #[serde(deserialize_with = "or_default")]
    pub disruption_mode: DisruptionMode,
    /// The class of its priority.
    pub priority_class_name: Option<String>,
    /// Higher goes first.
    pub priority: Option<i32>,
    /// `Never`, or that it may preempt.
    pub preemption_policy: Option<String>,
}

/// All at once, or each by itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodGroupPolicy {
    /// All at once.
    pub gang: Option<Gang>,
}

/// All at once.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Gang {
    /// How many are needed to begin.
    pub min_count: i32,
}

/// Where, relative to each other.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Topologies {
    /// Labels of nodes of which all have one value.
    #[serde(deserialize_with = "or_default")]
    pub topology: Vec<TopologyKey>,
}

/// A label of nodes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct TopologyKey {
    /// The label.
    pub key: String,
}

/// Who goes at once when one is disrupted.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct DisruptionMode {
    /// All; else each by itself.
    pub all: Option<All>,
}

/// A mark without fields.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct All {}
