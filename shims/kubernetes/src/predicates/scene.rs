//! The nodes, and what runs or is assumed to run on each.
//!
//! # Invariants
//! * What is counted of a pod is counted once, whoever says it and how often; of a held place, as often as
//!   it is held on the node.
//! * Whoever is counted on a node is known to be there: taking it off everywhere leaves nothing of it.

use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::Arc;

use monoceros_actors::Fits;
use rustc_hash::FxHashMap;

use super::counts::Counts;
use super::fits::NodesCounted;
use super::ports::HostPort;
use super::question::{Question, compile, guards};
use super::volumes::{Held, VolumeChoice, Volumes};
use crate::objects::{
    CsiNode, Meta as _, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass,
};

/// What predicates look at.
#[derive(Debug, Default)]
pub struct Scene {
    pub(super) seats: Seats,
    /// The nodes where a pod is counted, by its key: one, unless it stands for held places.
    pub(super) places: FxHashMap<Arc<str>, Vec<Arc<str>>>,
    pub(super) questions: FxHashMap<String, Asked>,
    pub(super) counts: Counts,
    pub(super) volumes: Volumes,
    pub(super) asking: Asking,
    /// What nodes say by themselves, for explanations.
    counted: NodesCounted,
    /// Pods with ports or claims that have moved, and whether they were there before.
    moved: FxHashMap<(Arc<str>, Arc<str>), bool>,
    /// Somebody who was refused may pass now.
    helps: bool,
}

/// Nodes by name.
pub(super) type Seats = FxHashMap<Arc<str>, Seat>;

/// A node, and what is on it. Pods may be known before their node is.
#[derive(Debug, Default)]
pub(super) struct Seat {
    pub(super) node: Option<Arc<Node>>,
    pub(super) pods: FxHashMap<Arc<str>, Counted>,
}

/// A pod on a node.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) pod: Arc<Pod>,
    pub(super) kind: usize,
    pub(super) ports: Vec<HostPort>,
    /// Its terms that keep others away.
    pub(super) guards: Vec<usize>,
    /// How often it was assumed.
    pub(super) times: u32,
    /// It is known to run there.
    pub(super) is_settled: bool,
}

/// What the answer about a pod, and the pod, have to do with other nodes than its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ties {
    /// What runs elsewhere decides, too: affinity to other pods or against them, or spread.
    pub looks_around: bool,
    /// The pod keeps others away from its domain.
    pub keeps_away: bool,
    /// It has claims, which others may use, and volumes, which others may get.
    pub has_claims: bool,
}

/// A pod that is asked about.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) pod: Arc<Pod>,
    pub(super) kind: usize,
    /// Its terms that keep others away.
    pub(super) guards: Vec<usize>,
    pub(super) question: Question,
}

/// What pods that are asked about want of a node, beside its room.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Asking {
    /// How many want a port, by its number.
    ports: FxHashMap<i32, u32>,
    /// How many want a claim, by `namespace/name`.
    claims: FxHashMap<String, u32>,
}

impl Asking {
    pub(super) fn change(&mut self, question: &Question, comes: bool) {
        for port in &question.ports {
            count(&mut self.ports, port.number(), comes);
        }
        for claim in &question.mounts {
            count(&mut self.claims, claim.key.clone(), comes);
        }
    }
}

fn count<K: Hash + Eq>(all: &mut FxHashMap<K, u32>, key: K, comes: bool) {
    match all.entry(key) {
        Entry::Occupied(mut entry) if comes => *entry.get_mut() += 1,
        Entry::Occupied(mut entry) if *entry.get() > 1 => *entry.get_mut() -= 1,
        Entry::Occupied(entry) => drop(entry.remove()),
        Entry::Vacant(entry) if comes => drop(entry.insert(1)),
        Entry::Vacant(_) => {}
    }
}

