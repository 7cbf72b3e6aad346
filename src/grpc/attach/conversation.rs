//! The decisions about the callback streams of one session, without streams, tasks or clocks. So
//! tests play years of a session in virtual time, and there are no races.
//!
//! # Use
//! Each input (a message of the shim, a question of the scheduler, a timeout that [was
//! due](Conversation::due)) has a method. After its call, messages may be
//! [taken](Conversation::take), and [effects](Conversation::effects) must be carried out in order.
//!
//! # Invariants
//! * Every question is answered, unless it was cancelled.
//! * The scheduler learns of a lost stream before it learns that its questions are unanswered, so
//!   that it does not ask them again without result.
//! * No message is larger than the shim accepts, unless a single item is.
//! * All state of one stream is in [`Stream`] and is dropped with it.

use monoceros_actors::metrics::CallbackMetrics;
use monoceros_actors::{Invalidation, Verdict};
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as cb;
use monoceros_proto::v1::core_message::Body;
use tokio::time::Instant;
use tracing::warn;

use super::batching::{Answer, Batcher, Limits, Ticket, Turn};
use super::bundles::Bundles;
use super::cache::{Cache, RequestName};
use super::dictionary::Dictionary;
use super::events::Events;
use super::options::CallbackOptions;
use super::outgoing::Outgoing;
use super::preemption::{DoneGroup, Preempted, Preemptions};
use super::presence::{PredicateMode, Presence};
use super::pulse::{Beat, Pulse};
use super::requests::{Saves, ShimDump};
use super::results::clamped;
use super::states::States;
use crate::grpc::end::StreamEnd;
use crate::settings::callback::Asking;

mod notifications;
mod opening;
mod receiving;
mod requests;
#[cfg(test)]
mod tests;

/// How long the shim may take to save a configuration.
const SAVE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// An effect outside of the stream, to be carried out in order.
#[derive(Debug, PartialEq)]
pub(super) enum Effect {
    /// Sets the mode in which the scheduler asks predicates.
    Mode(PredicateMode),
    /// Answers a question of the scheduler.
    Answer(Answer),
    /// Delivers a response to the allocation stream.
    Deliver(si::AllocationResponse),
    /// Releases a placement that the shim refused.
    Undo(si::AllocationRelease),
    /// Invalidates answers known to the scheduler.
    Invalidate(Invalidation),
    /// Answers the caller of the request with this number.
    Reply(u64, ShimReply),
}

/// The answer to a request.
#[derive(Debug, PartialEq)]
pub(super) enum ShimReply {
    /// The state of the RM, or the reason why there is none.
    State(Result<String, String>),
    /// Whether a configuration was saved.
    Saved(Result<(), String>),
    /// The answers to a group of preemption questions.
    Preempted(Vec<Preempted>),
}

/// The identity that the Welcome announces.
#[derive(Clone, Debug)]
pub(super) struct StreamIdentity {
    pub(super) scheduler_id: String,
    pub(super) session: u64,
    /// Number of the stream within the session.
    pub(super) attach: u64,
}

/// All streams of a session, one after another.
#[derive(Debug)]
pub(super) struct Conversation {
    options: CallbackOptions,
    metrics: CallbackMetrics,
    presence: Presence,
    mode: PredicateMode,
    dictionary: Dictionary,
    cache: Cache,
    events: Events,
    states: States,
    /// The number of the last batch or request; all share one count.
    number: u64,
    stream: Option<Stream>,
    effects: Vec<Effect>,
}

/// The state of one stream.
#[derive(Debug)]
struct Stream {
    session: u64,
    able: Capabilities,
    limits: Limits,
    max_bytes: usize,
    batcher: Option<Batcher>,
    bundles: Bundles,
    preemptions: Preemptions,
    dump: Option<ShimDump>,
    saves: Saves,
    pulse: Pulse,
    out: Outgoing,
    /// The remark on the shim's answers if a part of them is ignored, with the reason.
    remark: Option<&'static str>,
}

/// The remark on answers whose `elsewhere` is ignored.
const WITHOUT_A_VIEW: &str = "the shim says what its answers depend on (`elsewhere`), which counts with the \
                              capability CACHE_SYNC alone: each depends on everything, and one placement \
                              settles per round trip";

/// The capabilities of the shim, as bits.
#[derive(Clone, Copy, Debug)]
struct Capabilities(u32);

impl Capabilities {
    fn of(hello: &cb::Hello) -> Self {
        Self(hello.capabilities().fold(0, |bits, capability| bits | Self::bit(capability)))
    }

    fn to(self, capability: cb::Capability) -> bool {
        self.0 & Self::bit(capability) != 0
    }

    fn bit(capability: cb::Capability) -> u32 {
        match capability {
            // A number of this project's own, far from the others.
            cb::Capability::HoldPredicates => 1 << 31,
            other => 1 << other as u32,
        }
    }
}

