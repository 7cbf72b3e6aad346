//! Rules about the node alone.

use std::hash::{Hash, Hasher};

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration};

use super::selectors::{Labels, terms_admit};
use crate::objects::{Meta as _, Node, Pod};

/// Taint of a cordoned node. Controllers set it with a delay.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Node selector and required node affinity of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodeFilter {
    /// Labels that are all required.
    pub(super) labels: Labels,
    /// Terms of which one is required. `None` allows all nodes, an empty list none.
    pub(super) terms: Option<Vec<NodeSelectorTerm>>,
}

impl Eq for NodeFilter {}

impl Hash for NodeFilter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.labels.hash(state);
        for NodeSelectorTerm { match_expressions, match_fields } in self.terms.iter().flatten() {
            for NodeSelectorRequirement { key, operator, values } in
                match_expressions.iter().chain(match_fields).flatten()
            {
                (key, operator, values).hash(state);
            }
        }
    }
}

impl NodeFilter {
    pub(super) fn of(pod: &Pod) -> Self {
        let affinity = pod.spec.affinity.as_ref().and_then(|all| all.node_affinity.as_ref());
        let required = affinity.and_then(|affinity| {
            affinity.required_during_scheduling_ignored_during_execution.as_ref()
        });
        let terms = required.map(|required| required.node_selector_terms.clone());
        Self { labels: pod.spec.node_selector.clone(), terms }
    }

    /// Returns whether a term names nodes, as for pods of a DaemonSet.
    pub(super) fn names_nodes(&self) -> bool {
        let mut terms = self.terms.iter().flatten();
        terms.any(|term| term.match_fields.as_ref().is_some_and(|fields| !fields.is_empty()))
    }

    pub(super) fn admits(&self, node: &Node) -> bool {
        self.labels.iter().all(|(key, value)| node.label(key) == Some(value))
            && self.terms.as_ref().is_none_or(|terms| terms_admit(terms, node))
    }
}

/// Returns the optional node features that the pod needs, by their declared names.
fn needed_features(pod: &Pod) -> Vec<&'static str> {
    let containers = || pod.spec.containers.iter().chain(&pod.spec.init_containers);
    let needed = [
        (containers().any(|one| one.restarts_all), "RestartAllContainersOnContainerExits"),
        (
            pod.spec.host_network && pod.spec.host_users == Some(false),
            "UserNamespacesHostNetworkSupport",
        ),
        (containers().any(|one| one.has_mount_options), "VolumeBindMountOptions"),
    ];
    needed.into_iter().filter_map(|(is_needed, name)| is_needed.then_some(name)).collect()
}

/// Parses a number of a comparison. Only its canonical form counts.
fn integer(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}

/// Returns whether the toleration matches the taint. An unknown operator tolerates nothing.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.as_deref().unwrap_or_default();
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let value = toleration.value.as_deref().unwrap_or_default();
    let of_taint = taint.value.as_deref().unwrap_or_default();
    (effect.is_empty() || effect == taint.effect)
        && (key.is_empty() || key == taint.key)
        && match toleration.operator.as_deref().unwrap_or("Equal") {
            "Exists" => true,
            "Equal" | "" => !key.is_empty() && value == of_taint,
            // `Gt` tolerates taints above the given value, `Lt` those below it.
            "Gt" => integer(of_taint).zip(integer(value)).is_some_and(|(it, bound)| it > bound),
            "Lt" => integer(of_taint).zip(integer(value)).is_some_and(|(it, bound)| it < bound),
            _ => false,
        }
}

/// Returns the first taint that keeps pods with these tolerations from starting on the node.
pub(super) fn untolerated<'n>(tolerations: &[Toleration], node: &'n Node) -> Option<&'n Taint> {
    let keeps_away = |taint: &&Taint| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
    };
    node.spec.taints.iter().find(keeps_away)
}

/// Requirements of a pod on the node alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodeRequirements {
    pub(super) filter: NodeFilter,
    pub(super) tolerations: Vec<Toleration>,
    /// Optional node features that it needs.
    pub(super) features: Vec<&'static str>,
}

impl Eq for NodeRequirements {}

impl Hash for NodeRequirements {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.filter, &self.features).hash(state);
        for toleration in &self.tolerations {
            (&toleration.key, &toleration.operator, &toleration.value, &toleration.effect)
                .hash(state);
        }
    }
}

impl NodeRequirements {
    pub(super) fn of(pod: &Pod) -> Self {
        Self {
            filter: NodeFilter::of(pod),
            tolerations: pod.spec.tolerations.clone(),
            features: needed_features(pod),
        }
    }
}

/// Checks the cordon, taints, labels and features of a node.
pub(super) fn check(requirements: &NodeRequirements, node: &Node) -> Result<(), String> {
    let NodeRequirements { filter, tolerations, features } = requirements;
    if node.spec.unschedulable {
        let cordon = Taint {
            key: UNSCHEDULABLE.to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        };
        if !tolerations.iter().any(|toleration| tolerates(toleration, &cordon)) {
            return Err("the node is cordoned".to_owned());
        }
    }
    if let Some(taint) = untolerated(tolerations, node) {
        let Taint { key, value, effect, .. } = taint;
        let value = value.as_deref().filter(|value| !value.is_empty());
        let value = value.map(|value| format!("={value}")).unwrap_or_default();
        return Err(format!(
            "the node has the taint {key}{value}:{effect}, which is not tolerated"
        ));
    }
    if !filter.admits(node) {
        return Err("the node does not match the pod's node selector or affinity".to_owned());
    }
    let declared = &node.status.declared_features;
    if let Some(lacking) = features.iter().find(|needed| !declared.iter().any(|it| it == *needed)) {
        return Err(format!("the node lacks the feature {lacking}, which the pod needs"));
    }
    Ok(())
}
