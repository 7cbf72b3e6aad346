//! Predicates that are answered later: what is asked, and what the answer may be.
//!
//! An RM in the same process answers [`predicates`](crate::ResourceManagerCallback::predicates) at
//! once. One behind a network cannot: its questions travel in batches, many placements wait at the
//! same time, and each holds its node and its queue's quota until it is answered. Which of the two
//! holds is a [`Predicates`], set through a
//! [`ResourceManagerControl`](crate::ResourceManagerControl).

use std::sync::Arc;

use actix::prelude::*;
use monoceros_proto::si::v1::{PreemptionPredicatesArgs, PreemptionPredicatesResponse};
use monoceros_rules::decide::preemption::Answer as PreemptionAnswer;
use serde::{Deserialize, Serialize};

use crate::mailbox::Destination;

pub use monoceros_rules::allocations::Elsewhere;
pub use monoceros_rules::pending::unsettled::Scope;

/// How the predicates of an RM are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Predicates {
    /// At once, in the middle of a placement.
    #[default]
    Local,
    /// By [`ask_predicates`](crate::ResourceManagerCallback::ask_predicates), with at most so many
    /// placements waiting for an answer in each partition. One keeps the order of placements exact.
    Remote {
        /// At least one.
        in_flight: usize,
        /// The RM is also asked about places that are to be held for members of declared gangs whose
        /// requests are not there yet ([`PredicateQuestion::group`]). Where not, any node with room
        /// will do for these.
        #[serde(default)]
        holds: bool,
    },
    /// The RM cannot be asked: placements that wait for an answer are taken back, and nothing is
    /// placed.
    Hold,
}

/// Names a question among those of all partitions of an RM. Never given twice in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct QuestionId(pub u64);

/// May this request run on the first of these nodes that passes? Or may a place be held there for a
/// member of a declared gang whose request is not there yet?
#[derive(Clone, Debug)]
pub struct PredicateQuestion {
    /// The number that the answer has to name.
    pub id: QuestionId,
    /// The application of the request.
    pub application: Arc<str>,
    /// Its allocation key; empty where a place would be held.
    pub key: Arc<str>,
    /// The task group of the member for which a place would be held; none for a request.
    pub group: Option<Arc<str>>,
    /// Candidates in the order of preference; never empty.
    pub nodes: Vec<Arc<str>>,
    /// Whether it would be allocated there now, beside all that is there. Otherwise it only has the
    /// node reserved, or takes the place of a placeholder there, and what has to go first is not to
    /// be counted.
    pub allocate: bool,
    /// The gang that is decided as a whole, if the request is a member of one: it runs only if all of
    /// them pass.
    pub bundle: Option<Arc<QuestionBundle>>,
    /// Where the answer goes.
    pub answers: AnswerSink,
}

/// The members of a gang that has places for all of them and waits until each may run at its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuestionBundle {
    /// Names it among those of all partitions of an RM. Never given twice in a session.
    pub id: u64,
    /// Where each member is to be that the RM is asked about. The member in question is among them,
    /// and each has the same position in all questions.
    pub places: Vec<BundlePlace>,
}

/// Where a member of a gang is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundlePlace {
    /// Its allocation key; empty where a place would be held.
    pub key: Arc<str>,
    /// The task group of the member for which a place would be held; none for a request.
    pub group: Option<Arc<str>>,
    /// The id of its node.
    pub node: Arc<str>,
}

/// The answer to a [`PredicateQuestion`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PredicateAnswer {
    /// The number of the question.
    pub id: QuestionId,
    /// The answer itself.
    pub verdict: Verdict,
}

