//! Pods that are alike to all rules.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::objects::{Meta as _, Pod};

/// Pods that are alike to all rules.
#[derive(Debug)]
pub(super) struct Kind {
    /// One of them.
    pub(super) pod: Arc<Pod>,
    /// Pods and questions.
    pub(super) holders: u32,
    /// Questions.
    pub(super) asked: u32,
    /// How many are on each node.
    pub(super) there: FxHashMap<Arc<str>, u32>,
    /// The tallies that count it.
    pub(super) tallies: Vec<usize>,
    /// The guards that keep it away.
    pub(super) guards: Vec<usize>,
}

/// A pod by what makes its kind.
#[derive(Debug)]
pub(super) struct Alike(pub(super) Arc<Pod>);

impl PartialEq for Alike {
    fn eq(&self, other: &Self) -> bool {
        self.0.namespace() == other.0.namespace()
            && self.0.labels() == other.0.labels()
            && self.0.is_going() == other.0.is_going()
    }
}

impl Eq for Alike {}

impl Hash for Alike {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0.namespace(), self.0.labels(), self.0.is_going()).hash(state);
    }
}
