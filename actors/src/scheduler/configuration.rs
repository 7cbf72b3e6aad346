//! Operations on a running scheduler: changes of a configuration or of the state of a partition,
//! and deregistration of an RM (`docs/admin.md`, `docs/reloading.md`).
//!
//! Texts are read here, because in the front all RMs would wait for that.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_config::difference;
use monoceros_config::{ConfigErrors, PartitionConfig};
use monoceros_proto::si::v1 as si;
use monoceros_rules::queues::object_state::ObjectState;
use tokio::sync::oneshot;

use super::SchedulerHandle;
use super::reading::{off_thread, read, read_soon};
use crate::api::outcomes::{
    ConfigurationError, ConfigurationSnapshot, ConfigurationUpdate, OutcomeOfDefaults,
    PartitionStateError, PendingOutcome, Removed, TooBusy, UpdateError,
};
use crate::front::default_queues::DefaultsOf;
use crate::front::document::Document;
use crate::front::rm::{ChangeState, Comparison, Effect, Outcome, Reconfigure};
use crate::front::rm_proxy::{
    Affected, ChangePartition, Configure, Deregister, FindConfiguration, FindDefaultQueues,
    OfferPolicyQueues, SetDefaultQueues,
};
use crate::snapshot::QueueSnapshot;
use crate::views;

/// The most log lines about one change.
const LOGGED: usize = 20;

impl SchedulerHandle {
    /// Checks a configuration text as for a registration, with the same quotas. Returns its
    /// checksum, or its errors. At most two long texts are checked at once in a process.
    pub async fn check_configuration(
        &self,
        text: String,
    ) -> Result<Result<String, ConfigErrors>, TooBusy> {
        let read = read_soon(text, self.quotas).await?;
        Ok(read.map(|document| document.checksum.clone()))
    }

    /// Changes the configuration of an RM: both the queue part and the extra part, or neither. The
    /// queue part is `config`, else `configs`, else the default configuration. A text with the
    /// checksum of the present one is not applied again. The change keeps its order among requests
    /// of the RM; a long text (64 KiB) is ordered when it has been read. The returned configuration
    /// is in force.
    pub async fn update_configuration(
        &self,
        request: si::UpdateConfigurationRequest,
    ) -> Result<ConfigurationUpdate, ConfigurationError> {
        self.reconfigure(request, Effect::Apply).await
    }

    /// As [`Self::update_configuration`], for the queue part alone. The extra part of the RM stays.
    pub async fn update_queues(
        &self,
        rm_id: &str,
        yaml: &str,
    ) -> Result<ConfigurationUpdate, ConfigurationError> {
        let (rm_id, config) = (rm_id.to_owned(), yaml.to_owned());
        let request = si::UpdateConfigurationRequest { rm_id, config, ..Default::default() };
        self.reconfigure(request, Effect::Queues).await
    }

    /// The result that [`Self::update_configuration`] would have now.
    pub async fn validate_configuration(
        &self,
        request: si::UpdateConfigurationRequest,
    ) -> Result<ConfigurationUpdate, ConfigurationError> {
        self.reconfigure(request, Effect::None).await
    }

    async fn reconfigure(
        &self,
        request: si::UpdateConfigurationRequest,
        effect: Effect,
    ) -> Result<ConfigurationUpdate, ConfigurationError> {
        let given = if request.config.is_empty() { &request.configs } else { &request.config };
        // The session has the default for an empty text.
        let read = if given.is_empty() {
            None
        } else {
            Some(read_soon(given.clone(), self.quotas).await?)
        };
        let rm_id = request.rm_id.clone();
        let applied = !matches!(effect, Effect::None);
        let (reply, answer) = oneshot::channel();
        self.proxy.post(Configure(Reconfigure { request, read, effect, reply }));
        let outcome = answer.await.unwrap_or(Err(ConfigurationError::NotRegistered(rm_id)));
        completed(outcome, applied).await
    }

    /// The configuration in force for an RM; an empty id means the only RM.
    pub async fn configuration(
        &self,
        rm_id: &str,
    ) -> Result<ConfigurationSnapshot, ConfigurationError> {
        let (reply, answer) = oneshot::channel();
        self.proxy.post(FindConfiguration { rm_id: rm_id.to_owned(), reply });
        answer.await.unwrap_or_else(|_| Err(ConfigurationError::NotRegistered(rm_id.to_owned())))
    }

    /// The configuration of RMs that bring none, unless their policy group has a default of its
    /// own. It has no `rm_id`.
    pub async fn default_configuration(&self) -> Result<ConfigurationSnapshot, UpdateError> {
        let document = self.default_document().await?;
        Ok(ConfigurationSnapshot {
            rm_id: String::new(),
            policy_group: String::new(),
            config: document.text.to_string(),
            extra_config: BTreeMap::new(),
            checksum: document.checksum.clone(),
        })
    }

    /// The queues of a partition of [`Self::default_configuration`], with nothing in them; `None`
    /// if it has no such partition.
    pub async fn default_queue_tree(
        &self,
        partition: &str,
    ) -> Result<Option<QueueSnapshot>, UpdateError> {
        let document = self.default_document().await?;
        let found = document.partitions.iter().find(|it| &*it.config.name == partition);
        Ok(found.map(|found| views::configured_tree(&found.config.root)))
    }

