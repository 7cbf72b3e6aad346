//! Visits of an application: orders from its RM, from a deadline, or from the partition, and their
//! effects once they are done.
//!
//! Each [`Op`] is carried out at once, in the module of its subject: [`super::asks`],
//! [`super::recovery`], [`super::release`], [`super::predicates`]. Its effects on nodes, queues,
//! user and group are gathered in [`VisitEffects`] and carried out once for the whole visit, since
//! a message may have hundreds of items for one application and each climb to root costs a hop per
//! queue.

use std::sync::Arc;

use monoceros_rules::applications::application::Progress;
use monoceros_rules::applications::application_state::{ApplicationEvent, ApplicationState};
use monoceros_rules::applications::backoff::{self, Backoff};
use monoceros_rules::applications::release::Withdrawn;
use monoceros_rules::decide::in_flight::WithdrawReason;
use monoceros_rules::decide::reservations::wake_at_node;
use monoceros_rules::limits::Remains;
use monoceros_rules::nodes::{Exclusion, NodeIndex};
use monoceros_rules::order::keys::AskKey;
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::pending::reservations::End;
use monoceros_rules::specs::rejection::Ignored;
use monoceros_rules::values::ids::AskSlot;
use monoceros_rules::waiting::obstacle::EXCLUDED_FOR;

use super::effects::VisitEffects;
use super::predicates::GiveUp;
use super::{Application, events};
use crate::events::EventKind;
use crate::metrics::ActorKind;
use crate::step::{
    Baton, Climbing, Consequences, DueOp, GangOp, Notice, Op, Owner, PreemptionOp, ReservationOp,
};

/// Message to the RM about an application that ran for too long.
const STATE_TEXT: &str = "ExecutionTimeout";
/// Message to the RM about each ask and allocation that ends with the application.
const TEXT: &str = "execution timeout of the application";

impl Application {
    /// Carries out the orders, one after the other.
    pub(super) fn ordered(&mut self, mut baton: Box<Baton>, ops: Vec<Op>) {
        let _timer = baton.tally.message(ActorKind::Application);
        self.visited(baton, |application, baton, effects| {
            // Most orders make one event, but a report makes none here.
            let is_report = |op: &Op| matches!(op, Op::Existing(_));
            if !ops.iter().all(is_report) {
                effects.happened.reserve(ops.len());
            }
            let mut ops = ops.into_iter();
            while let Some(op) = ops.next() {
                if let Some(rest) = application.apply(op, baton, effects) {
                    let rest = std::iter::once(rest).chain(ops).collect();
                    baton.effects.follow_ups.unfinished.push((application.slot, rest));
                    break;
                }
            }
            application.go_on_with_bundle(baton, effects);
        });
    }

    /// Makes a change and carries out its effects on states, limits and notices. Then the baton
    /// visits the nodes and queues concerned.
    pub(super) fn visited(
        &mut self,
        mut baton: Box<Baton>,
        act: impl FnOnce(&mut Self, &mut Baton, &mut VisitEffects),
    ) {
        let mut effects = VisitEffects::default();
        let progress = self.book.progress();
        act(self, &mut baton, &mut effects);
        self.complete_bundle(&mut baton, &mut effects);
        for slot in self.book.reserved_for_placeholders() {
            self.end_reservation(slot, End::Placeholders, &mut baton);
        }
        self.tell_ended_holds(&mut baton, &mut effects);
        events::lost_members(&self.book, &baton, &mut effects);
        self.book.review_owed(&baton.books.allocations);
        if effects.left.anything() {
            let now_ns = baton.now_ns;
            self.book.judge(effects.left, now_ns, &mut self.changes);
        }
        baton.effects.disarm(self.book.take_unneeded_deadline());
        self.charge_limits(&mut baton, &mut effects);
        effects.delta.running += self.tell_changes(&mut baton);
        baton.effects.notify_all(&mut effects.happened);
        effects.delta.starting += self.moved_on(progress, &baton.books.nodes);
        let (slot, leaf) = (self.slot, self.leaf_facts.slot);
        self.listed.review_allocating(&self.book, leaf, &mut baton.directory);
        self.listed.note_unsignalled(&self.book, leaf, slot, &mut baton.directory);
        baton.count_application(slot, self.book.counted());
        let consequences = self.consequences(&mut baton, effects);
        baton.follow(consequences);
    }

