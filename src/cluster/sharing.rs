//! Configurations of policy groups as registrations, files and operators use them, and the trial of
//! a text on all members.
//!
//! # Trials
//! A text that an operator sets is first tried on every RM of the group, at the member that serves
//! the RM. The change is refused if an RM refuses the text, and fails for now if a member does not
//! answer. The text is written only if the record is still the one that was read before the trial: of
//! two changes at once one fails. The work at a member may change between trial and write: then that
//! member keeps the old configuration, and reports it.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream;
use monoceros_actors::ConfigurationError;
use monoceros_cluster::{Occasion, Owner, RmId};
use monoceros_cluster_store::{OfferOutcome, Offered, pack};
use monoceros_proto::si::v1 as si;
use tokio::time::timeout;
use tonic::metadata::AsciiMetadataValue;
use tonic::{Code, Status};

use super::groups::{Groups, named};
use super::membership::Membership;
use super::settling::checksum_of_file;
use crate::grpc::end::{ChangeRefusal, ClaimRefusal, RegistrationRefusal};
use crate::grpc::registry::{Brought, Configurations, GroupChange, Tried};
use crate::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use crate::grpc::{REASON_TRAILER, TRIAL_HEADER};
use crate::identity::Identity;
use crate::queues_file::SharedTexts;

/// Time within which a member tries a text on one RM: longer than a check may take.
const TRIAL_PATIENCE: Duration = Duration::from_secs(10);
/// Trials under way at a time.
const TRIALS: usize = 8;
/// Most lines of reasons in a refusal.
const MAX_REASONS: usize = 20;

/// Tries a text on an RM of another member.
pub(super) type Trial = for<'a> fn(
    &'a Arc<Membership>,
    &'a Owner,
    si::UpdateConfigurationRequest,
    &'a Identity,
) -> BoxFuture<'a, Result<(), TrialFailure>>;

/// Why an RM has not accepted a text.
#[derive(Debug)]
pub(super) enum TrialFailure {
    /// The RM cannot have it.
    Refused(String),
    /// The RM has not tried it. Another trial may succeed.
    Unanswered(String),
}

impl TrialFailure {
    /// Names the member and the RM of the trial.
    fn at(self, member: &str, rm: &str) -> Self {
        let located = |why: String| format!("member `{member}`, resource manager `{rm}`: {why}");
        match self {
            Self::Refused(why) => Self::Refused(located(why)),
            Self::Unanswered(why) => Self::Unanswered(located(why)),
        }
    }
}

impl From<ConfigurationError> for TrialFailure {
    fn from(error: ConfigurationError) -> Self {
        let why = error.to_string();
        match error {
            ConfigurationError::PolicyGroup { .. }
            | ConfigurationError::Invalid(_)
            | ConfigurationError::TypeInUse(_) => Self::Refused(why),
            ConfigurationError::RmIdMissing
            | ConfigurationError::NotRegistered(_)
            | ConfigurationError::TooBusy(_)
            | ConfigurationError::PartitionLost(_)
            | ConfigurationError::Stopped => Self::Unanswered(why),
        }
    }
}

/// The configurations of policy groups, with the way to other members.
pub(super) struct SharedConfigurations {
    pub(super) groups: Arc<Groups>,
    pub(super) trial: Trial,
}

impl SharedConfigurations {
    /// Tries a text on an RM, wherever it is served.
    async fn try_on(
        &self,
        (rm, owner): (RmId, Owner),
        text: &str,
        caller: &Identity,
    ) -> Result<(), TrialFailure> {
        let membership = &self.groups.membership;
        let tried = if owner.member == membership.me().member {
            self.groups.try_here(&rm.0, text).await
        } else {
            let request = si::UpdateConfigurationRequest {
                rm_id: rm.0.to_string(),
                config: text.to_owned(),
                ..Default::default()
            };
            let tried = timeout(TRIAL_PATIENCE, (self.trial)(membership, &owner, request, caller));
            let in_time = tried.await.ok();
            in_time.unwrap_or_else(|| Err(TrialFailure::Unanswered("no answer in time".to_owned())))
        };
        tried.map_err(|failure| failure.at(&owner.member.0, &rm.0))
    }

