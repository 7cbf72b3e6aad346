//! Another configuration for a session, and other states for its partitions: `docs/reloading.md`.
//!
//! # How it goes
//! The text was read before it came here ([`Document`]). Every partition is asked whether it could
//! have its part of it (`Input::Prepare`, in the order of the RM's requests). When all have
//! answered, all change, or none does; partitions that are not configured any more tell of their
//! applications and close, new ones start empty. What the RM sends meanwhile is held back, so that
//! none of it meets half of a change.
//!
//! # When things go wrong
//! A partition that is lost before it answered counts as a refusal; one that is lost while it
//! closes is gone, which is what was wanted. A session that ends drops the reply.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::prelude::*;
use monoceros_config as config;
use monoceros_config::difference::{Difference, PartitionUsage, Usage};
use monoceros_config::{ConfigErrors, PartitionConfig};
use monoceros_proto::si::v1 as si;
use monoceros_rules::queues::object_state::ObjectState;
use tokio::sync::oneshot;

use super::{Document, Rm, Update};
use crate::api::outcomes::{
    ConfigurationError, ConfigurationSnapshot, ConfigurationUpdate, PartitionStateError,
};
use crate::api::users::PartitionUsers;
use crate::front::translate::Chunks;
use crate::mailbox::Receive;
use crate::partition::{Conclude, Entry, Input, LocalErrand, StateChange, Wanted};
use crate::session::Prepared;

/// The policy group of a registration that names none.
const POLICY_GROUP: &str = "queues";

/// The policy group that the registration belongs to.
pub(crate) fn policy_group(request: &si::RegisterResourceManagerRequest) -> &str {
    let group = request.policy_group.as_str();
    if group.is_empty() { POLICY_GROUP } else { group }
}

/// The configuration of a session.
#[derive(Clone)]
pub(crate) struct InForce {
    policy_group: String,
    document: Arc<Document>,
    extra: BTreeMap<String, String>,
    /// Whether no text was given, so that the default one counts.
    is_default: bool,
}

impl InForce {
    /// The configuration of a registration, with its text as it was read.
    pub(crate) fn of(
        request: &si::RegisterResourceManagerRequest,
        document: Arc<Document>,
    ) -> Self {
        Self {
            policy_group: policy_group(request).to_owned(),
            document,
            extra: request.extra_config.clone().into_iter().collect(),
            is_default: request.config.is_empty(),
        }
    }

    /// What the RM says of itself beside its queues.
    pub(crate) fn extra(&self) -> &BTreeMap<String, String> {
        &self.extra
    }

    pub(crate) fn policy_group(&self) -> &str {
        &self.policy_group
    }

    /// The queue part of the configuration.
    pub(crate) fn document(&self) -> Arc<Document> {
        Arc::clone(&self.document)
    }
}

/// What a configuration is sent for.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Apply,
    /// It is only tried.
    None,
    /// It is the default configuration from now on.
    Defaults(Arc<Document>),
}

/// Another configuration. From the embedding API.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Reconfigure {
    pub(crate) request: si::UpdateConfigurationRequest,
    /// What the text of the request means; `None` if it has no text.
    pub(crate) read: Option<Result<Arc<Document>, ConfigErrors>>,
    pub(crate) effect: Effect,
    pub(crate) reply: oneshot::Sender<Outcome>,
}

/// The answer to a [`Reconfigure`].
pub(crate) type Outcome = Result<(ConfigurationUpdate, Comparison), ConfigurationError>;

/// Two configurations that are to be compared.
#[derive(Clone)]
pub(crate) struct Comparison {
    pub(crate) old: Arc<Document>,
    pub(crate) new: Arc<Document>,
    /// What is in use where the new one lets use less.
    pub(crate) usage: Usage,
}

/// Asks for the configuration in force. From the embedding API.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ReadConfiguration {
    pub(crate) reply: oneshot::Sender<Result<ConfigurationSnapshot, ConfigurationError>>,
}

/// Puts a partition, named as in requests, into another state. From the embedding API. If there is
/// no such partition, the reply is dropped.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ChangeState {
    pub(crate) partition: String,
    pub(crate) to: ObjectState,
    pub(crate) reply: oneshot::Sender<Result<ObjectState, PartitionStateError>>,
}

/// A message that came while a configuration was on its way, or a request waited for its owners.
pub(super) enum Deferred {
    Update(Update),
    Reconfigure(Reconfigure),
    ChangeState(ChangeState),
}

/// A configuration that is being put in force.
pub(super) struct Reconfiguration {
    next: InForce,
    partitions: BTreeMap<Arc<str>, Wanted>,
    /// Partitions that have not answered yet whether they could change.
    unanswered: BTreeSet<Arc<str>>,
    /// Partitions that close.
    leaving: BTreeSet<Arc<str>>,
    effect: Effect,
    outcome: Outcome,
    reply: oneshot::Sender<Outcome>,
}

/// The outcome of a request before any partition is asked.
enum Opening {
    /// Nothing of the queues changes.
    Same(InForce),
    Other(InForce),
}

