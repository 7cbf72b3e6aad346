//! What an RM, a deadline or the partition may want of an application.
//!
//! Each [`Op`] is done at once, where its subject is: [`super::asks`], [`super::recovery`],
//! [`super::release`], [`super::predicates`]. What it means for nodes, queues, user and group is
//! gathered in [`VisitEffects`] and follows once for the whole visit, since a message may have
//! hundreds of items for one application and each climb to root costs a hop per queue.

use std::sync::Arc;

use monoceros_rules::applications::application_state::{ApplicationEvent, ApplicationState};
use monoceros_rules::decide::in_flight::WithdrawReason;
use monoceros_rules::decide::reservations::wake_at_node;
use monoceros_rules::nodes::Exclusion;
use monoceros_rules::pending::reservations::End;
use monoceros_rules::specs::ask::{AskSpec, Form};
use monoceros_rules::specs::rejection::{Ignored, Rejection};
use monoceros_rules::values::ids::AskSlot;
use monoceros_rules::waiting::WaitSet;
use monoceros_rules::waiting::obstacle::EXCLUDED_FOR;

use super::Application;
use super::effects::VisitEffects;
use super::predicates::GiveUp;
use crate::events::EventKind;
use crate::step::{Baton, Cause, Notice, Op};

impl Cause {
    /// The event that says why an allocation ended.
    pub(super) fn event(self) -> EventKind {
        match self {
            Self::Stopped | Self::Failed | Self::SchedulingFailed | Self::RefusedForGood => {
                EventKind::AllocationCancelled
            }
            Self::ConfirmedPreemption => EventKind::AllocationPreempted,
            Self::ConfirmedReplacement => EventKind::AllocationReplaced,
            Self::ConfirmedTimeout => EventKind::AllocationTimedOut,
        }
    }

    /// Whether the RM ended it by itself, and is to be answered.
    pub(crate) fn is_stop(self) -> bool {
        matches!(self, Self::Stopped | Self::Failed)
    }

    /// Whether the RM could not start it, so that its ask is to wait again.
    pub(crate) fn is_failure_to_start(self) -> bool {
        matches!(self, Self::SchedulingFailed | Self::RefusedForGood)
    }
}

impl Application {
    /// Has the gang tried again: some time has passed since this refusal of a member.
    fn retry_bundle(&mut self, retry: u32, effects: &mut VisitEffects) {
        let is_last = self.bundle.as_mut().is_some_and(|bundle| bundle.retry(retry));
        if is_last && self.book.undecided().is_some() {
            (effects.touched, effects.retries_bundle) = (true, true);
        }
    }

