//! How many allocations of some kind there are in each group of nodes.
//!
//! An allocation counts from the moment its node holds it until the node lets it go: as *there* at
//! once, as *booked* when its RM has been told of it. What may be there at most is compared with the
//! one, what there has to be at least with the other: a placement that waits for its predicate, or a
//! place that is held for a member of a gang, must not attract others and is in their way already.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::flags::{Flagged, Flags};
use super::{Attributes, ordered};
use crate::nodes::NodeSlot;
use crate::values::slots::Slots;
use crate::work::allocations::{Allocation, AllocationId, AllocationTable, ApplicationSlot};
use crate::work::constraint::{Expression, Near, Operator};

/// How many counters a partition has at most: pairs of a scope and a set of expressions.
pub const COUNTERS_MAX: usize = 4_096;

/// Scopes that mean the node itself.
const OWN_SCOPES: [&str; 3] = ["", "hostname", "si/hostname"];

crate::slot! {
    /// Allocations whose tags satisfy the same expressions.
    pub(in crate::nodes) struct FamilyId;
}
crate::slot! {
    /// An attribute whose equal values make groups of nodes.
    pub(super) struct ScopeId;
}
crate::slot! {
    /// A value of the attribute of a scope.
    pub(super) struct ValueId;
}
crate::slot! {
    /// A family, counted by the groups of a scope.
    pub(super) struct CounterId;
}
crate::slot! {
    /// How many of a counter there may be in a group.
    pub(super) struct RangeId;
}

/// The families of one allocation; most are of none.
pub(in crate::nodes) type Families = SmallVec<[FamilyId; 2]>;

/// Nodes that are near each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Group {
    /// A node by itself.
    Node(NodeSlot),
    /// Those with a value.
    Value(ValueId),
}

/// How many allocations there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// On nodes.
    pub(super) there: i64,
    /// Of these, those that their RM was told of.
    pub(super) booked: i64,
}

impl Count {
    pub(super) const ONE_THERE: Self = Self { there: 1, booked: 0 };
    pub(super) const ONE_BOOKED: Self = Self { there: 1, booked: 1 };
    const ONE_SETTLED: Self = Self { there: 0, booked: 1 };

    pub(super) fn of(is_booked: bool) -> Self {
        if is_booked { Self::ONE_BOOKED } else { Self::ONE_THERE }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { there: self.there + other.there, booked: self.booked + other.booked }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        self.plus(Self { there: -other.there, booked: -other.booked })
    }
}

#[derive(Debug)]
struct Family {
    expressions: Arc<[Expression]>,
    counters: SmallVec<[CounterId; 1]>,
}

#[derive(Debug)]
struct Scope {
    /// `None`: each node by itself.
    key: Option<Arc<str>>,
    values: Slots<ValueId, Value>,
    value_of: FxHashMap<Arc<str>, ValueId>,
    /// By node that has a value.
    of_node: FxHashMap<NodeSlot, ValueId>,
}

#[derive(Debug)]
struct Value {
    text: Arc<str>,
    nodes: BTreeSet<NodeSlot>,
}

/// How many of a family there are, by group.
#[derive(Debug)]
pub(super) struct Counter {
    pub(super) scope: ScopeId,
    pub(super) family: FamilyId,
    /// Those in which there are some; never iterated where the order matters.
    pub(super) groups: FxHashMap<Group, Count>,
    pub(super) total: Count,
    ranges: SmallVec<[RangeId; 1]>,
}

/// How many of a counter there may be in a group, with the one that comes.
#[derive(Debug)]
pub(super) struct Range {
    pub(super) counter: CounterId,
    pub(super) min: i64,
    /// 0: any number.
    pub(super) max: i64,
    /// Somebody was turned away because of it, and has not been woken since.
    waits: bool,
    /// On how many nodes there are too many.
    pub(super) full: usize,
    pub(super) flag: Flagged,
}

impl Range {
    /// Whether one more may come where there are so many.
    pub(super) fn admits(&self, count: Count) -> bool {
        self.min <= count.booked + 1 && (self.max == 0 || count.there < self.max)
    }
}

/// What is counted of an allocation.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) node: NodeSlot,
    is_booked: bool,
    pub(super) families: Families,
    /// The application for whose member it holds a place, or whose gang it is decided with.
    pub(super) hold_of: Option<ApplicationSlot>,
}

impl Counted {
    pub(super) fn count(&self) -> Count {
        Count::of(self.is_booked)
    }
}

