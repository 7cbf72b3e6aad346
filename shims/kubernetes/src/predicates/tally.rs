//! Pods that some rule is about, counted by domain.
//!
//! A domain is the nodes with one value of a label. A tally knows how many pods each domain has that
//! match all of its terms, and for rules of spread how many domains have how many pods: so the least is
//! found without a look at all of them. Which domains have nodes at all is the same for many tallies, and
//! is known of a [`Ground`].

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Toleration;
use rustc_hash::FxHashMap;

use super::node::{NodeFilter, untolerated};
use super::selectors::{Labels, PodTerm};
use crate::objects::{Meta as _, Node, Pod};

/// What is counted. Equal ones are one tally.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// With fewer domains than these one without pods is as good as there.
    pub(super) min_domains: u32,
}

impl Eq for Eligible {}

impl Hash for Eligible {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.keys, &self.filter, self.min_domains).hash(state);
        self.tolerations.as_ref().map(Vec::len).hash(state);
    }
}

impl Wanted {
    /// Whether it counts this pod. Rules of spread do not count one that is going.
    pub(super) fn counts(&self, pod: &Pod, namespaces: &BTreeMap<String, Labels>) -> bool {
        let matches = |term: &PodTerm| term.matches(pod.namespace(), pod.labels(), namespaces);
        !(pod.is_going() && self.spread.is_some()) && self.terms.iter().all(matches)
    }

    /// The domain of a node; none where it does not count.
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

/// The nodes that count for some tallies of spread, by domain.
#[derive(Debug)]
pub(super) struct Ground {
    /// What one of the tallies counts.
    pub(super) wanted: Arc<Wanted>,
    /// How many of them each domain has; none has none.
    pub(super) nodes: FxHashMap<String, u32>,
    /// Its tallies, by number.
    pub(super) tallies: Vec<usize>,
}

/// A ground by what makes it.
#[derive(Debug)]
pub(super) struct SameGround(pub(super) Arc<Wanted>);

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

/// What questions look at a tally for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// Pods that are to be near.
    Near,
    /// Pods that are to be away.
    Away,
    /// How even they are.
    Spread,
    /// How much a node is preferred: nobody is refused for that.
    Weighed,
}

/// How many questions look at a tally for each of these.
pub(super) type Users = [u32; 4];

/// Pods by domain.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) wanted: Arc<Wanted>,
    /// The number of its ground, for rules of spread.
    pub(super) ground: Option<usize>,
    pub(super) users: Users,
    /// How many pods each domain has; none has none.
    domains: FxHashMap<String, u32>,
    /// How many domains have so many pods, and at least one; for rules of spread.
    by_pods: BTreeMap<u32, u32>,
    total: u32,
    before: Option<Before>,
}

/// What was there when it was asked last whether somebody is helped, of what has changed since.
#[derive(Debug)]
struct Before {
    total: u32,
    least: u32,
    pods: FxHashMap<String, u32>,
}

impl Tally {
    pub(super) fn new(wanted: Arc<Wanted>, ground: Option<usize>) -> Self {
        let (domains, by_pods) = (FxHashMap::default(), BTreeMap::new());
        let users = Users::default();
        Self { wanted, ground, users, domains, by_pods, total: 0, before: None }
    }

    fn users(&self, of: Use) -> bool {
        self.users[of as usize] > 0
    }

    /// Whether any question looks at it.
    pub(super) fn is_used(&self) -> bool {
        self.users != Users::default()
    }

    /// Pods come to, or go from, this domain.
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
        if self.wanted.spread.is_none() {
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

    /// How many pods a domain has.
    pub(super) fn pods(&self, domain: &str) -> u32 {
        self.domains.get(domain).copied().unwrap_or(0)
    }

    /// How many pods there are.
    pub(super) fn total(&self) -> u32 {
        self.total
    }

    /// The least that one of so many domains with nodes has; 0 where there are too few.
    pub(super) fn least(&self, grounds: usize) -> u32 {
        let min_domains = self.wanted.spread.as_ref().map_or(0, |eligible| eligible.min_domains);
        let has_empty = self.domains.len() < grounds
            || u32::try_from(grounds).is_ok_and(|many| many < min_domains);
        let least = self.by_pods.first_key_value().filter(|_| !has_empty);
        least.map_or(0, |(pods, _)| *pods)
    }

    /// Something is about to change: the pods of this domain, or which domains have nodes. Returns whether it is
    /// the first since [`Self::helps`] was asked.
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

    /// Whether somebody who looks at it, and was refused, may pass since it was asked last.
    pub(super) fn helps(&mut self, grounds: usize) -> bool {
        let Some(before) = self.before.take() else { return false };
        let any = |helps: &dyn Fn(u32, u32) -> bool| {
            before.pods.iter().any(|(domain, before)| helps(*before, self.pods(domain)))
        };
        let near = || {
            // Where there is none of its kind the first may be anywhere.
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

    /// What it has, to compare it: pods by domain, domains by pods, and all pods.
    pub(super) fn books(&self) -> (BTreeMap<&str, u32>, &BTreeMap<u32, u32>, u32) {
        let domains = self.domains.iter().map(|(name, pods)| (name.as_str(), *pods));
        (domains.collect(), &self.by_pods, self.total)
    }
}
