//! Obstacles: why an ask was not placed, what it waits for, and whether time alone lets it be tried
//! again.
//!
//! # Why
//! An ask that cannot be placed would cost a try with every offer. Each [`Obstacle`] has its cure:
//! more quota, a node that grows, the named node, a deadline. The bound of a parked ask
//! ([`Parked`]) describes the cure, and the ask is skipped until the cure may have come.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::specs::ask::AskSpec;
use crate::values::epoch::Epoch;
use crate::waiting::{Parked, View, WaitSet};

/// The time for which an ask does not use a node that the RM has refused for good.
pub const EXCLUDED_FOR: Duration = Duration::from_secs(300);

/// The reason why an ask is not placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Obstacle {
    /// The headroom below the maxima of its queues is too small.
    Quota,
    /// The headroom under the limits of its user or group is too small.
    Limits,
    /// No open node that it may use has enough capacity.
    NoNode,
    /// Its placement constraint excludes every node with capacity.
    Constraints,
    /// The node that it requires does not exist or has too little capacity.
    RequiredNode,
    /// Predicates refused it on every node with capacity.
    Refused,
    /// Predicates refused it on every node with capacity that was tried; another such node is held
    /// by a placement in flight.
    HeldByOthers,
    /// Predicates refused it on every node with capacity, and a node has grown since its search
    /// began.
    GrewMeanwhile,
    /// The ask is to replace a placeholder of its task group, and some placeholders are still to be
    /// placed or to be released.
    Placeholders,
    /// Its application was preempted for another one, which is to run first.
    GivesWay,
}

/// The consequence for an ask that met an obstacle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Its class waits; no node was searched.
    Nothing,
    /// Its search begins again, with all nodes.
    BeginsAnew,
    /// It may reserve a node.
    MayReserve,
    /// It waits in a class of its own until another placement returns the capacity that it holds.
    AwaitsReturn,
    /// It waits in a class of its own, since predicates refused every node with capacity. It may
    /// still reserve a node.
    Rests,
}

impl Obstacle {
    /// Returns the consequence for the ask.
    pub fn follows(self) -> Follows {
        match self {
            Self::Quota | Self::Limits | Self::Placeholders | Self::GivesWay => Follows::Nothing,
            Self::GrewMeanwhile => Follows::BeginsAnew,
            Self::NoNode | Self::Constraints | Self::RequiredNode => Follows::MayReserve,
            Self::HeldByOthers => Follows::AwaitsReturn,
            Self::Refused => Follows::Rests,
        }
    }

    /// Whether the obstacle is a lack of quota or of a node: the ask was tried, and there was not
    /// enough.
    pub fn is_want(self) -> bool {
        matches!(
            self,
            Self::Quota | Self::Limits | Self::NoNode | Self::Constraints | Self::RequiredNode
        )
    }

    /// Whether the obstacle is found before nodes are searched.
    pub fn is_before_nodes(self) -> bool {
        self.follows() == Follows::Nothing
    }

    /// Returns the bound of an ask that met this obstacle, with an offer that has this view.
    pub fn waits(self, ask: &AskSpec, view: &View<'_>) -> WaitSet {
        let parked = match self {
            Self::Quota | Self::Limits => Parked::short(&ask.resources, view),
            Self::NoNode | Self::Constraints => Parked::roomless(&ask.resources, view),
            // Changes on other nodes may change the counts of its constraint, too.
            Self::RequiredNode if ask.constraint.is_some() => {
                Parked::roomless(&ask.resources, view)
            }
            Self::RequiredNode | Self::Placeholders | Self::GivesWay => Parked::named(view),
            Self::Refused => refused(ask, view.epoch()),
            Self::HeldByOthers => {
                let at = view.epoch();
                let roomless = Some((*ask.resources).clone());
                Parked { roomless, roomless_at: at.growth, ..Parked::refused(&ask.resources, at) }
            }
            Self::GrewMeanwhile => return WaitSet::Due,
        };
        WaitSet::Parked(Box::new(parked))
    }
}

