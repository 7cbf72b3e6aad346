//! Terms of pods that are there, which keep others away.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::question::Guard;

/// A term of pods that are there, which keeps others away.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) guard: Arc<Guard>,
    /// Pods that have it.
    pub(super) holders: u32,
    /// Questions about pods that it keeps away.
    pub(super) asked: u32,
    /// How many of its pods each domain has; none has none.
    pub(super) domains: FxHashMap<String, u32>,
    /// Domains that have changed, and whether they had any before.
    before: FxHashMap<String, bool>,
}

impl Kept {
    /// One that somebody has, and that is nowhere yet.
    pub(super) fn new(guard: Arc<Guard>) -> Self {
        let (domains, before) = (FxHashMap::default(), FxHashMap::default());
        Self { guard, holders: 1, asked: 0, domains, before }
    }

    /// Pods that have it come to, or go from, this domain.
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

    /// The pods of this domain are about to change. Returns whether it is the first change since
    /// [`Self::helps`] was asked.
    pub(super) fn note(&mut self, domain: &str) -> bool {
        let is_first = self.before.is_empty();
        if self.asked == 0 || self.before.contains_key(domain) {
            return false;
        }
        let had_some = self.domains.contains_key(domain);
        self.before.insert(domain.to_owned(), had_some);
        is_first
    }

    /// Whether something is remembered of it.
    pub(super) fn has_changed(&self) -> bool {
        !self.before.is_empty()
    }

    /// Whether somebody whom it kept away may pass since this was asked last.
    pub(super) fn helps(&mut self) -> bool {
        let before = std::mem::take(&mut self.before);
        let is_free = |(domain, had): (String, bool)| had && !self.domains.contains_key(&domain);
        self.asked > 0 && before.into_iter().any(is_free)
    }
}
