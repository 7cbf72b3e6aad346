//! The order of queues, applications and asks.
//!
//! Queues, applications, asks and nodes are each kept in an order that is re-keyed on change,
//! because sorting them for each decision would cost more than the decision ([`tree`]). An order
//! compares keys ([`keys`]), which are made of [`shares`] and of the figures in a queue's
//! [`ledger`].

pub mod keys;
pub mod ledger;
pub mod shares;
pub mod tree;
pub mod used_names;
