//! What the scheduler is told when it asks, and what of its decisions counts before they are told.
//!
//! # Who counts what
//! An answer with `assume` counts its pod in the scene at once, and a sync counts or forgets one. Once an
//! allocation has been told it is the shim's to count, until the pod is gone: what the scheduler has
//! forgotten of it then makes no difference.
//!
//! # Gangs
//! The scheduler asks about each member of a gang for itself, and tells beforehand where the others are
//! to be. These places count in the scene while the questions name their gang, under names of their
//! own: pods that are known by their UID to the shim are not touched.
//!
//! # Invariants
//! * What is in `assumed` counts in the scene, unless the shim has dismissed the pod since.
//! * A pod does not stand in its own way, wherever it counts already.

use std::collections::BTreeMap;

use monoceros_client::{callback as cb, si};
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::victims;
use crate::predicates::{Scene, Ties};
use crate::shim::{SharedScene, open};
use crate::translate::hold_key;

/// Every pod.
const PODS: u64 = 1;
/// Pods that keep others away.
const KEEPERS: u64 = 2;
/// Pods with claims.
const CLAIMS: u64 = 3;

/// The decisions of one session, as far as the scene has them from here.
#[derive(Debug)]
pub(super) struct View {
    scene: SharedScene,
    /// Where pods count that are placed and not told yet, by their key.
    assumed: FxHashMap<String, String>,
    /// Gangs that are asked about, by the number that the scheduler gave them.
    bundles: FxHashMap<u64, Bundle>,
    /// The one whose places count in the scene.
    shown: Option<u64>,
    /// What the list has that is being told of everything.
    listed: Option<FxHashSet<String>>,
    /// Another session has begun: this one changes nothing any more.
    is_over: bool,
}

/// Where the members of a gang are to be.
#[derive(Debug, Default)]
struct Bundle {
    places: BTreeMap<u32, Place>,
    /// Members by the keys of their pods.
    members: FxHashMap<String, u32>,
}

/// Where one of them is to be.
#[derive(Debug)]
struct Place {
    /// Under which pods of its kind are expected.
    key: String,
    node: String,
    /// It counts in the scene.
    is_shown: bool,
}

impl View {
    pub(super) fn new(scene: SharedScene) -> Self {
        Self {
            scene,
            assumed: FxHashMap::default(),
            bundles: FxHashMap::default(),
            shown: None,
            listed: None,
            is_over: false,
        }
    }

    /// A stream begins, on which everything is told anew.
    pub(super) fn begin_stream(&mut self) {
        self.hide();
        self.bundles.clear();
        self.listed = None;
    }

    /// Another session begins.
    pub(super) fn end(&mut self) {
        self.hide();
        self.is_over = true;
    }

    /// Whether the pod of the query may run on the node, or a place may be held there.
    pub(super) fn fits(&mut self, query: &cb::PredicateQuery, node: &str) -> Result<(), String> {
        if self.is_over {
            return Err("the session is over".to_owned());
        }
        self.show(query.bundle_id);
        let key = key_of(query);
        let mut scene = open(&self.scene);
        let is_hold = query.allocation_key.is_empty();
        if is_hold && !scene.expects(&key) {
            // A group of which nothing but its size is known may be anywhere.
            return Ok(());
        }
        let mut own = Vec::new();
        if !is_hold && let Some(place) = self.assumed.get(&key) {
            own.push((key.clone(), place.clone()));
        }
        if let Some((id, bundle)) = self.shown.and_then(|id| Some((id, self.bundles.get(&id)?)))
            && let Some((member, place)) = bundle.place_of(&key, node, is_hold)
        {
            own.push((name(id, member), place.node.clone()));
        }
        own.retain(|(name, place)| scene.forget(name, place));
        let answer = scene.check(&key, node);
        for (name, place) in &own {
            scene.assume_as(name, &key, place);
        }
        answer
    }

    /// What the answer to a query has to do with other nodes.
    pub(super) fn elsewhere(&self, query: &cb::PredicateQuery) -> cb::Elsewhere {
        topics(open(&self.scene).ties(&key_of(query)))
    }

    /// The scheduler takes the answer for a placement.
    pub(super) fn assumed(&mut self, query: &cb::PredicateQuery, node: &str) {
        if !self.is_over {
            self.assume(&query.allocation_key, node);
        }
    }

    /// Something was placed, or has gone, or all is told anew.
    pub(super) fn sync(&mut self, sync: &cb::CacheSync) {
        if self.is_over {
            return;
        }
        let args = sync.args.as_ref();
        for placed in args.into_iter().flat_map(|args| &args.assumed_allocations) {
            let (key, node) = (&placed.allocation_key, &placed.node_id);
            if sync.snapshot {
                self.listed.get_or_insert_default().insert(key.clone());
            }
            // What was told before is counted by the shim.
            if self.assumed.contains_key(key) || !open(&self.scene).counts(key, node) {
                self.assume(key, node);
            }
        }
        for gone in args.into_iter().flat_map(|args| &args.forget_allocations) {
            self.forget(&gone.allocation_key);
        }
        if sync.snapshot && sync.snapshot_end {
            let listed = self.listed.take().unwrap_or_default();
            let gone: Vec<_> =
                self.assumed.keys().filter(|key| !listed.contains(*key)).cloned().collect();
            for key in gone {
                self.forget(&key);
            }
        }
    }

    /// Allocations are about to be told.
    pub(super) fn told(&mut self, new: &[si::Allocation]) {
        if self.is_over {
            return;
        }
        let mut scene = open(&self.scene);
        for si::Allocation { allocation_key: key, node_id: node, .. } in new {
            if let Some(other) = self.assumed.remove(key).filter(|there| there != node) {
                scene.forget(key, &other);
            }
            // Its sync may come later by the other stream.
            if !scene.counts(key, node) {
                scene.assume(key, node);
            }
        }
    }

