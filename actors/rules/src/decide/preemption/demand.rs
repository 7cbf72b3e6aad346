//! The preemptor, and the conditions on a node besides capacity.

use crate::values::ids::{AllocationId, ApplicationSlot, NodeSlot};
use crate::values::resources::Resources;

/// A preemptor: an ask, or a gang as a whole.
#[derive(Clone, Debug)]
pub struct Demand {
    /// The application of the preemptor.
    pub application: ApplicationSlot,
    /// The index of its leaf among the surveyed queues.
    pub queue: usize,
    /// The priority of the ask. Of a gang, the lowest priority of its members.
    pub priority: i32,
    /// The demand: one amount, or one for each member of a gang.
    pub members: Vec<Resources>,
    /// Whether the preemptor is a gang: all members are placed or none, and all must fit the rest
    /// of the guarantee.
    pub is_gang: bool,
    /// Whether all nodes with capacity were tried without result. Then only nodes with a victim are
    /// left.
    pub nodes_were_tried: bool,
}

impl Demand {
    /// A preemptor for one instance of an ask.
    pub fn ask(
        application: ApplicationSlot,
        queue: usize,
        priority: i32,
        amount: Resources,
    ) -> Self {
        Self {
            application,
            queue,
            priority,
            members: vec![amount],
            is_gang: false,
            nodes_were_tried: false,
        }
    }

    /// A preemptor for a gang with these members, in the order of the caller.
    pub fn gang(
        application: ApplicationSlot,
        queue: usize,
        priority: i32,
        members: Vec<Resources>,
    ) -> Self {
        Self { members, is_gang: true, ..Self::ask(application, queue, priority, Resources::new()) }
    }
}

/// A node that is tried for a member, as if some allocations were evicted.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// The index of the member among the members of the preemptor.
    pub member: usize,
    /// The node.
    pub node: NodeSlot,
    /// The allocations that would be evicted, on any node.
    pub gone: &'a [AllocationId],
    /// The members that have places already, with their nodes.
    pub mates: &'a [(usize, NodeSlot)],
}

/// The conditions on a node besides capacity: placement constraints and topology.
pub trait Judge {
    /// Whether the node fulfils the conditions.
    fn suits(&self, trial: &Trial<'_>) -> bool;

    /// Whether the node could fulfil the conditions for the member, whatever is evicted there and
    /// elsewhere. If not, no candidates on the node are examined.
    fn could_suit(&self, _member: usize, _node: NodeSlot) -> bool {
        true
    }

    /// Whether evicted allocations can make a difference. If not, a node is judged once.
    fn searches_victims(&self) -> bool {
        false
    }
}

/// A judge without conditions.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyNode;

impl Judge for AnyNode {
    fn suits(&self, _: &Trial<'_>) -> bool {
        true
    }
}
