//! What a resource manager implements to be told of decisions and asked for predicates.
//!
//! It is a trait of plain calls and not a channel, because an RM in the same process is asked for
//! predicates in the middle of a placement, and its answer decides.

use std::future::Future;
use std::pin::Pin;

use monoceros_proto::si::v1::{
    AllocationResponse, ApplicationResponse, EventRecord, NodeResponse, PredicatesArgs,
    PreemptionPredicatesArgs, PreemptionPredicatesResponse, UpdateContainerSchedulingStateRequest,
};
use monoceros_rules::nodes::Fits;

use crate::api::predicates::{
    PredicateAnswer, PredicateQuestion, PreemptionQuestions, QuestionId, Scope, Verdict,
};
use crate::api::told::AllocationsTold;
use crate::api::wanting::MachinesWanted;

/// Something that counts as running on a node though nobody was told of it yet, or no longer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Assumed<'a> {
    /// Whose it is.
    pub application_id: &'a str,
    /// The key of its ask; empty for a place that is held for a member of a declared gang.
    pub allocation_key: &'a str,
    /// The task group of the member for whom a place is held; empty for an ask.
    pub task_group_name: &'a str,
    /// The node.
    pub node_id: &'a str,
}

/// Between which nodes an ask has preferences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preferences {
    /// It goes to the first node in the partition's order.
    #[default]
    None,
    /// Between the first node in order and those that score the same.
    AmongEqualNodes,
    /// Between all nodes: the partition's order decides between those that are preferred alike.
    AmongAllNodes,
}

