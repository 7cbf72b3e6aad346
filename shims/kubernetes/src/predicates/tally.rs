//! Pods that some rule is about, counted by domain.
//!
//! A domain is the nodes with one value of a label. A tally knows how many pods each domain has that
//! match all of its terms, and for rules of spread how many of the nodes count, and how many domains have
//! how many pods: so the least is found without a look at all of them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use rustc_hash::FxHashMap;

use super::node::{NodeFilter, untolerated};
use super::selectors::{Labels, PodTerm};
use crate::objects::{Meta as _, Node};

/// What is counted. Equal ones are one tally.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    /// Pods that match each of them.
    pub(super) terms: Vec<PodTerm>,
    /// The label whose values are domains.
    pub(super) key: String,
    /// For rules of spread: which nodes count.
    pub(super) spread: Option<Eligible>,
}

/// Which nodes count for a rule of spread.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Eligible {
    /// Nodes with all of these labels, whatever their values.
    pub(super) keys: Vec<String>,
    /// Nodes that the pod admits, where its rule honours that.
    pub(super) filter: Option<NodeFilter>,
    /// Nodes without a taint that these do not tolerate, where its rule honours that.
    pub(super) tolerations: Option<Vec<Toleration>>,
}

/// A domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Domain {
    pods: u32,
    nodes: u32,
}

/// Pods by domain.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) wanted: Wanted,
    /// How many questions look at it.
    pub(super) users: u32,
    domains: FxHashMap<String, Domain>,
    /// How many domains with nodes have so many pods.
    by_pods: BTreeMap<u32, u32>,
    total: u32,
}

impl Tally {
    pub(super) fn new(wanted: Wanted) -> Self {
        let (domains, by_pods) = (FxHashMap::default(), BTreeMap::new());
        Self { wanted, users: 0, domains, by_pods, total: 0 }
    }

    /// The domain of a node; none where it does not count.
    pub(super) fn domain<'n>(&self, node: &'n Node) -> Option<&'n str> {
        if let Some(eligible) = &self.wanted.spread {
            let Eligible { keys, filter, tolerations } = eligible;
            let counts = keys.iter().all(|key| node.label(key).is_some())
                && filter.as_ref().is_none_or(|filter| filter.admits(node))
                && tolerations.as_ref().is_none_or(|all| untolerated(all, node).is_none());
            if !counts {
                return None;
            }
        }
        node.label(&self.wanted.key)
    }

    /// Whether it counts this pod. Rules of spread do not count one that is going.
    pub(super) fn counts(
        &self,
        namespace: &str,
        labels: &Labels,
        is_going: bool,
        namespaces: &BTreeMap<String, Labels>,
    ) -> bool {
        !(is_going && self.wanted.spread.is_some())
            && self.wanted.terms.iter().all(|term| term.matches(namespace, labels, namespaces))
    }

    /// A pod comes to, or goes from, this domain.
    pub(super) fn count(&mut self, domain: &str, comes: bool) {
        self.total = if comes { self.total + 1 } else { self.total.saturating_sub(1) };
        self.change(domain, |domain| {
            domain.pods = if comes { domain.pods + 1 } else { domain.pods.saturating_sub(1) };
        });
    }

    /// A node comes to, or goes from, this domain.
    pub(super) fn count_node(&mut self, domain: &str, comes: bool) {
        self.change(domain, |domain| {
            domain.nodes = if comes { domain.nodes + 1 } else { domain.nodes.saturating_sub(1) };
        });
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Domain)) {
        let before = self.domains.get(name).copied().unwrap_or_default();
        let mut after = before;
        change(&mut after);
        if after == Domain::default() {
            self.domains.remove(name);
        } else if let Some(domain) = self.domains.get_mut(name) {
            *domain = after;
        } else {
            self.domains.insert(name.to_owned(), after);
        }
        if self.wanted.spread.is_some() {
            self.moved(before, after);
        }
    }

    fn moved(&mut self, before: Domain, after: Domain) {
        if before.nodes > 0
            && let Some(many) = self.by_pods.get_mut(&before.pods)
        {
            *many -= 1;
            if *many == 0 {
                self.by_pods.remove(&before.pods);
            }
        }
        if after.nodes > 0 {
            *self.by_pods.entry(after.pods).or_default() += 1;
        }
    }

    /// How many pods a domain has.
    pub(super) fn pods(&self, domain: &str) -> u32 {
        self.domains.get(domain).map_or(0, |domain| domain.pods)
    }

    /// How many pods there are.
    pub(super) fn total(&self) -> u32 {
        self.total
    }

    /// The least that a domain with nodes has; 0 where there are fewer of them than so many.
    pub(super) fn least(&self, min_domains: u32) -> u32 {
        let domains: u32 = self.by_pods.values().sum();
        let least = self.by_pods.first_key_value().map_or(0, |(pods, _)| *pods);
        if domains < min_domains { 0 } else { least }
    }
}
