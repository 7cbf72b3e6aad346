//! Pods that all rules treat alike.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::objects::{Meta as _, Pod};

/// Pods that all rules treat alike.
#[derive(Debug)]
pub(super) struct PodKind {
    /// One of the pods.
    pub(super) pod: Arc<Pod>,
    /// Number of its pods and of questions about them.
    pub(super) holders: u32,
    /// Number of questions about its pods.
    pub(super) asked: u32,
    /// Number of pods on each node.
    pub(super) there: FxHashMap<Arc<str>, u32>,
    /// Tallies that count the kind.
    pub(super) tallies: Vec<usize>,
    /// Guards that keep the kind away.
    pub(super) guards: Vec<usize>,
}

/// A pod, compared by the properties that define its kind.
#[derive(Debug)]
pub(super) struct PodKindKey(pub(super) Arc<Pod>);

impl PartialEq for PodKindKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.namespace() == other.0.namespace()
            && self.0.labels() == other.0.labels()
            && self.0.is_going() == other.0.is_going()
    }
}

impl Eq for PodKindKey {}

impl Hash for PodKindKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0.namespace(), self.0.labels(), self.0.is_going()).hash(state);
    }
}
