//! Configurations of policy groups as registrations, files and operators use them, and the trial of
//! a text on all members.
//!
//! # Trials
//! A text that an operator sets is first tried on every RM of the group, at the member that serves
//! the RM. The change is refused if an RM refuses the text, or a member does not answer. The text is
//! written only if the record is still the one that was read before the trial: of two changes at once
//! one is refused. The work at a member may change between trial and write: then that member keeps
//! the old configuration, and reports it.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream;
use monoceros_cluster::{Occasion, Owner, RmId};
use monoceros_cluster_store::{OfferOutcome, Offered};
use monoceros_proto::si::v1 as si;
use tokio::time::timeout;
use tonic::Status;
use tonic::metadata::AsciiMetadataValue;

use super::groups::{Groups, named};
use super::membership::Membership;
use super::settling::checksum_of_file;
use crate::grpc::end::{ClaimRefusal, RegistrationRefusal};
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

/// Tries a text on an RM of another member. Returns why the RM cannot have it.
pub(super) type Trial = for<'a> fn(
    &'a Arc<Membership>,
    &'a Owner,
    si::UpdateConfigurationRequest,
    &'a Identity,
) -> BoxFuture<'a, Result<(), String>>;

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
    ) -> Result<(), String> {
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
            tried.await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
        };
        let (member, rm) = (&owner.member.0, &rm.0);
        tried.map_err(|why| format!("member `{member}`, resource manager `{rm}`: {why}"))
    }

    /// Tries a text on all other RMs of the group. Returns the reasons of those that cannot have it.
    async fn try_everywhere(&self, change: &GroupChange, caller: &Identity) -> Result<(), String> {
        let others = self.groups.others_of(&change.policy_group, &change.rm_id).await;
        let others = others.map_err(|why| why.to_string())?;
        let trials = others.into_iter().map(|other| self.try_on(other, &change.config, caller));
        let mut reasons: Vec<_> = stream::iter(trials)
            .buffer_unordered(TRIALS)
            .filter_map(|tried| async { tried.err() })
            .collect()
            .await;
        if reasons.is_empty() {
            return Ok(());
        }
        reasons.sort_unstable();
        let n_more = reasons.len().saturating_sub(MAX_REASONS);
        let mut text = reasons[..reasons.len() - n_more].join("\n");
        if n_more > 0 {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n{n_more} more are left out");
        }
        Err(text)
    }

    async fn try_on_all(&self, change: &GroupChange, caller: &Identity) -> Result<Tried, String> {
        let before = self.groups.read(&named(&change.policy_group)).await;
        let before = before.map_err(|why| why.to_string())?;
        self.try_everywhere(change, caller).await?;
        Ok(Tried(before.map_or(0, |record| record.value.version)))
    }

    async fn set(
        &self,
        change: &GroupChange,
        Tried(tried_at): Tried,
        caller: &Identity,
    ) -> Result<(), String> {
        let groups = &self.groups;
        let id = named(&change.policy_group);
        let checksum = groups.checksum(&change.config).await.map_err(|why| why.to_string())?;
        let source = format!("set for `{}` by `{}`", change.rm_id, caller.name());
        let text = (&*change.config, &*checksum);
        let offer = groups.offer_of(text, &source, Occasion::Set { tried_at });
        let offer = offer.map_err(|why| why.to_string())?;
        let written = groups.write(&id, &change.rm_id, offer).await;
        let Offered { outcome, record } = written.map_err(|why| why.to_string())?;
        match outcome {
            OfferOutcome::Written | OfferOutcome::InForce => {
                groups.follow(&change.rm_id);
                groups.note_due(id);
                Ok(())
            }
            _ => {
                let group = &change.policy_group;
                let newer = record.map(|record| record.value);
                let newer = newer.map(|it| format!(": version {}, {}", it.version, it.source));
                let newer = newer.unwrap_or_default();
                Err(format!(
                    "the configuration of policy group `{group}` was changed meanwhile{newer}"
                ))
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
    ) -> BoxFuture<'a, Result<Tried, String>> {
        self.try_on_all(change, caller).boxed()
    }

    fn set<'a>(
        &'a self,
        change: &'a GroupChange,
        tried: Tried,
        caller: &'a Identity,
    ) -> BoxFuture<'a, Result<(), String>> {
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

/// Tries a text over the connection to another member.
pub(super) fn over_peers<'a>(
    membership: &'a Arc<Membership>,
    owner: &'a Owner,
    request: si::UpdateConfigurationRequest,
    caller: &'a Identity,
) -> BoxFuture<'a, Result<(), String>> {
    async move {
        let peer = membership.peer(owner).ok_or("it cannot be reached")?;
        let largest = request.config.len() + (1 << 20);
        let mut client = AdminServiceClient::new(peer.channel())
            .max_encoding_message_size(largest)
            .max_decoding_message_size(2 * largest + (8 << 20));
        let mut request = peer.request(request, caller);
        request.metadata_mut().insert(TRIAL_HEADER, AsciiMetadataValue::from_static("yes"));
        match client.validate_config(request).await {
            Ok(answer) => {
                let si::UpdateConfigurationResponse { success, reason, .. } = answer.into_inner();
                if success { Ok(()) } else { Err(reason) }
            }
            Err(status) if is_gone(&status) => Ok(()),
            Err(status) => Err(status.message().to_owned()),
        }
    }
    .boxed()
}

/// Whether the RM is no longer served there: it reads the new text when it registers again.
fn is_gone(status: &Status) -> bool {
    let reason = status.metadata().get(REASON_TRAILER);
    reason.is_some_and(|reason| reason == "RM_NOT_REGISTERED" || reason == "NOT_OWNER")
}
