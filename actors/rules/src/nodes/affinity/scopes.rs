//! Scopes: each divides the nodes into groups with the same value of an attribute. In the scope of
//! the host name each node is a group.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::nodes::attributes::Attributes;
use crate::values::hashing::SeededMap;
use crate::values::ids::NodeSlot;
use crate::values::slots::Slots;

/// Scopes in which each node is a group.
const OWN_SCOPES: [&str; 3] = ["", "hostname", "si/hostname"];

crate::slot! {
    /// An attribute: nodes with the same value of it are a group.
    pub(super) struct ScopeId;
}
crate::slot! {
    /// A value of the attribute of a scope.
    pub(super) struct ValueId;
}

/// A group of nodes, which count as near each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) enum Group {
    /// A node by itself.
    Node(NodeSlot),
    /// The nodes with a value.
    Value(ValueId),
}

/// A way to group nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Scope {
    /// The attribute; `None`: each node by itself.
    pub(super) key: Option<Arc<str>>,
    pub(super) values: Slots<ValueId, Value>,
    #[serde(with = "crate::values::pairs")]
    value_of: SeededMap<Arc<str>, ValueId>,
    /// The value of each node that has one.
    #[serde(with = "crate::values::pairs")]
    pub(super) of_node: FxHashMap<NodeSlot, ValueId>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Value {
    text: Arc<str>,
    pub(super) nodes: BTreeSet<NodeSlot>,
}

/// Returns the attribute that a scope names; `None`: each node by itself.
pub(super) fn scope_key(scope: &str) -> Option<Arc<str>> {
    (!OWN_SCOPES.contains(&scope)).then(|| Arc::from(scope))
}

impl Scope {
    pub(super) fn new(key: Option<Arc<str>>) -> Self {
        let (value_of, of_node) = (SeededMap::default(), FxHashMap::default());
        Self { key, values: Slots::default(), value_of, of_node }
    }

    fn value<'a>(&self, attributes: Option<&'a Attributes>) -> Option<&'a str> {
        attributes?.get(self.key.as_ref()?)
    }

    pub(super) fn would_move(&self, node: NodeSlot, attributes: Option<&Attributes>) -> bool {
        let there = self.of_node.get(&node).map(|value| &*self.values[*value].text);
        there != self.value(attributes)
    }

    pub(super) fn enter(&mut self, node: NodeSlot, attributes: Option<&Attributes>) {
        let Some(text) = self.value(attributes) else { return };
        let known = self.value_of.get(text).copied();
        let id = known.unwrap_or_else(|| {
            let text: Arc<str> = Arc::from(text);
            let value = Value { text: Arc::clone(&text), nodes: BTreeSet::new() };
            let id = self.values.insert(value);
            self.value_of.insert(text, id);
            id
        });
        self.values[id].nodes.insert(node);
        self.of_node.insert(node, id);
    }

    pub(super) fn leave(&mut self, node: NodeSlot) {
        let Some(id) = self.of_node.remove(&node) else { return };
        self.values[id].nodes.remove(&node);
        if self.values[id].nodes.is_empty() {
            let gone = self.values.remove(id);
            self.value_of.remove(&gone.text);
        }
    }
}
