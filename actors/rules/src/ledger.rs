//! What one queue has used, waits for and may use (queues-and-config chapter, sections 4.6 and
//! 4.7).
//!
//! # One queue at a time
//! Each queue owns one [`QueueLedger`], which knows neither parent nor children. What concerns a
//! path is done by whoever walks it: a check asks every ledger and changes none, then one
//! [`LedgerDelta`] climbs from leaf to root and every ledger applies the same. Headroom is handed
//! down: each ledger narrows what its parent had left.
//!
//! # Invariants
//! * Used, pending and preempting amounts hold only quantities above zero; the running count is at
//!   least zero. A delta that would break this is cut, and [`Clamped`] says by how much.
//! * Applying deltas and then their reverse leaves a ledger as it was, in any order in which none
//!   was cut.
//! * An ask fits the headroom of a chain exactly when no ledger of the chain says that it
//!   [would exceed](QueueLedger::would_exceed) its maximum.
//!
//! # When things go wrong
//! A cut delta means that a path was charged unevenly. It is no reason to stop: the ledger stays
//! valid, the caller logs what was cut.
//!
//! ```
//! use monoceros_rules::ledger::{LedgerDelta, QueueLedger};
//! use monoceros_rules::resources::{Limits, Resources};
//! let mut etl = QueueLedger::default();
//! etl.max = Some(Limits::of(&[("vcore", 4)]));
//! let delta = LedgerDelta { allocated: Resources::of(&[("vcore", 3)]), ..LedgerDelta::default() };
//! assert!(etl.apply(&delta).is_none(), "nothing was cut");
//! assert_eq!(etl.headroom(&Limits::unlimited()), Limits::of(&[("vcore", 1)]));
//! assert!(etl.would_exceed(&Resources::of(&[("vcore", 2)])).is_some());
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::resources::{Limits, Name, Resources};

/// The accounts of one queue, all descendants included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueLedger {
    /// The stored maximum (see [`stored_limits`]); for root what the nodes offer (see
    /// [`offered`]). `None` limits nothing.
    pub max: Option<Limits>,
    /// The stored guarantee.
    pub guaranteed: Option<Resources>,
    /// How many applications may run at once; 0 is unlimited.
    pub max_running: u64,
    allocated: Resources,
    pending: Resources,
    preempting: Resources,
    running: u64,
    starting: u64,
    allocating_accepted: BTreeSet<Arc<str>>,
}

/// A change of totals on its way from an application to root. Quantities are signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerDelta {
    /// Change of what is used, unsettled placements included.
    pub allocated: Resources,
    /// Change of what is asked for and not yet placed.
    pub pending: Resources,
    /// Change of what was chosen to be preempted and is still held.
    pub preempting: Resources,
    /// Change of the number of running applications.
    pub running: i64,
    /// Change of the number of applications that have still to start and hold placements that are
    /// not settled.
    pub starting: i64,
}

/// By how much a delta would have taken totals below zero. For the caller to log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clamped {
    /// What was not there of the used amount.
    pub allocated: Resources,
    /// What was not there of the pending amount.
    pub pending: Resources,
    /// What was not there of the preempting amount.
    pub preempting: Resources,
    /// How many running applications were not there.
    pub running: u64,
    /// How many starting applications were not there.
    pub starting: u64,
}

impl QueueLedger {
    /// What the queue uses, unsettled placements included.
    pub fn allocated(&self) -> &Resources {
        &self.allocated
    }

    /// What is asked for below and not yet placed.
    pub fn pending(&self) -> &Resources {
        &self.pending
    }

    /// What is held by victims of preemption.
    pub fn preempting(&self) -> &Resources {
        &self.preempting
    }

    /// How many applications run. Recovered ones may take it above the maximum.
    pub fn running(&self) -> u64 {
        self.running
    }

    /// How many applications hold nothing but placements that wait for their predicate: each may
    /// run in a moment, and counts against the maximum.
    pub fn starting(&self) -> u64 {
        self.starting
    }

    /// The applications that are still Accepted and already had an allocation or reservation.
    pub fn allocating_accepted(&self) -> &BTreeSet<Arc<str>> {
        &self.allocating_accepted
    }

    /// Whether anything is pending, so that the queue is a candidate for scheduling.
    pub fn pending_positive(&self) -> bool {
        !self.pending.is_empty()
    }

    /// What may still be placed here when the parent has `parent` left; of root's parent and of an
    /// absent quota, [`Limits::unlimited`]. Negative in what the queue is over.
    ///
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

    /// Of which name `ask` would take a queue other than root above its maximum; of several the
    /// alphabetically first. Names that are not limited are no obstacle, nor is what the queue is
    /// over already as long as the ask wants none of it: an explicit zero asks for nothing, here as
    /// in a headroom.
    pub fn would_exceed(&self, ask: &Resources) -> Option<Name> {
        let max = self.max.as_ref()?;
        self.exceeded(ask, |name| max.find(name))
    }

