//! State shared by the two directions of one stream.
//!
//! A task reads the requests, and tonic polls for replies when the client can receive one; both
//! share a [`StreamHandle`]. Neither owns the other, and either may be dropped first. The session
//! to which a stream is bound holds its handle; the handle references the session weakly.
//!
//! # Invariants
//! * The client reads the first reason that was given for the end of a stream.
//! * A stream that has ended cannot be bound any more. Ending a bound stream also releases it from
//!   its session.

use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::end::StreamEnd;
use super::session::{Numbering, Session};
use crate::locked::locked;

/// One open stream.
#[derive(Default)]
pub struct StreamHandle {
    state: Mutex<StreamState>,
    /// Wakes tasks that wait for the end.
    ended: CancellationToken,
    news: Notify,
}

/// Mutable state of a stream.
#[derive(Default)]
struct StreamState {
    bound: Option<Bound>,
    end: Option<StreamEnd>,
    /// Set once the client has closed its side.
    is_half_closed: bool,
}

/// The session to which the stream is bound. Weak, because the session references its streams.
struct Bound {
    session: Weak<Session>,
    rm_id: String,
    number: u64,
    numbering: Option<Numbering>,
}

impl StreamHandle {
    /// Creates a stream that is not bound to a session.
    pub fn new() -> Self {
        Self::default()
    }

    /// The session to which the stream is bound, while it exists.
    pub fn session(&self) -> Option<Arc<Session>> {
        self.state().bound.as_ref()?.session.upgrade()
    }

    /// Whether the stream was bound to a session.
    pub fn is_bound(&self) -> bool {
        self.state().bound.is_some()
    }

    /// How the client numbers its requests. `None` if it does not.
    pub(super) fn numbering(&self) -> Option<Numbering> {
        self.state().bound.as_ref()?.numbering
    }

    /// Binds the stream, unless it is bound already. Fails with the end of a stream that has ended.
    pub(super) fn bind_to(
        &self,
        session: &Arc<Session>,
        numbering: Option<Numbering>,
    ) -> Result<(), StreamEnd> {
        let mut state = self.state();
        if let Some(end) = &state.end {
            return Err(end.clone());
        }
        state.bound.get_or_insert_with(|| Bound {
            session: Arc::downgrade(session),
            rm_id: session.rm_id().to_owned(),
            number: session.number(),
            numbering,
        });
        Ok(())
    }

    /// The status that reports `end` to the client.
    pub fn status(&self, end: &StreamEnd) -> Status {
        end.status(self.state().bound.as_ref().map(|bound| (&*bound.rm_id, bound.number)))
    }

    /// The reason of the end. `None` while the stream is open.
    pub fn end(&self) -> Option<StreamEnd> {
        self.state().end.clone()
    }

    /// Ends the stream. Only the first reason counts.
    pub fn close(&self, end: StreamEnd) {
        self.state().end.get_or_insert(end);
        self.ended.cancel();
    }

    /// Waits for the end of the stream.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Records that the client has closed its side; it still expects the remaining replies.
    pub fn half_close(&self) {
        self.state().is_half_closed = true;
        self.wake();
    }

    /// Whether [`Self::half_close`] was called.
    pub fn is_half_closed(&self) -> bool {
        self.state().is_half_closed
    }

    /// Wakes the writing side. The wake-up is kept until the writer waits.
    pub fn wake(&self) {
        self.news.notify_one();
    }

    /// Waits for [`Self::wake`].
    pub async fn news(&self) {
        self.news.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, StreamState> {
        locked(&self.state)
    }
}
