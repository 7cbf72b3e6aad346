//! Checks the placement rules of a partition.
//!
//! [`crate::placement`] knows the meaning of rules and is called here, so that rules that validate
//! also load. This module adds the location in the text to each error.

use super::Located;
use super::draft::Draft;
use crate::document::{Field, Filter, Rule};
use crate::error::{Location, Report};
use crate::placement::{self, Expressions, FixedPath, PlacementRules, RuleError};
use crate::shown::{ShownFilter, ShownRule};
use crate::{FilterConfig, RuleConfig};
use monoceros_rules::queues::QueueConfig;
use monoceros_rules::values::names;

/// Checks the rules by themselves and, if the queues could be read, against those below `root`.
/// Returns the rules as written, and compiled if they have no error.
pub(super) fn check(
    rules: &[Rule],
    root: Option<&QueueConfig>,
    expressions: &mut Expressions,
    report: &mut Report,
) -> (Vec<RuleConfig>, PlacementRules) {
    let configs: Vec<RuleConfig> = rules.iter().map(config).collect();
    let mut errors: Vec<RuleError> =
        rules.iter().enumerate().flat_map(|(number, rule)| bad_filters(number, rule)).collect();
    let built = match root {
        Some(root) => placement::check(&configs, root, expressions),
        None => PlacementRules::build_within(&configs, expressions),
    };
    let built = built.unwrap_or_else(|found| {
        errors.extend(found);
        PlacementRules::default()
    });
    errors.sort_by_key(RuleError::rank);
    for RuleError { code, rule, depth, message } in errors {
        let chain = std::iter::successors(rules.get(rule), |rule| rule.parent.as_deref());
        if let Some(rule) = chain.take(depth + 1).last()
            && let Some(place) = rule.place_of(code)
        {
            report.error(code, place, message);
        }
    }
    for rule in rules {
        warn_of_filters(rule, report);
    }
    (configs.into_iter().map(in_lower_case).collect(), built)
}

/// Warns about rules that other schedulers of such configurations reject, and about rules that are
/// never reached.
pub(super) fn warn_of_paths(
    rules: &[Rule],
    configs: &[RuleConfig],
    root: &Draft,
    report: &mut Report,
) {
    let mut takes_all = None;
    for (number, (rule, config)) in (1..).zip(rules.iter().zip(configs)) {
        if let Some(taker) = takes_all {
            let message =
                format!("rule {number} is never asked: rule {taker} takes every application");
            report.warn(&rule.place, message);
        }
        let Some(FixedPath { path, has_more, chain }) = placement::fixed_path(config) else {
            continue;
        };
        let Some(found) = Found::at(&path, root) else { continue };
        let queue = found.queue;
        if has_more && !queue.is_root && !queue.raw.parent && !queue.children.is_empty() {
            let message = format!(
                "rule {number} (`{chain}`) goes on below `{path}`, which is a parent by the queues in it \
                 alone; YuniKorn refuses such a rule: write `parent: true` on the queue"
            );
            report.warn(rule.value.place_or(&rule.place), message);
        }
        let is_for_all = std::iter::successors(Some(config), |rule| rule.parent.as_deref())
            .all(|rule| rule.filter == FilterConfig::default());
        if !has_more && is_for_all && queue.is_leaf() && found.is_open {
            takes_all.get_or_insert(number);
        }
    }
}

/// A queue found by its path.
struct Found<'d> {
    queue: &'d Draft,
    /// Whether everybody may submit to the queue.
    is_open: bool,
}

impl<'d> Found<'d> {
    fn at(path: &str, root: &'d Draft) -> Option<Self> {
        let opens =
            |queue: &Draft| queue.submit_acl.is_everybody() || queue.admin_acl.is_everybody();
        let mut found = Self { queue: root, is_open: opens(root) };
        for name in path.split('.').skip(1) {
            let below = &found.queue.children;
            let queue = below.iter().find(|queue| queue.name.eq_ignore_ascii_case(name))?;
            found = Self { queue, is_open: found.is_open || opens(queue) };
        }
        Some(found)
    }
}

