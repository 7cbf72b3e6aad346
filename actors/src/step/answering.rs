//! Answers to questions about one application's placements, on their way to the nodes they concern
//! and then to the application.
//!
//! # Why by the nodes
//! The node is the authority on what it has: so an answer that passes goes to the node that passes,
//! which confirms it or refuses it ([`crate::node::Confirm`]); only then is the placement settled
//! by its application. One after the other, in the order in which they came: an answer may be void
//! because of the one before it.

use std::collections::VecDeque;

use monoceros_rules::books::Books;
use monoceros_rules::nodes::NodeSlot;
use monoceros_rules::work::allocations::ApplicationSlot;

use crate::api::predicates::{Scope, Verdict};

/// Answers that are taken in one step: those about one application that came one after the other.
pub(crate) struct Answers {
    pub(crate) application: ApplicationSlot,
    /// The answers that no node has seen yet, by question. No verdict: the question could not be
    /// asked.
    left: VecDeque<(u64, Option<Verdict>)>,
    /// The outcome of each answer so far, by question, for the application.
    pub(crate) settled: Vec<(u64, Settlement)>,
}

/// What an answer means for its placement.
#[derive(Debug)]
pub(crate) enum Settlement {
    /// It is an allocation. The node holds it; if another held it before, that one has to let go.
    Confirmed { moved_from: Option<NodeSlot> },
    /// A candidate passes and the placement is not settled there: it is void, or the node cannot
    /// have it any more.
    NotTaken { position: usize, assumed: bool, is_void: bool },
    /// None of the candidates passes.
    Failed { reasons: Vec<(String, u32)> },
    /// The RM did not answer, and that counts as a refusal.
    Presumed { reasons: Vec<(String, u32)> },
    /// There is no answer: it is asked again.
    Unanswered,
    /// It could not be asked, or the answer makes no sense: a refusal for now.
    Senseless { verdict: Option<Verdict> },
}

/// An answer that says that a node passes, on its way to that node.
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

    /// Takes one more answer in, unless it has to wait for what the others leave on nodes. `Err`
    /// gives it back.
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

    /// The node that the next answer has to be confirmed by; those before it need no node.
    pub(crate) fn next_node(&mut self, books: &Books) -> Option<NodeSlot> {
        while let Some((number, verdict)) = self.left.front() {
            if let Some(question) = books.unsettled.get(*number)
                && let Some(Verdict::Passed { position, .. }) = verdict
                && let Some(candidate) = question.candidates.get(*position)
                && let Some(node) = books.nodes.slot_of(candidate)
            {
                return Some(node);
            }
            let (number, verdict) = self.left.pop_front().expect("it was looked at");
            if let Some(question) = books.unsettled.get(number) {
                let settlement = Settlement::without_node(verdict, question.candidates.len());
                self.settled.push((number, settlement));
            }
        }
        None
    }

    /// The answer that the node is visited for.
    pub(crate) fn take_passed(&mut self) -> Option<Passed> {
        match self.left.pop_front() {
            Some((question, Some(Verdict::Passed { position, scope, assumed }))) => {
                Some(Passed { question, position, scope, assumed })
            }
            other => {
                debug_assert!(false, "a node is visited for an answer that passes: {other:?}");
                None
            }
        }
    }
}

impl Settlement {
    /// What an answer means that no node has to confirm, for a question with so many candidates.
    fn without_node(verdict: Option<Verdict>, candidates: usize) -> Self {
        match verdict {
            // The node that passes is gone.
            Some(Verdict::Passed { position, assumed, .. }) if position < candidates => {
                Self::NotTaken { position, assumed, is_void: true }
            }
            Some(Verdict::Failed { reasons }) => Self::Failed { reasons },
            Some(Verdict::Presumed { reasons }) => Self::Presumed { reasons },
            Some(Verdict::Unanswered) => Self::Unanswered,
            verdict => Self::Senseless { verdict },
        }
    }
}
