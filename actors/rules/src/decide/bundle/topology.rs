//! Finds the domain of a group with a topology: all of its members get nodes in one domain, or as
//! near to each other as capacity allows. For people, `docs/gangs.md#topology`.
//!
//! # Which domain
//! Of the domains that take the whole group, the one with the least capacity left afterwards is
//! chosen, so that whole domains stay free; of equal domains, the first by value. A *required*
//! attribute always holds. Of *preferred* attributes, the first one decides for which one domain
//! takes the whole group. If there are both, the first required domain, in the same order, is
//! chosen that contains a preferred one.
//!
//! A later group may find no domain because an earlier group of its gang has taken it. Then the
//! earlier group makes way, if it finds another domain. Each group does so once, and there are at
//! most [`MOVES_MAX`] tries for each later group.
//!
//! # Invariants
//! * A group with a required domain has all of its places in it, or none.
//! * A try without result leaves the places found before unchanged.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use smallvec::SmallVec;

use super::search::Slice;
use super::{
    Chosen, Found, Group, How, Members, MembersAt, NoDomain, Place, Shortage, distinct_sizes,
};
use crate::nodes::{Domain, NodeIndex, NodeRequest, Wanted};
use crate::specs::declaration::Topology;
use crate::values::resources::Resources;

/// The maximum number of tries to have an earlier group make way, for one group.
const MOVES_MAX: usize = 64;
/// The maximum number of looks at nodes for these tries.
const LOOKS_TO_MOVE: u64 = 200_000;

/// The result for a group that has no places in a domain.
pub(super) enum Unplaced {
    /// No domain takes it.
    Short(Shortage),
    /// There are domains that were not tried yet.
    Paused,
}

/// The search has to continue in a later step.
struct Pause;

impl From<Pause> for Unplaced {
    fn from(_: Pause) -> Self {
        Self::Paused
    }
}

/// The members of one group, in the order of the search.
struct Run<'b, 'a> {
    bundle: &'b [Group<'a>],
    members: &'b [MembersAt],
    topology: &'a Topology,
    how: How,
    /// The amount that all of them want of open nodes. `sizes` has each of their sizes once; of
    /// many different sizes, some.
    total: Resources,
    sizes: SmallVec<[Resources; 1]>,
    /// Whether all nodes of a domain are alike for the members.
    is_of_one_size: bool,
}

