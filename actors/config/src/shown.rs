//! A configuration as it was accepted, for people and for REST: the root is there, what the
//! partition limits is with the root, names are normalised, quantities are the text that was
//! written.
//!
//! A key is left out where it has nothing to say, as the interface has it. Keys are those of JSON;
//! in YAML they are the same in lower case, except inside the mappings named by [`FREE_KEYS`].
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

/// The keys whose values are mappings with keys of the author's own: those keep their case.
pub const FREE_KEYS: [&str; 5] =
    ["Guaranteed", "Max", "MaxResources", "Properties", "ResourceWeights"];

/// A configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Shown {
    /// In the order they were written.
    pub partitions: Vec<ShownPartition>,
    /// That of the text, as computed.
    #[serde(skip_serializing_if = "is_default")]
    pub checksum: String,
}

/// A partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ShownPartition {
    /// `default`, or as it was written.
    pub name: String,
    /// The root.
    pub queues: Vec<ShownQueue>,
    /// In order.
    #[serde(skip_serializing_if = "is_default")]
    pub placement_rules: Vec<ShownRule>,
    /// Those written at the partition, which are with the root too.
    #[serde(skip_serializing_if = "is_default")]
    pub limits: Vec<ShownLimit>,
    /// As written.
    pub preemption: ShownPreemption,
    /// As written.
    pub node_sort_policy: ShownNodeOrder,
    /// As written.
    pub user_group_resolver: ShownResolver,
}

/// What may be preempted; none where nothing was written.
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

/// How nodes are ordered.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ShownNodeOrder {
    /// As written, empty where nothing was.
    pub r#type: String,
    /// As written.
    #[serde(skip_serializing_if = "is_default")]
    pub resource_weights: BTreeMap<String, f64>,
}

/// Who knows the groups of users. Its key is lower case in JSON too.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ShownResolver {
    /// As written.
    #[serde(skip_serializing_if = "is_default")]
    pub r#type: String,
}

/// A queue with everything below it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ShownQueue {
    /// As written; of the root `root`.
    pub name: String,
    /// As written; of the root yes.
    #[serde(skip_serializing_if = "is_default")]
    pub parent: bool,
    /// As written.
    pub resources: ShownResources,
    /// 0 is unlimited.
    #[serde(skip_serializing_if = "is_default")]
    pub max_applications: u64,
    /// Its own.
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
    /// In the order they were written.
    #[serde(skip_serializing_if = "is_default")]
    pub queues: Vec<ShownQueue>,
    /// Of the root also those of the partition.
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

/// What dynamic leaves are made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ShownTemplate {
    /// 0 is unlimited.
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
    /// Whether the queue may be missing.
    #[serde(skip_serializing_if = "is_default")]
    pub create: bool,
    /// Whom it is for.
    pub filter: ShownFilter,
    /// The rule that yields the parent.
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
    /// What its author called it.
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
    /// 0 is unlimited.
    #[serde(skip_serializing_if = "is_default")]
    pub max_applications: u64,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
