//! Changes of the configuration of a session, and of the states of its partitions:
//! `docs/reloading.md`.
//!
//! # Steps of a change
//! The text was read before it is sent here ([`Document`]). Every partition is asked whether it
//! could take its part (`Input::Prepare`, in the order of the RM's requests). When all have
//! answered, all change, or none does. Partitions that are not configured any more report the end
//! of their applications and close; new ones start empty. Messages of the RM are held back until
//! all that is done, so that none meets half of a change.
//!
//! # When things go wrong
//! A partition that is lost before it has answered counts as a refusal. A partition that is lost while
//! it closes counts as closed. A session that ends drops the reply.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::prelude::*;
use monoceros_config as config;
use monoceros_config::difference::{Difference, PartitionUsage, Usage};
use monoceros_config::{ConfigErrors, PartitionConfig};
use monoceros_proto::si::v1 as si;

use super::Rm;
use super::held_back::Deferred;
use super::in_force::InForce;
use super::reconfiguration::Reconfiguration;
use super::requests::{ChangeState, Comparison, Effect, ReadConfiguration, Reconfigure};
use super::unused::warn_of_unused;
use crate::api::outcomes::{ConfigurationError, ConfigurationSnapshot, ConfigurationUpdate};
use crate::api::users::PartitionUsers;
use crate::front::document::Document;
use crate::front::translate::Chunks;
use crate::mailbox::Receive;
use crate::partition::{Conclude, Entry, Input, LocalRequest, PartitionDocument, StateChange};
use crate::session::Prepared;

/// A requested configuration that has passed all checks without the partitions.
enum Requested {
    /// The queues stay as they are.
    SameQueues(InForce),
    OtherQueues(InForce),
}

impl Rm {
    /// Whether messages of the RM are held back.
    pub(super) fn holds_back(&self) -> bool {
        self.reconfiguration.is_some() || self.resolving.is_some()
    }

