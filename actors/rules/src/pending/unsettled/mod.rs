//! Unsettled placements: placements that wait for the RM's predicate, and the rule when an answer
//! is void.
//!
//! # Why
//! An RM behind a network answers in milliseconds, and a scheduler that waited for each answer
//! would place a few hundred asks a second. So up to a *window* of placements wait at once. Each
//! holds its node, its queues' quota and its application's share, so that no capacity is given
//! twice; but an RM's answer about one may rest on what was decided about another meanwhile.
//!
//! # What makes an answer void
//! Every placement and every end counts as a *change*, of the partition and of its node. A question
//! remembers the number of changes when it was asked. An answer that depends on everything is void
//! after any later change; one that depends on its node, after a later change there; and one that
//! names its dependencies on other nodes ([`Elsewhere`]), after a change of these, too. A placement
//! that the RM itself counted before it answered anything later (`assumed`) is no change.
//!
//! A question without an answer, or with a void one, is asked again, and each is a lost round trip:
//! the window halves when answers come back void or missing and grows by one when they do not.
//!
//! Whether an ask may [reserve](super::reservations) a node is a question, too ([`OpenClaim`]).
//! Nothing is held meanwhile; it takes its place among those that wait, so that an RM which is
//! asked one question at a time sees the order of decisions.
//!
//! # Invariants
//! * A number is never given twice among all partitions of an RM, to questions as to bundles. The
//!   code that takes a question out of the table settles or refunds its placement; an answer to a
//!   number that is not there means nothing.
//! * Each entry of the allocation table that names a question has it here, and the other way round.
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

use crate::allocations::Elsewhere;
use crate::nodes::{NodeIndex, NodeRequest};
use crate::values::epoch::Growth;
use crate::values::ids::{AllocationId, ApplicationSlot, AskSlot, NodeSlot};
pub use bundle::{BundlePlace, OpenBundle, QuestionBundle};
use changes::Changes;
pub use scope::Scope;
pub use window::Window;

/// A question to the RM's predicate about one placement, which waits for the answer.
#[derive(Clone, Debug)]
pub struct OpenQuestion {
    /// The placement in the table; it holds the first candidate.
    pub allocation: AllocationId,
    /// The application that the placement is of.
    pub application: ApplicationSlot,
    /// Ids of the candidates, in the order of preference.
    pub candidates: Vec<Arc<str>>,
    /// The ask requires its node, so that a node which closes keeps the placement.
    pub required: bool,
    /// The growth of the node index when it was asked.
    pub growth: Growth,
    /// The number of choices of its placement constraint that were open then.
    pub open: usize,
    /// The number of changes in the partition when it was asked.
    asked_at: u64,
}

/// A question to the RM's predicate whether an ask may reserve a node.
#[derive(Clone, Debug)]
pub struct OpenClaim {
    /// The application of the ask.
    pub application: ApplicationSlot,
    /// The ask.
    pub ask: AskSlot,
    /// The id of the node.
    pub node: Arc<str>,
}

/// Every placement that waits for an answer, and what was asked about it.
#[derive(Debug)]
pub struct Unsettled {
    questions: BTreeMap<u64, OpenQuestion>,
    claims: BTreeMap<u64, OpenClaim>,
    last_number: u64,
    last_bundle: u64,
    changes: Changes,
    /// Counts the times that everything refused may be asked again.
    era: u64,
    /// The bundle in flight; one at a time.
    pub bundle: Option<OpenBundle>,
    /// The applications whose bundles wait for that one.
    pub bundles_waiting: BTreeSet<ApplicationSlot>,
    /// The number of placements that may wait.
    pub window: Window,
    /// The most candidates that a question names.
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
    /// The number of changes in the partition when it was asked.
    pub fn asked_at(&self) -> u64 {
        self.asked_at
    }
}

/// The bits left to count questions: more questions than any partition asks, with room for more
/// partitions than any RM has.
const NUMBER_BITS: u32 = 40;
/// The most candidates that a question has unless [`Unsettled::widest`] says otherwise.
pub const WIDEST: usize = 512;

impl Unsettled {
    /// Has questions and bundles numbered as those of the partition that came `nth` to its RM, from
    /// zero on; to be called before any is asked.
    pub fn number_as(&mut self, nth: u64) {
        debug_assert!(self.last_number == 0, "nothing was asked yet");
        self.last_number = nth << NUMBER_BITS;
        self.last_bundle = nth << NUMBER_BITS;
    }