    async fn default_document(&self) -> Result<Arc<Document>, UpdateError> {
        self.proxy.ask(FindDefaultQueues).await.map_err(|_| UpdateError::Stopped)
    }

    /// Changes the state of a partition of an RM: it takes nothing new ([`ObjectState::Draining`]),
    /// decides nothing ([`ObjectState::Stopped`]), or is active again. Returns the earlier state.
    /// The change keeps its order among requests of the RM.
    pub async fn set_partition_state(
        &self,
        rm_id: &str,
        partition: &str,
        to: ObjectState,
    ) -> Result<ObjectState, PartitionStateError> {
        let (reply, answer) = oneshot::channel();
        let change = ChangeState { partition: partition.to_owned(), to, reply };
        self.proxy.post(ChangePartition { rm_id: rm_id.to_owned(), change });
        let not_there = |_| PartitionStateError::PartitionNotFound(partition.to_owned());
        answer.await.map_err(not_there)?
    }

    /// Deregisters an RM. Its partitions are removed without notifications. Returns the numbers of
    /// removed objects, after the removal.
    pub async fn deregister(&self, rm_id: &str) -> Result<Removed, UpdateError> {
        let (reply, answer) = oneshot::channel();
        let deregister = Deregister { rm_id: rm_id.to_owned(), reply: Some(reply) };
        self.proxy.ask(deregister).await.map_err(|_| UpdateError::Stopped)??;
        // If the session panics before it replies, nothing is counted.
        Ok(answer.await.unwrap_or_default())
    }

    /// Sets the default queue configuration, for RMs that register without one from now on, and for
    /// those that did: each gets it as by [`Self::update_configuration`]. Empty: the embedded one.
    /// Does not affect RMs whose policy group has [a default of its own](Self::set_policy_queues).
    /// Returns the result for each affected RM.
    pub async fn set_default_queues(
        &self,
        yaml: &str,
    ) -> Result<Vec<OutcomeOfDefaults>, ConfigErrors> {
        Ok(outcomes(self.begin_default_queues(None, yaml).await?).await)
    }

    /// As [`Self::set_default_queues`], for the RMs of one policy group. Empty: removes the default
    /// of the group.
    pub async fn set_policy_queues(
        &self,
        group: &str,
        yaml: &str,
    ) -> Result<Vec<OutcomeOfDefaults>, ConfigErrors> {
        Ok(outcomes(self.begin_default_queues(Some(group), yaml).await?).await)
    }

    /// As [`Self::set_default_queues`], or [`Self::set_policy_queues`] for a group, and returns once
    /// RMs that register get the configuration. The results of the affected RMs are pending: one
    /// whose partition hangs does not answer.
    pub async fn begin_default_queues(
        &self,
        group: Option<&str>,
        yaml: &str,
    ) -> Result<Vec<PendingOutcome>, ConfigErrors> {
        let of = group.map_or(DefaultsOf::Others, |group| DefaultsOf::Group(group.to_owned()));
        let document = if yaml.is_empty() { None } else { Some(read(yaml.to_owned()).await?) };
        let set = SetDefaultQueues { of, document };
        let Ok(Affected { rms }) = self.proxy.ask(set).await else { return Ok(Vec::new()) };
        Ok(rms.into_iter().map(|(rm_id, answer)| pending(rm_id, answer)).collect())
    }

    /// As [`Self::set_policy_queues`], for a group without a default, and only for RMs that
    /// register from now on: for a caller that sends it together with a registration.
    pub async fn offer_policy_queues(&self, group: &str, yaml: &str) -> Result<(), ConfigErrors> {
        let document = read(yaml.to_owned()).await?;
        let group = group.to_owned();
        // If the scheduler has ended, the registration that follows fails.
        let _ = self.proxy.ask(OfferPolicyQueues { group, document }).await;
        Ok(())
    }
}

/// The pending result of a changed default for an RM, which sends `answer`.
fn pending(rm_id: String, answer: oneshot::Receiver<Outcome>) -> PendingOutcome {
    let id = rm_id.clone();
    let update = async move {
        let outcome = answer.await.unwrap_or(Err(ConfigurationError::NotRegistered(id)));
        completed(outcome, true).await
    };
    (rm_id, Box::pin(update))
}

/// Awaits the results of all RMs.
async fn outcomes(pending: Vec<PendingOutcome>) -> Vec<OutcomeOfDefaults> {
    let mut outcomes = Vec::with_capacity(pending.len());
    for (rm_id, update) in pending {
        outcomes.push((rm_id, update.await));
    }
    outcomes
}

fn configs(document: &Document) -> Vec<Arc<PartitionConfig>> {
    document.partitions.iter().map(|wanted| Arc::clone(&wanted.config)).collect()
}

/// Completes the outcome by warnings and differences, and logs these if the change was applied.
async fn completed(
    outcome: Outcome,
    applied: bool,
) -> Result<ConfigurationUpdate, ConfigurationError> {
    let (mut update, Comparison { old, new, usage }) = outcome?;
    update.warnings = new.types.warnings(&new.warnings, &usage.types());
    if !update.changed {
        return Ok(update);
    }
    let size = old.text.len() + new.text.len();
    let difference =
        off_thread(size, move || difference::between(&configs(&old), &configs(&new), Some(&usage)));
    update.difference = difference.await;
    if applied {
        for change in update.difference.summary(LOGGED) {
            tracing::info!(rm = update.rm_id, change, "configuration changed");
        }
    }
    Ok(update)
}
