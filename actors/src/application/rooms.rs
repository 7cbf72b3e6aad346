//! Rooms that are reserved for a gang for which others leave, and its wish for them. For people,
//! `docs/preemption.md#gangs`.
//!
//! # How
//! A declared gang that lacks quota or places looks for victims as a whole. When they are told to
//! leave, room is reserved for each member ([`monoceros_rules::pending::promises::Promise::rooms`]):
//! the node index does not show it to anybody. As long as victims have still to leave, the gang is
//! tried on whatever is free beside its rooms; once the last has left, on its rooms alone. While it
//! is tried, and while the RM's predicates are asked about it, its rooms are lifted.
//!
//! # Invariants
//! * The index shows of a node what it has left without what gangs keep of it, after each step.
//! * A gang has rooms only as long as it is undecided.
//! * Where a member may not have its room any more, or its node takes nothing more, or has less than
//!   is kept there, all rooms of the gang end.

use std::sync::Arc;

use monoceros_rules::applications::native::Stage;
use monoceros_rules::asks::Bundled;
use monoceros_rules::audit::Decision;
use monoceros_rules::decide::bundle::{Found, rooms};
use monoceros_rules::pending::promises::{Promisee, Room};

use super::Application;
use super::bundle::groups;
use super::in_the_air::Grounded;
use super::searching::{Avoided, Where};
use super::undecided::BundleObstacle;
use crate::step::Baton;

/// How the rooms of a gang stand when it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rooms {
    /// It has none.
    None,
    /// Some of its victims have still to leave.
    Leaving,
    /// All of its victims have left.
    Free,
}

impl Application {
    fn gang(&self) -> Promisee {
        Promisee::Gang(self.slot)
    }

    /// How the rooms of the gang stand.
    pub(super) fn rooms(&self, baton: &Baton) -> Rooms {
        match baton.books.promises.of(self.gang()) {
            None => Rooms::None,
            Some(promise) if promise.victims.is_empty() => Rooms::Free,
            Some(_) => Rooms::Leaving,
        }
    }

    /// Takes the rooms of all members.
    pub(super) fn take_rooms(&self, bundled: &Bundled, baton: &mut Baton) -> Option<Found> {
        let promise = baton.books.promises.of(self.gang())?;
        let reserved: Vec<Room> = promise.rooms.clone();
        let native = self.book.undecided().map_or(&[][..], |native| native.groups());
        let avoided = Avoided::new();
        let groups = groups(&self.book.asks, native, bundled, &avoided, Where::Anywhere);
        rooms::take(&mut baton.books.nodes, &groups, &reserved)
    }

    /// The rooms of the gang are kept from it no longer, or again.
    pub(super) fn lift_rooms(&self, lifted: bool, baton: &mut Baton) {
        baton.lift_promise(self.gang(), lifted);
    }

    /// A member may not have its room: all of them end, and that is a decision of its own.
    pub(super) fn give_up_rooms(&mut self, baton: &mut Baton) {
        tracing::debug!(application = %self.book.id, "the rooms of the gang are given up");
        let application = Arc::clone(&self.book.id);
        baton.offer.silent = Some(Decision::GiveUpRooms { application });
        baton.end_promise(self.gang(), false);
        self.wake_bundle();
        baton.offer.decided += 1;
        baton.offer.rise_to(0);
    }

    /// The gang has its places: it needs its rooms no more.
    pub(super) fn gang_is_placed(&self, baton: &mut Baton) {
        baton.end_promise(self.gang(), true);
    }

    /// The gang comes back from the air: what it is refused ends its rooms, anything else does not.
    pub(super) fn keep_rooms(&self, why: Grounded, baton: &mut Baton) {
        if why == Grounded::Refused {
            baton.end_promise(self.gang(), false);
        } else {
            self.lift_rooms(false, baton);
        }
    }

    /// The last of those has left who made room for the gang.
    pub(super) fn rooms_are_free(&mut self) {
        if self.book.undecided().is_some_and(|native| native.stage == Stage::Undecided) {
            self.wake_bundle();
        }
    }

    /// A gang that is not undecided any more has no rooms.
    pub(super) fn leave_rooms(&self, baton: &mut Baton) {
        if self.book.undecided().is_none() && !baton.books.promises.is_empty() {
            baton.end_promise(self.gang(), false);
        }
    }

    /// The gang was not placed: if it may preempt others, victims are looked for when the step is
    /// home.
    pub(super) fn gang_would_preempt(&mut self, obstacle: &BundleObstacle, baton: &mut Baton) {
        match obstacle {
            BundleObstacle::Quota(_)
            | BundleObstacle::Places(_)
            | BundleObstacle::Domain(_)
            | BundleObstacle::Refused { .. } => self.wish(self.gang(), false, baton),
            BundleObstacle::Asks(_) | BundleObstacle::Limits(_) | BundleObstacle::GivesWay => {}
        }
    }
}
