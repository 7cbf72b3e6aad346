//! The dynamic queues that are empty at present.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::step::QueueSlot;

/// The empty dynamic queues, with the time since when each is empty.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::partition) struct EmptyQueues {
    /// ns since the epoch.
    since: BTreeMap<QueueSlot, i64>,
    /// Whether a deadline is armed for the first of them.
    is_armed: bool,
}

/// The result of a check of the empty queues.
pub(in crate::partition) struct Checked {
    /// The queues whose time is over, the deepest first.
    pub(in crate::partition) over: Vec<QueueSlot>,
    /// The time when the next of the remaining queues is due, ns since the epoch.
    pub(in crate::partition) next_ns: Option<i64>,
}

impl EmptyQueues {
    /// Notes a queue that has become empty. Returns whether the caller has to arm the deadline.
    pub(in crate::partition) fn note(&mut self, slot: QueueSlot, now_ns: i64) -> bool {
        self.since.insert(slot, now_ns);
        !std::mem::replace(&mut self.is_armed, true)
    }

    /// Forgets a queue that is not empty any more, or was removed.
    pub(in crate::partition) fn forget(&mut self, slot: QueueSlot) {
        self.since.remove(&slot);
    }

    /// Takes out the queues that have been empty for `interval_ns`, and forgets those that are not
    /// dynamic any more. Called when the deadline is over; another is armed if a queue remains.
    pub(in crate::partition) fn check(
        &mut self,
        interval_ns: i64,
        now_ns: i64,
        is_dynamic: impl Fn(QueueSlot) -> bool,
    ) -> Checked {
        let mut checked = Checked { over: Vec::new(), next_ns: None };
        for (slot, since_ns) in std::mem::take(&mut self.since).into_iter().rev() {
            if !is_dynamic(slot) {
                continue;
            }
            let over_ns = since_ns.saturating_add(interval_ns);
            if over_ns <= now_ns {
                checked.over.push(slot);
            } else {
                self.since.insert(slot, since_ns);
                let earlier = checked.next_ns.is_none_or(|next_ns| over_ns < next_ns);
                checked.next_ns = if earlier { Some(over_ns) } else { checked.next_ns };
            }
        }
        self.is_armed = checked.next_ns.is_some();
        checked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_over_after_the_interval_deepest_first() {
        let mut empty = EmptyQueues::default();
        assert!(empty.note(QueueSlot(1), 100));
        assert!(!empty.note(QueueSlot(2), 100), "one deadline is armed for all");
        empty.note(QueueSlot(3), 105);
        empty.note(QueueSlot(4), 100);
        empty.forget(QueueSlot(4));
        let checked = empty.check(10, 110, |_| true);
        assert_eq!((checked.over, checked.next_ns), (vec![QueueSlot(2), QueueSlot(1)], Some(115)));
        let checked = empty.check(10, 115, |_| false);
        assert_eq!((checked.over, checked.next_ns), (vec![], None), "it was configured meanwhile");
        assert!(empty.note(QueueSlot(5), 120), "nothing is armed while no queue is empty");
    }
}
