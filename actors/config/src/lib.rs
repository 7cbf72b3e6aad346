//! The queue configuration. [`parse`] checks its text once and returns values that need no further
//! check.
//!
//! # How it is read
//! Text → tree of values with their locations (`yaml`) → settings with known keys and right types
//! (`document`) → settings that obey all rules (`validate`). Each step collects all its faults, so
//! that one answer names them all, the one to correct first on top.
//!
//! # Invariants
//! * A [`Configuration`] that [`parse`] returned has at least one partition, unless its text was
//!   empty. Each partition has exactly one root queue, without resources of its own.
//! * Names and paths of queues are lower case; siblings have different names.
//! * No queue is guaranteed more than its `max`, and no `max` exceeds a `max` above it.
//! * No key is ignored silently: an unknown key is an error, and a key without effect is a warning.
//!
//! ```
//! let text = "
//! partitions:
//!   - name: default
//!     queues:
//!       - name: root
//!         submitacl: '*'
//!         queues:
//!           - name: Batch
//!             resources: {max: {vcore: 10, memory: 4Gi}}
//! ";
//! let configuration = monoceros_config::parse(text).unwrap();
//! let batch = &configuration.partitions[0].root.children[0];
//! assert_eq!(&*batch.path, "root.batch");
//! assert_eq!(batch.max.as_ref().unwrap().to_string(), "map[memory:4294967296 vcore:10000]");
//!
//! let errors = monoceros_config::parse(&text.replace("4Gi", "4GB")).unwrap_err();
//! assert_eq!(errors.reported[0].path, "partitions[0].queues[0].queues[0].resources.max.memory");
//! ```

mod checksum;
pub mod config_map;
pub mod difference;
mod document;
mod error;
pub mod placement;
pub mod reload;
mod resource_types;
mod scalars;
mod settings;
mod shown;
mod spelling;
pub mod task_groups;
#[cfg(test)]
mod tests;
mod validate;
mod yaml;

use std::sync::Arc;

use crate::placement::PlacementRules;

pub use monoceros_rules::nodes::NodeSortPolicy;
pub use monoceros_rules::queues::{
    Acl, AclError, ApplicationSortPolicy, LimitConfig, PreemptionPolicy, PriorityPolicy,
    QueueConfig, QueueSettings, Template,
};
pub use monoceros_rules::values::names::RECOVERY;
pub use monoceros_rules::values::partition_name::{
    DEFAULT_PARTITION, ForeignPartition, plain_name, qualified_name, rm_id,
};
use monoceros_rules::values::resources::NameHolder;

pub use self::checksum::carries_checksum;
use self::error::Report;
pub use self::error::{ConfigError, ConfigErrors, ConfigWarning};
pub use self::resource_types::{KnownTypes, NamedTypes};
pub use self::shown::{
    FREE_KEYS, Shown, ShownFilter, ShownLimit, ShownNodeOrder, ShownPartition, ShownPreemption,
    ShownQueue, ShownResolver, ShownResources, ShownRule, ShownTemplate,
};
pub use self::spelling::closest;

/// The configuration used if the supplied text is empty: open to everybody, with a leaf for each
/// namespace and `root.default` for applications without one. Queues are created when they are
/// needed.
// The file is a link to the one in `config`: a published crate has no neighbours.
pub const DEFAULT: &str = include_str!("../queues.yaml");

/// A checked queue configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// Partitions in the order of the text.
    pub partitions: Vec<PartitionConfig>,
    /// SHA-256 of the text without its checksum entry, 64 upper-case hex digits.
    pub checksum: String,
    /// Warnings about settings that load but probably do not mean what their author thinks, as far
    /// as the text alone shows.
    pub warnings: Vec<ConfigWarning>,
    /// The resource types that quotas name, to be compared with those of a running scheduler.
    pub types: NamedTypes,
    /// The accepted configuration in the form shown to people, with defaults added.
    pub shown: Shown,
}

/// One partition: a queue tree over nodes of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionConfig {
    /// `default`, or the name as written.
    pub name: Arc<str>,
    /// Placement rules in order, as written. If there are none, applications name their queue,
    /// which must exist.
    pub placement: Vec<RuleConfig>,
    /// [`Self::placement`], compiled.
    pub rules: Arc<PlacementRules>,
    /// The kinds of preemption that are enabled.
    pub preemption: PreemptionFlags,
    /// Resolver of the groups of a user (`usergroupresolver.type`), as written.
    pub resolver: String,
    /// Order in which nodes are tried.
    pub node_order: NodeOrder,
    /// The root queue, inserted where the text has none.
    pub root: QueueConfig,
    /// Holds the names of the resource types of the whole configuration, as long as the
    /// configuration exists.
    pub names: Arc<NameHolder>,
}

/// A placement rule as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleConfig {
    /// Name of the rule in lower case.
    pub name: String,
    /// Whether the rule may create its queue.
    pub create: bool,
    /// Users and groups that the rule is for.
    pub filter: FilterConfig,
    /// Rule that yields the parent queue.
    pub parent: Option<Box<RuleConfig>>,
    /// The queue of a `fixed` rule, or the tag name of a `tag` rule.
    pub value: String,
}

