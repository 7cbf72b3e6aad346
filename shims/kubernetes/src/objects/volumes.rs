//! Volumes, claims, and what nodes and classes say of them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{TopologySelectorTerm, VolumeNodeAffinity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::Deserialize;

use super::meta::{Quantities, known, or_default};
use super::pod::Requirements;

/// A volume of the cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PersistentVolume {
    /// Names and labels.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
    /// What it is.
    pub spec: VolumeSpec,
    /// What has come of it.
    pub status: Phase,
}

/// What a volume is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSpec {
    /// How large it is.
    #[serde(deserialize_with = "or_default")]
    pub capacity: Quantities,
    /// Who may mount it how.
    #[serde(deserialize_with = "or_default")]
    pub access_modes: Vec<String>,
    /// Its class; empty for none.
    pub storage_class_name: Option<String>,
    /// `Filesystem` unless given.
    pub volume_mode: Option<String>,
    /// The claim it is kept for.
    pub claim_ref: Option<ClaimRef>,
    /// From which nodes it can be reached; from all unless given.
    pub node_affinity: Option<VolumeNodeAffinity>,
    /// The driver, for volumes of one.
    pub csi: Option<super::pod::CsiSource>,
}

/// The claim that a volume is kept for.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct ClaimRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its identity; absent for a volume that somebody has set aside beforehand.
    pub uid: Option<String>,
}

/// How far it is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Phase {
    /// `Available`, `Bound`, `Pending`, `Released`, `Lost`.
    pub phase: Option<String>,
}

/// A wish for a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    /// Names and annotations.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ClaimSpec,
    /// What has come of it.
    pub status: Phase,
}

/// What a claim wants.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    /// Its class; empty for none.
    pub storage_class_name: Option<String>,
    /// The volume that it has.
    pub volume_name: Option<String>,
    /// How it is to be mounted.
    #[serde(deserialize_with = "or_default")]
    pub access_modes: Vec<String>,
    /// How large.
    #[serde(deserialize_with = "or_default")]
    pub resources: Requirements,
    /// Labels of volumes that will do.
    pub selector: Option<LabelSelector>,
    /// `Filesystem` unless given.
    pub volume_mode: Option<String>,
}

/// A kind of volumes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// Its name.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
    /// Who makes them; `kubernetes.io/no-provisioner` makes none.
    pub provisioner: String,
    /// `Immediate` unless given, or `WaitForFirstConsumer`.
    pub volume_binding_mode: Option<String>,
    /// Where they can be made; anywhere, unless given.
    #[serde(deserialize_with = "or_default")]
    pub allowed_topologies: Vec<TopologySelectorTerm>,
}

/// What drivers say of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiNode {
    /// The node's name.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
    /// Its drivers.
    pub spec: Drivers,
}

/// Drivers of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Drivers {
    /// One for each.
    #[serde(deserialize_with = "or_default")]
    pub drivers: Vec<Driver>,
}

/// A driver on a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Driver {
    /// Its name.
    pub name: String,
    /// How many volumes it can attach; any number unless given.
    pub allocatable: Option<Count>,
}

/// A number.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Count {
    /// The number.
    pub count: Option<i32>,
}

impl PersistentVolumeClaim {
    /// Both sides agree on its volume.
    pub fn is_bound(&self) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        let completed = |all: &BTreeMap<_, _>| all.contains_key("pv.kubernetes.io/bind-completed");
        self.volume().is_some()
            && (self.status.phase.as_deref() == Some("Bound") || annotations.is_some_and(completed))
    }

    /// The volume that it has or is to have.
    pub fn volume(&self) -> Option<&str> {
        self.spec.volume_name.as_deref().filter(|name| !name.is_empty())
    }
}
