//! Domains: the nodes with one value of an attribute, for whoever has to stay together. The rules
//! for people are `docs/gangs.md#topology`.
//!
//! # Why in the index
//! A gang that needs one rack asks "which rack can take all of it, and which of those has least to
//! spare?". Put to the nodes, that question costs as much as there are nodes, for each gang. So the
//! index keeps, of each attribute that is asked for, every domain with the sum of what its open
//! nodes have free and with its nodes in their order. A domain whose sum is too small is passed over
//! by one comparison; in one that may do, nodes are found as they are found in the whole partition.
//!
//! # What it costs
//! While nobody asks for domains: one comparison per change of a node. Else one more descent of a
//! small tree per change and attribute that is kept. An attribute is kept from when it is first
//! asked for, by one pass over the nodes, until more nodes have changed than that pass has cost and
//! nobody has asked again; at most [`KEPT_MAX`] are.
//!
//! # Invariants
//! * What is kept says nothing but what the attributes of the nodes say: a search in a domain that
//!   is not kept finds the same node, by looking at more of them.
//! * The sum of a domain is never less than what its open nodes hold together.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::affinity::Start;
use super::attributes::Attributes;
use super::growth::Growths;
use super::room::Room;
use super::{IndexedNode, Key, LOOKED_AT, NodeIndex, NodeRequest};
use crate::order::shares::Share;
use crate::order::tree::OrderedTree;
use crate::values::epoch::Growth;
use crate::values::ids::NodeSlot;
use crate::values::resources::{Resources, Sum};
use crate::values::slots::Slots;

/// Of how many attributes domains are kept at a time.
pub(super) const KEPT_MAX: usize = 32;
/// So many changes of nodes are followed in any case for an attribute that nobody asks for.
const CHANGES_LEAST: usize = 1_024;

/// The nodes with this value of this attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Domain {
    /// The attribute.
    pub key: Arc<str>,
    /// Its value.
    pub value: Arc<str>,
}

impl Domain {
    /// The domain of this value of this attribute.
    pub fn new(key: &str, value: &str) -> Self {
        Self { key: Arc::from(key), value: Arc::from(value) }
    }

    fn is_of(&self, attributes: Option<&Attributes>) -> bool {
        attributes.and_then(|it| it.get(&self.key)).is_some_and(|value| *value == *self.value)
    }
}

impl std::fmt::Display for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.key, self.value)
    }
}

/// What several members want of a domain together.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// The sum.
    pub total: &'a Resources,
    /// Sizes that there are among them: a domain needs a node for each.
    pub sizes: &'a [Resources],
}

crate::slot! {
    /// A domain among those of its attribute.
    struct AreaId;
}

/// Nodes in the order in which they are tried.
type NodeTree = OrderedTree<Key, NodeSlot, Room>;

/// All domains that are kept.
#[derive(Debug, Default)]
pub(super) struct Domains {
    kept: Vec<Kept>,
    /// How often domains were asked for.
    asked: u64,
}

/// The domains of one attribute.
#[derive(Debug)]
struct Kept {
    key: Arc<str>,
    areas: Slots<AreaId, Area>,
    by_value: BTreeMap<Arc<str>, AreaId>,
    /// By node, in which it is.
    of: Vec<Option<AreaId>>,
    /// The number of the last time that it was asked for, and how many nodes changed since.
    asked: u64,
    changes: usize,
}

/// One domain.
#[derive(Debug)]
struct Area {
    value: Arc<str>,
    tree: NodeTree,
    free: Free,
}

/// What open nodes have free together.
#[derive(Debug, Default)]
struct Free(Sum);

impl Free {
    fn add(&mut self, room: &Room) {
        room.kinds().for_each(|free| self.0.add(free));
    }

    fn subtract(&mut self, room: &Room) {
        room.kinds().for_each(|free| self.0.subtract(free));
    }

    /// The largest share of the partition that is left when so much is taken.
    fn left_by(&self, total: &Resources, capacity: &Resources) -> Share {
        let mut most = 0.0_f64;
        for (name, sum) in self.0.entries() {
            let (left, whole) = (sum - i128::from(total.get(name)), capacity.get(name));
            if left > 0 && whole > 0 {
                most = most.max(left as f64 / whole as f64);
            }
        }
        Share::of(most)
    }

    /// For how many of this size there would be places if nodes were one.
    fn places(&self, size: &Resources) -> u64 {
        let wanted = size.entries().filter(|(_, wanted)| *wanted > 0);
        let places = wanted.map(|(name, wanted)| self.0.get(name) / i128::from(wanted));
        places.min().map_or(u64::MAX, |places| u64::try_from(places.max(0)).unwrap_or(u64::MAX))
    }
}

impl Area {
    fn may_take(&self, wanted: &Wanted<'_>) -> bool {
        self.free.0.holds(wanted.total)
            && self.tree.bound().is_some_and(|room| wanted.sizes.iter().all(|it| room.holds(it)))
    }
}

impl Kept {
    fn new(key: &str) -> Self {
        Self {
            key: Arc::from(key),
            areas: Slots::default(),
            by_value: BTreeMap::new(),
            of: Vec::new(),
            asked: 0,
            changes: 0,
        }
    }

    fn area_of(&self, node: NodeSlot) -> Option<AreaId> {
        self.of.get(node.index()).copied().flatten()
    }

    fn area(&self, value: &str) -> Option<&Area> {
        self.by_value.get(value).map(|id| &self.areas[*id])
    }

