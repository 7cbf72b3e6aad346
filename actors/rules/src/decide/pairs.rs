//! Pairs: which ask of an application takes the place of which placeholder
//! (`docs/gangs.md#how-a-member-takes-a-place`).
//!
//! # The order of the search
//! Real members are tried in the order of asks, each with the free placeholders of its task group in
//! order of their creation and UUID:
//!
//! 1. A placeholder that is smaller than the member in any resource cannot hold its place: it has
//!    to end ([`NextPair::TooSmall`]).
//! 2. Otherwise its node is asked whether the member may run there ([`NextPair::InPlace`]). If so,
//!    the member takes its place, and no usage changes until the placeholder has ended. Places on
//!    nodes where a start of the member failed are asked after all others.
//! 3. When no node of a placeholder takes any member, the first member is tried on other nodes
//!    ([`NextPair::Elsewhere`]), in place of the first placeholder of its group. Its new node is
//!    charged at once, so that the placeholder is not given up without result.
//!
//! Places that are held for members of a declared gang are tried in the order of their nodes, since
//! all places of a group are alike.
//!
//! # Why a cursor
//! Nodes answer one after another, and a search that began again after each answer would ask the
//! same questions again. So the application keeps the state of its search ([`Search`]): which node
//! refused which member, and which members no node of a placeholder takes. Any change that may
//! change an answer restarts the search. The sorted list of the first held places, and how many of
//! them are taken, are kept even then: the position of a place in that list does not depend on
//! refusals.

mod progress;
mod without_result;

pub use progress::PairSearch;

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize, Serializer};

use self::without_result::WithoutResult;
use crate::allocations::{Allocation, AllocationTable};
use crate::applications::gang::{Gang, PlaceKey};
use crate::asks::Asks;
use crate::books::Books;
use crate::nodes::{NodeRequest, Wish};
use crate::order::keys::AskKey;
use crate::specs::ask::TaskGroup;
use crate::values::hashing::SeededMap;
use crate::values::ids::{AllocationId, AskSlot, NodeSlot};
use crate::values::pairs;

/// The progress of the search for pairs since the last change that restarted it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Search {
    /// The last member that has been examined. It and all members before it are refused by every
    /// node of a placeholder of theirs, or wait for an answer.
    passed: Option<AskKey>,
    /// The nodes of placeholders that refused each member.
    #[serde(serialize_with = "in_order", deserialize_with = "pairs::deserialize")]
    refused: Refusals,
    /// The member that was first when no other node took it either.
    nowhere: Option<AskKey>,
    /// The first places that are held for members of a group, in the order of their nodes.
    #[serde(with = "crate::values::pairs")]
    held: SeededMap<TaskGroup, HoldsInOrder>,
}

/// The nodes that refused each member. Never iterated.
type Refusals = SeededMap<AskKey, FxHashSet<NodeSlot>>;

/// Writes the refusals in order of the members and nodes.
fn in_order<S: Serializer>(refused: &Refusals, serializer: S) -> Result<S::Ok, S::Error> {
    let in_order = |(member, nodes): (_, &FxHashSet<NodeSlot>)| {
        (member, nodes.iter().copied().collect::<BTreeSet<_>>())
    };
    pairs::serialize(&refused.iter().map(in_order).collect::<BTreeMap<&AskKey, _>>(), serializer)
}

/// The held places of a group in the order of their nodes: the first ones, or all.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct HoldsInOrder {
    ids: Vec<AllocationId>,
    /// The number of places at the front that are not free, and are not examined again.
    taken: usize,
    /// Whether no other place of the group is free.
    is_all: bool,
    /// The number of moves of nodes in the index when the places were sorted.
    moves: u64,
}

/// The number of places that are sorted at first: more than one offer needs. It doubles each time,
/// so that the places of a large gang are not sorted again and again.
const HOLDS_AT_FIRST: usize = 128;

/// The maximum number of ended places that are skipped for a member. With more of them, they are
/// removed from the list.
const GONE_AT_MOST: usize = 128;

impl HoldsInOrder {
    /// Skips the places at the front that are not free.
    fn pass_taken(&mut self, is_free: impl Fn(AllocationId) -> bool) {
        self.taken += self.rest().iter().take_while(|id| !is_free(**id)).count();
    }

    /// Returns the places that are still to be examined.
    fn rest(&self) -> &[AllocationId] {
        &self.ids[self.taken..]
    }

    /// Notes that this place has become free. Returns whether it is in this list; if not, its
    /// position in the order is unknown.
    fn freed(&mut self, place: AllocationId) -> bool {
        let at = self.ids.iter().position(|id| *id == place);
        self.taken = self.taken.min(at.unwrap_or(usize::MAX));
        at.is_some()
    }

    /// Removes places that have ended for good. A place that a member is about to take has not
    /// ended: it may become free again.
    fn take_gone_out(&mut self, allocations: &AllocationTable) {
        let is_there = |id: &AllocationId| allocations.get(*id).is_some();
        self.taken = self.ids[..self.taken].iter().filter(|id| is_there(id)).count();
        self.ids.retain(is_there);
    }
}

