//! Index of pods by the rules that count them, and of rules that keep pods away.
//!
//! # How
//! Pods with the same labels in the same namespace are one [`PodKind`], since a rule treats them
//! alike. A kind knows the tallies that count it, the guards that keep it away, and how many of its
//! pods are on each node. So a pod that is added or removed is compared with no rule, a check reads
//! only the guards about its pod, and a new rule is compared with kinds instead of pods. An
//! [`index`](super::index) keeps new kinds and new rules from being compared with all others.
//!
//! # Unblocked pods
//! For each tally and guard in use, the counts of changed domains are remembered as they were when
//! [`Counts::take_unblocked`] was last called. A pod that was added and removed in between unblocks
//! no pod.
//!
//! # Invariants
//! * A kind exists while one of its pods is counted or expected, and a guard while a pod has it. A
//!   tally exists while a question uses it; [`IDLE_TALLIES`] of them are kept longer, since pods of
//!   one kind come one after the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::guards::GuardCounts;
use super::index;
use super::pod_kind::{PodKind, PodKindKey};
use super::question::Guard;
use super::scene::{CountedPod, NodeEntries};
use super::selectors::Labels;
use super::slots::Slots;
use super::tally::{Ground, SameGround, Tally, TallySpec, Use};
use crate::objects::{Meta as _, Node, Pod};

/// Most tallies kept without a user.
const IDLE_TALLIES: usize = 256;

/// Kinds, tallies and guards, and how they relate.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) namespaces: BTreeMap<String, Labels>,
    pub(super) kinds: Slots<PodKind>,
    known_kinds: FxHashMap<PodKindKey, usize>,
    kind_index: index::Pods,
    pub(super) tallies: Slots<Tally>,
    known_tallies: FxHashMap<Arc<TallySpec>, usize>,
    /// Tallies by their first term.
    tally_index: index::Rules,
    idle_tallies: usize,
    pub(super) grounds: Slots<Ground>,
    known_grounds: FxHashMap<SameGround, usize>,
    pub(super) guards: Slots<GuardCounts>,
    known_guards: FxHashMap<Arc<Guard>, usize>,
    guard_index: index::Rules,
    /// Tallies and guards with remembered counts.
    changed_tallies: Vec<usize>,
    changed_guards: Vec<usize>,
    unblocked: bool,
}

fn remove(from: &mut Vec<usize>, id: usize) {
    from.retain(|other| *other != id);
}

impl Counts {
    /// Drops all counts and rules.
    pub(super) fn restart(&mut self) {
        let namespaces = std::mem::take(&mut self.namespaces);
        *self = Self { namespaces, ..Self::default() };
    }

    /// Returns the kind of a pod, with one more holder.
    pub(super) fn kind(&mut self, pod: &Arc<Pod>) -> usize {
        if let Some(id) = self.known_kinds.get(&PodKindKey(Arc::clone(pod))) {
            self.kinds[*id].holders += 1;
            return *id;
        }
        let (namespace, labels) = (pod.namespace(), pod.labels());
        let mut tallies = self.tally_index.about(namespace, labels);
        tallies.retain(|id| self.tallies[*id].spec.counts(pod, &self.namespaces));
        let mut guards = self.guard_index.about(namespace, labels);
        guards.retain(|id| self.keeps_away(*id, pod));
        let (pod, there) = (Arc::clone(pod), FxHashMap::default());
        let id = self.kinds.insert(PodKind { pod, holders: 1, asked: 0, there, tallies, guards });
        let pod = &self.kinds[id].pod;
        self.known_kinds.insert(PodKindKey(Arc::clone(pod)), id);
        self.kind_index.insert(id, pod.namespace(), pod.labels());
        id
    }

    /// Adds a holder to the kind and the guards.
    pub(super) fn hold(&mut self, kind: usize, guards: &[usize]) {
        self.kinds[kind].holders += 1;
        for guard in guards {
            self.guards[*guard].holders += 1;
        }
    }

