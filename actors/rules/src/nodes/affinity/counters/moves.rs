//! Moves the counts of a node when it is added or removed, or its attributes change.

use super::super::ids::{CounterId, RangeId};
use super::super::scopes::{Group, ScopeId};
use super::{Count, Counters, Effects, Families};
use crate::nodes::attributes::Attributes;
use crate::values::ids::{AllocationId, NodeSlot};

impl Counters {
    /// Adds a node.
    pub(in super::super) fn enter_node(&mut self, node: NodeSlot, attributes: Option<&Attributes>) {
        for scope in self.scopes.values_mut() {
            scope.enter(node, attributes);
        }
    }

    /// Moves the counts of a node whose attributes changed: its allocations count in other groups
    /// now.
    pub(in super::super) fn move_node(
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
        // First without the node: a group that was full with this node may not be full without it.
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

    /// Removes a node, with all allocations on it.
    pub(in super::super) fn leave_node(&mut self, node: NodeSlot, effects: &mut Effects) {
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

    /// Recounts the nodes in full groups, because the groups have other nodes now.
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
}
