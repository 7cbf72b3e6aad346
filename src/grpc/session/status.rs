//! The status of a session, and the effects of each event on it: free of streams, locks and clocks,
//! so that every order of events can be tested.
//!
//! # Why effects
//! Streams bind and end on their own threads, and the backlog grows on the scheduler's threads.
//! Each thread reports its event here and carries out the [`Effects`], both under one lock: so the
//! scheduler sees the changes in order.
//!
//! # Invariants
//! * The scheduler holds decisions for the resource manager unless the session is
//!   [running](SessionState::Running) and its backlog is acceptable.
//! * The first reason given for the end or the loss of a session is final.
//! * The dialect is that of the first stream.

use tokio::time::Instant;

use super::backlog::Backlog;
use super::state::{Lifecycle, LifecycleEvent, Patience, SessionState};
use crate::grpc::end::{Cause, StreamEnd};
use crate::grpc::kind::Dialect;

const MIXED: &str = "the streams of a session have numbers in their requests, or none of them has: \
                     register to change it";

/// The instance whose request numbers are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Counter {
    /// To be decided by the first stream with numbers: its instance.
    Undecided,
    /// An instance without a name.
    Unnamed,
    Named(String),
}

impl Counter {
    /// The counter after a stream with numbers was bound.
    fn of(instance: Option<&str>) -> Self {
        instance.map_or(Self::Unnamed, |name| Self::Named(name.to_owned()))
    }

    /// The counter after a registration. An unnamed instance may name itself with its first stream.
    fn registered(instance: Option<&str>) -> Self {
        instance.map_or(Self::Undecided, |name| Self::Named(name.to_owned()))
    }
}

/// The status of a session, and the last status sent to the scheduler.
#[derive(Debug)]
pub(super) struct LiveStatus {
    life: Lifecycle,
    registered: Instant,
    dialect: Option<Dialect>,
    /// Why no stream may bind any more: client and scheduler no longer have the same state.
    lost: Option<Cause>,
    /// The end of the session, once it has ended.
    end: Option<StreamEnd>,
    /// The latest queue configuration, from the registration or an operator; empty if none.
    config: String,
    /// The instance that last registered or opened a stream, if it is named.
    instance: Option<String>,
    /// Whether the present instance numbers its requests. `None` before its first stream.
    is_numbered: Option<bool>,
    /// Whether any instance of this session numbered its requests.
    was_numbered: bool,
    counts: Counter,
    /// Set while the backlog is too high.
    is_behind: bool,
    /// The last hold sent to the scheduler. `None` until the scheduler has accepted the session.
    is_held: Option<bool>,
}

/// The effects of a transition, to be carried out by the caller.
#[derive(Debug, Default)]
#[must_use = "the scheduler and the streams have to be notified"]
pub(super) struct Effects {
    /// The new state, to be logged; the deadline has changed too.
    pub(super) entered: Option<SessionState>,
    /// Set when the backlog became too high or acceptable, to be logged.
    pub(super) is_behind: Option<bool>,
    /// Whether the scheduler has to hold decisions from now on, if that changed.
    pub(super) hold: Option<bool>,
    /// The end of all streams; their queued messages are dropped.
    pub(super) close: Option<StreamEnd>,
}

/// The result of checking the deadline.
#[derive(Debug)]
pub(super) enum Expiry {
    /// The session continues, possibly in another state.
    GoesOn(Effects),
    /// The session has to be stopped. The caller stops it, since the scheduler has to be notified
    /// and no stream may bind before that is done.
    Stop,
}

impl LiveStatus {
    /// A session that the scheduler has not accepted yet.
    pub(super) fn new(
        patience: Patience,
        config: String,
        instance: Option<String>,
        now: Instant,
    ) -> Self {
        Self {
            life: Lifecycle::new(patience, now),
            registered: now,
            dialect: None,
            lost: None,
            end: None,
            config,
            counts: Counter::registered(instance.as_deref()),
            instance,
            is_numbered: None,
            was_numbered: false,
            is_behind: false,
            is_held: None,
        }
    }

    pub(super) fn life(&self) -> &Lifecycle {
        &self.life
    }

    pub(super) fn registered(&self) -> Instant {
        self.registered
    }

    pub(super) fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    pub(super) fn lost(&self) -> Option<&Cause> {
        self.lost.as_ref()
    }

    pub(super) fn end(&self) -> Option<&StreamEnd> {
        self.end.as_ref()
    }

    pub(super) fn instance(&self) -> Option<&str> {
        self.instance.as_deref()
    }

    /// Whether the backlog is too high.
    #[cfg(test)]
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Whether a client may continue the session.
    pub(super) fn is_usable(&self) -> bool {
        self.lost.is_none() && self.end.is_none()
    }

    /// Replaces the queue configuration; empty means none.
    pub(super) fn set_config(&mut self, config: String) {
        self.config = config;
    }

    /// Whether there is a queue configuration and it differs from `config`.
    pub(super) fn has_other_config(&self, config: &str) -> bool {
        !self.config.is_empty() && self.config != config
    }

    /// Records the instance, if it is named.
    pub(super) fn note_instance(&mut self, instance: Option<&str>) {
        if let Some(instance) = instance {
            self.instance = Some(instance.to_owned());
        }
    }

    /// Records that another instance registered and continues the session.
    pub(super) fn registered_by(&mut self, instance: Option<&str>) {
        self.note_instance(instance);
        self.counts = Counter::registered(instance);
        self.is_numbered = None;
    }

