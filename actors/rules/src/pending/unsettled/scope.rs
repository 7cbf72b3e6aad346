//! The scope of an answer of the RM's predicate: the facts on which it depends.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::allocations::Elsewhere;

/// The facts on which an answer depends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// All allocations: the answer is void after any later placement or release.
    #[default]
    Topology,
    /// The node and some topics elsewhere: the answer is void after a later placement or release on
    /// the node, one that affects a topic on which the answer depends, or one that may affect all
    /// nodes.
    Elsewhere(Arc<Elsewhere>),
    /// The node: the answer is void after a later placement or release on it.
    Node,
    /// No fact that the scheduler changes.
    Static,
}

impl Scope {
    /// Returns the topics of a placement with this answer; `None` if it may affect all nodes.
    pub fn elsewhere(&self) -> Option<&Arc<Elsewhere>> {
        match self {
            Self::Elsewhere(elsewhere) => Some(elsewhere),
            Self::Topology | Self::Node | Self::Static => None,
        }
    }
}
