//! Which nodes a request may use beside having room there: placement constraints, made ready for
//! searches. The rules for people are `docs/placement-constraints.md`.
//!
//! # Why in the index
//! A constraint excludes nodes, and what it excludes changes with every allocation that it counts.
//! A search that found the first node with room and asked afterwards would look at 9,999 nodes in
//! vain for the last of ten thousand requests that keep apart. So what is excluded is known to the
//! index itself, and kept as allocations come and go.
//!
//! # What is kept
//! * [`Terms`] are a constraint that is ready to be asked: *choices* that are tried in order, each a
//!   list of conditions. Equal constraints share theirs.
//! * A *selector* is the set of nodes whose attributes satisfy some expressions.
//! * A *family* is all allocations whose tags satisfy some expressions. A *counter* counts those of
//!   a family by *groups*: nodes with one value of an attribute, its *scope*. A *range* says how many
//!   there may be. All three are shared by whoever needs the same, and are made by one pass over the
//!   allocations when they are first needed (`counters.rs`).
//! * A selector or range that excludes many nodes gets one of 64 *flags* (`flags.rs`): the ordered
//!   tree of nodes knows of each of its parts whether any node there is admitted, so that a search
//!   skips the others as it skips full ones.
//!
//! # What it costs
//! While no constraint is in use: one comparison per allocation that starts or ends. Else one look
//! at each tag key in use, and an increment per counter that counts the allocation. There are at
//! most [`COUNTERS_MAX`] counters. What nobody uses any more goes with the next sweep, which is
//! made when enough has happened to pay for it.
//!
//! # Invariants
//! * A counter has what one pass over all allocations would count.
//! * A search with a constraint finds the node that a look at every node in order would find:
//!   flags change how fast it is, and nothing else.
//! * Whatever makes a node admissible to a request that was turned away by a constraint is a growth
//!   of that node, or a return where a placement in the air was taken back. Such a node is
//!   [named](NodeIndex::take_woken_by_name), too, for whoever requires it or has it reserved: growths of
//!   a node that is not open to all wake nobody, and it may be reserved before it is their turn.
//!
//! ```
//! use std::sync::Arc;
//!
//! use monoceros_rules::allocations::AllocationTable;
//! use monoceros_rules::nodes::{NodeIndex, NodeOrder, NodeRequest, Wish};
//! use monoceros_rules::specs::constraint::{
//!     AskConstraint, Constraint, Expression, Operator, Simple,
//! };
//! use monoceros_rules::values::resources::Resources;
//!
//! let one = Resources::of(&[("vcore", 1)]);
//! let mut nodes = NodeIndex::new(NodeOrder::default());
//! for (id, zone) in [("n1", "a"), ("n2", "b")] {
//!     let slot = nodes.insert(Arc::from(id), one.clone(), one.clone(), true)?;
//!     nodes.set_attributes(slot, &Arc::new([("zone", zone)].into_iter().collect()));
//! }
//! let in_b = Expression { operator: Operator::In, key: "zone".into(), values: vec!["b".into()] };
//! let constraint = Constraint::Simple(Simple { node: vec![in_b], near: None });
//! let constraint = Arc::new(AskConstraint::new(constraint, None).unwrap().unwrap());
//! let terms = nodes.learn(&constraint, &AllocationTable::new()).unwrap();
//!
//! let request = NodeRequest { wish: Some(Wish::of(&terms)), ..NodeRequest::of(&one) };
//! assert_eq!(nodes.first(&request), nodes.slot_of("n2"));
//! # Ok::<(), monoceros_rules::nodes::NodeExists>(())
//! ```

mod counters;
mod files;
mod flags;
mod scopes;
mod search;
mod terms;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::NodeIndex;
use crate::allocations::AllocationTable;
use crate::nodes::attributes::Attributes;
use crate::specs::constraint::{AskConstraint, Expression};
use crate::values::hashing::SeededMap;
use crate::values::ids::NodeSlot;
use crate::values::slots::Slots;
use crate::values::texts::Texts;
pub use counters::COUNTERS_MAX;
use counters::Counters;
pub(super) use counters::Families;
use flags::{Flagged, Flags};
pub use search::Excluding;
pub(super) use search::Start;
use terms::{Compiler, Condition};
pub use terms::{Terms, Wish};

/// How many selectors know their nodes beforehand; those beyond are read anew for each node.
const SELECTORS_MAX: usize = 4_096;

crate::slot! {
    /// A selector that is in use.
    struct SelectorId;
}

/// There are [`COUNTERS_MAX`] counters in use already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{COUNTERS_MAX} sets of allocations are counted for placement constraints already")]
pub struct TooManyCounters;

