//! The serialized form of the asks of an application.
//!
//! Indices and the members of classes are not written: the asks and classes have all of it. Nor are
//! the terms of placement constraints, which are shared with the node index; see
//! [`Asks::look_up_terms`].

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::table::Asks;
use crate::nodes::NodeIndex;
use crate::specs::ask::Form;

impl Serialize for Asks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

/// Reads asks that still have to [look their terms up](Asks::look_up_terms).
impl<'de> Deserialize<'de> for Asks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut asks = Self::deserialize(deserializer)?;
        for (slot, ask) in asks.table.iter() {
            if ask.form != Form::Internal {
                asks.by_key.insert(&ask.spec.key, slot);
            }
            let Some(class) = ask.class else { continue };
            let class = asks.classes.find_mut(class);
            let class = class.ok_or_else(|| serde::de::Error::custom("an ask has no class"))?;
            class.members.insert((ask.created_ns, ask.sequence), slot);
        }
        for (id, class) in asks.classes.iter() {
            asks.by_shape.insert(class.shape.clone(), id);
        }
        Ok(asks)
    }
}

impl Asks {
    /// Looks up in the index the terms of the constraint of each ask, after both were read from
    /// their serialized forms. Returns whether the index has all of them.
    #[must_use]
    pub fn look_up_terms(&mut self, nodes: &NodeIndex) -> bool {
        let mut has_all = true;
        for ask in self.table.values_mut() {
            let Some(wish) = ask.search.find_mut().and_then(|search| search.wish.as_mut()) else {
                continue;
            };
            let constraint = ask.spec.constraint.as_ref();
            match constraint.and_then(|constraint| nodes.terms_of(constraint)) {
                Some(terms) => wish.terms = Arc::clone(terms),
                None => has_all = false,
            }
        }
        has_all
    }
}
