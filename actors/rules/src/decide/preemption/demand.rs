//! The preemptor, and the conditions on a node besides room.

use crate::values::ids::{AllocationId, ApplicationSlot, NodeSlot};
use crate::values::resources::Resources;

/// An ask, or a gang that asks as a whole.
#[derive(Clone, Debug)]
pub struct Demand {
    /// The application of the preemptor.
    pub application: ApplicationSlot,
    /// The index of its leaf among the surveyed queues.
    pub queue: usize,
    /// The priority; of a gang, that of its lowest group.
    pub priority: i32,
    /// The demand: one amount, or one for each member of a gang.
    pub members: Vec<Resources>,
    /// The preemptor is a gang: all members or none, and all must fit what is left of the
    /// guarantee.
    pub is_gang: bool,
    /// The nodes that have room were tried, and none took it: so only those are left where
    /// something has to go.
    pub nodes_were_tried: bool,
}

impl Demand {
    /// One instance of an ask.
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

    /// A gang with these members, in an order of the caller's own.
    pub fn gang(
        application: ApplicationSlot,
        queue: usize,
        priority: i32,
        members: Vec<Resources>,
    ) -> Self {
        Self { members, is_gang: true, ..Self::ask(application, queue, priority, Resources::new()) }
    }
}

/// A node that is tried for a member, if some allocations were gone.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// The index of the member among those of the preemptor.
    pub member: usize,
    /// The node.
    pub node: NodeSlot,
    /// The allocations that would be gone, on any node.
    pub gone: &'a [AllocationId],
    /// The nodes of members that have places already.
    pub mates: &'a [(usize, NodeSlot)],
}

/// What has to be so of a node beyond room: where placement constraints and topology are asked.
pub trait Judge {
    /// Whether the node would do.
    fn suits(&self, trial: &Trial<'_>) -> bool;

    /// Whether the node could do for the member, whatever were gone there and elsewhere. Only where
    /// not, nobody looks at what may be taken there.
    fn could_suit(&self, _member: usize, _node: NodeSlot) -> bool {
        true
    }

    /// Whether what is gone can matter. If not, a node is judged once.
    fn looks_at_victims(&self) -> bool {
        false
    }
}

/// Every node would do.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyNode;

impl Judge for AnyNode {
    fn suits(&self, _: &Trial<'_>) -> bool {
        true
    }
}
