//! The scheduler's callbacks to a session, and the way of each message from there to a stream.
//!
//! # Why nothing here waits
//! Callbacks run on the scheduler's threads: waiting for one client that does not read would stop
//! the scheduler for all. A message is queued in an outbox, or the session is lost.

use std::sync::Arc;

use monoceros_actors::{
    AllocationNotices, PredicateQuestion, PreemptionQuestions, QuestionId, ResourceManagerCallback,
    RmState, StateDump,
};
use monoceros_proto::si::legacy::v0::UpdateResponse;
use monoceros_proto::si::v1 as si;
use tracing::warn;

use super::Session;
use super::backlog::CrossesMark;
use crate::grpc::allocation_responses::QueuedAllocations;
use crate::grpc::attach::AllocationSink;
use crate::grpc::encoded::Encoded;
use crate::grpc::end::Cause;
use crate::grpc::kind::{Allocations, Applications, Dialect, Nodes, StreamKind};
use crate::grpc::legacy::{self, Legacy};
use crate::grpc::outbox::{Outbox, OutboxOverflow};
use crate::grpc::reply::Reply;
use crate::grpc::stream_handle::StreamHandle;

impl Session {
    /// The next message for `stream`, if it is the session's stream of its kind. `leaving` is
    /// called with a message that is sent for the first time.
    pub fn take<K: StreamKind>(
        &self,
        stream: &Arc<StreamHandle>,
        leaving: impl FnOnce(&K::Reply),
    ) -> Option<Encoded<K::Reply>> {
        let (reply, crosses) = K::outbox(self).take(stream, leaving)?;
        if crosses == CrossesMark(true) {
            self.review();
        }
        Some(reply)
    }

    /// Drops sent messages whose delivery is confirmed by the time elapsed.
    pub fn forget_confirmed(&self) {
        for (_, _, outbox) in self.outboxes() {
            outbox.forget_confirmed();
        }
    }

    /// Queues a message of the legacy dialect.
    pub fn push_legacy(&self, response: UpdateResponse) {
        self.enqueue(&self.legacy.outbox, response, Legacy::NAME);
    }

    /// Queues a message. The session is lost if the outbox is full: its client is too slow.
    fn enqueue<R: Reply>(&self, outbox: &Outbox<R>, reply: R, kind: &'static str) {
        match outbox.push(reply) {
            Ok(CrossesMark(false)) => {}
            Ok(CrossesMark(true)) => self.review(),
            Err(OutboxOverflow) => {
                warn!(rm = self.rm_id(), kind, "client reads too slowly, it has to register again");
                self.lose(Cause::Overflow);
            }
        }
    }
}

impl ResourceManagerCallback for Session {
    fn update_allocation(&self, response: si::AllocationResponse) {
        self.attachment.allocations(response);
    }

    fn allocations(&self, notification: AllocationNotices<'_>) {
        // The legacy dialect has its own messages, and a shim that keeps a cache is notified first.
        if self.speaks_legacy() || !self.attachment.record(&notification) {
            return self.update_allocation(notification.into_message());
        }
        self.enqueue(&self.allocations, QueuedAllocations::of(notification), Allocations::NAME);
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        if self.speaks_legacy() {
            return self.push_legacy(legacy::response::application(response));
        }
        self.enqueue(&self.applications, response, Applications::NAME);
    }

    fn update_node(&self, response: si::NodeResponse) {
        self.attachment.nodes(&response);
        if self.speaks_legacy() {
            return self.push_legacy(legacy::response::node(response));
        }
        self.enqueue(&self.nodes, response, Nodes::NAME);
    }

    fn dialect(&self) -> &'static str {
        self.live().status.dialect().map_or("none", Dialect::name)
    }

    fn application_placed(&self, partition: &str, application_id: &str, queue: Option<&str>) {
        if self.speaks_legacy() {
            self.legacy.placed(partition, application_id, queue);
        }
    }

    fn ask_predicates(&self, questions: Vec<PredicateQuestion>) {
        self.attachment.ask_predicates(questions);
    }

    fn cancel_predicates(&self, questions: Vec<QuestionId>) {
        self.attachment.cancel_predicates(&questions);
    }

    fn ask_preemption(&self, group: PreemptionQuestions) {
        self.attachment.ask_preemption(group);
    }

    fn send_events(&self, events: Vec<si::EventRecord>) {
        self.attachment.events(events);
    }

    fn update_container_scheduling_state(
        &self,
        states: Vec<si::UpdateContainerSchedulingStateRequest>,
    ) {
        self.attachment.container_states(states);
    }

    fn state_dump(&self) -> Option<&dyn StateDump> {
        self.attachment.provides_state().then_some(self)
    }

    fn resync_required(&self, cause: &str) {
        warn!(rm = self.rm_id(), cause, "state lost, the resource manager has to register again");
        self.lose(Cause::StateLost(cause.to_owned()));
    }
}

impl AllocationSink for Session {
    fn deliver(&self, response: si::AllocationResponse) {
        if self.speaks_legacy() {
            return self.push_legacy(self.legacy.allocation(response));
        }
        self.enqueue(&self.allocations, response.into(), Allocations::NAME);
    }
}

impl StateDump for Session {
    fn rm_state(&self) -> RmState {
        let attachment = Arc::clone(&self.attachment);
        Box::pin(async move { attachment.rm_state().await })
    }
}
