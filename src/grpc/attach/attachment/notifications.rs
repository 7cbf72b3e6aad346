//! Notifications to an attachment, from the scheduler and from the RM's other streams.
//!
//! The RM's messages are processed before the scheduler receives them. Otherwise an allocation
//! reported by the RM could be announced to the shim as an allocation of the scheduler, and the
//! scheduler's answer could arrive before the report is recorded.

use monoceros_actors::{AllocationNotices, PredicateQuestion, QuestionId};
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::node_info::ActionFromRm;
use tokio::time::Instant;

use super::super::batching::{Question, Ticket};
use super::{Attachment, AttachmentState};

/// The tag of allocations that belong to no application of the scheduler, such as pods placed by
/// another scheduler. They count as usage and are not announced.
pub(super) const FOREIGN: &str = "foreign";

/// Longest node id recorded here; the scheduler refuses longer ones.
const ID_BYTES: usize = 1_024;

impl Attachment {
    /// Asks predicates for a partition.
    pub fn ask_predicates(&self, questions: Vec<PredicateQuestion>) {
        let mut state = self.lock();
        let questions = questions.into_iter().map(|question| state.question(question)).collect();
        self.work_on(&mut state, |conversation, now| conversation.ask(now, questions));
    }

    /// Cancels questions.
    pub fn cancel_predicates(&self, questions: &[QuestionId]) {
        self.work(|conversation, now| conversation.cancel(now, questions));
    }

    /// Processes an allocation response for the RM, and delivers it now or later.
    pub fn allocations(&self, response: si::AllocationResponse) {
        self.work(|conversation, now| conversation.allocations(now, response));
    }

    /// Records an allocation notification. Returns true if nothing else is needed: no stream keeps
    /// a cache that must be synced first, and no earlier response is withheld. A later stream
    /// receives the allocations in its initial snapshot.
    pub fn record(&self, notification: &AllocationNotices<'_>) -> bool {
        self.lock().conversation.record(notification)
    }

    /// Records a response about nodes.
    pub fn nodes(&self, response: &si::NodeResponse) {
        self.work(|conversation, now| conversation.nodes(now, response));
    }

    /// Queues events for a shim that wants them.
    pub fn events(&self, events: Vec<si::EventRecord>) {
        self.work(|conversation, now| conversation.push_events(now, events));
    }

    /// Queues scheduling states of requests for a shim that wants them.
    pub fn container_states(&self, states: Vec<si::UpdateContainerSchedulingStateRequest>) {
        self.work(|conversation, now| conversation.push_states(now, states));
    }

    /// Records allocations and releases of the RM. Call it before the scheduler receives them.
    pub fn allocations_from_rm(&self, request: &si::AllocationRequest) {
        let lost = si::TerminationType::SchedulingFailedOnRm;
        let mut state = self.lock();
        let runs = |one: &&si::Allocation| {
            !one.node_id.is_empty() && !one.allocation_tags.contains_key(FOREIGN)
        };
        for allocation in request.allocations.iter().filter(runs) {
            let si::Allocation { application_id, allocation_key, .. } = allocation;
            state.conversation.reported(application_id, allocation_key);
        }
        let releases = request.releases.iter().flat_map(|all| &all.allocations_to_release);
        for release in releases.filter(|release| release.termination_type() == lost) {
            state.conversation.released_by_rm(release);
        }
    }

    /// Records nodes of the RM. Call it before the scheduler receives them.
    pub fn nodes_from_rm(&self, request: &si::NodeRequest) {
        let mut state = self.lock();
        let now = Instant::now();
        for node in &request.nodes {
            let id = &node.node_id;
            match node.action() {
                ActionFromRm::Decomission => state.conversation.node_removed(now, id),
                // The scheduler refuses a node with a longer id without naming it.
                ActionFromRm::Create | ActionFromRm::CreateDrain if id.len() <= ID_BYTES => {
                    for allocation in &node.existing_allocations {
                        let si::Allocation { application_id, allocation_key, .. } = allocation;
                        state.conversation.reported_with(id, application_id, allocation_key);
                    }
                }
                _ => {}
            }
        }
    }
}

impl AttachmentState {
    fn question(&mut self, question: PredicateQuestion) -> Question {
        let PredicateQuestion { id, application, key, group, nodes, allocate, bundle, answers } =
            question;
        let partition = self.sinks.number(answers);
        let candidates = (0..nodes.len()).collect();
        let ticket = Ticket { id, partition };
        Question { ticket, application, key, group, nodes, candidates, allocate, bundle }
    }
}
