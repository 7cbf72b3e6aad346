//! The index itself: its nodes in their order, and the searches that depend on capacity alone.
//!
//! Further queries are in the files beside this one, each with its data in a field of
//! [`NodeIndex`].

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::affinity::Affinity;
use super::growth::Growths;
use super::kept_domains::Domains;
use super::labels::Labels;
use super::last_growths::LastGrowths;
use super::lent::LentNodes;
use super::node::{IndexedNode, Key, Start};
use super::request::NodeRequest;
use super::room::Room;
use super::score::NodeOrder;
use super::set_aside::SetAside;
use super::share::Share;
use crate::order::tree::OrderedTree;
use crate::values::epoch::Growth;
use crate::values::ids::NodeSlot;
use crate::values::key_index::KeyIndex;
use crate::values::resources::{Limits, Resources, SharedAmounts, Sum};
use crate::values::slots::Slots;

/// A node with this id is already in the index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node `{0}` exists already")]
pub struct NodeExists(pub Arc<str>);

/// The nodes of a partition in the order in which they are tried.
///
/// Functions that take a [`NodeSlot`] panic if it is not, or no longer, the slot of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct NodeIndex {
    pub(super) order: NodeOrder,
    pub(super) nodes: Slots<NodeSlot, IndexedNode>,
    #[serde(skip)] // filled again from the nodes
    pub(super) totals: SharedAmounts,
    pub(super) labels: Labels,
    #[serde(skip)] // built again from the nodes
    pub(super) by_id: KeyIndex<NodeSlot>,
    pub(super) tree: OrderedTree<Key, NodeSlot, Room>,
    /// The nodes whose capacity may be lent; see `lent.rs`.
    pub(super) lent: LentNodes,
    /// The sum of all totals, without names whose sum is zero.
    pub(super) capacity: Sum,
    /// The share that reservations may set aside; see `share.rs`.
    pub(super) share: Share,
    /// The sum of the free amounts of all nodes, closed ones included. A node whose usage exceeds
    /// its capacity counts as having none.
    pub(super) free: Sum,
    /// The number of times that nodes moved in the order.
    pub(super) moves: u64,
    /// The number of growths and returns until now.
    pub(super) grown: Growth,
    pub(super) growths: Growths,
    pub(super) returns: Growths,
    /// The nodes that became available for a reservation and still are; see `reserved.rs`.
    pub(super) vacancies: Growths,
    /// The last growths, each with the node's available amount; see `passed_by.rs`.
    pub(super) last_growths: LastGrowths,
    /// The state of placement constraints.
    pub(super) affinity: Affinity,
    /// The domains of requested attributes.
    pub(super) domains: Domains,
    /// The number of nodes and bounds that searches have examined; see [`Self::looks`].
    pub(super) looks: Cell<u64>,
}

impl NodeIndex {
    /// Builds an index without nodes.
    pub fn new(order: NodeOrder) -> Self {
        Self {
            order,
            nodes: Slots::default(),
            totals: SharedAmounts::default(),
            labels: Labels::default(),
            by_id: KeyIndex::default(),
            tree: OrderedTree::new(),
            lent: LentNodes::default(),
            capacity: Sum::default(),
            share: Share::default(),
            free: Sum::default(),
            moves: 0,
            grown: Growth::NONE,
            growths: Growths::default(),
            returns: Growths::default(),
            vacancies: Growths::default(),
            last_growths: LastGrowths::default(),
            affinity: Affinity::default(),
            domains: Domains::default(),
            looks: Cell::new(0),
        }
    }

