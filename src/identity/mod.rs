//! The identity of callers and their rights.
//!
//! A caller presents a client certificate, a bearer token, or nothing. The rules of the settings
//! (`identity.rules`) say for which resource managers the holder of a certificate or token may
//! speak, of which it may read, whether it may read of all, and whether it may administer.
//! [`layer`] identifies the caller once per call and attaches an [`Identity`] to the request; the
//! code that acts on the request checks it. The rights needed are [`Right`]s, the same on both
//! edges.
//!
//! # Invariants
//! * Without rules every caller may do everything; with rules, a caller may do only what a rule
//!   grants. A request that did not pass the layer has the identity of nobody.
//! * The grants of several matching rules add up.
//! * A token reaches no log, no error and no handler: the layer removes it from the request.
//!
//! Reading order: [`rule`], [`certificate`], [`tokens`], [`access`], [`layer`], [`passed`],
//! [`right`].

pub mod access;
pub mod certificate;
pub mod layer;
pub mod passed;
pub mod right;
pub mod rule;
pub mod tokens;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::Extensions;

pub use self::access::Access;
pub use self::right::Right;
pub use self::rule::{RmPattern, Rule};

/// Why a call is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The caller presents nothing that a rule knows.
    #[error("a client certificate or bearer token that is known here is needed")]
    Unknown,
    /// The caller is known but may not act as this resource manager.
    #[error("{caller} may not speak for `{rm_id}`")]
    Rm {
        /// The name of the caller.
        caller: String,
        /// The resource manager that it wanted to act as.
        rm_id: String,
    },
    /// The caller is known but may not read of this resource manager.
    #[error("{caller} may not read of `{rm_id}`")]
    ReadRm {
        /// The name of the caller.
        caller: String,
        /// The resource manager of which it wanted to read.
        rm_id: String,
    },
    /// The caller is known but may not read data that concern all resource managers.
    #[error("{caller} may not read what concerns all resource managers")]
    ReadAll {
        /// The name of the caller.
        caller: String,
    },
    /// The caller is known but may not administer.
    #[error("{caller} may not administer")]
    Admin {
        /// The name of the caller.
        caller: String,
    },
}

/// The rights of a caller. Cheap to clone; found in the extensions of a request.
#[derive(Clone, Debug)]
pub struct Identity {
    who: Who,
    /// The peer address. `None` for calls from this process.
    from: Option<SocketAddr>,
}

#[derive(Clone, Debug)]
enum Who {
    /// Any caller, because there are no rules.
    Anybody,
    /// A caller that no rule matches.
    Nobody,
    Known(Arc<Grant>),
}

/// The sum of the grants of all matching rules.
#[derive(Debug)]
struct Grant {
    caller: String,
    rm_ids: Vec<RmPattern>,
    read: bool,
    admin: bool,
}

impl Grant {
    fn speaks_for(&self, rm_id: &str) -> bool {
        self.rm_ids.iter().any(|pattern| pattern.fits(rm_id))
    }
}

impl Identity {
    /// The identity of any caller if there are no rules.
    pub fn anybody() -> Self {
        Self { who: Who::Anybody, from: None }
    }

    /// The identity of a caller that matches no rule.
    pub fn nobody() -> Self {
        Self { who: Who::Nobody, from: None }
    }

