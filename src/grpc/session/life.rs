//! How a session lives: streams bind to it and end, and it goes from state to state until it stops.
//!
//! Here is carried out what [`Standing`](super::standing::Standing) decides, under its lock and hence
//! in that order.

use std::sync::{Arc, Weak};

use monoceros_actors::ResourceManagerControl;
use monoceros_proto::v1::Hello;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use super::attempt::Attempt;
use super::sequence::{Gap, Numbering};
use super::standing::{Effects, Expiry};
use super::{Binding, Live, Session};
use crate::grpc::attach::AllocationSink;
use crate::grpc::end::{Cause, StreamEnd};
use crate::grpc::kind::StreamKind;
use crate::grpc::outbox::Unbindable;
use crate::grpc::stream_handle::StreamHandle;

/// An outbox is closed only with its session, which says why first.
const GONE: &str = "the session has ended";

impl Session {
    /// The scheduler has accepted it; it decides nothing until a stream can carry it.
    pub fn begin(self: &Arc<Self>, control: ResourceManagerControl) {
        let delivery: Weak<dyn AllocationSink> = Arc::<Self>::downgrade(self);
        self.attachment.begin(control.clone(), delivery);
        let mut live = self.live();
        live.control = Some(control);
        live.reorder();
        let effects = live.standing.begin();
        self.carry_out(&live, effects);
    }

    /// How it ended, once it did.
    pub fn ended(&self) -> Option<StreamEnd> {
        self.live().standing.end().cloned()
    }

    /// Whether a manager of that name may register and go on with it.
    pub fn can_be_attached_by(&self, instance: Option<&str>) -> bool {
        self.live().standing.can_be_attached_by(instance)
    }

    /// Whether a call of this attempt is left of a connection that its client has given up.
    pub fn has_seen_later_than(&self, attempt: Option<&Attempt>) -> bool {
        let live = self.live();
        attempt.is_some_and(|attempt| attempt.is_left_over(live.attempt.as_ref()))
    }

    /// A call of this attempt has come.
    pub fn saw(&self, attempt: Option<Attempt>) {
        if attempt.is_some() {
            self.live().attempt = attempt;
        }
    }

    /// Another manager registers and goes on with it, if it says which: it counts its requests from
    /// the number that is returned, and what streams of the earlier one still bring by number is
    /// dropped.
    pub fn taken_up_by(&self, instance: Option<&str>) -> u64 {
        let mut live = self.live();
        live.standing.attached_by(instance);
        let taken = self.intake.take_over();
        let by = instance.map(ToOwned::to_owned);
        self.end_streams(true, &StreamEnd::Displaced { by });
        live.reorder();
        self.look(&mut live);
        taken
    }

