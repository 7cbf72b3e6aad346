//! Queue configurations that all members of a cluster share, as registry and calls need them.
//!
//! # Why a trait
//! As for claims: a process without a cluster runs nothing of it, and a build may leave it out.

use std::sync::Arc;

use futures::future::BoxFuture;
use monoceros_proto::si::v1 as si;

use super::super::end::{ChangeRefusal, ClaimRefusal, RegistrationRefusal};
use super::super::session::Session;
use super::request::policy_group;
use super::{Origin, Registry};
use crate::identity::Identity;

/// The configurations of policy groups in the store of a cluster.
pub trait Configurations: Send + Sync {
    /// Refuses a registration whose configuration cannot count, before its claim. Writes nothing.
    fn check<'a>(&'a self, brought: &'a Brought) -> BoxFuture<'a, Result<(), RegistrationRefusal>>;

    /// Settles the configuration of a registration whose claim was won. Returns the text to
    /// register with in place of the one that was brought, if that is not in force any more.
    fn settle<'a>(
        &'a self,
        brought: &'a Brought,
    ) -> BoxFuture<'a, Result<Option<String>, RegistrationRefusal>>;

    /// Notes that a session of the policy group has got a text, by its registration or a call: the
    /// group may have got a newer one meanwhile.
    fn applied(&self, policy_group: &str);

    /// Whether other resource managers of the policy group are served by any member.
    fn is_shared<'a>(
        &'a self,
        policy_group: &'a str,
        rm_id: &'a str,
    ) -> BoxFuture<'a, Result<bool, ClaimRefusal>>;

    /// Has every member that serves another resource manager of the policy group try a text.
    /// Returns the trial, or why the text cannot be set.
    fn try_on_all<'a>(
        &'a self,
        change: &'a GroupChange,
        caller: &'a Identity,
    ) -> BoxFuture<'a, Result<Tried, ChangeRefusal>>;

    /// Replaces the configuration of a policy group, if it has not changed since the trial. Returns
    /// the version of the record with the text, or why there is none.
    fn set<'a>(
        &'a self,
        change: &'a GroupChange,
        tried: Tried,
        caller: &'a Identity,
    ) -> BoxFuture<'a, Result<u64, ChangeRefusal>>;
}

/// A trial that all members have passed: the version of the record before it, 0 if there was none.
#[derive(Clone, Copy, Debug)]
pub struct Tried(pub u64);

/// The queue configuration of a registration.
#[derive(Clone, Debug, Default)]
pub struct Brought {
    /// The id of the resource manager.
    pub rm_id: String,
    /// Its policy group.
    pub policy_group: String,
    /// The text that it brings. Empty if it brings none.
    pub config: String,
    /// Whether this process of the resource manager had a session before.
    pub is_again: bool,
    /// Text of the group's file on this member, for a resource manager that brings none.
    pub file: Option<Arc<str>>,
}

/// A new configuration of a policy group, by an operator.
#[derive(Clone, Debug)]
pub struct GroupChange {
    /// The resource manager that the call names. It has tried the text already.
    pub rm_id: String,
    /// Its policy group.
    pub policy_group: String,
    /// The text.
    pub config: String,
}

impl Registry {
    /// The configurations that all members of the cluster share. `None` without a cluster.
    pub fn configurations(&self) -> Option<Arc<dyn Configurations>> {
        self.claims.as_ref()?.configurations()
    }

    /// The current sessions of a policy group, or all of them.
    pub fn sessions_of(&self, group: Option<&str>) -> Vec<Arc<Session>> {
        let current = self.current();
        let sessions = current.values().filter_map(|current| current.session.as_ref());
        let of_group = |session: &&Arc<Session>| {
            group.is_none_or(|group| session.registrant().policy_group == group)
        };
        sessions.filter(of_group).map(Arc::clone).collect()
    }

    /// The configuration of a registration at a member of a cluster, checked as far as it can be
    /// before the claim.
    pub(super) async fn check_brought(
        &self,
        shared: &dyn Configurations,
        request: &si::RegisterResourceManagerRequest,
        origin: &Origin,
    ) -> Result<Brought, RegistrationRefusal> {
        let group = policy_group(request);
        let file = if request.config.is_empty() { self.policy_file(group).await? } else { None };
        let brought = Brought {
            rm_id: request.rm_id.clone(),
            policy_group: group.to_owned(),
            config: request.config.clone(),
            is_again: origin.shown.is_some(),
            file,
        };
        shared.check(&brought).await?;
        Ok(brought)
    }
}
