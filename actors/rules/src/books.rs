//! The partition's books: every fact that ties entities of different branches together.
//!
//! # Why one struct
//! A fact about one entity is in its actor. Facts that a queue, an application and a node must
//! agree on are here, in one plain struct that travels with the step: its holder may write, no
//! other code can, and the compiler ensures that. So no two steps change it at once, and there is
//! no lock.

mod changes;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::changes::Resized;
use crate::allocations::AllocationTable;
use crate::limits::Trackers;
use crate::nodes::{NodeIndex, NodeOrder};
use crate::pending::history::History;
use crate::pending::nominations::{Nominations, Preemptor};
use crate::pending::reservations::Reservations;
use crate::pending::unsettled::Unsettled;
use crate::queues::QueueConfig;
use crate::queues::figures::QueueTable;
use crate::specs::quotas::QuotaUsage;
use crate::specs::rejection::Overflow;
use crate::values::epoch::Loosening;
use crate::values::resources::{Resources, Sum};

/// Everything that a step may read and change besides the actor that it visits: nodes, allocations,
/// reservations, open questions, and the usage of users and groups.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Books {
    /// Every node in the order of the partition's policy, with its free capacity.
    pub nodes: NodeIndex,
    /// Every allocation, and every placement that waits for the RM's predicate.
    pub allocations: AllocationTable,
    /// The number of members of gangs that have passed every predicate and wait for their
    /// placeholders to end. They are in the table, beside the placeholders that they replace.
    pub on_their_way: usize,
    /// The open questions about allocations that wait for the RM's predicate.
    pub unsettled: Unsettled,
    /// The reservations: which ask has reserved which node.
    pub reservations: Reservations,
    /// The settings of queues, the headroom below their maxima, and the unused parts of their
    /// guarantees.
    pub queues: QueueTable,
    /// The nominations: the node and the amount that are kept for each preemptor.
    pub nominations: Nominations,
    /// Recent evictions: which application lost allocations to which.
    pub evictions: History,
    /// The usage of users and groups by queue, and their limits.
    pub trackers: Trackers,
    /// The sum of all allocations: the usage of root, and amounts that have still to climb. It is
    /// bounded, so that no sum of allocations leaves the range of a quantity. Pending amounts have
    /// no bound, and are counted in a [`Sum`].
    pub allocated: Resources,
    /// Whether root has pending asks. If it has none, an offer finds nothing to place.
    pub is_waiting: bool,
    /// The quotas of the RM, and its usage of them.
    pub quotas: QuotaUsage,
    loosenings: Loosening,
    arrivals: u64,
    changes: u64,
}

impl Books {
    /// Books of a partition without nodes.
    pub fn new(order: NodeOrder) -> Self {
        Self {
            nodes: NodeIndex::new(order),
            allocations: AllocationTable::new(),
            on_their_way: 0,
            unsettled: Unsettled::default(),
            reservations: Reservations::default(),
            queues: QueueTable::default(),
            nominations: Nominations::default(),
            evictions: History::default(),
            trackers: Trackers::default(),
            allocated: Resources::new(),
            is_waiting: false,
            quotas: QuotaUsage::default(),
            loosenings: Loosening::NONE,
            arrivals: 0,
            changes: 0,
        }
    }

    /// Returns the number of allocations: those that their RM was notified of, placeholders
    /// included, and places held for members of gangs. A placement that waits for a predicate, or
    /// for a placeholder to end, does not count yet.
    pub fn n_booked(&self) -> usize {
        self.allocations.len() - self.n_unbooked()
    }

    /// Returns the number of entries of the table that are no allocations yet.
    pub fn n_unbooked(&self) -> usize {
        self.unsettled.placements() + self.on_their_way
    }

    /// Whether allocations were preempted for this preemptor, which preempts no others until that
    /// preemption is over. The preemption for an ask is over when its reservation ends, if the ask
    /// has reserved a node since.
    pub fn has_preempted(&self, who: Preemptor) -> bool {
        let by_reservation = || match who {
            Preemptor::Ask(who) => self.reservations.of(who).is_some_and(|it| it.has_preempted),
            Preemptor::Gang(_) => false,
        };
        self.nominations.of(who).is_some() || by_reservation()
    }

    /// Enters a queue, which uses nothing yet.
    pub fn enter_queue(&mut self, queue: u32, parent: Option<u32>, config: &Arc<QueueConfig>) {
        self.queues.enter(queue, parent, Arc::clone(config));
        self.nodes.rank_otherwise(self.queues.changes_priorities());
    }

    /// Counts a step that may have given some queue more room, and names it.
    pub fn loosen(&mut self) -> Loosening {
        self.changes += 1;
        self.loosenings = self.loosenings.next();
        self.loosenings
    }

    /// Returns the number of the last step that may have given some queue, user or group more room.
    pub fn last_loosening(&self) -> Loosening {
        self.loosenings
    }

    /// Counts an arrival, and returns its number.
    pub fn arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    /// Returns the number of the last arrival.
    pub fn last_arrival(&self) -> u64 {
        self.arrivals
    }

    /// Counts a step after which other allocations run or may be evicted, or queues have other
    /// settings: a search for victims that was without result may find some.
    pub fn note_change(&mut self) {
        self.changes += 1;
    }

    /// Returns the number of these steps and of growths of nodes until now. Growths count because a
    /// node that opens, changes its attributes or loses its last reservation may be useful to a
    /// preemptor.
    pub fn changes(&self) -> u64 {
        self.changes.wrapping_add(self.nodes.growth().number())
    }

    /// Returns why `more` cannot be allocated: the sum of all allocations would leave the range of
    /// a quantity. `extra` was allocated in this step and is not in the sum yet.
    pub fn overflows(&self, extra: &Resources, more: &Sum) -> Option<Overflow> {
        let of = "that are allocated";
        if extra.is_empty() {
            return Overflow::of_sum(&self.allocated, more, of);
        }
        Overflow::of_sum(&self.allocated.plus(extra), more, of)
    }
}
