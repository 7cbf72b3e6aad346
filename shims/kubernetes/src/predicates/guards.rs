//! Anti-affinity terms of pods on nodes, which keep other pods away.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::question::Guard;

/// An anti-affinity term of pods on nodes, with the domains that it guards.
#[derive(Debug)]
pub(super) struct GuardCounts {
    pub(super) guard: Arc<Guard>,
    /// Number of pods and questions with the term.
    pub(super) holders: u32,
    /// Number of questions about pods that it keeps away.
    pub(super) asked: u32,
    /// Number of its pods in each domain; absent if 0.
    pub(super) domains: FxHashMap<String, u32>,
    /// Changed domains, with whether they had pods before.
    before: FxHashMap<String, bool>,
}

impl GuardCounts {
    /// Makes a guard with one holder and no pods.
    pub(super) fn new(guard: Arc<Guard>) -> Self {
        let (domains, before) = (FxHashMap::default(), FxHashMap::default());
        Self { guard, holders: 1, asked: 0, domains, before }
    }

    /// Adds pods with the term to the domain, or removes them.
    pub(super) fn count(&mut self, domain: &str, pods: u32, comes: bool) {
        let before = self.domains.get(domain).copied().unwrap_or(0);
        let after = if comes { before + pods } else { before.saturating_sub(pods) };
        if after == 0 {
            self.domains.remove(domain);
        } else if let Some(count) = self.domains.get_mut(domain) {
            *count = after;
        } else {
            self.domains.insert(domain.to_owned(), after);
        }
    }

    /// Remembers the domain before its pods change. Returns whether it is the first change since
    /// the last call of [`Self::take_unblocked`].
    pub(super) fn note(&mut self, domain: &str) -> bool {
        let is_first = self.before.is_empty();
        if self.asked == 0 || self.before.contains_key(domain) {
            return false;
        }
        let had_some = self.domains.contains_key(domain);
        self.before.insert(domain.to_owned(), had_some);
        is_first
    }

    /// Returns whether changes are remembered.
    pub(super) fn has_changed(&self) -> bool {
        !self.before.is_empty()
    }

    /// Returns whether a pod that was kept away may pass since the last call.
    pub(super) fn take_unblocked(&mut self) -> bool {
        let before = std::mem::take(&mut self.before);
        let is_free = |(domain, had): (String, bool)| had && !self.domains.contains_key(&domain);
        self.asked > 0 && before.into_iter().any(is_free)
    }
}