    /// Tries a text on all other RMs of the group. Fails with the reasons of those that did not
    /// accept it.
    async fn try_everywhere(
        &self,
        change: &GroupChange,
        caller: &Identity,
    ) -> Result<(), ChangeRefusal> {
        let others = self.groups.others_of(&change.policy_group, &change.rm_id).await?;
        let trials = others.into_iter().map(|other| self.try_on(other, &change.config, caller));
        let failures: Vec<_> = stream::iter(trials)
            .buffer_unordered(TRIALS)
            .filter_map(|tried| async { tried.err() })
            .collect()
            .await;
        if failures.is_empty() { Ok(()) } else { Err(refusal_of(failures)) }
    }

    async fn try_on_all(
        &self,
        change: &GroupChange,
        caller: &Identity,
    ) -> Result<Tried, ChangeRefusal> {
        // A text that the arbiter cannot keep needs no trial.
        pack(&change.config).map_err(|why| ChangeRefusal::Refused(why.to_string()))?;
        let before = self.groups.read(&named(&change.policy_group)).await?;
        self.try_everywhere(change, caller).await?;
        Ok(Tried(before.map_or(0, |record| record.value.version)))
    }

    async fn set(
        &self,
        change: &GroupChange,
        Tried(tried_at): Tried,
        caller: &Identity,
    ) -> Result<u64, ChangeRefusal> {
        let groups = &self.groups;
        let id = named(&change.policy_group);
        let checksum = groups.checksum(&change.config).await?;
        let source = format!("set for `{}` by `{}`", change.rm_id, caller.name());
        let text = (&*change.config, &*checksum);
        let offer = groups.offer_of(text, &source, Occasion::Set { tried_at })?;
        let Offered { outcome, record } = groups.write(&id, &change.rm_id, offer).await?;
        let record = record.map(|record| record.value);
        match outcome {
            OfferOutcome::Written | OfferOutcome::InForce => {
                groups.follow(&change.rm_id);
                groups.note_due(id);
                Ok(record.map_or(0, |record| record.version))
            }
            _ => {
                let group = &change.policy_group;
                let newer = record.map(|it| format!(": version {}, {}", it.version, it.source));
                let newer = newer.unwrap_or_default();
                Err(ChangeRefusal::ChangedMeanwhile(format!(
                    "the configuration of policy group `{group}` was changed meanwhile{newer}"
                )))
            }
        }
    }
}

impl Configurations for SharedConfigurations {
    fn check<'a>(&'a self, brought: &'a Brought) -> BoxFuture<'a, Result<(), RegistrationRefusal>> {
        async move {
            let handle = self.groups.membership.handle();
            if !handle.is_some_and(|handle| handle.gate().is_open()) {
                // No reason to wait for an arbiter that may be away.
                return Err(ClaimRefusal::Fenced.into());
            }
            if !brought.config.is_empty() {
                return self.groups.judge(brought, false).await.map(drop);
            }
            if let Some(file) = &brought.file {
                checksum_of_file(file).await?;
            }
            Ok(())
        }
        .boxed()
    }

    fn settle<'a>(
        &'a self,
        brought: &'a Brought,
    ) -> BoxFuture<'a, Result<Option<String>, RegistrationRefusal>> {
        async move {
            if brought.config.is_empty() {
                self.groups.settle_default(brought).await?;
                return Ok(None);
            }
            self.groups.judge(brought, true).await
        }
        .boxed()
    }

    fn applied(&self, policy_group: &str) {
        self.groups.note_due(named(policy_group));
    }

    fn is_shared<'a>(
        &'a self,
        policy_group: &'a str,
        rm_id: &'a str,
    ) -> BoxFuture<'a, Result<bool, ClaimRefusal>> {
        async move { Ok(!self.groups.others_of(policy_group, rm_id).await?.is_empty()) }.boxed()
    }

    fn try_on_all<'a>(
        &'a self,
        change: &'a GroupChange,
        caller: &'a Identity,
    ) -> BoxFuture<'a, Result<Tried, ChangeRefusal>> {
        self.try_on_all(change, caller).boxed()
    }

    fn set<'a>(
        &'a self,
        change: &'a GroupChange,
        tried: Tried,
        caller: &'a Identity,
    ) -> BoxFuture<'a, Result<u64, ChangeRefusal>> {
        self.set(change, tried, caller).boxed()
    }
}

