//! The nodes, and the pods that run or are assumed on each.
//!
//! # Invariants
//! * A pod is counted once, however many times and from whichever source it is reported. A held
//!   place is counted as often as it is held on the node.
//! * `places` lists every node on which a pod is counted, so removing the pod from those nodes
//!   removes it entirely.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::counts::Counts;
use super::expected::{ExpectedPod, ExpectedUse};
use super::fits::NodeResults;
use super::mounts::VolumeChoice;
use super::ports::HostPort;
use super::question::guards;
use super::volumes::{PodClaims, Volumes};
use crate::objects::{
    CsiNode, Meta as _, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass,
};

/// State that predicates read.
#[derive(Debug, Default)]
pub struct Scene {
    pub(super) entries: NodeEntries,
    /// Nodes on which each pod is counted, by its key. More than one only for held places.
    pub(super) places: FxHashMap<Arc<str>, Vec<Arc<str>>>,
    pub(super) questions: FxHashMap<String, ExpectedPod>,
    pub(super) counts: Counts,
    pub(super) volumes: Volumes,
    pub(super) expected_use: ExpectedUse,
    /// Results about nodes alone, for explanations.
    pub(super) node_results: NodeResults,
    /// Pods with ports or claims, with a node on which they were placed or from which they were
    /// removed since the last evaluation. The value is whether the pod was on the node before.
    pub(super) moved: FxHashMap<(Arc<str>, Arc<str>), bool>,
    /// Whether a refused pod may pass now.
    pub(super) unblocked: bool,
    /// Whether refused pods are to be tried again, and the shim waits with that.
    pub(super) is_retry_delayed: bool,
}

/// Nodes by name.
pub(super) type NodeEntries = FxHashMap<Arc<str>, NodeEntry>;

/// A node and its pods. Pods may be known before their node is.
#[derive(Debug, Default)]
pub(super) struct NodeEntry {
    pub(super) node: Option<Arc<Node>>,
    pub(super) pods: FxHashMap<Arc<str>, CountedPod>,
}

/// A pod on a node.
#[derive(Debug)]
pub(super) struct CountedPod {
    pub(super) pod: Arc<Pod>,
    pub(super) kind: usize,
    pub(super) ports: Vec<HostPort>,
    /// Its anti-affinity terms.
    pub(super) guards: Vec<usize>,
    /// Number of times it was assumed.
    pub(super) times: u32,
    /// Whether it is known to run there.
    pub(super) is_settled: bool,
}

impl Scene {
    /// Returns whether a refused pod may pass now because of a change since the last call. Nodes
    /// that gained capacity are not counted, since the engine retries those by itself. A pod that
    /// was assumed and forgotten in between is no change.
    pub fn take_unblocked(&mut self) -> bool {
        self.note_unblocked();
        std::mem::take(&mut self.unblocked)
    }

    /// Notes whether a retry that [`Self::take_unblocked`] has called for is still to come, so that a
    /// fork makes it.
    pub fn set_retry_delayed(&mut self, whether: bool) {
        self.is_retry_delayed = whether;
    }

    /// Evaluates the changes since the last evaluation.
    fn note_unblocked(&mut self) {
        self.unblocked |= self.counts.take_unblocked();
        for ((key, node), was_there) in std::mem::take(&mut self.moved) {
            let is_there =
                self.entries.get(&node).is_some_and(|entry| entry.pods.contains_key(&key));
            self.unblocked |= was_there && !is_there;
        }
    }

    /// Sets a node.
    pub fn set_node(&mut self, node: Arc<Node>) {
        let name = entry(&mut self.entries, node.name());
        let known = self.entries.get_mut(&name).and_then(|entry| entry.node.as_mut());
        if let Some(known) = known.filter(|known| is_alike(known, &node)) {
            *known = node;
            return;
        }
        self.note_unblocked();
        self.node_results.node_changed(&name, self.entries.len());
        let Some(entry) = self.entries.get_mut(&name) else { return };
        let before = entry.node.take();
        let node = entry.node.insert(node);
        if let Some(before) = &before {
            self.counts.count_node(before, entry.pods.values(), false);
            self.unblocked |= !self.questions.is_empty() && !is_only_closed(before, node);
        }
        self.counts.count_node(node, entry.pods.values(), true);
        self.note_unblocked();
    }

