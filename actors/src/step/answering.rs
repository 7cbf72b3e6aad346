//! Answers of predicates about one application's placements, on their way to the nodes concerned
//! and then to the application.
//!
//! # Why by the nodes
//! The node is the authority on what it has. If the RM's answer is that a node passes, it therefore
//! goes to that node, which confirms or refuses the placement ([`crate::node::Confirm`]); only then
//! does the application settle the placement. Answers are handled one after the other, in the order
//! in which they arrived: an answer may be void because of an earlier one.

use std::collections::VecDeque;

use monoceros_rules::books::Books;
use monoceros_rules::values::ids::{ApplicationSlot, NodeSlot};

use crate::api::predicates::{Scope, Verdict};

/// The answers that are handled in one step: consecutive answers about one application.
pub(crate) struct Answers {
    pub(crate) application: ApplicationSlot,
    /// The answers that are not handled yet, each with the number of its question. A verdict of
    /// `None`: the question could not be asked.
    left: VecDeque<(u64, Option<Verdict>)>,
    /// The outcomes of the answers that were handled, each with the number of its question, for the
    /// application.
    pub(crate) settled: Vec<(u64, Settlement)>,
}

/// The meaning of an answer for its placement.
#[derive(Debug)]
pub(crate) enum Settlement {
    /// The placement is an allocation, and the node that passed holds it. If another node held it
    /// before (`moved_from`), that node has to release it.
    Confirmed { moved_from: Option<NodeSlot>, scope: Scope, assumed: bool },
    /// The candidate at `position` passes, but the placement is not made there: the answer is void
    /// (`is_void`), or the node cannot have the placement any more.
    NotTaken { position: usize, assumed: bool, is_void: bool },
    /// The candidate that passes has been removed.
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

    /// Adds an answer, to be handled in the same step. `Err` returns an answer that has to wait: it
    /// is about another application, or it passes an alternative node, whose free capacity depends
    /// on the answers before.
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

    /// Returns the next answer by which a node passes, with that node. Records the outcomes of the
    /// answers before it, which concern no node.
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
