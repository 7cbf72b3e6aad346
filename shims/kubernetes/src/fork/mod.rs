//! Forks of a cluster: the predicates of a running shim, answered without an API server.
//!
//! # How
//! An image of the scheduler has a [`mirror`] of the scene: nodes, pods, volumes and claims, with the
//! fields that predicates read. A [`Fork`] makes a scene of it, and answers with the code of the
//! running shim. What happens in the cluster from then on, its owner reports: pods start, end, and are
//! created as copies of others, as controllers create them.
//!
//! # What is simplified
//! * The volumes of a pod are bound when it starts. One that is provisioned stays reserved for
//!   the node of the pod, since nobody knows where else it could be reached.
//! * A volume stays bound when its pod ends.
//! * Asks without a known pod pass all predicates. They are counted.

mod form;
mod keys;
#[cfg(test)]
mod tests;
mod trimmed;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use monoceros_actors::{
    Assumed, Fits, ForkedPredicates, Mirror, MirrorMaker, Preferences, ResourceManagerCallback,
};
use monoceros_proto::si::v1 as si;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::engine::{Answers, fits, victims};
use crate::objects::{
    BIND_COMPLETED, ClaimRef, CsiNode, Meta as _, Node, PersistentVolumeClaim, Pod,
};
use crate::predicates::{HOST, SELECTED_NODE, Scene, SceneImage, VolumeChoice};
use crate::shim::{SharedScene, TRIES_APART, open};

/// Copies the scene. The returned closure writes the copy.
pub fn mirror(scene: &SharedScene, prefers_among_all: bool) -> MirrorMaker {
    let image = open(scene).image();
    Box::new(move || form::write(image, prefers_among_all))
}

/// Returns the scene that is read from the mirror of a scene.
#[cfg(test)]
pub(crate) fn reread(scene: &Scene) -> Scene {
    let mirror = form::write(scene.image(), false);
    Scene::restored(form::read(&mirror).expect("a mirror").image)
}

/// A mirror cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// A part has another form.
    #[error("the mirror of the cluster cannot be read: {0}")]
    Form(#[from] serde_json::Error),
    /// A pod has a template that is not there.
    #[error("the mirror of the cluster cannot be read: it has no template {0}")]
    Template(usize),
}

/// What a mirror contains.
#[derive(Debug, Default)]
struct Forked {
    image: SceneImage,
    prefers_among_all: bool,
}

/// The predicates of a cluster, from the step of a mirror on.
#[derive(Debug)]
pub struct Fork {
    answers: Answers,
    /// All pods by key, with those that have ended.
    pods: Mutex<FxHashMap<Arc<str>, Arc<Pod>>>,
    /// Keys of asks without a pod.
    unknown: Mutex<FxHashSet<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fork {
    /// Makes the fork of a mirror.
    ///
    /// # Errors
    /// If the mirror was not written by this version.
    pub fn from_mirror(mirror: &Mirror) -> Result<Self, ForkError> {
        let Forked { image, prefers_among_all } = form::read(mirror)?;
        let placed = image.places.iter().map(|place| (&place.key, &place.pod));
        let pending = image.expected.iter().map(|(key, pod)| (key, pod));
        let pods = placed.chain(pending);
        let pods = pods.map(|(key, pod)| (Arc::clone(key), Arc::clone(pod))).collect();
        let scene = Arc::new(Mutex::new(Scene::restored(image)));
        Ok(Self {
            answers: Answers { scene, prefers_among_all },
            pods: Mutex::new(pods),
            unknown: Mutex::default(),
        })
    }

    /// Returns the scene, for tests and checks.
    pub fn scene(&self) -> &SharedScene {
        &self.answers.scene
    }

    /// Expects questions about a new pod under this key. Of its labels only those have an effect that
    /// a rule of the mirror's pods reads as well.
    pub fn expect(&self, key: &str, pod: Arc<Pod>) {
        lock(&self.pods).insert(Arc::from(key), Arc::clone(&pod));
        self.scene_mut().expect(key, pod);
    }

    fn scene_mut(&self) -> MutexGuard<'_, Scene> {
        open(&self.answers.scene)
    }

    fn pod(&self, key: &str) -> Option<Arc<Pod>> {
        lock(&self.pods).get(key).cloned()
    }

    /// Returns whether the ask has no pod. Counts it, if so.
    fn is_unknown(&self, key: &str) -> bool {
        if lock(&self.pods).contains_key(key) {
            return false;
        }
        let mut unknown = lock(&self.unknown);
        if !unknown.contains(key) {
            unknown.insert(key.to_owned());
        }
        true
    }
}

/// Writes the binding of a claim to the volume that was chosen when its pod was placed on the node.
fn bind(scene: &mut Scene, namespace: &str, node: &str, choice: &VolumeChoice) {
    let key = format!("{namespace}/{}", choice.claim());
    let Some(claim) = scene.claim(&key).filter(|claim| claim.volume().is_none()) else { return };
    let mut bound = PersistentVolumeClaim::clone(&claim);
    let annotations = bound.metadata.annotations.get_or_insert_default();
    let Some(name) = choice.volume() else {
        annotations.insert(SELECTED_NODE.to_owned(), node.to_owned());
        return scene.set_claim(&key, Some(Arc::new(bound)));
    };
    annotations.insert(BIND_COMPLETED.to_owned(), "yes".to_owned());
    bound.spec.volume_name = Some(name.to_owned());
    if let Some(volume) = scene.volume(name) {
        let mut volume = volume.as_ref().clone();
        volume.spec.claim_ref = Some(ClaimRef {
            namespace: namespace.to_owned(),
            name: claim.name().to_owned(),
            uid: Some(claim.uid().to_owned()),
        });
        volume.status.phase = Some("Bound".to_owned());
        scene.set_volume(name, Some(Arc::new(volume)));
    }
    scene.set_claim(&key, Some(Arc::new(bound)));
}