    /// Handles messages that were held back, until one of them holds back the rest.
    pub(super) fn resume(&mut self) {
        while !self.holds_back()
            && let Some(deferred) = self.deferred.pop_front()
        {
            match deferred {
                Deferred::Update(update) => self.process(update),
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
        let requested = self.check(request, read, &effect);
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
        let next = match requested {
            Err(error) => {
                let _ = reply.send(Err(error));
                return;
            }
            Ok(Requested::SameQueues(next)) => {
                let _ = reply.send(Ok(answer(&next)));
                self.put_in_force(next, &effect);
                return;
            }
            Ok(Requested::OtherQueues(next)) => next,
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

    /// Puts a configuration in force. A change of the queues alone, or of the default, has no extra
    /// part, so the extra part of the RM stays.
    fn put_in_force(&mut self, next: InForce, effect: &Effect) {
        match effect {
            Effect::None => return,
            Effect::Apply => {
                self.events.apply_extra_config(&next.extra);
                warn_of_unused(&self.id, &next.extra);
            }
            Effect::Queues | Effect::Defaults(_) => {}
        }
        for wanted in &next.document.partitions {
            self.names.hold_all_of(&wanted.config.names);
        }
        self.in_force = next;
    }

    /// Checks a configuration as far as that is possible without the partitions.
    fn check(
        &self,
        request: si::UpdateConfigurationRequest,
        read: Option<Result<Arc<Document>, ConfigErrors>>,
        effect: &Effect,
    ) -> Result<Requested, ConfigurationError> {
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
            return Ok(Requested::SameQueues(self.in_force.clone()));
        }
        let is_default = read.is_none();
        let read = read.unwrap_or_else(|| Ok(Arc::clone(&self.default_queues)));
        let document = read.map_err(ConfigurationError::Invalid)?;
        for warning in &document.warnings {
            tracing::warn!(rm = %self.id, %warning, "queue configuration");
        }
        let extra = match effect {
            Effect::Queues | Effect::Defaults(_) => self.in_force.extra.clone(),
            Effect::Apply | Effect::None => request.extra_config.into_iter().collect(),
        };
        let policy_group = registered.clone();
        let in_force = &self.in_force.document;
        let is_same = document.checksum == in_force.checksum;
        let document = if is_same { Arc::clone(in_force) } else { document };
        let next = InForce { policy_group, document, extra, is_default };
        Ok(if is_same { Requested::SameQueues(next) } else { Requested::OtherQueues(next) })
    }

    /// Records the answer of a partition, or that it was lost.
    pub(super) fn answered(
        &mut self,
        partition: &Arc<str>,
        answer: Result<PartitionUsage, ConfigurationError>,
    ) {
        let Some(reconfiguration) = &mut self.reconfiguration else { return };
        if reconfiguration.record(partition, answer) {
            self.conclude();
        }
    }

    /// Applies or cancels the change, after all partitions have answered. They are paused until
    /// then.
    fn conclude(&mut self) {
        let Some(reconfiguration) = &mut self.reconfiguration else {
            debug_assert!(false, "a change is under way when its last answer arrives");
            return;
        };
        if reconfiguration.is_without_effect() {
            for held in self.partitions.values() {
                held.mailbox.post(Conclude::Forget);
            }
            self.reconfigured();
            return;
        }
        let effect = reconfiguration.effect.clone();
        let new = std::mem::take(&mut reconfiguration.partitions);
        let gone = self.partitions.keys().filter(|name| !new.contains_key(*name));
        reconfiguration.leaving = gone.cloned().collect();
        self.roster.forget(&reconfiguration.leaving);
        let next = reconfiguration.next.clone();
        self.put_in_force(next, &effect);
        for (name, held) in &self.partitions {
            held.mailbox.post(Conclude::Apply);
            let present = self.translator.partitions.users(name).map(PartitionUsers::configured);
            if let (Some(present), Some(PartitionDocument { config, .. })) =
                (present, new.get(name))
                && let wanted = &config.resolver
                && wanted != present
            {
                tracing::warn!(
                    rm = %self.id, partition = %name, present, wanted,
                    "another user group resolver needs a restart: the present one stays"
                );
            }
        }
        for (name, PartitionDocument { config, .. }) in new {
            if !self.partitions.contains_key(&name) {
                tracing::info!(rm = %self.id, partition = %name, "new partition");
                self.start_partition(name, config, None);
            }
        }
        tracing::info!(rm = %self.id, checksum = self.in_force.document.checksum, "new configuration");
        if self.reconfiguration.as_ref().is_some_and(|now| now.leaving.is_empty()) {
            self.reconfigured();
        }
    }

    /// Records the end of a partition. Returns whether it was expected, because the partition is
    /// not configured any more.
    pub(super) fn closed_as_configured(&mut self, partition: &Arc<str>) -> bool {
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
        self.resume();
    }

    fn change_state(&mut self, change: ChangeState) {
        let ChangeState { partition, to, reply } = change;
        let Ok(name) = config::qualified_name(&partition, &self.id) else { return };
        let known = self.partitions.get_key_value(name.as_str());
        let Some(partition) = known.map(|(partition, _)| Arc::clone(partition)) else { return };
        let request = LocalRequest::ChangeState(StateChange { to, reply });
        self.hand_in(Chunks::from([(partition, vec![Entry::Local(request)])]));
        self.pump();
    }
}

impl Receive<Reconfigure> for Rm {
    fn receive(&mut self, reconfigure: Reconfigure, ctx: &mut Context<Self>) {
        self.deferred.push_back(Deferred::Reconfigure(reconfigure));
        self.resume();
        self.arm_events(ctx);
    }
}

impl Receive<ChangeState> for Rm {
    fn receive(&mut self, change: ChangeState, ctx: &mut Context<Self>) {
        self.deferred.push_back(Deferred::ChangeState(change));
        self.resume();
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
