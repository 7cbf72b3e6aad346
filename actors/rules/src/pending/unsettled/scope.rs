//! The scope of an answer of the RM's predicate: what it depends on.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::allocations::Elsewhere;

/// What an answer depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// It depends on everything that runs: void once anything was placed or ended meanwhile.
    #[default]
    Topology,
    /// It depends on the node and on some of what runs elsewhere: void once anything was placed or
    /// ended there meanwhile, or affects what it depends on, or may affect anything.
    Elsewhere(Arc<Elsewhere>),
    /// It depends on the node: void once anything was placed or ended there meanwhile.
    Node,
    /// It depends on nothing that the scheduler changes.
    Static,
}

impl Scope {
    /// What a placement with this answer has to do with other nodes; `None`: it affects everything.
    pub fn elsewhere(&self) -> Option<&Arc<Elsewhere>> {
        match self {
            Self::Elsewhere(elsewhere) => Some(elsewhere),
            Self::Topology | Self::Node | Self::Static => None,
        }
    }
}
