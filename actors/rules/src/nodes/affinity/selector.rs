//! A selector: the nodes whose attributes satisfy some expressions.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::flags::Flagged;
use crate::nodes::attributes::Attributes;
use crate::specs::constraint::Expression;
use crate::values::ids::NodeSlot;

/// The nodes whose attributes satisfy some expressions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::nodes) struct Selector {
    pub(super) expressions: Arc<[Expression]>,
    /// One bit for each node; `None` if there are too many selectors.
    pub(super) admits: Option<Vec<u64>>,
    /// The number of nodes that it admits, and of those that it excludes.
    pub(super) admitted: usize,
    pub(super) excluded: usize,
    pub(super) flag: Flagged,
}

impl Selector {
    pub(super) fn new(expressions: Arc<[Expression]>, knows_nodes: bool) -> Self {
        let admits = knows_nodes.then(Vec::new);
        Self { expressions, admits, admitted: 0, excluded: 0, flag: Flagged::default() }
    }

    pub(super) fn reads(&self, attributes: Option<&Attributes>) -> bool {
        let attributes = attributes.map(|it| &**it);
        self.expressions.iter().all(|expression| expression.holds(attributes))
    }

    pub(super) fn has(&self, slot: NodeSlot) -> bool {
        let (at, words) = (slot.index(), self.admits.as_ref());
        let word = words.and_then(|words| words.get(at / 64));
        word.is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    pub(super) fn put(&mut self, slot: NodeSlot, admits: bool) {
        let Some(words) = &mut self.admits else { return };
        let at = slot.index();
        if words.len() <= at / 64 {
            words.resize(at / 64 + 1, 0);
        }
        let bit = 1 << (at % 64);
        if admits { words[at / 64] |= bit } else { words[at / 64] &= !bit }
    }

    /// Adds a node.
    pub(super) fn enter(&mut self, slot: NodeSlot, attributes: Option<&Attributes>) {
        let admits = self.reads(attributes);
        self.put(slot, admits);
        if admits {
            self.admitted += 1;
        } else {
            self.excluded += 1;
        }
    }

    /// Removes a node with these attributes.
    pub(super) fn leave(&mut self, slot: NodeSlot, attributes: Option<&Attributes>) {
        if self.reads(attributes) {
            self.admitted -= 1;
        } else {
            self.excluded -= 1;
        }
        self.put(slot, false);
    }
}

/// Sorts expressions, so that equal sets have one form and share their selectors and families.
pub(super) fn ordered(expressions: &[Expression]) -> Arc<[Expression]> {
    let mut expressions = expressions.to_vec();
    for expression in &mut expressions {
        expression.values.sort_unstable();
        expression.values.dedup();
    }
    expressions.sort_unstable();
    expressions.dedup();
    expressions.into()
}
