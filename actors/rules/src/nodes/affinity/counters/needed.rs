//! Creates and drops counters. A range, with its counter, scope and family, is created on first use
//! by one pass over nodes and allocations, and dropped with its last user.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::super::flags::{Flagged, Flags};
use super::super::ids::{CounterId, FamilyId, RangeId};
use super::super::scopes::{Scope, ScopeId, scope_key};
use super::super::selector::ordered;
use super::{Count, Counted, Counter, Counters, Family, Range, hold_of, is_booked};
use crate::allocations::AllocationTable;
use crate::nodes::attributes::Attributes;
use crate::specs::constraint::{Expression, Near};
use crate::values::ids::NodeSlot;
use crate::values::slots::Slots;

/// The most counters of a partition. Each is a pair of a scope and a set of expressions.
pub const COUNTERS_MAX: usize = 4_096;

impl Counters {
    /// Whether there is room for the counters of all of these conditions.
    pub(in super::super) fn has_room_for<'a>(&self, near: impl Iterator<Item = &'a Near>) -> bool {
        let mut new = FxHashSet::default();
        for near in near {
            let (scope, family) = (scope_key(&near.scope), ordered(&near.expressions));
            let known = self.scope_of.get(&scope).zip(self.family_of.get(&family));
            let known = known.map(|(scope, family)| (*scope, *family));
            if !known.is_some_and(|key| self.counter_of.contains_key(&key)) {
                new.insert((scope, family));
            }
        }
        self.all.len() + new.len() <= COUNTERS_MAX
    }

    /// Returns the range of a condition on near allocations; creates it and what it needs if
    /// necessary.
    pub(in super::super) fn range(
        &mut self,
        near: &Near,
        nodes: &Slots<NodeSlot, Option<Attributes>>,
        allocations: &AllocationTable,
    ) -> RangeId {
        let scope = self.scope(&near.scope, nodes);
        let family = self.family(&near.expressions, nodes, allocations);
        let counter = match self.counter_of.get(&(scope, family)) {
            Some(known) => *known,
            None => self.new_counter(scope, family),
        };
        let (min, max) = (i64::from(near.min).max(1), i64::from(near.max).max(0));
        if let Some(known) = self.range_of.get(&(counter, min, max)) {
            return *known;
        }
        let mut range =
            Range { counter, min, max, waits: false, full: 0, flag: Flagged::default() };
        let groups = self.all[counter].groups.iter();
        let full = groups.filter(|(_, count)| max > 0 && count.there >= max);
        range.full = full.map(|(group, _)| self.size(scope, *group)).sum();
        let id = self.ranges.insert(range);
        self.range_of.insert((counter, min, max), id);
        self.all[counter].ranges.push(id);
        id
    }

    fn scope(&mut self, key: &str, nodes: &Slots<NodeSlot, Option<Attributes>>) -> ScopeId {
        let key = scope_key(key);
        if let Some(known) = self.scope_of.get(&key) {
            return *known;
        }
        let mut scope = Scope::new(key.clone());
        for (slot, attributes) in nodes.iter() {
            scope.enter(slot, attributes.as_ref());
        }
        let id = self.scopes.insert(scope);
        self.scope_of.insert(key, id);
        id
    }

    fn family(
        &mut self,
        expressions: &[Expression],
        nodes: &Slots<NodeSlot, Option<Attributes>>,
        allocations: &AllocationTable,
    ) -> FamilyId {
        let expressions = ordered(expressions);
        if let Some(known) = self.family_of.get(&expressions) {
            return *known;
        }
        let counters = SmallVec::new();
        let id = self.families.insert(Family { expressions: Arc::clone(&expressions), counters });
        self.files.file(&expressions, id);
        for (allocation, entry) in allocations.iter() {
            let holds = |it: &Expression| it.holds(entry.spec.tags.as_deref().map(|tags| &**tags));
            let is_there = entry.held_on_node().is_some() && nodes.find(entry.node).is_some();
            if is_there && expressions.iter().all(holds) {
                let counted = Counted {
                    node: entry.node,
                    is_booked: is_booked(entry),
                    families: SmallVec::new(),
                    hold_of: hold_of(entry),
                };
                let hold_of = counted.hold_of;
                self.counted.entry(allocation).or_insert(counted).families.push(id);
                self.note_held(allocation, hold_of);
            }
        }
        self.family_of.insert(expressions, id);
        id
    }

    fn new_counter(&mut self, scope: ScopeId, family: FamilyId) -> CounterId {
        let (groups, total) = (FxHashMap::default(), Count::default());
        let mut counter = Counter { scope, family, groups, total, ranges: SmallVec::new() };
        for counted in self.counted.values().filter(|it| it.families.contains(&family)) {
            let count = counter.groups.entry(self.group(scope, counted.node)).or_default();
            *count = count.plus(counted.count());
            counter.total = counter.total.plus(counted.count());
        }
        let id = self.all.insert(counter);
        self.counter_of.insert((scope, family), id);
        self.families[family].counters.push(id);
        id
    }

    /// Drops all ranges except these, and everything that only the dropped ones needed.
    pub(in super::super) fn keep(&mut self, ranges: &FxHashSet<RangeId>, flags: &mut Flags) {
        let gone: Vec<RangeId> =
            self.ranges.iter().map(|(id, _)| id).filter(|id| !ranges.contains(id)).collect();
        for id in gone {
            let range = self.ranges.remove(id);
            flags.free(&range.flag);
            self.range_of.remove(&(range.counter, range.min, range.max));
            let counter = &mut self.all[range.counter];
            counter.ranges.retain(|other| *other != id);
            if counter.ranges.is_empty() {
                self.drop_counter(range.counter);
            }
        }
    }

    fn drop_counter(&mut self, id: CounterId) {
        let Counter { scope, family, .. } = self.all.remove(id);
        self.counter_of.remove(&(scope, family));
        if self.all.values().all(|counter| counter.scope != scope) {
            let gone = self.scopes.remove(scope);
            self.scope_of.remove(&gone.key);
        }
        let counters = &mut self.families[family].counters;
        counters.retain(|other| *other != id);
        if counters.is_empty() {
            let gone = self.families.remove(family);
            self.files.take_out(&gone.expressions, family);
            self.family_of.remove(&gone.expressions);
            let mut uncounted = Vec::new();
            self.counted.retain(|id, counted| {
                counted.families.retain(|other| *other != family);
                if counted.families.is_empty() {
                    uncounted.push((*id, counted.hold_of));
                }
                !counted.families.is_empty()
            });
            for (id, hold_of) in uncounted {
                self.forget_held(id, hold_of);
            }
        }
    }
}