    /// A number for a bundle that is in flight from now on.
    pub fn next_bundle(&mut self) -> u64 {
        self.last_bundle += 1;
        self.last_bundle
    }

    /// The bundle in flight is settled or withdrawn. Returns the applications whose bundles waited for that.
    pub fn end_bundle(&mut self) -> BTreeSet<ApplicationSlot> {
        self.bundle = None;
        std::mem::take(&mut self.bundles_waiting)
    }

    /// The number of open questions.
    pub fn len(&self) -> usize {
        self.questions.len() + self.claims.len()
    }

    /// Whether no question is open.
    pub fn is_empty(&self) -> bool {
        self.questions.is_empty() && self.claims.is_empty()
    }

    /// The number of further questions that may be asked now.
    pub fn room(&self) -> usize {
        self.window.room(self.len())
    }

    /// The number of placements that wait for an answer of their own or for those of their bundle.
    pub fn placements(&self) -> usize {
        self.questions.len() + self.bundle.map_or(0, |bundle| bundle.unasked)
    }

    /// Opens a question about a placement of a (required-node) ask and numbers it; `growth` is that
    /// of the node index.
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

    /// The number of a question that is kept elsewhere.
    pub fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Notes how many of the choices of its placement constraint a question was asked by.
    pub fn asked_by(&mut self, number: u64, open: usize) {
        if let Some(question) = self.questions.get_mut(&number) {
            question.open = open;
        }
    }

    /// Opens the question whether an ask may reserve the node with this id, and numbers it.
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

    /// An open question whether an ask may reserve a node.
    pub fn claim(&self, number: u64) -> Option<&OpenClaim> {
        self.claims.get(&number)
    }

    /// Removes a question whether an ask may reserve a node.
    pub fn take_claim(&mut self, number: u64) -> Option<OpenClaim> {
        self.claims.remove(&number)
    }

    /// Every open question whether an ask may reserve a node, in the order of asking.
    pub fn claims(&self) -> impl Iterator<Item = (u64, &OpenClaim)> {
        self.claims.iter().map(|(number, claim)| (*number, claim))
    }

    /// An open question about a placement.
    pub fn get(&self, number: u64) -> Option<&OpenQuestion> {
        self.questions.get(&number)
    }

    /// Removes a question. The caller settles or refunds its placement.
    pub fn take(&mut self, number: u64) -> Option<OpenQuestion> {
        self.questions.remove(&number)
    }

    /// Every open question about a placement with its number, in the order of asking.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &OpenQuestion)> {
        self.questions.iter().map(|(number, question)| (*number, question))
    }

    /// Something was placed on the node or ended there, or the node itself came or left; what that
    /// affects on other nodes is not known.
    pub fn changed(&mut self, node: NodeSlot) {
        self.changes.note(node, None);
    }

    /// The question was cancelled. The RM may have assumed the placement on any of its candidates, and
    /// answered other questions on top of that.
    pub fn candidates_changed(&mut self, question: &OpenQuestion, nodes: &NodeIndex) {
        for node in question.candidates.iter().filter_map(|candidate| nodes.slot_of(candidate)) {
            self.changed(node);
        }
    }

    /// Something was placed on the node or ended there that affects this on other nodes, or may
    /// affect anything.
    pub fn changed_by(&mut self, node: NodeSlot, elsewhere: Option<&Elsewhere>) {
        if self.changes.are_many() {
            let oldest = self.questions.values().next().map(OpenQuestion::asked_at);
            self.changes.drop_until(oldest.unwrap_or(self.changes.count()));
        }
        self.changes.note(node, elsewhere);
    }

    /// The number of changes so far.
    pub fn changes(&self) -> u64 {
        self.changes.count()
    }

    /// Whether the answer that the node passes is void by now.
    pub fn is_void(&self, question: &OpenQuestion, scope: &Scope, node: NodeSlot) -> bool {
        self.changes.last(scope, node) > question.asked_at
    }

    /// Names the time since when refusals hold.
    pub fn era(&self) -> u64 {
        self.era
    }

    /// Begins a new era: earlier refusals do not count any more, because predicates are answered in
    /// another way from now on, or again.
    pub fn begin_era(&mut self) {
        self.era += 1;
    }

    /// Whether room on a node that the request may use, and that could hold it, is held by a
    /// placement that waits: it may come back.
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
