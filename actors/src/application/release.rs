//! Allocations end: because the RM says so, because a node left, because their time is over.
//!
//! # Invariant
//! * What ends leaves every holder in the same step: table, application, user and group, queues,
//!   and the node, unless that is gone itself ([`Freed`]).

use std::sync::Arc;

use monoceros_rules::allocations::{Allocation, Leaving};
use monoceros_rules::applications::application::Left;
use monoceros_rules::applications::application_state::ApplicationState;
use monoceros_rules::applications::ended::Ended;
use monoceros_rules::applications::gang::PlaceholderEnd;
use monoceros_rules::applications::native::Departure;
use monoceros_rules::applications::resource_seconds::Account;
use monoceros_rules::decide::in_flight::WithdrawReason;
use monoceros_rules::specs::ask::{AskSpec, Form};
use monoceros_rules::values::ids::{AllocationId, NodeSlot};
use monoceros_rules::values::resources::Resources;

use super::Application;
use super::effects::VisitEffects;
use super::predicates::TakenBack;
use crate::events::{Event, EventKind};
use crate::step::{
    Baton, Cause, Ending, ManyEnd, NodeWork, Notice, Op, RELEASED_BY_RM, Released, Which,
};

/// How many allocations end in one step: a few milliseconds.
const ENDED_AT_ONCE: usize = 2_048;

/// What an allocation held that has left every other holder. The node has still to let go of it.
#[must_use = "the node has to let go of it, unless it is gone itself"]
pub(super) struct Freed {
    id: AllocationId,
    node: NodeSlot,
    resources: Resources,
}

impl Freed {
    /// The node lets go of it, too.
    fn let_go(self, effects: &mut VisitEffects) {
        let Self { id, node, resources } = self;
        effects.node_work.push((node, NodeWork::Release(id, resources)));
    }
}

/// How an allocation ends.
#[derive(Clone, Copy)]
struct Ends {
    /// The event that says why.
    event: EventKind,
    /// What the RM is told, if it is.
    answer: Option<&'static str>,
    /// What a placeholder counts as; none where its ask is pending again.
    placeholder: Option<PlaceholderEnd>,
    /// What it is to the gang, of a member.
    departure: Departure,
}

impl Ends {
    fn of(cause: Cause, answer: Option<&'static str>) -> Self {
        let placeholder = match cause {
            Cause::ConfirmedReplacement => PlaceholderEnd::Replaced,
            _ => PlaceholderEnd::TimedOut,
        };
        let departure = match cause {
            Cause::ConfirmedPreemption | Cause::Failed => Departure::Lost,
            _ => Departure::Ended,
        };
        Self { event: cause.event(), answer, placeholder: Some(placeholder), departure }
    }
}

