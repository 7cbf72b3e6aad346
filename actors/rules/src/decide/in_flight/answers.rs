//! What answers about members of a bundle in flight mean for it, and what becomes of a member that cannot stay
//! on its node.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{BundleInFlight, MemberInFlight, Pass, WithdrawReason};
use crate::asks::Asks;
use crate::books::Books;
use crate::decide::predicates::{Confirmation, confirm};
use crate::nodes::{NodeIndex, NodeRequest, Taken, Wish};
use crate::pending::unsettled::{OpenQuestion, Scope};
use crate::values::ids::{AllocationId, AskSlot, NodeSlot};
use crate::values::resources::Resources;

/// The number of times that a member is asked about again before its bundle is withdrawn.
const ASKED_AGAIN_MAX: u32 = 3;

/// An answer about a member, or the lack of one.
#[derive(Debug)]
pub enum MemberAnswer {
    /// It may run at its place, and the node there confirms it.
    Passes {
        /// What the answer depends on.
        scope: Scope,
        /// The RM counts it as running there.
        is_assumed: bool,
    },
    /// It may run at its place, and the node takes nothing any more, or has too little.
    NotTaken {
        /// The RM counts it as running there.
        is_assumed: bool,
    },
    /// It may run at its place, and something that the answer depends on has changed.
    Void {
        /// The RM counts it as running there.
        is_assumed: bool,
    },
    /// The RM did not answer.
    Unanswered,
    /// Predicates refuse it at its place.
    Refused {
        /// The RM did not answer, and that counts as a refusal.
        is_presumed: bool,
    },
}

/// What an answer or a change of a node means for the bundle, for the application to carry out.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Questions whose answers are not wanted any more, or do not count.
    pub cancelled: SmallVec<[u64; 1]>,
    /// A node refused a member.
    pub is_refusal: bool,
    /// It was the first void answer: the time begins after which the bundle is withdrawn.
    pub is_first_void: bool,
    /// What follows.
    pub next: NextStep,
}

/// What follows from an answer.
#[derive(Debug, Default)]
pub enum NextStep {
    /// The bundle waits on.
    #[default]
    Wait,
    /// A member moves.
    Move(Move),
    /// The bundle is to be withdrawn.
    Withdraw(Withdrawal),
}

/// A member that goes to another node. The node index and the table know of it already.
#[derive(Debug)]
pub struct Move {
    /// Its placement.
    pub id: AllocationId,
    /// The amount that it takes.
    pub resources: Resources,
    /// The node that gets the amount back; `None` if that is gone.
    pub from: Option<NodeSlot>,
    /// The node that is to hold it.
    pub to: NodeSlot,
}

/// The end of a bundle for which a member finds no node, or which gets no answers that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withdrawal {
    /// Why.
    pub why: WithdrawReason,
    /// The node that is gone.
    pub gone: Option<NodeSlot>,
    /// The ask of the member that all nodes with room refused.
    pub refused: Option<AskSlot>,
}

/// Why a member cannot stay on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moves {
    /// The node refused it, or is presumed to.
    Refused,
    /// The node takes nothing any more, or has less than it holds.
    Displaced,
    /// The node is gone, with what it held.
    Stranded(NodeSlot),
}

/// Why a member is asked about again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    /// There is no answer.
    Unanswered,
    /// Something that the answer depends on has changed since the question, when there had been so many
    /// changes of the partition.
    Void { asked_at: u64 },
}

impl Moves {
    /// What becomes of the bundle if no other node takes the member.
    fn withdrawal(self, member: &MemberInFlight) -> Withdrawal {
        let (why, gone, refused) = match self {
            Self::Refused if member.was_silent => {
                (WithdrawReason::Unanswered, None, Some(member.ask))
            }
            Self::Refused => (WithdrawReason::Refused, None, Some(member.ask)),
            Self::Displaced => (WithdrawReason::Changed, None, None),
            Self::Stranded(node) => (WithdrawReason::Changed, Some(node), None),
        };
        Withdrawal { why, gone, refused }
    }
}

