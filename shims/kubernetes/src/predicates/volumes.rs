//! Claims of pods: whether the node reaches their volumes, which volumes they would get, and how
//! many a node can attach.
//!
//! # How a claim without a volume gets one
//! If its class waits for a consumer, the volume is chosen when the pod is placed, for all claims
//! of the pod at once and the smallest first: the volume reserved for the claim, else the smallest
//! free one that fits, else a new one that the class provisions for the node. The choice is
//! reserved for the claim while a pod that mounts it is placed: other pods that mount it must run
//! where the volume is reached, and no other claim gets the volume.
//!
//! # What is not checked
//! `CSIStorageCapacity`: a volume may be requested for a node whose driver has no room. The
//! provisioner then removes its annotation from the claim, and the pod is tried again.
//! `VolumeAttachment`: a volume that is still attached for a removed pod does not count for
//! the node's limit.
//!
//! # Invariants
//! * A volume is reserved for one claim.
//! * A pod counts as a user of its claims from its placement to its removal. A reservation lasts as
//!   long as its claim has a user.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use super::mounts::{Mounted, VolumeChoice, mounts};
use super::stock::{Stock, makes_for, reaches, requested_size};
use crate::objects::{
    CsiNode, Meta as _, Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass,
    driver_of_plugin,
};

/// Annotation of a claim: the node for which its volume is to be provisioned.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// A pod's key and a node's name.
type PodOnNode = (String, String);

/// Volumes, claims, and the pods that use them.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    /// By `namespace/name`.
    pub(super) claims: FxHashMap<String, Arc<PersistentVolumeClaim>>,
    pub(super) stock: Stock,
    pub(super) classes: FxHashMap<String, Arc<StorageClass>>,
    pub(super) csi_nodes: FxHashMap<String, Arc<CsiNode>>,
    /// Pods that use each claim, and their nodes.
    users: FxHashMap<String, FxHashSet<PodOnNode>>,
    /// Claims in use on each node, with their number of pods.
    attached: FxHashMap<String, FxHashMap<String, u32>>,
    /// Reservations by claim.
    pub(super) reservations: FxHashMap<String, Reservation>,
    /// Reserved volumes, with their claims.
    reserved: FxHashMap<String, String>,
    pub(super) pod_claims: FxHashMap<PodOnNode, PodClaims>,
}

/// The volume that a claim is to get.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Reservation {
    /// This one.
    Volume(String),
    /// A volume that is provisioned for this node.
    ProvisionedFor(String),
}

/// Claims of a pod on a node.
#[derive(Debug, Default)]
pub(super) struct PodClaims {
    /// Its claims, by `namespace/name`.
    pub(super) claims: Vec<String>,
    pub(super) chosen: Vec<VolumeChoice>,
    /// Reservations of claims that no other pod uses. Filled only while the pod is taken off its
    /// node.
    pub(super) reservations: Vec<(String, Reservation)>,
}

fn set<T>(map: &mut FxHashMap<String, T>, key: &str, value: Option<T>) {
    match value {
        Some(value) => drop(map.insert(key.to_owned(), value)),
        None => drop(map.remove(key)),
    }
}

impl Volumes {
    pub(super) fn set_claim(&mut self, key: &str, claim: Option<Arc<PersistentVolumeClaim>>) {
        let has = claim.as_ref().and_then(|claim| claim.volume());
        if let (Some(has), Some(Reservation::Volume(volume))) = (has, self.reservations.get(key))
            && has != volume
        {
            // A controller has bound the claim to another volume.
            self.reserved.remove(volume);
            self.reservations.remove(key);
        }
        set(&mut self.claims, key, claim);
    }

    pub(super) fn set_volume(&mut self, name: &str, volume: Option<Arc<PersistentVolume>>) {
        self.stock.set(name, volume);
    }

    pub(super) fn set_class(&mut self, name: &str, class: Option<Arc<StorageClass>>) {
        set(&mut self.classes, name, class);
    }

    pub(super) fn set_csi_node(&mut self, name: &str, node: Option<Arc<CsiNode>>) {
        set(&mut self.csi_nodes, name, node);
    }

    pub(super) fn claim(&self, key: &str) -> Option<&Arc<PersistentVolumeClaim>> {
        self.claims.get(key)
    }

    pub(super) fn volume(&self, name: &str) -> Option<&Arc<PersistentVolume>> {
        self.stock.get(name)
    }

