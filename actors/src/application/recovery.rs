//! Allocations that exist already: the RM reports them after a restart, or has placed them itself.
//!
//! What runs is taken over whatever quota and room say: to refuse it would not end it. What it may
//! be refused for is a node that is not there, an application that has ended, and a sum that cannot
//! be counted.

use std::sync::Arc;

use monoceros_rules::allocations::Allocation;
use monoceros_rules::decide::preemption::stays;
use monoceros_rules::pending::reservations::End;
use monoceros_rules::specs::ask::{AskSpec, Form};
use monoceros_rules::specs::rejection::{Ignored, Rejection};
use monoceros_rules::values::ids::{AllocationId, AskSlot, NodeSlot};
use monoceros_rules::values::resources::Sum;

use super::Application;
use super::effects::VisitEffects;
use super::predicates::GiveUp;
use crate::events::{Event, EventKind};
use crate::step::{Baton, Existing, NodeWork, Notice};

impl Application {
    pub(super) fn existing(
        &mut self,
        existing: Existing,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Existing { spec, uuid, node } = existing;
        let Some(node_slot) = baton.books.nodes.slot_of(&node) else {
            self.reject(&spec, Rejection::NodeUnknown(node), baton);
            return;
        };
        if let Some(id) = self.book.allocations.get(&uuid).copied() {
            self.reported_to_run(id, baton, effects);
            let is_there = is_on(id, node_slot, baton);
            self.note_place(is_there, &uuid, &node, baton);
            self.known_again(id, &spec, baton, effects);
            if stays(spec.tags.as_ref()) {
                self.stay(id, baton, effects);
            }
            return;
        }
        // In today's form the key is the identity: it runs, though under another UUID.
        if let Some(slot) = self.runs_as(&spec) {
            self.runs(slot, effects);
            let live = &self.book.asks.ask(slot).live;
            let is_there = live.iter().any(|id| is_on(*id, node_slot, baton));
            self.note_place(is_there, &spec.key, &node, baton);
            self.repeated(slot, &spec, baton, effects);
            if stays(spec.tags.as_ref()) {
                for id in self.book.asks.ask(slot).live.clone() {
                    self.stay(id, baton, effects);
                }
            }
            return;
        }
        // Only the RM knows whether it means the placement that waits for its predicate, or another
        // one.
        if let Some(slot) = self.book.asks.slot_of(&spec.key) {
            self.give_up_ask(slot, GiveUp::All, baton, effects);
        }
        // In today's form the size is that of the key; by UUID it is that of this allocation alone,
        // so that nothing can go wrong with what a node brings along once the node is accepted.
        let same_key =
            self.book.asks.slot_of(&spec.key).filter(|slot| {
                spec.form == Form::Unified && self.book.asks.ask(*slot).outstanding > 0
            });
        let may_take = baton.directory.applications[self.slot].may_take(&spec);
        let fits = may_take
            .and_then(|()| {
                Self::may_report(&spec.key, &Sum::from(&*spec.resources), baton, effects)
            })
            .and_then(|()| match same_key {
                Some(slot) => self.resize(slot, &spec.resources, baton, effects),
                None => Ok(()),
            });
        match fits {
            Ok(()) => self.book_existing(spec, &uuid, node_slot, baton, effects),
            Err(reason) => self.reject(&spec, reason, baton),
        }
    }

    /// The RM reports an allocation that is known: it has started.
    fn reported_to_run(&mut self, id: AllocationId, baton: &Baton, effects: &mut VisitEffects) {
        let Some(entry) = baton.books.allocations.get(id) else { return };
        if let Some(slot) = self.book.asks.slot_of(entry.key()) {
            self.runs(slot, effects);
        }
    }

    /// Notes a report that names another node than the allocation is on; the allocation stays where
    /// it is.
    fn note_place(&self, is_there: bool, name: &Arc<str>, node: &Arc<str>, baton: &mut Baton) {
        if !is_there {
            tracing::warn!(application = %self.book.id, allocation = %name, %node,
                "an allocation is said to be on another node than it was placed on, ignored");
            baton.effects.notify(Notice::Ignored(Ignored::AllocationChange));
        }
    }

