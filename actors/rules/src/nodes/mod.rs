//! The node index of a partition: which node is tried first, and whether any could hold an ask. The
//! rules for people are `docs/nodes.md#order-of-nodes` and `docs/nodes.md#what-is-available`.
//!
//! # Why
//! A partition of a hundred thousand machines places an ask by one descent of an
//! [`OrderedTree`](crate::order::tree::OrderedTree): its key is the node's score, its bound the
//! free amount. The index also records which nodes *grew*, so that an ask that found no node is not
//! tried again before one of them could take it.
//!
//! # Slots and labels
//! Code refers to a node by its [`NodeSlot`](crate::values::ids::NodeSlot), a small number; ids are
//! read when a node is added or removed. Nodes with equal scores are ordered by id, yet no
//! comparison reads a string: each node has a number, its *label*, and labels ascend as the ids do
//! (`labels.rs`).
//!
//! # Invariants
//! * Nodes are in order of (score, id), for the totals and available amounts last set.
//! * [`NodeIndex::capacity`] is the sum of all totals, closed nodes included, and
//!   [`NodeIndex::left`] the sum of all free amounts.
//! * [`NodeIndex::may_hold`] and [`NodeIndex::may_hold_since`] never return `false` for an ask that
//!   a node which is open to all (and grew since) holds now.
//! * A change that only lowers the available amount is not a growth.
//! * No search finds a node that is set aside (`reserved.rs`), unless it requires the node or
//!   searches for capacity that may be lent (`lent.rs`). The growths of such a node wake no other
//!   asks.
//! * If a placement ends while it waits for its predicate, the amount that it returns is a
//!   *return*: a growth for an ask that found no room before, but none for an ask that was refused
//!   with that room at hand.
//!
//! ```
//! use std::sync::Arc;
//! use monoceros_rules::nodes::{NodeIndex, NodeOrder, NodeRequest};
//! use monoceros_rules::values::resources::Resources;
//!
//! let vcores = |n| Resources::of(&[("vcore", n)]);
//! let mut nodes = NodeIndex::new(NodeOrder::default());
//! let n1 = nodes.insert(Arc::from("n1"), vcores(4), vcores(4), true)?;
//! let n2 = nodes.insert(Arc::from("n2"), vcores(4), vcores(2), true)?;
//! assert_eq!(nodes.first(&NodeRequest::of(&vcores(1))), Some(n1), "the emptier one first");
//!
//! nodes.update(n1, None, &vcores(1));
//! assert_eq!(nodes.first(&NodeRequest::of(&vcores(1))), Some(n2));
//! assert_eq!(nodes.first(&NodeRequest::of(&vcores(3))), None);
//!
//! let mark = nodes.growth();
//! nodes.update(n1, None, &vcores(2));
//! assert!(!nodes.may_hold_since(mark, &vcores(3)), "grown, but not enough");
//! # Ok::<(), monoceros_rules::nodes::NodeExists>(())
//! ```

pub mod affinity;
pub mod attributes;
mod best_fit;
mod domain;
mod domains;
mod fits;
mod grown;
mod growth;
mod index;
mod kept_domains;
mod labels;
mod lacks;
mod last_growths;
mod lending;
mod lent;
mod nearest;
mod node;
mod passed;
mod passed_by;
pub(crate) mod recount;
mod refusals;
mod request;
mod reserved;
mod room;
mod score;
mod set_aside;
mod share;
mod tentative;
#[cfg(test)]
mod tests;
pub mod units;
pub mod utilization;

pub(crate) use affinity::by_constraint;
pub use affinity::{Terms, Wish};
pub use domain::{Domain, Wanted};
pub use fits::{Fits, NodeFits, NodePlaces};
pub use index::{NodeExists, NodeIndex};
pub use lacks::NodeLacks;
pub use last_growths::{PASSED_BY, PassedBy};
pub use nearest::Nearest;
pub use passed::{PassedFor, PassedOver};
pub use request::{Exclusion, NodeRequest};
pub use score::{NodeOrder, NodeSortPolicy};
pub use set_aside::SetAside;
pub use share::RESERVATION_SHARE;
pub use tentative::Taken;
