//! The callback side of one session: the callback stream, its questions and its notifications.
//!
//! # Structure
//! A `Conversation` makes all decisions. The attachment holds it under a lock, carries out its
//! effects and wakes the callers that wait. Three parties call it: the scheduler's threads through
//! the session's callback, the two directions of the stream, and a task that handles timeouts and
//! cache syncs that have been written to the connection.
//!
//! # Invariants
//! * No code waits under the lock, and no effect calls back into the attachment.
//! * Effects are carried out under the lock, hence in the order in which they were decided. One
//!   exception: if `record` returns true, the caller queues the notification itself, after the lock
//!   is released. The order holds: one thread notifies for each partition, and `record` returns
//!   true only if no earlier response is withheld.
//! * At most one [`StreamHandle`] is the callback stream: the newest.
//!
//! Reading order: this file (stream, time, effects), `notifications` (from the scheduler and the
//! RM), `requests` (questions with a caller that waits), `sinks` (receivers of answers).

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use monoceros_actors::metrics::CallbackMetrics;
use monoceros_actors::{Predicates, ResourceManagerControl};
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as cb;
use monoceros_proto::v1::core_message::Body;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use self::sinks::{AnswersInARow, Sinks};
use super::conversation::{Conversation, Effect, ShimReply, StreamIdentity};
use super::options::CallbackOptions;
use super::presence::PredicateMode;
use super::written::WrittenSyncs;
use crate::clock::now_ns;
use crate::grpc::end::StreamEnd;
use crate::grpc::stream_handle::StreamHandle;
use crate::locked::locked;

mod notifications;
mod requests;
mod sinks;
#[cfg(test)]
mod tests;

/// Receives responses that were withheld until the shim confirmed them.
pub trait AllocationSink: Send + Sync + 'static {
    /// Delivers a response whose turn has come. Must not call the attachment.
    fn deliver(&self, response: si::AllocationResponse);
}

/// The callback side of a session.
pub struct Attachment {
    state: Mutex<AttachmentState>,
    /// Whether the state has a stream.
    is_attached: AtomicBool,
    control: OnceLock<ResourceManagerControl>,
    delivery: OnceLock<Weak<dyn AllocationSink>>,
    /// Wakes the timer task if its next time is now earlier.
    earlier: Notify,
    /// Cache syncs that were written to the connection.
    written: Arc<WrittenSyncs>,
    /// Notified when no response is withheld any more.
    none_withheld: Notify,
    ended: CancellationToken,
    end: OnceLock<StreamEnd>,
    dumping: tokio::sync::Mutex<()>,
}

/// The state behind the lock.
struct AttachmentState {
    conversation: Conversation,
    stream: Option<Arc<StreamHandle>>,
    /// The number of streams opened in this session.
    streams: u64,
    sinks: Sinks,
    /// Callers that wait for the answer to a request, by its number.
    waiting: HashMap<u64, oneshot::Sender<ShimReply>>,
    /// The time for which the timer task is set.
    armed: Option<Instant>,
}

/// The sleep of the timer task when nothing is due.
const FAR: Duration = Duration::from_secs(3_600);

impl Attachment {
    /// Creates an attachment without a stream.
    pub fn new(options: CallbackOptions, metrics: CallbackMetrics) -> Self {
        let state = AttachmentState {
            conversation: Conversation::new(options, metrics),
            stream: None,
            streams: 0,
            sinks: Sinks::default(),
            waiting: HashMap::new(),
            armed: None,
        };
        Self {
            state: Mutex::new(state),
            is_attached: AtomicBool::new(false),
            control: OnceLock::new(),
            delivery: OnceLock::new(),
            earlier: Notify::new(),
            written: Arc::default(),
            none_withheld: Notify::new(),
            ended: CancellationToken::new(),
            end: OnceLock::new(),
            dumping: tokio::sync::Mutex::default(),
        }
    }

    /// An attachment with the default settings and unread metrics.
    #[cfg(test)]
    pub(in crate::grpc) fn for_tests() -> Self {
        let metrics = monoceros_actors::metrics::Metrics::new();
        Self::new(CallbackOptions::for_tests(), metrics.callback.clone())
    }

    /// Starts the callback side: connects it to the scheduler and starts the timer task. Call it
    /// once, before any question.
    pub fn begin(
        self: &Arc<Self>,
        control: ResourceManagerControl,
        delivery: Weak<dyn AllocationSink>,
    ) {
        self.control.get_or_init(|| control);
        self.delivery.get_or_init(|| delivery);
        self.work(Conversation::begin);
        tokio::spawn(watch(Arc::downgrade(self), self.ended.clone()));
    }

