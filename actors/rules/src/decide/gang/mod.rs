//! Handles an undecided declared gang: when its places are searched for, what keeps the gang from
//! them, and the search in as many steps as it takes. For people, `docs/gangs.md#declared-gangs`.
//!
//! # How
//! As long as the gang is undecided, none of its asks is tried by itself. An offer that reaches the
//! application is for the whole *bundle*: the asks of its members, and internal asks for members
//! without an ask.
//! ```text
//! offer ─ GangTurn::of ──── Wait: the gang is parked       quota, nominations, the last search
//!             │ Search
//!         GangRooms::of ─── Free: take_rooms               the victims of the gang have left
//!             │ None, Leaving
//!         MemberSearch ──── Ask, Assume, Forget, …         as long as predicates are asked
//!             │ Over
//!         Found: all are booked in this step, or asked about; NotPlaced: the gang is parked
//! ```
//! The search for nodes itself is in [`bundle`](super::bundle). Its results are kept in
//! [`GangSearch`].
//!
//! # Invariants
//! * Either all members of a bundle are booked in a step, or none is.
//! * After a search without result, no other search is made for the bundle before a change that may
//!   help it.

mod fewer;
mod members;
mod obstacle;
mod rooms;
mod search;
mod state;
#[cfg(test)]
mod tests;
mod turn;

pub use fewer::{count_fitting, settle_for_fewer};
pub use members::{
    AllowedNodes, AvoidedDomains, groups, held_places, is_asked_about, least, note_tried,
    note_unanswered, short_members, total,
};
pub use obstacle::{GangObstacle, NotPlaced};
pub use rooms::{GangRooms, take_rooms};
pub use search::{Member, MemberSearch, Next};
pub use state::GangSearch;
pub use turn::{GangTurn, Hold, over_quota, parked_short};
