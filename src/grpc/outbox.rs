//! What one session has to say on one kind of stream, until a stream of that kind takes it.
//!
//! # Why not a channel
//! Streams come and go while the session stays: a channel would have to be handed on with what is
//! still in it. Here a stream *takes* a message only when its client can receive it, and whatever
//! is not taken waits for the next stream.
//!
//! # Invariants
//! * Messages leave in the order in which they came, cut so that none exceeds the chunk bounds
//!   (one item that is larger than that goes alone).
//! * Small neighbours are joined up to the chunk bounds: a client that is behind gets few large
//!   messages in place of many small ones.
//! * Cutting and joining keep the order in which clients deal with the lists of a message
//!   (scheduler-interface chapter, 1.9), so that neither ever turns cause and effect around.
//! * At most one [`Line`] takes messages; the newest.
//! * What waits never exceeds the outbox bounds. The push that would is refused, and the session
//!   must then be closed: something has been lost.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use super::end::End;
use super::line::Line;
use super::reply::{Cutter, Reply};
use crate::settings::{GrpcSettings, SessionSettings};

/// How much fits into a message and into an outbox.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most items in one message.
    pub chunk_items: usize,
    /// Most bytes in one message.
    pub chunk_bytes: usize,
    /// Most items that wait.
    pub outbox_items: usize,
    /// Most bytes that wait.
    pub outbox_bytes: usize,
}

/// More waited than the outbox may hold.
#[derive(Debug)]
pub struct Overflow;

/// The outbox has been closed.
#[derive(Debug)]
pub struct Closed;

/// The messages of one kind that wait, and the stream that takes them.
pub struct Outbox<R> {
    bounds: Bounds,
    state: Mutex<State<R>>,
}

struct State<R> {
    waiting: VecDeque<Waiting<R>>,
    items: usize,
    bytes: usize,
    line: Option<Arc<Line>>,
    closed: bool,
}

struct Waiting<R> {
    reply: R,
    items: usize,
    bytes: usize,
}

impl Bounds {
    /// The bounds that the settings give.
    pub fn new(grpc: &GrpcSettings, session: &SessionSettings) -> Self {
        Self {
            chunk_items: grpc.send_chunk_items.get(),
            chunk_bytes: grpc.send_chunk_bytes.get(),
            outbox_items: session.outbox_items.get(),
            outbox_bytes: session.outbox_bytes.get(),
        }
    }
}

impl<R: Reply> Outbox<R> {
    /// An empty outbox that no stream takes from yet.
    pub fn new(bounds: Bounds) -> Self {
        let state =
            State { waiting: VecDeque::new(), items: 0, bytes: 0, line: None, closed: false };
        Self { bounds, state: Mutex::new(state) }
    }

    /// Adds a message and wakes the stream. A message without items, or one for an outbox that is
    /// closed, vanishes.
    pub fn push(&self, reply: R) -> Result<(), Overflow> {
        let items = reply.items();
        if items == 0 {
            return Ok(());
        }
        // Measured and cut before the lock is taken: streams of other threads wait for it.
        let bytes = reply.encoded_len();
        let chunks = self.chunks(reply, items, bytes);
        let mut state = self.lock();
        if state.closed {
            return Ok(());
        }
        if state.items + items > self.bounds.outbox_items
            || state.bytes.saturating_add(bytes) > self.bounds.outbox_bytes
        {
            return Err(Overflow);
        }
        for chunk in chunks {
            state.items += chunk.items;
            state.bytes += chunk.bytes;
            state.append(chunk, self.bounds);
        }
        if let Some(line) = &state.line {
            line.wake();
        }
        Ok(())
    }

    /// The next message, if `line` is the one that takes them.
    pub fn take(&self, line: &Arc<Line>) -> Option<R> {
        let mut state = self.lock();
        if !state.is_taken_by(line) {
            return None;
        }
        let Waiting { reply, items, bytes } = state.waiting.pop_front()?;
        state.items -= items;
        state.bytes -= bytes;
        Some(reply)
    }

    /// From now on `line` takes the messages; a line that did so before is displaced.
    pub fn bind(&self, line: &Arc<Line>) -> Result<(), Closed> {
        let earlier = {
            let mut state = self.lock();
            if state.closed {
                return Err(Closed);
            }
            state.line.replace(Arc::clone(line))
        };
        if let Some(earlier) = earlier {
            earlier.close(End::Displaced);
        }
        line.wake();
        Ok(())
    }

    /// `line` has ended; what waits goes to the next one.
    pub fn release(&self, line: &Arc<Line>) {
        let mut state = self.lock();
        if state.is_taken_by(line) {
            state.line = None;
        }
    }

    /// Drops what waits and what will come, and ends the line that took messages.
    pub fn close(&self, end: &End) {
        let line = {
            let mut state = self.lock();
            state.closed = true;
            state.waiting = VecDeque::new();
            (state.items, state.bytes) = (0, 0);
            state.line.take()
        };
        if let Some(line) = line {
            line.close(end.clone());
        }
    }

    fn chunks(&self, reply: R, items: usize, bytes: usize) -> Vec<Waiting<R>> {
        let within = items <= self.bounds.chunk_items && bytes <= self.bounds.chunk_bytes;
        if within || items == 1 {
            return vec![Waiting { reply, items, bytes }];
        }
        let mut cutter = Cutter::new(self.bounds);
        reply.cut(&mut cutter);
        let chunks = cutter.finish().into_iter();
        chunks
            .map(|reply| Waiting { items: reply.items(), bytes: reply.encoded_len(), reply })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().expect("no holder panics")
    }
}

