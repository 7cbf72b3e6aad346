//! An RM's requests, in order: taken apart, handed to the partitions a few chunks at a time, and
//! acknowledged as long as not too much waits. A partition gets only a few chunks ahead, so that
//! controls and reads come through while a long message is under way.

use std::sync::Arc;

use actix::prelude::*;
use monoceros_proto::si::v1 as si;
use tokio::sync::oneshot;

use super::Rm;
use super::reconfiguring::Deferred;
use crate::api::users::GroupAnswers;
use crate::front::rm_proxy::Taken;
use crate::front::translate::{CHUNK, Chunks, Translated};
use crate::mailbox::Receive;
use crate::partition::{Chunk, Entry, LocalErrand, Reports};
use crate::session::Barrier;

/// The most chunks in the inbox of a partition.
const CHUNKS_AHEAD: usize = 2;

/// One request message.
pub(crate) enum Body {
    Allocation(si::AllocationRequest),
    Application(si::ApplicationRequest),
    Node(si::NodeRequest),
    /// Reports of what is really used.
    Utilization(Reports),
    /// A barrier: the reply comes when everything before it has been decided and said.
    Barrier(oneshot::Sender<()>),
}

/// A request of this RM; `taken` is answered once there is room for more.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Update {
    pub(crate) body: Body,
    pub(crate) taken: Taken,
}

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
        self.look_at_names();
        let is_behind = self.waiting_items() > self.settings.intake.waiting_items;
        let taken = if is_behind {
            self.blocked.push(taken);
            None
        } else {
            Some(taken)
        };
        // Before the sender, who may need a core for it, is woken.
        self.pump();
        if let Some(taken) = taken {
            let _ = taken.send(Ok(()));
        }
    }

    /// A barrier for every partition; the reply comes when the last has passed it on.
    fn for_barrier(&self, reply: oneshot::Sender<()>) -> Translated {
        let barrier = Arc::new(Barrier::new(reply, self.mailbox.destination()));
        self.for_each_partition(|| LocalErrand::Barrier(Arc::clone(&barrier)))
    }

    /// Reports for every partition, since each of them may know what was measured.
    fn for_measured(&self, reports: Reports) -> Translated {
        let reports = Arc::new(reports);
        self.for_each_partition(|| LocalErrand::Observe(Arc::clone(&reports)))
    }

    fn for_each_partition(&self, errand: impl Fn() -> LocalErrand) -> Translated {
        let chunk = |name: &Arc<str>| (Arc::clone(name), vec![Entry::Errand(errand())]);
        Translated { chunks: self.partitions.keys().map(chunk).collect(), refused: Vec::new() }
    }

    /// Hands each partition as many chunks as it may have ahead.
    pub(super) fn pump(&mut self) {
        for held in self.partitions.values_mut() {
            while held.ahead < CHUNKS_AHEAD {
                let Some(chunk) = held.waiting.pop_front() else { break };
                held.waiting_items -= chunk.iter().map(Entry::items).sum::<usize>();
                held.ahead += 1;
                held.mailbox.post(Chunk(chunk));
            }
        }
        if self.waiting_items() <= self.settings.intake.waiting_items / 2 {
            for taken in self.blocked.drain(..) {
                let _ = taken.send(Ok(()));
            }
        }
    }

    pub(super) fn waiting_items(&self) -> usize {
        self.partitions.values().map(|held| held.waiting_items).sum()
    }

    pub(super) fn hand_in(&mut self, chunks: Chunks) {
        for (partition, chunk) in chunks {
            let Some(held) = self.partitions.get_mut(&partition) else {
                debug_assert!(
                    self.translator.partitions.is_lost(&partition),
                    "translated for a known partition"
                );
                continue;
            };
            let items = chunk.iter().map(Entry::items).sum::<usize>();
            held.waiting_items += items;
            // Small messages that wait go together: a chunk costs a wake-up of the partition.
            match held.waiting.back_mut() {
                Some(last) if held.last_items + items <= CHUNK => {
                    held.last_items += items;
                    last.extend(chunk);
                }
                _ => {
                    held.last_items = items;
                    held.waiting.push_back(chunk);
                }
            }
        }
    }
}

impl Receive<Update> for Rm {
    fn receive(&mut self, update: Update, ctx: &mut Context<Self>) {
        if self.holds_back() {
            self.deferred.push_back(Deferred::Update(update));
        } else {
            self.take_up(update);
            self.arm_events(ctx);
        }
    }
}
