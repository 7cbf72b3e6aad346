//! The callback that a resource manager implements to be notified of decisions and to answer
//! predicates.
//!
//! It is a trait with plain calls instead of a channel: an RM in the same process answers predicates in
//! the middle of a placement.

use std::future::Future;
use std::pin::Pin;

use monoceros_proto::si::v1::{
    AllocationResponse, ApplicationResponse, EventRecord, NodeResponse, PredicatesArgs,
    PreemptionPredicatesArgs, PreemptionPredicatesResponse, UpdateContainerSchedulingStateRequest,
};
use monoceros_rules::nodes::Fits;

use crate::api::allocations::AllocationNotices;
use crate::api::mirror::MirrorMaker;
use crate::api::predicates::{
    PredicateAnswer, PredicateQuestion, PreemptionQuestions, QuestionId, Scope, Verdict,
};
use crate::api::scale_up::ScaleUpNotice;

/// A placement that is [assumed](ResourceManagerCallback::assumed) to run on a node before the RM is
/// notified of its allocation, or is [forgotten](ResourceManagerCallback::forgotten).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Assumed<'a> {
    /// The id of its application.
    pub application_id: &'a str,
    /// The key of its ask; empty for a place held for a member of a declared gang.
    pub allocation_key: &'a str,
    /// The task group of the member for which a place is held; empty for an ask.
    pub task_group_name: &'a str,
    /// The id of the node.
    pub node_id: &'a str,
}

/// The nodes among which an ask has preferences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preferences {
    /// No preferences: the ask is placed on the first node in the partition's order.
    #[default]
    None,
    /// The first node in order, and the nodes with the same score.
    AmongEqualNodes,
    /// All nodes. The partition's order decides among nodes that are preferred equally.
    AmongAllNodes,
}

