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
//! * At most one [`Line`] takes messages; the newest.
//! * What waits never exceeds the outbox bounds. The push that would is refused, and the session
//!   must then be closed: something has been lost. What was sent makes room first.
//!
//! # Two locks
//! The scheduler pushes under that of the queue alone, so that it never waits while a message that
//! leaves is encoded. Whoever takes, binds or confirms holds that of the delivery first.

mod sent;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use self::sent::{Missing, Sent};
use super::end::End;
use super::line::Line;
use super::reply::{Cutter, Reply};
use super::session::backlog::{Backlog, Load};

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
pub struct Overflow;

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
    queue: Mutex<Queue<R>>,
}

/// Held before the queue by whoever needs both.
struct Delivery {
    line: Option<Arc<Line>>,
    sent: Sent,
    /// A stream was lost while there was something to deliver, and nothing is sent again.
    must_resync: bool,
}

struct Queue<R> {
    waiting: VecDeque<Waiting<R>>,
    load: Load,
    /// Of what was sent and is kept.
    kept: Load,
    /// The same as that of the delivery, to be woken.
    line: Option<Arc<Line>>,
    closed: bool,
}

struct Waiting<R> {
    reply: R,
    load: Load,
}

/// An outbox of whatever kind.
pub trait AnyOutbox {
    /// Whether a stream takes its messages.
    fn is_bound(&self) -> bool;

    /// Forgets sent messages that time has confirmed, in case nothing more is sent that would.
    fn forget_confirmed(&self);

    /// Drops what waits and what will come, and ends the stream that took messages. Says whether
    /// there was one.
    fn close(&self, end: &End) -> bool;
}

impl<R: Reply> Outbox<R> {
    /// An empty outbox that no stream takes from yet; what waits in it counts in `backlog`.
    pub fn new(bounds: Bounds, backlog: &Arc<Backlog>) -> Self {
        let sent = Sent::new(bounds.grace);
        let queue = Queue {
            waiting: VecDeque::new(),
            load: Load::default(),
            kept: Load::default(),
            line: None,
            closed: false,
        };
        Self {
            bounds,
            backlog: Arc::clone(backlog),
            delivery: Mutex::new(Delivery { line: None, sent, must_resync: false }),
            queue: Mutex::new(queue),
        }
    }

    /// Adds a message and wakes the stream. A message without items, or one for an outbox that is
    /// closed, vanishes.
    pub fn push(&self, reply: R) -> Result<(), Overflow> {
        let items = reply.items();
        if items == 0 {
            return Ok(());
        }
        // Measured and cut before the lock is taken: streams of other threads wait for it.
        let load = Load { items, bytes: reply.encoded_len() };
        let chunks = self.chunks(reply, load);
        let mut queue = self.queue();
        if !queue.load.plus(queue.kept).plus(load).fits(self.bounds.outbox) {
            drop(queue);
            self.make_room(load);
            queue = self.queue();
        }
        if queue.closed {
            return Ok(());
        }
        if !queue.load.plus(queue.kept).plus(load).fits(self.bounds.outbox) {
            return Err(Overflow);
        }
        for chunk in chunks {
            queue.load = queue.load.plus(chunk.load);
            self.backlog.add(chunk.load);
            queue.append(chunk, self.bounds);
        }
        if let Some(line) = &queue.line {
            line.wake();
        }
        Ok(())
    }

    /// The next message, if `line` is the one that takes them.
    pub fn take(&self, line: &Arc<Line>) -> Option<R> {
        let mut delivery = self.delivery();
        if !is_same(delivery.line.as_ref(), line) {
            return None;
        }
        let now = Instant::now();
        if let Some(reply) = delivery.sent.again(now) {
            return Some(reply);
        }
        let confirmed = delivery.sent.expire(now);
        let Waiting { mut reply, load } = {
            let mut queue = self.queue();
            queue.kept = queue.kept.minus(confirmed);
            let waiting = queue.waiting.pop_front()?;
            queue.load = queue.load.minus(waiting.load);
            queue.kept = queue.kept.plus(waiting.load);
            waiting
        };
        self.backlog.remove(load);
        if !delivery.sent.keep(&mut reply, load, now) {
            self.free(load);
        }
        Some(reply)
    }

