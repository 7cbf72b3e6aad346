//! The numbers that a client gives its requests: which of them were taken, which come too early and
//! are held, and which are missing. Without streams or a clock.
//!
//! # Why numbers
//! A stream that breaks takes with it what was on its way, and its client cannot know what that was;
//! and the streams of a session overtake each other. With one number for each request, counted over
//! all streams of the session, requests take effect in the order in which they were made, the client
//! hears up to which number they were taken, and what it sends again is not taken twice.
//!
//! # Invariants
//! * Requests are taken in the order of their numbers, each once, without a gap.
//! * What is held is of the present [generation](Numbering::generation) and has a number that was not
//!   taken.
//! * What is held never exceeds the bounds, the next one that is due aside.
//! * One task at a time hands requests on: the one that was told [`Arrival::HandOn`], until
//!   [`Sequence::next`] has nothing more for it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::backlog::Load;

/// Streams are woken to tell what was taken at the latest after so many requests.
pub(in crate::grpc) const TOLD_AFTER: u64 = 1_000;

/// The numbered requests of one session.
#[derive(Debug)]
pub(super) struct Sequence<T> {
    bounds: Load,
    patience: Duration,
    /// Who counts: a manager that takes over from another begins a new one.
    generation: u64,
    /// Everything up to this number was taken.
    taken: u64,
    held: BTreeMap<u64, Held<T>>,
    load: Load,
    /// How many requests are in the hands of the task that hands them on, if one does.
    in_hand: Option<u64>,
    /// Since when something is held that cannot be handed on.
    gap_since: Option<Instant>,
    /// Somebody looks at the gap when it is due.
    is_watched: bool,
    /// A stream has told everything that was taken so far, and waits for more.
    wants_news: bool,
}

#[derive(Debug)]
struct Held<T> {
    request: T,
    load: Load,
}

/// Where a stream begins to number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::grpc) struct Numbering {
    /// Who counts.
    pub(in crate::grpc) generation: u64,
    /// The number of the last request that was taken.
    pub(in crate::grpc) taken: u64,
}

/// What becomes of a request that has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival<T> {
    /// It is held, and the caller has to hand on what is due.
    HandOn,
    /// It is held; somebody else hands it on, or it comes too early.
    Held,
    /// It was taken before, or is held already.
    Repeat,
    /// Another manager has taken over.
    Outdated,
    /// As much is held as may be; it can come again when something was handed on.
    NoRoom(T),
    /// As much is held as may be, and none of it is due.
    Gap,
}

/// What a task that hands requests on has to do next.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::grpc) enum Next<T> {
    /// Hand this one on.
    Request(T),
    /// See to it that what is in hand is taken; there may be more then.
    NoneYet,
    /// Nothing: from now on another task may hand on.
    Done,
}

/// What becomes of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    /// There is none that has to be looked at.
    None,
    /// To be looked at then.
    Until(Instant),
    /// It lasts too long. What was held is dropped, for the client to send again.
    Overdue,
}

impl<T> Sequence<T> {
    /// Nothing has come yet. `bounds` of what is held, `patience` with a gap.
    pub(super) fn new(bounds: Load, patience: Duration) -> Self {
        Self {
            bounds,
            patience,
            generation: 0,
            taken: 0,
            held: BTreeMap::new(),
            load: Load::default(),
            in_hand: None,
            gap_since: None,
            is_watched: false,
            wants_news: false,
        }
    }

    /// A stream begins. What is missing may come by it, so the time of a gap begins anew.
    pub(super) fn begin(&mut self, now: Instant) -> Numbering {
        if let Some(since) = &mut self.gap_since {
            *since = now;
        }
        self.numbering()
    }

    /// Another manager goes on with the session, and counts from what was taken so far. What the
    /// one before it still sends is dropped.
    pub(super) fn take_over(&mut self) -> Numbering {
        self.generation += 1;
        self.forget();
        self.numbering()
    }