/// The RM's side of the embedding API.
///
/// Called from scheduler threads: most methods from one thread, in the order of the decisions, with one
/// batch per turn. [`predicates`](Self::predicates),
/// [`hold_predicates`](Self::hold_predicates), [`assumed`](Self::assumed) and
/// [`forgotten`](Self::forgotten) are called from the partition's thread, in the middle of a placement.
/// An implementation **must not block** and must not wait for the scheduler: its partition decides
/// nothing meanwhile. A panic does not change what was decided.
pub trait ResourceManagerCallback: Send + Sync + 'static {
    /// Allocations made and released, asks and allocations rejected. Called only by
    /// [`allocations`](Self::allocations).
    fn update_allocation(&self, response: AllocationResponse);

    /// As [`update_allocation`](Self::update_allocation), for an RM that needs no copy of each name.
    /// Unless implemented, [`update_allocation`](Self::update_allocation) gets the message.
    fn allocations(&self, decided: AllocationNotices<'_>) {
        self.update_allocation(decided.into_message());
    }

    /// Applications accepted and rejected, and the states they enter.
    fn update_application(&self, response: ApplicationResponse);

    /// Nodes accepted and rejected.
    fn update_node(&self, response: NodeResponse);

    /// The dialect of the interface that the RM uses; a label of metrics.
    fn dialect(&self) -> &'static str {
        "process"
    }

    /// The full path of the queue in which an application was placed, before the application is
    /// accepted. `None` once it has ended or was removed.
    fn application_placed(&self, partition: &str, application_id: &str, queue: Option<&str>) {
        let _ = (partition, application_id, queue);
    }

    /// Whether the ask may be placed on the node, apart from resources; `Err` is the reason why not. A
    /// panic counts as a refusal. Passes unless implemented. Not called while predicates are
    /// [remote](crate::Predicates::Remote).
    fn predicates(&self, args: &PredicatesArgs) -> Result<(), String> {
        let _ = args;
        Ok(())
    }

    /// As [`predicates`](Self::predicates), for a place to be held for a member of a declared gang whose
    /// ask has not arrived yet. The arguments have an application and a task group, and no allocation
    /// key. Called while places for the whole gang are searched; the member that takes the place later is
    /// checked like any other ask. Passes unless implemented, for RMs that check asks only.
    fn hold_predicates(&self, args: &PredicatesArgs) -> Result<(), String> {
        let _ = args;
        Ok(())
    }

    /// The nodes among which this ask has preferences. Called once for each placement, and followed by
    /// calls of [`preference`](Self::preference). None unless implemented. Not called while predicates
    /// are [remote](crate::Predicates::Remote), for held places, for members of a gang that is placed as a
    /// whole, for an ask that replaces a placeholder or is placed on its reserved node, nor for asks with
    /// a placement constraint, which has preferences of its own.
    fn preferences(&self, allocation_key: &str) -> Preferences {
        let _ = allocation_key;
        Preferences::None
    }

    /// The preference of the ask for the node. Of the nodes that pass the predicate the one with the
    /// highest preference is chosen, of equal ones the first in order. At most the first 1,000 nodes with
    /// room are compared. A panic counts as the lowest preference.
    fn preference(&self, args: &PredicatesArgs) -> i64 {
        let _ = args;
        0
    }

    /// The nodes that an ask may use according to the nodes alone (labels, taints), whatever room
    /// they have. An explanation then shows what is missing on these nodes. An empty key stands for
    /// the members of a task group whose asks have not arrived.
    ///
    /// Called for an explanation, from the partition's thread and once for each class of asks, so
    /// the answer must be at hand: an RM that has to count first returns [`Fits::Counting`]. No
    /// decision depends on it. Unknown unless implemented.
    fn fits(&self, application_id: &str, allocation_key: &str, task_group_name: &str) -> Fits {
        let _ = (application_id, allocation_key, task_group_name);
        Fits::Unknown
    }

    /// The placement counts as running on the node from now on: its predicate has passed and it was
    /// booked, or a place is held. The RM is [notified](Self::update_allocation) at the end of the
    /// turn, and predicates are called many times before that. By this call the next predicate already
    /// sees the placement, so that two requests of one turn can avoid each other.
    ///
    /// * Each call is followed by exactly one of two calls: the allocation is reported in `new`, and
    ///   from then on the RM counts it like any other until it is released; or it is
    ///   [forgotten](Self::forgotten). A reported allocation is never forgotten.
    /// * Each member of a gang that is placed as a whole is assumed once its predicate has passed, before
    ///   the predicate of the next one. If one of them finds no node, all are forgotten, the last one
    ///   first. The same happens when the search continues in a later step, because thousands of nodes
    ///   refused; the members that had passed are checked again in the step that books all.
    /// * A held place is never reported. It is forgotten when it ends, and also before the predicate of
    ///   the member that would take it: then the member is assumed, or the place again.
    /// * An allocation that replaces a placeholder is assumed while the placeholder still runs, and
    ///   reported once the RM has confirmed the end of the placeholder.
    /// * Equal placements may be assumed several times: requests for more than one container, and
    ///   places held for one group on one node. Count them; each call of `forgotten` ends one.
    /// * Existing allocations that the RM reports are not assumed, nor are reserved nodes, nor requests
    ///   for which preemption is only making room.
    /// * While predicates are [remote](crate::Predicates::Remote) the call is made when the answer
    ///   was accepted. An RM that [assumes its own answers](Verdict::Passed) has counted the
    ///   placement already.
    /// * When the partition is lost ([`resync_required`](Self::resync_required)), and when the RM
    ///   registers again or deregisters, there is no call: every placement assumed and not reported
    ///   is void.
    ///
    /// Does nothing unless implemented, which costs a call of an empty function for each placement.
    fn assumed(&self, what: &Assumed<'_>) {
        let _ = what;
    }

    /// A placement that was [assumed](Self::assumed), and not reported as an allocation, does not count
    /// any more: its gang does not fit, it does not replace the placeholder, or the place is not held
    /// any more.
    fn forgotten(&self, what: &Assumed<'_>) {
        let _ = what;
    }

    /// Questions to be answered later, each exactly once, through its
    /// [`AnswerSink`](crate::AnswerSink). Called only while predicates are
    /// [remote](crate::Predicates::Remote). All questions of one call are from one partition. Decisions
    /// that were reported before a question were made before it. Unless implemented,
    /// [`predicates`](Self::predicates) answers, and for places to be held
    /// [`hold_predicates`](Self::hold_predicates).
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

    /// The placements of these questions were withdrawn: no answers are needed, and the placements
    /// that the RM assumed for them are void.
    fn cancel_predicates(&self, questions: Vec<QuestionId>) {
        let _ = questions;
    }

    /// Whether the ask could be placed on the node if allocations were evicted in the given order, and
    /// how many would have to be. Unless implemented, the first attempt succeeds.
    fn preemption_predicates(
        &self,
        args: &PreemptionPredicatesArgs,
    ) -> PreemptionPredicatesResponse {
        let index = if args.preempt_allocation_keys.is_empty() { -1 } else { args.start_index };
        PreemptionPredicatesResponse { success: true, index }
    }

    /// Questions as for [`preemption_predicates`](Self::preemption_predicates), to be answered later, all
    /// together and exactly once, through their [`AnswerSink`](crate::AnswerSink). Called only while predicates are
    /// [remote](crate::Predicates::Remote). Unless implemented,
    /// [`preemption_predicates`](Self::preemption_predicates) answers.
    fn ask_preemption(&self, group: PreemptionQuestions) {
        let answers = group.questions.iter().map(|args| Some(self.preemption_predicates(args)));
        group.answers.answer_preemption(group.id, &answers.collect::<Vec<_>>());
    }

    /// Events of this RM's nodes, applications, queues and requests, oldest first.
    fn send_events(&self, events: Vec<EventRecord>) {
        let _ = events;
    }

    /// Requests that more machines would help, each reported once. Called only by
    /// [`scale_up_notice`](Self::scale_up_notice).
    fn update_container_scheduling_state(
        &self,
        states: Vec<UpdateContainerSchedulingStateRequest>,
    ) {
        let _ = states;
    }

    /// As [`update_container_scheduling_state`](Self::update_container_scheduling_state), for an RM that
    /// needs no copy of each name. Unless implemented, that method gets the messages.
    fn scale_up_notice(&self, requests: ScaleUpNotice) {
        self.update_container_scheduling_state(requests.into_message());
    }

    /// The part of a state dump that the RM adds. None unless implemented.
    fn state_dump(&self) -> Option<&dyn StateDump> {
        None
    }

    /// Copies what the [predicates](Self::predicates) read, for an [image](crate::image). Called from the
    /// thread of a partition, between two of its steps: what it has assumed so far is in the mirror, and
    /// nothing else. A large copy is made into text by the returned closure. None unless implemented: a
    /// fork of the scheduler has no predicates then.
    fn mirror(&self) -> Option<MirrorMaker> {
        None
    }

    /// The scheduler has lost the state of a partition of this RM (`cause` says how) and decides
    /// nothing for it any more. The RM must register again and report everything.
    fn resync_required(&self, cause: &str) {
        let _ = cause;
    }
}

/// The state of an RM as JSON text, or an error.
pub type RmState = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// An RM that can dump its own state.
pub trait StateDump {
    /// Begins to gather the state. The caller may stop waiting.
    fn rm_state(&self) -> RmState;
}
