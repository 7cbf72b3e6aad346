//! Persistent volumes: which are free, which are reserved for a claim, and which nodes reach each.
//!
//! A claim gets the smallest free volume that fits. There may be tens of thousands of volumes, most
//! of them local to a node. So they are sorted by class, then by the only host that reaches them,
//! then by size: a search for one node skips the volumes of others.
//!
//! # Invariants
//! * A free volume exists, is available and names no claim.
//! * A volume reserved for a claim goes to that claim or to none.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{NodeSelectorTerm, TopologySelectorTerm};
use rustc_hash::FxHashMap;

use super::selectors::{labels_match, terms_admit};
use crate::objects::{
    Meta as _, Node, PersistentVolume, PersistentVolumeClaim, Quantities, rounded_up,
};

/// Label of the name that a node has for itself.
pub(crate) const HOST: &str = "kubernetes.io/hostname";
/// Current and older labels of zones and regions.
pub(crate) const DOMAINS: [[&str; 2]; 2] = [
    ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"],
    ["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"],
];

/// All volumes.
#[derive(Debug, Default)]
pub(super) struct Stock {
    pub(super) known: FxHashMap<String, Arc<PersistentVolume>>,
    /// Free volumes by class.
    free: FxHashMap<String, Class>,
    /// Reserved volumes, by `namespace/name` of their claim.
    reserved: FxHashMap<String, BTreeSet<String>>,
}

/// Size and name of a free volume.
type Slot = (i64, String);

/// Free volumes of a class.
#[derive(Debug, Default)]
struct Class {
    /// Volumes that only the named hosts reach.
    of_host: FxHashMap<String, BTreeSet<Slot>>,
    others: BTreeSet<Slot>,
}

impl Stock {
    pub(super) fn get(&self, name: &str) -> Option<&Arc<PersistentVolume>> {
        self.known.get(name)
    }

    /// Sets the volume; `None` removes it.
    pub(super) fn set(&mut self, name: &str, volume: Option<Arc<PersistentVolume>>) {
        if let Some(old) = self.known.remove(name) {
            self.set_shelved(&old, false);
        }
        if let Some(volume) = volume {
            self.set_shelved(&volume, true);
            self.known.insert(name.to_owned(), volume);
        }
    }

    fn set_shelved(&mut self, volume: &PersistentVolume, comes: bool) {
        if let Some(claim) = &volume.spec.claim_ref {
            let claim = format!("{}/{}", claim.namespace, claim.name);
            let name = volume.name().to_owned();
            change(self.reserved.entry(claim.clone()).or_default(), name, comes);
            if self.reserved[&claim].is_empty() {
                self.reserved.remove(&claim);
            }
            return;
        }
        if volume.is_going() || volume.status.phase.as_deref() != Some("Available") {
            return;
        }
        let slot = (size(&volume.spec.capacity), volume.name().to_owned());
        let class = self.free.entry(volume.class().to_owned()).or_default();
        match hosts(volume) {
            None => change(&mut class.others, slot, comes),
            Some(hosts) => {
                for host in hosts {
                    change(class.of_host.entry(host.to_owned()).or_default(), slot.clone(), comes);
                    if class.of_host[host].is_empty() {
                        class.of_host.remove(host);
                    }
                }
            }
        }
        if class.of_host.is_empty() && class.others.is_empty() {
            self.free.remove(volume.class());
        }
    }

    /// Returns the volume reserved for this claim, if any. The error says why the claim cannot have
    /// it on the node.
    pub(super) fn reserved_for(
        &self,
        key: &str,
        claim: &PersistentVolumeClaim,
        node: &Node,
    ) -> Result<Option<&Arc<PersistentVolume>>, String> {
        let mut refused = None;
        for name in self.reserved.get(key).into_iter().flatten() {
            let Some(volume) = self.known.get(name) else { continue };
            if !volume.spec.claim_ref.as_ref().is_some_and(|claim_ref| claim_ref.may_be(claim)) {
                continue;
            }
            let why = if volume.is_going() {
                "is being deleted"
            } else if mode(volume.spec.volume_mode.as_ref())
                != mode(claim.spec.volume_mode.as_ref())
            {
                "is of another mode"
            } else if size(&volume.spec.capacity) < requested_size(claim) {
                "is too small"
            } else if !reaches(volume, node) {
                "cannot be reached from the node"
            } else {
                return Ok(Some(volume));
            };
            let claim = claim.name();
            let why = || format!("the volume `{name}` that is kept for the claim `{claim}` {why}");
            refused.get_or_insert_with(why);
        }
        refused.map_or(Ok(None), Err)
    }

