//! Events for a shim: kept in a ring buffer, sent as the shim grants credit.
//!
//! A shim writes events to records of its orchestrator, which is slow and may stall. The ring
//! bounds their memory, and the credit keeps events from filling the stream on which questions
//! wait. The scheduler delivers events in batches, one per second; those covered by credit are sent
//! at once.
//!
//! # Invariants
//! * Event numbers rise over all streams of a session, and are assigned before any filter.
//! * The ring never exceeds its capacity; events dropped unsent are counted and reported.

use std::collections::VecDeque;

use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as cb;
use prost::Message as _;

/// Most events in a batch.
const BATCH: usize = 256;

/// The initial credit if the shim names none.
const FIRST_CREDIT: u32 = 256;

#[derive(Debug)]
pub(super) struct Events {
    capacity: usize,
    ring: VecDeque<si::EventRecord>,
    /// The number of the newest event.
    last: u64,
    reader: Option<EventReader>,
}

/// The stream that receives events.
#[derive(Debug)]
struct EventReader {
    /// Empty for all types.
    types: Vec<i32>,
    credit: usize,
    /// The number of the next event to examine.
    next: u64,
    /// The number of wanted events from `next` on.
    wanted: usize,
    dropped: u64,
    max_bytes: usize,
}

impl Events {
    /// Creates a ring of this capacity.
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, ring: VecDeque::new(), last: 0, reader: None }
    }

    /// The number of the newest event.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Starts a stream after the last event that the shim received, or with all events if it
    /// received none of this session.
    pub(super) fn attach(&mut self, hello: &cb::Hello, max_bytes: usize) {
        let first = self.first();
        // A number that was not assigned yet belongs to another session, whose events are not in
        // this ring.
        let asked = if hello.last_event_seq > self.last { 1 } else { hello.last_event_seq + 1 };
        let next = asked.max(first);
        let dropped = if hello.last_event_seq == 0 { 0 } else { next - asked };
        let credit = match hello.initial_event_credit {
            0 => FIRST_CREDIT,
            credit => credit,
        };
        let types = hello.event_types.clone();
        let credit = credit as usize;
        let mut reader = EventReader { types, credit, next, wanted: 0, dropped, max_bytes };
        let unread = self.ring.iter().skip(index(next - first));
        reader.wanted = unread.filter(|event| reader.wants(event)).count();
        self.reader = Some(reader);
    }

    /// Records the loss of the stream.
    pub(super) fn detach(&mut self) {
        self.reader = None;
    }

    /// Adds events. Returns the number of wanted events that were dropped.
    pub(super) fn push(&mut self, events: Vec<si::EventRecord>) -> u64 {
        let mut dropped = 0;
        for event in events {
            if self.ring.len() == self.capacity {
                dropped += self.drop_oldest();
            }
            self.last += 1;
            if let Some(reader) = &mut self.reader
                && reader.wants(&event)
            {
                reader.wanted += 1;
            }
            self.ring.push_back(event);
        }
        dropped
    }

    /// Adds credit.
    pub(super) fn add_credit(&mut self, credit: u32) {
        if let Some(reader) = &mut self.reader {
            reader.credit = reader.credit.saturating_add(credit as usize);
        }
    }

    /// The next batch that the credit allows.
    pub(super) fn next_batch(&mut self) -> Option<cb::EventBatch> {
        let first = self.first();
        let reader = self.reader.as_mut()?;
        if reader.credit == 0 || reader.wanted == 0 {
            return None;
        }
        let most = BATCH.min(reader.credit);
        let mut batch = cb::EventBatch { dropped: reader.dropped, ..Default::default() };
        batch.first_seq = reader.next;
        let mut bytes = 0;
        for event in self.ring.iter().skip(index(reader.next - first)) {
            if reader.wants(event) {
                let size = event.encoded_len() + 8;
                let full = batch.events.len() == most
                    || (bytes + size > reader.max_bytes && !batch.events.is_empty());
                if full {
                    break;
                }
                bytes += size;
                batch.events.push(event.clone());
            }
            reader.next += 1;
        }
        batch.last_seq = reader.next - 1;
        reader.dropped = 0;
        reader.credit -= batch.events.len();
        reader.wanted -= batch.events.len();
        Some(batch)
    }

    /// The number of the oldest event in the ring.
    fn first(&self) -> u64 {
        self.last + 1 - self.ring.len() as u64
    }

    fn drop_oldest(&mut self) -> u64 {
        let first = self.first();
        let Some(event) = self.ring.pop_front() else { return 0 };
        let Some(reader) = &mut self.reader else { return 0 };
        if reader.next > first {
            return 0;
        }
        reader.next = first + 1;
        if !reader.wants(&event) {
            return 0;
        }
        reader.wanted -= 1;
        reader.dropped += 1;
        1
    }
}

