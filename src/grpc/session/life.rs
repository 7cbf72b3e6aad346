//! How a session lives: streams bind to it and end, and it goes from state to state until it stops.
//!
//! # Why one function looks at everything
//! Streams come and go on threads of their own, and what waits to be sent grows on those of the
//! scheduler. If each told the scheduler what it has changed, two of them could do so in the wrong
//! order. So whoever changed something calls [`Session::review`], which looks at what is so now,
//! under the lock of the life.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use monoceros_actors::ResourceManagerControl;
use monoceros_proto::callback::v1::Hello;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use super::state::{Lifecycle, LifecycleEvent, SessionState};
use super::{Binding, Session};
use crate::grpc::attach::AllocationSink;
use crate::grpc::end::{Cause, StreamEnd};
use crate::grpc::kind::StreamKind;
use crate::grpc::outbox::Unbindable;
use crate::grpc::stream_handle::StreamHandle;

/// The state of a session, and what the scheduler knows of it.
pub(super) struct Standing {
    pub(super) life: Lifecycle,
    pub(super) registered: Instant,
    /// Whether the scheduler was last told to decide nothing.
    pub(super) held: bool,
}

/// An outbox is closed only by [`Session::over`], which says why first.
const GONE: &str = "the session has ended";

impl Session {
    /// The scheduler has accepted it; it decides nothing until a stream can carry it.
    pub fn begin(self: &Arc<Self>, control: ResourceManagerControl) {
        let delivery: Weak<dyn AllocationSink> = Arc::<Self>::downgrade(self);
        self.attachment.begin(control.clone(), delivery);
        self.control.get_or_init(|| control);
        self.reorder(&self.terms);
        self.review();
    }

    /// How it ended, once it did.
    pub fn ended(&self) -> Option<&StreamEnd> {
        self.end.get()
    }

    /// Whether a client may go on with it.
    pub fn is_usable(&self) -> bool {
        self.lost.get().is_none() && self.end.get().is_none()
    }

