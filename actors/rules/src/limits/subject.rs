//! Users and groups, as limits name them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A user or a group that is tracked. Users come before groups.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Subject {
    /// A user, by name.
    User(Arc<str>),
    /// A group, by name, or `*`: all applications that count for no named group, together.
    Group(Arc<str>),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "user `{name}`"),
            Self::Group(name) => write!(f, "group `{name}`"),
        }
    }
}
