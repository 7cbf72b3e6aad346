//! The unsent messages of one outbox: cut, joined, and counted together with the sent ones that are
//! kept.
//!
//! # Why both are counted here
//! One bound applies to queued and kept messages together: a client that reads fast and never
//! confirms holds as much memory as a client that does not read. A push must know at once whether
//! there is room, without taking the lock under which messages are sent.
//!
//! # Invariants
//! * Queued and kept messages together never exceed [`Bounds::outbox`].
//! * No message exceeds the chunk bounds, unless it is a single item.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Bounds;
use crate::grpc::reply::{Cutter, Reply};
use crate::grpc::session::backlog::Load;
use crate::grpc::stream_handle::StreamHandle;

/// The queued messages, oldest first, and the stream to wake for them.
pub(super) struct WaitingQueue<R> {
    bounds: Bounds,
    waiting: VecDeque<Waiting<R>>,
    /// The load of the queued messages.
    load: Load,
    /// The load of the sent messages that are kept.
    pub(super) kept: Load,
    /// The bound stream, as in the delivery, to be woken.
    pub(super) stream: Option<Arc<StreamHandle>>,
    is_closed: bool,
}

/// A message that was not sent yet.
pub(super) struct Waiting<R> {
    pub(super) reply: R,
    pub(super) load: Load,
}

impl<R: Reply> WaitingQueue<R> {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            waiting: VecDeque::new(),
            load: Load::default(),
            kept: Load::default(),
            stream: None,
            is_closed: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether this load fits in addition.
    pub(super) fn has_room_for(&self, load: Load) -> bool {
        self.load.plus(self.kept).plus(load).fits(self.bounds.outbox)
    }

    /// Returns the part of the kept messages that must be dropped so that `load` fits, plus 10
    /// percent of the bound so that this is rare.
    pub(super) fn excess_with(&self, load: Load) -> Load {
        let bound = self.bounds.outbox;
        self.load.plus(self.kept).plus(load).plus(bound.percent(10)).minus(bound)
    }

    /// Adds a message that [fits](Self::has_room_for). It is joined to the last one if the order
    /// and the bounds allow it.
    pub(super) fn append(&mut self, chunk: Waiting<R>) {
        self.load = self.load.plus(chunk.load);
        if let Some(last) = self.waiting.back_mut()
            && last.load.items + chunk.load.items <= self.bounds.chunk_items
            // Exact: each item of a list is encoded separately.
            && last.load.bytes + chunk.load.bytes <= self.bounds.chunk_bytes
            && last.reply.may_be_joined_by(&chunk.reply)
        {
            last.load = last.load.plus(chunk.load);
            last.reply.append(chunk.reply);
        } else {
            self.waiting.push_back(chunk);
        }
    }

    /// Removes the oldest message; it counts as kept until it is [freed](Self::free).
    pub(super) fn pop(&mut self) -> Option<Waiting<R>> {
        let waiting = self.waiting.pop_front()?;
        self.load = self.load.minus(waiting.load);
        self.kept = self.kept.plus(waiting.load);
        Some(waiting)
    }

    /// Subtracts messages that are no longer kept.
    pub(super) fn free(&mut self, load: Load) {
        self.kept = self.kept.minus(load);
    }

    /// Drops all messages, and accepts none from now on. Returns the load that was queued.
    pub(super) fn close(&mut self) -> Load {
        self.is_closed = true;
        self.waiting = VecDeque::new();
        self.stream = None;
        self.kept = Load::default();
        std::mem::take(&mut self.load)
    }
}

/// Cuts a message into messages within the chunk bounds, in order.
pub(super) fn cut<R: Reply>(reply: R, load: Load, bounds: Bounds) -> Vec<Waiting<R>> {
    let is_within = load.items <= bounds.chunk_items && load.bytes <= bounds.chunk_bytes;
    if is_within || load.items == 1 {
        return vec![Waiting { reply, load }];
    }
    let mut cutter = Cutter::new(bounds);
    reply.cut(&mut cutter);
    let chunks = cutter.finish().into_iter();
    let measured = |reply: R| {
        let load = Load { items: reply.items(), bytes: reply.encoded_len() };
        Waiting { reply, load }
    };
    chunks.map(measured).collect()
}
