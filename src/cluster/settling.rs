//! Texts of registrations and files for policy groups: judging them, and writing them to the arbiter.

use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::config;
use monoceros_actors::{ConfigurationError, RegisterError};
use monoceros_cluster::{
    Configuration, GroupId, Judgement, Life, Occasion, Offer, Owner, Reply, Request, RmId,
    Snapshot, Versioned,
};
use monoceros_cluster_store::{Failure, OfferFailure, OfferOutcome, Offered, pack, unpack};
use monoceros_proto::si::v1 as si;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

use super::groups::{AGAIN, Groups, name_of, named};
use super::sharing::TrialFailure;
use crate::grpc::end::{ClaimRefusal, RegistrationRefusal};
use crate::grpc::registry::Brought;
use crate::settings::PolicyGroupConflict;

/// Time within which a text is checked, as the scheduler bounds it.
const CHECK_PATIENCE: Duration = Duration::from_secs(5);

impl Groups {
    /// Checks a text as the scheduler does, and returns its checksum.
    pub(super) async fn checksum(&self, text: &str) -> Result<String, RegistrationRefusal> {
        let checked = self.scheduler.check_configuration(text.to_owned());
        match checked.await {
            Ok(checked) => Ok(checked.map_err(RegisterError::from)?),
            Err(_) => Err(RegistrationRefusal::TooSlow(CHECK_PATIENCE)),
        }
    }

    /// Builds an offer of a text with this checksum.
    pub(super) fn offer_of(
        &self,
        (text, checksum): (&str, &str),
        source: &str,
        occasion: Occasion,
    ) -> Result<Offer, RegistrationRefusal> {
        let source = format!("{source}, member `{}`", self.me);
        let offer =
            pack(text).and_then(|packed| Offer::new(checksum.into(), packed, &source, occasion));
        offer.map_err(|why| RegistrationRefusal::ConfigTooLarge(why.to_string()))
    }

    /// Writes an offer to the arbiter. Reads whether other RMs of the group are served if the
    /// outcome depends on it.
    pub(super) async fn write(
        &self,
        id: &GroupId,
        rm_id: &str,
        offer: Offer,
    ) -> Result<Offered, RegistrationRefusal> {
        let refusal = |failure| refusal_of(id, failure);
        let offered = self.arbiter.offer(id, &offer).await.map_err(refusal)?;
        if offered.outcome != OfferOutcome::DependsOnOthers {
            return Ok(offered);
        }
        let GroupId::Named(group) = id else { return Ok(offered) };
        let is_shared = !self.others_of(group, rm_id).await?.is_empty();
        self.arbiter.offer(id, &offer.among_others(is_shared)).await.map_err(refusal)
    }

    /// Reads a record without applying it.
    pub(super) async fn read(
        &self,
        id: &GroupId,
    ) -> Result<Option<Versioned<Configuration>>, ClaimRefusal> {
        let read = self.arbiter.read_group(id).await;
        read.map(|(record, _)| record).map_err(|_| ClaimRefusal::ArbiterUnavailable)
    }

    /// Reads from the arbiter which other RMs of a group are served, with their owners.
    pub(super) async fn others_of(
        &self,
        group: &str,
        rm_id: &str,
    ) -> Result<Vec<(RmId, Owner)>, ClaimRefusal> {
        match self.arbiter.ask(Request::ReadAll).await {
            Ok(Reply::All(all)) => Ok(served_of(&all, group, rm_id)),
            _ => Err(ClaimRefusal::ArbiterUnavailable),
        }
    }

