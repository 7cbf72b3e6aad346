//! Searches with a placement constraint, and the counts that they read.
//!
//! A search tries the choices of a constraint in order, and for each choice the nodes in order. Few
//! candidates are examined one by one. Among many, parts of the tree without the needed flags are
//! skipped, and conditions without a flag are checked for each remaining node.

use smallvec::SmallVec;

use super::counters::{Count, Counted, Effects, Families, Wakes};
use super::ids::{RangeId, SelectorId};
use super::scopes::Group;
use super::state::Affinity;
use super::terms::{Choice, Condition, Near, Terms, Wish};
use crate::allocations::Allocation;
use crate::nodes::node::Start;
use crate::nodes::room::Room;
use crate::nodes::{NodeIndex, NodeRequest};
use crate::specs::tags::Tags;
use crate::values::ids::{AllocationId, NodeSlot};

/// The most nodes that are examined one by one; for more, the tree is searched.
const FEW: usize = 64;

/// The effect of one condition of a constraint on all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excluding {
    /// The condition, for people.
    pub condition: String,
    /// The number of nodes that it excludes by itself.
    pub excluded: usize,
    /// The number of nodes that it leaves.
    pub left: usize,
}

impl Affinity {
    /// Whether the range admits one more allocation on a node.
    pub(super) fn range_admits(&self, id: RangeId, node: NodeSlot) -> bool {
        let range = self.counters.range_at(id);
        let counter = self.counters.counter(range.counter);
        let group = self.counters.group(counter.scope, node);
        range.admits(counter.groups.get(&group).copied().unwrap_or_default())
    }

    fn is_near(&self, near: Near, node: NodeSlot, wish: &Wish<'_>) -> bool {
        let range = self.counters.range_at(near.range);
        let counter = self.counters.counter(range.counter);
        let group = self.counters.group(counter.scope, node);
        let mut count = counter.groups.get(&group).copied().unwrap_or_default();
        let mut total = counter.total;
        let counts = |it: &&Counted| it.families.contains(&counter.family);
        for gone in wish.gone.iter().filter_map(|id| self.counters.counted(*id)).filter(counts) {
            total = total.minus(gone.count());
            if self.counters.group(counter.scope, gone.node) == group {
                count = count.minus(gone.count());
            }
        }
        if range.min > 1 && near.may_be_first && total.there == 0 {
            return true;
        }
        if range.min > 1
            && let Some(mates) = wish.mates
        {
            let held = self.counters.held_for(mates).filter(|(id, held)| {
                counts(held)
                    && self.counters.group(counter.scope, held.node) == group
                    && !wish.gone.contains(id)
            });
            count.booked += i64::try_from(held.count()).unwrap_or(i64::MAX);
        }
        range.admits(count)
    }

    fn is_as_wished(&self, condition: &Condition, node: NodeSlot, wish: &Wish<'_>) -> bool {
        match condition {
            Condition::Selector(id) => self.admits(*id, node),
            Condition::Near(near) => self.is_near(*near, node, wish),
            Condition::Any(lists) => lists
                .iter()
                .any(|list| list.iter().all(|condition| self.is_as_wished(condition, node, wish))),
        }
    }

    /// Whether the condition could be met on the node with other allocations there and elsewhere.
    fn could_be_as_wished(&self, condition: &Condition, node: NodeSlot) -> bool {
        match condition {
            Condition::Selector(id) => self.admits(*id, node),
            Condition::Near(_) => true,
            Condition::Any(lists) => {
                lists.iter().any(|list| list.iter().all(|it| self.could_be_as_wished(it, node)))
            }
        }
    }

    fn admits_choice(&self, choice: &Choice, node: NodeSlot, wish: &Wish<'_>) -> bool {
        choice.conditions.iter().all(|condition| self.is_as_wished(condition, node, wish))
    }

    /// Whether one of the choices that may be used now admits the node.
    fn admits_wish(&self, wish: &Wish<'_>, node: NodeSlot) -> bool {
        wish.choices().iter().any(|choice| self.admits_choice(choice, node, wish))
    }

