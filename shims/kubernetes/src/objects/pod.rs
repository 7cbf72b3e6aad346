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
    /// Name and labels.
    #[serde(deserialize_with = "known")]
    pub metadata: ObjectMeta,
    /// Desired state.
    pub spec: PodSpec,
    /// Observed state.
    pub status: PodStatus,
}

/// Desired state of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Its node; absent until the pod is bound.
    pub node_name: Option<String>,
    /// Name of the scheduler that is responsible for it.
    pub scheduler_name: Option<String>,
    /// Its priority; a higher number is scheduled first.
    pub priority: Option<i32>,
    /// The class that defines its priority.
    pub priority_class_name: Option<String>,
    /// `Never`, or else the pod may preempt.
    pub preemption_policy: Option<String>,
    /// Gates; the pod is not scheduled while there are any.
    #[serde(deserialize_with = "or_default")]
    pub scheduling_gates: Vec<Named>,
    /// Labels that its node must have.
    #[serde(deserialize_with = "or_default")]
    pub node_selector: BTreeMap<String, String>,
    /// Rules about nodes and other pods.
    pub affinity: Option<Box<Affinity>>,
    /// Taints that the pod tolerates.
    #[serde(deserialize_with = "or_default")]
    pub tolerations: Vec<Toleration>,
    /// Rules on how evenly the pod and its likes are spread.
    #[serde(deserialize_with = "or_default")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Its containers.
    #[serde(deserialize_with = "or_default")]
    pub containers: Vec<Container>,
    /// Containers that run before the others. One that is always restarted is a sidecar, which runs
    /// beside them.
    #[serde(deserialize_with = "or_default")]
    pub init_containers: Vec<Container>,
    /// Amounts that the sandbox needs in addition to the containers.
    #[serde(deserialize_with = "or_default")]
    pub overhead: Quantities,
    /// Amounts of the pod as a whole, which replace those of its containers.
    pub resources: Option<Requirements>,
    /// Its volumes.
    #[serde(deserialize_with = "or_default")]
    pub volumes: Vec<Volume>,
    /// Claims of dynamically allocated devices.
    #[serde(deserialize_with = "or_default")]
    pub resource_claims: Vec<Named>,
    /// Whether it uses the network of its node.
    pub host_network: bool,
    /// Whether it uses the user namespace of its node; `true` if absent.
    pub host_users: Option<bool>,
    /// The group that the pod is scheduled with.
    pub scheduling_group: Option<SchedulingGroup>,
    /// Its service account.
    pub service_account_name: Option<String>,
    /// Grace period of its deletion, in seconds.
    pub termination_grace_period_seconds: Option<i64>,
    /// Seconds after its start when the kubelet ends it.
    pub active_deadline_seconds: Option<i64>,
}

/// An item with a name.
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
    /// Name of a PodGroup in the pod's namespace.
    pub pod_group_name: Option<String>,
}

/// A container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Unique within the pod.
    pub name: String,
    /// Amounts that the container needs.
    #[serde(deserialize_with = "or_default")]
    pub resources: Requirements,
    /// Its ports.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<ContainerPort>,
    /// `Always` makes a sidecar of an init container.
    pub restart_policy: Option<String>,
    /// Whether a rule of the container may restart all containers of the pod.
    #[serde(rename = "restartPolicyRules", deserialize_with = "restarts_all")]
    pub restarts_all: bool,
    /// Whether a mount has options of its own.
    #[serde(rename = "volumeMounts", deserialize_with = "has_mount_options")]
    pub has_mount_options: bool,
}

/// Reads from the restart rules whether any of them restarts all containers.
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

/// Reads from the mounts whether any of them has options.
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

/// Required amounts.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Requirements {
    /// Requested amounts. The API server fills in the limits if they are absent.
    #[serde(deserialize_with = "or_default")]
    pub requests: Quantities,
}

/// A port of a container.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// Port of the node. `None` or 0 for a port of the pod only.
    pub host_port: Option<i32>,
    /// Address of the node; all addresses if absent.
    #[serde(rename = "hostIP")]
    pub host_ip: Option<String>,
    /// `TCP` if absent.
    pub protocol: Option<String>,
}

