//! The ledger of one queue: its usage, its pending amount and its limits.
//!
//! # One queue at a time
//! Each queue owns one [`QueueLedger`], which knows neither parent nor children. The caller that
//! walks a path performs the operations on it. Downward, it passes on the headroom, which each
//! ledger narrows; an ask that does not fit changes nothing. Upward, a decision climbs as one
//! [`LedgerDelta`] from leaf to root, and every ledger applies the same delta.
//!
//! # Why no release is refused
//! A release would have to be refused if some queue of the path used less than is released. No
//! queue can: the application holds the released allocation, and it was added to every queue of the
//! path with one delta, so that each of them uses at least as much. The release of an allocation
//! that is not held finds none and makes no delta. So there is no check before a release.
//!
//! # Invariants
//! * Used, pending and preempting amounts hold only quantities above zero; the running count is at
//!   least zero. Pending amounts are exact, however large ([`Sum`]). A delta that would break this
//!   is cut, and [`Clamped`] has the part that was cut.
//! * Applying deltas, and then their reverse in any order, leaves a ledger as it was, if none was
//!   cut.
//! * If every delta is applied to a whole path, and none is cut at its leaf, none is cut above.
//! * An ask fits the headroom of a chain exactly if it would take no queue of the chain above its
//!   maximum, in a name that it asks for.
//! * The usage of root stays within the range of a quantity if the headroom of root is [narrowed to
//!   that](QueueLedger::narrow_to_countable), and no queue uses more than root.
//!
//! # A delta that is cut
//! It means that the queues of a path were charged differently, a fault of the caller. The ledger
//! stays valid, and the caller logs the part that was cut and goes on.
//!
//! ```
//! use monoceros_rules::order::ledger::{LedgerDelta, QueueLedger};
//! use monoceros_rules::values::resources::{Limits, Resources};
//! let mut etl = QueueLedger::default();
//! etl.max = Some(Limits::of(&[("vcore", 4)]));
//! let delta = LedgerDelta { allocated: Resources::of(&[("vcore", 3)]), ..LedgerDelta::default() };
//! assert!(etl.apply(&delta).is_none(), "nothing was cut");
//! assert_eq!(etl.headroom(&Limits::unlimited()), Limits::of(&[("vcore", 1)]));
//! assert!(!etl.headroom(&Limits::unlimited()).allows(&Resources::of(&[("vcore", 2)])));
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::values::resources::{Limits, Resources, Sum};

/// The accounts of one queue, which include all descendants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueLedger {
    /// The stored maximum (see [`stored_limits`]). `None` limits nothing. Root has none: its
    /// placements are limited only by nodes.
    pub max: Option<Limits>,
    /// The capacity of all nodes, for root: shown as its maximum, and the base of shares. `None`
    /// for any other queue.
    pub capacity: Option<Limits>,
    /// The stored guarantee.
    pub guaranteed: Option<Resources>,
    /// The number of applications that may run at once; 0 is unlimited.
    pub max_running: u64,
    allocated: Resources,
    pending: Sum,
    preempting: Resources,
    running: u64,
    starting: u64,
}

/// A change of totals on its way from an application to root. Quantities are signed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerDelta {
    /// Change of the usage, unsettled placements included.
    pub allocated: Resources,
    /// Change of the amount that is asked for and not yet placed.
    pub pending: Sum,
    /// Change of the amount of victims that still hold it.
    pub preempting: Resources,
    /// Change of the number of running applications.
    pub running: i64,
    /// Change of the number of applications that do not run yet, and hold placements that wait for
    /// their predicates.
    pub starting: i64,
}

/// The amounts by which a delta would have taken totals below zero; the caller logs them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clamped {
    /// The used amount that could not be subtracted.
    pub allocated: Resources,
    /// The pending amount that could not be subtracted.
    pub pending: Resources,
    /// The preempting amount that could not be subtracted.
    pub preempting: Resources,
    /// The number of running applications that could not be subtracted.
    pub running: u64,
    /// The number of starting applications that could not be subtracted.
    pub starting: u64,
}

impl QueueLedger {
    /// The usage of the queue, unsettled placements included.
    pub fn allocated(&self) -> &Resources {
        &self.allocated
    }