/// All that placement constraints in use have to know.
#[derive(Debug, Default)]
pub(super) struct Affinity {
    nodes: Slots<NodeSlot, Option<Attributes>>,
    terms: SeededMap<Arc<AskConstraint>, Arc<Terms>>,
    selectors: Slots<SelectorId, Selector>,
    selector_of: SeededMap<Arc<[Expression]>, SelectorId>,
    counters: Counters,
    flags: Flags,
    /// Nodes that may admit more now, whether by a return: for whoever waits for one by its name.
    woken_by_name: Vec<(NodeSlot, bool)>,
    /// What was done since the last sweep.
    done: usize,
}

/// The nodes whose attributes satisfy some expressions.
#[derive(Debug)]
struct Selector {
    expressions: Arc<[Expression]>,
    /// By node, one bit each; none where there are too many selectors.
    admits: Option<Vec<u64>>,
    /// How many nodes it admits, and how many it does not.
    admitted: usize,
    excluded: usize,
    flag: Flagged,
}

impl Selector {
    fn new(expressions: Arc<[Expression]>, knows_nodes: bool) -> Self {
        let admits = knows_nodes.then(Vec::new);
        Self { expressions, admits, admitted: 0, excluded: 0, flag: Flagged::default() }
    }

    fn reads(&self, attributes: Option<&Attributes>) -> bool {
        let attributes = attributes.map(|it| &**it);
        self.expressions.iter().all(|expression| expression.holds(attributes))
    }

    fn has(&self, slot: NodeSlot) -> bool {
        let (at, words) = (slot.index(), self.admits.as_ref());
        let word = words.and_then(|words| words.get(at / 64));
        word.is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    fn put(&mut self, slot: NodeSlot, admits: bool) {
        let Some(words) = &mut self.admits else { return };
        let at = slot.index();
        if words.len() <= at / 64 {
            words.resize(at / 64 + 1, 0);
        }
        let bit = 1 << (at % 64);
        if admits { words[at / 64] |= bit } else { words[at / 64] &= !bit }
    }

    /// A node is there from now on.
    fn enter(&mut self, slot: NodeSlot, attributes: Option<&Attributes>) {
        let admits = self.reads(attributes);
        self.put(slot, admits);
        if admits {
            self.admitted += 1;
        } else {
            self.excluded += 1;
        }
    }

    /// A node with these attributes is there no longer.
    fn leave(&mut self, slot: NodeSlot, attributes: Option<&Attributes>) {
        if self.reads(attributes) {
            self.admitted -= 1;
        } else {
            self.excluded -= 1;
        }
        self.put(slot, false);
    }
}

impl Affinity {
    /// Whether any constraint is in use, or was until lately.
    pub(super) fn is_used(&self) -> bool {
        !self.terms.is_empty()
    }

    /// The attributes of a node.
    pub(super) fn attributes(&self, node: NodeSlot) -> Option<&Attributes> {
        self.nodes.find(node).and_then(Option::as_ref)
    }

    fn admits(&self, selector: SelectorId, node: NodeSlot) -> bool {
        let selector = &self.selectors[selector];
        match &selector.admits {
            Some(_) => selector.has(node),
            None => selector.reads(self.attributes(node)),
        }
    }

    fn selector(&mut self, expressions: &[Expression]) -> SelectorId {
        let expressions = ordered(expressions);
        if let Some(known) = self.selector_of.get(&expressions) {
            return *known;
        }
        let mut selector =
            Selector::new(Arc::clone(&expressions), self.selectors.len() < SELECTORS_MAX);
        for (slot, attributes) in self.nodes.iter() {
            selector.enter(slot, attributes.as_ref());
        }
        let id = self.selectors.insert(selector);
        self.selector_of.insert(expressions, id);
        id
    }

