//! Questions to the RM about victims of preemption. The RM answers at once or some steps later.
//! Between two searches one input is taken in, if there is one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use monoceros_proto::si::v1::PreemptionPredicatesArgs;
use monoceros_rules::decide::preemption::{Answer, Question};
use monoceros_rules::values::ids::ApplicationSlot;

use super::Partition;
use crate::api::predicates::{PreemptionQuestions, QuestionId, preemption_answer};
use crate::step::{AwaitsAnswers, Baton, Notice};

impl Partition {
    /// Asks an RM in this process about asks of an application with these keys. The answers of a
    /// remote RM come as a step of their own: then none are returned, and `open` waits for them.
    pub(super) fn ask_about_victims(
        &mut self,
        application: ApplicationSlot,
        questions: &[(Arc<str>, Question)],
        baton: &mut Baton,
    ) -> Result<Vec<Answer>, u64> {
        let questions = questions.iter();
        if !self.controls.asks_later() {
            let ask = |(key, question): &(_, _)| ask_now((application, key), question, baton);
            return Ok(questions.map(ask).collect());
        }
        let number = baton.books.unsettled.next_number();
        let (id, answers) = (QuestionId(number), baton.services.answers.clone());
        let questions = questions.map(|(key, question)| args(key, question, baton)).collect();
        let group = PreemptionQuestions { id, questions, answers };
        baton.effects.notify(Notice::AskedPreemption(Box::new(group)));
        Err(number)
    }

    /// Has a search wait for the answers to this question.
    pub(super) fn await_victims(&mut self, number: u64, open: Box<dyn AwaitsAnswers>) {
        debug_assert!(self.inquiries.open.is_none(), "one at a time");
        self.inquiries.open = Some((number, open));
    }

    /// Continues the search that waits for these answers of the RM.
    pub(super) fn preemption_answers(
        &mut self,
        question: QuestionId,
        answers: &[Answer],
        baton: &mut Baton,
    ) {
        let is_it = |(number, _): &mut (u64, _)| *number == question.0;
        // Otherwise the question was given up, or answered before.
        if let Some((_, search)) = self.inquiries.open.take_if(is_it) {
            search.answered(answers, self, baton);
        }
    }

    /// Ends the open question as if nothing fitted, because the RM cannot be asked any more, or
    /// only in another way.
    pub(super) fn give_up_inquiry(&mut self, baton: &mut Baton) {
        if let Some((number, _)) = &self.inquiries.open {
            self.preemption_answers(QuestionId(*number), &[], baton);
        }
    }
}

fn args(key: &Arc<str>, question: &Question, baton: &Baton) -> PreemptionPredicatesArgs {
    let table = &baton.books.allocations;
    let victims = question.victims.iter().filter_map(|id| table.get(*id));
    PreemptionPredicatesArgs {
        allocation_key: key.to_string(),
        node_id: baton.books.nodes.id(question.node).to_string(),
        preempt_allocation_keys: victims.map(|entry| entry.key().to_string()).collect(),
        start_index: question.start_index,
    }
}

/// Asks an RM in this process a question; the answer is an input of the step that is under way.
fn ask_now(
    (application, key): (ApplicationSlot, &Arc<str>),
    question: &Question,
    baton: &mut Baton,
) -> Answer {
    if question.victims.is_empty() {
        let node = Arc::clone(baton.books.nodes.id(question.node));
        let fits = baton.may_be_placed((application, key), &node);
        return if fits { Answer::Fits(-1) } else { Answer::Refused };
    }
    let args = args(key, question, baton);
    let Ok(answer) =
        catch_unwind(AssertUnwindSafe(|| baton.services.callback.preemption_predicates(&args)))
    else {
        tracing::error!(ask = %key, node = args.node_id,
            "the callback for questions about preemption panicked, taken as a refusal");
        return Answer::Refused;
    };
    preemption_answer(Some(&answer))
}
