//! Forwarding of requests to the scheduler, in batches, and in the order of their numbers if they
//! have any.

use std::mem;
use std::pin::pin;
use std::sync::Arc;

use monoceros_actors::UpdateError;
use prost::Message as _;
use tracing::error;

use super::RequestReader;
use crate::grpc::end::StreamEnd;
use crate::grpc::kind::{Forwarded, StreamKind};
use crate::grpc::registry::Slot;
use crate::grpc::session::backlog::Load;
use crate::grpc::session::{Arrived, Forwarder, Next, Numbering, Session};

/// Most messages of a batch, and about the most items.
const TOGETHER: usize = 256;

const NUMBER_UNASKED: StreamEnd = StreamEnd::Misnumbered(
    "a request has a `clientSeq`, and its stream did not ask for numbers in its metadata",
);

const NUMBER_MISSING: StreamEnd = StreamEnd::Misnumbered(
    "a request has no `clientSeq`, and its stream has asked for numbers in its metadata",
);

impl<K: StreamKind> RequestReader<K> {
    /// Processes a batch: the request `first` and the further ones that `more` returns. They are
    /// forwarded together, since each call wakes a thread.
    pub(in crate::grpc::stream) async fn accept(
        &mut self,
        first: K::Request,
        mut more: impl FnMut() -> Option<K::Request>,
    ) -> Result<(), StreamEnd> {
        let mut first = first;
        if self.bound.is_none() {
            let named = K::rm_id(&mut first).clone();
            if named.is_empty() {
                return Err(StreamEnd::RmIdMissing);
            }
            self.bind(&named).await?;
        }
        let Some((slot, session)) = &self.bound else { return Err(StreamEnd::RmIdMissing) };
        let (mut first, mut n) = (Some(first), 0);
        let next = |n_items: usize| {
            n += 1;
            first.take().or_else(|| if n > TOGETHER || n_items > TOGETHER { None } else { more() })
        };
        match self.stream.numbering() {
            Some(numbering) => self.accept_numbered(slot, session, numbering, next).await,
            None => self.accept_unnumbered(slot, session, next).await,
        }
    }

    /// Processes a batch of numbered requests. `next` receives the number of items read before.
    async fn accept_numbered(
        &self,
        slot: &Slot,
        session: &Arc<Session>,
        numbering: Numbering,
        mut next: impl FnMut(usize) -> Option<K::Request>,
    ) -> Result<(), StreamEnd> {
        let (mut n_items, mut due, mut end) = (0, None, Ok(()));
        while let Some(request) = next(n_items) {
            match self.hold(slot, session, numbering, request, &mut due).await {
                Ok(items) => n_items += items,
                Err(why) => {
                    end = Err(why);
                    break;
                }
            }
        }
        if let Some(permit) = due {
            self.forward_due(slot, session, permit).await?;
        }
        end
    }

    /// Processes a batch of requests without numbers. `next` receives the number of items read
    /// before.
    async fn accept_unnumbered(
        &self,
        slot: &Slot,
        session: &Arc<Session>,
        mut next: impl FnMut(usize) -> Option<K::Request>,
    ) -> Result<(), StreamEnd> {
        // Locked again for each batch: registrations wait for this lock, and it is fair.
        let current = self.current(slot, session).await?;
        let (mut n_items, mut forwarded, mut end) = (0, Vec::new(), Ok(()));
        while let Some(request) = next(n_items) {
            match self.check(session, request) {
                Ok((request, items)) => {
                    n_items += items;
                    if K::number(&request) != 0 {
                        end = Err(NUMBER_UNASKED);
                        break;
                    }
                    if items > 0 {
                        forwarded.push(K::forward(session, &self.edge.handle, request));
                    }
                    if forwarded.last().is_some_and(Forwarded::has_more) {
                        break;
                    }
                }
                Err(why) => {
                    end = Err(why);
                    break;
                }
            }
        }
        for forwarded in forwarded {
            self.forwarded(session, forwarded.taken().await)?;
        }
        drop(current);
        end
    }