/// Users and groups that a placement rule is for, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterConfig {
    /// Whether the rule is for everybody except those listed.
    pub denies: bool,
    /// Names, or one regular expression.
    pub users: Vec<String>,
    /// Names, or one regular expression.
    pub groups: Vec<String>,
}

/// The kinds of preemption that are enabled in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreemptionFlags {
    /// Preemption for queues below their guarantee.
    pub enabled: bool,
    /// Preemption in queues above a maximum that was lowered.
    pub quota: bool,
}

impl Default for PreemptionFlags {
    fn default() -> Self {
        Self { enabled: true, quota: false }
    }
}

/// Order of nodes: by their utilisation, each resource type with its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeOrder {
    /// Whether emptier or fuller nodes come first.
    pub policy: NodeSortPolicy,
    /// Weight of each resource type by name, 0 or more. A type that is not listed has weight 0.
    pub weights: Vec<(String, f64)>,
}

impl NodeOrder {
    /// Returns the order in the form kept by the node index of a partition.
    pub fn held(&self) -> monoceros_rules::nodes::NodeOrder {
        monoceros_rules::nodes::NodeOrder::of_held(self.policy, &self.weights)
    }
}

/// Returns the queue [`RECOVERY`], which is never configured: a leaf without limits, open to
/// nobody.
pub fn recovery_queue() -> QueueConfig {
    dynamic_queue(RECOVERY, true, None)
}

/// Returns the settings of a queue created for an application. A leaf copies everything from the
/// template, a parent nothing.
pub fn dynamic_queue(path: &str, is_leaf: bool, template: Option<&Template>) -> QueueConfig {
    let template = template.filter(|_| is_leaf).cloned().unwrap_or_default();
    QueueConfig {
        max: template.max,
        guaranteed: template.guaranteed,
        max_applications: template.max_applications,
        settings: settings::dynamic(&template.properties, is_leaf),
        properties: template.properties,
        is_dynamic: true,
        ..QueueConfig::bare(path, is_leaf)
    }
}

/// Returns a configuration text as a document, in which each scalar is a text as written, or null.
/// Written as JSON it means the same. `None` if the text is no YAML.
///
/// ```
/// let document = monoceros_config::document_of("partitions: [{name: lab, limits: ~}]").unwrap();
/// assert_eq!(document.to_string(), r#"{"partitions":[{"limits":null,"name":"lab"}]}"#);
/// ```
pub fn document_of(text: &str) -> Option<serde_json::Value> {
    let root = yaml::load(text, &mut Report::default()).ok()?;
    Some(root.map_or(serde_json::Value::Null, |root| root.value.to_json()))
}

/// Checks a configuration text. Empty text gives no partitions; the caller then uses [`DEFAULT`].
pub fn parse(text: &str) -> Result<Configuration, ConfigErrors> {
    let mut report = Report::default();
    let (mut partitions, mut shown) = (Vec::new(), Shown::default());
    let mut types = NamedTypes::default();
    if !text.is_empty()
        && let Ok(root) = yaml::load(text, &mut report)
    {
        let document = document::read(root.as_deref(), &mut report);
        // Two passes found the errors; a reader wants them from top to bottom.
        report.errors.sort_by_key(|error| (error.line, error.column));
        (partitions, shown.partitions) =
            validate::partitions(document, &mut types, &mut report).into_iter().unzip();
    }
    if !report.errors.is_empty() {
        return Err(ConfigErrors { reported: report.errors, n_more: report.n_more_errors });
    }
    for partition in &partitions {
        debug_assert_tree(&partition.root);
    }
    let checksum = checksum::of(text);
    shown.checksum.clone_from(&checksum);
    let warnings = types.warnings(&report.into_warnings(), &KnownTypes::new());
    Ok(Configuration { partitions, checksum, warnings, types, shown })
}

/// Asserts the invariants of an accepted queue tree in debug builds: the root is named `root` and
/// has no resources; paths follow the tree; siblings differ; only parents have children.
fn debug_assert_tree(root: &QueueConfig) {
    fn check(queue: &QueueConfig) {
        let mut paths = std::collections::BTreeSet::new();
        for child in &queue.children {
            let path = format!("{}.{}", queue.path, child.name);
            debug_assert_eq!(*child.path, *path, "a path is that of the parent and the name");
            debug_assert_eq!(path, path.to_lowercase(), "paths are in lower case");
            debug_assert!(paths.insert(path), "siblings have different names");
            check(child);
        }
        debug_assert!(!queue.is_leaf || queue.children.is_empty(), "a leaf has no children");
    }
    if cfg!(debug_assertions) {
        debug_assert_eq!(&*root.path, "root", "the root queue has the path `root`");
        debug_assert!(root.max.is_none() && root.guaranteed.is_none(), "root has no resources");
        check(root);
    }
}
