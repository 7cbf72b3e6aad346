//! What a search for victims is to reach for one member of the preemptor, what it found on a node,
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
    /// The last member: queues have to bear all of them now.
    pub(super) is_last: bool,
    /// A node that needs no victims will do.
    pub(super) may_be_empty: bool,
    /// The nodes of members that have places already.
    pub(super) mates: Vec<(usize, NodeSlot)>,
}

/// A node, and what goes for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Solution {
    pub(super) node: u32,
    /// In the order in which each may be taken.
    pub(super) order: Vec<u32>,
    /// Further victims that the RM wants gone. They do not count against the guarantee of the
    /// preemptor.
    pub(super) more: Vec<u32>,
    pub(super) weight: Weight,
    /// The RM was asked, and said that these are enough.
    pub(super) is_answered: bool,
}

impl Solution {
    /// What solutions for different nodes are compared by: the weight, and of equal ones the place
    /// in order of the first that goes.
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
