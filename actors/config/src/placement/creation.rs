//! Determines which queues of a path must be created, and whether they may be.

use super::{QueueTree, deepest};
use monoceros_rules::values::names::{is_queue_name, is_reserved};

/// The reason why a queue cannot be created for an application.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreationError {
    /// The text is not a path below root.
    #[error("`{0}` is no path of a queue below root")]
    Path(String),
    /// The user may not submit to the nearest existing queue, and so may not create queues below
    /// it.
    #[error("user `{user}` may not create queues below `{ancestor}` (wanted `{path}`)")]
    Access {
        /// Name of the user.
        user: String,
        /// Path of the deepest existing queue.
        ancestor: String,
        /// Path of the wanted queue.
        path: String,
    },
    /// The parent of the new queue would be a leaf.
    #[error("cannot create `{path}`: `{ancestor}` is a leaf queue")]
    UnderLeaf {
        /// Path of the deepest existing queue.
        ancestor: String,
        /// Path of the wanted queue.
        path: String,
    },
    /// The parent of the new queue is draining.
    #[error("cannot create `{path}`: `{ancestor}` is draining")]
    UnderDraining {
        /// Path of the deepest existing queue.
        ancestor: String,
        /// Path of the wanted queue.
        path: String,
    },
    /// A part of the path is not a valid queue name.
    #[error("cannot create `{path}`: `{name}` is not a queue name")]
    Name {
        /// The invalid part.
        name: String,
        /// Path of the wanted queue.
        path: String,
    },
    /// A part of the path is a name reserved for the scheduler.
    #[error("cannot create `{0}`: the name `@recovery@` is reserved")]
    Reserved(String),
}

impl CreationError {
    /// Returns the code of the cause.
    pub fn cause(&self) -> &'static str {
        match self {
            Self::Path(_) => "E_QUEUE_PATH",
            Self::Access { .. } => "E_CREATE_ACL",
            Self::UnderLeaf { .. } => "E_CREATE_UNDER_LEAF",
            Self::UnderDraining { .. } => "E_ADD_CHILD_DRAINING",
            Self::Name { .. } => "E_QUEUE_NAME",
            Self::Reserved(_) => "E_RECOVERY_NAME",
        }
    }
}

/// Lists the paths of the queues that must be created, parents first, the leaf last. `path` is in
/// lower case. The list is empty if the queue exists.
pub fn creation<T: QueueTree>(
    path: &str,
    user: &str,
    groups: &[String],
    tree: &T,
) -> Result<Vec<String>, CreationError> {
    let found = path.starts_with("root.").then(|| deepest(path, tree)).flatten();
    let Some((queue, ancestor)) = found else {
        return Err(CreationError::Path(path.to_owned()));
    };
    if ancestor == path {
        return Ok(Vec::new());
    }
    let (path, ancestor) = (path.to_owned(), ancestor.to_owned());
    if !tree.may_submit(queue, user, groups) {
        return Err(CreationError::Access { user: user.to_owned(), ancestor, path });
    }
    if tree.is_leaf(queue) {
        return Err(CreationError::UnderLeaf { ancestor, path });
    }
    if tree.is_draining(queue) {
        return Err(CreationError::UnderDraining { ancestor, path });
    }
    for name in path[ancestor.len() + 1..].split('.') {
        if is_reserved(name) {
            return Err(CreationError::Reserved(path));
        }
        if !is_queue_name(name) {
            return Err(CreationError::Name { name: name.to_owned(), path });
        }
    }
    let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
    Ok(ends.filter(|end| *end > ancestor.len()).map(|end| path[..end].to_owned()).collect())
}
