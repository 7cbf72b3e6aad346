//! Compares the existing queues with a new configuration and lists the changes that lead to it.
//!
//! A reload compares two trees; the partition, which holds the queues, applies the changes in one
//! step. Queues keep their content: a changed queue keeps its totals, and a queue that is no longer
//! configured drains and is removed once it is [empty](self#when-a-queue-is-removed).
//!
//! # Dynamic queues
//! A reload neither drains nor changes a queue that was created for an application. Once such a
//! queue is configured it is a queue like any other: settings of its template or its namespace no
//! longer apply, and it never becomes dynamic again. A dynamic queue below a draining queue
//! continues to work.
//!
//! # When a queue is removed
//! A draining queue without applications and without child queues is removed at the end of the step
//! that emptied it, because nothing new can enter it. An empty dynamic queue stays for a while,
//! because another application may come.
//!
//! # Invariants
//! * After [`changes`] are applied and empty queues are removed, every configured queue exists as
//!   configured and is Active, and every other remaining queue is Draining or dynamic.
//! * Equal trees give no changes.
//! * The order of changes is safe to apply one by one: queues are drained from the deepest up, and
//!   parents are added before their children.
//!
//! ```
//! use monoceros_rules::queues::object_state::ObjectState;
//! use monoceros_config::reload::{self, StandingQueue, Tree};
//!
//! let flat = |queues: &str| {
//!     let text = format!("partitions: [{{queues: [{{name: root, queues: [{queues}]}}]}}]");
//!     reload::flat(&monoceros_config::parse(&text).unwrap().partitions[0].root)
//! };
//! let standing = |config| StandingQueue { config, state: ObjectState::Active };
//! let before = flat("{name: a}, {name: b}").into_iter();
//! let tree: Tree = before.map(|(path, config)| (path, standing(config))).collect();
//! let changes = reload::changes(&tree, &flat("{name: b, maxapplications: 2}, {name: c}"));
//! let shown: Vec<String> = changes.iter().map(ToString::to_string).collect();
//! assert_eq!(shown, ["drain root.a", "set root.b", "add root.c"]);
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use monoceros_rules::queues::QueueConfig;
use monoceros_rules::queues::object_state::ObjectState;

/// A queue that exists in the partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingQueue {
    /// Last configuration of the queue, without children.
    pub config: Arc<QueueConfig>,
    /// Active while the queue is configured; Draining afterwards.
    pub state: ObjectState,
}

/// Queues of a partition by path. A path is longer than the path of its parent and begins with it,
/// so parents come before children.
pub type Tree = BTreeMap<Arc<str>, StandingQueue>;

/// Configured queues by path, without children.
pub type Flat = BTreeMap<Arc<str>, Arc<QueueConfig>>;

/// A change of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueChange {
    /// The queue is no longer configured. It accepts no new applications and is removed once it is
    /// empty.
    Drain(Arc<str>),
    /// The settings changed, or the queue is configured again: it becomes Active with these
    /// settings.
    Set(Arc<QueueConfig>),
    /// The queue is new. Its parent exists or was added before.
    Add(Arc<QueueConfig>),
}

impl fmt::Display for QueueChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drain(path) => write!(f, "drain {path}"),
            Self::Set(config) => write!(f, "set {}", config.path),
            Self::Add(config) => write!(f, "add {}", config.path),
        }
    }
}

/// A leaf would become a parent, or a parent a leaf, while applications or queues in it exist that
/// could then never be scheduled again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "queue `{path}` is a {now} with {what} and cannot become a {wanted} before they are gone \
     [E_QUEUE_TYPE_IN_USE]"
)]
pub struct TypeInUse {
    /// Path of the queue.
    pub path: Arc<str>,
    /// Present type of the queue: leaf or parent.
    pub now: &'static str,
    /// Type in the new configuration.
    pub wanted: &'static str,
    /// Kind of the queue's children: applications or queues.
    pub what: &'static str,
}

