//! One stream, in both directions.
//!
//! # How it ends
//! * The client closes its side: once the scheduler has settled what it was asked, or after
//!   `LINGER`, what waits is still delivered, and the stream ends OK.
//! * The client goes away: what was not taken waits for the next stream of the session.
//! * The server ends it: see [`StreamEnd`]. A kind of stream may have something to say before that. What
//!   has come by a stream that a newer one displaced is still dealt with.
//!
//! # Requests with numbers
//! A client may number its requests over all its streams. They are then handed on in that order, by
//! whichever stream has brought the one that is due; see the sequence of the session.

use std::future::pending;
use std::marker::PhantomData;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, Stream, stream};
use monoceros_actors::UpdateError;
use prost::Message as _;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Request, Response, Status, Streaming};
use tracing::{debug, error};

use self::taken::TakenTold;
use super::end::{StreamEnd, text, unreadable};
use super::kind::StreamKind;
use super::registry::Slot;
use super::reply::Reply as _;
use super::session::backlog::Load;
use super::session::{Arrived, Binding, HandingOn, Next, Numbering, Session};
use super::stream_handle::StreamHandle;
use super::{
    CLIENT_SEQ_HEADER, GrpcEdge, INSTANCE_HEADER, RESUME_HEADER, RM_ID_HEADER, SCHEDULER_HEADER,
    SESSION_HEADER, TAKEN_SEQ_HEADER,
};
use crate::identity::Identity;

mod taken;

/// How long the scheduler may take to answer a client that has closed its side.
const LINGER: Duration = Duration::from_secs(10);

/// Most messages, and items of them or few more, that are handed on together.
const TOGETHER: usize = 256;

/// Most messages that are read from a stream that was displaced: its client may go on sending.
const LATE_MESSAGES: usize = 1_000;

const UNNAMED: StreamEnd = StreamEnd::Misnumbered(
    "a stream that numbers its requests names its resource manager and its session in its metadata",
);
const NUMBER_UNASKED: StreamEnd = StreamEnd::Misnumbered(
    "a request has a `clientSeq`, and its stream did not ask for numbers in its metadata",
);
const NUMBER_MISSING: StreamEnd = StreamEnd::Misnumbered(
    "a request has no `clientSeq`, and its stream has asked for numbers in its metadata",
);

/// The replies of a stream as the generated trait wants them.
pub(super) type ReplyStream<K> =
    Pin<Box<dyn Stream<Item = Result<<K as StreamKind>::Reply, Status>> + Send>>;

/// Opens a stream: binds it if its metadata say to whom, and starts to read it.
pub(super) async fn open<K: StreamKind>(
    edge: Arc<GrpcEdge>,
    request: Request<Streaming<K::Request>>,
) -> Result<Response<ReplyStream<K>>, Status> {
    let (metadata, extensions, requests) = request.into_parts();
    let mut reader = RequestReader::<K>::new(edge, Identity::of(&extensions));
    // Dropping the writer releases the stream, also when binding it fails.
    let writer = reader.writer();
    match reader.bind_by_metadata(&metadata).await {
        Ok(()) => {}
        Err(end) if K::farewell(&end).is_none() => return Err(reader.stream.status(&end)),
        Err(end) => reader.stream.close(end),
    }
    let headers = writer.headers();
    let writer = writer.begun();
    tokio::spawn(reader.run(requests));
    let mut response = Response::new(writer.into_stream());
    *response.metadata_mut() = headers;
    Ok(response)
}

/// The number that a key has, if it is there.
fn number(metadata: &MetadataMap, key: &'static str) -> Result<Option<u64>, StreamEnd> {
    let text = text(metadata, key)?;
    text.map(|text| text.parse().map_err(|_| StreamEnd::BadMetadata(key))).transpose()
}

