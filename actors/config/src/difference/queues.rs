//! Compares queues: what each may use, and who may use it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use super::amounts::{Absent, Allowance, Clauses, enumerate, listed, value};
use super::usage::PartitionUsage;
use super::{Line, Weight, limits};
use monoceros_rules::queues::{Acl, QueueConfig, Template};
use monoceros_rules::values::resources::{Limits, Resources};

/// Most names of users, groups or properties in one sentence.
const MOST_NAMES: usize = 6;

/// The ancestors of a queue in both configurations, root first.
#[derive(Default)]
struct Above<'a> {
    old: Vec<&'a QueueConfig>,
    new: Vec<&'a QueueConfig>,
}

/// Describes the differences of a queue and of all queues below it.
pub(super) fn between(
    prefix: &str,
    old: &QueueConfig,
    new: &QueueConfig,
    usage: Option<&PartitionUsage>,
    lines: &mut Vec<Line>,
) {
    walk(prefix, old, new, &mut Above::default(), usage, lines);
}

fn walk<'a>(
    prefix: &str,
    old: &'a QueueConfig,
    new: &'a QueueConfig,
    above: &mut Above<'a>,
    usage: Option<&PartitionUsage>,
    lines: &mut Vec<Line>,
) {
    let mut clauses = Clauses::default();
    compare(old, new, above, usage, &mut clauses);
    lines.extend(clauses.into_lines(&format!("{prefix}{}", new.path)));

    let children = |queue: &'a QueueConfig| -> BTreeMap<&'a str, &'a QueueConfig> {
        queue.children.iter().map(|child| (&*child.name, child)).collect()
    };
    let (was, is) = (children(old), children(new));
    let names: BTreeSet<&str> = was.keys().chain(is.keys()).copied().collect();
    above.old.push(old);
    above.new.push(new);
    for name in names {
        match (was.get(name), is.get(name)) {
            (Some(old), Some(new)) => walk(prefix, old, new, above, usage, lines),
            (Some(gone), None) => lines.push(drained(prefix, gone, usage)),
            (None, Some(added)) => planted(prefix, added, above, usage, lines),
            (None, None) => {}
        }
    }
    above.new.pop();
    above.old.pop();
}

/// Number of queues in the tree, `queue` included.
pub(super) fn count_queues(queue: &QueueConfig) -> usize {
    1 + queue.children.iter().map(count_queues).sum::<usize>()
}

fn with_those_below(queue: &QueueConfig) -> String {
    match count_queues(queue) - 1 {
        0 => String::new(),
        1 => ", with the queue below it".to_owned(),
        count => format!(", with the {count} queues below it"),
    }
}

fn drained(prefix: &str, queue: &QueueConfig, usage: Option<&PartitionUsage>) -> Line {
    let used = usage.and_then(|usage| usage.queues.get(&*queue.path));
    let (below, path) = (with_those_below(queue), &queue.path);
    let text = match used.map(|used| used.applications) {
        None => {
            format!("{prefix}{path}: no longer configured{below}: it drains, and goes once empty")
        }
        Some(0) => format!("{prefix}{path}: no longer configured{below}: no application is in it"),
        Some(1) => format!(
            "{prefix}{path}: no longer configured{below}: it takes no new application, and goes once \
             the one in it has ended"
        ),
        Some(count) => format!(
            "{prefix}{path}: no longer configured{below}: it takes no new application, and goes once \
             the {count} in it have ended"
        ),
    };
    Line::new(Weight::Drained, text)
}

/// Describes a queue that is configured now and was not before. It may exist already, dynamic or
/// draining.
fn planted(
    prefix: &str,
    queue: &QueueConfig,
    above: &Above<'_>,
    usage: Option<&PartitionUsage>,
    lines: &mut Vec<Line>,
) {
    let is_there = usage.is_some_and(|usage| usage.queues.contains_key(&*queue.path));
    let (weight, what) = if is_there {
        (Weight::Changed, "becomes a configured queue")
    } else {
        (Weight::Added, "new")
    };
    let mut text = format!("{prefix}{}: {what}", queue.path);
    text.push_str(&with_those_below(queue));
    let max = queue.max.as_ref().map(Limits::sorted).unwrap_or_default();
    if !max.is_empty() {
        let _ = write!(text, ", max {}", amounts(&max));
    }
    let guaranteed = queue.guaranteed.as_ref().map(Resources::sorted).unwrap_or_default();
    if !guaranteed.is_empty() {
        let _ = write!(text, ", guaranteed {}", amounts(&guaranteed));
    }
    if queue.max_applications > 0 {
        let _ = write!(text, ", maxapplications {}", queue.max_applications);
    }
    lines.push(Line::new(weight, text));
    let template = above.old.iter().rev().find_map(|queue| queue.template.as_deref());
    if let Some(usage) = usage {
        taken_up(prefix, queue, template, usage, lines);
    }
}