impl SharedTexts for Groups {
    fn offer<'a>(
        &'a self,
        group: Option<&'a str>,
        file: &'a Path,
        text: &'a Arc<str>,
    ) -> BoxFuture<'a, ()> {
        async move { self.offer_file(group, &file.display().to_string(), text).await }.boxed()
    }
}

/// The refusal of a text that not all RMs have accepted. One RM that cannot have it is enough:
/// another attempt would end in the same way.
fn refusal_of(failures: Vec<TrialFailure>) -> ChangeRefusal {
    let is_final = failures.iter().any(|failure| matches!(failure, TrialFailure::Refused(_)));
    let reason = |failure| match failure {
        TrialFailure::Refused(why) | TrialFailure::Unanswered(why) => why,
    };
    let mut reasons: Vec<_> = failures.into_iter().map(reason).collect();
    reasons.sort_unstable();
    let n_more = reasons.len().saturating_sub(MAX_REASONS);
    let mut text = reasons[..reasons.len() - n_more].join("\n");
    if n_more > 0 {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{n_more} more are left out");
    }
    if is_final { ChangeRefusal::Refused(text) } else { ChangeRefusal::Untried(text) }
}

/// Tries a text over the connection to another member.
pub(super) fn over_peers<'a>(
    membership: &'a Arc<Membership>,
    owner: &'a Owner,
    request: si::UpdateConfigurationRequest,
    caller: &'a Identity,
) -> BoxFuture<'a, Result<(), TrialFailure>> {
    async move {
        let unreached = || TrialFailure::Unanswered("it cannot be reached".to_owned());
        let peer = membership.peer(owner).ok_or_else(unreached)?;
        let largest = request.config.len() + (1 << 20);
        let mut client = AdminServiceClient::new(peer.channel())
            .max_encoding_message_size(largest)
            .max_decoding_message_size(2 * largest + (8 << 20));
        let mut request = peer.request(request, caller);
        request.metadata_mut().insert(TRIAL_HEADER, AsciiMetadataValue::from_static("yes"));
        match client.validate_config(request).await {
            Ok(answer) => {
                let si::UpdateConfigurationResponse { success, reason, .. } = answer.into_inner();
                if success { Ok(()) } else { Err(TrialFailure::Refused(reason)) }
            }
            Err(status) if is_gone(&status) => Ok(()),
            Err(status) if is_final(&status) => {
                Err(TrialFailure::Refused(status.message().to_owned()))
            }
            Err(status) => Err(TrialFailure::Unanswered(status.message().to_owned())),
        }
    }
    .boxed()
}

/// Whether the RM is no longer served there: it reads the new text when it registers again.
fn is_gone(status: &Status) -> bool {
    let reason = status.metadata().get(REASON_TRAILER);
    reason.is_some_and(|reason| reason == "RM_NOT_REGISTERED" || reason == "NOT_OWNER")
}

/// Whether another trial of the text would end in the same way.
fn is_final(status: &Status) -> bool {
    let reason = status.metadata().get(REASON_TRAILER);
    matches!(
        status.code(),
        Code::InvalidArgument
            | Code::OutOfRange
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::Unimplemented
    ) || reason.is_some_and(|reason| reason == "LIMIT_BYTES")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_refusal_is_enough_among_members_that_do_not_answer() {
        let silent = || TrialFailure::Unanswered("no answer".to_owned()).at("m2", "two");
        let refused = TrialFailure::Refused("in use".to_owned()).at("m1", "one");
        let text = "member `m2`, resource manager `two`: no answer".to_owned();
        assert_eq!(refusal_of(vec![silent()]), ChangeRefusal::Untried(text.clone()));
        let all = format!("member `m1`, resource manager `one`: in use\n{text}");
        assert_eq!(refusal_of(vec![silent(), refused]), ChangeRefusal::Refused(all));
    }

    #[test]
    fn a_busy_member_may_be_asked_again() {
        for (status, is_the_end) in [
            (Status::unavailable("busy"), false),
            (Status::deadline_exceeded("late"), false),
            (Status::resource_exhausted("others read"), false),
            (Status::invalid_argument("masked"), true),
            (Status::out_of_range("too long"), true),
            (Status::permission_denied("not this caller"), true),
        ] {
            assert_eq!(is_final(&status), is_the_end, "{status}");
        }
    }
}
