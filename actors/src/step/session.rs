//! What a partition, its outlet and its baton tell the session of their RM. The messages are here
//! and not with the session, so that nothing below the front depends on it.

use std::sync::Arc;

use actix::prelude::*;
use monoceros_config::difference::PartitionUsage;
use monoceros_config::reload::TypeInUse;
use monoceros_rules::specs::quotas::Held;

use super::Notice;
use crate::api::outcomes::Removed;
use crate::mailbox::Destination;

/// What a partition said in a turn. From its outlet.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Said {
    pub(crate) partition: Arc<str>,
    /// In order.
    pub(crate) notices: Vec<Notice>,
    /// So many chunks are done.
    pub(crate) chunks_done: usize,
}

/// A partition's books are gone: a handler panicked, or an actor died.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct PartitionLost {
    pub(crate) partition: Arc<str>,
}

/// A partition has ended in order.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct PartitionClosed {
    pub(crate) partition: Arc<str>,
    /// The number of allocations, nodes and applications that were in it.
    pub(crate) removed: Removed,
}

/// The answer of a partition whether it could have the proposed configuration, or why not. It
/// stands still until the proposal is concluded.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Prepared {
    pub(crate) partition: Arc<str>,
    pub(crate) answer: Result<PartitionUsage, TypeInUse>,
}

/// How much a partition has by now that counts against the quotas of its RM.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct HeldNow {
    pub(crate) partition: Arc<str>,
    pub(crate) held: Held,
}

/// The mailboxes by which a partition reaches its session.
#[derive(Clone)]
pub(crate) struct SessionLink {
    pub(crate) said: Destination<Said>,
    pub(crate) held: Destination<HeldNow>,
    pub(crate) prepared: Destination<Prepared>,
    pub(crate) lost: Destination<PartitionLost>,
    pub(crate) closed: Destination<PartitionClosed>,
}
