//! What the two directions of one stream tell each other.
//!
//! A task reads the requests, and tonic polls the replies when the client can receive one; they
//! share a [`StreamHandle`]. Neither owns the other, and either may be dropped first.
//!
//! # Invariant
//! Whoever ends the stream first says why, and that is what the client reads.

use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::end::StreamEnd;
use super::session::Session;

/// One open stream.
pub struct StreamHandle {
    session: OnceLock<Arc<Session>>,
    end: OnceLock<StreamEnd>,
    ended: CancellationToken,
    half_closed: OnceLock<()>,
    news: Notify,
}

impl StreamHandle {
    /// A stream that belongs to nobody yet.
    pub fn new() -> Self {
        Self {
            session: OnceLock::new(),
            end: OnceLock::new(),
            ended: CancellationToken::new(),
            half_closed: OnceLock::new(),
            news: Notify::new(),
        }
    }

    /// The session it is bound to.
    pub fn session(&self) -> Option<&Arc<Session>> {
        self.session.get()
    }

    /// Binds it; a second call changes nothing.
    pub fn set_session(&self, session: &Arc<Session>) {
        self.session.get_or_init(|| Arc::clone(session));
    }

    /// The status that tells `end` to its client.
    pub fn status(&self, end: &StreamEnd) -> Status {
        end.status(self.session().map(|session| (session.rm_id(), session.number())))
    }

    /// Why it ends, once it does.
    pub fn end(&self) -> Option<&StreamEnd> {
        self.end.get()
    }

    /// Whether it has ended. Of two tasks, one of which closes the stream and then looks for its
    /// session while the other binds it and then asks this, at least one learns of the other: the
    /// token has a lock.
    pub fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Ends it. The first reason stands.
    pub fn close(&self, end: StreamEnd) {
        self.end.get_or_init(|| end);
        self.ended.cancel();
    }

    /// Waits until it ends.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// The client will send no more, and still wants what is due.
    pub fn half_close(&self) {
        self.half_closed.get_or_init(|| ());
        self.wake();
    }

    /// Whether [`Self::half_close`] was called.
    pub fn is_half_closed(&self) -> bool {
        self.half_closed.get().is_some()
    }

    /// Tells the side that writes to look again. Kept until it does.
    pub fn wake(&self) {
        self.news.notify_one();
    }

    /// Waits for [`Self::wake`].
    pub async fn news(&self) {
        self.news.notified().await;
    }
}

impl Default for StreamHandle {
    fn default() -> Self {
        Self::new()
    }
}
