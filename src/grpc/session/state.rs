//! The states of a session and their transitions, as a pure state machine.
//!
//! ```text
//! Unattached ──attached──▶ Running ──detached──▶ Paused ──overdue──▶ Stopped
//!      └──────overdue─────────────────────────▶    │ ▲
//!                             ▲────attached────────┘ └── lost, from any but Stopped
//! ```
//!
//! # Why a pause
//! A client that lost its stream nearly always returns within seconds. A paused session makes no
//! decisions, because no client would receive them, and keeps its allocations, so that the client
//! need not report everything again.
//!
//! # Invariants
//! * Decisions are made only in `Running`.
//! * `Stopped` is final; every other state except `Running` has a deadline.

use std::time::Duration;

use tokio::time::Instant;

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// Registered, but no stream that carries allocations has been opened yet.
    Unattached,
    /// A stream that carries allocations is open.
    Running,
    /// That stream was lost, or none was opened in time.
    Paused,
    /// Final.
    Stopped,
}

/// An event of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifecycleEvent {
    /// A stream that carries allocations is open.
    Attached,
    /// No such stream is open.
    Detached,
    /// The deadline has passed.
    Overdue,
    /// Client and scheduler no longer have the same state: no stream may bind any more.
    Lost,
    /// The session was ended on purpose.
    Stopped,
}

/// How long a session may stay in a temporary state.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Longest time in [`SessionState::Unattached`].
    pub attach: Duration,
    /// Longest time in [`SessionState::Paused`].
    pub pause: Duration,
}

/// A state with its beginning and its timeouts.
#[derive(Clone, Copy, Debug)]
pub struct Lifecycle {
    patience: Patience,
    state: SessionState,
    since: Instant,
}

impl SessionState {
    /// The name in the list of sessions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unattached => "Running(unattached)",
            Self::Running => "Running",
            Self::Paused => "Paused",
            Self::Stopped => "Stopped",
        }
    }

    /// The next state; the same one if the event changes nothing.
    #[must_use]
    pub fn after(self, event: LifecycleEvent) -> Self {
        match (self, event) {
            (Self::Stopped, _)
            | (_, LifecycleEvent::Stopped)
            | (Self::Paused, LifecycleEvent::Overdue) => Self::Stopped,
            (Self::Unattached | Self::Running | Self::Paused, LifecycleEvent::Attached)
            | (Self::Running, LifecycleEvent::Overdue) => Self::Running,
            (Self::Unattached, LifecycleEvent::Detached) => Self::Unattached,
            (Self::Unattached, LifecycleEvent::Overdue)
            | (Self::Running | Self::Paused, LifecycleEvent::Detached)
            | (Self::Unattached | Self::Running | Self::Paused, LifecycleEvent::Lost) => {
                Self::Paused
            }
        }
    }
}

impl Lifecycle {
    /// A new session, unattached.
    pub fn new(patience: Patience, now: Instant) -> Self {
        Self { patience, state: SessionState::Unattached, since: now }
    }

    /// The present state.
    pub fn state(&self) -> SessionState {
        self.state
    }

    /// When the present state began.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Replaces the timeouts, also for the present state.
    pub fn set_patience(&mut self, patience: Patience) {
        self.patience = patience;
    }

    /// Applies an event. Returns whether the state changed.
    pub fn takes(&mut self, event: LifecycleEvent, now: Instant) -> bool {
        let state = self.state.after(event);
        let changes = state != self.state;
        if changes {
            (self.state, self.since) = (state, now);
        }
        changes
    }

    /// When [`LifecycleEvent::Overdue`] is due. `None` in a state without timeout.
    pub fn deadline(&self) -> Option<Instant> {
        let patience = match self.state {
            SessionState::Unattached => self.patience.attach,
            SessionState::Paused => self.patience.pause,
            SessionState::Running | SessionState::Stopped => return None,
        };
        self.since.checked_add(patience)
    }

    /// Whether the deadline has passed.
    pub fn is_overdue(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::LifecycleEvent::{Attached, Detached, Lost, Overdue};
    use super::SessionState::{Paused, Running, Stopped, Unattached};
    use super::*;

    #[test]
    fn transitions_match_the_diagram() {
        let events = [Attached, Detached, Overdue, Lost, LifecycleEvent::Stopped];
        for (state, next) in [
            (Unattached, [Running, Unattached, Paused, Paused, Stopped]),
            (Running, [Running, Paused, Running, Paused, Stopped]),
            (Paused, [Running, Paused, Stopped, Paused, Stopped]),
            (Stopped, [Stopped; 5]),
        ] {
            assert_eq!(events.map(|event| state.after(event)), next, "{state:?}");
        }
    }

    fn life(now: Instant) -> Lifecycle {
        let patience =
            Patience { attach: Duration::from_secs(60), pause: Duration::from_secs(120) };
        Lifecycle::new(patience, now)
    }

    #[test]
    fn only_temporary_states_have_a_deadline() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut life = life(start);
        assert_eq!(life.deadline(), Some(at(60)));
        assert!(life.takes(Attached, at(10)));
        assert_eq!(life.deadline(), None);
        assert!(life.takes(Detached, at(20)));
        assert_eq!(life.deadline(), Some(at(140)));
        assert!(!life.is_overdue(at(139)));
        assert!(life.is_overdue(at(140)));
        assert!(life.takes(Overdue, at(140)));
        assert_eq!((life.state(), life.deadline()), (Stopped, None));
    }

    #[test]
    fn ineffective_events_keep_the_deadline() {
        let start = Instant::now();
        let mut life = life(start);
        life.takes(Lost, start);
        let later = start + Duration::from_secs(100);
        assert!(!life.takes(Lost, later));
        assert!(!life.takes(Detached, later));
        assert_eq!(life.deadline(), Some(start + Duration::from_secs(120)));
    }

    #[test]
    fn unbounded_patience_has_no_deadline() {
        let patience = Patience { attach: Duration::MAX, pause: Duration::MAX };
        assert_eq!(Lifecycle::new(patience, Instant::now()).deadline(), None);
    }
}
