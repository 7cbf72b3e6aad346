//! The nodes, and what runs or is assumed to run on each.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::question::{Guard, Question, compile, guards};
use super::selectors::Labels;
use super::tally::{Tally, Wanted};
use super::volumes::{VolumeChoice, Volumes};
use super::{node, ports::HostPort};
use crate::objects::{
    CsiNode, Meta as _, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass,
};

/// Tallies that nobody looks at any more are kept up to this number: pods of one kind come one after
/// the other.
const IDLE_TALLIES: usize = 256;

/// What predicates look at.
#[derive(Debug, Default)]
pub struct Scene {
    nodes: FxHashMap<String, Seat>,
    namespaces: BTreeMap<String, Labels>,
    /// Where each pod is counted, by its key.
    places: FxHashMap<String, String>,
    questions: FxHashMap<String, Asked>,
    tallies: Vec<Option<Tally>>,
    /// Terms of pods that run, with the number of such pods by domain.
    guards: Vec<(Guard, FxHashMap<String, u32>)>,
    volumes: Volumes,
    /// Somebody who was refused may pass now.
    helps: bool,
}

/// A node, and what is on it. Pods may be known before their node is.
#[derive(Debug, Default)]
struct Seat {
    node: Option<Arc<Node>>,
    pods: FxHashMap<String, Counted>,
}

/// A pod on a node.
#[derive(Debug)]
struct Counted {
    pod: Arc<Pod>,
    ports: Vec<HostPort>,
    guards: Vec<Guard>,
    times: u32,
}

/// A pod that is asked about.
#[derive(Debug)]
struct Asked {
    pod: Arc<Pod>,
    question: Question,
}

impl Scene {
    /// Whether something has happened, since this was asked last, by which somebody who is expected and was
    /// refused may pass: elsewhere than on a node that has more room, which is looked at anyway.
    pub fn take_help(&mut self) -> bool {
        std::mem::take(&mut self.helps)
    }

    /// A node as it is now.
    pub fn set_node(&mut self, node: Arc<Node>) {
        let name = node.name().to_owned();
        let seat = self.nodes.entry(name.clone()).or_default();
        let is_alike = seat.node.as_ref().is_some_and(|old| {
            old.labels() == node.labels()
                && old.spec.taints == node.spec.taints
                && old.spec.unschedulable == node.spec.unschedulable
        });
        if is_alike {
            seat.node = Some(node);
            return;
        }
        self.helps = true;
        self.tally_node(&name, false);
        if let Some(seat) = self.nodes.get_mut(&name) {
            seat.node = Some(node);
        }
        self.tally_node(&name, true);
    }

    /// A node is gone; what is counted on it stays known until it is said to be gone.
    pub fn remove_node(&mut self, name: &str) {
        self.helps = true;
        self.tally_node(name, false);
        if let Some(seat) = self.nodes.get_mut(name) {
            seat.node = None;
            if seat.pods.is_empty() {
                self.nodes.remove(name);
            }
        }
    }

    /// Whether the node is there.
    pub fn has_node(&self, name: &str) -> bool {
        self.nodes.get(name).is_some_and(|seat| seat.node.is_some())
    }

    /// The labels of a namespace; `None` when it is gone.
    pub fn set_namespace(&mut self, name: &str, namespace: Option<&Namespace>) {
        let labels = namespace.map(|namespace| namespace.labels().clone());
        if self.namespaces.get(name) == labels.as_ref() {
            return;
        }
        self.helps = true;
        match labels {
            Some(labels) => drop(self.namespaces.insert(name.to_owned(), labels)),
            None => drop(self.namespaces.remove(name)),
        }
        // Whom a term with a selector of namespaces is about has changed.
        for id in 0..self.tallies.len() {
            let is_about = |tally: &Tally| {
                tally.wanted.terms.iter().any(|term| term.namespace_selector.is_some())
            };
            if self.tallies[id].as_ref().is_some_and(is_about) {
                self.recount(id);
            }
        }
    }

    /// What is known of volumes.
    pub fn set_claim(&mut self, key: &str, claim: Option<Arc<PersistentVolumeClaim>>) {
        self.helps = true;
        self.volumes.set_claim(key, claim);
    }