    /// Adds a node. An open node counts as a growth.
    pub fn insert(
        &mut self,
        id: Arc<str>,
        total: Resources,
        available: Resources,
        open: bool,
    ) -> Result<NodeSlot, NodeExists> {
        if self.slot_of(&id).is_some() {
            return Err(NodeExists(id));
        }
        let slot = self.nodes.next();
        self.by_id.insert(&id, slot);
        let key = Key { score: 0, label: self.label(&id, slot) };
        self.capacity.add(&total);
        self.capacity.prune();
        self.free.add(&positive(&available));
        let total = self.totals.share(total);
        let aside = SetAside::No;
        self.share.enter(&total, open, aside);
        let (drained, flags, refusals) = (false, 0, 0);
        let mut entry =
            IndexedNode { id, total, available, open, drained, aside, key, flags, refusals };
        entry.rescore(&self.order);
        self.tree.insert(entry.key, slot, entry.room());
        self.nodes.insert_at(slot, entry);
        self.enter_affinity(slot);
        if open {
            self.log_vacancy(slot);
            self.list_growth(slot);
        } else {
            self.grown = self.grown.next();
        }
        Ok(slot)
    }

    /// Removes a node; its slot may be given to the next new one.
    pub fn remove(&mut self, slot: NodeSlot) {
        self.leave_affinity(slot);
        let entry = self.nodes.remove(slot);
        self.domains.leave(slot, &entry.key);
        self.tree.remove(&entry.key).expect("every node is in the tree");
        self.lent.leave(&entry);
        self.labels.remove(&entry.id);
        self.by_id.remove(&entry.id, slot);
        self.capacity.subtract(&entry.total);
        self.capacity.prune();
        self.share.leave(&entry.total, entry.open, entry.aside);
        self.free.subtract(&positive(&entry.available));
        self.free.prune();
        self.growths.forget(slot);
        self.returns.forget(slot);
        self.vacancies.forget(slot);
        self.last_growths.forget(slot);
    }

    /// Sets the available amount of a node, and its total if that changed. On a node that is open
    /// to all, a larger quantity of either counts as a growth. Amounts below zero count as zero in
    /// this comparison. A larger quantity on any other node is counted as well, since it adds to
    /// the free capacity of all nodes together.
    pub fn update(&mut self, slot: NodeSlot, total: Option<&Resources>, available: &Resources) {
        self.forget_domains();
        let extends = total.is_some_and(|total| !self.entry(slot).total.holds(total));
        if !self.change(slot, total, available) {
            return;
        }
        if !self.entry(slot).is_open_to_all() {
            if self.entry(slot).is_lent() {
                self.log_growth(slot);
            } else {
                // It adds to the free capacity of all nodes together.
                self.grown = self.grown.next();
            }
            return;
        }
        if extends {
            self.log_vacancy(slot);
        } else {
            self.log_growth(slot);
        }
        self.list_growth(slot);
    }

    /// Sets the available amount of a node after a placement that was never settled returned its
    /// capacity. A larger amount is a return and no growth.
    pub fn take_back(&mut self, slot: NodeSlot, available: &Resources) {
        if self.change(slot, None, available) {
            self.grown = self.grown.next();
            if self.entry(slot).may_be_found() {
                self.returns.log(slot, self.grown);
            }
        }
    }

    /// Sets the available amount of a node on which an amount was booked that was tentatively
    /// [taken](super::Taken) before. That is no growth, even if more was taken than is booked yet.
    pub fn take_in(&mut self, slot: NodeSlot, available: &Resources) {
        self.forget_domains();
        self.change(slot, None, available);
    }

    /// Changes the amounts of a node. Returns whether any quantity is larger now.
    pub(super) fn change(
        &mut self,
        slot: NodeSlot,
        total: Option<&Resources>,
        available: &Resources,
    ) -> bool {
        let entry = &mut self.nodes[slot];
        let mut grew = !entry.available.holds(available);
        if let Some(total) = total {
            grew |= !entry.total.holds(total);
            self.capacity.subtract(&entry.total);
            self.capacity.add(total);
            self.capacity.prune();
            self.share.leave(&entry.total, entry.open, entry.aside);
            entry.total = self.totals.share(total.clone());
            self.share.enter(&entry.total, entry.open, entry.aside);
        }
        self.free.subtract(&positive(&entry.available));
        self.free.add(&positive(available));
        entry.available.clone_from(available);
        let old = entry.rescore(&self.order);
        self.moves += u64::from(old != entry.key);
        let known = self.tree.rekey(&old, entry.key, entry.room());
        debug_assert!(known, "every node is in the tree");
        self.domains.follow(slot, &old, entry);
        self.lent.rekey(&old, entry);
        grew
    }

