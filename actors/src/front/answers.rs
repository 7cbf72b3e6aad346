//! Conversion of notices to the interface's messages.
//!
//! Notices are delivered in their order. Consecutive notices of one kind share a message, because a
//! message for each would cost an RM more than the decision. They share it only if a client that
//! reads the lists of a message in their usual order (new, rejected, released) sees them in the
//! order of the notices.
//!
//! The answer about an allocation depends on the form of its ask: in today's form an allocation is
//! identified by its key alone (`docs/dialects.md#what-an-answer-says`).

use monoceros_config as config;
use monoceros_proto::si::v1 as si;
use monoceros_rules::specs::ask::Form;
use monoceros_rules::specs::rejection::Rejection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::api::allocations::{AllocationNotices, PartitionNames};
use crate::api::callback::ResourceManagerCallback;
use crate::api::predicates::{PredicateQuestion, PreemptionQuestions, QuestionId};
use crate::api::scale_up::ScaleUpNotice;
use crate::notices::{
    Allocated, AskReleased, Ending, Entered, Released, ScaleUpRequests, Successor,
};
use crate::session::Notice;

/// The message under construction.
#[derive(Default)]
struct Batch {
    new: Vec<Arc<Allocated>>,
    allocation: si::AllocationResponse,
    application: si::ApplicationResponse,
    node: si::NodeResponse,
    scale_up: Vec<ScaleUpRequests>,
    questions: Vec<PredicateQuestion>,
    withdrawn: Vec<QuestionId>,
    /// `None` while there is no message.
    kind: Option<BatchKind>,
    /// The list that was written to last, by its position in the usual order.
    stage: u8,
}

/// The receiver of messages.
#[derive(Clone, Copy)]
pub(super) struct Listener<'a> {
    /// The id of the RM, for the log.
    rm: &'a str,
    callback: &'a dyn ResourceManagerCallback,
    /// The partition that the notices are from.
    partition: PartitionNames<'a>,
}

