//! Asks of an application come, change and go: `docs/applications.md#the-same-key-again` and
//! `docs/applications.md#another-size`.
//!
//! What is allocated already runs, and no answer of the scheduler could end it. So a change that
//! cannot be taken rejects an ask only as long as nothing of it is allocated.

use std::sync::Arc;

use monoceros_rules::allocations::Leaving;
use monoceros_rules::allocations::course::enters;
use monoceros_rules::applications::gang::PlaceholderEnd;
use monoceros_rules::books::Books;
use monoceros_rules::nodes::Terms;
use monoceros_rules::pending::reservations::End;
use monoceros_rules::specs::ask::{AskSpec, Form};
use monoceros_rules::specs::quotas::{OverQuota, Quota};
use monoceros_rules::specs::rejection::{Ignored, Rejection};
use monoceros_rules::values::ids::{AllocationId, AskSlot};
use monoceros_rules::values::resources::{Resources, Sum};

use super::Application;
use super::effects::VisitEffects;
use super::predicates::GiveUp;
use crate::events::{AskAdded, Event, EventKind, Happening};
use crate::step::{AskReleased, Baton, Ending, NodeWork, Notice};

impl Application {
    pub(super) fn reject(&self, spec: &AskSpec, reason: Rejection, baton: &mut Baton) {
        let names_nothing = matches!(reason, Rejection::NodeUnknown(_));
        baton.tally.ask_rejected(!names_nothing);
        baton.effects.notify(Notice::AskRejected {
            form: spec.form,
            key: Arc::clone(&spec.key),
            application: Arc::clone(&self.book.id),
            reason: Box::new(reason),
        });
    }

    /// Whether `more` can be counted as allocated, where it is not checked against nodes and quotas.
    pub(super) fn may_report(
        key: &Arc<str>,
        more: &Sum,
        baton: &Baton,
        effects: &VisitEffects,
    ) -> Result<(), Rejection> {
        match baton.books.overflows(&effects.reported, more) {
            None => Ok(()),
            Some(why) => Err(Rejection::Overflow { id: Arc::clone(key), why }),
        }
    }

    pub(super) fn ask(
        &mut self,
        mut spec: Arc<AskSpec>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        enters(&mut spec, || baton.services.clock.now_ns());
        if let Err(reason) = baton.directory.applications[self.slot].may_take(&spec) {
            self.reject(&spec, reason, baton);
            return;
        }
        let terms = match Self::learn(&spec, baton) {
            Ok(terms) => terms,
            Err(reason) => return self.reject(&spec, reason, baton),
        };
        let known = self.book.asks.slot_of(&spec.key);
        if let Some(slot) = known {
            self.give_up_ask(slot, GiveUp::All, baton, effects);
        } else if let Err(over) = self.may_have_more(baton) {
            let reason = Rejection::OverQuota { id: Arc::clone(&spec.key), over };
            self.reject(&spec, reason, baton);
            return;
        }
        self.join_lane(baton);
        let (created_ns, now_ns) = (spec.created_ns, baton.now_ns);
        effects.happens(baton, |at_ns| {
            let (owner, spec) = (Arc::clone(&self.owner), Arc::clone(&spec));
            Happening::AskAdded(AskAdded { owner, spec, at_ns })
        });
        let sequence = baton.books.arrival();
        let member_of = spec.member_of().cloned();
        let is_repeated = known.is_some_and(|slot| self.book.asks.is_repeated(slot, &spec));
        if !is_repeated {
            self.book.gang_asks_otherwise(member_of.as_ref());
        }
        let (slot, pending) = if known.is_some() {
            self.count_placeholders(&spec, effects);
            self.book.asks.put(spec, now_ns, sequence)
        } else {
            self.add_placeholders(&spec);
            self.book.asks.add(spec, now_ns, sequence)
        };
        self.set_wish(slot, terms, now_ns);
        self.book.join_domain(slot, &mut baton.books.nodes);
        effects.pends(&pending);
        if known.is_some() {
            self.review_reservation(slot, baton);
        }
        if let Some(group) = member_of {
            self.look_for_pairs(&group);
        }
        self.pairs_changed();
        if let Some(created_ns) = created_ns {
            self.book.submitted_no_later_than(created_ns);
        }
        self.book.ask_added(now_ns, &mut self.changes);
    }

