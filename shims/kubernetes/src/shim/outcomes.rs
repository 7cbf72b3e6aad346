//! Handles outcomes of work at the API server.

use std::sync::Arc;
use std::time::Duration;

use monoceros_proto::si::v1::{AllocationRelease, TerminationType};

use super::applications::warning;
use super::messages::{About, ApiOrder, Event, Key, Outcome};
use super::record::{ApiWork, Ending, EngineState};
use super::{Shim, open};
use crate::objects::Meta as _;

impl Shim {
    /// Handles the outcome of work at the API server.
    pub fn done(&mut self, outcome: Outcome, now: Duration) {
        match outcome {
            Outcome::Bound(key) => self.bound(&key, now),
            Outcome::NotBound(key, why) => self.not_bound(&key, why, now),
            Outcome::Evicting(key) => self.eviction_accepted(&key),
            Outcome::EvictionDelayed(key, why) => {
                let Some(record) = self.pods.get(&key) else { return };
                self.api_orders.push(warning(&record.pod, "NotEvicted", "Evicting", why));
            }
            Outcome::EvictionFailed(key, why) => self.eviction_failed(&key, why),
            Outcome::ConditionFailed(key) => self.condition_failed(&key, now),
            Outcome::GroupConditionWritten(condition) => {
                self.group_condition_ended(&condition, true, now);
            }
            Outcome::GroupConditionFailed(condition) => {
                self.group_condition_ended(&condition, false, now);
            }
        }
    }

    /// Reports a binding by an event. A pod that became a victim in the meantime is evicted.
    fn bound(&mut self, key: &Key, now: Duration) {
        self.meters.bound.inc();
        let Some(record) = self.pods.get_mut(key) else { return };
        if record.api_work == ApiWork::Binding {
            record.api_work = ApiWork::Bound;
        }
        let EngineState::Placed(node) = &record.engine else {
            return self.reconcile(key, now);
        };
        self.api_orders.push(ApiOrder::Event(Event {
            about: About::pod(&record.pod),
            is_warning: false,
            reason: "Scheduled",
            action: "Binding",
            message: format!("assigned {}/{} to {node}", record.pod.namespace(), record.pod.name()),
        }));
        self.evict(key);
    }

    fn not_bound(&mut self, key: &Key, why: String, now: Duration) {
        let Some(record) = self.pods.get_mut(key) else {
            self.meters.failed_bindings.inc();
            return;
        };
        if record.api_work == ApiWork::Binding {
            record.api_work = ApiWork::Idle;
        }
        if record.ending.is_some() && record.pod.node().is_none() && !record.is_gone {
            // The pod was a victim anyway, and is asked for again.
            self.eviction_accepted(key);
            self.reconcile(key, now);
            return self.binding_ended(key);
        }
        self.meters.failed_bindings.inc();
        if record.pod.node().is_none() && !record.is_gone {
            let message = format!("the pod could not be bound: {why}");
            self.api_orders.push(warning(&record.pod, "FailedBinding", "Binding", message));
            self.binding_failed(key, why, now);
        }
        self.reconcile(key, now);
        self.binding_ended(key);
    }

    /// Gives back the placement of a pod that could not be bound. The engine keeps its ask pending
    /// and tries others first.
    fn binding_failed(&mut self, key: &Key, why: String, now: Duration) {
        let Some(record) = self.pods.get_mut(key).filter(|_| self.is_active) else { return };
        if !matches!(record.engine, EngineState::Placed(_)) || record.pod.is_going() {
            return;
        }
        let id = record.application_id();
        let release = AllocationRelease {
            termination_type: TerminationType::SchedulingFailedOnRm.into(),
            message: why,
            ..AllocationRelease::new(&*id, &**key)
        };
        (record.engine, record.is_confirmed) = (EngineState::Asked, false);
        record.asked = now;
        {
            let mut scene = open(&self.scene);
            scene.dismiss(key);
            scene.clear(key);
            scene.expect(key, Arc::clone(&record.pod));
        }
        self.orders.release(release);
        // Later orders are about the pod's ask.
        self.orders.cut();
        self.examine_soon(key, now);
    }

    /// Counts a victim that is evicted, or whose binding was cancelled, and reports it by an event.
    fn eviction_accepted(&mut self, key: &Key) {
        self.meters.evicted.inc();
        let Some(record) = self.pods.get(key) else { return };
        let Some(ending) = record.ending.clone() else { return };
        self.report_ending(key, ending);
    }

    /// Writes an event that says why a pod is evicted, once.
    pub(super) fn report_ending(&mut self, key: &Key, ending: Ending) {
        let Some(record) = self.pods.get_mut(key) else { return };
        if ending.is_reported {
            return;
        }
        if let Some(ending) = &mut record.ending {
            ending.is_reported = true;
        }
        let reason = match ending.type_ {
            TerminationType::PreemptedByScheduler => "Preempted",
            _ => "Evicted",
        };
        self.api_orders.push(warning(&record.pod, reason, "Evicting", ending.message));
    }
}
