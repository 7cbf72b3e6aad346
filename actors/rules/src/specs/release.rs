//! The request of an RM to release allocations: their names, and the cause.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The allocations that a release names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Which {
    /// The allocation with this UUID.
    Uuid(Arc<str>),
    /// The allocations of the ask with this key.
    Key(Arc<str>),
    /// All allocations of the application.
    All,
}

/// The cause of a release, as an RM sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The RM ends the allocation. It gets an answer.
    Stopped,
    /// The RM ends the allocation because its program has failed. It gets an answer.
    Failed,
    /// Confirms a preemption that the scheduler requested. No answer.
    ConfirmedPreemption,
    /// Confirms the replacement of a placeholder. No answer.
    ConfirmedReplacement,
    /// Confirms a timeout. No answer, and pending asks stay.
    ConfirmedTimeout,
    /// The RM could not bind the allocation: the ask is pending again.
    SchedulingFailed,
    /// The RM can never bind the allocation on that node: the ask is pending again, and does not
    /// use that node for a while.
    RefusedForGood,
}

impl Cause {
    /// Whether the RM ended the allocation by itself, and gets an answer.
    pub fn is_stop(self) -> bool {
        matches!(self, Self::Stopped | Self::Failed)
    }

    /// Whether the RM could not start the allocation, so that its ask is pending again.
    pub fn is_failure_to_start(self) -> bool {
        matches!(self, Self::SchedulingFailed | Self::RefusedForGood)
    }

    /// Whether pending asks that have the key of the released allocation stay.
    pub fn keeps_asks(self) -> bool {
        self == Self::ConfirmedTimeout || self.is_failure_to_start()
    }
}
