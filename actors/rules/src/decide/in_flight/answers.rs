//! Applies answers about members to their bundle in flight, and moves members that cannot stay on
//! their nodes.

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

/// The maximum number of repeated questions about a member. Its bundle is withdrawn instead of one
/// more.
const ASKED_AGAIN_MAX: u32 = 3;

/// The answer about a member, or none.
#[derive(Debug)]
pub enum MemberAnswer {
    /// The member may run at its place, and the node confirms it.
    Passes {
        /// The facts on which the answer depends.
        scope: Scope,
        /// Whether the RM counts the member as running there.
        is_assumed: bool,
    },
    /// The member may run at its place, and the node takes nothing any more, or has too little.
    NotTaken {
        /// Whether the RM counts the member as running there.
        is_assumed: bool,
    },
    /// The member may run at its place, and a fact that the answer depends on has changed.
    Void {
        /// Whether the RM counts the member as running there.
        is_assumed: bool,
    },
    /// The RM did not answer.
    Unanswered,
    /// Predicates refuse the member at its place.
    Refused {
        /// Whether the refusal is presumed because the RM did not answer.
        is_presumed: bool,
    },
}

/// The effects of an answer, or of a change of a node, on the bundle. The application carries them
/// out.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The questions whose answers are not wanted any more, or do not count.
    pub cancelled: SmallVec<[u64; 1]>,
    /// Whether a node refused a member.
    pub is_refusal: bool,
    /// Whether this is the first void answer, after which the bundle has
    /// [`VOID_MAX`](super::VOID_MAX) to be settled.
    pub is_first_void: bool,
    /// The next step.
    pub next: NextStep,
}

/// The next step of a bundle after an answer.
#[derive(Debug, Default)]
pub enum NextStep {
    /// The bundle waits for further answers.
    #[default]
    Wait,
    /// A member moves.
    Move(Move),
    /// The bundle has to be withdrawn.
    Withdraw(Withdrawal),
}

/// A member that moves to another node. The node index and the table have the move already.
#[derive(Debug)]
pub struct Move {
    /// Its placement.
    pub id: AllocationId,
    /// The amount that it takes.
    pub resources: Resources,
    /// The node that gets the amount back; `None` if the node was removed.
    pub from: Option<NodeSlot>,
    /// The node that has to hold the member.
    pub to: NodeSlot,
}

/// The withdrawal of a bundle because a member finds no node, or because the RM gives no answers
/// that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withdrawal {
    /// The reason.
    pub why: WithdrawReason,
    /// The node that was removed.
    pub gone: Option<NodeSlot>,
    /// The ask of the member that all nodes with capacity refused.
    pub refused: Option<AskSlot>,
}

/// Why a member moves from its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moves {
    /// The node refused the member, or is presumed to.
    Refused,
    /// The node takes nothing any more, or has less than it holds.
    Displaced,
    /// The node was removed, with all that it held.
    Stranded(NodeSlot),
}

/// Why the RM is asked again about a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    /// The RM did not answer.
    Unanswered,
    /// A fact that the answer depends on has changed since the question. `asked_at` is the number
    /// of changes of the partition at the question.
    Void { asked_at: u64 },
}

impl Moves {
    /// Returns how the bundle is withdrawn if no other node takes the member.
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
    /// Returns the first node in order that the member may use and that did not refuse it. Nodes
    /// without a failed start of the member come first.
    fn another_node(&self, asks: &Asks, nodes: &NodeIndex) -> Option<NodeSlot> {
        // The constraint is judged without the member itself.
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
    /// Applies the answer to a question about a member.
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
                // The RM is never notified of a held place, and must not count it.
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

    /// Checks whether the answer that a member passed still counts after placements and releases
    /// since then.
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

    /// Closes a question. Returns the position of the member that it was about, and the question.
    fn close(&mut self, number: u64, books: &mut Books) -> Option<(usize, OpenQuestion)> {
        let question = books.unsettled.take(number)?;
        if let Some(entry) = books.allocations.get_mut(question.allocation) {
            entry.answered();
        }
        let at = self.open.remove(&number);
        debug_assert!(at.is_some(), "a question is closed by the bundle that it is about");
        Some((at?, question))
    }

    /// Has the RM asked again about a member at its place, since there is no answer that counts.
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
    /// Moves a member whose node takes nothing any more, has less than it holds, or was removed
    /// (`gone`). The RM may have been asked about the member, or the member may have passed there.
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

    /// Moves a member whose node refused it, or is presumed to. There is no open question about the
    /// member.
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
            // Mates have left the node, and it has capacity for this member now.
            return;
        }
        let (id, is_asked) = (member.id, member.is_asked);
        outcome.cancelled.extend(self.unask(at, books));
        if let Some(entry) = books.allocations.get_mut(id) {
            entry.node = node;
            books.nodes.count(id, entry);
        }
        // The amounts change at once: no other member of this visit counts on the same capacity,
        // and a member that moves after this one may use what this one leaves.
        Taken::default().take(&mut books.nodes, node, &resources);
        let from = (!matches!(why, Moves::Stranded(_))).then_some(before);
        if from.is_some() {
            let left = books.nodes.available(before).plus(&resources);
            books.nodes.take_back(before, &left);
        }
        outcome.next = NextStep::Move(Move { id, resources, from, to: node });
        if !is_asked {
            // The RM is not asked about this member, and no answer depends on it.
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

    /// Removes the open question about a member, or its answer. Returns the question that is
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
