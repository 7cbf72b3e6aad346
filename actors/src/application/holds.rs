//! Places that are held for members of a declared gang: real asks take them, and they end. For
//! people, `docs/gangs.md#held-places`.
//!
//! # How they differ from placeholders
//! Everything counts them as placeholders ([`super::gang`]), and the same search finds who takes
//! which. But no RM knows of them: nobody has to end anything before a member takes its place, and
//! nobody confirms anything. So a member takes its place in the very step in which the predicate
//! passes, and a hold that ends is gone in that step.
//!
//! # Invariants
//! * A hold is in the table, on its node, in [`Native::holds`] and nowhere else; it is no
//!   allocation that a release could name.
//! * What ends of a gang no member of which was ever real ends with all the rest of it: the gang is
//!   undecided again.
//!
//! [`Native::holds`]: monoceros_rules::applications::native::Native::holds

use std::sync::Arc;

use monoceros_rules::allocations::{Allocation, Pairing};
use monoceros_rules::applications::gang::PlaceholderEnd;
use monoceros_rules::applications::native::Stage;
use monoceros_rules::audit::Decision;
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::pending::reservations::End;
use monoceros_rules::specs::ask::TaskGroup;
use monoceros_rules::values::ids::{AllocationId, NodeSlot};
use monoceros_rules::values::resources::Resources;

use super::Application;
use super::effects::{EndedHolds, VisitEffects};
use crate::events::{Event, EventKind};
use crate::step::{Baton, Consequences, NodeWork, Notice, Op, Placement, Resume, Takes};

impl Application {
    /// The node has said yes, and what the member takes there is counted already: it is an
    /// allocation, and its hold is gone.
    pub(super) fn take_hold(&mut self, mut baton: Box<Baton>, placement: &Placement, takes: Takes) {
        let priority = self.book.asks.priority();
        let (slot, id) = (placement.ask, placement.allocation);
        let Some(hold) = baton.books.allocations.remove(takes.placeholder) else {
            debug_assert!(false, "a hold stays while a member takes it");
            return self.rise(baton);
        };
        let (freed, resources) = (hold.resources().clone(), placement.spec.resources.clone());
        let uuid = self.book.next_uuid(slot);
        baton.note_placed(self.decided_for(), placement, false);
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
        Self::tell_allocated(&mut baton, allocated);
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

    /// The hold is counted as taken, and what takes it as a real allocation.
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
        self.count_use(hold, EventKind::AllocationReplaced, baton);
        self.book.note_real(hold.spec.place_in());
        let mut effects = VisitEffects::default();
        self.drop_hold(id, hold, PlaceholderEnd::Replaced, &mut effects);
        self.disarm_placeholders(baton);
    }

    /// The answer has come that the member may run: it is an allocation, and its hold is gone.
    pub(super) fn settle_on_hold(
        &mut self,
        real: AllocationId,
        id: AllocationId,
        in_place: bool,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(hold) = baton.books.allocations.remove(id) else { return };
        baton.forget_gone(&hold);
        baton.assume(real);
        let Some(entry) = baton.books.allocations.get(real) else { return };
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
        self.tell_discharge(hold.resources(), baton, effects);
        if !in_place {
            baton.books.unsettled.changed(hold.node);
        }
        let uuid = self.book.next_uuid(slot);
        self.book.asks.settle_one(slot, real);
        let allocated = self.bind(baton, slot, real, uuid);
        effects.delta.running += self.tell_changes(baton);
        baton.effects.notices.append(&mut effects.discharged);
        Self::tell_allocated(baton, allocated);
    }

    /// What a hold was larger than the member that takes it is free in queues, for user and group.
    fn give_rest(&mut self, held: &Resources, rest: &Resources, baton: &mut Baton) {
        if !rest.is_zero() {
            let loosening = baton.books.loosen();
            baton.give_back(rest, loosening);
            if let Some(lane) = &self.lane {
                let change = rest.times(-1);
                baton.books.trackers.charge(lane.id(), &change, loosening);
            }
        }
        // The allocation that takes the place says what it uses instead.
        let queue = &self.book.queue;
        baton.happens(|at| {
            let event = Event::of(EventKind::UserDischarged, &self.book.user, at);
            event.referring(queue).amount(held)
        });
        if let Some(group) = self.group() {
            let event = |at| Event::of(EventKind::GroupDischarged, group, at);
            baton.happens(|at| event(at).referring(queue).amount(held));
        }
    }

    /// A hold has left every holder but these.
    pub(super) fn drop_hold(
        &mut self,
        id: AllocationId,
        hold: &Allocation,
        end: PlaceholderEnd,
        effects: &mut VisitEffects,
    ) {
        if let Some(native) = self.book.native_mut() {
            native.holds.remove(&id);
        }
        self.forget_placeholder(id, hold, end, effects);
    }

