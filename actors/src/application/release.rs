//! The end of allocations: released by the RM, lost with a node, or over their time.
//! [`monoceros_rules::applications::release`] decides which ones end, and what follows for each.
//!
//! # Invariant
//! * An allocation that ends is removed from every holder in the same step: table, application,
//!   user and group, queues, and the node, unless the node is gone itself.

use std::sync::Arc;

use monoceros_rules::allocations::{Allocation, Leaving};
use monoceros_rules::applications::application::Left;
use monoceros_rules::applications::application_state::ApplicationState;
use monoceros_rules::applications::ended::Ended;
use monoceros_rules::applications::native::Departure;
use monoceros_rules::applications::release::{Fate, GangEnd, Stranded, Withdrawn};
use monoceros_rules::applications::removal::Removal;
use monoceros_rules::decide::in_flight::WithdrawReason;
use monoceros_rules::runtimes::RunLength;
use monoceros_rules::specs::rejection::Ignored;
use monoceros_rules::values::ids::AllocationId;

use super::effects::VisitEffects;
use super::predicates::TakenBack;
use super::{Application, events};
use crate::events::{Event, EventKind};
use crate::step::{
    Baton, Cause, Ending, ManyEnd, NodeWork, Notice, Op, RELEASED_BY_RM, Released, Which,
};

/// The most allocations that end in one step, which then takes a few milliseconds.
const ENDED_AT_ONCE: usize = 2_048;

/// The end of an allocation.
#[derive(Clone, Copy)]
struct Ends {
    /// The event of the end.
    event: EventKind,
    /// The message of the release that the RM is notified of; `None` if it is not notified.
    answer: Option<&'static str>,
    /// The meaning of the end for the gang.
    gang: GangEnd,
    /// The knowledge of the length of its run; `None` if that never began.
    run: Option<RunLength>,
}

