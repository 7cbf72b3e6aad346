//! Flags: marks on parts of the tree of nodes that have a node which a condition admits.
//!
//! Each of 64 flags stands for a selector or a range. A node has the flags of the conditions that
//! admit it, and every part of the tree has the flags of its nodes, joined: a search skips a part
//! without the flags that it needs. There may be thousands of conditions, of which most exclude a
//! few nodes, and passing over a few is cheap. So a flag is given to a condition that excludes
//! [`WORTH_IT`] nodes or more, and is taken from another only by one that excludes four times as
//! many.
//!
//! A flag that gets another meaning is set on every node, which costs as much as there are nodes. A
//! condition asks for a flag when the number of nodes that it excludes has doubled since it asked
//! last, so that the searches in between would have cost more.
//!
//! A group of a range that becomes full, or has room again, takes the flag from all of its nodes,
//! or gives it to them. So a range has a flag only where that costs less than the searches that it
//! saves: where its largest group is at most 64 nodes or one in eight. With larger ones there are
//! so few groups that passing over the full ones node by node is the cheaper way.

use super::ids::{RangeId, SelectorId};

/// The number of excluded nodes from which a condition may have a flag.
pub(super) const WORTH_IT: usize = 32;
/// The flag of a condition.
#[derive(Debug)]
pub(super) struct Flagged {
    pub(super) flag: Option<u8>,
    /// The number of excluded nodes at which it asks for one next.
    pub(super) asks_at: usize,
}

impl Default for Flagged {
    fn default() -> Self {
        Self { flag: None, asks_at: WORTH_IT }
    }
}

impl Flagged {
    /// The flag as a bit, 0 where there is none.
    pub(super) fn bit(&self) -> u64 {
        self.flag.map_or(0, |flag| 1 << flag)
    }

    /// Whether it asks for a flag, now that this many nodes are excluded.
    pub(super) fn asks(&mut self, excluded: usize) -> bool {
        let asks = self.flag.is_none() && excluded >= self.asks_at;
        if asks {
            self.asks_at = excluded * 2;
        }
        asks
    }
}

/// The holder of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    Selector(SelectorId),
    Range(RangeId),
}

/// The holders of all flags.
#[derive(Debug, Default)]
pub(super) struct Flags {
    pub(super) holders: Vec<Option<Holder>>,
}

impl Flags {
    /// Frees the flag of a holder that was dropped.
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