impl Scene {
    /// Whether something has happened, since this was asked last, by which somebody who is expected and was
    /// refused may pass: elsewhere than on a node that has more room, which is looked at anyway. What was
    /// assumed and forgotten again, with nothing else between, has not happened.
    pub fn take_help(&mut self) -> bool {
        self.look_back();
        std::mem::take(&mut self.helps)
    }

    /// Keeps in mind whether somebody was helped until now.
    fn look_back(&mut self) {
        self.helps |= self.counts.helps();
        for ((key, node), was_there) in std::mem::take(&mut self.moved) {
            let is_there = self.seats.get(&node).is_some_and(|seat| seat.pods.contains_key(&key));
            self.helps |= was_there && !is_there;
        }
    }

    /// A node as it is now.
    pub fn set_node(&mut self, node: Arc<Node>) {
        let name = seat(&mut self.seats, node.name());
        let known = self.seats.get_mut(&name).and_then(|seat| seat.node.as_mut());
        if let Some(known) = known.filter(|known| is_alike(known, &node)) {
            *known = node;
            return;
        }
        self.look_back();
        self.counted.node_changed(&name, self.seats.len());
        let Some(seat) = self.seats.get_mut(&name) else { return };
        let before = seat.node.take();
        let node = seat.node.insert(node);
        if let Some(before) = &before {
            self.counts.count_node(before, seat.pods.values(), false);
            self.helps |= !self.questions.is_empty() && !is_only_closed(before, node);
        }
        self.counts.count_node(node, seat.pods.values(), true);
        self.look_back();
    }

    /// A node is gone; what is counted on it stays known until it is said to be gone.
    pub fn remove_node(&mut self, name: &str) {
        self.look_back();
        if let Some((name, _)) = self.seats.get_key_value(name) {
            self.counted.node_changed(name, self.seats.len());
        }
        let Some(seat) = self.seats.get_mut(name) else { return };
        if let Some(node) = seat.node.take() {
            self.counts.count_node(&node, seat.pods.values(), false);
        }
        if seat.pods.is_empty() {
            self.seats.remove(name);
        }
        self.look_back();
    }

    /// Whether the node is there.
    pub fn has_node(&self, name: &str) -> bool {
        self.seats.get(name).is_some_and(|seat| seat.node.is_some())
    }

    /// The labels of a namespace; `None` when it is gone.
    pub fn set_namespace(&mut self, name: &str, namespace: Option<&Namespace>) {
        self.look_back();
        let labels = namespace.map(|namespace| namespace.labels().clone());
        self.counts.set_namespace(name, labels, &self.seats);
        self.look_back();
    }

    /// What is known of volumes.
    pub fn set_claim(&mut self, key: &str, claim: Option<Arc<PersistentVolumeClaim>>) {
        let claims = &self.asking.claims;
        // With one that goes its volume may be had by another.
        self.helps |= claims.contains_key(key) || claim.is_none() && !claims.is_empty();
        self.volumes.set_claim(key, claim);
    }

    /// What is known of volumes.
    pub fn set_volume(&mut self, name: &str, volume: Option<Arc<PersistentVolume>>) {
        let claims = &self.asking.claims;
        let may_help = |volume: &Arc<PersistentVolume>| match &volume.spec.claim_ref {
            Some(kept) => claims.contains_key(&format!("{}/{}", kept.namespace, kept.name)),
            None => !claims.is_empty(),
        };
        let is_asked_for =
            !claims.is_empty() && volume.iter().chain(self.volumes.volume(name)).any(may_help);
        self.helps |= is_asked_for;
        self.volumes.set_volume(name, volume);
    }

    /// What is known of volumes.
    pub fn set_class(&mut self, name: &str, class: Option<Arc<StorageClass>>) {
        self.helps |= !self.asking.claims.is_empty();
        self.volumes.set_class(name, class);
    }

    /// What is known of volumes.
    pub fn set_csi_node(&mut self, name: &str, node: Option<Arc<CsiNode>>) {
        self.helps |= !self.asking.claims.is_empty();
        self.volumes.set_csi_node(name, node);
    }

