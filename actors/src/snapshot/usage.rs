//! Snapshots of the usage of queues by users and groups: `docs/limits.md#where-to-see-it`.

use std::collections::BTreeMap;

use monoceros_rules::values::resources::{Limits, Resources};
use serde::Serialize;

use super::is_default;

/// A tracked user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserSnapshot {
    /// The name, as resolved.
    pub user_name: String,
    /// The group of each application; applications that count for none are left out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, String>,
    /// The usage of each queue, from root on.
    pub queues: UsageSnapshot,
}

/// A tracked group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupSnapshot {
    /// The name, or `*` for all users together that count for no other group.
    pub group_name: String,
    /// Ids of the applications that count for it, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<String>,
    /// The usage of each queue, from root on.
    pub queues: UsageSnapshot,
}

/// The usage of one queue by a user or group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageSnapshot {
    /// The path of the queue.
    pub queue_path: String,
    /// The usage, here and below.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub resource_usage: Resources,
    /// Ids of the applications with usage here or below, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub running_applications: Vec<String>,
    /// The limit of resources at this queue.
    #[serde(skip_serializing_if = "Limits::is_unlimited")]
    pub max_resources: Limits,
    /// The limit of running applications at this queue; zero means no limit.
    #[serde(skip_serializing_if = "is_default")]
    pub max_applications: u64,
    /// The tracked queues below, by path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<UsageSnapshot>,
}