    /// Returns the volumes chosen for the pod when it was placed on the node.
    pub(super) fn choices(&self, key: &str, node: &str) -> Vec<VolumeChoice> {
        let pod_claims = self.pod_claims.get(&(key.to_owned(), node.to_owned()));
        pod_claims.map(|pod_claims| pod_claims.chosen.clone()).unwrap_or_default()
    }

    /// Checks whether the pod has, or can have, all its volumes on the node.
    pub(super) fn check(&self, pod: &Pod, mounts: &[Mounted], node: &Node) -> Result<(), String> {
        if mounts.is_empty() {
            return Ok(());
        }
        let choices = self.choose(pod, mounts, node)?;
        self.check_attachments(mounts, &choices, node)
    }

    /// Chooses a volume for each claim without one. Fails unless all of them can have one.
    fn choose(
        &self,
        pod: &Pod,
        mounts: &[Mounted],
        node: &Node,
    ) -> Result<Vec<VolumeChoice>, String> {
        let mut open = Vec::new();
        for mounted in mounts {
            let claim = self.usable(pod, mounted)?;
            let Mounted { name, key, .. } = mounted;
            let is_alone = claim.spec.access_modes.iter().any(|mode| mode == "ReadWriteOncePod");
            if is_alone && self.users.contains_key(key) {
                return Err(format!(
                    "the claim `{name}` is used by another pod, and by one at a time"
                ));
            }
            match claim.volume() {
                Some(volume) if claim.is_bound() => {
                    let Some(volume) = self.stock.get(volume) else {
                        return Err(format!("the volume of the claim `{name}` is not there"));
                    };
                    if !reaches(volume, node) {
                        return Err(out_of_reach(name));
                    }
                }
                Some(volume) => {
                    return Err(format!(
                        "the claim `{name}` is not bound to its volume `{volume}` yet"
                    ));
                }
                None => open.push((key, claim)),
            }
        }
        // Smallest first, so that the larger volumes are left for larger claims.
        open.sort_by_key(|(key, claim)| (requested_size(claim), *key));
        let mut choices = Vec::with_capacity(open.len());
        for (key, claim) in open {
            choices.push(self.choice(key, claim, node, &choices)?);
        }
        Ok(choices)
    }

    /// Returns the claim if the pod can mount it.
    fn usable(&self, pod: &Pod, mounted: &Mounted) -> Result<&Arc<PersistentVolumeClaim>, String> {
        let Mounted { name, key, is_own } = mounted;
        let Some(claim) = self.claims.get(key) else {
            return Err(format!("the claim `{name}` is not there"));
        };
        if *is_own && claim.controller().is_none_or(|owner| owner.uid != pod.uid()) {
            return Err(format!("the claim `{name}` was not made for the pod"));
        }
        if claim.is_going() {
            return Err(format!("the claim `{name}` is being deleted"));
        }
        if claim.is_lost() {
            return Err(format!("the claim `{name}` has lost its volume"));
        }
        Ok(claim)
    }

    /// Chooses the volume of a claim on the node. `others` are the choices for other claims of the
    /// pod.
    fn choice(
        &self,
        key: &str,
        claim: &PersistentVolumeClaim,
        node: &Node,
        others: &[VolumeChoice],
    ) -> Result<VolumeChoice, String> {
        let (name, class) = (claim.name(), claim.class());
        let known = self.classes.get(class);
        if !class.is_empty() && known.is_none() {
            return Err(format!("the storage class `{class}` of the claim `{name}` is not there"));
        }
        let waits = |class: &&Arc<StorageClass>| {
            class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
        };
        let Some(known) = known.filter(waits) else {
            return Err(format!("the claim `{name}` has no volume yet"));
        };
        let existing = |volume: &str| VolumeChoice::Existing {
            claim: name.to_owned(),
            volume: volume.to_owned(),
        };
        let elsewhere =
            || Err(format!("the volume of the claim `{name}` is being made for another node"));
        let is_reserved = match self.reservations.get(key) {
            Some(Reservation::Volume(volume)) => {
                let found = self.stock.get(volume);
                let is_reached = found.is_some_and(|volume| reaches(volume, node));
                return is_reached.then(|| existing(volume)).ok_or_else(|| out_of_reach(name));
            }
            Some(Reservation::ProvisionedFor(other)) if other != node.name() => return elsewhere(),
            Some(Reservation::ProvisionedFor(_)) => true,
            None => match claim.annotation(SELECTED_NODE) {
                Some(other) if other != node.name() => return elsewhere(),
                selected => selected.is_some(),
            },
        };
        if !is_reserved {
            if let Some(volume) = self.stock.reserved_for(key, claim, node)? {
                return Ok(existing(volume.name()));
            }
            let is_taken = |volume: &str| {
                self.reserved.contains_key(volume)
                    || others.iter().any(|other| other.volume() == Some(volume))
            };
            if let Some(volume) = self.stock.smallest(claim, node, is_taken) {
                return Ok(existing(volume.name()));
            }
        }
        if known.provisioner == NO_PROVISIONER {
            return Err(format!(
                "no volume that the claim `{name}` could have is left for the node"
            ));
        }
        if !makes_for(&known.allowed_topologies, node) {
            return Err(format!("the storage class `{class}` makes no volumes for the node"));
        }
        Ok(VolumeChoice::Provisioned { claim: name.to_owned() })
    }