    /// A pod will be asked about under this key.
    pub fn expect(&mut self, key: &str, pod: Arc<Pod>) {
        let kind = self.counts.kind(&pod);
        let guards = guards(&pod).into_iter().map(|guard| self.counts.guard(guard)).collect();
        let question = compile(&pod, |wanted| self.counts.tally(wanted, &self.seats));
        self.counts.ask(kind, true);
        for (tally, of) in question.uses() {
            self.counts.look_at(tally, of);
        }
        self.asking.change(&question, true);
        let asked = Asked { pod, kind, guards, question };
        if let Some(old) = self.questions.remove(key) {
            // It may pass itself, as it is now.
            self.helps |= old.kind != asked.kind || old.question != asked.question;
            self.no_more(old);
        }
        self.questions.insert(key.to_owned(), asked);
    }

    /// Which nodes the pod expected under this key may use by what they alone say, as far as that is
    /// counted; from now on it is.
    pub fn fits(&mut self, key: &str) -> Fits {
        let Some(asked) = self.questions.get(key) else { return Fits::Unknown };
        self.counted.ask(&asked.question.node, &self.seats)
    }

    /// Whether something is still to be counted that [`Self::fits`] was asked.
    pub fn has_to_count(&self) -> bool {
        self.counted.has_work()
    }

    /// Counts on for [`Self::fits`], so much that it takes less than a millisecond. Returns at how many nodes
    /// it has looked.
    pub fn count_fits(&mut self) -> usize {
        self.counted.count(&self.seats)
    }

    /// Whether a pod is asked about under this key.
    pub fn expects(&self, key: &str) -> bool {
        self.questions.contains_key(key)
    }

    /// A pod will not be asked about any more.
    pub fn dismiss(&mut self, key: &str) {
        if let Some(asked) = self.questions.remove(key) {
            self.no_more(asked);
        }
    }

    fn no_more(&mut self, Asked { kind, guards, question, .. }: Asked) {
        for (tally, of) in question.uses() {
            self.counts.look_away(tally, of);
        }
        self.asking.change(&question, false);
        self.counts.ask(kind, false);
        self.counts.leave(kind, &guards);
    }

    /// What the pod expected under this key has to do with other nodes; nothing where none is.
    pub fn ties(&self, key: &str) -> Ties {
        let Some(asked) = self.questions.get(key) else { return Ties::default() };
        let Question { near, away, spread, mounts, .. } = &asked.question;
        Ties {
            looks_around: !(near.is_empty() && away.is_empty() && spread.is_empty()),
            keeps_away: !away.is_empty(),
            has_claims: !mounts.is_empty(),
        }
    }

    /// The pod counts as running on the node: it does, or it is decided. Once more for the same place is
    /// counted, and wants to be taken back as often.
    pub fn assume(&mut self, key: &str, node: &str) {
        self.assume_as(key, key, node);
    }

    /// Whether something of this name counts on the node.
    pub fn counts(&self, name: &str, node: &str) -> bool {
        self.seats.get(node).is_some_and(|seat| seat.pods.contains_key(name))
    }

    /// The pod expected under this key counts there, and is known by this name until it is forgotten.
    pub fn assume_as(&mut self, called: &str, key: &str, node: &str) {
        let Some(asked) = self.questions.get(key) else { return };
        let Asked { pod, kind, guards, question } = asked;
        let name = seat(&mut self.seats, node);
        let Some(seat) = self.seats.get_mut(&name) else { return };
        let known = seat.node.as_deref();
        if let Some(counted) = seat.pods.get_mut(called) {
            counted.times += 1;
            return self.counts.count_pod(counted, 1, &name, known, true);
        }
        let (ports, guards) = (question.ports.clone(), guards.clone());
        let (pod, kind, times, is_settled) = (Arc::clone(pod), *kind, 1, false);
        let counted = Counted { pod, kind, ports, guards, times, is_settled };
        self.counts.hold(counted.kind, &counted.guards);
        self.volumes.put(called, &counted.pod, known, node, true);
        self.lay(Arc::from(called), name, counted);
    }

