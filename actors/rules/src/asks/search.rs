//! The search of one ask for a node whose predicate passes.
//!
//! The first question of an ask names one node: it usually passes, and a longer list would be built
//! for nothing. Each later question names more, so that an ask which a whole cluster refuses needs
//! only a few round trips.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::nodes::{NodeIndex, NodeRequest};
use crate::values::epoch::Growth;
use crate::values::hashing::SeededSet;
use crate::values::ids::NodeSlot;

/// The number of candidates of the second question of a search.
const SECOND: usize = 16;

/// The search of one ask for a node whose predicate passes, after the first refusal: the refused
/// nodes, and the number of nodes that the next question names.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Try {
    era: u64,
    /// The growth of the node index at which it began.
    mark: Growth,
    width: usize,
    /// The nodes that predicates refused; never iterated.
    #[serde(with = "crate::values::sorted")]
    refused: SeededSet<Arc<str>>,
    last: Option<Arc<str>>,
    waits: bool,
}

impl Try {
    /// Builds a search without refusals, begun in this era and at this growth of the node index.
    pub fn new(era: u64, mark: Growth) -> Self {
        Self { era, mark, width: 1, refused: SeededSet::default(), last: None, waits: false }
    }

    /// Whether its refusals still hold.
    pub fn holds(&self, era: u64) -> bool {
        self.era == era
    }

    /// Records that predicates refused all of these nodes. Of several questions with equal numbers
    /// of candidates, only the first answer makes the next question longer.
    pub fn refused_by(&mut self, candidates: &[Arc<str>], widest: usize) {
        let next = if candidates.len() == 1 { SECOND } else { candidates.len() * 2 };
        self.width = self.width.max(next).min(widest.max(1));
        self.passed_over(candidates);
    }

    /// Records that predicates refused these nodes, while another candidate of their question
    /// passed.
    pub fn passed_over(&mut self, candidates: &[Arc<str>]) {
        self.refused.extend(candidates.iter().cloned());
        self.last = candidates.last().cloned().or(self.last.take());
    }

    /// Returns the nodes that predicates have refused.
    pub fn refused(&self) -> &SeededSet<Arc<str>> {
        &self.refused
    }

    /// Returns the last refused node.
    pub fn last_refused(&self) -> Option<&Arc<str>> {
        self.last.as_ref()
    }

    /// Returns the nodes for the next question, in order; empty if predicates refused every node
    /// with room.
    pub fn candidates(&self, nodes: &NodeIndex, request: &NodeRequest<'_>) -> Vec<NodeSlot> {
        nodes.several(&request.passing_over(&self.refused), self.last.as_deref(), self.width)
    }

    /// Records that the ask waits for a node that another placement holds. Returns whether it has
    /// waited before in this search.
    pub fn waits_again(&mut self) -> bool {
        std::mem::replace(&mut self.waits, true)
    }

    /// Decides how a search continues without further candidates. `may_return` is whether a waiting
    /// placement holds capacity that the request may use.
    pub fn out_of_candidates(
        &self,
        nodes: &NodeIndex,
        request: &NodeRequest<'_>,
        may_return: impl FnOnce(&NodeRequest<'_>) -> bool,
    ) -> SearchEnd {
        if request.required.is_some() {
            // The ask may use no other node than the one in question.
            SearchEnd::Nothing
        } else if nodes.may_hold_grown_since(self.mark, request.resources) {
            SearchEnd::Anew
        } else if may_return(&request.passing_over(&self.refused)) {
            SearchEnd::Returns
        } else {
            SearchEnd::Nothing
        }
    }
}

/// The continuation of a search that has no further candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchEnd {
    /// The search begins again: a node grew during the search, perhaps a refused one.
    Anew,
    /// The search waits for a return: another unsettled placement holds a node that was not tried.
    Returns,
    /// Predicates refused every node with room.
    Nothing,
}
