//! Pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::meta::{Meta as _, Quantities, known, or_default};

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Names and labels.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: PodSpec,
    /// What has come of it.
    pub status: PodStatus,
}

/// What a pod wants.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Where it runs; absent until it is bound.
    pub node_name: Option<String>,
    /// Who schedules it.
    pub scheduler_name: Option<String>,
    /// Higher goes first.
    pub priority: Option<i32>,
    /// The class that its priority comes from.
    pub priority_class_name: Option<String>,
    /// `Never`, or that it may preempt.
    pub preemption_policy: Option<String>,
    /// It is not to be scheduled while there is one.
    #[serde(deserialize_with = "or_default")]
    pub scheduling_gates: Vec<Named>,
    /// Labels that its node must have.
    #[serde(deserialize_with = "or_default")]
    pub node_selector: BTreeMap<String, String>,
    /// What it wants to be near to, or far from.
    pub affinity: Option<Box<Affinity>>,
    /// Taints that do not keep it away.
    #[serde(deserialize_with = "or_default")]
    pub tolerations: Vec<Toleration>,
    /// How evenly it is to be spread.
    #[serde(deserialize_with = "or_default")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// What runs.
    #[serde(deserialize_with = "or_default")]
    pub containers: Vec<Container>,
    /// What runs before, and beside if it is always restarted.
    #[serde(deserialize_with = "or_default")]
    pub init_containers: Vec<Container>,
    /// What the machinery around the containers needs.
    #[serde(deserialize_with = "or_default")]
    pub overhead: Quantities,
    /// Of the pod as a whole, instead of its containers'.
    pub resources: Option<Requirements>,
    /// What it mounts.
    #[serde(deserialize_with = "or_default")]
    pub volumes: Vec<Volume>,
    /// Devices that are allocated dynamically.
    #[serde(deserialize_with = "or_default")]
    pub resource_claims: Vec<Named>,
    /// It is in the network of its node.
    pub host_network: bool,
    /// It has the users of its node; it does unless given.
    pub host_users: Option<bool>,
    /// The group that it is scheduled with.
    pub scheduling_group: Option<SchedulingGroup>,
    /// As whom it runs.
    pub service_account_name: Option<String>,
    /// Seconds that it has to end.
    pub termination_grace_period_seconds: Option<i64>,
}

/// Something with a name.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Named {
    /// The name.
    pub name: String,
}

/// The group that a pod is scheduled with.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulingGroup {
    /// A PodGroup of its namespace.
    pub pod_group_name: Option<String>,
}

/// A container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Unique within the pod.
    pub name: String,
    /// What it needs.
    #[serde(deserialize_with = "or_default")]
    pub resources: Requirements,
    /// Where it listens.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<ContainerPort>,
    /// `Always` makes a sidecar of an init container.
    pub restart_policy: Option<String>,
    /// With it all others of its pod may be restarted.
    #[serde(rename = "restartPolicyRules", deserialize_with = "restarts_all")]
    pub restarts_all: bool,
    /// Something is mounted with options of its own.
    #[serde(rename = "volumeMounts", deserialize_with = "has_mount_options")]
    pub has_mount_options: bool,
}

/// Reads of its rules whether one is to restart all.
fn restarts_all<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Rule {
        action: Option<String>,
    }
    let rules: Option<Vec<Rule>> = Option::deserialize(from)?;
    let mut rules = rules.into_iter().flatten();
    Ok(rules.any(|rule| rule.action.as_deref() == Some("RestartAllContainers")))
}

/// Reads of what it mounts whether there are options.
fn has_mount_options<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Mount {
        bind_mount_options: Option<Vec<IgnoredAny>>,
    }
    let mounts: Option<Vec<Mount>> = Option::deserialize(from)?;
    let options = mounts.into_iter().flatten().filter_map(|mount| mount.bind_mount_options);
    Ok(options.into_iter().any(|options| !options.is_empty()))
}

/// What something needs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Requirements {
    /// What is set aside for it. The API server fills in the limits where nothing is said.
    #[serde(deserialize_with = "or_default")]
    pub requests: Quantities,
}

/// Where a container listens.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// The port of the node; none, or 0, for a port of the pod only.
    pub host_port: Option<i32>,
    /// The address of the node; all, unless given.
    #[serde(rename = "hostIP")]
    pub host_ip: Option<String>,
    /// `TCP` unless given.
    pub protocol: Option<String>,
}