/// Lists limits that are newly exceeded in queues which existed before they were configured. Their
/// earlier limits are those of the template. Queues below a queue that did not exist are not
/// visited, since they cannot exist either.
fn taken_up(
    prefix: &str,
    queue: &QueueConfig,
    template: Option<&Template>,
    usage: &PartitionUsage,
    lines: &mut Vec<Line>,
) {
    let Some(used) = usage.queues.get(&*queue.path) else { return };
    // Templates apply to leaves only.
    let before = template.filter(|_| queue.is_leaf).map_or_else(Allowance::default, |template| {
        Allowance { max: template.max.as_ref(), applications: template.max_applications }
    });
    let mut clauses = Clauses::default();
    add_exceeded(&Allowance::of(queue).newly_exceeded(&before, used), &mut clauses);
    limits::add_users_above(&[], queue, usage, &mut clauses);
    lines.extend(clauses.into_lines(&format!("{prefix}{}", queue.path)));
    for child in &queue.children {
        taken_up(prefix, child, template, usage, lines);
    }
}

fn add_exceeded(exceeded: &[String], clauses: &mut Clauses) {
    if !exceeded.is_empty() {
        let exceeded = listed(exceeded);
        let text =
            format!("now below what is used: {exceeded}, nothing new starts until it is less");
        clauses.add(Weight::Over, text);
    }
}

/// Formats amounts, as in `memory 4Gi, vcore 2`.
fn amounts(amounts: &[(Arc<str>, i64)]) -> String {
    let amounts = amounts.iter().map(|(name, value)| {
        format!("{name} {}", monoceros_rules::values::quantity::written(name, *value))
    });
    listed(&amounts.collect::<Vec<_>>())
}

fn compare(
    old: &QueueConfig,
    new: &QueueConfig,
    above: &Above<'_>,
    usage: Option<&PartitionUsage>,
    clauses: &mut Clauses,
) {
    if old.is_leaf != new.is_leaf {
        let text = if new.is_leaf {
            "becomes a leaf, which is refused while an application is below it"
        } else {
            "becomes a parent, which is refused while it has an application"
        };
        clauses.add(Weight::Drained, text);
    }
    quotas(old, new, usage, clauses);
    access("submit", &old.submit_acl, &new.submit_acl, new, above, clauses);
    access("administer", &old.admin_acl, &new.admin_acl, new, above, clauses);
    limits::compare(old, new, usage, clauses);
    properties(old, new, above, clauses);
    template(old.template.as_deref(), new.template.as_deref(), clauses);
}

fn quotas(
    old: &QueueConfig,
    new: &QueueConfig,
    usage: Option<&PartitionUsage>,
    clauses: &mut Clauses,
) {
    let max = |queue: &QueueConfig| queue.max.as_ref().map(Limits::sorted).unwrap_or_default();
    let guaranteed =
        |queue: &QueueConfig| queue.guaranteed.as_ref().map(Resources::sorted).unwrap_or_default();
    let mut own = Clauses::default();
    own.compare("max", &max(old), &max(new), Absent::Unlimited);
    own.compare_count("maxapplications", old.max_applications, new.max_applications);
    let (before, after) = (Allowance::of(old), Allowance::of(new));
    let used = usage.and_then(|usage| usage.queues.get(&*new.path));
    let exceeded = used.map(|used| after.newly_exceeded(&before, used)).unwrap_or_default();
    if exceeded.is_empty() {
        clauses.append(own);
    } else {
        // One line holds the lowered limits and the usage above them.
        clauses.append(own.all_of(Weight::Over));
        add_exceeded(&exceeded, clauses);
    }
    clauses.compare("guaranteed", &guaranteed(old), &guaranteed(new), Absent::Nothing);
}

