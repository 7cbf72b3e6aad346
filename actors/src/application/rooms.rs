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

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use monoceros_rules::applications::native::{Native, Stage};
use monoceros_rules::asks::Bundled;
use monoceros_rules::asks::preemption::NoPreemption;
use monoceros_rules::audit::Decision;
use monoceros_rules::decide::bundle::{Found, rooms};
use monoceros_rules::decide::preemption::Wish;
use monoceros_rules::pending::promises::{Promise, Promisee, Promises, Room};
use monoceros_rules::pending::reservations::End;
use monoceros_rules::values::ids::{AllocationId, NodeSlot};
use monoceros_rules::values::resources::Resources;

use super::Application;
use super::bundle::groups;
use super::in_the_air::Grounded;
use super::searching::{Avoided, Where};
use super::undecided::BundleObstacle;
use crate::step::{Alarm, Baton, Op};

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

    /// The bundle whose places are looked for, with what was declared.
    pub(super) fn undecided_bundle(&self) -> Option<(&Native, Bundled)> {
        let native = self.book.undecided().filter(|native| native.stage == Stage::Undecided)?;
        Some((native, native.bundle(&self.book.asks).ok()?))
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
        let gang = self.gang();
        let Some(promise) = baton.books.promises.of(gang) else { return };
        let nodes = nodes_of(promise);
        baton.change_kept(&nodes, |promises| promises.lift(gang, lifted));
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

    /// What is to be known of the gang where it would look for victims: all of its groups have to
    /// be allowed to, and it is as old as its admission.
    pub(super) fn wish_of_gang(&self, baton: &Baton) -> Result<Wish, NoPreemption> {
        let (_, bundled) = self.undecided_bundle().ok_or(NoPreemption::NotNeeded)?;
        let mut asks = bundled.iter().flatten().map(|(slot, _)| self.book.asks.ask(*slot));
        Ok(Wish {
            may_preempt: asks.all(|ask| ask.preemption.of_others()),
            created_ns: self.bundle.as_ref().map_or(baton.now_ns, |bundle| bundle.declared_ns),
            ..self.wish_of(self.gang(), baton)
        })
    }
}

/// The nodes on which a promise keeps room.
fn nodes_of(promise: &Promise) -> BTreeSet<NodeSlot> {
    promise.rooms.iter().map(|room| room.node).collect()
}

/// Promises, and what the node index shows of nodes.
impl Baton {
    /// Something is promised to an asker from now on; it is over after a while at the latest.
    pub(crate) fn promise(&mut self, promisee: Promisee, promise: Promise) {
        let nodes = nodes_of(&promise);
        if self.books.promises.watch() {
            self.alarms.push((self.patience.wait_timeout, Alarm::PromisesWaited));
        }
        self.change_kept(&nodes, |promises| promises.make(promisee, promise));
    }

    /// A victim is gone. Whoever it left for has its room now.
    pub(crate) fn victim_left(&mut self, id: AllocationId, node: NodeSlot) {
        let Some(Promisee::Gang(application)) = self.books.promises.of_victim(id) else {
            self.books.promises.confirmed(id);
            return;
        };
        let nodes = BTreeSet::from([node]);
        let confirmed = self.change_kept(&nodes, |promises| promises.confirmed(id));
        if confirmed.is_some_and(|confirmed| confirmed.is_last) {
            self.revisits.push((application, Op::RoomsAreFree));
        }
    }

    /// A victim stays: whoever it was to leave for is promised nothing any more, and looks again.
    pub(crate) fn victim_stays(&mut self, id: AllocationId) {
        if let Some(promisee) = self.books.promises.of_victim(id) {
            if let Promisee::Ask(who) = promisee {
                self.unreserve(who, End::VictimStays);
            }
            self.end_promise(promisee, false);
        }
        // Nor does it leave for nobody.
        self.books.promises.confirmed(id);
    }