/// What is mounted. Those that need nothing of a node are empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Unique within the pod.
    pub name: String,
    /// By a claim.
    pub persistent_volume_claim: Option<ClaimSource>,
    /// By a claim that is made for this pod, `<pod>-<volume>`.
    pub ephemeral: Option<Given>,
    /// By a driver, without a claim.
    pub csi: Option<CsiSource>,
    /// A disk that is named in place; such kinds are older than drivers.
    pub aws_elastic_block_store: Option<Given>,
    /// Another.
    pub azure_disk: Option<Given>,
    /// Another.
    pub cinder: Option<Given>,
    /// Another.
    pub gce_persistent_disk: Option<Given>,
    /// Another.
    pub iscsi: Option<Given>,
    /// Another.
    pub portworx_volume: Option<Given>,
    /// Another.
    pub rbd: Option<Given>,
    /// Another.
    pub vsphere_volume: Option<Given>,
}

/// Something is given; what it says is not read.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Given {}

/// A claim that a pod mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its name.
    pub claim: String,
    /// It is made for this pod; another one of that name will not do.
    pub is_own: bool,
}

/// By which claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSource {
    /// Its name.
    pub claim_name: String,
}

/// A volume that a driver makes in place.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiSource {
    /// The driver.
    pub driver: String,
}

/// What has come of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed`.
    pub phase: Option<String>,
    /// What is known of it.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<PodCondition>,
    /// Its containers.
    #[serde(deserialize_with = "or_default")]
    pub container_statuses: Vec<ContainerStatus>,
    /// Its init containers.
    #[serde(deserialize_with = "or_default")]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// What the node has set aside for the pod as a whole.
    #[serde(deserialize_with = "or_default")]
    pub allocated_resources: Quantities,
    /// What the pod as a whole has, as it runs.
    pub resources: Option<Requirements>,
}

/// Something known of a pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False`, `Unknown`.
    pub status: String,
    /// Why, in one word.
    pub reason: Option<String>,
    /// Why, for people.
    pub message: Option<String>,
    /// Since when it has been so.
    pub last_transition_time: Option<Time>,
}

/// A container on its node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Its name.
    pub name: String,
    /// What the node has set aside for it.
    #[serde(deserialize_with = "or_default")]
    pub allocated_resources: Quantities,
    /// What it has, as it runs.
    pub resources: Option<Requirements>,
}

impl Pod {
    /// It has run to its end.
    pub fn is_over(&self) -> bool {
        matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    }

    /// Whether the pod did not end by itself: it failed, or is disrupted because its node is lost, drained
    /// or short of memory.
    pub fn is_lost(&self) -> bool {
        let disrupted = self.condition("DisruptionTarget");
        self.status.phase.as_deref() == Some("Failed")
            || disrupted.is_some_and(|condition| condition.status == "True")
    }

    /// Its node; none until it is bound.
    pub fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref().filter(|name| !name.is_empty())
    }

    /// The second in which the pod got its node, since the epoch; that of its creation where nobody wrote it.
    pub fn bound(&self) -> i64 {
        let bound = self.condition("PodScheduled").filter(|condition| condition.status == "True");
        let time = bound.and_then(|condition| condition.last_transition_time.as_ref());
        time.map_or(self.created(), |time| time.0.as_second())
    }

    /// Whether the pod ended well.
    pub fn has_succeeded(&self) -> bool {
        self.status.phase.as_deref() == Some("Succeeded")
    }

    /// The condition of this type.
    pub fn condition(&self, type_: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// The claims that it mounts, those that are made for it included. One that is mounted twice comes
    /// twice.
    pub fn claims(&self) -> impl Iterator<Item = Mount> + '_ {
        let own = self.metadata.name.as_deref().unwrap_or_default();
        self.spec.volumes.iter().filter_map(move |volume| {
            match (&volume.persistent_volume_claim, &volume.ephemeral) {
                (Some(source), _) => {
                    Some(Mount { claim: source.claim_name.clone(), is_own: false })
                }
                (None, Some(_)) => {
                    Some(Mount { claim: format!("{own}-{}", volume.name), is_own: true })
                }
                (None, None) => None,
            }
        })
    }
}

impl Volume {
    /// The kind of a disk that is named in place.
    pub fn disk(&self) -> Option<&'static str> {
        let kinds = [
            (self.aws_elastic_block_store, "awsElasticBlockStore"),
            (self.azure_disk, "azureDisk"),
            (self.cinder, "cinder"),
            (self.gce_persistent_disk, "gcePersistentDisk"),
            (self.iscsi, "iscsi"),
            (self.portworx_volume, "portworxVolume"),
            (self.rbd, "rbd"),
            (self.vsphere_volume, "vsphereVolume"),
        ];
        kinds.into_iter().find_map(|(given, kind)| given.map(|_| kind))
    }
}
