//! The messages of one session for one kind of stream. They are queued until a stream takes them,
//! then kept until the client has certainly received them.
//!
//! # Why not a channel
//! Streams come and go while the session stays: a channel would have to be passed on together with
//! its content. Here a stream *takes* a message only when its client can receive it. Messages not
//! taken wait for the next stream, and taken messages are kept for it (module `sent`).
//!
//! # Invariants
//! * Messages are sent in the order in which they were pushed, cut so that none exceeds the chunk
//!   bounds (a single larger item is sent alone). A new stream first receives the messages that the
//!   earlier one may not have delivered.
//! * Small consecutive messages are joined up to the chunk bounds: a client that is behind receives
//!   few large messages in place of many small ones.
//! * Cutting and joining keep the order in which clients process the lists of a message, so cause
//!   and effect are never swapped: the release of an allocation never overtakes the allocation.
//! * At most one [`StreamHandle`] takes messages: the newest.
//! * Queued messages never exceed the outbox bounds. A push beyond them is refused, and the session
//!   must then be closed, since a message was lost. Sent messages are dropped first to make room.
//!
//! # Two locks
//! `queue` holds the messages not sent yet, `delivery` the sent ones and their stream. The
//! scheduler pushes under the lock of the queue alone, so it never waits while a message is encoded
//! for sending. Taking, binding and confirming lock `delivery` first, then `queue`.

mod queue;
mod sent;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use self::queue::{Waiting, WaitingQueue, cut};
use self::sent::{Missing, Sent};
use super::encoded::Encoded;
use super::end::StreamEnd;
use super::reply::Reply;
use super::session::backlog::{Backlog, CrossesMark, Load};
use super::stream_handle::StreamHandle;
use crate::locked::locked;

/// The bounds of messages and of an outbox.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most items in one message.
    pub chunk_items: usize,
    /// Most bytes in one message.
    pub chunk_bytes: usize,
    /// Most items and bytes that are queued or kept.
    pub outbox: Load,
    /// How long a sent message is kept.
    pub grace: Duration,
    /// Whether a lost stream with undelivered messages always leaves a gap, even if they are kept.
    pub resyncs: bool,
}

/// The queue is full.
#[derive(Debug)]
pub struct OutboxOverflow;

/// Why a stream cannot be bound.
#[derive(Debug)]
pub enum Unbindable {
    /// The outbox is closed.
    Closed,
    /// Messages that an earlier stream may not have delivered are no longer kept.
    Gap,
    /// The client resumes from a number that was not sent or is no longer kept.
    Unknown,
}

/// The messages of one kind, and the stream that takes them.
pub struct Outbox<R> {
    bounds: Bounds,
    backlog: Arc<Backlog>,
    delivery: Mutex<Delivery>,
    queue: Mutex<WaitingQueue<R>>,
}

/// The sent messages and the stream they were sent to. Lock this before the queue.
struct Delivery {
    stream: Option<Arc<StreamHandle>>,
    sent: Sent,
    /// Set when a stream was lost with undelivered messages and [`Bounds::resyncs`] forbids
    /// resending.
    must_resync: bool,
}

/// An outbox of any kind.
pub trait AnyOutbox {
    /// Whether a stream is bound.
    fn is_bound(&self) -> bool;

    /// Drops sent messages that count as confirmed because enough time has passed. Needed if no
    /// later message triggers it.
    fn forget_confirmed(&self);

    /// Wakes the bound stream, if any.
    fn wake(&self);

    /// Ends the bound stream, if it numbers its requests as `numbered` says. Queued messages wait
    /// for the next stream.
    fn end_stream(&self, numbered: bool, end: &StreamEnd);

    /// Drops all messages, now and later, and ends the bound stream. Returns whether there was one.
    fn close(&self, end: &StreamEnd) -> bool;
}

impl<R: Reply> Outbox<R> {
    /// Creates an empty outbox without a stream; its queue counts in `backlog`.
    pub fn new(bounds: Bounds, backlog: &Arc<Backlog>) -> Self {
        let sent = Sent::new(bounds.grace);
        Self {
            bounds,
            backlog: Arc::clone(backlog),
            delivery: Mutex::new(Delivery { stream: None, sent, must_resync: false }),
            queue: Mutex::new(WaitingQueue::new(bounds)),
        }
    }

    /// Queues a message and wakes the stream. Messages without items are dropped, and so are all
    /// messages once the outbox is closed.
    pub fn push(&self, reply: R) -> Result<CrossesMark, OutboxOverflow> {
        let items = reply.items();
        if items == 0 {
            return Ok(CrossesMark(false));
        }
        // Measured and cut before the queue is locked: other threads contend for it.
        let load = Load { items, bytes: reply.encoded_len() };
        let chunks = cut(reply, load, self.bounds);
        let mut queue = self.queue();
        if !queue.has_room_for(load) {
            drop(queue);
            self.make_room(load);
            queue = self.queue();
        }
        if queue.is_closed() {
            return Ok(CrossesMark(false));
        }
        if !queue.has_room_for(load) {
            return Err(OutboxOverflow);
        }
        let mut crosses = false;
        for chunk in chunks {
            crosses |= self.backlog.add(chunk.load).0;
            queue.append(chunk);
        }
        if let Some(stream) = &queue.stream {
            stream.wake();
        }
        Ok(CrossesMark(crosses))
    }

