//! What a node has room for, and what a search may learn of many nodes at once.
//!
//! # Why kinds
//! The obvious bound of several nodes is the most that any has of each resource. Where each node
//! is full in another resource it promises room for anything, and a search looks at every node in
//! vain: 1 to 3 ms for a hundred thousand. So nodes are told apart by the resource that is scarcest
//! on them, and the maximum is kept for each such *kind*. Then nobody who has cores but no memory
//! lends them to somebody who has memory but no cores; the same search ends at the root.

use smallvec::SmallVec;

use crate::ordered::Bound;
use crate::resources::{Name, Resources};

/// What a node has room for, or the most that nodes of each kind have.
///
/// Kinds ascend, and amounts have no names of zero or below: equal rooms are equal values. A
/// closed node has no kind at all; an open one that is full has its kind, with nothing in it, since
/// it still holds an ask for nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Room(SmallVec<[(Name, Resources); 1]>);

impl Room {
    /// The room of a closed node.
    pub(super) fn closed() -> Self {
        Self::default()
    }

    /// The room of an open node: what fits in its total and in what is available fits in the
    /// smaller of both.
    pub(super) fn open(total: &Resources, available: &Resources) -> Self {
        let mut free = Resources::new();
        let (mut kind, mut least) = (Name::MEMORY, f64::INFINITY);
        for (name, total) in total.entries() {
            let both = available.get(name).min(total);
            if both > 0 {
                free.set(name, both);
            }
            let share = both as f64 / total as f64;
            if share < least {
                (kind, least) = (name, share);
            }
        }
        Self(SmallVec::from_buf([(kind, free)]))
    }

    /// Whether the node, or perhaps one of the nodes, holds the ask.
    pub(super) fn holds(&self, ask: &Resources) -> bool {
        self.0.iter().any(|(_, free)| free.holds(ask))
    }

    fn position(&self, kind: Name) -> Result<usize, usize> {
        self.0.binary_search_by_key(&kind, |room| room.0)
    }

    fn of_kind(&self, kind: Name) -> Option<&Resources> {
        self.position(kind).ok().map(|at| &self.0[at].1)
    }
}

impl Bound for Room {
    fn join(&mut self, other: &Self) {
        for (kind, free) in &other.0 {
            match self.position(*kind) {
                Ok(at) => self.0[at].1.raise_to(free),
                Err(at) => self.0.insert(at, (*kind, free.clone())),
            }
        }
    }

    fn covers(&self, other: &Self) -> bool {
        let mut rooms = other.0.iter();
        rooms.all(|(kind, free)| self.of_kind(*kind).is_some_and(|most| most.holds(free)))
    }

    fn without(&self, gone: &Self, parts: &[Self]) -> Option<Self> {
        let mut left: Option<Self> = None;
        for (kind, free) in &gone.0 {
            let Some(most) = self.of_kind(*kind) else { continue };
            let others = || parts.iter().filter_map(|part| part.of_kind(*kind));
            if others().next().is_none() {
                left.get_or_insert_with(|| self.clone()).0.retain(|room| room.0 != *kind);
                continue;
            }
            for (name, quantity) in free.entries() {
                if quantity < most.get(name) {
                    continue;
                }
                let Some(next) = largest_below(quantity, others().map(|other| other.get(name)))
                else {
                    continue;
                };
                let left = left.get_or_insert_with(|| self.clone());
                let at = left.position(*kind).expect("it has the kinds of what it was copied from");
                left.0[at].1.set(name, next);
                left.0[at].1.prune();
            }
        }
        left
    }
}

/// The largest of these quantities, or zero; none where one of them is not below `limit`.
fn largest_below(limit: i64, quantities: impl Iterator<Item = i64>) -> Option<i64> {
    let mut largest = 0;
    for quantity in quantities {
        if quantity >= limit {
            return None;
        }
        largest = largest.max(quantity);
    }
    Some(largest)
}
