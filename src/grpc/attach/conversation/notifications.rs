//! Notifications of the scheduler and of the RM's other streams, and questions of the scheduler.
//!
//! Messages of the RM are processed here before the scheduler receives them, so that the shim's
//! cache never lags behind the RM's own messages.

use monoceros_actors::{AllocationNotices, QuestionId, Scope, Verdict};
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1::core_message::Body;
use tokio::time::Instant;

use super::super::batching::{Answer, Question};
use super::super::presence::PredicateMode;
use super::super::results::clamped;
use super::{Conversation, Effect};

impl Conversation {
    /// Asks predicates.
    pub(in crate::grpc::attach) fn ask(&mut self, now: Instant, questions: Vec<Question>) {
        for question in questions {
            let ticket = question.ticket;
            let batcher = self.stream.as_mut().and_then(|stream| stream.batcher.as_mut());
            let answer = match (self.mode, batcher) {
                (PredicateMode::Local, _) => {
                    Some(Verdict::Passed { position: 0, scope: Scope::Topology, assumed: false })
                }
                (PredicateMode::Fail, _) => {
                    let reasons = everywhere("no shim is attached", &question);
                    Some(Verdict::Presumed { reasons })
                }
                (PredicateMode::Remote { holds: false }, _) if question.group.is_some() => {
                    // The question was asked for the earlier stream. The present shim only knows
                    // requests.
                    Some(Verdict::Passed { position: 0, scope: Scope::Static, assumed: false })
                }
                (PredicateMode::Remote { .. }, Some(_)) if question.candidates.is_empty() => {
                    let reasons = everywhere("the shim could not have it there", &question);
                    Some(Verdict::Failed { reasons })
                }
                (PredicateMode::Remote { .. }, Some(batcher)) => {
                    batcher.ask(question).map(|answer| answer.verdict)
                }
                (PredicateMode::Remote { .. }, None) | (PredicateMode::Hold, _) => {
                    Some(Verdict::Unanswered)
                }
            };
            self.effects.extend(answer.map(|verdict| Effect::Answer(Answer { ticket, verdict })));
        }
        self.send_what_is_ready(now);
    }

    /// Cancels questions.
    pub(in crate::grpc::attach) fn cancel(&mut self, now: Instant, ids: &[QuestionId]) {
        let batcher = self.stream.as_mut().and_then(|stream| stream.batcher.as_mut());
        if let Some(turn) = batcher.map(|batcher| batcher.cancel(ids)) {
            self.carry_out(now, turn);
            self.send_what_is_ready(now);
        }
    }

    /// Processes an allocation response for the RM.
    pub(in crate::grpc::attach) fn allocations(
        &mut self,
        now: Instant,
        response: si::AllocationResponse,
    ) {
        let mut batcher = self.stream.as_mut().and_then(|stream| stream.batcher.as_mut());
        let step = self.cache.pass(now, response, |allocation| {
            let si::Allocation { application_id, allocation_key, node_id, .. } = allocation;
            match &mut batcher {
                Some(batcher) => batcher.confirm(application_id, allocation_key, node_id),
                None => false,
            }
        });
        for sync in step.assume.into_iter().chain(step.forget) {
            self.push(now, Body::CacheSync(sync));
        }
        self.effects.extend(step.deliver.into_iter().map(Effect::Deliver));
    }

    /// Records an allocation notification, if nothing else is needed. Otherwise returns false, and
    /// the caller has to pass the response to [`allocations`](Self::allocations).
    pub(in crate::grpc::attach) fn record(&mut self, notification: &AllocationNotices<'_>) -> bool {
        let mut batcher = self.stream.as_mut().and_then(|stream| stream.batcher.as_mut());
        self.cache.record(notification, |new| {
            if let Some(batcher) = &mut batcher {
                batcher.confirm(new.application_id(), new.allocation_key(), new.node_id());
            }
        })
    }

    /// Records a response about nodes.
    pub(in crate::grpc::attach) fn nodes(&mut self, now: Instant, response: &si::NodeResponse) {
        for node in &response.accepted {
            self.dictionary.keep(&node.node_id);
            self.cache.node_answered(&node.node_id, true);
        }
        for node in &response.rejected {
            self.cache.node_answered(&node.node_id, false);
        }
        if self.stream.as_ref().is_some_and(|stream| stream.batcher.is_some()) {
            for node in &response.accepted {
                self.dictionary.index(&node.node_id);
            }
            self.send_dictionary(now);
        }
    }

    /// Records a request that the RM reports as running.
    pub(in crate::grpc::attach) fn reported(&mut self, application: &str, key: &str) {
        self.cache.reported(application, key);
    }

    /// Records a request that the RM reports as running on a new node.
    pub(in crate::grpc::attach) fn reported_with(
        &mut self,
        node: &str,
        application: &str,
        key: &str,
    ) {
        self.cache.reported_with(node, application, key);
    }

    /// Records a release by the RM that the scheduler does not answer.
    pub(in crate::grpc::attach) fn released_by_rm(&mut self, release: &si::AllocationRelease) {
        self.cache.released_by_rm(release);
    }

    /// Records that the RM removes a node.
    pub(in crate::grpc::attach) fn node_removed(&mut self, now: Instant, node: &str) {
        self.dictionary.mark_removed(now, node);
    }

    /// Queues events.
    pub(in crate::grpc::attach) fn push_events(
        &mut self,
        now: Instant,
        events: Vec<si::EventRecord>,
    ) {
        let dropped = self.events.push(events);
        self.metrics.dropped_events.inc_by(dropped);
        self.send_what_is_ready(now);
    }

    /// Queues scheduling states of requests.
    pub(in crate::grpc::attach) fn push_states(
        &mut self,
        now: Instant,
        states: Vec<si::UpdateContainerSchedulingStateRequest>,
    ) {
        self.states.push(now, states);
        self.send_what_is_ready(now);
    }
}

/// This reason for all nodes of the question.
fn everywhere(reason: &str, question: &Question) -> Vec<(String, u32)> {
    vec![(reason.to_owned(), clamped(question.nodes.len()))]
}