    /// Compares the progress of the application with its progress before a change. If the change
    /// has given it a place among the running applications, all its asks are tried again: while it
    /// could not start, the queues above passed over its asks whatever was loosened, so a loosening
    /// in between would never be seen. Returns the change of the number of applications that have a
    /// place among the running ones and do not run yet.
    pub(super) fn moved_on(&mut self, was: Progress, nodes: &NodeIndex) -> i64 {
        if was.is_starting && !self.book.is_starting() {
            self.book.asks.wake_all(nodes);
            if let Some(bundle) = &mut self.bundle
                && self.in_flight.is_none()
            {
                bundle.make_due();
            }
        }
        i64::from(self.book.may_run_soon()) - i64::from(was.may_run_soon)
    }

    /// Puts the application into a lane with its first ask or allocation. The group for which it
    /// counts is chosen then (`docs/limits.md#which-group-an-application-counts-for`). It leaves
    /// the lane when it has neither asks nor allocations, so that users without any cost nothing.
    pub(super) fn join_lane(&mut self, baton: &mut Baton) {
        let (book, trackers) = (&self.book, &mut baton.books.trackers);
        let submitter = (&book.user, &*book.groups);
        if let Some(group) = self.lane.join(trackers, submitter, &book.id, &book.queue) {
            debug_assert!(self.owner.group.is_none(), "who is in no lane counts for no group");
            self.set_group(Some(group), baton);
        }
    }

    /// Has the application count for this group from now on, or for none, and makes an event of it.
    pub(super) fn set_group(&mut self, group: Option<Arc<str>>, baton: &mut Baton) {
        if self.owner.group != group {
            self.owner = Arc::new(Owner::of(&self.book, group));
        }
        events::linked(&self.owner, EventKind::UserGroupLinked, baton);
    }

    /// Charges the change of a visit to user and group, when the visit ends. An application that
    /// has neither asks nor allocations left leaves its lane.
    fn charge_limits(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let remains = Remains {
            holds: self.book.holds_anything(),
            waits: !self.book.asks.pending().is_empty(),
            is_starting: self.book.is_starting(),
            has_place: self.book.has_place(),
        };
        let change = effects.delta.allocated.clone().pruned();
        if self.lane.loosens(remains, &change) {
            effects.loosening = baton.books.loosen();
        }
        let (of, trackers) = ((&*self.book.id, remains), &mut baton.books.trackers);
        let has_left = self.lane.end_visit(of, &change, effects.loosening, trackers);
        let last = if has_left { effects.discharged.pop() } else { None };
        baton.effects.notices.append(&mut effects.discharged);
        if has_left {
            events::linked(&self.owner, EventKind::UserGroupUnlinked, baton);
            baton.effects.notices.extend(last);
            if self.owner.group.is_some() {
                self.owner = Arc::new(Owner::of(&self.book, None));
            }
        }
    }

    /// Returns the work on nodes that follows from a visit, and the change that climbs, if there is
    /// one.
    fn consequences(&mut self, baton: &mut Baton, mut effects: VisitEffects) -> Consequences {
        // Work is taken from the end of the list, and an amount must be held before it is released.
        effects.node_work.reverse();
        let node_work = effects.node_work;
        if !effects.touched && effects.delta.is_nothing() {
            return Consequences { node_work, ..Consequences::default() };
        }
        if self.book.asks.pending().is_empty() {
            baton.directory.named.forget(self.slot);
        }
        let loosens = effects.loosens || effects.delta.running + effects.delta.starting < 0;
        if loosens && !effects.loosening.is_some() {
            effects.loosening = baton.books.loosen();
        }
        let (delta, loosening) = (prune(effects.delta), effects.loosening);
        if !delta.allocated.is_empty() || delta.preempting.has_negative() {
            // Its queue may have more than its guarantee now.
            baton.books.note_change();
        }
        let is_unchecked = effects.is_unchecked;
        let waits = baton.books.is_waiting
            || !self.book.asks.pending().is_empty()
            || !delta.pending.is_empty();
        let climbing = self.row.map(|_| {
            let update = if waits { self.update() } else { None };
            (self.leaf_facts.slot, Climbing { update, delta, loosening, is_unchecked })
        });
        Consequences { node_work, climbing, resume: None }
    }

