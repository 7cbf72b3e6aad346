//! Finds places for all members of a bundle, in one step or in several.
//!
//! # In several steps
//! A search that has used up the looks at nodes of one step gives everything back and is *paused*:
//! it remembers its places, which are not held for it. When it continues, it takes again each place
//! that still has capacity, and searches for another one in place of each that has not. So the
//! steps in between may change anything, and the places found in the end have capacity at that
//! moment. Each step finds at least one more place, or tries one more domain.
//!
//! # Invariant
//! * Between two steps the index is as if there were no search.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use super::{
    Chosen, Found, Group, How, MembersAt, Place, Shortage, order, short_of_room, topology,
};
use crate::nodes::{Domain, NodeIndex, NodeRequest};
use crate::values::ids::NodeSlot;

/// A search that continues in a later step.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Paused {
    how: How,
    places: Vec<Place>,
    chosen: Vec<Chosen>,
    /// The domains that did not take a group.
    #[serde(with = "crate::values::sorted")]
    tried: Tried,
}

/// For the index of each group in its bundle, the domains that did not take it, each with the
/// domains that contain it.
pub(super) type Tried = FxHashSet<(usize, Vec<Domain>)>;

/// The result of a search that has not found all places.
#[derive(Clone, Debug)]
pub enum Unfound {
    /// There are too few places.
    Short(Shortage),
    /// The search continues later.
    Paused(Paused),
}

/// The part of a search in this step.
pub(super) struct Slice {
    /// The number of looks at which the slice ends.
    until: u64,
    /// Whether a place was searched for, or a domain tried, in the slice.
    has_progress: bool,
    pub(super) tried: Tried,
}

/// Places of a paused search that are not taken yet.
struct Kept {
    places: BTreeMap<MembersAt, VecDeque<NodeSlot>>,
    chosen: Vec<Chosen>,
}

