//! Rows of nodes.

use std::ops::Bound;
use std::sync::Arc;

use monoceros_rules::allocations::Allocation;
use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::values::resources::Resources;
use monoceros_rules::values::texts::Texts;

use super::allocations::{AllocationRow, AllocationsProgress};
use super::parts::LOOKS_PER_PART;
use crate::node::{Foreign, Node};
use crate::step::Baton;

/// The progress in reading a node in parts.
#[derive(Clone, Debug)]
pub(crate) enum NodeProgress {
    /// In its allocations.
    Allocations(AllocationsProgress),
    /// After these, in its foreign allocations: up to this key.
    Foreign(Option<Arc<str>>),
}

/// A node.
pub(crate) struct NodeRow {
    pub(crate) id: Arc<str>,
    /// The progress; `None`: it is complete.
    pub(crate) progress: Option<NodeProgress>,
    /// The number of its parts: the cost of reading it.
    pub(crate) parts: usize,
    pub(crate) attributes: Arc<Texts>,
    pub(crate) total: Resources,
    pub(crate) allocated: Resources,
    pub(crate) occupied: Resources,
    pub(crate) available: Resources,
    pub(crate) is_open: bool,
    pub(crate) refusals: u64,
    pub(crate) allocations: Vec<AllocationRow>,
    /// The number of allocations, if these are left out.
    pub(crate) n_allocations: Option<usize>,
    pub(crate) foreign: Vec<(Arc<str>, Foreign)>,
    /// The asks that have reserved it.
    pub(crate) reservations: Vec<Arc<AskSpec>>,
}

impl NodeRow {
    /// Reads at most `most` parts of a node, after `behind`.
    pub(crate) fn part(
        node: &Node,
        behind: Option<&NodeProgress>,
        most: usize,
        baton: &Baton,
    ) -> Self {
        let (mut allocations, mut foreign) = (Vec::new(), Vec::new());
        let mut at = behind.cloned().unwrap_or_else(|| {
            let held = node.holds.iter().copied();
            NodeProgress::Allocations(AllocationsProgress::begin(held))
        });
        let mut parts = 1;
        if let NodeProgress::Allocations(held) = &mut at {
            // A placement that waits for its predicate, or for the end of a placeholder, is no allocation
            // yet, although it counts as used.
            let is_here = |entry: &Allocation| entry.node == node.slot && entry.is_booked();
            let before = held.taken;
            allocations = held.take(most.saturating_sub(parts), is_here, baton);
            parts += held.taken - before;
            if held.is_done() {
                at = NodeProgress::Foreign(None);
            }
        }
        let mut progress = Some(at);
        if let Some(NodeProgress::Foreign(from)) = &mut progress {
            let behind = from.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let mut rest = node.others.foreign.range((behind.cloned(), Bound::Unbounded));
            while parts < most
                && let Some((key, held)) = rest.next()
            {
                foreign.push((Arc::clone(key), held.clone()));
                parts += 1;
            }
            if rest.next().is_some() {
                *from = foreign.last().map(|(key, _)| Arc::clone(key)).or_else(|| from.take());
            } else {
                progress = None;
            }
        }
        let row = Self {
            progress,
            parts,
            allocations,
            n_allocations: None,
            foreign,
            ..Self::brief(node, baton)
        };
        if behind.is_none() { row } else { Self { reservations: Vec::new(), ..row } }
    }

    /// Reads a node without its allocations, but with their number.
    pub(crate) fn brief(node: &Node, baton: &Baton) -> Self {
        let (n_allocations, n_looked_at) = if baton.books.n_unbooked() == 0 {
            (node.holds.len(), 0)
        } else {
            let table = &baton.books.allocations;
            let held = node.holds.iter().filter_map(|id| table.get(*id));
            (held.filter(|entry| entry.is_booked()).count(), node.holds.len())
        };
        let reservations = baton.books.reservations.on_node(node.slot);
        Self {
            id: Arc::clone(&node.id),
            progress: None,
            parts: 1 + n_looked_at / LOOKS_PER_PART,
            n_allocations: Some(n_allocations),
            attributes: Arc::clone(&node.attributes),
            total: (*node.total).clone(),
            allocated: node.allocated.clone(),
            occupied: node.others(),
            available: node.available().clone(),
            is_open: node.is_open(),
            refusals: baton.books.nodes.refusals(node.slot),
            allocations: Vec::new(),
            foreign: Vec::new(),
            reservations: reservations.map(|(_, it)| Arc::clone(&it.spec)).collect(),
        }
    }

    /// Appends the next part of the same node. Returns a row of another node.
    pub(crate) fn append(&mut self, next: Self) -> Option<Self> {
        if self.progress.is_none() || self.id != next.id {
            return Some(next);
        }
        self.progress = next.progress;
        self.allocations.extend(next.allocations);
        self.foreign.extend(next.foreign);
        None
    }
}
