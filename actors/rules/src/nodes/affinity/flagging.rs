//! Assigns flags to selectors and ranges, and sets them on nodes.

use super::counters::{Effects, Wakes};
use super::flags::{Flagged, Holder};
use super::ids::{RangeId, SelectorId};
use super::scopes::Group;
use super::selector::Selector;
use super::state::Affinity;
use crate::nodes::NodeIndex;
use crate::values::ids::NodeSlot;

/// The number of flags.
const FLAGS: usize = 64;
/// The most nodes in a group of a range that has a flag, if the partition is small.
const SMALL_GROUP: usize = 64;
/// In a large partition, such a group may have one part in this many of all nodes.
const PART_OF_ALL: usize = 8;

impl Affinity {
    fn flagged(&mut self, holder: Holder) -> &mut Flagged {
        match holder {
            Holder::Selector(id) => &mut self.selectors[id].flag,
            Holder::Range(id) => &mut self.counters.range_mut(id).flag,
        }
    }

    fn excludes(&self, holder: Holder) -> usize {
        match holder {
            Holder::Selector(id) => self.selectors[id].excluded,
            Holder::Range(id) => self.counters.range_at(id).full,
        }
    }

    fn holder_admits(&self, holder: Holder, node: NodeSlot) -> bool {
        match holder {
            Holder::Selector(id) => self.admits(id, node),
            Holder::Range(id) => self.range_admits(id, node),
        }
    }

    /// Takes a flag for a condition that excludes this many nodes, if one is available.
    fn take_flag(&mut self, holder: Holder, excluded: usize) -> Option<u8> {
        let holders = &mut self.flags.holders;
        let free = holders.iter().position(Option::is_none);
        let flag = match free {
            Some(free) => free,
            None if holders.len() < FLAGS => {
                holders.push(None);
                holders.len() - 1
            }
            None => {
                let least = self.flags.all().min_by_key(|(_, other)| self.excludes(*other));
                let (flag, other) = least.filter(|least| self.excludes(least.1) * 4 <= excluded)?;
                self.flagged(other).flag = None;
                usize::from(flag)
            }
        };
        self.flags.holders[flag] = Some(holder);
        let flag = u8::try_from(flag).ok();
        self.flagged(holder).flag = flag;
        flag
    }

    fn flags_of(&self, node: NodeSlot) -> u64 {
        let all = self.flags.all();
        all.filter(|(_, holder)| self.holder_admits(*holder, node))
            .fold(0, |flags, (flag, _)| flags | 1 << flag)
    }
}

impl NodeIndex {
    /// Assigns a flag to a selector if that is worthwhile.
    pub(super) fn flag_selector(&mut self, id: SelectorId) {
        let selector = &mut self.affinity.selectors[id];
        let excluded = selector.excluded;
        if selector.flag.asks(excluded) {
            self.give_flag(Holder::Selector(id), excluded);
        }
    }

    /// Assigns flags to all selectors for which that is worthwhile ([`Self::flag_selector`]),
    /// because the nodes have changed.
    pub(super) fn flag_selectors(&mut self) {
        let asks = |(id, selector): (SelectorId, &mut Selector)| {
            let excluded = selector.excluded;
            selector.flag.asks(excluded).then_some((id, excluded))
        };
        let ids: Vec<SelectorId> = self.affinity.selectors.iter().map(|(id, _)| id).collect();
        for id in ids {
            if let Some((id, excluded)) = asks((id, &mut self.affinity.selectors[id])) {
                self.give_flag(Holder::Selector(id), excluded);
            }
        }
    }

    /// Assigns a flag to a range if that is worthwhile.
    pub(super) fn flag_range(&mut self, id: RangeId) {
        let counters = &mut self.affinity.counters;
        let range = counters.range_mut(id);
        let full = range.full;
        if range.min <= 1 && range.flag.asks(full) {
            let range = counters.range_at(id);
            let counter = counters.counter(range.counter);
            let size = |group: &Group| counters.size(counter.scope, *group);
            let largest = (self.nodes.len() / PART_OF_ALL).max(SMALL_GROUP);
            if counter.groups.keys().map(size).max().unwrap_or(0) <= largest {
                self.give_flag(Holder::Range(id), full);
            }
        }
    }

    fn give_flag(&mut self, holder: Holder, excluded: usize) {
        let Some(flag) = self.affinity.take_flag(holder, excluded) else { return };
        for (slot, node) in self.nodes.iter_mut() {
            let has = u64::from(self.affinity.holder_admits(holder, slot));
            let flags = node.flags & !(1 << flag) | has << flag;
            if flags != node.flags {
                node.flags = flags;
                let known = self.tree.set_bound(&node.key, node.room());
                debug_assert!(known, "every node is in the tree");
                self.domains.follow(slot, &node.key, node);
            }
        }
    }

    /// Sets on a node the flags of the conditions that admit it.
    pub(super) fn flag_node(&mut self, slot: NodeSlot) {
        let flags = self.affinity.flags_of(slot);
        self.set_flags(slot, flags);
    }

    fn set_flags(&mut self, slot: NodeSlot, flags: u64) {
        let node = &mut self.nodes[slot];
        if node.flags != flags {
            node.flags = flags;
            let known = self.tree.set_bound(&node.key, node.room());
            debug_assert!(known, "every node is in the tree");
            self.domains.follow(slot, &node.key, node);
        }
    }

    /// Applies the effects of changed counters to nodes.
    pub(super) fn apply(&mut self, effects: Effects, wakes: Wakes) {
        for (id, group, admits) in effects.flips {
            let counters = &self.affinity.counters;
            let range = counters.range_at(id);
            let bit = range.flag.bit();
            if bit == 0 {
                if !admits && wakes != Wakes::Nobody {
                    self.flag_range(id);
                }
                continue;
            }
            if let Group::Node(slot) = group {
                self.flip(slot, bit, admits);
                continue;
            }
            let scope = counters.counter(range.counter).scope;
            if counters.has(scope, group) {
                let nodes: Vec<NodeSlot> = counters.nodes(scope, group).collect();
                for slot in nodes {
                    self.flip(slot, bit, admits);
                }
            }
        }
        if wakes == Wakes::Nobody {
            return;
        }
        let woken: Vec<NodeSlot> = if effects.wakes_all {
            self.nodes.iter().map(|(slot, _)| slot).collect()
        } else {
            effects.woken.into_vec()
        };
        for slot in woken {
            // An ask that requires the node may use it even if another ask has reserved it.
            self.affinity.woken_by_name.push((slot, wakes == Wakes::Return));
            if wakes == Wakes::Return {
                self.touch_by_return(slot);
            } else if self.is_open_to_all(slot) {
                self.log_vacancy(slot);
            }
        }
    }

    fn flip(&mut self, slot: NodeSlot, bit: u64, admits: bool) {
        let flags = self.nodes[slot].flags;
        self.set_flags(slot, if admits { flags | bit } else { flags & !bit });
    }
}