/// A volume of a pod. Sources that need nothing of a node are not read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Unique within the pod.
    pub name: String,
    /// Source: a claim.
    pub persistent_volume_claim: Option<ClaimSource>,
    /// Source: a claim `<pod>-<volume>` that is created for this pod.
    pub ephemeral: Option<Given>,
    /// Source: a driver, without a claim.
    pub csi: Option<CsiSource>,
    /// Source: a disk that the pod names directly. Such sources are older than drivers.
    pub aws_elastic_block_store: Option<Given>,
    /// Another such disk.
    pub azure_disk: Option<Given>,
    /// Another such disk.
    pub cinder: Option<Given>,
    /// Another such disk.
    pub gce_persistent_disk: Option<Given>,
    /// Another such disk.
    pub iscsi: Option<Given>,
    /// Another such disk.
    pub portworx_volume: Option<Given>,
    /// Another such disk.
    pub rbd: Option<Given>,
    /// Another such disk.
    pub vsphere_volume: Option<Given>,
}

/// Presence of a field whose content is not read.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Given {}

/// A claim that a pod mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Name of the claim.
    pub claim: String,
    /// Whether the claim must have been created for this pod.
    pub is_own: bool,
}

/// A claim as the source of a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSource {
    /// Name of the claim.
    pub claim_name: String,
}

/// A driver as the source of a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiSource {
    /// Name of the driver.
    pub driver: String,
}

/// Observed state of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed`.
    pub phase: Option<String>,
    /// Conditions of the pod.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<PodCondition>,
    /// State of its containers.
    #[serde(deserialize_with = "or_default")]
    pub container_statuses: Vec<ContainerStatus>,
    /// State of its init containers.
    #[serde(deserialize_with = "or_default")]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// Amounts that the node has set aside for the pod as a whole.
    #[serde(deserialize_with = "or_default")]
    pub allocated_resources: Quantities,
    /// Amounts that the running pod has as a whole.
    pub resources: Option<Requirements>,
}

/// A condition of an object.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False`, `Unknown`.
    pub status: String,
    /// Reason, in one word.
    pub reason: Option<String>,
    /// Reason, in a sentence.
    pub message: Option<String>,
    /// Time since which the status holds.
    pub last_transition_time: Option<Time>,
}

/// State of a container on its node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Its name.
    pub name: String,
    /// Amounts that the node has set aside for the container.
    #[serde(deserialize_with = "or_default")]
    pub allocated_resources: Quantities,
    /// Amounts that the running container has.
    pub resources: Option<Requirements>,
}

impl Pod {
    /// Returns whether the pod has ended.
    pub fn is_over(&self) -> bool {
        matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    }

    /// Returns whether the pod failed or is disrupted, for example because its node is lost,
    /// drained or short of memory.
    pub fn is_lost(&self) -> bool {
        let disrupted = self.condition("DisruptionTarget");
        self.status.phase.as_deref() == Some("Failed")
            || disrupted.is_some_and(|condition| condition.status == "True")
    }

    /// Returns the node. `None` until the pod is bound.
    pub fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref().filter(|name| !name.is_empty())
    }

    /// Returns the second in which the pod was bound, since the epoch. Falls back on its creation
    /// if the time was not recorded.
    pub fn bound(&self) -> i64 {
        let bound = self.condition("PodScheduled").filter(|condition| condition.status == "True");
        let time = bound.and_then(|condition| condition.last_transition_time.as_ref());
        time.map_or(self.created(), |time| time.0.as_second())
    }

    /// Returns whether the pod succeeded.
    pub fn has_succeeded(&self) -> bool {
        self.status.phase.as_deref() == Some("Succeeded")
    }

    /// Returns the condition of this type.
    pub fn condition(&self, type_: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Returns the claims that the pod mounts, including those created for it. A claim that is
    /// mounted twice is returned twice.
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
    /// Returns the kind of disk, if the volume names one directly.
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