    /// Replaces the options.
    pub fn configure(&self, options: CallbackOptions) {
        self.work(|conversation, now| conversation.configure(now, options));
    }

    /// Ends the stream for good.
    pub fn close(&self, end: &StreamEnd) {
        self.end.get_or_init(|| end.clone());
        // The watching task does the rest, since the caller may be in the middle of a delivery.
        self.ended.cancel();
    }

    /// How long a new stream may take to send its Hello.
    pub(super) fn hello_timeout(options: &CallbackOptions) -> Duration {
        options.callback.hello_timeout
    }

    /// Makes `stream` the callback stream.
    pub fn attach(
        &self,
        stream: &Arc<StreamHandle>,
        hello: &cb::Hello,
        scheduler_id: String,
        session: u64,
    ) -> Result<(), StreamEnd> {
        let mut state = self.lock();
        if let Some(end) = self.end.get() {
            return Err(end.clone());
        }
        self.is_attached.store(true, Ordering::Relaxed);
        if let Some(earlier) = state.stream.replace(Arc::clone(stream)) {
            earlier.close(StreamEnd::Displaced { by: None });
        }
        state.streams += 1;
        let identity = StreamIdentity { scheduler_id, session, attach: state.streams };
        self.work_on(&mut state, |conversation, now| conversation.attach(now, hello, &identity));
        Ok(())
    }

    /// Whether there is a stream. Safe to call during a delivery.
    pub fn is_attached(&self) -> bool {
        self.is_attached.load(Ordering::Relaxed)
    }