/// Lists the changes that lead from the existing queues to `wanted`, in one pass over both.
pub fn changes(tree: &Tree, wanted: &Flat) -> Vec<QueueChange> {
    let (mut drained, mut set, mut added) = (Vec::new(), Vec::new(), Vec::new());
    let mut wanted = wanted.iter().peekable();
    for (path, standing) in tree {
        while let Some((_, config)) = wanted.next_if(|(other, _)| *other < path) {
            added.push(QueueChange::Add(Arc::clone(config)));
        }
        let is_active = standing.state == ObjectState::Active;
        match wanted.next_if(|(other, _)| *other == path) {
            Some((_, config)) if !is_active || standing.config != *config => {
                set.push(QueueChange::Set(Arc::clone(config)));
            }
            None if standing.state != ObjectState::Draining && !standing.config.is_dynamic => {
                drained.push(QueueChange::Drain(Arc::clone(path)));
            }
            _ => {}
        }
    }
    added.extend(wanted.map(|(_, config)| QueueChange::Add(Arc::clone(config))));
    drained.reverse();
    drained.into_iter().chain(set).chain(added).collect()
}

/// Checks that after the changes no leaf has queues below it and no parent has applications.
/// `applications` returns the number of applications in a queue itself, without those below.
pub fn check(
    tree: &Tree,
    changes: &[QueueChange],
    applications: impl Fn(&str) -> usize,
) -> Result<(), TypeInUse> {
    let inhabitant = |path: &str| {
        let mut below = below(tree, path);
        if applications(path) > 0 || below.clone().any(|(other, _)| applications(other) > 0) {
            return Some("applications");
        }
        // Configured queues below that have no applications are removed by the same change, so they
        // do not prevent it.
        below.any(|(_, standing)| standing.config.is_dynamic).then_some("dynamic queues")
    };
    for change in changes {
        let QueueChange::Set(config) = change else { continue };
        debug_assert!(tree.contains_key(&config.path), "only existing queues are set");
        let was_leaf = tree.get(&config.path).is_none_or(|standing| standing.config.is_leaf);
        if was_leaf != config.is_leaf
            && let Some(what) = inhabitant(&config.path)
        {
            let (leaf, parent) = ("leaf", "parent");
            let (now, wanted) = if was_leaf { (leaf, parent) } else { (parent, leaf) };
            return Err(TypeInUse { path: Arc::clone(&config.path), now, wanted, what });
        }
    }
    Ok(())
}

/// Lists the queues below `path`. Their paths begin with its path and a dot, so they are adjacent
/// in the map, and no other entry is read.
fn below<'t>(
    tree: &'t Tree,
    path: &str,
) -> impl Iterator<Item = (&'t str, &'t StandingQueue)> + Clone {
    let prefix = format!("{path}.");
    let from = tree.range::<str, _>((Bound::Included(&*prefix), Bound::Unbounded));
    from.map(|(path, standing)| (&**path, standing))
        .take_while(move |(path, _)| path.starts_with(&prefix))
}

/// Whether two configurations of a leaf order applications by the same keys, use the same back-off,
/// and have the same preemption delay.
pub fn treats_applications_alike(a: &QueueConfig, b: &QueueConfig) -> bool {
    a.settings.sort_policy == b.settings.sort_policy
        && a.settings.priority_sort == b.settings.priority_sort
        && a.guaranteed == b.guaranteed
        && a.settings.backoff_asks == b.settings.backoff_asks
        && a.settings.backoff_delay == b.settings.backoff_delay
        && a.settings.preemption_delay == b.settings.preemption_delay
}

/// Lists the queues of a configuration by path.
pub fn flat(root: &QueueConfig) -> Flat {
    fn add(mut queue: QueueConfig, all: &mut Flat) {
        let children = std::mem::take(&mut queue.children);
        all.insert(Arc::clone(&queue.path), Arc::new(queue));
        for child in children {
            add(child, all);
        }
    }
    let mut all = Flat::new();
    add(root.clone(), &mut all);
    all
}

#[cfg(test)]
mod tests;
