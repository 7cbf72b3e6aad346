//! A plan: the victims of a preemptor, and the nodes that it gets.

use super::chosen::Chosen;
use super::score::Weight;
use crate::values::ids::{AllocationId, ApplicationSlot, NodeSlot};

/// The number of times that a stale plan is made again at once, before it counts as a try without
/// result.
pub const PLANNED_ANEW: u32 = 3;

/// Victims that let a preemptor run. A plan changes nothing; it is carried out by a commit, which
/// is a step of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The place of each member, in the order in which they were found.
    pub places: Vec<Place>,
    /// The allocations that the RM is asked to end, in the order in which they were chosen.
    pub victims: Vec<AllocationId>,
    /// Held places of gangs, which end in the step of the commit: their RM does not know them.
    pub holds: Vec<AllocationId>,
    /// The applications that lose allocations.
    pub losers: Vec<ApplicationSlot>,
    /// The choice of each victim on a node, with the next candidate there.
    pub chosen: Vec<Chosen>,
    pub(super) weight: Weight,
}

/// The place of one member, or of an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The member of the preemptor.
    pub member: usize,
    /// The node that the ask reserves; for a gang, the node on which the member's amount is
    /// reserved.
    pub node: NodeSlot,
    /// Whether reservations of others on the node end.
    pub cancels: bool,
    /// The victims for this place, in the order in which each may be removed.
    pub(super) order: Vec<AllocationId>,
    /// Further victims that the RM adds.
    pub(super) more: Vec<AllocationId>,
    pub(super) is_answered: bool,
}

impl Plan {
    /// Whether the RM has to end any allocation. If not, only held places of gangs end, and the
    /// preemptor is placed in the step of the commit, without a reservation.
    pub fn has_victims(&self) -> bool {
        !self.victims.is_empty()
    }
}
