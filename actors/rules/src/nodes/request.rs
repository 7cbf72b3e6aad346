//! The request for a node, as a search gets it.
//!
//! # Why a type
//! A search for a node gets a request and not only amounts. Any other condition that may exclude
//! nodes (a required node, nodes that refused, placement constraints, domains) is one more field
//! here, and does not need another kind of search.

use std::sync::Arc;

use fixedbitset::FixedBitSet;
use serde::{Deserialize, Serialize};

use super::affinity::Wish;
use super::domain::Domain;
use crate::values::hashing::SeededSet;
use crate::values::ids::NodeSlot;
use crate::values::resources::Resources;

/// A node that an ask may not use until a deadline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusion {
    /// The node's id.
    pub node: Arc<str>,
    /// End of the exclusion, ns since the epoch.
    pub until_ns: i64,
}

/// A request for a node. It borrows from the ask and is made for each search.
#[derive(Clone, Copy, Debug)]
pub struct NodeRequest<'a> {
    /// The amount that the node has to hold, in its free amount and in its total.
    pub resources: &'a Resources,
    /// The only node that may be used, open or not.
    pub required: Option<&'a str>,
    /// The node that the ask has reserved. Searches pass it over like any reserved node: the ask
    /// tries it by its slot.
    pub own: Option<NodeSlot>,
    /// The nodes for which predicates refused the ask in its present search.
    pub refused: Option<&'a SeededSet<Arc<str>>>,
    /// The slots of nodes that refused it in the search under way.
    pub avoided: Option<&'a FixedBitSet>,
    /// The nodes that the ask may not use for a while.
    pub excluded: &'a [Exclusion],
    /// The nodes that are passed over because a start of the ask failed on them.
    pub failed: &'a [Arc<str>],
    /// The conditions of its placement constraint.
    pub wish: Option<Wish<'a>>,
    /// The domains in which the node has to be, the narrowest last.
    pub domains: &'a [Domain],
}

impl<'a> NodeRequest<'a> {
    /// Builds a request for this amount on any node.
    pub fn of(resources: &'a Resources) -> Self {
        Self {
            resources,
            required: None,
            own: None,
            refused: None,
            avoided: None,
            excluded: &[],
            failed: &[],
            wish: None,
            domains: &[],
        }
    }

    /// Returns the request with these refused nodes, which it passes over.
    #[must_use]
    pub fn passing_over(self, refused: &'a SeededSet<Arc<str>>) -> Self {
        Self { refused: Some(refused), ..self }
    }

    /// Returns the request with these slots, which it passes over.
    #[must_use]
    pub fn avoiding(self, slots: &'a FixedBitSet) -> Self {
        Self { avoided: Some(slots), ..self }
    }

    /// Whether any node with enough room is acceptable.
    pub fn wants_only_room(&self) -> bool {
        self.required.is_none()
            && self.wish.is_none()
            && self.domains.is_empty()
            && self.excluded.is_empty()
            && self.failed.is_empty()
            && self.refused.is_none_or(SeededSet::is_empty)
            && self.avoided.is_none()
    }

    /// Whether the request passes over the node, whatever its free capacity: it was refused, is
    /// excluded, or failed there. The constraint is checked by [the
    /// index](super::NodeIndex::admits).
    pub fn passes_over(&self, node: &str) -> bool {
        self.is_refused_by(node) || self.is_excluded_from(node) || self.has_failed_on(node)
    }

    /// Whether a predicate refused it for the node.
    pub fn is_refused_by(&self, node: &str) -> bool {
        self.refused.is_some_and(|refused| refused.contains(node))
    }

    /// Whether a start of it failed on the node, so that it is to use another.
    pub fn has_failed_on(&self, node: &str) -> bool {
        self.failed.iter().any(|failed| **failed == *node)
    }

    /// Whether its RM refused the node for good.
    pub fn is_excluded_from(&self, node: &str) -> bool {
        self.excluded.iter().any(|excluded| *excluded.node == *node)
    }
}
