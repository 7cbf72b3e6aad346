//! One reader of events for all streams.
//!
//! # Why one
//! A hundred streams with readers of their own would cost the thread that records events a hundred
//! sends per event, and each line would be formatted a hundred times. Instead one reader formats
//! the new lines once, as one chunk of bytes, and sends it to every stream.
//!
//! # Invariants
//! * A stream receives every chunk from the number at which it began, or is closed.
//! * At most [`WAITING_MAX`] events are queued for a stream. A stream that reads too slowly is
//!   closed after it has received its queue.
//! * Without streams there is no reader: it ends with the next event.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use monoceros_actors::{EventFilter, EventReader, EventSubscription, History};
use tokio::sync::mpsc;
use tokio::task::yield_now;

use super::shown::lines;

/// Most events queued for a stream.
const WAITING_MAX: usize = 1_000;

/// Most events queued for the reader: enough for a cluster whose nodes all register at once.
const ROOM: usize = 1 << 16;

/// Most events of a chunk.
const CHUNK: usize = 256;

/// The reader. Clones share it.
#[derive(Clone, Debug, Default)]
pub(in crate::rest) struct Pump(Arc<Mutex<Pumped>>);

#[derive(Debug, Default)]
struct Pumped {
    /// The number of the next event. `None` if there is no reader.
    position: Option<u64>,
    /// Open streams.
    leases: usize,
    listeners: Vec<Listener>,
}

#[derive(Debug)]
struct Listener {
    chunks: mpsc::UnboundedSender<Chunk>,
    waiting: Arc<AtomicUsize>,
}

/// The lines of some events.
#[derive(Clone, Debug)]
struct Chunk {
    lines: Bytes,
    events: usize,
}

/// Keeps the reader running while it exists.
#[derive(Debug)]
pub(super) struct ReaderLease(Pump);

#[derive(Debug)]
pub(super) struct ChunkQueue {
    chunks: mpsc::UnboundedReceiver<Chunk>,
    waiting: Arc<AtomicUsize>,
}

impl Pump {
    /// Keeps a reader of these events running until the `ReaderLease` is dropped.
    pub(super) fn join(&self, events: &EventReader) -> ReaderLease {
        let mut pumped = self.pumped();
        pumped.leases += 1;
        if pumped.position.is_none() {
            let (from_now_on, all) = (History::Last(0), EventFilter::default());
            let followed = events.subscribe_with_room(from_now_on, all, ROOM);
            pumped.position = Some(followed.live_from());
            tokio::spawn(self.clone().read(followed));
        }
        drop(pumped);
        ReaderLease(self.clone())
    }

    async fn read(self, mut followed: EventSubscription) {
        while let Some(events) = followed.next_many(CHUNK).await {
            let Some((last, _)) = events.last() else { continue };
            let position = last + 1;
            let chunk = Chunk {
                lines: lines(events.iter().map(|(_, record)| record)),
                events: events.len(),
            };
            if !self.hand_out(position, &chunk) {
                return;
            }
            // Lets streams take this chunk before the next one.
            yield_now().await;
        }
        // The scheduler has ended or the reader was too slow: every stream ends.
        let mut pumped = self.pumped();
        pumped.position = None;
        pumped.listeners.clear();
    }

    /// Sends a chunk to all streams. Returns whether any stream is open.
    fn hand_out(&self, position: u64, chunk: &Chunk) -> bool {
        let mut pumped = self.pumped();
        pumped.listeners.retain(|listener| listener.takes(chunk));
        pumped.position = Some(position).filter(|_| pumped.leases > 0);
        pumped.position.is_some()
    }

    fn pumped(&self) -> MutexGuard<'_, Pumped> {
        // No code panics between two writes, so a poisoned lock is safe to use.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    /// Queues a chunk. `false` closes the stream.
    fn takes(&self, chunk: &Chunk) -> bool {
        let waiting = self.waiting.fetch_add(chunk.events, Ordering::Relaxed) + chunk.events;
        waiting <= WAITING_MAX && self.chunks.send(chunk.clone()).is_ok()
    }
}

impl ReaderLease {
    /// Returns the number of the next event. `None` if the reader has ended.
    pub(super) fn position(&self) -> Option<u64> {
        self.0.pumped().position
    }

    /// Joins the listeners, and returns the number of the first event that they will receive.
    pub(super) fn listen(&self) -> Option<(u64, ChunkQueue)> {
        let mut pumped = self.0.pumped();
        let position = pumped.position?;
        let (sender, chunks) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        pumped.listeners.push(Listener { chunks: sender, waiting: Arc::clone(&waiting) });
        Some((position, ChunkQueue { chunks, waiting }))
    }
}

impl Drop for ReaderLease {
    fn drop(&mut self) {
        self.0.pumped().leases -= 1;
    }
}

impl ChunkQueue {
    /// Returns the lines of the next events. `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        let chunk = self.chunks.recv().await?;
        self.waiting.fetch_sub(chunk.events, Ordering::Relaxed);
        Some(chunk.lines)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn chunk(events: usize) -> Chunk {
        Chunk { lines: Bytes::from_static(b"x\n"), events }
    }

    /// Makes a pump at this number, with one open stream.
    fn pump_at(position: u64) -> (Pump, ReaderLease) {
        let pump = Pump::default();
        *pump.pumped() = Pumped { position: Some(position), leases: 1, listeners: vec![] };
        (pump.clone(), ReaderLease(pump))
    }

    #[test]
    fn a_listener_receives_later_chunks() {
        let (pump, lease) = pump_at(7);
        assert!(pump.hand_out(9, &chunk(2)));
        let (from, mut queue) = lease.listen().unwrap();
        assert_eq!((from, lease.position()), (9, Some(9)));
        assert!(queue.next().now_or_never().is_none());
        assert!(pump.hand_out(10, &chunk(1)));
        assert!(queue.next().now_or_never().is_some_and(|lines| lines.is_some()));
    }

    #[test]
    fn a_slow_listener_is_closed_after_its_queue() {
        let (pump, lease) = pump_at(0);
        let (_, mut slow) = lease.listen().unwrap();
        let (_, mut quick) = lease.listen().unwrap();
        let mut n_slow = 0;
        for n in 1..=5 {
            assert!(pump.hand_out(n * 250, &chunk(250)));
            assert!(quick.next().now_or_never().unwrap().is_some());
        }
        while let Some(Some(_)) = slow.next().now_or_never() {
            n_slow += 1;
        }
        assert_eq!(n_slow, 4, "a thousand events wait, and the next are too many");
        assert!(slow.next().now_or_never().unwrap().is_none());
        assert!(quick.next().now_or_never().is_none(), "it waits for more");
        assert_eq!(pump.pumped().listeners.len(), 1);
    }

    #[test]
    fn the_reader_ends_without_streams() {
        let (pump, lease) = pump_at(0);
        assert!(pump.hand_out(1, &chunk(1)));
        drop(lease);
        assert!(!pump.hand_out(2, &chunk(1)));
        assert_eq!(pump.pumped().position, None);
    }
}
