//! A declared gang is decided: asks of the RM become allocations, and internal asks become holds. For people,
//! `docs/gangs.md#declared-gangs`.
//!
//! # Invariants
//! * Once a gang is decided nothing is asked for internally.
//! * The RM is notified of its own asks alone.

use std::sync::Arc;

use monoceros_rules::allocations::Allocation;
use monoceros_rules::allocations::course::Course;
use monoceros_rules::applications::native::Native;
use monoceros_rules::asks::Bundled;
use monoceros_rules::decide::bundle::Found;
use monoceros_rules::decide::gang::{held_places, total};
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::pending::nominations::Preemptor;
use monoceros_rules::specs::ask::TaskGroup;
use monoceros_rules::values::ids::{AllocationId, AskSlot, NodeSlot};
use monoceros_rules::values::resources::Resources;

use super::Application;
use super::effects::{Grounded, VisitEffects};
use crate::events::{Event, EventKind};
use crate::step::{Baton, NewMembers, Notice, Resume};

impl Application {
    /// Books all members of the gang at their places. The nodes are told one after another, and then the offer
    /// goes on from here.
    pub(super) fn book_bundle(&mut self, mut baton: Box<Baton>, bundled: &Bundled, found: &Found) {
        let priority = self.book.asks.priority();
        let progress = self.book.progress();
        let total = total(&self.book.asks, bundled);
        // What was reserved for the gang is used now.
        baton.end_nomination(Preemptor::Gang(self.slot), true);
        self.book.choose_domains(found.chosen());
        baton.charge(&total);
        self.uses(&total, &mut baton);
        self.book.decided(baton.now_ns, &mut self.changes);
        let running = self.tell_changes(&mut baton);
        let (members, n_held) = self.book_members(bundled, found, &mut baton);
        self.book.forget_internal();
        self.decide(&mut baton);
        self.tell_holds(&n_held, &mut baton);
        if baton.offer.is_watched {
            let held = held_places(&self.book, bundled, found, &baton.books.nodes);
            let application = Arc::clone(&self.book.id);
            baton.effects.notify(Notice::GangPlaced { application, held });
        }
        self.arm_placeholders(&mut baton);
        let starting = self.moved_on(progress, &baton.books.nodes);
        let delta = LedgerDelta { running, starting, ..LedgerDelta::default() };
        baton.follow(members.then(self.slot, Resume { priority, delta }));
    }

    /// Books each member at its place. Returns the members by nodes, and how many places are held of each group.
    fn book_members(
        &mut self,
        bundled: &Bundled,
        found: &Found,
        baton: &mut Baton,
    ) -> (NewMembers, Vec<u64>) {
        let (mut members, mut n_held) = (NewMembers::default(), vec![0_u64; bundled.len()]);
        for place in found.places() {
            let (slot, _) = bundled[place.of.group][place.of.members];
            let ask = self.book.asks.ask(slot);
            let (spec, created_ns) = (Arc::clone(&ask.spec), ask.created_ns);
            let mut entry =
                Allocation::new(self.slot, Arc::clone(&spec), place.node, created_ns, baton.now_ns);
            entry.follow(Course::of(&spec, baton.now_ns, || baton.services.clock.now_ns()));
            // Where predicates were asked at once, that was when they passed.
            entry.is_assumed = !baton.offer.asks_later;
            let id = baton.books.allocations.insert(entry);
            if baton.offer.asks_later {
                baton.assume(id);
            }
            if spec.placeholder {
                // The RM has no ask of this member: its place is held, and the RM is not notified.
                n_held[place.of.group] += 1;
                self.book.asks.take_one(slot);
                self.name_hold(place.of.group, id, baton);
                self.book.booked(&spec.resources, true, baton.now_ns, &mut self.changes);
            } else {
                self.book_member(slot, id, baton);
            }
            members.add(id, place.node, &spec.resources);
        }
        (members, n_held)
    }

