//! The notices of partitions, as the interface's messages.
//!
//! Notices go out in the order in which they were made. Neighbours of one kind share a message,
//! because a message for each would cost an RM more than the decision. They share it only as long
//! as a client that reads the lists of a message in their usual order (new, rejected, released)
//! sees them in that order, too.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::update_container_scheduling_state_request::SchedulingState;
use monoceros_rules::values::resources::Resources;
use monoceros_rules::work::allocations::Form;
use monoceros_rules::work::application_state::ApplicationState;
use monoceros_rules::work::rejection::Rejection;

use crate::api::callback::ResourceManagerCallback;
use crate::api::predicates::{PredicateQuestion, QuestionId};
use crate::step::{Allocated, Ending, Notice, Released, Successor};

/// The reasons that an RM is given with a request for which more machines would help.
const NO_NODE: &str = "request fits in its queue and no node has room for it";
const ALL_REFUSED: &str =
    "request fits in its queue and predicates refused every node with room for it";

/// The message under construction. `stage` is the list that was written to last.
#[derive(Default)]
struct Batch {
    allocation: si::AllocationResponse,
    application: si::ApplicationResponse,
    node: si::NodeResponse,
    states: Vec<si::UpdateContainerSchedulingStateRequest>,
    questions: Vec<PredicateQuestion>,
    withdrawn: Vec<QuestionId>,
    kind: Option<BatchKind>,
    stage: u8,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BatchKind {
    Allocation,
    Asks,
    Application,
    Node,
    States,
    Question,
    Withdrawal,
}

impl Batch {
    /// Sends the message under construction unless the next notice may join it.
    fn turn_to(&mut self, kind: BatchKind, stage: u8, callback: &dyn ResourceManagerCallback) {
        if self.kind != Some(kind) || stage < self.stage {
            self.send(callback);
        }
        self.kind = Some(kind);
        self.stage = stage;
    }

    /// Takes one more notice: it joins the message under construction, or has that sent first.
    fn take(&mut self, notice: Notice, partition: &str, callback: &dyn ResourceManagerCallback) {
        match notice {
            Notice::Allocated(allocated) => {
                self.turn_to(BatchKind::Allocation, 0, callback);
                self.allocation.new.push(allocation(*allocated, partition));
            }
            Notice::AskRejected { form, key, application, reason } => {
                self.turn_to(BatchKind::Allocation, 1, callback);
                self.reject_ask(form, &key, &application, &reason);
            }
            Notice::Released(released) => {
                self.turn_to(BatchKind::Allocation, 2, callback);
                self.allocation.released.push(release(*released, partition));
            }
            Notice::AskReleased { form: Form::Ask, key, application, message } => {
                self.turn_to(BatchKind::Allocation, 3, callback);
                self.allocation.released_asks.push(ask_release(
                    &key,
                    &application,
                    message,
                    partition,
                ));
            }
            Notice::AskReleased { key, application, message, .. } => {
                // A client in today's form knows no release of an ask: a message of its own, after
                // that of what is allocated.
                self.turn_to(BatchKind::Asks, 0, callback);
                let uuid = Arc::clone(&key);
                let released = Released {
                    application,
                    key,
                    uuid,
                    ending: Ending::Timeout,
                    message,
                    replaced_by: None,
                };
                self.allocation.released.push(release(released, partition));
            }
            Notice::ApplicationPlaced { id, queue } => {
                self.send(callback);
                callback.application_placed(partition, &id, queue.as_deref());
            }
            Notice::ApplicationAccepted(id) => {
                self.turn_to(BatchKind::Application, 0, callback);
                let accepted = si::AcceptedApplication { application_id: id.to_string() };
                self.application.accepted.push(accepted);
            }
            Notice::ApplicationRejected { id, reason } => {
                self.turn_to(BatchKind::Application, 0, callback);
                let (application_id, reason) = (id.to_string(), reason.to_string());
                self.application.rejected.push(si::RejectedApplication { application_id, reason });
            }
            Notice::ApplicationUpdated { id, state, at_ns, message, .. } => {
                self.turn_to(BatchKind::Application, 1, callback);
                self.application.updated.push(updated(&id, state, at_ns, message));
            }
            Notice::NodeAccepted(id) => {
                self.turn_to(BatchKind::Node, 0, callback);
                self.node.accepted.push(si::AcceptedNode { node_id: id.to_string() });
            }
            Notice::NodeRejected { id, reason } => {
                self.turn_to(BatchKind::Node, 0, callback);
                let (node_id, reason) = (id.to_string(), reason.to_string());
                self.node.rejected.push(si::RejectedNode { node_id, reason });
            }
            Notice::WantsMachines { application, key, by_predicates } => {
                self.turn_to(BatchKind::States, 0, callback);
                self.states.push(wants_machines(&application, &key, by_predicates));
            }
            Notice::Asked(question) => {
                self.turn_to(BatchKind::Question, 0, callback);
                self.questions.push(*question);
            }
            Notice::Withdrawn(question) => {
                self.turn_to(BatchKind::Withdrawal, 0, callback);
                self.withdrawn.push(question);
            }
            Notice::Barrier(barrier) => {
                self.send(callback);
                drop(barrier);
            }
            Notice::Ignored(_) | Notice::GangPlaced { .. } | Notice::HoldTaken { .. } => {}
            Notice::Happened(_) => debug_assert!(false, "events are gathered before"),
        }
    }