/// Finds a place for each member, or gives everything back.
pub fn find(nodes: &mut NodeIndex, bundle: &[Group<'_>]) -> Result<Found, Shortage> {
    find_within(nodes, bundle, Paused::default(), u64::MAX).map_err(|unfound| match unfound {
        Unfound::Short(shortage) => shortage,
        Unfound::Paused(_) => unreachable!("it may look as often as it wants"),
    })
}

/// Continues a paused search, as [`find`], until the [looks] of the index reach this number; at
/// least one place or domain is tried. The bundle has to be the one that the search began with.
///
/// [looks]: NodeIndex::looks
///
/// # Errors
/// There are too few places, or the search continues later.
pub fn find_within(
    nodes: &mut NodeIndex,
    bundle: &[Group<'_>],
    paused: Paused,
    until: u64,
) -> Result<Found, Unfound> {
    let order = order(bundle, nodes.capacity());
    let Paused { how, places, chosen, tried } = paused;
    let mut slice = Slice { until, has_progress: false, tried };
    let mut kept = Kept::new(places, chosen);
    if how == How::First {
        let spread = find_by(nodes, bundle, &order, how, &mut kept, &mut slice);
        if !matches!(spread, Err(Unfound::Short(_))) || nodes.is_tightest_first() {
            return spread;
        }
        kept = Kept::new(Vec::new(), Vec::new());
        slice.tried.clear();
    }
    find_by(nodes, bundle, &order, How::Tightest, &mut kept, &mut slice)
}

fn find_by(
    nodes: &mut NodeIndex,
    bundle: &[Group<'_>],
    order: &[MembersAt],
    how: How,
    kept: &mut Kept,
    slice: &mut Slice,
) -> Result<Found, Unfound> {
    let mut found = Found::default();
    let mut from = 0;
    for (at, of) in order.iter().enumerate() {
        if at < from {
            continue;
        }
        if bundle[of.group].topology.is_some() {
            match kept.take_group(nodes, bundle, &order[at..], &mut found) {
                Some(taken) => from = at + taken,
                None => match topology::place(nodes, bundle, order, at, how, &mut found, slice) {
                    Ok(placed) => from = at + placed,
                    Err(topology::Unplaced::Short(shortage)) => {
                        found.undo(nodes);
                        return Err(Unfound::Short(shortage));
                    }
                    Err(topology::Unplaced::Paused) => {
                        return Err(kept.pause(nodes, found, how, slice));
                    }
                },
            }
            if from > at {
                continue;
            }
        }
        let members = of.within(bundle);
        for n in 0..members.count {
            let node = match kept.node(nodes, *of, &members.request) {
                Some(node) => Some(node),
                None if slice.is_over(nodes) => {
                    return Err(kept.pause(nodes, found, how, slice));
                }
                None => how.choose(nodes, &members.request),
            };
            let Some(node) = node else {
                found.undo(nodes);
                let short = short_of_room(bundle, &order[at..], members.count - n);
                let lacks = short.iter().map(|(_, lacks)| lacks).sum();
                return Err(Unfound::Short(Shortage { of: *of, lacks, short, domain: None }));
            };
            found.take(nodes, members, Place { of: *of, node });
        }
    }
    Ok(found)
}

impl Slice {
    /// A slice of this many looks from now on, for a try that is given up after them.
    pub(super) fn of(looks: u64, nodes: &NodeIndex) -> Self {
        let until = nodes.looks().saturating_add(looks);
        Self { until, has_progress: true, tried: Tried::default() }
    }

    /// Whether the search has to continue in a later step. It is called before each new place or
    /// domain is tried. The first call of a slice that begins without progress returns false, so
    /// that each step makes some.
    pub(super) fn is_over(&mut self, nodes: &NodeIndex) -> bool {
        std::mem::replace(&mut self.has_progress, true) && nodes.looks() >= self.until
    }
}

impl Paused {
    /// A search that continues from these places.
    pub(super) fn with(places: Vec<Place>, chosen: Vec<Chosen>) -> Self {
        Self { places, chosen, ..Self::default() }
    }

    /// Adapts the places to a changed bundle. `whose` returns the members that each place is for
    /// now.
    pub fn move_places(&mut self, whose: impl Fn(MembersAt) -> Option<MembersAt>) {
        self.places.retain_mut(|place| match whose(place.of) {
            Some(of) => {
                place.of = of;
                true
            }
            None => false,
        });
    }

    /// Has domains that did not take a group tried again.
    pub fn forget_tried(&mut self) {
        self.tried.clear();
    }

    /// Returns the number of places that it remembers.
    pub fn n_places(&self) -> usize {
        self.places.len()
    }
}

impl Kept {
    fn new(places: Vec<Place>, chosen: Vec<Chosen>) -> Self {
        let mut by_members: BTreeMap<MembersAt, VecDeque<NodeSlot>> = BTreeMap::new();
        for Place { of, node } in places {
            by_members.entry(of).or_default().push_back(node);
        }
        Self { places: by_members, chosen }
    }

    /// Removes and returns the next place of these members that still has capacity.
    fn node(
        &mut self,
        nodes: &NodeIndex,
        of: MembersAt,
        request: &NodeRequest<'_>,
    ) -> Option<NodeSlot> {
        let places = self.places.get_mut(&of)?;
        while let Some(node) = places.pop_front() {
            if nodes.takes(node, request) {
                return Some(node);
            }
        }
        None
    }

    /// Takes all places of the first group in `order`, if it had places and all of them still have
    /// capacity. Returns the number of its entries in `order`.
    fn take_group(
        &mut self,
        nodes: &mut NodeIndex,
        bundle: &[Group<'_>],
        order: &[MembersAt],
        found: &mut Found,
    ) -> Option<usize> {
        let group = order.first()?.group;
        let of_group = order.iter().take_while(|of| of.group == group);
        let n_entries = of_group.clone().count();
        let chosen = self.chosen.iter().position(|chosen| chosen.group == group);
        let chosen = chosen.map(|at| self.chosen.swap_remove(at));
        let domains = chosen.as_ref().map(|chosen| chosen.domain.clone());
        let before = found.places.len();
        for of in of_group {
            let members = of.within(bundle);
            let mut places = self.places.remove(of).unwrap_or_default();
            let domains = domains.as_slice();
            let domains = if domains.is_empty() { members.request.domains } else { domains };
            let request = NodeRequest { domains, ..members.request };
            for _ in 0..members.count {
                let Some(node) = places.pop_front().filter(|node| nodes.takes(*node, &request))
                else {
                    found.give_from(nodes, bundle, before);
                    return None;
                };
                found.take(nodes, members, Place { of: *of, node });
            }
        }
        found.chosen.extend(chosen);
        Some(n_entries)
    }

    /// Pauses the search, with the places that it has found and the kept places that it has not
    /// taken again.
    fn pause(
        &mut self,
        nodes: &mut NodeIndex,
        found: Found,
        how: How,
        slice: &mut Slice,
    ) -> Unfound {
        let mut paused = found.pause(nodes);
        paused.how = how;
        paused.tried = std::mem::take(&mut slice.tried);
        let rest = std::mem::take(&mut self.places).into_iter();
        let of = |(of, nodes): (MembersAt, VecDeque<NodeSlot>)| {
            nodes.into_iter().map(move |node| Place { of, node })
        };
        paused.places.extend(rest.flat_map(of));
        paused.chosen.append(&mut self.chosen);
        Unfound::Paused(paused)
    }
}