impl Conversation {
    /// Creates a conversation without a stream.
    pub(super) fn new(options: CallbackOptions, metrics: CallbackMetrics) -> Self {
        let expects = options.callback.predicates != Asking::None;
        let events = Events::new(options.event_capacity);
        Self {
            options,
            metrics,
            presence: Presence::new(),
            mode: PredicateMode::Local,
            dictionary: Dictionary::default(),
            cache: Cache::new(expects),
            events,
            states: States::default(),
            number: 0,
            stream: None,
            effects: Vec::new(),
        }
    }

    /// Starts the session.
    pub(super) fn begin(&mut self, now: Instant) {
        self.presence.begin(now);
        self.set_mode(now);
    }

    /// Replaces the options; agreements with an open stream stay.
    pub(super) fn configure(&mut self, now: Instant, options: CallbackOptions) {
        let in_flight = self.options.placements_in_flight;
        self.options = options;
        if self.options.placements_in_flight != in_flight {
            // The mode and the number of placements in flight are sent to the scheduler together.
            self.effects.push(Effect::Mode(self.mode));
        }
        self.set_mode(now);
    }

    pub(super) fn options(&self) -> &CallbackOptions {
        &self.options
    }

    /// Records the loss of the stream.
    pub(super) fn detach(&mut self, now: Instant) {
        let open = self.drop_stream(now);
        self.set_mode(now);
        self.leave_open(open);
    }

    /// Records that cache syncs up to `seq` were written to the connection.
    pub(super) fn written(&mut self, seq: u64) {
        self.effects.extend(self.cache.written(seq).into_iter().map(Effect::Deliver));
    }

    /// Whether responses are withheld.
    pub(super) fn withholds(&self) -> bool {
        self.cache.withholds()
    }

    /// Applies timeouts. An error ends the stream.
    pub(super) fn tick(&mut self, now: Instant) -> Result<(), StreamEnd> {
        self.set_mode(now);
        let counts = self.cache.awaits_confirmation();
        let overdue = self.cache.overdue(now);
        if counts {
            self.metrics.cache_sync_timeouts.inc_by(overdue.len() as u64);
        }
        self.effects.extend(overdue.into_iter().map(Effect::Deliver));
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let stalled =
            stream.out.waits_since().map(|since| since + self.options.callback.idle_timeout);
        if stalled.is_some_and(|end| end <= now) || stream.out.has_overflowed() {
            return Err(StreamEnd::Stalled);
        }
        match stream.pulse.beat(now) {
            Beat::Quiet => {}
            Beat::Dead => return Err(StreamEnd::Silent),
            Beat::Ask(nonce) => {
                let heartbeat = self.heartbeat(nonce, true);
                self.push(now, heartbeat);
            }
        }
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let turn = stream.batcher.as_mut().map(|batcher| batcher.expire(now));
        let preempted = stream.preemptions.expire(now);
        let saves = stream.saves.expire(now);
        let dump = stream.dump.take_if(|dump| dump.deadline <= now);
        if let Some(turn) = turn {
            self.carry_out(now, turn);
        }
        self.preempted(preempted);
        let late = || "the shim did not answer in time".to_owned();
        for request in saves {
            self.reply(request, ShimReply::Saved(Err(late())));
        }
        if let Some(dump) = dump {
            self.reply(dump.request, ShimReply::State(Err(late())));
        }
        if self.has_capability(cb::Capability::Predicates)
            || self.has_capability(cb::Capability::PreemptionPredicates)
        {
            self.dictionary.sweep(now);
            self.send_dictionary(now);
        }
        self.send_what_is_ready(now);
        Ok(())
    }