    /// Removes a holder from the kind and the guards.
    pub(super) fn leave(&mut self, kind: usize, guards: &[usize]) {
        self.leave_kind(kind);
        for guard in guards {
            self.leave_guard(*guard);
        }
    }

    fn leave_kind(&mut self, id: usize) {
        let kind = &mut self.kinds[id];
        kind.holders -= 1;
        if kind.holders == 0
            && let Some(PodKind { pod, .. }) = self.kinds.remove(id)
        {
            self.kind_index.remove(id, pod.namespace(), pod.labels());
            self.known_kinds.remove(&PodKindKey(pod));
        }
    }

    fn keeps_away(&self, guard: usize, pod: &Pod) -> bool {
        let term = &self.guards[guard].guard.term;
        term.matches(pod.namespace(), pod.labels(), &self.namespaces)
    }

    /// Returns the guard of a term, with one more holder.
    pub(super) fn guard(&mut self, guard: Guard) -> usize {
        if let Some(id) = self.known_guards.get(&guard) {
            self.guards[*id].holders += 1;
            return *id;
        }
        let guard = Arc::new(guard);
        let id = self.guards.insert(GuardCounts::new(Arc::clone(&guard)));
        for kind in self.kind_index.matching(&guard.term) {
            if self.keeps_away(id, &self.kinds[kind].pod) {
                let kind = &mut self.kinds[kind];
                kind.guards.push(id);
                self.guards[id].asked += kind.asked;
            }
        }
        self.guard_index.insert(id, &guard.term);
        self.known_guards.insert(guard, id);
        id
    }

    fn leave_guard(&mut self, id: usize) {
        let guard_counts = &mut self.guards[id];
        guard_counts.holders -= 1;
        // A guard with remembered counts is dropped by the next call of `take_unblocked`.
        if guard_counts.holders == 0 && !guard_counts.has_changed() {
            self.drop_guard(id);
        }
    }

    fn drop_guard(&mut self, id: usize) {
        let Some(GuardCounts { guard, .. }) = self.guards.remove(id) else { return };
        for kind in self.kind_index.matching(&guard.term) {
            remove(&mut self.kinds[kind].guards, id);
        }
        self.guard_index.remove(id, &guard.term);
        self.known_guards.remove(&guard);
    }

    /// Returns the tally, which is made and counted if it is new.
    pub(super) fn tally(&mut self, spec: TallySpec, entries: &NodeEntries) -> usize {
        if let Some(id) = self.known_tallies.get(&spec) {
            return *id;
        }
        let spec = Arc::new(spec);
        let ground = spec.spread.is_some().then(|| self.ground(&spec, entries));
        let id = self.tallies.insert(Tally::new(Arc::clone(&spec), ground));
        self.idle_tallies += 1;
        if let Some(ground) = ground {
            self.grounds[ground].tallies.push(id);
        }
        let term = spec.terms.first();
        for kind in term.map(|term| self.kind_index.matching(term)).unwrap_or_default() {
            let kind = &mut self.kinds[kind];
            if spec.counts(&kind.pod, &self.namespaces) {
                kind.tallies.push(id);
                count_kind(kind, &mut self.tallies[id], true, entries);
            }
        }
        if let Some(term) = term {
            self.tally_index.insert(id, term);
        }
        self.known_tallies.insert(spec, id);
        id
    }

    fn ground(&mut self, spec: &Arc<TallySpec>, entries: &NodeEntries) -> usize {
        if let Some(id) = self.known_grounds.get(&SameGround(Arc::clone(spec))) {
            return *id;
        }
        let mut nodes: FxHashMap<String, u32> = FxHashMap::default();
        for node in entries.values().filter_map(|entry| entry.node.as_ref()) {
            if let Some(domain) = spec.domain(node) {
                *nodes.entry(domain.to_owned()).or_default() += 1;
            }
        }
        let ground = Ground { spec: Arc::clone(spec), nodes, tallies: Vec::new() };
        let id = self.grounds.insert(ground);
        self.known_grounds.insert(SameGround(Arc::clone(spec)), id);
        id
    }

