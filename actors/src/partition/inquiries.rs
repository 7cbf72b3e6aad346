//! Who looks for victims of preemption, one after another, and the questions about it that the RM
//! has still to answer.
//!
//! # Invariants
//! * Between two that look one input is taken in, if there is one.
//! * Each waits once, however often it comes meanwhile.
//! * Questions of one asker at most are open: what one is given changes what is left for the next.
//! * While questions are open everything else goes on. What was planned with their answers is tested
//!   again on fresh facts before it is carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use monoceros_proto::si::v1::PreemptionPredicatesArgs;
use monoceros_rules::decide::preemption::{Answer, Question};
use monoceros_rules::pending::promises::Promisee;
use monoceros_rules::values::ids::ApplicationSlot;

use super::Partition;
use super::surveys::{Asked, AskedForNode};
use crate::api::predicates::{PreemptionQuestions, QuestionId, preemption_answer};
use crate::step::{Baton, Notice, Preemptor};

/// Those who look for victims.
#[derive(Default)]
pub(super) struct Inquiries {
    /// Since when each waits, ns since the epoch. Of those that came at one time the first by number is
    /// next, so that how many decisions were made in one step changes nothing.
    waiting: BTreeSet<(i64, Promisee)>,
    /// What each of them wants.
    wants: BTreeMap<Promisee, Preemptor>,
    open: Option<(u64, Open)>,
    /// The last thing that was begun was to look.
    has_just_looked: bool,
}

/// What waits for answers.
pub(super) enum Open {
    /// A plan for a guarantee.
    Guarantee(Box<Asked>),
    /// A plan for an ask that requires its node.
    Node(Box<AskedForNode>),
}

impl Inquiries {
    /// Whether the RM has still to answer.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// These are to look for victims, after those that came earlier.
    pub(super) fn extend(&mut self, now_ns: i64, who: impl IntoIterator<Item = Preemptor>) {
        for wants in who {
            // What is known last counts, and who came first keeps its place.
            if self.wants.insert(wants.who(), wants).is_none() {
                self.waiting.insert((now_ns, wants.who()));
            }
        }
    }

    /// Whether somebody waits to look, and nobody does.
    pub(super) fn is_anybody_next(&self) -> bool {
        self.open.is_none() && !self.waiting.is_empty()
    }

    /// Whether the last thing that was begun was to look; not any more from now on.
    pub(super) fn has_just_looked(&mut self) -> bool {
        std::mem::take(&mut self.has_just_looked)
    }

    /// The next one that looks, if nobody does.
    pub(super) fn next(&mut self) -> Option<Preemptor> {
        let (_, next) = self.open.is_none().then(|| self.waiting.pop_first())??;
        self.has_just_looked = true;
        self.wants.remove(&next)
    }
}

impl Partition {
    /// Asks an RM in this process about asks of an application with these keys. From one that answers
    /// later the answers come as a step of their own: then there are none yet, and `open` waits for them.
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
        let (id, answers) = (QuestionId(number), baton.answers.clone());
        let questions = questions.map(|(key, question)| args(key, question, baton)).collect();
        let group = PreemptionQuestions { id, questions, answers };
        baton.notices.push(Notice::AskedPreemption(Box::new(group)));
        Err(number)
    }

    /// Answers to this question are waited for.
    pub(super) fn await_victims(&mut self, number: u64, open: Open) {
        debug_assert!(self.inquiries.open.is_none(), "one at a time");
        self.inquiries.open = Some((number, open));
    }

    /// The RM answered.
    pub(super) fn preemption_answers(
        &mut self,
        question: QuestionId,
        answers: &[Answer],
        baton: &mut Baton,
    ) {
        let is_it = |(number, _): &mut (u64, Open)| *number == question.0;
        match self.inquiries.open.take_if(is_it) {
            Some((_, Open::Guarantee(asked))) => asked.answered(answers, self, baton),
            Some((_, Open::Node(asked))) => asked.answered(answers, self),
            // They were given up, or answered before.
            None => {}
        }
    }

    /// The RM cannot be asked any more, or not in this way: nothing fits.
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

/// What an RM in this process says to a question; an input of the step that is under way.
fn ask_now(
    (application, key): (ApplicationSlot, &Arc<str>),
    question: &Question,
    baton: &mut Baton,
) -> Answer {
    if question.victims.is_empty() {
        let node = Arc::clone(baton.books.nodes.id(question.node));
        let fits = crate::node::may_be_placed((application, key), &node, baton);
        return if fits { Answer::Fits(-1) } else { Answer::Refused };
    }
    let args = args(key, question, baton);
    let Ok(answer) = catch_unwind(AssertUnwindSafe(|| baton.callback.preemption_predicates(&args)))
    else {
        tracing::error!(ask = %key, node = args.node_id,
            "the callback for questions about preemption panicked, taken as a refusal");
        return Answer::Refused;
    };
    preemption_answer(Some(&answer))
}

#[cfg(test)]
mod tests {
    use monoceros_rules::pending::reservations::Reserver;
    use monoceros_rules::values::ids::AskSlot;

    use super::*;

    fn wants(ask: u32, nodes_were_tried: bool) -> Preemptor {
        let (application, ask) = (ApplicationSlot::at(0), AskSlot::at(ask));
        let who = Promisee::Ask(Reserver { application, ask });
        Preemptor::ForGuarantee { who, nodes_were_tried }
    }

    #[test]
    fn who_comes_again_before_its_turn_keeps_its_place_and_looks_once() {
        let mut inquiries = Inquiries::default();
        inquiries.extend(10, [wants(2, false)]);
        inquiries.extend(11, [wants(1, false), wants(2, true)]);
        assert_eq!(inquiries.next(), Some(wants(2, true)));
        assert_eq!(inquiries.next(), Some(wants(1, false)));
        assert_eq!(inquiries.next(), None);
        inquiries.extend(12, [wants(2, false)]);
        assert_eq!(inquiries.next(), Some(wants(2, false)));
    }
}
