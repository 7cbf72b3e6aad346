//! Filter of a placement rule: the users and groups that the rule is for.
//!
//! A list of one entry with a special character is a regular expression; any other entry is a name.
//! Invalid names are dropped. A list that contained only invalid names does not count as empty: it
//! matches nobody.

use std::collections::BTreeSet;

use super::expressions::{Expression, Expressions};
use crate::FilterConfig;
use monoceros_rules::values::names;

/// Characters that make a single entry a regular expression. `]` and a dot do not count: names
/// contain dots.
const SPECIAL: &str = "^$*+?()[{}|";

/// The users and groups that a rule is for, or excludes, as listed in its `filter`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Filter {
    pub(super) denies: bool,
    /// Whether nothing was listed.
    pub(super) is_empty: bool,
    pub(super) users: Names,
    pub(super) groups: Names,
}

/// The users or the groups of a filter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Names {
    Listed(BTreeSet<String>),
    /// An expression that is searched anywhere in the name.
    Matching(Expression),
}

impl Filter {
    /// Builds the filter, or calls `error` with a code and a message for each fault and returns
    /// `None`.
    pub(super) fn build(
        config: &FilterConfig,
        expressions: &mut Expressions,
        mut error: impl FnMut(&'static str, String),
    ) -> Option<Self> {
        let users = Names::build(&config.users, names::is_user, expressions);
        let groups = Names::build(&config.groups, names::is_group, expressions);
        if let Err(why) = &users {
            error("E_FILTER_USER", format!("users of the filter: {why}"));
        }
        if let Err(why) = &groups {
            error("E_FILTER_GROUP", format!("groups of the filter: {why}"));
        }
        let is_empty = config.users.is_empty() && config.groups.is_empty();
        Some(Self { denies: config.denies, is_empty, users: users.ok()?, groups: groups.ok()? })
    }

    /// Whether the rule is for this user.
    pub(super) fn passes(&self, user: &str, groups: &[String]) -> bool {
        let is_meant = self.is_empty
            || self.users.has(user)
            || groups.iter().any(|group| self.groups.has(group));
        is_meant != self.denies
    }
}

impl Names {
    fn build(
        entries: &[String],
        is_name: fn(&str) -> bool,
        expressions: &mut Expressions,
    ) -> Result<Self, String> {
        if let [only] = entries {
            if only.contains(|c| SPECIAL.contains(c)) {
                return expressions.build(only).map(Self::Matching);
            }
            if !is_name(only) {
                return Err(format!(
                    "`{only}` is neither a name nor a regular expression (one of `{SPECIAL}` makes \
                     it one)"
                ));
            }
        }
        let names = entries.iter().filter(|entry| is_name(entry));
        Ok(Self::Listed(names.cloned().collect()))
    }

    fn has(&self, name: &str) -> bool {
        match self {
            Self::Listed(names) => names.contains(name),
            Self::Matching(expression) => expression.is_in(name),
        }
    }
}
