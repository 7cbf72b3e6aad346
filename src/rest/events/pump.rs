//! One reader of the events for all streams.
//!
//! # Why one
//! A hundred streams that each follow the events by themselves would cost the thread that makes the
//! events a hundred hand-overs for each, and each line would be written a hundred times. Instead one
//! reader follows; it writes the lines of what has come once, as one chunk of bytes, and hands that
//! to every stream.
//!
//! # Invariants
//! * A stream that listens gets every chunk behind the number at which it began, or is closed.
//! * Of what a stream has not taken, at most [`WAITING_MAX`] events wait; one that is slower is closed,
//!   and gets what waits first.
//! * Without streams nobody follows: the reader ends with the next event.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use monoceros_actors::{EventFilter, EventReader, EventSubscription, History};
use tokio::sync::mpsc;
use tokio::task::yield_now;

use super::shown::lines;

/// Events that may wait for a stream.
const WAITING_MAX: usize = 1_000;

/// Events that may wait for the reader: what a cluster says when all its nodes come at once.
const ROOM: usize = 1 << 16;

/// Events of one chunk.
const CHUNK: usize = 256;

/// The reader. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(in crate::rest) struct Pump(Arc<Mutex<Pumped>>);

#[derive(Debug, Default)]
struct Pumped {
    /// The number of the event that is handed out next; `None`: nobody reads.
    position: Option<u64>,
    /// Streams that are open.
    stays: usize,
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

/// Keeps the reader at work.
#[derive(Debug)]
pub(super) struct Stay(Pump);

/// What a stream is handed.
#[derive(Debug)]
pub(super) struct Listening {
    chunks: mpsc::UnboundedReceiver<Chunk>,
    waiting: Arc<AtomicUsize>,
}

impl Pump {
    /// Has these events read for as long as somebody stays.
    pub(super) fn join(&self, events: &EventReader) -> Stay {
        let mut pumped = self.pumped();
        pumped.stays += 1;
        if pumped.position.is_none() {
            let (from_now_on, all) = (History::Last(0), EventFilter::default());
            let followed = events.subscribe_with_room(from_now_on, all, ROOM);
            pumped.position = Some(followed.live_from());
            tokio::spawn(self.clone().read(followed));
        }
        drop(pumped);
        Stay(self.clone())
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
            // Before the next chunk streams get a chance to take this one.
            yield_now().await;
        }
        // The scheduler is gone, or this fell behind: nobody can go on.
        let mut pumped = self.pumped();
        pumped.position = None;
        pumped.listeners.clear();
    }

    /// Returns whether anybody is left.
    fn hand_out(&self, position: u64, chunk: &Chunk) -> bool {
        let mut pumped = self.pumped();
        pumped.listeners.retain(|listener| listener.takes(chunk));
        pumped.position = Some(position).filter(|_| pumped.stays > 0);
        pumped.position.is_some()
    }

    fn pumped(&self) -> MutexGuard<'_, Pumped> {
        // Nothing in here is half done when a holder panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    /// Whether it goes on listening.
    fn takes(&self, chunk: &Chunk) -> bool {
        let waiting = self.waiting.fetch_add(chunk.events, Ordering::Relaxed) + chunk.events;
        waiting <= WAITING_MAX && self.chunks.send(chunk.clone()).is_ok()
    }
}

impl Stay {
    /// The number of the event that is handed out next. `None`: none is, any more.
    pub(super) fn position(&self) -> Option<u64> {
        self.0.pumped().position
    }

    /// Listens from that number on, which is returned.
    pub(super) fn listen(&self) -> Option<(u64, Listening)> {
        let mut pumped = self.0.pumped();
        let position = pumped.position?;
        let (sender, chunks) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        pumped.listeners.push(Listener { chunks: sender, waiting: Arc::clone(&waiting) });
        Some((position, Listening { chunks, waiting }))
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.0.pumped().stays -= 1;
    }
}

impl Listening {
    /// The lines of the next events. `None`: there are no more for this stream.
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

    /// A pump at this number, with somebody who stays.
    fn pump_at(position: u64) -> (Pump, Stay) {
        let pump = Pump::default();
        *pump.pumped() = Pumped { position: Some(position), stays: 1, listeners: vec![] };
        (pump.clone(), Stay(pump))
    }

    #[test]
    fn who_listens_gets_what_comes_from_its_number_on() {
        let (pump, stay) = pump_at(7);
        assert!(pump.hand_out(9, &chunk(2)));
        let (from, mut listening) = stay.listen().unwrap();
        assert_eq!((from, stay.position()), (9, Some(9)));
        assert!(listening.next().now_or_never().is_none());
        assert!(pump.hand_out(10, &chunk(1)));
        assert!(listening.next().now_or_never().is_some_and(|lines| lines.is_some()));
    }

    #[test]
    fn who_is_slow_is_closed_behind_what_waits_and_others_go_on() {
        let (pump, stay) = pump_at(0);
        let (_, mut slow) = stay.listen().unwrap();
        let (_, mut quick) = stay.listen().unwrap();
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
    fn nobody_reads_when_nobody_stays() {
        let (pump, stay) = pump_at(0);
        assert!(pump.hand_out(1, &chunk(1)));
        drop(stay);
        assert!(!pump.hand_out(2, &chunk(1)));
        assert_eq!(pump.pumped().position, None);
    }
}