    /// Books a member with an ask: it is an allocation.
    fn book_member(&mut self, slot: AskSlot, id: AllocationId, baton: &mut Baton) {
        let uuid = self.book.next_uuid(slot);
        baton.note_member(self.decided_for(), id, false);
        self.book.asks.take_one(slot);
        let ask = self.book.asks.ask_mut(slot);
        ask.live.push(id);
        let spec = Arc::clone(&ask.spec);
        self.book.booked(&spec.resources, false, baton.now_ns, &mut self.changes);
        let allocated = self.bind(baton, slot, id, uuid);
        Self::tell_allocated(baton, allocated);
        self.book.note_real(spec.member_of());
    }

    /// Gives a place that is held from now on a name for people, and lets members take it.
    pub(super) fn name_hold(&mut self, group: usize, id: AllocationId, baton: &mut Baton) {
        let Some(native) = self.book.native_mut() else { return };
        let uuid = native.groups_mut()[group].next_hold();
        native.holds.insert(id);
        if let Some(entry) = baton.books.allocations.get_mut(id) {
            entry.uuid = uuid;
            if let Some(name) = entry.spec.place_in() {
                self.put_free(name, id, entry);
            }
        }
        baton.directory.counts(self.leaf_facts.slot).allocated += 1;
    }

    /// Takes in an allocation that is not a placeholder, and that the RM reported. If the gang is undecided here, it
    /// was decided before, by a scheduler that is no more: what it asks for is scheduled as usual. If it is
    /// decided, the allocation has the place of one that is held.
    pub(super) fn real_reported(
        &mut self,
        group: Option<&TaskGroup>,
        node: NodeSlot,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        self.ground_bundle(Grounded::Anew, None, baton, effects);
        if self.book.undecided().is_none() {
            if let Some(group) = group {
                self.report_takes_hold(group, node, baton, effects);
            }
            self.book.reported_at(group, node, &baton.books.nodes);
            return self.book.note_real(group);
        }
        let mut looks_on = false;
        if let Some(native) = self.book.native_mut() {
            native.has_real = true;
            if native.holds_again() {
                // A member that is reported has one of the places that were held.
                if let Some(group) = group {
                    native.settle_for_fewer(group, 1);
                }
                looks_on = native.wanted() > 0;
            }
        }
        if !looks_on {
            self.decide_without_places(baton, effects);
        }
        effects.touched = true;
        self.book.reported_at(group, node, &baton.books.nodes);
    }

    /// Decides the gang without a place that is held for it: what it still asks for is scheduled as usual.
    pub(super) fn decide_without_places(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        debug_assert!(self.book.has_declared_members(), "only a declared gang is decided");
        self.decide(baton);
        let pending = self.book.forget_members_without_ask();
        effects.delta.pending.subtract_sum(&pending);
        self.arm_placeholders(baton);
        // With what was pending it may be over.
        (effects.touched, effects.left.asks) = (true, true);
    }

    /// The gang is decided from now on.
    pub(super) fn decide(&mut self, baton: &mut Baton) {
        if self.book.native_mut().is_some_and(Native::decide) {
            self.tell_held_again(baton);
        }
    }

    /// Makes an event for each group of which places are held, and those that say what user and group use by
    /// them.
    pub(super) fn tell_holds(&self, n_held: &[u64], baton: &mut Baton) {
        let Some(native) = self.book.native() else { return };
        let mut sum = Resources::new();
        for (group, held) in native.groups().iter().zip(n_held) {
            if let (Some(spec), 1..) = (&group.spec, *held) {
                let kind = EventKind::AllocationAdded;
                baton.happens(|at| Event::about_holds(&self.book, kind, (spec, *held), at));
                let times = i64::try_from(*held).unwrap_or(i64::MAX);
                sum.add(&spec.resources.times(times));
            }
        }
        if sum.is_zero() {
            return;
        }
        let charged = |kind, whose: &Arc<str>, at| {
            Event::of(kind, whose, at).referring(&self.book.queue).amount(&sum)
        };
        baton.happens(|at| charged(EventKind::UserCharged, &self.book.user, at));
        if let Some(group) = self.group() {
            baton.happens(|at| charged(EventKind::GroupCharged, group, at));
        }
    }
}
