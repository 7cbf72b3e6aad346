//! Compares the limits of users and groups on a queue.

use std::collections::{BTreeMap, BTreeSet};

use super::Weight;
use super::amounts::{Absent, Allowance, Clauses, enumerate, listed};
use super::usage::{PartitionUsage, Used};
use monoceros_rules::queues::{LimitConfig, QueueConfig};
use monoceros_rules::values::resources::Limits;

/// Name of the limit for users who are not named.
const ANYBODY: &str = "*";

/// Whether a limit is for a user or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    User,
    Group,
}

impl Kind {
    fn named(self, name: &str) -> String {
        match (self, name) {
            (Self::User, ANYBODY) => "any other user".to_owned(),
            (Self::Group, ANYBODY) => "all other users together".to_owned(),
            (Self::User, name) => format!("user {name}"),
            (Self::Group, name) => format!("group {name}"),
        }
    }
}

type Table<'a> = BTreeMap<(Kind, &'a str), &'a LimitConfig>;

fn table(limits: &[LimitConfig]) -> Table<'_> {
    let mut table = Table::new();
    for limit in limits {
        for user in &limit.users {
            table.entry((Kind::User, user)).or_insert(limit);
        }
        for group in &limit.groups {
            table.entry((Kind::Group, group)).or_insert(limit);
        }
    }
    table
}

/// Returns the limit that applies to a user or group. A user who is not named has the limit of `*`.
/// A group that is named on another queue but not here has no limit here, since the wildcard limits
/// the sum of all groups that are named nowhere.
fn counts<'a>(table: &Table<'a>, kind: Kind, name: &str) -> Option<&'a LimitConfig> {
    let named = table.get(&(kind, name));
    match kind {
        Kind::User => named.or_else(|| table.get(&(kind, ANYBODY))),
        Kind::Group => named,
    }
    .copied()
}

fn allowance(limit: Option<&LimitConfig>) -> Allowance<'_> {
    limit.map_or_else(Allowance::default, |limit| Allowance {
        max: limit.max_resources.as_ref(),
        applications: limit.max_applications,
    })
}

/// Describes how the limits of a queue differ, and lists the users and groups that exceed a limit
/// which did not apply before.
pub(super) fn compare(
    old: &QueueConfig,
    new: &QueueConfig,
    usage: Option<&PartitionUsage>,
    clauses: &mut Clauses,
) {
    if old.limits == new.limits {
        return;
    }
    let (was, is) = (table(&old.limits), table(&new.limits));
    let whose: BTreeSet<_> = was.keys().chain(is.keys()).copied().collect();
    let mut is_said = false;
    for (kind, name) in whose {
        let who = format!("the limit of {}", kind.named(name));
        let (before, after) = (counts(&was, kind, name), counts(&is, kind, name));
        let mut own = Clauses::default();
        let amounts = |limit: Option<&LimitConfig>| {
            limit.and_then(|limit| limit.max_resources.as_ref()).map(Limits::sorted)
        };
        let (old_max, new_max) = (amounts(before), amounts(after));
        let resources = format!("{who} on resources");
        own.compare(
            &resources,
            &old_max.unwrap_or_default(),
            &new_max.unwrap_or_default(),
            Absent::Unlimited,
        );
        let count = |limit: Option<&LimitConfig>| limit.map_or(0, |limit| limit.max_applications);
        own.compare_count(&format!("{who} on applications"), count(before), count(after));
        is_said |= !own.is_empty();
        clauses.append(own);
    }
    if let Some(usage) = usage {
        add_users_above(&old.limits, new, usage, clauses);
    }
    if !is_said {
        let text = "limits are written in another order, or with other descriptions";
        clauses.add(Weight::Changed, text);
    }
}

/// Lists the users and groups that exceed a limit of a queue which did not apply before.
pub(super) fn add_users_above(
    old: &[LimitConfig],
    new: &QueueConfig,
    usage: &PartitionUsage,
    clauses: &mut Clauses,
) {
    let (was, is) = (table(old), table(&new.limits));
    for (kind, used) in [(Kind::User, &usage.users), (Kind::Group, &usage.groups)] {
        let Some(used) = used.get(&*new.path) else { continue };
        let above = newly_above(kind, &was, &is, used);
        if !above.is_empty() {
            let who = enumerate(&above, 4);
            let text = format!("limits that bind now, with nothing new until less is used: {who}");
            clauses.add(Weight::Over, text);
        }
    }
}

fn newly_above(
    kind: Kind,
    was: &Table<'_>,
    is: &Table<'_>,
    used: &BTreeMap<String, Used>,
) -> Vec<String> {
    let mut above = Vec::new();
    for (name, used) in used {
        let before = allowance(counts(was, kind, name));
        let exceeded = allowance(counts(is, kind, name)).newly_exceeded(&before, used);
        if !exceeded.is_empty() {
            above.push(format!("{} ({})", kind.named(name), listed(&exceeded)));
        }
    }
    above
}