    /// Checks that the node can attach the additional volumes of each driver.
    fn check_attachments(
        &self,
        mounts: &[Mounted],
        choices: &[VolumeChoice],
        node: &Node,
    ) -> Result<(), String> {
        let Some(limits) = self.csi_nodes.get(node.name()) else { return Ok(()) };
        let empty = FxHashMap::default();
        let attached = self.attached.get(node.name()).unwrap_or(&empty);
        for driver in &limits.spec.drivers {
            let Some(most) = driver.allocatable.and_then(|most| most.count) else { continue };
            let is_its =
                |key: &str, choice| self.driver(key, choice, limits) == Some(driver.name.as_str());
            let is_new = |mounted: &&Mounted| {
                let choice = choices.iter().find(|choice| choice.claim() == mounted.name);
                !attached.contains_key(&mounted.key) && is_its(&mounted.key, choice)
            };
            let new = mounts.iter().filter(is_new).count();
            if new == 0 {
                continue;
            }
            let there = attached.keys().filter(|key| is_its(key, None)).count();
            if there + new > usize::try_from(most).unwrap_or(0) {
                let name = &driver.name;
                return Err(format!("the node takes no more volumes of {name}"));
            }
        }
        Ok(())
    }

    /// Returns the driver that attaches the volume of a claim on a node, or the chosen volume.
    fn driver<'a>(
        &'a self,
        key: &str,
        choice: Option<&'a VolumeChoice>,
        node: &CsiNode,
    ) -> Option<&'a str> {
        let claim = self.claims.get(key)?;
        let of_reservation = || match self.reservations.get(key) {
            Some(Reservation::Volume(volume)) => Some(volume.as_str()),
            Some(Reservation::ProvisionedFor(_)) | None => None,
        };
        let chosen = || choice.map_or_else(of_reservation, VolumeChoice::volume);
        let volume = claim.volume().or_else(chosen);
        let of_plugin =
            |plugin: &str| driver_of_plugin(plugin).filter(|_| node.has_migrated(plugin));
        let Some(volume) = volume else {
            let maker = self.classes.get(claim.class())?.provisioner.as_str();
            let is_plugin = driver_of_plugin(maker).is_some();
            return if is_plugin { of_plugin(maker) } else { Some(maker) };
        };
        let volume = self.stock.get(volume)?;
        match &volume.spec.csi {
            Some(source) => Some(&source.driver),
            None => volume.plugin().and_then(of_plugin),
        }
    }

    /// Returns the claims of a placed pod that have no volume yet. The error says that the node
    /// does not reach the volume of one.
    pub(super) fn missing(&self, pod: &Pod, node: &Node) -> Result<Vec<String>, String> {
        let mut missing = Vec::new();
        for mounted in &mounts(pod) {
            let claim = self.usable(pod, mounted)?;
            let bound = claim.volume().filter(|_| claim.is_bound());
            // The watch may report the claim before its volume.
            match bound.and_then(|volume| self.stock.get(volume)) {
                None => missing.push(mounted.name.clone()),
                Some(volume) if reaches(volume, node) => {}
                Some(_) => return Err(out_of_reach(&mounted.name)),
            }
        }
        Ok(missing)
    }

    /// Counts the pod on the node. Chooses its volumes if `is_choice` and all claims can have one.
    /// Does nothing if the pod is counted already.
    pub(super) fn put(
        &mut self,
        key: &str,
        pod: &Pod,
        known: Option<&Node>,
        node: &str,
        is_choice: bool,
    ) {
        let mounts = mounts(pod);
        if mounts.is_empty() {
            return;
        }
        let place = (key.to_owned(), node.to_owned());
        if self.pod_claims.contains_key(&place) {
            return;
        }
        let known = known.filter(|_| is_choice);
        let chosen = known.and_then(|known| self.choose(pod, &mounts, known).ok());
        let mut pod_claims =
            PodClaims { chosen: chosen.unwrap_or_default(), ..PodClaims::default() };
        for Mounted { name, key, .. } in mounts {
            let chosen = pod_claims.chosen.iter().find(|choice| *choice.claim() == name);
            let reservation =
                chosen.filter(|_| !self.reservations.contains_key(&key)).map(|choice| {
                    let reservation = match choice {
                        VolumeChoice::Existing { volume, .. } => {
                            Reservation::Volume(volume.clone())
                        }
                        VolumeChoice::Provisioned { .. } => {
                            Reservation::ProvisionedFor(node.to_owned())
                        }
                    };
                    (key.clone(), reservation)
                });
            pod_claims.reservations.extend(reservation);
            pod_claims.claims.push(key);
        }
        self.put_back(key, node, pod_claims);
    }

    /// Removes the pod from the node. Returns its claims, for [`Self::put_back`].
    pub(super) fn take(&mut self, key: &str, node: &str) -> Option<PodClaims> {
        let place = (key.to_owned(), node.to_owned());
        let mut pod_claims = self.pod_claims.remove(&place)?;
        for claim in &pod_claims.claims {
            if let Some(users) = self.users.get_mut(claim) {
                users.remove(&place);
                if users.is_empty() {
                    self.users.remove(claim);
                    pod_claims.reservations.extend(self.reservations.remove_entry(claim));
                }
            }
            if let Some(attached) = self.attached.get_mut(node) {
                if let Some(count) = attached.get_mut(claim) {
                    *count -= 1;
                    if *count == 0 {
                        attached.remove(claim);
                    }
                }
                if attached.is_empty() {
                    self.attached.remove(node);
                }
            }
        }
        for (_, reservation) in &pod_claims.reservations {
            if let Reservation::Volume(volume) = reservation {
                self.reserved.remove(volume);
            }
        }
        Some(pod_claims)
    }

    /// Counts the pod on the node again, with the claims it had.
    pub(super) fn put_back(&mut self, key: &str, node: &str, mut pod_claims: PodClaims) {
        let place = (key.to_owned(), node.to_owned());
        for claim in &pod_claims.claims {
            self.users.entry(claim.clone()).or_default().insert(place.clone());
            let attached = self.attached.entry(node.to_owned()).or_default();
            *attached.entry(claim.clone()).or_default() += 1;
        }
        for (claim, reservation) in pod_claims.reservations.drain(..) {
            self.reserve(claim, reservation);
        }
        self.pod_claims.insert(place, pod_claims);
    }

    /// Reserves a volume for a claim, which a pod on a node uses.
    pub(super) fn reserve(&mut self, claim: String, reservation: Reservation) {
        if let Reservation::Volume(volume) = &reservation {
            self.reserved.insert(volume.clone(), claim.clone());
        }
        self.reservations.insert(claim, reservation);
    }

    /// Recounts everything and returns the differences.
    pub(super) fn check_books(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (claim, reservation) in &self.reservations {
            if !self.users.contains_key(claim) {
                wrong.push(format!("{claim} has no user, and {reservation:?}"));
            }
            if let Reservation::Volume(volume) = reservation
                && self.reserved.get(volume) != Some(claim)
            {
                wrong.push(format!("{volume} is promised to {claim}, and not known to be"));
            }
        }
        let users: usize = self.users.values().map(FxHashSet::len).sum();
        let attached: u32 = self.attached.values().flat_map(|of_node| of_node.values()).sum();
        let pod_claims: usize =
            self.pod_claims.values().map(|pod_claims| pod_claims.claims.len()).sum();
        if users != pod_claims || u32::try_from(pod_claims) != Ok(attached) {
            wrong.push(format!("{pod_claims} claims are held, {users} used, {attached} attached"));
        }
        wrong
    }
}

fn out_of_reach(claim: &str) -> String {
    format!("the volume of the claim `{claim}` cannot be reached from the node")
}