    /// [`Self::would_exceed`] for root, whose maximum is what the nodes offer: what none of them
    /// offers cannot be had.
    pub fn root_would_exceed(&self, ask: &Resources) -> Option<Name> {
        self.exceeded(ask, |name| {
            Some(self.max.as_ref().and_then(|max| max.find(name)).unwrap_or(0))
        })
    }

    fn exceeded(&self, ask: &Resources, limit: impl Fn(Name) -> Option<i64>) -> Option<Name> {
        alphabetically_first(ask.entries().filter_map(|(name, wanted)| {
            let need = self.allocated.get(name).saturating_add(wanted);
            (wanted > 0 && need > limit(name)?).then_some(name)
        }))
    }

    /// Of which name `release` is more than the queue uses; of several the alphabetically first.
    /// To be asked of a whole path before anything of it is released.
    pub fn would_release_too_much(&self, release: &Resources) -> Option<Name> {
        let short = |(name, quantity): &(Name, i64)| *quantity > self.allocated.get(*name).max(0);
        alphabetically_first(release.entries().filter(short).map(|(name, _)| name))
    }

    /// Books a change, without any check of the maximum: checks come before, on the whole path,
    /// and recovered or resized allocations have none. Answers what had to be cut.
    #[must_use = "what was cut must be logged"]
    pub fn apply(&mut self, delta: &LedgerDelta) -> Option<Clamped> {
        let clamped = Clamped {
            allocated: change(&mut self.allocated, &delta.allocated),
            pending: change(&mut self.pending, &delta.pending),
            preempting: change(&mut self.preempting, &delta.preempting),
            running: missing_count(self.running, delta.running),
            starting: missing_count(self.starting, delta.starting),
        };
        self.running = self.running.saturating_add_signed(delta.running);
        self.starting = self.starting.saturating_add_signed(delta.starting);
        (!clamped.is_nothing()).then_some(clamped)
    }

    /// Whether this queue has room for the application to run (`canRun` at this level; all levels
    /// must agree). Only asked for applications that are Accepted.
    pub fn may_run(&self, application: &str) -> bool {
        self.has_room_to_run() || self.allocating_accepted.contains(application)
    }

    /// Whether there is room for one more application that does not count yet.
    pub fn has_room_to_run(&self) -> bool {
        let counted = self.running.saturating_add(self.starting);
        self.max_running == 0
            || counted.saturating_add(self.allocating_accepted.len() as u64) < self.max_running
    }

    /// From now on the application counts as running, although it is Accepted. Whether that is new.
    pub fn enter_allocating(&mut self, application: &Arc<str>) -> bool {
        !self.allocating_accepted.contains(application)
            && self.allocating_accepted.insert(Arc::clone(application))
    }

    /// The application left Accepted or is gone. Whether it was counted.
    pub fn leave_allocating(&mut self, application: &str) -> bool {
        self.allocating_accepted.remove(application)
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

    /// Adds what another delta changes, for one climb instead of two.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in [
            (&mut self.allocated, &other.allocated),
            (&mut self.pending, &other.pending),
            (&mut self.preempting, &other.preempting),
        ] {
            mine.add(theirs);
            mine.prune();
        }
        self.running = self.running.saturating_add(other.running);
        self.starting = self.starting.saturating_add(other.starting);
    }

    /// What undoes this delta.
    #[must_use]
    pub fn reversed(&self) -> Self {
        Self {
            allocated: self.allocated.times(-1),
            pending: self.pending.times(-1),
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

/// The limits that are kept of configured ones: a maximum without a quantity above zero is no
/// maximum (section 3.4), so `memory: 0` alone limits nothing. Worth a warning where something was
/// configured.
pub fn stored_limits(configured: &Resources) -> Option<Limits> {
    configured.is_positive().then(|| configured.clone().into())
}

/// The guarantee that is kept of a configured one, by the rule of [`stored_limits`].
pub fn stored_guaranteed(configured: &Resources) -> Option<Resources> {
    configured.is_positive().then(|| configured.clone())
}

/// The maximum of root when the nodes offer `total` together: names of which nothing is left are
/// not offered, and without anything there is no maximum.
pub fn offered(total: &Resources) -> Option<Limits> {
    stored_limits(&total.clone().pruned())
}

/// What limits a queue with its own maximum below a parent with that effective maximum.
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

/// What stands for a missing guarantee when shares are computed: the parent's fair maximum, in
/// which the queue's own entries win even where they are larger. Root's is its maximum. A parent
/// without a fair maximum has children without.
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

/// What a count of zero at least could not give.
fn missing_count(count: u64, delta: i64) -> u64 {
    if delta < 0 { delta.unsigned_abs().saturating_sub(count) } else { 0 }
}

/// Adds `delta` and answers what a total of zero at least could not give.
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

/// The interned order of names must not reach a reader.
fn alphabetically_first(names: impl Iterator<Item = Name>) -> Option<Name> {
    names.min_by(|left, right| left.alphabetical(*right))
}

#[cfg(test)]
mod tests;
