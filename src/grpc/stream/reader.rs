//! The client's direction of a stream: requests are checked, ordered, and forwarded to the
//! scheduler.
//!
//! # Why in batches
//! Each forwarded request wakes a thread. So requests that have already arrived are forwarded
//! together, up to a bound. Later ones wait in the HTTP/2 windows, which slow a fast client down.

use std::future::pending;
use std::marker::PhantomData;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use monoceros_actors::UpdateError;
use prost::Message as _;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::metadata::MetadataMap;
use tracing::{debug, error};

use super::writer::ReplyWriter;
use crate::grpc::end::{StreamEnd, attempt, text};
use crate::grpc::incoming::{Broken, Decoded, Messages, RawMessage};
use crate::grpc::kind::{Forwarded, StreamKind};
use crate::grpc::registry::Slot;
use crate::grpc::session::attempt::Attempt;
use crate::grpc::session::backlog::Load;
use crate::grpc::session::{Arrived, Binding, Forwarder, Next, Numbering, Session};
use crate::grpc::stream_handle::StreamHandle;
use crate::grpc::{
    CLIENT_SEQ_HEADER, GrpcEdge, INSTANCE_HEADER, RESUME_HEADER, RM_ID_HEADER, SESSION_HEADER,
};
use crate::identity::Identity;

/// How long the stream waits for the scheduler's answers after the client has closed its side.
const LINGER: Duration = Duration::from_secs(10);

/// Most messages of a batch, and about the most items.
const TOGETHER: usize = 256;

/// Most bytes decoded for a batch in addition to its first message.
const TOGETHER_BYTES: usize = 1 << 20;

/// Most messages read from a displaced stream, whose client may still be sending.
const LATE_MESSAGES: usize = 1_000;

const METADATA_MISSING: StreamEnd = StreamEnd::Misnumbered(
    "a stream that numbers its requests names its resource manager and its session in its metadata",
);
const NO_NUMBER: StreamEnd =
    StreamEnd::Misnumbered("the metadata `x-si-client-seq` are not a number, from 0 on");
const NUMBER_UNASKED: StreamEnd = StreamEnd::Misnumbered(
    "a request has a `clientSeq`, and its stream did not ask for numbers in its metadata",
);
const NUMBER_MISSING: StreamEnd = StreamEnd::Misnumbered(
    "a request has no `clientSeq`, and its stream has asked for numbers in its metadata",
);

/// The number under a metadata key, if present.
fn number(metadata: &MetadataMap, key: &'static str) -> Result<Option<u64>, StreamEnd> {
    let text = text(metadata, key)?;
    text.map(|text| text.parse().map_err(|_| StreamEnd::BadMetadata(key))).transpose()
}

/// The client's direction of a stream.
pub(super) struct RequestReader<K> {
    edge: Arc<GrpcEdge>,
    caller: Identity,
    pub(super) stream: Arc<StreamHandle>,
    /// The session to which the stream is bound, and the slot through which requests are forwarded.
    bound: Option<(Arc<Slot>, Arc<Session>)>,
    /// The session named by the metadata.
    named: Option<String>,
    resume: Option<u64>,
    instance: Option<String>,
    /// Set if the client numbers its requests: the last number that it knows to be taken.
    known: Option<u64>,
    /// The connection attempt, if the client counts them.
    attempt: Option<Attempt>,
    kind: PhantomData<K>,
}

impl<K: StreamKind> RequestReader<K> {
    pub(super) fn new(edge: Arc<GrpcEdge>, caller: Identity) -> Self {
        Self {
            edge,
            caller,
            stream: Arc::default(),
            bound: None,
            named: None,
            resume: None,
            instance: None,
            known: None,
            attempt: None,
            kind: PhantomData,
        }
    }

    pub(super) fn writer(&self) -> ReplyWriter<K> {
        ReplyWriter {
            edge: Arc::clone(&self.edge),
            stream: Arc::clone(&self.stream),
            taken: None,
            has_sent_farewell: false,
            kind: PhantomData,
        }
    }