/// Describes users and groups that are on one list and not on the other.
fn access(
    what: &str,
    old: &Acl,
    new: &Acl,
    queue: &QueueConfig,
    above: &Above<'_>,
    clauses: &mut Clauses,
) {
    if old == new {
        return;
    }
    match (old.is_everybody(), new.is_everybody()) {
        (false, true) => return clauses.add(Weight::Loosened, format!("everybody may {what} now")),
        (true, false) => {
            let named: Vec<String> = people(new).into_iter().collect();
            let still = if named.is_empty() {
                "nobody by this queue's own list".to_owned()
            } else {
                format!("only {}", enumerate(&named, MOST_NAMES))
            };
            let text = format!("not everybody may {what} any more: {still}");
            return add_lost_permission(&text, opened_above(what, queue, above), clauses);
        }
        (true, true) | (false, false) => {}
    }
    let (was, is) = (people(old), people(new));
    let come: Vec<String> = is.difference(&was).cloned().collect();
    let gone: Vec<String> = was.difference(&is).cloned().collect();
    if !come.is_empty() {
        let text = format!("{} may {what} now", enumerate(&come, MOST_NAMES));
        clauses.add(Weight::Loosened, text);
    }
    if !gone.is_empty() {
        let text = format!("{} may no longer {what}", enumerate(&gone, MOST_NAMES));
        add_lost_permission(&text, opened_above(what, queue, above), clauses);
    }
}

/// Describes the loss of a permission. The loss has no effect if a queue grants the permission to
/// everybody.
fn add_lost_permission(text: &str, still_by: Option<&str>, clauses: &mut Clauses) {
    match still_by {
        Some(path) => {
            clauses.add(Weight::Changed, format!("{text}, but `{path}` lets everybody"));
        }
        None => clauses.add(Weight::Tightened, format!("{text}, unless a queue above allows it")),
    }
}

/// Returns the path of the queue, here or above, that grants access to everybody.
fn opened_above<'a>(what: &str, queue: &'a QueueConfig, above: &Above<'a>) -> Option<&'a str> {
    let submits = what == "submit";
    let opens = |queue: &&QueueConfig| {
        queue.admin_acl.is_everybody() || (submits && queue.submit_acl.is_everybody())
    };
    let mut chain = above.new.iter().copied().chain([queue]);
    chain.find(opens).map(|queue| &*queue.path)
}

fn people(acl: &Acl) -> BTreeSet<String> {
    let users = acl.users().map(str::to_owned);
    let groups = acl.groups().map(|group| format!("group {group}"));
    users.chain(groups).collect()
}

/// Describes the differences of properties that are not inherited.
fn properties(old: &QueueConfig, new: &QueueConfig, above: &Above<'_>, clauses: &mut Clauses) {
    let parents = above.old.last().zip(above.new.last());
    let is_inherited = |key: &str| {
        parents.is_some_and(|(old_parent, new_parent)| {
            old_parent.properties.get(key) != new_parent.properties.get(key)
                && old_parent.properties.get(key) == old.properties.get(key)
                && new_parent.properties.get(key) == new.properties.get(key)
        })
    };
    let changed = changed_texts(&old.properties, &new.properties, is_inherited);
    if !changed.is_empty() {
        clauses.add(Weight::Changed, format!("properties: {}", enumerate(&changed, MOST_NAMES)));
    }
}

fn changed_texts(
    old: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
    passes: impl Fn(&str) -> bool,
) -> Vec<String> {
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut changed = Vec::new();
    for key in keys {
        let told = match (old.get(key), new.get(key)) {
            (old, new) if old == new || passes(key) => continue,
            (Some(old), Some(new)) => {
                format!("{} from `{}` to `{}`", value(key), value(old), value(new))
            }
            (None, Some(new)) => format!("{} is `{}`", value(key), value(new)),
            (Some(old), None) => format!("{} is gone (was `{}`)", value(key), value(old)),
            (None, None) => continue,
        };
        changed.push(told);
    }
    changed
}

fn template(old: Option<&Template>, new: Option<&Template>, clauses: &mut Clauses) {
    if old == new {
        return;
    }
    let none = Template::default();
    let mut own = Clauses::default();
    match (old, new) {
        (None, Some(_)) => own.add(Weight::Changed, "new"),
        (Some(_), None) => own.add(Weight::Changed, "gone, that of a queue above counts"),
        _ => {}
    }
    let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
    let max = |template: &Template| template.max.as_ref().map(Limits::sorted).unwrap_or_default();
    let guaranteed = |template: &Template| {
        template.guaranteed.as_ref().map(Resources::sorted).unwrap_or_default()
    };
    own.compare("max", &max(old), &max(new), Absent::Unlimited);
    own.compare("guaranteed", &guaranteed(old), &guaranteed(new), Absent::Nothing);
    own.compare_count("maxapplications", old.max_applications, new.max_applications);
    let changed = changed_texts(&old.properties, &new.properties, |_| false);
    if !changed.is_empty() {
        own.add(Weight::Changed, format!("properties: {}", enumerate(&changed, MOST_NAMES)));
    }
    clauses.add(Weight::Changed, format!("template for dynamic queues to come: {}", own.joined()));
}