    /// Who counts, and from where on. What is in somebody's hands will have been taken by the time that
    /// anybody asks.
    pub(super) fn numbering(&self) -> Numbering {
        let taken = self.taken + self.in_hand.unwrap_or(0);
        Numbering { generation: self.generation, taken }
    }

    /// A request of that number has come by a stream of that generation.
    pub(super) fn arrive(
        &mut self,
        generation: u64,
        number: u64,
        request: T,
        load: Load,
        now: Instant,
    ) -> Arrival<T> {
        if generation != self.generation {
            return Arrival::Outdated;
        }
        let Numbering { taken, .. } = self.numbering();
        if number <= taken || self.held.contains_key(&number) {
            return Arrival::Repeat;
        }
        let total = self.load.plus(load);
        if number > taken + 1 && !total.fits(self.bounds) {
            let moves = self.in_hand.is_some() || self.held.contains_key(&(taken + 1));
            return if moves { Arrival::NoRoom(request) } else { Arrival::Gap };
        }
        self.load = total;
        self.held.insert(number, Held { request, load });
        if self.in_hand.is_some() {
            return Arrival::Held;
        }
        if number == taken + 1 {
            self.in_hand = Some(0);
            return Arrival::HandOn;
        }
        self.gap_since.get_or_insert(now);
        Arrival::Held
    }

    /// The next request, for the task that hands them on. When there is none and it has nothing in
    /// hand, that task is done.
    pub(super) fn next(&mut self, now: Instant) -> Next<T> {
        let in_hand = self.in_hand.unwrap_or(0);
        if let Some(Held { request, load }) = self.held.remove(&(self.taken + in_hand + 1)) {
            self.load = self.load.minus(load);
            self.in_hand = Some(in_hand + 1);
            self.gap_since = None;
            return Next::Request(request);
        }
        if in_hand > 0 {
            return Next::NoneYet;
        }
        self.in_hand = None;
        self.gap_since = (!self.held.is_empty()).then_some(now);
        Next::Done
    }

    /// The first that is in hand is taken. Returns whether the streams have to be woken to tell it.
    pub(super) fn took(&mut self) -> bool {
        self.in_hand = self.in_hand.map(|in_hand| in_hand.saturating_sub(1));
        self.taken += 1;
        std::mem::take(&mut self.wants_news) || self.taken.is_multiple_of(TOLD_AFTER)
    }

    /// The task that handed requests on ends, with whatever it had in its hands.
    pub(super) fn abandon(&mut self, now: Instant) {
        self.in_hand = None;
        self.gap_since = (!self.held.is_empty()).then_some(now);
    }

    /// Up to which number requests were taken, for a stream that has told `told` of them: more than
    /// that where it began while some were in hand.
    pub(super) fn taken(&mut self, told: u64) -> u64 {
        self.wants_news |= told >= self.taken;
        self.taken
    }

    /// Whether there is a gap that nobody looks at. Whoever asks does from now on.
    pub(super) fn wants_watch(&mut self) -> bool {
        self.gap_since.is_some() && !std::mem::replace(&mut self.is_watched, true)
    }

    /// When the gap is to be looked at, if somebody does. Where there is none, nobody does from now
    /// on.
    pub(super) fn due(&mut self) -> Option<Instant> {
        self.is_watched &= self.gap_since.is_some();
        let since = self.gap_since.filter(|_| self.is_watched)?;
        since.checked_add(self.patience)
    }

    /// Looks at the gap.
    pub(super) fn expire(&mut self, now: Instant) -> Gap {
        match self.due() {
            None => Gap::None,
            Some(due) if due > now => Gap::Until(due),
            Some(_) => {
                self.forget();
                Gap::Overdue
            }
        }
    }

    /// Drops what is held.
    pub(super) fn forget(&mut self) {
        self.held = BTreeMap::new();
        self.load = Load::default();
        self.gap_since = None;
        self.is_watched = false;
    }
}

#[cfg(test)]
mod tests;