    /// Returns the number of domains with nodes.
    pub(super) fn domains(&self, tally: &Tally) -> usize {
        tally.ground.map_or(0, |id| self.grounds[id].nodes.len())
    }

    /// Adds a question to the users of the tally.
    pub(super) fn add_user(&mut self, tally: usize, of: Use) {
        let tally = &mut self.tallies[tally];
        if !tally.is_used() {
            self.idle_tallies -= 1;
        }
        tally.users[of as usize] += 1;
    }

    pub(super) fn remove_user(&mut self, tally: usize, of: Use) {
        let tally = &mut self.tallies[tally];
        tally.users[of as usize] -= 1;
        if tally.is_used() {
            return;
        }
        self.idle_tallies += 1;
        if self.idle_tallies > IDLE_TALLIES {
            let idle = self.tallies.iter().filter(|(_, tally)| !tally.is_used());
            for id in idle.map(|(id, _)| id).collect::<Vec<_>>() {
                self.drop_tally(id);
            }
            self.idle_tallies = 0;
        }
    }

    fn drop_tally(&mut self, id: usize) {
        let Some(Tally { spec, ground, .. }) = self.tallies.remove(id) else { return };
        remove(&mut self.changed_tallies, id);
        if let Some(term) = spec.terms.first() {
            for kind in self.kind_index.matching(term) {
                remove(&mut self.kinds[kind].tallies, id);
            }
            self.tally_index.remove(id, term);
        }
        if let Some(number) = ground {
            let ground = &mut self.grounds[number];
            remove(&mut ground.tallies, id);
            if ground.tallies.is_empty() {
                self.known_grounds.remove(&SameGround(Arc::clone(&spec)));
                self.grounds.remove(number);
            }
        }
        self.known_tallies.remove(&spec);
    }

    /// Counts a question about a pod of the kind, or its end.
    pub(super) fn ask(&mut self, kind: usize, comes: bool) {
        let change = |count: &mut u32| if comes { *count += 1 } else { *count -= 1 };
        let kind = &mut self.kinds[kind];
        change(&mut kind.asked);
        for guard in &kind.guards {
            change(&mut self.guards[*guard].asked);
        }
    }

    /// Counts a pod on a node, or its removal. `times` is more than 1 for held places.
    pub(super) fn count_pod(
        &mut self,
        pod: &CountedPod,
        times: u32,
        name: &Arc<str>,
        node: Option<&Node>,
        comes: bool,
    ) {
        let there = &mut self.kinds[pod.kind].there;
        if comes {
            *there.entry(Arc::clone(name)).or_default() += times;
        } else if let Some(count) = there.get_mut(name) {
            *count -= times;
            if *count == 0 {
                there.remove(name);
            }
        }
        if let Some(node) = node {
            self.count(pod, times, node, comes);
        }
    }