impl Rm {
    /// Whether messages of the RM must wait.
    pub(super) fn holds_back(&self) -> bool {
        self.reconfiguration.is_some() || self.resolving.is_some()
    }

    /// Handles the messages that were held back, until something holds the rest back again.
    pub(super) fn go_on(&mut self) {
        while !self.holds_back()
            && let Some(deferred) = self.deferred.pop_front()
        {
            match deferred {
                Deferred::Update(update) => self.take_up(update),
                Deferred::Reconfigure(reconfigure) => self.reconfigure(reconfigure),
                Deferred::ChangeState(change) => self.change_state(change),
            }
        }
    }

    fn reconfigure(&mut self, reconfigure: Reconfigure) {
        let Reconfigure { request, read, effect, reply } = reconfigure;
        if let Effect::Defaults(document) = &effect {
            self.default_queues = Arc::clone(document);
        }
        let opening = self.open(request, read, &effect);
        let old = Arc::clone(&self.in_force.document);
        let answer = |next: &InForce| {
            let new = Arc::clone(&next.document);
            let update = ConfigurationUpdate {
                rm_id: self.id.to_string(),
                old_config: old.text.to_string(),
                old_checksum: old.checksum.clone(),
                changed: new.checksum != old.checksum,
                new_checksum: new.checksum.clone(),
                difference: Difference::default(),
                warnings: Vec::new(),
            };
            (update, Comparison { old: Arc::clone(&old), new, usage: Usage::default() })
        };
        let next = match opening {
            Err(error) => {
                let _ = reply.send(Err(error));
                return;
            }
            Ok(Opening::Same(next)) => {
                let _ = reply.send(Ok(answer(&next)));
                self.put_in_force(next, &effect);
                return;
            }
            Ok(Opening::Other(next)) => next,
        };
        let update = answer(&next);
        let name = |config: &PartitionConfig| Arc::from(format!("[{}]{}", self.id, config.name));
        let wanted = next.document.partitions.iter();
        let partitions: BTreeMap<Arc<str>, _> =
            wanted.map(|wanted| (name(&wanted.config), wanted.clone())).collect();
        let prepare = |partition: &Arc<str>| {
            let wanted = partitions.get(partition).cloned();
            (Arc::clone(partition), vec![Entry::Input(Input::Prepare(wanted))])
        };
        let chunks = self.partitions.keys().map(prepare).collect();
        self.reconfiguration = Some(Reconfiguration {
            next,
            partitions,
            unanswered: self.partitions.keys().cloned().collect(),
            leaving: BTreeSet::new(),
            effect,
            outcome: Ok(update),
            reply,
        });
        self.hand_in(chunks);
        self.pump();
    }

    /// Puts a configuration in force. Other defaults bring no extra part, and leave that of the RM as
    /// it is.
    fn put_in_force(&mut self, next: InForce, effect: &Effect) {
        match effect {
            Effect::None => return,
            Effect::Apply => {
                self.events.apply_extra_config(&next.extra);
                super::warn_of_unused(&self.id, &next.extra);
            }
            Effect::Defaults(_) => {}
        }
        for wanted in &next.document.partitions {
            self.names.hold_all_of(&wanted.config.names);
        }
        self.in_force = next;
    }

    /// Checks everything that can be checked without the partitions.
    fn open(
        &self,
        request: si::UpdateConfigurationRequest,
        read: Option<Result<Arc<Document>, ConfigErrors>>,
        effect: &Effect,
    ) -> Result<Opening, ConfigurationError> {
        let registered = &self.in_force.policy_group;
        if !request.policy_group.is_empty() && request.policy_group != *registered {
            let (given, registered) = (request.policy_group, registered.clone());
            return Err(ConfigurationError::PolicyGroup { given, registered });
        }
        if self.is_ending {
            return Err(ConfigurationError::NotRegistered(self.id.to_string()));
        }
        if self.translator.partitions.has_lost() {
            return Err(ConfigurationError::PartitionLost(self.id.to_string()));
        }
        let is_defaults = matches!(effect, Effect::Defaults(_));
        if is_defaults && !self.in_force.is_default {
            return Ok(Opening::Same(self.in_force.clone()));
        }
        let is_default = read.is_none();
        let read = read.unwrap_or_else(|| Ok(Arc::clone(&self.default_queues)));
        let document = read.map_err(ConfigurationError::Invalid)?;
        for warning in &document.warnings {
            tracing::warn!(rm = %self.id, %warning, "queue configuration");
        }
        let extra = if is_defaults {
            self.in_force.extra.clone()
        } else {
            request.extra_config.into_iter().collect()
        };
        let policy_group = registered.clone();
        let in_force = &self.in_force.document;
        let is_same = document.checksum == in_force.checksum;
        let document = if is_same { Arc::clone(in_force) } else { document };
        let next = InForce { policy_group, document, extra, is_default };
        Ok(if is_same { Opening::Same(next) } else { Opening::Other(next) })
    }