    /// Removes a node. Its pods stay counted until they are removed too.
    pub fn remove_node(&mut self, name: &str) {
        self.note_unblocked();
        if let Some((name, _)) = self.entries.get_key_value(name) {
            self.node_results.node_changed(name, self.entries.len());
        }
        let Some(entry) = self.entries.get_mut(name) else { return };
        if let Some(node) = entry.node.take() {
            self.counts.count_node(&node, entry.pods.values(), false);
        }
        if entry.pods.is_empty() {
            self.entries.remove(name);
        }
        self.note_unblocked();
    }

    /// Returns whether the node exists.
    pub fn has_node(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(|entry| entry.node.is_some())
    }

    /// Returns a node.
    pub fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.entries.get(name)?.node.clone()
    }

    /// Returns the drivers of a node.
    pub fn csi_node(&self, name: &str) -> Option<Arc<CsiNode>> {
        self.volumes.csi_nodes.get(name).cloned()
    }

    /// Sets the labels of a namespace; `None` removes it.
    pub fn set_namespace(&mut self, name: &str, namespace: Option<&Namespace>) {
        self.note_unblocked();
        let labels = namespace.map(|namespace| namespace.labels().clone());
        self.counts.set_namespace(name, labels, &self.entries);
        self.note_unblocked();
    }

    /// Sets a claim, by `namespace/name`; `None` removes it.
    pub fn set_claim(&mut self, key: &str, claim: Option<Arc<PersistentVolumeClaim>>) {
        let claims = &self.expected_use.claims;
        // A removed claim may free its volume for another.
        self.unblocked |= claims.contains_key(key) || claim.is_none() && !claims.is_empty();
        self.volumes.set_claim(key, claim);
    }

    /// Sets a volume; `None` removes it.
    pub fn set_volume(&mut self, name: &str, volume: Option<Arc<PersistentVolume>>) {
        let claims = &self.expected_use.claims;
        let may_help = |volume: &Arc<PersistentVolume>| match &volume.spec.claim_ref {
            Some(kept) => claims.contains_key(&format!("{}/{}", kept.namespace, kept.name)),
            None => !claims.is_empty(),
        };
        let is_asked_for =
            !claims.is_empty() && volume.iter().chain(self.volumes.volume(name)).any(may_help);
        self.unblocked |= is_asked_for;
        self.volumes.set_volume(name, volume);
    }

    /// Sets a storage class; `None` removes it.
    pub fn set_class(&mut self, name: &str, class: Option<Arc<StorageClass>>) {
        self.unblocked |= !self.expected_use.claims.is_empty();
        self.volumes.set_class(name, class);
    }

    /// Sets the drivers of a node; `None` removes them.
    pub fn set_csi_node(&mut self, name: &str, node: Option<Arc<CsiNode>>) {
        self.unblocked |= !self.expected_use.claims.is_empty();
        self.volumes.set_csi_node(name, node);
    }

    /// Counts the expected pod on the node, since it was placed there. Repeated calls count it
    /// repeatedly, and each has to be forgotten.
    pub fn assume(&mut self, key: &str, node: &str) {
        self.assume_as(key, key, node);
    }

    /// Returns whether the name counts on the node.
    pub fn counts(&self, name: &str, node: &str) -> bool {
        self.entries.get(node).is_some_and(|entry| entry.pods.contains_key(name))
    }

    /// Counts the pod expected under this key on the node, under another name.
    pub fn assume_as(&mut self, called: &str, key: &str, node: &str) {
        let Some(asked) = self.questions.get(key) else { return };
        let ExpectedPod { pod, kind, guards, question } = asked;
        let name = entry(&mut self.entries, node);
        let Some(entry) = self.entries.get_mut(&name) else { return };
        let known = entry.node.as_deref();
        if let Some(counted) = entry.pods.get_mut(called) {
            counted.times += 1;
            return self.counts.count_pod(counted, 1, &name, known, true);
        }
        let (ports, guards) = (question.ports.clone(), guards.clone());
        let (pod, kind, times, is_settled) = (Arc::clone(pod), *kind, 1, false);
        let counted = CountedPod { pod, kind, ports, guards, times, is_settled };
        self.counts.hold(counted.kind, &counted.guards);
        self.volumes.put(called, &counted.pod, known, node, true);
        self.put_on(Arc::from(called), name, counted);
    }

    /// Counts the pod as running on this node and nowhere else. Replaces what was assumed of it.
    pub fn settle(&mut self, key: &str, node: &str, pod: &Arc<Pod>) {
        let is_only_here =
            self.places.get(key).is_some_and(|all| matches!(&**all, [one] if **one == *node));
        let here = self.entries.get_mut(node).and_then(|entry| entry.pods.get_mut(key));
        if let Some(counted) = here.filter(|counted| is_only_here && counted.times == 1)
            && counted.pod.labels() == pod.labels()
            && counted.pod.is_going() == pod.is_going()
        {
            counted.pod = Arc::clone(pod);
            counted.is_settled = true;
            return;
        }
        self.note_unblocked();
        // The volumes reserved for its claims stay reserved.
        let pod_claims = self.volumes.take(key, node);
        self.take_all(key);
        if let Some(pod_claims) = pod_claims {
            self.volumes.put_back(key, node, pod_claims);
        }
        let name = entry(&mut self.entries, node);
        let known = self.entries.get(&name).and_then(|entry| entry.node.as_deref());
        self.volumes.put(key, pod, known, node, false);
        let (kind, ports) = (self.counts.kind(pod), HostPort::of(pod));
        let guards = guards(pod).into_iter().map(|guard| self.counts.guard(guard)).collect();
        let (pod, times, is_settled) = (Arc::clone(pod), 1, true);
        let counted = CountedPod { pod, kind, ports, guards, times, is_settled };
        self.put_on(Arc::from(key), name, counted);
        self.note_unblocked();
    }

    /// Removes one assumption, if there is one. A running pod is none. Returns whether it did.
    pub fn forget(&mut self, key: &str, node: &str) -> bool {
        let Some((name, _)) = self.entries.get_key_value(node) else { return false };
        let name = Arc::clone(name);
        let Some(entry) = self.entries.get_mut(node) else { return false };
        let Some(counted) = entry.pods.get_mut(key) else { return false };
        if counted.is_settled && counted.times == 1 {
            return false;
        }
        if counted.times > 1 {
            counted.times -= 1;
            self.counts.count_pod(counted, 1, &name, entry.node.as_deref(), false);
        } else {
            self.take(key, node);
        }
        true
    }

    /// Removes the pod from all nodes.
    pub fn clear(&mut self, key: &str) {
        if self.places.contains_key(key) {
            self.note_unblocked();
            self.take_all(key);
            self.note_unblocked();
        }
    }

    /// Drops all pods and questions. Nodes and volumes stay.
    pub fn restart(&mut self) {
        for (name, entry) in &mut self.entries {
            for (key, _) in entry.pods.drain() {
                self.volumes.take(&key, name);
            }
        }
        self.entries.retain(|_, entry| entry.node.is_some());
        self.places.clear();
        self.questions.clear();
        self.counts.restart();
        self.expected_use = ExpectedUse::default();
        self.moved.clear();
        self.unblocked = false;
        self.is_retry_delayed = false;
    }

    /// Returns the volumes chosen for the pod when it was assumed.
    pub fn volume_choices(&self, key: &str) -> Vec<VolumeChoice> {
        let node = self.places.get(key).and_then(|places| places.last());
        node.map(|node| self.volumes.choices(key, node)).unwrap_or_default()
    }

    /// Returns the claims of a placed pod without a volume. The error says that the pod cannot have
    /// one on the node, or is not placed there.
    pub fn missing_volumes(&self, key: &str, node: &str) -> Result<Vec<String>, String> {
        let entry = self.entries.get(node);
        let Some(known) = entry.and_then(|entry| entry.node.as_ref()) else {
            return Err(format!("the node {node} is gone"));
        };
        let Some(counted) = entry.and_then(|entry| entry.pods.get(key)) else {
            return Err(format!("the pod is not to run on {node} any more"));
        };
        self.volumes.missing(&counted.pod, known)
    }

    /// Returns a claim, by `namespace/name`.
    pub fn claim(&self, key: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.volumes.claim(key).cloned()
    }

    /// Returns a volume.
    pub fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.volumes.volume(name).cloned()
    }

    /// Finds how many of the leaving pods, at least `first` and in their order, must be removed
    /// before [`Self::check`] passes.
    pub fn check_without(
        &mut self,
        key: &str,
        node: &str,
        leaving: &[String],
        first: usize,
    ) -> Option<usize> {
        let mut removed = Vec::new();
        let mut enough = None;
        for count in 0..=leaving.len() {
            if count >= first && self.check(key, node).is_ok() {
                enough = Some(count);
                break;
            }
            let Some(victim) = leaving.get(count) else { break };
            if let Some(victim) = self.take_off(victim, node) {
                removed.push(victim);
            }
        }
        for RemovedPod { key, name, counted, pod_claims } in removed.into_iter().rev() {
            if let Some(pod_claims) = pod_claims {
                self.volumes.put_back(&key, &name, pod_claims);
            }
            self.put_on(key, name, counted);
        }
        enough
    }

    fn take_all(&mut self, key: &str) {
        for node in self.places.get(key).cloned().unwrap_or_default() {
            self.take(key, &node);
        }
    }

    fn take(&mut self, key: &str, node: &str) {
        if let Some(RemovedPod { counted, .. }) = self.take_off(key, node) {
            self.counts.leave(counted.kind, &counted.guards);
        }
    }

    /// Takes a pod off a node as if it had never been there.
    fn take_off(&mut self, key: &str, node: &str) -> Option<RemovedPod> {
        let name = Arc::clone(self.entries.get_key_value(node)?.0);
        let entry = self.entries.get_mut(node)?;
        let (key, counted) = entry.pods.remove_entry(key)?;
        self.counts.count_pod(&counted, counted.times, &name, entry.node.as_deref(), false);
        if entry.pods.is_empty() && entry.node.is_none() {
            self.entries.remove(node);
        }
        if let Some(places) = self.places.get_mut(&key) {
            places.retain(|place| *place != name);
            if places.is_empty() {
                self.places.remove(&key);
            }
        }
        self.note_move(&key, &name, &counted, true);
        let pod_claims = self.volumes.take(&key, node);
        Some(RemovedPod { key, name, counted, pod_claims })
    }

    /// Puts a pod on a node. Its volumes are counted separately.
    pub(super) fn put_on(&mut self, key: Arc<str>, name: Arc<str>, counted: CountedPod) {
        self.note_move(&key, &name, &counted, false);
        let entry = self.entries.entry(Arc::clone(&name)).or_default();
        self.counts.count_pod(&counted, counted.times, &name, entry.node.as_deref(), true);
        entry.pods.insert(Arc::clone(&key), counted);
        self.places.entry(key).or_default().push(name);
    }

    /// Records that a pod is placed on a node or removed from it, if expected pods may need its
    /// ports or claims.
    fn note_move(
        &mut self,
        key: &Arc<str>,
        node: &Arc<str>,
        counted: &CountedPod,
        was_there: bool,
    ) {
        let expected = &self.expected_use;
        let has_port = counted.ports.iter().any(|port| expected.ports.contains_key(&port.number()));
        if has_port || !expected.claims.is_empty() && counted.pod.claims().next().is_some() {
            self.moved.entry((Arc::clone(key), Arc::clone(node))).or_insert(was_there);
        }
    }
}

/// A pod that was taken off its node.
struct RemovedPod {
    key: Arc<str>,
    name: Arc<str>,
    counted: CountedPod,
    pod_claims: Option<PodClaims>,
}

/// Returns the shared name of a node, with an entry for it.
pub(super) fn entry(entries: &mut NodeEntries, node: &str) -> Arc<str> {
    if let Some((name, _)) = entries.get_key_value(node) {
        return Arc::clone(name);
    }
    let name = Arc::from(node);
    entries.insert(Arc::clone(&name), NodeEntry::default());
    name
}

/// Returns whether predicates treat both nodes alike.
fn is_alike(one: &Node, other: &Node) -> bool {
    one.labels() == other.labels()
        && one.spec.taints == other.spec.taints
        && one.spec.unschedulable == other.spec.unschedulable
        && one.status.declared_features == other.status.declared_features
}

/// Returns whether the node admits no pod that it did not admit before.
fn is_only_closed(before: &Node, after: &Node) -> bool {
    before.labels() == after.labels()
        && before.status.declared_features == after.status.declared_features
        && before.spec.taints.iter().all(|taint| after.spec.taints.contains(taint))
        && before.spec.unschedulable <= after.spec.unschedulable
}
