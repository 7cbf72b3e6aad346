//! Volumes: from where they can be reached, whether there is one, and how many a node takes.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::TopologySelectorTerm;
use rustc_hash::{FxHashMap, FxHashSet};

use super::scene::VolumeChoice;
use super::selectors::{labels_match, terms_admit};
use crate::objects::{
    CsiNode, Meta as _, Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass,
    rounded_up,
};

/// Where a claim's volume is to be made, as schedulers tell those who make it.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// Labels of volumes that name the zones or regions from which they can be reached.
const ZONES: [&str; 4] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

/// Volumes, claims, and who uses them.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    /// By `namespace/name`.
    claims: FxHashMap<String, Arc<PersistentVolumeClaim>>,
    known: BTreeMap<String, Arc<PersistentVolume>>,
    classes: FxHashMap<String, Arc<StorageClass>>,
    csi_nodes: FxHashMap<String, Arc<CsiNode>>,
    /// Pods that use a claim, and where.
    users: FxHashMap<String, FxHashSet<(String, String)>>,
    /// Claims in use on each node, with the number of pods.
    attached: FxHashMap<String, FxHashMap<String, u32>>,
    /// Volumes that are promised to a claim.
    promised: FxHashMap<String, String>,
    /// What was chosen for a pod, by its key.
    chosen: FxHashMap<String, Vec<VolumeChoice>>,
    /// The claims of a pod, by its key and node.
    held: FxHashMap<(String, String), Vec<String>>,
}

fn set<T>(map: &mut FxHashMap<String, T>, key: &str, value: Option<T>) {
    match value {
        Some(value) => drop(map.insert(key.to_owned(), value)),
        None => drop(map.remove(key)),
    }
}

impl Volumes {
    pub(super) fn set_claim(&mut self, key: &str, claim: Option<Arc<PersistentVolumeClaim>>) {
        set(&mut self.claims, key, claim);
    }

    pub(super) fn set_volume(&mut self, name: &str, volume: Option<Arc<PersistentVolume>>) {
        match volume {
            Some(volume) => drop(self.known.insert(name.to_owned(), volume)),
            None => drop(self.known.remove(name)),
        }
    }

    pub(super) fn set_class(&mut self, name: &str, class: Option<Arc<StorageClass>>) {
        set(&mut self.classes, name, class);
    }

    pub(super) fn set_csi_node(&mut self, name: &str, node: Option<Arc<CsiNode>>) {
        set(&mut self.csi_nodes, name, node);
    }

    pub(super) fn choices(&self, key: &str) -> Vec<VolumeChoice> {
        self.chosen.get(key).cloned().unwrap_or_default()
    }

    /// Whether the pod has all of its volumes on the node.
    pub(super) fn check(&self, pod: &Pod, claims: &[String], node: &Node) -> Result<(), String> {
        for name in claims {
            let key = format!("{}/{name}", pod.namespace());
            let Some(claim) = self.claims.get(&key) else {
                return Err(format!("the claim `{name}` is not there"));
            };
            if claim.is_going() {
                return Err(format!("the claim `{name}` is being deleted"));
            }
            let is_alone = claim.spec.access_modes.iter().any(|mode| mode == "ReadWriteOncePod");
            if is_alone && self.users.get(&key).is_some_and(|users| !users.is_empty()) {
                return Err(format!(
                    "the claim `{name}` is used by another pod, and by one at a time"
                ));
            }
            if let Some(volume) = claim.volume() {
                self.check_volume(name, volume, node)?;
            } else {
                self.choice(&key, claim, node)?;
            }
        }
        self.check_attachments(pod, claims, node)
    }

    fn check_volume(&self, claim: &str, volume: &str, node: &Node) -> Result<(), String> {
        let Some(volume) = self.known.get(volume) else {
            return Err(format!("the volume of the claim `{claim}` is not there"));
        };
        if reaches(volume, node) {
            Ok(())
        } else {
            Err(format!("the volume of the claim `{claim}` cannot be reached from the node"))
        }
    }

