//! The table of reservations: which ask has reserved which node; see
//! `docs/scheduling.md#reservations`.
//!
//! # Why
//! A large ask that waits for a whole machine would never get one if smaller asks took each part of
//! it as soon as it was free. So an ask that has found no node for a while *reserves* the node that
//! lacks the least for it: no other ask is placed there until this one runs, there or elsewhere, or
//! the reservation ends for another reason ([`End`]). An ask that requires a node, as each member
//! of a daemon set does, reserves it at once.
//!
//! # Asks that do not reserve
//! If an ask is larger than what all nodes together have left, one of the next releases makes room
//! for it, as long as running allocations are as large as it is. So it reserves a node only after
//! releases have passed it by ([`PassedBy`](crate::nodes::PassedBy)). Reservations may cost a
//! bounded share of the cluster: if the share is used up, an ask reserves only in place of one that
//! comes after it ([`Rank`]).
//!
//! # Why one table
//! A reservation ties an ask to a node, so it belongs to neither. It is kept only here. The node
//! index knows only *that* a node is set aside, and one call changes both. The numbers of
//! reservations of an application, a leaf or the partition are counted here and kept nowhere else.
//!
//! # Invariants
//! * An ask has reserved at most one node, however many of its instances are outstanding.
//! * A node is reserved by one ask that may use other nodes, or by any number of asks that require
//!   it, and never by both kinds.
//! * The node index has set aside exactly the nodes with a reservation that is not suspended: a
//!   reservation protects nothing while its ask could not run even with the capacity.
//! * The total capacity of a node is enough for each ask that has reserved it.
//!
//! ```
//! use monoceros_rules::nodes::{NodeIndex, NodeOrder, NodeRequest};
//! use monoceros_rules::pending::reservations::{Reservation, Reservations, Reserver};
//! use monoceros_rules::specs::ask::AskSpec;
//! use monoceros_rules::values::ids::{ApplicationSlot, AskSlot};
//! use monoceros_rules::values::resources::Resources;
//! use std::sync::Arc;
//!
//! let vcores = |n| Resources::of(&[("vcore", n)]);
//! let mut nodes = NodeIndex::new(NodeOrder::default());
//! let n1 = nodes.insert(Arc::from("n1"), vcores(4), vcores(1), true)?;
//!
//! let large = Arc::new(AskSpec::new("large", vcores(3)));
//! let who = Reserver { application: ApplicationSlot::at(0), ask: AskSlot::at(0) };
//! let mut reservations = Reservations::default();
//! assert!(reservations.may_reserve(&nodes, n1, &large));
//! reservations.make(&mut nodes, who, Reservation::new(n1, large, 0));
//! assert_eq!(nodes.first(&NodeRequest::of(&vcores(1))), None, "it is not for small ones now");
//!
//! reservations.end(&mut nodes, who);
//! assert_eq!(nodes.first(&NodeRequest::of(&vcores(1))), Some(n1));
//! # Ok::<(), monoceros_rules::nodes::NodeExists>(())
//! ```

mod rank;

pub use rank::{EffectivePriority, Holder, Rank};

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits::LaneId;
use crate::nodes::{NodeIndex, SetAside};
use crate::queues::figures::QueueTable;
use crate::specs::ask::AskSpec;
use crate::values::ids::{ApplicationSlot, AskSlot, NodeSlot};

/// The interval between checks of reservations that have waited too long, if their timeout is not
/// shorter.
const LOOK_AGAIN_NS: i64 = 60_000_000_000;
/// The shortest interval between such checks.
const LOOK_AGAIN_LEAST_NS: i64 = 1_000_000_000;

/// The ask that has reserved a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Reserver {
    /// The application.
    pub application: ApplicationSlot,
    /// The ask.
    pub ask: AskSlot,
}

/// The reservation of a node for an ask.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reservation {
    /// The node.
    pub node: NodeSlot,
    /// The specification of the ask.
    pub spec: Arc<AskSpec>,
    /// The time when it was made, ns since the epoch.
    pub since_ns: i64,
    /// The holder, as others see it.
    pub holder: Holder,
    /// Whether victims were, or are being, evicted from the node for the ask. The ask preempts no
    /// others while the reservation lasts.
    pub has_preempted: bool,
    /// Whether the ask could not run on the node even with the capacity. The node is open to all
    /// until it could.
    pub is_suspended: bool,
}

