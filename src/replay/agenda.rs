//! The planned events of a replay.
//!
//! # Invariant
//! Events are in order of time. Those of one time are in the order of their kinds, and those of one
//! kind in the order in which they were planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A planned event. The derived order is the order in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event<K> {
    /// Milliseconds on the clock of the replay.
    at: i64,
    pub(crate) kind: K,
    sequence: u64,
    /// The index of the event's subject in a list of the replay, such as that of its pods.
    pub(crate) subject: usize,
}

/// The future events, of kinds whose order is the order within one time.
#[derive(Debug)]
pub(crate) struct Agenda<K> {
    events: BinaryHeap<Reverse<Event<K>>>,
    n_events: u64,
}

impl<K: Copy + Ord> Default for Agenda<K> {
    fn default() -> Self {
        Self { events: BinaryHeap::new(), n_events: 0 }
    }
}

impl<K: Copy + Ord> Agenda<K> {
    pub(crate) fn plan(&mut self, at: i64, kind: K, subject: usize) {
        self.n_events += 1;
        self.events.push(Reverse(Event { at, kind, sequence: self.n_events, subject }));
    }

    /// Returns the time of the next event that is not stale, in milliseconds on the clock of the
    /// replay. Drops stale events before it.
    pub(crate) fn next_at(&mut self, is_stale: impl Fn(&Event<K>) -> bool) -> Option<i64> {
        while self.events.peek().is_some_and(|Reverse(next)| is_stale(next)) {
            self.events.pop();
        }
        self.events.peek().map(|Reverse(next)| next.at)
    }

    /// Removes and returns the events until `now`, in order.
    pub(crate) fn due(&mut self, now: i64) -> Vec<Event<K>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_time_are_in_order_of_kind_then_plan() {
        let mut agenda = Agenda::default();
        for (at, kind, subject) in [(5, 'b', 1), (5, 'a', 3), (9, 'a', 4), (5, 'b', 0), (2, 'c', 2)]
        {
            agenda.plan(at, kind, subject);
        }
        assert_eq!(agenda.next_at(|event| event.subject == 2), Some(5), "the first one is stale");
        let due: Vec<_> = agenda.due(8).iter().map(|event| (event.kind, event.subject)).collect();
        assert_eq!(due, [('a', 3), ('b', 1), ('b', 0)]);
        assert_eq!(agenda.next_at(|_| false), Some(9));
        assert!(agenda.due(8).is_empty());
        assert_eq!(agenda.next_at(|_| true), None);
    }
}
