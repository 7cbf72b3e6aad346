//! The goal of a search for victims for one member of the preemptor, the solution found on a node,
//! and the bounds by which nodes are tried.

use std::collections::BTreeSet;

use super::rows::Row;
use super::score::Weight;
use crate::values::ids::NodeSlot;

/// The conditions on the place of a member.
#[derive(Clone, Debug)]
pub(super) struct Goal {
    pub(super) member: usize,
    /// The amount of the member.
    pub(super) wanted: Row,
    /// Whether this is the last member: the maxima of queues have to hold all members then.
    pub(super) is_last: bool,
    /// Whether a node without victims may be used.
    pub(super) may_be_empty: bool,
    /// The members that have places already, with their nodes.
    pub(super) mates: Vec<(usize, NodeSlot)>,
}

/// A node, and the victims for the member on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Solution {
    pub(super) node: u32,
    /// The victims, in the order in which each may be taken.
    pub(super) order: Vec<u32>,
    /// Further victims that the RM adds. They do not count against the guarantee of the preemptor.
    pub(super) more: Vec<u32>,
    pub(super) weight: Weight,
    /// Whether the RM was asked and answered that these victims are enough.
    pub(super) is_answered: bool,
}

impl Solution {
    /// Returns the rank by which solutions for different nodes are compared: the weight, then the
    /// lowest index among the victims.
    pub(super) fn rank(&self) -> Rank {
        (self.weight, self.order.iter().copied().min().unwrap_or(0))
    }
}

/// The rank by which solutions for different nodes are compared; smaller is better.
pub(super) type Rank = (Weight, u32);

/// The bounds of all nodes for one size.
#[derive(Debug)]
pub(super) struct Ranking {
    pub(super) wanted: Row,
    pub(super) may_be_empty: bool,
    pub(super) keys: Vec<Option<Rank>>,
    pub(super) order: BTreeSet<(Rank, u32)>,
}

impl Ranking {
    pub(super) fn set(&mut self, node: u32, key: Option<Rank>) {
        let old = std::mem::replace(&mut self.keys[node as usize], key);
        if let Some(old) = old {
            self.order.remove(&(old, node));
        }
        if let Some(key) = key {
            self.order.insert((key, node));
        }
    }
}
