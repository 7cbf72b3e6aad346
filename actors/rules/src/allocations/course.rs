//! The times of a traced placement, from the arrival of its ask to the notification of its RM. Few
//! asks are traced; every other ask or allocation pays for one pointer. No decision uses these
//! times.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::specs::arrival::Arrival;
use crate::specs::ask::AskSpec;

/// The times of one placement. The times of its ask, [`Arrival`], are the first part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Course {
    /// The times of the ask before this placement.
    pub arrival: Arrival,
    /// When the partition began to search for the next ask to place, ns since the epoch.
    pub offered_ns: i64,
    /// When a node was found for it and asked to hold it, ns since the epoch.
    pub asked_ns: i64,
    /// When it became an allocation, ns since the epoch. Until then, equal to `asked_ns`.
    pub decided_ns: i64,
    /// Whether the RM was asked for its predicate and answered later.
    pub is_asked_rm: bool,
}

impl Course {
    /// Begins the times of a placement; `None` if its ask is not traced. `now_ns` reads the clock.
    pub fn of(spec: &AskSpec, offered_ns: i64, now_ns: impl FnOnce() -> i64) -> Option<Box<Self>> {
        let arrival = *spec.arrival.as_deref()?;
        let asked_ns = now_ns();
        let (decided_ns, is_asked_rm) = (asked_ns, false);
        Some(Box::new(Self { arrival, offered_ns, asked_ns, decided_ns, is_asked_rm }))
    }
}

/// Records the time at which a partition takes in a traced ask. An ask that is already shared is
/// not changed.
pub fn enters(spec: &mut Arc<AskSpec>, now_ns: impl FnOnce() -> i64) {
    if spec.arrival.is_some()
        && let Some(particulars) = Arc::get_mut(spec).and_then(|spec| spec.particulars.find_mut())
        && let Some(arrival) = particulars.arrival.as_deref_mut()
    {
        arrival.entered_ns = now_ns();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::resources::Resources;

    #[test]
    fn a_placement_knows_what_its_ask_went_through_if_anybody_follows_it() {
        let spec = AskSpec::new("k", Resources::of(&[("vcore", 1)]));
        let unread = || -> i64 { panic!("nobody follows it") };
        assert_eq!(Course::of(&spec, 3, unread), None);
        let mut untouched = Arc::new(spec.clone());
        enters(&mut untouched, unread);

        let mut spec = Arc::new(spec.with(|it| it.arrival = Some(Box::new(Arrival::at(1)))));
        enters(&mut spec, || 2);
        let course = *Course::of(&spec, 3, || 4).unwrap();
        let arrival = Arrival { received_ns: 1, entered_ns: 2 };
        let (offered_ns, asked_ns, decided_ns, is_asked_rm) = (3, 4, 4, false);
        assert_eq!(course, Course { arrival, offered_ns, asked_ns, decided_ns, is_asked_rm });
    }
}
