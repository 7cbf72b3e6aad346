//! The life of a queue or a partition as a table: `docs/partitions.md#states-of-a-partition`.
//!
//! Queues and partitions share one table because clients know one set of states for both. The
//! caller decides which states a queue or a partition enters.
//!
//! # Invariants
//! * A refused event changes nothing: [`ObjectState::on`] takes the state by value and the caller
//!   keeps its own.
//! * An event that leads to the present state is accepted, and is no transition.
//!
//! ```
//! use monoceros_rules::queues::object_state::{ObjectEvent, ObjectState};
//! assert_eq!(ObjectState::Active.on(ObjectEvent::Remove), Ok(ObjectState::Draining));
//! assert!(ObjectState::Draining.on(ObjectEvent::Stop).is_err());
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of a queue or a partition. The texts are those that dashboards know.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum ObjectState {
    /// The object takes new applications, and decisions are made for it.
    #[default]
    Active,
    /// The object accepts no new applications, and a partition no new nodes. Its present
    /// applications continue.
    Draining,
    /// The object accepts nothing new, and no decisions are made for it.
    Stopped,
}

/// An event in the life of a queue or a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectEvent {
    /// The object is to be removed once it is empty.
    Remove,
    /// The object is wanted, or wanted again.
    Start,
    /// The object is to pause.
    Stop,
}

/// The refusal of an event that has no meaning in the present state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{event}` is refused in state `{state}`")]
pub struct Refused {
    /// The present state, which does not change.
    pub state: ObjectState,
    /// The refused event.
    pub event: ObjectEvent,
}

impl ObjectState {
    /// The state after `event`.
    pub fn on(self, event: ObjectEvent) -> Result<Self, Refused> {
        match (self, event) {
            (Self::Active | Self::Draining, ObjectEvent::Remove) => Ok(Self::Draining),
            (_, ObjectEvent::Start) => Ok(Self::Active),
            (Self::Active | Self::Stopped, ObjectEvent::Stop) => Ok(Self::Stopped),
            (state, event) => Err(Refused { state, event }),
        }
    }

    /// Returns the event that leads to this state.
    pub fn entered_by(self) -> ObjectEvent {
        match self {
            Self::Active => ObjectEvent::Start,
            Self::Draining => ObjectEvent::Remove,
            Self::Stopped => ObjectEvent::Stop,
        }
    }

    /// Whether the parent may choose a queue in this state: every state except stopped.
    pub fn is_scheduled(self) -> bool {
        self != Self::Stopped
    }

    /// The text of the state.
    pub fn text(self) -> &'static str {
        match self {
            Self::Active => "Active",
            Self::Draining => "Draining",
            Self::Stopped => "Stopped",
        }
    }
}

impl fmt::Display for ObjectState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

impl fmt::Display for ObjectEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Remove => "remove",
            Self::Start => "start",
            Self::Stop => "stop",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_of_the_table_is_as_written() {
        use ObjectEvent::{Remove, Start, Stop};
        use ObjectState::{Active, Draining, Stopped};
        let table = [
            (Active, [Some(Draining), Some(Active), Some(Stopped)]),
            (Draining, [Some(Draining), Some(Active), None]),
            (Stopped, [None, Some(Active), Some(Stopped)]),
        ];
        for (state, row) in table {
            for (event, to) in [Remove, Start, Stop].into_iter().zip(row) {
                assert_eq!(state.on(event).ok(), to, "{event} in {state}");
            }
        }
    }

    #[test]
    fn each_state_is_entered_by_its_event() {
        for state in [ObjectState::Active, ObjectState::Draining, ObjectState::Stopped] {
            assert_eq!(state.on(state.entered_by()), Ok(state), "repeating changes nothing");
            assert_eq!(ObjectState::Active.on(state.entered_by()), Ok(state));
        }
    }

    #[test]
    fn a_refusal_names_state_and_event() {
        let refused = ObjectState::Stopped.on(ObjectEvent::Remove).unwrap_err();
        assert_eq!(refused.to_string(), "`remove` is refused in state `Stopped`");
    }
}
