//! Handles notifications of the engine, and outcomes of work at the API server.

use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::tags::HELD_AGAIN;
use monoceros_proto::si::v1::{AllocationRelease, TerminationType};

use super::applications::warning;
use super::messages::{About, ApiOrder, Event, Key, Notification, Outcome, Placed};
use super::record::{ApiWork, Ending, EngineState};
use super::{Shim, open};
use crate::objects::Meta as _;

impl Shim {
    /// Handles a notification of the engine.
    pub fn receive(&mut self, notification: Notification, now: Duration) {
        match notification {
            Notification::Placed(placed) => {
                for placed in placed {
                    self.placed_on(&placed, now);
                }
            }
            Notification::Allocations(response) => {
                for new in response.new {
                    let placed = Placed {
                        key: new.allocation_key.into(),
                        application: new.application_id.into(),
                        node: new.node_id.into(),
                    };
                    self.placed_on(&placed, now);
                }
                for released in response.released {
                    let type_ = released.termination_type();
                    let key = Key::from(released.allocation_key);
                    if self.was_of_another(&key, &released.application_id) {
                        continue;
                    }
                    self.released(&key, type_, &released.message, now);
                }
                for refused in response.rejected_allocations {
                    self.pod_refused(&Key::from(refused.allocation_key), &refused.reason, now);
                }
            }
            Notification::Applications(response) => {
                for refused in response.rejected {
                    self.application_refused(&refused.application_id.into(), &refused.reason, now);
                }
                for accepted in response.accepted {
                    self.application_accepted(&accepted.application_id.into(), now);
                }
                for updated in response.updated {
                    let id = Arc::from(updated.application_id);
                    if updated.message == HELD_AGAIN {
                        self.holds_confirmed(&id);
                        self.continue_holding(now);
                        continue;
                    }
                    match updated.state.as_str() {
                        "Completed" => self.application_ended(&id, None, now),
                        "Failed" => self.application_ended(&id, Some(&updated.message), now),
                        _ => {}
                    }
                }
            }
            Notification::Nodes(response) => {
                for refused in response.rejected {
                    self.node_refused(&refused.node_id, &refused.reason);
                }
                self.nodes_accepted(response.accepted.iter().map(|it| &*it.node_id));
            }
            Notification::ScaleUp(states) => {
                for state in states {
                    let key = Key::from(state.allocation_key);
                    if let Some(record) = self.pods.get_mut(&key) {
                        record.scale_up = true;
                        self.examine_soon(&key, now);
                    }
                }
            }
            Notification::Explained { application, about, entries } => {
                self.explained(&application, about.as_ref(), &entries, now);
            }
            Notification::CountNodes => self.counts_at = Some(now),
            // Both are handled by the loop that runs the shim.
            Notification::Lost(_) | Notification::Ended(_) => {}
            Notification::Configured(Ok(())) => self.retry_rejected(now),
            Notification::Configured(Err(why)) => self.queues_refused(&why),
        }
    }

    /// Returns whether a pod has moved from this application to another. A message about it there
    /// answers its release.
    fn was_of_another(&self, key: &Key, application: &str) -> bool {
        let own = self.pods.get(key).and_then(|record| record.application.as_deref());
        own.is_some_and(|own| !application.is_empty() && own != application)
    }

    fn released(&mut self, key: &Key, type_: TerminationType, message: &str, now: Duration) {
        let Some(record) = self.pods.get_mut(key) else { return };
        let is_request = matches!(
            type_,
            TerminationType::PreemptedByScheduler
                | TerminationType::Timeout
                | TerminationType::PlaceholderReplaced
        );
        match record.engine {
            EngineState::Placed(_) if is_request => {
                if type_ == TerminationType::PreemptedByScheduler {
                    self.group_is_disrupted(key, message, now);
                }
                return self.end_allocation(key, type_, message);
            }
            // An earlier release will end it, and is confirmed later.
            EngineState::Releasing if is_request => return,
            EngineState::Asked | EngineState::Placed(_) | EngineState::Releasing => {
                record.engine = EngineState::Absent;
            }
            EngineState::Absent | EngineState::Foreign(_) => return,
        }
        record.cancel_ending();
        if record.pod.node().is_none() {
            let mut scene = open(&self.scene);
            scene.dismiss(key);
            scene.clear(key);
        }
        self.reconcile(key, now);
        let id = self.pods.get(key).and_then(|record| record.application.clone());
        self.pod_ending(id.as_ref(), now);
    }

