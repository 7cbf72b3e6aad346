//! Holds: places that are held for members of a declared gang, until real asks take them or they
//! end. For people, `docs/gangs.md#held-places` and `docs/gangs.md#held-again-after-a-restart`.
//!
//! # How they differ from placeholders
//! Holds are counted as placeholders ([`super::gang`]), and the same search finds which member
//! takes which hold. But no RM knows of them, so no RM has to end a hold before a member takes its
//! place, or to confirm its end. So a member takes its place in the very step in which its
//! predicate passes, and a hold that ends is gone in that step.
//!
//! # Invariants
//! * A decided gang has no internal asks.
//! * A hold is in the table, on its node, in [`Native::holds`] and nowhere else; it is no
//!   allocation that a release could name.
//! * If a gang loses a hold and no member of it was ever real, all its holds end: the gang is
//!   undecided again.
//!
//! # Held again after a restart
//! The RM reports what runs, opens nodes, and then reports how many places an earlier scheduler
//! held. The gang is undecided once more, although members run, and that many places are searched
//! as for any other gang. If they do not all fit, the gang settles for fewer and searches again,
//! until the rest has its places or none is left. Then it is decided, and the RM is notified: it
//! may send the asks of other applications.
//! * Such a gang searches places for [`SOUGHT_FOR`] at most, whatever the obstacle, and preempts no
//!   allocation.
//! * Places are searched only while the application is Running and has a real allocation.
//! * Places are held no longer than they would have been without the restart.
//! * Each order to hold places again is answered once, unless the application is removed before.
//!
//! [`Native::holds`]: monoceros_rules::applications::native::Native::holds

use std::sync::Arc;
use std::time::Duration;

use monoceros_rules::allocations::{Allocation, Pairing};
use monoceros_rules::applications::gang::PlaceholderEnd;
use monoceros_rules::applications::native::{Native, Stage};
use monoceros_rules::audit::Decision;
use monoceros_rules::decide::gang::settle_for_fewer;
use monoceros_rules::decide::in_flight::WithdrawReason;
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::pending::reservations::End;
use monoceros_rules::specs::ask::TaskGroup;
use monoceros_rules::specs::hold_again::HoldAgain;
use monoceros_rules::specs::tags::HELD_AGAIN;
use monoceros_rules::values::ids::{AllocationId, NodeSlot};
use monoceros_rules::values::resources::Resources;

use super::effects::{EndedHolds, VisitEffects};
use super::predicates::GiveUp;
use super::{Application, events};
use crate::events::{Event, EventKind};
use crate::step::{Baton, Consequences, GangOp, NodeWork, Notice, Op, Placement, Resume, Takes};

/// The longest search for places that were held before. The asks of the gang wait until it is over.
const SOUGHT_FOR: Duration = Duration::from_secs(5);

impl Application {
    /// Makes a member an allocation in place of its hold. The node has confirmed the member and
    /// counts its amount already.
    pub(super) fn take_hold(&mut self, mut baton: Box<Baton>, placement: &Placement, takes: Takes) {
        let priority = self.book.asks.priority();
        let (slot, id) = (placement.ask, placement.allocation);
        let Some(hold) = baton.books.allocations.remove(takes.placeholder) else {
            debug_assert!(false, "a hold stays while a member takes it");
            return self.rise(baton);
        };
        let (freed, resources) = (hold.resources().clone(), placement.spec.resources.clone());
        let uuid = self.book.next_uuid(slot);
        baton.note_placed(self.decided_for(), placement);
        self.book.asks.take_one(slot);
        self.book.asks.ask_mut(slot).live.push(id);
        baton.offer.pair(&resources);
        self.give_rest(&freed, &freed.minus(&resources).pruned(), &mut baton);
        self.replace_hold(takes.placeholder, &hold, id, &resources, &mut baton);
        if baton.offer.is_watched {
            baton.effects.notify(Notice::HoldTaken(Box::new(Decision::Replace {
                application: Arc::clone(&self.book.id),
                key: Arc::clone(&placement.spec.key),
                placeholder: Arc::clone(&hold.uuid),
                node: Arc::clone(baton.books.nodes.id(placement.node)),
            })));
        }
        let allocated = self.bind(&mut baton, slot, id, uuid);
        let running = self.tell_changes(&mut baton);
        baton.tell_allocated(allocated);
        let delta = LedgerDelta { running, ..LedgerDelta::default() };
        if takes.in_place {
            return self.go_on(baton, priority, &delta);
        }
        let work = NodeWork::Release(takes.placeholder, freed);
        baton.follow(Consequences {
            node_work: [(hold.node, work)].into_iter().collect(),
            climbing: None,
            resume: Some((self.slot, Resume { priority, delta })),
        });
    }

