//! The states of a session, without anything that waits or acts: so the transitions can be tested
//! one by one.
//!
//! ```text
//! Unattached ──attached──▶ Running ──detached──▶ Paused ──overdue──▶ Stopped
//!      └──────overdue─────────────────────────▶    │ ▲
//!                             ▲────attached────────┘ └── lost, from any but Stopped
//! ```
//!
//! # Why a pause
//! A client that lost its stream nearly always comes back within seconds. A paused session decides
//! nothing, because nobody would hear of it, and keeps everything, so that nothing has to be
//! reported again.
//!
//! # Invariants
//! * Only a running session decides anything.
//! * `Stopped` is final, and any other state but `Running` has a deadline.

use std::time::Duration;

use tokio::time::Instant;

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// Registered, and no stream that carries allocations has come yet.
    Unattached,
    /// Such a stream is open.
    Running,
    /// There was one, or it took too long to come.
    Paused,
    /// The session is over.
    Stopped,
}

/// What can happen to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifecycleEvent {
    /// A stream that carries allocations is open.
    Attached,
    /// No such stream is open (any more).
    Detached,
    /// The deadline has passed.
    Overdue,
    /// Client and scheduler no longer know the same: no stream is let in any more.
    Lost,
    /// The session is ended on purpose.
    Stopped,
}

/// How long a session may stay in a state that is not to last.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// In [`SessionState::Unattached`].
    pub attach: Duration,
    /// In [`SessionState::Paused`].
    pub pause: Duration,
}

/// A state, since when, and until when.
#[derive(Clone, Copy, Debug)]
pub struct Lifecycle {
    patience: Patience,
    state: SessionState,
    since: Instant,
}

impl SessionState {
    /// As the list of sessions shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unattached => "Running(unattached)",
            Self::Running => "Running",
            Self::Paused => "Paused",
            Self::Stopped => "Stopped",
        }
    }

    /// The state that follows; the same one when nothing changes.
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
    /// A session begins.
    pub fn new(patience: Patience, now: Instant) -> Self {
        Self { patience, state: SessionState::Unattached, since: now }
    }

    /// The present state.
    pub fn state(&self) -> SessionState {
        self.state
    }

    /// The time at which the present state began.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// From now on, also for the present state.
    pub fn set_patience(&mut self, patience: Patience) {
        self.patience = patience;
    }

    /// Takes note; says whether that makes another state.
    pub fn takes(&mut self, event: LifecycleEvent, now: Instant) -> bool {
        let state = self.state.after(event);
        let changes = state != self.state;
        if changes {
            (self.state, self.since) = (state, now);
        }
        changes
    }

    /// The time at which [`LifecycleEvent::Overdue`] falls due; none in a state that may last.
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
    fn the_table_of_transitions_is_as_drawn() {
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
    fn only_a_state_that_is_not_to_last_has_a_deadline_and_it_counts_from_its_beginning() {
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
    fn what_changes_nothing_does_not_put_the_deadline_off() {
        let start = Instant::now();
        let mut life = life(start);
        life.takes(Lost, start);
        let later = start + Duration::from_secs(100);
        assert!(!life.takes(Lost, later));
        assert!(!life.takes(Detached, later));
        assert_eq!(life.deadline(), Some(start + Duration::from_secs(120)));
    }

    #[test]
    fn a_patience_without_end_has_no_deadline() {
        let patience = Patience { attach: Duration::MAX, pause: Duration::MAX };
        assert_eq!(Lifecycle::new(patience, Instant::now()).deadline(), None);
    }
}