    /// The amount that is asked for below and not yet placed.
    pub fn pending(&self) -> &Sum {
        &self.pending
    }

    /// The amount that victims of preemption hold.
    pub fn preempting(&self) -> &Resources {
        &self.preempting
    }

    /// The number of running applications. Recovered ones may take it above the maximum.
    pub fn running(&self) -> u64 {
        self.running
    }

    /// The number of applications that hold only placements that wait for their predicates. Each
    /// may run soon, and counts against the maximum.
    pub fn starting(&self) -> u64 {
        self.starting
    }

    /// The maximum that is shown; for root the capacity of all nodes.
    pub fn shown_max(&self) -> Option<&Limits> {
        self.capacity.as_ref().or(self.max.as_ref())
    }

    /// The amount that may still be placed in this queue, if the parent has the headroom `parent`;
    /// for root that is [`Limits::unlimited`]. An absent quota limits nothing. A quantity is
    /// negative if the queue is above its maximum.
    ///
    /// *Max headroom* is the same recursion, started below root.
    /// *Max headroom* is the same recursion that starts below root.
    #[must_use]
    pub fn headroom(&self, parent: &Limits) -> Limits {
        let mut headroom = parent.clone();
        self.narrow(&mut headroom);
        headroom
    }

    /// [`Self::headroom`] in place; allocates nothing for a maximum of up to four names.
    pub fn narrow(&self, headroom: &mut Limits) {
        if let Some(max) = &self.max {
            headroom.narrow(&max.less(&self.allocated));
        }
    }

    /// Narrows the headroom as [`Self::narrow`] does, with the nominations of others counted as
    /// usage.
    pub fn narrow_beside(&self, nominated: &Resources, headroom: &mut Limits) {
        if let Some(max) = &self.max {
            headroom.narrow(&max.less(&self.allocated).less(nominated));
        }
    }

    /// Narrows the headroom of root to its [`Self::countable_max`].
    pub fn narrow_to_countable(&self, capacity: &Resources, headroom: &mut Limits) {
        let max = self.countable_max(capacity);
        if !max.is_unlimited() {
            headroom.narrow(&max.less(&self.allocated));
        }
    }

    /// The maximum of root that keeps its usage within the range of a quantity, if all nodes
    /// together have this capacity. It usually limits nothing, since placements add at most the
    /// capacity. It limits a name if so much of it was reported as running that the sum could leave
    /// the range.
    pub fn countable_max(&self, capacity: &Resources) -> Limits {
        let mut max = Resources::new();
        for (name, used) in self.allocated.entries() {
            if used.checked_add(capacity.get(name)).is_none() {
                max.set(name, i64::MAX);
            }
        }
        max.into()
    }

    /// Applies a change without any check of the maximum: the headroom of the whole path is checked
    /// before, and recovered or resized allocations are not checked. Returns the part that had to
    /// be cut.
    #[must_use = "what was cut must be logged"]
    pub fn apply(&mut self, delta: &LedgerDelta) -> Option<Clamped> {
        let clamped = Clamped {
            allocated: change(&mut self.allocated, &delta.allocated),
            pending: change_sum(&mut self.pending, &delta.pending),
            preempting: change(&mut self.preempting, &delta.preempting),
            running: missing_count(self.running, delta.running),
            starting: missing_count(self.starting, delta.starting),
        };
        self.running = self.running.saturating_add_signed(delta.running);
        self.starting = self.starting.saturating_add_signed(delta.starting);
        (!clamped.is_nothing()).then_some(clamped)
    }

    /// Whether one more application may start, by this queue's maximum number; all queues of the
    /// path must agree. It is not needed for an application that counts already, running or
    /// starting.
    pub fn has_room_to_run(&self) -> bool {
        let counted = self.running.saturating_add(self.starting);
        self.max_running == 0 || counted < self.max_running
    }
}

impl LedgerDelta {
    /// Whether it changes nothing.
    pub fn is_nothing(&self) -> bool {
        self.allocated.is_zero()
            && self.pending.is_zero()
            && self.preempting.is_zero()
            && self.running == 0
            && self.starting == 0
    }