    pub(super) fn log_growth(&mut self, slot: NodeSlot) {
        self.grown = self.grown.next();
        self.growths.log(slot, self.grown);
    }

    /// Lists a growth that was just counted, for [`Self::passed_by`].
    pub(super) fn list_growth(&mut self, slot: NodeSlot) {
        self.last_growths.note(self.grown, slot, &self.nodes[slot].available);
    }

    /// Opens a node for searches, or closes it (it drains or is not ready). Opening counts as a
    /// growth.
    pub fn set_open(&mut self, slot: NodeSlot, open: bool) {
        let entry = &mut self.nodes[slot];
        if entry.open == open {
            return;
        }
        self.share.change(&entry.total, (entry.open, entry.aside), (open, entry.aside));
        entry.open = open;
        if self.follow_lending(slot) {
            self.log_growth(slot);
        }
        let entry = &self.nodes[slot];
        let known = self.tree.set_bound(&entry.key, entry.room());
        debug_assert!(known, "every node is in the tree");
        self.domains.follow(slot, &entry.key, entry);
        self.judge_vacancy(slot);
    }

    /// Notes whether a node is closed only because it drains. No decision depends on it.
    pub fn note_drained(&mut self, slot: NodeSlot, drained: bool) {
        self.nodes[slot].drained = drained;
    }

    /// Sorts all nodes in another order.
    pub fn set_order(&mut self, order: NodeOrder) {
        self.moves += 1;
        self.order = order;
        for (slot, entry) in self.nodes.iter_mut() {
            let old = entry.rescore(&self.order);
            let known = self.tree.rekey(&old, entry.key, entry.room());
            debug_assert!(known, "every node is in the tree");
            self.domains.follow(slot, &old, entry);
            self.lent.rekey(&old, entry);
        }
    }

    /// Returns the first node in order that the request may use. A request that requires a node
    /// gets that one, open or not, reserved or not, if it has capacity.
    pub fn first(&self, request: &NodeRequest<'_>) -> Option<NodeSlot> {
        if let Some(node) = request.required {
            return self.required(node, request);
        }
        if let Some(wish) = &request.wish {
            return self.first_wished(request, wish);
        }
        if !request.domains.is_empty() {
            return self.find_within(request, Start::First);
        }
        let first = self.tree.first(|room| self.looks_at(room, request.resources));
        self.pass_over(first.map(|(_, slot, _)| *slot), request)
    }

    /// Returns the next node after `after`, which itself need not fit. `None` for a request that
    /// requires a node.
    pub fn next(&self, after: NodeSlot, request: &NodeRequest<'_>) -> Option<NodeSlot> {
        if request.required.is_some() {
            return None;
        }
        if let Some(wish) = &request.wish {
            return self.next_wished(after, request, wish);
        }
        if !request.domains.is_empty() {
            return self.find_within(request, Start::Behind(&self.entry(after).key));
        }
        self.pass_over(self.next_with_room(after, request), request)
    }

    /// Returns up to `most` nodes that the request may use, in order. The search begins after the
    /// node `after`, which need not fit and may have been removed. If no node after it fits, the
    /// search begins with the first node.
    pub fn several(
        &self,
        request: &NodeRequest<'_>,
        after: Option<&str>,
        most: usize,
    ) -> Vec<NodeSlot> {
        let from = |first: Option<NodeSlot>| {
            let all = std::iter::successors(first, |slot| self.next(*slot, request));
            all.take(most).collect::<Vec<_>>()
        };
        let after = after.and_then(|id| self.slot_of(id));
        let behind = after.map(|slot| from(self.next(slot, request))).unwrap_or_default();
        if behind.is_empty() { from(self.first(request)) } else { behind }
    }

    /// Returns up to `most` nodes that the request may use, in order, beginning with `first`. With
    /// `only_equal`, only nodes with the same score as `first`.
    pub fn from(
        &self,
        first: NodeSlot,
        request: &NodeRequest<'_>,
        only_equal: bool,
        most: usize,
    ) -> Vec<NodeSlot> {
        let score = self.entry(first).key.score;
        let all = std::iter::successors(Some(first), |slot| self.next(*slot, request));
        let is_meant = |slot: &NodeSlot| !only_equal || self.entry(*slot).key.score == score;
        all.take_while(is_meant).take(most).collect()
    }

