//! Handles notifications of the engine.

use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::tags::HELD_AGAIN;
use monoceros_proto::si::v1::{self as si, AllocationRelease, TerminationType};
use tokio_util::sync::CancellationToken;

use super::messages::{About, ApiOrder, Bind, Event, Key, Notification, Placed};
use super::record::{ApiWork, AppState, EngineState};
use super::waiting::Alarm;
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
            Notification::Allocations(response) => self.receive_allocations(response, now),
            Notification::Applications(response) => self.receive_applications(response, now),
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
            Notification::Configured(Ok(())) => {
                self.unsent.retain(|(kind, _), _| *kind != "ConfigMap");
                self.retry_rejected(now);
            }
            Notification::Configured(Err(why)) => self.queues_refused(&why),
        }
    }

    fn receive_allocations(&mut self, response: si::AllocationResponse, now: Duration) {
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

    fn receive_applications(&mut self, response: si::ApplicationResponse, now: Duration) {
        for refused in response.rejected {
            self.application_refused(&refused.application_id.into(), &refused.reason, now);
        }
        for accepted in response.accepted {
            self.application_accepted(&accepted.application_id.into());
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

    /// Returns whether a pod has moved from this application to another. If so, a message about the
    /// pod in this application answers its release.
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
        let id = self.application_of(key);
        self.pod_ending(id.as_ref(), now);
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

    /// Handles a placement.
    pub(super) fn placed_on(&mut self, placed: &Placed, now: Duration) {
        let Placed { key, application, node } = placed;
        let Some(record) = self.pods.get_mut(key) else {
            // The pod was withdrawn in the meantime, and its release ends the placement.
            open(&self.scene).clear(key);
            return;
        };
        let is_of_another = record.application.as_ref().is_some_and(|own| own != application);
        match record.engine {
            // An earlier application of the pod had asked, and its release is in flight.
            EngineState::Asked if is_of_another => return open(&self.scene).clear(key),
            EngineState::Asked => {}
            // A confirmation of a running allocation.
            EngineState::Placed(_) => {
                record.is_confirmed = true;
                return;
            }
            EngineState::Foreign(_) | EngineState::Releasing => return,
            EngineState::Absent => {
                let id = record.application_id();
                self.orders.release(AllocationRelease::new(&*id, &**key));
                if record.pod.node().is_none() {
                    open(&self.scene).clear(key);
                }
                return;
            }
        }
        let node = Arc::clone(node);
        let called_off = CancellationToken::new();
        record.engine = EngineState::Placed(Arc::clone(&node));
        record.is_confirmed = true;
        record.api_work = ApiWork::Binding;
        record.cancel_guard = Some(called_off.clone().drop_guard());
        record.written = None;
        record.scale_up = false;
        record.refusals = 0;
        let volumes = {
            let mut scene = open(&self.scene);
            let volumes = scene.volume_choices(key);
            scene.dismiss(key);
            volumes
        };
        let (pod, seen) = (Arc::clone(&record.pod), record.seen);
        self.binding_begins(key, &node);
        let bind = Bind { key: Arc::clone(key), pod, node, volumes, seen, called_off };
        self.api_orders.push(ApiOrder::Bind(bind));
        if let Some(id) = self.application_of(key) {
            self.group_is_placed(&id, now);
        }
    }

    /// Handles the rejection of an ask or allocation.
    pub(super) fn pod_refused(&mut self, key: &Key, reason: &str, now: Duration) {
        let Some(record) = self.pods.get_mut(key) else { return };
        match record.engine {
            EngineState::Asked | EngineState::Placed(_) | EngineState::Releasing => {}
            EngineState::Foreign(_) => return self.change_refused(key, reason, now),
            EngineState::Absent => return,
        }
        let application_is_over =
            reason.contains("[R_APP_UNKNOWN]") || reason.contains("[R_APP_STATE]");
        if record.is_confirmed
            && matches!(record.engine, EngineState::Placed(_))
            && !application_is_over
        {
            return self.change_refused(key, reason, now);
        }
        // A running pod with a rejected allocation takes room as a foreign one.
        let was_placed = matches!(record.engine, EngineState::Placed(_));
        record.engine = EngineState::Absent;
        open(&self.scene).dismiss(key);
        if application_is_over {
            // The application has just ended. It is submitted again with the pod, which is new to
            // the engine.
            let id = record.application.as_ref();
            if let Some(application) = id.and_then(|id| self.applications.get_mut(id))
                && application.state == AppState::Submitted
            {
                application.state = AppState::Unsubmitted;
            }
        } else {
            tracing::warn!(
                pod = record.pod.name(),
                namespace = record.pod.namespace(),
                reason,
                "the engine refuses a pod"
            );
            record.refused = Some(reason.to_owned());
            if !was_placed {
                record.not_before = now + refused_pause(record.refusals);
                record.refusals += 1;
            }
        }
        self.reconcile(key, now);
    }

    /// Handles the rejection of a running pod's changed amounts. An earlier report stays in force.
    /// The change is sent again after a pause, or as soon as it differs.
    fn change_refused(&mut self, key: &Key, reason: &str, now: Duration) {
        let Some(record) = self.pods.get_mut(key) else { return };
        if record.refusals == 0 {
            tracing::warn!(
                pod = record.pod.name(),
                namespace = record.pod.namespace(),
                reason,
                "the engine refuses what a running pod takes"
            );
        }
        let at = now + refused_pause(record.refusals);
        record.refusals += 1;
        record.resend_at = Some(at);
        self.alarm(at, Alarm::Pod(Arc::clone(key)));
    }
}

/// Returns the pause after this many refusals in a row.
fn refused_pause(refusals: u32) -> Duration {
    const FIRST: Duration = Duration::from_secs(30);
    const LAST: Duration = Duration::from_secs(300);
    (FIRST * 2_u32.saturating_pow(refusals.min(10))).min(LAST)
}
