//! The queue that the submitter of an unknown path most likely meant.
//!
//! # Bounds
//! A resource manager may send thousands of applications with the same mistake, and each is
//! rejected in a step of the partition. So each level compares [`SIBLINGS_MAX`] names at most, and
//! an application that a later rule places is not compared at all.

use std::fmt;

use super::QueueTree;
use crate::closest;

/// Most queues of one level that are compared with a name.
const SIBLINGS_MAX: usize = 200;

/// Advice for the submitter of a path without a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueHint {
    /// The path of the leaf that was most likely meant.
    Nearest(String),
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
}

impl fmt::Display for QueueHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nearest(path) => write!(f, "did you mean `{path}`?"),
            Self::Root => f.write_str(
                "`root` holds all queues and runs no applications, name one of its leaves",
            ),
        }
    }
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
