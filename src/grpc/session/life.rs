//! The life of a session: streams bind and end, and its state changes until it stops.
//!
//! The methods here carry out the effects that [`LiveStatus`](super::status::LiveStatus) decides,
//! under its lock and therefore in order.

use std::sync::{Arc, Weak};

use monoceros_actors::ResourceManagerControl;
use monoceros_proto::v1::Hello;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use super::attempt::Attempt;
use super::sequence::{Gap, Numbering};
use super::status::{Effects, Expiry};
use super::{Binding, Live, Session};
use crate::grpc::attach::AllocationSink;
use crate::grpc::end::{Cause, StreamEnd};
use crate::grpc::kind::StreamKind;
use crate::grpc::outbox::Unbindable;
use crate::grpc::stream_handle::StreamHandle;

/// Reason of a closed outbox. An outbox is closed only together with its session.
const GONE: &str = "the session has ended";

impl Session {
    /// Starts the session after the scheduler has accepted it. No decision is made until a stream
    /// for allocations is open.
    pub fn begin(self: &Arc<Self>, control: ResourceManagerControl) {
        let delivery: Weak<dyn AllocationSink> = Arc::<Self>::downgrade(self);
        self.attachment.begin(control.clone(), delivery);
        let mut live = self.live();
        live.control = Some(control);
        live.reorder();
        let effects = live.status.begin();
        self.carry_out(&live, effects);
    }

    /// Returns the end of the session. `None` while it has not ended.
    pub fn ended(&self) -> Option<StreamEnd> {
        self.live().status.end().cloned()
    }

    /// Whether an instance of that name may register and continue the session.
    pub fn can_be_continued_by(&self, instance: Option<&str>) -> bool {
        self.live().status.can_be_continued_by(instance)
    }

    /// Whether a later attempt of the same client was seen.
    pub fn is_from_earlier_attempt(&self, attempt: Option<&Attempt>) -> bool {
        let live = self.live();
        attempt.is_some_and(|attempt| attempt.is_left_over(live.attempt.as_ref()))
    }

    /// Records the attempt of a call.
    pub fn note_attempt(&self, attempt: Option<Attempt>) {
        if attempt.is_some() {
            self.live().attempt = attempt;
        }
    }

    /// Hands the session over to another instance that registered, named or not. Returns the number
    /// of the last request taken, from which the instance continues; numbered requests that still
    /// arrive on streams of the earlier instance are dropped.
    pub fn continue_as(&self, instance: Option<&str>) -> u64 {
        let mut live = self.live();
        live.status.registered_by(instance);
        let taken = self.intake.take_over();
        let by = instance.map(ToOwned::to_owned);
        self.end_streams(true, &StreamEnd::Displaced { by });
        live.reorder();
        self.review_locked(&mut live);
        taken
    }

    /// Makes `stream` the session's stream of its kind.
    pub fn bind<K: StreamKind>(
        self: &Arc<Self>,
        stream: &Arc<StreamHandle>,
        binding: Binding<'_>,
    ) -> Result<(), StreamEnd> {
        let mut live = self.live();
        live.attempt(binding.attempt)?;
        let is_numbered = binding.known.is_some();
        live.status.admits(K::DIALECT, is_numbered, binding.instance)?;
        let numbering = is_numbered.then(|| self.intake.numbering());
        if let Some(Numbering { taken, .. }) = numbering
            && binding.known > Some(taken)
        {
            // A mistake of a new stream must not displace the existing one.
            return Err(StreamEnd::SequenceGap { taken });
        }
        stream.bind_to(self, numbering)?;
        match K::outbox(self).bind(stream, binding.resume, binding.instance) {
            Ok(()) => {}
            Err(Unbindable::Closed) => return Err(StreamEnd::Internal(GONE)),
            Err(Unbindable::Unknown) => return Err(StreamEnd::ResyncRequired(Cause::Missed)),
            Err(Unbindable::Gap) => {
                warn!(
                    rm = self.rm_id(),
                    kind = K::NAME,
                    "messages of a lost stream may be missing"
                );
                live.status.mark_lost(Cause::Missed);
                self.review_locked(&mut live);
                return Err(StreamEnd::ResyncRequired(Cause::Missed));
            }
        }
        if live.status.bound(K::DIALECT, is_numbered, binding.instance) {
            let by = binding.instance.map(ToOwned::to_owned);
            self.end_streams(false, &StreamEnd::Displaced { by });
        }
        if is_numbered {
            self.intake.begin(Instant::now());
        }
        live.reorder();
        self.review_locked(&mut live);
        Ok(())
    }

    /// Makes `stream` the callback stream. It carries no allocations: the session runs without it.
    pub fn attach(
        self: &Arc<Self>,
        stream: &Arc<StreamHandle>,
        hello: &Hello,
        scheduler_id: String,
        attempt: Option<&Attempt>,
    ) -> Result<(), StreamEnd> {
        {
            let mut live = self.live();
            live.attempt(attempt)?;
            if let Some(refusal) = live.status.refusal() {
                return Err(refusal);
            }
        }
        stream.bind_to(self, None)?;
        self.attachment.attach(stream, hello, scheduler_id, self.number())
    }

