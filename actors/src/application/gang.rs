//! Pairs: members of a task group that take the places of its placeholders. Other ends of
//! placeholders are in [`super::placeholders`]. For people, `docs/gangs.md`.
//!
//! # How a member takes a place
//! An offer in the phase of pairs reaches the application ([`Application::pair`]); a rule decides
//! which member takes which place ([`monoceros_rules::decide::pairs`]). The node is asked whether
//! the member may run there. If so, the RM is asked to end the placeholder, and the member is *on
//! its way*: it is not pending, and holds an amount only if it goes to another node. When the RM
//! confirms that the placeholder is gone, the member replaces it in one step
//! ([`Application::swap`]).
//!
//! # Invariants
//! * Code that removes a placeholder from the table swaps it with the member that takes its place,
//!   or makes that member pending again ([`Application::unpair`]).
//! * A placeholder gives way to one member at a time, and a member takes one place.

use std::sync::Arc;

use monoceros_rules::allocations::{Allocation, Leaving, Pairing};
use monoceros_rules::applications::gang::PlaceholderEnd;
use monoceros_rules::books::Books;
use monoceros_rules::decide::attempt::Candidate;
use monoceros_rules::decide::pairs::{self, NextPair, Pair};
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::pending::reservations::End;
use monoceros_rules::specs::ask::TaskGroup;
use monoceros_rules::values::ids::{AllocationId, AskSlot, NodeSlot};
use monoceros_rules::waiting::Phase;
use monoceros_rules::waiting::obstacle::Obstacle;

use super::effects::VisitEffects;
use super::predicates::TakenBack;
use super::{Application, Book, events};
use crate::events::{Event, EventKind};
use crate::step::{
    Baton, Ending, GangOp, NodeWork, Notice, Op, Placement, Released, Successor, Takes,
};

impl Application {
    /// Searches members that may take the places of placeholders, until a node is asked. Returns
    /// the offer to the leaf if no node is.
    pub(super) fn pair(&mut self, mut baton: Box<Baton>) {
        while let Some(gang) = &self.book.gang {
            let found = pairs::next(&self.book.asks, gang, self.pairs.search_mut(), &baton.books);
            match found {
                NextPair::TooSmall(pair) => self.too_small(pair, &mut baton),
                NextPair::InPlace(Pair { ask, placeholder }) => {
                    let Some(entry) = baton.books.allocations.get(placeholder) else { break };
                    let candidate = Candidate::next(ask, entry.node, Vec::new());
                    let takes = Takes { placeholder, in_place: true, hold: entry.is_hold() };
                    return self.place(baton, candidate, Some(takes));
                }
                NextPair::Elsewhere(Pair { ask, placeholder }) => {
                    baton.tally.node_round_begins();
                    match self.attempt(&baton, |attempt| attempt.node_for(ask)) {
                        Ok(candidate) => {
                            let entry = baton.books.allocations.get(placeholder);
                            let hold = entry.is_some_and(Allocation::is_hold);
                            let takes = Takes { placeholder, in_place: false, hold };
                            return self.place(baton, candidate, Some(takes));
                        }
                        Err(obstacle) => {
                            baton.tally.node_round_over();
                            self.finds_nowhere(ask, obstacle, &mut baton);
                        }
                    }
                }
                NextPair::Nothing => break,
            }
        }
        self.rest_pairs(&mut baton);
        self.rise(baton);
    }

    /// Handles a placeholder that is smaller than a member of its group: the RM is asked to end it.
    /// If it is a hold, no hold of the group is taken any more, and all end once the offer is home.
    fn too_small(&mut self, Pair { ask, placeholder }: Pair, baton: &mut Baton) {
        if !self.book.has_declared_members() {
            let why = "placeholder is smaller than the member that would take its place";
            events::tell_too_small(&self.book, ask, placeholder, baton);
            return self.end_placeholder(placeholder, why, baton);
        }
        let Some(entry) = baton.books.allocations.known(placeholder) else { return };
        let Some(group) = entry.spec.place_in().cloned() else { return };
        self.book.gang_mut().take_all_free(&group);
        baton.effects.revisit(self.slot, Op::Gang(GangOp::EndHolds { group }));
    }

    /// Notes that the member finds no other node, or none for now.
    fn finds_nowhere(&mut self, slot: AskSlot, obstacle: Obstacle, baton: &mut Baton) {
        let ask = self.book.asks.ask(slot);
        match obstacle {
            Obstacle::GrewMeanwhile => return self.book.asks.ask_mut(slot).refresh(),
            Obstacle::NoNode | Obstacle::HeldByOthers => {
                self.pairs.lacks_room(&ask.resources);
            }
            Obstacle::RequiredNode => {
                if let Some(node) = &ask.required_node {
                    baton.directory.named.enter(node, self.slot);
                }
            }
            _ => {}
        }
        self.pairs.refused(ask.order_key(), None);
    }