impl Application {
    /// Ends the allocations that an RM names, and withdraws pending asks of the same name. Returns
    /// the rest, for a later step. `had_waiting`: the release has already ended items that waited
    /// for the application in the reorder buffer.
    pub(super) fn release(
        &mut self,
        which: &Which,
        (cause, reason): (Cause, Option<Arc<str>>),
        had_waiting: bool,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> Option<Op> {
        let are_all = *which == Which::All;
        if are_all {
            // Members whose placeholders end now, with all else, are pending again.
            for id in self.book.unsettled.clone() {
                if baton.books.allocations.get(id).is_some_and(|it| it.takes().is_some()) {
                    self.unpair(id, None, baton, effects);
                }
            }
        }
        let ids = self.book.named(which, ENDED_AT_ONCE);
        let n_ended = ids.len();
        let rest = self.end_many(ManyEnd { ids, cause, reason, are_all }, baton, effects);
        let withdrawn = self.book.withdrawn_by(which, cause);
        let n_withdrawn = self.withdraw(withdrawn, baton, effects);
        if n_ended + n_withdrawn == 0 && !had_waiting {
            baton.effects.notify(Notice::Ignored(Ignored::ReleaseOfUnknown));
        }
        rest
    }

    /// Ends at most [`ENDED_AT_ONCE`] of these allocations. Returns the rest, for a later step.
    pub(super) fn end_many(
        &mut self,
        ends: ManyEnd,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> Option<Op> {
        let ManyEnd { mut ids, cause, reason, are_all } = ends;
        let later = ids.split_off(ids.len().min(ENDED_AT_ONCE));
        let answer = cause.is_stop().then_some(RELEASED_BY_RM);
        let event = events::released_because(cause);
        for id in ids {
            match self.book.fate(id, cause, &baton.books.allocations) {
                Fate::PendsAgain => self.give_back(id, cause, reason.as_ref(), baton, effects),
                // The placeholder is gone, for whatever cause: its member waits for that.
                Fate::Swapped => {
                    self.swap(id, EventKind::AllocationReplaced, answer, baton, effects);
                }
                Fate::Ends => {
                    let (gang, run) = (GangEnd::released(cause), RunLength::released(cause));
                    let ends = Ends { event, answer, gang, run };
                    self.end(id, ends, baton, effects);
                }
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

    /// Removes an allocation from every holder, and from its node unless the allocation is lost
    /// with the node.
    fn end(&mut self, id: AllocationId, ends: Ends, baton: &mut Baton, effects: &mut VisitEffects) {
        let Ends { event, answer, gang, run } = ends;
        let Some(entry) = baton.books.allocations.get(id) else { return };
        let (real, is_hold) = (entry.gives_way_to(), entry.is_hold());
        let gone = (event == EventKind::AllocationLostNode).then_some(entry.node);
        if let Some(real) = real {
            self.unpair(real, gone, baton, effects);
        }
        if is_hold {
            return self.end_hold(id, event, gone, baton, effects);
        }
        let Some(entry) = baton.books.allocations.remove_known(id) else { return };
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
        self.book.unbooked(entry.resources(), entry.spec.placeholder);
        self.leave_gang(id, &entry, gang, effects);
        baton.count_use(&mut self.book, &entry, event == EventKind::AllocationPreempted);
        if let Some(length) = run {
            baton.count_run((&self.book, &mut self.run_classes), &entry, length);
        }
        effects.delta.allocated.subtract(entry.resources());
        (effects.loosens, effects.touched) = (true, true);
        events::discharged(&self.owner, entry.resources(), baton, effects);
        baton.tally.released();
        baton.directory.counts(self.leaf_facts.slot).released += 1;
        let over = self.book.drop_instance(entry.key(), id);
        events::ended(&self.book, &entry, (event, over.as_deref()), baton, effects);
        if let Some(message) = answer {
            let released = Released::of(&self.book.id, &entry, Ending::StoppedByRm, message);
            baton.effects.notify(Notice::Released(Box::new(released)));
        }
        baton.books.unsettled.changed_by(entry.node, entry.elsewhere.as_deref());
        if gone.is_none() {
            let work = NodeWork::Release(id, entry.resources().clone());
            effects.node_work.push((entry.node, work));
        }
    }

    /// Counts the end of an allocation in its gang, as a member or as a placeholder.
    fn leave_gang(
        &mut self,
        id: AllocationId,
        entry: &Allocation,
        end: GangEnd,
        effects: &mut VisitEffects,
    ) {
        if let Some(group) = entry.spec.member_of() {
            let is_victim = entry.leaving == Some(Leaving::Preempted);
            let departure = if is_victim { Departure::Lost } else { end.departure };
            if departure != Departure::NotStarted {
                self.book.member_runs(Some(group));
            }
            if self.book.gang.as_mut().is_some_and(|gang| gang.member_left(group, departure)) {
                effects.lost_member(group);
            }
        }
        if !entry.spec.placeholder {
            effects.left.real = true;
            return;
        }
        effects.left.placeholders = true;
        self.forget_placeholder(id, entry, end.placeholder, effects);
    }

    /// Removes from every holder an allocation that the RM could not start. Its ask is pending
    /// again, and backs off.
    fn give_back(
        &mut self,
        id: AllocationId,
        cause: Cause,
        reason: Option<&Arc<str>>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(entry) = baton.books.allocations.known(id) else { return };
        let (place, key) = ((entry.node, entry.bound_ns), Arc::clone(entry.key()));
        let node = Arc::clone(baton.books.nodes.id(entry.node));
        let counted = entry.spec.place_in().cloned();
        // The instance is outstanding first, so that the ask is not dropped as done when its
        // allocation ends.
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
        let ends = Ends { event, answer: None, gang: GangEnd::NOT_STARTED, run: None };
        self.end(id, ends, baton, effects);
        if let Some(slot) = slot {
            self.start_failed(slot, place, reason, baton, effects);
        }
    }

    /// Removes the application: all its asks and allocations end, and the partition forgets it
    /// after this step. Many allocations end in slices: no ask is pending after the first slice,
    /// and the order that is returned continues in a later step.
    pub(super) fn remove(&mut self, baton: &mut Baton, effects: &mut VisitEffects) -> Option<Op> {
        if self.book.removal.is_none() {
            self.book.removal = Some(Box::new(Removal::of(&self.book, baton.now_ns)));
        }
        let unanswered = self.book.unanswered();
        self.withdraw_bundle(WithdrawReason::Changed, None, baton, effects);
        self.withdraw(Withdrawn::All(None), baton, effects);
        let internal = self.book.forget_internal();
        effects.delta.pending.subtract_sum(&internal);
        let (ids, is_last) = self.book.next_to_remove(ENDED_AT_ONCE);
        if is_last {
            effects.happens(baton, |at| Event::unplaced(&self.book, at));
            effects.happens(baton, |at| Event::about(&self.book, EventKind::AppUnlinked, at));
        }
        let message = "application removed by the resource manager";
        let (event, gang) = (EventKind::AllocationCancelled, GangEnd::released(Cause::Stopped));
        // A program that runs when its application is removed does not end by itself.
        let run = Some(RunLength::AtLeast);
        for id in ids {
            self.end(id, Ends { event, answer: Some(message), gang, run }, baton, effects);
        }
        // The asks may have overtaken the removal on another stream, and be meant for the next
        // application with this id.
        for ask in unanswered {
            baton.notify_ask_released(&self.book.id, ask, Ending::StoppedByRm, message);
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
        baton.effects.ended.removed.push(Ended::removed(&self.book, baton.now_ns));
        None
    }

    /// Ends the allocations that were on a removed node: every other holder releases them.
    pub(super) fn stranded(
        &mut self,
        ids: &[AllocationId],
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let mut lost_holds = false;
        let (event, answer) = (EventKind::AllocationLostNode, Some("node removed"));
        for id in ids.iter().copied() {
            let Some(entry) = baton.books.allocations.get(id) else { continue };
            lost_holds |= entry.is_hold();
            let gone = Some(entry.node);
            match Stranded::of(entry, &baton.books.allocations) {
                Stranded::Displaced => self.displace_member(id, gone, baton, effects),
                Stranded::Question(number) => {
                    self.take_back(number, TakenBack::GivenUp { gone }, baton, effects);
                }
                Stranded::Unpaired => {
                    self.unpair(id, gone, baton, effects);
                }
                Stranded::Swapped => self.swap(id, event, answer, baton, effects),
                Stranded::Ends => {
                    let (gang, run) = (GangEnd::LOST_NODE, Some(RunLength::AtLeast));
                    let ends = Ends { event, answer, gang, run };
                    self.end(id, ends, baton, effects);
                }
            }
        }
        if lost_holds {
            self.holds_lost(baton, effects);
        }
    }

    /// Asks the RM to end an allocation whose time is over, unless it was asked before.
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
