//! Domains: the nodes with one value of an attribute, for gangs that have to stay together:
//! `docs/gangs.md#topology`.
//!
//! A gang that needs one rack asks "which rack can take all of it, and which of those has least to
//! spare?". A scan of all nodes for each gang would be expensive. So the index keeps, for each
//! requested attribute, every domain with the sum of the free amounts of its open nodes, and with
//! its nodes in order. A domain whose sum is too small is skipped by one comparison; in a domain
//! that may be large enough, nodes are searched as in the whole partition.
//!
//! # Cost
//! While no attribute is requested: one comparison per change of a node. Otherwise one more descent
//! of a small tree per change and kept attribute. The first request for an attribute costs one pass
//! over the nodes, and its domains are kept from then on. They are dropped when more nodes have
//! changed without another request than that pass has cost. At most [`KEPT_MAX`] attributes are
//! kept.
//!
//! # Invariants
//! * Kept domains follow the attributes of the nodes. A search in a domain that is not kept finds
//!   the same node, but examines more nodes.
//! * The sum of a domain is never less than the amounts that its open nodes hold together.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use super::attributes::Attributes;
use super::domain::{Domain, Wanted};
use super::growth::{Growths, LOOKED_AT};
use super::index::NodeIndex;
use super::kept_domains::{Area, AreaId, Free, Kept, NodeTree};
use super::node::Start;
use super::request::NodeRequest;
use super::room::Room;
use crate::order::shares::Share;
use crate::values::epoch::Growth;
use crate::values::ids::NodeSlot;
use crate::values::resources::Resources;

/// The most attributes whose domains are kept at a time.
pub(super) const KEPT_MAX: usize = 32;
/// The least number of node changes after which an attribute without another request is dropped.
const CHANGES_LEAST: usize = 1_024;

/// An iterator over the domains that may take an amount, best first.
pub struct ByFit {
    key: Arc<str>,
    /// The share that would be left, the index in the order of values, and the domain.
    heap: BinaryHeap<Reverse<(Share, usize, AreaId)>>,
}

impl ByFit {
    /// Returns the next best domain.
    pub fn next(&mut self, nodes: &NodeIndex) -> Option<Domain> {
        let Reverse((_, _, id)) = self.heap.pop()?;
        let area = &nodes.domains.kept(&self.key)?.areas[id];
        Some(Domain { key: Arc::clone(&self.key), value: Arc::clone(&area.value) })
    }
}

impl NodeIndex {
    /// Keeps the domains of an attribute from now on, as long as it is requested.
    pub fn keep_domains(&mut self, key: &str) {
        let domains = &mut self.domains;
        domains.asked += 1;
        let (asked, most) = (domains.asked, CHANGES_LEAST.max(8 * self.nodes.len()));
        let mut is_known = false;
        for kept in &mut domains.kept {
            if *kept.key == *key {
                (kept.asked, kept.changes, is_known) = (asked, 0, true);
            }
        }
        if is_known {
            return;
        }
        domains.kept.retain(|kept| kept.changes <= most);
        if domains.kept.len() == KEPT_MAX {
            let oldest = (0..KEPT_MAX).min_by_key(|at| domains.kept[*at].asked);
            domains.kept.swap_remove(oldest.expect("there are some"));
        }
        let mut kept = Kept { asked, ..Kept::new(key) };
        for (slot, node) in self.nodes.iter() {
            kept.enter(slot, self.affinity.attributes(slot), node);
        }
        domains.kept.push(kept);
    }

    /// Drops domains that were not requested while many nodes changed.
    pub(super) fn forget_domains(&mut self) {
        if !self.domains.kept.is_empty() {
            let most = CHANGES_LEAST.max(8 * self.nodes.len());
            self.domains.kept.retain(|kept| kept.changes <= most);
        }
    }

    /// Returns the domains of an attribute that may take the whole amount, best fit first: the
    /// domain with the least left, of equal ones the first by value. The attribute has to be
    /// [kept](Self::keep_domains).
    pub fn domains_by_fit(&self, key: &str, wanted: &Wanted<'_>) -> ByFit {
        let Some(kept) = self.domains.kept(key) else {
            return ByFit { key: Arc::from(key), heap: BinaryHeap::new() };
        };
        let areas = kept.by_value.values().map(|id| (*id, &kept.areas[*id])).enumerate();
        let may = areas.filter(|(_, (_, area))| area.may_take(wanted));
        let rank = |(at, (id, area)): (usize, (AreaId, &Area))| {
            Reverse((area.free.left_by(wanted.total, self.capacity()), at, id))
        };
        ByFit { key: Arc::clone(&kept.key), heap: may.map(rank).collect() }
    }

    /// Returns the domains of an attribute inside another domain, best fit first. Only their nodes
    /// in that other domain count.
    pub fn domains_inside(&self, key: &str, outer: &Domain, wanted: &Wanted<'_>) -> ByFit {
        let mut by_fit = ByFit { key: Arc::from(key), heap: BinaryHeap::new() };
        let outer = self.domains.kept(&outer.key).and_then(|kept| kept.area(&outer.value));
        let (Some(kept), Some(outer)) = (self.domains.kept(key), outer) else { return by_fit };
        let mut inside: BTreeMap<&str, (AreaId, Free)> = BTreeMap::new();
        for (_, slot, room) in outer.tree.iter() {
            if let Some(id) = kept.area_of(*slot) {
                let known = inside.entry(&kept.areas[id].value);
                known.or_insert_with(|| (id, Free::default())).1.add(room);
            }
        }
        for (at, (id, free)) in inside.into_values().enumerate() {
            if free.0.holds(wanted.total) && kept.areas[id].may_take(wanted) {
                let left = free.left_by(wanted.total, self.capacity());
                by_fit.heap.push(Reverse((left, at, id)));
            }
        }
        by_fit
    }

