//! One callback stream, in both directions.
//!
//! It ends with a [`StreamEnd`]. A shim that has sent Hello receives a Goodbye before the status.
//! The Goodbye states, in terms of the protocol, whether to register again and when to reconnect;
//! many clients never read the details of a status.

use std::pin::Pin;
use std::sync::Arc;

use futures::{Stream, stream};
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as cb;
use monoceros_proto::v1::core_message::Body;
use monoceros_proto::v1::shim_message::Body as ShimBody;
use tokio::time::timeout;
use tonic::{Request, Response, Status, Streaming};
use tracing::debug;

use super::attachment::Attachment;
use super::written::{Receipt, Receipts};
use crate::grpc::end::{StreamEnd, attempt, internal};
use crate::grpc::incoming::{Broken, Messages as Incoming, RawMessage};
use crate::grpc::registry::Slot;
use crate::grpc::session::Session;
use crate::grpc::session::attempt::Attempt;
use crate::grpc::stream_handle::StreamHandle;
use crate::grpc::{GrpcEdge, SCHEDULER_HEADER};
use crate::identity::Identity;

/// When a shim may reconnect after the service ended its stream.
const RECONNECT_AFTER_MS: u32 = 1_000;

/// Maximum size of a Hello; nothing larger is decoded before the stream is bound.
const HELLO_BYTES: usize = 64 << 10;

/// The message stream type that the generated trait requires.
pub(in crate::grpc) type Messages =
    Pin<Box<dyn Stream<Item = Result<cb::CoreMessage, Status>> + Send>>;

/// Opens a stream. Its first message names the session.
pub(in crate::grpc) fn open(
    edge: Arc<GrpcEdge>,
    request: &Request<Streaming<cb::ShimMessage>>,
) -> Result<Response<Messages>, Status> {
    // `IncomingLayer` has taken the messages out of the library's stream, which is now empty.
    let messages = Incoming::taken_from(request.extensions());
    let messages = messages.ok_or_else(|| internal("a stream came without its messages"))?;
    let attempt = attempt(request.metadata()).map_err(Status::from)?;
    let stream = Arc::<StreamHandle>::default();
    let receipts = Receipts::default();
    let writer = ShimWriter {
        edge: Arc::clone(&edge),
        stream: Arc::clone(&stream),
        receipts: receipts.clone(),
        goodbye: false,
    };
    let scheduler_id = edge.registry.scheduler_id();
    let caller = Identity::of(request.extensions());
    tokio::spawn(ShimReader { edge, caller, stream, attempt }.run(messages));
    let mut response = Response::new(writer.into_stream());
    response.metadata_mut().insert(SCHEDULER_HEADER, scheduler_id);
    response.extensions_mut().insert(receipts);
    Ok(response)
}

/// The shim's direction of a stream.
struct ShimReader {
    edge: Arc<GrpcEdge>,
    caller: Identity,
    stream: Arc<StreamHandle>,
    /// The connection attempt, if the client counts them.
    attempt: Option<Attempt>,
}

/// The server's direction of a stream.
struct ShimWriter {
    edge: Arc<GrpcEdge>,
    stream: Arc<StreamHandle>,
    /// Passes to the body the receipt that its next chunk needs.
    receipts: Receipts,
    /// Whether a Goodbye was sent.
    goodbye: bool,
}

impl ShimReader {
    async fn run(self, messages: Incoming) {
        match self.process(messages).await {
            Ok(()) => self.stream.half_close(),
            Err(end) => self.stream.close(end),
        }
        release(&self.stream);
    }

    /// Processes messages until the stream ends. `Ok` if the shim ended it.
    async fn process(&self, mut messages: Incoming) -> Result<(), StreamEnd> {
        let patience = Attachment::hello_timeout(self.edge.registry.callback_options());
        let turned_away = messages.turned_away();
        let first = tokio::select! {
            biased;
            first = timeout(patience, messages.message()) => first,
            end = turned_away => return Err(end),
        };
        let Ok(first) = first else { return Err(StreamEnd::HelloTimeout) };
        let hello = match first {
            Ok(Some(message)) => hello(message)?,
            Ok(None) => return Ok(()),
            Err(Broken::Refused(StreamEnd::Unreadable { .. })) => {
                return Err(StreamEnd::HelloMissing);
            }
            Err(broken) => return Err(broken.into()),
        };
        let (slot, session) = self.attach(&hello).await?;
        messages.bound();
        loop {
            let message = tokio::select! {
                biased;
                () = self.stream.ended() => return Ok(()),
                message = messages.message() => message,
            };
            let Some(message) = message? else { return Ok(()) };
            let decoded = message.decode::<cb::ShimMessage>().await?;
            let message = decoded.message;
            if matches!(message.body, Some(ShimBody::Goodbye(_))) {
                return Ok(());
            }
            let undo = session.attachment().receive(&self.stream, message)?;
            if !undo.is_empty() {
                self.release_refused(&slot, &session, undo).await?;
            }
        }
    }