    /// Parks the search, since no member can take a place now: it waits for a node to grow, or for
    /// some time.
    fn rest_pairs(&mut self, baton: &mut Baton) {
        let at = self.epoch(baton);
        self.declined.note(Phase::Pairs, at);
        let Some((pause, retry)) = self.pairs.rest(at, baton.now_ns) else { return };
        baton.effects.remind(pause, self.alarm(Op::Gang(GangOp::RetryPairs { retry })));
        // The refusals hold until something changes.
        baton.directory.refused.insert(self.slot);
    }

    /// Begins the search for pairs of this task group again, after a change that its members or
    /// placeholders wait for. Returns whether the group has both.
    pub(super) fn search_pairs(&mut self, group: &TaskGroup) -> bool {
        let free = self.book.gang.as_ref().and_then(|gang| gang.group(group));
        let may_pair =
            free.is_some_and(|group| !group.free.is_empty()) && self.book.asks.has_members(group);
        if may_pair {
            self.pairs.look_again();
        }
        may_pair
    }

    /// Notes that the members or the free placeholders have changed.
    pub(super) fn pairs_changed(&mut self) {
        if self.book.gang.as_ref().is_some_and(|gang| gang.has_free()) {
            self.pairs.members_changed();
        }
    }

    /// Has refused members tried again, some time after the refusal with this number.
    pub(super) fn retry_pairs(&mut self, retry: u32, effects: &mut VisitEffects) {
        if self.pairs.retry(retry) {
            let Book { asks, gang, .. } = &mut self.book;
            asks.wake_refused(|ask| {
                let gang = gang.as_ref();
                ask.spec.member_of().is_some_and(|group| gang.is_some_and(|it| it.is_usable(group)))
            });
            effects.touched = true;
        }
    }

    /// Notes that the node refused the member, or has no room for it, and continues the offer.
    pub(super) fn pair_refused(
        &mut self,
        mut baton: Box<Baton>,
        placement: &Placement,
        takes: Takes,
    ) {
        baton.books.allocations.remove(placement.allocation);
        let slot = placement.ask;
        let member = self.book.asks.ask(slot).order_key();
        self.pairs.refused(member, takes.in_place.then_some(placement.node));
        if !placement.refusals.is_empty() {
            self.book.asks.ask_mut(slot).refusals_mut().reasons = placement.refusals.clone();
            events::tell_refusals(&mut self.book, slot, &mut baton);
        }
        if baton.offer.level() >= baton.offer.frames.len() {
            self.pair(baton);
        } else {
            self.rise(baton);
        }
    }

    /// Puts a member on its way, since its node has what it needs, and asks the RM to end the
    /// placeholder. If the RM `is_asked` for its predicate, the member waits for the answer first.
    pub(super) fn take_place(
        &mut self,
        mut baton: Box<Baton>,
        placement: &Placement,
        takes: Takes,
        is_asked: bool,
    ) {
        let priority = self.book.asks.priority();
        let (id, Takes { placeholder, in_place, .. }) = (placement.allocation, takes);
        baton.note_on_its_way(self.decided_for(), placement);
        // The member is not pending any more, and no other member may take its placeholder.
        self.book.asks.hold_one(placement.ask, id);
        self.book.waits_in_place(id);
        let Books { allocations, nodes, .. } = &mut baton.books;
        if let Some(entry) = allocations.get_mut(id) {
            entry.change().pairing = Pairing::Takes { placeholder, in_place };
            if !in_place {
                // The member is not booked before the placeholder is gone.
                nodes.count(id, entry);
            }
        }
        if let Some(entry) = allocations.get_mut(placeholder) {
            entry.change().pairing = Pairing::GivesWay(id);
            self.book.take_free(placeholder, entry);
        }
        baton.offer.pair(&placement.spec.resources);
        if !is_asked {
            self.give_way(id, takes, &mut baton);
        }
        self.go_on(baton, priority, &LedgerDelta::default());
    }

    /// Asks the RM to end the placeholder whose place is taken.
    pub(super) fn give_way(&mut self, real: AllocationId, takes: Takes, baton: &mut Baton) {
        let table = &mut baton.books.allocations;
        let Some(entry) = table.known(real) else { return };
        let node = Arc::clone(baton.books.nodes.id(entry.node));
        let successor = Successor { key: Arc::clone(entry.key()), node };
        let Some(entry) = table.known_mut(takes.placeholder) else { return };
        entry.change().leaving = Some(Leaving::Released);
        baton.books.on_their_way += 1;
        let id = &self.book.id;
        let mut released = Released::of(id, entry, Ending::Replaced, "placeholder replaced by");
        if let Some(slot) = self.book.asks.slot_of(&successor.key) {
            self.end_reservation(slot, End::Placed, baton);
        }
        tracing::debug!(
            application = %self.book.id,
            placeholder = %released.uuid,
            by = %successor.key,
            node = %successor.node,
            "placeholder gives way"
        );
        released.replaced_by = Some(successor);
        baton.effects.notify(Notice::Released(Box::new(released)));
    }