    /// From now on `line` takes the messages, first those after number `resume` that may not have
    /// been delivered; a line that did so before is displaced by `by`.
    pub fn bind(
        &self,
        line: &Arc<Line>,
        resume: Option<u64>,
        by: Option<&str>,
    ) -> Result<(), Unbindable> {
        let mut delivery = self.delivery();
        if self.queue().closed {
            return Err(Unbindable::Closed);
        }
        if resume.is_some_and(|seq| seq > 0) {
            // A mistake of the newcomer is no reason to displace anyone.
            delivery.sent.knows(resume).map_err(|Missing| Unbindable::Unknown)?;
        }
        if let Some(earlier) = delivery.line.take() {
            self.lose_stream(&mut delivery);
            earlier.close(End::Displaced { by: by.map(ToOwned::to_owned) });
        }
        if delivery.must_resync {
            return Err(Unbindable::Gap);
        }
        delivery.sent.knows(resume).map_err(|Missing| Unbindable::Gap)?;
        self.free(delivery.sent.resume(resume));
        delivery.line = Some(Arc::clone(line));
        self.queue().line = Some(Arc::clone(line));
        line.wake();
        Ok(())
    }

    /// `line` has ended; what it may not have delivered goes to the next one.
    pub fn release(&self, line: &Arc<Line>) {
        let mut delivery = self.delivery();
        if is_same(delivery.line.as_ref(), line) {
            delivery.line = None;
            self.lose_stream(&mut delivery);
        }
    }

    /// The client of `line` has got everything up to number `seq`.
    pub fn acknowledge(&self, line: &Arc<Line>, seq: u64) {
        let mut delivery = self.delivery();
        if is_same(delivery.line.as_ref(), line) {
            self.free(delivery.sent.acknowledge(seq));
        }
    }

    fn lose_stream(&self, delivery: &mut Delivery) {
        let confirmed = delivery.sent.stream_lost(Instant::now());
        let mut queue = self.queue();
        queue.kept = queue.kept.minus(confirmed);
        queue.line = None;
        let has_something = !delivery.sent.is_empty() || !queue.waiting.is_empty();
        delivery.must_resync |= self.bounds.resyncs && has_something;
    }

    /// Forgets sent messages until `load` fits, and some more, so that this is rare.
    #[cold]
    fn make_room(&self, load: Load) {
        let mut delivery = self.delivery();
        let (queued, kept) = {
            let queue = self.queue();
            (queue.load, queue.kept)
        };
        let bound = self.bounds.outbox;
        let full = queued.plus(kept).plus(load).plus(bound.percent(10));
        self.free(delivery.sent.discard(full.minus(bound)));
    }

    fn free(&self, load: Load) {
        if load != Load::default() {
            let mut queue = self.queue();
            queue.kept = queue.kept.minus(load);
        }
    }

    fn chunks(&self, reply: R, load: Load) -> Vec<Waiting<R>> {
        let within = load.items <= self.bounds.chunk_items && load.bytes <= self.bounds.chunk_bytes;
        if within || load.items == 1 {
            return vec![Waiting { reply, load }];
        }
        let mut cutter = Cutter::new(self.bounds);
        reply.cut(&mut cutter);
        let chunks = cutter.finish().into_iter();
        let measured = |reply: R| {
            let load = Load { items: reply.items(), bytes: reply.encoded_len() };
            Waiting { reply, load }
        };
        chunks.map(measured).collect()
    }

    fn delivery(&self) -> MutexGuard<'_, Delivery> {
        self.delivery.lock().expect("no holder panics")
    }

    fn queue(&self) -> MutexGuard<'_, Queue<R>> {
        self.queue.lock().expect("no holder panics")
    }
}

impl<R: Reply> AnyOutbox for Outbox<R> {
    fn is_bound(&self) -> bool {
        self.queue().line.is_some()
    }

    fn forget_confirmed(&self) {
        let mut delivery = self.delivery();
        self.free(delivery.sent.expire(Instant::now()));
    }

    fn close(&self, end: &End) -> bool {
        let mut delivery = self.delivery();
        delivery.sent.clear();
        let line = delivery.line.take();
        {
            let mut queue = self.queue();
            queue.closed = true;
            queue.waiting = VecDeque::new();
            self.backlog.remove(queue.load);
            (queue.load, queue.kept) = (Load::default(), Load::default());
            queue.line = None;
        }
        if let Some(line) = &line {
            line.close(end.clone());
        }
        line.is_some()
    }
}

impl<R: Reply> Queue<R> {
    /// Joins `chunk` to the last message that waits if the order and the bounds allow it, and puts
    /// it behind that if not.
    fn append(&mut self, chunk: Waiting<R>, bounds: Bounds) {
        if let Some(last) = self.waiting.back_mut()
            && last.load.items + chunk.load.items <= bounds.chunk_items
            // Lists add up exactly: each item is encoded on its own.
            && last.load.bytes + chunk.load.bytes <= bounds.chunk_bytes
            && last.reply.may_be_joined_by(&chunk.reply)
        {
            last.load = last.load.plus(chunk.load);
            last.reply.append(chunk.reply);
        } else {
            self.waiting.push_back(chunk);
        }
    }
}