    /// The ask whose allocations a report in today's form can only mean: it has some, and nothing
    /// that waits.
    fn runs_as(&self, spec: &AskSpec) -> Option<AskSlot> {
        let slot = self.book.asks.slot_of(&spec.key).filter(|_| spec.form == Form::Unified)?;
        let ask = self.book.asks.ask(slot);
        (ask.still_to_come() == 0 && !ask.live.is_empty()).then_some(slot)
    }

    /// The RM reports an allocation again, perhaps otherwise: by UUID it is that one alone, else all
    /// of the key.
    fn known_again(
        &mut self,
        id: AllocationId,
        spec: &AskSpec,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let known = self.book.asks.slot_of(&spec.key).filter(|_| spec.form == Form::Unified);
        if let Some(slot) = known {
            return self.repeated(slot, spec, baton, effects);
        }
        let Some(entry) = baton.books.allocations.get(id) else { return };
        let growth = spec.resources.minus(entry.resources());
        if baton.books.overflows(&effects.reported, &growth.into()).is_none() {
            self.resize_allocation(id, &spec.resources, baton, effects);
            Self::restate_allocation(id, spec, baton, effects);
        } else {
            tracing::warn!(application = %self.book.id, allocation = %entry.uuid,
                "change of what is allocated ignored: it is more than can be counted");
            baton.effects.notify(Notice::Ignored(Ignored::AllocationChange));
        }
    }

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
        let (form, resources) = (entry.spec.form, entry.resources().clone());
        let is_placeholder = entry.spec.placeholder;
        let member_of = entry.spec.member_of().cloned();
        let allocated = baton.allocated(&self.owner, &entry);
        let id = baton.books.allocations.insert(entry);
        self.book.asks.ask_mut(slot).live.push(id);
        self.book.allocations.insert(Arc::clone(uuid), id);
        self.joined(id, baton);
        self.runs(slot, effects);
        baton.books.unsettled.changed(node);
        effects.node_work.push((node, NodeWork::Hold(id, resources.clone())));
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
        self.tell_charge(&resources, baton, effects);
        baton.happens(|at| {
            Event::about(&self.book, EventKind::AllocationAdded, at)
                .allocated(uuid, &allocated.spec)
        });
    }

    /// The ask that an existing allocation is an instance of: one that is outstanding has one less
    /// to come, and where there is none, one is recorded.
    fn ask_of_existing(
        &mut self,
        spec: &Arc<AskSpec>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> AskSlot {
        // One that was asked for otherwise may turn out to be a placeholder, or to be none.
        let slot = self.book.asks.slot_of(&spec.key);
        let outstanding = slot.map(|slot| self.book.asks.ask(slot));
        let outstanding = outstanding.filter(|ask| ask.outstanding > 0);
        let counted = outstanding.and_then(|ask| ask.spec.place_in().cloned());
        effects.touched |= self.book.count_otherwise(counted.as_ref(), spec);
        let Some(slot) = slot else {
            let sequence = baton.books.arrival();
            let terms = Self::learn(spec, baton);
            let mut spec = Arc::clone(spec);
            if let Err(reason) = &terms {
                // It runs, and nothing could end it: it goes without, should it be asked for again.
                tracing::warn!(application = %self.book.id, %reason, "placement constraint ignored");
                Arc::make_mut(&mut spec).particulars.make().constraint = None;
            }
            let slot = self.book.asks.put_allocated(spec, baton.now_ns, sequence);
            self.set_wish(slot, terms.ok().flatten(), baton.now_ns);
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

fn is_on(id: AllocationId, node: NodeSlot, baton: &Baton) -> bool {
    baton.books.allocations.get(id).is_some_and(|entry| entry.node == node)
}