    /// A victim that has still to leave holds another amount now.
    pub(crate) fn victim_resized(&mut self, id: AllocationId, node: NodeSlot, to: &Resources) {
        let nodes = BTreeSet::from([node]);
        self.change_kept(&nodes, |promises| promises.resized(id, to));
    }

    /// The promise of an asker is over: whoever made room for it is looked at again, and whoever
    /// waits for nodes that are promised, once half of them are not.
    pub(crate) fn end_promise(&mut self, promisee: Promisee, is_placed: bool) {
        let Some(promise) = self.books.promises.of(promisee) else { return };
        let nodes = nodes_of(promise);
        let Some(promise) = self.change_kept(&nodes, |promises| promises.end(promisee)) else {
            return;
        };
        for node in nodes {
            self.books.nodes.touch(node);
            let id = Arc::clone(self.books.nodes.id(node));
            self.wake_named(node, &id);
        }
        let mut concerned = promise.losers;
        // Where it was placed, what was promised is used now: nobody in its queues has more room.
        concerned.extend((!is_placed).then_some(promisee.application()));
        concerned.retain(|slot| self.directory.application(*slot).is_some());
        for slot in concerned {
            self.revisits.push((slot, Op::PromiseOver));
        }
        let left = self.books.promises.len();
        for slot in self.directory.wake_for_promises(left) {
            self.revisits.push((slot, Op::MayPreempt { at_ns: None }));
        }
    }

    /// Promises that have waited for too long are over; it is looked again when the next one has.
    pub(crate) fn end_waited_promises(&mut self) {
        let timeout = self.patience.wait_timeout;
        let (waited, next_ns) = self.books.promises.waited(self.now_ns, timeout);
        for promisee in waited {
            self.end_promise(promisee, false);
        }
        if let Some(next_ns) = next_ns {
            let wait_ns = u64::try_from(next_ns.saturating_sub(self.now_ns)).unwrap_or(0);
            self.alarms.push((Duration::from_nanos(wait_ns), Alarm::PromisesWaited));
        }
    }

    /// A reservation for which others were to leave was refused its node.
    pub(crate) fn promise_refused(&mut self, promisee: Promisee) {
        let is_over =
            self.books.promises.of(promisee).is_some_and(|promise| promise.victims.is_empty());
        if is_over {
            self.end_promise(promisee, false);
        }
    }

    /// All rooms of gangs end that have some on this node.
    pub(crate) fn end_rooms_on(&mut self, node: NodeSlot) {
        for gang in self.books.promises.on_node(node).collect::<Vec<_>>() {
            self.end_promise(gang, false);
        }
    }

    /// Nodes have changed on which gangs have rooms: where they have less than is kept, or take
    /// nothing more, the rooms end. Only when the step is done is it known what is left.
    pub(crate) fn check_rooms(&mut self) {
        for node in std::mem::take(&mut self.with_rooms) {
            let (nodes, promises) = (&self.books.nodes, &self.books.promises);
            if promises.on_node(node).next().is_none() {
                continue;
            }
            if !nodes.is_open(node) || nodes.available(node).has_negative() {
                self.end_rooms_on(node);
            }
        }
    }

    /// Changes what gangs keep of these nodes, and what the index shows of them with it.
    fn change_kept<T>(
        &mut self,
        nodes: &BTreeSet<NodeSlot>,
        change: impl FnOnce(&mut Promises) -> T,
    ) -> T {
        let kept = |promises: &Promises, node| promises.kept(node).unwrap_or_default();
        let promises = &mut self.books.promises;
        let before: Vec<_> = nodes.iter().map(|node| kept(promises, *node)).collect();
        let changed = change(promises);
        for (node, before) in nodes.iter().zip(before) {
            let after = kept(promises, *node);
            if !before.same_amount(&after) {
                let left = self.books.nodes.available(*node).plus(&before).minus(&after);
                self.books.nodes.take_in(*node, &left.pruned());
            }
        }
        changed
    }
}
