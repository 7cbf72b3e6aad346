//! The request for a node that a search gets.
//!
//! # Why a type
//! A search for a node gets a request and not bare amounts. Whatever else may exclude nodes (a
//! required node, nodes that refused, placement constraints, domains) is one more field here, and
//! no further kind of search.

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

/// A request for a node. Borrowed from the ask and made for each search.
#[derive(Clone, Copy, Debug)]
pub struct NodeRequest<'a> {
    /// The amount that has to be free there, and in total.
    pub resources: &'a Resources,
    /// The only node that may be used, be it open or not.
    pub required: Option<&'a str>,
    /// The node that the ask has reserved. Searches pass it over all the same: the ask tries it by
    /// its slot.
    pub own: Option<NodeSlot>,
    /// Nodes that refused the ask in its present search.
    pub refused: Option<&'a SeededSet<Arc<str>>>,
    /// The slots of nodes that refused it in the search under way.
    pub avoided: Option<&'a FixedBitSet>,
    /// Nodes that the ask may not use for a while.
    pub excluded: &'a [Exclusion],
    /// Nodes that are passed over because a start of the ask failed there.
    pub failed: &'a [Arc<str>],
    /// The condition of its placement constraint.
    pub wish: Option<Wish<'a>>,
    /// The domains that the node has to be in, the narrowest last.
    pub domains: &'a [Domain],
}

impl<'a> NodeRequest<'a> {
    /// A request for this much on any node.
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

    /// Returns the request without the nodes that refused.
    #[must_use]
    pub fn passing_over(self, refused: &'a SeededSet<Arc<str>>) -> Self {
        Self { refused: Some(refused), ..self }
    }

    /// Returns the request without the nodes with these slots.
    #[must_use]
    pub fn avoiding(self, slots: &'a FixedBitSet) -> Self {
        Self { avoided: Some(slots), ..self }
    }

    /// Whether any node with enough room will do.
    pub fn wants_only_room(&self) -> bool {
        self.required.is_none()
            && self.wish.is_none()
            && self.domains.is_empty()
            && self.excluded.is_empty()
            && self.failed.is_empty()
            && self.refused.is_none_or(SeededSet::is_empty)
            && self.avoided.is_none()
    }

    /// Whether the node refused it, or it may not or should not use the node, whatever is free
    /// there. Its constraint is checked by [the index](super::NodeIndex::admits).
    pub fn passes_over(&self, node: &str) -> bool {
        self.is_refused_by(node) || self.is_excluded_from(node) || self.has_failed_on(node)
    }

    /// Whether the node refused it.
    pub fn is_refused_by(&self, node: &str) -> bool {
        self.refused.is_some_and(|refused| refused.contains(node))
    }

    /// Whether a start of it failed there, and it is to use another node.
    pub fn has_failed_on(&self, node: &str) -> bool {
        self.failed.iter().any(|failed| **failed == *node)
    }

    /// Whether its RM refused the node for good.
    pub fn is_excluded_from(&self, node: &str) -> bool {
        self.excluded.iter().any(|excluded| *excluded.node == *node)
    }
}
