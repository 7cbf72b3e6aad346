//! Arrival, change and withdrawal of an application's asks:
//! `docs/applications.md#the-same-key-again` and `docs/applications.md#another-size`.
//!
//! An allocation runs already, and no answer of the scheduler could end it. So if a change cannot
//! be made, the ask is rejected only if it has no allocation; otherwise the change is ignored.

use std::sync::Arc;

use monoceros_rules::allocations::course::enters;
use monoceros_rules::applications::gang::PlaceholderEnd;
use monoceros_rules::applications::release::Withdrawn;
use monoceros_rules::books::Resized;
use monoceros_rules::nodes::Terms;
use monoceros_rules::pending::reservations::End;
use monoceros_rules::specs::ask::{AskSpec, TaskGroup};
use monoceros_rules::specs::rejection::{Ignored, Rejection};
use monoceros_rules::values::ids::{AllocationId, AskSlot};
use monoceros_rules::values::quantity::all_written;
use monoceros_rules::values::resources::Resources;

use super::effects::VisitEffects;
use super::predicates::GiveUp;
use super::{Application, events};
use crate::events::{AskAdded, Event, EventKind, Happening};
use crate::queue::QueueFacts;
use crate::step::{Baton, NodeWork, Notice};

impl Application {
    /// Handles an ask, which replaces the pending instances of its key.
    pub(super) fn ask(
        &mut self,
        mut spec: Arc<AskSpec>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        enters(&mut spec, || baton.services.clock.now_ns());
        self.book.pass_limit(&mut spec);
        let may_take = baton.directory.applications[self.slot].may_take(&spec);
        let terms = match may_take.and_then(|()| baton.books.learn(&spec)) {
            Ok(terms) => terms,
            Err(reason) => return baton.reject_ask(&self.book.id, &spec, reason),
        };
        let known = self.book.asks.slot_of(&spec.key);
        if let Some(slot) = known {
            self.give_up_ask(slot, GiveUp::All, baton, effects);
        } else if let Err(reason) = baton.may_have_more(self.slot, &spec.key, self.book.counted()) {
            return baton.reject_ask(&self.book.id, &spec, reason);
        }
        self.join_lane(baton);
        effects.happens(baton, |at_ns| {
            let (owner, spec) = (Arc::clone(&self.owner), Arc::clone(&spec));
            Happening::AskAdded(AskAdded { owner, spec, at_ns })
        });
        let n_classes = self.book.asks.n_classes();
        self.add(known, Arc::clone(&spec), terms, baton, effects);
        if self.book.asks.n_classes() > n_classes {
            self.warn_if_too_large(&spec, baton);
        }
    }

    /// Logs that the first ask of its class exceeds the maximum of a queue, or each node. It stays
    /// pending, since either may change; but its resource manager may be waiting for nothing.
    fn warn_if_too_large(&self, spec: &AskSpec, baton: &Baton) {
        let (application, amount) = (&self.book.id, || all_written(&spec.resources.sorted()));
        let is_below = |facts: &&Arc<QueueFacts>| {
            facts.config.max.as_ref().is_some_and(|max| !max.allows(&spec.resources))
        };
        if let Some(facts) = baton.directory.upward(self.leaf_facts.slot).find(is_below) {
            tracing::warn!(%application, ask = %spec.key, amount = amount(),
                queue = %facts.config.path,
                "the ask exceeds the maximum of a queue, and waits until that is raised");
        } else if baton.books.nodes.exceeds_each(&spec.resources) {
            tracing::warn!(%application, ask = %spec.key, amount = amount(),
                "the ask exceeds every node, and waits for a larger one");
        }
    }

    /// Adds an ask, or replaces the `known` one, with these terms of its placement constraint.
    fn add(
        &mut self,
        known: Option<AskSlot>,
        spec: Arc<AskSpec>,
        terms: Option<Arc<Terms>>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let (created_ns, now_ns) = (spec.created_ns, baton.now_ns);
        let sequence = baton.books.arrival();
        let member_of = spec.member_of().cloned();
        let is_repeated = known.is_some_and(|slot| self.book.asks.is_repeated(slot, &spec));
        if !is_repeated {
            self.book.gang_asks_otherwise(member_of.as_ref());
        }
        if let Some(group) = self.book.count_placeholders(&spec, known) {
            effects.touched |= self.book.placeholders_fewer(&group);
        }
        let (slot, pending) = match known {
            Some(_) => self.book.asks.put(spec, now_ns, sequence),
            None => self.book.asks.add(spec, now_ns, sequence),
        };
        self.book.set_wish(slot, terms, now_ns, self.slot);
        self.book.join_domain(slot, &mut baton.books.nodes);
        effects.pends(&pending);
        if known.is_some() {
            self.review_reservation(slot, baton);
        }
        if let Some(group) = member_of {
            self.search_pairs(&group);
        }
        self.pairs_changed();
        if let Some(created_ns) = created_ns {
            self.book.submitted_no_later_than(created_ns);
        }
        self.book.ask_added(now_ns, &mut self.changes);
    }

