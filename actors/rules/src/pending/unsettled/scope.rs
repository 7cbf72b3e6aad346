//! The scope of an answer of the RM's predicate: what it depends on.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::allocations::Elsewhere;

/// The scope of an answer: what it depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// Everything that runs: the answer is void once anything was placed or ended meanwhile.
    #[default]
    Topology,
    /// The node and some allocations elsewhere: the answer is void once anything was placed or
    /// ended there meanwhile, or affects what it depends on, or may affect anything.
    Elsewhere(Arc<Elsewhere>),
    /// The node: the answer is void once anything was placed or ended there meanwhile.
    Node,
    /// The answer depends on nothing that the scheduler changes.
    Static,
}

impl Scope {
    /// The relation of a placement with this answer to other nodes; `None`: it affects everything.
    pub fn elsewhere(&self) -> Option<&Arc<Elsewhere>> {
        match self {
            Self::Elsewhere(elsewhere) => Some(elsewhere),
            Self::Topology | Self::Node | Self::Static => None,
        }
    }
}
