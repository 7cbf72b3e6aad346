//! The form of a mirror: the image of a scene as parts of JSON, written and read.
//!
//! Pods of one template are equal but for their keys. So each template is written once, in the form of
//! the API, and a pod is a row with its key, the number of its template, and its node. Everything is
//! in the order of names, so that equal scenes have equal mirrors.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_actors::Mirror;
use rustc_hash::FxHashMap;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::keys::Keys;
use super::trimmed::{self, TrimmedPod, without_nulls};
use super::{ForkError, Forked};
use crate::objects::{Meta as _, Pod};
use crate::predicates::{ClaimUse, PodPlace, Reservation, SceneImage, VolumesImage};

/// Most items of a part, which is a line of a file.
const ITEMS: usize = 2_000;

/// A placement that is assumed: key, template and node of the pod, its number, and whether it is known to
/// run.
type Assumed = (Arc<str>, usize, Arc<str>, u32, bool);

/// A part of a mirror. Parts add up.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Part {
    #[serde(skip_serializing_if = "is_nothing")]
    prefers_among_all: bool,
    #[serde(skip_serializing_if = "is_nothing")]
    is_unblocked: bool,
    /// Labels of namespaces.
    #[serde(skip_serializing_if = "is_nothing")]
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "is_nothing")]
    nodes: Vec<Value>,
    /// Pods without keys.
    #[serde(skip_serializing_if = "is_nothing")]
    templates: Vec<Value>,
    /// Key, template and node of each running pod.
    #[serde(skip_serializing_if = "is_nothing")]
    running: Vec<(Arc<str>, usize, Arc<str>)>,
    #[serde(skip_serializing_if = "is_nothing")]
    assumed: Vec<Assumed>,
    /// Key and template of each pending pod.
    #[serde(skip_serializing_if = "is_nothing")]
    pending: Vec<(Arc<str>, usize)>,
    #[serde(skip_serializing_if = "is_nothing")]
    claims: Vec<Value>,
    #[serde(skip_serializing_if = "is_nothing")]
    volumes: Vec<Value>,
    #[serde(skip_serializing_if = "is_nothing")]
    classes: Vec<Value>,
    #[serde(skip_serializing_if = "is_nothing")]
    csi_nodes: Vec<Value>,
    #[serde(skip_serializing_if = "is_nothing")]
    reservations: Vec<(String, Reservation)>,
    #[serde(skip_serializing_if = "is_nothing")]
    uses: Vec<ClaimUse>,
}

fn is_nothing<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Templates of pods, each once.
#[derive(Debug)]
struct Templates<'k> {
    keys: &'k Keys,
    numbers: FxHashMap<String, usize>,
    all: Vec<Value>,
}

impl Templates<'_> {
    fn number(&mut self, pod: &Pod) -> usize {
        let trimmed = TrimmedPod::of(pod, self.keys);
        let text = serde_json::to_string(&trimmed).unwrap_or_default();
        *self.numbers.entry(text).or_insert_with(|| {
            self.all.push(serde_json::to_value(&trimmed).unwrap_or_default());
            self.all.len() - 1
        })
    }
}

/// Collects parts.
#[derive(Default)]
struct Parts(Vec<Value>);

impl Parts {
    fn add(&mut self, part: &Part) {
        // Maps have texts as keys, so nothing here cannot be written.
        self.0.push(serde_json::to_value(part).unwrap_or_default());
    }

    /// Adds the items in parts of bounded size.
    fn add_all<T>(&mut self, items: Vec<T>, of: impl Fn(Vec<T>) -> Part) {
        let mut items = items.into_iter();
        loop {
            let some: Vec<_> = items.by_ref().take(ITEMS).collect();
            if some.is_empty() {
                return;
            }
            self.add(&of(some));
        }
    }
}

fn keys(image: &SceneImage) -> Keys {
    let mut keys = Keys::new();
    image.places.iter().for_each(|place| keys.add_pod(&place.pod));
    image.expected.iter().for_each(|(_, pod)| keys.add_pod(pod));
    image.volumes.volumes.iter().for_each(|volume| keys.add_volume(volume));
    image.volumes.claims.iter().for_each(|claim| keys.add_claim(claim));
    image.volumes.classes.iter().for_each(|class| keys.add_class(class));
    keys
}

/// Writes the image of a scene.
pub(super) fn write(mut image: SceneImage, prefers_among_all: bool) -> Mirror {
    let keys = keys(&image);
    let mut parts = Parts::default();
    let namespaces = image.namespaces.iter().map(|(name, labels)| {
        let labels = keys.namespaces.of(labels).into_iter();
        let labels: BTreeMap<_, _> =
            labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        (name.clone(), labels)
    });
    parts.add(&Part {
        prefers_among_all,
        is_unblocked: image.is_unblocked,
        namespaces: namespaces.filter(|(_, labels)| !labels.is_empty()).collect(),
        ..Part::default()
    });
    image.nodes.sort_unstable_by(|one, other| one.name().cmp(other.name()));
    let nodes = image.nodes.iter().map(|node| without_nulls(trimmed::node(node, &keys))).collect();
    parts.add_all(nodes, |nodes| Part { nodes, ..Part::default() });
    write_pods(&mut parts, image.places, image.expected, &keys);
    write_volumes(&mut parts, image.volumes, &keys);
    Mirror { parts: parts.0 }
}

