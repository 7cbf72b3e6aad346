//! Flags: marks that tell which parts of the tree of nodes have a node that a condition admits.
//!
//! Each of 64 flags stands for a selector or a range. A node has the flags of the conditions that
//! admit it, and every part of the tree has the joined flags of its nodes: a search skips a part
//! that lacks a needed flag. There may be thousands of conditions, most of which exclude few nodes,
//! and checking a few nodes is cheap. So a flag is assigned to a condition that excludes
//! [`WORTH_IT`] nodes or more. If all flags are in use, it is taken from a condition only by one
//! that excludes four times as many.
//!
//! A flag that gets another meaning is set again on every node. A condition requests a flag when
//! the number of nodes that it excludes has doubled since it last did; by then, searches without
//! the flag have cost more than setting it.
//!
//! When a group of a range becomes full, the flag is removed from all of its nodes, and when it has
//! room again, the flag is set on them. So a range has a flag only if that costs less than the
//! searches that it saves: if its largest group has at most 64 nodes or one in eight. With larger
//! groups, there are so few of them that checking the full ones node by node is cheaper.

use serde::{Deserialize, Serialize};

use super::ids::{RangeId, SelectorId};

/// The number of excluded nodes from which a condition may have a flag.
pub(super) const WORTH_IT: usize = 32;
/// The flag of a condition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Flagged {
    pub(super) flag: Option<u8>,
    /// The number of excluded nodes at which it next requests a flag.
    pub(super) asks_at: usize,
}

impl Default for Flagged {
    fn default() -> Self {
        Self { flag: None, asks_at: WORTH_IT }
    }
}

impl Flagged {
    /// The flag as a bit; 0 if it has none.
    pub(super) fn bit(&self) -> u64 {
        self.flag.map_or(0, |flag| 1 << flag)
    }

    /// Whether it requests a flag, now that it excludes this many nodes.
    pub(super) fn asks(&mut self, excluded: usize) -> bool {
        let asks = self.flag.is_none() && excluded >= self.asks_at;
        if asks {
            self.asks_at = excluded * 2;
        }
        asks
    }
}

/// The condition that has a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Holder {
    Selector(SelectorId),
    Range(RangeId),
}

/// The conditions that have flags, by flag.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Flags {
    pub(super) holders: Vec<Option<Holder>>,
}

impl Flags {
    /// Frees the flag of a condition that was dropped.
    pub(super) fn free(&mut self, flagged: &Flagged) {
        if let Some(flag) = flagged.flag {
            self.holders[usize::from(flag)] = None;
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (u8, Holder)> {
        let numbered = (0..).zip(&self.holders);
        numbered.filter_map(|(flag, holder)| Some((flag, (*holder)?)))
    }
}