    /// Handles the outcome of work at the API server.
    pub fn done(&mut self, outcome: Outcome, now: Duration) {
        match outcome {
            Outcome::Bound(key) => {
                self.meters.bound.inc();
                let Some(record) = self.pods.get_mut(&key) else { return };
                if record.api_work == ApiWork::Binding {
                    record.api_work = ApiWork::Bound;
                }
                let EngineState::Placed(node) = &record.engine else {
                    return self.reconcile(&key, now);
                };
                self.api_orders.push(ApiOrder::Event(Event {
                    about: About::pod(&record.pod),
                    is_warning: false,
                    reason: "Scheduled",
                    action: "Binding",
                    message: format!(
                        "assigned {}/{} to {node}",
                        record.pod.namespace(),
                        record.pod.name()
                    ),
                }));
                self.evict(&key);
            }
            Outcome::NotBound(key, why) => {
                let Some(record) = self.pods.get_mut(&key) else {
                    self.meters.failed_bindings.inc();
                    return;
                };
                if record.api_work == ApiWork::Binding {
                    record.api_work = ApiWork::Idle;
                }
                if record.ending.is_some() && record.pod.node().is_none() && !record.is_gone {
                    // The pod was a victim anyway, and is asked for again.
                    self.eviction_accepted(&key);
                    self.reconcile(&key, now);
                    return self.binding_ended(&key);
                }
                self.meters.failed_bindings.inc();
                if record.pod.node().is_none() && !record.is_gone {
                    let message = format!("the pod could not be bound: {why}");
                    self.api_orders.push(warning(&record.pod, "FailedBinding", "Binding", message));
                    self.binding_failed(&key, why, now);
                }
                self.reconcile(&key, now);
                self.binding_ended(&key);
            }
            Outcome::Evicting(key) => self.eviction_accepted(&key),
            Outcome::EvictionDelayed(key, why) => {
                let Some(record) = self.pods.get(&key) else { return };
                self.api_orders.push(warning(&record.pod, "NotEvicted", "Evicting", why));
            }
            Outcome::EvictionFailed(key, why) => self.eviction_failed(&key, why),
            Outcome::ConditionFailed(key) => self.condition_failed(&key, now),
            Outcome::GroupConditionFailed(condition) => {
                self.group_condition_failed(&condition, now);
            }
        }
    }

    /// Gives back the placement of a pod that could not be bound. The engine keeps its ask pending
    /// and tries others first.
    fn binding_failed(&mut self, key: &Key, why: String, now: Duration) {
        let Some(record) = self.pods.get_mut(key).filter(|_| self.is_active) else { return };
        if !matches!(record.engine, EngineState::Placed(_)) || record.pod.is_going() {
            return;
        }
        let id = record.application.clone().unwrap_or_default();
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

    /// Reports rejected queues. The earlier ones stay in force, or those that a restart would use.
    pub(super) fn queues_refused(&mut self, why: &str) {
        let name = self.configured.from.clone();
        let (usable, _) = self.queues();
        let in_force = match &*usable.from {
            _ if usable.yaml.is_empty() => {
                "the scheduler's own queues are in force, which have no limits".to_owned()
            }
            from if from == name => "those from before stay in force".to_owned(),
            from => format!("those of `{from}` are in force"),
        };
        tracing::warn!(config_map = name, why, in_force, "the queues are refused");
        let map = self.maps.iter().flatten().find(|map| map.name() == name);
        let Some(map) = map else { return };
        self.api_orders.push(ApiOrder::Event(Event {
            about: About::object("ConfigMap", &**map),
            is_warning: true,
            reason: "QueuesRefused",
            action: "Configure",
            message: format!("{why}; {in_force}"),
        }));
    }
}
