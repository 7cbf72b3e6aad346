//! The turns of an application's preemptors: for which of its asks, or whether for its gang,
//! victims may be searched for later, and when.
//!
//! # Invariant
//! * One deadline is armed, for the next preemptor, however many there are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::asks::Ask;
use crate::asks::preemption::NoPreemption;
use crate::books::Books;
use crate::pending::nominations::Preemptor;
use crate::pending::reservations::Reserver;
use crate::values::ids::NodeSlot;
use crate::waiting::obstacle::Obstacle;

/// The preemptors of one application that may search for victims later.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Turns {
    /// The time of the armed deadline, ns since the epoch.
    armed_ns: Option<i64>,
    #[serde(with = "crate::values::pairs")]
    later: BTreeMap<Preemptor, Later>,
}

/// The conditions under which a preemptor may search for victims later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Later {
    /// The time from which it may, ns since the epoch; `None` if time alone is not enough.
    pub at_ns: Option<i64>,
    /// Whether it may also search after any change.
    pub at_change: bool,
    /// Whether nodes with capacity were tried for it without result.
    pub nodes_were_tried: bool,
}

/// The turn of a preemptor that was not placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Victims are searched for it at the end of the step.
    Now,
    /// Victims may be searched for it later.
    Later(Later),
    /// Victims may not be searched for it.
    Never,
}

/// The preemption that an ask requests when it is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkedRequest {
    /// Victims for the guarantee of its queue, when its [turn](Turn) comes.
    ForGuarantee {
        /// Whether nodes with capacity were tried for it without result.
        nodes_were_tried: bool,
    },
    /// Victims on the node that it requires.
    ForNode(NodeSlot),
}

impl ParkedRequest {
    /// Returns the request of an ask that met this obstacle. `None` if no victim would help it, or
    /// if it requires a node and has victims there already, or could not be started there.
    pub fn of(ask: &Ask, who: Reserver, obstacle: Obstacle, books: &Books) -> Option<Self> {
        if let Some(node) = &ask.required_node {
            let may_clear = obstacle == Obstacle::RequiredNode
                && ask.starts().is_none()
                && books.nominations.of(Preemptor::Ask(who)).is_none();
            return books.nodes.slot_of(node).filter(|_| may_clear).map(Self::ForNode);
        }
        let nodes_were_tried = match obstacle {
            Obstacle::Quota => false,
            Obstacle::NoNode | Obstacle::Constraints | Obstacle::Refused => true,
            _ => return None,
        };
        Some(Self::ForGuarantee { nodes_were_tried })
    }
}

impl Turn {
    /// Returns the turn that follows from the result of [`may_try`](super::Preemptors::may_try).
    /// `bound_ends_ns`: the time at which the first bound ends that kept an allocation from being
    /// taken at its last try, ns since the epoch.
    ///
    /// ```
    /// use monoceros_rules::asks::preemption::NoPreemption;
    /// use monoceros_rules::decide::preemption::{Later, Turn};
    /// let young = Err(NoPreemption::TooYoung { until_ns: 30 });
    /// let later = Later { at_ns: Some(30), at_change: false, nodes_were_tried: true };
    /// assert_eq!(Turn::of(&young, None, true), Turn::Later(later));
    /// assert_eq!(Turn::of(&Ok(()), None, true), Turn::Now);
    /// assert_eq!(Turn::of(&Err(NoPreemption::NoGuarantee), None, true), Turn::Never);
    /// ```
    pub fn of(
        may_try: &Result<(), NoPreemption>,
        bound_ends_ns: Option<i64>,
        nodes_were_tried: bool,
    ) -> Self {
        let (at_ns, at_change) = match may_try {
            Ok(()) => return Self::Now,
            Err(NoPreemption::TooYoung { until_ns } | NoPreemption::TriedLately { until_ns }) => {
                (Some(*until_ns), false)
            }
            Err(NoPreemption::NothingChanged) => (bound_ends_ns, true),
            Err(NoPreemption::NodesAreNominated) => (None, true),
            Err(_) => return Self::Never,
        };
        Self::Later(Later { at_ns, at_change, nodes_were_tried })
    }
}

impl Turns {
    /// Records when a preemptor may search for victims, in place of an earlier record.
    pub fn put_off(&mut self, who: Preemptor, later: Later) {
        self.later.insert(who, later);
    }

    /// Forgets a preemptor: its turn is now.
    pub fn forget(&mut self, who: Preemptor) {
        self.later.remove(&who);
    }

    /// Whether any change gives a preemptor its turn.
    pub fn wait_for_change(&self) -> bool {
        self.later.values().any(|later| later.at_change)
    }

    /// Whether no preemptor waits for a turn.
    pub fn is_empty(&self) -> bool {
        self.later.is_empty()
    }

    /// Returns the time of the deadline that the caller has to arm, ns since the epoch. `None` if
    /// the armed deadline is early enough.
    pub fn due_to_arm(&mut self) -> Option<i64> {
        let at_ns = self.later.values().filter_map(|later| later.at_ns).min()?;
        if self.armed_ns.is_some_and(|armed_ns| armed_ns <= at_ns) {
            return None;
        }
        self.armed_ns = Some(at_ns);
        Some(at_ns)
    }