/// The direction from the client.
struct RequestReader<K> {
    edge: Arc<GrpcEdge>,
    caller: Identity,
    stream: Arc<StreamHandle>,
    /// The session that it is bound to, and the slot through which requests are handed on.
    bound: Option<(Arc<Slot>, Arc<Session>)>,
    /// What its metadata say, for whoever binds it.
    named: Option<String>,
    resume: Option<u64>,
    instance: Option<String>,
    /// The client numbers its requests.
    is_numbered: bool,
    kind: PhantomData<K>,
}

/// The direction to the client.
struct ReplyWriter<K: StreamKind> {
    edge: Arc<GrpcEdge>,
    stream: Arc<StreamHandle>,
    /// What the client knows of the requests that were taken, if it numbers them.
    taken: Option<TakenTold>,
    /// The farewell, if there is one, has been said.
    has_taken_leave: bool,
    kind: PhantomData<K>,
}

impl<K: StreamKind> RequestReader<K> {
    fn new(edge: Arc<GrpcEdge>, caller: Identity) -> Self {
        Self {
            edge,
            caller,
            stream: Arc::default(),
            bound: None,
            named: None,
            resume: None,
            instance: None,
            is_numbered: false,
            kind: PhantomData,
        }
    }

    fn writer(&self) -> ReplyWriter<K> {
        ReplyWriter {
            edge: Arc::clone(&self.edge),
            stream: Arc::clone(&self.stream),
            taken: None,
            has_taken_leave: false,
            kind: PhantomData,
        }
    }

    async fn bind_by_metadata(&mut self, metadata: &MetadataMap) -> Result<(), StreamEnd> {
        self.named = text(metadata, SESSION_HEADER)?.map(ToOwned::to_owned);
        self.instance = text(metadata, INSTANCE_HEADER)?.map(ToOwned::to_owned);
        self.resume = number(metadata, RESUME_HEADER)?;
        let known = number(metadata, CLIENT_SEQ_HEADER)?;
        self.is_numbered = known.is_some();
        let Some(rm_id) = text(metadata, RM_ID_HEADER)? else {
            return if self.is_numbered { Err(UNNAMED) } else { Ok(()) };
        };
        if self.is_numbered && self.named.is_none() {
            return Err(UNNAMED);
        }
        self.bind(rm_id).await?;
        match self.stream.numbering() {
            Some(Numbering { taken, .. }) if known > Some(taken) => {
                Err(StreamEnd::SequenceGap { taken })
            }
            _ => Ok(()),
        }
    }

    /// Makes this the stream of its kind in the current session of `rm_id`, which must be the one
    /// that its metadata name, if they name one.
    async fn bind(&mut self, rm_id: &str) -> Result<(), StreamEnd> {
        self.caller.check_rm(rm_id)?;
        let (slot, session) = self.edge.registry.find(rm_id, self.named.as_deref()).await?;
        {
            // Nobody may stop the session between here and there.
            let _current = slot.read().await;
            let binding = Binding {
                resume: self.resume,
                instance: self.instance.as_deref(),
                is_numbered: self.is_numbered,
            };
            session.bind::<K>(&self.stream, binding)?;
        }
        if self.stream.has_ended() {
            // Its client left while it was bound: nobody else would release it.
            session.release::<K>(&self.stream);
        }
        debug!(rm = rm_id, kind = K::NAME, session = session.number(), "stream bound");
        self.bound = Some((slot, session));
        Ok(())
    }

