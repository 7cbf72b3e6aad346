//! All members of a declared gang get their places: real asks become allocations, and what the
//! scheduler asked for itself becomes holds. For people, `docs/gangs.md#declared-gangs`.
//!
//! # Invariants
//! * Once a gang is decided nothing is asked for internally.
//! * The RM hears of its own asks alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::allocations::Allocation;
use monoceros_rules::allocations::journey::Course;
use monoceros_rules::applications::native::Native;
use monoceros_rules::asks::Bundled;
use monoceros_rules::decide::bundle::Found;
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::specs::ask::{Form, TaskGroup};
use monoceros_rules::values::ids::{AllocationId, AskSlot, NodeSlot};
use monoceros_rules::values::resources::{Resources, Sum};

use super::Application;
use super::bundle::total;
use super::in_the_air::Grounded;
use super::ops::VisitEffects;
use crate::events::{Event, EventKind};
use crate::step::{Baton, Consequences, NodeWork, Notice, Resume};

impl Application {
    /// Books all members of the gang at their places. The nodes are told one after another, and
    /// then the offer goes on from here.
    pub(super) fn book_bundle(&mut self, mut baton: Box<Baton>, bundled: &Bundled, found: &Found) {
        let priority = self.book.asks.priority();
        let progress = self.book.progress();
        let total = total(&self.book.asks, bundled);
        self.gang_is_placed(&mut baton);
        self.choose_domains(found);
        baton.charge(&total);
        self.uses(&total, &mut baton);
        self.book.decided(baton.now_ns, &mut self.changes);
        let running = self.tell_changes(&mut baton);
        let mut work: BTreeMap<NodeSlot, (Vec<AllocationId>, Resources)> = BTreeMap::new();
        let mut n_held = vec![0_u64; bundled.len()];
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
                n_held[place.of.group] += 1;
                self.book_hold(place.of.group, slot, id, &mut baton);
            } else {
                self.book_member(slot, id, &mut baton);
            }
            let (ids, sum) = work.entry(place.node).or_default();
            ids.push(id);
            sum.add(&spec.resources);
        }
        self.forget_internal();
        self.decide(&mut baton);
        self.tell_holds(&n_held, &mut baton);
        if baton.offer.is_watched {
            let held = self.placed_at(found, bundled, &baton);
            baton
                .effects
                .notify(Notice::GangPlaced { application: Arc::clone(&self.book.id), held });
        }
        self.arm_placeholders(&mut baton);
        let starting = self.moved_on(progress, &baton.books.nodes);
        let delta = LedgerDelta { running, starting, ..LedgerDelta::default() };
        let work = work.into_iter().map(|(node, (ids, sum))| (node, NodeWork::HoldAll(ids, sum)));
        baton.follow(Consequences {
            node_work: work.collect(),
            climbing: None,
            resume: Some((self.slot, Resume { priority, delta })),
        });
    }

    /// A member whose ask is there: it is an allocation.
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
        self.note_real(spec.member_of());
    }

    /// A member without an ask: its place is held, and the RM is not told.
    fn book_hold(&mut self, group: usize, slot: AskSlot, id: AllocationId, baton: &mut Baton) {
        self.book.asks.take_one(slot);
        let spec = Arc::clone(&self.book.asks.ask(slot).spec);
        self.name_hold(group, id, baton);
        self.book.booked(&spec.resources, true, baton.now_ns, &mut self.changes);
    }

    /// A place is held from now on: it has a name for people, and is free to be taken.
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

    /// An allocation that is not a placeholder was reported. If the gang is undecided here, it was
    /// decided before, by a scheduler that is no more: what it asks for is scheduled as usual. If it
    /// is decided, the allocation has the place of one that is held.
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
            self.reported_at(group, node, baton);
            return self.note_real(group);
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
        self.reported_at(group, node, baton);
    }

    /// The gang is decided, and no place is held for it: what it still asks for is scheduled as usual.
    pub(super) fn decide_without_places(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        self.decide(baton);
        let Some(gang) = &mut self.book.gang else { return };
        let Some(native) = &gang.native else { return };
        let asks = &self.book.asks;
        let missing = native.groups().iter().filter_map(|group| {
            Some((Arc::clone(&group.name), u64::from(asks.ask(group.ask?).outstanding)))
        });
        for (name, missing) in missing.collect::<Vec<_>>() {
            gang.take_off(&name, missing);
        }
        let pending = self.forget_internal();
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

    /// A member of this task group runs from now on, or did.
    pub(super) fn note_real(&mut self, group: Option<&TaskGroup>) {
        let Some(group) = group else { return };
        if let Some(native) = self.book.native_mut()
            && native.has(group)
        {
            native.has_real = true;
        }
    }

    /// Nothing is asked for internally any more. Returns what was pending of it.
    pub(super) fn forget_internal(&mut self) -> Sum {
        let mut pending = Sum::default();
        let book = &mut self.book;
        let Some(native) = book.gang.as_mut().and_then(|gang| gang.native.as_mut()) else {
            return pending;
        };
        for slot in native.groups_mut().iter_mut().filter_map(|group| group.ask.take()) {
            pending.add_sum(&book.asks.remove_internal(slot));
        }
        pending
    }

    /// The groups of the members for which places are held, each with its node.
    fn placed_at(
        &self,
        found: &Found,
        bundled: &Bundled,
        baton: &Baton,
    ) -> Vec<(TaskGroup, Arc<str>)> {
        let native = self.book.gang.as_ref().and_then(|gang| gang.native.as_ref());
        let groups = native.map_or(&[][..], |native| native.groups());
        let held = found.places().iter().filter(|place| {
            let (slot, _) = bundled[place.of.group][place.of.members];
            // Internal asks are forgotten by now.
            self.book.asks.find(slot).is_none_or(|ask| ask.form == Form::Internal)
        });
        held.map(|place| {
            let node = Arc::clone(baton.books.nodes.id(place.node));
            (Arc::clone(&groups[place.of.group].name), node)
        })
        .collect()
    }

    /// Makes one event for each group of which places are held, and says what user and group use by
    /// them.
    pub(super) fn tell_holds(&self, n_held: &[u64], baton: &mut Baton) {
        let Some(native) = self.book.gang.as_ref().and_then(|gang| gang.native.as_ref()) else {
            return;
        };
        let mut sum = Resources::new();
        for (group, held) in native.groups().iter().zip(n_held) {
            if let (Some(spec), 1..) = (&group.spec, *held) {
                let kind = EventKind::AllocationAdded;
                baton.happens(|at| self.group_event(kind, spec, *held, at));
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