    /// Has any change give each preemptor its turn from now on.
    pub fn all_at_change(&mut self) {
        self.later.values_mut().for_each(|later| later.at_change = true);
    }

    /// Removes and returns the preemptors whose turn it is, each with whether nodes with capacity
    /// were tried for it. `deadline_ns` is the deadline that has passed; `None` after a change. A
    /// deadline that an earlier one has replaced gives no preemptor a turn.
    pub fn take_due(&mut self, deadline_ns: Option<i64>, now_ns: i64) -> Vec<(Preemptor, bool)> {
        if deadline_ns.is_some() {
            if self.armed_ns != deadline_ns {
                return Vec::new();
            }
            self.armed_ns = None;
        }
        let is_due =
            |later: &Later| later.at_change || later.at_ns.is_some_and(|at_ns| at_ns <= now_ns);
        let mut due = Vec::new();
        self.later.retain(|who, later| {
            if is_due(later) {
                due.push((*who, later.nodes_were_tried));
            }
            !is_due(later)
        });
        due
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::asks::Asks;
    use crate::nodes::NodeOrder;
    use crate::specs::ask::AskSpec;
    use crate::values::again::written_and_read;
    use crate::values::ids::{ApplicationSlot, AskSlot};
    use crate::values::resources::Resources;

    fn ask(number: u32) -> Preemptor {
        let (application, ask) = (ApplicationSlot::at(0), AskSlot::at(number));
        Preemptor::Ask(Reserver { application, ask })
    }

    fn at(at_ns: i64) -> Later {
        Later { at_ns: Some(at_ns), at_change: false, nodes_were_tried: false }
    }

    #[test]
    fn one_deadline_is_armed_for_the_next() {
        let mut turns = Turns::default();
        assert_eq!(turns.due_to_arm(), None);
        turns.put_off(ask(1), at(20));
        assert_eq!(turns.due_to_arm(), Some(20));
        turns.put_off(ask(2), at(30));
        assert_eq!(turns.due_to_arm(), None);
        turns.put_off(ask(3), at(10));
        assert_eq!(turns.due_to_arm(), Some(10));
    }

    #[test]
    fn a_deadline_gives_turns_to_those_that_are_due() {
        let mut turns = Turns::default();
        turns.put_off(ask(1), at(20));
        turns.due_to_arm();
        turns.put_off(ask(2), Later { nodes_were_tried: true, ..at(10) });
        turns.due_to_arm();
        turns = written_and_read(&turns);
        assert_eq!(turns.take_due(Some(20), 25), [], "an earlier deadline has replaced it");
        assert_eq!(turns.take_due(Some(10), 10), [(ask(2), true)]);
        assert_eq!(turns.due_to_arm(), Some(20), "the next one is armed again");
        assert!(!turns.is_empty());
    }

    #[test]
    fn a_change_gives_turns_to_those_that_wait_for_it() {
        let mut turns = Turns::default();
        turns.put_off(ask(1), at(20));
        turns.put_off(ask(2), Later { at_ns: None, at_change: true, nodes_were_tried: false });
        assert!(turns.wait_for_change());
        assert_eq!(turns.take_due(None, 5), [(ask(2), false)]);
        turns.all_at_change();
        assert_eq!(turns.take_due(None, 5), [(ask(1), false)]);
        turns.put_off(ask(1), at(20));
        turns.forget(ask(1));
        assert!(turns.is_empty());
    }

    fn request_of(obstacle: Obstacle, required_node: Option<&str>) -> Option<ParkedRequest> {
        let one = Resources::of(&[("vcore", 1)]);
        let mut books = Books::new(NodeOrder::default());
        books.nodes.insert(Arc::from("n1"), one.clone(), Resources::new(), true).unwrap();
        let mut asks = Asks::new();
        let spec =
            AskSpec::new("a", one).with(|it| it.required_node = required_node.map(Arc::from));
        let (ask, _) = asks.put(spec, 0, 1);
        let who = Reserver { application: ApplicationSlot::at(0), ask };
        ParkedRequest::of(asks.ask(ask), who, obstacle, &books)
    }

    #[test]
    fn a_daemon_requests_its_node_alone() {
        let node = ParkedRequest::ForNode(NodeSlot::at(0));
        assert_eq!(request_of(Obstacle::RequiredNode, Some("n1")), Some(node));
        assert_eq!(request_of(Obstacle::RequiredNode, Some("n2")), None, "there is no such node");
        assert_eq!(request_of(Obstacle::Quota, Some("n1")), None);
    }

    #[test]
    fn others_request_what_their_queue_is_guaranteed() {
        for (obstacle, nodes_were_tried) in [
            (Obstacle::Quota, Some(false)),
            (Obstacle::NoNode, Some(true)),
            (Obstacle::Constraints, Some(true)),
            (Obstacle::Refused, Some(true)),
            (Obstacle::Limits, None),
            (Obstacle::GivesWay, None),
        ] {
            let request = nodes_were_tried
                .map(|nodes_were_tried| ParkedRequest::ForGuarantee { nodes_were_tried });
            assert_eq!(request_of(obstacle, None), request, "{obstacle:?}");
        }
    }
}
