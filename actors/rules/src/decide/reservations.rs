//! The decision to reserve a node for an ask, or to replace another reservation: the rule of
//! `docs/scheduling.md#reservations`. The table of reservations is
//! [`pending::reservations`](crate::pending::reservations).

use std::time::Duration;

use crate::asks::{Ask, Asks};
use crate::books::Books;
use crate::nodes::{PASSED_BY, RESERVATION_SHARE};
use crate::pending::reservations::{Rank, Reserver};
use crate::values::ids::{ApplicationSlot, NodeSlot};
use crate::waiting::WaitSet;

/// The age from which an ask reserves a node that it does not require.
pub const RESERVATION_DELAY: Duration = Duration::from_secs(2);
/// The time after which a reservation ends whose ask does not fit its quotas.
pub const RESERVATION_WAIT_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// The conditions of reservations, and how long they may last without result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The age from which an ask reserves a node that it does not require; `None`: it never does.
    pub delay: Option<Duration>,
    /// The time after which a reservation ends whose ask does not fit its quotas.
    pub wait_timeout: Duration,
    /// The share of the capacity of open nodes that asks without a required node may reserve, in
    /// percent.
    pub share_percent: u32,
}

impl Patience {
    /// Whether growths that leave too little capacity for the ask are counted. They are counted for
    /// an ask that may reserve a node and requires none, since its age alone does not decide
    /// whether it reserves.
    pub fn counts_growths(&self, ask: &Ask) -> bool {
        self.delay.is_some() && ask.required_node.is_none()
    }

    /// The shortest time after which a reservation made now has waited too long for quota.
    pub fn past_timeout(&self) -> Duration {
        self.wait_timeout.saturating_add(Duration::from_nanos(1))
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            delay: Some(RESERVATION_DELAY),
            wait_timeout: RESERVATION_WAIT_TIMEOUT,
            share_percent: RESERVATION_SHARE,
        }
    }
}

/// The decision whether an ask that found no node reserves one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The ask reserves this node if the RM's predicate allows it; the RM is not asked if the ask
    /// requires the node.
    Node(NodeSlot),
    /// The ask reserves a node, and the reservation of another, which comes after it, ends.
    Instead {
        /// The node.
        node: NodeSlot,
        /// The ask whose reservation ends.
        of: Reserver,
    },
    /// The ask is too young to reserve a node before this time, ns since the epoch.
    NotBefore(i64),
    /// The ask reserves a node as soon as one can be reserved.
    WhenThereIsOne,
    /// The ask reserves a node as soon as this many more growths have left no capacity for it, or
    /// all nodes together have enough.
    WhenPassedBy {
        /// The number of growths.
        times: u8,
    },
    /// The ask reserves no node.
    Never,
}

/// A reservation to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The node.
    pub node: NodeSlot,
    /// The ask whose reservation ends first.
    pub replaces: Option<Reserver>,
}

impl Claim {
    /// The reservation to be made now. `None` if the ask reserves no node yet.
    pub fn target(self) -> Option<Target> {
        match self {
            Self::Node(node) => Some(Target { node, replaces: None }),
            Self::Instead { node, of } => Some(Target { node, replaces: Some(of) }),
            Self::NotBefore(_) | Self::WhenThereIsOne | Self::WhenPassedBy { .. } | Self::Never => {
                None
            }
        }
    }

    /// Returns what an ask without a reservation waits for, in addition to `waits`.
    pub fn waits(self, ask: &Ask, waits: WaitSet) -> WaitSet {
        match self {
            Self::WhenThereIsOne => waits.or_to_reserve(),
            Self::WhenPassedBy { times } => waits.or_when_passed_by(&ask.resources, times),
            Self::Node(_) | Self::Instead { .. } | Self::NotBefore(_) | Self::Never => waits,
        }
    }

    /// Returns the reservation to be made once the RM has allowed this node. `self` is the decision
    /// by the present facts. `None` if the node or the reservations of others have changed since
    /// the question; the RM has to be asked again then.
    pub fn allowed(self, node: NodeSlot, ask: &Ask, books: &Books) -> Option<Target> {
        let Books { nodes, reservations, .. } = books;
        let replaces = self.target()?.replaces;
        let theirs = replaces.and_then(|of| reservations.of(of)).map(|it| it.node);
        let is_theirs = theirs == Some(node) && nodes.total(node).holds(&ask.resources);
        let may = nodes.is_open(node)
            && (is_theirs || reservations.may_reserve(nodes, node, &ask.spec))
            && nodes.may_set_aside(node, &ask.resources, theirs);
        may.then_some(Target { node, replaces })
    }
}