    /// The time of the next [`tick`](Self::tick).
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let own = [self.presence.due(&self.options, now), self.cache.due()];
        let of_stream = self.stream.as_ref().map(|stream| {
            let idle = self.options.callback.idle_timeout;
            [
                stream.out.has_overflowed().then_some(now),
                stream.out.waits_since().map(|since| since + idle),
                Some(stream.pulse.due()),
                stream.batcher.as_ref().and_then(|batcher| batcher.due(now)),
                stream.preemptions.due(),
                stream.saves.due(),
                stream.dump.as_ref().map(|dump| dump.deadline),
                self.states.due(),
            ]
        });
        own.into_iter().chain(of_stream.into_iter().flatten()).flatten().min()
    }

    /// Takes the next message for the shim.
    pub(super) fn take(&mut self, now: Instant) -> Option<cb::CoreMessage> {
        let stream = self.stream.as_mut()?;
        loop {
            let body = stream.out.pop(now)?;
            let batcher = stream.batcher.as_ref();
            let is_over = match &body {
                Body::PredicateBatch(batch) => {
                    !batcher.is_some_and(|batcher| batcher.is_in_flight(batch.batch_id))
                }
                Body::PreemptionBatch(batch) => !stream.preemptions.is_in_flight(batch.batch_id),
                _ => false,
            };
            if !is_over {
                return Some(cb::CoreMessage { body: Some(body) });
            }
        }
    }

    /// Whether messages are queued.
    pub(super) fn has_messages(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| !stream.out.is_empty())
    }

    /// Takes the effects.
    pub(super) fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    fn has_capability(&self, capability: cb::Capability) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.able.to(capability))
    }

    /// Returns the remark on the shim's answers if a part of them is ignored, with the reason.
    pub(super) fn remark(&self) -> Option<&'static str> {
        self.stream.as_ref()?.remark
    }

    fn set_mode(&mut self, now: Instant) {
        let mode = self.presence.mode(&self.options, now);
        if mode != self.mode {
            let before = std::mem::replace(&mut self.mode, mode);
            self.effects.push(Effect::Mode(mode));
            if before == PredicateMode::Fail && matches!(mode, PredicateMode::Remote { .. }) {
                // The scheduler treats both modes alike, and the failed questions were never asked.
                let invalidation = Invalidation { all: true, ..Invalidation::default() };
                self.effects.push(Effect::Invalidate(invalidation));
            }
        }
    }

    /// Drops the stream, if there is one. Returns the unanswered questions.
    fn drop_stream(&mut self, now: Instant) -> Vec<Ticket> {
        let Some(stream) = self.stream.take() else { return Vec::new() };
        self.presence.detach(now);
        self.events.detach();
        self.states.set_attached(None);
        self.effects.extend(self.cache.detach().into_iter().map(Effect::Deliver));
        self.preempted(stream.preemptions.close());
        let lost = || "the shim's stream was lost".to_owned();
        for request in stream.saves.close() {
            self.reply(request, ShimReply::Saved(Err(lost())));
        }
        if let Some(dump) = stream.dump {
            self.reply(dump.request, ShimReply::State(Err(lost())));
        }
        stream.batcher.map(Batcher::close).unwrap_or_default()
    }

    fn leave_open(&mut self, tickets: Vec<Ticket>) {
        let answer = |ticket| Effect::Answer(Answer { ticket, verdict: Verdict::Unanswered });
        self.effects.extend(tickets.into_iter().map(answer));
    }

    fn carry_out(&mut self, now: Instant, turn: Turn) {
        let Turn { answers, forget, cancelled, behind, is_unheeded } = turn;
        if let (true, Some(stream)) = (is_unheeded, &mut self.stream) {
            stream.remark = Some(WITHOUT_A_VIEW);
            warn!(session = stream.session, "{WITHOUT_A_VIEW}");
        }
        if let (Some(cache_seq), Some(stream)) = (behind, &self.stream) {
            warn!(
                session = stream.session,
                cache_seq, "the shim answers from a view that is behind: it is asked again, slower"
            );
        }
        if !cancelled.is_empty() {
            self.push(now, Body::Cancel(cb::CancelBatch { batch_ids: cancelled }));
        }
        if let Some(Stream { batcher: Some(batcher), .. }) = &mut self.stream {
            for request in &forget {
                batcher.forgotten(request);
            }
            let assumed_on = |request: &RequestName| batcher.assumed_on(request).cloned();
            for sync in self.cache.forget(&forget, assumed_on) {
                self.push(now, Body::CacheSync(sync));
            }
        }
        self.effects.extend(answers.into_iter().map(Effect::Answer));
    }

    fn preempted(&mut self, done: impl IntoIterator<Item = DoneGroup>) {
        for (batch, answers) in done {
            self.reply(batch, ShimReply::Preempted(answers));
        }
    }

    fn reply(&mut self, number: u64, reply: ShimReply) {
        self.effects.push(Effect::Reply(number, reply));
    }

    fn heartbeat(&self, nonce: u64, reply: bool) -> Body {
        let cache_seq = self.cache.seq();
        let batcher = self.stream.as_ref().and_then(|stream| stream.batcher.as_ref());
        let queued_batches = batcher.map_or(0, |batcher| clamped(batcher.queued_batches()));
        // The caller sets it, since the conversation has no clock.
        let timestamp_nano = 0;
        Body::Heartbeat(cb::Heartbeat { nonce, reply, cache_seq, queued_batches, timestamp_nano })
    }

    fn send_what_is_ready(&mut self, now: Instant) {
        while let Some(Stream { batcher: Some(batcher), bundles, max_bytes, .. }) = &mut self.stream
        {
            let (number, seq) = (self.number + 1, self.cache.seq());
            let batch = batcher.next_batch(now, number, seq, &mut self.dictionary, bundles);
            let Some(mut batch) = batch else { break };
            self.number = number;
            let places = bundles.updates(&mut self.dictionary, *max_bytes);
            self.send_dictionary(now);
            for part in places {
                self.push(now, Body::BundlePlaces(part));
            }
            batch.dict_version = self.dictionary.version();
            self.push(now, Body::PredicateBatch(batch));
        }
        while let Some(batch) = self.events.next_batch() {
            self.push(now, Body::EventBatch(batch));
        }
        for batch in self.states.next_batches(now) {
            self.push(now, Body::ContainerStates(batch));
        }
    }

    /// Sends dictionary updates; call it before any message that names nodes by index.
    fn send_dictionary(&mut self, now: Instant) {
        let Some(stream) = &mut self.stream else { return };
        for update in self.dictionary.updates(stream.max_bytes) {
            stream.out.push(now, Body::NodeDictionary(update));
        }
    }

    fn push(&mut self, now: Instant, body: Body) {
        if let Some(stream) = &mut self.stream {
            stream.out.push(now, body);
        }
    }
}

fn millis(duration: std::time::Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
