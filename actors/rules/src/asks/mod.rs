//! The asks of one application, grouped in classes (`docs/scheduling.md#order-of-requests`).
//!
//! # Why classes
//! Asks of the same shape are one class: what quota, limits or capacity on nodes mean for one
//! member holds for all, so a class is tried once, whether it has one member or a hundred thousand.
//! A class has the position of its first member (priority, creation time, arrival) and moves when
//! that member is removed. The refusal of a predicate concerns only one ask: that ask is *singled
//! out* into a class of its own. So is an ask that has a node [reserved](Asks::reserve).
//!
//! # Invariants
//! * [`Asks::pending`] is the sum of resource × outstanding over all asks, without zero entries.
//! * Every ask with outstanding instances is in exactly one class, every other ask in none; a class
//!   has at least one member.
//! * The classes' order equals the order of their first members.
//! * Each instance is outstanding, waits (for its predicate, or for the placeholder that it
//!   replaces), or is allocated. An ask is kept as long as any of its instances is one of these.

mod ask;
mod attempts;
mod class;
mod classes;
pub mod failed_starts;
pub mod failures;
mod members;
mod noted;
mod pending;
pub mod preemption;
mod reserved;
mod reserved_waits;
mod search;
mod starts;
mod table;
#[cfg(test)]
mod tests;
mod wait_log;
mod wish;
mod wishes;
mod written;

pub use ask::{Ask, REASONS_MAX, Refusals};
pub use attempts::{Bundled, Signalled, ToSignal, Waiting};
pub use pending::PendingClass;
pub use search::{SearchEnd, Try};
pub use table::Asks;
pub use wait_log::WaitEntry;
pub use wish::AskWish;
