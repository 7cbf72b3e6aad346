//! The ring of events, and its followers.
//!
//! # Why a lock
//! Readers run on other threads than the writer, and a reader that begins with past events must not
//! miss events that are added while it begins. One short lock around ring and followers ensures
//! that. The writer is the front's thread, never a partition's.
//!
//! # Invariants
//! * Ids begin at 0, are unique, and ascend in the order in which events were appended. The ring holds one
//!   range of ids without a gap.
//! * A follower gets every event after its last past one, or is notified that it was dropped: its
//!   past events are read and it is added under one lock.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use monoceros_proto::si::v1::EventRecord;
use monoceros_proto::si::v1::event_record::Type;
use tokio::sync::mpsc;

use super::{EventKind, Happening, NamedEvent};

/// The most events that wait for a follower, unless it asked for more room.
pub(super) const WAITING_MAX: usize = 1000;

/// An event, with the RM of its partition.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    rm: Arc<str>,
    happening: Happening,
    /// The position among the events of the happening.
    part: usize,
}

impl Entry {
    /// The event as it is read.
    pub(super) fn read(&self) -> NamedEvent {
        self.happening.event(self.part).read()
    }

    /// The event as it is sent.
    pub(super) fn record(&self) -> EventRecord {
        self.happening.event(self.part).record()
    }

    fn kind(&self) -> EventKind {
        self.happening.kind(self.part)
    }
}

/// The number of happenings in a stretch; a stretch is dropped as a whole.
const STRETCH: usize = 128;

/// A part of the ring; the ids of its events have no gap.
#[derive(Debug)]
struct Stretch {
    /// The id of its first event.
    first: u64,
    /// The id after that of its last event.
    end: u64,
    happened: Vec<Happening>,
    /// Runs of happenings of one RM: the position of the first in `happened`, and the RM.
    rms: Vec<(usize, Arc<str>)>,
}

impl Stretch {
    fn extend(&mut self, rm: &Arc<str>, more: impl Iterator<Item = Happening>) {
        let before = self.happened.len();
        if self.rms.last().is_none_or(|(_, last)| **last != **rm) {
            self.rms.push((before, Arc::clone(rm)));
        }
        self.happened.extend(more);
        self.end += events(&self.happened[before..]) as u64;
    }

    /// Returns the events from this id on, with their ids.
    fn entries(&self, from: u64) -> impl Iterator<Item = (u64, Entry)> {
        let mut next = self.first;
        self.happened.iter().enumerate().flat_map(move |(place, happening)| {
            let first = next;
            next += happening.len() as u64;
            let run = self.rms.partition_point(|(from, _)| *from <= place) - 1;
            let all = (first..).zip(entries(&self.rms[run].1, happening));
            // Skips happenings before `from` without making their entries.
            all.take(if next > from { usize::MAX } else { 0 }).filter(move |(id, _)| *id >= from)
        })
    }
}

/// The number of events.
fn events(happened: &[Happening]) -> usize {
    happened.iter().map(Happening::len).sum()
}

/// The events of a happening in a partition of this RM.
fn entries(rm: &Arc<str>, happening: &Happening) -> impl Iterator<Item = Entry> {
    (0..happening.len()).map(|part| Entry {
        rm: Arc::clone(rm),
        happening: happening.clone(),
        part,
    })
}

/// The newest events, with ascending ids and without gaps.
///
/// They are kept in stretches, so that an event is written to memory once, and a dropped stretch leaves
/// its memory to the next one.
#[derive(Debug)]
pub(super) struct Ring {
    /// In ascending order of ids; none is empty. The first events of the oldest stretch may be below
    /// `lowest`.
    stretches: VecDeque<Stretch>,
    /// The memory of a dropped stretch.
    spare: Vec<Happening>,
    /// The lowest id that is kept.
    lowest: u64,
    /// The id of the next event.
    next: u64,
    capacity: usize,
}

impl Ring {
    fn new(capacity: usize) -> Self {
        Self { stretches: VecDeque::new(), spare: Vec::new(), lowest: 0, next: 0, capacity }
    }

    /// Appends happenings; the list is empty afterwards.
    fn extend(&mut self, rm: &Arc<str>, happened: &mut Vec<Happening>) {
        let mut more = happened.drain(..);
        while more.len() > 0 {
            if self.stretches.back().is_none_or(|last| last.happened.len() == STRETCH) {
                self.begin_stretch();
            }
            let last = self.stretches.back_mut().expect("there is one with room");
            last.extend(rm, more.by_ref().take(STRETCH - last.happened.len()));
            self.next = last.end;
        }
        drop(more);
        self.shrink();
    }