    /// Returns the flags that every node has which the choice admits.
    fn flags_needed(&self, choice: &Choice, wish: &Wish<'_>) -> u64 {
        let bit = |condition: &Condition| match condition {
            Condition::Selector(id) => self.selectors[*id].flag.bit(),
            // Flags do not take account of allocations that are supposed to be gone.
            Condition::Near(near) if wish.gone.is_empty() => {
                self.counters.range_at(near.range).flag.bit()
            }
            Condition::Near(_) | Condition::Any(_) => 0,
        };
        choice.conditions.iter().map(bit).fold(0, |flags, bit| flags | bit)
    }

    /// Returns all nodes that a choice may admit, if they are known and few.
    fn few(&self, choice: &Choice, wish: &Wish<'_>) -> Option<Vec<NodeSlot>> {
        choice.conditions.iter().find_map(|condition| match condition {
            Condition::Selector(id) => self.few_selected(*id),
            Condition::Near(near) if wish.gone.is_empty() => self.few_near(*near, wish),
            Condition::Near(_) | Condition::Any(_) => None,
        })
    }

    fn few_selected(&self, id: SelectorId) -> Option<Vec<NodeSlot>> {
        let selector = &self.selectors[id];
        let words = selector.admits.as_ref().filter(|_| selector.admitted <= FEW)?;
        let mut few = Vec::with_capacity(selector.admitted);
        for (at, word) in (0_u32..).zip(words) {
            let mut left = *word;
            while left != 0 {
                few.push(NodeSlot::at(at * 64 + left.trailing_zeros()));
                left &= left - 1;
            }
        }
        Some(few)
    }

    /// Returns the nodes of the groups that have allocations, if the request has to join some of
    /// them and the nodes are few.
    fn few_near(&self, near: Near, wish: &Wish<'_>) -> Option<Vec<NodeSlot>> {
        let range = self.counters.range_at(near.range);
        let counter = self.counters.counter(range.counter);
        let may_be_first = near.may_be_first && counter.total.there == 0;
        if range.min <= 1 || may_be_first || wish.mates.is_some() || counter.groups.len() > FEW {
            return None;
        }
        let meant = counter.groups.iter().filter(|(_, count)| range.admits(**count));
        let groups: SmallVec<[Group; 4]> = meant.map(|(group, _)| *group).collect();
        let size = |group: &Group| self.counters.size(counter.scope, *group);
        if groups.iter().map(size).sum::<usize>() > FEW {
            return None;
        }
        Some(groups.iter().flat_map(|group| self.counters.nodes(counter.scope, *group)).collect())
    }
}

impl NodeRequest<'_> {
    /// Whether a node has capacity, and only the constraint of the request excludes it.
    pub fn is_kept_off(&self, nodes: &NodeIndex) -> bool {
        self.wish.is_some() && nodes.first(&Self { wish: None, ..*self }).is_some()
    }
}

impl NodeIndex {
    /// Whether the request may use the node, whatever its free capacity.
    pub fn admits(&self, slot: NodeSlot, request: &NodeRequest<'_>) -> bool {
        !self.is_passed_over(slot, request)
            && self.is_within(slot, request.domains)
            && request.wish.is_none_or(|wish| self.affinity.admits_wish(&wish, slot))
    }