    /// What is known of volumes.
    pub fn set_volume(&mut self, name: &str, volume: Option<Arc<PersistentVolume>>) {
        self.helps = true;
        self.volumes.set_volume(name, volume);
    }

    /// What is known of volumes.
    pub fn set_class(&mut self, name: &str, class: Option<Arc<StorageClass>>) {
        self.helps = true;
        self.volumes.set_class(name, class);
    }

    /// What is known of volumes.
    pub fn set_csi_node(&mut self, name: &str, node: Option<Arc<CsiNode>>) {
        self.helps = true;
        self.volumes.set_csi_node(name, node);
    }

    /// A pod will be asked about under this key.
    pub fn expect(&mut self, key: &str, pod: Arc<Pod>) {
        self.helps |= self.expects(key);
        self.dismiss(key);
        let mut used = Vec::new();
        let question = compile(&pod, |wanted| {
            let id = self.tally(wanted);
            used.push(id);
            id
        });
        for id in used {
            if let Some(tally) = &mut self.tallies[id] {
                tally.users += 1;
            }
        }
        self.questions.insert(key.to_owned(), Asked { pod, question });
    }

    /// Whether a pod is asked about under this key.
    pub fn expects(&self, key: &str) -> bool {
        self.questions.contains_key(key)
    }

    /// A pod will not be asked about any more.
    pub fn dismiss(&mut self, key: &str) {
        let Some(asked) = self.questions.remove(key) else { return };
        for id in asked.question.tallies() {
            if let Some(tally) = &mut self.tallies[id] {
                tally.users = tally.users.saturating_sub(1);
            }
        }
        let is_idle = |tally: &Option<Tally>| tally.as_ref().is_some_and(|one| one.users == 0);
        if self.tallies.len() > IDLE_TALLIES
            && self.tallies.iter().filter(|tally| is_idle(tally)).count() > IDLE_TALLIES
        {
            for tally in self.tallies.iter_mut().filter(|tally| is_idle(tally)) {
                *tally = None;
            }
        }
    }

    /// The pod counts as running on the node: it does, or it is decided. Once more for the same place is
    /// counted, and wants to be taken back as often.
    pub fn assume(&mut self, key: &str, node: &str) {
        let Some(asked) = self.questions.get(key) else { return };
        let pod = Arc::clone(&asked.pod);
        self.put(key, node, &pod, true);
    }

    /// The pod runs on this node, and nowhere else: what was assumed of it is over.
    pub fn settle(&mut self, key: &str, node: &str, pod: &Arc<Pod>) {
        let is_settled = self.nodes.get(node).and_then(|seat| seat.pods.get(key));
        let is_alike = |counted: &Counted| {
            counted.pod.labels() == pod.labels() && counted.pod.is_going() == pod.is_going()
        };
        if is_settled.is_some_and(|counted| counted.times == 1 && is_alike(counted)) {
            return;
        }
        self.helps = true;
        // What was promised to its claims lasts.
        let held = self.volumes.take(key, node);
        self.clear(key);
        if let Some(held) = held {
            self.volumes.put_back(key, node, held);
        }
        self.put(key, node, pod, false);
    }

    /// One assumption less.
    pub fn forget(&mut self, key: &str, node: &str) {
        let Some(counted) = self.nodes.get_mut(node).and_then(|seat| seat.pods.get_mut(key)) else {
            return;
        };
        counted.times -= 1;
        if counted.times == 0 {
            self.take(key, node);
        }
    }

    /// The pod is counted nowhere any more.
    pub fn clear(&mut self, key: &str) {
        if let Some(node) = self.places.get(key).cloned() {
            self.helps = true;
            self.take(key, &node);
        }
    }

    /// Nothing is assumed any more, and nobody is asked about; nodes and volumes stay.
    pub fn restart(&mut self) {
        for key in self.places.keys().cloned().collect::<Vec<_>>() {
            self.clear(&key);
        }
        for key in self.questions.keys().cloned().collect::<Vec<_>>() {
            self.dismiss(&key);
        }
        self.helps = false;
    }