    fn begin_stretch(&mut self) {
        self.shrink();
        let mut happened = std::mem::take(&mut self.spare);
        happened.reserve_exact(STRETCH);
        let (first, end) = (self.next, self.next);
        self.stretches.push_back(Stretch { first, end, happened, rms: Vec::new() });
    }

    /// Drops stretches beyond the capacity.
    fn shrink(&mut self) {
        self.lowest = self.lowest.max(self.next.saturating_sub(self.capacity as u64));
        while self.stretches.front().is_some_and(|oldest| oldest.end <= self.lowest) {
            let oldest = self.stretches.pop_front();
            self.spare = oldest.map(|oldest| oldest.happened).unwrap_or_default();
            self.spare.clear();
        }
    }

    /// The lowest and the highest id; both 0 before the first event.
    fn bounds(&self) -> (u64, u64) {
        if self.next == 0 { (0, 0) } else { (self.lowest, self.next - 1) }
    }

    /// At most `count` entries from the id `start` on; none if this id is not kept.
    fn range(&self, start: u64, count: u64) -> impl Iterator<Item = (u64, Entry)> {
        let is_there = (self.lowest..self.next).contains(&start);
        let at = self.stretches.partition_point(|stretch| stretch.end <= start);
        let at = if is_there { at } else { self.stretches.len() };
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.stretches.range(at..).flat_map(move |stretch| stretch.entries(start)).take(count)
    }

    /// All entries, the newest first.
    fn newest_first(&self) -> impl Iterator<Item = (u64, Entry)> {
        let of_stretch = |stretch: &Stretch| stretch.entries(self.lowest).collect::<Vec<_>>();
        let newest_first = self.stretches.iter().rev();
        newest_first.flat_map(move |stretch| of_stretch(stretch).into_iter().rev())
    }
}

/// A reader that gets new events.
#[derive(Debug)]
struct Follower {
    filter: EventFilter,
    sender: mpsc::Sender<(u64, Entry)>,
    lagged: Arc<AtomicBool>,
}

impl Follower {
    /// Sends the follower an event, if that passes its filter. Returns whether it continues to
    /// follow.
    fn takes(&self, id: u64, entry: &Entry) -> bool {
        if !self.filter.wants(entry) {
            return !self.sender.is_closed();
        }
        match self.sender.try_send((id, entry.clone())) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.lagged.store(true, Ordering::Relaxed);
                false
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }
}

/// The ring and its followers, shared by the writer and the readers.
#[derive(Debug)]
pub(super) struct Log(Mutex<StoredEvent>);

#[derive(Debug)]
struct StoredEvent {
    ring: Ring,
    followers: Vec<Follower>,
}

impl Log {
    pub(super) fn new(capacity: usize) -> Self {
        Self(Mutex::new(StoredEvent { ring: Ring::new(capacity), followers: Vec::new() }))
    }

    fn held(&self) -> MutexGuard<'_, StoredEvent> {
        // No code panics between two changes that belong together.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the number of kept events; ids stay.
    pub(super) fn resize(&self, capacity: usize) {
        let mut held = self.held();
        held.ring.capacity = capacity;
        held.ring.shrink();
    }

    /// Appends happenings; the list is empty afterwards. Returns the first events, at most `wanted`, and
    /// the number of all.
    pub(super) fn append(
        &self,
        rm: &Arc<str>,
        happened: &mut Vec<Happening>,
        wanted: usize,
    ) -> (Vec<Entry>, usize) {
        let first = happened.iter().flat_map(|happening| entries(rm, happening));
        let first = first.take(wanted).collect();
        let mut held = self.held();
        let StoredEvent { ring, followers } = &mut *held;
        let before = ring.next;
        let mut followed = Vec::new();
        if !followers.is_empty() {
            followed.extend(happened.iter().flat_map(|happening| entries(rm, happening)));
        }
        // The ring gets the events first, so that ids are unique whatever the waker of a reader
        // does.
        ring.extend(rm, happened);
        for (id, entry) in (before..).zip(followed) {
            followers.retain(|follower| follower.takes(id, &entry));
        }
        let count = usize::try_from(ring.next - before).unwrap_or(usize::MAX);
        (first, count)
    }