/// Converts the name of a rule to lower case, for look-ups. Earlier steps keep the author's
/// spelling, because errors repeat it.
fn in_lower_case(mut rule: RuleConfig) -> RuleConfig {
    rule.name.make_ascii_lowercase();
    rule.parent = rule.parent.map(|parent| Box::new(in_lower_case(*parent)));
    rule
}

/// Reports the filters of an unknown type along the chain of a rule.
fn bad_filters(number: usize, rule: &Rule) -> Vec<RuleError> {
    let chain = std::iter::successors(Some(rule), |rule| rule.parent.as_deref());
    let mut errors = Vec::new();
    for (depth, rule) in chain.enumerate() {
        let kind = rule.filter.kind.text();
        if !["", "allow", "deny"].iter().any(|known| known.eq_ignore_ascii_case(kind)) {
            let message = format!(
                "rule {}: `{kind}` is not the type of a filter; write `allow` or `deny`",
                number + 1
            );
            errors.push(RuleError { code: "E_FILTER_TYPE", rule: number, depth, message });
        }
    }
    errors
}

/// Warns about filters along the chain of a rule that admit others than their author probably
/// means.
fn warn_of_filters(rule: &Rule, report: &mut Report) {
    let filter = &rule.filter;
    let (users, groups) = (filter.users.listed(), filter.groups.listed());
    if filter.kind.text().eq_ignore_ascii_case("deny") && users.is_empty() && groups.is_empty() {
        let message = "the filter denies everybody, so that its rule is never used; list `users` or \
                       `groups`";
        report.warn(filter.kind.place_or(&rule.place), message);
    }
    for (word, names, is_name) in
        [("user", users, names::is_user as fn(&str) -> bool), ("group", groups, names::is_group)]
    {
        // A single entry that is neither a name nor an expression is an error, reported elsewhere.
        let left_out = names.iter().filter(|name| !is_name(&name.value));
        for Located { value, place } in left_out.filter(|_| names.len() > 1) {
            let message = format!(
                "`{value}` is not the name of a {word} and is left out of the filter; a regular \
                 expression has to be the only entry"
            );
            report.warn(place, message);
        }
    }
    if let Some(parent) = &rule.parent {
        warn_of_filters(parent, report);
    }
}

impl Rule {
    /// Returns the location of the setting to correct; `None` if the setting could not be read.
    fn place_of(&self, code: &str) -> Option<&Location> {
        let filter = self.filter.place.as_ref().unwrap_or(&self.place);
        match code {
            "E_FILTER_TYPE" => Some(self.filter.kind.place_or(filter)),
            "E_FILTER_USER" => Some(self.filter.users.place_or(filter)),
            "E_FILTER_GROUP" => Some(self.filter.groups.place_or(filter)),
            "E_RULE_NAME" | "E_RULE_UNKNOWN" | "E_RULE_RECOVERY" => {
                (!self.name.is_bad()).then(|| self.name.place_or(&self.place))
            }
            // The other errors, bad paths included, are about the value.
            _ => (!self.value.is_bad()).then(|| self.value.place_or(&self.place)),
        }
    }
}

fn config(rule: &Rule) -> RuleConfig {
    RuleConfig {
        parent: rule.parent.as_ref().map(|parent| Box::new(config(parent))),
        name: rule.name.text().to_owned(),
        create: rule.create,
        filter: filter(&rule.filter),
        value: rule.value.text().to_owned(),
    }
}

fn filter(filter: &Filter) -> FilterConfig {
    FilterConfig {
        denies: filter.kind.text().eq_ignore_ascii_case("deny"),
        users: names(&filter.users),
        groups: names(&filter.groups),
    }
}

fn names(names: &Field<Vec<Located<String>>>) -> Vec<String> {
    names.listed().iter().map(|name| name.value.clone()).collect()
}

/// A rule as written.
pub(super) fn shown(rule: &Rule) -> ShownRule {
    ShownRule {
        name: rule.name.text().to_owned(),
        create: rule.create,
        filter: ShownFilter {
            r#type: rule.filter.kind.text().to_owned(),
            users: names(&rule.filter.users),
            groups: names(&rule.filter.groups),
        },
        parent: rule.parent.as_ref().map(|parent| Box::new(shown(parent))),
        value: rule.value.text().to_owned(),
    }
}