    /// Forgets what nobody uses any more.
    fn sweep(&mut self) {
        self.done = 0;
        let before = self.terms.len();
        self.terms.retain(|_, terms| Arc::strong_count(terms) > 1);
        if self.terms.len() == before {
            return;
        }
        let (mut selectors, mut ranges) = (FxHashSet::default(), FxHashSet::default());
        for condition in self.terms.values().flat_map(|terms| terms.conditions()) {
            match condition {
                Condition::Selector(id) => drop(selectors.insert(*id)),
                Condition::Near(near) => drop(ranges.insert(near.range)),
                Condition::Any(_) => {}
            }
        }
        let gone: Vec<SelectorId> =
            self.selectors.iter().map(|(id, _)| id).filter(|id| !selectors.contains(id)).collect();
        for id in gone {
            let selector = self.selectors.remove(id);
            self.selector_of.remove(&selector.expressions);
            self.flags.free(&selector.flag);
        }
        self.counters.keep(&ranges, &mut self.flags);
    }
}

/// Expressions that say the same are written alike, and so share what is kept of them.
fn ordered(expressions: &[Expression]) -> Arc<[Expression]> {
    let mut expressions = expressions.to_vec();
    for expression in &mut expressions {
        expression.values.sort_unstable();
        expression.values.dedup();
    }
    expressions.sort_unstable();
    expressions.dedup();
    expressions.into()
}

impl NodeIndex {
    /// Makes a constraint ready for searches: whoever keeps what is returned has it kept.
    /// `allocations` are all that there are; they are gone through where something is to be counted
    /// that was not counted before.
    ///
    /// # Errors
    /// Too much would have to be counted.
    pub fn learn(
        &mut self,
        constraint: &Arc<AskConstraint>,
        allocations: &AllocationTable,
    ) -> Result<Arc<Terms>, TooManyCounters> {
        let affinity = &mut self.affinity;
        if let Some(terms) = affinity.terms.get(constraint) {
            return Ok(Arc::clone(terms));
        }
        affinity.sweep_if_due();
        if !affinity.has_room_for(constraint) {
            affinity.sweep();
            if !affinity.has_room_for(constraint) {
                return Err(TooManyCounters);
            }
        }
        let terms = Arc::new(Compiler::new(affinity, constraint, allocations).terms());
        affinity.terms.insert(Arc::clone(constraint), Arc::clone(&terms));
        for condition in terms.conditions() {
            match condition {
                Condition::Selector(id) => self.flag_selector(*id),
                Condition::Near(near) => self.flag_range(near.range),
                Condition::Any(_) => {}
            }
        }
        Ok(terms)
    }

    /// The terms of a constraint, if somebody has them kept.
    pub fn terms_of(&self, constraint: &AskConstraint) -> Option<&Arc<Terms>> {
        self.affinity.terms.get(constraint)
    }

    /// Tells the attributes of a node: from now on it is judged by these. Allocations that are there
    /// stay.
    pub fn set_attributes(&mut self, slot: NodeSlot, attributes: &Attributes) {
        self.move_domains(slot, attributes);
        let affinity = &mut self.affinity;
        let before = affinity.nodes[slot].clone();
        if !affinity.is_used() {
            affinity.nodes[slot] = Some(Arc::clone(attributes));
            return;
        }
        for selector in affinity.selectors.values_mut() {
            selector.leave(slot, before.as_ref());
            selector.enter(slot, Some(attributes));
        }
        affinity.nodes[slot] = Some(Arc::clone(attributes));
        let mut effects = counters::Effects::default();
        affinity.counters.move_node(slot, Some(attributes), &mut effects);
        self.apply(effects, counters::Wakes::Growth);
        self.flag_node(slot);
        self.flag_selectors();
        if self.is_open_to_all(slot) {
            self.log_vacancy(slot);
        }
    }

    /// A node is there from now on, without attributes.
    pub(super) fn enter_affinity(&mut self, slot: NodeSlot) {
        self.affinity.nodes.insert_at(slot, None);
        if self.affinity.is_used() {
            for selector in self.affinity.selectors.values_mut() {
                selector.enter(slot, None);
            }
            self.affinity.counters.enter_node(slot, None);
            self.flag_node(slot);
            self.flag_selectors();
        }
    }

    /// A node goes, with everything on it.
    pub(super) fn leave_affinity(&mut self, slot: NodeSlot) {
        let affinity = &mut self.affinity;
        let attributes = affinity.nodes.remove(slot);
        if affinity.is_used() {
            for selector in affinity.selectors.values_mut() {
                selector.leave(slot, attributes.as_ref());
            }
            let mut effects = counters::Effects::default();
            affinity.counters.leave_node(slot, &mut effects);
            self.apply(effects, counters::Wakes::Growth);
            self.affinity.woken_by_name.retain(|(woken, _)| *woken != slot);
        }
    }

    /// Whether constraints may admit more to some node since [those](Self::take_woken_by_name) were
    /// asked for.
    pub fn has_woken(&self) -> bool {
        !self.affinity.woken_by_name.is_empty()
    }

    /// Nodes that constraints may admit more to since this was asked last; whether by the return of
    /// what a placement in the air held.
    pub fn take_woken_by_name(&mut self) -> Vec<(NodeSlot, bool)> {
        std::mem::take(&mut self.affinity.woken_by_name)
    }

    /// The attributes of a node, as far as they were told.
    pub(crate) fn attributes(&self, slot: NodeSlot) -> Option<&Texts> {
        self.affinity.nodes.find(slot)?.as_deref()
    }
}

impl Affinity {
    fn has_room_for(&self, constraint: &AskConstraint) -> bool {
        let simple = constraint.constraint().simple();
        let near = simple.into_iter().filter_map(|simple| simple.near.as_ref());
        self.counters.has_room_for(near.filter(|near| near.counts()))
    }

    fn sweep_if_due(&mut self) {
        self.done += 1;
        if self.done > 64 + 8 * self.terms.len() {
            self.sweep();
        }
    }
}