    pub(super) async fn bind_by_metadata(
        &mut self,
        metadata: &MetadataMap,
    ) -> Result<(), StreamEnd> {
        self.named = text(metadata, SESSION_HEADER)?.map(ToOwned::to_owned);
        self.instance = text(metadata, INSTANCE_HEADER)?.map(ToOwned::to_owned);
        self.resume = number(metadata, RESUME_HEADER)?;
        self.known = number(metadata, CLIENT_SEQ_HEADER).map_err(|_| NO_NUMBER)?;
        self.attempt = attempt(metadata)?;
        let rm_id = text(metadata, RM_ID_HEADER)?;
        if self.known.is_some() && (rm_id.is_none() || self.named.is_none()) {
            return Err(METADATA_MISSING);
        }
        match rm_id {
            Some(rm_id) => self.bind(rm_id).await,
            None => Ok(()),
        }
    }

    /// Makes this the stream of its kind in the current session of `rm_id`. Fails if the metadata
    /// name another session.
    pub(super) async fn bind(&mut self, rm_id: &str) -> Result<(), StreamEnd> {
        self.caller.check_rm(rm_id)?;
        let (slot, session) = self.edge.registry.find(rm_id, self.named.as_deref()).await?;
        {
            // The slot stays locked so that the session cannot be stopped meanwhile.
            let _current = slot.read().await;
            let binding = Binding {
                resume: self.resume,
                instance: self.instance.as_deref(),
                known: self.known,
                attempt: self.attempt.as_ref(),
            };
            session.bind::<K>(&self.stream, binding)?;
        }
        debug!(rm = rm_id, kind = K::NAME, session = session.number(), "stream bound");
        self.bound = Some((slot, session));
        Ok(())
    }

    /// Reads until either side ends the stream.
    pub(super) async fn run(mut self, mut requests: Messages) {
        let patience = self.edge.registry.bind_timeout();
        let mut bound_by = Instant::now().checked_add(patience);
        let mut turned_away = pin!(requests.turned_away());
        // A message read while filling a batch that cannot be part of it.
        let mut ahead = None;
        loop {
            let is_bound = self.bound.is_some();
            let too_late = async {
                match bound_by.filter(|_| !is_bound) {
                    Some(deadline) => sleep_until(deadline).await,
                    None => pending().await,
                }
            };
            // Only the wait is cancelled: a message that has arrived is forwarded whole.
            let next = async {
                match ahead.take() {
                    Some(message) => message,
                    None => requests.message().await,
                }
            };
            let message = tokio::select! {
                biased;
                () = self.stream.ended() => return self.finish(requests).await,
                message = next => message,
                // A large message may wait for memory, so the bind timeout does not apply to it.
                () = too_late => {
                    if requests.is_large() {
                        bound_by = None;
                        continue;
                    }
                    return self.stream.close(StreamEnd::BindTimeout(patience));
                }
                end = &mut turned_away, if !is_bound => return self.stream.close(end),
            };
            match message {
                Ok(Some(message)) => {
                    let Decoded { message: request, credit } =
                        match self.bound_and_decoded(message, &mut requests).await {
                            Ok(decoded) => decoded,
                            Err(end) => return self.refuse(end),
                        };
                    let mut bytes = 0;
                    let more = || {
                        if ahead.is_some() || bytes > TOGETHER_BYTES {
                            return None;
                        }
                        match requests.message().now_or_never()? {
                            Ok(Some(message)) if message.is_small() => {
                                bytes += message.len();
                                let decoded = message.decode_at_once();
                                decoded.map_err(|end| ahead = Some(Err(Broken::Refused(end)))).ok()
                            }
                            other => {
                                ahead = Some(other);
                                None
                            }
                        }
                    };
                    let accepted = self.accept(request, more).await;
                    // From here on the message is the scheduler's.
                    drop(credit);
                    if let Err(end) = accepted {
                        self.stream.close(end);
                        return;
                    }
                }
                Ok(None) => {
                    // Afterwards the outboxes hold every answer that is due.
                    if let Some((_, session)) = &self.bound {
                        let settled = async {
                            // The outcome does not matter: no more requests follow in either case.
                            let _ = self.edge.handle.settle_resource_manager(session.rm_id()).await;
                            if K::CARRIES_ALLOCATIONS {
                                session.attachment().all_delivered().await;
                            }
                        };
                        let _ = timeout(LINGER, settled).await;
                    }
                    self.stream.half_close();
                    return;
                }
                Err(broken) => return self.fail(broken),
            }
        }
    }

