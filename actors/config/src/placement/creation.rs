//! Which queues have to be made so that a path is there, and whether they may be.

use super::{QueueTree, deepest};
use monoceros_rules::values::names::{is_queue_name, is_reserved};

/// Why a queue cannot be made for an application.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreationError {
    /// It is not a path below root.
    #[error("`{0}` is no path of a queue below root")]
    Path(String),
    /// Who may not submit to a queue may not create queues below it either.
    #[error("user `{user}` may not create queues below `{ancestor}` (wanted `{path}`)")]
    Access {
        /// Who.
        user: String,
        /// The deepest queue that is there.
        ancestor: String,
        /// Of the queue that is wanted.
        path: String,
    },
    /// The queue under which it would be made holds applications.
    #[error("cannot create `{path}`: `{ancestor}` is a leaf queue")]
    UnderLeaf {
        /// The deepest queue that is there.
        ancestor: String,
        /// Of the queue that is wanted.
        path: String,
    },
    /// The queue under which it would be made takes nothing new.
    #[error("cannot create `{path}`: `{ancestor}` is draining")]
    UnderDraining {
        /// The deepest queue that is there.
        ancestor: String,
        /// Of the queue that is wanted.
        path: String,
    },
    /// A part of the path is not the name of a queue.
    #[error("cannot create `{path}`: `{name}` is not a queue name")]
    Name {
        /// The part.
        name: String,
        /// Of the queue that is wanted.
        path: String,
    },
    /// A part of the path is the name that the scheduler keeps for itself.
    #[error("cannot create `{0}`: the name `@recovery@` is reserved")]
    Reserved(String),
}

impl CreationError {
    /// The code of the cause.
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

/// The paths of the queues that have to be made, those above first, the leaf last; `path` is in
/// lower case. Nothing is missing where the queue is there.
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
