//! Predicates that are answered later: questions and answers.
//!
//! An RM in the same process answers [`predicates`](crate::ResourceManagerCallback::predicates) at
//! once. An RM behind a network cannot: its questions travel in batches, many placements wait at the
//! same time, and each holds capacity on its node and quota of its queue until it is answered. The mode
//! is a [`Predicates`], set through a [`ResourceManagerControl`](crate::ResourceManagerControl).

use std::sync::Arc;

use actix::prelude::*;
use monoceros_proto::si::v1::{PreemptionPredicatesArgs, PreemptionPredicatesResponse};
use monoceros_rules::decide::preemption::Answer as PreemptionAnswer;
use serde::{Deserialize, Serialize};

use crate::mailbox::Destination;

pub use monoceros_rules::allocations::Elsewhere;
pub use monoceros_rules::pending::unsettled::{BundlePlace, QuestionBundle, Scope};

/// The way in which predicates of an RM are evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Predicates {
    /// At once, in the middle of a placement.
    #[default]
    Local,
    /// By [`ask_predicates`](crate::ResourceManagerCallback::ask_predicates), while other placements
    /// are decided.
    Remote {
        /// The most placements of a partition that wait for an answer, at least one. One keeps the
        /// order of placements exact.
        in_flight: usize,
        /// Whether the RM is also asked about places to be held for members of declared gangs whose
        /// requests have not arrived ([`PredicateQuestion::group`]). If not, any node with room is
        /// accepted for these.
        #[serde(default)]
        holds: bool,
    },
    /// The RM cannot be asked: placements that wait for an answer are withdrawn, and nothing is
    /// placed.
    Hold,
}

/// The number of a question, unique among all partitions of an RM during a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct QuestionId(pub u64);

/// A question about candidate nodes: on which of them, in order, may this request run? Or where may a
/// place be held for a member of a declared gang whose request has not arrived?
#[derive(Clone, Debug)]
pub struct PredicateQuestion {
    /// The number that the answer has to repeat.
    pub id: QuestionId,
    /// The application of the request.
    pub application: Arc<str>,
    /// The allocation key; empty for a place to be held.
    pub key: Arc<str>,
    /// The task group of the member for which a place is to be held; `None` for a request.
    pub group: Option<Arc<str>>,
    /// Candidates in the order of preference; never empty.
    pub nodes: Vec<Arc<str>>,
    /// Whether the request would be allocated now, in addition to everything on the node. Otherwise it
    /// reserves the node, or replaces a placeholder there, and allocations that have to end first are
    /// not to be counted.
    pub allocate: bool,
    /// The gang of the request, if the gang is placed as a whole: the request runs only if all members
    /// pass.
    pub bundle: Option<Arc<QuestionBundle>>,
    /// The sink for the answer.
    pub answers: AnswerSink,
}

/// The answer to a [`PredicateQuestion`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PredicateAnswer {
    /// The number of the question.
    pub id: QuestionId,
    /// The answer itself.
    pub verdict: Verdict,
}

/// The content of an answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The candidate at this position passes; those before it do not.
    Passed {
        /// The position in the question's `nodes`.
        position: usize,
        /// The changes that make the answer void.
        scope: Scope,
        /// The RM already counts the request as running there, so that its later answers include it.
        assumed: bool,
    },
    /// None of the candidates passes.
    Failed {
        /// Why, each with the number of nodes.
        reasons: Vec<(String, u32)>,
    },
    /// Some candidates were not answered in time, or the RM cannot be asked, which counts as a refusal:
    /// the request waits as after [`Failed`](Self::Failed). It does not become a scale-up request, since
    /// a silent RM must not look like a full cluster.
    Presumed {
        /// Why, each with the number of nodes.
        reasons: Vec<(String, u32)>,
    },
    /// The RM gave no answer, for a reason that has nothing to do with the request: the question is
    /// asked again.
    Unanswered,
}

/// Earlier answers that may be out of date.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invalidation {
    /// Answers about these nodes.
    pub nodes: Vec<String>,
    /// Answers about requests with these allocation keys.
    pub keys: Vec<String>,
    /// All answers.
    pub all: bool,
}

/// Questions about nodes where allocations would be evicted for one request: would it fit, and after how
/// many evictions? At most ten questions, which are answered together.
#[derive(Clone, Debug)]
pub struct PreemptionQuestions {
    /// The number that the answers have to repeat.
    pub id: QuestionId,
    /// The questions. Each has the allocations that would be evicted, in order, and the index of
    /// the last one that would be evicted in any case (`start_index`). If the node has room without
    /// evictions, the index is -1 and the list is empty.
    pub questions: Vec<PreemptionPredicatesArgs>,
    /// The sink for the answers.
    pub answers: AnswerSink,
}

/// The answer for the rules; a missing one counts as a refusal.
pub(crate) fn preemption_answer(answer: Option<&PreemptionPredicatesResponse>) -> PreemptionAnswer {
    match answer {
        Some(answer) if answer.success => PreemptionAnswer::Fits(answer.index),
        _ => PreemptionAnswer::Refused,
    }
}

/// Receives answers to the questions of one partition, from any thread. Answers to withdrawn questions
/// are dropped.
#[derive(Clone, Debug)]
pub struct AnswerSink(Arc<Destinations>);

/// The partition's mailbox, for each kind of answer.
#[derive(Debug)]
struct Destinations {
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
        Self(Arc::new(Destinations { preemptions, answers, unasked }))
    }

    /// Sends the answers to [questions about preemption](PreemptionQuestions), in the order of the
    /// questions. `None` and a missing answer count as a refusal, as does an index beyond the last
    /// allocation of its question.
    pub fn answer_preemption(
        &self,
        id: QuestionId,
        answers: &[Option<PreemptionPredicatesResponse>],
    ) {
        let answers = answers.iter().map(|answer| preemption_answer(answer.as_ref())).collect();
        self.0.preemptions.post(PreemptionAnswers { id, answers });
    }

    /// Sends answers, in the order in which they were made.
    pub fn answer(&self, answers: Vec<PredicateAnswer>) {
        self.0.answers.post(Answers(answers));
    }

    /// Reports questions that never reached the RM.
    pub(crate) fn unasked(&self, questions: Vec<QuestionId>) {
        self.0.unasked.post(Unasked(questions));
    }

    /// Whether the partition has ended.
    pub fn is_closed(&self) -> bool {
        !self.0.answers.is_open()
    }

    /// Whether both belong to the same partition.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Answers to questions about preemption, in the order of the questions. From the RM, by its
/// [`AnswerSink`].
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct PreemptionAnswers {
    pub(crate) id: QuestionId,
    pub(crate) answers: Vec<PreemptionAnswer>,
}

/// Answers to questions about placements. From the RM, by its [`AnswerSink`].
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Answers(pub(crate) Vec<PredicateAnswer>);

/// Questions that never reached the RM, because its callback panicked. From its session.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Unasked(pub(crate) Vec<QuestionId>);
