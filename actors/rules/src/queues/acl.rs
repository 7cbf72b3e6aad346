//! Access lists: who may submit to a queue or administer it.
//!
//! An access list is `*`, or users and groups, each separated by commas, with one space between the
//! two: `alice,bob ops`. It can only grant: a queue below cannot revoke access that a queue above
//! grants. There is one parser, splitting on single spaces, so that a list which validates also
//! loads.
//!
//! ```
//! use monoceros_rules::queues::Acl;
//! let acl = Acl::parse("alice ops,dev").unwrap();
//! assert!(acl.allows("alice", &["staff"]));
//! assert!(acl.allows("bob", &["dev"]));
//! assert!(!acl.allows("bob", &["staff"]));
//! ```

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::values::names::{is_group_of_acl, is_user_of_acl};

/// The users and groups that have access; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acl {
    everybody: bool,
    users: BTreeSet<String>,
    groups: BTreeSet<String>,
}

/// Why a text is not an access list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the access list `{0}` has more than one space: write users, one space, groups, with commas \
     and no spaces within each list"
)]
pub struct AclError(pub String);

impl Acl {
    /// Reads an access list. Names that no user or group can have are left out.
    pub fn parse(text: &str) -> Result<Self, AclError> {
        Self::parse_with_dropped(text).map(|(acl, _)| acl)
    }

    /// [`Self::parse`], and the names that were left out.
    pub fn parse_with_dropped(text: &str) -> Result<(Self, Vec<&str>), AclError> {
        let mut parts = text.split(' ');
        let users = parts.next().unwrap_or_default();
        let groups = parts.next().unwrap_or_default();
        if parts.next().is_some() {
            return Err(AclError(text.to_owned()));
        }
        let mut dropped = Vec::new();
        if users == "*" || groups == "*" {
            return Ok((Self { everybody: true, ..Self::default() }, dropped));
        }
        let users = names(users, is_user_of_acl, &mut dropped);
        let groups = names(groups, is_group_of_acl, &mut dropped);
        Ok((Self { everybody: false, users, groups }, dropped))
    }

    /// Whether everybody has access.
    pub fn is_everybody(&self) -> bool {
        self.everybody
    }

    /// The users that are named, in order.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.users.iter().map(String::as_str)
    }

    /// The groups that are named, in order.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(String::as_str)
    }

    /// Whether the user, or any of the groups the user is in, has access. Case counts.
    pub fn allows(&self, user: &str, groups: &[impl AsRef<str>]) -> bool {
        self.everybody
            || self.users.contains(user)
            || groups.iter().any(|group| self.groups.contains(group.as_ref()))
    }
}

fn names<'t>(
    list: &'t str,
    is_name: fn(&str) -> bool,
    dropped: &mut Vec<&'t str>,
) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if list.is_empty() {
        return names;
    }
    for name in list.split(',') {
        if is_name(name) {
            names.insert(name.to_owned());
        } else {
            dropped.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn allows(acl: &str, user: &str, groups: &[&str]) -> bool {
        Acl::parse(acl).unwrap().allows(user, groups)
    }

    #[test]
    fn a_list_is_users_then_groups_and_a_lone_star_is_everybody() {
        for text in ["", " "] {
            assert!(!allows(text, "a", &["g1"]), "`{text}` is nobody");
            assert!(!allows(text, "", &[""]), "`{text}` is nobody");
        }
        for text in ["*", " *", "* ", "* grp", "usr *", "* *"] {
            assert!(allows(text, "anyone", &[]), "`{text}` is everybody");
        }
        assert!(allows("a,b", "a", &[]) && allows("a,b", "b", &[]));
        assert!(!allows("a,b", "c", &["a", "b"]));
        assert!(allows("a g1,g2", "a", &[]) && allows("a g1,g2", "x", &["g0", "g2"]));
        assert!(!allows("a g1,g2", "g1", &["a"]));
        assert!(allows(" g1", "x", &["g1"]) && !allows(" g1", "g1", &[]));
        assert!(allows("a,*", "a", &[]) && !allows("a,*", "b", &[]));
    }

    #[test]
    fn a_list_has_one_space_and_impossible_names_match_nobody() {
        assert_eq!(Acl::parse("u g x"), Err(AclError("u g x".to_owned())));
        assert!(allows(" g1,g2", "anyone", &["g2"]));
        assert!(allows("#u1,u2", "u2", &[]) && !allows("#u1,u2", "#u1", &[]));
        assert!(!allows(" dotted.group", "anyone", &["dotted.group", "dotted"]));
    }

    #[test]
    fn spaces_are_counted_and_never_trimmed() {
        for text in ["a b ", "  ", "a  b", " a b", "*  ", "u g *"] {
            assert!(Acl::parse(text).is_err(), "`{text}`");
        }
    }

    #[test]
    fn matching_is_case_sensitive_and_names_follow_their_patterns() {
        assert!(!allows("Alice Ops", "alice", &["ops"]));
        for user in ["_a", "a.b@c-d", "svc$"] {
            assert!(allows(user, user, &[]), "`{user}` is a user name");
        }
        for user in ["1a", "a:b", "a/b", "a$b", "a\tb", "-a"] {
            assert!(!allows(user, user, &[]), "`{user}` is no user name");
        }
        for group in ["a.b", "a:b", "a$", "1a"] {
            assert!(!allows(&format!(" {group}"), "u", &[group]), "`{group}` is no group name");
        }
    }

    #[test]
    fn names_that_are_left_out_are_told() {
        let (_, dropped) = Acl::parse_with_dropped("#u1,u2 g.1,,g").unwrap();
        assert_eq!(dropped, ["#u1", "g.1", ""]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn a_list_splits_on_at_most_one_space(text in "[a-z*,# .]{0,12}") {
            prop_assert_eq!(Acl::parse(&text).is_err(), text.matches(' ').count() > 1);
        }
    }
}