    /// Takes the answer of a partition, or the fact that it never will answer.
    pub(super) fn answered(
        &mut self,
        partition: &Arc<str>,
        answer: Result<PartitionUsage, ConfigurationError>,
    ) {
        let Some(reconfiguration) = &mut self.reconfiguration else { return };
        if !reconfiguration.unanswered.remove(partition) {
            return;
        }
        match (answer, &mut reconfiguration.outcome) {
            (Ok(used), Ok((_, Comparison { usage, .. }))) => {
                usage.partitions.insert(config::plain_name(partition).to_owned(), used);
            }
            (Err(error), outcome @ Ok(_)) => *outcome = Err(error),
            (_, Err(_)) => {}
        }
        if reconfiguration.unanswered.is_empty() {
            self.conclude();
        }
    }

    /// All partitions have answered and stand still.
    fn conclude(&mut self) {
        let Some(reconfiguration) = &mut self.reconfiguration else { return };
        let effect = reconfiguration.effect.clone();
        if matches!(effect, Effect::None) || reconfiguration.outcome.is_err() {
            for held in self.partitions.values() {
                held.mailbox.post(Conclude::Forget);
            }
            self.reconfigured();
            return;
        }
        let new = std::mem::take(&mut reconfiguration.partitions);
        let gone = self.partitions.keys().filter(|name| !new.contains_key(*name));
        reconfiguration.leaving = gone.cloned().collect();
        self.roster.forget(&reconfiguration.leaving);
        let next = reconfiguration.next.clone();
        self.put_in_force(next, &effect);
        for (name, held) in &self.partitions {
            held.mailbox.post(Conclude::Apply);
            let present = self.translator.partitions.users(name).map(PartitionUsers::configured);
            if let (Some(present), Some(Wanted { config, .. })) = (present, new.get(name))
                && let wanted = &config.resolver
                && wanted != present
            {
                tracing::warn!(
                    rm = %self.id, partition = %name, present, wanted,
                    "another user group resolver needs a restart: the present one stays"
                );
            }
        }
        for (name, Wanted { config, .. }) in new {
            if !self.partitions.contains_key(&name) {
                tracing::info!(rm = %self.id, partition = %name, "new partition");
                self.start_partition(name, config);
            }
        }
        tracing::info!(rm = %self.id, checksum = self.in_force.document.checksum, "new configuration");
        if self.reconfiguration.as_ref().is_some_and(|now| now.leaving.is_empty()) {
            self.reconfigured();
        }
    }

    /// Whether the partition is on its way out because it is not configured any more; then it has
    /// left now.
    pub(super) fn left_as_wanted(&mut self, partition: &Arc<str>) -> bool {
        let Some(reconfiguration) = &mut self.reconfiguration else { return false };
        if !reconfiguration.leaving.remove(partition) {
            return false;
        }
        if reconfiguration.leaving.is_empty() {
            self.reconfigured();
        }
        true
    }

    fn reconfigured(&mut self) {
        if let Some(reconfiguration) = self.reconfiguration.take() {
            let _ = reconfiguration.reply.send(reconfiguration.outcome);
        }
        self.go_on();
    }

    fn change_state(&mut self, change: ChangeState) {
        let ChangeState { partition, to, reply } = change;
        let Ok(name) = config::qualified_name(&partition, &self.id) else { return };
        let known = self.partitions.get_key_value(name.as_str());
        let Some(partition) = known.map(|(partition, _)| Arc::clone(partition)) else { return };
        let errand = LocalErrand::ChangeState(StateChange { to, reply });
        self.hand_in(Chunks::from([(partition, vec![Entry::Errand(errand)])]));
        self.pump();
    }
}

impl Receive<Reconfigure> for Rm {
    fn receive(&mut self, reconfigure: Reconfigure, ctx: &mut Context<Self>) {
        self.deferred.push_back(Deferred::Reconfigure(reconfigure));
        self.go_on();
        self.arm_events(ctx);
    }
}

impl Receive<ChangeState> for Rm {
    fn receive(&mut self, change: ChangeState, ctx: &mut Context<Self>) {
        self.deferred.push_back(Deferred::ChangeState(change));
        self.go_on();
        self.arm_events(ctx);
    }
}

impl Receive<Prepared> for Rm {
    fn receive(&mut self, Prepared { partition, answer }: Prepared, ctx: &mut Context<Self>) {
        self.answered(&partition, answer.map_err(ConfigurationError::from));
        self.arm_events(ctx);
    }
}

impl Receive<ReadConfiguration> for Rm {
    fn receive(
        &mut self,
        ReadConfiguration { reply }: ReadConfiguration,
        _ctx: &mut Context<Self>,
    ) {
        let InForce { policy_group, document, extra, .. } = self.in_force.clone();
        // The caller may have given up.
        let _ = reply.send(Ok(ConfigurationSnapshot {
            rm_id: self.id.to_string(),
            policy_group,
            config: document.text.to_string(),
            extra_config: extra,
            checksum: document.checksum.clone(),
        }));
    }
}