impl MemberInFlight {
    /// The first node in order that it may use, of those that did not refuse it: without a failed start if there
    /// is one.
    fn another_node(&self, asks: &Asks, nodes: &NodeIndex) -> Option<NodeSlot> {
        // It does not keep itself away.
        let gone = [self.id];
        let first = |request: NodeRequest<'_>| {
            let request = request.passing_over(&self.refused);
            let wish = request.wish.map(|wish| Wish { gone: &gone, ..wish });
            nodes.first(&NodeRequest { wish, ..request })
        };
        let ask = asks.ask(self.ask);
        ask.request_elsewhere().and_then(first).or_else(|| first(ask.request()))
    }
}

/// Answers.
impl BundleInFlight {
    /// Takes the answer to a question about a member.
    pub fn take(
        &mut self,
        question: u64,
        answer: MemberAnswer,
        asks: &Asks,
        books: &mut Books,
        now_ns: i64,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let number = question;
        let Some((at, question)) = self.close(number, books) else { return outcome };
        let member = &mut self.members[at];
        match answer {
            MemberAnswer::Passes { scope, is_assumed } => {
                // The RM is never notified of a place that is held, and is not to count on it.
                let is_counted = is_assumed && !member.is_held;
                if is_assumed && !is_counted {
                    outcome.cancelled.push(number);
                }
                member.passed = Some(Pass { number, question, scope, is_assumed: is_counted });
            }
            MemberAnswer::NotTaken { is_assumed } => {
                outcome.cancelled.extend(is_assumed.then_some(number));
                self.refused(at, asks, books, &mut outcome);
            }
            MemberAnswer::Void { is_assumed } => {
                outcome.cancelled.extend(is_assumed.then_some(number));
                let asked_at = question.asked_at();
                self.ask_again(at, Again::Void { asked_at }, now_ns, &mut outcome);
            }
            MemberAnswer::Unanswered => {
                self.ask_again(at, Again::Unanswered, now_ns, &mut outcome);
            }
            MemberAnswer::Refused { is_presumed } => {
                member.was_silent |= is_presumed;
                self.refused(at, asks, books, &mut outcome);
            }
        }
        outcome
    }

    /// Checks whether the answer that a member passed still counts: others may have come or gone since.
    pub fn check(&mut self, at: usize, asks: &Asks, books: &mut Books, now_ns: i64) -> Outcome {
        let (mut outcome, member) = (Outcome::default(), &self.members[at]);
        let Some(pass) = &member.passed else { return outcome };
        let Some(entry) = books.allocations.get(member.id) else {
            debug_assert!(false, "a member in flight is in the table");
            return outcome;
        };
        match confirm(books, &pass.question, entry.node, &pass.scope) {
            Confirmation::Confirmed => {}
            Confirmation::Void => {
                let asked_at = pass.question.asked_at();
                self.ask_again(at, Again::Void { asked_at }, now_ns, &mut outcome);
            }
            Confirmation::Refused => self.refused(at, asks, books, &mut outcome),
        }
        outcome
    }

    /// Closes a question. Returns the position of the member that it was about.
    fn close(&mut self, number: u64, books: &mut Books) -> Option<(usize, OpenQuestion)> {
        let question = books.unsettled.take(number)?;
        if let Some(entry) = books.allocations.get_mut(question.allocation) {
            entry.answered();
        }
        let at = self.open.remove(&number);
        debug_assert!(at.is_some(), "a question is closed by the bundle that it is about");
        Some((at?, question))
    }