    /// Returns the domain of an attribute that could hold this amount most often if its nodes were
    /// one; of equal ones the first by value.
    pub fn roomiest_domain(&self, key: &str, size: &Resources) -> Option<Domain> {
        let kept = self.domains.kept(key)?;
        let areas = kept.by_value.values().rev().map(|id| &kept.areas[*id]);
        let most = areas.max_by_key(|area| area.free.places(size))?;
        Some(Domain { key: Arc::clone(&kept.key), value: Arc::clone(&most.value) })
    }

    /// Counts for each domain of an attribute, by value, how many requests like this one it could
    /// hold at a time, up to `most`. Reads every node.
    pub fn places_by_domain(
        &self,
        key: &str,
        request: &NodeRequest<'_>,
        most: u64,
    ) -> BTreeMap<Arc<str>, u64> {
        let mut places: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        for (slot, _) in self.nodes.iter() {
            let Some(value) = self.attribute(slot, key) else { continue };
            let has = places.entry(Arc::from(value)).or_default();
            let there = if self.admits(slot, request) {
                self.places_on(slot, request.resources)
            } else {
                0
            };
            *has = has.saturating_add(there).min(most);
        }
        places
    }

    /// Returns the node's value of an attribute.
    pub fn attribute(&self, slot: NodeSlot, key: &str) -> Option<&str> {
        self.affinity.attributes(slot)?.get(key)
    }

    /// Whether the node is in all of these domains.
    pub fn is_within(&self, slot: NodeSlot, domains: &[Domain]) -> bool {
        let attributes = self.affinity.attributes(slot);
        domains.iter().all(|domain| domain.is_of(attributes))
    }

    /// Whether a node that grew after the growth number `mark` is in a domain that may have enough
    /// capacity. `wanted` has, for each attribute, the amount that one of its domains has to hold.
    /// `true` may be wrong, `false` never is.
    pub fn may_fit_since(&self, mark: Growth, wanted: &[(Arc<str>, Resources)]) -> bool {
        let fits = |slot: NodeSlot| {
            wanted.iter().any(|(key, total)| match self.domains.kept(key) {
                Some(kept) => {
                    let area = kept.area_of(slot).map(|id| &kept.areas[id]);
                    area.is_some_and(|area| area.free.0.holds(total))
                }
                None => self.attribute(slot, key).is_some(),
            })
        };
        let one_of = |growths: &Growths| {
            let grown = growths.newest_first().take_while(|(_, grown)| *grown > mark);
            let mut grown = grown.enumerate();
            grown.any(|(at, (slot, _))| at == LOOKED_AT || fits(slot))
        };
        mark < self.growth() && (one_of(&self.growths) || one_of(&self.returns))
    }

    /// Returns a tree that contains the nodes of all of these domains, and the domains for which
    /// each node in it has still to be checked. `None` if there is no such node.
    pub(super) fn within<'a, 'b>(
        &'a self,
        domains: &'b [Domain],
    ) -> Option<(&'a NodeTree, &'b [Domain])> {
        let Some((narrowest, others)) = domains.split_last() else {
            return Some((&self.tree, domains));
        };
        match self.domains.kept(&narrowest.key) {
            Some(kept) => Some((&kept.area(&narrowest.value)?.tree, others)),
            None => Some((&self.tree, domains)),
        }
    }

    /// Returns the first node, from `from` on, that a request without a constraint may use in its
    /// domains.
    pub(super) fn find_within(
        &self,
        request: &NodeRequest<'_>,
        from: Start<'_>,
    ) -> Option<NodeSlot> {
        let (tree, left) = self.within(request.domains)?;
        let may = |room: &Room| self.looks_at(room, request.resources);
        let mut found = match from {
            Start::First => tree.first(may),
            Start::Behind(key) => tree.first_after(key, may),
            Start::Last => tree.last(None, may),
        };
        while let Some((key, slot, _)) = found {
            if self.is_within(*slot, left) && !self.is_passed_over(*slot, request) {
                return Some(*slot);
            }
            found = match from {
                Start::Last => tree.last(Some(key), may),
                Start::First | Start::Behind(_) => tree.first_after(key, may),
            };
        }
        None
    }

    /// Moves a node that gets these attributes to its new domains.
    pub(super) fn move_domains(&mut self, slot: NodeSlot, attributes: &Attributes) {
        let node = &self.nodes[slot];
        self.domains.leave(slot, &node.key);
        self.domains.enter(slot, Some(attributes), node);
    }

    #[cfg(test)]
    pub(super) fn check_domains(&self) {
        for kept in &self.domains.kept {
            let mut found: BTreeMap<&str, (Free, Vec<NodeSlot>)> = BTreeMap::new();
            for slot in self.iter() {
                if let Some(value) = self.attribute(slot, &kept.key) {
                    let (free, nodes) = found.entry(value).or_default();
                    free.add(&self.nodes[slot].room());
                    nodes.push(slot);
                }
            }
            assert_eq!(found.len(), kept.areas.len());
            for (value, (free, nodes)) in found {
                let area = kept.area(value).expect("a domain with nodes is kept");
                area.tree.check();
                let listed = area.tree.iter().map(|(_, slot, _)| *slot);
                assert_eq!(listed.collect::<Vec<_>>(), nodes, "in the order of all nodes");
                assert!(area.free.0.since(&free.0).is_empty(), "{:?}, not {free:?}", area.free);
            }
        }
    }
}

#[cfg(test)]
mod tests;
