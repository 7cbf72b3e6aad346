//! Intake of an RM's requests, in order: each is translated, sent to the partitions a few chunks at
//! a time, and acknowledged. While too many items wait, no request is acknowledged, so that the
//! senders wait, too.

use std::sync::Arc;

use actix::prelude::*;
use tokio::sync::oneshot;

use super::Rm;
use super::held_back::Deferred;
use super::link::PartitionLink;
use super::requests::{Body, Update};
use crate::api::users::GroupAnswers;
use crate::front::translate::{Chunks, Translated};
use crate::mailbox::Receive;
use crate::partition::{Entry, LocalRequest, Reports};
use crate::session::Barrier;

impl Rm {
    pub(super) fn update(&mut self, Update { body, taken }: Update, answers: &GroupAnswers) {
        let translated = match body {
            Body::Allocation(request) => self.translator.allocations(request),
            Body::Application(request) => self.translator.applications(request, answers),
            Body::Node(request) => self.translator.nodes(request),
            Body::Utilization(reports) => self.for_measured(reports),
            Body::Barrier(reply) => self.for_barrier(reply),
        };
        self.deliver("", translated.refused);
        self.hand_in(translated.chunks);
        self.check_names();
        let is_behind = self.waiting_items() > self.settings.intake.waiting_items;
        let taken = if is_behind {
            self.blocked.push(taken);
            None
        } else {
            Some(taken)
        };
        // The chunks are sent before the sender is woken, since it may need a core.
        self.pump();
        if let Some(taken) = taken {
            let _ = taken.send(Ok(()));
        }
    }

    /// Returns a barrier for every partition. The reply is sent when the last copy is dropped.
    fn for_barrier(&self, reply: oneshot::Sender<()>) -> Translated {
        let barrier = Arc::new(Barrier::new(reply, self.mailbox.destination()));
        self.for_each_partition(|| LocalRequest::Barrier(Arc::clone(&barrier)))
    }

    /// Returns measurements for every partition, since the measured nodes may be in any of them.
    fn for_measured(&self, reports: Reports) -> Translated {
        let reports = Arc::new(reports);
        self.for_each_partition(|| LocalRequest::Observe(Arc::clone(&reports)))
    }

    fn for_each_partition(&self, request: impl Fn() -> LocalRequest) -> Translated {
        let chunk = |name: &Arc<str>| (Arc::clone(name), vec![Entry::Local(request())]);
        Translated { chunks: self.partitions.keys().map(chunk).collect(), refused: Vec::new() }
    }

    /// Sends each partition the chunks that it may have in its inbox, and answers senders that waited
    /// for that.
    pub(super) fn pump(&mut self) {
        for partition in self.partitions.values_mut() {
            partition.send_waiting();
        }
        if self.waiting_items() <= self.settings.intake.waiting_items / 2 {
            for taken in self.blocked.drain(..) {
                // The sender may have given up.
                let _ = taken.send(Ok(()));
            }
        }
    }

    pub(super) fn waiting_items(&self) -> usize {
        self.partitions.values().map(PartitionLink::waiting_items).sum()
    }

    /// Appends requests to those that wait for their partitions. Drops requests for a lost partition.
    pub(super) fn hand_in(&mut self, chunks: Chunks) {
        for (name, chunk) in chunks {
            if let Some(partition) = self.partitions.get_mut(&name) {
                partition.append(chunk);
            } else {
                let partitions = &self.translator.partitions;
                debug_assert!(partitions.is_lost(&name), "translated for a known partition");
            }
        }
    }
}

impl Receive<Update> for Rm {
    fn receive(&mut self, update: Update, ctx: &mut Context<Self>) {
        if self.holds_back() {
            self.deferred.push_back(Deferred::Update(update));
        } else {
            self.process(update);
            self.arm_events(ctx);
        }
    }
}
