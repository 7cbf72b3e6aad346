//! The search of one application for members that take the places of placeholders, as kept between
//! two offers: its refusals, what it waits for, and when it is made again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Search;
use crate::allocations::Allocation;
use crate::applications::gang::Gang;
use crate::nodes::NodeIndex;
use crate::order::keys::AskKey;
use crate::specs::ask::TaskGroup;
use crate::values::epoch::{Epoch, Growth};
use crate::values::ids::{AllocationId, NodeSlot};
use crate::values::resources::Resources;
use crate::values::retries::Retries;
use crate::waiting::{Parked, WaitSet};

/// The search, and what it waits for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PairSearch {
    search: Search,
    /// What the search waits for: it decides whether an offer in the phase of pairs reaches the
    /// application.
    waits: WaitSet,
    /// The amount of the first member, if no other node has capacity for it.
    roomless: Option<Resources>,
    /// The times at which the search is made again without a change.
    retries: Retries,
    /// The growth of the node index at the beginning of the search.
    since: Growth,
}

impl PairSearch {
    /// Returns the search, with the refusals of members.
    pub fn search(&self) -> &Search {
        &self.search
    }

    /// Returns the search for a change.
    pub fn search_mut(&mut self) -> &mut Search {
        &mut self.search
    }

    /// Makes a placeholder, or a held place, of this group free to be taken.
    pub fn put_free(
        &mut self,
        gang: &mut Gang,
        group: &TaskGroup,
        (id, place): (AllocationId, &Allocation),
    ) {
        gang.put_free(group, id, place);
        self.search.freed(group, id);
    }

    /// Returns the bound of the search.
    pub fn waits(&self) -> &WaitSet {
        &self.waits
    }

    /// Begins an offer in the phase of pairs. Nodes that have grown since the search began may
    /// accept members that they refused.
    pub fn begin(&mut self, nodes: &NodeIndex) {
        if self.searches_other_nodes() {
            // A node has more capacity, even if only by the return of a placement.
            self.retries.begin_again();
        }
        // After the return of a placement that was not settled, no node accepts what it refused
        // before.
        if nodes.may_hold_grown_since(self.since, &Resources::new()) {
            self.search.begin_again();
        }
        self.since = nodes.growth();
    }

    /// Notes that no other node has capacity for the first member, which requests this amount.
    pub fn lacks_room(&mut self, wanted: &Resources) {
        self.roomless = Some(wanted.clone());
    }

    /// Notes that a member was refused: by this node of a placeholder (`in_place`), or by all other
    /// nodes.
    pub fn refused(&mut self, member: AskKey, in_place: Option<NodeSlot>) {
        match in_place {
            Some(node) => self.search.refused_in_place(member, node),
            None => self.search.refused_elsewhere(member),
        }
    }

    /// Notes the RM's answer that a member cannot take a place, as [`Self::refused`] does. The
    /// search continues with other places.
    pub fn answered(&mut self, member: AskKey, in_place: Option<NodeSlot>) {
        self.refused(member, in_place);
        self.waits = WaitSet::Due;
    }

    /// Parks the search, since no member can take a place now. If members were refused, it waits
    /// for a node to grow, or for a pause; returns the pause and the number of the refusal.
    /// Otherwise it waits for other members or places.
    pub fn rest(&mut self, at: Epoch, now_ns: i64) -> Option<(Duration, u32)> {
        if !self.search.met_refusals() {
            self.waits = WaitSet::Nothing;
            return None;
        }
        let mut parked = Parked::refused(&Resources::new(), at);
        if let Some(roomless) = self.roomless.take() {
            (parked.roomless, parked.roomless_at) = (Some(roomless), at.growth);
        }
        self.waits = WaitSet::Parked(Box::new(parked));
        self.retries.refused();
        Some(self.retries.pause(now_ns))
    }

    /// Restarts the search after a change that members and places of a group wait for.
    pub fn look_again(&mut self) {
        self.search.begin_again();
        self.waits = WaitSet::Due;
        self.retries.begin_again();
    }

    /// Continues the search after members or free places have changed. The first member may be
    /// another one, and only the first member is tried on other nodes.
    pub fn members_changed(&mut self) {
        self.search.returns();
        self.waits = WaitSet::Due;
    }

    /// Forgets the refusals of members. Returns whether the search waited.
    pub fn invalidate(&mut self) -> bool {
        let waited = matches!(self.waits, WaitSet::Parked(_));
        if waited {
            self.search.begin_again();
            self.waits = WaitSet::Due;
        }
        waited
    }

    /// Handles the end of the pause after this refusal. Returns whether the search is made again.
    /// It is not if another refusal followed, or if the search does not wait.
    pub fn retry(&mut self, refusal: u32) -> bool {
        let is_due = self.retries.is_last(refusal) && self.invalidate();
        if is_due {
            self.retries.begin_by_time();
        }
        is_due
    }

    /// Has members tried on other nodes again after a node was added, changed or grew. Returns
    /// whether the search waited.
    pub fn searches_other_nodes(&mut self) -> bool {
        let waited = matches!(self.waits, WaitSet::Parked(_));
        if waited {
            self.search.searches_other_nodes();
            self.waits = WaitSet::Due;
        }
        waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> (PairSearch, u32) {
        let mut search = PairSearch::default();
        search.lacks_room(&Resources::of(&[("vcore", 1)]));
        search.refused(AskKey::new(0, 1, 1), None);
        let (_, refusal) = search.rest(Epoch::default(), 0).unwrap();
        (search, refusal)
    }

    #[test]
    fn a_search_without_refusals_waits_for_no_time() {
        let mut search = PairSearch::default();
        assert_eq!(search.rest(Epoch::default(), 0), None);
        assert_eq!(*search.waits(), WaitSet::Nothing);
        assert!(!search.invalidate(), "nothing that nodes said is remembered");
    }

    #[test]
    fn only_the_last_refusal_is_retried() {
        let (mut search, first) = refused();
        assert!(matches!(search.waits(), WaitSet::Parked(_)));
        assert!(search.searches_other_nodes());
        search.refused(AskKey::new(0, 1, 1), None);
        let (_, second) = search.rest(Epoch::default(), 1).unwrap();
        assert!(!search.retry(first), "a later refusal has a time of its own");
        assert!(search.retry(second));
        assert_eq!(*search.waits(), WaitSet::Due);
        assert!(!search.retry(second), "it does not wait any more");
    }

    #[test]
    fn an_answer_lets_the_next_member_try() {
        let (mut search, _) = refused();
        search.answered(AskKey::new(0, 1, 1), Some(NodeSlot::at(0)));
        assert_eq!(*search.waits(), WaitSet::Due);
    }
}
