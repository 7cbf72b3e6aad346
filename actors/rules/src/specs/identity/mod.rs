//! The owner of an application: the user's name, and the groups of the user.
//!
//! Groups that the RM sends are used as they are. Otherwise a resolver is asked, which may take
//! long or fail; its answer is kept for a while by a [`UserCache`]. This module asks no resolver
//! itself: [`convert`] calls a function for the answer.
//!
//! ```
//! use monoceros_rules::specs::identity::{Identity, convert};
//!
//! let asked = |_: &str| Ok(vec!["ada".to_owned(), "staff".to_owned()]);
//! let ada = convert("ada".to_owned(), vec![], false, asked).unwrap();
//! assert_eq!(ada.groups, ["ada", "staff"]);
//!
//! let nobody = convert(String::new(), vec![], false, asked).unwrap_err();
//! assert_eq!(nobody.cause(), "E_USER_EMPTY");
//! ```

mod cache;

pub use self::cache::{Known, UserCache};
use serde::{Deserialize, Serialize};

use crate::values::names::{is_user, shown};

/// The owner of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's name.
    pub user: String,
    /// The groups of the user, the primary group first.
    pub groups: Vec<String>,
}

/// The failure of a look-up: the resolver does not know the user, or could not be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct LookupError {
    /// The cause in words.
    pub why: String,
    /// The groups that were found nevertheless.
    pub groups: Vec<String>,
}

impl LookupError {
    /// Builds an error without groups.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), groups: Vec::new() }
    }
}

/// The reason why an application has no owner. On the wire it is `R_USER` with [`Self::cause`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum UserError {
    /// The submission names no user.
    #[error("empty user cannot resolve: give the application a user (`ugi.user`)")]
    Empty,
    /// The resolver does not know the user, or could not be asked.
    #[error("user `{}` cannot be resolved: {why}", shown(.user))]
    Resolve {
        /// The name as sent.
        user: String,
        /// The reason given by the resolver.
        why: String,
    },
    /// The name is not one that a user can have.
    #[error("invalid username `{}`", shown(.0))]
    Name(String),
}

impl UserError {
    /// Returns the code of the cause.
    pub fn cause(&self) -> &'static str {
        match self {
            Self::Empty => "E_USER_EMPTY",
            Self::Resolve { .. } => "E_USER_RESOLVE",
            Self::Name(_) => "E_USER_NAME",
        }
    }
}

/// The user of a forced application that names no user.
const NOBODY: &str = "nobody";
/// The group of a forced application whose user's groups cannot be found.
const NO_GROUP: &str = "nogroup";

/// Whether [`convert`] looks up the user's groups.
pub fn needs_lookup(user: &str, groups: &[String]) -> bool {
    !user.is_empty() && groups.is_empty()
}

/// Whether [`convert`] uses the groups of a submission; these are stored with [`UserCache::given`].
pub fn gives_groups(user: &str, groups: &[String]) -> bool {
    !groups.is_empty() && is_user(user)
}

/// Returns the owner of an application as submitted; calls `look_up` if [`needs_lookup`]. A
/// *forced* application runs already, and is never rejected because its user cannot be resolved.
pub fn convert(
    user: String,
    groups: Vec<String>,
    forced: bool,
    look_up: impl FnOnce(&str) -> Result<Vec<String>, LookupError>,
) -> Result<Identity, UserError> {
    if user.is_empty() {
        if !forced {
            return Err(UserError::Empty);
        }
        return Ok(Identity { user: NOBODY.to_owned(), groups: vec![NO_GROUP.to_owned()] });
    }
    let groups = if groups.is_empty() {
        match look_up(&user) {
            // The name is not checked: a resolver that knows the user knows the spelling.
            Ok(groups) => return Ok(Identity { user, groups }),
            Err(error) if !forced => return Err(UserError::Resolve { user, why: error.why }),
            Err(_) => vec![NO_GROUP.to_owned()],
        }
    } else {
        groups
    };
    if is_user(&user) { Ok(Identity { user, groups }) } else { Err(UserError::Name(user)) }
}

/// Returns the answer of the default resolver, which is also used for resolvers of unknown types:
/// the only group of a user has the user's name.
pub fn default_groups(user: &str) -> Vec<String> {
    vec![user.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    /// Converts a submission. The resolver knows two users: `sue`, by the default rule, and
    /// `bad><+`, with one group.
    fn submit(user: &str, groups: &[&str], forced: bool) -> Result<(String, String), &'static str> {
        let look_up = |user: &str| match user {
            "sue" => Ok(default_groups(user)),
            "bad><+" => Ok(owned(&["g"])),
            _ => Err(LookupError { why: "unknown".to_owned(), groups: owned(&["partial"]) }),
        };
        let identity = convert(user.to_owned(), owned(groups), forced, look_up);
        let identity = identity.map_err(|error| error.cause())?;
        Ok((identity.user, identity.groups.join(",")))
    }

    #[test]
    fn an_application_has_the_owner_that_was_submitted_known_or_forced() {
        let (normal, forced) = (false, true);
        for (case, user, groups, how, expected) in [
            ("default resolver", "sue", &[][..], normal, Ok(("sue", "sue"))),
            ("groups supplied", "sue", &["g2", "g1"], normal, Ok(("sue", "g2,g1"))),
            ("groups supplied, forced", "sue", &["g2", "g1"], forced, Ok(("sue", "g2,g1"))),
            ("empty user", "", &[], normal, Err("E_USER_EMPTY")),
            ("empty user with groups", "", &["g"], normal, Err("E_USER_EMPTY")),
            ("forced empty user", "", &[], forced, Ok(("nobody", "nogroup"))),
            ("forced empty user with groups", "", &["g"], forced, Ok(("nobody", "nogroup"))),
            ("unknown user", "eve", &[], normal, Err("E_USER_RESOLVE")),
            ("unknown user, forced", "eve", &[], forced, Ok(("eve", "nogroup"))),
            ("unknown bad name, forced", "1><", &[], forced, Err("E_USER_NAME")),
            ("bad name with groups", "bad><+", &["g"], normal, Err("E_USER_NAME")),
            ("bad name with groups, forced", "bad><+", &["g"], forced, Err("E_USER_NAME")),
            ("bad name that is known", "bad><+", &[], normal, Ok(("bad><+", "g"))),
            ("bad name that is known, forced", "bad><+", &[], forced, Ok(("bad><+", "g"))),
        ] {
            let expected = expected.map(|(user, groups)| (user.to_owned(), groups.to_owned()));
            assert_eq!(submit(user, groups, how), expected, "{case}");
        }
    }

    #[test]
    fn supplied_groups_need_no_lookup() {
        let never = |_: &str| unreachable!("the groups were given");
        convert("sue".to_owned(), owned(&["g"]), false, never).unwrap();
        convert(String::new(), vec![], true, never).unwrap();
        assert!(!needs_lookup("sue", &owned(&["g"])) && !needs_lookup("", &[]));
        assert!(needs_lookup("sue", &[]));
    }

    #[test]
    fn only_groups_of_an_identity_that_is_taken_are_remembered() {
        assert!(gives_groups("sue", &owned(&["g"])));
        assert!(!gives_groups("bad><+", &owned(&["g"])) && !gives_groups("", &owned(&["g"])));
        assert!(!gives_groups("sue", &[]));
    }

    #[test]
    fn a_reason_names_the_user_and_what_is_wrong() {
        let error = UserError::Resolve { user: "eve".to_owned(), why: "unknown".to_owned() };
        assert_eq!(error.to_string(), "user `eve` cannot be resolved: unknown");
    }
}
