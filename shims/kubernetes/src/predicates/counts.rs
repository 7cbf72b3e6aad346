//! Which pods are counted by which rules, and which rules keep whom away.
//!
//! # How
//! Pods with the same labels in the same namespace are one [`Kind`]: whatever a rule says of one it says of
//! all. A kind knows the tallies that count it and the guards that keep it away, and how many of its pods are on which
//! node. So a pod that comes or goes is not compared with any rule, a check looks at no guard that is not
//! about the pod, and a rule that is new looks at kinds, not at pods; and neither looks at all of the others (see
//! [`index`](super::index)).
//!
//! # Who is helped
//! Of each tally and guard that somebody asks about it is remembered what it had in the domains that have
//! changed since [`Counts::helps`] was asked last. What came and went meanwhile helps nobody.
//!
//! # Invariants
//! * A kind is there while a pod of it is counted or asked about; a guard while a pod has it; a tally while
//!   it is asked about, and [`IDLE_TALLIES`] of them longer: pods of one kind come one after the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::index;
use super::kept::Kept;
use super::kind::{Alike, Kind};
use super::question::Guard;
use super::scene::{Counted, Seats};
use super::selectors::Labels;
use super::slots::Slots;
use super::tally::{Ground, SameGround, Tally, Use, Wanted};
use crate::objects::{Meta as _, Node, Pod};

/// Tallies that nobody looks at are kept up to this number.
const IDLE_TALLIES: usize = 256;

/// Who is counted by what.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) namespaces: BTreeMap<String, Labels>,
    pub(super) kinds: Slots<Kind>,
    known_kinds: FxHashMap<Alike, usize>,
    kind_index: index::Pods,
    pub(super) tallies: Slots<Tally>,
    known_tallies: FxHashMap<Arc<Wanted>, usize>,
    /// By their first term.
    tally_index: index::Rules,
    idle_tallies: usize,
    pub(super) grounds: Slots<Ground>,
    known_grounds: FxHashMap<SameGround, usize>,
    pub(super) guards: Slots<Kept>,
    known_guards: FxHashMap<Arc<Guard>, usize>,
    guard_index: index::Rules,
    /// Tallies of which something is remembered, and guards.
    changed_tallies: Vec<usize>,
    changed_guards: Vec<usize>,
    helps: bool,
}

fn remove(from: &mut Vec<usize>, id: usize) {
    from.retain(|other| *other != id);
}

impl Counts {
    /// Nothing is counted nor asked about any more.
    pub(super) fn restart(&mut self) {
        let namespaces = std::mem::take(&mut self.namespaces);
        *self = Self { namespaces, ..Self::default() };
    }

    /// The kind of a pod, which is held once more.
    pub(super) fn kind(&mut self, pod: &Arc<Pod>) -> usize {
        if let Some(id) = self.known_kinds.get(&Alike(Arc::clone(pod))) {
            self.kinds[*id].holders += 1;
            return *id;
        }
        let (namespace, labels) = (pod.namespace(), pod.labels());
        let mut tallies = self.tally_index.about(namespace, labels);
        tallies.retain(|id| self.tallies[*id].wanted.counts(pod, &self.namespaces));
        let mut guards = self.guard_index.about(namespace, labels);
        guards.retain(|id| self.keeps_away(*id, pod));
        let (pod, there) = (Arc::clone(pod), FxHashMap::default());
        let id = self.kinds.insert(Kind { pod, holders: 1, asked: 0, there, tallies, guards });
        let pod = &self.kinds[id].pod;
        self.known_kinds.insert(Alike(Arc::clone(pod)), id);
        self.kind_index.insert(id, pod.namespace(), pod.labels());
        id
    }

    /// One more holds the kind and the guards.
    pub(super) fn hold(&mut self, kind: usize, guards: &[usize]) {
        self.kinds[kind].holders += 1;
        for guard in guards {
            self.guards[*guard].holders += 1;
        }
    }

