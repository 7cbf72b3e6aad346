//! From the queues as they stand to the queues as they are now configured.
//!
//! A reload compares two trees and says what has to change; whoever holds the queues carries it out
//! in one step. Queues keep what is in them: a changed one goes on with its totals, one that is no
//! longer configured drains, and goes once it is [empty](self#when-a-queue-goes).
//!
//! # Dynamic queues
//! A queue that an application needed is none of the configuration's business: it neither drains nor
//! changes. Once it is configured it is a queue as any other, with nothing left of its template or
//! its namespace, and it never becomes dynamic again. Below a queue that drains it goes on.
//!
//! # When a queue goes
//! A draining queue without applications and without queues below it goes at once, at the end of
//! the step that made it so: nothing can come to it any more, so there is nothing to wait for. Dynamic
//! ones stay for a while, because an application may come.
//!
//! # Invariants
//! * After [`changes`] are carried out and what is empty is gone, every configured queue is
//!   there as configured and Active, and every other one that is left is Draining or dynamic.
//! * Trees that agree give no change.
//! * Changes of one queue come after those of the queues it stands on: drained are the deepest
//!   first, added parents before children.
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

/// A queue as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingQueue {
    /// As it was last configured, its children left out.
    pub config: Arc<QueueConfig>,
    /// Whether it is still configured.
    pub state: ObjectState,
}

/// The queues of a partition by path. The path of a queue is longer than that of its parent and
/// begins with it: parents come before children.
pub type Tree = BTreeMap<Arc<str>, StandingQueue>;

/// Every queue of a configuration by its path, its children left out.
pub type Flat = BTreeMap<Arc<str>, Arc<QueueConfig>>;

/// One thing to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueChange {
    /// No longer configured: it takes nothing new and goes once it is empty.
    Drain(Arc<str>),
    /// Other settings, or configured again: it is Active with these.
    Set(Arc<QueueConfig>),
    /// New, below a queue that is there or was added before.
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

/// A leaf would become a parent or a parent a leaf, and something lives there or below it that could
/// never be scheduled again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "queue `{path}` is a {now} with {what} and cannot become a {wanted} before they are gone \
     [E_QUEUE_TYPE_IN_USE]"
)]
pub struct TypeInUse {
    /// Of the queue.
    pub path: Arc<str>,
    /// What it is.
    pub now: &'static str,
    /// What it would be.
    pub wanted: &'static str,
    /// What lives there.
    pub what: &'static str,
}

/// What makes `wanted` of the queues as they stand, in one pass over both.
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

/// Whether the changes leave every application in a leaf and no queue below one; `applications`
/// counts those that a queue has itself.
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
        // Configured queues below that have no applications go with this change, and do not hinder
        // it.
        below.any(|(_, standing)| standing.config.is_dynamic).then_some("dynamic queues")
    };
    for change in changes {
        let QueueChange::Set(config) = change else { continue };
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

/// The queues below one. Their paths begin with its path and a dot, so they stand together in the
/// order of paths, and no other is looked at.
fn below<'t>(
    tree: &'t Tree,
    path: &str,
) -> impl Iterator<Item = (&'t str, &'t StandingQueue)> + Clone {
    let prefix = format!("{path}.");
    let from = tree.range::<str, _>((Bound::Included(&*prefix), Bound::Unbounded));
    from.map(|(path, standing)| (&**path, standing))
        .take_while(move |(path, _)| path.starts_with(&prefix))
}

/// Whether a leaf orders its applications by the same keys with both, lets them back off alike, and lets
/// their requests preempt after the same delay.
pub fn treats_applications_alike(a: &QueueConfig, b: &QueueConfig) -> bool {
    a.settings.sort_policy == b.settings.sort_policy
        && a.settings.priority_sort == b.settings.priority_sort
        && a.guaranteed == b.guaranteed
        && a.settings.backoff_asks == b.settings.backoff_asks
        && a.settings.backoff_delay == b.settings.backoff_delay
        && a.settings.preemption_delay == b.settings.preemption_delay
}

/// The queues of a configuration by path.
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
