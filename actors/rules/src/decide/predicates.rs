//! Placements that wait for the RM's predicate, and when an answer is void (scheduler-interface
//! chapter, 2.4 and 2.6).
//!
//! # Why
//! An RM behind a network answers in milliseconds, and a scheduler that waited for each answer would
//! place a few hundred asks a second. So up to a *window* of placements wait at once. Each holds its
//! node, its queues' quota and its application's share, so that nothing is promised twice; but what
//! an RM says of one may rest on what was decided of another meanwhile.
//!
//! # What makes an answer void
//! Everything that is placed or ends counts as a *change*, of the partition and of its node. A
//! question remembers how many changes there had been when it was asked. An answer that rests on
//! everything is void after any later change, one that rests on its node after a later change
//! there. A placement that the RM itself counted before it answered anything later
//! (`assumed`) is no change.
//!
//! What has no answer, or a void one, is asked again, and each is a lost round trip: the window
//! halves when answers come back void or missing and grows by one when they do not.
//!
//! # Invariants
//! * A number is never given twice, by whatever partition of an RM. Whoever takes a question out of the table settles or refunds
//!   its placement; an answer to a number that is not there means nothing.
//! * Each entry of the allocation table that names a question has it here, and the other way round.
//!
//! ```
//! use monoceros_rules::decide::predicates::Window;
//! let mut window = Window::new(8);
//! window.answered(true);
//! window.answered(true);
//! assert_eq!(window.room(0), 4, "once for all answers that come together");
//! window.end_of_answers();
//! window.answered(false);
//! window.end_of_answers();
//! assert_eq!(window.room(2), 3, "five may wait, two do");
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::nodes::{NodeIndex, NodeSlot};
use crate::values::resources::Resources;
use crate::work::allocations::{AllocationId, ApplicationSlot};

/// What an answer depends on (scheduler-interface chapter, 2.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// On everything that runs: void once anything was placed or ended meanwhile.
    #[default]
    Topology,
    /// On the node: void once anything was placed or ended there meanwhile.
    Node,
    /// On nothing that the scheduler changes.
    Static,
}

/// What waits for an answer.
#[derive(Clone, Debug)]
pub struct OpenQuestion {
    /// The placement in the table; it holds the first candidate.
    pub allocation: AllocationId,
    /// Whose it is.
    pub application: ApplicationSlot,
    /// Ids of the candidates, in the order of preference.
    pub candidates: Vec<Arc<str>>,
    /// It may be nowhere else, so that a node which closes keeps it.
    pub required: bool,
    /// How often the node index had grown.
    pub growth: u64,
    /// How many changes there had been.
    asked_at: u64,
}

/// Everything that waits for an answer. See the module.
#[derive(Debug)]
pub struct Unsettled {
    questions: BTreeMap<u64, OpenQuestion>,
    last_number: u64,
    changes: u64,
    /// The last change of each node, by the index of its slot.
    last_change: Vec<u64>,
    /// Counts whenever everything that was refused may be asked anew.
    era: u64,
    /// How many may wait.
    pub window: Window,
    /// How many candidates a question may name.
    pub widest: usize,
}

impl Default for Unsettled {
    fn default() -> Self {
        Self {
            questions: BTreeMap::new(),
            last_number: 0,
            changes: 0,
            last_change: Vec::new(),
            era: 0,
            window: Window::new(1),
            widest: WIDEST,
        }
    }
}

/// What is left to count questions in: no partition asks so many, and no RM has so many partitions
/// that the rest would not do.
const NUMBER_BITS: u32 = 40;
/// Candidates of the second question of a try.
const SECOND: usize = 16;
/// The most candidates that a question has unless [`Unsettled::widest`] says otherwise.
pub const WIDEST: usize = 512;

impl Unsettled {
    /// Has questions numbered as those of the partition that came `nth` to its RM, from zero on; to
    /// be called before any is asked.
    pub fn number_as(&mut self, nth: u64) {
        debug_assert!(self.last_number == 0, "nothing was asked yet");
        self.last_number = nth << NUMBER_BITS;
    }

    /// How many questions are open.
    pub fn len(&self) -> usize {
        self.questions.len()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.questions.is_empty()
    }

    /// How many more may be asked now.
    pub fn room(&self) -> usize {
        self.window.room(self.len())
    }

    /// Opens a question about a placement of a (required-node) ask and numbers it; `growth` is that
    /// of the node index.
    pub fn ask(
        &mut self,
        (application, allocation): (ApplicationSlot, AllocationId),
        candidates: Vec<Arc<str>>,
        required: bool,
        growth: u64,
    ) -> u64 {
        self.last_number += 1;
        let asked_at = self.changes;
        let question =
            OpenQuestion { allocation, application, candidates, required, growth, asked_at };
        self.questions.insert(self.last_number, question);
        self.last_number
    }

    /// An open question.
    pub fn get(&self, number: u64) -> Option<&OpenQuestion> {
        self.questions.get(&number)
    }

    /// Takes a question out; whoever does settles or refunds its placement.
    pub fn take(&mut self, number: u64) -> Option<OpenQuestion> {
        self.questions.remove(&number)
    }

