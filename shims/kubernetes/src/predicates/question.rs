//! Pods compiled for predicates.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PodAffinityTerm, TopologySpreadConstraint};

use super::mounts::{Mounted, mounts};
use super::node::{NodeFilter, NodeRequirements};
use super::ports::HostPort;
use super::preferences::Preferences;
use super::selectors::{PodTerm, labels_match, with_own_labels};
use super::tally::{Eligible, TallySpec, Use};
use crate::objects::{Meta as _, Pod};

/// Rules of a pod about its node and about other pods.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Question {
    /// Rules about the node alone.
    pub(super) node: Arc<NodeRequirements>,
    pub(super) ports: Vec<HostPort>,
    /// One tally for each topology key. Each counts the pods that match all affinity terms.
    pub(super) near: Vec<usize>,
    /// One tally for each anti-affinity term.
    pub(super) away: Vec<usize>,
    pub(super) spread: Vec<Spread>,
    pub(super) preferences: Preferences,
    pub(super) mounts: Vec<Mounted>,
    /// Why no node can run the pod.
    pub(super) unsupported: Option<String>,
}

impl Question {
    /// Returns the numbers of the tallies in use, with their use.
    pub(super) fn uses(&self) -> impl Iterator<Item = (usize, Use)> {
        let near = self.near.iter().map(|tally| (*tally, Use::Near));
        let away = self.away.iter().map(|tally| (*tally, Use::Away));
        let spread = self.spread.iter().map(|rule| (rule.tally, Use::Spread));
        let weighed = self.preferences.tallies().map(|tally| (tally, Use::Weighed));
        near.chain(away).chain(spread).chain(weighed)
    }
}

/// A spread constraint.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) tally: usize,
    pub(super) max_skew: u32,
    /// Whether the pod is among those counted.
    pub(super) counts_itself: bool,
}

/// An anti-affinity term, which keeps other pods away from the domain of its pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Guard {
    pub(super) term: PodTerm,
    pub(super) key: String,
}

pub(super) fn pod_term(pod: &Pod, term: &PodAffinityTerm) -> PodTerm {
    let mut namespaces: std::collections::BTreeSet<_> =
        term.namespaces.iter().flatten().cloned().collect();
    if namespaces.is_empty() && term.namespace_selector.is_none() {
        namespaces.insert(pod.namespace().to_owned());
    }
    let equal = term.match_label_keys.as_deref().unwrap_or_default();
    let unequal = term.mismatch_label_keys.as_deref().unwrap_or_default();
    let selector = with_own_labels(term.label_selector.as_ref(), pod.labels(), equal, unequal);
    PodTerm { namespaces, namespace_selector: term.namespace_selector.clone(), selector }
}

/// Returns the required anti-affinity terms of a pod.
pub(super) fn guards(pod: &Pod) -> Vec<Guard> {
    let affinity = pod.spec.affinity.as_ref().and_then(|all| all.pod_anti_affinity.as_ref());
    let terms = affinity
        .and_then(|away| away.required_during_scheduling_ignored_during_execution.as_deref());
    let guard = |term: &PodAffinityTerm| Guard {
        term: pod_term(pod, term),
        key: term.topology_key.clone(),
    };
    terms.unwrap_or_default().iter().map(guard).collect()
}

/// Compiles a pod. `tally` returns the number of a tally, and makes it if it is new.
pub(super) fn compile(pod: &Pod, mut tally: impl FnMut(TallySpec) -> usize) -> Question {
    let node = NodeRequirements::of(pod);
    let affinity = pod.spec.affinity.as_ref();
    let near = affinity.and_then(|all| all.pod_affinity.as_ref());
    let near = near
        .and_then(|near| near.required_during_scheduling_ignored_during_execution.as_deref())
        .unwrap_or_default();
    let terms: Vec<_> = near.iter().map(|term| pod_term(pod, term)).collect();
    let mut by_key = Vec::new();
    for term in near {
        let spec = TallySpec { terms: terms.clone(), key: term.topology_key.clone(), spread: None };
        let id = tally(spec);
        if !by_key.contains(&id) {
            by_key.push(id);
        }
    }
    let mut away = Vec::new();
    for Guard { term, key } in guards(pod) {
        away.push(tally(TallySpec { terms: vec![term], key, spread: None }));
    }
    let spread = spread(pod, &node.filter, &mut tally);
    let preferences = Preferences::of(pod, &mut tally);
    Question {
        node: Arc::new(node),
        ports: HostPort::of(pod),
        near: by_key,
        away,
        spread,
        preferences,
        mounts: mounts(pod),
        unsupported: unsupported(pod),
    }
}

/// Returns what the pod needs that is not supported on any node. Such a pod is never asked for.
///
/// ```
/// # use monoceros_kubernetes::{objects::Pod, predicates::unsupported};
/// let pod: Pod = serde_json::from_str(r#"{"spec": {"resourceClaims": [{"name": "gpu"}]}}"#).unwrap();
/// assert_eq!(unsupported(&pod).unwrap(), "dynamic resource claims are not supported (`gpu`)");
/// assert_eq!(unsupported(&Pod::default()), None);
/// ```
pub fn unsupported(pod: &Pod) -> Option<String> {
    let claims: Vec<_> = pod.spec.resource_claims.iter().map(|claim| &*claim.name).collect();
    if !claims.is_empty() {
        let claims = claims.join("`, `");
        return Some(format!("dynamic resource claims are not supported (`{claims}`)"));
    }
    let disk = pod.spec.volumes.iter().find_map(|volume| Some((volume.disk()?, &volume.name)));
    disk.map(|(kind, name)| {
        format!("volumes of the kind {kind} are supported by claims only (`{name}`)")
    })
}

fn spread(
    pod: &Pod,
    filter: &NodeFilter,
    tally: &mut impl FnMut(TallySpec) -> usize,
) -> Vec<Spread> {
    let all = &pod.spec.topology_spread_constraints;
    let is_hard = |one: &&TopologySpreadConstraint| one.when_unsatisfiable == "DoNotSchedule";
    let keys: Vec<_> = all.iter().filter(is_hard).map(|one| one.topology_key.clone()).collect();
    let positive = |number: i32| u32::try_from(number).unwrap_or(0);
    let rule = |one: &TopologySpreadConstraint| {
        let equal = one.match_label_keys.as_deref().unwrap_or_default();
        let selector = with_own_labels(one.label_selector.as_ref(), pod.labels(), equal, &[]);
        let counts_itself =
            selector.as_ref().is_some_and(|selector| labels_match(selector, pod.labels()));
        let namespaces = [pod.namespace().to_owned()].into();
        let term = PodTerm { namespaces, namespace_selector: None, selector };
        let honours_filter = one.node_affinity_policy.as_deref() != Some("Ignore");
        let honours_taints = one.node_taints_policy.as_deref() == Some("Honor");
        let eligible = Eligible {
            keys: keys.clone(),
            filter: honours_filter.then(|| filter.clone()),
            tolerations: honours_taints.then(|| pod.spec.tolerations.clone()),
            min_domains: positive(one.min_domains.unwrap_or(1)),
        };
        let key = one.topology_key.clone();
        Spread {
            tally: tally(TallySpec { terms: vec![term], key, spread: Some(eligible) }),
            max_skew: positive(one.max_skew),
            counts_itself,
        }
    };
    all.iter().filter(is_hard).map(rule).collect()
}
