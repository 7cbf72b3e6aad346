//! The queue that the submitter of an unknown path most likely meant.
//!
//! # Bounds
//! A resource manager may send thousands of applications with the same mistake, and each is
//! rejected in a step of the partition. So each level compares [`SIBLINGS_MAX`] names at most, and
//! an application that a later rule places is not compared at all. A list of leaves has
//! [`LEAVES_SHOWN`] at most, and is made from [`QUEUES_READ`] queues at most.

use std::fmt;

use monoceros_rules::values::names::RECOVERY;

use super::{QueueTree, Submission};
use crate::closest;

/// Most queues of one level that are compared with a name.
const SIBLINGS_MAX: usize = 200;

/// Most leaves in a list.
const LEAVES_SHOWN: usize = 5;

/// Most queues that are read for a list of leaves.
const QUEUES_READ: usize = 100;

/// Advice for the submitter of a path without a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueHint {
    /// The path of the leaf that was most likely meant.
    Nearest(String),
    /// The paths of all leaves that the user may submit to, which are few.
    Leaves(Vec<String>),
    /// The submission names the root queue.
    Root,
}

impl QueueHint {
    /// Returns the advice for `path`, which the tree lacks. `named` is the queue of the submission.
    pub(super) fn of<T: QueueTree>(path: &str, named: &str, tree: &T) -> Option<Self> {
        if path == "root.root" && named.eq_ignore_ascii_case("root") {
            return Some(Self::Root);
        }
        nearest(path, tree).map(Self::Nearest)
    }

    /// Returns the leaves for a submission, unless there are many or none.
    pub(super) fn of_leaves<T: QueueTree>(submission: &Submission<'_>, tree: &T) -> Option<Self> {
        leaves(submission, tree).filter(|leaves| !leaves.is_empty()).map(Self::Leaves)
    }
}

impl fmt::Display for QueueHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nearest(path) => write!(f, "did you mean `{path}`?"),
            Self::Leaves(paths) => {
                let paths: Vec<_> = paths.iter().map(|path| format!("`{path}`")).collect();
                write!(f, "the user may submit to {}", paths.join(" or "))
            }
            Self::Root => f.write_str(
                "`root` holds all queues and runs no applications, name one of its leaves",
            ),
        }
    }
}

/// Returns the paths of the leaves for a submission, in order; `None` if there are too many.
fn leaves<T: QueueTree>(submission: &Submission<'_>, tree: &T) -> Option<Vec<String>> {
    let Submission { user, groups, .. } = *submission;
    let (mut leaves, mut parents, mut n_read) = (Vec::new(), vec!["root".to_owned()], 0);
    while let Some(parent) = parents.pop() {
        for name in tree.names_below(&parent) {
            n_read += 1;
            if n_read > QUEUES_READ {
                return None;
            }
            let path = format!("{parent}.{name}");
            let Some(queue) = tree.find(&path) else { continue };
            if !tree.is_leaf(queue) {
                parents.push(path);
            } else if path != RECOVERY
                && !tree.is_draining(queue)
                && tree.may_submit(queue, user, groups)
            {
                leaves.push(path);
                if leaves.len() > LEAVES_SHOWN {
                    return None;
                }
            }
        }
    }
    leaves.sort_unstable();
    Some(leaves)
}

/// Returns the leaf whose path resembles `path` level by level.
fn nearest<T: QueueTree>(path: &str, tree: &T) -> Option<String> {
    let mut levels = path.split('.');
    let mut found = levels.next()?.to_owned();
    for name in levels {
        let exact = format!("{found}.{name}");
        found = if tree.find(&exact).is_some() {
            exact
        } else {
            let close = closest(name, tree.names_below(&found).take(SIBLINGS_MAX))?;
            format!("{found}.{close}")
        };
    }
    let leaf = tree.find(&found).is_some_and(|queue| tree.is_leaf(queue));
    leaf.then_some(found)
}