    fn enter(&mut self, slot: NodeSlot, attributes: Option<&Attributes>, node: &IndexedNode) {
        let Some(value) = attributes.and_then(|attributes| attributes.get(&self.key)) else {
            return;
        };
        let id = if let Some(id) = self.by_value.get(value) {
            *id
        } else {
            let value: Arc<str> = Arc::from(value);
            let (tree, free) = (OrderedTree::new(), Free::default());
            let id = self.areas.insert(Area { value: Arc::clone(&value), tree, free });
            self.by_value.insert(value, id);
            id
        };
        let (area, room) = (&mut self.areas[id], node.room());
        area.free.add(&room);
        area.tree.insert(node.key, slot, room);
        if self.of.len() <= slot.index() {
            self.of.resize(slot.index() + 1, None);
        }
        self.of[slot.index()] = Some(id);
    }

    fn leave(&mut self, slot: NodeSlot, key: &Key) {
        let Some(id) = self.of.get_mut(slot.index()).and_then(Option::take) else { return };
        let area = &mut self.areas[id];
        let (_, room) = area.tree.get(key).expect("a node is in the tree of its domain");
        area.free.subtract(room);
        area.free.0.prune();
        area.tree.remove(key);
        if area.tree.is_empty() {
            let area = self.areas.remove(id);
            self.by_value.remove(&area.value);
        }
    }

    fn follow(&mut self, slot: NodeSlot, old: &Key, node: &IndexedNode) {
        self.changes += 1;
        let Some(id) = self.area_of(slot) else { return };
        let (area, room) = (&mut self.areas[id], node.room());
        let (_, before) = area.tree.get(old).expect("a node is in the tree of its domain");
        area.free.subtract(before);
        area.free.add(&room);
        area.tree.rekey(old, node.key, room);
    }
}

impl Domains {
    fn kept(&self, key: &str) -> Option<&Kept> {
        self.kept.iter().find(|kept| *kept.key == *key)
    }

    /// What a node has free, or its place in the order, is another; this was its place before.
    pub(super) fn follow(&mut self, slot: NodeSlot, old: &Key, node: &IndexedNode) {
        for kept in &mut self.kept {
            kept.follow(slot, old, node);
        }
    }

    /// A node has these attributes from now on.
    pub(super) fn enter(
        &mut self,
        slot: NodeSlot,
        attributes: Option<&Attributes>,
        node: &IndexedNode,
    ) {
        for kept in &mut self.kept {
            kept.enter(slot, attributes, node);
        }
    }

    /// A node goes, or loses its attributes or its place in the order.
    pub(super) fn leave(&mut self, slot: NodeSlot, key: &Key) {
        for kept in &mut self.kept {
            kept.leave(slot, key);
        }
    }
}

/// Domains that may take something, best first.
pub struct ByFit {
    key: Arc<str>,
    /// What would be left, and the place in the order of values.
    heap: BinaryHeap<Reverse<(Share, usize, AreaId)>>,
}

impl ByFit {
    /// The next best.
    pub fn next(&mut self, nodes: &NodeIndex) -> Option<Domain> {
        let Reverse((_, _, id)) = self.heap.pop()?;
        let area = &nodes.domains.kept(&self.key)?.areas[id];
        Some(Domain { key: Arc::clone(&self.key), value: Arc::clone(&area.value) })
    }
}

impl NodeIndex {
    /// Keeps the domains of an attribute from now on, and for as long as somebody asks for them.
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

    /// Forgets domains that nobody has asked for since many nodes changed.
    pub(super) fn forget_domains(&mut self) {
        if !self.domains.kept.is_empty() {
            let most = CHANGES_LEAST.max(8 * self.nodes.len());
            self.domains.kept.retain(|kept| kept.changes <= most);
        }
    }

    /// The domains of an attribute that may take all that is wanted, best fit first: the one with
    /// the least room left, of equal ones the first by value. They have to be
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

    /// The same among the nodes of another domain: of each domain of the attribute only what lies
    /// inside counts.
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

    /// The domain of an attribute with most places for this size if its nodes were one, of equal
    /// ones the first by value.
    pub fn roomiest_domain(&self, key: &str, size: &Resources) -> Option<Domain> {
        let kept = self.domains.kept(key)?;
        let areas = kept.by_value.values().rev().map(|id| &kept.areas[*id]);
        let most = areas.max_by_key(|area| area.free.places(size))?;
        Some(Domain { key: Arc::clone(&kept.key), value: Arc::clone(&most.value) })
    }

    /// For how many requests like this one, one beside the other, each domain of an attribute has
    /// room, `most` at most; by value. It looks at every node.
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

    /// What a node has as value of an attribute.
    pub fn attribute(&self, slot: NodeSlot, key: &str) -> Option<&str> {
        self.affinity.attributes(slot)?.get(key)
    }

    /// Whether the node is in all of these domains.
    pub fn is_within(&self, slot: NodeSlot, domains: &[Domain]) -> bool {
        let attributes = self.affinity.attributes(slot);
        domains.iter().all(|domain| domain.is_of(attributes))
    }

    /// Whether a node that grew after the growth number `mark` lies in a domain of one of these
    /// attributes that may hold all that is wanted of it. `false` is certain.
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

    /// Where the nodes of all of these domains are, and in which of the domains each that is found
    /// there has still to be looked for. None: there is no such node.
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

    /// The first node from there on that a request without a constraint may use in its domains.
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

    /// A node has these attributes from now on.
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
