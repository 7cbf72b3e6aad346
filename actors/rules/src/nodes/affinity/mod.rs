//! Placement constraints, prepared for searches: which nodes a request may use, apart from their
//! capacity. The rules for people are `docs/placement-constraints.md`.
//!
//! # Why in the index
//! A constraint excludes nodes, and the set of excluded nodes changes with every allocation that it
//! counts. A search that found the first node with capacity and checked the constraint afterwards
//! would examine 9,999 nodes without result for the last of ten thousand requests that must be on
//! different nodes. So the index itself knows the excluded nodes, and follows allocations as they
//! start and end.
//!
//! # What is kept
//! * [`Terms`] are a constraint that is ready to be checked: *choices* that are tried in order,
//!   each a list of conditions. Equal constraints share their terms.
//! * A *selector* is the set of nodes whose attributes satisfy some expressions.
//! * A *family* is all allocations whose tags satisfy some expressions. A *counter* counts the
//!   allocations of a family by *groups*: a group is all nodes with one value of an attribute, the
//!   *scope*. A *range* bounds their number. All three are shared by all constraints that need the
//!   same, and are made by one pass over the allocations when they are first needed
//!   (`counters.rs`).
//! * A selector or range that excludes many nodes gets one of 64 *flags* (`flags.rs`). With it, the
//!   ordered tree of nodes knows for each of its parts whether a node there is admitted, so that a
//!   search skips the others as it skips full ones.
//!
//! # Cost
//! While no constraint is in use: one comparison per allocation that starts or ends. Otherwise one
//! look-up for each tag key in use, and an increment per counter that counts the allocation. There
//! are at most [`COUNTERS_MAX`] counters. A sweep, made when enough operations have happened to pay
//! for it, removes unused ones.
//!
//! # Invariants
//! * Each counter equals a count of all allocations in one pass.
//! * A search with a constraint finds the node that a scan of every node in order would find: flags
//!   only change its speed.
//! * Every change by which a node becomes admissible to a request that a constraint rejected is a
//!   growth of that node, or a return if a placement in flight was withdrawn. Such a node is also
//!   [listed](super::NodeIndex::take_woken_by_name), for asks that require it or have it reserved:
//!   growths of a node that is not open to all wake no ask, and another ask may reserve it before
//!   they are tried.
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

mod compiler;
mod counters;
mod files;
mod flagging;
mod flags;
mod ids;
mod learn;
mod scopes;
mod search;
mod selector;
mod state;
mod terms;
#[cfg(test)]
mod tests;

pub use counters::COUNTERS_MAX;
pub(super) use counters::Families;
pub use learn::TooManyCounters;
pub use search::Excluding;
pub(super) use state::Affinity;
pub(crate) use terms::by_constraint;
pub use terms::{Terms, Wish};
