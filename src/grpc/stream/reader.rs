//! The client's direction of a stream: requests are checked, ordered, and forwarded to the
//! scheduler.
//!
//! # Why in batches
//! Each forwarded request wakes a thread. So requests that have already arrived are forwarded
//! together, up to a bound. Later ones wait in the HTTP/2 windows, which slow a fast client down.

use std::future::pending;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::metadata::MetadataMap;
use tracing::debug;

use super::writer::ReplyWriter;
use crate::grpc::end::{StreamEnd, attempt, text};
use crate::grpc::incoming::{Broken, Decoded, Messages, RawMessage};
use crate::grpc::kind::StreamKind;
use crate::grpc::registry::Slot;
use crate::grpc::session::attempt::Attempt;
use crate::grpc::session::{Binding, Session};
use crate::grpc::stream_handle::StreamHandle;
use crate::grpc::{
    CLIENT_SEQ_HEADER, GrpcEdge, INSTANCE_HEADER, RESUME_HEADER, RM_ID_HEADER, SESSION_HEADER,
};
use crate::identity::Identity;

mod forwarding;

/// How long the stream waits for the scheduler's answers after the client has closed its side.
const LINGER: Duration = Duration::from_secs(10);

/// Most bytes decoded for a batch in addition to its first message.
const TOGETHER_BYTES: usize = 1 << 20;

/// Most messages read from a displaced stream, whose client may still be sending.
const LATE_MESSAGES: usize = 1_000;

const METADATA_MISSING: StreamEnd = StreamEnd::Misnumbered(
    "a stream that numbers its requests names its resource manager and its session in its metadata",
);
const NO_NUMBER: StreamEnd =
    StreamEnd::Misnumbered("the metadata `x-si-client-seq` are not a number, from 0 on");
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
            beat: None,
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
            // The slot stays locked so that the session cannot be stopped during the bind.
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
                Ok(None) => return self.half_close().await,
                Err(broken) => return self.fail(broken),
            }
        }
    }

    /// Handles the client's end of the stream. Afterwards the outboxes hold every answer that is due.
    async fn half_close(&self) {
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