    /// Counts a node with its pods, or its removal.
    pub(super) fn count_node<'p>(
        &mut self,
        node: &Node,
        pods: impl Iterator<Item = &'p CountedPod>,
        comes: bool,
    ) {
        // A domain with pods has a node, so nodes are added before and removed after them.
        if comes {
            self.count_ground(node, true);
        }
        for pod in pods {
            self.count(pod, pod.times, node, comes);
        }
        if !comes {
            self.count_ground(node, false);
        }
    }

    fn count_ground(&mut self, node: &Node, comes: bool) {
        for (_, ground) in self.grounds.iter_mut() {
            let Some(domain) = ground.spec.domain(node) else { continue };
            let before = ground.nodes.get(domain).copied().unwrap_or(0);
            let after = if comes { before + 1 } else { before.saturating_sub(1) };
            if before == 0 || after == 0 {
                for id in &ground.tallies {
                    if self.tallies[*id].note(None, ground.nodes.len()) {
                        self.changed_tallies.push(*id);
                    }
                }
            }
            if after == 0 {
                ground.nodes.remove(domain);
            } else if let Some(count) = ground.nodes.get_mut(domain) {
                *count = after;
            } else {
                ground.nodes.insert(domain.to_owned(), after);
            }
        }
    }

    fn count(&mut self, pod: &CountedPod, times: u32, node: &Node, comes: bool) {
        for id in &self.kinds[pod.kind].tallies {
            let tally = &mut self.tallies[*id];
            let Some(domain) = tally.spec.domain(node) else { continue };
            let grounds = tally.ground.map_or(0, |id| self.grounds[id].nodes.len());
            if tally.note(Some(domain), grounds) {
                self.changed_tallies.push(*id);
            }
            tally.count(domain, times, comes);
        }
        for id in &pod.guards {
            let guard_counts = &mut self.guards[*id];
            let Some(domain) = node.label(&guard_counts.guard.key) else { continue };
            if guard_counts.note(domain) {
                self.changed_guards.push(*id);
            }
            guard_counts.count(domain, times, comes);
        }
    }

    /// Sets the labels of a namespace; `None` removes it.
    pub(super) fn set_namespace(
        &mut self,
        name: &str,
        labels: Option<Labels>,
        entries: &NodeEntries,
    ) {
        if self.namespaces.get(name) == labels.as_ref() {
            return;
        }
        match labels {
            Some(labels) => drop(self.namespaces.insert(name.to_owned(), labels)),
            None => drop(self.namespaces.remove(name)),
        }
        // Terms with a namespace selector may now match other pods.
        let kinds = self.kind_index.of_namespace(name);
        for id in self.tally_index.by_namespace_labels() {
            let spec = Arc::clone(&self.tallies[id].spec);
            for kind in &kinds {
                let kind = &mut self.kinds[*kind];
                let counts = spec.counts(&kind.pod, &self.namespaces);
                if counts == kind.tallies.contains(&id) {
                    continue;
                }
                let tally = &mut self.tallies[id];
                self.unblocked |= tally.is_used();
                count_kind(kind, tally, counts, entries);
                if counts {
                    kind.tallies.push(id);
                } else {
                    remove(&mut kind.tallies, id);
                }
            }
        }
        for id in self.guard_index.by_namespace_labels() {
            for number in &kinds {
                let keeps_away = self.keeps_away(id, &self.kinds[*number].pod);
                let kind = &mut self.kinds[*number];
                let guard_counts = &mut self.guards[id];
                if keeps_away == kind.guards.contains(&id) {
                    continue;
                }
                if keeps_away {
                    kind.guards.push(id);
                    guard_counts.asked += kind.asked;
                } else {
                    remove(&mut kind.guards, id);
                    guard_counts.asked -= kind.asked;
                    self.unblocked |= kind.asked > 0;
                }
            }
        }
    }

    /// Returns whether anything has changed since the last call of [`Self::take_unblocked`] that it has
    /// to evaluate.
    pub(super) fn has_changes(&self) -> bool {
        self.unblocked || !self.changed_tallies.is_empty() || !self.changed_guards.is_empty()
    }

    /// Returns whether a change since the last call may let a refused pod pass.
    pub(super) fn take_unblocked(&mut self) -> bool {
        let mut unblocked = std::mem::take(&mut self.unblocked);
        for id in std::mem::take(&mut self.changed_tallies) {
            let tally = &self.tallies[id];
            let domains = self.domains(tally);
            unblocked |= self.tallies[id].take_unblocked(domains);
        }
        for id in std::mem::take(&mut self.changed_guards) {
            unblocked |= self.guards[id].take_unblocked();
            if self.guards[id].holders == 0 {
                self.drop_guard(id);
            }
        }
        unblocked
    }
}

/// Adds all pods of a kind to a tally, or removes them.
fn count_kind(kind: &PodKind, tally: &mut Tally, comes: bool, entries: &NodeEntries) {
    let spec = Arc::clone(&tally.spec);
    for (name, pods) in &kind.there {
        let node = entries.get(name).and_then(|entry| entry.node.as_ref());
        if let Some(domain) = node.and_then(|node| spec.domain(node)) {
            tally.count(domain, *pods, comes);
        }
    }
}