    /// Carries out an order. Returns the rest of it, if there is one for a later step.
    fn apply(&mut self, op: Op, baton: &mut Baton, effects: &mut VisitEffects) -> Option<Op> {
        match op {
            Op::Ask(spec) => self.ask(spec, baton, effects),
            Op::Unified(spec) => match self.book.asks.slot_of(&spec.key) {
                None => self.ask(spec, baton, effects),
                Some(slot) => self.repeated(slot, &spec, baton, effects),
            },
            Op::Existing(mut existing) => {
                self.book.pass_limit(&mut existing.spec);
                self.existing(*existing, baton, effects);
            }
            Op::Refused { spec, uuid, reason } => {
                if self.book.is_allocated(&spec, uuid.as_ref()) {
                    baton.effects.notify(Notice::Ignored(Ignored::AllocationChange));
                } else {
                    baton.reject_ask(&self.book.id, &spec, *reason);
                }
            }
            Op::WithdrawAsks(key) => {
                let which = key.as_ref().map_or(Withdrawn::All(None), Withdrawn::Key);
                if self.withdraw(which, baton, effects) == 0 {
                    baton.effects.notify(Notice::Ignored(Ignored::ReleaseOfUnknown));
                }
            }
            Op::Release { which, cause, reason, had_waiting } => {
                return self.release(&which, (cause, reason), had_waiting, baton, effects);
            }
            Op::EndMany(ends) => return self.end_many(ends, baton, effects),
            Op::Remove => return self.remove(baton, effects),
            Op::Stranded(ids) => self.stranded(&ids, baton, effects),
            Op::GiveUp(ids) => self.give_up(&ids, GiveUp::Asked, baton, effects),
            Op::Invalidated(invalidation) => self.invalidated(&invalidation, baton, effects),
            Op::Gang(op) => self.apply_to_gang(op, baton, effects),
            Op::Preemption(op) => self.apply_preemption(op, baton, effects),
            Op::Reservation(op) => self.apply_to_reservation(op, baton, effects),
            Op::Due(op) => self.time_over(op, baton, effects),
        }
        None
    }

    /// Carries out an order about the gang of the application.
    fn apply_to_gang(&mut self, op: GangOp, baton: &mut Baton, effects: &mut VisitEffects) {
        match op {
            GangOp::Declare => self.declare(baton, effects),
            GangOp::WakeBundle => {
                self.wake_bundle();
                effects.touched = true;
            }
            GangOp::HoldAgain(again) => self.hold_again(&again, baton, effects),
            GangOp::HoldAgainOver { order } => self.hold_again_over(order, baton, effects),
            GangOp::SettleForLess => self.settle_for_less(baton, effects),
            GangOp::WithdrawBundle => {
                self.withdraw_bundle(WithdrawReason::Changed, None, baton, effects);
            }
            GangOp::AskMembers => self.ask_members(baton),
            GangOp::BundleVoid { since_ns } => self.void_bundle(since_ns, baton, effects),
            GangOp::EndHolds { group } => self.end_holds(Some(&group), baton, effects),
            GangOp::RetryBundle { retry } => {
                let is_last = self.bundle.as_mut().is_some_and(|bundle| bundle.retry(retry));
                if is_last && self.book.undecided().is_some() {
                    (effects.touched, effects.retries_bundle) = (true, true);
                }
            }
            GangOp::PlaceholdersOver => self.placeholders_over(baton, effects),
            GangOp::RetryPairs { retry } => self.retry_pairs(retry, effects),
            GangOp::RoomsAreFree => {
                // The last victim of the gang's preemption is released.
                if self.book.seeks_places() {
                    self.wake_bundle();
                }
                effects.touched = true;
            }
        }
    }

    /// Carries out an order about preemption: for this application, or of its allocations.
    fn apply_preemption(
        &mut self,
        op: PreemptionOp,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        match op {
            PreemptionOp::MayPreempt { at_ns } => self.look_for_victims(at_ns, baton, effects),
            PreemptionOp::Preempted { ids, grounds, chosen } => {
                self.preempted(&ids, (&grounds, &chosen), baton, effects);
            }
            PreemptionOp::NotPreempted { key, found } => {
                self.not_preempted(key.as_deref(), found, baton);
            }
            PreemptionOp::Nominated { key, node } => self.nominated(&key, &node, baton, effects),
            PreemptionOp::NominationEnded => {
                // The applications that gave way to the preemptor are tried again, also if it was not placed.
                self.book.asks.wake_all(&baton.books.nodes);
                (effects.touched, effects.loosens) = (true, true);
            }
        }
    }

