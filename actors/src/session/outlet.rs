//! All that a partition says to its RM, in the order it was said, one message per turn.
//!
//! # Why it waits for the end of a turn
//! What crosses to the front's thread may have to wake it, and is a message with an envelope and a place
//! in a queue. What the steps of a turn say crosses together, and so does the word that chunks are done.
//!
//! # Invariants
//! * What was said leaves in its order, and before the word that the partition has ended.
//! * Nothing is kept when the turn is over, nor when the partition ends, whatever ends it.

use std::sync::Arc;

use super::link::{PartitionClosed, Said, SessionLink};
use super::notice::Notice;

/// At most so many notices cross in one message, however many a step has said: the front arbiter
/// belongs to all RMs, and an RM lets the others have a turn behind each.
pub(crate) const BATCH: usize = 256;

/// Collects what one partition says in a turn, and tells its [`Rm`](crate::front::rm::Rm).
pub(crate) struct Outlet {
    partition: Arc<str>,
    session: SessionLink,
    waiting: Vec<Notice>,
    chunks_done: usize,
}

impl Outlet {
    pub(crate) fn new(partition: Arc<str>, session: SessionLink) -> Self {
        Self { partition, session, waiting: Vec::new(), chunks_done: 0 }
    }

    /// Takes what a step said.
    pub(crate) fn say(&mut self, notices: Vec<Notice>) {
        if self.waiting.is_empty() {
            self.waiting = notices;
        } else {
            self.waiting.extend(notices);
        }
        if self.waiting.len() >= BATCH {
            self.flush();
        }
    }

    /// The partition is done with a chunk.
    pub(crate) fn chunk_done(&mut self) {
        self.chunks_done += 1;
    }

    /// The turn is over.
    pub(crate) fn flush(&mut self) {
        if self.waiting.is_empty() && self.chunks_done == 0 {
            return;
        }
        let notices = std::mem::take(&mut self.waiting);
        if notices.len() <= BATCH {
            return self.post(notices);
        }
        let mut notices = notices.into_iter();
        while notices.len() > 0 {
            self.post(notices.by_ref().take(BATCH).collect());
        }
    }

    /// The partition closes: the last that is said.
    pub(crate) fn farewell(&mut self, closed: PartitionClosed) {
        self.flush();
        self.session.closed.post(closed);
    }

    fn post(&mut self, notices: Vec<Notice>) {
        let (partition, chunks_done) =
            (Arc::clone(&self.partition), std::mem::take(&mut self.chunks_done));
        self.session.said.post(Said { partition, notices, chunks_done });
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.flush();
    }
}
