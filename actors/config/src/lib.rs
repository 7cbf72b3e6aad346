//! The queue configuration: its text is checked once, into values that need no further check.
//!
//! # How it is read
//! Text → tree of values with their places (`yaml`) → what was written, keys known and types right
//! (`document`) → what it means, every rule held (`validate`). Each step collects
//! all faults it finds, so that one answer names them all, the one to look at first on top.
//!
//! # Invariants
//! * A [`Configuration`] that [`parse`] returned has a partition at least, unless its text was
//!   empty, and in each partition exactly one root queue, without resources of its own.
//! * Names and paths of queues are lower case; siblings have different names.
//! * No queue is guaranteed more than it may use, no `max` exceeds one above it.
//! * No key is ignored silently: an unknown one is an error, and one that has no effect a warning.
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
//! assert_eq!(errors.told[0].path, "partitions[0].queues[0].queues[0].resources.max.memory");
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

/// The configuration to use where the supplied text is empty: open to everybody, with a leaf for
/// each namespace, and `root.default` for who has none, made when they are needed.
pub const DEFAULT: &str = include_str!("../../../config/queues.yaml");

/// A checked queue configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// In the order they were written.
    pub partitions: Vec<PartitionConfig>,
    /// SHA-256 of the text without its checksum entry, 64 upper-case hex digits.
    pub checksum: String,
    /// Warnings of what loads but probably does not mean what its author thinks, as far as the text says it.
    pub warnings: Vec<ConfigWarning>,
    /// The resource types that quotas name.
    pub types: NamedTypes,
    /// The same for people: the text as it was accepted, with what was added to it.
    pub shown: Shown,
}

/// One partition: a queue tree over nodes of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionConfig {
    /// `default`, or the name as it was written.
    pub name: Arc<str>,
    /// Which applications go where, in order, as written; empty: where they name a queue that is
    /// there.
    pub placement: Vec<RuleConfig>,
    /// The same, ready to be asked.
    pub rules: Arc<PlacementRules>,
    /// What may be preempted at all.
    pub preemption: PreemptionFlags,
    /// Who says which groups a user is in (`usergroupresolver.type`), as written.
    pub resolver: String,
    /// In which order nodes are tried.
    pub node_order: NodeOrder,
    /// The root queue, inserted where the text has none.
    pub root: QueueConfig,
    /// The resource types that the whole configuration names, held as long as it is there.
    pub names: Arc<NameHolder>,
}

/// A placement rule as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleConfig {
    /// Lower case.
    pub name: String,
    /// Whether the queue may be missing.
    pub create: bool,
    /// Whom it is for.
    pub filter: FilterConfig,
    /// The rule that yields the parent of its queue.
    pub parent: Option<Box<RuleConfig>>,
    /// Of `fixed` a queue, of `tag` the name of a tag.
    pub value: String,
}

/// The users and groups that a placement rule is for, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterConfig {
    /// Whether the rule is for everybody but those listed.
    pub denies: bool,
    /// Names, or one regular expression.
    pub users: Vec<String>,
    /// Names, or one regular expression.
    pub groups: Vec<String>,
}

/// What preemption is allowed in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreemptionFlags {
    /// For queues below their guarantee.
    pub enabled: bool,
    /// For queues above a maximum that was lowered.
    pub quota: bool,
}

impl Default for PreemptionFlags {
    fn default() -> Self {
        Self { enabled: true, quota: false }
    }
}

/// How nodes are ordered: by how full they are, each resource type with its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeOrder {
    /// Emptier or fuller nodes first.
    pub policy: NodeSortPolicy,
    /// The weight of each resource type, by name, 0 or more; types that are not listed count
    /// nothing.
    pub weights: Vec<(String, f64)>,
}

impl NodeOrder {
    /// The order as the index of a partition keeps it.
    pub fn held(&self) -> monoceros_rules::nodes::NodeOrder {
        monoceros_rules::nodes::NodeOrder::of_held(self.policy, &self.weights)
    }
}

/// The queue [`RECOVERY`], which nobody configures: a leaf without limits, open to nobody.
pub fn recovery_queue() -> QueueConfig {
    dynamic_queue(RECOVERY, true, None)
}

/// A queue that is there because an application needs it. Of the template a leaf takes everything, a
/// parent nothing.
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

/// Checks a configuration text. Empty text gives no partitions: the caller then takes [`DEFAULT`].
pub fn parse(text: &str) -> Result<Configuration, ConfigErrors> {
    let mut report = Report::default();
    let (mut partitions, mut shown) = (Vec::new(), Shown::default());
    let mut types = NamedTypes::default();
    if !text.is_empty()
        && let Ok(root) = yaml::load(text, &mut report)
    {
        let document = document::read(root.as_deref(), &mut report);
        // Two passes found these; their reader goes from top to bottom.
        report.errors.sort_by_key(|error| (error.line, error.column));
        (partitions, shown.partitions) =
            validate::partitions(document, &mut types, &mut report).into_iter().unzip();
    }
    if !report.errors.is_empty() {
        return Err(ConfigErrors { told: report.errors, n_more: report.n_more_errors });
    }
    let checksum = checksum::of(text);
    shown.checksum.clone_from(&checksum);
    let warnings = types.warnings(&report.into_warnings(), &KnownTypes::new());
    Ok(Configuration { partitions, checksum, warnings, types, shown })
}