    /// Decodes a message once the stream is bound: nothing is decoded for unknown clients.
    async fn bound_and_decoded(
        &mut self,
        message: RawMessage,
        requests: &mut Messages,
    ) -> Result<Decoded<K::Request>, StreamEnd> {
        if self.bound.is_none() {
            let named = message.rm_id();
            if named.is_empty() {
                return Err(StreamEnd::RmIdMissing);
            }
            self.bind(named).await?;
            requests.bound();
        }
        message.decode().await
    }

    /// Whether the stream is bound to a session.
    pub(super) fn is_bound(&self) -> bool {
        self.bound.is_some()
    }

    /// Handles the end of the stream. If a newer stream displaced it, processes the messages
    /// already received: the client sent them before it could know, and the answers go out on the
    /// newer stream.
    async fn finish(&mut self, mut requests: Messages) {
        if !matches!(self.stream.end(), Some(StreamEnd::Displaced { .. })) {
            return;
        }
        for _ in 0..LATE_MESSAGES {
            match requests.message().now_or_never() {
                Some(Ok(Some(message))) => {
                    let Ok(decoded) = self.bound_and_decoded(message, &mut requests).await else {
                        return;
                    };
                    if self.accept(decoded.message, || None).await.is_err() {
                        return;
                    }
                }
                Some(Err(broken)) => return self.fail(broken),
                Some(Ok(None)) | None => return,
            }
        }
    }

    /// Processes a batch: a request and those that `more` has ready. They are forwarded together,
    /// since each call wakes a thread.
    pub(super) async fn accept(
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
        let mut n_items = 0;
        let mut next = {
            let mut first = Some(first);
            let mut n = 0;
            move |n_items: usize| {
                n += 1;
                first
                    .take()
                    .or_else(|| if n > TOGETHER || n_items > TOGETHER { None } else { more() })
            }
        };
        if let Some(numbering) = self.stream.numbering() {
            let (mut due, mut end) = (None, Ok(()));
            while let Some(request) = next(n_items) {
                match self.accept_numbered(slot, session, numbering, request, &mut due).await {
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
            return end;
        }
        // Locked again for each batch: registrations wait for this lock, and it is fair.
        let current = self.current(slot, session).await?;
        let (mut forwarded, mut end) = (Vec::new(), Ok(()));
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

    /// Holds a numbered request until it is next; `due` is then the permission to forward. Returns
    /// the number of items.
    async fn accept_numbered<'s>(
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
        // The session was not ended, or it would not be the current one.
        error!(rm = session.rm_id(), %error, "the scheduler does not know a session that is open");
        let (edge, session) = (Arc::clone(&self.edge), Arc::clone(session));
        // In a task of its own, since this one holds the lock of the slot.
        tokio::spawn(async move { edge.registry.scheduler_lost(&session).await });
        Err(StreamEnd::Internal("the scheduler lost the session through a bug"))
    }

    fn fail(&self, broken: Broken) {
        match broken {
            Broken::Refused(end) => self.refuse(end),
            Broken::Gone => self.stream.close(StreamEnd::ClientGone),
        }
    }

    /// Refuses a message. If its content is unknown, client and scheduler may no longer have the
    /// same state, and the session takes no more streams.
    fn refuse(&self, end: StreamEnd) {
        let is_unread = matches!(
            end,
            StreamEnd::Unreadable { .. } | StreamEnd::Overloaded | StreamEnd::TooSlow
        );
        if let Some((_, session)) = &self.bound
            && is_unread
        {
            session.mark_items_lost();
        }
        self.stream.close(end);
    }
}

impl<K> Drop for RequestReader<K> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.stream
                .close(StreamEnd::Internal("a request could not be dealt with, through a bug"));
        }
    }
}
