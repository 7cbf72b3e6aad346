//! Answers to questions about placements, as they enter the partition.
//!
//! This file only decides which application each answer goes to, and which answers share a visit.
//! The meaning of an answer is known at the node and the application: see `node/predicates.rs` and
//! `application/predicates.rs`.

use actix::prelude::*;

use super::input::Input;
use super::{Partition, Task};
use crate::api::predicates::{
    AnswerSink, Answers, PreemptionAnswers, QuestionId, Unasked, Verdict,
};
use crate::mailbox::{Mailbox, Receive};
use crate::step::{Answers as StepAnswers, Baton, ClaimAnswer, Op, ReservationOp};

impl Partition {
    /// Takes answers in order, each at the application that it is about. Consecutive answers about
    /// one application share a visit, unless an answer needs capacity that an earlier answer frees
    /// on nodes.
    pub(super) fn answers(&mut self, answers: Vec<(QuestionId, Option<Verdict>)>, baton: &Baton) {
        let mut together: Option<StepAnswers> = None;
        let mut any = false;
        for (question, verdict) in answers {
            if let Some(claim) = baton.books.unsettled.claim(question.0) {
                // The answers before this one go first, since they may be about the same
                // application.
                self.agenda.extend(together.take().map(Task::TakeAnswers));
                let op = Op::Reservation(ReservationOp::Claimed {
                    question,
                    answer: claim_answer(verdict.as_ref()),
                });
                self.agenda.push_back(Task::Visit(claim.application, vec![op]));
                any = true;
                continue;
            }
            let Some(open) = baton.books.unsettled.get(question.0) else { continue };
            let (application, answer) = (open.application, (question.0, verdict));
            let answer = match &mut together {
                Some(batch) => match batch.join(application, answer) {
                    Ok(()) => continue,
                    Err(answer) => answer,
                },
                None => answer,
            };
            let full = together.replace(StepAnswers::new(application, answer));
            self.agenda.extend(full.map(Task::TakeAnswers));
        }
        any |= together.is_some();
        self.agenda.extend(together.map(Task::TakeAnswers));
        if any {
            self.agenda.push_back(Task::EndOfAnswers);
            self.may_decide = true;
        }
    }
}

/// Translates an answer to the question whether an ask may reserve a node.
fn claim_answer(verdict: Option<&Verdict>) -> ClaimAnswer {
    match verdict {
        Some(Verdict::Passed { position: 0, .. }) => ClaimAnswer::Passed,
        Some(Verdict::Unanswered) => ClaimAnswer::None,
        // `None`: the question could not be asked. An answer that makes no sense is a refusal, too.
        None | Some(Verdict::Passed { .. } | Verdict::Failed { .. } | Verdict::Presumed { .. }) => {
            ClaimAnswer::Refused
        }
    }
}

impl Mailbox<Partition> {
    /// Returns the sink that the RM gets with each question, for its answers.
    pub(super) fn answer_sink(&self) -> AnswerSink {
        AnswerSink::new(self.destination(), self.destination(), self.destination())
    }
}

impl Receive<Answers> for Partition {
    fn receive(&mut self, Answers(answers): Answers, ctx: &mut Context<Self>) {
        let answers = answers.into_iter().map(|answer| (answer.id, Some(answer.verdict)));
        self.inbox.push_input(Input::Answers(answers.collect()));
        self.turn(ctx);
    }
}

impl Receive<PreemptionAnswers> for Partition {
    fn receive(&mut self, answers: PreemptionAnswers, ctx: &mut Context<Self>) {
        let PreemptionAnswers { id, answers } = answers;
        self.inbox.push_input(Input::PreemptionAnswers(id, answers));
        self.turn(ctx);
    }
}

impl Receive<Unasked> for Partition {
    fn receive(&mut self, Unasked(questions): Unasked, ctx: &mut Context<Self>) {
        let unasked = questions.into_iter().map(|question| (question, None));
        self.inbox.push_input(Input::Answers(unasked.collect()));
        self.turn(ctx);
    }
}
