//! Images of a scene: everything that it was told, without what it has counted from that.
//!
//! An image is copied while the scene is locked, so it shares all objects. The scene that is made
//! from it answers every question as the copied one.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::mounts::VolumeChoice;
use super::ports::HostPort;
use super::question::guards;
use super::scene::{CountedPod, Scene, entry};
use super::selectors::Labels;
use super::volumes::{PodClaims, Reservation, Volumes};
use crate::objects::{
    CsiNode, Meta as _, Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass,
};

/// The state of a scene without counts. The lists have no order, except for the places of one pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct SceneImage {
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) places: Vec<PodPlace>,
    /// Pods about which predicates may be asked, by their keys.
    pub(crate) expected: Vec<(Arc<str>, Arc<Pod>)>,
    pub(crate) namespaces: BTreeMap<String, Labels>,
    pub(crate) volumes: VolumesImage,
    /// Whether a refused pod may pass now. True as well if a change is not evaluated yet.
    pub(crate) is_unblocked: bool,
}

/// Volumes, claims, and who uses them.
#[derive(Clone, Debug, Default)]
pub(crate) struct VolumesImage {
    pub(crate) claims: Vec<Arc<PersistentVolumeClaim>>,
    pub(crate) volumes: Vec<Arc<PersistentVolume>>,
    pub(crate) classes: Vec<Arc<StorageClass>>,
    pub(crate) csi_nodes: Vec<Arc<CsiNode>>,
    /// The volumes that claims are to get, by `namespace/name` of the claim.
    pub(crate) reservations: Vec<(String, Reservation)>,
    pub(crate) uses: Vec<ClaimUse>,
}

/// A pod that is counted on a node.
#[derive(Clone, Debug)]
pub(crate) struct PodPlace {
    pub(crate) key: Arc<str>,
    pub(crate) node: Arc<str>,
    pub(crate) pod: Arc<Pod>,
    /// Number of times it was assumed.
    pub(crate) times: u32,
    /// Whether it is known to run there.
    pub(crate) is_settled: bool,
}

/// The claims of a pod on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClaimUse {
    pub(crate) key: String,
    pub(crate) node: String,
    /// By `namespace/name`.
    pub(crate) claims: Vec<String>,
    /// The volumes chosen for it.
    pub(crate) chosen: Vec<VolumeChoice>,
}

impl Scene {
    /// Copies the state. Nothing is evaluated, so the scene stays exactly as it is.
    pub(crate) fn image(&self) -> SceneImage {
        let mut places = Vec::with_capacity(self.places.len());
        for (key, nodes) in &self.places {
            for node in nodes {
                let counted = self.entries.get(node).and_then(|entry| entry.pods.get(key));
                let Some(CountedPod { pod, times, is_settled, .. }) = counted else { continue };
                places.push(PodPlace {
                    key: Arc::clone(key),
                    node: Arc::clone(node),
                    pod: Arc::clone(pod),
                    times: *times,
                    is_settled: *is_settled,
                });
            }
        }
        let expected = self.questions.iter();
        let expected = expected.map(|(key, asked)| (Arc::from(&**key), Arc::clone(&asked.pod)));
        SceneImage {
            nodes: self.entries.values().filter_map(|entry| entry.node.clone()).collect(),
            places,
            expected: expected.collect(),
            namespaces: self.counts.namespaces.clone(),
            volumes: self.volumes.image(),
            is_unblocked: self.unblocked
                || self.is_retry_delayed
                || self.counts.has_changes()
                || !self.moved.is_empty(),
        }
    }

    /// Makes the scene of an image.
    pub(crate) fn restored(image: SceneImage) -> Self {
        let mut scene = Self::default();
        for (name, labels) in image.namespaces {
            scene.counts.set_namespace(&name, Some(labels), &scene.entries);
        }
        for node in image.nodes {
            scene.set_node(node);
        }
        scene.volumes = Volumes::restored(image.volumes);
        // Rules are counted once, when the first pod with them is expected.
        for PodPlace { key, node, pod, times, is_settled } in image.places {
            let name = entry(&mut scene.entries, &node);
            let (kind, ports) = (scene.counts.kind(&pod), HostPort::of(&pod));
            let guards = guards(&pod).into_iter().map(|guard| scene.counts.guard(guard)).collect();
            scene.put_on(key, name, CountedPod { pod, kind, ports, guards, times, is_settled });
        }
        for (key, pod) in image.expected {
            scene.expect(&key, pod);
        }
        scene.unblocked = image.is_unblocked;
        scene
    }
}

impl Volumes {
    fn image(&self) -> VolumesImage {
        let Self { claims, stock, classes, csi_nodes, reservations, pod_claims, .. } = self;
        let reservations = reservations.iter();
        let reservations = reservations.map(|(claim, reserved)| (claim.clone(), reserved.clone()));
        let uses = pod_claims.iter().map(|((key, node), of_pod)| ClaimUse {
            key: key.clone(),
            node: node.clone(),
            claims: of_pod.claims.clone(),
            chosen: of_pod.chosen.clone(),
        });
        VolumesImage {
            claims: claims.values().cloned().collect(),
            volumes: stock.known.values().cloned().collect(),
            classes: classes.values().cloned().collect(),
            csi_nodes: csi_nodes.values().cloned().collect(),
            reservations: reservations.collect(),
            uses: uses.collect(),
        }
    }

    fn restored(image: VolumesImage) -> Self {
        let mut all = Self::default();
        for claim in image.claims {
            let key = format!("{}/{}", claim.namespace(), claim.name());
            all.set_claim(&key, Some(claim));
        }
        for volume in image.volumes {
            let name = volume.name().to_owned();
            all.set_volume(&name, Some(volume));
        }
        for class in image.classes {
            let name = class.name().to_owned();
            all.set_class(&name, Some(class));
        }
        for node in image.csi_nodes {
            let name = node.name().to_owned();
            all.set_csi_node(&name, Some(node));
        }
        for ClaimUse { key, node, claims, chosen } in image.uses {
            all.put_back(&key, &node, PodClaims { claims, chosen, ..PodClaims::default() });
        }
        for (claim, reservation) in image.reservations {
            all.reserve(claim, reservation);
        }
        all
    }
}