    /// Whether the request passes over the node, whatever its free capacity.
    pub(super) fn is_passed_over(&self, slot: NodeSlot, request: &NodeRequest<'_>) -> bool {
        request.avoided.is_some_and(|slots| slots.contains(slot.index()))
            || request.passes_over(self.id(slot))
    }

    /// Returns the number of times until now that searches have examined a node, or a bound over
    /// several nodes.
    pub fn looks(&self) -> u64 {
        self.looks.get()
    }

    /// Whether the room holds the amount; counts as a look.
    pub(super) fn looks_at(&self, room: &Room, amount: &Resources) -> bool {
        self.looks.set(self.looks.get().wrapping_add(1));
        room.holds(amount)
    }

    /// Whether the request may use this node now: it would be found if all others were passed over.
    pub fn takes(&self, slot: NodeSlot, request: &NodeRequest<'_>) -> bool {
        let Some(node) = self.nodes.find(slot) else { return false };
        match request.required {
            Some(required) => self.required(required, request) == Some(slot),
            None => node.holds(request.resources) && self.admits(slot, request),
        }
    }

    pub(super) fn required(&self, node: &str, request: &NodeRequest<'_>) -> Option<NodeSlot> {
        let slot = self.slot_of(node)?;
        let has_room = self.entry(slot).has_room(request.resources);
        (has_room && self.admits(slot, request)).then_some(slot)
    }

    pub(super) fn next_with_room(
        &self,
        after: NodeSlot,
        request: &NodeRequest<'_>,
    ) -> Option<NodeSlot> {
        let after = &self.entry(after).key;
        let next = self.tree.first_after(after, |room| self.looks_at(room, request.resources));
        next.map(|(_, slot, _)| *slot)
    }

    /// Returns the first node, from `found` on, that the request does not pass over.
    pub(super) fn pass_over(
        &self,
        mut found: Option<NodeSlot>,
        request: &NodeRequest<'_>,
    ) -> Option<NodeSlot> {
        while let Some(slot) = found.filter(|slot| self.is_passed_over(*slot, request)) {
            found = self.next_with_room(slot, request);
        }
        found
    }

    /// Whether the maximum that open nodes of one kind (see `room.rs`) have of each resource holds
    /// the ask. The maxima may be of different nodes: `true` may be wrong, `false` never is.
    pub fn may_hold(&self, ask: &Resources) -> bool {
        self.tree.bound().is_some_and(|room| room.holds(ask))
    }

    /// Returns the node with this id.
    pub fn slot_of(&self, id: &str) -> Option<NodeSlot> {
        self.by_id.find(id, |slot| Some(&*self.nodes.find(slot)?.id))
    }

    /// The id of a node.
    #[inline]
    pub fn id(&self, slot: NodeSlot) -> &Arc<str> {
        &self.entry(slot).id
    }

    /// The total of a node.
    pub fn total(&self, slot: NodeSlot) -> &Arc<Resources> {
        &self.entry(slot).total
    }

    /// The available amount of a node, as last set; may be negative.
    pub fn available(&self, slot: NodeSlot) -> &Resources {
        &self.entry(slot).available
    }

    /// Whether the node takes new allocations: it neither drains nor is unready. Searches still do
    /// not find it while it is [reserved](Self::is_reserved).
    #[inline]
    pub fn is_open(&self, slot: NodeSlot) -> bool {
        self.entry(slot).open
    }

    /// Returns the number of moves in the order. While it stays the same, no node that was in the
    /// index has moved.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// Returns the position of a node in the order in which nodes are tried; positions compare as
    /// the nodes do.
    pub fn position(&self, slot: NodeSlot) -> impl Ord + Copy + use<> {
        self.entry(slot).key
    }

