//! Volumes, claims, and what nodes and classes say of them.

use k8s_openapi::api::core::v1::{TopologySelectorTerm, VolumeNodeAffinity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::Deserialize;

use super::meta::{Meta as _, Quantities, known, or_default};
use super::pod::{CsiSource, Given, Requirements};

/// The class of a claim or volume, as it was said before there was a field for it.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// Both sides of a binding are written.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On a CSINode: the plugins of old whose volumes are attached by drivers there.
const MIGRATED: &str = "storage.alpha.kubernetes.io/migrated-plugins";
/// Plugins of old, and the drivers that have taken over their volumes.
const PLUGINS: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];

/// The driver that has taken over the volumes of a plugin of old.
pub fn driver_of_plugin(plugin: &str) -> Option<&'static str> {
    PLUGINS.iter().find_map(|(name, driver)| (*name == plugin).then_some(*driver))
}

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
    /// How fast it is and the like, by class; none unless given.
    pub volume_attributes_class_name: Option<String>,
    /// The driver, for volumes of one.
    pub csi: Option<CsiSource>,
    /// A volume of a plugin of old.
    pub aws_elastic_block_store: Option<Given>,
    /// Another.
    pub azure_disk: Option<Given>,
    /// Another.
    pub azure_file: Option<Given>,
    /// Another.
    pub cinder: Option<Given>,
    /// Another.
    pub gce_persistent_disk: Option<Given>,
    /// Another.
    pub portworx_volume: Option<Given>,
    /// Another.
    pub vsphere_volume: Option<Given>,
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
    /// How fast it is to be and the like, by class; none unless given.
    pub volume_attributes_class_name: Option<String>,
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

impl PersistentVolume {
    /// Its class; empty for none.
    pub fn class(&self) -> &str {
        let said = self.annotation(CLASS).or(self.spec.storage_class_name.as_deref());
        said.unwrap_or_default()
    }

    /// The plugin of old that it is of.
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
        // In the order of the table.
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
    /// Its class; empty for none.
    pub fn class(&self) -> &str {
        let said = self.annotation(CLASS).or(self.spec.storage_class_name.as_deref());
        said.unwrap_or_default()
    }

    /// Both sides agree on its volume.
    pub fn is_bound(&self) -> bool {
        self.volume().is_some() && self.annotation(BIND_COMPLETED).is_some()
    }

    /// It had a volume, which is gone.
    pub fn is_lost(&self) -> bool {
        self.status.phase.as_deref() == Some("Lost")
    }

    /// The volume that it has or is to have.
    pub fn volume(&self) -> Option<&str> {
        self.spec.volume_name.as_deref().filter(|name| !name.is_empty())
    }
}

impl ClaimRef {
    /// Whether it is for a claim of this name, and for no other one that had it.
    pub fn may_be(&self, claim: &PersistentVolumeClaim) -> bool {
        self.namespace == claim.namespace()
            && self.name == claim.name()
            && self.uid().is_none_or(|uid| uid == claim.uid())
    }

    /// The identity of the claim; none for a volume that somebody has set aside beforehand.
    pub fn uid(&self) -> Option<&str> {
        self.uid.as_deref().filter(|uid| !uid.is_empty())
    }
}

impl CsiNode {
    /// Whether the volumes of this plugin of old are attached by its driver there.
    pub fn has_migrated(&self, plugin: &str) -> bool {
        let plugins = self.annotation(MIGRATED).unwrap_or_default();
        plugins.split(',').any(|one| one.trim() == plugin)
    }
}