fn write_pods(
    parts: &mut Parts,
    mut places: Vec<PodPlace>,
    mut expected: Vec<(Arc<str>, Arc<Pod>)>,
    keys: &Keys,
) {
    let mut templates = Templates { keys, numbers: FxHashMap::default(), all: Vec::new() };
    // The places of one pod keep their order.
    places.sort_by(|one, other| one.key.cmp(&other.key));
    expected.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    let (mut running, mut assumed) = (Vec::new(), Vec::new());
    for PodPlace { key, node, pod, times, is_settled } in places {
        let template = templates.number(&pod);
        if is_settled && times == 1 {
            running.push((key, template, node));
        } else {
            assumed.push((key, template, node, times, is_settled));
        }
    }
    let pending = expected.into_iter().map(|(key, pod)| (key, templates.number(&pod))).collect();
    parts.add_all(templates.all, |templates| Part { templates, ..Part::default() });
    parts.add_all(running, |running| Part { running, ..Part::default() });
    parts.add_all(assumed, |assumed| Part { assumed, ..Part::default() });
    parts.add_all(pending, |pending| Part { pending, ..Part::default() });
}

fn write_volumes(parts: &mut Parts, mut image: VolumesImage, keys: &Keys) {
    image.claims.sort_unstable_by(|one, other| {
        (one.namespace(), one.name()).cmp(&(other.namespace(), other.name()))
    });
    image.volumes.sort_unstable_by(|one, other| one.name().cmp(other.name()));
    image.classes.sort_unstable_by(|one, other| one.name().cmp(other.name()));
    image.csi_nodes.sort_unstable_by(|one, other| one.name().cmp(other.name()));
    image.reservations.sort_unstable();
    image.uses.sort_unstable_by(|one, other| (&one.key, &one.node).cmp(&(&other.key, &other.node)));
    let claims = image.claims.iter().map(|claim| without_nulls(trimmed::claim(claim, keys)));
    parts.add_all(claims.collect(), |claims| Part { claims, ..Part::default() });
    let volumes = image.volumes.iter().map(|volume| without_nulls(trimmed::volume(volume, keys)));
    parts.add_all(volumes.collect(), |volumes| Part { volumes, ..Part::default() });
    let classes = image.classes.iter().map(|class| without_nulls(trimmed::class(class)));
    parts.add_all(classes.collect(), |classes| Part { classes, ..Part::default() });
    let csi_nodes = image.csi_nodes.iter().map(|node| without_nulls(trimmed::csi_node(node)));
    parts.add_all(csi_nodes.collect(), |csi_nodes| Part { csi_nodes, ..Part::default() });
    let reservations = image.reservations;
    parts.add_all(reservations, |reservations| Part { reservations, ..Part::default() });
    parts.add_all(image.uses, |uses| Part { uses, ..Part::default() });
}

/// Reads a mirror.
pub(super) fn read(mirror: &Mirror) -> Result<Forked, ForkError> {
    let mut forked = Forked::default();
    let image = &mut forked.image;
    let mut templates: Vec<Arc<Pod>> = Vec::new();
    // One pod stands for all of a template, except where claims are made for each.
    let pod = |templates: &[Arc<Pod>], number: usize| {
        templates.get(number).cloned().ok_or(ForkError::Template(number))
    };
    for part in &mirror.parts {
        let part = Part::deserialize(part)?;
        forked.prefers_among_all |= part.prefers_among_all;
        image.is_unblocked |= part.is_unblocked;
        image.namespaces.extend(part.namespaces);
        read_all(part.nodes, &mut image.nodes)?;
        read_all(part.templates, &mut templates)?;
        for (key, template, node) in part.running {
            let pod = pod(&templates, template)?;
            image.places.push(PodPlace { key, node, pod, times: 1, is_settled: true });
        }
        for (key, template, node, times, is_settled) in part.assumed {
            let pod = pod(&templates, template)?;
            image.places.push(PodPlace { key, node, pod, times, is_settled });
        }
        for (key, template) in part.pending {
            image.expected.push((key, pod(&templates, template)?));
        }
        let volumes = &mut image.volumes;
        read_all(part.claims, &mut volumes.claims)?;
        read_all(part.volumes, &mut volumes.volumes)?;
        read_all(part.classes, &mut volumes.classes)?;
        read_all(part.csi_nodes, &mut volumes.csi_nodes)?;
        volumes.reservations.extend(part.reservations);
        volumes.uses.extend(part.uses);
    }
    Ok(forked)
}

fn read_all<T: DeserializeOwned>(
    from: Vec<Value>,
    into: &mut Vec<Arc<T>>,
) -> Result<(), ForkError> {
    for value in from {
        into.push(Arc::new(serde_json::from_value(value)?));
    }
    Ok(())
}
