//! The numbered requests of a session over all its streams: a [`Sequence`] under a lock, and the
//! tasks that wait for room in it.
//!
//! # Why no task of its own
//! The stream that receives the next request forwards it and all held requests behind it, so with
//! one stream at a time no request changes threads. A stream that forwards for others does not read
//! in the meantime, which is what flow control needs.
//!
//! # Invariant
//! No task waits while it holds the lock, and no other lock is taken under it.

use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use super::Session;
use super::backlog::Load;
use super::sequence::{Arrival, Gap, Next, Numbering, Sequence};
use super::terms::Terms;
use crate::grpc::end::StreamEnd;
use crate::grpc::kind::AnyRequest;
use crate::locked::locked;

/// The numbered requests of a session.
pub(super) struct Intake {
    sequence: Mutex<Sequence<AnyRequest>>,
    /// Notified when a request was forwarded: there is room again.
    room: Notify,
}

/// The fate of a numbered request that arrived.
pub(in crate::grpc) enum Arrived<'s> {
    /// The request is the next one: the caller has to forward requests.
    Due(Forwarder<'s>),
    /// The request is held, or it is a repeat.
    Held,
    /// The request has to wait for [`room`](Session::room).
    NoRoom(Box<AnyRequest>),
}

/// The permission to forward requests, returned on drop.
pub(in crate::grpc) struct Forwarder<'s> {
    session: &'s Session,
    /// Set when no forwarded request waits to be taken.
    is_done: bool,
}

impl Intake {
    pub(super) fn new(terms: &Terms) -> Self {
        let sequence = Sequence::new(terms.ingress, terms.gap_timeout);
        Self { sequence: Mutex::new(sequence), room: Notify::new() }
    }

    /// The numbering for a stream that would bind now.
    pub(super) fn numbering(&self) -> Numbering {
        self.sequence().numbering()
    }

    /// Records that a stream with numbers begins.
    pub(super) fn begin(&self, now: Instant) {
        self.sequence().begin(now);
    }

    /// Hands the numbering over to another instance that continues the session. Returns the number
    /// of the last request that was taken.
    pub(super) fn take_over(&self) -> u64 {
        let taken = self.sequence().take_over().taken;
        // Requests that wait for room belong to the previous instance.
        self.room.notify_waiters();
        taken
    }

    /// The deadline of the present gap, if it is watched.
    pub(super) fn due(&self) -> Option<Instant> {
        self.sequence().due()
    }

    /// Checks the deadline of the gap.
    pub(super) fn expire(&self, now: Instant) -> Gap {
        self.sequence().expire(now)
    }

    /// Drops the held requests. Returns the number of the last request that was taken.
    pub(super) fn forget(&self) -> u64 {
        let mut sequence = self.sequence();
        sequence.forget();
        self.room.notify_waiters();
        sequence.taken(0)
    }

    fn sequence(&self) -> MutexGuard<'_, Sequence<AnyRequest>> {
        locked(&self.sequence)
    }
}

impl Session {
    /// The number of the last request taken, for a stream that has reported `reported`.
    pub(in crate::grpc) fn taken(&self, reported: u64) -> u64 {
        self.intake.sequence().taken(reported)
    }

    /// Adds a numbered request. A caller that gets a [`Forwarder`] has to forward with it.
    pub(in crate::grpc) fn arrive(
        &self,
        numbering: Numbering,
        number: u64,
        request: AnyRequest,
        load: Load,
    ) -> Result<Arrived<'_>, StreamEnd> {
        let now = Instant::now();
        let (arrival, needs_watch) = {
            let mut sequence = self.intake.sequence();
            let arrival = sequence.arrive(numbering.generation, number, request, load, now);
            (arrival, sequence.needs_watch())
        };
        if needs_watch {
            self.watch_gap();
        }
        match arrival {
            Arrival::Forward => Ok(Arrived::Due(Forwarder { session: self, is_done: false })),
            Arrival::Held | Arrival::Repeat => Ok(Arrived::Held),
            Arrival::NoRoom(request) => Ok(Arrived::NoRoom(Box::new(request))),
            Arrival::Outdated => Err(StreamEnd::Displaced { by: None }),
            Arrival::Gap => Err(self.end_for_gap()),
        }
    }

    /// Resolves when there may be room again. Call `enable` on it before trying a request.
    pub(in crate::grpc) fn room(&self) -> Notified<'_> {
        self.intake.room.notified()
    }
}

impl Forwarder<'_> {
    /// The next request, if there is one. Call it only while the session is the current one.
    pub(in crate::grpc) fn next(&mut self) -> Next<AnyRequest> {
        let (next, needs_watch) = {
            let mut sequence = self.session.intake.sequence();
            let next = sequence.next(Instant::now());
            self.is_done = matches!(next, Next::Done);
            (next, self.is_done && sequence.needs_watch())
        };
        self.session.intake.room.notify_waiters();
        if needs_watch {
            self.session.watch_gap();
        }
        next
    }

    /// Records that the scheduler has taken the oldest forwarded request.
    pub(in crate::grpc) fn mark_taken(&mut self) {
        let wakes = self.session.intake.sequence().mark_taken();
        if wakes {
            self.session.wake_streams();
        }
    }
}

impl Drop for Forwarder<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.session.intake.sequence().abandon(Instant::now());
            self.session.intake.room.notify_waiters();
        }
    }
}
