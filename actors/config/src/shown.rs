//! The accepted configuration in the form shown to people and over REST. The root queue is always
//! present and carries the limits of the partition, names are normalised, and quantities are the
//! author's text.
//!
//! Keys without a value are left out, as the interface does. Keys have their JSON spelling; in YAML
//! they are in lower case, except inside the mappings named by [`FREE_KEYS`].
//!
//! ```
//! let text = "partitions: [{queues: [{name: etl, resources: {max: {vcore: 500m}}}]}]";
//! let shown = monoceros_config::parse(text).unwrap().shown;
//! let json = serde_json::to_value(&shown.partitions[0]).unwrap();
//! assert_eq!(json["Name"], "default");
//! assert_eq!(json["Queues"][0]["Name"], "root");
//! assert_eq!(json["Queues"][0]["Queues"][0]["Resources"]["Max"]["vcore"], "500m");
//! ```

use std::collections::BTreeMap;

use serde::Serialize;

/// Keys whose values are mappings with keys chosen by the author. Those inner keys keep their case
/// in YAML.
pub const FREE_KEYS: [&str; 5] =
    ["Guaranteed", "Max", "MaxResources", "Properties", "ResourceWeights"];

/// A configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Shown {
    /// Partitions in the order of the text.
    pub partitions: Vec<ShownPartition>,
    /// Checksum of the text, as computed.
    #[serde(skip_serializing_if = "is_default")]
    pub checksum: String,
}

/// A partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ShownPartition {
    /// `default`, or the name as written.
    pub name: String,
    /// The root queue as the only entry.
    pub queues: Vec<ShownQueue>,
    /// Placement rules in order.
    #[serde(skip_serializing_if = "is_default")]
    pub placement_rules: Vec<ShownRule>,
    /// Limits written at the partition; the root queue lists them too.
    #[serde(skip_serializing_if = "is_default")]
    pub limits: Vec<ShownLimit>,
    /// As written.
    pub preemption: ShownPreemption,
    /// As written.
    pub node_sort_policy: ShownNodeOrder,
    /// As written.
    pub user_group_resolver: ShownResolver,
}

/// The preemption settings; both fields are `None` if nothing was written.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ShownPreemption {
    /// `preemption.enabled`.
    #[serde(skip_serializing_if = "is_default")]
    pub enabled: Option<bool>,
    /// `preemption.quotapreemptionenabled`.
    #[serde(skip_serializing_if = "is_default")]
    pub quota_preemption_enabled: Option<bool>,
}

/// The order of nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ShownNodeOrder {
    /// As written; empty if absent.
    pub r#type: String,
    /// As written.
    #[serde(skip_serializing_if = "is_default")]
    pub resource_weights: BTreeMap<String, f64>,
}

/// The user group resolver. Its key is lower case in JSON too.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ShownResolver {
    /// As written.
    #[serde(skip_serializing_if = "is_default")]
    pub r#type: String,
}

/// A queue and all queues below it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ShownQueue {
    /// As written; `root` for the root.
    pub name: String,
    /// As written; true for the root.
    #[serde(skip_serializing_if = "is_default")]
    pub parent: bool,
    /// As written.
    pub resources: ShownResources,
    /// Maximum number of applications; 0 is unlimited.
    #[serde(skip_serializing_if = "is_default")]
    pub max_applications: u64,
    /// Properties written at this queue, without inherited ones.
    #[serde(skip_serializing_if = "is_default")]
    pub properties: BTreeMap<String, String>,
    /// As written.
    #[serde(rename = "AdminACL", skip_serializing_if = "is_default")]
    pub admin_acl: String,
    /// As written.
    #[serde(rename = "SubmitACL", skip_serializing_if = "is_default")]
    pub submit_acl: String,
    /// As written.
    pub child_template: ShownTemplate,
    /// Child queues in the order of the text.
    #[serde(skip_serializing_if = "is_default")]
    pub queues: Vec<ShownQueue>,
    /// Limits as written; for the root, those of the partition too.
    #[serde(skip_serializing_if = "is_default")]
    pub limits: Vec<ShownLimit>,
}

/// Guarantee and maximum, each by resource type.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ShownResources {
    /// As written.
    #[serde(skip_serializing_if = "is_default")]
    pub guaranteed: BTreeMap<String, String>,
    /// As written.
    #[serde(skip_serializing_if = "is_default")]
    pub max: BTreeMap<String, String>,
}

/// Settings that dynamic leaves copy.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ShownTemplate {
    /// Maximum number of applications; 0 is unlimited.
    #[serde(skip_serializing_if = "is_default")]
    pub max_applications: u64,
    /// As written.
    #[serde(skip_serializing_if = "is_default")]
    pub properties: BTreeMap<String, String>,
    /// As written.
    pub resources: ShownResources,
}

/// A placement rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ShownRule {
    /// As written.
    pub name: String,
    /// Whether the rule may create its queue.
    #[serde(skip_serializing_if = "is_default")]
    pub create: bool,
    /// Users and groups that the rule is for.
    pub filter: ShownFilter,
    /// Rule that yields the parent queue.
    #[serde(skip_serializing_if = "is_default")]
    pub parent: Option<Box<ShownRule>>,
    /// As written.
    #[serde(skip_serializing_if = "is_default")]
    pub value: String,
}

/// The filter of a placement rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ShownFilter {
    /// As written.
    pub r#type: String,
    /// As written.
    #[serde(skip_serializing_if = "is_default")]
    pub users: Vec<String>,
    /// As written.
    #[serde(skip_serializing_if = "is_default")]
    pub groups: Vec<String>,
}

/// A limit of users and groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ShownLimit {
    /// Description given by the author.
    pub limit: String,
    /// As written.
    #[serde(skip_serializing_if = "is_default")]
    pub users: Vec<String>,
    /// As written.
    #[serde(skip_serializing_if = "is_default")]
    pub groups: Vec<String>,
    /// As written.
    #[serde(skip_serializing_if = "is_default")]
    pub max_resources: BTreeMap<String, String>,
    /// Maximum number of applications; 0 is unlimited.
    #[serde(skip_serializing_if = "is_default")]
    pub max_applications: u64,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