    /// Makes this the callback stream of the session that the Hello names.
    async fn attach(&self, hello: &cb::Hello) -> Result<(Arc<Slot>, Arc<Session>), StreamEnd> {
        if hello.rm_id.is_empty() {
            return Err(StreamEnd::RmIdMissing);
        }
        self.caller.check_rm(&hello.rm_id)?;
        let named = (hello.session_id != 0).then(|| hello.session_id.to_string());
        let (slot, session) = self.edge.registry.find(&hello.rm_id, named.as_deref()).await?;
        {
            // The slot stays locked so that the session cannot be stopped during the attachment.
            let _current = slot.read().await;
            let scheduler_id = self.edge.registry.scheduler_id();
            let scheduler_id = scheduler_id.to_str().unwrap_or_default().to_owned();
            session.attach(&self.stream, hello, scheduler_id, self.attempt.as_ref())?;
        }
        debug!(rm = hello.rm_id, session = session.number(), "shim attached");
        self.stream.wake();
        Ok((slot, session))
    }

    /// Releases placements that the shim refused.
    async fn release_refused(
        &self,
        slot: &Slot,
        session: &Arc<Session>,
        releases: Vec<si::AllocationRelease>,
    ) -> Result<(), StreamEnd> {
        let current = slot.read().await;
        if !current.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            return Err(StreamEnd::Superseded { by: None });
        }
        let releases = si::AllocationReleasesRequest {
            allocations_to_release: releases,
            ..Default::default()
        };
        let request = si::AllocationRequest {
            releases: Some(releases),
            rm_id: session.rm_id().to_owned(),
            ..Default::default()
        };
        self.edge.handle.update_allocation(request).await?;
        Ok(())
    }
}

impl ShimWriter {
    fn into_stream(self) -> Messages {
        let messages = stream::unfold(Some(self), |writer| async {
            let mut writer = writer?;
            match writer.next().await? {
                Ok(message) => Some((Ok(message), Some(writer))),
                Err(status) => Some((Err(status), None)),
            }
        });
        Box::pin(messages)
    }

    /// The next message, or the status that ends the stream. `None` at a normal end.
    async fn next(&mut self) -> Option<Result<cb::CoreMessage, Status>> {
        loop {
            if self.edge.shutdown.is_cancelled() {
                self.stream.close(StreamEnd::ShuttingDown);
            } else if !self.edge.registry.may_decide() {
                self.stream.close(StreamEnd::MemberFenced);
            }
            if let Some(end) = self.stream.end() {
                if self.stream.is_bound() && !std::mem::replace(&mut self.goodbye, true) {
                    let body = Some(Body::Goodbye(goodbye(&end)));
                    return Some(Ok(cb::CoreMessage { body }));
                }
                // Also sent for an OK status: its trailers give the reason.
                return Some(Err(self.stream.status(&end)));
            }
            if self.stream.is_half_closed() {
                return None;
            }
            if let Some(message) = self.next_message() {
                return Some(Ok(message));
            }
            tokio::select! {
                () = self.edge.shutdown.cancelled() => {}
                () = self.stream.ended() => {}
                () = self.stream.news() => {}
            }
        }
    }

    fn next_message(&self) -> Option<cb::CoreMessage> {
        let session = self.stream.session()?;
        let attachment = session.attachment();
        let message = attachment.take(&self.stream)?;
        if let Some(Body::CacheSync(sync)) = &message.body {
            self.receipts.expect(Receipt::new(sync.cache_seq, attachment.written()));
        }
        Some(message)
    }
}

impl Drop for ShimWriter {
    fn drop(&mut self) {
        self.stream.close(StreamEnd::ClientGone);
        release(&self.stream);
    }
}

/// Releases the stream from its session.
fn release(stream: &Arc<StreamHandle>) {
    let Some(session) = stream.session() else { return };
    let why = stream.end().map_or_else(|| "the shim ended it".to_owned(), |end| end.to_string());
    debug!(rm = session.rm_id(), session = session.number(), why, "shim detached");
    session.attachment().release(stream);
}

fn hello(message: RawMessage) -> Result<cb::Hello, StreamEnd> {
    if message.len() > HELLO_BYTES || !message.is_small() {
        return Err(StreamEnd::HelloMissing);
    }
    match message.decode_at_once() {
        Ok(cb::ShimMessage { body: Some(ShimBody::Hello(hello)) }) => Ok(hello),
        Ok(_) | Err(_) => Err(StreamEnd::HelloMissing),
    }
}

fn goodbye(end: &StreamEnd) -> cb::Goodbye {
    let reason = match end {
        StreamEnd::Displaced { .. } => "displaced".to_owned(),
        end => end.to_string(),
    };
    let resync = end.demands_registration() || matches!(end, StreamEnd::Superseded { .. });
    let is_ours = matches!(
        end,
        StreamEnd::ShuttingDown | StreamEnd::Stalled | StreamEnd::Silent | StreamEnd::MemberFenced
    );
    let reconnect_after_ms = if is_ours { RECONNECT_AFTER_MS } else { 0 };
    cb::Goodbye { reason, reconnect_after_ms, resync }
}
