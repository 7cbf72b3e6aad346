//! What a visit has nodes do, and what climbs from it.

use std::sync::Arc;

use actix::Addr;
use monoceros_rules::nodes::NodeSlot;
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::values::epoch::Loosening;
use monoceros_rules::values::resources::Resources;
use monoceros_rules::work::allocations::AllocationId;
use smallvec::SmallVec;

use super::RowUpdate;
use crate::queue::Queue;

/// What is to be done on a node; forced, nothing here can fail.
pub(crate) enum NodeWork {
    Release(AllocationId, Resources),
    /// As a release, of what was never settled.
    Return(AllocationId, Resources),
    Hold(AllocationId, Resources),
    Resize(Resources),
}

/// What a visit of an application leads to elsewhere: at nodes first, then up the queues.
#[derive(Default)]
pub(crate) struct Consequences {
    /// Done from the last to the first.
    pub(crate) node_work: SmallVec<[(NodeSlot, NodeWork); 1]>,
    /// Where what changed climbs first, and the change; none, if nothing changed for queues.
    pub(crate) climbing: Option<(Arc<Addr<Queue>>, Climbing)>,
}

/// A change on its way up the queues, from a child that says what it is now.
pub(crate) struct Climbing {
    pub(crate) update: RowUpdate,
    /// Of the totals of every queue on its path.
    pub(crate) delta: LedgerDelta,
    /// It gives every queue on its path more room: the number of the loosening, if it is one.
    pub(crate) loosening: Loosening,
}