/// The RM's side of the embedding API.
///
/// Called from scheduler threads: most calls in the order in which things were decided, one batch per
/// turn, from one thread. [`predicates`](Self::predicates),
/// [`hold_predicates`](Self::hold_predicates), [`assumed`](Self::assumed) and
/// [`forgotten`](Self::forgotten) come from the partition's thread, in the middle of a placement. An
/// implementation **must not block** and must not wait for
/// the scheduler: nothing is decided for its partition meanwhile. A panic changes nothing that was
/// decided.
pub trait ResourceManagerCallback: Send + Sync + 'static {
    /// Allocations made, allocations released, asks and allocations rejected. Called by
    /// [`allocations`](Self::allocations) alone.
    fn update_allocation(&self, response: AllocationResponse);

    /// As [`update_allocation`](Self::update_allocation), before it is a message: for an RM that wants
    /// no copy of each name. Unless implemented, the message is made and told.
    fn allocations(&self, told: AllocationsTold<'_>) {
        self.update_allocation(told.into_message());
    }

    /// Applications accepted and rejected, and the states they enter.
    fn update_application(&self, response: ApplicationResponse);

    /// Nodes accepted and rejected.
    fn update_node(&self, response: NodeResponse);

    /// Which form of the interface the RM speaks; a label of metrics.
    fn dialect(&self) -> &'static str {
        "process"
    }

    /// The queue that an application was placed in, by its whole path, said before the application
    /// is accepted; nothing once it has ended or was removed.
    fn application_placed(&self, partition: &str, application_id: &str, queue: Option<&str>) {
        let _ = (partition, application_id, queue);
    }

    /// Whether the ask may be placed on the node, beyond what resources say; `Err` gives the
    /// reason. A panic counts as a refusal. Passes unless implemented. Not called while predicates
    /// are [remote](crate::Predicates::Remote).
    fn predicates(&self, args: &PredicatesArgs) -> Result<(), String> {
        let _ = args;
        Ok(())
    }

    /// As [`predicates`](Self::predicates), for a place that would be held for a member of a
    /// declared gang whose ask is not there yet: the arguments name application and task group, and no
    /// allocation key. It is asked when places for the whole gang are looked for; the member that takes
    /// the place later is asked about as any other. Passes unless implemented, so that an RM which knows
    /// its asks alone need not know of these.
    fn hold_predicates(&self, args: &PredicatesArgs) -> Result<(), String> {
        let _ = args;
        Ok(())
    }

    /// Between which nodes this ask has preferences; asked once for each placement, and followed by
    /// calls of [`preference`](Self::preference). It has none unless implemented. Not called while
    /// predicates are [remote](crate::Predicates::Remote), for places that are held, for members of a gang
    /// that is placed as a whole, for what takes the place of a placeholder or goes to a node that was
    /// reserved for it, nor for asks with a placement constraint, which says what it prefers itself.
    fn preferences(&self, allocation_key: &str) -> Preferences {
        let _ = allocation_key;
        Preferences::None
    }

    /// How much the ask prefers the node: of the nodes that pass the predicate the highest decides, and of
    /// equal ones the first in order. At most the first 1,000 nodes with room are compared. A panic counts
    /// as the lowest.
    fn preference(&self, args: &PredicatesArgs) -> i64 {
        let _ = args;
        0
    }

    /// Which nodes an ask may use by what the nodes alone say (labels, taints), whatever room they have, so
    /// that an explanation says what is missing on those and not that others do not match. With an empty
    /// key it is about the members of a task group that have not asked. Called when somebody wants to know
    /// why the ask waits, from the partition's thread and for each class of asks, so it is looked up and
    /// not found out: an RM that begins to count says [`Fits::Counting`]. No decision reads it. Unless
    /// implemented nobody knows.
    fn fits(&self, application_id: &str, allocation_key: &str, task_group_name: &str) -> Fits {
        let _ = (application_id, allocation_key, task_group_name);
        Fits::Unknown
    }

    /// This counts as running on the node from now on: a placement is booked whose predicate has
    /// passed, or a place is held. What was decided is [told](Self::update_allocation) at the end of
    /// the turn, and predicates are asked many times before that; by this call the next question
    /// already sees it, so that two requests of one turn can keep clear of each other.
    ///
    /// * Each call is followed by one of two things: the allocation is told in `new`, and is from
    ///   then on the RM's to count like any other, until it is released; or it is
    ///   [forgotten](Self::forgotten). Never by both, and what was told is never forgotten.
    /// * Of a gang that is placed as a whole each member is assumed once its predicate has passed, and
    ///   the next is asked about then. If one of them finds no node all are forgotten, the last one
    ///   first. So they are when the search goes on in a later step, because thousands of nodes
    ///   refused; those that passed are asked about again in the step that books all.
    /// * A held place is never told. It is forgotten when it ends, and also before a member is asked
    ///   about that would take it: then the member is assumed, or the place is again.
    /// * What takes the place of a placeholder is assumed while the placeholder runs still, and told once
    ///   the RM has confirmed its end.
    /// * Equal ones may be assumed several times: requests for more than one container, and places
    ///   held for one group on one node. Count them; each call of `forgotten` is of one.
    /// * Neither what the RM reports as running is assumed, nor the reservation of a node, nor
    ///   anything that preemption is only to make room for.
    /// * While predicates are [remote](crate::Predicates::Remote) it comes when the answer was taken.
    ///   An RM that [counts on its own answers](Verdict::Passed) knows it already.
    /// * When the partition is lost ([`resync_required`](Self::resync_required)), and when the RM
    ///   registers again or leaves, nothing is said: all that was assumed and not told is void.
    ///
    /// Does nothing unless implemented, which costs a call of an empty function for each placement.
    fn assumed(&self, what: &Assumed<'_>) {
        let _ = what;
    }

    /// What was [assumed](Self::assumed), and not told as an allocation, does not count any more: its
    /// gang does not fit, it goes no longer to where a placeholder makes way for it, or the place is
    /// not held any longer.
    fn forgotten(&self, what: &Assumed<'_>) {
        let _ = what;
    }

    /// Questions to be answered later, each exactly once, through its
    /// [`AnswerSink`](crate::AnswerSink). Called only while predicates are
    /// [remote](crate::Predicates::Remote). What was told before a question was decided before it.
    /// Unless implemented, [`predicates`](Self::predicates) answers, and
    /// [`hold_predicates`](Self::hold_predicates) for places that would be held. All questions of one
    /// call are those of one partition.
    fn ask_predicates(&self, questions: Vec<PredicateQuestion>) {
        let Some(sink) = questions.first().map(|question| question.answers.clone()) else { return };
        let answer = |question: PredicateQuestion| {
            let mut args = PredicatesArgs {
                allocation_key: question.key.to_string(),
                node_id: String::new(),
                allocate: question.allocate,
                application_id: question.application.to_string(),
                task_group_name: question.group.as_deref().unwrap_or_default().to_owned(),
            };
            let is_hold = question.group.is_some();
            let mut reasons = Vec::new();
            let position = question.nodes.iter().position(|node| {
                node.as_ref().clone_into(&mut args.node_id);
                let answer =
                    if is_hold { self.hold_predicates(&args) } else { self.predicates(&args) };
                answer.map_err(|reason| reasons.push((reason, 1))).is_ok()
            });
            let verdict = match position {
                Some(position) => {
                    Verdict::Passed { position, scope: Scope::Topology, assumed: false }
                }
                None => Verdict::Failed { reasons },
            };
            PredicateAnswer { id: question.id, verdict }
        };
        sink.answer(questions.into_iter().map(answer).collect());
    }

    /// These placements were given up: their answers are not wanted any more, and what the RM
    /// assumed for them does not hold.
    fn cancel_predicates(&self, questions: Vec<QuestionId>) {
        let _ = questions;
    }

    /// Whether the ask could be placed on the node if allocations left it, in the given order, and
    /// how many would have to. Without an implementation the first attempt succeeds.
    fn preemption_predicates(
        &self,
        args: &PreemptionPredicatesArgs,
    ) -> PreemptionPredicatesResponse {
        let index = if args.preempt_allocation_keys.is_empty() { -1 } else { args.start_index };
        PreemptionPredicatesResponse { success: true, index }
    }

    /// Questions of the same kind to be answered later, all together and exactly once, through their
    /// [`AnswerSink`](crate::AnswerSink). Called only while predicates are
    /// [remote](crate::Predicates::Remote). Unless implemented,
    /// [`preemption_predicates`](Self::preemption_predicates) answers.
    fn ask_preemption(&self, group: PreemptionQuestions) {
        let answers = group.questions.iter().map(|args| Some(self.preemption_predicates(args)));
        group.answers.answer_preemption(group.id, &answers.collect::<Vec<_>>());
    }

    /// Things that happened to this RM's nodes, applications, queues and requests, oldest first.
    fn send_events(&self, events: Vec<EventRecord>) {
        let _ = events;
    }

    /// Requests for which more machines would help: each is told once. Called by
    /// [`machines_wanted`](Self::machines_wanted) alone.
    fn update_container_scheduling_state(
        &self,
        states: Vec<UpdateContainerSchedulingStateRequest>,
    ) {
        let _ = states;
    }

    /// As [`update_container_scheduling_state`](Self::update_container_scheduling_state), before it is
    /// a message: for an RM that wants no copy of each name. Unless implemented, the message is made and
    /// told.
    fn machines_wanted(&self, wanted: MachinesWanted) {
        self.update_container_scheduling_state(wanted.into_message());
    }

    /// What the RM adds to a state dump; it has nothing to add unless this is implemented.
    fn state_dump(&self) -> Option<&dyn StateDump> {
        None
    }

    /// The scheduler lost what it knew of this RM's partition (`cause` says how) and decides
    /// nothing for it any more: the RM must register again and report everything.
    fn resync_required(&self, cause: &str) {
        let _ = cause;
    }
}

/// The state of an RM as JSON text, or why there is none.
pub type RmState = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// An RM that can tell its own state.
pub trait StateDump {
    /// Begins to gather it. Whoever asks gives up after a time of their own.
    fn rm_state(&self) -> RmState;
}
