//! Items of the reorder buffer, and their weights.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::specs::quotas::bytes_of_texts;

use crate::partition::input::NewNode;
use crate::step::{NodeChange, Op};

/// Bytes of an item that weigh as much as another item.
const BYTES_PER_WEIGHT: u64 = 8 << 10;

/// An item that arrived before the application or node that it names.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::partition) enum Item {
    /// An order to an application.
    Op(Arc<str>, Op),
    /// A node with allocations of applications some of which are unknown.
    Node(Box<NewNode>),
    /// A change of a node that waits.
    NodeChange(Arc<str>, NodeChange),
}

/// A node that waits, or a change of it. The node comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum OfNode {
    Itself,
    Change,
}

impl Item {
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Op(_, op) => weight_of_op(op),
            Self::Node(node) => weight_of_node(node),
            Self::NodeChange(_, change) => weight_of_change(change),
        }
    }

    pub(super) fn of_node(&self) -> Option<(&Arc<str>, OfNode)> {
        match self {
            Self::Node(new) => Some((&new.id, OfNode::Itself)),
            Self::NodeChange(node, _) => Some((node, OfNode::Change)),
            Self::Op(..) => None,
        }
    }
}

/// Returns the weight of an order to an application.
pub(in crate::partition) fn weight_of_op(op: &Op) -> usize {
    weight(op.spec().map_or(0, AskSpec::bytes))
}

/// Returns the weight of a node, with all that is on it.
pub(in crate::partition) fn weight_of_node(node: &NewNode) -> usize {
    let existing = node.existing.iter().map(|(_, existing)| existing.spec.bytes());
    weight(bytes_of_texts(&node.attributes) + existing.sum::<u64>())
}

/// Returns the weight of a change of a node.
pub(in crate::partition) fn weight_of_change(change: &NodeChange) -> usize {
    weight(match change {
        NodeChange::Update { attributes, .. } => bytes_of_texts(attributes),
        NodeChange::Foreign(report) => {
            report.tags.iter().map(|tags| bytes_of_texts(tags.iter())).sum()
        }
        _ => 0,
    })
}

/// Returns the weight of an item: one, and one more for each 8 KiB that it takes.
fn weight(bytes: u64) -> usize {
    usize::try_from(1 + bytes / BYTES_PER_WEIGHT).unwrap_or(usize::MAX)
}
