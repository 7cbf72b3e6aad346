//! A decision that was made lately, and why it was made as it was.

use serde::Serialize;

use super::is_default;

/// A decision of a partition: `docs/decisions.md`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionSnapshot {
    /// Its number: rises by one with each decision of the partition, from 1 on.
    pub id: u64,
    /// When it was told.
    pub time: i64,
    /// When it was made, where something was waited for in between: an answer, the end of a
    /// placeholder.
    #[serde(skip_serializing_if = "is_default")]
    pub decided_time: i64,
    /// `allocation`, `reservation` or `eviction`.
    pub kind: String,
    /// The rule by which it was made, in one sentence.
    pub ruled: String,
    /// The application of the ask, or of the allocation that leaves.
    pub application_id: String,
    /// Its key.
    pub allocation_key: String,
    /// Namespace and name of its pod, as `NAMESPACE/NAME`; left out where it is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// The leaf.
    pub queue_name: String,
    /// The node.
    pub node_id: String,
    /// Who came first in each queue from root to the leaf, and why; of an eviction, who was taken and
    /// not another.
    pub levels: Vec<DecisionLevel>,
    /// The nodes that were looked at; none for an eviction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<DecisionNodes>,
    /// For whom an allocation leaves, and by which rule, in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preempted_for: String,
}

/// The choice between the children of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionLevel {
    /// The queue.
    pub queue: String,
    /// By what its children are compared, one after the other.
    pub order: String,
    /// The first: a queue, in a leaf an application; of an eviction the key of what leaves.
    pub chosen: String,
    /// The second; left out where there was none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runner_up: String,
    /// Namespace and name of the pod that the second is, of an eviction; left out where it is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runner_up_pod: String,
    /// What put the first before the second, with the figures of both.
    pub rule: String,
}

/// The nodes that were looked at for a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionNodes {
    /// How many were asked.
    pub tried: u32,
    /// Those that come before the node in order and were not used, by reason.
    pub passed_over: Vec<PassedOverNodes>,
}

/// Nodes that were passed over for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PassedOverNodes {
    /// Why.
    pub reason: String,
    /// How many.
    pub count: u32,
    /// One of them; left out where none is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub example: String,
}