/// What an RM says to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The candidate at this position passes; those before it do not.
    Passed {
        /// The position in the question's `nodes`.
        position: usize,
        /// What makes the answer void.
        scope: Scope,
        /// The RM counts the request as running there already, so that its later answers see it.
        assumed: bool,
    },
    /// None of the candidates passes.
    Failed {
        /// Why, each with the number of nodes.
        reasons: Vec<(String, u32)>,
    },
    /// Some candidates were not answered for in time, or the RM cannot be asked, and that counts as
    /// a refusal: the request waits as if it had [`Failed`](Self::Failed). But it is no request for
    /// more machines: a silent RM must not look like a full cluster.
    Presumed {
        /// Why, each with the number of nodes.
        reasons: Vec<(String, u32)>,
    },
    /// There is no answer, through no fault of the request: it is asked again.
    Unanswered,
}

/// Earlier answers may be wrong by now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invalidation {
    /// Answers about these nodes may be wrong.
    pub nodes: Vec<String>,
    /// Answers about requests with these allocation keys may be wrong.
    pub keys: Vec<String>,
    /// All answers may be wrong.
    pub all: bool,
}

/// Questions about nodes where others would have to leave for one request: would it fit there, and
/// after how many of them? At most ten, which are answered together.
#[derive(Clone, Debug)]
pub struct PreemptionQuestions {
    /// The number that the answers have to name.
    pub id: QuestionId,
    /// The questions: of each, the allocations that would leave, in order, and up to which of them all
    /// would at least (`start_index`; -1 and no allocations where the node has room as it is).
    pub questions: Vec<PreemptionPredicatesArgs>,
    /// Where the answers go.
    pub answers: AnswerSink,
}

/// What an answer means.
pub(crate) fn preemption_answer(answer: Option<&PreemptionPredicatesResponse>) -> PreemptionAnswer {
    match answer {
        Some(answer) if answer.success => PreemptionAnswer::Fits(answer.index),
        _ => PreemptionAnswer::Refused,
    }
}

/// Takes answers to the questions of one partition, from any thread. Those to questions that were
/// taken back meanwhile are dropped.
#[derive(Clone, Debug)]
pub struct AnswerSink(Arc<Ways>);

#[derive(Debug)]
struct Ways {
    preemptions: Destination<PreemptionAnswers>,
    answers: Destination<Answers>,
    unasked: Destination<Unasked>,
}

impl AnswerSink {
    pub(crate) fn new(
        answers: Destination<Answers>,
        unasked: Destination<Unasked>,
        preemptions: Destination<PreemptionAnswers>,
    ) -> Self {
        Self(Arc::new(Ways { preemptions, answers, unasked }))
    }

    /// Hands in the answers to [questions about preemption](PreemptionQuestions), in the order of
    /// those. `None` and what is missing is no answer, and counts as a refusal, as does an index
    /// behind the last allocation of its question.
    pub fn answer_preemption(
        &self,
        id: QuestionId,
        answers: &[Option<PreemptionPredicatesResponse>],
    ) {
        let answers = answers.iter().map(|answer| preemption_answer(answer.as_ref())).collect();
        self.0.preemptions.post(PreemptionAnswers { id, answers });
    }

    /// Hands answers in, in the order in which they were made.
    pub fn answer(&self, answers: Vec<PredicateAnswer>) {
        self.0.answers.post(Answers(answers));
    }

    /// Notes questions that never reached the RM.
    pub(crate) fn unasked(&self, questions: Vec<QuestionId>) {
        self.0.unasked.post(Unasked(questions));
    }

    /// Whether the partition is gone.
    pub fn is_closed(&self) -> bool {
        !self.0.answers.is_open()
    }

    /// Whether both belong to the same partition.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Answers to questions about preemption, in their order. From the RM that was asked, by its
/// [`AnswerSink`].
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct PreemptionAnswers {
    pub(crate) id: QuestionId,
    pub(crate) answers: Vec<PreemptionAnswer>,
}

/// Answers to questions about placements. From the RM that was asked, by its [`AnswerSink`].
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Answers(pub(crate) Vec<PredicateAnswer>);

/// Questions that never reached the RM: its callback panicked. From its Rm.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Unasked(pub(crate) Vec<QuestionId>);