    /// Makes `stream` the stream of its kind.
    pub fn bind<K: StreamKind>(
        self: &Arc<Self>,
        stream: &Arc<StreamHandle>,
        binding: Binding<'_>,
    ) -> Result<(), StreamEnd> {
        let mut live = self.live();
        live.attempt(binding.attempt)?;
        let is_numbered = binding.known.is_some();
        live.standing.admits(K::DIALECT, is_numbered, binding.instance)?;
        let numbering = is_numbered.then(|| self.intake.numbering());
        if let Some(Numbering { taken, .. }) = numbering
            && binding.known > Some(taken)
        {
            // A mistake of the newcomer is no reason to displace anyone.
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
                live.standing.miss(Cause::Missed);
                self.look(&mut live);
                return Err(StreamEnd::ResyncRequired(Cause::Missed));
            }
        }
        if live.standing.bound(K::DIALECT, is_numbered, binding.instance) {
            let by = binding.instance.map(ToOwned::to_owned);
            self.end_streams(false, &StreamEnd::Displaced { by });
        }
        if is_numbered {
            self.intake.begin(Instant::now());
        }
        live.reorder();
        self.look(&mut live);
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
            if let Some(refusal) = live.standing.refusal() {
                return Err(refusal);
            }
        }
        stream.bind_to(self, None)?;
        self.attachment.attach(stream, hello, scheduler_id, self.number())
    }

    /// `stream` has ended.
    pub fn release<K: StreamKind>(&self, stream: &Arc<StreamHandle>) {
        let mut live = self.live();
        K::outbox(self).release(stream);
        self.look(&mut live);
    }

    /// A message of the client could not be read: open streams go on, later ones are refused until
    /// the client registers again and says everything anew.
    pub fn lose_items(&self) {
        self.live().standing.miss(Cause::ItemsLost);
    }

    /// Client and scheduler no longer know the same: its streams end, and no other may bind. What
    /// it holds stays until it registers again or has been paused for too long. Returns how many
    /// streams were open.
    pub fn lose(&self, cause: Cause) -> usize {
        let mut live = self.live();
        let effects = live.standing.lose(cause, Instant::now());
        self.carry_out(&live, effects)
    }

    /// The session is stopped, and everything that it held is gone.
    pub fn stop(&self, end: &StreamEnd) {
        let mut live = self.live();
        let effects = live.standing.stop(end.clone(), Instant::now());
        self.carry_out(&live, effects);
    }

    /// Announces when the session is to be [looked at](Self::expire) next, if at any time.
    pub fn deadlines(&self) -> watch::Receiver<Option<Instant>> {
        self.deadline.subscribe()
    }

    /// Lets a session whose time has come go where that leads. Returns whether it has to be stopped.
    pub fn expire(&self) -> bool {
        let mut live = self.live();
        let now = Instant::now();
        match self.intake.expire(now) {
            Gap::None | Gap::Until(_) => {}
            Gap::Overdue => drop(self.end_numbered(&mut live)),
        }
        match live.standing.expire(now) {
            Expiry::Stop => return true,
            Expiry::GoesOn(effects) => self.carry_out(&live, effects),
        };
        self.announce_deadline(&live);
        false
    }

    /// A request of the client is missing: streams that number theirs end, for the client to send
    /// again what was not taken. Returns how they end.
    pub(super) fn end_for_gap(&self) -> StreamEnd {
        self.end_numbered(&mut self.live())
    }

    fn end_numbered(&self, live: &mut Live) -> StreamEnd {
        let end = StreamEnd::SequenceGap { taken: self.intake.forget() };
        warn!(rm = self.rm_id(), %end, "streams end");
        self.end_streams(true, &end);
        self.look(live);
        end
    }

    /// Ends the streams that have numbers, or those that have none.
    fn end_streams(&self, numbered: bool, end: &StreamEnd) {
        for (_, _, outbox) in self.outboxes() {
            outbox.end_stream(numbered, end);
        }
    }

    /// Somebody has changed who is bound, or how much waits.
    pub(super) fn review(&self) {
        self.look(&mut self.live());
    }

    fn look(&self, live: &mut Live) {
        let mut outboxes = self.outboxes().into_iter();
        let is_attached = outboxes.any(|(_, carries, outbox)| carries && outbox.is_bound());
        let effects = live.standing.review(is_attached, &self.backlog, Instant::now());
        self.carry_out(live, effects);
    }

    /// Returns how many streams were closed.
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

    /// Says when to look again: the first of both times.
    pub(super) fn announce_deadline(&self, live: &Live) {
        let due = live.standing.life().deadline().into_iter().chain(self.intake.due()).min();
        self.deadline.send_if_modified(|announced| std::mem::replace(announced, due) != due);
    }

    /// There is something to tell all streams that number their requests.
    pub(super) fn wake_streams(&self) {
        for (_, _, outbox) in self.outboxes() {
            outbox.wake();
        }
    }

    /// Somebody has found a gap that nobody looks at.
    pub(super) fn watch_gap(&self) {
        self.announce_deadline(&self.live());
    }
}
