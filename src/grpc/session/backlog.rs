//! The total load of all outboxes of a session, and whether it is too high.
//!
//! # Why two marks
//! A client that reads too slowly would overflow its outbox and lose its session. Above the high
//! mark the scheduler makes no new decisions for it, so that it can catch up; below the low mark
//! decisions resume. The gap between the marks keeps this from flapping.

use std::sync::atomic::{AtomicUsize, Ordering};

/// An amount of messages: items, and bytes as encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Items over all lists of the messages.
    pub items: usize,
    /// Encoded size.
    pub bytes: usize,
}

/// The loads at which the backlog becomes too high, and acceptable again.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    /// Too high at or above this.
    pub high: Load,
    /// Acceptable at or below this.
    pub low: Load,
}

/// Whether a change moved the load over the high mark or below the low one. If so, the session has
/// to review its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the session has to look"]
pub struct CrossesMark(pub bool);

/// The load of all outboxes of one session. Many threads count here without a lock. If a thread
/// moves the load over a mark, the call returns that, and the thread has to review the session. So
/// after any crossing at least one thread reviews it, with the load at that time.
#[derive(Debug)]
pub struct Backlog {
    marks: Marks,
    items: AtomicUsize,
    bytes: AtomicUsize,
}

impl Load {
    /// The sum of both loads.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            items: self.items.saturating_add(other.items),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// The load without `other`.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            items: self.items.saturating_sub(other.items),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// Whether both items and bytes are within `bound`.
    pub fn fits(self, bound: Self) -> bool {
        self.items <= bound.items && self.bytes <= bound.bytes
    }

    /// This percentage of the load, at least one item and one byte.
    #[must_use]
    pub fn percent(self, percent: u8) -> Self {
        let percent = usize::from(percent);
        let part = |amount: usize| (amount / 100 * percent + amount % 100 * percent / 100).max(1);
        Self { items: part(self.items), bytes: part(self.bytes) }
    }
}

impl Backlog {
    /// An empty backlog.
    pub fn new(marks: Marks) -> Self {
        Self { marks, items: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
    }

    /// Adds a queued message. Returns whether that crossed the high mark.
    pub fn add(&self, load: Load) -> CrossesMark {
        let crosses = |amount: &AtomicUsize, more: usize, mark: usize| {
            let before = amount.fetch_add(more, Ordering::SeqCst);
            before < mark && before + more >= mark
        };
        let by_items = crosses(&self.items, load.items, self.marks.high.items);
        let by_bytes = crosses(&self.bytes, load.bytes, self.marks.high.bytes);
        CrossesMark(by_items || by_bytes)
    }

    /// Removes a message that is no longer queued. Returns whether that crossed the low mark.
    pub fn remove(&self, load: Load) -> CrossesMark {
        let crosses = |amount: &AtomicUsize, less: usize, mark: usize| {
            let before = amount.fetch_sub(less, Ordering::SeqCst);
            before > mark && before - less <= mark
        };
        let by_items = crosses(&self.items, load.items, self.marks.low.items);
        let by_bytes = crosses(&self.bytes, load.bytes, self.marks.low.bytes);
        CrossesMark(by_items || by_bytes)
    }

    /// The present load.
    pub fn load(&self) -> Load {
        Load { items: self.items.load(Ordering::SeqCst), bytes: self.bytes.load(Ordering::SeqCst) }
    }

    /// Whether the load is too high now; `was` is the previous answer.
    pub fn is_too_much(&self, was: bool) -> bool {
        let (load, Marks { high, low }) = (self.load(), self.marks);
        if was {
            load.items > low.items || load.bytes > low.bytes
        } else {
            load.items >= high.items || load.bytes >= high.bytes
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(items: usize, bytes: usize) -> Load {
        Load { items, bytes }
    }

    #[test]
    fn high_and_low_marks_bound_the_backlog() {
        let backlog = Backlog::new(Marks { high: load(10, 100), low: load(5, 50) });
        assert_eq!(backlog.add(load(9, 9)), CrossesMark(false));
        assert!(!backlog.is_too_much(false));
        assert_eq!(backlog.add(load(1, 1)), CrossesMark(true), "that was the high mark");
        assert!(backlog.is_too_much(false));
        assert_eq!(
            backlog.add(load(1, 1)),
            CrossesMark(false),
            "only the first to cross it learns that"
        );
        assert_eq!(backlog.remove(load(5, 5)), CrossesMark(false));
        assert!(backlog.is_too_much(true), "6 items are above the low mark");
        assert!(!backlog.is_too_much(false), "and below the high one");
        assert_eq!(backlog.remove(load(1, 1)), CrossesMark(true), "that was the low mark");
        assert!(!backlog.is_too_much(true));
    }

    #[test]
    fn bytes_alone_can_be_too_much() {
        let backlog = Backlog::new(Marks { high: load(10, 100), low: load(5, 50) });
        assert_eq!(backlog.add(load(1, 100)), CrossesMark(true));
        assert!(backlog.is_too_much(false));
    }

    #[test]
    fn percentage_is_at_least_one() {
        assert_eq!(load(150, 10_000).percent(50), load(75, 5_000));
        assert_eq!(load(1, 1).percent(25), load(1, 1));
    }
}