    /// Which volumes the pod is to have, where it was assumed.
    pub fn volume_choices(&self, key: &str) -> Vec<VolumeChoice> {
        let node = self.places.get(key);
        node.map(|node| self.volumes.choices(key, node)).unwrap_or_default()
    }

    /// The claims of a pod that is placed on the node which have no volume yet; an error where the pod
    /// cannot have one there, or is not placed there any more.
    pub fn missing_volumes(&self, key: &str, node: &str) -> Result<Vec<String>, String> {
        let seat = self.nodes.get(node);
        let Some(known) = seat.and_then(|seat| seat.node.as_ref()) else {
            return Err(format!("the node {node} is gone"));
        };
        let Some(counted) = seat.and_then(|seat| seat.pods.get(key)) else {
            return Err(format!("the pod is not to run on {node} any more"));
        };
        self.volumes.missing(&counted.pod, known)
    }

    /// A claim, by `namespace/name`.
    pub fn claim(&self, key: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.volumes.claim(key).cloned()
    }

    /// A volume.
    pub fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.volumes.volume(name).cloned()
    }

    /// Whether the pod expected under this key may run on the node; else why not, in words that do not
    /// name the node. What nobody knows may not.
    pub fn check(&self, key: &str, node: &str) -> Result<(), String> {
        let Some(Asked { pod, question }) = self.questions.get(key) else {
            return Err("the pod is not known any more".to_owned());
        };
        let Some(seat) = self.nodes.get(node) else {
            return Err("the node is not known any more".to_owned());
        };
        let Some(node) = &seat.node else {
            return Err("the node is not known any more".to_owned());
        };
        if let Some(reason) = &question.unsupported {
            return Err(reason.clone());
        }
        node::check(&question.filter, &question.tolerations, node)?;
        Self::check_ports(question, seat)?;
        self.check_near(question, pod, node)?;
        self.check_guards(pod, node)?;
        self.check_spread(question, node)?;
        self.volumes.check(pod, &question.mounts, node)
    }

    /// Whether the pod expected under this key prefers some nodes.
    pub fn has_preferences(&self, key: &str) -> bool {
        self.questions.get(key).is_some_and(|asked| !asked.question.preferences.is_empty())
    }

    /// How much it prefers this node; 0 where nothing is known of either.
    pub fn preference(&self, key: &str, node: &str) -> i64 {
        let node = self.nodes.get(node).and_then(|seat| seat.node.as_ref());
        let asked = self.questions.get(key).zip(node);
        asked.map_or(0, |(asked, node)| asked.question.preferences.weigh(node, &self.tallies))
    }

    /// As [`Self::check`], when these pods have left the node one after the other: how many of them have to,
    /// and at least `first`.
    pub fn check_without(
        &mut self,
        key: &str,
        node: &str,
        leaving: &[String],
        first: usize,
    ) -> Option<usize> {
        let mut taken = Vec::new();
        let mut enough = None;
        for count in 0..=leaving.len() {
            if count >= first && self.check(key, node).is_ok() {
                enough = Some(count);
                break;
            }
            let Some(victim) = leaving.get(count) else { break };
            let counted = self.nodes.get(node).and_then(|seat| seat.pods.get(victim));
            if let Some(counted) = counted {
                let (pod, times) = (Arc::clone(&counted.pod), counted.times);
                taken.push((victim.clone(), pod, times, self.volumes.take(victim, node)));
                self.take(victim, node);
            }
        }
        for (victim, pod, times, held) in taken {
            if let Some(held) = held {
                self.volumes.put_back(&victim, node, held);
            }
            for _ in 0..times {
                self.put(&victim, node, &pod, false);
            }
        }
        enough
    }

    fn check_ports(question: &Question, seat: &Seat) -> Result<(), String> {
        for port in &question.ports {
            let is_taken = |counted: &Counted| counted.ports.iter().any(|one| one.collides(port));
            if seat.pods.values().any(is_taken) {
                return Err(format!("port {} of the node is taken", port.shown()));
            }
        }
        Ok(())
    }

    fn check_near(&self, question: &Question, pod: &Pod, node: &Node) -> Result<(), String> {
        let tallies = || question.near.iter().filter_map(|id| self.tallies[*id].as_ref());
        let mut all_near = true;
        for tally in tallies() {
            let Some(domain) = tally.domain(node) else {
                let key = &tally.wanted.key;
                return Err(format!(
                    "the node lacks the label {key}, by which pods are to be together"
                ));
            };
            all_near &= tally.pods(domain) > 0;
        }
        if !all_near {
            // The first of a kind that wants to be with its own kind may be anywhere.
            let is_first = question.is_near_itself
                && tallies().all(|tally| tally.total() == 0)
                && tallies().all(|tally| {
                    tally.counts(pod.namespace(), pod.labels(), false, &self.namespaces)
                });
            if !is_first {
                return Err("no pod is there that the pod has to be together with".to_owned());
            }
        }
        for tally in question.away.iter().filter_map(|id| self.tallies[*id].as_ref()) {
            if tally.domain(node).is_some_and(|domain| tally.pods(domain) > 0) {
                let key = &tally.wanted.key;
                return Err(format!("a pod is there that the pod keeps away from (by {key})"));
            }
        }
        Ok(())
    }

    fn check_guards(&self, pod: &Pod, node: &Node) -> Result<(), String> {
        for (guard, domains) in &self.guards {
            let Some(domain) = node.label(&guard.key) else { continue };
            if domains.contains_key(domain)
                && guard.term.matches(pod.namespace(), pod.labels(), &self.namespaces)
            {
                let key = &guard.key;
                return Err(format!("a pod is there that keeps this one away (by {key})"));
            }
        }
        Ok(())
    }

    fn check_spread(&self, question: &Question, node: &Node) -> Result<(), String> {
        for rule in &question.spread {
            let Some(tally) = &self.tallies[rule.tally] else { continue };
            let key = &tally.wanted.key;
            let Some(domain) = node.label(key) else {
                return Err(format!("the node lacks the label {key}, by which pods are spread"));
            };
            let there = tally.pods(domain) + u32::from(rule.counts_itself);
            if there.saturating_sub(tally.least(rule.min_domains)) > rule.max_skew {
                return Err(format!("the spread over {key} would be more uneven than is allowed"));
            }
        }
        Ok(())
    }

    /// The number of the tally, which is counted where it is new.
    fn tally(&mut self, wanted: Wanted) -> usize {
        let is_it = |tally: &Option<Tally>| tally.as_ref().is_some_and(|one| one.wanted == wanted);
        if let Some(id) = self.tallies.iter().position(is_it) {
            return id;
        }
        let free = self.tallies.iter().position(Option::is_none);
        let id = free.unwrap_or_else(|| {
            self.tallies.push(None);
            self.tallies.len() - 1
        });
        self.tallies[id] = Some(Tally::new(wanted));
        self.recount(id);
        id
    }

    fn recount(&mut self, id: usize) {
        let Some(old) = self.tallies[id].take() else { return };
        let mut tally = Tally::new(old.wanted);
        tally.users = old.users;
        for seat in self.nodes.values() {
            let Some(domain) = seat.node.as_ref().and_then(|node| tally.domain(node)) else {
                continue;
            };
            let domain = domain.to_owned();
            tally.count_node(&domain, true);
            for counted in seat.pods.values() {
                let Counted { pod, .. } = counted;
                if tally.counts(pod.namespace(), pod.labels(), pod.is_going(), &self.namespaces) {
                    tally.count(&domain, true);
                }
            }
        }
        self.tallies[id] = Some(tally);
    }

    /// A node comes with all that is on it, or goes.
    fn tally_node(&mut self, name: &str, comes: bool) {
        let Some(seat) = self.nodes.get(name) else { return };
        let Some(node) = &seat.node else { return };
        for tally in self.tallies.iter_mut().flatten() {
            let Some(domain) = tally.domain(node) else { continue };
            tally.count_node(domain, comes);
            for Counted { pod, .. } in seat.pods.values() {
                if tally.counts(pod.namespace(), pod.labels(), pod.is_going(), &self.namespaces) {
                    tally.count(domain, comes);
                }
            }
        }
        let all: Vec<_> = seat.pods.values().flat_map(|counted| counted.guards.clone()).collect();
        let node = Arc::clone(node);
        for guard in all {
            self.guard(guard, &node, comes);
        }
    }

    fn guard(&mut self, guard: Guard, node: &Node, comes: bool) {
        let Some(domain) = node.label(&guard.key) else { return };
        let position = self.guards.iter().position(|(known, _)| *known == guard);
        let position = position.unwrap_or_else(|| {
            self.guards.push((guard, FxHashMap::default()));
            self.guards.len() - 1
        });
        let domains = &mut self.guards[position].1;
        let count = domains.entry(domain.to_owned()).or_default();
        *count = if comes { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            domains.remove(domain);
        }
        if domains.is_empty() {
            self.guards.swap_remove(position);
        }
    }

    fn put(&mut self, key: &str, node: &str, pod: &Arc<Pod>, is_choice: bool) {
        let seat = self.nodes.entry(node.to_owned()).or_default();
        if let Some(counted) = seat.pods.get_mut(key) {
            counted.times += 1;
            return;
        }
        // Held places of one group may be on many nodes; the last one is as good as any to be found by.
        self.places.insert(key.to_owned(), node.to_owned());
        let guards = guards(pod);
        let counted = Counted {
            pod: Arc::clone(pod),
            ports: HostPort::of(pod),
            guards: guards.clone(),
            times: 1,
        };
        seat.pods.insert(key.to_owned(), counted);
        let known = seat.node.clone();
        self.volumes.put(key, pod, known.as_deref(), node, is_choice);
        let Some(known) = known else { return };
        self.count(pod, &known, true);
        for guard in guards {
            self.guard(guard, &known, true);
        }
    }

    fn take(&mut self, key: &str, node: &str) {
        let Some(seat) = self.nodes.get_mut(node) else { return };
        let Some(counted) = seat.pods.remove(key) else { return };
        let known = seat.node.clone();
        if seat.pods.is_empty() && known.is_none() {
            self.nodes.remove(node);
        }
        if self.places.get(key).is_some_and(|place| place == node) {
            self.places.remove(key);
        }
        self.volumes.take(key, node);
        let Some(known) = known else { return };
        self.count(&counted.pod, &known, false);
        for guard in counted.guards {
            self.guard(guard, &known, false);
        }
    }

    fn count(&mut self, pod: &Pod, node: &Node, comes: bool) {
        for tally in self.tallies.iter_mut().flatten() {
            if tally.counts(pod.namespace(), pod.labels(), pod.is_going(), &self.namespaces)
                && let Some(domain) = tally.domain(node)
            {
                tally.count(domain, comes);
            }
        }
    }

    /// What is counted wrong, by counting all of it anew.
    pub fn check_books(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (id, tally) in self.tallies.iter().enumerate() {
            let Some(tally) = tally else { continue };
            let mut counted: FxHashMap<String, u32> = FxHashMap::default();
            for seat in self.nodes.values() {
                let Some(domain) = seat.node.as_ref().and_then(|node| tally.domain(node)) else {
                    continue;
                };
                let pods = seat.pods.values().map(|counted| &counted.pod).filter(|pod| {
                    tally.counts(pod.namespace(), pod.labels(), pod.is_going(), &self.namespaces)
                });
                *counted.entry(domain.to_owned()).or_default() +=
                    u32::try_from(pods.count()).unwrap_or(u32::MAX);
            }
            for (domain, pods) in counted {
                if tally.pods(&domain) != pods {
                    let has = tally.pods(&domain);
                    wrong.push(format!("tally {id} has {has} pods in {domain} instead of {pods}"));
                }
            }
        }
        let known: FxHashSet<_> =
            self.nodes.values().flat_map(|seat| seat.pods.keys()).map(String::as_str).collect();
        wrong.extend(
            self.places
                .keys()
                .filter(|key| !known.contains(key.as_str()))
                .map(|key| format!("{key} is said to be somewhere, and is nowhere")),
        );
        wrong.extend(self.volumes.check_books());
        wrong
    }
}
