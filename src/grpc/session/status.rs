//! The status of a session, and the effects of each event on it: free of streams, locks and clocks,
//! so that every order of events can be tested.
//!
//! # Why effects
//! Streams come and go on their own threads, and the backlog grows on those of the scheduler. Each
//! thread reports its event here and carries out the [`Effects`], both under one lock: so the
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

/// The instance whose numbers are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Counter {
    /// The instance of the first stream with numbers will be.
    Undecided,
    /// An instance without a name.
    Unnamed,
    Named(String),
}

impl Counter {
    /// After a stream with numbers.
    fn of(instance: Option<&str>) -> Self {
        instance.map_or(Self::Unnamed, |name| Self::Named(name.to_owned()))
    }

    /// After a registration. An unnamed instance may name itself with its first stream.
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
    /// How the session ended.
    end: Option<StreamEnd>,
    /// The queue configuration brought or set since; empty if none.
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
#[must_use = "the scheduler and the streams have to be told"]
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
    /// The session has to be stopped. The caller does so, since the scheduler has to be told and no
    /// stream may bind meanwhile.
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
    /// numbered it needs a name, since without one it could not be told from the earlier instance.
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
    /// none, and only the instance that registered last may number. Changes nothing: see
    /// [`bound`](Self::bound).
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
        // The opposite is allowed: a numbered stream ends those without, since a new instance
        // numbers.
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

    /// State that the client does not know of was lost: no more streams may bind. Open streams
    /// continue.
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
        let tells = self.is_held.is_some_and(|held| held != hold);
        if tells {
            self.is_held = Some(hold);
        }
        Effects { hold: tells.then_some(hold), ..effects }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::backlog::{CrossesMark, Load, Marks};
    use super::*;

    fn items(items: usize) -> Load {
        Load { items, bytes: 0 }
    }

    fn backlog() -> Backlog {
        let of = |items| Load { items, bytes: 1_000 };
        Backlog::new(Marks { high: of(4), low: of(2) })
    }

    fn status(now: Instant) -> LiveStatus {
        let patience =
            Patience { attach: Duration::from_secs(60), pause: Duration::from_secs(120) };
        LiveStatus::new(patience, String::new(), None, now)
    }

    #[test]
    fn hold_is_sent_only_after_acceptance() {
        let now = Instant::now();
        let mut status = status(now);
        assert_eq!(status.review(false, &backlog(), now).hold, None);
        assert_eq!(status.begin().hold, Some(true));
        assert_eq!(status.review(false, &backlog(), now).hold, None, "once");
        assert_eq!(status.review(true, &backlog(), now).hold, Some(false));
    }

    #[test]
    fn backlog_holds_a_running_session() {
        let now = Instant::now();
        let (mut status, backlog) = (status(now), backlog());
        let _ = status.begin();
        let _ = status.review(true, &backlog, now);
        assert_eq!(backlog.add(items(4)), CrossesMark(true));
        assert_eq!(status.review(true, &backlog, now).hold, Some(true));
        assert_eq!(backlog.remove(items(1)), CrossesMark(false));
        assert_eq!(status.review(true, &backlog, now).hold, None, "3 are above the low mark");
        let away = status.review(false, &backlog, now);
        assert_eq!((away.entered, away.hold), (Some(SessionState::Paused), None), "held already");
        assert_eq!(backlog.remove(items(1)), CrossesMark(true));
        let caught_up = status.review(false, &backlog, now);
        assert_eq!((caught_up.is_behind, caught_up.hold), (Some(false), None), "still paused");
        assert_eq!(status.review(true, &backlog, now).hold, Some(false));
    }

    #[test]
    fn first_reason_is_final() {
        let now = Instant::now();
        let mut status = status(now);
        status.mark_lost(Cause::ItemsLost);
        let end = status.lose(Cause::Overflow, now).close;
        assert!(matches!(end, Some(StreamEnd::ResyncRequired(Cause::Overflow))), "{end:?}");
        let refusal = status.admits(Dialect::Split, false, None).unwrap_err();
        assert!(matches!(refusal, StreamEnd::ResyncRequired(Cause::ItemsLost)), "{refusal:?}");
        let _ = status.stop(StreamEnd::Deregistered, now);
        assert!(matches!(status.end(), Some(StreamEnd::ResyncRequired(_))));
        assert_eq!(status.life().state(), SessionState::Stopped);
    }

