//! The rooms that are reserved for a gang for which victims leave, where it is tried. For people,
//! `docs/preemption.md#gangs`.
//!
//! # How
//! A declared gang that lacks quota or places looks for victims as a whole. When they are told to leave, room is
//! reserved for each member ([`Nomination::rooms`]): the node index does not show it to anybody. As long as victims
//! have still to leave, the gang is tried on whatever is free beside its rooms; once the last has left, on its
//! rooms alone. While it is tried, and while the RM's predicates are asked about it, its rooms are lifted.
//!
//! # Invariants
//! * The index shows of a node what it has left without what gangs keep of it, after each step.
//! * A gang has rooms only as long as it is undecided.
//! * Where a member may not have its room any more, or its node takes nothing more, or has less than is kept
//!   there, all rooms of the gang end.
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

/// The rooms of a gang when it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GangRooms {
    /// It has none.
    None,
    /// Some of its victims have still to leave.
    Leaving,
    /// All of its victims have left.
    Free,
}

impl GangRooms {
    /// The rooms of the gang of this application.
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
/// A member may not have its room: [`NotPlaced::Unfit`].
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
