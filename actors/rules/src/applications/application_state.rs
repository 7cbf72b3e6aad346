//! The life of an application as a table: `docs/applications.md#transitions`.
//!
//! # Why a table
//! The application actor owns its state and asks this table for the effect of an event. The actor
//! decides when an event *fires*, and performs what follows from a transition. The table ensures
//! that a late event cannot revive a terminated application, whatever the actor does.
//!
//! # Invariants
//! * A refused event changes nothing: [`ApplicationState::on`] takes the state by value and the
//!   caller keeps its own.
//! * No event leads out of Expired, and only expiry leads out of another terminated state.
//! * The only event that is accepted without a transition is `runApplication` in Running.
//!
//! ```
//! use monoceros_rules::applications::application_state::{
//!     ApplicationEvent, ApplicationState, Transition,
//! };
//! let accepted = ApplicationState::New.on(ApplicationEvent::Run);
//! assert_eq!(accepted, Ok(Transition::To(ApplicationState::Accepted)));
//! assert!(ApplicationState::Completed.on(ApplicationEvent::Run).is_err());
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of an application. The texts (`Display`, `Serialize`) are those that resource managers
/// and dashboards know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ApplicationState {
    /// The application is known and has had no ask yet.
    New,
    /// It has had an ask and has no real allocation; a gang collects its placeholders in this
    /// state.
    Accepted,
    /// At least one real allocation was made, or all placeholders are allocated.
    Running,
    /// Its gang timed out in soft style and waits until its placeholders are confirmed as ended.
    Resuming,
    /// It has no pending ask and no real allocation. It may hold placeholders, and may run again.
    Completing,
    /// It has ended successfully.
    Completed,
    /// It waits until its allocations are confirmed as ended.
    Failing,
    /// It has ended with a failure.
    Failed,
    /// It was never admitted.
    Rejected,
    /// It terminated long ago, and may be removed.
    Expired,
    /// Its RM has removed it. Only records of ended applications have this state: no event leads to
    /// it.
    Removed,
}

/// An event in the life of an application. The texts end in `Application`, as state logs and
/// messages to resource managers name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApplicationEvent {
    /// `runApplication`: it has an ask, or an ask of it was placed.
    Run,
    /// `completeApplication`: it has no more work, or its grace period is over.
    Complete,
    /// `failApplication`: it must end, or its last allocation has ended.
    Fail,
    /// `resumeApplication`: its gang timed out in soft style.
    Resume,
    /// `rejectApplication`: it is not admitted.
    Reject,
    /// `expireApplication`: it has been terminated for long enough.
    Expire,
}

/// The effect of an accepted event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// The application enters this state, which always differs from its present one.
    To(ApplicationState),
    /// The event is accepted without an effect: no message, no state-log entry, no timer.
    Stay,
}

/// The refusal of an event that has no meaning in this state. The caller logs it, and must not fail
/// because of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event `{event}` is refused in state `{state}`")]
pub struct Refused {
    /// The state of the application, which does not change.
    pub state: ApplicationState,
    /// The refused event.
    pub event: ApplicationEvent,
}

impl ApplicationState {
    /// Returns the effect of `event` on an application in this state.
    pub fn on(self, event: ApplicationEvent) -> Result<Transition, Refused> {
        use ApplicationEvent as On;
        use ApplicationState::{
            Accepted, Completed, Completing, Expired, Failed, Failing, New, Rejected, Resuming,
            Running,
        };
        let next = match (self, event) {
            (Running, On::Run) => return Ok(Transition::Stay),
            (New | Resuming, On::Run) => Accepted,
            (Accepted | Completing, On::Run) => Running,
            (Accepted | Running, On::Complete) => Completing,
            (Completing, On::Complete) => Completed,
            (New | Accepted | Running, On::Fail) => Failing,
            (Failing, On::Fail) => Failed,
            (New | Accepted, On::Resume) => Resuming,
            (New, On::Reject) => Rejected,
            (Completed | Failed | Rejected, On::Expire) => Expired,
            _ => return Err(Refused { state: self, event }),
        };
        Ok(Transition::To(next))
    }