    /// Checks a request. Returns it with its number of items.
    fn check(
        &self,
        session: &Arc<Session>,
        mut request: K::Request,
    ) -> Result<(K::Request, usize), StreamEnd> {
        let named = mem::take(K::rm_id(&mut request));
        if !named.is_empty() && named != session.rm_id() {
            return Err(StreamEnd::RmIdMismatch { bound: session.rm_id().to_owned(), named });
        }
        match K::acknowledged(&request) {
            0 => {}
            seq => K::outbox(session).acknowledge(&self.stream, seq),
        }
        let limit = self.edge.registry.items_per_message();
        let items = K::items(&request);
        if items > limit {
            return Err(StreamEnd::TooManyItems { items, limit });
        }
        session.rm_id().clone_into(K::rm_id(&mut request));
        Ok((request, items))
    }

    /// Holds a numbered request until it is the next one; `due` is then set to the permission to
    /// forward. Returns the number of items.
    async fn hold<'s>(
        &self,
        slot: &Slot,
        session: &'s Arc<Session>,
        numbering: Numbering,
        request: K::Request,
        due: &mut Option<Forwarder<'s>>,
    ) -> Result<usize, StreamEnd> {
        let (request, items) = self.check(session, request)?;
        let number = K::number(&request);
        if number == 0 {
            return if items == 0 { Ok(0) } else { Err(NUMBER_MISSING) };
        }
        // A request without items takes room, too.
        let load = Load { items: items.max(1), bytes: request.encoded_len() };
        let mut request = K::into_any(request);
        loop {
            let mut room = pin!(session.room());
            room.as_mut().enable();
            request = match session.arrive(numbering, number, request, load)? {
                Arrived::Due(permit) => {
                    *due = Some(permit);
                    return Ok(items);
                }
                Arrived::Held => return Ok(items),
                Arrived::NoRoom(request) => *request,
            };
            if let Some(permit) = due.take() {
                // No other task makes room.
                self.forward_due(slot, session, permit).await?;
                continue;
            }
            tokio::select! {
                () = room => {}
                // The client sends the waiting request again on another stream.
                () = self.stream.ended() => return Ok(items),
            }
        }
    }

    /// Forwards requests in order until none is left.
    async fn forward_due(
        &self,
        slot: &Slot,
        session: &Arc<Session>,
        mut permit: Forwarder<'_>,
    ) -> Result<(), StreamEnd> {
        loop {
            let _current = self.current(slot, session).await?;
            let (mut forwarded, mut n_items) = (Vec::new(), 0);
            while forwarded.len() < TOGETHER && n_items < TOGETHER {
                match permit.next() {
                    Next::Request(request) => {
                        n_items += request.items();
                        forwarded.push(request.forward(session, &self.edge.handle));
                        if forwarded.last().is_some_and(Forwarded::has_more) {
                            break;
                        }
                    }
                    Next::NoneYet => break,
                    Next::Done => return Ok(()),
                }
            }
            for forwarded in forwarded {
                self.forwarded(session, forwarded.taken().await)?;
                permit.mark_taken();
            }
        }
    }

    /// Locks the session as the current one of its resource manager. Fails if it is not.
    async fn current<'s>(
        &self,
        slot: &'s Slot,
        session: &Arc<Session>,
    ) -> Result<impl Drop + use<'s, K>, StreamEnd> {
        let current = slot.read().await;
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            return Ok(current);
        }
        let rm_id = session.rm_id();
        Err(session.ended().unwrap_or_else(|| self.edge.registry.not_registered(rm_id)))
    }

    /// Handles the scheduler's result for a request.
    fn forwarded(
        &self,
        session: &Arc<Session>,
        forwarded: Result<(), UpdateError>,
    ) -> Result<(), StreamEnd> {
        let Err(error) = forwarded else { return Ok(()) };
        if self.edge.shutdown.is_cancelled() {
            return Err(StreamEnd::ShuttingDown);
        }
        // The session is still the current one, so it was not ended on purpose.
        error!(rm = session.rm_id(), %error, "the scheduler does not know a session that is open");
        let (edge, session) = (Arc::clone(&self.edge), Arc::clone(session));
        // In a task of its own, since the present task holds the lock of the slot.
        tokio::spawn(async move { edge.registry.scheduler_lost(&session).await });
        Err(StreamEnd::Internal("the scheduler lost the session through a bug"))
    }
}
