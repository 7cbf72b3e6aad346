//! The ring of events, and the readers who follow it.
//!
//! # Why a lock
//! Readers are on other threads than the writer, and a reader that begins with past events must
//! miss none that comes while it reads them. One short lock around ring and readers gives that; the
//! writer is the front's thread, never a partition.
//!
//! # Invariants
//! * Ids begin at 0 and are given once, in the order in which events were appended; what the ring
//!   holds is one range of ids without a gap.
//! * A reader who follows gets every event after the last past one it was given, or is told that
//!   it was dropped: past events are read and the reader is noted under one lock.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use monoceros_proto::si::v1::EventRecord;
use monoceros_proto::si::v1::event_record::Type;
use tokio::sync::mpsc;

use super::{EventKind, Happening, NamedEvent};

/// Events that may wait for a reader who follows, unless it has more room.
pub(super) const WAITING_MAX: usize = 1000;

/// An event, with the RM in whose partition it happened.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    rm: Arc<str>,
    happening: Happening,
    /// Its place among the events of that.
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

/// So many happenings are kept, and let go of, together.
const STRETCH: usize = 128;

/// A part of the ring: the ids of its events have no gap.
#[derive(Debug)]
struct Stretch {
    /// The id of its first event.
    first: u64,
    /// The id behind that of its last event.
    end: u64,
    happened: Vec<Happening>,
    /// Runs of what happened in partitions of one RM: the place of the first in `happened`, and the
    /// RM.
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

    /// Its events from this id on, with their ids.
    fn entries(&self, from: u64) -> impl Iterator<Item = (u64, Entry)> {
        let mut next = self.first;
        self.happened.iter().enumerate().flat_map(move |(place, happening)| {
            let first = next;
            next += happening.len() as u64;
            let run = self.rms.partition_point(|(from, _)| *from <= place) - 1;
            let all = (first..).zip(entries(&self.rms[run].1, happening));
            // Of most that come before it none is made.
            all.take(if next > from { usize::MAX } else { 0 }).filter(move |(id, _)| *id >= from)
        })
    }
}

/// How many events that is.
fn events(happened: &[Happening]) -> usize {
    happened.iter().map(Happening::len).sum()
}

/// The events of what happened in a partition of this RM.
fn entries(rm: &Arc<str>, happening: &Happening) -> impl Iterator<Item = Entry> {
    (0..happening.len()).map(|part| Entry {
        rm: Arc::clone(rm),
        happening: happening.clone(),
        part,
    })
}

/// The newest events, with ascending ids and without gaps.
///
/// They are kept in stretches, so that what comes is written to memory once, and what is let go of
/// makes room for the next.
#[derive(Debug)]
pub(super) struct Ring {
    /// In ascending order of ids; none is empty. Of the oldest the first events may not count any
    /// more.
    stretches: VecDeque<Stretch>,
    /// The room of a stretch that was let go of.
    spare: Vec<Happening>,
    /// The lowest id that counts.
    lowest: u64,
    /// The id that the next one gets.
    next: u64,
    capacity: usize,
}

impl Ring {
    fn new(capacity: usize) -> Self {
        Self { stretches: VecDeque::new(), spare: Vec::new(), lowest: 0, next: 0, capacity }
    }

    /// Takes all of it; the list is empty then.
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

    /// What counts no longer is let go of.
    fn shrink(&mut self) {
        self.lowest = self.lowest.max(self.next.saturating_sub(self.capacity as u64));
        while self.stretches.front().is_some_and(|oldest| oldest.end <= self.lowest) {
            let oldest = self.stretches.pop_front();
            self.spare = oldest.map(|oldest| oldest.happened).unwrap_or_default();
            self.spare.clear();
        }
    }

    /// Lowest and highest id; both 0 while there is none.
    fn bounds(&self) -> (u64, u64) {
        if self.next == 0 { (0, 0) } else { (self.lowest, self.next - 1) }
    }

    /// At most `count` entries from the id `start` on; none if that is not there.
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

#[derive(Debug)]
struct Follower {
    filter: EventFilter,
    sender: mpsc::Sender<(u64, Entry)>,
    lagged: Arc<AtomicBool>,
}

impl Follower {
    /// Whether it goes on following.
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

/// The ring and its followers, shared by whoever writes and whoever reads.
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
        // Nothing in here is half done when a holder panics: entries are whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on so many are kept; numbers stay.
    pub(super) fn resize(&self, capacity: usize) {
        let mut held = self.held();
        held.ring.capacity = capacity;
        held.ring.shrink();
    }

    /// Appends all of it; the list is empty then. Returns the first events, at most `wanted`, and
    /// how many there are.
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
        // Before anybody is told, so that an id is given once whatever a reader's waker does.
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

    /// Follows the events; at most `room` wait for the reader.
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

/// The events of a range of ids, and the range that is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventRange {
    /// The lowest id that is kept; 0 while nothing is.
    pub lowest: u64,
    /// The highest id; 0 while nothing is kept.
    pub highest: u64,
    /// The events asked for, without a gap: the first has the id asked for. Empty if that one is
    /// not kept.
    pub records: Vec<NamedEvent>,
}

/// Which past events a reader gets before those that come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// This many of the newest events that it wants, as far as they are kept.
    Last(u64),
    /// All from this id on, or from the lowest that is kept.
    From(u64),
}

/// Which events a reader wants; all unless it says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Events about these types of objects; if none is named, about all.
    pub types: Vec<Type>,
    /// Events of the partitions of this RM; `None`: of all RMs.
    pub rm_id: Option<String>,
}

impl EventFilter {
    fn wants(&self, entry: &Entry) -> bool {
        let of_rm = self.rm_id.as_deref().is_none_or(|rm| *entry.rm == *rm);
        of_rm && (self.types.is_empty() || self.types.contains(&entry.kind().on_wire().0))
    }
}

/// What a reader who follows is given.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "all but the last are events, one at a time")]
pub enum Streamed {
    /// The next event.
    Event {
        /// Its id in the ring.
        id: u64,
        /// What happened.
        record: NamedEvent,
    },
    /// The reader was too slow: what it has not been given is lost to it, and nothing follows.
    Lagged,
}

/// Follows the events: first past ones, then those that come, without a gap between them.
#[derive(Debug)]
pub struct EventSubscription {
    past: VecDeque<(u64, Entry)>,
    live: mpsc::Receiver<(u64, Entry)>,
    live_from: u64,
    lagged: Arc<AtomicBool>,
}

impl EventSubscription {
    /// The id of the first event behind the past ones.
    pub fn live_from(&self) -> u64 {
        self.live_from
    }

    /// The next events with their ids, at most so many, as soon as there is one. `None`: nothing
    /// follows, because the scheduler is gone or the reader was too slow. A future that is dropped
    /// loses nothing.
    pub async fn next_many(&mut self, most: usize) -> Option<Vec<(u64, NamedEvent)>> {
        let mut entries: Vec<_> = self.past.drain(..most.min(self.past.len())).collect();
        if entries.is_empty() && self.live.recv_many(&mut entries, most).await == 0 {
            return None;
        }
        Some(entries.iter().map(|(id, entry)| (*id, entry.read())).collect())
    }

    /// The next event, as soon as there is one. `None`: the scheduler is gone, or the reader has
    /// been told that it lagged. A future that is dropped loses nothing.
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
