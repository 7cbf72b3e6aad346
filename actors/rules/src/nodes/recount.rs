//! The reference implementation of placement constraints: it reads each constraint as it was sent,
//! and counts all allocations again for every node.

use std::collections::BTreeMap;

use crate::allocations::AllocationTable;
use crate::nodes::{NodeIndex, Wish};
use crate::specs::constraint::{AskConstraint, Constraint, Near, Simple};
use crate::values::ids::NodeSlot;
use crate::values::texts::Texts;

/// Scopes in which each node is a group.
const OWN: [&str; 3] = ["", "hostname", "si/hostname"];

/// An allocation that constraints may count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted<'a> {
    /// The node that it is on.
    pub(crate) node: NodeSlot,
    /// The tags of the allocation.
    pub(crate) tags: Option<&'a Texts>,
    /// Whether its RM was notified of it, or it has to count as if.
    pub(crate) is_booked: bool,
}

/// The facts against which a constraint is checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picture<'a> {
    /// Every node with its attributes.
    pub(crate) nodes: BTreeMap<NodeSlot, Option<&'a Texts>>,
    /// All allocations and placements on nodes.
    pub(crate) counted: Vec<Counted<'a>>,
}

/// An alternative of a constraint, with or without its preferences.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alternative<'a> {
    constraint: &'a Constraint,
    /// The index of its first simple constraint among all of the constraint.
    first: usize,
    prefers: bool,
}

/// Returns all alternatives of a constraint in the order in which they are tried.
pub(crate) fn alternatives(constraint: &Constraint) -> Vec<Alternative<'_>> {
    let mut found = Vec::new();
    collect(constraint, 0, &mut found);
    found
}

fn collect<'a>(constraint: &'a Constraint, mut first: usize, into: &mut Vec<Alternative<'a>>) {
    match constraint {
        Constraint::Any(children) if !children.is_empty() => {
            for child in children {
                collect(child, first, into);
                first += child.simple().len();
            }
        }
        Constraint::InTurn(children) if !children.is_empty() => {
            for child in children {
                collect(&child.constraint, first, into);
                first += child.constraint.simple().len();
            }
        }
        _ => {
            let near = constraint.simple().into_iter().filter_map(|simple| simple.near.as_ref());
            let mut preferred = near.filter(|near| !near.required && near.counts());
            let has_preferred = preferred.next().is_some();
            let one = |prefers| Alternative { constraint, first, prefers };
            into.extend(has_preferred.then(|| one(true)));
            into.push(one(false));
        }
    }
}

/// Whether any of the first `open` alternatives of a constraint admits a node, by these facts.
pub(crate) fn admits(
    ask: &AskConstraint,
    open: usize,
    node: NodeSlot,
    in_it: &Picture<'_>,
) -> bool {
    let usable = alternatives(ask.constraint());
    usable.iter().take(open).any(|alternative| alternative.admits(ask, node, in_it))
}

/// Whether a wish admits a node, by a recount of all allocations.
pub(crate) fn admits_again(
    nodes: &NodeIndex,
    allocations: &AllocationTable,
    wish: &Wish<'_>,
    node: NodeSlot,
) -> bool {
    let nodes = nodes.iter().map(|slot| (slot, nodes.attributes(slot))).collect();
    let mut picture = Picture { nodes, counted: Vec::new() };
    for (id, entry) in allocations.iter() {
        let is_there = entry.held_on_node().is_some() && picture.nodes.contains_key(&entry.node);
        if !is_there || wish.gone.contains(&id) {
            continue;
        }
        let is_together = entry.is_hold() || entry.is_in_bundle();
        let is_mate = is_together && wish.mates == Some(entry.application);
        picture.counted.push(Counted {
            node: entry.node,
            tags: entry.spec.tags.as_deref().map(|tags| &**tags),
            is_booked: is_mate || (entry.is_booked() && !entry.is_hold()),
        });
    }
    admits(wish.terms.constraint(), wish.open, node, &picture)
}

impl Alternative<'_> {
    /// Whether this alternative admits the node.
    pub(crate) fn admits(&self, ask: &AskConstraint, node: NodeSlot, in_it: &Picture<'_>) -> bool {
        let mut at = self.first;
        holds(self.constraint, &mut at, self.prefers, ask, node, in_it)
    }
}

fn holds(
    constraint: &Constraint,
    at: &mut usize,
    prefers: bool,
    ask: &AskConstraint,
    node: NodeSlot,
    picture: &Picture<'_>,
) -> bool {
    let mut each = |children: &[Constraint]| -> Vec<bool> {
        children.iter().map(|child| holds(child, at, prefers, ask, node, picture)).collect()
    };
    match constraint {
        Constraint::All(children) => each(children).into_iter().all(|it| it),
        Constraint::Any(children) => {
            let held = each(children);
            held.is_empty() || held.into_iter().any(|it| it)
        }
        Constraint::InTurn(_) => true,
        Constraint::Simple(Simple { node: expressions, near }) => {
            let counts_itself = ask.counts_itself(*at);
            *at += 1;
            let attributes = picture.nodes.get(&node).copied().flatten();
            let near = near.as_ref().filter(|near| near.required || prefers);
            expressions.iter().all(|it| it.holds(attributes))
                && near.is_none_or(|near| is_near(near, counts_itself, node, picture))
        }
    }
}

fn is_near(near: &Near, counts_itself: bool, node: NodeSlot, picture: &Picture<'_>) -> bool {
    let value = |node: NodeSlot| {
        let attributes = picture.nodes.get(&node).copied().flatten();
        attributes.filter(|_| !OWN.contains(&&*near.scope)).and_then(|it| it.get(&near.scope))
    };
    let is_same_group =
        |other: NodeSlot| other == node || (value(node).is_some() && value(other) == value(node));
    let matching = || picture.counted.iter().filter(|it| near.matches(it.tags));
    let there = matching().filter(|it| is_same_group(it.node)).count();
    let booked = matching().filter(|it| it.is_booked && is_same_group(it.node)).count();
    let limit = |cardinality: i32| usize::try_from(cardinality).unwrap_or(0);
    if near.min > 1 && counts_itself && matching().next().is_none() {
        return true;
    }
    limit(near.min) <= booked + 1 && (near.max <= 0 || there < limit(near.max))
}