    /// Handles another request or report of a known ask in the unified form: its size, priority,
    /// preemption policy and tags may be others. An ask with allocations is never rejected
    /// afterwards: if its new size cannot be booked, the whole change is ignored.
    pub(super) fn repeated(
        &mut self,
        slot: AskSlot,
        said: &AskSpec,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        match self.resize(slot, &said.resources, baton, effects) {
            Ok(()) => {}
            Err(reason) if self.book.asks.ask(slot).live.is_empty() => {
                return baton.reject_ask(&self.book.id, said, reason);
            }
            Err(reason) => {
                tracing::warn!(application = %self.book.id, ask = %said.key, %reason,
                    "change of what is allocated ignored");
                return baton.effects.notify(Notice::Ignored(Ignored::AllocationChange));
            }
        }
        if self.book.asks.ask(slot).is_restated_by(said) {
            self.give_up_ask(slot, GiveUp::Asked, baton, effects);
            // The pending instances get another position in the order, and other victims may be
            // evicted for them.
            self.book.asks.restate(slot, said);
            effects.touched = true;
            self.asks_otherwise(slot, said.member_of(), baton);
            self.pairs_changed();
        }
        let ask = self.book.asks.ask(slot);
        let made_of_it: Vec<_> = ask.live.iter().chain(&ask.search.unsettled).copied().collect();
        for id in made_of_it {
            effects.touched |= baton.restate(id, said);
        }
    }

    /// Resizes a known ask: its pending instances, its allocations, and its placements in flight.
    /// An error changes nothing.
    pub(super) fn resize(
        &mut self,
        slot: AskSlot,
        to: &Resources,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> Result<(), Rejection> {
        let ask = self.book.asks.ask(slot);
        baton.books.may_resize(ask, to, &effects.reported)?;
        let live = ask.live.clone();
        if !to.same_amount(&ask.resources) {
            // A member that takes the place of a placeholder goes on, in its new size.
            self.give_up_ask(slot, GiveUp::Asked, baton, effects);
            for id in self.book.asks.ask(slot).search.unsettled.clone() {
                let resized = baton.books.resize(id, to);
                if let Some(resized) = resized.filter(|resized| resized.is_on_node) {
                    effects.node_work.push((resized.node, NodeWork::Resize(resized.change)));
                }
            }
            let pending = self.book.asks.resize(slot, to.clone());
            // It is decided again whether victims may be evicted for the ask.
            self.book.asks.ask_mut(slot).forget_tries();
            effects.pends(&pending);
            let member_of = self.book.asks.ask(slot).spec.member_of().cloned();
            self.asks_otherwise(slot, member_of.as_ref(), baton);
        }
        for id in live {
            self.resize_allocation(id, to, baton, effects);
        }
        Ok(())
    }

    /// Applies the new specification of a known ask to its gang and its reservation. `member_of`:
    /// its task group, if it has one.
    fn asks_otherwise(&mut self, slot: AskSlot, member_of: Option<&TaskGroup>, baton: &mut Baton) {
        self.book.gang_asks_otherwise(member_of);
        self.review_reservation(slot, baton);
        if let Some(group) = member_of {
            self.search_pairs(group);
        }
    }

    /// Resizes an allocation.
    pub(super) fn resize_allocation(
        &mut self,
        id: AllocationId,
        to: &Resources,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(resized) = baton.books.resize(id, to) else { return };
        let Resized { node, change, is_placeholder, is_victim, .. } = resized;
        self.book.resized(&change, is_placeholder);
        events::charged(&self.owner, &change, baton, effects);
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

    /// Withdraws pending asks. Returns their number.
    pub(super) fn withdraw(
        &mut self,
        which: Withdrawn<'_>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> usize {
        let mut n_withdrawn = 0;
        let keys = match which {
            Withdrawn::Nothing => return 0,
            Withdrawn::Key(key) => vec![Arc::clone(key)],
            Withdrawn::All(form) => self.book.asks.pending_keys(form),
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

    /// Withdraws the pending instances of an ask. Returns whether there were any. Placeholders that
    /// will not be placed any more count as timed out.
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
        self.book.asks.log_waiting(baton.now_ns);
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
