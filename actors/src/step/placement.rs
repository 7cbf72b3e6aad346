//! An ask on its way to a node, and the node's answer.
//!
//! The placement is a value of its own, and not a set of fields of the baton, so that it exists
//! exactly while a node is asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::asks::REASONS_MAX;
use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::values::ids::{AllocationId, ApplicationSlot, AskSlot, NodeSlot};

/// An instance of an ask on its way to a node. It is in the allocation table already, and is
/// settled by the code that removes it from there.
pub(crate) struct Placement {
    pub(crate) application: ApplicationSlot,
    pub(crate) ask: AskSlot,
    pub(crate) spec: Arc<AskSpec>,
    /// The node that is asked.
    pub(crate) node: NodeSlot,
    /// The nodes to be asked after `node` in the same question, in order.
    pub(crate) alternatives: Vec<NodeSlot>,
    pub(crate) allocation: AllocationId,
    /// The number of choices of its placement constraint that the ask may use.
    pub(crate) open: usize,
    /// The placeholder whose place it takes, if it takes one.
    pub(crate) takes: Option<Takes>,
    /// The reasons of predicates that refused so far, each with the number of nodes.
    pub(crate) refusals: BTreeMap<String, u32>,
}

impl Placement {
    /// Whether it takes the place of a placeholder on its node. The predicate is then asked without
    /// requiring free capacity.
    pub(crate) fn is_in_place(&self) -> bool {
        self.takes.is_some_and(|takes| takes.in_place)
    }

    /// Notes why the predicate of a node refused it.
    pub(crate) fn note_refusal(&mut self, why: String) {
        if self.refusals.len() < REASONS_MAX || self.refusals.contains_key(&why) {
            *self.refusals.entry(why).or_default() += 1;
        }
    }
}

/// The placeholder whose place a placement takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Takes {
    pub(crate) placeholder: AllocationId,
    /// The placement is on the placeholder's node, and uses the placeholder's capacity there.
    pub(crate) in_place: bool,
    /// The placeholder is a hold, which no RM knows of: it ends as soon as its place is taken.
    pub(crate) hold: bool,
}

/// The answer of a node to a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlaceAnswer {
    /// The node holds the placement: the predicate passed.
    Held,
    /// The node holds the placement and has asked the RM for its predicate by this question.
    Asked(u64),
    /// The node has too little capacity, or is closed. Expected only for an ask that requires the
    /// node: the index offers other asks only nodes with capacity.
    NoRoom,
    /// The RM's predicate refused.
    Refused,
}
