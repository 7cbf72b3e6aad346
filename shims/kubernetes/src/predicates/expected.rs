//! Pods about which predicates may be asked, and how they relate to other nodes.

use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::Arc;

use monoceros_actors::Fits;
use rustc_hash::FxHashMap;

use super::question::{Question, compile, guards};
use super::scene::Scene;
use crate::objects::Pod;

/// The relation of a pod, and of the answer about it, to other nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ties {
    /// Whether pods elsewhere affect the answer: by affinity, anti-affinity or spread.
    pub looks_around: bool,
    /// Whether the pod keeps others away from its domain.
    pub keeps_away: bool,
    /// Whether the pod has claims. Other pods may use them, and other claims may get the volumes
    /// that the pod would get.
    pub has_claims: bool,
}

/// An expected pod, about which predicates may be asked.
#[derive(Debug)]
pub(super) struct ExpectedPod {
    pub(super) pod: Arc<Pod>,
    pub(super) kind: usize,
    /// Its anti-affinity terms.
    pub(super) guards: Vec<usize>,
    pub(super) question: Question,
}

/// Ports and claims of expected pods.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ExpectedUse {
    /// Number of expected pods for each port number.
    pub(super) ports: FxHashMap<i32, u32>,
    /// Number of expected pods for each claim, by `namespace/name`.
    pub(super) claims: FxHashMap<String, u32>,
}

impl ExpectedUse {
    pub(super) fn change(&mut self, question: &Question, comes: bool) {
        for port in &question.ports {
            count(&mut self.ports, &port.number(), comes);
        }
        for claim in &question.mounts {
            count(&mut self.claims, &claim.key, comes);
        }
    }
}

/// Adds one to the number of a key, or takes one off. A key without any has no entry.
fn count<K, Q>(all: &mut FxHashMap<K, u32>, key: &Q, comes: bool)
where
    K: Borrow<Q> + Eq + Hash,
    Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
{
    match all.get_mut(key) {
        Some(number) if comes => *number += 1,
        Some(number) if *number > 1 => *number -= 1,
        Some(_) => drop(all.remove(key)),
        None if comes => drop(all.insert(key.to_owned(), 1)),
        None => debug_assert!(false, "an expected pod was counted before it is dismissed"),
    }
}

impl Scene {
    /// Expects questions about the pod under this key.
    pub fn expect(&mut self, key: &str, pod: Arc<Pod>) {
        let kind = self.counts.kind(&pod);
        let guards = guards(&pod).into_iter().map(|guard| self.counts.guard(guard)).collect();
        let question = compile(&pod, |spec| self.counts.tally(spec, &self.entries));
        self.counts.ask(kind, true);
        for (tally, of) in question.uses() {
            self.counts.add_user(tally, of);
        }
        self.expected_use.change(&question, true);
        let asked = ExpectedPod { pod, kind, guards, question };
        if let Some(old) = self.questions.remove(key) {
            // The changed pod itself may pass now.
            self.unblocked |= old.kind != asked.kind || old.question != asked.question;
            self.drop_question(old);
        }
        self.questions.insert(key.to_owned(), asked);
    }

    /// Returns which nodes the pod expected under this key may use by their own properties. If they
    /// are not counted yet, requests the count.
    pub fn fits(&mut self, key: &str) -> Fits {
        let Some(asked) = self.questions.get(key) else { return Fits::Unknown };
        self.node_results.ask(&asked.question.node, &self.entries)
    }

    /// Returns whether a result of [`Self::fits`] is incomplete.
    pub fn has_to_count(&self) -> bool {
        self.node_results.has_work()
    }

    /// Continues the counts for [`Self::fits`], for less than a millisecond. Returns the number of
    /// nodes checked.
    pub fn count_fits(&mut self) -> usize {
        self.node_results.count(&self.entries)
    }

    /// Returns whether a pod is expected under this key.
    pub fn expects(&self, key: &str) -> bool {
        self.questions.contains_key(key)
    }

    /// Expects no more questions about the pod.
    pub fn dismiss(&mut self, key: &str) {
        if let Some(asked) = self.questions.remove(key) {
            self.drop_question(asked);
        }
    }

    fn drop_question(&mut self, ExpectedPod { kind, guards, question, .. }: ExpectedPod) {
        for (tally, of) in question.uses() {
            self.counts.remove_user(tally, of);
        }
        self.expected_use.change(&question, false);
        self.counts.ask(kind, false);
        self.counts.leave(kind, &guards);
    }

    /// Returns how the pod expected under this key relates to other nodes.
    pub fn ties(&self, key: &str) -> Ties {
        let Some(asked) = self.questions.get(key) else { return Ties::default() };
        let Question { near, away, spread, mounts, .. } = &asked.question;
        Ties {
            looks_around: !(near.is_empty() && away.is_empty() && spread.is_empty()),
            keeps_away: !away.is_empty(),
            has_claims: !mounts.is_empty(),
        }
    }
}