    /// Adds another change to this one.
    pub fn add(&mut self, other: &Self) {
        self.allocated.add(&other.allocated);
        self.pending.add_sum(&other.pending);
        self.preempting.add(&other.preempting);
        self.running = self.running.saturating_add(other.running);
        self.starting = self.starting.saturating_add(other.starting);
    }

    /// Returns the difference between this sum of changes and an earlier one.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            allocated: self.allocated.minus(&before.allocated).pruned(),
            pending: self.pending.since(&before.pending),
            preempting: self.preempting.minus(&before.preempting).pruned(),
            running: self.running.saturating_sub(before.running),
            starting: self.starting.saturating_sub(before.starting),
        }
    }

    /// The delta that undoes this one.
    #[must_use]
    pub fn reversed(&self) -> Self {
        Self {
            allocated: self.allocated.times(-1),
            pending: self.pending.reversed(),
            preempting: self.preempting.times(-1),
            running: self.running.saturating_neg(),
            starting: self.starting.saturating_neg(),
        }
    }
}

impl Clamped {
    fn is_nothing(&self) -> bool {
        self.allocated.is_empty()
            && self.pending.is_empty()
            && self.preempting.is_empty()
            && self.running == 0
            && self.starting == 0
    }
}

impl fmt::Display for Clamped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { allocated, pending, preempting, running, starting } = self;
        write!(
            f,
            "allocated {allocated}, pending {pending}, preempting {preempting}, running {running}, \
             starting {starting}"
        )
    }
}

/// Returns the limits to store for a configured maximum. `None` if no quantity is above zero:
/// `memory: 0` alone limits nothing, and the caller should warn of it.
pub fn stored_limits(configured: &Resources) -> Option<Limits> {
    configured.is_positive().then(|| configured.clone().into())
}

/// Returns the guarantee that is stored for a configured one, by the rule of [`stored_limits`].
pub fn stored_guaranteed(configured: &Resources) -> Option<Resources> {
    configured.is_positive().then(|| configured.clone())
}

/// The effective maximum of a queue with the maximum `own`, below a parent whose effective maximum
/// is `parent`: the smaller of both, name by name, so a path may be taken from either end.
///
/// The *configured maximum*, which sizes gangs, is the same recursion with `None` for root.
pub fn effective_max(parent: Option<&Limits>, own: Option<&Limits>) -> Option<Limits> {
    let (Some(parent), Some(own)) = (parent, own) else {
        return parent.or(own).cloned();
    };
    let mut effective = parent.clone();
    effective.narrow(own);
    Some(effective)
}

/// Computes the base of a queue's shares in names without a guarantee: the parent's fair maximum,
/// with the queue's own maximum in the names that it has, even if that is larger. For root it is
/// its maximum. If a parent has no fair maximum, its children have none.
pub fn fair_max(parent: Option<&Limits>, own: Option<&Limits>) -> Option<Limits> {
    let parent = parent?;
    let Some(own) = own.filter(|_| !parent.is_unlimited()) else {
        return Some(parent.clone());
    };
    let mut fair = parent.as_resources();
    for (name, limit) in own.entries() {
        fair.set(name, limit);
    }
    Some(fair.into())
}

/// Returns the part of a decrease that a count cannot take, because it stops at zero.
fn missing_count(count: u64, delta: i64) -> u64 {
    if delta < 0 { delta.unsigned_abs().saturating_sub(count) } else { 0 }
}

/// Adds `delta` to a total whose quantities stop at zero, and returns the part that was cut.
fn change(total: &mut Resources, delta: &Resources) -> Resources {
    let mut missing = Resources::new();
    if delta.is_empty() {
        return missing;
    }
    total.add(delta);
    if total.has_negative() {
        for (name, quantity) in total.entries().filter(|(_, quantity)| *quantity < 0) {
            missing.set(name, quantity.saturating_neg());
        }
        for (name, _) in missing.entries() {
            total.set(name, 0);
        }
    }
    total.prune();
    missing
}

/// Adds `delta` to a sum as [`change`] does to an amount.
fn change_sum(total: &mut Sum, delta: &Sum) -> Resources {
    if delta.is_empty() {
        return Resources::new();
    }
    total.add_sum(delta);
    let missing = total.cut_below_zero();
    total.prune();
    missing
}

#[cfg(test)]
mod tests;