    /// Returns the remark on the shim's answers if a part of them is ignored, with the reason.
    pub fn remark(&self) -> Option<&'static str> {
        self.lock().conversation.remark()
    }

    /// Waits until every response of the scheduler is delivered, so that none is withheld.
    pub async fn all_delivered(&self) {
        loop {
            let mut none_withheld = pin!(self.none_withheld.notified());
            // No notification is missed after this call.
            none_withheld.as_mut().enable();
            if !self.lock().conversation.withholds() {
                return;
            }
            none_withheld.await;
        }
    }

    /// Returns the record of cache syncs that were written to the connection.
    pub(super) fn written(&self) -> &Arc<WrittenSyncs> {
        &self.written
    }

    /// Releases a stream that has ended.
    pub(super) fn release(&self, stream: &Arc<StreamHandle>) {
        let mut state = self.lock();
        if state.is_current(stream) {
            state.stream = None;
            self.is_attached.store(false, Ordering::Relaxed);
            let ((), _) = self.work_on(&mut state, Conversation::detach);
        }
    }

    /// Processes a message of the shim. Returns the placements to be released in the scheduler. An
    /// error ends the stream.
    pub(super) fn receive(
        &self,
        stream: &Arc<StreamHandle>,
        message: cb::ShimMessage,
    ) -> Result<Vec<si::AllocationRelease>, StreamEnd> {
        let mut state = self.lock();
        if !state.is_current(stream) {
            return Ok(Vec::new());
        }
        let (received, undo) =
            self.work_on(&mut state, |conversation, now| conversation.receive(now, message));
        received.map(|()| undo)
    }

    /// The next message, if `stream` is the callback stream.
    pub(super) fn take(&self, stream: &Arc<StreamHandle>) -> Option<cb::CoreMessage> {
        let mut state = self.lock();
        if !state.is_current(stream) {
            return None;
        }
        let mut message = state.conversation.take(Instant::now());
        if let Some(Body::Heartbeat(heartbeat)) =
            message.as_mut().and_then(|message| message.body.as_mut())
        {
            heartbeat.timestamp_nano = now_ns();
        }
        message
    }

    /// Applies timeouts. Returns the time of the next call.
    fn apply_timeouts(&self) -> Option<Instant> {
        let mut state = self.lock();
        let (ticked, _) = self.work_on(&mut state, Conversation::tick);
        if let Err(end) = ticked {
            self.drop_stream(&mut state, end);
        }
        state.armed
    }

    /// Processes written syncs. Returns the time of the next timeout.
    fn process_written(&self) -> Option<Instant> {
        let newest = self.written.newest();
        let mut state = self.lock();
        self.work_on(&mut state, |conversation, _now| conversation.written(newest));
        state.armed
    }

    /// Ends the stream when the session is over.
    fn finish(&self) {
        let mut state = self.lock();
        let end = self.end.get().cloned().unwrap_or(StreamEnd::ClientGone);
        self.drop_stream(&mut state, end);
        state.waiting.clear();
    }

    fn drop_stream(&self, state: &mut AttachmentState, end: StreamEnd) {
        self.is_attached.store(false, Ordering::Relaxed);
        if let Some(stream) = state.stream.take() {
            stream.close(end);
        }
        self.work_on(state, Conversation::detach);
    }

    fn work(&self, step: impl FnOnce(&mut Conversation, Instant)) {
        let mut state = self.lock();
        let ((), undo) = self.work_on(&mut state, step);
        debug_assert!(undo.is_empty(), "only the shim has placements undone");
    }

    /// Runs one step of the conversation and carries out its effects. Returns the result of the
    /// step, and the placements that the shim refused.
    fn work_on<T>(
        &self,
        state: &mut AttachmentState,
        step: impl FnOnce(&mut Conversation, Instant) -> T,
    ) -> (T, Vec<si::AllocationRelease>) {
        let now = Instant::now();
        let result = step(&mut state.conversation, now);
        let undo = self.carry_out(state);
        if let Some(stream) = &state.stream
            && state.conversation.has_messages()
        {
            stream.wake();
        }
        let due = state.conversation.due(now);
        if due.is_some_and(|due| state.armed.is_none_or(|armed| due < armed)) {
            self.earlier.notify_one();
        }
        state.armed = due;
        (result, undo)
    }

    /// Carries out the effects in order. Returns the placements to be released.
    fn carry_out(&self, state: &mut AttachmentState) -> Vec<si::AllocationRelease> {
        let mut undo = Vec::new();
        let mut has_delivered = false;
        let mut answers = AnswersInARow::default();
        for effect in state.conversation.effects() {
            if !matches!(effect, Effect::Answer(_)) {
                answers.send(&state.sinks);
            }
            match effect {
                Effect::Answer(answer) => answers.push(answer, &state.sinks),
                Effect::Mode(mode) => self.set_predicate_mode(mode, state.conversation.options()),
                Effect::Deliver(response) => {
                    has_delivered = true;
                    if let Some(delivery) = self.delivery.get().and_then(Weak::upgrade) {
                        delivery.deliver(response);
                    }
                }
                Effect::Undo(release) => undo.push(release),
                Effect::Invalidate(invalidation) => {
                    if let Some(control) = self.control.get() {
                        control.invalidate(invalidation);
                    }
                }
                Effect::Reply(number, reply) => {
                    if let Some(waiting) = state.waiting.remove(&number) {
                        // The caller may have given up.
                        let _ = waiting.send(reply);
                    }
                }
            }
        }
        answers.send(&state.sinks);
        if has_delivered && !state.conversation.withholds() {
            self.none_withheld.notify_waiters();
        }
        undo
    }

    fn set_predicate_mode(&self, mode: PredicateMode, options: &CallbackOptions) {
        let Some(control) = self.control.get() else { return };
        control.set_predicates(match mode {
            PredicateMode::Local => Predicates::Local,
            PredicateMode::Remote { holds } => {
                Predicates::Remote { in_flight: options.placements_in_flight, holds }
            }
            // In this mode the conversation answers the questions.
            PredicateMode::Fail => {
                Predicates::Remote { in_flight: options.placements_in_flight, holds: false }
            }
            PredicateMode::Hold => Predicates::Hold,
        });
    }

    fn lock(&self) -> MutexGuard<'_, AttachmentState> {
        locked(&self.state)
    }
}

impl AttachmentState {
    fn is_current(&self, stream: &Arc<StreamHandle>) -> bool {
        self.stream.as_ref().is_some_and(|current| Arc::ptr_eq(current, stream))
    }
}

/// Calls the attachment when a timeout is due or a sync was written, until the session is over.
async fn watch(attachment: Weak<Attachment>, ended: CancellationToken) {
    let mut due = None;
    loop {
        let Some(attachment) = attachment.upgrade() else { return };
        let until = due.unwrap_or_else(|| Instant::now() + FAR);
        let earlier = pin!(attachment.earlier.notified());
        let more_written = pin!(attachment.written.news());
        tokio::select! {
            biased;
            () = ended.cancelled() => {
                attachment.finish();
                return;
            }
            () = earlier => {}
            () = sleep_until(until) => {}
            () = more_written => {
                due = attachment.process_written();
                continue;
            }
        }
        due = attachment.apply_timeouts();
    }
}
