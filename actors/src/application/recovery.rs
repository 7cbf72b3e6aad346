//! Allocations that exist already: the RM reports them after a restart, or has placed them itself.
//!
//! A reported allocation is booked even if quotas or nodes have too little left: a rejection would
//! not end it. Reasons to reject it are an unknown node, an application that has ended, and a sum
//! that cannot be counted.

use std::sync::Arc;

use monoceros_rules::allocations::Allocation;
use monoceros_rules::applications::reported::Reported;
use monoceros_rules::decide::preemption::stays;
use monoceros_rules::pending::reservations::End;
use monoceros_rules::specs::ask::{AskSpec, Form};
use monoceros_rules::specs::rejection::{Ignored, Rejection};
use monoceros_rules::values::ids::{AllocationId, AskSlot, NodeSlot};
use monoceros_rules::values::resources::Sum;
use smallvec::SmallVec;

use super::effects::VisitEffects;
use super::predicates::GiveUp;
use super::{Application, events};
use crate::events::{Event, EventKind};
use crate::step::{Baton, Existing, NodeWork, Notice};

impl Application {
    /// Handles a report of an allocation that runs.
    pub(super) fn existing(
        &mut self,
        existing: Existing,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Existing { spec, uuid, node } = existing;
        let Some(node_slot) = baton.books.nodes.slot_of(&node) else {
            return baton.reject_ask(&self.book.id, &spec, Rejection::NodeUnknown(node));
        };
        let is_there = |ids: &[AllocationId], baton: &Baton| {
            let mut on = ids.iter().filter_map(|id| baton.books.allocations.get(*id));
            on.any(|entry| entry.node == node_slot)
        };
        let ids = match self.book.reported(&spec, &uuid) {
            Reported::New => return self.report(spec, &uuid, node_slot, baton, effects),
            Reported::Known(id) => {
                let entry = baton.books.allocations.get(id);
                if let Some(slot) = entry.and_then(|entry| self.book.asks.slot_of(entry.key())) {
                    self.runs(slot, effects);
                }
                if !is_there(&[id], baton) {
                    baton.ignore_place(&self.book.id, &uuid, &node);
                }
                self.known_again(id, &spec, baton, effects);
                SmallVec::from_elem(id, 1)
            }
            Reported::KnownByKey(slot) => {
                self.runs(slot, effects);
                if !is_there(&self.book.asks.ask(slot).live, baton) {
                    baton.ignore_place(&self.book.id, &spec.key, &node);
                }
                self.repeated(slot, &spec, baton, effects);
                self.book.asks.ask(slot).live.clone()
            }
        };
        if stays(spec.tags.as_ref()) {
            for id in ids {
                self.stay(id, baton, effects);
            }
        }
    }

    /// Handles another report of a known allocation. In the unified form it is about all
    /// allocations of the key, otherwise about this allocation alone.
    fn known_again(
        &mut self,
        id: AllocationId,
        spec: &AskSpec,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        if let Some(slot) = self.book.ask_in_todays_form(spec) {
            return self.repeated(slot, spec, baton, effects);
        }
        let Some(entry) = baton.books.allocations.known(id) else { return };
        let growth = spec.resources.minus(entry.resources());
        if baton.books.overflows(&effects.reported, &growth.into()).is_none() {
            self.resize_allocation(id, &spec.resources, baton, effects);
            effects.touched |= baton.restate(id, spec);
        } else {
            tracing::warn!(application = %self.book.id, allocation = %entry.uuid,
                "change of what is allocated ignored: it is more than can be counted");
            baton.effects.notify(Notice::Ignored(Ignored::AllocationChange));
        }
    }

    /// Handles a report of an unknown allocation: books it, or rejects it.
    fn report(
        &mut self,
        spec: Arc<AskSpec>,
        uuid: &Arc<str>,
        node: NodeSlot,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        // Only the RM knows whether the report is about the placement that waits for its predicate.
        if let Some(slot) = self.book.asks.slot_of(&spec.key) {
            self.give_up_ask(slot, GiveUp::All, baton, effects);
        }
        // In the unified form the size is that of all of the key. By UUID it is that of this
        // allocation alone, so that no allocation that is reported with a node can fail once the
        // node is accepted.
        let same_key = self.book.ask_in_todays_form(&spec);
        let same_key = same_key.filter(|slot| self.book.asks.ask(*slot).outstanding > 0);
        let amount = Sum::from(&*spec.resources);
        let fits = baton.directory.applications[self.slot]
            .may_take(&spec)
            .and_then(|()| baton.books.may_report(&spec.key, &amount, &effects.reported))
            .and_then(|()| match same_key {
                Some(slot) => self.resize(slot, &spec.resources, baton, effects),
                None => Ok(()),
            });
        match fits {
            Ok(()) => self.book_existing(spec, uuid, node, baton, effects),
            Err(reason) => baton.reject_ask(&self.book.id, &spec, reason),
        }
    }