    /// The sum of the grants of `rules`, all of which match the caller.
    fn granted<'r>(rules: impl Iterator<Item = &'r Rule>) -> Self {
        let mut grant =
            Grant { caller: String::new(), rm_ids: Vec::new(), read: false, admin: false };
        for rule in rules {
            if !grant.caller.is_empty() {
                grant.caller.push_str(" and ");
            }
            grant.caller.push_str(&rule.holder().to_string());
            grant.rm_ids.extend_from_slice(rule.rm_ids());
            grant.read |= rule.read();
            grant.admin |= rule.admin();
        }
        if grant.caller.is_empty() {
            return Self::nobody();
        }
        Self { who: Who::Known(Arc::new(grant)), from: None }
    }

    /// Adds the peer address.
    #[must_use]
    pub fn at(self, from: SocketAddr) -> Self {
        Self { from: Some(from), ..self }
    }

    /// The peer address, for logs.
    pub fn from(&self) -> String {
        self.from.map_or_else(|| "this process".to_owned(), |from| from.to_string())
    }

    /// The identity that the layer attached to a request.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_else(Self::nobody)
    }

    /// The name of the caller for logs: its rules, or `anybody` without rules.
    pub fn name(&self) -> &str {
        match &self.who {
            Who::Anybody => "anybody",
            Who::Nobody => "nobody",
            Who::Known(grant) => &grant.caller,
        }
    }

    /// The rules that match the caller, if any.
    pub fn holder(&self) -> Option<&str> {
        match &self.who {
            Who::Anybody | Who::Nobody => None,
            Who::Known(grant) => Some(&grant.caller),
        }
    }

    /// Whether the caller may administer.
    pub fn may_administer(&self) -> bool {
        self.check_admin().is_ok()
    }

    /// Checks whether the caller may act as `rm_id`: register it, open its streams, and see its
    /// data.
    pub fn check_rm(&self, rm_id: &str) -> Result<(), Denied> {
        let Some(grant) = self.grant()? else { return Ok(()) };
        if grant.speaks_for(rm_id) {
            return Ok(());
        }
        Err(Denied::Rm { caller: grant.caller.clone(), rm_id: rm_id.to_owned() })
    }

    /// Checks [`Self::may_administer`]. The error has the reason.
    pub fn check_admin(&self) -> Result<(), Denied> {
        match self.grant()? {
            Some(grant) if !grant.admin => Err(Denied::Admin { caller: grant.caller.clone() }),
            Some(_) | None => Ok(()),
        }
    }

    /// Checks the right to change one resource manager: it has this right itself, and so have
    /// administrators.
    pub fn check_rm_or_admin(&self, rm_id: &str) -> Result<(), Denied> {
        self.check_admin().or_else(|_| self.check_rm(rm_id))
    }

    /// Whether the caller may read data of this resource manager.
    pub fn may_read(&self, rm_id: &str) -> bool {
        self.check_read(rm_id).is_ok()
    }

    /// Checks [`Self::may_read`]. The error has the reason.
    pub fn check_read(&self, rm_id: &str) -> Result<(), Denied> {
        match self.grant()? {
            Some(grant) if !(grant.admin || grant.read || grant.speaks_for(rm_id)) => {
                Err(Denied::ReadRm { caller: grant.caller.clone(), rm_id: rm_id.to_owned() })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Checks whether the caller may read data that concern all resource managers.
    pub fn check_read_all(&self) -> Result<(), Denied> {
        match self.grant()? {
            Some(grant) if !(grant.admin || grant.read) => {
                Err(Denied::ReadAll { caller: grant.caller.clone() })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Checks the part of a right that can be checked without knowing the resource manager.
    pub fn check_at_the_door(&self, right: Right) -> Result<(), Denied> {
        match right {
            Right::Nothing => Ok(()),
            Right::Known | Right::Read | Right::Act | Right::Speak => self.check_known(),
            Right::ReadAll => self.check_read_all(),
            Right::Administer => self.check_admin(),
        }
    }

    /// Checks a right; if it depends on a resource manager, for `rm_id`.
    pub fn check(&self, right: Right, rm_id: &str) -> Result<(), Denied> {
        match right {
            Right::Read => self.check_read(rm_id),
            Right::Act => self.check_rm_or_admin(rm_id),
            Right::Speak => self.check_rm(rm_id),
            Right::Nothing | Right::Known | Right::ReadAll | Right::Administer => {
                self.check_at_the_door(right)
            }
        }
    }

    /// Checks whether any rule matches the caller.
    pub fn check_known(&self) -> Result<(), Denied> {
        self.grant().map(drop)
    }

    /// The grants that limit the caller. `None` if there are no rules.
    fn grant(&self) -> Result<Option<&Grant>, Denied> {
        match &self.who {
            Who::Anybody => Ok(None),
            Who::Nobody => Err(Denied::Unknown),
            Who::Known(grant) => Ok(Some(grant)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_rules_everything_is_allowed() {
        let anybody = Identity::anybody();
        assert!(anybody.check_rm("rm-1").is_ok() && anybody.may_administer());
        let nobody = Identity::of(&Extensions::new());
        assert_eq!(nobody.check_rm("rm-1"), Err(Denied::Unknown));
        assert_eq!(nobody.check_admin(), Err(Denied::Unknown));
        assert_eq!(nobody.check_known(), Err(Denied::Unknown));
    }

    #[test]
    fn matching_rules_add_up() {
        let rules = [
            Rule::certificate("cn=shim-a", &["a*"], false).unwrap(),
            Rule::token("ops", &["b"], true).unwrap(),
        ];
        let first = Identity::granted(rules.iter().take(1));
        assert!(first.check_rm("a1").is_ok() && first.check_rm("b").is_err());
        let denied = first.check_admin().unwrap_err().to_string();
        assert_eq!(denied, "certificate `cn=shim-a` may not administer");
        let denied = first.check_rm_or_admin("b").unwrap_err().to_string();
        assert_eq!(denied, "certificate `cn=shim-a` may not speak for `b`");

        let both = Identity::granted(rules.iter());
        assert!(both.check_rm("a1").is_ok() && both.check_rm("b").is_ok() && both.may_administer());
        assert!(both.check_rm("c").is_err() && both.check_rm_or_admin("c").is_ok());
    }

    #[test]
    fn each_grant_has_its_rights_and_no_others() {
        use Right::{Act, Administer, Known, Nothing, Read, ReadAll, Speak};
        let all = [Nothing, Known, Read, ReadAll, Speak, Act, Administer];
        let granted = |rule: Rule| Identity::granted([rule].iter());
        let shim = granted(Rule::token("shim", &["a"], false).unwrap());
        let reader = granted(Rule::reader("dash").unwrap());
        let admin = granted(Rule::token("ops", &[], true).unwrap());
        for (who, rm_id, has) in [
            (&shim, "a", &[Nothing, Known, Read, Speak, Act][..]),
            (&shim, "b", &[Nothing, Known]),
            (&reader, "a", &[Nothing, Known, Read, ReadAll]),
            (&admin, "a", &[Nothing, Known, Read, ReadAll, Act, Administer]),
            (&Identity::nobody(), "a", &[Nothing]),
            (&Identity::anybody(), "a", &all),
        ] {
            for right in all {
                let may = who.check(right, rm_id).is_ok();
                assert_eq!(may, has.contains(&right), "{who:?}: {right:?} of {rm_id}");
                // A caller with the right passes the first check.
                assert!(!may || who.check_at_the_door(right).is_ok(), "{who:?}: {right:?}");
            }
        }
        let denied = shim.check_read("b").unwrap_err().to_string();
        assert_eq!(denied, "token `shim` may not read of `b`");
        let denied = shim.check_read_all().unwrap_err().to_string();
        assert_eq!(denied, "token `shim` may not read what concerns all resource managers");
    }
}