    /// The pod runs on this node, and nowhere else: what was assumed of it is over.
    pub fn settle(&mut self, key: &str, node: &str, pod: &Arc<Pod>) {
        let is_only_here =
            self.places.get(key).is_some_and(|all| matches!(&**all, [one] if **one == *node));
        let here = self.seats.get_mut(node).and_then(|seat| seat.pods.get_mut(key));
        if let Some(counted) = here.filter(|counted| is_only_here && counted.times == 1)
            && counted.pod.labels() == pod.labels()
            && counted.pod.is_going() == pod.is_going()
        {
            counted.pod = Arc::clone(pod);
            counted.is_settled = true;
            return;
        }
        self.look_back();
        // What was promised to its claims lasts.
        let held = self.volumes.take(key, node);
        self.take_all(key);
        if let Some(held) = held {
            self.volumes.put_back(key, node, held);
        }
        let name = seat(&mut self.seats, node);
        let known = self.seats.get(&name).and_then(|seat| seat.node.as_deref());
        self.volumes.put(key, pod, known, node, false);
        let (kind, ports) = (self.counts.kind(pod), HostPort::of(pod));
        let guards = guards(pod).into_iter().map(|guard| self.counts.guard(guard)).collect();
        let (pod, times, is_settled) = (Arc::clone(pod), 1, true);
        let counted = Counted { pod, kind, ports, guards, times, is_settled };
        self.lay(Arc::from(key), name, counted);
        self.look_back();
    }

    /// One assumption less, if there is one: what is settled is none. Whether there was.
    pub fn forget(&mut self, key: &str, node: &str) -> bool {
        let Some((name, _)) = self.seats.get_key_value(node) else { return false };
        let name = Arc::clone(name);
        let Some(seat) = self.seats.get_mut(node) else { return false };
        let Some(counted) = seat.pods.get_mut(key) else { return false };
        if counted.is_settled && counted.times == 1 {
            return false;
        }
        if counted.times > 1 {
            counted.times -= 1;
            self.counts.count_pod(counted, 1, &name, seat.node.as_deref(), false);
        } else {
            self.take(key, node);
        }
        true
    }

    /// The pod is counted nowhere any more.
    pub fn clear(&mut self, key: &str) {
        if self.places.contains_key(key) {
            self.look_back();
            self.take_all(key);
            self.look_back();
        }
    }

    /// Nothing is assumed any more, and nobody is asked about; nodes and volumes stay.
    pub fn restart(&mut self) {
        for (name, seat) in &mut self.seats {
            for (key, _) in seat.pods.drain() {
                self.volumes.take(&key, name);
            }
        }
        self.seats.retain(|_, seat| seat.node.is_some());
        self.places.clear();
        self.questions.clear();
        self.counts.restart();
        self.asking = Asking::default();
        self.moved.clear();
        self.helps = false;
    }

    /// Which volumes the pod is to have, where it was assumed.
    pub fn volume_choices(&self, key: &str) -> Vec<VolumeChoice> {
        let node = self.places.get(key).and_then(|places| places.last());
        node.map(|node| self.volumes.choices(key, node)).unwrap_or_default()
    }

