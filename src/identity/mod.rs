//! Who is calling, and what the caller may do.
//!
//! A caller shows a client certificate, a bearer token, or nothing. The rules of the settings
//! (`identity.rules`) say which resource managers the holder of a certificate or token may speak
//! for, and whether it may administer. [`layer`] finds out once per call and leaves an [`Identity`]
//! with the request; whoever acts on the request asks that.
//!
//! # Invariants
//! * Without rules everybody may do everything; with rules, nobody may do anything that no rule
//!   grants. A request that never met the layer carries nobody's identity.
//! * Several rules that fit one caller add up.
//! * A token reaches no log, no error and no handler: the layer takes it out of the request.
//!
//! Reading order: [`rule`], [`certificate`], [`tokens`], [`access`], [`layer`].

pub mod access;
pub mod certificate;
pub mod layer;
pub mod rule;
pub mod tokens;

use std::sync::Arc;

use axum::http::Extensions;

pub use self::access::Access;
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
    /// The caller is known and may not administer.
    #[error("{caller} may not administer")]
    Admin {
        /// What the caller showed.
        caller: String,
    },
}

/// What a caller may do. Cheap to clone; found in the extensions of a request.
#[derive(Clone, Debug)]
pub struct Identity(Who);

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
    admin: bool,
}

impl Identity {
    /// The identity of a caller where there are no rules.
    pub fn anybody() -> Self {
        Self(Who::Anybody)
    }

    /// The identity of a caller whom no rule knows.
    pub fn nobody() -> Self {
        Self(Who::Nobody)
    }

    /// What `rules` grant together; at least one of them fits the caller.
    fn granted<'r>(rules: impl Iterator<Item = &'r Rule>) -> Self {
        let mut grant = Grant { caller: String::new(), rm_ids: Vec::new(), admin: false };
        for rule in rules {
            if !grant.caller.is_empty() {
                grant.caller.push_str(" and ");
            }
            grant.caller.push_str(&rule.holder().to_string());
            grant.rm_ids.extend_from_slice(rule.rm_ids());
            grant.admin |= rule.admin();
        }
        if grant.caller.is_empty() { Self::nobody() } else { Self(Who::Known(Arc::new(grant))) }
    }

    /// The identity that the layer left with a request.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_else(Self::nobody)
    }

    /// Who it is, for the log: by which rules, or `anybody` where there are none.
    pub fn name(&self) -> &str {
        match &self.0 {
            Who::Anybody => "anybody",
            Who::Nobody => "nobody",
            Who::Known(grant) => &grant.caller,
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
        if grant.rm_ids.iter().any(|pattern| pattern.fits(rm_id)) {
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

    /// For what concerns one resource manager and may be seen by itself and by administrators.
    pub fn check_rm_or_admin(&self, rm_id: &str) -> Result<(), Denied> {
        self.check_admin().or_else(|_| self.check_rm(rm_id))
    }

    /// Whether a rule knows the caller, whatever it grants.
    pub fn check_known(&self) -> Result<(), Denied> {
        self.grant().map(drop)
    }

    /// What limits the caller, if anything does.
    fn grant(&self) -> Result<Option<&Grant>, Denied> {
        match &self.0 {
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
}