fn is_same(current: Option<&Arc<Line>>, line: &Arc<Line>) -> bool {
    current.is_some_and(|current| Arc::ptr_eq(current, line))
}

#[cfg(test)]
mod tests {
    use monoceros_proto::si::v1 as si;
    use prost::Message as _;

    use super::super::session::backlog::Marks;
    use super::*;

    const ROOMY: Bounds = Bounds {
        chunk_items: 1_000,
        chunk_bytes: 1 << 20,
        outbox: Load { items: 1_000, bytes: 1 << 20 },
        grace: Duration::from_secs(60),
        resyncs: false,
    };

    fn empty<R: Reply>(bounds: Bounds) -> Outbox<R> {
        let marks = Marks { high: bounds.outbox, low: bounds.outbox };
        Outbox::new(bounds, &Arc::new(Backlog::new(marks)))
    }

    fn bind<R: Reply>(outbox: &Outbox<R>, line: &Arc<Line>) {
        outbox.bind(line, None, None).unwrap();
    }

    fn accepted(ids: &[&str]) -> si::NodeResponse {
        let accepted =
            ids.iter().map(|id| si::AcceptedNode { node_id: (*id).to_owned() }).collect();
        si::NodeResponse { accepted, ..si::NodeResponse::default() }
    }

    fn ids(reply: &si::NodeResponse) -> Vec<&str> {
        reply.accepted.iter().map(|node| node.node_id.as_str()).collect()
    }

    fn bound(outbox: &Outbox<si::NodeResponse>) -> Arc<Line> {
        let line = Arc::new(Line::new());
        bind(outbox, &line);
        line
    }

    #[test]
    fn what_came_before_any_stream_waits_for_the_first_one() {
        let outbox = empty(ROOMY);
        outbox.push(accepted(&["n1"])).unwrap();
        outbox.push(accepted(&["n2"])).unwrap();
        let line = bound(&outbox);
        assert_eq!(ids(&outbox.take(&line).unwrap()), ["n1", "n2"]);
        assert!(outbox.take(&line).is_none());
    }

    #[test]
    fn small_neighbours_are_joined_within_the_bounds() {
        let outbox = empty(Bounds { chunk_items: 3, ..ROOMY });
        let line = bound(&outbox);
        for pair in [["n1", "n2"], ["n3", "n4"], ["n5", "n6"]] {
            outbox.push(accepted(&pair)).unwrap();
        }
        outbox.push(accepted(&["n7"])).unwrap();
        assert_eq!(ids(&outbox.take(&line).unwrap()), ["n1", "n2"]);
        assert_eq!(ids(&outbox.take(&line).unwrap()), ["n3", "n4"]);
        assert_eq!(ids(&outbox.take(&line).unwrap()), ["n5", "n6", "n7"]);
        assert_eq!(outbox.backlog.load(), Load::default());
    }

    #[test]
    fn joined_messages_are_as_large_as_they_were_counted() {
        let bytes = accepted(&["n1", "n2", "n3"]).encoded_len();
        for (chunk_bytes, n_messages) in [(bytes, 1), (bytes - 1, 2)] {
            let outbox = empty(Bounds { chunk_bytes, ..ROOMY });
            let line = bound(&outbox);
            for id in ["n1", "n2", "n3"] {
                outbox.push(accepted(&[id])).unwrap();
            }
            let messages: Vec<_> = std::iter::from_fn(|| outbox.take(&line)).collect();
            assert_eq!(messages.len(), n_messages);
            assert!(messages.iter().all(|message| message.encoded_len() <= chunk_bytes));
        }
    }

    /// A message with one item in the list of that letter.
    fn one(list: char) -> si::AllocationResponse {
        let mut reply = si::AllocationResponse::default();
        match list {
            'n' => reply.new.push(si::Allocation::default()),
            'j' => reply.rejected.push(si::RejectedAllocationAsk::default()),
            'J' => reply.rejected_allocations.push(si::RejectedAllocation::default()),
            'r' => reply.released.push(si::AllocationRelease::default()),
            'a' => reply.released_asks.push(si::AllocationAskRelease::default()),
            other => panic!("no list `{other}`"),
        }
        reply
    }