    pub(super) fn range(&self, start: u64, count: u64) -> EventRange {
        let held = self.held();
        let (lowest, highest) = held.ring.bounds();
        let entries: Vec<_> = held.ring.range(start, count).map(|(_, entry)| entry).collect();
        drop(held);
        let records = entries.iter().map(Entry::read).collect();
        EventRange { lowest, highest, records }
    }

    /// Adds a follower; at most `room` events wait for it.
    pub(super) fn follow(
        &self,
        history: History,
        filter: EventFilter,
        room: usize,
    ) -> EventSubscription {
        let (sender, live) = mpsc::channel(room);
        let lagged = Arc::new(AtomicBool::new(false));
        let mut held = self.held();
        let wanted = |(_, entry): &(u64, Entry)| filter.wants(entry);
        let ring = &held.ring;
        let past = match history {
            History::From(id) => ring.range(id.max(ring.lowest), u64::MAX).filter(wanted).collect(),
            History::Last(count) => {
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                let newest_first = ring.newest_first();
                let mut past: VecDeque<_> = newest_first.filter(wanted).take(count).collect();
                past.make_contiguous().reverse();
                past
            }
        };
        let (lag, live_from) = (Arc::clone(&lagged), ring.next);
        held.followers.push(Follower { filter, sender, lagged: lag });
        EventSubscription { past, live, live_from, lagged }
    }
}

/// Events of a range of ids, and the range of all kept events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventRange {
    /// The lowest kept id; 0 before the first event.
    pub lowest: u64,
    /// The highest id; 0 before the first event.
    pub highest: u64,
    /// The requested events without a gap: the first has the requested id. Empty if that id is not kept.
    pub records: Vec<NamedEvent>,
}

/// The past events that a reader gets before new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// At most this many of the newest kept events that pass its filter.
    Last(u64),
    /// All from this id on, or from the lowest kept id.
    From(u64),
}

/// A filter for events. The default is all events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// The types of objects; empty: all types.
    pub types: Vec<Type>,
    /// The RM; `None`: all RMs.
    pub rm_id: Option<String>,
}

impl EventFilter {
    fn wants(&self, entry: &Entry) -> bool {
        let of_rm = self.rm_id.as_deref().is_none_or(|rm| *entry.rm == *rm);
        of_rm && (self.types.is_empty() || self.types.contains(&entry.kind().on_wire().0))
    }
}

/// The next item for a follower.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "all but the last are events, one at a time")]
pub enum Streamed {
    /// The next event.
    Event {
        /// The id in the ring.
        id: u64,
        /// The event itself.
        record: NamedEvent,
    },
    /// The reader was too slow: further events are lost to it, and nothing follows.
    Lagged,
}

/// A subscription of events: first past ones, then new ones, without a gap.
#[derive(Debug)]
pub struct EventSubscription {
    past: VecDeque<(u64, Entry)>,
    live: mpsc::Receiver<(u64, Entry)>,
    live_from: u64,
    lagged: Arc<AtomicBool>,
}

impl EventSubscription {
    /// The id of the first event after the past ones.
    pub fn live_from(&self) -> u64 {
        self.live_from
    }

    /// Waits for the next events, and returns at most `most` of them with their ids. `None`: nothing
    /// follows, because the scheduler has ended or the reader was too slow. Dropping the future loses no
    /// event.
    pub async fn next_many(&mut self, most: usize) -> Option<Vec<(u64, NamedEvent)>> {
        let mut entries: Vec<_> = self.past.drain(..most.min(self.past.len())).collect();
        if entries.is_empty() && self.live.recv_many(&mut entries, most).await == 0 {
            return None;
        }
        Some(entries.iter().map(|(id, entry)| (*id, entry.read())).collect())
    }

    /// Waits for the next event. `None`: the scheduler has ended, or the reader has got
    /// [`Streamed::Lagged`]. Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<Streamed> {
        let next = match self.past.pop_front() {
            Some(past) => Some(past),
            None => self.live.recv().await,
        };
        match next {
            Some((id, entry)) => Some(Streamed::Event { id, record: entry.read() }),
            None => self.lagged.swap(false, Ordering::Relaxed).then_some(Streamed::Lagged),
        }
    }
}

#[cfg(test)]
mod tests;