/// What a change of counters means for nodes.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Groups to which one more may come now, or no more.
    pub(super) flips: SmallVec<[(RangeId, Group, bool); 2]>,
    /// Nodes that somebody who waits may use now.
    pub(super) woken: SmallVec<[NodeSlot; 2]>,
    /// All nodes are such.
    pub(super) wakes_all: bool,
}

/// How those who wait are to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wakes {
    /// As by a growth.
    Growth,
    /// As by the return of what a placement in the air held.
    Return,
    /// Not at all: it is only tried what would be.
    Nobody,
}

/// All counters, and what they count.
#[derive(Debug, Default)]
pub(super) struct Counters {
    families: Slots<FamilyId, Family>,
    family_of: FxHashMap<Arc<[Expression]>, FamilyId>,
    scopes: Slots<ScopeId, Scope>,
    scope_of: FxHashMap<Option<Arc<str>>, ScopeId>,
    all: Slots<CounterId, Counter>,
    counter_of: FxHashMap<(ScopeId, FamilyId), CounterId>,
    ranges: Slots<RangeId, Range>,
    range_of: FxHashMap<(CounterId, i64, i64), RangeId>,
    /// The allocations that are of any family.
    counted: FxHashMap<AllocationId, Counted>,
    /// Of these, by application, what is held for its members or decided with its gang.
    held: FxHashMap<ApplicationSlot, BTreeSet<AllocationId>>,
    files: Files,
}

impl Counters {
    pub(super) fn range_at(&self, range: RangeId) -> &Range {
        &self.ranges[range]
    }

    pub(super) fn range_mut(&mut self, range: RangeId) -> &mut Range {
        &mut self.ranges[range]
    }

    pub(super) fn counter(&self, counter: CounterId) -> &Counter {
        &self.all[counter]
    }

    pub(super) fn counted(&self, id: AllocationId) -> Option<&Counted> {
        self.counted.get(&id)
    }

    /// Places that are held for members of this application, and members of it that are decided
    /// together.
    pub(super) fn held_for(
        &self,
        application: ApplicationSlot,
    ) -> impl Iterator<Item = (AllocationId, &Counted)> {
        let held = self.held.get(&application).into_iter().flatten();
        held.filter_map(|id| Some((*id, self.counted.get(id)?)))
    }

    fn note_held(&mut self, id: AllocationId, hold_of: Option<ApplicationSlot>) {
        if let Some(application) = hold_of {
            self.held.entry(application).or_default().insert(id);
        }
    }

    fn forget_held(&mut self, id: AllocationId, hold_of: Option<ApplicationSlot>) {
        let Some(application) = hold_of else { return };
        if let Some(held) = self.held.get_mut(&application) {
            held.remove(&id);
            if held.is_empty() {
                self.held.remove(&application);
            }
        }
    }

    pub(super) fn group(&self, scope: ScopeId, node: NodeSlot) -> Group {
        let value = self.scopes[scope].of_node.get(&node);
        value.map_or(Group::Node(node), |value| Group::Value(*value))
    }

    /// The nodes of a group.
    pub(super) fn nodes(&self, scope: ScopeId, group: Group) -> impl Iterator<Item = NodeSlot> {
        let (one, many) = match group {
            Group::Node(node) => (Some(node), None),
            Group::Value(value) => (None, Some(&self.scopes[scope].values[value].nodes)),
        };
        one.into_iter().chain(many.into_iter().flatten().copied())
    }

    /// Whether there is such a group still.
    pub(super) fn has(&self, scope: ScopeId, group: Group) -> bool {
        match group {
            Group::Node(_) => true,
            Group::Value(value) => self.scopes[scope].values.find(value).is_some(),
        }
    }

    /// How many nodes are in a group.
    pub(super) fn size(&self, scope: ScopeId, group: Group) -> usize {
        match group {
            Group::Node(_) => 1,
            Group::Value(value) => self.scopes[scope].values[value].nodes.len(),
        }
    }

    /// What a range counts, for people.
    pub(super) fn shown(&self, range: RangeId) -> String {
        let range = &self.ranges[range];
        let counter = &self.all[range.counter];
        let expressions = &self.families[counter.family].expressions;
        let family: Vec<String> = expressions.iter().map(ToString::to_string).collect();
        let family = if family.is_empty() { "all".to_owned() } else { family.join(" and ") };
        let scope = self.scopes[counter.scope].key.as_deref().unwrap_or("node");
        match (range.min > 1, range.max > 0) {
            (true, true) => format!("{} to {} of {family} per {scope}", range.min, range.max),
            (true, false) => format!("at least {} of {family} per {scope}", range.min),
            _ => format!("at most {} of {family} per {scope}", range.max),
        }
    }