    /// Notes a change of a node that some asks wait for by name, or of a reservation.
    fn apply_to_reservation(
        &mut self,
        op: ReservationOp,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let (asks, slot) = (&mut self.book.asks, self.slot);
        match op {
            ReservationOp::WakeNamed(node) => {
                effects.touched |= asks.wake_named(&node);
                effects.touched |= wake_at_node(asks, slot, &node, false, &baton.books);
                effects.touched |= self.pairs.searches_other_nodes();
            }
            ReservationOp::WakeNamedByReturn(node) => {
                let is_woken = asks.wake_named_by_return(&node);
                effects.touched |= wake_at_node(asks, slot, &node, true, &baton.books);
                // A gang that was refused there had this capacity itself.
                let bundle = self.book.undecided().and(self.bundle.as_ref());
                let is_bundle_refused = bundle.is_some_and(|bundle| bundle.is_refused());
                effects.touched |= is_woken && !is_bundle_refused;
            }
            ReservationOp::Unreserved { key, replaced } => {
                effects.touched |= asks.reservation_ended(&key, replaced);
            }
            ReservationOp::Suspended(key) => effects.touched |= asks.reservation_suspended(&key),
            ReservationOp::ReservationWaited(key) => {
                effects.touched |= asks.reservation_waited(&key);
            }
            ReservationOp::Claimed { question, answer } => {
                self.claimed(question.0, answer, baton, effects);
            }
        }
    }

    /// Does what was to be done after some time. An alarm of a state that has ended changes nothing.
    fn time_over(&mut self, op: DueOp, baton: &mut Baton, effects: &mut VisitEffects) {
        match op {
            DueOp::OldEnough { at_ns } => self.old_enough(at_ns, baton, effects),
            DueOp::Retry { key, retry } => effects.touched |= self.book.asks.retry(&key, retry),
            DueOp::ChoiceOpens(key) => self.choice_opens(&key, baton, effects),
            DueOp::ExclusionOver { key, over } => {
                if let Some(slot) = self.book.asks.slot_of(&key)
                    && self.book.asks.admit(slot, &over)
                {
                    effects.touched = true;
                    // Victims on that node may be evicted for it now.
                    baton.books.note_change();
                }
            }
            DueOp::StartTimeOver(over) => self.start_time_over(over, effects),
            DueOp::BackoffOver { until_ns } => {
                let backoff = self.backoff.as_mut();
                effects.touched |= backoff.is_some_and(|it| it.deadline_over(until_ns));
            }
            DueOp::CompletingOver { since_ns } => self.completing_over(since_ns, baton, effects),
            DueOp::Overdue(id) => self.overdue(id, "execution timeout", baton, effects),
            DueOp::RunOver { until_ns } if self.run_limit.is_over(until_ns) => {
                self.run_over(baton, effects);
            }
            DueOp::RunOver { .. } => {}
        }
    }

    /// Excludes a node for an ask for a while. A question about the ask that names the node is asked
    /// again without it.
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
        baton.effects.remind(EXCLUDED_FOR, self.alarm(Op::Due(DueOp::ExclusionOver { key, over })));
    }

    /// Completes an application that has been Completing for as long as it may. If it has
    /// placeholders, it waits until the RM has confirmed their end.
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

    /// Fails an application that has run for as long as it may, and ends all its asks and
    /// allocations. An application that is completing is left alone.
    fn run_over(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let now_ns = baton.now_ns;
        self.book.fire_because(ApplicationEvent::Fail, STATE_TEXT, now_ns, &mut self.changes);
        if self.book.state() != ApplicationState::Failing {
            return;
        }
        effects.delta.running += self.tell_changes(baton);
        for id in self.book.all_allocations() {
            self.overdue(id, TEXT, baton, effects);
        }
        self.give_up_asks(false, TEXT, baton, effects);
        // An application that holds nothing has failed at once.
        effects.left.asks = true;
        effects.touched = true;
    }

    /// Begins a back-off: the pass over the asks ended with this ask, and no ask is tried for a
    /// while.
    pub(super) fn back_off(&mut self, reached: AskKey, baton: &mut Baton) {
        let delay = self.leaf_facts.config.settings.backoff_delay.max(backoff::LEAST);
        let backoff = Backoff::begin(reached, delay, baton.now_ns);
        if let Some(until_ns) = backoff.until_ns() {
            baton.effects.remind(delay, self.alarm(Op::Due(DueOp::BackoffOver { until_ns })));
        }
        self.backoff = Some(backoff);
        tracing::debug!(application = %self.book.id, ?delay, "backs off");
    }
}

fn prune(mut delta: LedgerDelta) -> LedgerDelta {
    delta.allocated.prune();
    delta.pending.prune();
    delta
}
