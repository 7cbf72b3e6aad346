//! The queue configuration of a registration: whether it conflicts with its policy group, is the
//! one in force, or comes from the service.

use std::sync::Arc;

use monoceros_actors::RegisterError;
use monoceros_proto::si::v1 as si;
use tracing::warn;

use super::super::end::RegistrationRefusal;
use super::super::session::Session;
use super::Registry;
use super::request::policy_group;
use crate::settings::PolicyGroupConflict;

impl Registry {
    /// Refuses or reports a queue configuration that differs from that of another resource manager
    /// of the policy group.
    pub(super) fn check_policy_group(
        &self,
        request: &si::RegisterResourceManagerRequest,
    ) -> Result<(), RegistrationRefusal> {
        if request.config.is_empty() {
            return Ok(());
        }
        let group = policy_group(request);
        let other =
            self.current().values().filter_map(|it| it.session.as_ref()).find_map(|session| {
                let other = session.registrant();
                let conflicts = other.rm_id != request.rm_id
                    && other.policy_group == group
                    && session.has_other_config(&request.config);
                conflicts.then(|| other.rm_id.clone())
            });
        let Some(other) = other else { return Ok(()) };
        let refusal = RegistrationRefusal::PolicyGroupConflict { group: group.to_owned(), other };
        match self.registration.policy_group_conflict {
            PolicyGroupConflict::Reject => Err(refusal),
            PolicyGroupConflict::Warn => {
                warn!(rm = %request.rm_id, conflict = %refusal, "policy group conflict");
                Ok(())
            }
        }
    }

    /// Whether a registration may continue `session`: its configuration is the one in force, or it
    /// has none.
    pub(super) async fn can_continue(
        &self,
        session: &Session,
        request: &si::RegisterResourceManagerRequest,
    ) -> bool {
        let known = session.registrant();
        if known.policy_group != policy_group(request) {
            return false;
        }
        if request.config.is_empty() {
            return true;
        }
        let in_force = self.handle.configuration(session.rm_id()).await;
        in_force.is_ok_and(|in_force| in_force.config == request.config)
    }

    /// Offers the service's queue configuration of the policy group, if any, to the scheduler.
    pub(super) async fn offer_policy(&self, group: &str) -> Result<(), RegistrationRefusal> {
        if let Some(text) = self.policy_file(group).await? {
            let offered = self.handle.offer_policy_queues(group, &text).await;
            offered.map_err(RegisterError::from)?;
        }
        Ok(())
    }

    /// Reads the text of the policy group's file that applies to a registration, if there is one.
    pub(super) async fn policy_file(
        &self,
        group: &str,
    ) -> Result<Option<Arc<str>>, RegistrationRefusal> {
        let Some(policies) = self.policies.clone() else { return Ok(None) };
        let name = group.to_owned();
        let read = tokio::task::spawn_blocking(move || policies.at_registration(&name));
        let read = read.await.map_err(|_| RegistrationRefusal::Internal)?;
        let unreadable =
            |why| RegistrationRefusal::PolicyUnreadable { group: group.to_owned(), why };
        read.map_err(unreadable)
    }
}
