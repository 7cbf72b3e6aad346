//! The order of queues, applications and asks.
//!
//! Queues, applications, asks and nodes are each kept in order and get a new key when they change,
//! because sorting them for each decision would cost more than the decision ([`tree`]). An order
//! compares keys ([`keys`]), which are computed from [`shares`] and from the figures of a queue's
//! [`ledger`].

pub mod keys;
pub mod ledger;
pub mod shares;
pub mod tree;
pub mod used_names;
