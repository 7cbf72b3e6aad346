//! The outlet of a partition: collects its notices and sends them to its session, one message per turn.
//!
//! # Why it waits for the end of a turn
//! A message to the front's thread may have to wake that thread, and costs an envelope and an entry
//! in a mailbox. So the notices of all steps of a turn are sent together, with the number of
//! processed chunks.
//!
//! # Invariants
//! * Notices are sent in their order, all of them before the message that the partition has closed.
//! * The outlet is empty after each turn, and sends the rest when it is dropped, whatever ends the
//!   partition.

use std::sync::Arc;

use super::link::{Delivery, PartitionClosed, SessionLink};
use super::notice::Notice;

/// The most notices in one message, however many a step has: all RMs share the front's thread, and
/// a session lets the other RMs have a turn after each message.
pub(crate) const BATCH: usize = 256;

/// Collects the notices of one partition.
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

    /// Takes the notices of a step.
    pub(crate) fn add(&mut self, notices: Vec<Notice>) {
        if self.waiting.is_empty() {
            self.waiting = notices;
        } else {
            self.waiting.extend(notices);
        }
        if self.waiting.len() >= BATCH {
            self.flush();
        }
    }

    /// The partition has processed a chunk.
    pub(crate) fn chunk_done(&mut self) {
        self.chunks_done += 1;
    }

    /// Sends everything, at the end of a turn.
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

    /// Sends everything, and then that the partition has closed.
    pub(crate) fn close(&mut self, closed: PartitionClosed) {
        self.flush();
        self.session.closed.post(closed);
    }

    fn post(&mut self, notices: Vec<Notice>) {
        let (partition, chunks_done) =
            (Arc::clone(&self.partition), std::mem::take(&mut self.chunks_done));
        self.session.deliveries.post(Delivery { partition, notices, chunks_done });
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.flush();
    }
}
