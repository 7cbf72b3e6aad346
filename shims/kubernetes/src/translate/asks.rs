//! Translates pods into allocation asks and running allocations.

use std::hash::{Hash as _, Hasher as _};

use k8s_openapi::api::core::v1::NodeSelectorTerm;
use monoceros_actors::tags::{NAMESPACE, POD, RUN_TIME_LIMIT};
use monoceros_proto::si::v1::{Allocation, PreemptionPolicy};
use rustc_hash::FxHasher;

use super::amounts::{Amounts, pod_amounts};
use super::nodes::resource;
use super::setting;
use crate::objects::{Meta as _, Pod};

const REQUIRED_NODE: &str = "yunikorn.apache.org/requiredNode";
const CREATION_TIME: &str = "creationTime";
const FOREIGN: &str = "foreign";

/// The settings of an ask that can change while a pod waits or runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AskSpec {
    amounts: Amounts,
    priority: i32,
    may_be_preempted: bool,
    may_preempt: bool,
}

impl AskSpec {
    /// Reads a pod. `may_be_preempted` depends on its priority class and its budgets.
    pub fn of(pod: &Pod, may_be_preempted: bool) -> Result<Self, String> {
        Ok(Self {
            amounts: pod_amounts(pod)?,
            priority: pod.spec.priority.unwrap_or(0),
            may_be_preempted,
            may_preempt: pod.spec.preemption_policy.as_deref() != Some("Never"),
        })
    }

    /// The settings of a running pod whose amounts cannot be read: it only counts as one pod of its
    /// node.
    pub fn unreadable(pod: &Pod) -> Self {
        Self {
            amounts: [("pods".to_owned(), 1)].into(),
            priority: pod.spec.priority.unwrap_or(0),
            may_be_preempted: false,
            may_preempt: false,
        }
    }

    /// Applies the settings of the pod's group, which go before its own.
    pub fn in_group(&mut self, priority: Option<i32>, preemption_policy: Option<&str>) {
        self.priority = priority.unwrap_or(self.priority);
        if let Some(policy) = preemption_policy {
            self.may_preempt = policy != "Never";
        }
    }

    /// Returns a hash that is equal for equal settings.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = FxHasher::default();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// Builds the message: a running allocation if `node` is given, otherwise an ask.
    pub fn message(
        self,
        pod: &Pod,
        application: &str,
        task_group: Option<&str>,
        node: Option<&str>,
    ) -> Allocation {
        let mut allocation = Allocation::ask(application, pod.uid(), resource(self.amounts))
            .with_priority(self.priority)
            .with_tag(NAMESPACE, pod.namespace())
            .with_tag(POD, pod.name())
            .with_tag(CREATION_TIME, pod.created().to_string());
        allocation.preemption_policy = Some(PreemptionPolicy {
            allow_preempt_self: self.may_be_preempted,
            allow_preempt_other: self.may_preempt,
        });
        if let Some(group) = task_group {
            allocation = allocation.in_task_group(group);
        }
        if let Some(node) = required_node(pod) {
            allocation = allocation.with_tag(REQUIRED_NODE, node);
        }
        if let Some(limit) = run_time_limit(pod) {
            allocation = allocation.with_tag(RUN_TIME_LIMIT, limit);
        }
        match node {
            Some(node) => allocation.running_on(node),
            None => allocation,
        }
    }
}

/// Builds the allocation of a running pod that another scheduler is responsible for. If its amounts
/// cannot be read, it only counts as one pod of its node.
pub fn foreign(pod: &Pod, node: &str) -> Allocation {
    let amounts = pod_amounts(pod).unwrap_or_else(|_| [("pods".to_owned(), 1)].into());
    let mut allocation = Allocation::ask("", pod.uid(), resource(amounts))
        .with_tag(FOREIGN, "default")
        .with_tag(NAMESPACE, pod.namespace())
        .with_tag(POD, pod.name())
        .running_on(node);
    allocation.priority = pod.spec.priority.unwrap_or(0);
    allocation
}

/// Returns the only node that a pod of a DaemonSet may use, which its controller has written into
/// the affinity.
fn required_node(pod: &Pod) -> Option<&str> {
    let is_of_daemon_set = pod.controller().is_some_and(|owner| owner.kind == "DaemonSet");
    let affinity = pod.spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let mut nodes = required.node_selector_terms.iter().map(only_name);
    let first = nodes.next()??;
    (is_of_daemon_set && nodes.all(|other| other == Some(first))).then_some(first)
}

