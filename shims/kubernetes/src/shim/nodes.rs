//! Nodes: report, opening, removal, and bindings in flight.

use std::sync::Arc;
use std::time::Duration;

use monoceros_proto::si::v1::NodeInfo;
use monoceros_proto::si::v1::node_info::ActionFromRm;

use super::messages::{About, ApiOrder, Event, Key};
use super::record::{EngineState, NodeRecord};
use super::waiting::Alarm;
use super::{Shim, known, open};
use crate::objects::Node;
use crate::translate::{created, updated};

impl Shim {
    pub(super) fn node_changed(&mut self, name: &str, node: Option<Arc<Node>>, now: Duration) {
        let Some(node) = node else { return self.node_gone(name, now) };
        open(&self.scene).set_node(Arc::clone(&node));
        let Some(known) = self.nodes.get_mut(name) else {
            self.nodes.insert(name.to_owned(), NodeRecord::new(node));
            return self.node_came(name, now);
        };
        let (is_reported, is_open) = (known.is_reported, known.is_open);
        let before = std::mem::replace(known, NodeRecord::new(Arc::clone(&node)));
        (known.is_reported, known.is_open) = (is_reported, is_open);
        if !self.is_active {
            return;
        }
        if !is_reported {
            return self.node_came(name, now);
        }
        if known.attributes != before.attributes || known.amounts != before.amounts {
            match updated(&node, &before.attributes) {
                Ok(info) => self.orders.node(info),
                Err(why) => self.complain(&node, &why),
            }
        }
    }

    /// Reports a new node as closed, then its running pods. It is opened when the engine has
    /// accepted it. Placements on an earlier node of that name arrive before that answer: always
    /// from an engine in this process, and nearly always over the network, where answers about
    /// nodes have a stream of their own.
    fn node_came(&mut self, name: &str, now: Duration) {
        if !self.is_active || !self.report_node(name) {
            return;
        }
        let there = self.on_node.get(name).into_iter().flatten().cloned().collect::<Vec<_>>();
        for key in there {
            if let Some(record) = self.pods.get_mut(&key) {
                // The pod was refused because the node was missing.
                record.refused = None;
                record.resend_at = record.resend_at.map(|_| now);
            }
            self.reconcile(&key, now);
        }
    }

    /// Reports a node as new. Returns whether its amounts could be read.
    pub(super) fn report_node(&mut self, name: &str) -> bool {
        let Some(record) = self.nodes.get_mut(name) else { return false };
        record.is_open = false;
        match created(&record.node) {
            Ok(info) => {
                record.is_reported = true;
                *self.unanswered.entry(name.to_owned()).or_default() += 1;
                self.orders.node(info);
                true
            }
            Err(why) => {
                record.is_reported = false;
                let node = Arc::clone(&record.node);
                self.complain(&node, &why);
                false
            }
        }
    }

    /// Opens a node, unless bindings to it are in flight: the engine does not have the placements
    /// they were decided by.
    pub(super) fn open_node(&mut self, name: &str) {
        if self.in_flight.contains_key(name) {
            return;
        }
        let Some(record) = self.nodes.get_mut(name) else { return };
        if record.is_reported && !record.is_open {
            record.is_open = true;
            self.orders.node(NodeInfo::change(name, ActionFromRm::DrainToSchedulable));
        }
    }

    /// Counts an answer to a report of a new node. Returns whether it was the last one, so that
    /// nothing else in flight is about an earlier node of that name.
    fn node_answered(&mut self, name: &str) -> bool {
        let Some(times) = self.unanswered.get_mut(name) else { return false };
        *times -= 1;
        let is_last = *times == 0;
        if is_last {
            self.unanswered.remove(name);
        }
        is_last
    }

    /// Handles accepted nodes.
    pub(super) fn nodes_accepted<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) {
        self.orders.cut();
        for name in names {
            if self.node_answered(name) {
                self.open_node(name);
            }
        }
        self.orders.cut();
    }

    /// Notes that a binding to the node begins.
    pub(super) fn binding_begins(&mut self, key: &Key, node: &Arc<str>) {
        let Some(record) = known(&mut self.pods, key) else { return };
        record.target = Some(Arc::clone(node));
        self.in_flight.entry(Arc::clone(node)).or_default().insert(Arc::clone(key));
    }

    /// Notes that the outcome of the pod's binding is known and reported.
    pub(super) fn binding_ended(&mut self, key: &Key) {
        let target = self.pods.get_mut(key).and_then(|record| record.target.take());
        if let Some(node) = target {
            self.remove_binding(key, &node);
        }
    }

    pub(super) fn remove_binding(&mut self, key: &Key, node: &str) {
        let Some(others) = self.in_flight.get_mut(node) else { return };
        others.remove(key);
        if !others.is_empty() {
            return;
        }
        self.in_flight.remove(node);
        let is_closed = self.nodes.get(node).is_some_and(|it| it.is_reported && !it.is_open);
        if self.is_active && is_closed && !self.unanswered.contains_key(node) {
            self.orders.cut();
            self.open_node(node);
            self.orders.cut();
        }
        if self.in_flight.is_empty() && self.holding.is_awaited() {
            self.alarm(Duration::ZERO, Alarm::HeldAgain);
        }
    }

    fn node_gone(&mut self, name: &str, now: Duration) {
        let mut scene = open(&self.scene);
        scene.remove_node(name);
        let Some(record) = self.nodes.remove(name) else { return };
        if !self.is_active || !record.is_reported {
            return;
        }
        self.orders.node(NodeInfo::change(name, ActionFromRm::Decomission));
        self.orders.cut();
        // The engine drops everything on the node, so there is nothing to release.
        let mut there = Vec::new();
        for (key, record) in &mut self.pods {
            let is_there = match &record.engine {
                EngineState::Placed(node) | EngineState::Foreign(node) => **node == *name,
                _ => false,
            };
            if is_there {
                record.engine = EngineState::Absent;
                record.cancel_ending();
                if record.pod.node().is_none() {
                    // The pod was not bound yet.
                    scene.clear(key);
                }
                there.push(Arc::clone(key));
            }
        }
        drop(scene);
        for key in there {
            self.reconcile(&key, now);
        }
    }

    /// Handles the rejection of a node, or of a change to it.
    pub(super) fn node_refused(&mut self, name: &str, reason: &str) {
        if reason.contains("[R_NODE_EXISTS]") {
            return self.nodes_accepted([name]);
        }
        let is_awaited = self.unanswered.contains_key(name);
        // Such a rejection does not answer a report of a new node.
        let is_about_a_change = reason.contains("[R_NODE_UNKNOWN]");
        if is_awaited && (is_about_a_change || !self.node_answered(name)) {
            return;
        }
        let Some(record) = self.nodes.get_mut(name) else { return };
        record.is_reported = false;
        let node = Arc::clone(&record.node);
        self.complain(&node, reason);
    }

    fn complain(&mut self, node: &Node, why: &str) {
        tracing::warn!(node = node.metadata.name, why, "the node cannot be used");
        self.api_orders.push(ApiOrder::Event(Event {
            about: About::object("Node", node),
            is_warning: true,
            reason: "NotUsable",
            action: "Report",
            message: format!("the node cannot be used for scheduling: {why}"),
        }));
    }
}
