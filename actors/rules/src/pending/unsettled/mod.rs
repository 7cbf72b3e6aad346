//! Unsettled placements: placements that wait for the RM's predicate, and the rule by which an
//! answer is void.
//!
//! # Why
//! An RM behind a network answers in milliseconds, and a scheduler that waited for each answer
//! would place a few hundred asks a second. So up to a *window* of placements wait at once. Each
//! holds its amount on its node, its queues' quota and its application's share, so that no capacity
//! is given twice. But the RM's answer about one placement may depend on decisions about others
//! since the question.
//!
//! # What makes an answer void
//! Every placement and every release counts as a *change*, of the partition and of its node. A
//! question remembers the number of changes when it was asked. An answer that depends on the whole
//! partition is void after any later change. An answer that depends on its node is void after a
//! later change there. An answer that names its dependencies on other nodes ([`Elsewhere`]) is void
//! after a change of these, too. A placement that the RM itself counted before any later answer
//! (`assumed`) is no change.
//!
//! A question without an answer, or with a void one, is asked again. Each costs a round trip: the
//! window halves when answers are void or missing, and grows by one when they are not.
//!
//! Whether an ask may [reserve](super::reservations) a node is a question, too ([`OpenClaim`]).
//! Nothing is held for it. It counts for the window like a placement, so that an RM that is asked
//! one question at a time sees the order of decisions.
//!
//! # Invariants
//! * A number is never used twice among all partitions of an RM, neither for questions nor for
//!   bundles. The code that removes a question from the table settles or refunds its placement; an
//!   answer to a missing number is ignored.
//! * Each entry of the allocation table that names a question has it in this table, and each
//!   question in this table about a placement has such an entry.
//!
//! ```
//! use monoceros_rules::pending::unsettled::Window;
//! let mut window = Window::new(8);
//! window.answered(true);
//! window.answered(true);
//! assert_eq!(window.room(0), 4, "once for all answers that come together");
//! window.end_of_answers();
//! window.answered(false);
//! window.end_of_answers();
//! assert_eq!(window.room(2), 3, "five may wait, two do");
//! ```

mod bundle;
mod changes;
mod scope;
mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::allocations::Elsewhere;
use crate::nodes::{NodeIndex, NodeRequest};
use crate::values::epoch::Growth;
use crate::values::ids::{AllocationId, ApplicationSlot, AskSlot, NodeSlot};
pub use bundle::{BundlePlace, OpenBundle, QuestionBundle};
use changes::Changes;
pub use scope::Scope;
pub use window::Window;

/// A question to the RM's predicate about one placement, without an answer yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenQuestion {
    /// The placement in the table; it holds the first candidate.
    pub allocation: AllocationId,
    /// The application of the placement.
    pub application: ApplicationSlot,
    /// The ids of the candidates, in the order of preference.
    pub candidates: Vec<Arc<str>>,
    /// Whether the ask requires its node. Then the placement is kept if the node closes.
    pub required: bool,
    /// The growth of the node index when it was asked.
    pub growth: Growth,
    /// The number of choices of its placement constraint that were open when it was asked.
    pub open: usize,
    /// The number of changes in the partition when it was asked.
    asked_at: u64,
}

/// A question to the RM's predicate whether an ask may reserve a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenClaim {
    /// The application of the ask.
    pub application: ApplicationSlot,
    /// The ask.
    pub ask: AskSlot,
    /// The id of the node.
    pub node: Arc<str>,
}

/// All placements that wait for an answer, with their questions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Unsettled {
    questions: BTreeMap<u64, OpenQuestion>,
    claims: BTreeMap<u64, OpenClaim>,
    last_number: u64,
    last_bundle: u64,
    changes: Changes,
    /// The number of the present era. When a new era begins, refusals of earlier ones do not count
    /// any more.
    era: u64,
    /// The bundle in flight; at most one.
    pub bundle: Option<OpenBundle>,
    /// The applications whose bundles wait until that bundle is settled or withdrawn.
    pub bundles_waiting: BTreeSet<ApplicationSlot>,
    /// The number of placements that may wait.
    pub window: Window,
    /// The maximum number of candidates in a question.
    pub widest: usize,
}

impl Default for Unsettled {
    fn default() -> Self {
        Self {
            questions: BTreeMap::new(),
            claims: BTreeMap::new(),
            last_number: 0,
            last_bundle: 0,
            changes: Changes::default(),
            era: 0,
            bundle: None,
            bundles_waiting: BTreeSet::new(),
            window: Window::new(1),
            widest: WIDEST,
        }
    }
}

impl OpenQuestion {
    /// Returns the number of changes in the partition when it was asked.
    pub fn asked_at(&self) -> u64 {
        self.asked_at
    }
}

/// The bits of a number that count questions. They are enough for all questions of a partition, and
/// the bits above them for all partitions of an RM.
const NUMBER_BITS: u32 = 40;
/// The default of [`Unsettled::widest`].
pub const WIDEST: usize = 512;

impl Unsettled {
    /// Sets the range from which questions and bundles are numbered: that of the partition that is
    /// the `nth` of its RM, from zero on. It has to be called before the first question.
    pub fn number_as(&mut self, nth: u64) {
        debug_assert!(self.last_number == 0, "nothing was asked yet");
        self.last_number = nth << NUMBER_BITS;
        self.last_bundle = nth << NUMBER_BITS;
    }

    /// Returns the number of every question that is not answered, in order.
    pub fn open_questions(&self) -> BTreeSet<u64> {
        self.questions.keys().chain(self.claims.keys()).copied().collect()
    }