    /// Which volume a claim without one would have on the node.
    fn choice(
        &self,
        key: &str,
        claim: &PersistentVolumeClaim,
        node: &Node,
    ) -> Result<VolumeChoice, String> {
        let name = claim.name();
        let class = claim.spec.storage_class_name.as_deref().unwrap_or_default();
        let known = self.classes.get(class);
        if !class.is_empty() && known.is_none() {
            return Err(format!("the storage class `{class}` of the claim `{name}` is not there"));
        }
        let waits = known.and_then(|class| class.volume_binding_mode.as_deref())
            == Some("WaitForFirstConsumer");
        if !waits {
            return Err(format!("the claim `{name}` has no volume yet"));
        }
        if let Some(selected) = claim.annotation(SELECTED_NODE)
            && selected != node.name()
        {
            return Err(format!("the volume of the claim `{name}` is being made for another node"));
        }
        let fits = |volume: &&Arc<PersistentVolume>| {
            let promised = self.promised.get(volume.name());
            promised.is_none_or(|to| to == key) && will_do(volume, claim) && reaches(volume, node)
        };
        let size = |volume: &&Arc<PersistentVolume>| amount(volume.spec.capacity.get("storage"));
        if let Some(volume) = self.known.values().filter(fits).min_by_key(size) {
            let (claim, volume) = (name.to_owned(), volume.name().to_owned());
            return Ok(VolumeChoice::Existing { claim, volume });
        }
        let Some(known) = known.filter(|class| class.provisioner != NO_PROVISIONER) else {
            return Err(format!(
                "no volume that the claim `{name}` could have is left for the node"
            ));
        };
        if !admits(&known.allowed_topologies, node) {
            return Err(format!("the storage class `{class}` makes no volumes for the node"));
        }
        Ok(VolumeChoice::Made { claim: name.to_owned() })
    }

    fn check_attachments(&self, pod: &Pod, claims: &[String], node: &Node) -> Result<(), String> {
        let Some(limits) = self.csi_nodes.get(node.name()) else { return Ok(()) };
        let empty = FxHashMap::default();
        let attached = self.attached.get(node.name()).unwrap_or(&empty);
        for driver in &limits.spec.drivers {
            let Some(most) = driver.allocatable.and_then(|most| most.count) else { continue };
            let is_its = |key: &str| self.driver(key) == Some(driver.name.as_str());
            let own = claims.iter().map(|name| format!("{}/{name}", pod.namespace()));
            let new = own.filter(|key| is_its(key) && !attached.contains_key(key)).count();
            if new == 0 {
                continue;
            }
            let there = attached.keys().filter(|key| is_its(key)).count();
            if there + new > usize::try_from(most).unwrap_or(0) {
                let name = &driver.name;
                return Err(format!("the node takes no more volumes of {name}"));
            }
        }
        Ok(())
    }

    /// Who makes or made the volume of a claim.
    fn driver(&self, key: &str) -> Option<&str> {
        let claim = self.claims.get(key)?;
        if let Some(volume) = claim.volume() {
            return Some(&self.known.get(volume)?.spec.csi.as_ref()?.driver);
        }
        let class = claim.spec.storage_class_name.as_deref()?;
        Some(&self.classes.get(class)?.provisioner)
    }

