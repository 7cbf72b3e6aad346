//! Objects as JSON of the API, with the fields that predicates read and no others.
//!
//! # Invariants
//! * An object that is read from it is treated by predicates as the original.
//! * No environment, command, image or secret is in it; of annotations only those that predicates
//!   read, and of labels those whose keys some rule names.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Taint, Toleration, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::keys::{KeySet, Keys};
use crate::objects::{
    BIND_COMPLETED, Container, CsiNode, MIGRATED, Meta, Node, PersistentVolume,
    PersistentVolumeClaim, Pod, StorageClass, Volume,
};
use crate::predicates::SELECTED_NODE;

/// Stands for any time of deletion.
const DELETED: &str = "1970-01-01T00:00:00Z";
/// Annotations that predicates read.
const ANNOTATIONS: [&str; 3] = [BIND_COMPLETED, MIGRATED, SELECTED_NODE];

fn is_nothing<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Metadata. Fields with the usual value are left out.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'o> {
    #[serde(skip_serializing_if = "is_nothing")]
    name: &'o str,
    #[serde(skip_serializing_if = "is_nothing")]
    namespace: &'o str,
    #[serde(skip_serializing_if = "is_nothing")]
    uid: &'o str,
    #[serde(skip_serializing_if = "is_nothing")]
    labels: BTreeMap<&'o str, &'o str>,
    #[serde(skip_serializing_if = "is_nothing")]
    annotations: BTreeMap<&'o str, &'o str>,
    #[serde(skip_serializing_if = "is_nothing")]
    deletion_timestamp: Option<&'static str>,
    #[serde(skip_serializing_if = "is_nothing")]
    owner_references: Vec<OwnerReference>,
}

impl<'o> Metadata<'o> {
    /// Returns what every kind of object has: names, labels of these keys, annotations.
    fn of(object: &'o impl Meta, keys: &KeySet) -> Self {
        let annotations = ANNOTATIONS.into_iter();
        let annotations = annotations.filter_map(|key| Some((key, object.annotation(key)?)));
        Self {
            name: object.name(),
            namespace: object.namespace(),
            labels: keys.of(object.labels()),
            annotations: annotations.collect(),
            deletion_timestamp: object.is_going().then_some(DELETED),
            ..Self::default()
        }
    }
}

/// A pod. Pods that predicates treat alike are written alike: the name and the UID are left out,
/// unless claims are made for the pod.
#[derive(Debug, Serialize)]
pub(super) struct TrimmedPod<'p> {
    metadata: Metadata<'p>,
    spec: TrimmedSpec<'p>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TrimmedSpec<'p> {
    #[serde(skip_serializing_if = "is_nothing")]
    node_selector: Option<&'p BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "is_nothing")]
    affinity: Option<&'p Affinity>,
    #[serde(skip_serializing_if = "is_nothing")]
    tolerations: &'p [Toleration],
    #[serde(skip_serializing_if = "is_nothing")]
    topology_spread_constraints: &'p [TopologySpreadConstraint],
    #[serde(skip_serializing_if = "is_nothing")]
    containers: Vec<Value>,
    #[serde(skip_serializing_if = "is_nothing")]
    init_containers: Vec<Value>,
    #[serde(skip_serializing_if = "is_nothing")]
    volumes: Vec<Value>,
    #[serde(skip_serializing_if = "is_nothing")]
    resource_claims: Vec<Value>,
    #[serde(skip_serializing_if = "is_nothing")]
    host_network: bool,
    #[serde(skip_serializing_if = "is_nothing")]
    host_users: Option<bool>,
}

impl<'p> TrimmedPod<'p> {
    pub(super) fn of(pod: &'p Pod, keys: &Keys) -> Self {
        let mut metadata = Metadata::of(pod, &keys.pods);
        metadata.annotations.clear();
        if pod.claims().any(|mount| mount.is_own) {
            metadata.uid = pod.uid();
        } else {
            metadata.name = "";
        }
        let spec = &pod.spec;
        let named = |one: &crate::objects::Named| json!({"name": one.name});
        let spec = TrimmedSpec {
            node_selector: Some(&spec.node_selector).filter(|labels| !labels.is_empty()),
            affinity: spec.affinity.as_deref(),
            tolerations: &spec.tolerations,
            topology_spread_constraints: &spec.topology_spread_constraints,
            containers: spec.containers.iter().filter_map(container).collect(),
            init_containers: spec.init_containers.iter().filter_map(container).collect(),
            volumes: spec.volumes.iter().filter_map(volume_of_pod).collect(),
            resource_claims: spec.resource_claims.iter().map(named).collect(),
            host_network: spec.host_network,
            host_users: spec.host_users.filter(|_| spec.host_network),
        };
        Self { metadata, spec }
    }
}

/// Returns a container. `None` if it needs nothing of its node but resources.
fn container(container: &Container) -> Option<Value> {
    let mut trimmed = Map::new();
    let taken = container.ports.iter().filter(|port| port.host_port.is_some_and(|it| it > 0));
    let ports: Vec<_> = taken
        .map(|port| {
            let mut trimmed = Map::new();
            trimmed.insert("hostPort".to_owned(), json!(port.host_port));
            let texts = [("hostIP", &port.host_ip), ("protocol", &port.protocol)];
            for (name, text) in texts {
                trimmed.extend(text.as_ref().map(|text| (name.to_owned(), json!(text))));
            }
            Value::Object(trimmed)
        })
        .collect();
    if !ports.is_empty() {
        trimmed.insert("ports".to_owned(), json!(ports));
        trimmed.extend(
            container.restart_policy.as_ref().map(|it| ("restartPolicy".to_owned(), json!(it))),
        );
    }
    if container.restarts_all {
        let rules = json!([{"action": "RestartAllContainers"}]);
        trimmed.insert("restartPolicyRules".to_owned(), rules);
    }
    if container.has_mount_options {
        trimmed.insert("volumeMounts".to_owned(), json!([{"bindMountOptions": [""]}]));
    }
    (!trimmed.is_empty()).then_some(Value::Object(trimmed))
}

