//! Answers to predicates, from a scene. A fork of the scheduler gets them as the running one.

use monoceros_actors::{Assumed, Fits, Preferences};
use monoceros_proto::si::v1 as si;

use crate::predicates::Scene;
use crate::shim::{SharedScene, open};
use crate::translate::hold_key;

/// Answers predicates.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    pub(crate) scene: SharedScene,
    /// Whether preferences of pods decide between all nodes, instead of between nodes that are equal
    /// in the partition's order.
    pub(crate) prefers_among_all: bool,
}

/// Returns the name under which the scene counts an assumed placement.
fn known_as(what: &Assumed<'_>) -> String {
    if what.allocation_key.is_empty() {
        hold_key(what.application_id, what.task_group_name)
    } else {
        what.allocation_key.to_owned()
    }
}

/// Returns which nodes an ask may use, or the members of a group if the key is empty.
pub(crate) fn fits(scene: &mut Scene, application: &str, key: &str, group: &str) -> Fits {
    match key {
        "" => scene.fits(&hold_key(application, group)),
        key => scene.fits(key),
    }
}

impl Answers {
    pub(crate) fn check(&self, args: &si::PredicatesArgs) -> Result<(), String> {
        open(&self.scene).check(&args.allocation_key, &args.node_id)
    }

    pub(crate) fn check_hold(&self, args: &si::PredicatesArgs) -> Result<(), String> {
        let key = hold_key(&args.application_id, &args.task_group_name);
        let scene = open(&self.scene);
        // A group whose members are unknown may be placed on any node.
        if scene.expects(&key) { scene.check(&key, &args.node_id) } else { Ok(()) }
    }

    pub(crate) fn preferences(&self, allocation_key: &str) -> Preferences {
        match open(&self.scene).has_preferences(allocation_key) {
            false => Preferences::None,
            true if self.prefers_among_all => Preferences::AmongAllNodes,
            true => Preferences::AmongEqualNodes,
        }
    }

    pub(crate) fn preference(&self, args: &si::PredicatesArgs) -> i64 {
        open(&self.scene).preference(&args.allocation_key, &args.node_id)
    }

    pub(crate) fn assume(&self, what: &Assumed<'_>) {
        open(&self.scene).assume(&known_as(what), what.node_id);
    }

    pub(crate) fn forget(&self, what: &Assumed<'_>) {
        open(&self.scene).forget(&known_as(what), what.node_id);
    }
}