/// Makes a copy of the pod with another key. Claims that are made for each pod are made for it.
fn copy(scene: &mut Scene, pod: &Pod, key: &str) -> Pod {
    let mut copy = pod.clone();
    copy.metadata.deletion_timestamp = None;
    let owned = pod.claims().filter(|mount| mount.is_own);
    let owned: Vec<_> = owned.map(|mount| mount.claim).collect();
    if owned.is_empty() {
        return copy;
    }
    copy.metadata.name = Some(key.to_owned());
    copy.metadata.uid = Some(key.to_owned());
    let namespace = pod.namespace();
    for name in owned {
        let Some(claim) = scene.claim(&format!("{namespace}/{name}")) else { continue };
        let volume = name.strip_prefix(pod.name()).unwrap_or_default();
        let name = format!("{key}{volume}");
        let mut claim = PersistentVolumeClaim::clone(&claim);
        claim.metadata.uid = Some(name.clone());
        claim.metadata.name = Some(name.clone());
        claim.metadata.annotations = None;
        claim.metadata.deletion_timestamp = None;
        claim.metadata.owner_references = Some(vec![OwnerReference {
            uid: key.to_owned(),
            controller: Some(true),
            ..OwnerReference::default()
        }]);
        claim.spec.volume_name = None;
        claim.status.phase = None;
        scene.set_claim(&format!("{namespace}/{name}"), Some(Arc::new(claim)));
    }
    copy
}

impl ForkedPredicates for Fork {
    fn started(&self, allocation_key: &str, node_id: &str) {
        let Some(pod) = self.pod(allocation_key) else { return };
        let mut scene = self.scene_mut();
        let choices = scene.volume_choices(allocation_key);
        scene.dismiss(allocation_key);
        scene.settle(allocation_key, node_id, &pod);
        for choice in choices {
            bind(&mut scene, pod.namespace(), node_id, &choice);
        }
    }

    fn ended(&self, allocation_key: &str) {
        let mut scene = self.scene_mut();
        scene.dismiss(allocation_key);
        scene.clear(allocation_key);
    }

    fn created(&self, allocation_key: &str, like: &str) {
        let Some(pod) = self.pod(like) else { return };
        let pod = copy(&mut self.scene_mut(), &pod, allocation_key);
        self.expect(allocation_key, Arc::new(pod));
    }

    fn node_added(&self, node_id: &str, like: &str) {
        let mut scene = self.scene_mut();
        let Some(node) = scene.node(like) else { return };
        let mut node = Node::clone(&node);
        node.metadata.name = Some(node_id.to_owned());
        if let Some(host) = node.metadata.labels.as_mut().and_then(|all| all.get_mut(HOST)) {
            node_id.clone_into(host);
        }
        if let Some(drivers) = scene.csi_node(like) {
            let mut drivers = CsiNode::clone(&drivers);
            drivers.metadata.name = Some(node_id.to_owned());
            scene.set_csi_node(node_id, Some(Arc::new(drivers)));
        }
        scene.set_node(Arc::new(node));
    }

    fn node_removed(&self, node_id: &str) {
        let mut scene = self.scene_mut();
        scene.remove_node(node_id);
        scene.set_csi_node(node_id, None);
    }

    fn take_unblocked(&self) -> bool {
        self.scene_mut().take_unblocked()
    }

    fn retries_apart(&self) -> Duration {
        TRIES_APART
    }

    fn unknown_asks(&self) -> usize {
        lock(&self.unknown).len()
    }
}

/// The part that answers. Notifications are the owner's: it has a callback of its own, and passes
/// questions on to this one.
impl ResourceManagerCallback for Fork {
    fn update_allocation(&self, _: si::AllocationResponse) {}

    fn update_application(&self, _: si::ApplicationResponse) {}

    fn update_node(&self, _: si::NodeResponse) {}

    fn predicates(&self, args: &si::PredicatesArgs) -> Result<(), String> {
        if self.is_unknown(&args.allocation_key) { Ok(()) } else { self.answers.check(args) }
    }

    fn hold_predicates(&self, args: &si::PredicatesArgs) -> Result<(), String> {
        self.answers.check_hold(args)
    }

    fn preferences(&self, allocation_key: &str) -> Preferences {
        self.answers.preferences(allocation_key)
    }

    fn preference(&self, args: &si::PredicatesArgs) -> i64 {
        self.answers.preference(args)
    }

    /// Counts at once: nothing waits for a fork.
    fn fits(&self, application_id: &str, allocation_key: &str, task_group_name: &str) -> Fits {
        let mut scene = self.scene_mut();
        let first = fits(&mut scene, application_id, allocation_key, task_group_name);
        if !scene.has_to_count() {
            return first;
        }
        while scene.count_fits() > 0 {}
        fits(&mut scene, application_id, allocation_key, task_group_name)
    }

    fn assumed(&self, what: &Assumed<'_>) {
        self.answers.assume(what);
    }

    fn forgotten(&self, what: &Assumed<'_>) {
        self.answers.forget(what);
    }

    fn preemption_predicates(
        &self,
        args: &si::PreemptionPredicatesArgs,
    ) -> si::PreemptionPredicatesResponse {
        if self.is_unknown(&args.allocation_key) {
            let index = if args.preempt_allocation_keys.is_empty() { -1 } else { args.start_index };
            return si::PreemptionPredicatesResponse { success: true, index };
        }
        victims(&mut self.scene_mut(), args)
    }
}