/// Returns the longest time that a pod runs, as its annotation claims, or else until the kubelet ends it.
fn run_time_limit(pod: &Pod) -> Option<String> {
    let claimed = setting(pod, "run-time-limit").map(ToOwned::to_owned);
    let deadline = pod.spec.active_deadline_seconds.filter(|seconds| *seconds > 0);
    claimed.or_else(|| deadline.map(|seconds| format!("{seconds}s")))
}

/// Returns the only node that a term names.
fn only_name(term: &NodeSelectorTerm) -> Option<&str> {
    let field = term.match_fields.as_deref()?.iter().find(|one| one.key == "metadata.name")?;
    let values = field.values.as_deref().filter(|_| field.operator == "In")?;
    if let [only] = values { Some(only.as_str()) } else { None }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value)] // JSON as it is written down.
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: serde_json::Value, owner: &str) -> Pod {
        let owners = json!([{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "u",
            "controller": true}]);
        serde_json::from_value(json!({"spec": spec, "metadata": {
            "name": "p", "namespace": "ns", "uid": "1-2", "ownerReferences": owners,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }}))
        .unwrap()
    }

    #[test]
    fn ask_has_names_priority_and_policy() {
        let pod = pod(json!({"priority": 7, "preemptionPolicy": "Never"}), "Job");
        let ask = AskSpec::of(&pod, false).unwrap().message(&pod, "app", Some("workers"), None);
        assert_eq!((&*ask.allocation_key, &*ask.node_id), ("1-2", ""));
        assert_eq!((ask.priority, &*ask.task_group_name), (7, "workers"));
        let policy = ask.preemption_policy.unwrap();
        assert!(!policy.allow_preempt_self && !policy.allow_preempt_other);
        assert_eq!(ask.allocation_tags[NAMESPACE], "ns");
        assert_eq!(ask.allocation_tags[POD], "p");
        assert_eq!(ask.allocation_tags[CREATION_TIME], "1767225600");
    }

    #[test]
    fn group_settings_override_the_pod() {
        let pod = pod(json!({"priority": 7}), "Job");
        let mut ask_spec = AskSpec::of(&pod, true).unwrap();
        let alone = ask_spec.fingerprint();
        ask_spec.in_group(Some(9), Some("Never"));
        assert_ne!(ask_spec.fingerprint(), alone);
        let ask = ask_spec.message(&pod, "app", None, Some("n1"));
        assert_eq!((ask.priority, &*ask.node_id), (9, "n1"));
        assert!(!ask.preemption_policy.unwrap().allow_preempt_other);
    }

    #[test]
    fn daemon_set_pod_requires_its_node() {
        let affinity = json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]}]}}}});
        let asked = |owner| {
            let pod = pod(affinity.clone(), owner);
            let ask = AskSpec::of(&pod, true).unwrap().message(&pod, "app", None, None);
            ask.allocation_tags.get(REQUIRED_NODE).cloned()
        };
        assert_eq!(asked("DaemonSet").as_deref(), Some("n7"));
        assert_eq!(asked("Job"), None);
    }

    #[test]
    fn limit_of_run_time_is_claimed_or_a_deadline() {
        let limit = |spec, annotations: serde_json::Value| {
            let mut pod = pod(spec, "Job");
            pod.metadata.annotations = serde_json::from_value(annotations).unwrap();
            let ask = AskSpec::of(&pod, true).unwrap().message(&pod, "app", None, None);
            ask.allocation_tags.get(RUN_TIME_LIMIT).cloned()
        };
        let claim = json!({"monoceros.io/run-time-limit": " 2h30m "});
        assert_eq!(limit(json!({}), claim.clone()).as_deref(), Some("2h30m"));
        assert_eq!(limit(json!({"activeDeadlineSeconds": 60}), claim).as_deref(), Some("2h30m"));
        assert_eq!(limit(json!({"activeDeadlineSeconds": 60}), json!({})).as_deref(), Some("60s"));
        assert_eq!(limit(json!({"activeDeadlineSeconds": 0}), json!({})), None);
        assert_eq!(limit(json!({}), json!({})), None);
    }

    #[test]
    fn unreadable_foreign_pod_counts_as_one_pod() {
        let pod = pod(
            json!({"containers": [{"name": "c",
            "resources": {"requests": {"cpu": "lots"}}}]}),
            "Job",
        );
        let foreign = foreign(&pod, "n1");
        assert_eq!(foreign.allocation_tags[FOREIGN], "default");
        let amounts = foreign.resource_per_alloc.unwrap().resources;
        assert_eq!(amounts.into_keys().collect::<Vec<_>>(), ["pods"]);
    }
}
