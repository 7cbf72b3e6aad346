//! What a partition, its outlet and its baton tell the session of their RM.

use std::sync::Arc;

use actix::prelude::*;
use monoceros_config::difference::PartitionUsage;
use monoceros_config::reload::TypeInUse;

use super::Notice;
use crate::api::outcomes::Removed;
use crate::mailbox::Destination;

/// A partition said something. From its outlet.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Notices {
    pub(crate) partition: Arc<str>,
    pub(crate) notices: Vec<Notice>,
}

/// A partition is done with a chunk.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Credit {
    pub(crate) partition: Arc<str>,
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
    /// What was in it.
    pub(crate) removed: Removed,
}

/// A partition could have what was proposed, or why not. It stands still until it is concluded.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Prepared {
    pub(crate) partition: Arc<str>,
    pub(crate) answer: Result<PartitionUsage, TypeInUse>,
}

/// The way to the session.
#[derive(Clone)]
pub(crate) struct SessionLink {
    pub(crate) notices: Destination<Notices>,
    pub(crate) credit: Destination<Credit>,
    pub(crate) prepared: Destination<Prepared>,
    pub(crate) lost: Destination<PartitionLost>,
    pub(crate) closed: Destination<PartitionClosed>,
}