    /// Counts the hold as taken, and the member that takes it as a real allocation.
    fn replace_hold(
        &mut self,
        id: AllocationId,
        hold: &Allocation,
        real: AllocationId,
        resources: &Resources,
        baton: &mut Baton,
    ) {
        if let Some(entry) = baton.books.allocations.get_mut(real) {
            entry.change().pairing = Pairing::Took { created_ns: hold.stated_creation_ns() };
        }
        let amounts = (hold.resources(), resources);
        self.book.swapped(amounts, real, baton.now_ns, &mut self.changes);
        baton.count_use(&mut self.book, hold, false);
        self.book.note_real(hold.spec.place_in());
        let (end, mut effects) = (Some(PlaceholderEnd::Replaced), VisitEffects::default());
        self.forget_placeholder(id, hold, end, &mut effects);
        baton.effects.disarm(self.book.take_unneeded_deadline());
    }

    /// Makes a member an allocation in place of its hold, once its predicate has passed.
    pub(super) fn settle_on_hold(
        &mut self,
        real: AllocationId,
        id: AllocationId,
        in_place: bool,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(hold) = baton.books.allocations.remove_known(id) else { return };
        baton.forget_gone(&hold);
        baton.assume(real);
        let Some(entry) = baton.books.allocations.known(real) else { return };
        let (resources, key) = (entry.resources().clone(), Arc::clone(entry.key()));
        let slot =
            self.book.asks.slot_of(&key).expect("an ask stays while a placement of it waits");
        let change = resources.minus(hold.resources()).pruned();
        let work = if in_place {
            NodeWork::Swap { placeholder: id, real, change: change.clone() }
        } else {
            NodeWork::Release(id, hold.resources().clone())
        };
        effects.node_work.push((hold.node, work));
        effects.loosens |= change.has_negative();
        effects.delta.allocated.add(&change);
        effects.touched = true;
        self.replace_hold(id, &hold, real, &resources, baton);
        events::discharged(&self.owner, hold.resources(), baton, effects);
        if !in_place {
            baton.books.unsettled.changed(hold.node);
        }
        let uuid = self.book.next_uuid(slot);
        self.book.asks.settle_one(slot, real);
        let allocated = self.bind(baton, slot, real, uuid);
        effects.delta.running += self.tell_changes(baton);
        baton.effects.notices.append(&mut effects.discharged);
        baton.tell_allocated(allocated);
    }

    /// Returns the `rest`, by which the hold exceeded its member, to queues, user and group.
    fn give_rest(&mut self, held: &Resources, rest: &Resources, baton: &mut Baton) {
        if !rest.is_zero() {
            let loosening = baton.books.loosen();
            baton.give_back(rest, loosening);
            if let Some(lane) = self.lane.lane() {
                let change = rest.times(-1);
                baton.books.trackers.charge(lane.id(), &change, loosening);
            }
        }
        // The allocation that takes the place reports its own usage.
        let mut effects = VisitEffects::default();
        events::discharged(&self.owner, held, baton, &mut effects);
        baton.effects.notices.append(&mut effects.discharged);
    }

    /// Ends the holds of this group, or all, except those that a member waits to take.
    pub(super) fn end_holds(
        &mut self,
        group: Option<&TaskGroup>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        for id in self.book.holds().collect::<Vec<_>>() {
            let Some(entry) = baton.books.allocations.get(id) else { continue };
            let is_meant = group.is_none() || entry.spec.place_in() == group;
            if is_meant && entry.gives_way_to().is_none() {
                self.end_hold(id, EventKind::AllocationTimedOut, None, baton, effects);
            }
        }
    }

