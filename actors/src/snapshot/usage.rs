//! What users and groups use of the queues, as clients read it: `docs/limits.md#where-to-see-it`.

use std::collections::BTreeMap;

use monoceros_rules::values::resources::{Limits, Resources};
use serde::Serialize;

use super::is_default;

/// A user who is tracked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserSnapshot {
    /// The name, as resolved.
    pub user_name: String,
    /// By application, the group that it counts for; those that count for none are left out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, String>,
    /// The use of each queue, from the root on.
    pub queues: UsageSnapshot,
}

/// A group that is tracked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupSnapshot {
    /// The name, or `*` for all users together whom no other group counts.
    pub group_name: String,
    /// Ids of the applications that count for it, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<String>,
    /// The use of each queue, from the root on.
    pub queues: UsageSnapshot,
}

/// What a user or group uses of one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageSnapshot {
    /// The path of the queue.
    pub queue_path: String,
    /// What is held here and below.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub resource_usage: Resources,
    /// Ids of the applications that hold something here or below, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub running_applications: Vec<String>,
    /// The limit of amounts at this queue.
    #[serde(skip_serializing_if = "Limits::is_unlimited")]
    pub max_resources: Limits,
    /// How many applications may run by the limit at this queue; zero means no limit.
    #[serde(skip_serializing_if = "is_default")]
    pub max_applications: u64,
    /// The queues below that are tracked, by path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<UsageSnapshot>,
}