impl Search {
    /// Notes that the node of a placeholder refused the member with this key.
    pub fn refused_in_place(&mut self, member: AskKey, node: NodeSlot) {
        self.refused.entry(member).or_default().insert(node);
        self.returns();
    }

    /// Notes that the first member, which has this key, was refused by all other nodes, too.
    pub fn refused_elsewhere(&mut self, member: AskKey) {
        self.nowhere = Some(member);
    }

    /// Has the first member tried again on other nodes, except those whose predicates have refused
    /// it.
    pub fn searches_other_nodes(&mut self) {
        self.nowhere = None;
    }

    /// Has all members tried again, because members or free placeholders have changed; refusals are
    /// kept.
    pub fn returns(&mut self) {
        self.passed = None;
    }

    /// Forgets all refusals.
    pub fn begin_again(&mut self) {
        *self = Self { held: std::mem::take(&mut self.held), ..Self::default() };
    }

    /// Notes that a placeholder of this group, or a place held for it, is free, and may have been
    /// taken before. Each [`Gang::put_free`] is followed by this.
    pub fn freed(&mut self, group: &TaskGroup, place: AllocationId) {
        if let Some(held) = self.held.get_mut(group)
            && !held.freed(place)
        {
            self.held.remove(group);
        }
    }

    /// Whether this member was the first when no other node took it in place of a placeholder.
    pub fn is_nowhere(&self, member: AskKey) -> bool {
        self.nowhere == Some(member)
    }

    /// Whether a node refused a member in this search.
    pub fn met_refusals(&self) -> bool {
        !self.refused.is_empty() || self.nowhere.is_some()
    }
}

fn is_refused(refused: &Refusals, member: &AskKey, node: NodeSlot) -> bool {
    refused.get(member).is_some_and(|nodes| nodes.contains(&node))
}

/// The next thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextPair {
    /// Nothing to do: no pending member has a placeholder, or nodes refuse.
    Nothing,
    /// A placeholder is too small for a member of its group and has to end.
    TooSmall(Pair),
    /// The node of the placeholder is asked whether the member may run there in its place.
    InPlace(Pair),
    /// The member is to be placed on another node, in place of the placeholder.
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

/// Decides what is to be done next for the members of an application. Records in `search` the
/// members that find nothing.
pub fn next(asks: &Asks, gang: &Gang, search: &mut Search, books: &Books) -> NextPair {
    let has_free = |group: &TaskGroup| gang.group(group).is_some_and(|it| !it.free.is_empty());
    let (mut without_result, mut behind) = (WithoutResult::default(), None);
    let mut member = asks.next_member(search.passed.as_ref(), has_free);
    while let Some((key, ask)) = member {
        if !without_result.covers(asks.ask(ask), books) {
            let found = match &gang.native {
                None => {
                    let places = free(asks, ask, gang, books);
                    first_usable(places, (&key, ask), &search.refused, asks, books)
                }
                Some(_) => first_held((&key, ask), gang, search, asks, books),
            };
            if let Some(found) = found {
                return found;
            }
            if !search.refused.contains_key(&key) {
                without_result.note(asks.ask(ask), free(asks, ask, gang, books));
            }
        }
        search.passed = Some(key);
        member = behind.get_or_insert_with(|| asks.next_members(key, has_free)).next();
    }
    let first = asks.next_member(None, has_free).filter(|(key, _)| search.nowhere != Some(*key));
    let pair = first.and_then(|(_, ask)| {
        let mut free = free(asks, ask, gang, books);
        let (placeholder, _) = match &gang.native {
            None => free.next()?,
            Some(_) => free.min_by_key(|(id, entry)| (books.nodes.position(entry.node), *id))?,
        };
        Some(Pair { ask, placeholder })
    });
    if !gang.has_free() {
        search.held.clear();
    }
    pair.map_or(NextPair::Nothing, NextPair::Elsewhere)
}

/// Returns the first of these places that the member may take, or that is too small for it. Places
/// on nodes where a start of the member failed come last.
fn first_usable<'a>(
    places: impl Iterator<Item = (AllocationId, &'a Allocation)>,
    (key, ask): (&AskKey, AskSlot),
    refused: &Refusals,
    asks: &Asks,
    books: &Books,
) -> Option<NextPair> {
    let mut where_it_failed = None;
    for (placeholder, entry) in places {
        if is_too_small(entry, asks, ask) {
            return Some(NextPair::TooSmall(Pair { ask, placeholder }));
        }
        if !is_refused(refused, key, entry.node)
            && may_use(asks, ask, (entry.node, placeholder), books)
        {
            let found = NextPair::InPlace(Pair { ask, placeholder });
            if !asks.ask(ask).has_failed_on(books.nodes.id(entry.node)) {
                return Some(found);
            }
            where_it_failed = where_it_failed.or(Some(found));
        }
    }
    where_it_failed
}

