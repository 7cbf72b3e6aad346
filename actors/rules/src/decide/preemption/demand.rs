//! The preemptor, and the conditions on a node besides room.

use crate::values::ids::{AllocationId, ApplicationSlot, NodeSlot};
use crate::values::resources::Resources;

/// An ask, or a gang that asks as a whole.
#[derive(Clone, Debug)]
pub struct Asker {
    /// Its application.
    pub application: ApplicationSlot,
    /// Where its leaf stands among the queues surveyed.
    pub queue: usize,
    /// Its priority; of a gang, that of its lowest group.
    pub priority: i32,
    /// What it wants: one amount, or one for each member of a gang.
    pub members: Vec<Resources>,
    /// It is a gang: all members or none, and all must fit what is left of the guarantee.
    pub is_gang: bool,
    /// The nodes that have room were tried, and none took it: so only those are left where something
    /// has to go.
    pub nodes_were_tried: bool,
}

impl Asker {
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
    /// Which member: its place among those of the asker.
    pub member: usize,
    /// The node.
    pub node: NodeSlot,
    /// What would be gone, anywhere.
    pub gone: &'a [AllocationId],
    /// Which members would be where already.
    pub mates: &'a [(usize, NodeSlot)],
}

/// What has to be so of a node beyond room: where placement constraints and topology are asked.
pub trait Judge {
    /// Whether the node would do.
    fn suits(&self, trial: &Trial<'_>) -> bool;

    /// Whether the node could do for the member, whatever were gone there and elsewhere. Only where not,
    /// nobody looks at what may be taken there.
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