    /// The claims of a pod that is placed on the node which have no volume yet; an error where the pod
    /// cannot have one there, or is not placed there any more.
    pub fn missing_volumes(&self, key: &str, node: &str) -> Result<Vec<String>, String> {
        let seat = self.seats.get(node);
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

    /// As [`Self::check`], when these pods have left the node one after the other: how many of them have to,
    /// and at least `first`.
    pub fn check_without(
        &mut self,
        key: &str,
        node: &str,
        leaving: &[String],
        first: usize,
    ) -> Option<usize> {
        let mut lifted = Vec::new();
        let mut enough = None;
        for count in 0..=leaving.len() {
            if count >= first && self.check(key, node).is_ok() {
                enough = Some(count);
                break;
            }
            let Some(victim) = leaving.get(count) else { break };
            if let Some(victim) = self.lift(victim, node) {
                lifted.push(victim);
            }
        }
        for Lifted { key, name, counted, held } in lifted.into_iter().rev() {
            if let Some(held) = held {
                self.volumes.put_back(&key, &name, held);
            }
            self.lay(key, name, counted);
        }
        enough
    }

    fn take_all(&mut self, key: &str) {
        for node in self.places.get(key).cloned().unwrap_or_default() {
            self.take(key, &node);
        }
    }

    fn take(&mut self, key: &str, node: &str) {
        if let Some(Lifted { counted, .. }) = self.lift(key, node) {
            self.counts.leave(counted.kind, &counted.guards);
        }
    }

    /// Takes a pod off a node, as if it had never been there.
    fn lift(&mut self, key: &str, node: &str) -> Option<Lifted> {
        let name = Arc::clone(self.seats.get_key_value(node)?.0);
        let seat = self.seats.get_mut(node)?;
        let (key, counted) = seat.pods.remove_entry(key)?;
        self.counts.count_pod(&counted, counted.times, &name, seat.node.as_deref(), false);
        if seat.pods.is_empty() && seat.node.is_none() {
            self.seats.remove(node);
        }
        if let Some(places) = self.places.get_mut(&key) {
            places.retain(|place| *place != name);
            if places.is_empty() {
                self.places.remove(&key);
            }
        }
        self.moves(&key, &name, &counted, true);
        let held = self.volumes.take(&key, node);
        Some(Lifted { key, name, counted, held })
    }

    /// Puts a pod on a node where it is not, beside its volumes.
    fn lay(&mut self, key: Arc<str>, name: Arc<str>, counted: Counted) {
        self.moves(&key, &name, &counted, false);
        let seat = self.seats.entry(Arc::clone(&name)).or_default();
        self.counts.count_pod(&counted, counted.times, &name, seat.node.as_deref(), true);
        seat.pods.insert(Arc::clone(&key), counted);
        self.places.entry(key).or_default().push(name);
    }

    /// Keeps in mind where a pod was of which others may want something.
    fn moves(&mut self, key: &Arc<str>, node: &Arc<str>, counted: &Counted, was_there: bool) {
        let Asking { ports, claims } = &self.asking;
        let has_port = counted.ports.iter().any(|port| ports.contains_key(&port.number()));
        if has_port || !claims.is_empty() && counted.pod.claims().next().is_some() {
            self.moved.entry((Arc::clone(key), Arc::clone(node))).or_insert(was_there);
        }
    }
}

/// A pod that was taken off its node.
struct Lifted {
    key: Arc<str>,
    name: Arc<str>,
    counted: Counted,
    held: Option<Held>,
}

/// The name of a node of which something is to be counted.
fn seat(seats: &mut Seats, node: &str) -> Arc<str> {
    if let Some((name, _)) = seats.get_key_value(node) {
        return Arc::clone(name);
    }
    let name = Arc::from(node);
    seats.insert(Arc::clone(&name), Seat::default());
    name
}

/// Whether predicates cannot tell the nodes apart.
fn is_alike(one: &Node, other: &Node) -> bool {
    one.labels() == other.labels()
        && one.spec.taints == other.spec.taints
        && one.spec.unschedulable == other.spec.unschedulable
        && one.status.declared_features == other.status.declared_features
}

/// Whether the node takes no pod that it did not take before.
fn is_only_closed(before: &Node, after: &Node) -> bool {
    before.labels() == after.labels()
        && before.status.declared_features == after.status.declared_features
        && before.spec.taints.iter().all(|taint| after.spec.taints.contains(taint))
        && before.spec.unschedulable <= after.spec.unschedulable
}
