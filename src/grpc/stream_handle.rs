//! What the two directions of one stream tell each other.
//!
//! A task reads the requests, and tonic polls the replies when the client can receive one; they
//! share a [`StreamHandle`]. Neither owns the other, and either may be dropped first. The session to
//! which a stream is bound holds its handle; the handle knows the session weakly.
//!
//! # Invariant
//! Whoever ends the stream first says why, and that is what the client reads.

use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::end::StreamEnd;
use super::session::{Numbering, Session};

/// One open stream.
pub struct StreamHandle {
    bound: OnceLock<Bound>,
    end: OnceLock<StreamEnd>,
    ended: CancellationToken,
    half_closed: OnceLock<()>,
    news: Notify,
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
        Self {
            bound: OnceLock::new(),
            end: OnceLock::new(),
            ended: CancellationToken::new(),
            half_closed: OnceLock::new(),
            news: Notify::new(),
        }
    }

    /// The session it is bound to, while that is there.
    pub fn session(&self) -> Option<Arc<Session>> {
        self.bound.get()?.session.upgrade()
    }

    /// Whether it was bound to a session.
    pub fn is_bound(&self) -> bool {
        self.bound.get().is_some()
    }

    /// From where on its client numbers its requests, if it does.
    pub(super) fn numbering(&self) -> Option<Numbering> {
        self.bound.get()?.numbering
    }

    /// Binds it; a second call changes nothing.
    pub(super) fn bind_to(&self, session: &Arc<Session>, numbering: Option<Numbering>) {
        self.bound.get_or_init(|| Bound {
            session: Arc::downgrade(session),
            rm_id: session.rm_id().to_owned(),
            number: session.number(),
            numbering,
        });
    }

    /// The status that tells `end` to its client.
    pub fn status(&self, end: &StreamEnd) -> Status {
        end.status(self.bound.get().map(|bound| (&*bound.rm_id, bound.number)))
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