    #[test]
    fn first_bound_stream_fixes_the_dialect() {
        let mut status = status(Instant::now());
        status.admits(Dialect::Legacy, false, None).unwrap();
        status.admits(Dialect::Split, false, None).unwrap();
        status.bound(Dialect::Legacy, false, None);
        let refusal = status.admits(Dialect::Split, false, None).unwrap_err();
        assert!(matches!(refusal, StreamEnd::DialectMixed { has: Dialect::Legacy }));
    }

    #[test]
    fn only_one_instance_may_number() {
        let mut status = status(Instant::now());
        let admits = |status: &LiveStatus, is_numbered, instance| {
            status.admits(Dialect::Split, is_numbered, instance)
        };
        status.bound(Dialect::Split, false, Some("pod-0"));
        admits(&status, true, Some("pod-1")).unwrap();
        assert!(status.bound(Dialect::Split, true, Some("pod-1")), "those without have to end");
        let mixed = admits(&status, false, Some("pod-1")).unwrap_err();
        assert!(matches!(mixed, StreamEnd::Misnumbered(_)));
        for other in [Some("pod-2"), None] {
            let refused = admits(&status, true, other).unwrap_err();
            assert!(matches!(refused, StreamEnd::Superseded { .. }), "it has to register");
        }
        assert!(!status.can_be_continued_by(None));
        assert!(status.can_be_continued_by(Some("pod-2")));
        status.registered_by(Some("pod-2"));
        assert!(!status.can_be_continued_by(None), "also before it has opened a stream");
        admits(&status, true, Some("pod-1")).unwrap_err();
        admits(&status, true, Some("pod-2")).unwrap();
        status.registered_by(Some("pod-3"));
        admits(&status, false, Some("pod-3")).unwrap();
    }

    #[test]
    fn named_instance_cannot_join_an_unnamed_one() {
        let mut status = status(Instant::now());
        status.bound(Dialect::Split, true, None);
        let refused = status.admits(Dialect::Split, true, Some("pod-1")).unwrap_err();
        assert!(matches!(refused, StreamEnd::Superseded { by: None }));
    }

    #[test]
    fn unattached_session_is_paused_then_due_to_stop() {
        let start = Instant::now();
        let mut status = status(start);
        let _ = status.begin();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(matches!(status.expire(at(59)), Expiry::GoesOn(Effects { entered: None, .. })));
        let Expiry::GoesOn(effects) = status.expire(at(60)) else { panic!() };
        assert_eq!(effects.entered, Some(SessionState::Paused));
        assert!(matches!(status.expire(at(180)), Expiry::Stop));
        assert_eq!(status.life().state(), SessionState::Paused);
    }

    /// Events in any order.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Begin,
        Attach(bool),
        Push(usize),
        Take(usize),
        Pass(u64),
        Lose,
        Stop,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Begin),
            any::<bool>().prop_map(Step::Attach),
            (1..4usize).prop_map(Step::Push),
            (1..4usize).prop_map(Step::Take),
            (1..200u64).prop_map(Step::Pass),
            Just(Step::Lose),
            Just(Step::Stop),
        ]
    }

    proptest! {
        #[test]
        fn decisions_require_a_stream_in_any_order(
            steps in prop::collection::vec(step(), 0..40),
        ) {
            let mut now = Instant::now();
            let (mut status, backlog) = (status(now), backlog());
            let (mut begun, mut attached, mut told) = (false, false, false);
            for step in steps {
                let effects = match step {
                    Step::Begin => { begun = true; status.begin() }
                    Step::Attach(is) => {
                        attached = is && status.is_usable();
                        Effects::default()
                    }
                    Step::Push(n) => {
                        let _ = backlog.add(items(n));
                        Effects::default()
                    }
                    Step::Take(n) => {
                        let _ = backlog.remove(items(n.min(backlog.load().items)));
                        Effects::default()
                    }
                    Step::Pass(seconds) => {
                        now += Duration::from_secs(seconds);
                        match status.expire(now) {
                            Expiry::GoesOn(effects) => effects,
                            Expiry::Stop => status.stop(StreamEnd::Deregistered, now),
                        }
                    }
                    Step::Lose => status.lose(Cause::Overflow, now),
                    Step::Stop => status.stop(StreamEnd::Deregistered, now),
                };
                if effects.close.is_some() {
                    attached = false;
                }
                told = effects.hold.unwrap_or(told);
                told = status.review(attached, &backlog, now).hold.unwrap_or(told);
                let decides = begun && !told;
                let is_running = status.life().state() == SessionState::Running;
                prop_assert!(!decides || (is_running && attached && backlog.load().items < 4));
                prop_assert!(!begun || told != (is_running && !status.is_behind));
                prop_assert_eq!(status.end().is_some(), !status.is_usable());
            }
        }
    }
}