    #[test]
    fn joining_keeps_the_order_in_which_clients_read_the_lists() {
        for (pushed, taken) in [
            ("nnjJra", "nnjJra"),
            ("rnrn", "r nr n"),
            ("nrrn", "nrr n"),
            ("arJjn", "a r J j n"),
            ("jnjr", "j njr"),
        ] {
            let outbox = empty(ROOMY);
            let line = Arc::new(Line::new());
            bind(&outbox, &line);
            for list in pushed.chars() {
                outbox.push(one(list)).unwrap();
            }
            let read = |reply: si::AllocationResponse| -> String {
                let lists = "njJra".chars().zip(reply.lengths());
                lists.map(|(list, length)| list.to_string().repeat(length)).collect()
            };
            let messages: Vec<_> = std::iter::from_fn(|| outbox.take(&line)).map(read).collect();
            assert_eq!(messages.join(" "), taken, "of {pushed}");
        }
    }

    #[test]
    fn a_newer_stream_displaces_the_older_and_gets_the_rest() {
        let outbox = empty(ROOMY);
        let older = bound(&outbox);
        outbox.push(accepted(&["n1"])).unwrap();
        let newer = bound(&outbox);
        assert!(matches!(older.end(), Some(End::Displaced { .. })));
        assert!(outbox.take(&older).is_none());
        outbox.release(&older);
        assert_eq!(ids(&outbox.take(&newer).unwrap()), ["n1"]);
    }

    #[test]
    fn a_large_message_is_cut_by_items_and_by_bytes() {
        let outbox = empty(Bounds { chunk_items: 2, ..ROOMY });
        let line = bound(&outbox);
        outbox.push(accepted(&["n1", "n2", "n3"])).unwrap();
        assert_eq!(ids(&outbox.take(&line).unwrap()), ["n1", "n2"]);
        assert_eq!(ids(&outbox.take(&line).unwrap()), ["n3"]);

        let outbox = empty(Bounds { chunk_bytes: 40, ..ROOMY });
        let line = bound(&outbox);
        let long = "n".repeat(100);
        outbox.push(accepted(&["n1", "n2", &long, "n3"])).unwrap();
        assert_eq!(ids(&outbox.take(&line).unwrap()), ["n1", "n2"]);
        assert_eq!(ids(&outbox.take(&line).unwrap()), [&long], "larger than a chunk, so alone");
        assert_eq!(ids(&outbox.take(&line).unwrap()), ["n3"]);
    }

    #[test]
    fn a_cut_keeps_the_order_in_which_clients_read_the_lists() {
        let outbox = empty(Bounds { chunk_items: 1, ..ROOMY });
        let line = Arc::new(Line::new());
        bind(&outbox, &line);
        let mixed = si::AllocationResponse {
            released_asks: vec![si::AllocationAskRelease::default()],
            released: vec![si::AllocationRelease::default()],
            rejected: vec![si::RejectedAllocationAsk::default()],
            new: vec![si::Allocation::default()],
            ..si::AllocationResponse::default()
        };
        outbox.push(mixed).unwrap();
        assert_eq!(outbox.take(&line).unwrap().new.len(), 1);
        assert_eq!(outbox.take(&line).unwrap().rejected.len(), 1);
        assert_eq!(outbox.take(&line).unwrap().released.len(), 1);
        assert_eq!(outbox.take(&line).unwrap().released_asks.len(), 1);
    }

    #[test]
    fn one_item_too_many_is_refused_and_taking_makes_room() {
        let outbox = empty(Bounds { outbox: Load { items: 2, bytes: 999 }, ..ROOMY });
        let line = bound(&outbox);
        outbox.push(accepted(&["n1", "n2"])).unwrap();
        outbox.push(accepted(&["n3"])).unwrap_err();
        outbox.take(&line).unwrap();
        outbox.push(accepted(&["n3"])).unwrap();

        let outbox = empty(Bounds { outbox: Load { items: 9, bytes: 5 }, ..ROOMY });
        outbox.push(accepted(&["n1", "n2"])).unwrap_err();
    }

    #[test]
    fn a_closed_outbox_keeps_nothing_and_ends_its_stream() {
        let outbox = empty(ROOMY);
        let line = bound(&outbox);
        outbox.push(accepted(&["n1"])).unwrap();
        outbox.close(&End::Superseded { by: None });
        outbox.push(accepted(&["n2"])).unwrap();
        assert!(outbox.take(&line).is_none());
        assert!(matches!(line.end(), Some(End::Superseded { .. })));
        outbox.bind(&line, None, None).unwrap_err();
    }

