//! The numbered requests of a session, over all its streams: [`Sequence`] under a lock, and those who
//! wait for room in it.
//!
//! # Why no task of its own
//! The stream that brings the request which is due hands it on, and whatever is held behind it: with
//! one stream at a time no request changes threads. A stream that hands on for others does not read
//! meanwhile, which is what flow control wants of it.
//!
//! # Invariant
//! Nobody waits under the lock, and no other lock is taken under it.

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

/// The numbered requests of a session.
pub(super) struct Intake {
    sequence: Mutex<Sequence<AnyRequest>>,
    /// Something was handed on: there is room again.
    room: Notify,
}

/// What has become of a numbered request.
pub(in crate::grpc) enum Arrived<'s> {
    /// It is due.
    Due(HandingOn<'s>),
    /// It is held, or was there before.
    Held,
    /// It has to wait for [`room`](Session::room).
    NoRoom(Box<AnyRequest>),
}

/// The right to hand requests on. Given back when it is dropped.
pub(in crate::grpc) struct HandingOn<'s> {
    session: &'s Session,
    /// Nothing is in hand any more.
    is_done: bool,
}

impl Intake {
    pub(super) fn new(terms: &Terms) -> Self {
        let sequence = Sequence::new(terms.ingress, terms.gap_timeout);
        Self { sequence: Mutex::new(sequence), room: Notify::new() }
    }

    /// Where a stream would begin whose client numbers its requests.
    pub(super) fn numbering(&self) -> Numbering {
        self.sequence().numbering()
    }

    /// Such a stream begins.
    pub(super) fn begin(&self, now: Instant) {
        self.sequence().begin(now);
    }

    /// Another manager goes on with the session. Returns the number of the last request that was
    /// taken.
    pub(super) fn take_over(&self) -> u64 {
        let taken = self.sequence().take_over().taken;
        // What waits for room is of the one before it.
        self.room.notify_waiters();
        taken
    }

    /// When somebody has to look at a gap.
    pub(super) fn due(&self) -> Option<Instant> {
        self.sequence().due()
    }

    /// Looks at the gap.
    pub(super) fn expire(&self, now: Instant) -> Gap {
        self.sequence().expire(now)
    }

    /// Drops what is held. Returns the number of the last request that was taken.
    pub(super) fn forget(&self) -> u64 {
        let mut sequence = self.sequence();
        sequence.forget();
        self.room.notify_waiters();
        sequence.taken(0)
    }

    fn sequence(&self) -> MutexGuard<'_, Sequence<AnyRequest>> {
        self.sequence.lock().expect("no holder panics")
    }
}

impl Session {
    /// Up to which number requests were taken, for a stream that has told `told` of them.
    pub(in crate::grpc) fn taken(&self, told: u64) -> u64 {
        self.intake.sequence().taken(told)
    }

    /// A numbered request has come. Whoever gets [`HandingOn`] has to hand on what is due.
    pub(in crate::grpc) fn arrive(
        &self,
        numbering: Numbering,
        number: u64,
        request: AnyRequest,
        load: Load,
    ) -> Result<Arrived<'_>, StreamEnd> {
        let now = Instant::now();
        let (arrival, wants_watch) = {
            let mut sequence = self.intake.sequence();
            let arrival = sequence.arrive(numbering.generation, number, request, load, now);
            (arrival, sequence.wants_watch())
        };
        if wants_watch {
            self.watch_gap();
        }
        match arrival {
            Arrival::HandOn => Ok(Arrived::Due(HandingOn { session: self, is_done: false })),
            Arrival::Held | Arrival::Repeat => Ok(Arrived::Held),
            Arrival::NoRoom(request) => Ok(Arrived::NoRoom(Box::new(request))),
            Arrival::Outdated => Err(StreamEnd::Displaced { by: None }),
            Arrival::Gap => Err(self.end_for_gap()),
        }
    }

    /// Resolves when there may be room again. Enable it before a request is tried.
    pub(in crate::grpc) fn room(&self) -> Notified<'_> {
        self.intake.room.notified()
    }
}

impl HandingOn<'_> {
    /// The next request, if one is due. To be asked only while the session is the current one.
    pub(in crate::grpc) fn next(&mut self) -> Next<AnyRequest> {
        let (next, wants_watch) = {
            let mut sequence = self.session.intake.sequence();
            let next = sequence.next(Instant::now());
            self.is_done = matches!(next, Next::Done);
            (next, self.is_done && sequence.wants_watch())
        };
        self.session.intake.room.notify_waiters();
        if wants_watch {
            self.session.watch_gap();
        }
        next
    }

    /// The first of those that were handed on is taken.
    pub(in crate::grpc) fn took(&mut self) {
        let wakes = self.session.intake.sequence().took();
        if wakes {
            self.session.wake_streams();
        }
    }
}

impl Drop for HandingOn<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.session.intake.sequence().abandon(Instant::now());
            self.session.intake.room.notify_waiters();
        }
    }
}
