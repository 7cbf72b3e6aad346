//! Victims, and pods that are protected from preemption.
//!
//! A pod is protected by its priority class, or by a budget that allows no disruption: it is
//! preempted only if there is no other choice. Its ask carries that, so a change of a class or a
//! budget sends the asks of its pods again.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use monoceros_proto::si::v1::TerminationType;
use tokio_util::sync::CancellationToken;

use super::Shim;
use super::applications::warning;
use super::messages::{ApiOrder, Evict, Key};
use super::record::{ApiWork, Ending, EngineState, Record};
use crate::objects::{Meta as _, Pod, PodDisruptionBudget, PriorityClass};
use crate::predicates::labels_match;

/// Annotation of a priority class whose pods are protected.
const ALLOW_PREEMPTION: [&str; 2] =
    ["monoceros.io/allow-preemption", "yunikorn.apache.org/allow-preemption"];

/// Tag of an allocation whose eviction has failed.
const STAYS: &str = "monoceros.io/stays";

impl Shim {
    /// Handles the engine's request to end an allocation.
    pub(super) fn end_allocation(&mut self, key: &Key, type_: TerminationType, message: &str) {
        let Some(record) = self.pods.get_mut(key) else { return };
        if !matches!(record.engine, EngineState::Placed(_)) {
            return;
        }
        record.ending = Some(Ending { type_, message: message.to_owned(), is_reported: false });
        self.evict(key);
    }

    /// Evicts the pod, once this replica leads. A binding in flight is cancelled first, and its
    /// outcome awaited.
    pub(super) fn evict(&mut self, key: &Key) {
        if !self.leads {
            return;
        }
        let Some(record) = self.pods.get_mut(key) else { return };
        let Some(Ending { message, .. }) = &record.ending else { return };
        match record.api_work {
            ApiWork::Idle | ApiWork::Bound => {}
            ApiWork::Binding => return record.cancel_guard = None,
            ApiWork::Evicting => return,
        }
        let (pod, message) = (Arc::clone(&record.pod), message.clone());
        record.api_work = ApiWork::Evicting;
        if pod.is_going() {
            return;
        }
        let called_off = CancellationToken::new();
        record.cancel_guard = Some(called_off.clone().drop_guard());
        self.api_orders.push(ApiOrder::Evict(Evict {
            key: Arc::clone(key),
            pod,
            message,
            called_off,
        }));
    }

    /// Handles a failed eviction. The pod keeps running, and the engine is notified if it is a victim of preemption.
    pub(super) fn eviction_failed(&mut self, key: &Key, why: String) {
        let Some(record) = self.pods.get_mut(key) else { return };
        let ending = record.cancel_ending();
        let EngineState::Placed(node) = &record.engine else { return };
        let node = Arc::clone(node);
        match ending {
            Some(Ending { type_: TerminationType::PreemptedByScheduler, .. }) => {}
            // Requests of other types are not withdrawn.
            Some(_) => {
                record.ending = ending;
                return self.evict(key);
            }
            None => return,
        }
        self.api_orders.push(warning(&record.pod, "NotEvicted", "Evicting", why));
        if let Some((allocation, _)) = self.allocation_of(key, Some(&node), None) {
            self.orders.allocation(allocation.with_tag(STAYS, "true"));
        }
    }

    /// Returns whether the pod may be preempted: neither its class nor a budget protects it.
    pub(super) fn may_be_preempted(&self, pod: &Pod) -> bool {
        let class = pod.spec.priority_class_name.as_deref().unwrap_or_default();
        let budgets = self.budgets.get(pod.namespace());
        let mut budgets = budgets.into_iter().flat_map(|all| all.values());
        !self.protected_classes.contains(class) && !budgets.any(|budget| protects(budget, pod))
    }

    pub(super) fn class_changed(
        &mut self,
        name: &str,
        class: Option<&PriorityClass>,
        now: Duration,
    ) {
        let says_no = |class: &PriorityClass| {
            let value = ALLOW_PREEMPTION.iter().find_map(|key| class.annotation(key));
            value.is_some_and(|text| text.trim().eq_ignore_ascii_case("false"))
        };
        let changed = if class.is_some_and(says_no) {
            self.protected_classes.insert(name.to_owned())
        } else {
            self.protected_classes.remove(name)
        };
        if changed {
            let is_its =
                |record: &Record| record.pod.spec.priority_class_name.as_deref() == Some(name);
            let its = self.pods.iter().filter(|(_, record)| is_its(record));
            let its: Vec<_> = its.map(|(key, _)| Arc::clone(key)).collect();
            for key in its {
                self.reconcile(&key, now);
            }
        }
    }

    pub(super) fn budget_changed(
        &mut self,
        key: &str,
        budget: Option<&Arc<PodDisruptionBudget>>,
        now: Duration,
    ) {
        let Some((namespace, name)) = key.split_once('/') else { return };
        let all = self.budgets.entry(namespace.to_owned()).or_default();
        let old = match budget {
            Some(budget) => all.insert(name.to_owned(), Arc::clone(budget)),
            None => all.remove(name),
        };
        if all.is_empty() {
            self.budgets.remove(namespace);
        }
        let before = old.as_deref().and_then(protected);
        let after = budget.and_then(|budget| protected(budget));
        if before == after {
            return;
        }
        let is_concerned = |key: &&Key| {
            let labels = self.pods.get(*key).map(|record| record.pod.labels());
            let selects = |selector: &LabelSelector| {
                labels.is_some_and(|labels| labels_match(selector, labels))
            };
            before.is_some_and(selects) || after.is_some_and(selects)
        };
        let pods = self.of_namespace.get(namespace).into_iter().flatten();
        let concerned: Vec<_> = pods.filter(is_concerned).cloned().collect();
        for key in concerned {
            self.reconcile(&key, now);
        }
    }
}

/// Returns the selector of the pods that a budget protects. `None` if it allows a disruption.
fn protected(budget: &PodDisruptionBudget) -> Option<&LabelSelector> {
    budget.spec.selector.as_ref().filter(|_| budget.status.disruptions_allowed <= 0)
}

/// Returns whether the budget protects the pod.
fn protects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    protected(budget).is_some_and(|selector| labels_match(selector, pod.labels()))
}