    /// Releases a stream that has ended.
    pub fn release<K: StreamKind>(&self, stream: &Arc<StreamHandle>) {
        let mut live = self.live();
        K::outbox(self).release(stream);
        self.review_locked(&mut live);
    }

    /// Records that a message of the client could not be read. Open streams continue; streams that
    /// are opened later are refused until the client registers again and reports everything.
    pub fn mark_items_lost(&self) {
        self.live().status.mark_lost(Cause::ItemsLost);
    }

    /// Ends all streams because client and scheduler no longer have the same state; no other stream
    /// may bind. The allocations stay until the client registers again or the pause times out.
    /// Returns the number of open streams.
    pub fn lose(&self, cause: Cause) -> usize {
        let mut live = self.live();
        let effects = live.status.lose(cause, Instant::now());
        self.carry_out(&live, effects)
    }

    /// Ends the streams after the scheduler has released everything the session held.
    pub fn stop(&self, end: &StreamEnd) {
        let mut live = self.live();
        let effects = live.status.stop(end.clone(), Instant::now());
        self.carry_out(&live, effects);
    }

    /// Announces the time of the next [`expire`](Self::expire), if there is one.
    pub fn deadlines(&self) -> watch::Receiver<Option<Instant>> {
        self.deadline.subscribe()
    }

    /// Applies the timeouts that have passed. Returns whether the session has to be stopped.
    pub fn expire(&self) -> bool {
        let mut live = self.live();
        let now = Instant::now();
        match self.intake.expire(now) {
            Gap::None | Gap::Until(_) => {}
            Gap::Overdue => drop(self.end_numbered_streams(&mut live)),
        }
        match live.status.expire(now) {
            Expiry::Stop => return true,
            Expiry::GoesOn(effects) => self.carry_out(&live, effects),
        };
        self.announce_deadline(&live);
        false
    }

    /// Ends the streams with numbers because a request is missing; the client sends the requests
    /// not taken again. Returns the end.
    pub(super) fn end_for_gap(&self) -> StreamEnd {
        self.end_numbered_streams(&mut self.live())
    }

    fn end_numbered_streams(&self, live: &mut Live) -> StreamEnd {
        let end = StreamEnd::SequenceGap { taken: self.intake.forget() };
        warn!(rm = self.rm_id(), %end, "streams end");
        self.end_streams(true, &end);
        self.review_locked(live);
        end
    }

    /// Ends the streams with numbers or, if `numbered` is false, the streams without numbers.
    fn end_streams(&self, numbered: bool, end: &StreamEnd) {
        for (_, _, outbox) in self.outboxes() {
            outbox.end_stream(numbered, end);
        }
    }

    /// Derives the status after a change of the bound streams or of the backlog.
    pub(super) fn review(&self) {
        self.review_locked(&mut self.live());
    }

    fn review_locked(&self, live: &mut Live) {
        let mut outboxes = self.outboxes().into_iter();
        let is_attached = outboxes.any(|(_, carries, outbox)| carries && outbox.is_bound());
        let effects = live.status.review(is_attached, &self.backlog, Instant::now());
        self.carry_out(live, effects);
    }

    /// Applies effects. Returns the number of streams closed.
    fn carry_out(&self, live: &Live, effects: Effects) -> usize {
        let Effects { entered, is_behind, hold, close } = effects;
        if let Some(is_behind) = is_behind {
            let items = self.backlog.load().items;
            if is_behind {
                info!(rm = self.rm_id(), items, "too much waits to be read, nothing is decided");
            } else {
                info!(rm = self.rm_id(), items, "little waits to be read, decisions go on");
            }
        }
        if let Some(state) = entered {
            info!(rm = self.rm_id(), session = self.number(), state = state.name(), "session");
            self.announce_deadline(live);
        }
        if let (Some(hold), Some(control)) = (hold, &live.control) {
            control.hold(hold);
        }
        close.map_or(0, |end| {
            let attached = usize::from(self.attachment.is_attached());
            self.attachment.close(&end);
            self.intake.forget();
            let outboxes = self.outboxes().into_iter();
            attached + outboxes.filter(|(_, _, outbox)| outbox.close(&end)).count()
        })
    }

    /// Announces the earlier of the two deadlines: that of the status, and that of a gap in the
    /// numbers.
    pub(super) fn announce_deadline(&self, live: &Live) {
        let due = live.status.life().deadline().into_iter().chain(self.intake.due()).min();
        self.deadline.send_if_modified(|announced| std::mem::replace(announced, due) != due);
    }

    /// Wakes all numbered streams to report the requests taken.
    pub(super) fn wake_streams(&self) {
        for (_, _, outbox) in self.outboxes() {
            outbox.wake();
        }
    }

    /// Starts to watch a gap in the numbers.
    pub(super) fn watch_gap(&self) {
        self.announce_deadline(&self.live());
    }
}
