//! Preferences of a pod between nodes that may run it. They exclude no node.
//!
//! A node term adds its weight if it admits the node. A pod term adds its weight for each matching
//! pod in the node's domain, or subtracts it if the pod prefers to keep away. Preferences of
//! running pods about this one are not counted.

use k8s_openapi::api::core::v1::{NodeSelectorTerm, WeightedPodAffinityTerm};

use super::question::pod_term;
use super::selectors::terms_admit;
use super::slots::Slots;
use super::tally::{Tally, TallySpec};
use crate::objects::{Node, Pod};

/// Preferred terms of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Preferences {
    nodes: Vec<(i64, NodeSelectorTerm)>,
    /// Weights with the numbers of tallies. Negative for preferred anti-affinity.
    pods: Vec<(i64, usize)>,
}

impl Preferences {
    /// Reads a pod. `tally` returns the number of a tally, and makes it if it is new.
    pub(super) fn of(pod: &Pod, tally: &mut impl FnMut(TallySpec) -> usize) -> Self {
        let Some(affinity) = &pod.spec.affinity else { return Self::default() };
        let about_nodes = affinity.node_affinity.iter();
        let about_nodes = about_nodes.flat_map(|all| {
            all.preferred_during_scheduling_ignored_during_execution.iter().flatten()
        });
        let nodes = about_nodes.map(|term| (i64::from(term.weight), term.preference.clone()));
        let near = affinity.pod_affinity.iter();
        let near = near.flat_map(|all| {
            all.preferred_during_scheduling_ignored_during_execution.iter().flatten()
        });
        let away = affinity.pod_anti_affinity.iter();
        let away = away.flat_map(|all| {
            all.preferred_during_scheduling_ignored_during_execution.iter().flatten()
        });
        let mut counted = |weighted: &WeightedPodAffinityTerm, sign: i64| {
            let WeightedPodAffinityTerm { weight, pod_affinity_term: term } = weighted;
            let (terms, key) = (vec![pod_term(pod, term)], term.topology_key.clone());
            (sign * i64::from(*weight), tally(TallySpec { terms, key, spread: None }))
        };
        let mut pods: Vec<_> = near.map(|term| counted(term, 1)).collect();
        pods.extend(away.map(|term| counted(term, -1)));
        Self { nodes: nodes.collect(), pods }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.pods.is_empty()
    }

    /// Returns the numbers of the tallies in use.
    pub(super) fn tallies(&self) -> impl Iterator<Item = usize> {
        self.pods.iter().map(|(_, tally)| *tally)
    }

    /// Returns the weight of the node.
    pub(super) fn weigh(&self, node: &Node, tallies: &Slots<Tally>) -> i64 {
        let admits = |term: &NodeSelectorTerm| terms_admit(std::slice::from_ref(term), node);
        let of_nodes =
            self.nodes.iter().filter(|(_, term)| admits(term)).map(|(weight, _)| *weight);
        let of_pods = self.pods.iter().map(|(weight, tally)| {
            let tally = &tallies[*tally];
            let there = tally.spec.domain(node).map_or(0, |domain| tally.pods(domain));
            weight.saturating_mul(i64::from(there))
        });
        of_nodes.chain(of_pods).fold(0, i64::saturating_add)
    }
}
