//! The changes since a question was asked, as numbers that show whether its answer is still valid.
//!
//! # Why numbers
//! Every placement and every release is a *change*, and a question remembers how many changes there
//! were when it was asked. For each node, for each topic and for all nodes together, the number of
//! the last change is kept; a later change makes the answer void. That costs the same for any
//! number of changes.
//!
//! # Topics
//! Rules about other nodes, such as those that keep containers apart or near each other, would make
//! every answer depend on every placement. The facts that such rules read have names of the RM's
//! own choice, *topics*, which the scheduler does not interpret. An answer lists the topics on
//! which it depends on other nodes, and those that the placement affects once it is made
//! ([`Elsewhere`]). A change on another node makes the answer void if the two have a topic in
//! common, or if it is unknown what the change affects.
//!
//! # Invariants
//! * No answer counts if it depends on a topic or node that a later change affects.
//! * The table of topics is bounded. A topic that is not in it counts as changed when the last
//!   topic was dropped, so dropping too many topics can make answers void, but never valid.

use serde::{Deserialize, Serialize};

use super::scope::Scope;
use crate::allocations::Elsewhere;
use crate::values::hashing::SeededMap;
use crate::values::ids::NodeSlot;

/// The number of topics from which on old topics are dropped, at first.
const FEW: usize = 1_024;
/// The maximum number of topics that are kept.
const MOST: usize = 65_536;

/// The numbers of the last changes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Changes {
    count: u64,
    /// The number of the last change of each node, by the index of its slot.
    of_node: Vec<u64>,
    /// The number of the last change that may affect all nodes.
    of_everything: u64,
    #[serde(with = "crate::values::pairs")]
    of_topic: SeededMap<u64, u64>,
    /// The number of a change after which no topic outside of the table was changed.
    of_other_topics: u64,
    /// The number of topics from which on old topics are dropped.
    many: usize,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            count: 0,
            of_node: Vec::new(),
            of_everything: 0,
            of_topic: SeededMap::default(),
            of_other_topics: 0,
            many: FEW,
        }
    }
}

impl Changes {
    /// Returns the number of changes.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Records a change on this node. Without topics it affects all other nodes.
    pub(super) fn note(&mut self, node: NodeSlot, elsewhere: Option<&Elsewhere>) {
        self.count += 1;
        if self.of_node.len() <= node.index() {
            self.of_node.resize(node.index() + 1, 0);
        }
        self.of_node[node.index()] = self.count;
        match elsewhere {
            Some(Elsewhere { affects, .. }) => {
                self.of_topic.extend(affects.iter().map(|topic| (*topic, self.count)));
            }
            None => self.of_everything = self.count,
        }
    }

    /// Returns the number of the last change on which an answer of this scope about this node
    /// depends.
    pub(super) fn last(&self, scope: &Scope, node: NodeSlot) -> u64 {
        let of_node = self.of_node.get(node.index()).copied().unwrap_or(0);
        match scope {
            Scope::Topology => self.count,
            Scope::Elsewhere(elsewhere) => {
                let of_topic =
                    |topic| self.of_topic.get(topic).copied().unwrap_or(self.of_other_topics);
                let of_topics = elsewhere.depends_on.iter().map(of_topic).max().unwrap_or(0);
                of_node.max(self.of_everything).max(of_topics)
            }
            Scope::Node => of_node,
            Scope::Static => 0,
        }
    }

    /// Whether there are enough topics to [drop old ones](Self::drop_until).
    pub(super) fn are_many(&self) -> bool {
        self.of_topic.len() >= self.many
    }

    /// Drops topics that were not changed after `change`. No open question was asked before that
    /// change. If too many topics are left, drops all of them.
    pub(super) fn drop_until(&mut self, change: u64) {
        self.of_topic.retain(|_, last| *last > change);
        self.of_other_topics = self.of_other_topics.max(change);
        if self.of_topic.len() >= MOST {
            self.of_topic = SeededMap::default();
            self.of_other_topics = self.count;
        }
        self.many = (self.of_topic.len() * 2).clamp(FEW, MOST);
    }

    #[cfg(test)]
    pub(super) fn n_topics(&self) -> usize {
        self.of_topic.len()
    }
}