    /// Returns the next message, if `stream` is the bound one. Calls `leaving`, under the lock of
    /// the delivery, with a message that is sent for the first time.
    pub fn take(
        &self,
        stream: &Arc<StreamHandle>,
        leaving: impl FnOnce(&R),
    ) -> Option<(Encoded<R>, CrossesMark)> {
        let mut delivery = self.delivery();
        if !is_same(delivery.stream.as_ref(), stream) {
            return None;
        }
        let now = Instant::now();
        if let Some(reply) = delivery.sent.next_repeat() {
            return Some((reply, CrossesMark(false)));
        }
        let confirmed = delivery.sent.expire(now);
        let Waiting { reply, load } = {
            let mut queue = self.queue();
            queue.free(confirmed);
            queue.pop()?
        };
        let crosses = self.backlog.remove(load);
        leaving(&reply);
        let (reply, keeps) = delivery.sent.keep(&reply, load, now);
        if !keeps {
            self.free(load);
        }
        Some((reply, crosses))
    }

    /// Binds `stream`: it takes the messages from now on, first those after number `resume` that
    /// may not have been delivered. An earlier stream is displaced by the instance `by`.
    pub fn bind(
        &self,
        stream: &Arc<StreamHandle>,
        resume: Option<u64>,
        by: Option<&str>,
    ) -> Result<(), Unbindable> {
        let mut delivery = self.delivery();
        if self.queue().is_closed() {
            return Err(Unbindable::Closed);
        }
        if resume.is_some_and(|seq| seq > 0) {
            // A mistake of a new stream must not displace the existing one.
            delivery.sent.knows(resume).map_err(|Missing| Unbindable::Unknown)?;
        }
        if let Some(earlier) = delivery.stream.take() {
            self.lose_stream(&mut delivery);
            earlier.close(StreamEnd::Displaced { by: by.map(ToOwned::to_owned) });
        }
        if delivery.must_resync {
            return Err(Unbindable::Gap);
        }
        delivery.sent.knows(resume).map_err(|Missing| Unbindable::Gap)?;
        self.free(delivery.sent.resume(resume, Instant::now()));
        delivery.stream = Some(Arc::clone(stream));
        self.queue().stream = Some(Arc::clone(stream));
        stream.wake();
        Ok(())
    }

    /// Unbinds `stream`, which has ended. Undelivered messages are sent on the next stream.
    pub fn release(&self, stream: &Arc<StreamHandle>) {
        let mut delivery = self.delivery();
        if is_same(delivery.stream.as_ref(), stream) {
            delivery.stream = None;
            self.lose_stream(&mut delivery);
        }
    }

    /// The client of `stream` has received all messages up to number `seq`.
    pub fn acknowledge(&self, stream: &Arc<StreamHandle>, seq: u64) {
        let mut delivery = self.delivery();
        if is_same(delivery.stream.as_ref(), stream) {
            self.free(delivery.sent.acknowledge(seq));
        }
    }

    fn lose_stream(&self, delivery: &mut Delivery) {
        let confirmed = delivery.sent.stream_lost(Instant::now());
        let mut queue = self.queue();
        queue.free(confirmed);
        queue.stream = None;
        let has_something = !delivery.sent.is_empty() || !queue.is_empty();
        delivery.must_resync |= self.bounds.resyncs && has_something;
    }

    /// Drops sent messages until `load` fits, and some more, so that this is rarely needed.
    #[cold]
    fn make_room(&self, load: Load) {
        let mut delivery = self.delivery();
        let excess = self.queue().excess_with(load);
        self.free(delivery.sent.discard(excess));
    }

    fn free(&self, load: Load) {
        if load != Load::default() {
            self.queue().free(load);
        }
    }

    fn delivery(&self) -> MutexGuard<'_, Delivery> {
        locked(&self.delivery)
    }

    fn queue(&self) -> MutexGuard<'_, WaitingQueue<R>> {
        locked(&self.queue)
    }
}

impl<R: Reply> AnyOutbox for Outbox<R> {
    fn is_bound(&self) -> bool {
        self.queue().stream.is_some()
    }

    fn forget_confirmed(&self) {
        let mut delivery = self.delivery();
        self.free(delivery.sent.expire(Instant::now()));
    }

    fn wake(&self) {
        if let Some(stream) = &self.queue().stream {
            stream.wake();
        }
    }

    fn end_stream(&self, numbered: bool, end: &StreamEnd) {
        let mut delivery = self.delivery();
        let is_meant = |stream: &mut Arc<StreamHandle>| stream.numbering().is_some() == numbered;
        if let Some(stream) = delivery.stream.take_if(is_meant) {
            self.lose_stream(&mut delivery);
            stream.close(end.clone());
        }
    }

    fn close(&self, end: &StreamEnd) -> bool {
        let mut delivery = self.delivery();
        delivery.sent.clear();
        let stream = delivery.stream.take();
        // The session is over: its backlog no longer matters.
        let _ = self.backlog.remove(self.queue().close());
        if let Some(stream) = &stream {
            stream.close(end.clone());
        }
        stream.is_some()
    }
}

fn is_same(current: Option<&Arc<StreamHandle>>, stream: &Arc<StreamHandle>) -> bool {
    current.is_some_and(|current| Arc::ptr_eq(current, stream))
}

#[cfg(test)]
mod tests;
