//! Operations that add constraints and attributes of nodes to the index.

use std::sync::Arc;

use super::compiler::Compiler;
use super::counters::{self, COUNTERS_MAX};
use super::terms::{Condition, Terms};
use crate::allocations::AllocationTable;
use crate::nodes::NodeIndex;
use crate::nodes::attributes::Attributes;
use crate::specs::constraint::AskConstraint;
use crate::values::ids::NodeSlot;
use crate::values::texts::Texts;

/// The constraint cannot be learned, since it would need more than [`COUNTERS_MAX`] counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{COUNTERS_MAX} sets of allocations are counted for placement constraints already")]
pub struct TooManyCounters;

impl NodeIndex {
    /// Prepares a constraint for searches. It is kept as long as the returned terms are.
    /// `allocations` are all allocations; they are counted by one pass if the constraint needs a
    /// new counter.
    ///
    /// # Errors
    /// The constraint needs too many new counters.
    pub fn learn(
        &mut self,
        constraint: &Arc<AskConstraint>,
        allocations: &AllocationTable,
    ) -> Result<Arc<Terms>, TooManyCounters> {
        let affinity = &mut self.affinity;
        if let Some(terms) = affinity.terms.get(constraint) {
            return Ok(Arc::clone(terms));
        }
        affinity.sweep_if_due();
        if !affinity.has_room_for(constraint) {
            affinity.sweep();
            if !affinity.has_room_for(constraint) {
                return Err(TooManyCounters);
            }
        }
        let terms = Arc::new(Compiler::new(affinity, constraint, allocations).terms());
        affinity.terms.insert(Arc::clone(constraint), Arc::clone(&terms));
        for condition in terms.conditions() {
            match condition {
                Condition::Selector(id) => self.flag_selector(*id),
                Condition::Near(near) => self.flag_range(near.range),
                Condition::Any(_) => {}
            }
        }
        Ok(terms)
    }

    /// Drops the terms that have no holder, which is otherwise done from time to time.
    #[cfg(test)]
    pub(crate) fn forget_unused_terms(&mut self) {
        self.affinity.sweep();
    }

    /// Returns the terms of a constraint, if they are kept.
    pub fn terms_of(&self, constraint: &AskConstraint) -> Option<&Arc<Terms>> {
        self.affinity.terms.get(constraint)
    }

    /// Sets the attributes of a node. They decide from now on who may use it; allocations on it
    /// stay.
    pub fn set_attributes(&mut self, slot: NodeSlot, attributes: &Attributes) {
        self.move_domains(slot, attributes);
        let affinity = &mut self.affinity;
        let before = affinity.nodes[slot].clone();
        if !affinity.is_used() {
            affinity.nodes[slot] = Some(Arc::clone(attributes));
            return;
        }
        for selector in affinity.selectors.values_mut() {
            selector.leave(slot, before.as_ref());
            selector.enter(slot, Some(attributes));
        }
        affinity.nodes[slot] = Some(Arc::clone(attributes));
        let mut effects = counters::Effects::default();
        affinity.counters.move_node(slot, Some(attributes), &mut effects);
        self.apply(effects, counters::Wakes::Growth);
        self.flag_node(slot);
        self.flag_selectors();
        if self.is_open_to_all(slot) {
            self.log_vacancy(slot);
        }
    }

    /// Adds a node without attributes.
    pub(in crate::nodes) fn enter_affinity(&mut self, slot: NodeSlot) {
        self.affinity.nodes.insert_at(slot, None);
        if self.affinity.is_used() {
            for selector in self.affinity.selectors.values_mut() {
                selector.enter(slot, None);
            }
            self.affinity.counters.enter_node(slot, None);
            self.flag_node(slot);
            self.flag_selectors();
        }
    }

    /// Removes a node, with all allocations on it.
    pub(in crate::nodes) fn leave_affinity(&mut self, slot: NodeSlot) {
        let affinity = &mut self.affinity;
        let attributes = affinity.nodes.remove(slot);
        if affinity.is_used() {
            for selector in affinity.selectors.values_mut() {
                selector.leave(slot, attributes.as_ref());
            }
            let mut effects = counters::Effects::default();
            affinity.counters.leave_node(slot, &mut effects);
            self.apply(effects, counters::Wakes::Growth);
            self.affinity.woken_by_name.retain(|(woken, _)| *woken != slot);
        }
    }

    /// Whether the counts of constraints have woken a node since the woken nodes were last
    /// [taken](Self::take_woken_by_name).
    pub fn has_woken(&self) -> bool {
        !self.affinity.woken_by_name.is_empty()
    }

    /// Returns the nodes on which constraints may admit more since the last call; each with whether
    /// it was woken by the return of the amount of a placement in flight.
    pub fn take_woken_by_name(&mut self) -> Vec<(NodeSlot, bool)> {
        std::mem::take(&mut self.affinity.woken_by_name)
    }

    /// Returns the attributes of a node, if they were set.
    pub(crate) fn attributes(&self, slot: NodeSlot) -> Option<&Texts> {
        self.affinity.nodes.find(slot)?.as_deref()
    }
}
