//! The order of a client's numbered requests: which were taken, which came early and are held, and
//! which are missing. Free of streams and clocks.
//!
//! # Why numbers
//! A broken stream loses the requests in flight, and the client cannot know which; and requests on
//! the streams of a session overtake each other. With one number per request, counted over all
//! streams of the session, requests take effect in the order in which they were made, the client
//! learns the last number taken, and a request sent again is not taken twice.
//!
//! # Invariants
//! * Requests are taken in the order of their numbers, each once, without a gap.
//! * Held requests belong to the present [generation](Numbering::generation), and none of their
//!   numbers was taken.
//! * Held requests never exceed the bounds, except by the next request in order.
//! * One task at a time forwards: the task that received [`Arrival::Forward`], until
//!   [`Sequence::next`] returns [`Next::Done`].

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::backlog::Load;

/// Streams are woken to report the last number taken after at most this many requests.
pub(in crate::grpc) const REPORT_AFTER: u64 = 1_000;

/// The numbered requests of one session.
#[derive(Debug)]
pub(super) struct Sequence<T> {
    bounds: Load,
    patience: Duration,
    /// Identifies the instance that numbers the requests. Another instance that takes over begins a
    /// new generation.
    generation: u64,
    /// The last number taken.
    taken: u64,
    held: BTreeMap<u64, Held<T>>,
    load: Load,
    /// The number of requests forwarded and not yet taken. `None` if no task forwards.
    in_flight: Option<u64>,
    /// The time since which requests are held that cannot be forwarded.
    gap_since: Option<Instant>,
    /// Set while a task watches the deadline of the gap.
    is_watched: bool,
    /// Set when a stream has reported every number taken up to now and waits for more.
    wants_report: bool,
}

#[derive(Debug)]
struct Held<T> {
    request: T,
    load: Load,
}

/// The point from which a stream numbers its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::grpc) struct Numbering {
    /// Identifies the instance that numbers.
    pub(in crate::grpc) generation: u64,
    pub(in crate::grpc) taken: u64,
}

/// The fate of a request that arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival<T> {
    /// Held; the caller has to forward requests.
    Forward,
    /// Held: another task forwards it, or it is early.
    Held,
    /// Dropped: it was taken before, or is held already.
    Repeat,
    /// Dropped: another instance has taken over.
    Outdated,
    /// The bounds are reached; the request can be tried again after another was forwarded.
    NoRoom(T),
    /// The bounds are reached, and none of the held requests can be forwarded.
    Gap,
}

/// The next step of the task that forwards.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::grpc) enum Next<T> {
    /// Forward this request.
    Request(T),
    /// Wait until a forwarded request is taken, then ask again.
    NoneYet,
    /// Stop: another task may forward from now on.
    Done,
}

/// The state of a gap in the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    /// No gap is watched.
    None,
    /// The gap is overdue at this time.
    Until(Instant),
    /// The gap lasted too long. The held requests were dropped; the client has to send them again.
    Overdue,
}

impl<T> Sequence<T> {
    /// An empty sequence. `bounds` limit the held requests, `patience` the duration of a gap.
    pub(super) fn new(bounds: Load, patience: Duration) -> Self {
        Self {
            bounds,
            patience,
            generation: 0,
            taken: 0,
            held: BTreeMap::new(),
            load: Load::default(),
            in_flight: None,
            gap_since: None,
            is_watched: false,
            wants_report: false,
        }
    }

    /// A stream begins. It may bring the missing request, so the time of a gap starts again.
    pub(super) fn begin(&mut self, now: Instant) -> Numbering {
        if let Some(since) = &mut self.gap_since {
            *since = now;
        }
        self.numbering()
    }

    /// Another instance continues the session from the last number taken. Requests that the earlier
    /// one still sends are dropped.
    pub(super) fn take_over(&mut self) -> Numbering {
        self.generation += 1;
        self.forget();
        self.numbering()
    }

    /// The present numbering. Requests in flight count as taken, since they are taken before any
    /// stream reports.
    pub(super) fn numbering(&self) -> Numbering {
        let taken = self.taken + self.in_flight.unwrap_or(0);
        Numbering { generation: self.generation, taken }
    }

    /// Adds a request that arrived on a stream of that generation.
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
            let moves = self.in_flight.is_some() || self.held.contains_key(&(taken + 1));
            return if moves { Arrival::NoRoom(request) } else { Arrival::Gap };
        }
        self.load = total;
        self.held.insert(number, Held { request, load });
        if self.in_flight.is_some() {
            return Arrival::Held;
        }
        if number == taken + 1 {
            self.in_flight = Some(0);
            return Arrival::Forward;
        }
        self.gap_since.get_or_insert(now);
        Arrival::Held
    }

    /// The next step of the forwarding task.
    pub(super) fn next(&mut self, now: Instant) -> Next<T> {
        let in_flight = self.in_flight.unwrap_or(0);
        if let Some(Held { request, load }) = self.held.remove(&(self.taken + in_flight + 1)) {
            self.load = self.load.minus(load);
            self.in_flight = Some(in_flight + 1);
            self.gap_since = None;
            return Next::Request(request);
        }
        if in_flight > 0 {
            return Next::NoneYet;
        }
        self.in_flight = None;
        self.gap_since = (!self.held.is_empty()).then_some(now);
        Next::Done
    }

    /// Records that the scheduler has taken the oldest request in flight. Returns whether to wake
    /// the streams, which report the number taken.
    pub(super) fn mark_taken(&mut self) -> bool {
        self.in_flight = self.in_flight.map(|in_flight| in_flight.saturating_sub(1));
        self.taken += 1;
        std::mem::take(&mut self.wants_report) || self.taken.is_multiple_of(REPORT_AFTER)
    }

    /// Ends the forwarding task; the requests it had in flight are not counted.
    pub(super) fn abandon(&mut self, now: Instant) {
        self.in_flight = None;
        self.gap_since = (!self.held.is_empty()).then_some(now);
    }

    /// The last number taken, for a stream that has reported `reported`. `reported` is larger if
    /// the stream began while requests were in flight.
    pub(super) fn taken(&mut self, reported: u64) -> u64 {
        self.wants_report |= reported >= self.taken;
        self.taken
    }

    /// Whether there is a gap that no task watches. If so, the caller has to watch it.
    pub(super) fn needs_watch(&mut self) -> bool {
        self.gap_since.is_some() && !std::mem::replace(&mut self.is_watched, true)
    }

    /// The deadline of the gap, if it is watched. Without a gap the watch ends.
    pub(super) fn due(&mut self) -> Option<Instant> {
        self.is_watched &= self.gap_since.is_some();
        let since = self.gap_since.filter(|_| self.is_watched)?;
        since.checked_add(self.patience)
    }

    /// Checks the deadline of the gap.
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

    /// Drops the held requests.
    pub(super) fn forget(&mut self) {
        self.held = BTreeMap::new();
        self.load = Load::default();
        self.gap_since = None;
        self.is_watched = false;
    }
}

#[cfg(test)]
mod tests;