    /// Makes `stream` the stream of its kind.
    pub fn bind<K: StreamKind>(
        self: &Arc<Self>,
        stream: &Arc<StreamHandle>,
        binding: Binding<'_>,
    ) -> Result<(), StreamEnd> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal);
        }
        let dialect = *self.dialect.get_or_init(|| K::DIALECT);
        if dialect != K::DIALECT {
            return Err(StreamEnd::DialectMixed { has: dialect });
        }
        stream.set_session(self);
        match K::outbox(self).bind(stream, binding.resume, binding.instance) {
            Ok(()) => {}
            Err(Unbindable::Closed) => {
                return Err(self.refusal().unwrap_or(StreamEnd::Internal(GONE)));
            }
            Err(Unbindable::Unknown) => return Err(StreamEnd::ResyncRequired(Cause::Missed)),
            Err(Unbindable::Gap) => {
                warn!(rm = self.rm_id(), kind = K::NAME, "messages of a lost stream are missing");
                self.lost.get_or_init(|| Cause::Missed);
                self.review();
                return Err(StreamEnd::ResyncRequired(Cause::Missed));
            }
        }
        if let Some(instance) = binding.instance {
            self.taken_up_by(Some(instance.to_owned()));
        }
        self.review();
        Ok(())
    }

    /// Makes `stream` the callback stream. It carries no allocations: the session runs without it.
    pub fn attach(
        self: &Arc<Self>,
        stream: &Arc<StreamHandle>,
        hello: &Hello,
        scheduler_id: String,
    ) -> Result<(), StreamEnd> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal);
        }
        stream.set_session(self);
        self.attachment.attach(stream, hello, scheduler_id, self.number())
    }

    /// Why no stream may bind, if so.
    fn refusal(&self) -> Option<StreamEnd> {
        let lost = self.lost.get().map(|cause| StreamEnd::ResyncRequired(cause.clone()));
        lost.or_else(|| self.end.get().cloned())
    }

    /// `stream` has ended.
    pub fn release<K: StreamKind>(&self, stream: &Arc<StreamHandle>) {
        K::outbox(self).release(stream);
        self.review();
    }

    /// A message of the client could not be read: open streams go on, later ones are refused until
    /// the client registers again and says everything anew.
    pub fn lose_items(&self) {
        self.lost.get_or_init(|| Cause::ItemsLost);
    }

    /// Client and scheduler no longer know the same: its streams end, and no other may bind. What
    /// it holds stays until it registers again or has been paused for too long. Returns how many
    /// streams were open.
    pub fn lose(&self, cause: Cause) -> usize {
        self.lost.get_or_init(|| cause.clone());
        let closed = self.over(&StreamEnd::ResyncRequired(cause));
        self.happens(LifecycleEvent::Lost);
        closed
    }

    /// The session is stopped, and everything that it held is gone.
    pub fn stop(&self, end: &StreamEnd) {
        self.happens(LifecycleEvent::Stopped);
        self.over(end);
    }

    /// Ends all streams and drops what waits. Whatever ends a session, or the client's part in it,
    /// comes by here. Returns how many streams were open.
    pub fn over(&self, end: &StreamEnd) -> usize {
        self.end.get_or_init(|| end.clone());
        let attached = usize::from(self.attachment.is_attached());
        self.attachment.close(end);
        let outboxes = self.outboxes().into_iter();
        attached + outboxes.filter(|(_, _, outbox)| outbox.close(end)).count()
    }

    /// Announces when the session is overdue in its present state; closed when it has stopped.
    pub fn deadlines(&self) -> watch::Receiver<Option<Instant>> {
        self.deadline.subscribe()
    }

    /// Lets an overdue session go where that leads. Returns whether it has to be stopped.
    pub fn expire(&self) -> bool {
        let mut standing = self.standing();
        let now = Instant::now();
        if !standing.life.is_overdue(now) {
            return false;
        }
        if standing.life.state().after(LifecycleEvent::Overdue) == SessionState::Stopped {
            // Not by itself: the scheduler has to be told, and nobody may be let in meanwhile.
            return true;
        }
        self.moves(&mut standing, LifecycleEvent::Overdue);
        false
    }

    /// Looks at what is so now: is there a stream for allocations, and does it keep up?
    pub(super) fn review(&self) {
        let mut standing = self.standing();
        let mut outboxes = self.outboxes().into_iter();
        let is_attached = outboxes.any(|(_, carries, outbox)| carries && outbox.is_bound());
        let event = if is_attached { LifecycleEvent::Attached } else { LifecycleEvent::Detached };
        let was_behind = self.is_behind.load(Ordering::SeqCst);
        let mut is_behind = self.backlog.is_too_much(was_behind);
        if is_behind != was_behind {
            self.is_behind.store(is_behind, Ordering::SeqCst);
        }
        // Who took the last of it before that was stored did not know that there is a hold to lift.
        if is_behind && !was_behind && !self.backlog.is_too_much(true) {
            is_behind = false;
            self.is_behind.store(is_behind, Ordering::SeqCst);
        }
        if is_behind != was_behind {
            let items = self.backlog.load().items;
            if is_behind {
                info!(rm = self.rm_id(), items, "too much waits to be read, nothing is decided");
            } else {
                info!(rm = self.rm_id(), items, "little waits to be read, decisions go on");
            }
        }
        self.moves(&mut standing, event);
    }

    fn happens(&self, event: LifecycleEvent) {
        self.moves(&mut self.standing(), event);
    }

    /// Under the lock of the life, so that the scheduler hears of changes in their order.
    fn moves(&self, standing: &mut Standing, event: LifecycleEvent) {
        if standing.life.takes(event, Instant::now()) {
            let (session, state) = (self.number(), standing.life.state().name());
            info!(rm = self.rm_id(), session, state, "session");
            self.deadline.send_replace(standing.life.deadline());
        }
        let held =
            standing.life.state() != SessionState::Running || self.is_behind.load(Ordering::SeqCst);
        if held != standing.held
            && let Some(control) = self.control.get()
        {
            standing.held = held;
            control.hold(held);
        }
    }
}
