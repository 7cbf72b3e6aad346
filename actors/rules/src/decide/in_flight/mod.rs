//! A bundle in flight: the members of a declared gang have places, and wait until the RM's predicates, which are
//! answered later, have passed for each of them.
//!
//! # The way of a bundle
//! All members are charged in the step in which their places are found, those for which places are
//! only held, too. Questions are asked about the members with asks, and about the others where the RM
//! judges places that are held, as many at a time as the window lets. When the last has passed, all of
//! them are settled in one step, and only then. A member that is refused, or whose node is lost or
//! takes it no longer, moves to another node at once; its mates stay where they are. If there is no
//! other node for it the whole bundle is withdrawn. It is withdrawn, too, when an ask of it changes or
//! goes: that is another gang, for which places are looked for at once.
//!
//! # Void answers
//! Mates do not make each other's answers void, since each question names the places of all. A member
//! that moves does, as whatever else is placed or ends. What an answer rests on may change after it
//! has come, too, as long as others are asked about; so all answers are checked again once the
//! last member has passed, and members whose answers are void by then are asked about again.
//!
//! From the first void answer on nothing else is placed, so that answers that rest on everything can
//! be taken in the end; and a bundle that goes on like that for [`VOID_MAX`] is withdrawn and tried
//! later. Answers that a mate's move made void do not count: each move leaves a node that is not
//! tried again, so there is an end to them.
//!
//! # Invariants
//! * At most one bundle of a partition is in flight.
//! * Whoever takes a member of it out of the table withdraws the whole bundle, or settles it.
//! * An open question about a member is in the table of open questions, and the other way round.

mod answers;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::applications::application::Application;
use crate::applications::native::Stage;
use crate::books::Books;
use crate::order::ledger::LedgerDelta;
use crate::pending::unsettled::{BundlePlace, OpenBundle, OpenQuestion, QuestionBundle, Scope};
use crate::values::hashing::SeededSet;
use crate::values::ids::{AllocationId, ApplicationSlot, AskSlot, NodeSlot};
use crate::values::resources::Resources;

pub use answers::{MemberAnswer, Move, NextStep, Outcome, Withdrawal};

/// The time after its first void answer at which a bundle is withdrawn.
pub const VOID_MAX: Duration = Duration::from_secs(30);

/// A bundle in flight.
#[derive(Debug)]
pub struct BundleInFlight {
    members: Vec<MemberInFlight>,
    /// The members that have still to be asked about, by their positions.
    to_ask: VecDeque<usize>,
    /// The position of the member of each open question.
    open: FxHashMap<u64, usize>,
    /// Its number, unique among all bundles of an RM.
    number: u64,
    /// The places of all members that are asked about; `None` after a member has moved.
    mates: Option<Arc<QuestionBundle>>,
    /// The number of changes of the partition when a member moved last.
    moved_at: u64,
    /// When the first answer was void, ns since the epoch.
    void_since_ns: Option<i64>,
}

/// A member of a bundle in flight.
#[derive(Debug)]
pub struct MemberInFlight {
    /// Its placement in the table.
    pub id: AllocationId,
    /// Its ask.
    pub ask: AskSlot,
    /// The position of its group in the declaration.
    pub group: usize,
    /// A place is held for it: it has no ask of the RM.
    pub is_held: bool,
    /// The RM is asked about it.
    pub is_asked: bool,
    passed: Option<Pass>,
    /// The number of times it was asked about again because an answer did not count.
    asked_again: u32,
    /// The ids of the nodes that refused it.
    refused: SeededSet<Arc<str>>,
    /// A refusal was presumed for want of an answer.
    was_silent: bool,
}

/// An answer that a member may run at its place.
#[derive(Debug)]
struct Pass {
    number: u64,
    question: OpenQuestion,
    scope: Scope,
    /// The RM counts the member as running there.
    is_assumed: bool,
}

/// Why a bundle is withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithdrawReason {
    /// The gang changed, or one of its nodes did: places are looked for again.
    Changed,
    /// Predicates keep it from its places: it waits for a node to grow, or for some time.
    Refused,
    /// There are no answers that count: as if it had been refused.
    Unanswered,
}

/// What a bundle leaves that was withdrawn, for the application to carry out.
#[derive(Debug)]
pub struct Withdrawn {
    /// The questions whose answers are not wanted any more, or do not count.
    pub cancelled: Vec<u64>,
    /// The amounts that nodes get back, each with the placement that held it.
    pub returned: Vec<(NodeSlot, AllocationId, Resources)>,
}

impl MemberInFlight {
    /// A member with this placement that no answer has come about. `group` is the position of its group.
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

    /// Whether the RM counts it as running at its place.
    pub fn is_assumed(&self) -> bool {
        self.passed.as_ref().is_some_and(|pass| pass.is_assumed)
    }

    /// Forgets the answer that it may run. Returns the number of the question if the RM is not to count on it
    /// any more.
    fn forget_pass(&mut self) -> Option<u64> {
        self.passed.take().filter(|pass| pass.is_assumed).map(|pass| pass.number)
    }
}

/// Asking.
impl BundleInFlight {
    /// The bundle of these members with this number, none of which was asked about.
    pub fn new(number: u64, members: Vec<MemberInFlight>) -> Self {
        let to_ask = (0..members.len()).filter(|at| members[*at].is_asked).collect();
        let (open, moved_at) = (FxHashMap::default(), 0);
        Self { members, to_ask, open, number, mates: None, moved_at, void_since_ns: None }
    }

    /// The bundle as others have to know of it.
    pub fn note(&self, application: ApplicationSlot) -> OpenBundle {
        OpenBundle {
            application,
            unasked: self.members.len() - self.open.len(),
            to_ask: self.to_ask.len(),
            stops_offers: self.void_since_ns.is_some(),
        }
    }

    /// Takes out the position of the next member that is to be asked about.
    pub fn next_to_ask(&mut self) -> Option<usize> {
        self.to_ask.pop_front()
    }

    /// The members, by their positions.
    pub fn members(&self) -> &[MemberInFlight] {
        &self.members
    }

    /// The members, where all of them are settled.
    pub fn into_members(self) -> Vec<MemberInFlight> {
        debug_assert!(self.is_settled(), "a bundle is settled once all of it has passed");
        self.members
    }

    /// Notes the number of the question about a member.
    pub fn asked(&mut self, at: usize, question: u64) {
        self.open.insert(question, at);
    }

    /// The places of all members that are asked about, which each question names.
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

    /// The ask of the member that an open question is about; `None`: it is not about this bundle.
    pub fn ask_of(&self, question: u64) -> Option<AskSlot> {
        self.open.get(&question).map(|at| self.members[*at].ask)
    }
}

/// The end.
impl BundleInFlight {
    /// Whether every member that is asked about has passed. Answers may be void by now.
    pub fn has_passed(&self) -> bool {
        self.members.iter().all(|member| !member.is_asked || member.passed.is_some())
    }

    /// Whether all members have passed, and none is to be asked about again.
    pub fn is_settled(&self) -> bool {
        self.to_ask.is_empty() && self.has_passed()
    }

    /// Whether the first void answer came at this time, ns since the epoch.
    pub fn is_void_since(&self, since_ns: i64) -> bool {
        self.void_since_ns == Some(since_ns)
    }

    /// Takes all members out of the books: their gang is undecided again. A node that is `gone` gets nothing
    /// back.
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
