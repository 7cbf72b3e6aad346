//! Answers to questions about one application's placements, on their way to the nodes they concern
//! and then to the application.
//!
//! # Why by the nodes
//! The node is the authority on what it has. An answer that passes therefore goes to the node that
//! passes, which confirms or refuses it ([`crate::node::Confirm`]); only then is the placement
//! settled by its application. Answers are taken one after the other, in the order in which they
//! came: an answer may be void because of the one before it.

use std::collections::VecDeque;

use monoceros_rules::books::Books;
use monoceros_rules::values::ids::{ApplicationSlot, NodeSlot};

use crate::api::predicates::{Scope, Verdict};

/// Answers that are taken in one step: consecutive answers about one application.
pub(crate) struct Answers {
    pub(crate) application: ApplicationSlot,
    /// The answers that no node has seen yet, by question. No verdict: the question could not be
    /// asked.
    left: VecDeque<(u64, Option<Verdict>)>,
    /// The outcome of each answer so far, by question, for the application.
    pub(crate) settled: Vec<(u64, Settlement)>,
}

/// The meaning of an answer for its placement.
#[derive(Debug)]
pub(crate) enum Settlement {
    /// The placement is an allocation. The node holds it; if another node held it before, that one
    /// has to let go (`moved_from`).
    Confirmed { moved_from: Option<NodeSlot>, scope: Scope, assumed: bool },
    /// A candidate passes and the placement is not settled there: it is void, or the node can no
    /// longer have it.
    NotTaken { position: usize, assumed: bool, is_void: bool },
    /// The candidate that passes has left.
    NodeGone { assumed: bool },
    /// None of the candidates passes.
    Failed { reasons: Vec<(String, u32)> },
    /// The RM did not answer, and that counts as a refusal.
    Presumed { reasons: Vec<(String, u32)> },
    /// The RM gave no answer: the question is asked again.
    Unanswered,
    /// The question could not be asked, or the answer makes no sense: a refusal for now.
    Senseless { verdict: Option<Verdict> },
}

/// An answer that a node passes, on its way to that node.
pub(crate) struct Passed {
    pub(crate) question: u64,
    pub(crate) position: usize,
    pub(crate) scope: Scope,
    pub(crate) assumed: bool,
}

impl Answers {
    pub(crate) fn new(application: ApplicationSlot, first: (u64, Option<Verdict>)) -> Self {
        Self { application, left: VecDeque::from([first]), settled: Vec::new() }
    }

    /// Takes one more answer in, unless it depends on the capacity that the others leave on nodes.
    /// `Err` gives it back.
    pub(crate) fn join(
        &mut self,
        application: ApplicationSlot,
        answer: (u64, Option<Verdict>),
    ) -> Result<(), (u64, Option<Verdict>)> {
        let needs_room = matches!(answer.1, Some(Verdict::Passed { position, .. }) if position > 0);
        if application != self.application || needs_room {
            return Err(answer);
        }
        self.left.push_back(answer);
        Ok(())
    }

    /// Returns the next answer that a node passes, with that node. The answers before it concern no
    /// node.
    pub(crate) fn next_passed(&mut self, books: &Books) -> Option<(NodeSlot, Passed)> {
        while let Some((number, verdict)) = self.left.pop_front() {
            let Some(question) = books.unsettled.get(number) else { continue };
            let settlement = match verdict {
                Some(Verdict::Passed { position, scope, assumed })
                    if position < question.candidates.len() =>
                {
                    if let Some(node) = books.nodes.slot_of(&question.candidates[position]) {
                        return Some((node, Passed { question: number, position, scope, assumed }));
                    }
                    Settlement::NodeGone { assumed }
                }
                Some(Verdict::Failed { reasons }) => Settlement::Failed { reasons },
                Some(Verdict::Presumed { reasons }) => Settlement::Presumed { reasons },
                Some(Verdict::Unanswered) => Settlement::Unanswered,
                verdict => Settlement::Senseless { verdict },
            };
            self.settled.push((number, settlement));
        }
        None
    }
}
