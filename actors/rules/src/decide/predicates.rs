//! Confirms a placement whose predicate has passed: it is settled only if nothing that the answer
//! depends on has changed since the question.
//!
//! [`unsettled`](crate::pending::unsettled) keeps the placements in flight, and decides when an
//! answer is void.

use smallvec::SmallVec;

use crate::allocations::Pairing;
use crate::books::Books;
use crate::nodes::Wish;
use crate::nodes::recount::admits_again;
use crate::pending::unsettled::{OpenQuestion, Scope};
use crate::values::ids::{AllocationId, NodeSlot};

/// The result of the answer that a placement passes on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// The placement becomes an allocation on the node.
    Confirmed,
    /// A fact that the answer depends on has changed since the question; the RM has to be asked
    /// again.
    Void,
    /// The node cannot take the placement any more: it has too little capacity left, is closed, or
    /// is reserved.
    Refused,
}

/// The next step of an ask after one of its placements was refused and withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterRefusal {
    /// The placement was to take the place of a placeholder: other places are tried next. Contains
    /// the placeholder's node if the placement was to stay on it.
    OtherPlaces(Option<NodeSlot>),
    /// The ask is tried on other nodes.
    OtherNodes,
    /// The ask is parked as one that every node has refused.
    Rests,
}

impl AfterRefusal {
    /// Returns the next step of the ask. `place` is the result of [`place_taken_by`].
    /// `has_verdict`: the answer says that all candidates refused, or counts as such. `is_resting`:
    /// all nodes have refused another instance of the ask since the question.
    pub fn of(place: Option<(bool, NodeSlot)>, has_verdict: bool, is_resting: bool) -> Self {
        match place {
            Some((true, node)) => Self::OtherPlaces(Some(node)),
            Some((false, _)) if !has_verdict => Self::OtherPlaces(None),
            _ if has_verdict && !is_resting => Self::OtherNodes,
            _ => Self::Rests,
        }
    }
}

/// For a placement that is to take the place of a placeholder, returns whether it stays on the
/// placeholder's node, and its own node. `None` for any other placement.
pub fn place_taken_by(question: u64, books: &Books) -> Option<(bool, NodeSlot)> {
    let question = books.unsettled.get(question)?;
    let entry = books.allocations.get(question.allocation)?;
    match entry.pairing {
        Pairing::Takes { in_place, .. } => Some((in_place, entry.node)),
        _ => None,
    }
}

/// Decides whether a placement is settled on a node whose predicate it passes: nothing changed
/// between question and answer, and the node either holds it and is not overcommitted, or has
/// capacity for it. The node's figures are read from the index, which the node itself keeps up to
/// date. The placement constraint is tested again by the present counts; if it does not hold any
/// more, the RM is asked again.
///
/// `node` is one of the question's candidates; the placement is held by the first of them.
pub fn confirm(
    books: &Books,
    question: &OpenQuestion,
    node: NodeSlot,
    scope: &Scope,
) -> Confirmation {
    if books.unsettled.is_void(question, scope, node) {
        return Confirmation::Void;
    }
    let Some(placement) = books.allocations.get(question.allocation) else {
        return Confirmation::Refused;
    };
    let (nodes, wanted) = (&books.nodes, placement.resources());
    if let Some(constraint) = &placement.spec.constraint
        && let Some(terms) = nodes.terms_of(constraint)
    {
        let gone: SmallVec<[AllocationId; 2]> =
            std::iter::once(question.allocation).chain(placement.takes()).collect();
        let mates = Some(placement.application);
        let wish = Wish { open: question.open, gone: &gone, mates, ..Wish::of(terms) };
        if !nodes.is_as_wished(node, &wish) {
            return Confirmation::Void;
        }
        debug_assert!(
            admits_again(nodes, &books.allocations, &wish, node),
            "nothing is settled where its constraint does not hold"
        );
    }
    let available = nodes.available(node);
    let in_place = matches!(placement.pairing, Pairing::Takes { in_place: true, .. });
    let takes_it = if in_place {
        // A placeholder holds the capacity there, and the placement takes no more than that.
        true
    } else if placement.node == node {
        !wanted.overdraws(available)
    } else {
        nodes.is_open_to_all(node) && nodes.has_room(node, wanted)
    };
    if takes_it { Confirmation::Confirmed } else { Confirmation::Refused }
}

#[cfg(test)]
mod tests;