    /// Reads until either side ends the stream.
    async fn run(mut self, mut requests: Streaming<K::Request>) {
        let patience = self.edge.registry.bind_timeout();
        let bound_by = Instant::now().checked_add(patience);
        // The end of the requests, if it came while more of them were looked for.
        let mut ahead = None;
        loop {
            let too_late = async {
                match bound_by.filter(|_| self.bound.is_none()) {
                    Some(deadline) => sleep_until(deadline).await,
                    None => pending().await,
                }
            };
            // Only the wait for a message is given up: one that has come is handed on whole.
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
                () = too_late => {
                    self.stream.close(StreamEnd::BindTimeout(patience));
                    return;
                }
            };
            match message {
                Ok(Some(request)) => {
                    let more = || match requests.message().now_or_never()? {
                        Ok(Some(request)) => Some(request),
                        end => {
                            ahead = Some(end);
                            None
                        }
                    };
                    if let Err(end) = self.accept(request, more).await {
                        self.stream.close(end);
                        return;
                    }
                }
                Ok(None) => {
                    // After that the outboxes hold every answer that is due.
                    if let Some((_, session)) = &self.bound {
                        let settled = async {
                            // The outcome does not matter: nothing more comes either way.
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
                Err(status) => {
                    self.fail(&status);
                    return;
                }
            }
        }
    }

    /// The stream has ended. What came by one that was displaced is still dealt with, as far as it
    /// is there: its client sent that before it could know, and the answers go to the newer stream.
    async fn finish(&mut self, mut requests: Streaming<K::Request>) {
        if !matches!(self.stream.end(), Some(StreamEnd::Displaced { .. })) {
            return;
        }
        for _ in 0..LATE_MESSAGES {
            match requests.message().now_or_never() {
                Some(Ok(Some(request))) => {
                    if self.accept(request, || None).await.is_err() {
                        return;
                    }
                }
                Some(Err(status)) => return self.fail(&status),
                Some(Ok(None)) | None => return,
            }
        }
    }

    /// Deals with a request, and with those behind it that `more` has ready: they are handed on
    /// together, since each hand-over wakes a thread.
    async fn accept(
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
                match self.hold(slot, session, numbering, request, &mut due).await {
                    Ok(items) => n_items += items,
                    Err(why) => {
                        end = Err(why);
                        break;
                    }
                }
            }
            if let Some(handing_on) = due {
                self.hand_on(slot, session, handing_on).await?;
            }
            return end;
        }
        // For each of these anew: registrations wait for it, and they come in turn.
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

    /// Looks at what a request says of itself. Returns how many items it has, too.
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

    /// Holds a numbered request until it is due; `due` is the right to hand on, once something is.
    /// Returns how many items it has.
    async fn hold<'s>(
        &self,
        slot: &Slot,
        session: &'s Arc<Session>,
        numbering: Numbering,
        request: K::Request,
        due: &mut Option<HandingOn<'s>>,
    ) -> Result<usize, StreamEnd> {
        let (request, items) = self.check(session, request)?;
        let number = K::number(&request);
        if number == 0 {
            return if items == 0 { Ok(0) } else { Err(NUMBER_MISSING) };
        }
        let load = Load { items, bytes: request.encoded_len() };
        let mut request = K::into_any(request);
        loop {
            let mut room = pin!(session.room());
            room.as_mut().enable();
            request = match session.arrive(numbering, number, request, load)? {
                Arrived::Due(handing_on) => {
                    *due = Some(handing_on);
                    return Ok(items);
                }
                Arrived::Held => return Ok(items),
                Arrived::NoRoom(request) => *request,
            };
            if let Some(handing_on) = due.take() {
                // Nobody else makes room.
                self.hand_on(slot, session, handing_on).await?;
                continue;
            }
            tokio::select! {
                () = room => {}
                // What waits for room then comes again by another stream.
                () = self.stream.ended() => return Ok(items),
            }
        }
    }

    /// Hands on what is due, until nothing is.
    async fn hand_on(
        &self,
        slot: &Slot,
        session: &Arc<Session>,
        mut handing_on: HandingOn<'_>,
    ) -> Result<(), StreamEnd> {
        loop {
            let _current = self.current(slot, session).await?;
            let mut forwarded = Vec::new();
            while forwarded.len() < TOGETHER {
                match handing_on.next() {
                    Next::Request(request) => {
                        forwarded.push(request.forward(session, &self.edge.handle));
                    }
                    Next::NoneYet => break,
                    Next::Done => return Ok(()),
                }
            }
            for forwarded in forwarded {
                self.forwarded(session, forwarded.taken().await)?;
                handing_on.took();
            }
        }
    }

    /// Keeps the session the current one of its resource manager, if it is.
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

