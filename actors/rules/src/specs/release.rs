//! The request of an RM to release allocations: which ones, and why.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The allocations that a release names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Which {
    /// The allocation with this UUID.
    Uuid(Arc<str>),
    /// The allocations of the ask with this key.
    Key(Arc<str>),
    /// All of the application.
    All,
}

/// Why an RM sends a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The RM wants the allocation to end: it gets an answer.
    Stopped,
    /// The RM wants the allocation to end because what ran has failed: it gets an answer.
    Failed,
    /// Confirms the preemption that the scheduler asked for: no answer.
    ConfirmedPreemption,
    /// Confirms the replacement of a placeholder: no answer.
    ConfirmedReplacement,
    /// Confirms a timeout: no answer, and pending asks stay.
    ConfirmedTimeout,
    /// The RM could not bind the allocation: the ask is pending again.
    SchedulingFailed,
    /// The RM can never bind the allocation on that node: the ask is pending again, and does not go
    /// back there for a while.
    RefusedForGood,
}

impl Cause {
    /// Whether the RM ended the allocation by itself, and is to be answered.
    pub fn is_stop(self) -> bool {
        matches!(self, Self::Stopped | Self::Failed)
    }

    /// Whether the RM could not start the allocation, so that its ask is pending again.
    pub fn is_failure_to_start(self) -> bool {
        matches!(self, Self::SchedulingFailed | Self::RefusedForGood)
    }

    /// Whether pending asks stay that have the name of the released allocation.
    pub fn keeps_asks(self) -> bool {
        self == Self::ConfirmedTimeout || self.is_failure_to_start()
    }
}