/// Returns the bound of an ask that predicates refused on every node with capacity, or on the node
/// that it requires, up to this epoch. The loosening in the epoch may be unknown: a refusal does
/// not depend on quota.
pub fn refused(ask: &AskSpec, at: Epoch) -> Parked {
    match &ask.required_node {
        // An ask that requires a node is made due by the name when that node changes.
        Some(_) => Parked { judged: at, ..Parked::default() },
        None => Parked::refused(&ask.resources, at),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::nodes::{NodeIndex, NodeOrder};
    use crate::values::epoch::Loosening;
    use crate::values::ids::NodeSlot;
    use crate::values::resources::{Limits, Resources};

    fn vcores(quantity: i64) -> Resources {
        Resources::of(&[("vcore", quantity)])
    }

    fn one_node() -> (NodeIndex, NodeSlot) {
        let mut nodes = NodeIndex::new(NodeOrder::default());
        let slot = nodes.insert(Arc::from("n"), vcores(9), vcores(1), true).unwrap();
        (nodes, slot)
    }

    fn view<'a>(headroom: &'a Limits, loosening: u64, nodes: &'a NodeIndex) -> View<'a> {
        let loosening = Loosening::numbered(loosening);
        View {
            headroom,
            loosening,
            may_start: true,
            nodes: Some(nodes),
            limits: None,
            queues: None,
        }
    }

    /// Each obstacle has its cure: quota, a growth, or the return of the amount of a placement.
    #[test]
    fn each_obstacle_is_looked_at_again_when_its_cure_comes_and_not_before() {
        let ask = AskSpec::new("a", vcores(4));
        let wide = Limits::unlimited();
        for (obstacle, by_quota, by_growth, by_return) in [
            (Obstacle::Quota, true, false, false),
            (Obstacle::Limits, true, false, false),
            (Obstacle::NoNode, false, true, true),
            (Obstacle::Refused, false, true, false),
            (Obstacle::HeldByOthers, false, true, true),
            (Obstacle::RequiredNode, false, false, false),
            (Obstacle::Placeholders, false, false, false),
            (Obstacle::GivesWay, false, false, false),
            (Obstacle::GrewMeanwhile, true, true, true),
        ] {
            let (mut nodes, slot) = one_node();
            let waits = obstacle.waits(&ask, &view(&wide, 1, &nodes));
            let is_due = waits == WaitSet::Due;
            assert_eq!(waits.may(&view(&wide, 1, &nodes)), is_due, "{obstacle:?}: nothing changed");
            assert_eq!(waits.may(&view(&wide, 2, &nodes)), by_quota, "{obstacle:?}: quota");
            nodes.take_back(slot, &vcores(5));
            assert_eq!(waits.may(&view(&wide, 1, &nodes)), by_return, "{obstacle:?}: a return");
            nodes.touch(slot);
            assert_eq!(waits.may(&view(&wide, 1, &nodes)), by_growth, "{obstacle:?}: a growth");
        }
    }

    #[test]
    fn an_ask_that_names_a_node_waits_for_nothing_but_its_name() {
        let named = AskSpec::new("a", vcores(1)).with(|it| it.required_node = Some(Arc::from("n")));
        let (mut nodes, slot) = one_node();
        let wide = Limits::unlimited();
        let waits = Obstacle::Refused.waits(&named, &view(&wide, 1, &nodes));
        nodes.touch(slot);
        assert!(!waits.may(&view(&wide, 2, &nodes)));
    }

    #[test]
    fn what_was_not_tried_on_nodes_only_waits() {
        for (obstacle, follows) in [
            (Obstacle::Quota, Follows::Nothing),
            (Obstacle::Limits, Follows::Nothing),
            (Obstacle::Placeholders, Follows::Nothing),
            (Obstacle::GivesWay, Follows::Nothing),
            (Obstacle::GrewMeanwhile, Follows::BeginsAnew),
            (Obstacle::NoNode, Follows::MayReserve),
            (Obstacle::Constraints, Follows::MayReserve),
            (Obstacle::RequiredNode, Follows::MayReserve),
            (Obstacle::HeldByOthers, Follows::AwaitsReturn),
            (Obstacle::Refused, Follows::Rests),
        ] {
            assert_eq!(obstacle.follows(), follows, "{obstacle:?}");
            assert_eq!(obstacle.is_before_nodes(), follows == Follows::Nothing);
        }
    }
}