    /// What it means for the stream that the scheduler does not take a request.
    fn forwarded(
        &self,
        session: &Arc<Session>,
        forwarded: Result<(), UpdateError>,
    ) -> Result<(), StreamEnd> {
        let Err(error) = forwarded else { return Ok(()) };
        if self.edge.shutdown.is_cancelled() {
            return Err(StreamEnd::ShuttingDown);
        }
        // Nobody ended the session, or it would not be the current one.
        error!(rm = session.rm_id(), %error, "the scheduler does not know a session that is open");
        let (edge, session) = (Arc::clone(&self.edge), Arc::clone(session));
        // Not here, where the session is kept current.
        tokio::spawn(async move { edge.registry.scheduler_lost(&session).await });
        Err(StreamEnd::Internal("the scheduler lost the session through a bug"))
    }

    fn fail(&self, status: &Status) {
        let Some(end) = unreadable(status) else {
            self.stream.close(StreamEnd::ClientGone);
            return;
        };
        if let Some((_, session)) = &self.bound {
            session.lose_items();
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

impl<K: StreamKind> ReplyWriter<K> {
    fn headers(&self) -> MetadataMap {
        let mut headers = MetadataMap::new();
        headers.insert(SCHEDULER_HEADER, self.edge.registry.scheduler_id());
        if let Some(session) = self.stream.session() {
            headers.insert(SESSION_HEADER, MetadataValue::from(session.number()));
        }
        if let Some(numbering) = self.stream.numbering() {
            headers.insert(TAKEN_SEQ_HEADER, MetadataValue::from(numbering.taken));
        }
        headers
    }

    /// The headers have left, with what they say.
    fn begun(mut self) -> Self {
        self.taken = self.stream.numbering().map(|numbering| TakenTold::since(numbering.taken));
        self
    }

    fn into_stream(self) -> ReplyStream<K> {
        let replies = stream::unfold(Some(self), |writer| async {
            let mut writer = writer?;
            match writer.next().await? {
                Ok(reply) => Some((Ok(reply), Some(writer))),
                Err(status) => Some((Err(status), None)),
            }
        });
        Box::pin(replies)
    }

    /// The next reply, or the status that ends the stream, or nothing when it ends well.
    async fn next(&mut self) -> Option<Result<K::Reply, Status>> {
        loop {
            if self.edge.shutdown.is_cancelled() {
                self.stream.close(StreamEnd::ShuttingDown);
            }
            if let Some(end) = self.stream.end() {
                let first = !mem::replace(&mut self.has_taken_leave, true);
                let farewell = if first { K::farewell(end) } else { None };
                return Some(farewell.map_or_else(|| Err(self.stream.status(end)), Ok));
            }
            // Asked before the outbox is: an answer that is due is in it by then.
            let half_closed = self.stream.is_half_closed();
            if let Some(reply) = self.waiting() {
                return Some(Ok(reply));
            }
            if half_closed {
                return None;
            }
            let due = self.taken.as_ref().and_then(TakenTold::due);
            let due = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = self.edge.shutdown.cancelled() => {}
                () = self.stream.ended() => {}
                () = self.stream.news() => {}
                () = due => {}
            }
        }
    }

    /// What the session has to say, or else up to which number requests were taken, if the client
    /// does not know it for too long already.
    fn waiting(&mut self) -> Option<K::Reply> {
        let session = self.stream.session()?;
        let reply = session.take::<K>(&self.stream);
        let Some(told) = &mut self.taken else { return reply };
        let taken = session.taken(told.told());
        if reply.is_none() && !told.is_due(taken, Instant::now()) {
            return None;
        }
        told.tells(taken);
        let mut reply = reply.unwrap_or_default();
        reply.set_taken_seq(taken);
        Some(reply)
    }
}

impl<K: StreamKind> Drop for ReplyWriter<K> {
    fn drop(&mut self) {
        // Closed first: whoever binds it after that releases it.
        self.stream.close(StreamEnd::ClientGone);
        if let Some(session) = self.stream.session() {
            session.release::<K>(&self.stream);
        }
    }
}

#[cfg(test)]
mod tests;
