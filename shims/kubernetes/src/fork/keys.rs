//! Keys of the labels that rules read. A mirror has no other labels.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    NodeSelectorTerm, PodAffinityTerm, TopologySelectorTerm, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::objects::{PersistentVolume, PersistentVolumeClaim, Pod, StorageClass};
use crate::predicates::{DOMAINS, HOST};

/// Keys of labels, by the objects that have them.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pub(super) pods: KeySet,
    pub(super) nodes: KeySet,
    pub(super) namespaces: KeySet,
    pub(super) volumes: KeySet,
}

/// Keys of the labels of one kind of objects.
#[derive(Debug, Default)]
pub(super) struct KeySet(BTreeSet<String>);

impl KeySet {
    fn add(&mut self, key: &str) {
        if !self.0.contains(key) {
            self.0.insert(key.to_owned());
        }
    }

    fn add_all<'k>(&mut self, keys: impl IntoIterator<Item = &'k String>) {
        keys.into_iter().for_each(|key| self.add(key));
    }

    fn add_selector(&mut self, selector: Option<&LabelSelector>) {
        let Some(LabelSelector { match_labels, match_expressions }) = selector else { return };
        self.add_all(match_labels.iter().flatten().map(|(key, _)| key));
        self.add_all(match_expressions.iter().flatten().map(|requirement| &requirement.key));
    }

    fn add_terms(&mut self, terms: &[NodeSelectorTerm]) {
        let expressions = terms.iter().flat_map(|term| term.match_expressions.iter().flatten());
        self.add_all(expressions.map(|requirement| &requirement.key));
    }

    /// Returns the labels with these keys.
    pub(super) fn of<'l>(
        &self,
        labels: &'l BTreeMap<String, String>,
    ) -> BTreeMap<&'l str, &'l str> {
        let read = labels.iter().filter(|(key, _)| self.0.contains(*key));
        read.map(|(key, value)| (&**key, &**value)).collect()
    }
}

impl Keys {
    /// Makes the keys that are read whatever the rules of pods are.
    pub(super) fn new() -> Self {
        let mut keys = Self::default();
        keys.nodes.add(HOST);
        for key in DOMAINS.as_flattened() {
            keys.nodes.add(key);
            keys.volumes.add(key);
        }
        keys
    }

    /// Adds the keys that the rules of a pod read.
    pub(super) fn add_pod(&mut self, pod: &Pod) {
        self.nodes.add_all(pod.spec.node_selector.keys());
        for constraint in &pod.spec.topology_spread_constraints {
            let TopologySpreadConstraint { topology_key, label_selector, match_label_keys, .. } =
                constraint;
            self.nodes.add(topology_key);
            self.pods.add_selector(label_selector.as_ref());
            self.pods.add_all(match_label_keys.iter().flatten());
        }
        let Some(affinity) = &pod.spec.affinity else { return };
        if let Some(of_nodes) = &affinity.node_affinity {
            if let Some(required) = &of_nodes.required_during_scheduling_ignored_during_execution {
                self.nodes.add_terms(&required.node_selector_terms);
            }
            let preferred = &of_nodes.preferred_during_scheduling_ignored_during_execution;
            for term in preferred.iter().flatten() {
                self.nodes.add_terms(std::slice::from_ref(&term.preference));
            }
        }
        let near = affinity.pod_affinity.as_ref().map(|all| {
            (
                &all.required_during_scheduling_ignored_during_execution,
                &all.preferred_during_scheduling_ignored_during_execution,
            )
        });
        let away = affinity.pod_anti_affinity.as_ref().map(|all| {
            (
                &all.required_during_scheduling_ignored_during_execution,
                &all.preferred_during_scheduling_ignored_during_execution,
            )
        });
        for (required, preferred) in near.into_iter().chain(away) {
            let preferred = preferred.iter().flatten().map(|one| &one.pod_affinity_term);
            required.iter().flatten().chain(preferred).for_each(|term| self.add_pod_term(term));
        }
    }

    fn add_pod_term(&mut self, term: &PodAffinityTerm) {
        self.nodes.add(&term.topology_key);
        self.pods.add_selector(term.label_selector.as_ref());
        self.pods.add_all(term.match_label_keys.iter().flatten());
        self.pods.add_all(term.mismatch_label_keys.iter().flatten());
        self.namespaces.add_selector(term.namespace_selector.as_ref());
    }

    pub(super) fn add_volume(&mut self, volume: &PersistentVolume) {
        let affinity = volume.spec.node_affinity.as_ref();
        if let Some(required) = affinity.and_then(|affinity| affinity.required.as_ref()) {
            self.nodes.add_terms(&required.node_selector_terms);
        }
    }

    pub(super) fn add_claim(&mut self, claim: &PersistentVolumeClaim) {
        self.volumes.add_selector(claim.spec.selector.as_ref());
    }

    pub(super) fn add_class(&mut self, class: &StorageClass) {
        let expressions =
            |term: &TopologySelectorTerm| term.match_label_expressions.clone().unwrap_or_default();
        for expression in class.allowed_topologies.iter().flat_map(expressions) {
            self.nodes.add(&expression.key);
        }
    }
}