    /// Node ids of every message that `line` can take.
    fn all(outbox: &Outbox<si::NodeResponse>, line: &Arc<Line>) -> Vec<String> {
        let messages = std::iter::from_fn(|| outbox.take(line));
        messages.flat_map(|reply| reply.accepted).map(|node| node.node_id).collect()
    }

    #[test]
    fn a_new_stream_gets_what_the_lost_one_may_not_have_delivered_before_anything_new() {
        let outbox = empty(Bounds { chunk_items: 1, ..ROOMY });
        let line = bound(&outbox);
        outbox.push(accepted(&["n1", "n2"])).unwrap();
        assert_eq!(all(&outbox, &line), ["n1", "n2"]);
        outbox.push(accepted(&["n3"])).unwrap();
        outbox.release(&line);
        outbox.push(accepted(&["n4"])).unwrap();
        let next = bound(&outbox);
        assert_eq!(all(&outbox, &next), ["n1", "n2", "n3", "n4"]);
        assert!(all(&outbox, &next).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_outlives_the_grace_has_delivered() {
        let outbox = empty(ROOMY);
        let line = bound(&outbox);
        outbox.push(accepted(&["n1"])).unwrap();
        assert_eq!(all(&outbox, &line), ["n1"]);
        tokio::time::advance(ROOMY.grace).await;
        outbox.push(accepted(&["n2"])).unwrap();
        assert_eq!(all(&outbox, &line), ["n2"]);
        outbox.release(&line);
        let next = bound(&outbox);
        assert_eq!(all(&outbox, &next), ["n2"]);
        tokio::time::advance(ROOMY.grace).await;
        outbox.forget_confirmed();
        assert_eq!(outbox.queue().kept, Load::default());
    }

    #[test]
    fn a_client_that_resumes_sees_numbers_and_gets_what_comes_after_its_last() {
        let outbox = empty(Bounds { chunk_items: 1, ..ROOMY });
        let line = Arc::new(Line::new());
        outbox.bind(&line, Some(0), None).unwrap();
        outbox.push(accepted(&["n1", "n2", "n3"])).unwrap();
        let numbers = std::iter::from_fn(|| outbox.take(&line)).map(|reply| reply.seq);
        assert_eq!(numbers.collect::<Vec<_>>(), [1, 2, 3]);
        outbox.acknowledge(&line, 1);
        let next = Arc::new(Line::new());
        outbox.bind(&next, Some(2), None).unwrap();
        let again = outbox.take(&next).unwrap();
        assert_eq!((again.seq, ids(&again)), (3, vec!["n3"]));
        // A mistake does not cost the stream that is open its place.
        let wrong = outbox.bind(&Arc::new(Line::new()), Some(9), None);
        assert!(matches!(wrong, Err(Unbindable::Unknown)));
        assert!(next.end().is_none());
        let plain = bound(&outbox);
        assert_eq!(outbox.take(&plain).unwrap().seq, 0, "numbers are for those who ask");
    }

    #[test]
    fn what_was_sent_makes_room_and_a_loss_after_that_leaves_a_gap() {
        let outbox = empty(Bounds { outbox: Load { items: 10, bytes: 9_999 }, ..ROOMY });
        let line = bound(&outbox);
        for _ in 0..50 {
            outbox.push(accepted(&["n1", "n2", "n3"])).unwrap();
            outbox.take(&line).unwrap();
        }
        assert!(outbox.queue().kept.items <= 10);
        outbox.release(&line);
        let late = outbox.bind(&Arc::new(Line::new()), None, None);
        assert!(matches!(late, Err(Unbindable::Gap)));
    }

    #[test]
    fn where_a_loss_means_a_new_start_only_an_empty_outbox_outlives_one() {
        let outbox = empty(Bounds { resyncs: true, ..ROOMY });
        let idle = bound(&outbox);
        outbox.release(&idle);
        let line = bound(&outbox);
        outbox.push(accepted(&["n1"])).unwrap();
        outbox.release(&line);
        let late = outbox.bind(&Arc::new(Line::new()), None, None);
        assert!(matches!(late, Err(Unbindable::Gap)));
    }

    #[test]
    fn without_grace_nothing_is_kept() {
        let outbox = empty(Bounds { grace: Duration::ZERO, ..ROOMY });
        let line = bound(&outbox);
        outbox.push(accepted(&["n1"])).unwrap();
        outbox.take(&line).unwrap();
        assert_eq!(outbox.queue().kept, Load::default());
        outbox.release(&line);
        assert!(all(&outbox, &bound(&outbox)).is_empty());
    }
}
