//! The rooms of a gang whose victims are being evicted: capacity that is reserved for its members.
//! For people, `docs/preemption.md#gangs`.
//!
//! # How
//! A declared gang that lacks quota or places searches for victims as a whole. When they are
//! evicted, a room is reserved for each member ([`Nomination::rooms`]): the node index does not
//! show its capacity to any ask. As long as victims are still to be released, the gang is tried on
//! the capacity that is free besides its rooms; once the last is released, on its rooms alone.
//! While it is tried, and while the RM's predicates are asked about it, its rooms are *lifted*: the
//! index shows their capacity.
//!
//! # Invariants
//! * After each step, the index shows for a node the available capacity less the rooms of gangs.
//! * A gang has rooms only as long as it is undecided.
//! * All rooms of a gang end if a member may not use its room any more, or if a node takes nothing
//!   more or has less than is reserved there.
//!
//! [`Nomination::rooms`]: crate::pending::nominations::Nomination::rooms

use crate::applications::application::Application;
use crate::applications::native::Native;
use crate::asks::Bundled;
use crate::decide::bundle::{Found, rooms};
use crate::nodes::NodeIndex;
use crate::pending::nominations::{Nominations, Preemptor};
use crate::values::ids::ApplicationSlot;

use super::members::{AllowedNodes, AvoidedDomains, groups};
use super::obstacle::NotPlaced;

/// The state of the rooms of a gang when it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GangRooms {
    /// It has no rooms.
    None,
    /// Some of its victims are still to be released.
    Leaving,
    /// All of its victims are released.
    Free,
}

impl GangRooms {
    /// Returns the state of the rooms of the gang of this application.
    pub fn of(application: ApplicationSlot, nominations: &Nominations) -> Self {
        match nominations.of(Preemptor::Gang(application)) {
            None => Self::None,
            Some(nomination) if nomination.victims.is_empty() => Self::Free,
            Some(_) => Self::Leaving,
        }
    }
}

/// Takes the rooms of all members from the index.
///
/// # Errors
/// A member may not use its room: [`NotPlaced::Unfit`].
pub fn take_rooms(
    application: ApplicationSlot,
    book: &Application,
    bundled: &Bundled,
    (nominations, nodes): (&Nominations, &mut NodeIndex),
) -> Result<Found, NotPlaced> {
    let nomination = nominations.of(Preemptor::Gang(application)).ok_or(NotPlaced::Unfit)?;
    let native = book.undecided().map(Native::groups).unwrap_or_default();
    let avoided = AvoidedDomains::new();
    let groups = groups(&book.asks, native, bundled, &avoided, AllowedNodes::Any);
    rooms::take(nodes, &groups, &nomination.rooms).ok_or(NotPlaced::Unfit)
}