impl EventReader {
    fn wants(&self, event: &si::EventRecord) -> bool {
        self.types.is_empty() || self.types.contains(&event.r#type)
    }
}

fn index(distance: u64) -> usize {
    usize::try_from(distance).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 1 << 20;

    fn events(range: std::ops::RangeInclusive<u64>) -> Vec<si::EventRecord> {
        range.map(|n| si::EventRecord { object_id: n.to_string(), ..typed(1) }).collect()
    }

    fn typed(r#type: i32) -> si::EventRecord {
        si::EventRecord { r#type, ..Default::default() }
    }

    fn span(batch: &cb::EventBatch) -> (u64, u64, u64, usize) {
        (batch.first_seq, batch.last_seq, batch.dropped, batch.events.len())
    }

    fn hello(last_event_seq: u64, initial_event_credit: u32) -> cb::Hello {
        cb::Hello { last_event_seq, initial_event_credit, ..Default::default() }
    }

    #[test]
    fn events_are_sent_in_batches() {
        let mut ring = Events::new(1_000);
        ring.attach(&hello(0, 1_000), BYTES);
        ring.push(events(1..=3));
        assert_eq!(span(&ring.next_batch().unwrap()), (1, 3, 0, 3));
        ring.push(events(4..=300));
        assert_eq!(span(&ring.next_batch().unwrap()), (4, 259, 0, 256));
        assert_eq!(span(&ring.next_batch().unwrap()), (260, 300, 0, 41));
        assert!(ring.next_batch().is_none());
    }

    #[test]
    fn oldest_events_are_dropped_without_credit() {
        let mut ring = Events::new(10);
        ring.attach(&hello(0, 2), BYTES);
        assert_eq!(ring.push(events(1..=5)), 0);
        assert_eq!(span(&ring.next_batch().unwrap()), (1, 2, 0, 2));
        assert!(ring.next_batch().is_none(), "no credit");
        assert_eq!(ring.push(events(6..=100)), 88);
        assert_eq!(ring.ring.len(), 10);
        ring.add_credit(100);
        assert_eq!(span(&ring.next_batch().unwrap()), (91, 100, 88, 10));
    }

    #[test]
    fn stream_resumes_after_the_last_event() {
        let mut ring = Events::new(10);
        ring.push(events(1..=20));
        for (last, expected) in [
            (15, (16, 20, 0, 5)),
            (4, (11, 20, 6, 10)),
            (0, (11, 20, 0, 10)),
            (10, (11, 20, 0, 10)),
            (21, (11, 20, 10, 10)),
            (5_000, (11, 20, 10, 10)),
        ] {
            ring.attach(&hello(last, 0), BYTES);
            assert_eq!(span(&ring.next_batch().unwrap()), expected, "after {last}");
            ring.detach();
        }
        ring.attach(&hello(20, 0), BYTES);
        assert!(ring.next_batch().is_none());
    }

    #[test]
    fn only_wanted_types_are_sent_and_counted() {
        let mut ring = Events::new(4);
        let wanted = cb::Hello { event_types: vec![2], ..hello(0, 1) };
        ring.attach(&wanted, BYTES);
        ring.push(vec![typed(1), typed(2), typed(3), typed(2)]);
        assert_eq!(span(&ring.next_batch().unwrap()), (1, 3, 0, 1));
        assert_eq!(ring.push(vec![typed(1); 3]), 0, "the second one is still there");
        assert_eq!(ring.push(vec![typed(1)]), 1);
    }

    #[test]
    fn batch_respects_the_message_limit() {
        let mut ring = Events::new(10);
        ring.attach(&hello(0, 0), 30);
        ring.push(events(1..=9));
        let batch = ring.next_batch().unwrap();
        assert!(batch.events.len() < 9 && batch.encoded_len() < 50, "{batch:?}");
    }
}