/// Why a reservation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// An instance of the ask was placed, there or elsewhere.
    Placed,
    /// The ask was withdrawn, or its application was removed.
    Withdrawn,
    /// The ask has another amount that does not fit the node, or names another node, or its RM
    /// refused the node for good.
    Changed,
    /// The node was removed.
    NodeRemoved,
    /// The node has become too small.
    NodeTooSmall,
    /// The node takes no new allocations any more.
    NodeClosed,
    /// The reservation could not be used for too long, because quotas leave too little.
    TimedOut,
    /// An ask requires the node.
    Displaced,
    /// An ask that comes before this one reserves a node in its place.
    Replaced,
    /// The ask could not run, and another ask reserves the node, or the share of reservations is
    /// used up.
    Suspended,
    /// The ask is a member of a gang that is decided as a whole again.
    Undecided,
    /// The ask has to take the place of a placeholder.
    Placeholders,
    /// A start of the ask failed.
    StartFailed,
    /// Victims are evicted from the node for another ask, which is at least as important.
    Preempted,
    /// Victims are evicted from another node for the ask.
    Moved,
    /// A victim that was to be evicted from the node for the ask stays.
    VictimStays,
}

impl Reservation {
    /// A reservation that was made at this time, ns since the epoch.
    pub fn new(node: NodeSlot, spec: Arc<AskSpec>, since_ns: i64) -> Self {
        let holder = Holder::default();
        Self { node, spec, since_ns, holder, has_preempted: false, is_suspended: false }
    }

    /// Returns the reservation with this holder.
    #[must_use]
    pub fn held_by(self, holder: Holder) -> Self {
        Self { holder, ..self }
    }

    /// Whether it counts for the share of the cluster that reservations may cost: its ask may use
    /// other nodes and could run, and no victims are evicted for it.
    pub fn is_bounded(&self) -> bool {
        self.may_be_suspended() && !self.is_suspended
    }

    /// Whether the node may be open to all while its ask could not run: the ask may use other
    /// nodes, and no victims are evicted for it.
    pub fn may_be_suspended(&self) -> bool {
        !self.is_required() && !self.has_preempted
    }

    /// Returns the rank of its ask.
    pub fn rank(&self, queues: &QueueTable) -> Rank {
        self.holder.rank(queues, self.spec.priority)
    }

    /// Whether the ask may use no other node.
    pub fn is_required(&self) -> bool {
        self.spec.required_node.is_some()
    }

    /// Whether it is older than the time for which it may wait for quota.
    pub fn has_waited(&self, now_ns: i64, timeout: Duration) -> bool {
        let timeout_ns = i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX);
        now_ns.saturating_sub(self.since_ns) > timeout_ns
    }
}

/// All reservations of a partition.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Reservations {
    #[serde(with = "crate::values::pairs")]
    by_ask: BTreeMap<Reserver, Reservation>,
    /// The reservations by node.
    by_node: BTreeSet<(NodeSlot, Reserver)>,
    /// The reservations by rank, the last first. The rank here is the priority as stated by the
    /// asks, then the age.
    by_rank: BTreeSet<(i32, Reverse<i64>, Reserver)>,
    /// Whether a deadline is armed for the next reservation that may have waited too long.
    is_watched: bool,
}

impl Reservations {
    /// Whether an ask without a reservation may reserve the node: the node is large enough, and
    /// either it is not reserved, or the ask requires it and so do all asks that have reserved it.
    pub fn may_reserve(&self, nodes: &NodeIndex, node: NodeSlot, spec: &AskSpec) -> bool {
        let may_share = match &spec.required_node {
            Some(required) => **required == **nodes.id(node) && self.normal_on(node).is_none(),
            None => !nodes.is_reserved(node),
        };
        may_share && nodes.total(node).holds(&spec.resources)
    }

    /// Makes a reservation; [`Self::may_reserve`] has to hold.
    pub fn make(&mut self, nodes: &mut NodeIndex, who: Reserver, reservation: Reservation) {
        let node = reservation.node;
        debug_assert!(self.may_reserve(nodes, node, &reservation.spec), "{who:?} on {node:?}");
        self.by_rank.insert(place(who, &reservation));
        let earlier = self.by_ask.insert(who, reservation);
        debug_assert!(earlier.is_none(), "an ask reserves one node");
        self.by_node.insert((node, who));
        nodes.set_aside(node, self.set_aside(node));
    }

    /// Returns how the node is set aside.
    fn set_aside(&self, node: NodeSlot) -> SetAside {
        match self.on_node(node).find(|(_, it)| !it.is_suspended) {
            None => SetAside::No,
            Some((_, it)) if it.is_bounded() => SetAside::Bounded(it.spec.priority),
            Some(_) => SetAside::Kept,
        }
    }

    /// Opens the node that an ask has reserved to all, because the ask could not run. Returns
    /// whether the reservation was not suspended before.
    pub fn suspend(&mut self, nodes: &mut NodeIndex, who: Reserver) -> bool {
        self.set_suspended(nodes, who, true)
    }