    /// The holds of this group are too small for one of its members: they are taken by nobody, and
    /// end once the offer is home.
    pub(super) fn spurn_holds(&mut self, placeholder: AllocationId, baton: &mut Baton) {
        let Some(entry) = baton.books.allocations.get(placeholder) else { return };
        let Some(group) = entry.spec.place_in().cloned() else { return };
        self.book.gang_mut().take_all_free(&group);
        baton.effects.revisit(self.slot, Op::EndHolds { group });
    }

    /// The holds of a group end, but for those that a member waits to take.
    pub(super) fn end_holds_of(
        &mut self,
        group: &TaskGroup,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let is_meant = |entry: &Allocation| entry.spec.place_in() == Some(group);
        self.end_holds(EventKind::AllocationTimedOut, is_meant, baton, effects);
    }

    /// Ends the holds that are meant, but for those that a member waits to take.
    pub(super) fn end_holds(
        &mut self,
        event: EventKind,
        is_meant: impl Fn(&Allocation) -> bool,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let all: Vec<AllocationId> = self.book.holds().collect();
        for id in all {
            let Some(entry) = baton.books.allocations.get(id) else { continue };
            if is_meant(entry) && entry.gives_way_to().is_none() {
                self.end_hold(id, event, None, baton, effects);
            }
        }
    }

    /// Ends one hold, which nobody waits to take; its node lets go of it unless that is gone.
    pub(super) fn end_hold(
        &mut self,
        id: AllocationId,
        event: EventKind,
        gone: Option<NodeSlot>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(hold) = baton.books.allocations.remove(id) else { return };
        baton.forget_gone(&hold);
        self.book.unbooked(hold.resources(), true);
        effects.left.placeholders = true;
        effects.delta.allocated.subtract(hold.resources());
        (effects.loosens, effects.touched) = (true, true);
        self.count_use(&hold, event, baton);
        baton.directory.counts(self.leaf_facts.slot).released += 1;
        baton.books.unsettled.changed(hold.node);
        if gone != Some(hold.node) {
            let work = NodeWork::Release(id, hold.resources().clone());
            effects.node_work.push((hold.node, work));
        }
        self.drop_hold(id, &hold, PlaceholderEnd::TimedOut, effects);
        if matches!(event, EventKind::AllocationLostNode | EventKind::AllocationPreempted) {
            self.place_lost(hold.spec.place_in(), effects);
        }
        effects.note_hold(event, &hold.spec);
    }

    /// The node of a hold has no room for it any more: it ends, also where a member waits to take it.
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
        self.place_lost(group.as_ref(), effects);
    }

    /// Holds were lost, with their node or to others. If no member was ever real the remaining ones
    /// end, too, and the gang is undecided again: two such gangs could else keep each other from
    /// what both lack.
    pub(super) fn holds_lost(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let is_whole = self
            .book
            .native_mut()
            .is_some_and(|native| native.stage == Stage::Decided && !native.has_real);
        if is_whole {
            self.undecide(baton, effects);
        }
    }

    /// The gang is undecided again: what is held for it ends, and all of it is asked for together.
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

    /// None of its asks goes alone from now on: what is on its way comes back.
    pub(super) fn recall_asks(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        for slot in self.book.asks.slots() {
            self.give_up_asked(slot, baton, effects);
            self.end_reservation(slot, End::Undecided, baton);
        }
    }

    /// An allocation that the RM reports belongs to a group that holds places: one of them is its
    /// own, on the same node if there is one, else the newest.
    pub(super) fn report_takes_hold(
        &mut self,
        group: &TaskGroup,
        node: NodeSlot,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let table = &baton.books.allocations;
        let of_group = self.book.holds().filter(|id| {
            table.get(*id).is_some_and(|hold| {
                hold.spec.place_in() == Some(group) && hold.gives_way_to().is_none()
            })
        });
        let order = |id: &AllocationId| {
            let hold = table.get(*id);
            (hold.is_some_and(|hold| hold.node == node), hold.map(Allocation::newness))
        };
        let taken = of_group.max_by(|one, other| order(one).cmp(&order(other)));
        let Some(id) = taken else { return };
        let Some(hold) = baton.books.allocations.remove(id) else { return };
        baton.forget_gone(&hold);
        self.book.unbooked(hold.resources(), true);
        effects.left.placeholders = true;
        effects.delta.allocated.subtract(hold.resources());
        (effects.loosens, effects.touched) = (true, true);
        self.count_use(&hold, EventKind::AllocationReplaced, baton);
        baton.directory.counts(self.leaf_facts.slot).released += 1;
        baton.books.unsettled.changed(hold.node);
        let work = NodeWork::Release(id, hold.resources().clone());
        effects.node_work.push((hold.node, work));
        self.drop_hold(id, &hold, PlaceholderEnd::Replaced, effects);
        effects.note_hold(EventKind::AllocationReplaced, &hold.spec);
    }

    /// Makes one event for each group of which holds ended in this visit, and says what user and
    /// group use less by them.
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
            self.tell_discharge(&sum, baton, effects);
        }
    }
}
