//! Placement rules as shown over REST and in state dumps.

use std::collections::BTreeMap;

use serde::Serialize;

use super::filter::{Filter, Names};
use super::rule::{Rule, Source};
use monoceros_rules::values::names::RECOVERY;

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownRule {
    /// `provided`, `user`, `fixed`, `tag` or `recovery`.
    pub name: &'static str,
    /// Parameters of the rule, as text.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<&'static str, String>,
    /// Absent if no user and no group is listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<ShownFilter>,
    /// Rule that yields the parent queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_rule: Option<Box<ShownRule>>,
}

/// Users and groups that a rule is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownFilter {
    /// `allow` or `deny`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Names of users.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_list: Vec<String>,
    /// Names of groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub group_list: Vec<String>,
    /// Regular expression for users.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user_exp: String,
    /// Regular expression for groups.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group_exp: String,
}

impl ShownRule {
    pub(super) fn of(rule: &Rule) -> Self {
        let mut parameters = BTreeMap::from([("create", rule.create.to_string())]);
        match &rule.source {
            Source::Provided | Source::User => {}
            Source::Fixed { queue, qualified } => {
                parameters.insert("queue", queue.clone());
                parameters.insert("qualified", qualified.to_string());
            }
            Source::Tag(name) => {
                parameters.insert("tagName", name.clone());
            }
        }
        Self {
            name: rule.name(),
            parameters,
            filter: (!rule.filter.is_empty).then(|| ShownFilter::of(&rule.filter)),
            parent_rule: rule.parent.as_deref().map(|parent| Box::new(Self::of(parent))),
        }
    }

    pub(super) fn recovery() -> Self {
        Self {
            name: "recovery",
            parameters: BTreeMap::from([("queue", RECOVERY.to_owned())]),
            filter: None,
            parent_rule: None,
        }
    }
}

impl ShownFilter {
    fn of(filter: &Filter) -> Self {
        let (user_list, user_exp) = list_or_expression(&filter.users);
        let (group_list, group_exp) = list_or_expression(&filter.groups);
        let kind = if filter.denies { "deny" } else { "allow" };
        Self { kind, user_list, group_list, user_exp, group_exp }
    }
}

fn list_or_expression(names: &Names) -> (Vec<String>, String) {
    match names {
        Names::Listed(names) => (names.iter().cloned().collect(), String::new()),
        Names::Matching(expression) => (Vec::new(), expression.text.clone()),
    }
}