    /// Every open question with its number, in the order of asking.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &OpenQuestion)> {
        self.questions.iter().map(|(number, question)| (*number, question))
    }

    /// Something was placed on the node or ended there, or the node itself came or left.
    pub fn changed(&mut self, node: NodeSlot) {
        self.changes += 1;
        if self.last_change.len() <= node.index() {
            self.last_change.resize(node.index() + 1, 0);
        }
        self.last_change[node.index()] = self.changes;
    }

    /// Whether the answer that the node passes is void by now.
    pub fn is_void(&self, question: &OpenQuestion, scope: Scope, node: NodeSlot) -> bool {
        let last = match scope {
            Scope::Topology => self.changes,
            Scope::Node => self.last_change.get(node.index()).copied().unwrap_or(0),
            Scope::Static => 0,
        };
        last > question.asked_at
    }

    /// Names the time since when refusals hold.
    pub fn era(&self) -> u64 {
        self.era
    }

    /// Whatever was refused may be asked anew: somebody else answers, or the RM says so.
    pub fn begin_era(&mut self) {
        self.era += 1;
    }

    /// Whether room on a node that `passed_over` is false of, and that could hold the ask, is held
    /// by a placement that waits: it may come back.
    pub fn may_return(
        &self,
        nodes: &NodeIndex,
        ask: &Resources,
        passed_over: impl Fn(&str) -> bool,
    ) -> bool {
        self.questions.values().filter_map(|question| question.candidates.first()).any(|id| {
            let slot = nodes.slot_of(id).filter(|slot| nodes.is_open(*slot));
            slot.is_some_and(|slot| nodes.total(slot).holds(ask)) && !passed_over(id)
        })
    }
}

/// How many placements may wait for an answer.
#[derive(Clone, Debug)]
pub struct Window {
    most: usize,
    now: usize,
    /// Of the answers that came together.
    any_void: bool,
    any_valid: bool,
}

impl Window {
    /// A window of this size, at least one.
    pub fn new(most: usize) -> Self {
        let most = most.max(1);
        Self { most, now: most, any_void: false, any_valid: false }
    }

    /// What was configured.
    pub fn most(&self) -> usize {
        self.most
    }

    /// How many more may wait when so many do.
    pub fn room(&self, waiting: usize) -> usize {
        self.now.saturating_sub(waiting)
    }

    /// An answer was void or there was none, or it counted.
    pub fn answered(&mut self, void: bool) {
        if void && !self.any_void {
            self.now = (self.now / 2).max(1);
        }
        self.any_void |= void;
        self.any_valid |= !void;
    }

    /// No more answers came together with the last.
    pub fn end_of_answers(&mut self) {
        if self.any_valid && !self.any_void {
            self.now = (self.now + 1).min(self.most);
        }
        (self.any_void, self.any_valid) = (false, false);
    }
}

/// The search of one ask for a node whose predicate passes, after the first refusal: who refused,
/// and how many are asked at once.
#[derive(Clone, Debug)]
pub struct Try {
    era: u64,
    /// Growths of the node index when it began.
    mark: u64,
    width: usize,
    /// Never iterated.
    refused: FxHashSet<Arc<str>>,
    last: Option<Arc<str>>,
    waits: bool,
}

impl Try {
    /// A try that nobody has refused yet, in this era and at this growth of the node index.
    pub fn new(era: u64, mark: u64) -> Self {
        Self { era, mark, width: 1, refused: FxHashSet::default(), last: None, waits: false }
    }

    /// Whether its refusals still hold.
    pub fn holds(&self, era: u64) -> bool {
        self.era == era
    }

    /// All of these refused. Questions widen only once for answers to equally wide ones.
    pub fn refused_by(&mut self, candidates: &[Arc<str>], widest: usize) {
        let next = if candidates.len() == 1 { SECOND } else { candidates.len() * 2 };
        self.width = self.width.max(next).min(widest.max(1));
        self.passed_over(candidates);
    }

    /// These refused, but another candidate of their question passed.
    pub fn passed_over(&mut self, candidates: &[Arc<str>]) {
        self.refused.extend(candidates.iter().cloned());
        self.last = candidates.last().cloned().or(self.last.take());
    }

    /// Whom to ask next, in order; empty when everybody with room has refused.
    pub fn candidates(&self, nodes: &NodeIndex, ask: &Resources) -> Vec<NodeSlot> {
        nodes.fits(ask, self.last.as_deref(), self.width, |id| self.refused.contains(id))
    }

    /// It waits for a node that another placement holds; says whether it has done so before.
    pub fn waits_again(&mut self) -> bool {
        std::mem::replace(&mut self.waits, true)
    }

    /// What is to be done when there are no more candidates.
    pub fn out_of_candidates(
        &self,
        unsettled: &Unsettled,
        nodes: &NodeIndex,
        ask: &Resources,
    ) -> SearchEnd {
        if nodes.may_hold_grown_since(self.mark, ask) {
            SearchEnd::Anew
        } else if unsettled.may_return(nodes, ask, |id| self.refused.contains(id)) {
            SearchEnd::Returns
        } else {
            SearchEnd::Nothing
        }
    }
}

/// See [`Try::out_of_candidates`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchEnd {
    /// A node grew while the others were asked, perhaps one that had refused.
    Anew,
    /// A node that was not asked is held by a placement that waits.
    Returns,
    /// Everybody refused.
    Nothing,
}

#[cfg(test)]
mod tests;