    /// Returns the number of a bundle that is in flight from now on.
    pub fn next_bundle(&mut self) -> u64 {
        self.last_bundle += 1;
        self.last_bundle
    }

    /// Ends the bundle in flight, which is settled or withdrawn. Returns the applications whose
    /// bundles waited for it.
    pub fn end_bundle(&mut self) -> BTreeSet<ApplicationSlot> {
        self.bundle = None;
        std::mem::take(&mut self.bundles_waiting)
    }

    /// Returns the number of open questions.
    pub fn len(&self) -> usize {
        self.questions.len() + self.claims.len()
    }

    /// Whether no question is open.
    pub fn is_empty(&self) -> bool {
        self.questions.is_empty() && self.claims.is_empty()
    }

    /// Returns the number of further questions that may be asked now.
    pub fn room(&self) -> usize {
        self.window.room(self.len())
    }

    /// Returns the number of placements that wait for an answer about themselves or about others of
    /// their bundle.
    pub fn placements(&self) -> usize {
        self.questions.len() + self.bundle.map_or(0, |bundle| bundle.unasked)
    }

    /// Opens a question about a placement, and returns its number. `required`: the ask requires its
    /// node. `growth` is that of the node index.
    pub fn ask(
        &mut self,
        (application, allocation): (ApplicationSlot, AllocationId),
        candidates: Vec<Arc<str>>,
        required: bool,
        growth: Growth,
    ) -> u64 {
        self.last_number += 1;
        let (asked_at, open) = (self.changes.count(), usize::MAX);
        let question =
            OpenQuestion { allocation, application, candidates, required, growth, open, asked_at };
        self.questions.insert(self.last_number, question);
        self.last_number
    }

    /// Returns the number for a question that is kept elsewhere.
    pub fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Records how many choices of its placement constraint were open when a question was asked.
    pub fn asked_by(&mut self, number: u64, open: usize) {
        if let Some(question) = self.questions.get_mut(&number) {
            question.open = open;
        }
    }

    /// Opens the question whether an ask may reserve the node with this id, and returns its number.
    pub fn ask_to_reserve(
        &mut self,
        application: ApplicationSlot,
        ask: AskSlot,
        node: Arc<str>,
    ) -> u64 {
        self.last_number += 1;
        self.claims.insert(self.last_number, OpenClaim { application, ask, node });
        self.last_number
    }

    /// Returns an open question whether an ask may reserve a node.
    pub fn claim(&self, number: u64) -> Option<&OpenClaim> {
        self.claims.get(&number)
    }

    /// Removes a question whether an ask may reserve a node.
    pub fn take_claim(&mut self, number: u64) -> Option<OpenClaim> {
        self.claims.remove(&number)
    }

    /// Returns all open questions whether an ask may reserve a node, in the order of asking.
    pub fn claims(&self) -> impl Iterator<Item = (u64, &OpenClaim)> {
        self.claims.iter().map(|(number, claim)| (*number, claim))
    }

    /// Returns an open question about a placement.
    pub fn get(&self, number: u64) -> Option<&OpenQuestion> {
        self.questions.get(&number)
    }

    /// Removes a question. The caller settles or refunds its placement.
    pub fn take(&mut self, number: u64) -> Option<OpenQuestion> {
        self.questions.remove(&number)
    }

    /// Returns all open questions about placements with their numbers, in the order of asking.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &OpenQuestion)> {
        self.questions.iter().map(|(number, question)| (*number, question))
    }

    /// Records a placement or release on the node, or that the node was added or removed. It may
    /// affect all other nodes.
    pub fn changed(&mut self, node: NodeSlot) {
        self.changes.note(node, None);
    }

    /// Records a change on each candidate of a cancelled question. The RM may have assumed the
    /// placement on any of them, and answered other questions on that basis.
    pub fn candidates_changed(&mut self, question: &OpenQuestion, nodes: &NodeIndex) {
        for node in question.candidates.iter().filter_map(|candidate| nodes.slot_of(candidate)) {
            self.changed(node);
        }
    }

    /// Records a placement or release on the node that affects these topics on other nodes; `None`:
    /// it may affect all of them.
    pub fn changed_by(&mut self, node: NodeSlot, elsewhere: Option<&Elsewhere>) {
        if self.changes.are_many() {
            let oldest = self.questions.values().next().map(OpenQuestion::asked_at);
            self.changes.drop_until(oldest.unwrap_or(self.changes.count()));
        }
        self.changes.note(node, elsewhere);
    }

    /// Returns the number of changes.
    pub fn changes(&self) -> u64 {
        self.changes.count()
    }

    /// Whether the answer that the node passes is void now.
    pub fn is_void(&self, question: &OpenQuestion, scope: &Scope, node: NodeSlot) -> bool {
        self.changes.last(scope, node) > question.asked_at
    }

    /// Returns the number of the present era.
    pub fn era(&self) -> u64 {
        self.era
    }

    /// Begins a new era: earlier refusals do not count any more, because predicates are answered
    /// differently from now on, or are answered again.
    pub fn begin_era(&mut self) {
        self.era += 1;
    }

    /// Whether a placement that waits for an answer holds capacity that may be returned: on a node
    /// that the request may use and that could hold it.
    pub fn may_return(&self, nodes: &NodeIndex, request: &NodeRequest<'_>) -> bool {
        self.questions.values().filter_map(|question| question.candidates.first()).any(|id| {
            let slot = nodes.slot_of(id).filter(|slot| nodes.is_open_to_all(*slot));
            slot.is_some_and(|slot| {
                nodes.total(slot).holds(request.resources) && nodes.is_within(slot, request.domains)
            }) && !request.passes_over(id)
        })
    }
}

#[cfg(test)]
mod tests;
