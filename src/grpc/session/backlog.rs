//! How much waits to be sent in all outboxes of a session, and whether that is too much.
//!
//! # Why marks
//! A client that reads too slowly would let its outbox run over and lose its session. Above the
//! high mark nothing new is decided for it, so that it can catch up; below the low mark decisions
//! go on. There are two marks, so that this does not flutter.

use std::sync::atomic::{AtomicUsize, Ordering};

/// An amount of messages: items, and bytes as encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Over all their lists.
    pub items: usize,
    /// As encoded.
    pub bytes: usize,
}

/// The loads at which too much begins and ends.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    /// At or above: too much.
    pub high: Load,
    /// At or below: no longer.
    pub low: Load,
}

/// Whether a change has brought what waits over the high mark, or under the low one: then somebody
/// has to look whether too much waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the session has to look"]
pub struct CrossesMark(pub bool);

/// What waits in all outboxes of one session. Many threads count here, each without waiting. Who
/// brings a load over a mark learns it, and has to see to it that the session looks: at least one
/// thread does so after any crossing, and looks at what is so by then.
#[derive(Debug)]
pub struct Backlog {
    marks: Marks,
    items: AtomicUsize,
    bytes: AtomicUsize,
}

impl Load {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            items: self.items.saturating_add(other.items),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// What is left without `other`.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            items: self.items.saturating_sub(other.items),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// Whether neither exceeds the other's.
    pub fn fits(self, bound: Self) -> bool {
        self.items <= bound.items && self.bytes <= bound.bytes
    }

    /// So many percent of it, at least one.
    #[must_use]
    pub fn percent(self, percent: u8) -> Self {
        let percent = usize::from(percent);
        let part = |amount: usize| (amount / 100 * percent + amount % 100 * percent / 100).max(1);
        Self { items: part(self.items), bytes: part(self.bytes) }
    }
}

impl Backlog {
    /// A backlog in which nothing waits.
    pub fn new(marks: Marks) -> Self {
        Self { marks, items: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
    }

    /// A message waits. Returns whether that has crossed the high mark.
    pub fn add(&self, load: Load) -> CrossesMark {
        let crosses = |amount: &AtomicUsize, more: usize, mark: usize| {
            let before = amount.fetch_add(more, Ordering::SeqCst);
            before < mark && before + more >= mark
        };
        let by_items = crosses(&self.items, load.items, self.marks.high.items);
        let by_bytes = crosses(&self.bytes, load.bytes, self.marks.high.bytes);
        CrossesMark(by_items || by_bytes)
    }

    /// A message no longer waits. Returns whether that has crossed the low mark.
    pub fn remove(&self, load: Load) -> CrossesMark {
        let crosses = |amount: &AtomicUsize, less: usize, mark: usize| {
            let before = amount.fetch_sub(less, Ordering::SeqCst);
            before > mark && before - less <= mark
        };
        let by_items = crosses(&self.items, load.items, self.marks.low.items);
        let by_bytes = crosses(&self.bytes, load.bytes, self.marks.low.bytes);
        CrossesMark(by_items || by_bytes)
    }

    /// What waits.
    pub fn load(&self) -> Load {
        Load { items: self.items.load(Ordering::SeqCst), bytes: self.bytes.load(Ordering::SeqCst) }
    }

    /// Whether too much waits, given whether it did when last asked.
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
    fn too_much_begins_at_the_high_mark_and_ends_at_the_low_one() {
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
    fn a_percentage_of_an_outbox_is_never_nothing() {
        assert_eq!(load(150, 10_000).percent(50), load(75, 5_000));
        assert_eq!(load(1, 1).percent(25), load(1, 1));
    }
}