    /// The placement constraint of an ask, ready for searches.
    pub(super) fn learn(
        spec: &AskSpec,
        baton: &mut Baton,
    ) -> Result<Option<Arc<Terms>>, Rejection> {
        let Some(constraint) = &spec.constraint else { return Ok(None) };
        let Books { nodes, allocations, .. } = &mut baton.books;
        let terms = nodes.learn(constraint, allocations);
        terms.map(Some).map_err(|fault| Rejection::Constraint {
            key: Arc::clone(&spec.key),
            what: fault.to_string(),
        })
    }

    /// An ask expects this of nodes from now on, or nothing.
    pub(super) fn set_wish(&mut self, slot: AskSlot, terms: Option<Arc<Terms>>, now_ns: i64) {
        let mates = self.book.native_mut().map(|_| self.slot);
        match terms {
            Some(terms) => self.book.asks.set_wish(slot, terms, now_ns, mates),
            None => self.book.asks.clear_wish(slot),
        }
    }

    /// Whether its RM may have one more request.
    fn may_have_more(&self, baton: &mut Baton) -> Result<(), OverQuota> {
        self.count_held(baton);
        baton.quotas().takes(Quota::Asks, 1)
    }

    /// Has the quotas of its RM know what it has by now.
    pub(super) fn count_held(&self, baton: &mut Baton) {
        let now = self.book.counted();
        // One that was removed has been taken off already.
        if let Some(entry) = baton.directory.applications.find_mut(self.slot)
            && entry.held != now
        {
            let before = std::mem::replace(&mut entry.held, now);
            baton.books.quotas.change(before, now);
        }
    }

    /// The placeholders that are asked for with a new key are counted, too.
    fn add_placeholders(&mut self, spec: &AskSpec) {
        if let Some(group) = spec.place_in() {
            self.book.gang_mut().add(group, &spec.resources, u64::from(spec.instances));
        }
    }

    /// The placeholders that are asked for with this key are as many as it says from now on, and no
    /// longer those that were asked for before.
    fn count_placeholders(&mut self, spec: &AskSpec, effects: &mut VisitEffects) {
        let before = self.book.asks.slot_of(&spec.key).map(|slot| self.book.asks.ask(slot));
        let before = before
            .and_then(|ask| Some((Arc::clone(ask.spec.place_in()?), u64::from(ask.outstanding))));
        self.add_placeholders(spec);
        if let Some((group, outstanding)) = before {
            self.book.gang_mut().take_off(&group, outstanding);
            effects.touched |= self.book.placeholders_fewer(&group);
        }
    }

    pub(super) fn unified(
        &mut self,
        spec: Arc<AskSpec>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(slot) = self.book.asks.slot_of(&spec.key) else {
            self.ask(spec, baton, effects);
            return;
        };
        self.repeated(slot, &spec, baton, effects);
    }

    /// A request or report of today's form is said again: its size may be another, and how important
    /// it is, whom it may preempt and whether it may be preempted, and its tags.
    pub(super) fn repeated(
        &mut self,
        slot: AskSlot,
        said: &AskSpec,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        match self.resize(slot, &said.resources, baton, effects) {
            Ok(()) => self.restate(slot, said, baton, effects),
            Err(reason) => self.reject_change(slot, said, reason, baton),
        }
    }

    pub(super) fn is_allocated(&self, key: &Arc<str>) -> bool {
        let slot = self.book.asks.slot_of(key);
        slot.is_some_and(|slot| !self.book.asks.ask(slot).live.is_empty())
    }

