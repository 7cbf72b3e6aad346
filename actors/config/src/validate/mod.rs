//! Checks the rules of `docs/configuration.md` and turns the document into the configuration.
//!
//! The checks of a partition run in a fixed order, so that the first error is the same that other
//! schedulers of such configurations report. A check whose input already failed is skipped: a
//! setting that cannot be read counts as absent, so that errors that follow from it stay hidden
//! until it is corrected. The contents of child templates are checked last.

mod draft;
mod effects;
mod inherited;
mod limits;
mod resources;
mod rules;
mod templates;
mod types;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use self::draft::Draft;
use super::document::{Document, Field, Limit, Located, Partition, Queue};
use super::error::{Location, Report};
use super::placement::Expressions;
use super::settings;
use super::shown::{ShownNodeOrder, ShownPartition, ShownPreemption, ShownResolver};
use super::{NamedTypes, NodeOrder, NodeSortPolicy, PartitionConfig, PreemptionFlags, closest};
use monoceros_rules::values::resources::Limits;

pub(super) const DEFAULT_PARTITION: &str = "default";

/// Known resolvers. The empty one gives each user the group of the same name. So does `test`, which
/// is for tests only.
const RESOLVERS: [&str; 4] = ["", "os", "ldap", "test"];

/// Checks all partitions. The result may be used only if no error was reported.
pub(super) fn partitions(
    document: Document,
    types: &mut NamedTypes,
    report: &mut Report,
) -> Vec<(PartitionConfig, ShownPartition)> {
    let (partitions, place) = match document.partitions {
        Field::Bad => return Vec::new(),
        Field::Absent => (Vec::new(), Location::top()),
        Field::Given(Located { value, place }) => (value, place),
    };
    if partitions.is_empty() {
        report.error(
            "E_NO_PARTITIONS",
            &place,
            "there is no partition: list one under `partitions`",
        );
    }
    let mut first_lines = HashMap::new();
    let mut expressions = Expressions::default();
    let check = |raw| partition(raw, &mut first_lines, &mut expressions, types, report);
    partitions.into_iter().map(check).collect()
}

/// Runs the checks of one partition in their order.
fn partition(
    mut raw: Partition,
    first_lines: &mut HashMap<String, usize>,
    expressions: &mut Expressions,
    types: &mut NamedTypes,
    report: &mut Report,
) -> (PartitionConfig, ShownPartition) {
    let name = partition_name(&raw, first_lines, report);
    let queues = match std::mem::take(&mut raw.queues) {
        Field::Given(queues) => Some(queues.value),
        Field::Bad => None,
        Field::Absent => {
            let message = "the partition has no `queues`; an empty list, `queues: []`, would do";
            report.error("E_NO_QUEUES", &raw.place, message);
            None
        }
    };
    let is_known = queues.is_some();
    let mut root = Draft::root_of(queues.unwrap_or_default(), report);
    if is_known {
        root.take_partition_limits(&raw.limits, report);
        root.check_structure(0, report);
        root.check_resources(&Limits::unlimited(), report);
    }
    let mut in_templates = report.apart();
    root.read_templates(&mut in_templates);
    root.fit_properties(report);
    let built = root.build(None);
    let (placement, rules) =
        rules::check(&raw.placement, is_known.then_some(&built), expressions, report);
    let node_order = node_order(&raw, report);
    if is_known {
        root.check_max_applications(report);
        inherited::check(&root, report);
        rules::warn_of_paths(&raw.placement, &placement, &root, report);
        effects::check(&root, &raw, &placement, report);
    }
    report.append(in_templates);
    root.check_properties(report);
    types::note(&name, &raw, &root, types);
    let config = PartitionConfig {
        name: Arc::from(&*name),
        placement,
        rules: Arc::new(rules),
        preemption: preemption(&raw),
        resolver: resolver(&raw, report),
        node_order,
        root: built,
        names: Arc::clone(&report.names),
    };
    let shown = shown(name, &raw, &root);
    (config, shown)
}

