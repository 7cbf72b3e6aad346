//! Tallies: pods that match a rule, counted by domain.
//!
//! A domain is the set of nodes with one value of a label. A tally counts the pods of each domain
//! that match all its terms. For a spread constraint it also counts the domains by their number of
//! pods, so that the least number is found without a scan. The domains that have nodes are the same
//! for many tallies, and are kept in a [`Ground`].

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Toleration;
use rustc_hash::FxHashMap;

use super::node::{NodeFilter, untolerated};
use super::selectors::{Labels, PodTerm};
use crate::objects::{Meta as _, Node, Pod};

/// Definition of a tally. Equal definitions share one tally.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TallySpec {
    /// Terms that a counted pod matches, all of them.
    pub(super) terms: Vec<PodTerm>,
    /// Label whose values are the domains.
    pub(super) key: String,
    /// Nodes that count, for a spread constraint.
    pub(super) spread: Option<Eligible>,
}

/// Nodes that count for a spread constraint.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Eligible {
    /// Labels that a node must have, with any value.
    pub(super) keys: Vec<String>,
    /// Selector that a node must match, if the constraint honours it.
    pub(super) filter: Option<NodeFilter>,
    /// Tolerations that a node's taints need, if the constraint honours them.
    pub(super) tolerations: Option<Vec<Toleration>>,
    /// With fewer domains than this, the least number of pods counts as 0.
    pub(super) min_domains: u32,
}

impl Eq for Eligible {}

impl Hash for Eligible {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.keys, &self.filter, self.min_domains).hash(state);
        self.tolerations.as_ref().map(Vec::len).hash(state);
    }
}

impl TallySpec {
    /// Returns whether the tally counts this pod. Spread constraints do not count a pod that is
    /// being deleted.
    pub(super) fn counts(&self, pod: &Pod, namespaces: &BTreeMap<String, Labels>) -> bool {
        let matches = |term: &PodTerm| term.matches(pod.namespace(), pod.labels(), namespaces);
        !(pod.is_going() && self.spread.is_some()) && self.terms.iter().all(matches)
    }

    /// Returns the domain of a node. `None` if the node does not count.
    pub(super) fn domain<'n>(&self, node: &'n Node) -> Option<&'n str> {
        let counts = self.spread.as_ref().is_none_or(|eligible| eligible.admits(node));
        node.label(&self.key).filter(|_| counts)
    }
}

impl Eligible {
    fn admits(&self, node: &Node) -> bool {
        self.keys.iter().all(|key| node.label(key).is_some())
            && self.filter.as_ref().is_none_or(|filter| filter.admits(node))
            && self.tolerations.as_ref().is_none_or(|all| untolerated(all, node).is_none())
    }
}

/// Nodes that count for some spread tallies, by domain.
#[derive(Debug)]
pub(super) struct Ground {
    /// Definition of one of the tallies.
    pub(super) spec: Arc<TallySpec>,
    /// Number of nodes of each domain; absent if 0.
    pub(super) nodes: FxHashMap<String, u32>,
    /// The tallies that share it.
    pub(super) tallies: Vec<usize>,
}

/// A ground, compared by the properties that define it.
#[derive(Debug)]
pub(super) struct SameGround(pub(super) Arc<TallySpec>);

impl PartialEq for SameGround {
    fn eq(&self, other: &Self) -> bool {
        (&self.0.key, &self.0.spread) == (&other.0.key, &other.0.spread)
    }
}

impl Eq for SameGround {}

impl Hash for SameGround {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.0.key, &self.0.spread).hash(state);
    }
}

/// The use of a tally by a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// Affinity.
    Near,
    /// Anti-affinity.
    Away,
    /// Spread.
    Spread,
    /// Preferences, which refuse no node.
    Weighed,
}

/// Number of questions for each use.
pub(super) type Users = [u32; 4];

/// Pods by domain.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) spec: Arc<TallySpec>,
    /// Number of its ground, for a spread constraint.
    pub(super) ground: Option<usize>,
    pub(super) users: Users,
    /// Number of pods of each domain; absent if 0.
    domains: FxHashMap<String, u32>,
    /// Number of domains by their number of pods, which is at least 1. For a spread constraint.
    by_pods: BTreeMap<u32, u32>,
    total: u32,
    before: Option<Before>,
}

/// Counts before the changes since the last call of [`Tally::take_unblocked`].
#[derive(Debug)]
struct Before {
    total: u32,
    least: u32,
    pods: FxHashMap<String, u32>,
}