    /// Returns the smallest free volume that the claim can have on the node.
    pub(super) fn smallest(
        &self,
        claim: &PersistentVolumeClaim,
        node: &Node,
        is_taken: impl Fn(&str) -> bool,
    ) -> Option<&Arc<PersistentVolume>> {
        let class = self.free.get(claim.class())?;
        let fits = |(_, name): &&Slot| {
            let volume = &self.known[name];
            !is_taken(name) && will_do(volume, claim) && reaches(volume, node)
        };
        let least = (requested_size(claim), String::new());
        let of_host = node.label(HOST).and_then(|host| class.of_host.get(host));
        let sets = of_host.into_iter().chain([&class.others]);
        let smallest = sets.filter_map(|set| set.range::<Slot, _>(&least..).find(fits)).min();
        smallest.map(|(_, name)| &self.known[name])
    }
}

fn change<T: Ord>(set: &mut BTreeSet<T>, one: T, comes: bool) {
    if comes {
        set.insert(one);
    } else {
        set.remove(&one);
    }
}

/// Returns the size that a claim requests.
pub(super) fn requested_size(claim: &PersistentVolumeClaim) -> i64 {
    size(&claim.spec.resources.requests)
}

fn size(amounts: &Quantities) -> i64 {
    amounts.get("storage").and_then(|quantity| rounded_up(quantity, 1)).unwrap_or(0)
}

fn mode(mode: Option<&String>) -> &str {
    mode.map_or("Filesystem", String::as_str)
}

/// Returns whether the claim can have this free volume, apart from class and size.
fn will_do(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let of_claim = claim.spec.volume_attributes_class_name.as_deref().unwrap_or_default();
    mode(volume.spec.volume_mode.as_ref()) == mode(claim.spec.volume_mode.as_ref())
        && volume.spec.volume_attributes_class_name.as_deref().unwrap_or_default() == of_claim
        && claim.spec.access_modes.iter().all(|mode| volume.spec.access_modes.contains(mode))
        && claim.spec.selector.as_ref().is_none_or(|labels| labels_match(labels, volume.labels()))
}

fn terms(volume: &PersistentVolume) -> Option<&[NodeSelectorTerm]> {
    let required = volume.spec.node_affinity.as_ref()?.required.as_ref()?;
    Some(&required.node_selector_terms)
}

/// Returns the only hosts that reach a volume. `None` if other nodes may reach it.
fn hosts(volume: &PersistentVolume) -> Option<BTreeSet<&str>> {
    let mut hosts = BTreeSet::new();
    for term in terms(volume)? {
        let expressions = term.match_expressions.as_deref().unwrap_or_default();
        let is_host = |requirement: &&_| {
            let k8s_openapi::api::core::v1::NodeSelectorRequirement { key, operator, .. } =
                requirement;
            key == HOST && operator == "In"
        };
        let named = expressions.iter().find(is_host)?;
        hosts.extend(named.values.iter().flatten().map(String::as_str));
    }
    Some(hosts)
}

/// Returns whether the volume can be mounted on the node.
pub(super) fn reaches(volume: &PersistentVolume, node: &Node) -> bool {
    if terms(volume).is_some_and(|terms| !terms_admit(terms, node)) {
        return false;
    }
    // A node without labels of zone and region may be in any domain.
    let is_anywhere = DOMAINS.iter().flatten().all(|key| node.label(key).is_none());
    is_anywhere
        || DOMAINS.iter().all(|keys| {
            let own = keys.iter().find_map(|key| node.label(key));
            keys.iter().filter_map(|key| volume.label(key)).all(|domains| {
                // Several values are separated by two underscores.
                domains.split("__").any(|domain| Some(domain.trim()) == own)
            })
        })
}

/// Returns whether a class provisions volumes for the node: one of its terms matches, or it has
/// none.
pub(super) fn makes_for(terms: &[TopologySelectorTerm], node: &Node) -> bool {
    let holds = |term: &TopologySelectorTerm| {
        let expressions = term.match_label_expressions.as_deref().unwrap_or_default();
        expressions.iter().all(|requirement| {
            let value = node.label(&requirement.key);
            value.is_some_and(|value| requirement.values.iter().any(|one| one == value))
        })
    };
    terms.is_empty() || terms.iter().any(holds)
}