    /// Does what is ordered. Returns what is left of it for a later step.
    pub(super) fn apply(
        &mut self,
        op: Op,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> Option<Op> {
        match op {
            Op::Ask(spec) => self.ask(spec, baton, effects),
            Op::Unified(spec) => self.unified(spec, baton, effects),
            Op::Existing(existing) => self.existing(*existing, baton, effects),
            Op::Refused { spec, uuid, reason } => self.refuse(&spec, uuid.as_ref(), *reason, baton),
            Op::WithdrawAsks(key) => {
                if self.withdraw(key.as_ref(), None, baton, effects) == 0 {
                    baton.effects.notify(Notice::Ignored(Ignored::ReleaseOfUnknown));
                }
            }
            Op::Release { which, cause, reason, had_waiting } => {
                let (n, rest) = self.release(&which, cause, reason.as_ref(), baton, effects);
                if n == 0 && !had_waiting {
                    baton.effects.notify(Notice::Ignored(Ignored::ReleaseOfUnknown));
                }
                return rest;
            }
            Op::EndMany(ends) => return self.end_many(ends, baton, effects),
            Op::Remove => return self.remove(baton, effects),
            Op::WakeNamed(node) => {
                effects.touched |= self.book.asks.wake_named(&node);
                effects.touched |=
                    wake_at_node(&mut self.book.asks, self.slot, &node, false, &baton.books);
                effects.touched |= self.pairs.looks_elsewhere();
            }
            Op::Declare => self.declare(baton, effects),
            Op::WakeBundle => {
                self.wake_bundle();
                effects.touched = true;
            }
            Op::HoldAgain(again) => self.hold_again(&again, baton, effects),
            Op::HoldAgainOver { order } => self.hold_again_over(order, baton, effects),
            Op::SettleForLess => self.settle_for_less(baton, effects),
            Op::WithdrawBundle => {
                self.withdraw_bundle(WithdrawReason::Changed, None, baton, effects);
            }
            Op::AskMembers => self.ask_members(baton),
            Op::BundleVoid { since_ns } => self.void_bundle(since_ns, baton, effects),
            Op::EndHolds { group } => self.end_holds(Some(&group), baton, effects),
            Op::RetryBundle { retry } => self.retry_bundle(retry, effects),
            Op::WakeNamedByReturn(node) => {
                // A gang that was refused there had that room in hand.
                let bundle = self.book.undecided().and(self.bundle.as_ref());
                let is_bundle_refused = bundle.is_some_and(|bundle| bundle.is_refused());
                effects.touched |= self.book.asks.wake_named_by_return(&node) && !is_bundle_refused;
                effects.touched |=
                    wake_at_node(&mut self.book.asks, self.slot, &node, true, &baton.books);
            }
            Op::OldEnough { at_ns } => self.old_enough(at_ns, baton, effects),
            Op::Unreserved { key, replaced } => {
                effects.touched |= self.book.asks.reservation_ended(&key, replaced);
            }
            Op::Suspended(key) => {
                effects.touched |= self.book.asks.reservation_suspended(&key);
            }
            Op::ReservationWaited(key) => {
                effects.touched |= self.book.asks.reservation_waited(&key);
            }
            Op::Claimed { question, answer } => self.claimed(question.0, answer, baton, effects),
            Op::Retry { key, retry } => self.retry(&key, retry, effects),
            Op::ChoiceOpens(key) => self.choice_opens(&key, baton, effects),
            Op::ExclusionOver { key, over } => {
                if let Some(slot) = self.book.asks.slot_of(&key)
                    && self.book.asks.admit(slot, &over)
                {
                    effects.touched = true;
                    // Others may leave that node for it.
                    baton.books.note_change();
                }
            }
            Op::StartTimeOver(over) => self.start_time_over(over, effects),
            Op::BackoffOver { until_ns } => {
                let backoff = self.backoff.as_mut();
                effects.touched |= backoff.is_some_and(|it| it.deadline_over(until_ns));
            }
            Op::CompletingOver { since_ns } => self.completing_over(since_ns, baton, effects),
            Op::PlaceholdersOver => self.placeholders_over(baton, effects),
            Op::RetryPairs { retry } => self.retry_pairs(retry, effects),
            Op::Stranded(ids) => self.stranded(&ids, baton, effects),
            Op::Overdue(id) => self.overdue(id, "execution timeout", baton, effects),
            Op::RunOver { until_ns } => self.run_over(until_ns, baton, effects),
            Op::GiveUp(ids) => self.give_up(&ids, GiveUp::Asked, baton, effects),
            Op::MayPreempt { at_ns } => self.look_for_victims(at_ns, baton, effects),
            Op::Preempted { ids, grounds, chosen } => {
                self.preempted(&ids, (&grounds, &chosen), baton, effects);
            }
            Op::NotPreempted { key, found } => self.not_preempted(key.as_deref(), found, baton),
            Op::Nominated { key, node } => self.nominated(&key, &node, baton, effects),
            Op::RoomsAreFree => {
                // The last victim of the gang's preemption is gone.
                if self.book.seeks_places() {
                    self.wake_bundle();
                }
                effects.touched = true;
            }
            Op::NominationEnded => {
                // Whatever gave way to the preemptor is tried again, be that placed or not.
                self.book.asks.wake_all(&baton.books.nodes);
                (effects.touched, effects.loosens) = (true, true);
            }
            Op::Invalidated(invalidation) => self.invalidated(&invalidation, baton, effects),
        }
        None
    }

    /// Rejects an ask or allocation. If it is one that runs already, it stays as it is and is not
    /// rejected.
    fn refuse(
        &mut self,
        spec: &AskSpec,
        uuid: Option<&Arc<str>>,
        reason: Rejection,
        baton: &mut Baton,
    ) {
        let is_allocated = match uuid {
            Some(uuid) => self.book.allocations.contains_key(uuid),
            None => spec.form == Form::Unified && self.is_allocated(&spec.key),
        };
        if is_allocated {
            baton.effects.notify(Notice::Ignored(Ignored::AllocationChange));
        } else {
            self.reject(spec, reason, baton);
        }
    }

    /// The waiting time after a refusal is over. If the ask was refused again since, nothing
    /// happens: the later refusal has a deadline of its own.
    fn retry(&mut self, key: &Arc<str>, retry: u32, effects: &mut VisitEffects) {
        let asks = &mut self.book.asks;
        let Some(slot) = asks.slot_of(key) else { return };
        let Some(class) = asks.class_of(slot) else { return };
        let ask = asks.ask_mut(slot);
        if ask.noted_refusals().is_some_and(|refusals| refusals.retries.begin(retry)) {
            ask.refresh();
            asks.set_waits(class, WaitSet::Due);
            effects.touched = true;
        }
    }

    /// An ask does not go back to a node for a while. A question about it that names the node is
    /// asked again without.
    pub(super) fn exclude(
        &mut self,
        slot: AskSlot,
        node: Arc<str>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        self.give_up_ask(slot, GiveUp::All, baton, effects);
        let reserved = baton.books.reservations.node_of(self.reserver(slot));
        if reserved.is_some_and(|reserved| *baton.books.nodes.id(reserved) == node) {
            self.end_reservation(slot, End::Changed, baton);
        }
        let wait_ns = i64::try_from(EXCLUDED_FOR.as_nanos()).unwrap_or(i64::MAX);
        let over = Exclusion { node, until_ns: baton.now_ns.saturating_add(wait_ns) };
        self.book.asks.exclude(slot, over.clone());
        let key = Arc::clone(&self.book.asks.ask(slot).key);
        baton.effects.remind(EXCLUDED_FOR, self.alarm(Op::ExclusionOver { key, over }));
    }

    /// The application was Completing for its time: it is over, or waits for its placeholders to be
    /// confirmed as gone.
    fn completing_over(&mut self, since_ns: i64, baton: &mut Baton, effects: &mut VisitEffects) {
        let same = self.book.log().last() == Some(&(since_ns, ApplicationState::Completing));
        if !same {
            return;
        }
        if self.book.placeholders().is_zero() {
            self.book.fire(ApplicationEvent::Complete, baton.now_ns, &mut self.changes);
        } else {
            self.end_placeholders("application is complete", baton, effects);
        }
    }
}
