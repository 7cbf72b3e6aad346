//! The rules of the scheduler: its decisions, as plain functions over plain structs.
//!
//! Nothing in this crate knows an actor, a clock, a socket or a lock: time and chance come in as
//! arguments, and the same input gives the same answer on every machine. The actors of
//! `monoceros-actors` own the state and call these rules. It is a crate of its own so that the
//! compiler keeps this border: an actor or a clock cannot be imported here.
//!
//! # Rooms
//! The rooms import in one direction: each uses only rooms that stand before it in this table. A
//! test reads the table and the sources, and fails if a room uses a later one.
//!
//! | room | what is in it |
//! |---|---|
//! | [`values`] | amounts, names, slots, epochs: the ground of all rooms |
//! | [`queues`] | the settings of queues, who may use them, and their life |
//! | [`order`] | which queue, application or ask comes first, and the tree that keeps an order |
//! | [`limits`] | what users and groups use, and what they may |
//! | [`specs`] | what was asked for: asks, declarations of gangs, constraints, reasons to refuse |
//! | [`allocations`] | what was allocated, and placements that are still to become allocations |
//! | [`nodes`] | which node is tried first, and whether any could hold an ask |
//! | [`waiting`] | bounds over pending asks, so that an offer skips what cannot use it |
//! | [`asks`] | the asks of an application, in classes, and what became of each |
//! | [`applications`] | the life of applications and of their gangs |
//! | [`runtimes`] | how long allocations run, measured by class |
//! | [`pending`] | what is open between two decisions: questions, reservations, nominations |
//! | [`books`] | all state of a partition that belongs to no single actor |
//! | [`decide`] | what is to be done next, or why nothing is |
//! | [`decisions`] | the record of recent decisions and of their rules, for people |
//! | [`audit`] | the full search that judges every decision |

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
pub mod runtimes;
pub mod specs;
pub mod values;
pub mod waiting;