    /// Returns the score of a node; nodes are tried from the lowest score to the highest.
    pub fn score(&self, slot: NodeSlot) -> f64 {
        let entry = self.entry(slot);
        self.order.score(&entry.total, &entry.available)
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Returns the sum of the totals of all nodes, without names whose sum is zero.
    pub fn capacity(&self) -> &Resources {
        self.capacity.shown()
    }

    /// Returns the free amount of all nodes together, closed and reserved ones included, of each
    /// resource that any of them has. A node whose usage exceeds its capacity counts as zero; its
    /// excess is not subtracted from others. Unlimited if there are no nodes.
    pub fn left(&self) -> Limits {
        let mut left = Resources::new();
        for (name, _) in self.capacity().entries() {
            left.set(name, self.free.shown().get(name));
        }
        left.into()
    }

    /// Whether this amount exceeds the capacity of each node, free or not. `false` if there is no
    /// node, or if too many capacities differ to tell.
    pub fn exceeds_each(&self, wanted: &Resources) -> bool {
        self.share.exceeds_each(wanted)
    }

    /// Whether all nodes together have this amount free, perhaps a little on each.
    pub fn is_free_in_all(&self, wanted: &Resources) -> bool {
        self.free.holds(wanted)
    }

    /// Returns all nodes in the order in which they are tried, closed ones included.
    pub fn iter(&self) -> impl Iterator<Item = NodeSlot> {
        self.tree.iter().map(|(_, slot, _)| *slot)
    }

    /// Returns all nodes in order of their ids.
    pub fn by_id(&self) -> impl Iterator<Item = NodeSlot> {
        self.labels.slots()
    }

    /// Returns the nodes after this id, which need not exist, in order of their ids. Nodes before
    /// it are not read.
    pub fn behind(&self, id: &str) -> impl Iterator<Item = NodeSlot> {
        self.labels.slots_behind(id)
    }

    /// Assigns a label to a new id, and moves the nodes whose labels had to change for it.
    pub(super) fn label(&mut self, id: &Arc<str>, slot: NodeSlot) -> u64 {
        let inserted = self.labels.insert(Arc::clone(id), slot);
        // All are removed before the first is inserted again: a node may get the label that another
        // one still has.
        for (moved, _) in &inserted.moved {
            let key = self.entry(*moved).key;
            let known = self.tree.remove(&key);
            debug_assert!(known.is_some(), "every node is in the tree");
            self.domains.leave(*moved, &key);
            self.lent.leave(&self.nodes[*moved]);
        }
        self.moves += u64::from(!inserted.moved.is_empty());
        for &(moved, label) in &inserted.moved {
            let entry = &mut self.nodes[moved];
            entry.key.label = label;
            self.tree.insert(entry.key, moved, entry.room());
            self.domains.enter(moved, self.affinity.attributes(moved), entry);
            self.lent.enter(moved, entry);
        }
        inserted.label
    }

    #[inline]
    pub(super) fn entry(&self, slot: NodeSlot) -> &IndexedNode {
        &self.nodes[slot]
    }

    /// Panics unless every invariant of the module holds.
    #[cfg(test)]
    pub(super) fn check(&self) {
        self.tree.check();
        self.check_domains();
        self.check_lent();
        assert_eq!(self.tree.len(), self.by_id().count());
        for (key, slot, room) in self.tree.iter() {
            let entry = self.entry(*slot);
            assert_eq!((*key, room), (entry.key, &entry.room()));
            assert_eq!(self.slot_of(&entry.id), Some(*slot));
        }
    }
}

impl Serialize for NodeIndex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for NodeIndex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut index = Self::deserialize(deserializer)?;
        for (slot, node) in index.nodes.iter_mut() {
            index.by_id.insert(&node.id, slot);
            node.total = index.totals.share(Resources::clone(&node.total));
        }
        Ok(index)
    }
}

/// Returns the quantities of an amount that are above zero.
fn positive(amount: &Resources) -> Cow<'_, Resources> {
    if !amount.has_negative() {
        return Cow::Borrowed(amount);
    }
    let mut positive = Resources::new();
    for (name, quantity) in amount.entries().filter(|(_, quantity)| *quantity > 0) {
        positive.push(name, quantity);
    }
    Cow::Owned(positive)
}
