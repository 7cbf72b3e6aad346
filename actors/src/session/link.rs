//! Messages of a partition, its outlet and its baton to the session of their RM.

use std::sync::Arc;

use actix::prelude::*;
use monoceros_config::difference::PartitionUsage;
use monoceros_config::reload::TypeInUse;
use monoceros_rules::specs::quotas::Held;

use super::notice::Notice;
use crate::api::outcomes::Removed;
use crate::mailbox::Destination;

/// Notices of a partition, at most [`BATCH`](super::BATCH). From its outlet.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Delivery {
    pub(crate) partition: Arc<str>,
    /// In order.
    pub(crate) notices: Vec<Notice>,
    /// The number of chunks that the partition has processed since the last delivery.
    pub(crate) chunks_done: usize,
}

/// The books of a partition were lost: a handler panicked, or an actor died. From the baton.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct PartitionLost {
    pub(crate) partition: Arc<str>,
}

/// A partition has closed in order. From its outlet.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct PartitionClosed {
    pub(crate) partition: Arc<str>,
    /// The numbers of allocations, nodes and applications that were in it.
    pub(crate) removed: Removed,
}

/// The answer of a partition to a proposed configuration: its usage, or why it cannot take it. The
/// partition is paused until the proposal is concluded.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Prepared {
    pub(crate) partition: Arc<str>,
    pub(crate) answer: Result<PartitionUsage, TypeInUse>,
}

/// The present usage of a partition against the quotas of its RM.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct HeldNow {
    pub(crate) partition: Arc<str>,
    pub(crate) held: Held,
}

/// The mailbox of a session, for each kind of message that a partition sends.
#[derive(Clone)]
pub(crate) struct SessionLink {
    pub(crate) deliveries: Destination<Delivery>,
    pub(crate) held: Destination<HeldNow>,
    pub(crate) prepared: Destination<Prepared>,
    pub(crate) lost: Destination<PartitionLost>,
    pub(crate) closed: Destination<PartitionClosed>,
}
