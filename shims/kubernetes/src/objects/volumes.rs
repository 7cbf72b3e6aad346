//! Volumes, claims, storage classes, and the drivers of nodes.

use k8s_openapi::api::core::v1::{TopologySelectorTerm, VolumeNodeAffinity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::Deserialize;

use super::meta::{Meta as _, Quantities, known, or_default};
use super::pod::{CsiSource, Given, Requirements};

/// Annotation of the storage class, from before there was a field.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// Annotation of a claim: both sides of the binding are written.
pub(crate) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Annotation of a CSINode: in-tree plugins whose volumes are attached by drivers.
pub(crate) const MIGRATED: &str = "storage.alpha.kubernetes.io/migrated-plugins";
/// In-tree plugins, and the drivers that replace them.
const PLUGINS: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];

/// Returns the driver that replaces an in-tree plugin.
pub fn driver_of_plugin(plugin: &str) -> Option<&'static str> {
    PLUGINS.iter().find_map(|(name, driver)| (*name == plugin).then_some(*driver))
}

/// A persistent volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PersistentVolume {
    /// Name and labels.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
    /// Desired state.
    pub spec: VolumeSpec,
    /// Observed state.
    pub status: Phase,
}

/// Desired state of a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSpec {
    /// Its size.
    #[serde(deserialize_with = "or_default")]
    pub capacity: Quantities,
    /// Supported access modes.
    #[serde(deserialize_with = "or_default")]
    pub access_modes: Vec<String>,
    /// Its storage class; empty for none.
    pub storage_class_name: Option<String>,
    /// `Filesystem` unless given.
    pub volume_mode: Option<String>,
    /// The claim that it is reserved for.
    pub claim_ref: Option<ClaimRef>,
    /// Nodes that reach it; all nodes if absent.
    pub node_affinity: Option<VolumeNodeAffinity>,
    /// Class of attributes such as speed; none if absent.
    pub volume_attributes_class_name: Option<String>,
    /// Source: a driver.
    pub csi: Option<CsiSource>,
    /// Source: an in-tree plugin.
    pub aws_elastic_block_store: Option<Given>,
    /// Another in-tree plugin.
    pub azure_disk: Option<Given>,
    /// Another in-tree plugin.
    pub azure_file: Option<Given>,
    /// Another in-tree plugin.
    pub cinder: Option<Given>,
    /// Another in-tree plugin.
    pub gce_persistent_disk: Option<Given>,
    /// Another in-tree plugin.
    pub portworx_volume: Option<Given>,
    /// Another in-tree plugin.
    pub vsphere_volume: Option<Given>,
}

/// The claim that a volume is reserved for.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct ClaimRef {
    /// Namespace of the claim.
    pub namespace: String,
    /// Name of the claim.
    pub name: String,
    /// UID of the claim. `None` if a user reserved the volume by name.
    pub uid: Option<String>,
}

/// Phase of a volume or claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Phase {
    /// `Available`, `Bound`, `Pending`, `Released`, `Lost`.
    pub phase: Option<String>,
}

/// A claim for a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    /// Name and annotations.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
    /// Desired state.
    pub spec: ClaimSpec,
    /// Observed state.
    pub status: Phase,
}

/// Desired state of a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    /// Its storage class; empty for none.
    pub storage_class_name: Option<String>,
    /// Name of its volume.
    pub volume_name: Option<String>,
    /// Required access modes.
    #[serde(deserialize_with = "or_default")]
    pub access_modes: Vec<String>,
    /// Required size.
    #[serde(deserialize_with = "or_default")]
    pub resources: Requirements,
    /// Selects volumes by label.
    pub selector: Option<LabelSelector>,
    /// `Filesystem` unless given.
    pub volume_mode: Option<String>,
    /// Class of required attributes such as speed; none if absent.
    pub volume_attributes_class_name: Option<String>,
}

/// A storage class.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// Its name.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
    /// The provisioner of its volumes; `kubernetes.io/no-provisioner` makes none.
    pub provisioner: String,
    /// `Immediate` (also if absent) or `WaitForFirstConsumer`.
    pub volume_binding_mode: Option<String>,
    /// Where volumes can be provisioned; anywhere if empty.
    #[serde(deserialize_with = "or_default")]
    pub allowed_topologies: Vec<TopologySelectorTerm>,
}

/// The storage drivers of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiNode {
    /// Name of the node.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
    /// Its drivers.
    pub spec: Drivers,
}

/// Storage drivers of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Drivers {
    /// One entry for each driver.
    #[serde(deserialize_with = "or_default")]
    pub drivers: Vec<Driver>,
}

/// A storage driver of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Driver {
    /// Name of the driver.
    pub name: String,
    /// Most volumes that it can attach; no limit if absent.
    pub allocatable: Option<Count>,
}

/// A count.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Count {
    /// The number.
    pub count: Option<i32>,
}

impl PersistentVolume {
    /// Returns the storage class; empty for none.
    pub fn class(&self) -> &str {
        let field = self.spec.storage_class_name.as_deref();
        self.annotation(CLASS).or(field).unwrap_or_default()
    }

    /// Returns the in-tree plugin of the volume.
    pub fn plugin(&self) -> Option<&'static str> {
        let VolumeSpec {
            aws_elastic_block_store,
            azure_disk,
            azure_file,
            cinder,
            gce_persistent_disk,
            portworx_volume,
            vsphere_volume,
            ..
        } = &self.spec;
        // Same order as `PLUGINS`.
        let given = [
            aws_elastic_block_store,
            azure_disk,
            azure_file,
            cinder,
            gce_persistent_disk,
            portworx_volume,
            vsphere_volume,
        ];
        let named = given.into_iter().zip(PLUGINS);
        named.into_iter().find_map(|(given, (plugin, _))| given.map(|_| plugin))
    }
}

impl PersistentVolumeClaim {
    /// Returns the storage class; empty for none.
    pub fn class(&self) -> &str {
        let field = self.spec.storage_class_name.as_deref();
        self.annotation(CLASS).or(field).unwrap_or_default()
    }

    /// Returns whether both sides of the binding are written.
    pub fn is_bound(&self) -> bool {
        self.volume().is_some() && self.annotation(BIND_COMPLETED).is_some()
    }

    /// Returns whether the claim had a volume that is gone.
    pub fn is_lost(&self) -> bool {
        self.status.phase.as_deref() == Some("Lost")
    }

    /// Returns the volume that is bound, or being bound, to the claim.
    pub fn volume(&self) -> Option<&str> {
        self.spec.volume_name.as_deref().filter(|name| !name.is_empty())
    }
}

impl ClaimRef {
    /// Returns whether the reference is to this claim, rather than to an earlier one of the same
    /// name.
    pub fn may_be(&self, claim: &PersistentVolumeClaim) -> bool {
        self.namespace == claim.namespace()
            && self.name == claim.name()
            && self.uid().is_none_or(|uid| uid == claim.uid())
    }

    /// Returns the UID of the claim. `None` if a user reserved the volume by name.
    pub fn uid(&self) -> Option<&str> {
        self.uid.as_deref().filter(|uid| !uid.is_empty())
    }
}

impl CsiNode {
    /// Returns whether the volumes of this in-tree plugin are attached by a driver on the node.
    pub fn has_migrated(&self, plugin: &str) -> bool {
        let plugins = self.annotation(MIGRATED).unwrap_or_default();
        plugins.split(',').any(|one| one.trim() == plugin)
    }
}