    /// Whether the application has terminated: it holds nothing and will never get an offer.
    pub fn is_terminated(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Rejected | Self::Expired | Self::Removed
        )
    }

    /// The text of the state.
    pub fn text(self) -> &'static str {
        match self {
            Self::New => "New",
            Self::Accepted => "Accepted",
            Self::Running => "Running",
            Self::Resuming => "Resuming",
            Self::Completing => "Completing",
            Self::Completed => "Completed",
            Self::Failing => "Failing",
            Self::Failed => "Failed",
            Self::Rejected => "Rejected",
            Self::Expired => "Expired",
            Self::Removed => "Removed",
        }
    }
}

impl ApplicationEvent {
    /// The text of the event.
    pub fn text(self) -> &'static str {
        match self {
            Self::Run => "runApplication",
            Self::Complete => "completeApplication",
            Self::Fail => "failApplication",
            Self::Resume => "resumeApplication",
            Self::Reject => "rejectApplication",
            Self::Expire => "expireApplication",
        }
    }
}

impl fmt::Display for ApplicationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

impl fmt::Display for ApplicationEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [ApplicationState; 11] = [
        ApplicationState::New,
        ApplicationState::Accepted,
        ApplicationState::Running,
        ApplicationState::Resuming,
        ApplicationState::Completing,
        ApplicationState::Completed,
        ApplicationState::Failing,
        ApplicationState::Failed,
        ApplicationState::Rejected,
        ApplicationState::Expired,
        ApplicationState::Removed,
    ];

    const EVENTS: [ApplicationEvent; 6] = [
        ApplicationEvent::Run,
        ApplicationEvent::Complete,
        ApplicationEvent::Fail,
        ApplicationEvent::Resume,
        ApplicationEvent::Reject,
        ApplicationEvent::Expire,
    ];

    /// The table that the code above implements; `stay` is the acceptance without effect, `err` the
    /// refusal.
    const TABLE: &str = "
        on                   New       Accepted    Running     Resuming  Completing  Completed  Failing  Failed   Rejected  Expired  Removed
        runApplication       Accepted  Running     stay        Accepted  Running     err        err      err      err       err      err
        completeApplication  err       Completing  Completing  err       Completed   err        err      err      err       err      err
        failApplication      Failing   Failing     Failing     err       err         err        Failed   err      err       err      err
        resumeApplication    Resuming  Resuming    err         err       err         err        err      err      err       err      err
        rejectApplication    Rejected  err         err         err       err         err        err      err      err       err      err
        expireApplication    err       err         err         err       err         Expired    err      Expired  Expired   err      err
    ";

    #[test]
    fn every_cell_of_the_table_is_as_written() {
        let rows: Vec<Vec<&str>> = TABLE
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|row| !row.is_empty())
            .collect();
        let columns: Vec<String> = STATES.iter().map(ToString::to_string).collect();
        assert_eq!(rows[0][1..], columns, "the head names every state in order");
        assert_eq!(rows.len(), 1 + EVENTS.len());
        for (row, event) in rows[1..].iter().zip(EVENTS) {
            assert_eq!(row[0], event.to_string());
            assert_eq!(row.len(), 1 + STATES.len());
            for (cell, state) in row[1..].iter().zip(STATES) {
                let answer = match state.on(event) {
                    Ok(Transition::To(next)) => next.to_string(),
                    Ok(Transition::Stay) => "stay".to_owned(),
                    Err(refused) => {
                        assert_eq!(refused, Refused { state, event });
                        "err".to_owned()
                    }
                };
                assert_eq!(answer, **cell, "{event} in {state}");
            }
        }
    }

    #[test]
    fn a_terminated_application_stays_terminated() {
        for state in STATES.into_iter().filter(|state| state.is_terminated()) {
            for event in EVENTS {
                if let Ok(Transition::To(next)) = state.on(event) {
                    assert_eq!(next, ApplicationState::Expired, "{event} in {state}");
                }
            }
        }
        let over = STATES.into_iter().filter(|state| state.is_terminated()).count();
        assert_eq!(over, 5, "Completed, Failed, Rejected, Expired and Removed");
    }

    #[test]
    fn a_refusal_names_state_and_event() {
        let refused = ApplicationState::Failed.on(ApplicationEvent::Run).unwrap_err();
        assert_eq!(refused.to_string(), "event `runApplication` is refused in state `Failed`");
    }
}