    /// Whether an instance of that name may register and continue the session. If requests were
    /// numbered, the instance needs a name, since without one it could not be distinguished from
    /// the earlier instance.
    pub(super) fn can_be_continued_by(&self, instance: Option<&str>) -> bool {
        self.is_usable() && (instance.is_some() || !self.was_numbered)
    }

    /// Whether the present instance numbers its requests.
    pub(super) fn is_numbered(&self) -> bool {
        self.is_numbered == Some(true)
    }

    pub(super) fn set_patience(&mut self, patience: Patience) {
        self.life.set_patience(patience);
    }

    /// Why no stream may bind, if so.
    pub(super) fn refusal(&self) -> Option<StreamEnd> {
        let lost = self.lost.clone().map(StreamEnd::ResyncRequired);
        lost.or_else(|| self.end.clone())
    }

    /// Checks whether such a stream may bind. Either all streams of an instance are numbered or
    /// none, and only the instance that registered last may number its requests. Changes nothing:
    /// [`bound`](Self::bound) records the stream.
    pub(super) fn admits(
        &self,
        dialect: Dialect,
        is_numbered: bool,
        instance: Option<&str>,
    ) -> Result<(), StreamEnd> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal);
        }
        if let Some(has) = self.dialect.filter(|has| *has != dialect) {
            return Err(StreamEnd::DialectMixed { has });
        }
        let decided = self.counts != Counter::Undecided;
        if is_numbered && decided && self.counts != Counter::of(instance) {
            let by = match &self.counts {
                Counter::Named(name) => Some(name.clone()),
                Counter::Undecided | Counter::Unnamed => None,
            };
            return Err(StreamEnd::Superseded { by });
        }
        // The opposite is allowed: a numbered stream ends the streams without numbers, since it
        // belongs to a new instance that numbers.
        if self.is_numbered == Some(true) && !is_numbered {
            return Err(StreamEnd::Misnumbered(MIXED));
        }
        Ok(())
    }

    /// Records that such a stream was bound. Returns whether the streams without numbers have to
    /// end.
    pub(super) fn bound(
        &mut self,
        dialect: Dialect,
        is_numbered: bool,
        instance: Option<&str>,
    ) -> bool {
        self.dialect = Some(dialect);
        let had_none = self.is_numbered.replace(is_numbered) == Some(false);
        if is_numbered {
            self.was_numbered = true;
            self.counts = Counter::of(instance);
        }
        self.note_instance(instance);
        is_numbered && had_none
    }

    /// The scheduler has accepted the session and can be notified from now on.
    pub(super) fn begin(&mut self) -> Effects {
        self.is_held.get_or_insert(false);
        self.settled(Effects::default())
    }

    /// Derives the status from the bound streams and the backlog.
    pub(super) fn review(&mut self, is_attached: bool, backlog: &Backlog, now: Instant) -> Effects {
        let event = if is_attached { LifecycleEvent::Attached } else { LifecycleEvent::Detached };
        let mut effects = self.enter(event, now);
        let is_behind = backlog.is_too_much(self.is_behind);
        if is_behind != self.is_behind {
            self.is_behind = is_behind;
            effects.is_behind = Some(is_behind);
        }
        self.settled(effects)
    }

    /// Records a loss of state that the client cannot know of. No more streams may bind; open
    /// streams continue.
    pub(super) fn mark_lost(&mut self, cause: Cause) {
        self.lost.get_or_insert(cause);
    }

    /// Client and scheduler no longer have the same state: all streams end, and no other may bind.
    pub(super) fn lose(&mut self, cause: Cause, now: Instant) -> Effects {
        self.lost.get_or_insert_with(|| cause.clone());
        self.over(LifecycleEvent::Lost, StreamEnd::ResyncRequired(cause), now)
    }

    pub(super) fn stop(&mut self, end: StreamEnd, now: Instant) -> Effects {
        self.over(LifecycleEvent::Stopped, end, now)
    }

    /// Applies the timeouts.
    pub(super) fn expire(&mut self, now: Instant) -> Expiry {
        if !self.life.is_overdue(now) {
            return Expiry::GoesOn(Effects::default());
        }
        if self.life.state().after(LifecycleEvent::Overdue) == SessionState::Stopped {
            return Expiry::Stop;
        }
        let effects = self.enter(LifecycleEvent::Overdue, now);
        Expiry::GoesOn(self.settled(effects))
    }

    fn over(&mut self, event: LifecycleEvent, end: StreamEnd, now: Instant) -> Effects {
        self.end.get_or_insert_with(|| end.clone());
        let effects = self.enter(event, now);
        Effects { close: Some(end), ..self.settled(effects) }
    }

    fn enter(&mut self, event: LifecycleEvent, now: Instant) -> Effects {
        let entered = self.life.takes(event, now).then(|| self.life.state());
        Effects { entered, ..Effects::default() }
    }

    /// Adds the hold, if it changed.
    fn settled(&mut self, effects: Effects) -> Effects {
        let hold = self.life.state() != SessionState::Running || self.is_behind;
        let changes = self.is_held.is_some_and(|held| held != hold);
        if changes {
            self.is_held = Some(hold);
        }
        Effects { hold: changes.then_some(hold), ..effects }
    }
}

#[cfg(test)]
mod tests;