    /// One holds them no more.
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
            && let Some(Kind { pod, .. }) = self.kinds.remove(id)
        {
            self.kind_index.remove(id, pod.namespace(), pod.labels());
            self.known_kinds.remove(&Alike(pod));
        }
    }

    fn keeps_away(&self, guard: usize, pod: &Pod) -> bool {
        let term = &self.guards[guard].guard.term;
        term.matches(pod.namespace(), pod.labels(), &self.namespaces)
    }

    /// A term of a pod that is there, which is held once more.
    pub(super) fn guard(&mut self, guard: Guard) -> usize {
        if let Some(id) = self.known_guards.get(&guard) {
            self.guards[*id].holders += 1;
            return *id;
        }
        let guard = Arc::new(guard);
        let id = self.guards.insert(Kept::new(Arc::clone(&guard)));
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
        let kept = &mut self.guards[id];
        kept.holders -= 1;
        // What somebody may be helped by is looked at first.
        if kept.holders == 0 && !kept.has_changed() {
            self.drop_guard(id);
        }
    }

    fn drop_guard(&mut self, id: usize) {
        let Some(Kept { guard, .. }) = self.guards.remove(id) else { return };
        for kind in self.kind_index.matching(&guard.term) {
            remove(&mut self.kinds[kind].guards, id);
        }
        self.guard_index.remove(id, &guard.term);
        self.known_guards.remove(&guard);
    }

    /// The number of the tally, which is counted where it is new.
    pub(super) fn tally(&mut self, wanted: Wanted, seats: &Seats) -> usize {
        if let Some(id) = self.known_tallies.get(&wanted) {
            return *id;
        }
        let wanted = Arc::new(wanted);
        let ground = wanted.spread.is_some().then(|| self.ground(&wanted, seats));
        let id = self.tallies.insert(Tally::new(Arc::clone(&wanted), ground));
        self.idle_tallies += 1;
        if let Some(ground) = ground {
            self.grounds[ground].tallies.push(id);
        }
        let term = wanted.terms.first();
        for kind in term.map(|term| self.kind_index.matching(term)).unwrap_or_default() {
            let kind = &mut self.kinds[kind];
            if wanted.counts(&kind.pod, &self.namespaces) {
                kind.tallies.push(id);
                count_kind(kind, &mut self.tallies[id], true, seats);
            }
        }
        if let Some(term) = term {
            self.tally_index.insert(id, term);
        }
        self.known_tallies.insert(wanted, id);
        id
    }

    fn ground(&mut self, wanted: &Arc<Wanted>, seats: &Seats) -> usize {
        if let Some(id) = self.known_grounds.get(&SameGround(Arc::clone(wanted))) {
            return *id;
        }
        let mut nodes: FxHashMap<String, u32> = FxHashMap::default();
        for node in seats.values().filter_map(|seat| seat.node.as_ref()) {
            if let Some(domain) = wanted.domain(node) {
                *nodes.entry(domain.to_owned()).or_default() += 1;
            }
        }
        let ground = Ground { wanted: Arc::clone(wanted), nodes, tallies: Vec::new() };
        let id = self.grounds.insert(ground);
        self.known_grounds.insert(SameGround(Arc::clone(wanted)), id);
        id
    }

    /// How many domains with nodes a tally has.
    pub(super) fn domains(&self, tally: &Tally) -> usize {
        tally.ground.map_or(0, |id| self.grounds[id].nodes.len())
    }

    /// A question looks at the tally.
    pub(super) fn look_at(&mut self, tally: usize, of: Use) {
        let tally = &mut self.tallies[tally];
        if !tally.is_used() {
            self.idle_tallies -= 1;
        }
        tally.users[of as usize] += 1;
    }

    pub(super) fn look_away(&mut self, tally: usize, of: Use) {
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
        let Some(Tally { wanted, ground, .. }) = self.tallies.remove(id) else { return };
        remove(&mut self.changed_tallies, id);
        if let Some(term) = wanted.terms.first() {
            for kind in self.kind_index.matching(term) {
                remove(&mut self.kinds[kind].tallies, id);
            }
            self.tally_index.remove(id, term);
        }
        if let Some(number) = ground {
            let ground = &mut self.grounds[number];
            remove(&mut ground.tallies, id);
            if ground.tallies.is_empty() {
                self.known_grounds.remove(&SameGround(Arc::clone(&wanted)));
                self.grounds.remove(number);
            }
        }
        self.known_tallies.remove(&wanted);
    }

    /// A question is about a pod of the kind, or is not any more.
    pub(super) fn ask(&mut self, kind: usize, comes: bool) {
        let change = |count: &mut u32| if comes { *count += 1 } else { *count -= 1 };
        let kind = &mut self.kinds[kind];
        change(&mut kind.asked);
        for guard in &kind.guards {
            change(&mut self.guards[*guard].asked);
        }
    }

    /// A pod comes to a node, or goes from it; of a held place, so many of them.
    pub(super) fn count_pod(
        &mut self,
        pod: &Counted,
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

    /// A node comes with all that is on it, or goes.
    pub(super) fn count_node<'p>(
        &mut self,
        node: &Node,
        pods: impl Iterator<Item = &'p Counted>,
        comes: bool,
    ) {
        // Where there are pods there is a node.
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
            let Some(domain) = ground.wanted.domain(node) else { continue };
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

    fn count(&mut self, pod: &Counted, times: u32, node: &Node, comes: bool) {
        for id in &self.kinds[pod.kind].tallies {
            let tally = &mut self.tallies[*id];
            let Some(domain) = tally.wanted.domain(node) else { continue };
            let grounds = tally.ground.map_or(0, |id| self.grounds[id].nodes.len());
            if tally.note(Some(domain), grounds) {
                self.changed_tallies.push(*id);
            }
            tally.count(domain, times, comes);
        }
        for id in &pod.guards {
            let kept = &mut self.guards[*id];
            let Some(domain) = node.label(&kept.guard.key) else { continue };
            if kept.note(domain) {
                self.changed_guards.push(*id);
            }
            kept.count(domain, times, comes);
        }
    }

    /// The labels of a namespace; `None` when it is gone.
    pub(super) fn set_namespace(&mut self, name: &str, labels: Option<Labels>, seats: &Seats) {
        if self.namespaces.get(name) == labels.as_ref() {
            return;
        }
        match labels {
            Some(labels) => drop(self.namespaces.insert(name.to_owned(), labels)),
            None => drop(self.namespaces.remove(name)),
        }
        // Whom a term with a selector of namespaces is about has changed.
        let kinds = self.kind_index.of_namespace(name);
        for id in self.tally_index.by_namespace_labels() {
            let wanted = Arc::clone(&self.tallies[id].wanted);
            for kind in &kinds {
                let kind = &mut self.kinds[*kind];
                let counts = wanted.counts(&kind.pod, &self.namespaces);
                if counts == kind.tallies.contains(&id) {
                    continue;
                }
                let tally = &mut self.tallies[id];
                self.helps |= tally.is_used();
                count_kind(kind, tally, counts, seats);
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
                let kept = &mut self.guards[id];
                if keeps_away == kind.guards.contains(&id) {
                    continue;
                }
                if keeps_away {
                    kind.guards.push(id);
                    kept.asked += kind.asked;
                } else {
                    remove(&mut kind.guards, id);
                    kept.asked -= kind.asked;
                    self.helps |= kind.asked > 0;
                }
            }
        }
    }

    /// Whether somebody who is asked about, and was refused, may pass by what has changed since this was
    /// asked last.
    pub(super) fn helps(&mut self) -> bool {
        let mut helps = std::mem::take(&mut self.helps);
        for id in std::mem::take(&mut self.changed_tallies) {
            let tally = &self.tallies[id];
            let domains = self.domains(tally);
            helps |= self.tallies[id].helps(domains);
        }
        for id in std::mem::take(&mut self.changed_guards) {
            helps |= self.guards[id].helps();
            if self.guards[id].holders == 0 {
                self.drop_guard(id);
            }
        }
        helps
    }
}

/// All pods of a kind come to a tally, or leave it.
fn count_kind(kind: &Kind, tally: &mut Tally, comes: bool, seats: &Seats) {
    let wanted = Arc::clone(&tally.wanted);
    for (name, pods) in &kind.there {
        let node = seats.get(name).and_then(|seat| seat.node.as_ref());
        if let Some(domain) = node.and_then(|node| wanted.domain(node)) {
            tally.count(domain, *pods, comes);
        }
    }
}