impl<R: Reply> State<R> {
    /// Joins `chunk` to the last message that waits if the order and the bounds allow it, and puts
    /// it behind that if not.
    fn append(&mut self, chunk: Waiting<R>, bounds: Bounds) {
        if let Some(last) = self.waiting.back_mut()
            && last.items + chunk.items <= bounds.chunk_items
            // Lists add up exactly: each item is encoded on its own.
            && last.bytes + chunk.bytes <= bounds.chunk_bytes
            && last.reply.may_be_joined_by(&chunk.reply)
        {
            last.items += chunk.items;
            last.bytes += chunk.bytes;
            last.reply.append(chunk.reply);
        } else {
            self.waiting.push_back(chunk);
        }
    }
}

impl<R> State<R> {
    fn is_taken_by(&self, line: &Arc<Line>) -> bool {
        self.line.as_ref().is_some_and(|current| Arc::ptr_eq(current, line))
    }
}

#[cfg(test)]
mod tests {
    use monoceros_proto::si::v1 as si;
    use prost::Message as _;

    use super::*;

    const ROOMY: Bounds = Bounds {
        chunk_items: 1_000,
        chunk_bytes: 1 << 20,
        outbox_items: 1_000,
        outbox_bytes: 1 << 20,
    };

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
        outbox.bind(&line).unwrap();
        line
    }

    #[test]
    fn what_came_before_any_stream_waits_for_the_first_one() {
        let outbox = Outbox::new(ROOMY);
        outbox.push(accepted(&["n1"])).unwrap();
        outbox.push(accepted(&["n2"])).unwrap();
        let line = bound(&outbox);
        assert_eq!(ids(&outbox.take(&line).unwrap()), ["n1", "n2"]);
        assert!(outbox.take(&line).is_none());
    }

    #[test]
    fn small_neighbours_are_joined_within_the_bounds() {
        let outbox = Outbox::new(Bounds { chunk_items: 3, ..ROOMY });
        let line = bound(&outbox);
        for pair in [["n1", "n2"], ["n3", "n4"], ["n5", "n6"]] {
            outbox.push(accepted(&pair)).unwrap();
        }
        outbox.push(accepted(&["n7"])).unwrap();
        assert_eq!(ids(&outbox.take(&line).unwrap()), ["n1", "n2"]);
        assert_eq!(ids(&outbox.take(&line).unwrap()), ["n3", "n4"]);
        assert_eq!(ids(&outbox.take(&line).unwrap()), ["n5", "n6", "n7"]);
        let state = outbox.lock();
        assert_eq!((state.items, state.bytes), (0, 0));
    }

    #[test]
    fn joined_messages_are_as_large_as_they_were_counted() {
        let bytes = accepted(&["n1", "n2", "n3"]).encoded_len();
        for (chunk_bytes, n_messages) in [(bytes, 1), (bytes - 1, 2)] {
            let outbox = Outbox::new(Bounds { chunk_bytes, ..ROOMY });
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
            let outbox = Outbox::new(ROOMY);
            let line = Arc::new(Line::new());
            outbox.bind(&line).unwrap();
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
        let outbox = Outbox::new(ROOMY);
        let older = bound(&outbox);
        outbox.push(accepted(&["n1"])).unwrap();
        let newer = bound(&outbox);
        assert!(matches!(older.end(), Some(End::Displaced)));
        assert!(outbox.take(&older).is_none());
        outbox.release(&older);
        assert_eq!(ids(&outbox.take(&newer).unwrap()), ["n1"]);
    }

    #[test]
    fn a_large_message_is_cut_by_items_and_by_bytes() {
        let outbox = Outbox::new(Bounds { chunk_items: 2, ..ROOMY });
        let line = bound(&outbox);
        outbox.push(accepted(&["n1", "n2", "n3"])).unwrap();
        assert_eq!(ids(&outbox.take(&line).unwrap()), ["n1", "n2"]);
        assert_eq!(ids(&outbox.take(&line).unwrap()), ["n3"]);

        let outbox = Outbox::new(Bounds { chunk_bytes: 40, ..ROOMY });
        let line = bound(&outbox);
        let long = "n".repeat(100);
        outbox.push(accepted(&["n1", "n2", &long, "n3"])).unwrap();
        assert_eq!(ids(&outbox.take(&line).unwrap()), ["n1", "n2"]);
        assert_eq!(ids(&outbox.take(&line).unwrap()), [&long], "larger than a chunk, so alone");
        assert_eq!(ids(&outbox.take(&line).unwrap()), ["n3"]);
    }

    #[test]
    fn a_cut_keeps_the_order_in_which_clients_read_the_lists() {
        let outbox = Outbox::new(Bounds { chunk_items: 1, ..ROOMY });
        let line = Arc::new(Line::new());
        outbox.bind(&line).unwrap();
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
        let outbox = Outbox::new(Bounds { outbox_items: 2, ..ROOMY });
        let line = bound(&outbox);
        outbox.push(accepted(&["n1", "n2"])).unwrap();
        outbox.push(accepted(&["n3"])).unwrap_err();
        outbox.take(&line).unwrap();
        outbox.push(accepted(&["n3"])).unwrap();

        let outbox = Outbox::new(Bounds { outbox_bytes: 5, ..ROOMY });
        outbox.push(accepted(&["n1", "n2"])).unwrap_err();
    }

    #[test]
    fn a_closed_outbox_keeps_nothing_and_ends_its_stream() {
        let outbox = Outbox::new(ROOMY);
        let line = bound(&outbox);
        outbox.push(accepted(&["n1"])).unwrap();
        outbox.close(&End::Superseded);
        outbox.push(accepted(&["n2"])).unwrap();
        assert!(outbox.take(&line).is_none());
        assert!(matches!(line.end(), Some(End::Superseded)));
        outbox.bind(&line).unwrap_err();
    }
}