    /// Whether all of these can be counted, too.
    pub(super) fn has_room_for<'a>(&self, near: impl Iterator<Item = &'a Near>) -> bool {
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

    /// The range of what is near, and all that it needs.
    pub(super) fn range(
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
            let holds = |it: &Expression| it.holds(entry.spec.tags.as_deref());
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

    /// The families of an allocation with these tags.
    pub(super) fn families_of(&self, tags: Option<&BTreeMap<String, String>>) -> Families {
        let holds = |id: &FamilyId| {
            let expressions = &self.families[*id].expressions;
            expressions.iter().all(|expression| expression.holds(tags))
        };
        let mut found = Families::new();
        self.files.look_up(tags, |id| {
            if holds(&id) {
                found.push(id);
            }
        });
        found
    }

    /// A node holds an allocation. One that was on another node is counted here alone.
    pub(super) fn count(&mut self, id: AllocationId, entry: &Allocation, effects: &mut Effects) {
        self.uncount(id, None, effects);
        let families = self.families_of(entry.spec.tags.as_deref());
        if families.is_empty() {
            return;
        }
        let counted = Counted {
            node: entry.node,
            is_booked: is_booked(entry),
            families,
            hold_of: hold_of(entry),
        };
        self.shift(counted.node, &counted.families, counted.count(), true, effects);
        self.note_held(id, counted.hold_of);
        self.counted.insert(id, counted);
    }

    /// An allocation is on no node any more, or not on this one.
    pub(super) fn uncount(
        &mut self,
        id: AllocationId,
        node: Option<NodeSlot>,
        effects: &mut Effects,
    ) {
        let is_there = |it: &Counted| node.is_none_or(|node| it.node == node);
        if !self.counted.get(&id).is_some_and(is_there) {
            return;
        }
        if let Some(gone) = self.counted.remove(&id) {
            self.forget_held(id, gone.hold_of);
            let less = Count::default().minus(gone.count());
            self.shift(gone.node, &gone.families, less, true, effects);
        }
    }

    /// The RM was told of an allocation.
    pub(super) fn settle(&mut self, id: AllocationId, effects: &mut Effects) {
        let Some(counted) = self.counted.get_mut(&id).filter(|counted| !counted.is_booked) else {
            return;
        };
        counted.is_booked = true;
        let hold_of = counted.hold_of.take();
        let (node, families) = (counted.node, counted.families.clone());
        self.forget_held(id, hold_of);
        self.shift(node, &families, Count::ONE_SETTLED, true, effects);
    }

    /// So many more, or fewer, of these families are on a node.
    pub(super) fn shift(
        &mut self,
        node: NodeSlot,
        families: &[FamilyId],
        by: Count,
        may_wake: bool,
        effects: &mut Effects,
    ) {
        for family in families {
            for at in 0..self.families[*family].counters.len() {
                let counter = self.families[*family].counters[at];
                let group = self.group(self.all[counter].scope, node);
                self.bump(counter, group, by, may_wake, effects);
            }
        }
    }

    fn bump(
        &mut self,
        id: CounterId,
        group: Group,
        by: Count,
        may_wake: bool,
        effects: &mut Effects,
    ) {
        let counter = &mut self.all[id];
        let before = counter.groups.get(&group).copied().unwrap_or_default();
        let after = before.plus(by);
        debug_assert!(after.there >= after.booked && after.booked >= 0, "nothing ends twice");
        if after == Count::default() {
            counter.groups.remove(&group);
        } else {
            counter.groups.insert(group, after);
        }
        let had_any = counter.total.there > 0;
        counter.total = counter.total.plus(by);
        let has_none_left = had_any && counter.total.there == 0;
        let (scope, n_ranges) = (counter.scope, counter.ranges.len());
        for at in 0..n_ranges {
            let range_id = self.all[id].ranges[at];
            let size = self.size(scope, group);
            let range = &mut self.ranges[range_id];
            let is_full = |count: Count| range.max > 0 && count.there >= range.max;
            match (is_full(before), is_full(after)) {
                (false, true) => range.full += size,
                (true, false) => range.full = range.full.saturating_sub(size),
                _ => {}
            }
            let (did, does) = (range.admits(before), range.admits(after));
            if did != does {
                effects.flips.push((range_id, group, does));
            }
            if !range.waits || !may_wake {
                continue;
            }
            if range.min > 1 && has_none_left {
                range.waits = false;
                effects.wakes_all = true;
            } else if does && !did {
                range.waits = false;
                let nodes: SmallVec<[NodeSlot; 2]> = self.nodes(scope, group).collect();
                effects.woken.extend(nodes);
            }
        }
    }

    /// Somebody was turned away because of this.
    pub(super) fn wait_for(&mut self, range: RangeId) {
        self.ranges[range].waits = true;
    }

    /// A node is there from now on.
    pub(super) fn enter_node(&mut self, node: NodeSlot, attributes: Option<&Attributes>) {
        for scope in self.scopes.values_mut() {
            scope.enter(node, attributes);
        }
    }

    /// A node has other attributes: what is on it counts elsewhere now.
    pub(super) fn move_node(
        &mut self,
        node: NodeSlot,
        attributes: Option<&Attributes>,
        effects: &mut Effects,
    ) {
        let moving: Vec<ScopeId> = self
            .scopes
            .iter()
            .filter(|(_, scope)| scope.would_move(node, attributes))
            .map(|(id, _)| id)
            .collect();
        if moving.is_empty() {
            return;
        }
        let there = self.families_on(node);
        let counters: Vec<CounterId> = self
            .all
            .iter()
            .filter(|(_, counter)| moving.contains(&counter.scope))
            .map(|(id, _)| id)
            .collect();
        let mut sums: Vec<(CounterId, Group, Count)> = Vec::new();
        for id in counters {
            let counter = &self.all[id];
            let mut sum = Count::default();
            for (families, count) in &there {
                if families.contains(&counter.family) {
                    sum = sum.plus(*count);
                }
            }
            sums.push((id, self.group(counter.scope, node), sum));
        }
        // What was full with this node there is counted without it.
        for (id, group, sum) in &sums {
            self.bump(*id, *group, Count::default().minus(*sum), true, effects);
        }
        for scope in moving {
            self.scopes[scope].leave(node);
            self.scopes[scope].enter(node, attributes);
        }
        for (id, _, sum) in &sums {
            let group = self.group(self.all[*id].scope, node);
            self.bump(*id, group, *sum, true, effects);
        }
        self.recount_full();
    }

    /// A node goes, with everything on it.
    pub(super) fn leave_node(&mut self, node: NodeSlot, effects: &mut Effects) {
        let on_it = self.counted.iter().filter(|(_, counted)| counted.node == node);
        let mut gone: Vec<AllocationId> = on_it.map(|(id, _)| *id).collect();
        gone.sort_unstable();
        for id in gone {
            self.uncount(id, Some(node), effects);
        }
        for scope in self.scopes.values_mut() {
            scope.leave(node);
        }
        effects.woken.retain(|woken| *woken != node);
        effects.flips.retain(|(_, group, _)| *group != Group::Node(node));
        self.recount_full();
    }

    fn families_on(&self, node: NodeSlot) -> Vec<(Families, Count)> {
        let on_it = self.counted.values().filter(|counted| counted.node == node);
        on_it.map(|counted| (counted.families.clone(), counted.count())).collect()
    }

    /// Counts anew on how many nodes there are too many: groups have other nodes now.
    fn recount_full(&mut self) {
        let ids: Vec<RangeId> = self.ranges.iter().map(|(id, _)| id).collect();
        for id in ids {
            let range = &self.ranges[id];
            let counter = &self.all[range.counter];
            let groups = counter.groups.iter();
            let full = groups.filter(|(_, count)| range.max > 0 && count.there >= range.max);
            let full = full.map(|(group, _)| self.size(counter.scope, *group)).sum();
            self.ranges[id].full = full;
        }
    }

    /// Forgets all ranges but these, and what only the others needed.
    pub(super) fn keep(&mut self, ranges: &FxHashSet<RangeId>, flags: &mut Flags) {
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

    /// Every counter with what it has, to be compared with a count of everything.
    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = (Option<&str>, &[Expression], &Counter)> {
        self.all.values().map(|counter| {
            let key = self.scopes[counter.scope].key.as_deref();
            (key, &*self.families[counter.family].expressions, counter)
        })
    }
}

/// The attribute that a scope means; `None`: each node by itself.
fn scope_key(scope: &str) -> Option<Arc<str>> {
    (!OWN_SCOPES.contains(&scope)).then(|| Arc::from(scope))
}

fn is_booked(entry: &Allocation) -> bool {
    entry.is_booked() && !entry.is_hold()
}

fn hold_of(entry: &Allocation) -> Option<ApplicationSlot> {
    (entry.is_hold() || entry.is_in_bundle()).then_some(entry.application)
}

impl Scope {
    fn new(key: Option<Arc<str>>) -> Self {
        let (value_of, of_node) = (FxHashMap::default(), FxHashMap::default());
        Self { key, values: Slots::default(), value_of, of_node }
    }

    fn value<'a>(&self, attributes: Option<&'a Attributes>) -> Option<&'a str> {
        attributes?.get(&**self.key.as_ref()?).map(String::as_str)
    }

    fn would_move(&self, node: NodeSlot, attributes: Option<&Attributes>) -> bool {
        let there = self.of_node.get(&node).map(|value| &*self.values[*value].text);
        there != self.value(attributes)
    }

    fn enter(&mut self, node: NodeSlot, attributes: Option<&Attributes>) {
        let Some(text) = self.value(attributes) else { return };
        let known = self.value_of.get(text).copied();
        let id = known.unwrap_or_else(|| {
            let text: Arc<str> = Arc::from(text);
            let value = Value { text: Arc::clone(&text), nodes: BTreeSet::new() };
            let id = self.values.insert(value);
            self.value_of.insert(text, id);
            id
        });
        self.values[id].nodes.insert(node);
        self.of_node.insert(node, id);
    }

    fn leave(&mut self, node: NodeSlot) {
        let Some(id) = self.of_node.remove(&node) else { return };
        self.values[id].nodes.remove(&node);
        if self.values[id].nodes.is_empty() {
            let gone = self.values.remove(id);
            self.value_of.remove(&gone.text);
        }
    }
}