    fn reject_ask(&mut self, form: Form, key: &str, application: &str, reason: &Rejection) {
        let (allocation_key, application_id) = (key.to_owned(), application.to_owned());
        let reason = reason.to_string();
        match form {
            Form::Ask => {
                let rejected = si::RejectedAllocationAsk { allocation_key, application_id, reason };
                self.allocation.rejected.push(rejected);
            }
            Form::Recovered | Form::Unified | Form::Internal => {
                let rejected = si::RejectedAllocation { allocation_key, application_id, reason };
                self.allocation.rejected_allocations.push(rejected);
            }
        }
    }

    fn send(&mut self, callback: &dyn ResourceManagerCallback) {
        let Some(kind) = self.kind.take() else { return };
        let Self { allocation, application, node, states, questions, withdrawn, .. } =
            std::mem::take(self);
        match kind {
            BatchKind::Allocation | BatchKind::Asks => {
                guarded(|| callback.update_allocation(allocation));
            }
            BatchKind::Application => guarded(|| callback.update_application(application)),
            BatchKind::Node => guarded(|| callback.update_node(node)),
            BatchKind::States => guarded(|| callback.update_container_scheduling_state(states)),
            BatchKind::Withdrawal => guarded(|| callback.cancel_predicates(withdrawn)),
            BatchKind::Question => ask(callback, questions),
        }
    }
}

/// Asks the callback. Where that panics the questions count as never asked.
fn ask(callback: &dyn ResourceManagerCallback, questions: Vec<PredicateQuestion>) {
    let Some(first) = questions.first() else { return };
    let sink = first.answers.clone();
    let ids: Vec<QuestionId> = questions.iter().map(|question| question.id).collect();
    if catch_unwind(AssertUnwindSafe(|| callback.ask_predicates(questions))).is_err() {
        tracing::error!(questions = ids.len(), "the predicate callback panicked");
        sink.unasked(ids);
    }
}

/// Calls the callback. A callback that panics changes nothing here: what was decided stands.
pub(super) fn guarded(tell: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(tell)).is_err() {
        tracing::error!("a callback panicked; the message it was given may be lost to its RM");
    }
}

/// Tells the callback everything, in order. `partition` is the name of the partition without the
/// RM's prefix.
pub(super) fn deliver(
    callback: &dyn ResourceManagerCallback,
    partition: &str,
    notices: Vec<Notice>,
) {
    let mut batch = Batch::default();
    for notice in notices {
        batch.take(notice, partition, callback);
    }
    batch.send(callback);
}