    /// Where members of a gang are to be.
    pub(super) fn places(&mut self, told: &cb::BundlePlaces, nodes: &[Option<&str>]) {
        if self.is_over {
            return;
        }
        let id = told.bundle_id;
        if self.shown == Some(id) || self.shown == Some(told.over) {
            self.hide();
        }
        self.bundles.remove(&told.over);
        let bundle = self.bundles.entry(id).or_default();
        for (place, node) in told.places.iter().zip(nodes) {
            let is_hold = place.allocation_key.is_empty();
            let key = if is_hold {
                hold_key(&told.application_id, &place.task_group_name)
            } else {
                bundle.members.insert(place.allocation_key.clone(), place.member);
                place.allocation_key.clone()
            };
            match node {
                Some(node) => {
                    let place_of = Place { key, node: (*node).to_owned(), is_shown: false };
                    bundle.places.insert(place.member, place_of);
                }
                // It has just gone.
                None => drop(bundle.places.remove(&place.member)),
            }
        }
    }

    /// How many of those that would be preempted have to leave.
    pub(super) fn victims(
        &mut self,
        args: &si::PreemptionPredicatesArgs,
    ) -> si::PreemptionPredicatesResponse {
        self.hide();
        victims(&mut open(&self.scene), args)
    }

    /// The places of this gang count, and of no other; 0 is none.
    fn show(&mut self, id: u64) {
        let wanted = Some(id).filter(|id| self.bundles.contains_key(id));
        if self.shown == wanted {
            return;
        }
        self.hide();
        self.shown = wanted;
        let Some(bundle) = self.bundles.get_mut(&id) else { return };
        let mut scene = open(&self.scene);
        for (member, place) in &mut bundle.places {
            // It counts where it was assumed.
            if self.assumed.get(&place.key) != Some(&place.node) {
                place.show(id, *member, &mut scene);
            }
        }
    }

    fn hide(&mut self) {
        let Some(id) = self.shown.take() else { return };
        let Some(bundle) = self.bundles.get_mut(&id) else { return };
        let mut scene = open(&self.scene);
        for (member, place) in &mut bundle.places {
            place.hide(id, *member, &mut scene);
        }
    }

    fn assume(&mut self, key: &str, node: &str) {
        let mut scene = open(&self.scene);
        if let Some(before) = self.assumed.insert(key.to_owned(), node.to_owned()) {
            scene.forget(key, &before);
        }
        scene.assume(key, node);
        if let Some((id, member, place)) = shown(self.shown, &mut self.bundles, key) {
            place.hide(id, member, &mut scene);
        }
    }

    fn forget(&mut self, key: &str) {
        let Some(node) = self.assumed.remove(key) else { return };
        let mut scene = open(&self.scene);
        scene.forget(key, &node);
        if let Some((id, member, place)) = shown(self.shown, &mut self.bundles, key) {
            place.show(id, member, &mut scene);
        }
    }
}

/// The place of a pod in the gang that is shown.
fn shown<'b>(
    id: Option<u64>,
    bundles: &'b mut FxHashMap<u64, Bundle>,
    key: &str,
) -> Option<(u64, u32, &'b mut Place)> {
    let bundle = bundles.get_mut(&id?)?;
    let member = *bundle.members.get(key)?;
    Some((id?, member, bundle.places.get_mut(&member)?))
}

impl Bundle {
    /// The place of a pod, or one of those that would be held there.
    fn place_of(&self, key: &str, node: &str, is_hold: bool) -> Option<(u32, &Place)> {
        let is_it = |place: &Place| place.is_shown && place.key == key;
        if is_hold {
            let mut all = self.places.iter();
            let found = all.find(|(_, place)| is_it(place) && place.node == node);
            return found.map(|(member, place)| (*member, place));
        }
        let member = *self.members.get(key)?;
        Some((member, self.places.get(&member).filter(|place| is_it(place))?))
    }
}

impl Place {
    fn show(&mut self, id: u64, member: u32, scene: &mut Scene) {
        if !self.is_shown {
            scene.assume_as(&name(id, member), &self.key, &self.node);
            self.is_shown = true;
        }
    }

    fn hide(&mut self, id: u64, member: u32, scene: &mut Scene) {
        if self.is_shown {
            scene.forget(&name(id, member), &self.node);
            self.is_shown = false;
        }
    }
}

/// Under which name the place of a member counts.
fn name(bundle: u64, member: u32) -> String {
    format!("member {member} of gang {bundle}")
}

/// Under which key the pod of a query is expected.
fn key_of(query: &cb::PredicateQuery) -> String {
    if query.allocation_key.is_empty() {
        hold_key(&query.application_id, &query.task_group_name)
    } else {
        query.allocation_key.clone()
    }
}

/// What a pod has to do with other nodes, as the scheduler compares it. All pods depend on those that keep
/// others away; whom they see when they look around is any pod.
fn topics(ties: Ties) -> cb::Elsewhere {
    let Ties { looks_around, keeps_away, has_claims } = ties;
    let some = |topics: &[(u64, bool)]| {
        topics.iter().filter(|(_, is_one)| *is_one).map(|(topic, _)| *topic).collect()
    };
    cb::Elsewhere {
        depends_on: some(&[(PODS, looks_around), (KEEPERS, true), (CLAIMS, has_claims)]),
        affects: some(&[(PODS, true), (KEEPERS, keeps_away), (CLAIMS, has_claims)]),
    }
}

#[cfg(test)]
mod tests;
