//! Sessions with the engine: begun while another replica leads, and led with the lease in hand.
//!
//! # Why a session before the lease
//! A leader that has to report nodes and running pods first binds nothing meanwhile. The engine of a
//! standby replica has them already, and only pending pods are left to be asked for.
//!
//! # How nothing is decided
//! The engine of a standby replica has no asks. It knows nodes, running pods and their
//! applications, so it has nothing to place and nobody to preempt for. Places that a gang lacks are
//! held again by a leader only.
//!
//! # Invariants
//! * Pods are reported as a leader reports them. So the engine of a standby replica has the books
//!   that a leader's would have if it had begun just now.
//! * Events of a standby replica are dropped, since the leader writes them. Those about nodes and
//!   ConfigMaps are kept, the last one of each object: the leader may have ended before.

use std::sync::Arc;
use std::time::Duration;

use super::messages::{ApiOrder, Key};
use super::record::EngineState;
use super::{Shim, by_age, open};

/// Most pods reconciled in a turn. Their asks leave before the next turn, so the first placements
/// do not wait for the last ask.
const IN_A_TURN: usize = 250;

impl Shim {
    /// Begins an empty session, for which the engine was registered with [`Self::queues`], and
    /// leads it. Everything is reported again.
    pub fn begin(&mut self, now: Duration) {
        self.stand_by(now);
        self.lead(now);
    }

    /// Begins an empty session as [`Self::begin`] does, in which nothing is decided before
    /// [`Self::lead`].
    pub fn stand_by(&mut self, now: Duration) {
        (self.is_active, self.leads) = (true, false);
        self.later.clear();
        self.no_node_since = self.nodes.is_empty().then_some(now);
        self.configured = self.configured_now();
        self.orders.clear();
        self.unanswered.clear();
        self.explaining.clear();
        self.n_explaining = 0;
        for application in self.applications.values_mut() {
            application.reset();
        }
        {
            let mut scene = open(&self.scene);
            scene.restart();
            for (key, record) in &self.pods {
                if let Some(node) = record.pod.node().filter(|_| !record.is_gone) {
                    scene.settle(key, node, &record.pod);
                }
            }
        }
        let gone = self.pods.iter().filter(|(_, record)| record.is_gone);
        let gone: Vec<_> = gone.map(|(key, _)| Arc::clone(key)).collect();
        for key in gone {
            self.drop_record(&key);
        }
        self.applications.retain(|_, application| !application.pods.is_empty());
        self.assign_ids();
        for record in self.pods.values_mut() {
            record.engine = EngineState::Absent;
            // A binding in flight ends at the API server and is reported. The new session decides
            // evictions itself.
            record.cancel_ending();
        }
        self.move_all_to_next(now);
        let names: Vec<_> = self.nodes.keys().cloned().collect();
        for name in &names {
            self.report_node(name);
        }
        let bound = self.pods.iter().filter(|(_, record)| record.pod.node().is_some());
        for key in by_age(bound) {
            self.reconcile(&key, now);
        }
        self.orders.cut();
        for name in &names {
            self.open_node(name);
        }
        self.orders.cut();
    }

    /// Starts to decide in the session: what is missing of gangs is held again, and pending pods
    /// are asked for.
    pub fn lead(&mut self, now: Duration) {
        self.leads = true;
        self.move_all_to_next(now);
        let nodes = &self.nodes;
        let is_outdated = |kind: &str, name: &str| {
            kind == "Node" && nodes.get(name).is_none_or(|node| node.is_reported)
        };
        self.unsent.retain(|(kind, name), _| !is_outdated(kind, name));
        let unsent = std::mem::take(&mut self.unsent);
        self.api_orders.extend(unsent.into_values().map(ApiOrder::Event));
        let ending = self.pods.iter().filter(|(_, record)| record.ending.is_some());
        let ending: Vec<_> = ending.map(|(key, _)| Arc::clone(key)).collect();
        for key in ending {
            self.evict(&key);
        }
        self.hold_again(now);
    }

    /// Returns the work for the API server.
    pub fn api_orders(&mut self) -> Vec<ApiOrder> {
        let orders = std::mem::take(&mut self.api_orders);
        if self.leads {
            return orders;
        }
        for order in orders {
            let ApiOrder::Event(event) = order else {
                debug_assert!(false, "{order:?} is ordered while another replica leads");
                continue;
            };
            if matches!(event.about.kind, "Node" | "ConfigMap") {
                self.unsent.insert((event.about.kind, event.about.name.clone()), event);
            }
        }
        Vec::new()
    }

    /// Reconciles pods in the next turns, after those that wait for theirs.
    pub(super) fn reconcile_in_turn(&mut self, keys: impl IntoIterator<Item = Key>) {
        self.later.extend(keys);
    }

    /// Reconciles the pods of an application in the next turns, before others that wait for theirs.
    pub(super) fn reconcile_next(&mut self, id: &Arc<str>) {
        let Some(application) = self.applications.get(id) else { return };
        for (_, _, key) in application.pods.iter().rev() {
            self.later.push_front(Arc::clone(key));
        }
    }

    /// Reconciles the pods whose turn it is.
    pub(super) fn reconcile_later(&mut self, now: Duration) {
        for _ in 0..IN_A_TURN {
            let Some(key) = self.later.pop_front() else { break };
            self.reconcile(&key, now);
        }
    }

    /// Returns whether [`Self::engine_orders`] has more orders without another event.
    pub fn has_more(&self) -> bool {
        !self.later.is_empty()
    }
}
