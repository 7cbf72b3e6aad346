//! The events of pods: the times of the trace, and times that follow from decisions.
//!
//! At one time, ends come first, then exits of evicted pods, then withdrawals, then arrivals.

use crate::replay::agenda;

/// A planned event, whose subject is a pod.
pub(super) type Event = agenda::Event<EventKind>;

/// The kind of an event, in the order in which events of one time are sent to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EventKind {
    /// The pod's attempt with this number has run its time.
    End {
        attempt: u32,
    },
    /// The pod's attempt with this number exits after its eviction.
    Leave {
        attempt: u32,
    },
    /// The pod is withdrawn if it is still pending.
    Withdraw,
    Arrive,
}
