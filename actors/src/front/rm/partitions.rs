//! The partitions of a session: how they start, and what is done when one is lost or closes.

use std::sync::Arc;

use actix::prelude::*;
use monoceros_config::PartitionConfig;

use super::Rm;
use super::link::PartitionLink;
use crate::api::outcomes::ConfigurationError;
use crate::front::rosters::PartitionEntry;
use crate::front::settings::Threads;
use crate::mailbox::{Mailbox, Receive};
use crate::metrics::ActorKind;
use crate::partition::{
    Abandon, ApplyControl, Partition, PartitionImage, PartitionParams, UnknownNodes,
};
use crate::session::{PartitionClosed, PartitionLost, SessionLink};

impl Rm {
    pub(super) fn start_partition(
        &mut self,
        name: Arc<str>,
        config: Arc<PartitionConfig>,
        image: Option<Box<PartitionImage>>,
    ) {
        let users = self.users.of(&name, &config.resolver);
        self.names.hold_all_of(&config.names);
        if let Some(image) = &image {
            self.names.hold_all_of(&image.names);
        }
        self.metrics.actor_named(ActorKind::Partition, &name);
        let nth = self.partitions_so_far;
        self.partitions_so_far += 1;
        let unknown_nodes = if self.settings.intake.rejects_node_updates {
            UnknownNodes::Rejected
        } else {
            UnknownNodes::Ignored
        };
        let params = PartitionParams {
            name: Arc::clone(&name),
            nth,
            config,
            names: Arc::clone(&self.names),
            quotas: self.quotas,
            session: self.link(),
            callback: Arc::clone(&self.callback),
            clock: self.clock,
            reorder_window: self.settings.reorder_window,
            unknown_nodes,
            ended_applications: self.settings.ended_applications,
            decisions: self.settings.decisions,
            metrics: Arc::clone(&self.metrics),
            watch: self.settings.watch.clone(),
            tracking: self.settings.events.tracking(),
            run_times: self.settings.run_times.clone(),
            image,
        };
        let is_first = self.partitions.is_empty();
        let seat = match self.settings.threads {
            Threads::PerPartition => self.threads.seat(&self.id, &name, is_first),
            Threads::One => None,
        };
        let (seat, address) = match seat {
            Some((seat, thread)) => {
                let partition =
                    Partition::start_in_arbiter(&thread, |ctx| Partition::new(params, ctx));
                (Some(seat), partition)
            }
            None => (None, Partition::create(|ctx| Partition::new(params, ctx))),
        };
        let mailbox = Mailbox::new(address, &self.metrics);
        for control in &self.controls {
            mailbox.post(ApplyControl(control.clone()));
        }
        self.roster.add(PartitionEntry {
            rm_id: Arc::clone(&self.id),
            name: Arc::clone(&name),
            build_info: Arc::clone(&self.build_info),
            mailbox: mailbox.clone(),
        });
        self.translator.partitions.open(Arc::clone(&name), users);
        self.partitions.insert(name, PartitionLink::new(mailbox, seat));
    }

    /// The mailboxes by which a partition sends to its session.
    pub(super) fn link(&self) -> SessionLink {
        SessionLink {
            deliveries: self.mailbox.destination(),
            held: self.mailbox.destination(),
            prepared: self.mailbox.destination(),
            lost: self.mailbox.destination(),
            closed: self.mailbox.destination(),
        }
    }
}

impl Receive<PartitionLost> for Rm {
    fn receive(&mut self, PartitionLost { partition }: PartitionLost, ctx: &mut Context<Self>) {
        let Some(held) = self.partitions.remove(&partition) else {
            debug_assert!(false, "a partition is lost once, and only before it has closed");
            return;
        };
        self.translator.partitions.close(&partition);
        held.mailbox.post(Abandon);
        if let Some(seat) = &held.seat {
            seat.was_lost();
        }
        drop(held);
        if self.is_ending {
            if self.partitions.is_empty() {
                self.end(ctx);
            }
            return;
        }
        if self.closed_as_configured(&partition) {
            return;
        }
        self.metrics.actor_lost(ActorKind::Partition, &partition);
        tracing::error!(rm = %self.id, %partition, "partition lost, its RM must register again");
        if !self.silence.has_begun() {
            self.callback.resync_required(&format!("partition `{partition}` was lost"));
        }
        self.translator.partitions.lose(Arc::clone(&partition));
        let lost = ConfigurationError::PartitionLost(self.id.to_string());
        self.answered(&partition, Err(lost));
        self.pump();
    }
}

impl Receive<PartitionClosed> for Rm {
    fn receive(&mut self, closed: PartitionClosed, ctx: &mut Context<Self>) {
        let PartitionClosed { partition, removed } = closed;
        if self.partitions.remove(&partition).is_some() {
            self.translator.partitions.close(&partition);
        }
        self.removed.add(removed);
        if self.is_ending {
            if self.partitions.is_empty() {
                self.end(ctx);
            }
        } else {
            self.closed_as_configured(&partition);
        }
    }
}
