//! Who is calling, and what the caller may do.
//!
//! A caller shows a client certificate, a bearer token, or nothing. The rules of the settings
//! (`identity.rules`) say which resource managers the holder of a certificate or token may speak
//! for and read of, whether it may read of all, and whether it may administer. [`layer`] finds out
//! once per call and leaves an [`Identity`] with the request; whoever acts on the request asks that.
//! What is needed for what is a [`Right`], the same on both edges.
//!
//! # Invariants
//! * Without rules everybody may do everything; with rules, nobody may do anything that no rule
//!   grants. A request that never met the layer carries nobody's identity.
//! * Several rules that fit one caller add up.
//! * A token reaches no log, no error and no handler: the layer takes it out of the request.
//!
//! Reading order: [`rule`], [`certificate`], [`tokens`], [`access`], [`layer`], [`right`].

pub mod access;
pub mod certificate;
pub mod layer;
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
    /// The caller shows nothing that a rule knows.
    #[error("a client certificate or bearer token that is known here is needed")]
    Unknown,
    /// The caller is known and may not speak for this resource manager.
    #[error("{caller} may not speak for `{rm_id}`")]
    Rm {
        /// What the caller showed.
        caller: String,
        /// The resource manager that it wanted to speak for.
        rm_id: String,
    },
    /// The caller is known and may not read of this resource manager.
    #[error("{caller} may not read of `{rm_id}`")]
    ReadRm {
        /// What the caller showed.
        caller: String,
        /// The resource manager of which it wanted to read.
        rm_id: String,
    },
    /// The caller is known and may not read what concerns all.
    #[error("{caller} may not read what concerns all resource managers")]
    ReadAll {
        /// What the caller showed.
        caller: String,
    },
    /// The caller is known and may not administer.
    #[error("{caller} may not administer")]
    Admin {
        /// What the caller showed.
        caller: String,
    },
}

/// What a caller may do. Cheap to clone; found in the extensions of a request.
#[derive(Clone, Debug)]
pub struct Identity {
    who: Who,
    /// The other end of its connection, where it has one.
    from: Option<SocketAddr>,
}

#[derive(Clone, Debug)]
enum Who {
    /// There are no rules.
    Anybody,
    /// There are rules, and none fits.
    Nobody,
    Known(Arc<Grant>),
}

