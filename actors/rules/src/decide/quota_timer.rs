//! The delay after which a queue above its maximum starts to evict.
//!
//! If a maximum is lowered below the usage, nothing is evicted at once: the queue first has the
//! time `quota.preemption.delay` to shrink by itself. One [`QuotaTimer`] per queue keeps the end of
//! that time. It is called when the queue is configured again, when an amount is charged without a
//! check against its maximum, when less is used, and by the scan for due queues.
//!
//! The engine knows whether a queue is managed and whether its partition has quota preemption; for
//! other queues it does not call the timer. [`preemption::quota`](super::preemption::quota) decides
//! which queues are due, and what is evicted from them.
//!
//! # Invariants
//! * A start time is set only for a queue above its maximum with a delay, and the first one counts:
//!   lowering the maximum again while it is set does not postpone it.
//! * While a run is under way nothing changes the timer; it fires once for each time that it was
//!   set.
//!
//! ```
//! use monoceros_rules::decide::quota_timer::{Quota, QuotaTimer};
//! use monoceros_rules::values::resources::{Limits, Resources};
//! let (wide, narrow) = (Limits::of(&[("vcore", 20)]), Limits::of(&[("vcore", 10)]));
//! let (old, new) = (Quota::of(&wide, 60), Quota::of(&narrow, 60));
//! let used = Resources::of(&[("vcore", 18)]);
//! let mut timer = QuotaTimer::default();
//! timer.reconfigured(old, new, &used, 1_000);
//! assert!(!timer.fires(new, &used, 1_059));
//! assert!(timer.fires(new, &used, 1_060));
//! ```

use serde::{Deserialize, Serialize};

use crate::values::resources::{Limits, Resources};

/// The maximum of a queue, and how long it may be exceeded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quota<'a> {
    /// The stored maximum.
    pub max: Option<&'a Limits>,
    /// The time for which the queue may stay above the maximum, ns; 0: without end.
    pub delay_ns: i64,
}

/// The timer of a queue: the start time of the run that evicts what is above the maximum, and
/// whether the run is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaTimer {
    start_ns: Option<i64>,
    is_running: bool,
}

impl QuotaTimer {
    /// Returns the time when the queue is due, ns. It may be in the past.
    pub fn start_ns(&self) -> Option<i64> {
        self.start_ns
    }

    /// Whether a run is under way.
    pub fn is_running(&self) -> bool {
        self.is_running
    }

    /// Adapts the timer after the queue was configured again, or its properties were derived again.
    pub fn reconfigured(&mut self, old: Quota<'_>, new: Quota<'_>, used: &Resources, now_ns: i64) {
        if self.is_running {
            return;
        }
        if new.delay_ns == 0 || !new.is_exceeded_by(used) {
            self.start_ns = None;
            return;
        }
        self.start_ns = match self.start_ns {
            Some(start) => {
                // The time that has passed counts: if the delay is the same, the start time is the
                // same.
                Some(start.saturating_add(new.delay_ns.saturating_sub(old.delay_ns)))
            }
            None if new.is_lower_than(old) || (old.delay_ns == 0 && old.max == new.max) => {
                Some(now_ns.saturating_add(new.delay_ns))
            }
            None => None,
        };
    }

    /// Starts the timer after an amount was charged without a check against the maximum: recovered,
    /// placed by the RM itself, or grown in place. `used` includes the amount.
    pub fn charged_unchecked(&mut self, quota: Quota<'_>, used: &Resources, now_ns: i64) {
        let is_unset = self.start_ns.is_none() && !self.is_running;
        if is_unset && quota.delay_ns != 0 && quota.is_exceeded_by(used) {
            self.start_ns = Some(now_ns.saturating_add(quota.delay_ns));
        }
    }

    /// Stops the timer if the queue is back within its maximum, because less is used than before,
    /// or more allocations are being released.
    pub fn discharged(&mut self, quota: Quota<'_>, used: &Resources) {
        if !self.is_running && !quota.is_exceeded_by(used) {
            self.start_ns = None;
        }
    }

    /// Whether the queue is due. If so, the run is under way until [`Self::ended`]. Stops the timer
    /// if the queue is back within its maximum.
    #[must_use = "a queue that is due runs"]
    pub fn fires(&mut self, quota: Quota<'_>, used: &Resources, now_ns: i64) -> bool {
        if self.is_running {
            return false;
        }
        if !quota.is_exceeded_by(used) {
            self.start_ns = None;
        }
        self.is_running = self.start_ns.is_some_and(|start| start <= now_ns);
        self.is_running
    }

    /// Ends the run, whatever its result.
    pub fn ended(&mut self) {
        *self = Self::default();
    }
}

impl<'a> Quota<'a> {
    /// The quota of a queue with this maximum and delay, ns.
    pub fn of(max: &'a Limits, delay_ns: i64) -> Self {
        Self { max: Some(max), delay_ns }
    }

    /// Whether the usage of a resource type exceeds the maximum. A type that the maximum lacks is
    /// not limited; without a maximum no type is.
    fn is_exceeded_by(self, used: &Resources) -> bool {
        self.max.is_some_and(|max| max.entries().any(|(name, limit)| used.get(name) > limit))
    }

    /// Whether a resource type has a lower maximum than before. A type without a maximum was
    /// unlimited, so its first maximum is lower.
    fn is_lower_than(self, old: Self) -> bool {
        let before = |name| old.max.and_then(|max| max.find(name));
        let Some(max) = self.max else { return false };
        max.entries().any(|(name, limit)| before(name).is_none_or(|old| limit < old))
    }
}

#[cfg(test)]
mod tests;