    /// Makes a member an allocation, because its placeholder is gone. The node of the placeholder
    /// may be gone, too.
    pub(super) fn swap(
        &mut self,
        placeholder: AllocationId,
        event: EventKind,
        answer: Option<&'static str>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(old) = baton.books.allocations.remove_known(placeholder) else { return };
        let Some(real) = old.gives_way_to() else {
            return debug_assert!(false, "a swap has a member that takes the place");
        };
        baton.count_use(&mut self.book, &old, event == EventKind::AllocationPreempted);
        let is_node_gone = event == EventKind::AllocationLostNode;
        baton.effects.disarm(old.deadline);
        let Some(entry) = baton.books.allocations.known_mut(real) else { return };
        let in_place = matches!(entry.pairing, Pairing::Takes { in_place: true, .. });
        entry.change().pairing = Pairing::Took { created_ns: old.stated_creation_ns() };
        baton.books.on_their_way -= 1;
        baton.books.nodes.settled(real);
        let Some(entry) = baton.books.allocations.known(real) else { return };
        let (resources, node) = (entry.resources().clone(), entry.node);
        let slot = self.book.asks.slot_of(entry.key());
        let slot = slot.expect("an ask stays while a placement of it waits");
        let change = resources.minus(old.resources()).pruned();
        let work = if in_place {
            NodeWork::Swap { placeholder, real, change: change.clone() }
        } else {
            NodeWork::Release(placeholder, old.resources().clone())
        };
        if !is_node_gone {
            effects.node_work.push((old.node, work));
        }
        self.book.allocations.remove(&old.uuid);
        let now_ns = baton.now_ns;
        let amounts = (old.resources(), &resources);
        self.book.swapped(amounts, real, now_ns, &mut self.changes);
        effects.loosens |= change.has_negative();
        effects.delta.allocated.add(&change);
        effects.touched = true;
        self.forget_placeholder(placeholder, &old, Some(PlaceholderEnd::Replaced), effects);
        self.book.drop_instance(old.key(), placeholder);
        events::discharged(&self.owner, old.resources(), baton, effects);
        effects.happens(baton, |at| {
            Event::about(&self.book, event, at).allocated(&old.uuid, &old.spec)
        });
        // If the member takes the place on the same node, that node does not change.
        if !is_node_gone && !in_place {
            effects.happens(baton, |at| {
                let id = baton.books.nodes.id(old.node);
                let gone = Event::of(EventKind::NodeAllocationRemoved, id, at);
                gone.allocated(&old.uuid, &old.spec)
            });
        }
        baton.tally.released();
        baton.directory.counts(self.leaf_facts.slot).released += 1;
        if let Some(message) = answer {
            let released = Released::of(&self.book.id, &old, Ending::StoppedByRm, message);
            baton.effects.notify(Notice::Released(Box::new(released)));
        }
        let uuid = self.book.next_uuid(slot);
        self.book.asks.settle_one(slot, real);
        let allocated = self.bind(baton, slot, real, uuid);
        effects.delta.running += self.tell_changes(baton);
        baton.effects.notices.append(&mut effects.discharged);
        baton.tell_allocated(allocated);
        baton.effects.disarm(self.book.take_unneeded_deadline());
        baton.books.unsettled.changed(old.node);
        baton.books.unsettled.changed(node);
    }

    /// Makes a member pending again that is on its way or waits for the predicate of its place. An
    /// amount that it held on another node is released, unless that node is `gone`. Returns its
    /// ask.
    pub(super) fn unpair(
        &mut self,
        real: AllocationId,
        gone: Option<NodeSlot>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> Option<AskSlot> {
        let entry = baton.books.allocations.get(real)?;
        if let Some(number) = entry.question {
            let why = TakenBack::GivenUp { gone };
            return self.take_back(number, why, baton, effects).map(|(ask, _)| ask);
        }
        let entry = baton.books.allocations.remove(real)?;
        let Pairing::Takes { in_place, .. } = entry.pairing else { return None };
        baton.books.on_their_way -= 1;
        baton.forget_gone(&entry);
        self.part(&entry, baton);
        self.book.waits_no_longer(real);
        if !in_place && gone != Some(entry.node) {
            let work = NodeWork::Release(real, entry.resources().clone());
            effects.node_work.push((entry.node, work));
        }
        let slot = self.book.asks.slot_of(entry.key())?;
        let pending = self.book.asks.take_back(slot, real);
        effects.pends(&pending);
        self.pairs_changed();
        baton.books.unsettled.changed(entry.node);
        Some(slot)
    }

    /// Parts a placement from the placeholder whose place it was to take. A placeholder that the RM
    /// was not asked to end is free again.
    pub(super) fn part(&mut self, entry: &Allocation, baton: &mut Baton) {
        let Some(placeholder) = entry.takes() else { return };
        let Some(old) = baton.books.allocations.known_mut(placeholder) else { return };
        old.change().pairing = Pairing::None;
        let group = old.spec.place_in().cloned();
        if let (Some(gang), Some(group)) = (&self.book.gang, group)
            && gang.native.as_ref().is_some_and(|native| native.is_over)
        {
            // The place was kept only for the member that waited to take it.
            baton.effects.revisit(self.slot, Op::Gang(GangOp::EndHolds { group }));
        }
        if old.leaving.is_none()
            && let Some(group) = old.spec.place_in()
        {
            self.pairs.put_free(self.book.gang_mut(), group, (placeholder, &*old));
        }
    }
}
