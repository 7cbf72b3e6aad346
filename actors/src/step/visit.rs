//! What a visit is to do, and what climbs from it.

use std::sync::Arc;

use actix::Addr;
use monoceros_rules::nodes::NodeSlot;
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::values::epoch::Loosening;
use monoceros_rules::values::resources::Resources;
use monoceros_rules::work::allocations::AllocationId;
use smallvec::SmallVec;

use super::{RowSlot, RowUpdate};
use crate::application::Application;
use crate::queue::{Queue, QueueFacts};

/// What a visit is to do.
#[derive(Default)]
pub(crate) enum Errand {
    #[default]
    None,
    /// To an application.
    Application(Vec<crate::application::Op>),
    /// To a leaf: an application joins.
    Attach { address: Arc<Addr<Application>> },
    /// To a queue: an application or a queue leaves it.
    Detach { row: RowSlot },
    /// To a queue: one more is to grow below it.
    AddQueue { facts: Box<QueueFacts> },
    /// To a node.
    Node(crate::node::NodeChange),
    /// What a visit brought home.
    Done(VisitReport),
}

/// What a visit brings home beside what it said.
#[derive(Default)]
pub(crate) struct VisitReport {
    /// Of a node that leaves: what was on it, by application.
    pub(crate) stranded: Vec<AllocationId>,
    /// Of a node that must not take them any more: what is not settled.
    pub(crate) given_up: Vec<AllocationId>,
}

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
