//! Which ask of an application takes the place of which placeholder; for people,
//! `docs/gangs.md#how-a-member-takes-a-place`.
//!
//! # The order of the search
//! Real members are tried in the order of asks, each with the free placeholders of its task group in
//! order of their creation and UUID:
//!
//! 1. A placeholder that is smaller than the member in anything cannot hold its place: it has to go
//!    ([`NextPair::TooSmall`]).
//! 2. Otherwise its node is asked whether the member may run there ([`NextPair::InPlace`]). If so,
//!    the member takes its place, and nobody's use changes until the placeholder is gone.
//! 3. When no node of a placeholder takes any member, the first member is tried on other nodes
//!    ([`NextPair::Elsewhere`]), in place of the first placeholder of its group. Its new node is
//!    charged at once, so that the placeholder is not given up in vain.
//!
//! # Why a cursor
//! Nodes answer one after another, and a search that began anew after each answer would ask the same
//! again. So the application keeps where its search stands ([`Search`]): who refused which member,
//! and which members no node of a placeholder takes. Whatever may change an answer begins it anew.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::books::Books;
use crate::nodes::NodeSlot;
use crate::order::keys::AskKey;
use crate::work::allocations::{Allocation, AllocationId};
use crate::work::asks::{AskSlot, Asks, TaskGroup};
use crate::work::gang::Gang;

/// How far the search for pairs has come since something changed.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// All members up to this one are refused by every node of a placeholder of theirs, or wait for
    /// an answer.
    passed: Option<AskKey>,
    /// The nodes of placeholders that refused each member. Never iterated.
    refused: FxHashMap<AskKey, FxHashSet<NodeSlot>>,
    /// The member that no other node takes either, when it was the first.
    nowhere: Option<AskKey>,
}

impl Search {
    /// The node of a placeholder refused the member of this key.
    pub fn refused_in_place(&mut self, member: AskKey, node: NodeSlot) {
        self.refused.entry(member).or_default().insert(node);
        self.returns();
    }

    /// No other node takes the first member, which has this key, either.
    pub fn refused_elsewhere(&mut self, member: AskKey) {
        self.nowhere = Some(member);
    }

    /// The first member is to be tried on other nodes again, as far as their predicates have not
    /// refused it.
    pub fn looks_elsewhere(&mut self) {
        self.nowhere = None;
    }

    /// Members or free placeholders are others than before: all are looked at again, and what nodes
    /// have said counts.
    pub fn returns(&mut self) {
        self.passed = None;
    }

    /// Whether anything was refused since it began.
    pub fn met_refusals(&self) -> bool {
        !self.refused.is_empty() || self.nowhere.is_some()
    }

    fn is_refused(&self, member: &AskKey, node: NodeSlot) -> bool {
        self.refused.get(member).is_some_and(|nodes| nodes.contains(&node))
    }
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextPair {
    /// Nothing: no member waits that a placeholder is there for, or nodes refuse.
    Nothing,
    /// A placeholder that is too small for a member of its group has to go.
    TooSmall(AllocationId),
    /// The node of the placeholder is asked whether the member may run there in its place.
    InPlace(Pair),
    /// A node is to be found for the member elsewhere, in place of the placeholder.
    Elsewhere(Pair),
}

/// A member and the placeholder whose place it is to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The member.
    pub ask: AskSlot,
    /// The placeholder.
    pub placeholder: AllocationId,
}

/// Decides what is to be done next for the members of an application. The search notes the members
/// that it passes.
pub fn next(asks: &Asks, gang: &Gang, search: &mut Search, books: &Books) -> NextPair {
    let has_free = |group: &TaskGroup| gang.group(group).is_some_and(|it| !it.free.is_empty());
    while let Some((key, ask)) = asks.next_member(search.passed.as_ref(), has_free) {
        for (placeholder, entry) in free(asks, ask, gang, books) {
            if is_too_small(entry, asks, ask) {
                return NextPair::TooSmall(placeholder);
            }
            if !search.is_refused(&key, entry.node) && may_use(asks, ask, entry.node, books) {
                return NextPair::InPlace(Pair { ask, placeholder });
            }
        }
        search.passed = Some(key);
    }
    let first = asks.next_member(None, has_free).filter(|(key, _)| search.nowhere != Some(*key));
    let pair = first.and_then(|(_, ask)| {
        let (placeholder, _) = free(asks, ask, gang, books).next()?;
        Some(Pair { ask, placeholder })
    });
    pair.map_or(NextPair::Nothing, NextPair::Elsewhere)
}

/// The free placeholders of the group that an ask is a member of, in order.
fn free<'a>(
    asks: &'a Asks,
    ask: AskSlot,
    gang: &'a Gang,
    books: &'a Books,
) -> impl Iterator<Item = (AllocationId, &'a Allocation)> {
    let group = asks.ask(ask).spec.member_of().and_then(|group| gang.group(group));
    let free = group.into_iter().flat_map(|group| group.free.values());
    free.filter_map(|id| Some((*id, books.allocations.get(*id)?)))
}

/// Whether the placeholder lacks something of what the member wants.
fn is_too_small(placeholder: &Allocation, asks: &Asks, ask: AskSlot) -> bool {
    placeholder.resources().minus(&asks.ask(ask).resources).has_negative()
}

/// Whether the ask itself allows the node: the only one it may use, and none that it is excluded
/// from.
fn may_use(asks: &Asks, ask: AskSlot, node: NodeSlot, books: &Books) -> bool {
    let (request, id) = (asks.ask(ask).request(), books.nodes.id(node));
    request.required.is_none_or(|required| **id == *required) && !request.passes_over(id)
}

#[cfg(test)]
mod tests;