    /// Judges the configuration of a registration, and writes it if it counts and `writes` is set.
    /// Returns the text that counts in its place.
    pub(super) async fn judge(
        &self,
        brought: &Brought,
        writes: bool,
    ) -> Result<Option<String>, RegistrationRefusal> {
        let Brought { rm_id, policy_group, config, is_again, .. } = brought;
        let id = named(policy_group);
        let checksum = self.checksum(config).await?;
        let occasion = Occasion::Registration { is_again: *is_again, is_shared: None };
        let source = format!("resource manager `{rm_id}`");
        let offer = self.offer_of((config, &checksum), &source, occasion)?;
        let Offered { outcome, record } = if writes {
            self.write(&id, rm_id, offer).await?
        } else {
            self.try_offer(&id, rm_id, offer).await?
        };
        if outcome != OfferOutcome::Conflict && writes {
            self.state().own.remove(rm_id);
        }
        match outcome {
            OfferOutcome::Written => {
                let version = record.map(|record| record.value.version);
                info!(rm = rm_id, group = policy_group, version, "queue configuration written");
                Ok(None)
            }
            OfferOutcome::Older => {
                let Some(record) = record else { return Ok(None) };
                let version = record.value.version;
                if writes {
                    info!(rm = rm_id, group = policy_group, version, "newer queue configuration");
                }
                unpack(&record.value).map(Some).map_err(|why| {
                    RegistrationRefusal::PolicyUnreadable { group: policy_group.clone(), why }
                })
            }
            OfferOutcome::Conflict => {
                self.handle_conflict(brought, writes).await?;
                Ok(None)
            }
            OfferOutcome::InForce
            | OfferOutcome::DependsOnOthers
            | OfferOutcome::ChangedMeanwhile => Ok(None),
        }
    }

    /// Brings the scheduler's configurations for an RM without one up to date. If its group has none
    /// yet, the text of the group's file is written.
    pub(super) async fn settle_default(
        &self,
        brought: &Brought,
    ) -> Result<(), RegistrationRefusal> {
        let id = named(&brought.policy_group);
        self.state().own.remove(&brought.rm_id);
        let unavailable = |_| RegistrationRefusal::from(ClaimRefusal::ArbiterUnavailable);
        let (group, others) =
            tokio::join!(self.read_defaults(&id), self.read_defaults(&GroupId::Others));
        let (has_text, _) = (group.map_err(unavailable)?, others.map_err(unavailable)?);
        if let Some(file) = &brought.file
            && !has_text
        {
            let checksum = checksum_of_file(file).await?;
            let text = (&**file, &*checksum);
            let offer = self.offer_of(text, "a file", Occasion::FileAtStart)?;
            self.write(&id, &brought.rm_id, offer).await?;
            self.read_defaults(&id).await.map_err(unavailable)?;
        }
        Ok(())
    }

    /// Notes that an RM follows its group, whatever it brought.
    pub(super) fn follow(&self, rm_id: &str) {
        self.state().own.remove(rm_id);
    }

    /// Judges an offer by the present record, and writes nothing.
    async fn try_offer(
        &self,
        id: &GroupId,
        rm_id: &str,
        offer: Offer,
    ) -> Result<Offered, RegistrationRefusal> {
        let record = self.read(id).await?;
        let present = record.as_ref().map(|record| &record.value);
        let mut judgement = offer.judge(present);
        if let (Judgement::DependsOnOthers, GroupId::Named(group)) = (&judgement, id) {
            let is_shared = !self.others_of(group, rm_id).await?.is_empty();
            judgement = offer.among_others(is_shared).judge(present);
        }
        let outcome = match judgement {
            Judgement::Older => OfferOutcome::Older,
            Judgement::Conflict => OfferOutcome::Conflict,
            Judgement::InForce
            | Judgement::Write(_)
            | Judgement::DependsOnOthers
            | Judgement::ChangedMeanwhile => OfferOutcome::InForce,
        };
        Ok(Offered { outcome, record })
    }

    /// Refuses or reports an RM that brings another text than its group has.
    async fn handle_conflict(
        &self,
        brought: &Brought,
        is_registered: bool,
    ) -> Result<(), RegistrationRefusal> {
        let Brought { rm_id, policy_group, .. } = brought;
        let others = self.others_of(policy_group, rm_id).await?;
        let other = others.first().map(|(rm, _)| rm.0.to_string()).unwrap_or_default();
        let refusal =
            RegistrationRefusal::PolicyGroupConflict { group: policy_group.clone(), other };
        match self.conflict {
            PolicyGroupConflict::Reject => Err(refusal),
            PolicyGroupConflict::Warn if is_registered => {
                warn!(rm = %rm_id, conflict = %refusal, "policy group conflict");
                self.state().own.insert(rm_id.clone());
                Ok(())
            }
            PolicyGroupConflict::Warn => Ok(()),
        }
    }

