//! The time at which preemption begins in a queue above its maximum: `docs/preemption.md`.
//!
//! # Invariants
//! * A deadline is armed for the earliest start time of all queues of the partition, and for none
//!   while no queue has one.
//! * A queue that is not above its maximum has no start time.

use monoceros_rules::decide::quota_timer::{Quota, QuotaTimer};
use monoceros_rules::order::ledger::QueueLedger;
use monoceros_rules::queues::QueueConfig;
use monoceros_rules::values::resources::{Limits, Resources};

use super::{Queue, QueueFacts};
use crate::step::{Alarm, Baton};

/// Returns how long a queue may stay above its maximum, ns; 0 is for ever. It is 0 for a dynamic
/// queue, in a partition without preemption by quota (`is_wanted` is false), and for root, whose
/// maximum is the capacity of the nodes, which no configuration lowers.
pub(crate) fn quota_delay_ns(config: &QueueConfig, is_wanted: bool) -> i64 {
    if !is_wanted || config.is_dynamic || config.parent_path().is_none() {
        return 0;
    }
    i64::try_from(config.settings.quota_preemption_delay.as_nanos()).unwrap_or(i64::MAX)
}

impl Queue {
    /// Restarts the timer after a change of the configuration. `max` and `delay_ns` are the earlier
    /// maximum, and the earlier time that the queue could stay above it.
    pub(super) fn quota_reconfigured(
        &mut self,
        max: Option<&Limits>,
        delay_ns: i64,
        baton: &mut Baton,
    ) {
        let (old, used) = (Quota { max, delay_ns }, used(&self.ledger));
        let new = quota(&self.ledger, &self.facts);
        self.quota_timer.reconfigured(old, new, &used, baton.now_ns);
        self.await_quota(baton);
    }

    /// Starts the timer if needed, after a charge without a check against the maximum.
    pub(super) fn quota_charged(&mut self, baton: &mut Baton) {
        if self.facts.quota_delay_ns == 0 {
            return;
        }
        let (quota, used) = (quota(&self.ledger, &self.facts), used(&self.ledger));
        self.quota_timer.charged_unchecked(quota, &used, baton.now_ns);
        self.await_quota(baton);
    }

    /// Stops the timer if the queue is within its maximum again, after its usage has changed.
    pub(super) fn quota_discharged(&mut self) {
        if self.quota_timer.start_ns().is_some() {
            let (quota, used) = (quota(&self.ledger, &self.facts), used(&self.ledger));
            self.quota_timer.discharged(quota, &used);
        }
    }

    /// Ends a run of preemption: the queue has given up what it could.
    pub(crate) fn quota_run_is_over(&mut self) {
        self.quota_timer.ended();
    }

    /// Returns the timer of preemption by quota.
    pub(crate) fn quota_timer(&self) -> &QuotaTimer {
        &self.quota_timer
    }

    /// Returns the time that the queue may stay above its maximum, ns.
    pub(crate) fn quota_delay_ns(&self) -> i64 {
        self.facts.quota_delay_ns
    }

    fn await_quota(&self, baton: &mut Baton) {
        if let Some(start_ns) = self.quota_timer.start_ns() {
            baton.await_quota(start_ns);
        }
    }
}

impl Baton {
    /// Has the partition scan for due queues at this time, ns since the epoch.
    pub(crate) fn await_quota(&mut self, at_ns: i64) {
        let armed = &mut self.directory.next_quota_scan_ns;
        if armed.is_some_and(|armed| armed <= at_ns) {
            return;
        }
        *armed = Some(at_ns);
        self.effects.remind_at(at_ns, self.now_ns, Alarm::QuotaScan { at_ns });
    }
}

fn quota<'a>(ledger: &'a QueueLedger, facts: &QueueFacts) -> Quota<'a> {
    Quota { max: ledger.max.as_ref(), delay_ns: facts.quota_delay_ns }
}

/// Returns the queue's usage without victims that are leaving.
fn used(ledger: &QueueLedger) -> Resources {
    ledger.allocated().minus(ledger.preempting())
}