    /// Closes the node that an ask has reserved to others again.
    pub fn resume(&mut self, nodes: &mut NodeIndex, who: Reserver) {
        self.set_suspended(nodes, who, false);
    }

    fn set_suspended(&mut self, nodes: &mut NodeIndex, who: Reserver, is: bool) -> bool {
        let Some(reservation) = self.by_ask.get_mut(&who) else { return false };
        debug_assert!(reservation.may_be_suspended(), "{who:?} needs its node");
        if reservation.is_suspended == is {
            return false;
        }
        reservation.is_suspended = is;
        let node = reservation.node;
        nodes.set_aside(node, self.set_aside(node));
        true
    }

    /// Records that an application has another lane, or none.
    pub fn set_lane(&mut self, application: ApplicationSlot, lane: Option<LaneId>) {
        for (_, reservation) in self.by_ask.range_mut(asks_of(application)) {
            reservation.holder.lane = lane;
        }
    }

    /// Ends the reservation of an ask, if it has one. With the last reservation of a node, the node
    /// is open to all.
    pub fn end(&mut self, nodes: &mut NodeIndex, who: Reserver) -> Option<Reservation> {
        let reservation = self.by_ask.remove(&who)?;
        let node = reservation.node;
        self.by_rank.remove(&place(who, &reservation));
        self.by_node.remove(&(node, who));
        nodes.set_aside(node, self.set_aside(node));
        Some(reservation)
    }

    /// Records that victims are evicted from the node for the ask that has reserved it.
    pub fn note_preempted(&mut self, nodes: &mut NodeIndex, who: Reserver) {
        let Some(reservation) = self.by_ask.get_mut(&who) else { return };
        reservation.has_preempted = true;
        let node = reservation.node;
        nodes.set_aside(node, self.set_aside(node));
    }

    /// Returns the reservation of an ask.
    pub fn of(&self, who: Reserver) -> Option<&Reservation> {
        self.by_ask.get(&who)
    }

    /// Returns the node that an ask has reserved.
    pub fn node_of(&self, who: Reserver) -> Option<NodeSlot> {
        self.of(who).map(|it| it.node)
    }

    /// Whether an ask has reserved this node.
    pub fn is_at(&self, who: Reserver, node: NodeSlot) -> bool {
        self.node_of(who) == Some(node)
    }

    /// Keeps the reservation of an ask whose specification has changed, if the node is still large
    /// enough and the required node is the same. Returns whether it does; if not, the caller has to
    /// end the reservation.
    pub fn keep(&mut self, nodes: &mut NodeIndex, who: Reserver, spec: &Arc<AskSpec>) -> bool {
        let Some(reservation) = self.by_ask.get_mut(&who) else { return true };
        let keeps = reservation.spec.required_node == spec.required_node
            && nodes.total(reservation.node).holds(&spec.resources);
        if keeps {
            self.by_rank.remove(&place(who, reservation));
            reservation.spec = Arc::clone(spec);
            self.by_rank.insert(place(who, reservation));
            let node = reservation.node;
            nodes.set_aside(node, self.set_aside(node));
        }
        keeps
    }

    /// Returns the reservations of an application, each with its ask.
    #[cfg(test)]
    fn of_application(
        &self,
        application: ApplicationSlot,
    ) -> impl Iterator<Item = (AskSlot, &Reservation)> {
        let all = self.by_ask.range(asks_of(application));
        all.map(|(who, reservation)| (who.ask, reservation))
    }

    /// Returns the reservations of a node.
    pub fn on_node(&self, node: NodeSlot) -> impl Iterator<Item = (Reserver, &Reservation)> {
        let first = Reserver { application: ApplicationSlot::at(0), ask: AskSlot::at(0) };
        let all = self.by_node.range((node, first)..);
        let all = all.take_while(move |(of, _)| *of == node);
        all.map(|(_, who)| (*who, &self.by_ask[who]))
    }

    /// Returns the ask that has reserved the node and may use other nodes, whether or not its
    /// reservation is suspended.
    pub fn normal_on(&self, node: NodeSlot) -> Option<Reserver> {
        let (who, reservation) = self.on_node(node).next()?;
        (!reservation.is_required()).then_some(who)
    }

