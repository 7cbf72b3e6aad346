//! Snapshots of recent decisions, with their explanation.

use serde::Serialize;

use super::is_default;

/// A decision of a partition: `docs/decisions.md`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionSnapshot {
    /// Its number: rises by one with each decision of the partition, from 1 on.
    pub id: u64,
    /// When the RM was notified of it.
    pub time: i64,
    /// When it was made, if the notification had to wait for an answer or for the end of a placeholder.
    #[serde(skip_serializing_if = "is_default")]
    pub decided_time: i64,
    /// `allocation`, `reservation` or `eviction`.
    pub kind: String,
    /// The deciding rule, in one sentence.
    pub ruled: String,
    /// The application of the ask, or of the evicted allocation.
    pub application_id: String,
    /// The key of the ask or allocation.
    pub allocation_key: String,
    /// Namespace and name of its pod, as `NAMESPACE/NAME`; left out if it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// The leaf.
    pub queue_name: String,
    /// The node.
    pub node_id: String,
    /// The choice in each queue from root to the leaf; of an eviction, the choice of the victim.
    pub levels: Vec<DecisionLevel>,
    /// The nodes that were considered; `None` for an eviction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<DecisionNodes>,
    /// The grounds of an eviction, in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preempted_for: String,
}

/// The choice between the children of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionLevel {
    /// The queue.
    pub queue: String,
    /// The criteria by which its children are compared, in order.
    pub order: String,
    /// The chosen child: a queue, in a leaf an application, of an eviction the key of the victim.
    pub chosen: String,
    /// The second in order; left out if there was none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runner_up: String,
    /// Namespace and name of the pod of the second, of an eviction; left out if it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runner_up_pod: String,
    /// The criterion that decided between both, with their figures.
    pub rule: String,
}

/// The nodes that were considered for a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionNodes {
    /// The number of nodes that were tried.
    pub tried: u32,
    /// Nodes before the chosen one in order that were not used, by reason.
    pub passed_over: Vec<PassedOverNodes>,
}

/// Nodes that were passed over for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PassedOverNodes {
    /// The reason.
    pub reason: String,
    /// Their number.
    pub count: u32,
    /// One of these nodes; left out if none is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub example: String,
}