/// Families by what the tags of their members have: so that one look-up per tag finds them.
#[derive(Debug, Default)]
struct Files {
    by_key: BTreeMap<String, File>,
    /// Those that expect nothing to be there.
    always: Vec<FamilyId>,
}

#[derive(Debug, Default)]
struct File {
    by_value: FxHashMap<String, Vec<FamilyId>>,
    /// Those that take any value.
    any: Vec<FamilyId>,
}

impl Files {
    /// The expression under which a family is filed: one that names values, else one that expects
    /// some value.
    fn expression(expressions: &[Expression]) -> Option<&Expression> {
        let of = |operator| expressions.iter().find(move |it| it.operator == operator);
        of(Operator::In).or_else(|| of(Operator::Exist))
    }

    fn file(&mut self, expressions: &[Expression], family: FamilyId) {
        let Some(expression) = Self::expression(expressions) else {
            return self.always.push(family);
        };
        let file = self.by_key.entry(expression.key.clone()).or_default();
        if expression.operator == Operator::Exist {
            return file.any.push(family);
        }
        for value in &expression.values {
            file.by_value.entry(value.clone()).or_default().push(family);
        }
    }

    fn take_out(&mut self, expressions: &[Expression], family: FamilyId) {
        let Some(expression) = Self::expression(expressions) else {
            return self.always.retain(|other| *other != family);
        };
        let Some(file) = self.by_key.get_mut(&expression.key) else { return };
        file.any.retain(|other| *other != family);
        for value in &expression.values {
            if let Some(families) = file.by_value.get_mut(value) {
                families.retain(|other| *other != family);
                if families.is_empty() {
                    file.by_value.remove(value);
                }
            }
        }
        if file.any.is_empty() && file.by_value.is_empty() {
            self.by_key.remove(&expression.key);
        }
    }

    /// Hands out every family that tags may be of.
    fn look_up(&self, tags: Option<&BTreeMap<String, String>>, mut found: impl FnMut(FamilyId)) {
        self.always.iter().copied().for_each(&mut found);
        let Some(tags) = tags else { return };
        let mut look = |file: &File, value: &String| {
            let named = file.by_value.get(value).into_iter().flatten();
            named.chain(&file.any).copied().for_each(&mut found);
        };
        if self.by_key.len() <= tags.len() {
            for (key, file) in &self.by_key {
                if let Some(value) = tags.get(key) {
                    look(file, value);
                }
            }
        } else {
            for (key, value) in tags {
                if let Some(file) = self.by_key.get(key) {
                    look(file, value);
                }
            }
        }
    }
}
