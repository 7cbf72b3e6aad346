//! Snapshots of explanations why asks are pending: `docs/explain.md`.

use std::collections::BTreeMap;

use monoceros_rules::values::resources::Resources;
use serde::Serialize;

use super::is_default;

/// Why the asks of one class are pending. Asks are of one class if they differ in nothing that affects
/// their placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplanationSnapshot {
    /// The keys of its first asks, in order, at most 100.
    pub allocation_keys: Vec<String>,
    /// The number of pending allocations of all its asks.
    pub count: i64,
    /// The amount of each allocation.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub resource: Resources,
    /// The first obstacle: `queueQuota`, `noNode` and so on.
    pub cause: String,
    /// Since when this obstacle exists; zero, and left out, if that is not known.
    #[serde(skip_serializing_if = "is_default")]
    pub since: i64,
    /// The queue, user, group, node or partition of the obstacle.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// The missing amount there.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub short: Resources,
    /// The obstacle in one sentence.
    pub message: String,
    /// The smallest change that lets it run, in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cure: String,
    /// Why it does not preempt others, or which victims are evicted for it, in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preemption: String,
    /// The number of running members of its declared task group, in a sentence; empty unless the group lacks
    /// members.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gang: String,
    /// The name of its task group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task_group: String,
    /// All obstacles, the outermost queue first.
    pub obstacles: Vec<ObstacleSnapshot>,
    /// Its ranks among its siblings, from root down.
    pub order: Vec<RankSnapshot>,
    /// The numbers of unusable nodes, by reason.
    pub nodes: NodeCounts,
    /// The changes of the cure, for programs: together they let it run.
    pub changes: Vec<ChangeSnapshot>,
}

/// An obstacle to the placement of an ask.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObstacleSnapshot {
    /// As [`ExplanationSnapshot::cause`].
    pub cause: String,
    /// As [`ExplanationSnapshot::object`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// The missing amount there.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub short: Resources,
    /// The available amount of these resources.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub have: Resources,
    /// The requested amount of these resources.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub want: Resources,
    /// As [`ExplanationSnapshot::since`].
    #[serde(skip_serializing_if = "is_default")]
    pub since: i64,
    /// The obstacle in one sentence.
    pub message: String,
}

/// A rank in one of the orders in which asks are tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RankSnapshot {
    /// The kind of the siblings: `queue`, `application` or `ask`.
    pub level: String,
    /// Their parent: the path of the queue, or the id of the application.
    #[serde(rename = "in")]
    pub within: String,
    /// The rank, from 1.
    pub rank: u32,
    /// The number of siblings with pending asks; asks are counted in classes.
    pub of: u32,
    /// The first of them: the path of a queue, the id of an application, or the key of an ask.
    pub first: String,
}

/// The numbers of unusable nodes, by reason. A node counts once, for the first reason in this order; a node
/// that lacks several resource types counts for each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCounts {
    /// The candidate nodes: all, or the required one.
    pub total: u32,
    /// Draining or not ready.
    pub closed: u32,
    /// Too small even when empty.
    pub too_small: u32,
    /// The numbers of nodes without enough of a resource type, by type.
    pub no_room: BTreeMap<String, u32>,
    /// Reserved for another ask.
    pub reserved: u32,
    /// Excluded by the ask's constraints.
    pub constraints: u32,
    /// Excluded by the topology of its task group.
    pub topology: u32,
    /// The reasons of predicates, each with the number of nodes.
    pub predicates: BTreeMap<String, u32>,
}

/// One change of a cure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeSnapshot {
    /// `none`, `time`, `nodeRoom`, `openNode`, `quota`, `userLimit`, `runningApplications`, `node`,
    /// `gangMembers` or `state`.
    pub kind: String,
    /// The object of the change: a queue, a user or group in a queue, a node, a partition.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// The amount of the change; of a node, the least capacity.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub resource: Resources,
    /// The number of the change.
    #[serde(skip_serializing_if = "is_default")]
    pub count: u64,
    /// When it happens by itself, if that is known.
    #[serde(skip_serializing_if = "is_default")]
    pub at: i64,
}
