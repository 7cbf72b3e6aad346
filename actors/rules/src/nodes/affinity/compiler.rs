//! The compiler, which turns a constraint into [`Terms`], the form that searches use.

use std::sync::Arc;

use super::state::Affinity;
use super::terms::{Choice, Condition, Near, Opening, Terms};
use crate::allocations::AllocationTable;
use crate::specs::constraint::{AskConstraint, Constraint, DelayUnit, Simple};

/// Builds the terms of a constraint.
pub(super) struct Compiler<'a> {
    affinity: &'a mut Affinity,
    constraint: &'a Arc<AskConstraint>,
    allocations: &'a AllocationTable,
    /// The index of the next simple constraint among all of the constraint.
    at: usize,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(
        affinity: &'a mut Affinity,
        constraint: &'a Arc<AskConstraint>,
        allocations: &'a AllocationTable,
    ) -> Self {
        Self { affinity, constraint, allocations, at: 0 }
    }

    pub(super) fn terms(mut self) -> Terms {
        let constraint = Arc::clone(self.constraint);
        let mut choices = Vec::new();
        self.choices(constraint.constraint(), Opening::default(), &mut choices);
        Terms { choices, constraint }
    }

    fn choices(&mut self, constraint: &Constraint, opens: Opening, into: &mut Vec<Choice>) {
        match constraint {
            Constraint::Any(children) if !children.is_empty() => {
                for child in children {
                    self.choices(child, opens, into);
                }
            }
            Constraint::InTurn(children) if !children.is_empty() => {
                let mut opens = opens;
                for child in children {
                    self.choices(&child.constraint, opens, into);
                    let delay = u64::try_from(child.delay).unwrap_or(0);
                    let counted = match child.unit {
                        DelayUnit::Milliseconds => &mut opens.milliseconds,
                        DelayUnit::Opportunities => &mut opens.opportunities,
                    };
                    *counted = counted.saturating_add(delay);
                }
            }
            _ => {
                let (mut required, mut preferred) = (Vec::new(), Vec::new());
                self.all(constraint, &mut required, &mut preferred);
                if !preferred.is_empty() {
                    let conditions = required.iter().cloned().chain(preferred).collect();
                    into.push(Choice { opens, conditions });
                }
                into.push(Choice { opens, conditions: required });
            }
        }
    }

    /// Adds the required and the preferred conditions of a constraint to two lists.
    fn all(
        &mut self,
        constraint: &Constraint,
        required: &mut Vec<Condition>,
        preferred: &mut Vec<Condition>,
    ) {
        match constraint {
            Constraint::Simple(simple) => self.simple(simple, required, preferred),
            Constraint::All(children) => {
                for child in children {
                    self.all(child, required, preferred);
                }
            }
            Constraint::Any(children) if !children.is_empty() => {
                let lists = children.iter().map(|child| {
                    let mut list = Vec::new();
                    // The check of the constraint ensures that no condition here is preferred.
                    self.all(child, &mut list, &mut Vec::new());
                    list
                });
                let lists: Vec<_> = lists.collect();
                if lists.iter().all(|list| !list.is_empty()) {
                    required.push(Condition::Any(lists));
                }
            }
            Constraint::Any(_) | Constraint::InTurn(_) => {}
        }
    }

    fn simple(
        &mut self,
        simple: &Simple,
        required: &mut Vec<Condition>,
        preferred: &mut Vec<Condition>,
    ) {
        let at = self.at;
        self.at += 1;
        if !simple.node.is_empty() {
            required.push(Condition::Selector(self.affinity.selector(&simple.node)));
        }
        let Some(near) = simple.near.as_ref().filter(|near| near.counts()) else { return };
        let Affinity { nodes, counters, .. } = &mut *self.affinity;
        let range = counters.range(near, nodes, self.allocations);
        let may_be_first = self.constraint.counts_itself(at);
        let list = if near.required { required } else { preferred };
        list.push(Condition::Near(Near { range, may_be_first }));
    }
}
