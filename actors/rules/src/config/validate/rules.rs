//! The placement rules of a partition, as far as their text goes (6.1, 6.5, 6.9).

use super::Located;
use crate::config::document::{Field, Filter, Rule};
use crate::config::error::Report;
use crate::config::shown::{ShownFilter, ShownRule};
use crate::config::{FilterConfig, QueueConfig, RuleConfig};

/// Checks the rules against themselves and the queues below `root`, where those could be read.
pub(super) fn check(
    rules: &[Rule],
    root: Option<&QueueConfig>,
    report: &mut Report,
) -> Vec<RuleConfig> {
    let _ = root;
    rules.iter().map(|rule| config(rule, report)).collect()
}

fn config(rule: &Rule, report: &mut Report) -> RuleConfig {
    RuleConfig {
        parent: rule.parent.as_ref().map(|parent| Box::new(config(parent, report))),
        name: rule.name.text().to_lowercase(),
        create: rule.create,
        filter: filter(&rule.filter, report),
        value: rule.value.text().to_owned(),
    }
}

fn filter(filter: &Filter, report: &mut Report) -> FilterConfig {
    let kind = filter.kind.text();
    let denies = kind.eq_ignore_ascii_case("deny");
    if let Field::Given(Located { place, .. }) = &filter.kind
        && !denies
        && !kind.is_empty()
        && !kind.eq_ignore_ascii_case("allow")
    {
        let message = format!("`{kind}` is not the type of a filter; write `allow` or `deny`");
        report.error("E_FILTER_TYPE", place, message);
    }
    FilterConfig { denies, users: names(&filter.users), groups: names(&filter.groups) }
}

fn names(names: &Field<Vec<Located<String>>>) -> Vec<String> {
    names.listed().iter().map(|name| name.value.clone()).collect()
}

/// A rule as it was written.
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
