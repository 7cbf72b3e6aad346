//! Changes since a question was asked: numbers that show whether its answer is still valid.
//!
//! # Why numbers
//! Everything that is placed or ends is a *change*, and a question remembers how many there had been
//! when it was asked. Of each thing that an answer may depend on (its node, a topic, everything) the
//! number of the last change is kept; a later one makes the answer void. That costs the same however
//! many changes there are.
//!
//! # Topics
//! Rules about other nodes, such as those that keep containers apart or near each other, would make
//! every answer depend on every placement. The facts that they read have names of the RM's own
//! choice, *topics*, which have no meaning here: an answer lists the topics it depends on
//! elsewhere, and those that the placement affects once it is made ([`Elsewhere`]). A change
//! elsewhere makes the answer void if the two have a topic in common, or if it is not known what
//! the change affects.
//!
//! # Invariants
//! * No answer counts that depends on what a later change affects.
//! * The table of topics is bounded. A topic that is not in it counts as changed when the last one
//!   was dropped, so that dropping too much makes answers void and never valid.

use super::scope::Scope;
use crate::allocations::Elsewhere;
use crate::values::hashing::SeededMap;
use crate::values::ids::NodeSlot;

/// The number of topics from which old ones are searched.
const FEW: usize = 1_024;
/// Topics that are kept at most.
const MOST: usize = 65_536;

/// The numbers of the last changes.
#[derive(Debug)]
pub(super) struct Changes {
    count: u64,
    /// The last change of each node, by the index of its slot.
    of_node: Vec<u64>,
    /// The last change of which is not known what it affects.
    of_everything: u64,
    of_topic: SeededMap<u64, u64>,
    /// No topic that is not in the table was changed after this.
    of_other_topics: u64,
    /// The number of topics from which old ones are searched.
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
    /// The number of changes so far.
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

    /// The last change that an answer of this scope about this node depends on.
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

    /// Whether there are topics enough to [drop old ones](Self::drop_until).
    pub(super) fn are_many(&self) -> bool {
        self.of_topic.len() >= self.many
    }

    /// Drops topics that were not changed after this change, which none of the questions that are
    /// open was asked before; and all of them, if that leaves too many.
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