    /// What is allocated is never rejected afterwards: it stays as it is.
    pub(super) fn reject_change(
        &self,
        slot: AskSlot,
        spec: &AskSpec,
        reason: Rejection,
        baton: &mut Baton,
    ) {
        if self.book.asks.ask(slot).live.is_empty() {
            self.reject(spec, reason, baton);
        } else {
            tracing::warn!(application = %self.book.id, ask = %spec.key, %reason,
                "change of what is allocated ignored");
            baton.effects.notify(Notice::Ignored(Ignored::AllocationChange));
        }
    }

    /// Another size for an ask that is known: for what is pending and for what it has allocated.
    /// An error changes nothing.
    pub(super) fn resize(
        &mut self,
        slot: AskSlot,
        to: &Resources,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> Result<(), Rejection> {
        let ask = self.book.asks.ask(slot);
        let live = ask.live.clone();
        let held = live.iter().chain(&ask.search.unsettled);
        let held = held.filter_map(|id| baton.books.allocations.get(*id));
        let mut growth = Sum::default();
        for held in held {
            growth.add(to);
            growth.subtract(held.resources());
        }
        Self::may_report(&ask.key, &growth, baton, effects)?;
        if !to.same_amount(&ask.resources) {
            // What takes the place of a placeholder goes on, in its new size.
            self.give_up_ask(slot, GiveUp::Asked, baton, effects);
            let in_flight = self.book.asks.ask(slot).search.unsettled.clone();
            for id in in_flight {
                Self::resize_in_flight(id, to, baton, effects);
            }
            let pending = self.book.asks.resize(slot, to.clone());
            let member_of = self.book.asks.ask(slot).spec.member_of().cloned();
            self.book.gang_asks_otherwise(member_of.as_ref());
            // Whether others may leave for it is another question now.
            self.book.asks.ask_mut(slot).forget_tries();
            effects.pends(&pending);
            self.review_reservation(slot, baton);
            if let Some(group) = member_of {
                self.look_for_pairs(&group);
            }
        }
        for id in live {
            self.resize_allocation(id, to, baton, effects);
        }
        Ok(())
    }

    /// Other priority, policy and tags for an ask that is known: for what is pending and for what it
    /// has allocated.
    fn restate(
        &mut self,
        slot: AskSlot,
        said: &AskSpec,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        if self.book.asks.ask(slot).is_restated_by(said) {
            self.give_up_ask(slot, GiveUp::Asked, baton, effects);
            // Whoever of it waits is another one now, in the order and for whom others may leave.
            self.book.asks.restate(slot, said);
            self.book.gang_asks_otherwise(said.member_of());
            effects.touched = true;
            self.review_reservation(slot, baton);
            if let Some(group) = said.member_of() {
                self.look_for_pairs(group);
            }
            self.pairs_changed();
        }
        // What waits for a placeholder to go is on its way still.
        let ask = self.book.asks.ask(slot);
        let made_of_it: Vec<_> = ask.live.iter().chain(&ask.search.unsettled).copied().collect();
        for id in made_of_it {
            Self::restate_allocation(id, said, baton, effects);
        }
    }

    /// Other priority, policy and tags for an allocation: they decide who may have it preempted, and
    /// for which placement constraints it counts.
    pub(super) fn restate_allocation(
        id: AllocationId,
        said: &AskSpec,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Books { nodes, allocations, .. } = &mut baton.books;
        let Some(entry) = allocations.get_mut(id).filter(|it| it.spec.is_restated_by(said)) else {
            return;
        };
        let is_tagged_so = entry.spec.tags == said.tags;
        Arc::make_mut(&mut entry.spec).restate(said);
        if !is_tagged_so && entry.held_on_node().is_some() {
            nodes.count(id, entry);
        }
        let node = entry.node;
        // Others may leave for somebody now who looked in vain before.
        effects.touched = true;
        baton.books.note_change();
        let node_id = Arc::clone(baton.books.nodes.id(node));
        baton.wake_named(node, &node_id);
    }

    /// Another size for what waits for a placeholder to go: it changes itself alone, and the node
    /// where it holds something already.
    fn resize_in_flight(
        id: AllocationId,
        to: &Resources,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(entry) = baton.books.allocations.get_mut(id) else { return };
        let change = to.minus(entry.resources()).pruned();
        let on_node = entry.held_on_node().is_some();
        entry.resize(to.clone());
        if on_node && !change.is_empty() {
            effects.node_work.push((entry.node, NodeWork::Resize(change)));
        }
    }

    pub(super) fn resize_allocation(
        &mut self,
        id: AllocationId,
        to: &Resources,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(entry) = baton.books.allocations.get_mut(id) else { return };
        let change = to.minus(entry.resources()).pruned();
        if change.is_empty() {
            return;
        }
        entry.resize(to.clone());
        let node = entry.node;
        let is_placeholder = entry.spec.placeholder;
        let is_victim = entry.leaving == Some(Leaving::Preempted);
        self.book.resized(&change, is_placeholder);
        self.tell_charge(&change, baton, effects);
        effects.loosens |= change.has_negative();
        (effects.touched, effects.is_unchecked) = (true, true);
        effects.reported.add(&change);
        effects.delta.allocated.add(&change);
        if is_victim {
            effects.delta.preempting.add(&change);
            baton.victim_resized(id, node, to);
        }
        effects.node_work.push((node, NodeWork::Resize(change)));
    }

    /// The asks that the RM sent and has no answer to, each with its form, in order of arrival.
    pub(super) fn unanswered(&self) -> Vec<(Form, Arc<str>)> {
        let asks = &self.book.asks;
        let form = |key: &Arc<str>| asks.slot_of(key).map(|slot| asks.ask(slot).form);
        let keys = asks.pending_keys(None).into_iter();
        keys.filter_map(|key| Some((form(&key)?, key))).collect()
    }

    /// Tells the RM that a pending ask ends, which it has not withdrawn itself.
    pub(super) fn tell_ask_released(
        &self,
        form: Form,
        key: Arc<str>,
        ending: Ending,
        message: &'static str,
        baton: &mut Baton,
    ) {
        let application = Arc::clone(&self.book.id);
        let released = AskReleased { form, key, application, ending, message };
        baton.effects.notify(Notice::AskReleased(Box::new(released)));
    }

    /// Withdraws the ask with this key, or all of the form (`None`: of every form). Says how many
    /// were pending.
    pub(super) fn withdraw(
        &mut self,
        key: Option<&Arc<str>>,
        form: Option<Form>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> usize {
        let mut n_withdrawn = 0;
        let keys = match key {
            Some(key) => vec![Arc::clone(key)],
            None => self.book.asks.pending_keys(form),
        };
        for key in keys {
            let Some(slot) = self.book.asks.slot_of(&key) else { continue };
            self.give_up_ask(slot, GiveUp::All, baton, effects);
            if self.withdraw_slot(slot, EventKind::AskRemoved, baton, effects) {
                n_withdrawn += 1;
            }
        }
        n_withdrawn
    }

    /// Withdraws what is outstanding of an ask; says whether anything was. Placeholders that will
    /// not be placed any more count as timed out.
    pub(super) fn withdraw_slot(
        &mut self,
        slot: AskSlot,
        event: EventKind,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> bool {
        self.end_reservation(slot, End::Withdrawn, baton);
        let ask = self.book.asks.ask(slot);
        let (spec, outstanding) = (Arc::clone(&ask.spec), u64::from(ask.outstanding));
        let pending = self.book.asks.withdraw(slot);
        if pending.is_empty() {
            return false;
        }
        self.book.gang_asks_otherwise(spec.member_of());
        if let Some(group) = spec.place_in() {
            self.book.gang_mut().end(group, PlaceholderEnd::TimedOut, outstanding);
            effects.touched |= self.book.placeholders_fewer(group);
        } else if spec.member_of().is_some() {
            self.pairs_changed();
        }
        effects.happens(baton, |at| Event::about(&self.book, event, at).asked_for(&spec));
        effects.delta.pending.subtract_sum(&pending);
        effects.touched = true;
        effects.left.asks = true;
        true
    }
}
