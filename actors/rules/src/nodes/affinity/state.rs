//! The state of the index for all placement constraints in use.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use super::counters::Counters;
use super::flags::Flags;
use super::ids::SelectorId;
use super::selector::{Selector, ordered};
use super::terms::{Condition, Terms};
use crate::nodes::attributes::Attributes;
use crate::specs::constraint::{AskConstraint, Expression};
use crate::values::hashing::SeededMap;
use crate::values::ids::NodeSlot;
use crate::values::slots::Slots;

/// The most selectors that store their nodes; further ones are evaluated for each node.
const SELECTORS_MAX: usize = 4_096;

/// The state of all placement constraints in use.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::nodes) struct Affinity {
    pub(super) nodes: Slots<NodeSlot, Option<Attributes>>,
    #[serde(with = "super::terms::in_index")]
    pub(super) terms: SeededMap<Arc<AskConstraint>, Arc<Terms>>,
    pub(super) selectors: Slots<SelectorId, Selector>,
    #[serde(with = "crate::values::pairs")]
    pub(super) selector_of: SeededMap<Arc<[Expression]>, SelectorId>,
    pub(super) counters: Counters,
    pub(super) flags: Flags,
    /// The nodes on which constraints may admit more now, each with whether a return is the cause:
    /// for asks that wait for a node by its name.
    pub(super) woken_by_name: Vec<(NodeSlot, bool)>,
    /// The number of operations since the last sweep.
    pub(super) done: usize,
}

impl Affinity {
    /// Whether any constraint is in use, or was since the last sweep.
    pub(in crate::nodes) fn is_used(&self) -> bool {
        !self.terms.is_empty()
    }

    /// The attributes of a node.
    pub(in crate::nodes) fn attributes(&self, node: NodeSlot) -> Option<&Attributes> {
        self.nodes.find(node).and_then(Option::as_ref)
    }

    pub(super) fn admits(&self, selector: SelectorId, node: NodeSlot) -> bool {
        let selector = &self.selectors[selector];
        match &selector.admits {
            Some(_) => selector.has(node),
            None => selector.reads(self.attributes(node)),
        }
    }

    pub(super) fn selector(&mut self, expressions: &[Expression]) -> SelectorId {
        let expressions = ordered(expressions);
        if let Some(known) = self.selector_of.get(&expressions) {
            return *known;
        }
        let mut selector =
            Selector::new(Arc::clone(&expressions), self.selectors.len() < SELECTORS_MAX);
        for (slot, attributes) in self.nodes.iter() {
            selector.enter(slot, attributes.as_ref());
        }
        let id = self.selectors.insert(selector);
        self.selector_of.insert(expressions, id);
        id
    }

    /// Drops constraints that are not used any more.
    pub(super) fn sweep(&mut self) {
        self.done = 0;
        let before = self.terms.len();
        self.terms.retain(|_, terms| Arc::strong_count(terms) > 1);
        if self.terms.len() == before {
            return;
        }
        let (mut selectors, mut ranges) = (FxHashSet::default(), FxHashSet::default());
        for condition in self.terms.values().flat_map(|terms| terms.conditions()) {
            match condition {
                Condition::Selector(id) => drop(selectors.insert(*id)),
                Condition::Near(near) => drop(ranges.insert(near.range)),
                Condition::Any(_) => {}
            }
        }
        let gone: Vec<SelectorId> =
            self.selectors.iter().map(|(id, _)| id).filter(|id| !selectors.contains(id)).collect();
        for id in gone {
            let selector = self.selectors.remove(id);
            self.selector_of.remove(&selector.expressions);
            self.flags.free(&selector.flag);
        }
        self.counters.keep(&ranges, &mut self.flags);
    }
}

impl Affinity {
    pub(super) fn has_room_for(&self, constraint: &AskConstraint) -> bool {
        let simple = constraint.constraint().simple();
        let near = simple.into_iter().filter_map(|simple| simple.near.as_ref());
        self.counters.has_room_for(near.filter(|near| near.counts()))
    }

    pub(super) fn sweep_if_due(&mut self) {
        self.done += 1;
        if self.done > 64 + 8 * self.terms.len() {
            self.sweep();
        }
    }
}
