//! What one session has to say on one kind of stream: until a stream of that kind takes it, and
//! then until it is sure that the client has got it.
//!
//! # Why not a channel
//! Streams come and go while the session stays: a channel would have to be handed on with what is
//! still in it. Here a stream *takes* a message only when its client can receive it; whatever is
//! not taken waits for the next stream, and what was taken is kept for it (module `sent`).
//!
//! # Invariants
//! * Messages leave in the order in which they came, cut so that none exceeds the chunk bounds
//!   (one item that is larger than that goes alone). A new stream first gets what the one before it
//!   may not have delivered.
//! * Small neighbours are joined up to the chunk bounds: a client that is behind gets few large
//!   messages in place of many small ones.
//! * Cutting and joining keep the order in which clients deal with the lists of a message, so that
//!   neither ever turns cause and effect around: the release of an allocation never overtakes it.
//! * At most one [`StreamHandle`] takes messages; the newest.
//! * What waits never exceeds the outbox bounds. The push that would is refused, and the session
//!   must then be closed: something has been lost. What was sent makes room first.
//!
//! # Two locks
//! The `queue` has what was not sent yet, the delivery what was (`sent`) and to which stream. The
//! scheduler pushes under the lock of the queue alone, so that it never waits while a message that
//! leaves is encoded. Whoever takes, binds or confirms holds that of the delivery first.

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

/// How much fits into a message and into an outbox.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most items in one message.
    pub chunk_items: usize,
    /// Most bytes in one message.
    pub chunk_bytes: usize,
    /// Most that waits or is kept.
    pub outbox: Load,
    /// How long what was sent is kept.
    pub grace: Duration,
    /// A lost stream that had anything to deliver leaves a gap, whatever is kept.
    pub resyncs: bool,
}

/// More waited than the outbox may hold.
#[derive(Debug)]
pub struct OutboxOverflow;

/// A stream cannot be bound.
#[derive(Debug)]
pub enum Unbindable {
    /// The outbox has been closed.
    Closed,
    /// What an earlier stream may not have delivered is not all there any more.
    Gap,
    /// The client names a number to go on from that was not sent, or not kept.
    Unknown,
}

/// The messages of one kind, and the stream that takes them.
pub struct Outbox<R> {
    bounds: Bounds,
    backlog: Arc<Backlog>,
    delivery: Mutex<Delivery>,
    queue: Mutex<WaitingQueue<R>>,
}

/// What was sent, and to which stream. Whoever needs this lock and that of the queue takes this one
/// first.
struct Delivery {
    stream: Option<Arc<StreamHandle>>,
    sent: Sent,
    /// A stream was lost while there was something to deliver, and nothing is sent again.
    must_resync: bool,
}

/// An outbox of whatever kind.
pub trait AnyOutbox {
    /// Whether a stream takes its messages.
    fn is_bound(&self) -> bool;

    /// Forgets sent messages that time has confirmed, in case nothing more is sent that would.
    fn forget_confirmed(&self);

    /// Wakes the stream, if there is one.
    fn wake(&self);

    /// Ends the stream if its client numbers its requests, or if not. What waits stays for the next.
    fn end_stream(&self, numbered: bool, end: &StreamEnd);

    /// Drops what waits and what will come, and ends the stream that took messages. Says whether
    /// there was one.
    fn close(&self, end: &StreamEnd) -> bool;
}

impl<R: Reply> Outbox<R> {
    /// An empty outbox that no stream takes from yet; what waits in it counts in `backlog`.
    pub fn new(bounds: Bounds, backlog: &Arc<Backlog>) -> Self {
        let sent = Sent::new(bounds.grace);
        Self {
            bounds,
            backlog: Arc::clone(backlog),
            delivery: Mutex::new(Delivery { stream: None, sent, must_resync: false }),
            queue: Mutex::new(WaitingQueue::new(bounds)),
        }
    }

    /// Adds a message and wakes the stream. A message without items, or one for an outbox that is
    /// closed, vanishes.
    pub fn push(&self, reply: R) -> Result<CrossesMark, OutboxOverflow> {
        let items = reply.items();
        if items == 0 {
            return Ok(CrossesMark(false));
        }
        // Measured and cut before the lock is taken: streams of other threads wait for it.
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

    /// The next message, if `stream` is the one that takes them. `leaving` sees it if it leaves for
    /// the first time, under the lock of the delivery.
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
        if let Some(reply) = delivery.sent.again() {
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

    /// From now on `stream` takes the messages, first those after number `resume` that may not have
    /// been delivered; a stream that did so before is displaced by `by`.
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
            // A mistake of the newcomer is no reason to displace anyone.
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

    /// `stream` has ended; what it may not have delivered goes to the next one.
    pub fn release(&self, stream: &Arc<StreamHandle>) {
        let mut delivery = self.delivery();
        if is_same(delivery.stream.as_ref(), stream) {
            delivery.stream = None;
            self.lose_stream(&mut delivery);
        }
    }

    /// The client of `stream` has got everything up to number `seq`.
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

    /// Forgets sent messages until `load` fits, and some more, so that this is rare.
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
        self.delivery.lock().expect("no holder panics")
    }

    fn queue(&self) -> MutexGuard<'_, WaitingQueue<R>> {
        self.queue.lock().expect("no holder panics")
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
        // The session is over: nobody asks any more whether too much waits.
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