impl Tally {
    pub(super) fn new(spec: Arc<TallySpec>, ground: Option<usize>) -> Self {
        let (domains, by_pods) = (FxHashMap::default(), BTreeMap::new());
        let users = Users::default();
        Self { spec, ground, users, domains, by_pods, total: 0, before: None }
    }

    fn users(&self, of: Use) -> bool {
        self.users[of as usize] > 0
    }

    /// Returns whether a question uses the tally.
    pub(super) fn is_used(&self) -> bool {
        self.users != Users::default()
    }

    /// Adds pods to the domain, or removes them.
    pub(super) fn count(&mut self, name: &str, pods: u32, comes: bool) {
        let before = self.pods(name);
        let change = |count: u32| if comes { count + pods } else { count.saturating_sub(pods) };
        let after = change(before);
        self.total = change(self.total);
        if after == 0 {
            self.domains.remove(name);
        } else if let Some(count) = self.domains.get_mut(name) {
            *count = after;
        } else {
            self.domains.insert(name.to_owned(), after);
        }
        if self.spec.spread.is_none() {
            return;
        }
        if let Some(many) = self.by_pods.get_mut(&before) {
            *many -= 1;
            if *many == 0 {
                self.by_pods.remove(&before);
            }
        }
        if after > 0 {
            *self.by_pods.entry(after).or_default() += 1;
        }
    }

    /// Returns the number of pods in a domain.
    pub(super) fn pods(&self, domain: &str) -> u32 {
        self.domains.get(domain).copied().unwrap_or(0)
    }

    /// Returns the number of all pods.
    pub(super) fn total(&self) -> u32 {
        self.total
    }

    /// Returns the least number of pods among `grounds` domains with nodes. 0 if there are too few
    /// domains.
    pub(super) fn least(&self, grounds: usize) -> u32 {
        let min_domains = self.spec.spread.as_ref().map_or(0, |eligible| eligible.min_domains);
        let has_empty = self.domains.len() < grounds
            || u32::try_from(grounds).is_ok_and(|many| many < min_domains);
        let least = self.by_pods.first_key_value().filter(|_| !has_empty);
        least.map_or(0, |(pods, _)| *pods)
    }

    /// Remembers the counts before a change to this domain, or to the set of domains with nodes.
    /// Returns whether it is the first change since the last call of [`Self::take_unblocked`].
    pub(super) fn note(&mut self, domain: Option<&str>, grounds: usize) -> bool {
        if ![Use::Near, Use::Away, Use::Spread].iter().any(|of| self.users(*of)) {
            return false;
        }
        let is_first = self.before.is_none();
        let (total, least) = (self.total, self.least(grounds));
        let pods = domain.map_or(0, |domain| self.pods(domain));
        let before = self.before.get_or_insert_with(|| {
            let pods = FxHashMap::default();
            Before { total, least, pods }
        });
        if let Some(domain) = domain
            && !before.pods.contains_key(domain)
        {
            before.pods.insert(domain.to_owned(), pods);
        }
        is_first
    }

    /// Returns whether a refused pod that uses the tally may pass since the last call.
    pub(super) fn take_unblocked(&mut self, grounds: usize) -> bool {
        let Some(before) = self.before.take() else { return false };
        let any = |unblocked: &dyn Fn(u32, u32) -> bool| {
            before.pods.iter().any(|(domain, before)| unblocked(*before, self.pods(domain)))
        };
        let near = || {
            // Without a pod of its kind, the first one may be anywhere.
            let is_first = before.total > 0 && self.total == 0;
            is_first || any(&|before, now| before == 0 && now > 0)
        };
        let away = || any(&|before, now| before > 0 && now == 0);
        let spread = || {
            let least = self.least(grounds);
            let over = |pods: u32, least: u32| i64::from(pods) - i64::from(least);
            least > before.least || any(&|was, now| over(now, least) < over(was, before.least))
        };
        self.users(Use::Near) && near()
            || self.users(Use::Away) && away()
            || self.users(Use::Spread) && spread()
    }

    /// Returns the counts for comparison: pods by domain, domains by pods, all pods.
    pub(super) fn books(&self) -> (BTreeMap<&str, u32>, &BTreeMap<u32, u32>, u32) {
        let domains = self.domains.iter().map(|(name, pods)| (name.as_str(), *pods));
        (domains.collect(), &self.by_pods, self.total)
    }
}