/// Returns a volume of a pod. `None` if it needs nothing of its node.
fn volume_of_pod(volume: &Volume) -> Option<Value> {
    let name = &volume.name;
    if let Some(source) = &volume.persistent_volume_claim {
        let claim = &source.claim_name;
        return Some(json!({"name": name, "persistentVolumeClaim": {"claimName": claim}}));
    }
    if volume.ephemeral.is_some() {
        return Some(json!({"name": name, "ephemeral": {}}));
    }
    volume.disk().map(|kind| json!({"name": name, kind: {}}))
}

pub(super) fn node(node: &Node, keys: &Keys) -> Value {
    let taint = |taint: &Taint| Taint { time_added: None, ..taint.clone() };
    let taints: Vec<_> = node.spec.taints.iter().map(taint).collect();
    let features = &node.status.declared_features;
    json!({
        "metadata": Metadata::of(node, &keys.nodes),
        "spec": {
            "unschedulable": node.spec.unschedulable.then_some(true),
            "taints": (!taints.is_empty()).then_some(taints),
        },
        "status": (!features.is_empty()).then(|| json!({"declaredFeatures": features})),
    })
}

pub(super) fn claim(claim: &PersistentVolumeClaim, keys: &Keys) -> Value {
    let mut metadata = Metadata::of(claim, &keys.pods);
    metadata.labels.clear();
    metadata.uid = claim.uid();
    let owner = claim.controller().map(|owner| OwnerReference {
        uid: owner.uid.clone(),
        controller: Some(true),
        ..OwnerReference::default()
    });
    metadata.owner_references = owner.into_iter().collect();
    let spec = &claim.spec;
    let size = spec.resources.requests.get("storage");
    json!({
        "metadata": metadata,
        "spec": {
            "storageClassName": claim.class(),
            "volumeName": spec.volume_name,
            "accessModes": spec.access_modes,
            "resources": {"requests": size.map(|size| json!({"storage": size}))},
            "selector": spec.selector,
            "volumeMode": spec.volume_mode,
            "volumeAttributesClassName": spec.volume_attributes_class_name,
        },
        "status": {"phase": claim.status.phase},
    })
}

pub(super) fn volume(volume: &PersistentVolume, keys: &Keys) -> Value {
    let spec = &volume.spec;
    let kept = spec.claim_ref.as_ref();
    let size = spec.capacity.get("storage");
    let mut trimmed = json!({
        "metadata": Metadata::of(volume, &keys.volumes),
        "spec": {
            "storageClassName": volume.class(),
            "capacity": size.map(|size| json!({"storage": size})),
            "accessModes": spec.access_modes,
            "volumeMode": spec.volume_mode,
            "claimRef": kept.map(|kept| {
                json!({"namespace": kept.namespace, "name": kept.name, "uid": kept.uid})
            }),
            "nodeAffinity": spec.node_affinity,
            "volumeAttributesClassName": spec.volume_attributes_class_name,
            "csi": spec.csi.as_ref().map(|source| json!({"driver": source.driver})),
        },
        "status": {"phase": volume.status.phase},
    });
    if let Some(field) = volume.plugin().and_then(field_of_plugin) {
        trimmed["spec"][field] = json!({});
    }
    trimmed
}

/// Returns the field of a volume by which an in-tree plugin is its source.
fn field_of_plugin(plugin: &str) -> Option<&'static str> {
    Some(match plugin {
        "kubernetes.io/aws-ebs" => "awsElasticBlockStore",
        "kubernetes.io/azure-disk" => "azureDisk",
        "kubernetes.io/azure-file" => "azureFile",
        "kubernetes.io/cinder" => "cinder",
        "kubernetes.io/gce-pd" => "gcePersistentDisk",
        "kubernetes.io/portworx-volume" => "portworxVolume",
        "kubernetes.io/vsphere-volume" => "vsphereVolume",
        _ => return None,
    })
}

pub(super) fn class(class: &StorageClass) -> Value {
    json!({
        "metadata": {"name": class.name()},
        "provisioner": class.provisioner,
        "volumeBindingMode": class.volume_binding_mode,
        "allowedTopologies": class.allowed_topologies,
    })
}

pub(super) fn csi_node(node: &CsiNode) -> Value {
    let most = |count: &crate::objects::Count| json!({"count": count.count});
    let driver = |driver: &crate::objects::Driver| json!({"name": driver.name, "allocatable": driver.allocatable.as_ref().map(most)});
    let migrated = node.annotation(MIGRATED);
    let drivers: Vec<_> = node.spec.drivers.iter().map(driver).collect();
    json!({
        "metadata": {"name": node.name(), "annotations": migrated.map(|it| json!({MIGRATED: it}))},
        "spec": {"drivers": drivers},
    })
}

/// Removes fields that are `null`, which reads as if they were absent.
pub(super) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(all) => {
            let all = all.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(all.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        other => other,
    }
}
