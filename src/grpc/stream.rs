//! One stream, in both directions.
//!
//! # How it ends
//! * The client closes its side: once the scheduler has settled what it was asked, or after
//!   `LINGER`, what waits is still delivered, and the stream ends OK.
//! * The client goes away: what was not taken waits for the next stream of the session.
//! * The server ends it: see [`StreamEnd`]. A kind of stream may have something to say before that. What
//!   has come by a stream that a newer one displaced is still dealt with.

use std::future::pending;
use std::marker::PhantomData;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, Stream, stream};
use tokio::time::{Instant, sleep_until, timeout};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Request, Response, Status, Streaming};
use tracing::{debug, error};

use super::end::{StreamEnd, text, unreadable};
use super::kind::StreamKind;
use super::registry::Slot;
use super::session::Binding;
use super::stream_handle::StreamHandle;
use super::{
    GrpcEdge, INSTANCE_HEADER, RESUME_HEADER, RM_ID_HEADER, SCHEDULER_HEADER, SESSION_HEADER,
};
use crate::identity::Identity;

/// How long the scheduler may take to answer a client that has closed its side.
const LINGER: Duration = Duration::from_secs(10);

/// Most messages that are read from a stream that was displaced: its client may go on sending.
const LATE_MESSAGES: usize = 1_000;

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
    tokio::spawn(reader.run(requests));
    let mut response = Response::new(writer.into_stream());
    *response.metadata_mut() = headers;
    Ok(response)
}

/// The direction from the client.
struct RequestReader<K> {
    edge: Arc<GrpcEdge>,
    caller: Identity,
    stream: Arc<StreamHandle>,
    slot: Option<Arc<Slot>>,
    /// What its metadata say, for whoever binds it.
    named: Option<String>,
    resume: Option<u64>,
    instance: Option<String>,
    kind: PhantomData<K>,
}

/// The direction to the client.
struct ReplyWriter<K: StreamKind> {
    edge: Arc<GrpcEdge>,
    stream: Arc<StreamHandle>,
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
            slot: None,
            named: None,
            resume: None,
            instance: None,
            kind: PhantomData,
        }
    }

    fn writer(&self) -> ReplyWriter<K> {
        ReplyWriter {
            edge: Arc::clone(&self.edge),
            stream: Arc::clone(&self.stream),
            has_taken_leave: false,
            kind: PhantomData,
        }
    }

    async fn bind_by_metadata(&mut self, metadata: &MetadataMap) -> Result<(), StreamEnd> {
        self.named = text(metadata, SESSION_HEADER)?.map(ToOwned::to_owned);
        self.instance = text(metadata, INSTANCE_HEADER)?.map(ToOwned::to_owned);
        if let Some(resume) = text(metadata, RESUME_HEADER)? {
            self.resume = Some(resume.parse().map_err(|_| StreamEnd::BadMetadata(RESUME_HEADER))?);
        }
        let Some(rm_id) = text(metadata, RM_ID_HEADER)? else { return Ok(()) };
        self.bind(rm_id).await
    }

    /// Makes this the stream of its kind in the current session of `rm_id`, which must be the one
    /// that its metadata name, if they name one.
    async fn bind(&mut self, rm_id: &str) -> Result<(), StreamEnd> {
        self.caller.check_rm(rm_id)?;
        let (slot, session) = self.edge.registry.find(rm_id, self.named.as_deref()).await?;
        {
            // Nobody may stop the session between here and there.
            let _current = slot.read().await;
            let binding = Binding { resume: self.resume, instance: self.instance.as_deref() };
            session.bind::<K>(&self.stream, binding)?;
        }
        if self.stream.has_ended() {
            // Its client left while it was bound: nobody else would release it.
            session.release::<K>(&self.stream);
        }
        debug!(rm = rm_id, kind = K::NAME, session = session.number(), "stream bound");
        self.slot = Some(slot);
        Ok(())
    }

    /// Reads until either side ends the stream.
    async fn run(mut self, mut requests: Streaming<K::Request>) {
        let patience = self.edge.registry.bind_timeout();
        let bound_by = Instant::now().checked_add(patience);
        loop {
            let too_late = async {
                match bound_by.filter(|_| self.slot.is_none()) {
                    Some(deadline) => sleep_until(deadline).await,
                    None => pending().await,
                }
            };
            // Only the wait for a message is given up: one that has come is handed on whole.
            let message = tokio::select! {
                biased;
                () = self.stream.ended() => return self.finish(requests).await,
                message = requests.message() => message,
                () = too_late => {
                    self.stream.close(StreamEnd::BindTimeout(patience));
                    return;
                }
            };
            match message {
                Ok(Some(request)) => {
                    if let Err(end) = self.accept(request).await {
                        self.stream.close(end);
                        return;
                    }
                }
                Ok(None) => {
                    // After that the outboxes hold every answer that is due.
                    if let Some(session) = self.stream.session() {
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
                    if self.accept(request).await.is_err() {
                        return;
                    }
                }
                Some(Err(status)) => return self.fail(&status),
                Some(Ok(None)) | None => return,
            }
        }
    }

    async fn accept(&mut self, mut request: K::Request) -> Result<(), StreamEnd> {
        let named = mem::take(K::rm_id(&mut request));
        if self.slot.is_none() {
            if named.is_empty() {
                return Err(StreamEnd::RmIdMissing);
            }
            self.bind(&named).await?;
        }
        let (Some(slot), Some(session)) = (&self.slot, self.stream.session()) else {
            return Err(StreamEnd::RmIdMissing);
        };
        if !named.is_empty() && named != session.rm_id() {
            return Err(StreamEnd::RmIdMismatch { bound: session.rm_id().to_owned(), named });
        }
        match K::acknowledged(&request) {
            0 => {}
            seq => K::outbox(session).acknowledge(&self.stream, seq),
        }
        let limit = self.edge.registry.items_per_message();
        match K::items(&request) {
            0 => return Ok(()),
            items if items > limit => return Err(StreamEnd::TooManyItems { items, limit }),
            _ => {}
        }
        let current = slot.read().await;
        if !current.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            let rm_id = session.rm_id();
            let end = session.ended().cloned();
            return Err(end.unwrap_or_else(|| self.edge.registry.not_registered(rm_id)));
        }
        session.rm_id().clone_into(K::rm_id(&mut request));
        let forwarded = K::forward(session, &self.edge.handle, request).await;
        let Err(error) = forwarded else { return Ok(()) };
        drop(current);
        if self.edge.shutdown.is_cancelled() {
            return Err(StreamEnd::ShuttingDown);
        }
        // Nobody ended the session, or it would not be the current one.
        error!(rm = session.rm_id(), %error, "the scheduler does not know a session that is open");
        self.edge.registry.scheduler_lost(session).await;
        Err(session.ended().cloned().unwrap_or(StreamEnd::ShuttingDown))
    }

    fn fail(&self, status: &Status) {
        let Some(end) = unreadable(status) else {
            self.stream.close(StreamEnd::ClientGone);
            return;
        };
        if let Some(session) = self.stream.session() {
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
        headers
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
            tokio::select! {
                () = self.edge.shutdown.cancelled() => {}
                () = self.stream.ended() => {}
                () = self.stream.news() => {}
            }
        }
    }

    fn waiting(&self) -> Option<K::Reply> {
        self.stream.session()?.take::<K>(&self.stream)
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