/// The code of the reason, if the notice is a rejection.
pub(super) fn refusal(notice: &Notice) -> Option<String> {
    match notice {
        Notice::AskRejected { reason, .. }
        | Notice::ApplicationRejected { reason, .. }
        | Notice::NodeRejected { reason, .. } => Some(reason.to_string()),
        _ => None,
    }
}

fn updated(id: &str, state: ApplicationState, at_ns: i64, message: &str) -> si::UpdatedApplication {
    si::UpdatedApplication {
        application_id: id.to_owned(),
        state: state.text().to_owned(),
        state_transition_timestamp: at_ns,
        message: message.to_owned(),
    }
}

fn wants_machines(
    application: &str,
    key: &str,
    by_predicates: bool,
) -> si::UpdateContainerSchedulingStateRequest {
    si::UpdateContainerSchedulingStateRequest {
        application_id: application.to_owned(),
        allocation_key: key.to_owned(),
        state: SchedulingState::Failed as i32,
        reason: if by_predicates { ALL_REFUSED } else { NO_NODE }.to_owned(),
    }
}

fn allocation(allocated: Allocated, partition: &str) -> si::Allocation {
    let Allocated { application, spec, uuid, node, .. } = allocated;
    // A client in today's form keeps the tags it sent; only asks in the older form get theirs back.
    let tags = spec.tags.as_ref().filter(|_| spec.form == Form::Ask);
    si::Allocation {
        allocation_key: spec.key.to_string(),
        allocation_tags: tags.map(|tags| (**tags).clone()).unwrap_or_default(),
        uuid: uuid.to_string(),
        allocation_id: uuid.to_string(),
        resource_per_alloc: Some(resource(&spec.resources)),
        priority: spec.priority,
        node_id: node.to_string(),
        application_id: application.to_string(),
        partition_name: partition.to_string(),
        originator: spec.originator,
        task_group_name: spec.task_group.as_deref().cloned().unwrap_or_default(),
        placeholder: spec.placeholder,
        preemption_policy: Some(si::PreemptionPolicy {
            allow_preempt_self: spec.preemption.of_itself(),
            allow_preempt_other: spec.preemption.of_others(),
        }),
    }
}

fn release(released: Released, partition: &str) -> si::AllocationRelease {
    let Released { application, key, uuid, ending, message, replaced_by } = released;
    let message = match replaced_by {
        Some(Successor { key, .. }) => format!("{message} `{key}`"),
        None => message.to_owned(),
    };
    let termination_type = match ending {
        Ending::StoppedByRm => si::TerminationType::StoppedByRm,
        Ending::Timeout => si::TerminationType::Timeout,
        Ending::Replaced => si::TerminationType::PlaceholderReplaced,
    };
    si::AllocationRelease {
        partition_name: partition.to_string(),
        application_id: application.to_string(),
        uuid: uuid.to_string(),
        allocation_id: uuid.to_string(),
        allocation_key: key.to_string(),
        termination_type: termination_type as i32,
        message,
        ..si::AllocationRelease::default()
    }
}

fn ask_release(
    key: &str,
    application: &str,
    message: &str,
    partition: &str,
) -> si::AllocationAskRelease {
    si::AllocationAskRelease {
        partition_name: partition.to_owned(),
        application_id: application.to_owned(),
        allocation_key: key.to_owned(),
        termination_type: si::TerminationType::Timeout as i32,
        message: message.to_owned(),
    }
}

fn resource(resources: &Resources) -> si::Resource {
    let quantity = |value| si::Quantity { value };
    let entries = resources.entries();
    si::Resource {
        resources: entries
            .map(|(name, value)| (name.text().to_string(), quantity(value)))
            .collect(),
    }
}
