//! Snapshots of the utilization of nodes: `/ws/v1/scheduler/node-utilizations`.

use serde::Serialize;

use super::is_default;

/// The nodes of a partition by utilization of each resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeUtilizationSnapshot {
    /// The RM that owns the partition.
    pub cluster_id: String,
    /// Name without the brackets of its RM.
    pub partition: String,
    /// One entry for each resource of any node, by name. Sent when empty, too: the web UI fails without it.
    pub utilizations: Vec<TypeUtilization>,
}

/// The nodes of a partition with one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TypeUtilization {
    /// The name of the resource.
    #[serde(rename = "type")]
    pub kind: String,
    /// Ten classes, the least used first.
    pub utilization: Vec<UtilizationClass>,
}

/// A class of nodes with similar utilization.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UtilizationClass {
    /// `0-10%` and so on; the last class includes nodes above 100 %.
    pub bucket_name: String,
    /// The number of nodes.
    #[serde(skip_serializing_if = "is_default")]
    pub num_of_nodes: i64,
    /// Their ids, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node_names: Vec<String>,
}
