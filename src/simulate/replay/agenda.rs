//! What will happen to pods, and when: the times of the trace, and those that follow from decisions.
//!
//! # Invariant
//! Events come in the order of their times; of one instant ends come first, then who leaves, then
//! withdrawals, then arrivals, and those of one kind in the order in which they were planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// In the order in which events of one instant are told to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EventKind {
    /// The pod's attempt of this number has run its time.
    End {
        attempt: u32,
    },
    /// The pod's attempt of this number leaves because it was told to.
    Leave {
        attempt: u32,
    },
    /// The pod is withdrawn if it still waits.
    Withdraw,
    Arrive,
}

/// Something that will happen to a pod; the derived order is the order in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    /// Milliseconds on the clock of the trace.
    at: i64,
    pub(super) kind: EventKind,
    sequence: u64,
    pub(super) pod: usize,
}

/// The events that have still to come.
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

    /// When the next one is that means something, in milliseconds on the clock of the trace. Those
    /// before it are dropped.
    pub(super) fn next_at(&mut self, is_stale: impl Fn(&Event) -> bool) -> Option<i64> {
        while self.events.peek().is_some_and(|Reverse(next)| is_stale(next)) {
            self.events.pop();
        }
        self.events.peek().map(|Reverse(next)| next.at)
    }

    /// Takes the events that fall due by then, in order.
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