/// The result of the decision for an ask that found no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The ask has no node reserved.
    Nothing,
    /// The RM is asked whether the ask may reserve a node.
    Asked,
    /// The ask has reserved a node.
    Made {
        /// Whether the application counts as running from this reservation on.
        is_first_place: bool,
    },
}

impl Claimed {
    /// Returns the number of applications that start by it.
    pub fn starting(self) -> i64 {
        i64::from(self == Self::Made { is_first_place: true })
    }
}

/// Decides whether a pending ask that found no node reserves one at this time: the node that lacks
/// the least for it ([best fit](crate::nodes::NodeIndex::best_fit)).
pub fn claim(ask: &Ask, rank: &Rank, books: &Books, patience: &Patience, now_ns: i64) -> Claim {
    let is_asked = ask.refusals().is_some_and(|refusals| refusals.claim.is_some());
    // A request whose start failed keeps no capacity from others.
    if ask.is_reserved() || is_asked || ask.starts().is_some() {
        return Claim::Never;
    }
    let request = ask.request();
    let candidate = || books.nodes.best_fit(&request);
    if request.required.is_some() {
        let may = |node: &NodeSlot| books.reservations.may_reserve(&books.nodes, *node, &ask.spec);
        return candidate().filter(may).map_or(Claim::Never, Claim::Node);
    }
    let Some(delay) = patience.delay else { return Claim::Never };
    let delay_ns = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
    let old_ns = ask.created_ns.saturating_add(delay_ns);
    if now_ns <= old_ns {
        return Claim::NotBefore(old_ns.saturating_add(1));
    }
    let (nodes, passed_by) = (&books.nodes, ask.passed_by());
    if !nodes.is_free_in_all(&ask.resources) && !passed_by.is_enough() {
        return Claim::WhenPassedBy { times: PASSED_BY - passed_by.times };
    }
    let node = candidate();
    match node.filter(|node| nodes.may_set_aside(*node, &ask.resources, None)) {
        Some(node) => Claim::Node(node),
        None => instead(ask, rank, node, books).unwrap_or(Claim::WhenThereIsOne),
    }
}

/// No further node may be reserved for this ask, so another reservation has to end for it: the last
/// of those that rank after it. Returns that reservation and the node that the ask then reserves:
/// `best` (the node that lacks the least) if it may be set aside, or else the node of the
/// reservation that ends. `None` if neither node may be reserved.
fn instead(ask: &Ask, rank: &Rank, best: Option<NodeSlot>, books: &Books) -> Option<Claim> {
    let (nodes, request) = (&books.nodes, ask.request());
    let (of, last) = books.reservations.last_replaced_by(rank, &books.queues)?;
    let is_theirs_of_use = || nodes.is_open(last.node) && nodes.may_ever_hold(last.node, &request);
    let may = |node: &NodeSlot| nodes.may_set_aside(*node, &ask.resources, Some(last.node));
    let node = best.filter(may).or_else(|| is_theirs_of_use().then_some(last.node).filter(may))?;
    Some(Claim::Instead { node, of })
}

/// Returns the reservation that ends before this ask is tried: it is on the node that this ask
/// requires and could use, and its own ask may use other nodes.
pub fn displaced_by(ask: &Ask, books: &Books) -> Option<Reserver> {
    ask.spec.required_node.as_ref()?;
    if ask.starts().is_some() {
        return None;
    }
    let node = books.nodes.best_fit(&ask.request())?;
    books.reservations.normal_on(node)
}

/// Wakes the asks of the application that have reserved this node, because the node changed or got
/// back the amount of a placement that was never settled (`by_return`). After a return, an ask that
/// rests is not woken, since its node refused it while that amount was held. Returns whether an ask
/// is due.
pub fn wake_at_node(
    asks: &mut Asks,
    application: ApplicationSlot,
    node: &str,
    by_return: bool,
    books: &Books,
) -> bool {
    let Some(node) = books.nodes.slot_of(node) else { return false };
    let mut any = false;
    for (who, _) in books.reservations.on_node(node) {
        if who.application != application {
            continue;
        }
        let ask = asks.ask_mut(who.ask);
        if !by_return {
            ask.refresh();
        } else if ask.is_resting() {
            continue;
        }
        any |= asks.wake_at_reserved(who.ask);
    }
    any
}
