//! What a call answers, as long as its client takes it.
//!
//! # Why
//! A client that asks for megabytes and never takes them has them kept here for as long as it
//! answers the pings of its connection. A stream of a session is another matter: what waits there
//! is bounded by its outbox, and a resource manager that stands still is paused.
//!
//! # What is done
//! An answer is handed over in slices, so that a client that takes it slowly can be told from one that
//! takes nothing. HTTP/2 lets nobody but its own layer reset a stream; so for one that stands still
//! the connection is closed.
//!
//! # Invariants
//! * A call counts among those that are open until its answer is taken or given up.
//! * Nothing else is kept of an answer than what was not handed over, and one slice.

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

/// How much is handed over at a time.
const SLICE_BYTES: usize = 16 << 10;

/// The answer to a call.
pub(super) struct Outgoing {
    body: Body,
    /// What is left of the last frame.
    rest: Bytes,
    watch: Option<Watch>,
    /// Counts it among all calls, and keeps its connection from being taken for idle.
    _call: Arc<Call>,
}

/// Closes the connection of a client that takes nothing.
struct Watch {
    peer: Peer,
    patience: Duration,
    /// How often the HTTP/2 layer has come for more, and whether it owes us to come again.
    taken: Arc<AtomicU64>,
    watching: Option<AbortHandle>,
}

impl Outgoing {
    /// The answer `body`, of which some has to be taken every `patience`, if that is given.
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

/// While the count is odd, something was handed over and not taken yet.
impl Watch {
    /// Somebody has come for more: what was handed over before is taken.
    fn came(&self) {
        let taken = self.taken.load(Ordering::Relaxed);
        if taken % 2 == 1 {
            self.taken.store(taken + 1, Ordering::Relaxed);
        }
    }

    /// Something is handed over.
    fn gave(&mut self) {
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
        watch.came();
        if rest.is_empty() {
            match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => *rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                end => return Poll::Ready(end),
            }
        }
        watch.gave();
        let slice = rest.split_to(rest.len().min(SLICE_BYTES));
        Poll::Ready(Some(Ok(Frame::data(slice))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.watch {
            // Some of it may have been taken from the body already.
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