    /// Books a reported allocation at every holder.
    fn book_existing(
        &mut self,
        spec: Arc<AskSpec>,
        uuid: &Arc<str>,
        node: NodeSlot,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        self.join_lane(baton);
        let created_ns = spec.counted_creation_ns(baton.now_ns);
        self.book.submitted_no_later_than(created_ns);
        let slot = self.ask_of_existing(&spec, baton, effects);
        let whose = self.slot;
        let mut entry = Allocation::new(whose, spec, node, created_ns, baton.now_ns);
        entry.uuid = Arc::clone(uuid);
        entry.ran_before = true;
        let (form, resources) = (entry.spec.form, Arc::clone(&entry.spec.resources));
        let is_placeholder = entry.spec.placeholder;
        let member_of = entry.spec.member_of().cloned();
        let allocated = baton.allocated(&self.owner, &entry);
        self.book.member_joined(&entry);
        let id = baton.books.allocations.insert(entry);
        self.book.asks.ask_mut(slot).live.push(id);
        self.book.allocations.insert(Arc::clone(uuid), id);
        self.runs(slot, effects);
        baton.books.unsettled.changed(node);
        effects.node_work.push((node, NodeWork::Hold(id, Arc::clone(&resources))));
        effects.reported.add(&resources);
        effects.delta.allocated.add(&resources);
        (effects.touched, effects.is_unchecked) = (true, true);
        baton.tally.recovered();
        baton.directory.counts(self.leaf_facts.slot).allocated += 1;
        self.book.booked(&resources, is_placeholder, baton.now_ns, &mut self.changes);
        if is_placeholder {
            self.placeholder_settled(id, baton);
        } else {
            self.real_reported(member_of.as_ref(), node, baton, effects);
        }
        effects.delta.running += self.tell_changes(baton);
        if form == Form::Unified {
            baton.effects.notices.append(&mut effects.discharged);
            baton.effects.notify(Notice::Allocated(Arc::new(allocated)));
            return;
        }
        baton.happens(|at| {
            let added = Event::of(EventKind::NodeAllocationAdded, &allocated.node, at);
            added.allocated(uuid, &allocated.spec)
        });
        events::charged(&self.owner, &resources, baton, effects);
        baton.happens(|at| {
            Event::about(&self.book, EventKind::AllocationAdded, at)
                .allocated(uuid, &allocated.spec)
        });
    }

    /// Returns the ask of a reported allocation, with one instance fewer outstanding. If there is
    /// no such ask, one is recorded.
    fn ask_of_existing(
        &mut self,
        spec: &Arc<AskSpec>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> AskSlot {
        // The report may change whether a pending ask is a placeholder.
        let slot = self.book.asks.slot_of(&spec.key);
        let outstanding = slot.map(|slot| self.book.asks.ask(slot));
        let outstanding = outstanding.filter(|ask| ask.outstanding > 0);
        let counted = outstanding.and_then(|ask| ask.spec.place_in().cloned());
        effects.touched |= self.book.count_otherwise(counted.as_ref(), spec);
        let Some(slot) = slot else {
            let sequence = baton.books.arrival();
            let terms = baton.books.learn(spec);
            let mut spec = Arc::clone(spec);
            if let Err(reason) = &terms {
                // A rejection would not end the allocation. If its ask is pending again, it has no
                // constraint.
                tracing::warn!(application = %self.book.id, %reason, "placement constraint ignored");
                Arc::make_mut(&mut spec).particulars.make().constraint = None;
            }
            let slot = self.book.asks.put_allocated(spec, baton.now_ns, sequence);
            self.book.set_wish(slot, terms.ok().flatten(), baton.now_ns, self.slot);
            self.book.join_domain(slot, &mut baton.books.nodes);
            return slot;
        };
        let ask = self.book.asks.ask(slot);
        if ask.outstanding > 0 {
            let taken = ask.resources.clone();
            self.book.asks.take_one(slot);
            self.end_reservation(slot, End::Placed, baton);
            effects.delta.pending.subtract(&taken);
        }
        slot
    }
}