    /// Returns the lowest reservation that counts for the share, if an ask of this rank replaces
    /// it.
    pub(crate) fn last_replaced_by(
        &self,
        rank: &Rank,
        queues: &QueueTable,
    ) -> Option<(Reserver, &Reservation)> {
        if !queues.changes_priorities() {
            // Few reservations are suspended or have victims.
            let mut in_order = self.by_rank.iter().map(|(.., who)| (*who, &self.by_ask[who]));
            let last = in_order.find(|(_, it)| it.is_bounded())?;
            return Some(last).filter(|(_, it)| rank.replaces(&it.rank(queues)));
        }
        let bounded = self.iter().filter(|(_, it)| it.is_bounded());
        let ranked = bounded.map(|(of, it)| (of, it, it.rank(queues)));
        let after = ranked.filter(|(.., theirs)| rank.replaces(theirs));
        let (of, last, _) = after.min_by(|(.., a), (.., b)| a.compare(b))?;
        Some((of, last))
    }

    /// Returns the asks that have reserved the node and are larger than it.
    pub fn too_large_for(&self, nodes: &NodeIndex, node: NodeSlot) -> Vec<Reserver> {
        let total = nodes.total(node);
        let all = self.on_node(node);
        all.filter(|(_, it)| !total.holds(&it.spec.resources)).map(|(who, _)| who).collect()
    }

    /// Returns the asks that have reserved the node and may use other nodes.
    pub fn not_bound_to(&self, node: NodeSlot) -> Vec<Reserver> {
        let all = self.on_node(node);
        all.filter(|(_, it)| it.spec.required_node.is_none()).map(|(who, _)| who).collect()
    }

    /// Notes that a deadline is armed for the next reservation that may have waited too long.
    /// Returns whether none was armed before.
    pub fn watch(&mut self) -> bool {
        !std::mem::replace(&mut self.is_watched, true)
    }

    /// Returns, when the deadline has passed, the reservations that have waited too long, each with
    /// the key of its ask; and the time of the next check, if there are any reservations. A
    /// reservation that has waited and still fits its quotas is checked again every minute, or
    /// after each timeout if that is shorter.
    pub fn waited(
        &mut self,
        now_ns: i64,
        timeout: Duration,
    ) -> (Vec<(ApplicationSlot, Arc<str>)>, Option<i64>) {
        let timeout_ns = i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX);
        let timeout_ns = timeout_ns.max(LOOK_AGAIN_LEAST_NS);
        let again_ns = timeout_ns.min(LOOK_AGAIN_NS);
        let waited = self.iter().filter(|(_, it)| it.has_waited(now_ns, timeout));
        let waited = waited.map(|(who, it)| (who.application, Arc::clone(&it.spec.key))).collect();
        let next = self.iter().map(|(_, it)| {
            let over_ns = it.since_ns.saturating_add(timeout_ns).saturating_add(1);
            if now_ns < over_ns {
                return over_ns;
            }
            let times = now_ns.saturating_sub(over_ns) / again_ns + 1;
            over_ns.saturating_add(again_ns.saturating_mul(times))
        });
        let next = next.min();
        self.is_watched = next.is_some();
        (waited, next)
    }

    /// Returns all reservations, by application and ask.
    pub fn iter(&self) -> impl Iterator<Item = (Reserver, &Reservation)> {
        self.by_ask.iter().map(|(who, reservation)| (*who, reservation))
    }

    /// Returns the number of reservations.
    pub fn len(&self) -> usize {
        self.by_ask.len()
    }

    /// Whether there are no reservations.
    pub fn is_empty(&self) -> bool {
        self.by_ask.is_empty()
    }
}

/// Returns the sort key of a reservation by stated priority and age.
fn place(who: Reserver, reservation: &Reservation) -> (i32, Reverse<i64>, Reserver) {
    (reservation.spec.priority, Reverse(reservation.holder.created_ns), who)
}

fn asks_of(application: ApplicationSlot) -> RangeInclusive<Reserver> {
    let of = |ask| Reserver { application, ask: AskSlot::at(ask) };
    of(0)..=of(u32::MAX)
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Placed => "the ask was placed",
            Self::Withdrawn => "the ask was withdrawn",
            Self::Changed => "the ask has changed",
            Self::NodeRemoved => "the node was removed",
            Self::NodeTooSmall => "the node has become too small",
            Self::NodeClosed => "the node takes nothing new any more",
            Self::TimedOut => "quotas left too little for too long",
            Self::Displaced => "another ask requires the node",
            Self::Replaced => "a more important or older ask reserves a node in its place",
            Self::Suspended => {
                "the ask could not run, and others have reserved what may be reserved"
            }
            Self::Undecided => "its gang is decided anew",
            Self::Placeholders => "the ask takes the place of a placeholder",
            Self::StartFailed => "a start of the ask failed",
            Self::Preempted => "others leave the node for another ask",
            Self::Moved => "others leave another node for the ask",
            Self::VictimStays => "one that was to leave the node for the ask stays",
        })
    }
}

#[cfg(test)]
mod tests;