    /// Ends one hold, which no member waits to take. A node that is `gone` gets nothing back.
    pub(super) fn end_hold(
        &mut self,
        id: AllocationId,
        event: EventKind,
        gone: Option<NodeSlot>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(hold) = baton.books.allocations.remove_known(id) else { return };
        baton.forget_gone(&hold);
        self.book.unbooked(hold.resources(), true);
        effects.left.placeholders = true;
        effects.delta.allocated.subtract(hold.resources());
        (effects.loosens, effects.touched) = (true, true);
        baton.count_use(&mut self.book, &hold, event == EventKind::AllocationPreempted);
        baton.directory.counts(self.leaf_facts.slot).released += 1;
        baton.books.unsettled.changed(hold.node);
        if gone != Some(hold.node) {
            let work = NodeWork::Release(id, hold.resources().clone());
            effects.node_work.push((hold.node, work));
        }
        let end = match event {
            EventKind::AllocationReplaced => PlaceholderEnd::Replaced,
            _ => PlaceholderEnd::TimedOut,
        };
        self.forget_placeholder(id, &hold, Some(end), effects);
        let is_loss =
            matches!(event, EventKind::AllocationLostNode | EventKind::AllocationPreempted);
        if is_loss && let Some(group) = self.book.place_lost(hold.spec.place_in()) {
            effects.lost_member(group);
        }
        effects.note_hold(event, &hold.spec);
    }

    /// Ends a hold whose node has no room for it any more, even if a member waits to take it.
    pub(super) fn shed_hold(
        &mut self,
        id: AllocationId,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let hold = baton.books.allocations.get(id);
        let group = hold.and_then(|hold| hold.spec.place_in().cloned());
        if let Some(real) = hold.and_then(Allocation::gives_way_to) {
            self.unpair(real, None, baton, effects);
        }
        self.end_hold(id, EventKind::AllocationTimedOut, None, baton, effects);
        if let Some(group) = self.book.place_lost(group.as_ref()) {
            effects.lost_member(group);
        }
    }

    /// Makes a gang that has lost holds undecided again, if none of its members was ever real.
    /// Otherwise two such gangs could each hold places that the other lacks.
    pub(super) fn holds_lost(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let native = self.book.native();
        if native.is_some_and(|native| native.stage == Stage::Decided && !native.has_real) {
            self.undecide(baton, effects);
        }
    }

    /// Makes the gang undecided again: its holds end, and all of its members are asked for together.
    pub(super) fn undecide(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        for id in self.book.holds().collect::<Vec<_>>() {
            let real = baton.books.allocations.get(id).and_then(Allocation::gives_way_to);
            if let Some(real) = real {
                self.unpair(real, None, baton, effects);
            }
            self.end_hold(id, EventKind::AllocationCancelled, None, baton, effects);
        }
        self.recall_asks(baton, effects);
        if let Some(native) = self.book.native_mut() {
            native.forget_held_before();
        }
        self.ask_internally(baton, effects);
    }

    /// Withdraws the questions and placements in flight of its asks, and ends their reservations:
    /// none of the asks is placed alone from now on.
    pub(super) fn recall_asks(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        for slot in self.book.asks.slots() {
            self.give_up_ask(slot, GiveUp::Asked, baton, effects);
            self.end_reservation(slot, End::Undecided, baton);
        }
    }

    /// Makes one event for each group of which holds ended in this visit, and the events that user
    /// and group use less by their amount.
    pub(super) fn tell_ended_holds(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let ended = std::mem::take(&mut effects.ended_holds);
        let mut sum = Resources::new();
        for EndedHolds { event, spec, count } in ended {
            let times = i64::try_from(count).unwrap_or(i64::MAX);
            sum.add(&spec.resources.times(times));
            let event = |at| Event::about_holds(&self.book, event, (&spec, count), at);
            effects.happens(baton, event);
        }
        if !sum.is_zero() {
            events::discharged(&self.owner, &sum, baton, effects);
        }
    }
}

/// The decision.
impl Application {
    /// Gives a new hold a name for people, and lets members take it.
    pub(super) fn name_hold(&mut self, group: usize, id: AllocationId, baton: &mut Baton) {
        let Some(native) = self.book.native_mut() else { return };
        let uuid = native.hold(group, id);
        if let Some(entry) = baton.books.allocations.get_mut(id) {
            entry.uuid = uuid;
            if let Some(name) = entry.spec.place_in() {
                self.pairs.put_free(self.book.gang_mut(), name, (id, &*entry));
            }
        }
        baton.directory.counts(self.leaf_facts.slot).allocated += 1;
    }