impl Application {
    /// Ends the allocations that an RM names, and withdraws what is pending of the same name. Returns
    /// how many of both there were, and what is left to be done in a later step.
    pub(super) fn release(
        &mut self,
        which: &Which,
        cause: Cause,
        reason: Option<&Arc<str>>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> (usize, Option<Op>) {
        let ids: Vec<AllocationId> = match which {
            Which::Uuid(uuid) => self.book.allocations.get(uuid).copied().into_iter().collect(),
            Which::Key(key) => match self.book.asks.slot_of(key) {
                Some(slot) => self.book.asks.ask(slot).live.to_vec(),
                None => Vec::new(),
            },
            Which::All => {
                // Members whose placeholders end now with everything else wait again.
                for id in self.book.unsettled.clone() {
                    if baton.books.allocations.get(id).is_some_and(|it| it.takes().is_some()) {
                        self.unpair(id, None, baton, effects);
                    }
                }
                self.all_to_end()
            }
        };
        let n_ended = ids.len();
        let ends = ManyEnd { ids, cause, reason: reason.cloned(), are_all: *which == Which::All };
        let rest = self.end_many(ends, baton, effects);
        let n_withdrawn = if cause == Cause::ConfirmedTimeout || cause.is_failure_to_start() {
            0
        } else {
            match which {
                Which::Uuid(key) | Which::Key(key) => {
                    self.withdraw_named(which, key, baton, effects)
                }
                Which::All => self.withdraw(None, Some(Form::Unified), baton, effects),
            }
        };
        (n_ended + n_withdrawn, rest)
    }

    /// Ends allocations, those that are left of them, up to [`ENDED_AT_ONCE`]. Returns the rest, which
    /// is for a later step.
    pub(super) fn end_many(
        &mut self,
        ends: ManyEnd,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> Option<Op> {
        let ManyEnd { mut ids, cause, reason, are_all } = ends;
        let later = ids.split_off(ids.len().min(ENDED_AT_ONCE));
        let answer = cause.is_stop().then_some(RELEASED_BY_RM);
        for id in ids {
            let entry = baton.books.allocations.get(id);
            let real = entry.and_then(Allocation::gives_way_to);
            let is_asked = real.is_some_and(|real| {
                baton.books.allocations.get(real).is_some_and(|real| real.question.is_some())
            });
            if cause.is_failure_to_start() && self.may_wait_again(id, baton) {
                self.give_back(id, cause, reason.as_ref(), baton, effects);
            } else if real.is_some() && !is_asked {
                // The placeholder is gone, however that came: that is what the member waits for.
                self.swap(id, EventKind::AllocationReplaced, answer, baton, effects);
            } else {
                self.end(id, Ends::of(cause, answer), baton, effects);
            }
        }
        if !later.is_empty() {
            return Some(Op::EndMany(ManyEnd { ids: later, cause, reason, are_all }));
        }
        effects.left.all |= are_all && cause.is_stop();
        if cause.is_failure_to_start() {
            self.review_starts_of_gang(reason.as_ref(), baton, effects);
        }
        None
    }

    /// A release by key drops the pending request of that key; one by UUID only in today's form,
    /// where the UUID is the key.
    fn withdraw_named(
        &mut self,
        which: &Which,
        key: &Arc<str>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> usize {
        let Some(slot) = self.book.asks.slot_of(key) else { return 0 };
        let unified = self.book.asks.ask(slot).form == Form::Unified;
        if unified || matches!(which, Which::Key(_)) {
            return self.withdraw(Some(key), None, baton, effects);
        }
        0
    }

    fn may_wait_again(&self, id: AllocationId, baton: &Baton) -> bool {
        let live =
            matches!(self.book.state(), ApplicationState::Accepted | ApplicationState::Running);
        live && baton.books.allocations.get(id).is_some_and(|entry| entry.leaving.is_none())
    }

    /// All that it has, in the order in which it ends. Where that takes several steps it is the order of
    /// the table, since names take long to be sorted.
    fn all_to_end(&self) -> Vec<AllocationId> {
        if self.book.allocations.len() <= ENDED_AT_ONCE {
            return self.all_allocations();
        }
        let mut all: Vec<_> = self.book.allocations.values().copied().collect();
        all.sort_unstable();
        all.extend(self.book.holds());
        all
    }

    /// Its allocations in order of their UUIDs, then what is held for its members.
    pub(super) fn all_allocations(&self) -> Vec<AllocationId> {
        let mut all: Vec<_> = self.book.allocations.iter().collect();
        all.sort();
        all.into_iter().map(|(_, id)| *id).chain(self.book.holds()).collect()
    }

    /// Takes an allocation off every holder.
    fn end(&mut self, id: AllocationId, ends: Ends, baton: &mut Baton, effects: &mut VisitEffects) {
        if let Some(freed) = self.unbook(id, ends, baton, effects) {
            freed.let_go(effects);
        }
    }

    /// [`Self::end`] for every holder but the node.
    fn unbook(
        &mut self,
        id: AllocationId,
        ends: Ends,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> Option<Freed> {
        let Ends { event, answer, placeholder, departure } = ends;
        let real = baton.books.allocations.get(id).and_then(Allocation::gives_way_to);
        if let Some(real) = real {
            let gone = (event == EventKind::AllocationLostNode)
                .then(|| baton.books.allocations.get(id).map(|entry| entry.node))
                .flatten();
            self.unpair(real, gone, baton, effects);
        }
        if baton.books.allocations.get(id).is_some_and(Allocation::is_hold) {
            let gone = (event == EventKind::AllocationLostNode)
                .then(|| baton.books.allocations.get(id).map(|entry| entry.node))
                .flatten();
            self.end_hold(id, event, gone, baton, effects);
            return None;
        }
        let entry = baton.books.allocations.remove(id)?;
        tracing::debug!(
            placement = %id,
            application = %self.book.id,
            ask = %entry.key(),
            allocation = %entry.uuid,
            why = ?event,
            "released"
        );
        effects.victim_left(id, &entry, baton);
        baton.effects.disarm(entry.deadline);
        self.book.allocations.remove(&entry.uuid);
        let is_placeholder = entry.spec.placeholder;
        self.book.unbooked(entry.resources(), is_placeholder);
        if let Some(group) = entry.spec.member_of() {
            let is_victim = entry.leaving == Some(Leaving::Preempted);
            let departure = if is_victim { Departure::Lost } else { departure };
            self.member_left(group, departure, effects);
        }
        if is_placeholder {
            effects.left.placeholders = true;
            self.forget_placeholder(id, &entry, placeholder, effects);
        } else {
            effects.left.real = true;
        }
        self.count_use(&entry, event, baton);
        effects.delta.allocated.subtract(entry.resources());
        effects.loosens = true;
        effects.touched = true;
        self.tell_discharge(entry.resources(), baton, effects);
        baton.tally.released();
        baton.directory.counts(self.leaf_facts.slot).released += 1;
        let ends_with_node = event == EventKind::AllocationLostNode;
        effects.happens(baton, |at| {
            Event::about(&self.book, event, at).allocated(&entry.uuid, &entry.spec)
        });
        if !ends_with_node {
            effects.happens(baton, |at| {
                let node = baton.books.nodes.id(entry.node);
                let gone = Event::of(EventKind::NodeAllocationRemoved, node, at);
                gone.allocated(&entry.uuid, &entry.spec)
            });
        }
        if let Some(ask) = self.drop_instance(&entry, id)
            && !ends_with_node
            && event != EventKind::AllocationTimedOut
        {
            effects.happens(baton, |at| {
                Event::about(&self.book, EventKind::AskRemoved, at).asked_for(&ask)
            });
        }
        if let Some(message) = answer {
            let released = Released::of(&self.book.id, &entry, Ending::StoppedByRm, message);
            baton.effects.notify(Notice::Released(Box::new(released)));
        }
        baton.books.unsettled.changed_by(entry.node, entry.elsewhere.as_deref());
        Some(Freed { id, node: entry.node, resources: entry.resources().clone() })
    }

    /// The ask of an allocation that is gone has one instance less. Returns what was asked for, if
    /// the ask is over with it.
    pub(super) fn drop_instance(
        &mut self,
        entry: &Allocation,
        id: AllocationId,
    ) -> Option<Arc<AskSpec>> {
        let slot = self.book.asks.slot_of(entry.key())?;
        let live = &mut self.book.asks.ask_mut(slot).live;
        // The first ones most often, where there are many.
        if let Some(at) = live.iter().position(|live| *live == id) {
            live.remove(at);
        }
        let ask = self.book.asks.ask(slot);
        let over = (ask.is_over() && !ask.withdrawn).then(|| Arc::clone(&ask.spec));
        self.book.asks.drop_if_done(slot);
        over
    }

    /// Counts what an allocation that leaves has held over time.
    pub(super) fn count_use(&mut self, entry: &Allocation, event: EventKind, baton: &Baton) {
        let is_preempted =
            event == EventKind::AllocationPreempted || entry.leaving == Some(Leaving::Preempted);
        let account = Account::of(is_preempted, entry.spec.placeholder);
        let instance_type = baton.directory.instance_types.find(entry.node);
        let (bound_ns, now_ns) = (entry.bound_ns, baton.now_ns);
        self.book.history.count(account, instance_type, entry.resources(), bound_ns, now_ns);
    }

    /// The RM could not start it: off every holder, and pending again after a while.
    fn give_back(
        &mut self,
        id: AllocationId,
        cause: Cause,
        reason: Option<&Arc<str>>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(entry) = baton.books.allocations.get(id) else { return };
        let (place, key) = ((entry.node, entry.bound_ns), Arc::clone(entry.key()));
        let node = Arc::clone(baton.books.nodes.id(entry.node));
        let counted = entry.spec.place_in().cloned();
        // Outstanding first, so that the ask is not dropped as done when its allocation leaves.
        let slot = self.book.asks.slot_of(&key);
        if let Some(slot) = slot {
            let pending = self.book.asks.give_back(slot);
            effects.pends(&pending);
            self.pairs_changed();
            let spec = Arc::clone(&self.book.asks.ask(slot).spec);
            effects.touched |= self.book.count_otherwise(counted.as_ref(), &spec);
            if cause == Cause::RefusedForGood {
                self.exclude(slot, node, baton, effects);
            }
        }
        let event = EventKind::AllocationCancelled;
        let departure = Departure::NotStarted;
        let ends = Ends { event, answer: None, placeholder: None, departure };
        self.end(id, ends, baton, effects);
        if let Some(slot) = slot {
            self.start_failed(slot, place, reason, baton, effects);
        }
    }

    /// Everything it asked for and holds goes; the partition forgets it after this step. An application
    /// that holds much gives it back in slices: nothing of it waits any more after the first, and what is
    /// returned is for a later step.
    pub(super) fn remove(&mut self, baton: &mut Baton, effects: &mut VisitEffects) -> Option<Op> {
        let unanswered = self.unanswered();
        self.withdraw_bundle(WithdrawReason::Changed, None, baton, effects);
        self.withdraw(None, None, baton, effects);
        let internal = self.book.forget_internal();
        effects.delta.pending.subtract_sum(&internal);
        let mut ids: Vec<AllocationId> = self.book.each_allocation().collect();
        let is_last = ids.len() <= ENDED_AT_ONCE;
        if is_last {
            ids = self.all_allocations();
        } else {
            // Which they are has to be the same in every run.
            ids.select_nth_unstable(ENDED_AT_ONCE);
            ids.truncate(ENDED_AT_ONCE);
            ids.sort_unstable();
        }
        if is_last {
            effects.happens(baton, |at| Event::unplaced(&self.book, at));
            effects.happens(baton, |at| Event::about(&self.book, EventKind::AppUnlinked, at));
        }
        let message = "application removed by the resource manager";
        for id in ids {
            self.end(id, Ends::of(Cause::Stopped, Some(message)), baton, effects);
        }
        // They may have overtaken the removal on another stream, and be meant for the application
        // that comes next under this id.
        for (form, key) in unanswered {
            self.tell_ask_released(form, key, Ending::StoppedByRm, message, baton);
        }
        effects.left = Left::default();
        effects.touched = true;
        if !is_last {
            return Some(Op::Remove);
        }
        if self.book.state() == ApplicationState::Running {
            effects.delta.running -= 1;
        }
        let counts = baton.directory.counts(self.leaf_facts.slot);
        counts.moved(Some(self.book.state()), None);
        baton.effects.disarm(self.run_limit.end());
        baton.effects.ended.rows.push((self.slot, self.row));
        if self.book.started_ns.is_some() {
            baton.effects.ended.removed.push(Ended::removed(&self.book, baton.now_ns));
        }
        None
    }

    /// The node took its holdings with it: everything but the node lets go.
    pub(super) fn stranded(
        &mut self,
        ids: &[AllocationId],
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let mut lost_holds = false;
        for id in ids {
            let Some(entry) = baton.books.allocations.get(*id) else { continue };
            lost_holds |= entry.is_hold();
            let (node, event, answer) =
                (entry.node, EventKind::AllocationLostNode, Some("node removed"));
            let real = entry.gives_way_to().and_then(|real| baton.books.allocations.get(real));
            if entry.is_in_bundle() {
                self.displace_member(*id, Some(node), baton, effects);
            } else if let Some(number) = entry.question {
                let why = TakenBack::GivenUp { gone: Some(node) };
                self.take_back(number, why, baton, effects);
            } else if entry.takes().is_some() {
                // Its placeholder is elsewhere, and will go.
                self.unpair(*id, Some(node), baton, effects);
            } else if real.is_some_and(|real| real.question.is_none() && real.node != node) {
                // The member goes to another node, and waited for nothing but this.
                self.swap(*id, event, answer, baton, effects);
            } else {
                let (placeholder, departure) = (Some(PlaceholderEnd::TimedOut), Departure::Lost);
                let ends = Ends { event, answer, placeholder, departure };
                // What the node held is gone with the node.
                let _ = self.unbook(*id, ends, baton, effects);
            }
        }
        if lost_holds {
            self.holds_lost(baton, effects);
        }
    }

    /// The time of an allocation is over: the RM is asked to end it, unless it was asked before.
    pub(super) fn overdue(
        &mut self,
        id: AllocationId,
        why: &'static str,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(entry) = baton.books.allocations.get_mut(id) else { return };
        if entry.spec.placeholder {
            return self.placeholder_overdue(id, why, baton, effects);
        }
        if entry.leaving.is_some() {
            return;
        }
        entry.change().leaving = Some(Leaving::Released);
        let released = Released::of(&self.book.id, entry, Ending::Timeout, why);
        baton.effects.notify(Notice::Released(Box::new(released)));
    }
}