impl<'a> Listener<'a> {
    /// `partition` is its name with the RM's prefix.
    pub(super) fn new(
        rm: &'a str,
        callback: &'a dyn ResourceManagerCallback,
        partition: &'a str,
    ) -> Self {
        let plain = config::plain_name(partition);
        Self { rm, callback, partition: PartitionNames { full: partition, plain } }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BatchKind {
    Allocation,
    Asks,
    Application,
    Node,
    ScaleUp,
    Question,
    Withdrawal,
}

impl Batch {
    /// Sends the message under construction, unless a notice of this kind and stage may join it.
    fn turn_to(&mut self, kind: BatchKind, stage: u8, to: Listener<'_>) {
        if self.kind != Some(kind) || stage < self.stage {
            self.send(to);
        }
        self.kind = Some(kind);
        self.stage = stage;
    }

    /// Adds a notice. If it cannot join the message under construction, sends that message first.
    fn add(&mut self, notice: Notice, to: Listener<'_>) {
        let partition = to.partition;
        match notice {
            Notice::Allocated(allocated) => {
                self.turn_to(BatchKind::Allocation, 0, to);
                self.new.push(allocated);
            }
            Notice::AskRejected { form, key, application, reason } => {
                self.turn_to(BatchKind::Allocation, 1, to);
                self.reject_ask(form, &key, &application, &reason);
            }
            Notice::Released(released) => {
                self.turn_to(BatchKind::Allocation, 2, to);
                self.allocation.released.push(release(*released, partition));
            }
            Notice::AskReleased(released) if released.form == Form::Ask => {
                self.turn_to(BatchKind::Allocation, 3, to);
                self.allocation.released_asks.push(ask_release(&released, partition.plain));
            }
            Notice::AskReleased(released) => {
                // A client in today's form knows no release of an ask: it gets a release of an
                // allocation, in a message of its own.
                self.turn_to(BatchKind::Asks, 0, to);
                let AskReleased { form, key, application, ending, message } = *released;
                let uuid = Arc::clone(&key);
                let released = Released {
                    application,
                    form,
                    key,
                    uuid,
                    ending,
                    message: message.into(),
                    replaced_by: None,
                };
                self.allocation.released.push(release(released, partition));
            }
            Notice::ApplicationPlaced { id, queue } => {
                self.send(to);
                to.callback.application_placed(partition.plain, &id, queue.as_deref());
            }
            Notice::ApplicationAccepted(id) => {
                self.turn_to(BatchKind::Application, 0, to);
                let accepted = si::AcceptedApplication { application_id: id.to_string() };
                self.application.accepted.push(accepted);
            }
            Notice::ApplicationRejected { id, reason } => {
                self.turn_to(BatchKind::Application, 0, to);
                let (application_id, reason) = (id.to_string(), reason.to_string());
                self.application.rejected.push(si::RejectedApplication { application_id, reason });
            }
            Notice::ApplicationUpdated(entered) => {
                self.turn_to(BatchKind::Application, 1, to);
                self.application.updated.push(updated(&entered));
            }
            Notice::NodeAccepted { id, warning } => {
                self.turn_to(BatchKind::Node, 0, to);
                let warning = warning.map(|warning| warning.to_string()).unwrap_or_default();
                self.node.accepted.push(si::AcceptedNode { node_id: id.to_string(), warning });
            }
            Notice::NodeRejected { id, reason } => {
                self.turn_to(BatchKind::Node, 0, to);
                let (node_id, reason) = (id.to_string(), reason.to_string());
                self.node.rejected.push(si::RejectedNode { node_id, reason });
            }
            Notice::ScaleUp(requests) => {
                self.turn_to(BatchKind::ScaleUp, 0, to);
                self.scale_up.push(*requests);
            }
            Notice::Asked(question) => {
                self.turn_to(BatchKind::Question, 0, to);
                self.questions.push(*question);
            }
            Notice::AskedPreemption(group) => {
                self.send(to);
                ask_preemption(to, *group);
            }
            Notice::Withdrawn(question) => {
                self.turn_to(BatchKind::Withdrawal, 0, to);
                self.withdrawn.push(question);
            }
            Notice::Barrier(barrier) => {
                self.send(to);
                drop(barrier);
            }
            Notice::Ignored(_) | Notice::GangPlaced { .. } | Notice::HoldTaken(_) => {}
            Notice::Happened(_) => debug_assert!(false, "events are taken out before"),
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

    fn send(&mut self, to: Listener<'_>) {
        let callback = to.callback;
        let Some(kind) = self.kind.take() else { return };
        let Self { new, allocation, application, node, scale_up, questions, withdrawn, .. } =
            std::mem::take(self);
        match kind {
            BatchKind::Allocation | BatchKind::Asks => {
                let decided =
                    AllocationNotices { partition: to.partition, new, others: allocation };
                guarded(to.rm, || callback.allocations(decided));
            }
            BatchKind::Application => guarded(to.rm, || callback.update_application(application)),
            BatchKind::Node => guarded(to.rm, || callback.update_node(node)),
            BatchKind::ScaleUp => {
                guarded(to.rm, || callback.scale_up_notice(ScaleUpNotice { requests: scale_up }));
            }
            BatchKind::Withdrawal => guarded(to.rm, || callback.cancel_predicates(withdrawn)),
            BatchKind::Question => ask(to, questions),
        }
    }
}

/// Asks the callback. If it panics, the questions count as never asked.
fn ask(to: Listener<'_>, questions: Vec<PredicateQuestion>) {
    let Some(first) = questions.first() else { return };
    let sink = first.answers.clone();
    let ids: Vec<QuestionId> = questions.iter().map(|question| question.id).collect();
    if catch_unwind(AssertUnwindSafe(|| to.callback.ask_predicates(questions))).is_err() {
        tracing::error!(rm = to.rm, questions = ids.len(), "the predicate callback panicked");
        sink.unasked(ids);
    }
}

/// Asks the callback about preemption. If it panics, all questions are refused.
fn ask_preemption(to: Listener<'_>, group: PreemptionQuestions) {
    let (id, sink) = (group.id, group.answers.clone());
    if catch_unwind(AssertUnwindSafe(|| to.callback.ask_preemption(group))).is_err() {
        tracing::error!(rm = to.rm, "the callback for questions about preemption panicked");
        sink.answer_preemption(id, &[]);
    }
}

/// Calls the callback. A panic there is logged and changes no decision.
pub(super) fn guarded(rm: &str, call: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(call)).is_err() {
        tracing::error!(rm, "a callback panicked; the message it was given may be lost to its RM");
    }
}

/// Delivers notices, in order.
pub(super) fn deliver(to: Listener<'_>, notices: Vec<Notice>) {
    let mut batch = Batch::default();
    for notice in notices {
        batch.add(notice, to);
    }
    batch.send(to);
}

/// The reason, if the notice is a rejection.
pub(super) fn refusal(notice: &Notice) -> Option<String> {
    match notice {
        Notice::AskRejected { reason, .. }
        | Notice::ApplicationRejected { reason, .. }
        | Notice::NodeRejected { reason, .. } => Some(reason.to_string()),
        _ => None,
    }
}

fn updated(entered: &Entered) -> si::UpdatedApplication {
    let Entered { application, state, at_ns, message, .. } = entered;
    si::UpdatedApplication {
        application_id: application.to_string(),
        state: state.text().to_owned(),
        state_transition_timestamp: *at_ns,
        message: (*message).to_owned(),
    }
}

fn release(released: Released, partition: PartitionNames<'_>) -> si::AllocationRelease {
    let Released { application, form, key, uuid, ending, message, replaced_by } = released;
    let message = match replaced_by {
        Some(Successor { key, .. }) => format!("{message} `{key}`"),
        None => message.to_string(),
    };
    let common = si::AllocationRelease {
        application_id: application.to_string(),
        allocation_key: key.to_string(),
        termination_type: termination_type(ending) as i32,
        message,
        ..si::AllocationRelease::default()
    };
    if form == Form::Unified {
        return si::AllocationRelease { partition_name: partition.full.to_owned(), ..common };
    }
    si::AllocationRelease {
        partition_name: partition.plain.to_owned(),
        uuid: uuid.to_string(),
        allocation_id: uuid.to_string(),
        ..common
    }
}

fn ask_release(released: &AskReleased, partition: &str) -> si::AllocationAskRelease {
    let AskReleased { key, application, ending, message, .. } = released;
    si::AllocationAskRelease {
        partition_name: partition.to_owned(),
        application_id: application.to_string(),
        allocation_key: key.to_string(),
        termination_type: termination_type(*ending) as i32,
        message: (*message).to_owned(),
    }
}

fn termination_type(ending: Ending) -> si::TerminationType {
    match ending {
        Ending::StoppedByRm => si::TerminationType::StoppedByRm,
        Ending::Timeout => si::TerminationType::Timeout,
        Ending::Replaced => si::TerminationType::PlaceholderReplaced,
        Ending::Preempted => si::TerminationType::PreemptedByScheduler,
    }
}
