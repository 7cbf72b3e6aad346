//! A bundle in flight: the members of a declared gang have places, and the RM is asked whether its
//! predicates pass for each of them. The answers come in later steps.
//!
//! # The way of a bundle
//! All members are charged in the step in which their places are found, including those without an
//! ask, for which places are only held. The RM is asked about the members with asks, and about the
//! others if it judges held places; the window bounds the number of open questions. When the last
//! member has passed, all members are settled in one step, and not before. A member moves to
//! another node at once if it is refused, or if its node is lost or does not take it any more; its
//! mates stay where they are. If there is no other node for it, the whole bundle is withdrawn. It
//! is withdrawn, too, when an ask of it changes or is removed: that is another gang, whose places
//! are searched at once.
//!
//! # Void answers
//! Mates do not make each other's answers void, since each question names the places of all. A
//! member that moves makes answers void, as any other placement or release does. The facts behind
//! an answer may change after it was received, too, as long as the RM is asked about other members.
//! So all answers are checked again once the last member has passed, and the RM is asked again
//! about members whose answers are void.
//!
//! After the first void answer nothing else is placed, so that in the end answers that depend on
//! the whole partition can count. If the bundle is not settled [`VOID_MAX`] after that answer, it
//! is withdrawn and tried later. Answers that became void by a mate's move are not counted as void:
//! each move leaves a node that is not tried again, so the number of moves is bounded.
//!
//! # Invariants
//! * At most one bundle of a partition is in flight.
//! * Removing a member from the table withdraws the whole bundle, or settles it.
//! * The open questions of this bundle are exactly the questions about its members in the table of
//!   open questions.

mod answers;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::applications::application::Application;
use crate::applications::native::Stage;
use crate::books::Books;
use crate::order::ledger::LedgerDelta;
use crate::pending::unsettled::{BundlePlace, OpenBundle, OpenQuestion, QuestionBundle, Scope};
use crate::values::hashing::SeededSet;
use crate::values::ids::{AllocationId, ApplicationSlot, AskSlot, NodeSlot};
use crate::values::resources::Resources;

pub use answers::{MemberAnswer, Move, NextStep, Outcome, Withdrawal};

/// The time from its first void answer to the withdrawal of a bundle.
pub const VOID_MAX: Duration = Duration::from_secs(30);

/// A bundle in flight.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BundleInFlight {
    members: Vec<MemberInFlight>,
    /// The positions of the members that the RM has still to be asked about.
    to_ask: VecDeque<usize>,
    /// The position of the member that each open question is about.
    #[serde(with = "crate::values::pairs")]
    open: FxHashMap<u64, usize>,
    /// The number of the bundle, unique among all bundles of an RM.
    number: u64,
    /// The places of all members that the RM is asked about, as the last questions named them.
    /// `None` before the first question and after a member has moved.
    mates: Option<Arc<QuestionBundle>>,
    /// The number of changes of the partition at the last move of a member.
    moved_at: u64,
    /// The time of the first void answer, ns since the epoch.
    void_since_ns: Option<i64>,
}

/// A member of a bundle in flight.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemberInFlight {
    /// Its placement in the table.
    pub id: AllocationId,
    /// Its ask.
    pub ask: AskSlot,
    /// The position of its group in the declaration.
    pub group: usize,
    /// Whether a place is held for the member: it has no ask of the RM.
    pub is_held: bool,
    /// Whether the RM is asked about the member.
    pub is_asked: bool,
    passed: Option<Pass>,
    /// The number of times that the RM was asked again about the member because an answer did not
    /// count.
    asked_again: u32,
    /// The ids of the nodes that refused it.
    #[serde(with = "crate::values::sorted")]
    refused: SeededSet<Arc<str>>,
    /// Whether a refusal was presumed because the RM did not answer.
    was_silent: bool,
}

/// An answer that a member passes at its place.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Pass {
    number: u64,
    question: OpenQuestion,
    scope: Scope,
    /// Whether the RM counts the member as running there.
    is_assumed: bool,
}

/// Why a bundle is withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithdrawReason {
    /// The gang or one of its nodes changed: places are searched again.
    Changed,
    /// Predicates keep it from its places: it waits for a node to grow, or for some time.
    Refused,
    /// The RM gave no answers that count. The gang waits as if it had been refused.
    Unanswered,
}

/// The effects of a withdrawal, which the application carries out.
#[derive(Debug)]
pub struct Withdrawn {
    /// The questions whose answers are not wanted any more, or do not count.
    pub cancelled: Vec<u64>,
    /// The amounts that nodes get back, each with the placement that held it.
    pub returned: Vec<(NodeSlot, AllocationId, Resources)>,
}

impl MemberInFlight {
    /// A member with this placement that the RM has not answered about. `group` is the position of
    /// its group in the declaration.
    pub fn new(
        (id, ask): (AllocationId, AskSlot),
        group: usize,
        is_held: bool,
        is_asked: bool,
    ) -> Self {
        Self {
            id,
            ask,
            group,
            is_held,
            is_asked,
            passed: None,
            asked_again: 0,
            refused: SeededSet::default(),
            was_silent: false,
        }
    }

