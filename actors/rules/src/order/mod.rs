//! Who comes first, and who can be passed over.
//!
//! Queues, applications, asks and nodes are each kept in an order that is re-keyed on change and never
//! sorted per attempt ([`tree`]); what an order depends on is a key ([`keys`], made of [`shares`] and
//! of what a queue's [`ledger`] says); what waits in vain is skipped by a bound ([`waits`]).

pub mod keys;
pub mod ledger;
pub mod shares;
pub mod tree;
pub mod waits;