    /// Whether the request could use the node, with other allocations there and elsewhere.
    pub fn could_admit(&self, slot: NodeSlot, request: &NodeRequest<'_>) -> bool {
        let could = |wish: Wish<'_>| {
            wish.choices().iter().any(|choice| {
                let mut conditions = choice.conditions.iter();
                conditions.all(|condition| self.affinity.could_be_as_wished(condition, slot))
            })
        };
        !self.is_passed_over(slot, request)
            && self.is_within(slot, request.domains)
            && request.wish.is_none_or(could)
    }

    /// Whether the node meets the wish, if the allocations in [`Wish::gone`] are not counted.
    pub fn is_as_wished(&self, slot: NodeSlot, wish: &Wish<'_>) -> bool {
        self.affinity.admits_wish(wish, slot)
    }

    /// Returns the first node in order for a request with a wish, by the first choice that admits a
    /// node.
    pub(in crate::nodes) fn first_wished(
        &self,
        request: &NodeRequest<'_>,
        wish: &Wish<'_>,
    ) -> Option<NodeSlot> {
        let choices = wish.choices().iter();
        choices.clone().find_map(|choice| self.first_of(choice, request, wish, Start::First, &[]))
    }

    /// Returns the last node in order for a request with a wish, by the first choice that admits a
    /// node.
    pub(in crate::nodes) fn last_wished(
        &self,
        request: &NodeRequest<'_>,
        wish: &Wish<'_>,
    ) -> Option<NodeSlot> {
        let choices = wish.choices().iter();
        choices.clone().find_map(|choice| self.first_of(choice, request, wish, Start::Last, &[]))
    }

    /// Returns the node after `after`: first by the choice that admits `after`, then by later
    /// choices. Nodes that an earlier choice admits are left out.
    pub(in crate::nodes) fn next_wished(
        &self,
        after: NodeSlot,
        request: &NodeRequest<'_>,
        wish: &Wish<'_>,
    ) -> Option<NodeSlot> {
        let choices = wish.choices();
        let admits = |choice: &Choice| self.affinity.admits_choice(choice, after, wish);
        let present = choices.iter().position(admits).unwrap_or(choices.len().saturating_sub(1));
        let from = Start::Behind(&self.nodes[after].key);
        let (earlier, choice) = (choices.get(..present)?, choices.get(present)?);
        self.first_of(choice, request, wish, from, earlier).or_else(|| {
            (present + 1..choices.len()).find_map(|at| {
                self.first_of(&choices[at], request, wish, Start::First, &choices[..at])
            })
        })
    }

    fn first_of(
        &self,
        choice: &Choice,
        request: &NodeRequest<'_>,
        wish: &Wish<'_>,
        from: Start<'_>,
        earlier: &[Choice],
    ) -> Option<NodeSlot> {
        let affinity = &self.affinity;
        let (tree, _) = self.within(request.domains)?;
        let admits = |slot: NodeSlot| {
            affinity.admits_choice(choice, slot, wish)
                && self.is_within(slot, request.domains)
                && !self.is_passed_over(slot, request)
                && !earlier.iter().any(|choice| affinity.admits_choice(choice, slot, wish))
        };
        if let Some(few) = affinity.few(choice, wish) {
            let is_one = |slot: &NodeSlot| {
                let node = &self.nodes[*slot];
                let is_behind = match from {
                    Start::Behind(key) => node.key > *key,
                    Start::First | Start::Last => true,
                };
                is_behind && node.holds(request.resources) && admits(*slot)
            };
            let meant = few.into_iter().filter(is_one);
            let key = |slot: &NodeSlot| self.nodes[*slot].key;
            return match from {
                Start::Last => meant.max_by_key(key),
                Start::First | Start::Behind(_) => meant.min_by_key(key),
            };
        }
        let needed = affinity.flags_needed(choice, wish);
        let may = |room: &Room| room.has_flags(needed) && self.looks_at(room, request.resources);
        let mut found = match from {
            Start::First => tree.first(may),
            Start::Behind(key) => tree.first_after(key, may),
            Start::Last => tree.last(None, may),
        };
        while let Some((key, slot, _)) = found {
            if admits(*slot) {
                return Some(*slot);
            }
            found = match from {
                Start::Last => tree.last(Some(key), may),
                Start::First | Start::Behind(_) => tree.first_after(key, may),
            };
        }
        None
    }

    /// Records that a request was rejected: later changes of the counts in its conditions may admit
    /// it.
    pub fn wait_for(&mut self, terms: &Terms) {
        for condition in terms.conditions() {
            if let Condition::Near(near) = condition {
                self.affinity.counters.wait_for(near.range);
            }
        }
    }

    /// Counts an allocation that a node holds; the table has it with that node.
    pub fn count(&mut self, id: AllocationId, entry: &Allocation) {
        if self.affinity.is_used() {
            self.affinity.sweep_if_due();
            let mut effects = Effects::default();
            self.affinity.counters.count(id, entry, &mut effects);
            self.apply(effects, Wakes::Growth);
        }
    }

    /// Stops counting an allocation that a node no longer holds.
    pub fn uncount(&mut self, id: AllocationId, node: NodeSlot) {
        self.uncount_by(id, node, Wakes::Growth);
    }

    /// Stops counting a placement that was never settled and that a node no longer holds.
    pub fn uncount_return(&mut self, id: AllocationId, node: NodeSlot) {
        self.uncount_by(id, node, Wakes::Return);
    }

    fn uncount_by(&mut self, id: AllocationId, node: NodeSlot, wakes: Wakes) {
        if self.affinity.is_used() {
            let mut effects = Effects::default();
            self.affinity.counters.uncount(id, Some(node), &mut effects);
            self.apply(effects, wakes);
        }
    }

    /// Records that the RM was notified of an allocation, which constraints may count.
    pub fn settled(&mut self, id: AllocationId) {
        if self.affinity.is_used() {
            let mut effects = Effects::default();
            self.affinity.counters.settle(id, &mut effects);
            self.apply(effects, Wakes::Growth);
        }
    }

    /// Counts an allocation with these tags on a node, as booked, until it is [taken
    /// back](Self::suppose_no_more); no ask is woken. Returns `None` if no constraint counts it.
    pub(in crate::nodes) fn suppose(
        &mut self,
        slot: NodeSlot,
        tags: Option<&Tags>,
    ) -> Option<Families> {
        if !self.affinity.is_used() {
            return None;
        }
        let families = self.affinity.counters.families_of(tags.map(|tags| &***tags));
        self.shift(slot, &families, Count::ONE_BOOKED);
        (!families.is_empty()).then_some(families)
    }

    /// Returns the families of an allocation with these tags.
    pub(in crate::nodes) fn families_of(&self, tags: Option<&Tags>) -> Families {
        self.affinity.counters.families_of(tags.map(|tags| &***tags))
    }

    /// Ends the count of an allocation that was only supposed.
    pub(in crate::nodes) fn suppose_no_more(&mut self, slot: NodeSlot, families: &Families) {
        self.shift(slot, families, Count::default().minus(Count::ONE_BOOKED));
    }

    fn shift(&mut self, slot: NodeSlot, families: &Families, by: Count) {
        let mut effects = Effects::default();
        self.affinity.counters.shift(slot, families, by, false, &mut effects);
        self.apply(effects, Wakes::Nobody);
    }

    /// Returns the effect of each condition of a wish on all nodes, the condition that excludes
    /// most first. Reads every node.
    pub fn excluding(&self, wish: &Wish<'_>) -> Vec<Excluding> {
        let mut found: Vec<Excluding> = Vec::new();
        let conditions = wish.choices().iter().flat_map(|choice| &choice.conditions);
        for condition in conditions {
            let admits = |slot: &NodeSlot| self.affinity.is_as_wished(condition, *slot, wish);
            let left = self.iter().filter(admits).count();
            let shown = self.shown(condition);
            if !found.iter().any(|known| known.condition == shown) {
                let excluded = self.len() - left;
                found.push(Excluding { condition: shown, excluded, left });
            }
        }
        found.sort_by_key(|it| std::cmp::Reverse(it.excluded));
        found
    }

    fn shown(&self, condition: &Condition) -> String {
        match condition {
            Condition::Selector(id) => {
                let expressions = &self.affinity.selectors[*id].expressions;
                let shown: Vec<_> = expressions.iter().map(ToString::to_string).collect();
                shown.join(" and ")
            }
            Condition::Near(near) => self.affinity.counters.shown(near.range),
            Condition::Any(lists) => {
                let list = |list: &Vec<Condition>| {
                    let shown: Vec<_> = list.iter().map(|it| self.shown(it)).collect();
                    shown.join(" and ")
                };
                let shown: Vec<_> = lists.iter().map(list).collect();
                format!("one of ({})", shown.join("), ("))
            }
        }
    }
}