    /// Offers the text of a file once. `Err`: it has to be tried again.
    async fn offer_file_once(
        &self,
        id: &GroupId,
        file: &str,
        text: &Arc<str>,
    ) -> Result<(), String> {
        let checksum = checksum_of_file(text).await.map_err(|why| why.to_string())?;
        let is_first = !self.state().files.contains(id);
        let occasion = if is_first { Occasion::FileAtStart } else { Occasion::FileChanged };
        let offer = match self.offer_of((text, &checksum), &format!("file `{file}`"), occasion) {
            Ok(offer) => offer,
            Err(reason) => {
                error!(file, %reason, "queue configuration not shared with the cluster");
                return Ok(());
            }
        };
        let offered = self.arbiter.offer(id, &offer).await.map_err(|why| why.to_string())?;
        self.state().files.insert(id.clone());
        let version = offered.record.map(|record| record.value.version);
        match offered.outcome {
            OfferOutcome::Written => info!(file, version, "queue configuration written"),
            OfferOutcome::Older => {
                let why = "its text was in force before, and a newer one is now";
                warn!(file, version, why, "queue configuration of a file not used");
            }
            _ => {}
        }
        self.read_and_apply(id).await.map_err(|why| why.to_string())
    }

    /// Offers the text of a file for a group, until the arbiter has answered.
    pub(super) async fn offer_file(&self, group: Option<&str>, file: &str, text: &Arc<str>) {
        let id = group.map_or(GroupId::Others, named);
        let mut is_reported = false;
        while let Err(reason) = self.offer_file_once(&id, file, text).await {
            if !std::mem::replace(&mut is_reported, true) {
                warn!(file, reason, "queue configuration not shared with the cluster yet");
            }
            sleep(AGAIN).await;
        }
    }

    /// Tries a text on an RM that is served here. One whose session has just ended reads the new
    /// text when it registers again.
    pub(super) async fn try_here(&self, rm_id: &str, text: &str) -> Result<(), TrialFailure> {
        let request = si::UpdateConfigurationRequest {
            rm_id: rm_id.to_owned(),
            config: text.to_owned(),
            ..Default::default()
        };
        let tried = timeout(CHECK_PATIENCE, self.scheduler.validate_configuration(request)).await;
        match tried {
            Ok(Ok(_) | Err(ConfigurationError::NotRegistered(_))) => Ok(()),
            Ok(Err(why)) => Err(why.into()),
            Err(_) => Err(TrialFailure::Unanswered("it was not tried in time".to_owned())),
        }
    }
}

/// Checks the text of a file as [`SchedulerHandle::set_default_queues`] does, which knows no quotas,
/// and returns its checksum. Empty for no text.
pub(super) async fn checksum_of_file(text: &Arc<str>) -> Result<String, RegistrationRefusal> {
    if text.is_empty() {
        return Ok(String::new());
    }
    let text = Arc::clone(text);
    let parsed = tokio::task::spawn_blocking(move || config::parse(&text));
    let parsed = parsed.await.map_err(|_| RegistrationRefusal::Internal)?;
    let errors = |errors| RegistrationRefusal::from(RegisterError::from(errors));
    Ok(parsed.map_err(errors)?.checksum)
}

/// RMs of a group except one, if their claims name members that live.
fn served_of(all: &Snapshot, group: &str, except: &str) -> Vec<(RmId, Owner)> {
    let lives = |owner: &Owner| {
        let record = all.members.get(&owner.member).map(|record| &record.value);
        record.is_some_and(|record| record.owner == *owner && record.life == Life::Alive)
    };
    let claims = all.claims.iter().map(|(rm, claim)| (rm, &claim.value));
    let of_group =
        claims.filter(|(rm, claim)| &*rm.0 != except && *claim.holder.policy_group == *group);
    let owned = of_group.filter_map(|(rm, claim)| Some((rm.clone(), claim.owner.clone()?)));
    owned.filter(|(_, owner)| lives(owner)).collect()
}

fn refusal_of(id: &GroupId, failure: OfferFailure) -> RegistrationRefusal {
    match failure {
        OfferFailure::Contended => ClaimRefusal::Contended.into(),
        OfferFailure::Store(Failure::NoAnswer(why)) => {
            warn!(failure = why, "a queue configuration was not written");
            ClaimRefusal::ArbiterUnavailable.into()
        }
        OfferFailure::Store(failure) => {
            let (group, why) = (name_of(id).to_owned(), failure.to_string());
            warn!(group, failure = why, "a queue configuration was not written");
            RegistrationRefusal::ConfigNotKept { group, why }
        }
    }
}
