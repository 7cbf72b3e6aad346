//! A domain: the nodes with one value of an attribute.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::attributes::Attributes;
use crate::values::resources::Resources;

/// A domain: the nodes with this value of this attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Domain {
    /// The attribute.
    pub key: Arc<str>,
    /// The value.
    pub value: Arc<str>,
}

impl Domain {
    /// Builds the domain of this value of this attribute.
    pub fn new(key: &str, value: &str) -> Self {
        Self { key: Arc::from(key), value: Arc::from(value) }
    }

    pub(super) fn is_of(&self, attributes: Option<&Attributes>) -> bool {
        attributes.and_then(|it| it.get(&self.key)).is_some_and(|value| *value == *self.value)
    }
}

impl std::fmt::Display for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.key, self.value)
    }
}

/// The amounts that several members need in one domain.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// The sum of the amounts.
    pub total: &'a Resources,
    /// The different amounts: a domain needs a node that holds each.
    pub sizes: &'a [Resources],
}