    /// Handles a reported allocation that is not a placeholder. If the gang is undecided here, an
    /// earlier scheduler had decided it: its asks are scheduled as usual. If it is decided, the
    /// allocation replaces a hold, if there is one for it.
    pub(super) fn real_reported(
        &mut self,
        group: Option<&TaskGroup>,
        node: NodeSlot,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        self.withdraw_bundle(WithdrawReason::Changed, None, baton, effects);
        if self.book.undecided().is_none() {
            let table = &baton.books.allocations;
            let hold = group.and_then(|group| self.book.hold_of_reported(group, node, table));
            if let Some(hold) = hold {
                self.end_hold(hold, EventKind::AllocationReplaced, None, baton, effects);
            }
            self.book.reported_at(group, node, &baton.books.nodes);
            return self.book.note_real(group);
        }
        if !self.book.native_mut().is_some_and(|native| native.real_reported(group)) {
            self.decide_without_places(baton, effects);
        }
        effects.touched = true;
        self.book.reported_at(group, node, &baton.books.nodes);
    }

    /// Decides the gang, whose members all have places. `n_held` is the number of holds of each
    /// group.
    pub(super) fn decide_with_places(&mut self, n_held: &[u64], baton: &mut Baton) {
        self.book.forget_internal();
        if self.book.native_mut().is_some_and(Native::decide) {
            self.tell_held_again(baton);
        }
        let held = events::tell_holds(&self.book, n_held, baton);
        if !held.is_zero() {
            events::charged(&self.owner, &held, baton, &mut VisitEffects::default());
        }
        self.arm_placeholders(baton);
    }

    /// Decides the gang without holds of its own: its remaining asks are scheduled as usual.
    pub(super) fn decide_without_places(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        debug_assert!(self.book.has_declared_members(), "only a declared gang is decided");
        if self.book.native_mut().is_some_and(Native::decide) {
            self.tell_held_again(baton);
        }
        let pending = self.book.forget_members_without_ask();
        effects.delta.pending.subtract_sum(&pending);
        self.arm_placeholders(baton);
        // Without the internal asks the application may be complete.
        (effects.touched, effects.left.asks) = (true, true);
    }
}

/// Places that an earlier scheduler held, for gangs that run in part.
impl Application {
    /// Begins the search for places that were held before, if the gang runs in part: for as many as
    /// are not held already. An order that arrives during the search of an earlier one replaces
    /// that one.
    pub(super) fn hold_again(
        &mut self,
        again: &HoldAgain,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        if self.book.holds_again() {
            self.give_up_holding_again(baton, effects);
        }
        let native = self.book.native();
        let runs = native.is_some_and(|native| native.stage == Stage::Decided && native.has_real);
        if !runs || !self.book.may_hold_again() {
            return self.tell_held_again(baton);
        }
        self.recall_asks(baton, effects);
        if let Some(gang) = &mut self.book.gang {
            gang.hold_again(again, baton.now_ns);
        }
        self.ask_internally(baton, effects);
        effects.touched = true;
        let left = self.book.holding_time_left(baton.now_ns);
        if left.is_zero() || self.book.undecided().is_none_or(|native| native.wanted() == 0) {
            return self.decide_without_places(baton, effects);
        }
        let order = self.bundle.as_mut().map_or(0, |bundle| bundle.next_hold_order());
        baton
            .effects
            .remind(left.min(SOUGHT_FOR), self.alarm(Op::Gang(GangOp::HoldAgainOver { order })));
    }

    /// Ends the search that this order began, if it is still under way.
    pub(super) fn hold_again_over(
        &mut self,
        order: u32,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let is_meant = self.bundle.as_ref().is_some_and(|bundle| bundle.is_last_hold_order(order));
        if is_meant && self.book.holds_again() {
            self.give_up_holding_again(baton, effects);
        }
    }

    /// Notifies the RM that all places that fit are held.
    pub(super) fn tell_held_again(&self, baton: &mut Baton) {
        baton.notify_entered(&self.book, self.book.state(), HELD_AGAIN);
    }

    /// Ends the search for places that were held before, and holds none of them.
    pub(super) fn give_up_holding_again(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        self.withdraw_bundle(WithdrawReason::Changed, None, baton, effects);
        self.decide_without_places(baton, effects);
    }

    /// Searches for fewer places, after too few were found. Decides the gang if none are left to
    /// search.
    pub(super) fn settle_for_less(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let Some(bundle) = &mut self.bundle else { return };
        match settle_for_fewer(&mut self.book, bundle) {
            None => {}
            Some(0) => self.decide_without_places(baton, effects),
            Some(_) => {
                self.wake_bundle();
                effects.touched = true;
            }
        }
    }
}