    /// Whether the RM counts the member as running at its place.
    pub fn is_assumed(&self) -> bool {
        self.passed.as_ref().is_some_and(|pass| pass.is_assumed)
    }

    /// Forgets the answer that the member passes. Returns the number of the question if the RM
    /// counts the member, which it has to stop.
    fn forget_pass(&mut self) -> Option<u64> {
        self.passed.take().filter(|pass| pass.is_assumed).map(|pass| pass.number)
    }
}

/// Questions.
impl BundleInFlight {
    /// A bundle of these members with this number, before the first question.
    pub fn new(number: u64, members: Vec<MemberInFlight>) -> Self {
        let to_ask = (0..members.len()).filter(|at| members[*at].is_asked).collect();
        let (open, moved_at) = (FxHashMap::default(), 0);
        Self { members, to_ask, open, number, mates: None, moved_at, void_since_ns: None }
    }

    /// Returns what other steps have to know of the bundle.
    pub fn note(&self, application: ApplicationSlot) -> OpenBundle {
        OpenBundle {
            application,
            unasked: self.members.len() - self.open.len(),
            to_ask: self.to_ask.len(),
            stops_offers: self.void_since_ns.is_some(),
        }
    }

    /// Removes and returns the position of the next member to ask the RM about.
    pub fn next_to_ask(&mut self) -> Option<usize> {
        self.to_ask.pop_front()
    }

    /// Returns the members, by their positions.
    pub fn members(&self) -> &[MemberInFlight] {
        &self.members
    }

    /// Returns the members of a settled bundle.
    pub fn into_members(self) -> Vec<MemberInFlight> {
        debug_assert!(self.is_settled(), "a bundle is settled once all of it has passed");
        self.members
    }

    /// Records the number of the question about a member.
    pub fn asked(&mut self, at: usize, question: u64) {
        self.open.insert(question, at);
    }

    /// Returns the places of all members that the RM is asked about. Each question names them.
    pub fn mates(&mut self, books: &Books) -> Arc<QuestionBundle> {
        let (members, id) = (&self.members, self.number);
        let mates = self.mates.get_or_insert_with(|| {
            let asked = members.iter().filter(|member| member.is_asked);
            let places = asked.filter_map(|member| {
                let entry = books.allocations.get(member.id)?;
                let group = entry.spec.task_group.as_ref().filter(|_| member.is_held);
                Some(BundlePlace {
                    key: Arc::clone(entry.key()),
                    group: group.map(|group| Arc::from(group.as_str())),
                    node: Arc::clone(books.nodes.id(entry.node)),
                })
            });
            Arc::new(QuestionBundle { id, places: places.collect() })
        });
        Arc::clone(mates)
    }

    /// Returns the ask of the member that an open question is about; `None` if the question is not
    /// about this bundle.
    pub fn ask_of(&self, question: u64) -> Option<AskSlot> {
        self.open.get(&question).map(|at| self.members[*at].ask)
    }
}

/// The end.
impl BundleInFlight {
    /// Whether every member that the RM is asked about has passed. The answers may be void now.
    pub fn has_passed(&self) -> bool {
        self.members.iter().all(|member| !member.is_asked || member.passed.is_some())
    }

    /// Whether all members have passed, and none is to be asked about again.
    pub fn is_settled(&self) -> bool {
        self.to_ask.is_empty() && self.has_passed()
    }

    /// Whether the first void answer was received at this time, ns since the epoch.
    pub fn is_void_since(&self, since_ns: i64) -> bool {
        self.void_since_ns == Some(since_ns)
    }

    /// Removes all members from the books: their gang is undecided again. Nothing is returned to
    /// the node `gone`, which was removed.
    pub fn withdraw(
        self,
        gone: Option<NodeSlot>,
        book: &mut Application,
        books: &mut Books,
        delta: &mut LedgerDelta,
    ) -> Withdrawn {
        let mut withdrawn = Withdrawn { cancelled: Vec::new(), returned: Vec::new() };
        let mut open: Vec<u64> = self.open.into_keys().collect();
        open.sort_unstable();
        for number in open {
            let question = books.unsettled.take(number);
            debug_assert!(question.is_some(), "an open question about a member is in the table");
            withdrawn.cancelled.extend(question.map(|_| number));
        }
        let mut asks = BTreeSet::new();
        for mut member in self.members {
            withdrawn.cancelled.extend(member.forget_pass());
            let Some(entry) = books.allocations.remove(member.id) else {
                debug_assert!(false, "a member in flight is in the table");
                continue;
            };
            asks.insert(member.ask);
            book.refunded(member.id, entry.resources());
            delta.allocated.subtract(entry.resources());
            if member.is_asked {
                books.unsettled.changed(entry.node);
            }
            if gone != Some(entry.node) {
                withdrawn.returned.push((entry.node, member.id, entry.resources().clone()));
            }
        }
        for slot in asks {
            delta.pending.add_sum(&book.asks.take_back_all(slot));
        }
        if let Some(native) = book.native_mut() {
            native.stage = Stage::Undecided;
        }
        book.forget_domains();
        withdrawn
    }
}
