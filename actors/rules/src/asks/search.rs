//! The search of one ask for a node whose predicate passes.
//!
//! The first question of an ask names one node: usually it passes, and a longer list would be made
//! for nothing. Each later one names more, so that an ask which a whole cluster refuses needs only
//! a few round trips.

use std::sync::Arc;

use crate::nodes::{NodeIndex, NodeRequest};
use crate::values::epoch::Growth;
use crate::values::hashing::SeededSet;
use crate::values::ids::NodeSlot;

/// Candidates of the second question of a try.
const SECOND: usize = 16;

/// The search of one ask for a node whose predicate passes, after the first refusal: the nodes that
/// refused, and the number that is asked at once.
#[derive(Clone, Debug)]
pub struct Try {
    era: u64,
    /// The growth of the node index when it began.
    mark: Growth,
    width: usize,
    /// Nodes that refused; never iterated.
    refused: SeededSet<Arc<str>>,
    last: Option<Arc<str>>,
    waits: bool,
}

impl Try {
    /// Builds a search in which no node has refused yet, begun in this era and at this growth of
    /// the node index.
    pub fn new(era: u64, mark: Growth) -> Self {
        Self { era, mark, width: 1, refused: SeededSet::default(), last: None, waits: false }
    }

    /// Whether its refusals still hold.
    pub fn holds(&self, era: u64) -> bool {
        self.era == era
    }

    /// Notes that all of these nodes refused. Of several questions of one width, only the first
    /// answer makes the next question wider.
    pub fn refused_by(&mut self, candidates: &[Arc<str>], widest: usize) {
        let next = if candidates.len() == 1 { SECOND } else { candidates.len() * 2 };
        self.width = self.width.max(next).min(widest.max(1));
        self.passed_over(candidates);
    }

    /// Notes that these nodes refused, while another candidate of their question passed.
    pub fn passed_over(&mut self, candidates: &[Arc<str>]) {
        self.refused.extend(candidates.iter().cloned());
        self.last = candidates.last().cloned().or(self.last.take());
    }

    /// The nodes that refused the ask so far.
    pub fn refused(&self) -> &SeededSet<Arc<str>> {
        &self.refused
    }

    /// The last node that refused.
    pub fn last_refused(&self) -> Option<&Arc<str>> {
        self.last.as_ref()
    }

    /// The nodes to be asked next, in order; empty when every node with room has refused.
    pub fn candidates(&self, nodes: &NodeIndex, request: &NodeRequest<'_>) -> Vec<NodeSlot> {
        nodes.several(&request.passing_over(&self.refused), self.last.as_deref(), self.width)
    }

    /// Notes that the ask waits for a node that another placement holds. Returns whether it has
    /// done so before in this search.
    pub fn waits_again(&mut self) -> bool {
        std::mem::replace(&mut self.waits, true)
    }

    /// Decides how a search continues without further candidates. `may_return`: whether capacity
    /// that the request may use is held by a waiting placement.
    pub fn out_of_candidates(
        &self,
        nodes: &NodeIndex,
        request: &NodeRequest<'_>,
        may_return: impl FnOnce(&NodeRequest<'_>) -> bool,
    ) -> SearchEnd {
        if request.required.is_some() {
            // The ask may use no other node than the one that was asked.
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

/// The continuation of a search without further candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchEnd {
    /// The search begins again: a node grew while others were asked, perhaps one that had refused.
    Anew,
    /// The search waits for a return: another unsettled placement holds a node that was not asked.
    Returns,
    /// Every node with room has refused.
    Nothing,
}
