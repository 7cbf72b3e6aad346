//! Planned events of pods: the times of the trace, and times that follow from decisions.
//!
//! # Invariant
//! Events are in order of time. At one time, ends come first, then exits of evicted pods, then
//! withdrawals, then arrivals, and events of one kind in the order in which they were planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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

/// A planned event. The derived order is the order in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    /// Milliseconds on the clock of the trace.
    at: i64,
    pub(super) kind: EventKind,
    sequence: u64,
    pub(super) pod: usize,
}

/// The future events.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    events: BinaryHeap<Reverse<Event>>,
    n_events: u64,
}

impl Agenda {
    pub(super) fn plan(&mut self, at: i64, kind: EventKind, pod: usize) {
        self.n_events += 1;
        self.events.push(Reverse(Event { at, kind, sequence: self.n_events, pod }));
    }

    /// Returns the time of the next event that is not stale, in milliseconds on the clock of the
    /// trace. Drops stale events before it.
    pub(super) fn next_at(&mut self, is_stale: impl Fn(&Event) -> bool) -> Option<i64> {
        while self.events.peek().is_some_and(|Reverse(next)| is_stale(next)) {
            self.events.pop();
        }
        self.events.peek().map(|Reverse(next)| next.at)
    }

    /// Removes and returns the events until `now`, in order.
    pub(super) fn due(&mut self, now: i64) -> Vec<Event> {
        let mut due = Vec::new();
        while let Some(&Reverse(event)) = self.events.peek() {
            if event.at > now {
                break;
            }
            due.push(event);
            self.events.pop();
        }
        due
    }
}
