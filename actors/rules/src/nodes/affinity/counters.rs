//! Counters of allocations for placement constraints: how many allocations of a *family* (those
//! whose tags satisfy the same expressions) are in each group of nodes.
//!
//! Each counter has two counts. *There* counts an allocation as long as its node holds it. *Booked*
//! counts it only from the moment its RM was notified of it. Maxima are compared with *there*,
//! minima with *booked*: a placement that waits for its predicate, or a place held for a member of
//! a gang, already takes up a maximum, and must not yet satisfy a minimum.
//!
//! `needed` decides what is counted, `moves` follows changes of nodes.

mod moves;
mod needed;

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::files::Files;
use super::flags::Flagged;
use super::ids::{CounterId, FamilyId, RangeId};
use super::scopes::{Group, Scope, ScopeId};
use crate::allocations::Allocation;
use crate::specs::constraint::Expression;
use crate::values::hashing::SeededMap;
use crate::values::ids::{AllocationId, ApplicationSlot, NodeSlot};
use crate::values::slots::Slots;
use crate::values::texts::Texts;
pub use needed::COUNTERS_MAX;

/// The families of one allocation; most allocations are in none.
pub(in crate::nodes) type Families = SmallVec<[FamilyId; 2]>;

/// A number of allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Count {
    /// The allocations that nodes hold.
    pub(super) there: i64,
    /// The allocations among them of which their RM was notified.
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

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Family {
    expressions: Arc<[Expression]>,
    counters: SmallVec<[CounterId; 1]>,
}

/// Counts of a family's allocations, by group of a scope.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Counter {
    pub(super) scope: ScopeId,
    pub(super) family: FamilyId,
    /// The groups that have allocations; never iterated where the order matters.
    #[serde(with = "crate::values::pairs")]
    pub(super) groups: FxHashMap<Group, Count>,
    pub(super) total: Count,
    ranges: SmallVec<[RangeId; 1]>,
}

/// The bounds on a counter in a group, the allocation to be placed included.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Range {
    pub(super) counter: CounterId,
    pub(super) min: i64,
    /// The maximum number of allocations in a group; 0: unlimited.
    pub(super) max: i64,
    /// Whether a request was rejected because of it, and not all nodes have been woken for it
    /// since.
    waits: bool,
    /// The number of nodes in groups that have reached the maximum.
    pub(super) full: usize,
    pub(super) flag: Flagged,
}

impl Range {
    /// Whether one more allocation may be placed in a group with this count.
    pub(super) fn admits(&self, count: Count) -> bool {
        self.min <= count.booked + 1 && (self.max == 0 || count.there < self.max)
    }
}

/// An allocation, as the counters count it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Counted {
    pub(super) node: NodeSlot,
    is_booked: bool,
    pub(super) families: Families,
    /// The application for whose member it holds a place, or with whose gang it is decided.
    pub(super) hold_of: Option<ApplicationSlot>,
}

impl Counted {
    pub(super) fn count(&self) -> Count {
        Count::of(self.is_booked)
    }
}

/// The effects of a change of counters on nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Effects {
    /// Groups that began, or ceased, to admit one more allocation.
    pub(super) flips: SmallVec<[(RangeId, Group, bool); 2]>,
    /// Nodes that a waiting request may be able to use now.
    pub(super) woken: SmallVec<[NodeSlot; 2]>,
    /// Whether all nodes are woken.
    pub(super) wakes_all: bool,
}

/// The way in which a change wakes pending asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wakes {
    /// Like a growth.
    Growth,
    /// Like a return of the amount of a placement in flight.
    Return,
    /// It wakes no ask, since the change is only supposed.
    Nobody,
}

/// All counters, and the allocations that they count.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Counters {
    families: Slots<FamilyId, Family>,
    #[serde(with = "crate::values::pairs")]
    family_of: SeededMap<Arc<[Expression]>, FamilyId>,
    scopes: Slots<ScopeId, Scope>,
    #[serde(with = "crate::values::pairs")]
    scope_of: SeededMap<Option<Arc<str>>, ScopeId>,
    all: Slots<CounterId, Counter>,
    #[serde(with = "crate::values::pairs")]
    counter_of: FxHashMap<(ScopeId, FamilyId), CounterId>,
    ranges: Slots<RangeId, Range>,
    #[serde(with = "crate::values::pairs")]
    range_of: FxHashMap<(CounterId, i64, i64), RangeId>,
    /// The allocations that are in any family.
    #[serde(with = "crate::values::pairs")]
    counted: FxHashMap<AllocationId, Counted>,
    /// The held places and the gang members among them, by application.
    #[serde(with = "crate::values::pairs")]
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

    /// Returns the places that are held for members of this application, and those of its members
    /// that are decided together.
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

    /// Returns the nodes of a group.
    pub(super) fn nodes(&self, scope: ScopeId, group: Group) -> impl Iterator<Item = NodeSlot> {
        let (one, many) = match group {
            Group::Node(node) => (Some(node), None),
            Group::Value(value) => (None, Some(&self.scopes[scope].values[value].nodes)),
        };
        one.into_iter().chain(many.into_iter().flatten().copied())
    }

    /// Whether the group still exists.
    pub(super) fn has(&self, scope: ScopeId, group: Group) -> bool {
        match group {
            Group::Node(_) => true,
            Group::Value(value) => self.scopes[scope].values.find(value).is_some(),
        }
    }

    /// The number of nodes in a group.
    pub(super) fn size(&self, scope: ScopeId, group: Group) -> usize {
        match group {
            Group::Node(_) => 1,
            Group::Value(value) => self.scopes[scope].values[value].nodes.len(),
        }
    }

    /// Words the range, for people.
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

    /// Returns the families of an allocation with these tags.
    pub(super) fn families_of(&self, tags: Option<&Texts>) -> Families {
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

    /// Counts an allocation that a node holds. If it was counted on another node, that count ends.
    pub(super) fn count(&mut self, id: AllocationId, entry: &Allocation, effects: &mut Effects) {
        self.uncount(id, None, effects);
        let families = self.families_of(entry.spec.tags.as_deref().map(|tags| &**tags));
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

    /// Stops counting an allocation. If `node` is given, only if it is counted on that node.
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

    /// Records that the RM was notified of an allocation.
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

    /// Changes the counts of these families on a node.
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
                // The waiting request may not be tried now, so it stays marked and the next group
                // wakes it as well.
                let nodes: SmallVec<[NodeSlot; 2]> = self.nodes(scope, group).collect();
                effects.woken.extend(nodes);
            }
        }
    }

    /// Records that a request was rejected because of this range.
    pub(super) fn wait_for(&mut self, range: RangeId) {
        self.ranges[range].waits = true;
    }

    /// Returns every counter with its counts, to be compared with a recount.
    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = (Option<&str>, &[Expression], &Counter)> {
        self.all.values().map(|counter| {
            let key = self.scopes[counter.scope].key.as_deref();
            (key, &*self.families[counter.family].expressions, counter)
        })
    }
}

fn is_booked(entry: &Allocation) -> bool {
    entry.is_booked() && !entry.is_hold()
}

fn hold_of(entry: &Allocation) -> Option<ApplicationSlot> {
    (entry.is_hold() || entry.is_in_bundle()).then_some(entry.application)
}