    /// There is no answer that counts: the member is asked about again, at its place.
    fn ask_again(&mut self, at: usize, why: Again, now_ns: i64, outcome: &mut Outcome) {
        self.to_ask.push_back(at);
        let member = &mut self.members[at];
        outcome.cancelled.extend(member.forget_pass());
        if let Again::Void { asked_at } = why
            && asked_at < self.moved_at
        {
            return;
        }
        member.asked_again += 1;
        outcome.is_first_void = self.void_since_ns.is_none();
        self.void_since_ns.get_or_insert(now_ns);
        if member.asked_again > ASKED_AGAIN_MAX {
            let why = WithdrawReason::Unanswered;
            outcome.next = NextStep::Withdraw(Withdrawal { why, gone: None, refused: None });
        }
    }
}

/// Moves.
impl BundleInFlight {
    /// Moves a member whose node takes nothing any more, has less than it holds, or is `gone`. It may be asked
    /// about, or have passed there.
    pub fn displace(
        &mut self,
        id: AllocationId,
        gone: Option<NodeSlot>,
        asks: &Asks,
        books: &mut Books,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let at = self.members.iter().position(|member| member.id == id);
        debug_assert!(at.is_some(), "a placement in a bundle is of the one in flight");
        if let Some(at) = at {
            let why = gone.map_or(Moves::Displaced, Moves::Stranded);
            self.move_member(at, why, asks, books, &mut outcome);
        }
        outcome
    }

    /// The node of a member refused it, or is presumed to. There is no question about the member any more.
    fn refused(&mut self, at: usize, asks: &Asks, books: &mut Books, outcome: &mut Outcome) {
        outcome.is_refusal = true;
        self.move_member(at, Moves::Refused, asks, books, outcome);
    }

    fn move_member(
        &mut self,
        at: usize,
        why: Moves,
        asks: &Asks,
        books: &mut Books,
        outcome: &mut Outcome,
    ) {
        let member = &mut self.members[at];
        let Some(entry) = books.allocations.get(member.id) else {
            debug_assert!(false, "a member in flight is in the table");
            return;
        };
        let (before, resources) = (entry.node, entry.resources().clone());
        if why == Moves::Refused {
            member.refused.insert(Arc::clone(books.nodes.id(before)));
        }
        let Some(node) = member.another_node(asks, &books.nodes) else {
            outcome.next = NextStep::Withdraw(why.withdrawal(member));
            return;
        };
        if node == before {
            // Mates have left it, and there is room for this one now.
            return;
        }
        let (id, is_asked) = (member.id, member.is_asked);
        outcome.cancelled.extend(self.unask(at, books));
        if let Some(entry) = books.allocations.get_mut(id) {
            entry.node = node;
            books.nodes.count(id, entry);
        }
        // At once, so that no other member of this visit counts on the same room, and one that goes,
        // too, may have what this one leaves.
        Taken::default().take(&mut books.nodes, node, &resources);
        let from = (!matches!(why, Moves::Stranded(_))).then_some(before);
        if from.is_some() {
            let left = books.nodes.available(before).plus(&resources);
            books.nodes.take_back(before, &left);
        }
        outcome.next = NextStep::Move(Move { id, resources, from, to: node });
        if !is_asked {
            // Nobody is asked about it, and no answer rests on it.
            return;
        }
        if !self.to_ask.contains(&at) {
            self.to_ask.push_back(at);
        }
        self.mates = None;
        books.unsettled.changed(before);
        books.unsettled.changed(node);
        self.moved_at = books.unsettled.changes();
    }

    /// What was asked about a member, or answered, does not count any more. Returns the question that is
    /// cancelled.
    fn unask(&mut self, at: usize, books: &mut Books) -> Option<u64> {
        let member = &mut self.members[at];
        let (id, assumed) = (member.id, member.forget_pass());
        let open = self.open.iter().find(|(_, of)| **of == at).map(|(number, _)| *number);
        debug_assert!(assumed.is_none() || open.is_none(), "an open question has no answer");
        let Some(number) = open else { return assumed };
        self.open.remove(&number);
        if let Some(entry) = books.allocations.get_mut(id) {
            entry.answered();
        }
        books.unsettled.take(number).is_some().then_some(number)
    }
}
