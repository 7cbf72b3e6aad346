//! The scheduler's decisions of one session, as far as they count in the scene.
//!
//! # Who counts what
//! An answer with `assume` counts its pod in the scene at once; a sync counts or forgets a pod.
//! Once an allocation has been received, the shim counts it until the pod is gone. If the scheduler
//! forgets it after that, nothing changes here.
//!
//! # Gangs
//! The scheduler asks about each member of a gang separately, and reports beforehand where the other
//! members are to be. These places count in the scene while the queries name their gang. They have
//! names of their own, so pods that the shim knows by UID are not touched.
//!
//! # Invariants
//! * Each entry of `assumed` counts in the scene, unless the shim has dismissed the pod since.
//! * A pod is not an obstacle to itself, wherever it counts already.

use std::collections::BTreeMap;

use monoceros_client::{callback as cb, si};
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::victims;
use crate::predicates::{Scene, Ties};
use crate::shim::{SharedScene, open};
use crate::translate::hold_key;

/// Topic of all pods.
const PODS: u64 = 1;
/// Topic of pods that keep others away by anti-affinity.
const KEEPERS: u64 = 2;
/// Topic of pods with claims.
const CLAIMS: u64 = 3;

/// Decisions of one session that count in the scene.
#[derive(Debug)]
pub(super) struct View {
    scene: SharedScene,
    /// Node of each pod that is placed but not received as an allocation, by the pod's key.
    assumed: FxHashMap<String, String>,
    /// Gangs in flight, by the number that the scheduler gave them.
    bundles: FxHashMap<u64, Bundle>,
    /// The gang whose places count in the scene.
    shown: Option<u64>,
    /// Pods in the snapshot that is being received.
    listed: Option<FxHashSet<String>>,
    /// Set when another session has begun; this one changes nothing more.
    is_over: bool,
}

/// Planned places of the members of a gang.
#[derive(Debug, Default)]
struct Bundle {
    places: BTreeMap<u32, MemberPlace>,
    /// Members by the keys of their pods.
    members: FxHashMap<String, u32>,
}

/// Planned place of a member.
#[derive(Debug)]
struct MemberPlace {
    /// Key under which the scene expects pods of this kind.
    key: String,
    node: String,
    /// Whether it counts in the scene.
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

    /// Starts a stream, which begins with a snapshot.
    pub(super) fn begin_stream(&mut self) {
        self.hide();
        self.bundles.clear();
        self.listed = None;
    }

    /// Ends the view, since another session begins.
    pub(super) fn end(&mut self) {
        self.hide();
        self.is_over = true;
    }

    /// Checks whether the pod of the query may run on the node, or a place may be held there.
    pub(super) fn fits(&mut self, query: &cb::PredicateQuery, node: &str) -> Result<(), String> {
        if self.is_over {
            return Err("the session is over".to_owned());
        }
        self.show(query.bundle_id);
        let key = key_of(query);
        let mut scene = open(&self.scene);
        let is_hold = query.allocation_key.is_empty();
        if is_hold && !scene.expects(&key) {
            // A group whose members are unknown may be placed on any node.
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

    /// Returns how the answer to a query relates to other nodes.
    pub(super) fn elsewhere(&self, query: &cb::PredicateQuery) -> cb::Elsewhere {
        topics(open(&self.scene).ties(&key_of(query)))
    }

    /// Counts a pod that the scheduler has placed by the answer.
    pub(super) fn assumed(&mut self, query: &cb::PredicateQuery, node: &str) {
        if !self.is_over {
            self.assume(&query.allocation_key, node);
        }
    }

    /// Applies placements, removals and snapshots of the scheduler.
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
            // Received allocations are counted by the shim.
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

    /// Notes new allocations that are about to be passed on.
    pub(super) fn received(&mut self, new: &[si::Allocation]) {
        if self.is_over {
            return;
        }
        let mut scene = open(&self.scene);
        for si::Allocation { allocation_key: key, node_id: node, .. } in new {
            if let Some(other) = self.assumed.remove(key).filter(|there| there != node) {
                scene.forget(key, &other);
            }
            // The sync may arrive after the allocation, since it uses the other stream.
            if !scene.counts(key, node) {
                scene.assume(key, node);
            }
        }
    }

    /// Sets the planned places of members of a gang.
    pub(super) fn set_places(&mut self, update: &cb::BundlePlaces, nodes: &[Option<&str>]) {
        if self.is_over {
            return;
        }
        let id = update.bundle_id;
        if self.shown == Some(id) || self.shown == Some(update.over) {
            self.hide();
        }
        self.bundles.remove(&update.over);
        let bundle = self.bundles.entry(id).or_default();
        for (place, node) in update.places.iter().zip(nodes) {
            let is_hold = place.allocation_key.is_empty();
            let key = if is_hold {
                hold_key(&update.application_id, &place.task_group_name)
            } else {
                bundle.members.insert(place.allocation_key.clone(), place.member);
                place.allocation_key.clone()
            };
            match node {
                Some(node) => {
                    let place_of = MemberPlace { key, node: (*node).to_owned(), is_shown: false };
                    bundle.places.insert(place.member, place_of);
                }
                // The node has just been removed.
                None => drop(bundle.places.remove(&place.member)),
            }
        }
    }

    /// Finds how many of the given victims must leave.
    pub(super) fn victims(
        &mut self,
        args: &si::PreemptionPredicatesArgs,
    ) -> si::PreemptionPredicatesResponse {
        self.hide();
        victims(&mut open(&self.scene), args)
    }

    /// Counts the places of this gang and of no other. 0 stands for no gang.
    fn show(&mut self, id: u64) {
        let next = Some(id).filter(|id| self.bundles.contains_key(id));
        if self.shown == next {
            return;
        }
        self.hide();
        self.shown = next;
        let Some(bundle) = self.bundles.get_mut(&id) else { return };
        let mut scene = open(&self.scene);
        for (member, place) in &mut bundle.places {
            // A member that was assumed there counts already.
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

/// Finds the place of a pod in the gang whose places count.
fn shown<'b>(
    id: Option<u64>,
    bundles: &'b mut FxHashMap<u64, Bundle>,
    key: &str,
) -> Option<(u64, u32, &'b mut MemberPlace)> {
    let bundle = bundles.get_mut(&id?)?;
    let member = *bundle.members.get(key)?;
    Some((id?, member, bundle.places.get_mut(&member)?))
}

impl Bundle {
    /// Finds the place of a pod, or one of the places to be held on the node.
    fn place_of(&self, key: &str, node: &str, is_hold: bool) -> Option<(u32, &MemberPlace)> {
        let is_it = |place: &MemberPlace| place.is_shown && place.key == key;
        if is_hold {
            let mut all = self.places.iter();
            let found = all.find(|(_, place)| is_it(place) && place.node == node);
            return found.map(|(member, place)| (*member, place));
        }
        let member = *self.members.get(key)?;
        Some((member, self.places.get(&member).filter(|place| is_it(place))?))
    }
}

impl MemberPlace {
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

/// Returns the name under which the place of a member counts.
fn name(bundle: u64, member: u32) -> String {
    format!("member {member} of gang {bundle}")
}

/// Returns the key under which the pod of a query is expected.
fn key_of(query: &cb::PredicateQuery) -> String {
    if query.allocation_key.is_empty() {
        hold_key(&query.application_id, &query.task_group_name)
    } else {
        query.allocation_key.clone()
    }
}

/// Returns the topics by which the scheduler matches queries with changes. All pods depend on pods
/// that keep others away. A pod whose rules count other pods depends on all pods.
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