/// Searches places for the group that begins at this index of the order. Returns how many entries
/// of the order were placed; 0 if the members may use any nodes.
pub(super) fn place(
    nodes: &mut NodeIndex,
    bundle: &[Group<'_>],
    order: &[MembersAt],
    at: usize,
    how: How,
    found: &mut Found,
    slice: &mut Slice,
) -> Result<usize, Unplaced> {
    let Some(run) = Run::new(bundle, order, order[at].group, how) else { return Ok(0) };
    let Some(key) = &run.topology.required else {
        let is_placed = run.place_preferred(nodes, found, slice)?;
        return Ok(if is_placed { run.members.len() } else { 0 });
    };
    let domain = match run.place_required(nodes, key, None, found, slice)? {
        Some(domain) => domain,
        None => make_way(nodes, &run, order, key, found)
            .ok_or_else(|| Unplaced::Short(run.shortage(nodes, key, found)))?,
    };
    let group = run.group();
    found.chosen.push(Chosen { group, domain, has_moved: false });
    Ok(run.members.len())
}

/// Has an earlier group choose another domain, so that this group finds one. The last of the
/// earlier groups is tried first.
fn make_way(
    nodes: &mut NodeIndex,
    run: &Run<'_, '_>,
    order: &[MembersAt],
    key: &str,
    found: &mut Found,
) -> Option<Domain> {
    let mut tries = 0;
    let mut slice = Slice::of(LOOKS_TO_MOVE, nodes);
    for at in (0..found.chosen.len()).rev() {
        // Domains that did not take a group may take it in the next try.
        slice.tried.clear();
        let Chosen { group, domain: before, has_moved } = found.chosen[at].clone();
        if has_moved || tries == MOVES_MAX {
            continue;
        }
        tries += 1;
        let Some(earlier) = Run::new(run.bundle, order, group, run.how) else { continue };
        let Some(its_key) = &earlier.topology.required else { continue };
        let as_it_was = found.places.clone();
        let places = found.take_out(nodes, run.bundle, group);
        let domain = run.place_required(nodes, key, None, found, &mut slice);
        if let Ok(Some(domain)) = domain {
            let other = earlier.place_required(nodes, its_key, Some(&before), found, &mut slice);
            if let Ok(Some(other)) = other {
                found.chosen[at] = Chosen { group, domain: other, has_moved: true };
                return Some(domain);
            }
            found.take_out(nodes, run.bundle, run.group());
        }
        for place in places {
            found.take(nodes, place.of.within(run.bundle), place);
        }
        found.places = as_it_was;
    }
    None
}

impl<'b, 'a> Run<'b, 'a> {
    fn new(
        bundle: &'b [Group<'a>],
        order: &'b [MembersAt],
        group: usize,
        how: How,
    ) -> Option<Self> {
        let topology = bundle[group].topology?;
        let first = order.iter().position(|of| of.group == group)?;
        let last = order.iter().rposition(|of| of.group == group)?;
        let members = &order[first..=last];
        let is_free = |it: &&Members<'_>| it.request.required.is_none();
        let free = bundle[group].members.iter().filter(is_free);
        let sizes = distinct_sizes(free.map(|members| members.request.resources));
        let only_room = bundle[group].members.iter().all(|it| it.request.wants_only_room());
        let (total, is_of_one_size) = (bundle[group].wants_open(), only_room && sizes.len() == 1);
        Some(Self { bundle, members, topology, how, total, sizes, is_of_one_size })
    }

    fn group(&self) -> usize {
        self.members[0].group
    }

    fn wanted(&self) -> Wanted<'_> {
        Wanted { total: &self.total, sizes: &self.sizes }
    }

    fn keep_preferred(&self, nodes: &mut NodeIndex) {
        for key in &self.topology.preferred {
            nodes.keep_domains(key);
        }
    }

    /// Places the group in the best domain of the required attribute, except `without`.
    fn place_required(
        &self,
        nodes: &mut NodeIndex,
        key: &str,
        without: Option<&Domain>,
        found: &mut Found,
        slice: &mut Slice,
    ) -> Result<Option<Domain>, Pause> {
        nodes.keep_domains(key);
        let avoid = self.bundle[self.group()].avoid;
        let may_be = |domain: &Domain| Some(domain) != without && !avoid.contains(domain);
        if !self.topology.preferred.is_empty() {
            self.keep_preferred(nodes);
            let mut by_fit = nodes.domains_by_fit(key, &self.wanted());
            while let Some(domain) = by_fit.next(nodes) {
                if may_be(&domain) && self.place_inside(nodes, &domain, found, slice)? {
                    return Ok(Some(domain));
                }
            }
        }
        let mut by_fit = nodes.domains_by_fit(key, &self.wanted());
        while let Some(domain) = by_fit.next(nodes) {
            let domains = std::slice::from_ref(&domain);
            if may_be(&domain) && self.place_in(nodes, domains, found, slice)? {
                return Ok(Some(domain));
            }
        }
        Ok(None)
    }

    /// Places the group in the best domain of a preferred attribute inside of another domain.
    fn place_inside(
        &self,
        nodes: &mut NodeIndex,
        outer: &Domain,
        found: &mut Found,
        slice: &mut Slice,
    ) -> Result<bool, Pause> {
        for key in &self.topology.preferred {
            let mut by_fit = nodes.domains_inside(key, outer, &self.wanted());
            while let Some(inner) = by_fit.next(nodes) {
                if self.place_in(nodes, &[outer.clone(), inner], found, slice)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Places the group in the best domain of a preferred attribute.
    fn place_preferred(
        &self,
        nodes: &mut NodeIndex,
        found: &mut Found,
        slice: &mut Slice,
    ) -> Result<bool, Pause> {
        self.keep_preferred(nodes);
        for key in &self.topology.preferred {
            let mut by_fit = nodes.domains_by_fit(key, &self.wanted());
            while let Some(domain) = by_fit.next(nodes) {
                if self.place_in(nodes, std::slice::from_ref(&domain), found, slice)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Places all members in the intersection of these domains, or none.
    fn place_in(
        &self,
        nodes: &mut NodeIndex,
        domains: &[Domain],
        found: &mut Found,
        slice: &mut Slice,
    ) -> Result<bool, Pause> {
        let tried = (self.group(), domains.to_vec());
        if slice.tried.contains(&tried) {
            return Ok(false);
        }
        if slice.is_over(nodes) {
            return Err(Pause);
        }
        let places = |nodes: &mut NodeIndex, how: How, found: &mut Found| {
            self.try_in(nodes, domains, how, found).is_ok()
        };
        let is_placed = places(nodes, self.how, found)
            || (self.how == How::First
                && !self.is_of_one_size
                && !nodes.is_tightest_first()
                && places(nodes, How::Tightest, found));
        if !is_placed {
            slice.tried.insert(tried);
        }
        Ok(is_placed)
    }

    /// Tries to place all members. The error is how many members found a place; none of them keeps
    /// it.
    fn try_in(
        &self,
        nodes: &mut NodeIndex,
        domains: &[Domain],
        how: How,
        found: &mut Found,
    ) -> Result<(), u64> {
        let before = found.places.len();
        for of in self.members {
            let members = of.within(self.bundle);
            let request = NodeRequest { domains, ..members.request };
            for _ in 0..members.count {
                let Some(node) = how.choose(nodes, &request) else {
                    let placed = found.places.len() - before;
                    found.give_from(nodes, self.bundle, before);
                    return Err(placed as u64);
                };
                found.take(nodes, members, Place { of: *of, node });
            }
        }
        Ok(())
    }

    /// Returns how many members find no place in the domain where most of them find one.
    fn shortage(&self, nodes: &mut NodeIndex, key: &str, found: &mut Found) -> Shortage {
        let of = self.members[0];
        let counts = self.members.iter().map(|of| u64::from(of.within(self.bundle).count));
        let members: u64 = counts.sum();
        let nothing = Resources::new();
        let size = self.sizes.first().unwrap_or(&nothing);
        let roomiest = nodes.roomiest_domain(key, size);
        let placed = roomiest.as_ref().map_or(0, |domain| {
            let tried = self.try_in(nodes, std::slice::from_ref(domain), self.how, found);
            tried.err().unwrap_or(members)
        });
        // A domain that the group must not use may take all of them.
        let lacks = members.saturating_sub(placed).max(1);
        let value = roomiest.map(|domain| domain.value);
        let domain = Some(NoDomain { key: Arc::from(key), value });
        Shortage { of, lacks, short: vec![(of, lacks)], domain }
    }
}

impl Found {
    /// Gives back all places from this index on.
    pub(super) fn give_from(&mut self, nodes: &mut NodeIndex, bundle: &[Group<'_>], from: usize) {
        for place in self.places.split_off(from) {
            self.give(nodes, place.of.within(bundle), place);
        }
    }

    /// Gives back all places of a group, and returns them.
    fn take_out(
        &mut self,
        nodes: &mut NodeIndex,
        bundle: &[Group<'_>],
        group: usize,
    ) -> Vec<Place> {
        let all = std::mem::take(&mut self.places);
        let (of_group, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|place| place.of.group == group);
        self.places = others;
        for place in &of_group {
            self.give(nodes, place.of.within(bundle), *place);
        }
        of_group
    }
}
