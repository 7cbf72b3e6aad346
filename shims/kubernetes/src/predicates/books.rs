//! Checks every count of a scene against a full recount.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::counts::Counts;
use super::expected::ExpectedUse;
use super::pod_kind::{PodKind, PodKindKey};
use super::scene::{CountedPod, NodeEntry, Scene};
use super::tally::Users;
use crate::objects::{Meta as _, Node, Pod};

impl Scene {
    /// Returns each placement as key and node. For tests and dumps.
    pub fn placed(&self) -> BTreeSet<(String, String)> {
        let of_seat = |(node, entry): (&Arc<str>, &NodeEntry)| -> Vec<_> {
            entry.pods.keys().map(|key| (key.to_string(), node.to_string())).collect()
        };
        self.entries.iter().flat_map(of_seat).collect()
    }

    /// Recounts everything and returns the differences.
    pub fn check_books(&self) -> Vec<String> {
        let mut wrong = self.check_places();
        wrong.extend(self.check_kinds());
        wrong.extend(self.check_tallies());
        wrong.extend(self.check_guard_books());
        wrong.extend(self.check_questions());
        wrong.extend(self.volumes.check_books());
        wrong
    }

    fn counted(&self) -> impl Iterator<Item = (&Arc<str>, Option<&Node>, &Arc<str>, &CountedPod)> {
        self.entries.iter().flat_map(|(name, entry)| {
            let node = entry.node.as_deref();
            entry.pods.iter().map(move |(key, counted)| (name, node, key, counted))
        })
    }

    /// Checks that `places` lists each counted pod once, and nothing else.
    fn check_places(&self) -> Vec<String> {
        let entries: BTreeSet<_> =
            self.counted().map(|(name, _, key, _)| (&**key, &**name)).collect();
        let listed =
            self.places.iter().flat_map(|(key, nodes)| nodes.iter().map(|it| (&**key, &**it)));
        let (count, listed): (usize, BTreeSet<_>) =
            (self.places.values().map(Vec::len).sum(), listed.collect());
        let mut wrong = Vec::new();
        if count != listed.len() {
            wrong.push("a place is known twice".to_owned());
        }
        for (key, node) in entries.symmetric_difference(&listed) {
            let is_there = entries.contains(&(*key, *node));
            wrong.push(format!("{key} is on {node}: {is_there}, and is said to be: {}", !is_there));
        }
        wrong
    }

    fn check_kinds(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut holders: FxHashMap<usize, (u32, u32)> = FxHashMap::default();
        let mut there: FxHashMap<usize, FxHashMap<Arc<str>, u32>> = FxHashMap::default();
        for (name, _, key, counted) in self.counted() {
            holders.entry(counted.kind).or_default().0 += 1;
            *there.entry(counted.kind).or_default().entry(Arc::clone(name)).or_default() +=
                counted.times;
            let of_kind = &self.counts.kinds[counted.kind].pod;
            if !is_alike(of_kind, &counted.pod) || counted.times == 0 {
                wrong.push(format!("{key} is of another kind, or there {} times", counted.times));
            }
        }
        for (key, asked) in &self.questions {
            let count = holders.entry(asked.kind).or_default();
            *count = (count.0 + 1, count.1 + 1);
            if !is_alike(&self.counts.kinds[asked.kind].pod, &asked.pod) {
                wrong.push(format!("{key} is asked about as another kind"));
            }
        }
        for (id, kind) in self.counts.kinds.iter() {
            if holders.remove(&id) != Some((kind.holders, kind.asked))
                || there.remove(&id).unwrap_or_default() != kind.there
            {
                wrong.push(format!("kind {id} is held, asked about or there otherwise: {kind:?}"));
            }
            let counts = self.counts.tallies.iter();
            let counts =
                counts.filter(|(_, it)| it.spec.counts(&kind.pod, &self.counts.namespaces));
            let counts: BTreeSet<_> = counts.map(|(id, _)| id).collect();
            let keep = self.counts.guards.iter().filter(|(_, guard_counts)| {
                let PodKind { pod, .. } = kind;
                guard_counts.guard.term.matches(
                    pod.namespace(),
                    pod.labels(),
                    &self.counts.namespaces,
                )
            });
            let keep: BTreeSet<_> = keep.map(|(id, _)| id).collect();
            let are = |known: &[usize], all: &BTreeSet<usize>| {
                known.len() == all.len() && known.iter().all(|id| all.contains(id))
            };
            if !are(&kind.tallies, &counts) || !are(&kind.guards, &keep) {
                wrong.push(format!("kind {id} is not counted or kept away as it should: {kind:?}"));
            }
        }
        if !holders.is_empty() {
            wrong.push(format!("kinds are held that are not there: {holders:?}"));
        }
        wrong
    }

