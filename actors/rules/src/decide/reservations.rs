//! The decision to reserve a node for an ask, or to replace another reservation: the rule of
//! `docs/scheduling.md#reservations`. The table of reservations is
//! [`pending::reservations`](crate::pending::reservations).

use std::time::Duration;

use crate::asks::Ask;
use crate::books::Books;
use crate::nodes::{PASSED_BY, RESERVATION_SHARE};
use crate::pending::reservations::{Rank, Reserver};
use crate::values::ids::NodeSlot;

/// The age from which an ask reserves a node that it does not require.
pub const RESERVATION_DELAY: Duration = Duration::from_secs(2);
/// After how long a reservation ends whose ask does not fit its quotas.
pub const RESERVATION_WAIT_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// When a node may be reserved, and for how long it may be kept without result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How old an ask has to be before it reserves a node that it does not require; `None`: it
    /// never does.
    pub delay: Option<Duration>,
    /// After how long a reservation ends whose ask does not fit its quotas.
    pub wait_timeout: Duration,
    /// How much of the capacity of open nodes may be reserved by asks that may go elsewhere, in
    /// percent.
    pub share_percent: u32,
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

/// Whether an ask that found no node reserves one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It reserves this one, if the RM's predicate has nothing against it; nobody is asked where
    /// the ask requires the node.
    Node(NodeSlot),
    /// The same, and the reservation of another, which comes after it, ends.
    Instead {
        /// The node.
        node: NodeSlot,
        /// Whose reservation ends.
        of: Reserver,
    },
    /// Not before that time, ns since the epoch.
    NotBefore(i64),
    /// As soon as there is one to be reserved.
    WhenThereIsOne,
    /// As soon as so many more growths leave no room for it, or all nodes together have enough.
    WhenPassedBy {
        /// The number of growths.
        times: u8,
    },
    /// It reserves no node.
    Never,
}

/// Whether a pending ask that found no node reserves one at this time. The node that lacks least of
/// what it wants is [the one](crate::nodes::NodeIndex::best_fit).
pub fn claim(ask: &Ask, rank: &Rank, books: &Books, patience: &Patience, now_ns: i64) -> Claim {
    let is_asked = ask.refusals().is_some_and(|refusals| refusals.claim.is_some());
    // What could not be started keeps no room from others.
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

/// The node that an ask reserves in place of the last of those that come after it, where no more
/// may be reserved: the one that lacks least of what it wants (`best`), or that of the other.
fn instead(ask: &Ask, rank: &Rank, best: Option<NodeSlot>, books: &Books) -> Option<Claim> {
    let (nodes, request) = (&books.nodes, ask.request());
    let (of, last) = books.reservations.last_replaced_by(rank, &books.queues)?;
    let is_theirs_of_use = || nodes.is_open(last.node) && nodes.may_ever_hold(last.node, &request);
    let may = |node: &NodeSlot| nodes.may_set_aside(*node, &ask.resources, Some(last.node));
    let node = best.filter(may).or_else(|| is_theirs_of_use().then_some(last.node).filter(may))?;
    Some(Claim::Instead { node, of })
}

/// The ask that may go elsewhere and has reserved the node that this ask requires and could use:
/// its reservation ends before the ask is tried.
pub fn displaced_by(ask: &Ask, books: &Books) -> Option<Reserver> {
    ask.spec.required_node.as_ref()?;
    if ask.starts().is_some() {
        return None;
    }
    let node = books.nodes.best_fit(&ask.request())?;
    books.reservations.normal_on(node)
}
