//! What the scheduler decides, as plain functions over plain structs.
//!
//! Nothing in this crate knows an actor, a clock, a socket or a lock: time and chance come in as
//! arguments, and the same input gives the same answer on every machine. The actors of
//! `monoceros-actors` own the state and call these rules. It is a crate of its own so that the
//! compiler keeps this border: an actor or a clock cannot be imported here.
//!
//! | room | what is in it |
//! |---|---|
//! | [`values`] | amounts, names, slots, epochs: the ground that everything stands on |
//! | [`queues`] | what a queue is set to, and its life |
//! | [`order`] | who comes first, what a queue holds, what waits below |
//! | [`work`] | applications, their asks and allocations, and why one is refused |
//! | [`nodes`] | which node is tried first, and whether any could hold an ask |
//! | [`limits`] | what users and groups use, and what they may |
//! | [`decide`] | what is to be done next, or why nothing is |
//! | [`decisions`] | what was decided lately, and by which rule: for people |
//! | [`books`], [`audit`] | what ties all of it together, and the full search that judges it |

pub mod allocations;
pub mod applications;
pub mod asks;
pub mod audit;
pub mod books;
pub mod decide;
pub mod decisions;
pub mod limits;
pub mod nodes;
pub mod order;
pub mod pending;
pub mod queues;
pub mod specs;
pub mod values;
pub mod waiting;
