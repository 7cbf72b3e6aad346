//! Why asks wait, as clients read it; for people, `docs/explain.md`.

use std::collections::BTreeMap;

use monoceros_rules::values::resources::Resources;
use serde::Serialize;

use super::is_default;

/// Why the asks of one class wait. Asks are of one class if nothing tells them apart that decides
/// where they go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplanationSnapshot {
    /// The keys of its first asks, in order; 100 at most.
    pub allocation_keys: Vec<String>,
    /// How many allocations are wanted, of all its asks.
    pub count: i64,
    /// What each allocation takes.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub resource: Resources,
    /// What it waits for first: `queueQuota`, `noNode` and so on.
    pub cause: String,
    /// Since when it waits for that; zero, and left out, where it was not noted.
    #[serde(skip_serializing_if = "is_default")]
    pub since: i64,
    /// The queue, user, group, node or partition that decides.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// What is missing there.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub short: Resources,
    /// One sentence.
    pub message: String,
    /// The smallest change that lets it run, as a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cure: String,
    /// Why it does not preempt others, or that others leave for it: a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preemption: String,
    /// A sentence on how many members of its declared task group run; empty unless the group lacks some.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gang: String,
    /// The name of its task group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task_group: String,
    /// Everything that stands in its way, the outermost queue first.
    pub obstacles: Vec<ObstacleSnapshot>,
    /// Where it stands among its siblings, from root down.
    pub order: Vec<RankSnapshot>,
    /// What keeps how many nodes out.
    pub nodes: NodeCounts,
    /// The changes of the cure, for programs: doing all of them lets it run.
    pub changes: Vec<ChangeSnapshot>,
}

/// One thing that stands in the way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObstacleSnapshot {
    /// As [`ExplanationSnapshot::cause`].
    pub cause: String,
    /// As [`ExplanationSnapshot::object`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// What is missing there.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub short: Resources,
    /// What is left there of that.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub have: Resources,
    /// What is wanted of that.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub want: Resources,
    /// As [`ExplanationSnapshot::since`].
    #[serde(skip_serializing_if = "is_default")]
    pub since: i64,
    /// One sentence.
    pub message: String,
}

/// A place in one of the orders that decide who is tried first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RankSnapshot {
    /// What is ordered: `queue`, `application` or `ask`.
    pub level: String,
    /// Where: the path of the queue, or the id of the application.
    #[serde(rename = "in")]
    pub within: String,
    /// The place, from 1.
    pub rank: u32,
    /// How many siblings have something pending; asks are counted in classes.
    pub of: u32,
    /// Who is first: the path of a queue, the id of an application, or the key of an ask.
    pub first: String,
}

/// How many nodes are kept out by what. A node counts once, for the first of these that keeps it
/// out; one that lacks several types counts for each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCounts {
    /// The nodes that could be asked at all: all, or the one that is required.
    pub total: u32,
    /// Draining, or not ready.
    pub closed: u32,
    /// Too small even when empty.
    pub too_small: u32,
    /// By type, how many lack it.
    pub no_room: BTreeMap<String, u32>,
    /// Reserved for another ask.
    pub reserved: u32,
    /// Kept out by the ask's constraints.
    pub constraints: u32,
    /// Kept out by the topology of its task group.
    pub topology: u32,
    /// What predicates said, each with the number of nodes.
    pub predicates: BTreeMap<String, u32>,
}

/// One change of a cure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeSnapshot {
    /// `none`, `time`, `nodeRoom`, `quota`, `userLimit`, `runningApplications`, `node`, `gangMembers` or
    /// `state`.
    pub kind: String,
    /// What is changed: a queue, a user or group in a queue, a node, a partition.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// By how much; of a node, what it has at least.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub resource: Resources,
    /// By how many.
    #[serde(skip_serializing_if = "is_default")]
    pub count: u64,
    /// When it comes by itself, where that is known.
    #[serde(skip_serializing_if = "is_default")]
    pub at: i64,
}