    /// The pod is on the node, or is to be: then its volumes are chosen.
    pub(super) fn put(
        &mut self,
        key: &str,
        pod: &Pod,
        known: Option<&Node>,
        node: &str,
        is_choice: bool,
    ) {
        let mut held = Vec::new();
        let mut chosen = Vec::new();
        for name in pod.claims() {
            let claim = format!("{}/{name}", pod.namespace());
            let found = self.claims.get(&claim).filter(|found| found.volume().is_none());
            if is_choice
                && let (Some(found), Some(known)) = (found, known)
                && let Ok(choice) = self.choice(&claim, found, known)
            {
                if let VolumeChoice::Existing { volume, .. } = &choice {
                    self.promised.insert(volume.clone(), claim.clone());
                }
                chosen.push(choice);
            }
            let user = (key.to_owned(), node.to_owned());
            self.users.entry(claim.clone()).or_default().insert(user);
            let attached = self.attached.entry(node.to_owned()).or_default();
            *attached.entry(claim.clone()).or_default() += 1;
            held.push(claim);
        }
        if !chosen.is_empty() {
            self.chosen.insert(key.to_owned(), chosen);
        }
        if !held.is_empty() {
            self.held.insert((key.to_owned(), node.to_owned()), held);
        }
    }

    pub(super) fn take(&mut self, key: &str, node: &str) {
        let place = (key.to_owned(), node.to_owned());
        for claim in self.held.remove(&place).unwrap_or_default() {
            if let Some(users) = self.users.get_mut(&claim) {
                users.remove(&place);
                if users.is_empty() {
                    self.users.remove(&claim);
                    self.promised.retain(|_, to| *to != claim);
                }
            }
            if let Some(attached) = self.attached.get_mut(node) {
                if let Some(count) = attached.get_mut(&claim) {
                    *count -= 1;
                    if *count == 0 {
                        attached.remove(&claim);
                    }
                }
                if attached.is_empty() {
                    self.attached.remove(node);
                }
            }
        }
        self.chosen.remove(key);
    }
}

fn amount(quantity: Option<&k8s_openapi::apimachinery::pkg::api::resource::Quantity>) -> i64 {
    quantity.and_then(|quantity| rounded_up(quantity, 1)).unwrap_or(0)
}

/// Whether the claim could have this volume.
fn will_do(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
    let is_free = match &volume.spec.claim_ref {
        None => !matches!(volume.status.phase.as_deref(), Some("Released" | "Failed" | "Bound")),
        // Set aside for a claim of this name, or for this very one.
        Some(kept) => {
            kept.namespace == claim.namespace()
                && kept.name == claim.name()
                && kept.uid.as_deref().is_none_or(|uid| uid.is_empty() || uid == claim.uid())
        }
    };
    is_free
        && !volume.is_going()
        && volume.spec.storage_class_name.as_deref().unwrap_or_default()
            == claim.spec.storage_class_name.as_deref().unwrap_or_default()
        && mode(&volume.spec.volume_mode) == mode(&claim.spec.volume_mode)
        && claim.spec.access_modes.iter().all(|mode| volume.spec.access_modes.contains(mode))
        && amount(volume.spec.capacity.get("storage"))
            >= amount(claim.spec.resources.requests.get("storage"))
        && claim.spec.selector.as_ref().is_none_or(|labels| labels_match(labels, volume.labels()))
}

/// Whether the volume can be mounted on the node.
fn reaches(volume: &PersistentVolume, node: &Node) -> bool {
    let required = volume.spec.node_affinity.as_ref().and_then(|all| all.required.as_ref());
    if required.is_some_and(|required| !terms_admit(&required.node_selector_terms, node)) {
        return false;
    }
    ZONES.iter().all(|key| match (volume.label(key), node.label(key)) {
        // Several are written with two underscores between them.
        (Some(zones), Some(own)) => zones.split("__").any(|zone| zone == own),
        (Some(_), None) => ZONES.iter().all(|key| node.label(key).is_none()),
        (None, _) => true,
    })
}

/// Whether a class makes volumes for the node: one of its terms says so, or it has none.
fn admits(terms: &[TopologySelectorTerm], node: &Node) -> bool {
    let holds = |term: &TopologySelectorTerm| {
        let expressions = term.match_label_expressions.as_deref().unwrap_or_default();
        expressions.iter().all(|wanted| {
            node.label(&wanted.key)
                .is_some_and(|value| wanted.values.iter().any(|one| one == value))
        })
    };
    terms.is_empty() || terms.iter().any(holds)
}