/// Returns the first place, in the order of nodes, that is held for the group of the member and
/// that the member may take, or that is too small for it.
fn first_held(
    (key, ask): (&AskKey, AskSlot),
    gang: &Gang,
    search: &mut Search,
    asks: &Asks,
    books: &Books,
) -> Option<NextPair> {
    let name = asks.ask(ask).spec.member_of()?;
    let moves = books.nodes.moves();
    let (free, table) = (&gang.group(name)?.free, &books.allocations);
    debug_assert!(
        !matches!(free.keys().next(), Some(PlaceKey::Placeholder(..))),
        "a declared gang has no placeholders of its RM"
    );
    let is_free = |id: AllocationId| free.contains_key(&PlaceKey::Hold(id));
    let Search { refused, held, .. } = search;
    // Finds the first place that may be taken, and counts the ended places before it.
    let usable = |ids: &[AllocationId]| {
        let mut n_gone = 0;
        let places = ids.iter().filter_map(|id| {
            let entry = table.get(*id);
            n_gone += usize::from(entry.is_none());
            Some((*id, entry.filter(|_| is_free(*id))?))
        });
        (first_usable(places, (key, ask), refused, asks, books), n_gone)
    };
    let mut more = HOLDS_AT_FIRST;
    if let Some(known) = held.get_mut(name).filter(|known| known.moves == moves) {
        known.pass_taken(is_free);
        more = known.ids.len().saturating_mul(2);
        let (found, n_gone) = usable(known.rest());
        if n_gone > GONE_AT_MOST {
            known.take_gone_out(table);
        }
        if found.is_some() || known.is_all {
            return found;
        }
    }
    // The places at the front are taken, or refuse this member: twice as many places are tried,
    // then all.
    for most in [more, usize::MAX] {
        let ids = in_node_order(free.values().copied(), most, books);
        let is_all = free.len() <= most;
        let (found, _) = usable(&ids);
        held.insert(TaskGroup::clone(name), HoldsInOrder { ids, taken: 0, is_all, moves });
        if found.is_some() || is_all {
            return found;
        }
    }
    None
}

/// Returns the first `most` allocations in the order of their nodes.
fn in_node_order(
    ids: impl Iterator<Item = AllocationId>,
    most: usize,
    books: &Books,
) -> Vec<AllocationId> {
    let place = |id: AllocationId| {
        let entry = books.allocations.get(id)?;
        Some((books.nodes.position(entry.node), id))
    };
    let mut places: Vec<_> = ids.filter_map(place).collect();
    if places.len() > most {
        places.select_nth_unstable(most);
        places.truncate(most);
    }
    places.sort_unstable();
    places.into_iter().map(|(_, id)| id).collect()
}

/// Counts of the free places of a group, as one of its members may use them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreePlaces {
    /// The number of places that are still to be tried, or to be ended because they are too small
    /// for the member.
    pub untried: u64,
    /// The number of places whose node has refused the member.
    pub refused: u64,
    /// The first of these nodes.
    pub refused_on: Option<NodeSlot>,
    /// The number of places that the member itself may not take: outside its required node, the
    /// domain of its group, or its constraint.
    pub forbidden: u64,
}

/// Counts the free places of the group that an ask is a member of. Each place is examined if the
/// member may not use all nodes.
pub fn free_places(
    asks: &Asks,
    ask: AskSlot,
    gang: &Gang,
    search: &Search,
    books: &Books,
) -> FreePlaces {
    let (key, request) = (asks.ask(ask).order_key(), asks.ask(ask).request());
    let mut places = FreePlaces::default();
    if request.wants_only_room() && !search.refused.contains_key(&key) {
        places.untried = free(asks, ask, gang, books).count() as u64;
        return places;
    }
    for (placeholder, entry) in free(asks, ask, gang, books) {
        let is_excluded = request.is_excluded_from(books.nodes.id(entry.node));
        let count = if is_excluded || is_refused(&search.refused, &key, entry.node) {
            places.refused_on.get_or_insert(entry.node);
            &mut places.refused
        } else if may_use(asks, ask, (entry.node, placeholder), books) {
            &mut places.untried
        } else {
            &mut places.forbidden
        };
        *count += 1;
    }
    places
}

/// Returns the free placeholders of the group that an ask is a member of, in order.
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

/// Whether the placeholder lacks a resource that the member requests.
fn is_too_small(placeholder: &Allocation, asks: &Asks, ask: AskSlot) -> bool {
    !placeholder.resources().holds(&asks.ask(ask).resources)
}

/// Whether the ask itself allows the node: it requires no other node, is not excluded from this
/// one, and its constraint admits the node. The constraint is judged without the placeholder, since
/// the member replaces it.
fn may_use(
    asks: &Asks,
    ask: AskSlot,
    (node, placeholder): (NodeSlot, AllocationId),
    books: &Books,
) -> bool {
    let gone = [placeholder];
    let request = asks.ask(ask).request();
    let request =
        NodeRequest { wish: request.wish.map(|wish| Wish { gone: &gone, ..wish }), ..request };
    let id = books.nodes.id(node);
    request.required.is_none_or(|required| **id == *required) && books.nodes.admits(node, &request)
}

#[cfg(test)]
mod tests;
