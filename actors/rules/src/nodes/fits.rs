//! Fits: the nodes that a request may use according to facts of the nodes alone: labels, taints, a
//! cordon.
//!
//! # Why beside predicates
//! A predicate is asked only about nodes that have capacity, so its reasons mislead if there are
//! several pools: a pending request would be explained by the empty nodes of another pool, which do
//! not match, and not by the one usable node that lacks a core. Rules that read only the node and
//! the request have the same answer whatever the capacity, and a resource manager in this process
//! may know it beforehand.
//!
//! # Invariant
//! * Only explanations read it; no decision does.

use std::fmt;
use std::sync::Arc;

use crate::values::hashing::SeededMap;

/// The nodes that a request may use according to facts of the nodes alone, as far as they are
/// known.
#[derive(Clone, Debug, Default)]
pub enum Fits {
    /// Unknown: only predicates know, and they are asked only about nodes with capacity.
    #[default]
    Unknown,
    /// Not known yet: the nodes are being counted.
    Counting,
    /// The answer of each node.
    Known(Arc<NodeFits>),
}

impl Fits {
    /// Returns the index of the reason why the node itself refuses the request; `None` if it does
    /// not, or if that is not known.
    pub fn refusal(&self, node: &str) -> Option<u16> {
        match self {
            Self::Known(fits) => fits.refusal(node),
            Self::Unknown | Self::Counting => None,
        }
    }

    /// Whether the answer of each node is known.
    pub fn is_known(&self) -> bool {
        matches!(self, Self::Known(_))
    }

    /// Whether both have the same answers; `true` if neither has any.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Known(fits), Self::Known(other)) => Arc::ptr_eq(fits, other),
            (Self::Known(_), _) | (_, Self::Known(_)) => false,
            _ => true,
        }
    }

    /// Returns the reason at this index.
    pub(super) fn reason(&self, number: u16) -> Option<&Arc<str>> {
        match self {
            Self::Known(fits) => fits.reasons.get(usize::from(number)),
            Self::Unknown | Self::Counting => None,
        }
    }
}

/// The index of each node in lists of refusals, by its id.
pub type NodePlaces = SeededMap<Arc<str>, u32>;

/// The refusals of all nodes for requests of one kind.
#[derive(Clone, Default)]
pub struct NodeFits {
    /// The index of each node in `refusals`. Shared by all kinds of requests.
    places: Arc<NodePlaces>,
    /// For each node 1 + the index of its reason in `reasons`; 0 if the request may use the node.
    refusals: Vec<u16>,
    reasons: Vec<Arc<str>>,
}

impl NodeFits {
    /// Builds the table of refusals. `refusals[places[node]]` is 0 if the request may use the node,
    /// and otherwise 1 + an index into `reasons`. A node that is not in `places` may be used.
    pub fn new(places: Arc<NodePlaces>, refusals: Vec<u16>, reasons: Vec<Arc<str>>) -> Self {
        Self { places, refusals, reasons }
    }

    /// Returns the index of the reason why a node refuses; `None` if it does not.
    fn refusal(&self, node: &str) -> Option<u16> {
        let place = usize::try_from(*self.places.get(node)?).ok()?;
        self.refusals.get(place)?.checked_sub(1)
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for NodeFits {
    /// Builds the table from the nodes that refuse, each with its reason.
    ///
    /// ```
    /// # use monoceros_rules::nodes::{Fits, NodeFits};
    /// let fits = NodeFits::from_iter([("n1", "tainted"), ("n2", "no match"), ("n3", "tainted")]);
    /// let fits = Fits::Known(fits.into());
    /// assert_eq!(fits.refusal("n1"), fits.refusal("n3"));
    /// assert_ne!(fits.refusal("n1"), fits.refusal("n2"));
    /// assert_eq!(fits.refusal("n4"), None);
    /// ```
    fn from_iter<T: IntoIterator<Item = (&'a str, &'a str)>>(refused: T) -> Self {
        let (mut places, mut fits) = (NodePlaces::default(), Self::default());
        for (place, (node, reason)) in (0..).zip(refused) {
            let known = fits.reasons.iter().position(|known| **known == *reason);
            let number = known.unwrap_or_else(|| {
                fits.reasons.push(Arc::from(reason));
                fits.reasons.len() - 1
            });
            places.insert(Arc::from(node), place);
            fits.refusals.push(u16::try_from(number + 1).unwrap_or(0));
        }
        fits.places = Arc::new(places);
        fits
    }
}

impl fmt::Debug for NodeFits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refuse = self.refusals.iter().filter(|refusal| **refusal > 0).count();
        write!(f, "{refuse} of {} nodes refuse: {:?}", self.refusals.len(), self.reasons)
    }
}
