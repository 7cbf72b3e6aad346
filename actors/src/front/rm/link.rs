//! A partition as its session holds it: its mailbox, its requests that are waiting, and its last
//! report of usage.
//!
//! # Invariants
//! * A partition has at most [`CHUNKS_AHEAD`] chunks in its inbox, so that controls and reads pass
//!   while a long message is being processed. Further chunks wait here.

use std::collections::VecDeque;

use monoceros_rules::specs::quotas::Held;

use super::threads::Seat;
use crate::front::translate::CHUNK;
use crate::mailbox::Mailbox;
use crate::partition::{Ack, Chunk, Entry, Partition};

/// The most chunks in the inbox of a partition.
const CHUNKS_AHEAD: usize = 2;

/// The number of notices that are acknowledged together. It is far below the number in flight at
/// which a partition stops deciding.
const ACKNOWLEDGED_TOGETHER: usize = 4_096;

/// A partition as its session holds it.
pub(super) struct PartitionLink {
    pub(super) mailbox: Mailbox<Partition>,
    /// Its seat on a thread; `None` if it runs on the front's thread.
    pub(super) seat: Option<Seat>,
    /// Chunks that are not sent yet, in order.
    waiting: VecDeque<Vec<Entry>>,
    /// Items of all waiting chunks.
    waiting_items: usize,
    /// Items of the last waiting chunk.
    last_items: usize,
    /// Chunks in the partition's inbox.
    ahead: usize,
    /// Notices that were delivered and are not acknowledged yet.
    unacknowledged: usize,
    /// Usage against the RM's quotas, as the partition reported it last.
    pub(super) held: Held,
    /// Usage of the other partitions, as this one was informed of it last.
    pub(super) elsewhere: Held,
}

impl PartitionLink {
    pub(super) fn new(mailbox: Mailbox<Partition>, seat: Option<Seat>) -> Self {
        Self {
            mailbox,
            seat,
            waiting: VecDeque::new(),
            waiting_items: 0,
            last_items: 0,
            ahead: 0,
            unacknowledged: 0,
            held: Held::default(),
            elsewhere: Held::default(),
        }
    }

    pub(super) fn waiting_items(&self) -> usize {
        self.waiting_items
    }

    /// Appends a chunk to those that wait. Small chunks are joined, since each wakes the partition.
    pub(super) fn append(&mut self, chunk: Vec<Entry>) {
        let items = chunk.iter().map(Entry::items).sum::<usize>();
        self.waiting_items += items;
        match self.waiting.back_mut() {
            Some(last) if self.last_items + items <= CHUNK => {
                self.last_items += items;
                last.extend(chunk);
            }
            _ => {
                self.last_items = items;
                self.waiting.push_back(chunk);
            }
        }
    }

    /// Sends waiting chunks, as many as the partition may have in its inbox.
    pub(super) fn send_waiting(&mut self) {
        while self.ahead < CHUNKS_AHEAD {
            let Some(chunk) = self.waiting.pop_front() else { break };
            self.waiting_items -= chunk.iter().map(Entry::items).sum::<usize>();
            self.ahead += 1;
            self.mailbox.post(Chunk(chunk));
        }
    }

    /// Drops the waiting chunks, at the end of the session.
    pub(super) fn drop_waiting(&mut self) {
        self.waiting.clear();
        self.waiting_items = 0;
    }

    /// The partition has processed this many chunks. A test that replays recorded inputs hands it more
    /// than were sent.
    pub(super) fn processed(&mut self, chunks: usize) {
        self.ahead = self.ahead.saturating_sub(chunks);
    }

    /// This many notices were delivered to the RM. Acknowledges them a few thousand at a time: an
    /// acknowledgement wakes the partition, which needs it only while very many are in flight.
    pub(super) fn delivered(&mut self, notices: usize) {
        self.unacknowledged += notices;
        if self.unacknowledged >= ACKNOWLEDGED_TOGETHER {
            self.mailbox.post(Ack(std::mem::take(&mut self.unacknowledged)));
        }
    }
}