/// What the rules that fit a caller grant together.
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
    /// The identity of a caller where there are no rules.
    pub fn anybody() -> Self {
        Self { who: Who::Anybody, from: None }
    }

    /// The identity of a caller whom no rule knows.
    pub fn nobody() -> Self {
        Self { who: Who::Nobody, from: None }
    }

    /// What `rules` grant together; at least one of them fits the caller.
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

    /// The same at the other end of this connection.
    #[must_use]
    pub fn at(self, from: SocketAddr) -> Self {
        Self { from: Some(from), ..self }
    }

    /// Where it calls from, for the log.
    pub fn from(&self) -> String {
        self.from.map_or_else(|| "this process".to_owned(), |from| from.to_string())
    }

    /// The identity that the layer left with a request.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_else(Self::nobody)
    }

    /// Who it is, for the log: by which rules, or `anybody` where there are none.
    pub fn name(&self) -> &str {
        match &self.who {
            Who::Anybody => "anybody",
            Who::Nobody => "nobody",
            Who::Known(grant) => &grant.caller,
        }
    }

    /// By which rules the caller is known, if by any.
    pub fn holder(&self) -> Option<&str> {
        match &self.who {
            Who::Anybody | Who::Nobody => None,
            Who::Known(grant) => Some(&grant.caller),
        }
    }

    /// Whether the caller may register `rm_id`, open its streams, and see what is its own.
    pub fn may_speak_for(&self, rm_id: &str) -> bool {
        self.check_rm(rm_id).is_ok()
    }

    /// Whether the caller may administer.
    pub fn may_administer(&self) -> bool {
        self.check_admin().is_ok()
    }

    /// [`Self::may_speak_for`], with the reason if not.
    pub fn check_rm(&self, rm_id: &str) -> Result<(), Denied> {
        let Some(grant) = self.grant()? else { return Ok(()) };
        if grant.speaks_for(rm_id) {
            return Ok(());
        }
        Err(Denied::Rm { caller: grant.caller.clone(), rm_id: rm_id.to_owned() })
    }

    /// [`Self::may_administer`], with the reason if not.
    pub fn check_admin(&self) -> Result<(), Denied> {
        match self.grant()? {
            Some(grant) if !grant.admin => Err(Denied::Admin { caller: grant.caller.clone() }),
            Some(_) | None => Ok(()),
        }
    }

    /// For what changes one resource manager and may be done by itself and by administrators.
    pub fn check_rm_or_admin(&self, rm_id: &str) -> Result<(), Denied> {
        self.check_admin().or_else(|_| self.check_rm(rm_id))
    }

    /// Whether the caller may read what concerns this resource manager.
    pub fn may_read(&self, rm_id: &str) -> bool {
        self.check_read(rm_id).is_ok()
    }

    /// [`Self::may_read`], with the reason if not.
    pub fn check_read(&self, rm_id: &str) -> Result<(), Denied> {
        match self.grant()? {
            Some(grant) if !(grant.admin || grant.read || grant.speaks_for(rm_id)) => {
                Err(Denied::ReadRm { caller: grant.caller.clone(), rm_id: rm_id.to_owned() })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the caller may read what concerns all resource managers, with the reason if not.
    pub fn check_read_all(&self) -> Result<(), Denied> {
        match self.grant()? {
            Some(grant) if !(grant.admin || grant.read) => {
                Err(Denied::ReadAll { caller: grant.caller.clone() })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// What has to be so before it is known which resource manager a call concerns.
    pub fn check_at_the_door(&self, right: Right) -> Result<(), Denied> {
        match right {
            Right::Nothing => Ok(()),
            Right::Known | Right::Read | Right::Act | Right::Speak => self.check_known(),
            Right::ReadAll => self.check_read_all(),
            Right::Administer => self.check_admin(),
        }
    }

    /// Whether the caller has a right, of this resource manager where it is one of such.
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

    /// Whether a rule knows the caller, whatever it grants.
    pub fn check_known(&self) -> Result<(), Denied> {
        self.grant().map(drop)
    }

    /// What limits the caller, if anything does.
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
    fn without_rules_everybody_may_do_everything_and_nobody_nothing() {
        let anybody = Identity::anybody();
        assert!(anybody.may_speak_for("rm-1") && anybody.may_administer());
        let nobody = Identity::of(&Extensions::new());
        assert_eq!(nobody.check_rm("rm-1"), Err(Denied::Unknown));
        assert_eq!(nobody.check_admin(), Err(Denied::Unknown));
        assert_eq!(nobody.check_known(), Err(Denied::Unknown));
    }

    #[test]
    fn rules_that_fit_add_up() {
        let rules = [
            Rule::certificate("cn=shim-a", &["a*"], false).unwrap(),
            Rule::token("ops", &["b"], true).unwrap(),
        ];
        let first = Identity::granted(rules.iter().take(1));
        assert!(first.may_speak_for("a1") && !first.may_speak_for("b"));
        let denied = first.check_admin().unwrap_err().to_string();
        assert_eq!(denied, "certificate `cn=shim-a` may not administer");
        let denied = first.check_rm_or_admin("b").unwrap_err().to_string();
        assert_eq!(denied, "certificate `cn=shim-a` may not speak for `b`");

        let both = Identity::granted(rules.iter());
        assert!(both.may_speak_for("a1") && both.may_speak_for("b") && both.may_administer());
        assert!(!both.may_speak_for("c") && both.check_rm_or_admin("c").is_ok());
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
                // Who may do it gets through the door.
                assert!(!may || who.check_at_the_door(right).is_ok(), "{who:?}: {right:?}");
            }
        }
        let denied = shim.check_read("b").unwrap_err().to_string();
        assert_eq!(denied, "token `shim` may not read of `b`");
        let denied = shim.check_read_all().unwrap_err().to_string();
        assert_eq!(denied, "token `shim` may not read what concerns all resource managers");
    }
}
