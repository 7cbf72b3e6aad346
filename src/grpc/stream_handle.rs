//! What the two directions of one stream tell each other.
//!
//! A task reads the requests, and tonic polls the replies when the client can receive one; they
//! share a [`StreamHandle`]. Neither owns the other, and either may be dropped first. The session to
//! which a stream is bound holds its handle; the handle knows the session weakly.
//!
//! # Invariants
//! * Whoever ends the stream first says why, and that is what the client reads.
//! * A stream that has ended is not bound any more; whoever ends one that is bound finds its session,
//!   and has it released.

use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::end::StreamEnd;
use super::session::{Numbering, Session};

/// One open stream.
#[derive(Default)]
pub struct StreamHandle {
    state: Mutex<StreamState>,
    /// Wakes those who wait for the end.
    ended: CancellationToken,
    news: Notify,
}

/// What is so of a stream.
#[derive(Default)]
struct StreamState {
    bound: Option<Bound>,
    end: Option<StreamEnd>,
    /// The client will send no more.
    is_half_closed: bool,
}

/// What it was bound to. Weak, because the session knows its streams.
struct Bound {
    session: Weak<Session>,
    rm_id: String,
    number: u64,
    numbering: Option<Numbering>,
}

impl StreamHandle {
    /// A stream that belongs to nobody yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The session it is bound to, while that is there.
    pub fn session(&self) -> Option<Arc<Session>> {
        self.state().bound.as_ref()?.session.upgrade()
    }

    /// Whether it was bound to a session.
    pub fn is_bound(&self) -> bool {
        self.state().bound.is_some()
    }

    /// From where on its client numbers its requests, if it does.
    pub(super) fn numbering(&self) -> Option<Numbering> {
        self.state().bound.as_ref()?.numbering
    }

    /// Binds it, unless it was bound before. `Err`: it has ended.
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

    /// The status that tells `end` to its client.
    pub fn status(&self, end: &StreamEnd) -> Status {
        end.status(self.state().bound.as_ref().map(|bound| (&*bound.rm_id, bound.number)))
    }

    /// Why it ends, once it does.
    pub fn end(&self) -> Option<StreamEnd> {
        self.state().end.clone()
    }

    /// Ends it. The first reason stands.
    pub fn close(&self, end: StreamEnd) {
        self.state().end.get_or_insert(end);
        self.ended.cancel();
    }

    /// Waits until it ends.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// The client will send no more, and still wants what is due.
    pub fn half_close(&self) {
        self.state().is_half_closed = true;
        self.wake();
    }

    /// Whether [`Self::half_close`] was called.
    pub fn is_half_closed(&self) -> bool {
        self.state().is_half_closed
    }

    /// Tells the side that writes to look again. Kept until it does.
    pub fn wake(&self) {
        self.news.notify_one();
    }

    /// Waits for [`Self::wake`].
    pub async fn news(&self) {
        self.news.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, StreamState> {
        self.state.lock().expect("no holder panics")
    }
}