fn partition_name(
    raw: &Partition,
    first_lines: &mut HashMap<String, usize>,
    report: &mut Report,
) -> String {
    let (name, place) = match &raw.name {
        Field::Bad => return String::new(),
        Field::Absent => ("", &raw.place),
        Field::Given(Located { value, place }) => (&**value, place),
    };
    if name.contains(['[', ']']) {
        let message = format!("the partition name `{name}` must not contain `[` or `]`");
        report.error("E_PARTITION_IDENT", place, message);
    }
    let name = if name.is_empty() || name.eq_ignore_ascii_case(DEFAULT_PARTITION) {
        DEFAULT_PARTITION
    } else {
        name
    };
    if let Some(line) = first_lines.get(&name.to_lowercase()) {
        let message = format!(
            "there already is a partition `{name}`, on line {line}; case does not count, and no \
             name means `{DEFAULT_PARTITION}`"
        );
        report.error("E_PARTITION_DUP", place, message);
    } else {
        first_lines.insert(name.to_lowercase(), place.line);
    }
    name.to_owned()
}

fn node_order(raw: &Partition, report: &mut Report) -> NodeOrder {
    let policy = match &raw.node_order_policy {
        Field::Absent | Field::Bad => NodeSortPolicy::default(),
        Field::Given(Located { value, place }) => match &**value {
            "" | "fair" => NodeSortPolicy::Fair,
            "binpacking" => NodeSortPolicy::BinPacking,
            unknown => {
                let message = format!(
                    "`{unknown}` is not a node sort policy; write `fair` or `binpacking`, in lower \
                     case"
                );
                report.error("E_NODESORT_POLICY", place, message);
                NodeSortPolicy::default()
            }
        },
    };
    let mut by_name = BTreeMap::new();
    for (name, Located { value, place }) in &raw.node_order_weights {
        if *value < 0.0 {
            let message = format!("the weight of `{name}` is {value}; it has to be 0 or more");
            report.error("E_NODESORT_WEIGHT", place, message);
        }
        if let Err(error) = report.names.hold(name) {
            report.error("E_CONF_PARSE", place, error.to_string());
        }
        by_name.insert(name.clone(), *value);
    }
    if by_name.is_empty() {
        by_name = BTreeMap::from([("memory".to_owned(), 1.0), ("vcore".to_owned(), 1.0)]);
    }
    NodeOrder { policy, weights: by_name.into_iter().collect() }
}

fn preemption(raw: &Partition) -> PreemptionFlags {
    let default = PreemptionFlags::default();
    PreemptionFlags {
        enabled: raw.preemption.value().copied().unwrap_or(default.enabled),
        quota: raw.quota_preemption.value().copied().unwrap_or(default.quota),
    }
}

fn resolver(raw: &Partition, report: &mut Report) -> String {
    if let Field::Given(Located { value, place }) = &raw.resolver
        && !RESOLVERS.contains(&&**value)
    {
        let instead = match closest(value, ["os", "ldap"].into_iter()) {
            Some(close) => format!("did you mean `{close}`?"),
            None => "write `os` or `ldap`, or leave it out".to_owned(),
        };
        let message = format!(
            "`{value}` is not a user group resolver, so that each user is in one group, of the \
             same name; {instead}"
        );
        report.warn(place, message);
    }
    raw.resolver.text().to_owned()
}

fn shown(name: String, raw: &Partition, root: &Draft) -> ShownPartition {
    ShownPartition {
        name,
        queues: vec![root.shown()],
        placement_rules: raw.placement.iter().map(rules::shown).collect(),
        limits: raw.limits.listed().iter().map(Limit::shown).collect(),
        preemption: ShownPreemption {
            enabled: raw.preemption.value().copied(),
            quota_preemption_enabled: raw.quota_preemption.value().copied(),
        },
        node_sort_policy: ShownNodeOrder {
            r#type: raw.node_order_policy.text().to_owned(),
            resource_weights: raw
                .node_order_weights
                .iter()
                .map(|(name, weight)| (name.clone(), weight.value))
                .collect(),
        },
        user_group_resolver: ShownResolver { r#type: raw.resolver.text().to_owned() },
    }
}
