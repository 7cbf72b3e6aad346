//! The reply to a call, watched as long as its client receives it.
//!
//! # Why
//! A client that requests megabytes and never receives them would keep them in memory for as long
//! as it answers the pings of its connection. Streams of sessions are exempt: their outbox bounds
//! the memory, and a resource manager that makes no progress is paused.
//!
//! # How
//! A reply is passed on in slices, so that a slow client can be distinguished from a client that
//! receives nothing. Only the HTTP/2 layer can reset a stream, so the whole connection is closed if
//! a reply stalls.
//!
//! # Invariants
//! * A call counts as open until its reply is received or abandoned.
//! * Only the part of a reply not passed on yet, and one slice, are kept.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Body as HttpBody;
use tracing::debug;

use super::calls::Call;
use crate::identity::layer::Peer;

/// Size of a slice.
const SLICE_BYTES: usize = 16 << 10;

/// The body of the reply to a call.
pub(super) struct Outgoing {
    body: Body,
    /// The rest of the last frame.
    rest: Bytes,
    watch: Option<Watch>,
    /// Counts the call as open, and keeps its connection from counting as idle.
    _call: Arc<Call>,
}

/// Closes the connection of a client that receives nothing.
struct Watch {
    peer: Peer,
    patience: Duration,
    /// Number of polls and slices; odd while a slice was passed on and not yet polled again.
    taken: Arc<AtomicU64>,
    watching: Option<AbortHandle>,
}

impl Outgoing {
    /// Wraps `body`. If `patience` is given, the client has to receive some of it in each such
    /// interval.
    pub(super) fn new(
        body: Body,
        call: Arc<Call>,
        peer: Option<Peer>,
        patience: Option<Duration>,
    ) -> Self {
        let watch = peer.zip(patience).map(|(peer, patience)| Watch {
            peer,
            patience,
            taken: Arc::default(),
            watching: None,
        });
        Self { body, rest: Bytes::new(), watch, _call: call }
    }
}

impl Watch {
    /// The HTTP/2 layer polls: the last slice was received.
    fn polled(&self) {
        let taken = self.taken.load(Ordering::Relaxed);
        if taken % 2 == 1 {
            self.taken.store(taken + 1, Ordering::Relaxed);
        }
    }

    /// A slice is passed on.
    fn passed_on(&mut self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        if self.watching.is_none() {
            let (taken, patience, peer) =
                (Arc::clone(&self.taken), self.patience, self.peer.clone());
            let watching = tokio::spawn(async move {
                let mut seen = 0;
                loop {
                    sleep(patience).await;
                    let now = taken.load(Ordering::Relaxed);
                    if now == seen && now % 2 == 1 {
                        debug!(peer = %peer.address, "an answer is not taken, connection closed");
                        return peer.cut.cancel();
                    }
                    seen = now;
                }
            });
            self.watching = Some(watching.abort_handle());
        }
    }
}

impl HttpBody for Outgoing {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Self { body, rest, watch, .. } = &mut *self;
        let Some(watch) = watch else { return Pin::new(body).poll_frame(cx) };
        watch.polled();
        if rest.is_empty() {
            match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => *rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                end => return Poll::Ready(end),
            }
        }
        watch.passed_on();
        let slice = rest.split_to(rest.len().min(SLICE_BYTES));
        Poll::Ready(Some(Ok(Frame::data(slice))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.watch {
            // A part of the body may have been read already.
            Some(_) => SizeHint::default(),
            None => self.body.size_hint(),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(watching) = self.watching.take() {
            watching.abort();
        }
    }
}