    fn check_tallies(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let Counts { tallies, grounds, namespaces, .. } = &self.counts;
        for (id, tally) in tallies.iter() {
            let mut domains: BTreeMap<&str, u32> = BTreeMap::new();
            for (_, node, _, counted) in self.counted() {
                let Some(domain) = node.and_then(|node| tally.spec.domain(node)) else {
                    continue;
                };
                if tally.spec.counts(&counted.pod, namespaces) {
                    *domains.entry(domain).or_default() += counted.times;
                }
            }
            let mut by_pods: BTreeMap<u32, u32> = BTreeMap::new();
            for pods in domains.values().filter(|_| tally.spec.spread.is_some()) {
                *by_pods.entry(*pods).or_default() += 1;
            }
            let total = domains.values().sum();
            if tally.books() != (domains, &by_pods, total) {
                wrong.push(format!("tally {id} is counted wrong: {tally:?}"));
            }
            let is_its = |ground: usize| grounds[ground].tallies.contains(&id);
            if tally.ground.is_some() != tally.spec.spread.is_some()
                || !tally.ground.is_none_or(is_its)
            {
                wrong.push(format!("tally {id} has another ground: {tally:?}"));
            }
        }
        for (id, ground) in grounds.iter() {
            let mut nodes: FxHashMap<String, u32> = FxHashMap::default();
            for node in self.entries.values().filter_map(|entry| entry.node.as_ref()) {
                if let Some(domain) = ground.spec.domain(node) {
                    *nodes.entry(domain.to_owned()).or_default() += 1;
                }
            }
            let is_right = |tally: &usize| tallies[*tally].ground == Some(id);
            if nodes != ground.nodes || !ground.tallies.iter().all(is_right) {
                wrong.push(format!("ground {id} is counted wrong: {ground:?}"));
            }
        }
        wrong
    }

    fn check_guard_books(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (id, guard_counts) in self.counts.guards.iter() {
            let mut domains: FxHashMap<String, u32> = FxHashMap::default();
            let mut holders = 0;
            for (_, node, _, counted) in self.counted() {
                if !counted.guards.contains(&id) {
                    continue;
                }
                holders += 1;
                if let Some(domain) = node.and_then(|node| node.label(&guard_counts.guard.key)) {
                    *domains.entry(domain.to_owned()).or_default() += counted.times;
                }
            }
            let asked = self.questions.values();
            holders += asked.clone().filter(|asked| asked.guards.contains(&id)).count();
            let kept_away =
                asked.filter(|asked| self.counts.kinds[asked.kind].guards.contains(&id)).count();
            if domains != guard_counts.domains
                || u32::try_from(holders) != Ok(guard_counts.holders)
                || u32::try_from(kept_away) != Ok(guard_counts.asked)
            {
                wrong.push(format!("guard {id} is counted wrong: {guard_counts:?}"));
            }
        }
        wrong
    }

    fn check_questions(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut users: FxHashMap<usize, Users> = FxHashMap::default();
        let mut expected_use = ExpectedUse::default();
        for asked in self.questions.values() {
            for (tally, of) in asked.question.uses() {
                users.entry(tally).or_default()[of as usize] += 1;
            }
            expected_use.change(&asked.question, true);
        }
        for (id, tally) in self.counts.tallies.iter() {
            if users.remove(&id).unwrap_or_default() != tally.users {
                wrong.push(format!("tally {id} is looked at by others: {tally:?}"));
            }
        }
        if expected_use != self.expected_use {
            wrong.push(format!("{expected_use:?} is asked for instead of {:?}", self.expected_use));
        }
        wrong
    }
}

fn is_alike(one: &Arc<Pod>, other: &Arc<Pod>) -> bool {
    PodKindKey(Arc::clone(one)) == PodKindKey(Arc::clone(other))
}
