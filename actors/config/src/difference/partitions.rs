//! Compares partitions: which are added and removed, and the settings that apply to all queues of a
//! partition.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::amounts::{Clauses, listed, shortened};
use super::queues::{self, count_queues};
use super::usage::{PartitionUsage, Usage};
use super::{Line, Weight};
use crate::{NodeOrder, PartitionConfig, RuleConfig};
use monoceros_rules::nodes::NodeSortPolicy;

/// Longest description of the placement rules in characters, for the new and for the old ones each.
const LONGEST_RULES: usize = 150;

pub(super) fn between<P: Borrow<PartitionConfig>>(
    old: &[P],
    new: &[P],
    usage: Option<&Usage>,
) -> Vec<Line> {
    let by_name = |partitions: &[P]| -> BTreeMap<String, usize> {
        let names = partitions.iter().enumerate();
        names.map(|(at, partition)| (partition.borrow().name.to_string(), at)).collect()
    };
    let (was, is) = (by_name(old), by_name(new));
    let is_alone = was.keys().chain(is.keys()).all(|name| name == "default");
    let mut lines = Vec::new();
    let names = was.keys().chain(is.keys().filter(|name| !was.contains_key(*name)));
    let mut names: Vec<&String> = names.collect();
    names.sort_unstable();
    for name in names {
        let place = format!("partition {name}");
        let usage = usage.and_then(|usage| usage.partitions.get(name));
        match (was.get(name), is.get(name)) {
            (Some(&was), Some(&is)) => {
                let prefix = if is_alone { String::new() } else { format!("{place}, ") };
                let (old, new) = (old[was].borrow(), new[is].borrow());
                let mut clauses = Clauses::default();
                compare(old, new, &mut clauses);
                lines.extend(clauses.into_lines(&place));
                queues::between(&prefix, &old.root, &new.root, usage, &mut lines);
                lines.extend(left_out(&place, usage));
            }
            (Some(_), None) => {
                let text = format!(
                    "{place}: no longer configured: its applications fail and its nodes go{}",
                    in_use(usage)
                );
                lines.push(Line::new(Weight::Lost, text));
            }
            (None, Some(&is)) => {
                let count = count_queues(&new[is].borrow().root);
                let queues = if count == 1 { "queue" } else { "queues" };
                let text = format!("{place}: new, with {count} {queues}");
                lines.push(Line::new(Weight::Added, text));
            }
            (None, None) => {}
        }
    }
    lines
}

fn in_use(usage: Option<&PartitionUsage>) -> String {
    let root = usage.and_then(|usage| usage.queues.get("root"));
    match root.map(|root| root.applications) {
        None | Some(0) => String::new(),
        Some(1) => ", 1 application is there".to_owned(),
        Some(there) => format!(", {there} applications are there"),
    }
}

/// Returns a line if the usage of some queues is unknown, so that silence about them is not taken
/// as "within limits".
fn left_out(place: &str, usage: Option<&PartitionUsage>) -> Option<Line> {
    let count = usage.map_or(0, |usage| usage.left_out);
    let queues = if count == 1 { "queue" } else { "queues" };
    let text = format!("{place}: usage of {count} {queues} was not looked at");
    (count > 0).then_some(Line::new(Weight::Over, text))
}

fn compare(old: &PartitionConfig, new: &PartitionConfig, clauses: &mut Clauses) {
    if old.placement != new.placement {
        let text = format!(
            "applications that come are placed by {}, before by {}",
            shortened(&rules(&new.placement), LONGEST_RULES),
            shortened(&rules(&old.placement), LONGEST_RULES)
        );
        clauses.add(Weight::Changed, text);
    }
    if old.node_order != new.node_order {
        let (is, was) = (node_order(&new.node_order), node_order(&old.node_order));
        clauses.add(Weight::Changed, format!("nodes are ordered by {is}, before by {was}"));
    }
    for (what, old, new) in [
        ("preemption", old.preemption.enabled, new.preemption.enabled),
        ("preemption by quota", old.preemption.quota, new.preemption.quota),
    ] {
        if old != new {
            let state = if new { "on" } else { "off" };
            clauses.add(Weight::Changed, format!("{what} is switched {state}"));
        }
    }
    if old.resolver != new.resolver {
        let text = format!(
            "the user and group resolver `{}` instead of `{}` has no effect before a restart",
            new.resolver, old.resolver
        );
        clauses.add(Weight::Changed, text);
    }
}

fn node_order(order: &NodeOrder) -> String {
    let mut text = match order.policy {
        NodeSortPolicy::Fair => "fair".to_owned(),
        NodeSortPolicy::BinPacking => "binpacking".to_owned(),
    };
    let weights: Vec<_> =
        order.weights.iter().map(|(name, weight)| format!("{name} {weight}")).collect();
    let _ = write!(text, " ({})", listed(&weights));
    text
}

fn rules(rules: &[RuleConfig]) -> String {
    if rules.is_empty() {
        return "the queue they name".to_owned();
    }
    let rules: Vec<_> = rules.iter().map(rule).collect();
    rules.join(", then ")
}

/// Formats a rule, as in `tag namespace (create) below fixed root.teams (users: a, b)`.
fn rule(rule: &RuleConfig) -> String {
    let RuleConfig { name, create, filter, parent, value } = rule;
    let mut text = name.clone();
    if !value.is_empty() {
        let _ = write!(text, " {value}");
    }
    let mut remarks = Vec::new();
    if *create {
        remarks.push("create".to_owned());
    }
    let verb = if filter.denies { "not for" } else { "for" };
    for (what, names) in [("users", &filter.users), ("groups", &filter.groups)] {
        if !names.is_empty() {
            remarks.push(format!("{verb} {what} {}", names.join(" ")));
        }
    }
    if filter.denies && filter.users.is_empty() && filter.groups.is_empty() {
        remarks.push("a filter that denies everybody".to_owned());
    }
    if !remarks.is_empty() {
        let _ = write!(text, " ({})", remarks.join(", "));
    }
    if let Some(parent) = parent {
        let _ = write!(text, " below {}", self::rule(parent));
    }
    text
}
