//! What the scheduler, and the RM on its other streams, tell an attachment.
//!
//! The RM is heard before the scheduler is: an allocation that it reports must not be told to the
//! shim as one that the scheduler has made, and its answer could come before the note of it.

use monoceros_actors::{AllocationsTold, PredicateQuestion, QuestionId};
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::node_info::ActionFromRm;
use tokio::time::Instant;

use super::super::batching::{Question, Ticket};
use super::{Attachment, Guarded};

/// The tag of allocations that belong to no application of the scheduler, such as pods that were
/// placed by another: it counts what they take and tells nothing of them.
pub(super) const FOREIGN: &str = "foreign";

/// Most bytes in the id of a node that is remembered here: the scheduler refuses longer ones.
const ID_BYTES: usize = 1_024;

impl Attachment {
    /// Questions of a partition.
    pub fn ask_predicates(&self, questions: Vec<PredicateQuestion>) {
        let mut state = self.lock();
        let questions = questions.into_iter().map(|question| state.question(question)).collect();
        self.work_on(&mut state, |conversation, now| conversation.ask(now, questions));
    }

    /// Questions that are given up.
    pub fn cancel_predicates(&self, questions: &[QuestionId]) {
        self.work(|conversation, now| conversation.cancel(now, questions));
    }

    /// A response on its way to the RM, and where it goes from here, now or later.
    pub fn allocations(&self, response: si::AllocationResponse) {
        self.work(|conversation, now| conversation.allocations(now, response));
    }

    /// Takes note of what was told of allocations, and says whether that is all there is to do: that no
    /// stream keeps a view which would have to hear of it first, and nothing before it waits for one. A
    /// stream that comes after that has it in the list with which it begins.
    pub fn notes(&self, told: &AllocationsTold<'_>) -> bool {
        self.lock().conversation.notes(told)
    }

    /// Takes note of what the RM hears of its nodes.
    pub fn nodes(&self, response: &si::NodeResponse) {
        self.work(|conversation, now| conversation.nodes(now, response));
    }

    /// Takes events, for a shim that wants to hear of them.
    pub fn events(&self, events: Vec<si::EventRecord>) {
        self.work(|conversation, now| conversation.happened(now, events));
    }

    /// Takes new states of requests, for a shim that wants to hear of them.
    pub fn container_states(&self, states: Vec<si::UpdateContainerSchedulingStateRequest>) {
        self.work(|conversation, now| conversation.stands(now, states));
    }

    /// The RM sends allocations; to be called before the scheduler gets them.
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

    /// The RM sends nodes; to be called before the scheduler gets them.
    pub fn nodes_from_rm(&self, request: &si::NodeRequest) {
        let mut state = self.lock();
        let now = Instant::now();
        for node in &request.nodes {
            let id = &node.node_id;
            match node.action() {
                ActionFromRm::Decomission => state.conversation.node_removed(now, id),
                // A longer id is refused without being named.
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

impl Guarded {
    fn question(&mut self, question: PredicateQuestion) -> Question {
        let PredicateQuestion { id, application, key, group, nodes, allocate, bundle, answers } =
            question;
        let partition = self.sinks.number(answers);
        let candidates = (0..nodes.len()).collect();
        let ticket = Ticket { id, partition };
        Question { ticket, application, key, group, nodes, candidates, allocate, bundle }
    }
}
