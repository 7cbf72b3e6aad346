//! What an RM (or a deadline) may want of an application: asks, existing allocations, releases.
//!
//! Each [`Op`] is applied to the application at once; what it means for nodes is left as
//! [`NodeWork`] on the baton, what it means for queues is gathered in [`VisitEffects`] and climbs once for
//! the whole visit (applications chapter, 2.3–2.6, 5.2, 5.3).

use std::sync::Arc;

use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::order::waits::WaitSet;
use monoceros_rules::values::resources::Resources;
use monoceros_rules::work::allocations::{Allocation, AllocationId, Form};
use monoceros_rules::work::application_state::{ApplicationEvent, ApplicationState};
use monoceros_rules::work::asks::{AskSlot, AskSpec, Standing};
use monoceros_rules::work::rejection::{Ignored, Rejection};

use super::Application;
use crate::api::predicates::{Invalidation, QuestionId, Verdict};
use crate::events::{Event, EventKind};
use crate::step::{Allocated, Baton, Ending, NodeWork, Notice, Released};

/// One thing to do. See the module.
pub(crate) enum Op {
    /// An ask, new or replacing what is outstanding of its key.
    Ask(Box<AskSpec>),
    /// An ask in today's form: of a key that exists only the resources change.
    Unified(Box<AskSpec>),
    /// An allocation that exists already on a node.
    Existing(Box<Existing>),
    /// An ask, or an allocation with its UUID, that is not taken, whatever the application says.
    /// What is allocated already stays as it is, without an answer (invariant 24).
    Refused { spec: Box<AskSpec>, uuid: Option<Arc<str>>, reason: Rejection },
    /// An ask is withdrawn; no key: all of them.
    WithdrawAsks(Option<Arc<str>>),
    /// Allocations end.
    Release { which: Which, cause: Cause },
    /// The RM removes the application.
    Remove,
    /// A node that only some asks may use appeared or grew.
    WakeNamed(Arc<str>),
    /// A placement that was never settled gave such a node back what it held.
    WakeNamedByReturn(Arc<str>),
    /// An ask that every node refused may be tried again.
    Retry { key: Arc<str>, retry: u32 },
    /// It has backed off until then.
    BackoffOver { until_ns: i64 },
    /// The application was Completing since then for as long as it may.
    CompletingOver { since_ns: i64 },
    /// Its allocations on a node that left.
    Stranded(Vec<AllocationId>),
    /// An allocation ran for as long as its ask allows.
    Overdue(AllocationId),
    /// The RM answered a question; no verdict: it could not be asked.
    Answered { question: QuestionId, verdict: Option<Verdict> },
    /// Placements that wait for their predicate are taken back.
    GiveUp(Vec<AllocationId>),
    /// What predicates said may be wrong by now.
    Invalidated(Arc<Invalidation>),
}

/// An allocation that the RM says exists.
pub(crate) struct Existing {
    pub(crate) spec: AskSpec,
    /// Given by the RM, or the key.
    pub(crate) uuid: Arc<str>,
    pub(crate) node: Arc<str>,
}

/// Which allocations a release names.
pub(crate) enum Which {
    Uuid(Arc<str>),
    Key(Arc<str>),
    All,
}

/// Why an RM sends a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It wants the allocation to end: it gets an answer.
    Stopped,
    /// It confirms that it was preempted, as the core asked for: no answer.
    ConfirmedPreemption,
    /// It confirms that it was replaced: no answer.
    ConfirmedReplacement,
    /// It confirms a timeout: no answer, and pending asks stay.
    ConfirmedTimeout,
    /// It could not bind the allocation: the ask is pending again.
    SchedulingFailed,
}

impl Cause {
    /// The event that says why an allocation ended.
    fn event(self) -> EventKind {
        match self {
            Self::Stopped | Self::SchedulingFailed => EventKind::AllocationCancelled,
            Self::ConfirmedPreemption => EventKind::AllocationPreempted,
            Self::ConfirmedReplacement => EventKind::AllocationReplaced,
            Self::ConfirmedTimeout => EventKind::AllocationTimedOut,
        }
    }
}

/// What the ops of one visit add up to.
#[derive(Default)]
pub(crate) struct VisitEffects {
    pub(crate) delta: LedgerDelta,
    /// The row in the leaf may have changed.
    pub(crate) touched: bool,
    /// Some queue has more room afterwards.
    pub(crate) loosens: bool,
    /// Something left: the application may be done.
    pub(crate) judge: bool,
    /// Events of this visit. They follow the states that are entered in it (rest-events-metrics
    /// chapter, 3.4).
    pub(super) happened: Vec<Notice>,
    /// Events of a group that uses less, until it is known whether the application leaves it.
    pub(super) discharged: Vec<Notice>,
    /// The number of the loosening that the visit is, once it has one.
    pub(super) loosening: u64,
    /// Promised in this visit and not yet in the books.
    promised: Resources,
}

impl VisitEffects {
    fn happens(&mut self, baton: &Baton, event: impl FnOnce(i64) -> Event) {
        if baton.tracking.is_on() {
            self.happened.push(Notice::Happened(Box::new(event(baton.now_ns))));
        }
    }
}

impl Application {
    pub(super) fn apply(&mut self, op: Op, baton: &mut Baton, effects: &mut VisitEffects) {
        match op {
            Op::Ask(spec) => self.ask(*spec, baton, effects),
            Op::Unified(spec) => self.unified(*spec, baton, effects),
            Op::Existing(existing) => self.existing(*existing, baton, effects),
            Op::Refused { spec, uuid, reason } => {
                let is_allocated = match &uuid {
                    Some(uuid) => self.book.allocations.contains_key(uuid),
                    None => spec.form == Form::Unified && self.is_allocated(&spec.key),
                };
                if is_allocated {
                    baton.notices.push(Notice::Ignored(Ignored::AllocationChange));
                } else {
                    self.reject(&spec, reason, baton);
                }
            }
            Op::WithdrawAsks(key) => {
                if self.withdraw(key.as_ref(), None, baton, effects) == 0 {
                    baton.notices.push(Notice::Ignored(Ignored::ReleaseOfUnknown));
                }
            }
            Op::Release { which, cause } => self.release(&which, cause, baton, effects),
            Op::Remove => self.remove(baton, effects),
            Op::WakeNamed(node) => effects.touched |= self.book.asks.wake_named(&node),
            Op::WakeNamedByReturn(node) => {
                effects.touched |= self.book.asks.wake_named_by_return(&node);
            }
            Op::Retry { key, retry } => self.retry(&key, retry, effects),
            Op::BackoffOver { until_ns } => effects.touched |= self.end_backoff(until_ns),
            Op::CompletingOver { since_ns } => self.completing_over(since_ns, baton),
            Op::Stranded(ids) => self.stranded(&ids, baton, effects),
            Op::Overdue(id) => self.overdue(id, baton),
            Op::Answered { question, verdict } => self.answered(question, verdict, baton, effects),
            Op::GiveUp(ids) => self.give_up(&ids, baton, effects),
            Op::Invalidated(invalidation) => self.invalidated(&invalidation, baton, effects),
        }
    }

    fn reject(&self, spec: &AskSpec, reason: Rejection, baton: &mut Baton) {
        let names_nothing = matches!(reason, Rejection::NodeUnknown(_));
        baton.tally.ask_rejected(!names_nothing);
        baton.notices.push(Notice::AskRejected {
            form: spec.form,
            key: Arc::clone(&spec.key),
            application: Arc::clone(&self.book.id),
            reason,
        });
    }

    fn may_take(
        &self,
        spec: &AskSpec,
        baton: &Baton,
        effects: &VisitEffects,
    ) -> Result<(), Rejection> {
        if self.book.state() == ApplicationState::Failing || self.book.state().is_terminated() {
            let (id, state) = (Arc::clone(&self.book.id), self.book.state().text());
            return Err(Rejection::ApplicationState { id, state });
        }
        if !baton.books.can_promise(&effects.promised, &spec.resources, spec.repeat.max(1)) {
            return Err(Rejection::Overflow(Arc::clone(&spec.key)));
        }
        Ok(())
    }

    fn ask(&mut self, spec: AskSpec, baton: &mut Baton, effects: &mut VisitEffects) {
        if let Err(reason) = self.may_take(&spec, baton, effects) {
            self.reject(&spec, reason, baton);
            return;
        }
        if let Some(slot) = self.book.asks.slot_of(&spec.key) {
            self.give_up_ask(slot, baton, effects);
        }
        self.join_lane(baton);
        let (created_ns, now_ns) = (spec.created_ns, baton.now_ns);
        let sequence = baton.books.arrival();
        let (slot, pending) = self.book.asks.put(spec, now_ns, sequence);
        let ask = self.book.asks.ask(slot);
        effects.happens(baton, |at| {
            self.event(EventKind::AskAdded, at).referring(&ask.key).amount(ask.resources())
        });
        effects.promised.add(&pending);
        effects.delta.pending.add(&pending);
        effects.touched = true;
        if let Some(created_ns) = created_ns {
            self.book.submitted_no_later_than(created_ns);
        }
        self.book.ask_added(now_ns, &mut self.changes);
    }

    fn unified(&mut self, spec: AskSpec, baton: &mut Baton, effects: &mut VisitEffects) {
        let Some(slot) = self.book.asks.slot_of(&spec.key) else {
            self.ask(spec, baton, effects);
            return;
        };
        if let Err(reason) = self.resize(slot, &spec.resources, baton, effects) {
            self.reject_change(slot, &spec, reason, baton);
        }
    }

    fn is_allocated(&self, key: &Arc<str>) -> bool {
        let slot = self.book.asks.slot_of(key);
        slot.is_some_and(|slot| !self.book.asks.ask(slot).live.is_empty())
    }

    /// What is allocated is never rejected afterwards (invariant 24): it stays as it is.
    fn reject_change(&self, slot: AskSlot, spec: &AskSpec, reason: Rejection, baton: &mut Baton) {
        if self.book.asks.ask(slot).live.is_empty() {
            self.reject(spec, reason, baton);
        } else {
            tracing::warn!(application = %self.book.id, ask = %spec.key, %reason,
                "change of what is allocated ignored");
            baton.notices.push(Notice::Ignored(Ignored::AllocationChange));
        }
    }

    /// Another size for an ask that is known: for what is pending and for what it has allocated.
    /// An error changes nothing.
    fn resize(
        &mut self,
        slot: AskSlot,
        to: &Resources,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> Result<(), Rejection> {
        let ask = self.book.asks.ask(slot);
        let unsettled = i64::try_from(ask.unsettled.len()).unwrap_or(i64::MAX);
        let still_to_come = i64::from(ask.repeat).saturating_add(unsettled);
        let mut growth = to.minus(ask.resources()).times(still_to_come);
        let live = ask.live.clone();
        for held in live.iter().filter_map(|id| baton.books.allocations.get(*id)) {
            growth.add(&to.minus(&held.resources));
        }
        if !baton.books.can_promise(&effects.promised, &growth, 1) {
            return Err(Rejection::Overflow(Arc::clone(&ask.key)));
        }
        if !to.same_amount(ask.resources()) {
            self.give_up_ask(slot, baton, effects);
            let pending = self.book.asks.resize(slot, to.clone());
            effects.touched = true;
            effects.promised.add(&pending);
            effects.delta.pending.add(&pending);
        }
        for id in live {
            self.resize_allocation(id, to, baton, effects);
        }
        Ok(())
    }

    fn resize_allocation(
        &mut self,
        id: AllocationId,
        to: &Resources,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(entry) = baton.books.allocations.get_mut(id) else { return };
        let change = to.minus(&entry.resources).pruned();
        if change.is_empty() {
            return;
        }
        entry.resources = to.clone();
        let node = entry.node;
        self.book.resized(&change);
        self.tell_charge(&change, baton, effects);
        effects.loosens |= change.has_negative();
        effects.touched = true;
        effects.promised.add(&change);
        effects.delta.allocated.add(&change);
        baton.node_work.push((node, NodeWork::Resize(change)));
    }

    /// An allocation that exists, whatever quota and room say (2.4).
    fn existing(&mut self, existing: Existing, baton: &mut Baton, effects: &mut VisitEffects) {
        let Existing { spec, uuid, node } = existing;
        let Some(node_slot) = baton.books.nodes.slot_of(&node) else {
            self.reject(&spec, Rejection::NodeUnknown(node), baton);
            return;
        };
        if let Some(id) = self.book.allocations.get(&uuid).copied() {
            let there = baton.books.allocations.get(id).map(|entry| entry.node);
            if there != Some(node_slot) {
                tracing::warn!(application = %self.book.id, allocation = %uuid, %node,
                    "an allocation is said to be on another node than it was placed on, ignored");
                baton.notices.push(Notice::Ignored(Ignored::AllocationChange));
            }
            self.resize_known(id, &spec, baton, effects);
            return;
        }
        // In today's form the key is the identity: it runs, though under another UUID (V32).
        if let Some(slot) = self.runs_as(&spec) {
            let is_there = self.book.asks.ask(slot).live.iter().any(|id| {
                baton.books.allocations.get(*id).is_some_and(|entry| entry.node == node_slot)
            });
            if !is_there {
                tracing::warn!(application = %self.book.id, ask = %spec.key, %node,
                    "an allocation is said to be on another node than it was placed on, ignored");
                baton.notices.push(Notice::Ignored(Ignored::AllocationChange));
            }
            if let Err(reason) = self.resize(slot, &spec.resources, baton, effects) {
                self.reject_change(slot, &spec, reason, baton);
            }
            return;
        }
        // Whether the RM means what waits for its predicate, or another one: it knows, not we.
        if let Some(slot) = self.book.asks.slot_of(&spec.key) {
            self.give_up_ask(slot, baton, effects);
        }
        // In today's form the size is that of the key; by UUID it is that of this allocation alone,
        // so that nothing can go wrong with what a node brings along once the node is accepted.
        let same_key = self
            .book
            .asks
            .slot_of(&spec.key)
            .filter(|slot| spec.form == Form::Unified && self.book.asks.ask(*slot).repeat > 0);
        let fits = self.may_take(&spec, baton, effects).and_then(|()| match same_key {
            Some(slot) => self.resize(slot, &spec.resources, baton, effects),
            None => Ok(()),
        });
        match fits {
            Ok(()) => self.book_existing(spec, uuid, node_slot, baton, effects),
            Err(reason) => self.reject(&spec, reason, baton),
        }
    }

    /// The ask whose allocations a report in today's form can only mean: it has some, and nothing
    /// that waits.
    fn runs_as(&self, spec: &AskSpec) -> Option<AskSlot> {
        let slot = self.book.asks.slot_of(&spec.key).filter(|_| spec.form == Form::Unified)?;
        let ask = self.book.asks.ask(slot);
        let waits = ask.repeat > 0 || !ask.unsettled.is_empty();
        (!waits && !ask.live.is_empty()).then_some(slot)
    }

    /// The RM reports an allocation again, perhaps in another size: by UUID it is that one alone,
    /// else all of the key.
    fn resize_known(
        &mut self,
        id: AllocationId,
        spec: &AskSpec,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let known = self.book.asks.slot_of(&spec.key).filter(|_| spec.form == Form::Unified);
        if let Some(slot) = known {
            if let Err(reason) = self.resize(slot, &spec.resources, baton, effects) {
                self.reject_change(slot, spec, reason, baton);
            }
            return;
        }
        let Some(entry) = baton.books.allocations.get(id) else { return };
        let growth = spec.resources.minus(&entry.resources);
        if baton.books.can_promise(&effects.promised, &growth, 1) {
            self.resize_allocation(id, &spec.resources, baton, effects);
        } else {
            tracing::warn!(application = %self.book.id, allocation = %entry.uuid,
                "change of what is allocated ignored: it is more than can be counted");
            baton.notices.push(Notice::Ignored(Ignored::AllocationChange));
        }
    }

    fn book_existing(
        &mut self,
        spec: AskSpec,
        uuid: Arc<str>,
        node: monoceros_rules::nodes::NodeSlot,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        self.join_lane(baton);
        let now_ns = baton.now_ns;
        let (form, resources, tags) = (spec.form, spec.resources.clone(), spec.tags.clone());
        let created_ns = spec.created_ns.unwrap_or(now_ns);
        let (priority, originator) = (spec.priority, spec.originator);
        let (preemption, task_group) = (spec.preemption, spec.task_group.clone());
        self.book.submitted_no_later_than(created_ns);
        let slot = match self.book.asks.slot_of(&spec.key) {
            Some(slot) if self.book.asks.ask(slot).repeat > 0 => {
                let taken = self.book.asks.ask(slot).resources().clone();
                self.book.asks.take_one(slot);
                effects.delta.pending.subtract(&taken);
                slot
            }
            Some(slot) => slot,
            None => {
                let sequence = baton.books.arrival();
                self.book.asks.put_allocated(spec, now_ns, sequence)
            }
        };
        let key = Arc::clone(&self.book.asks.ask(slot).key);
        let id = baton.books.allocations.insert(Allocation {
            application: self.slot,
            key: Arc::clone(&key),
            uuid: Arc::clone(&uuid),
            question: None,
            node,
            resources: resources.clone(),
            priority,
            placeholder: false,
            originator,
            form,
            created_ns,
            bound_ns: now_ns,
            released: false,
            deadline: None,
            tags,
        });
        self.book.asks.ask_mut(slot).live.push(id);
        self.book.allocations.insert(Arc::clone(&uuid), id);
        baton.books.unsettled.changed(node);
        baton.node_work.push((node, NodeWork::Hold(id, resources.clone())));
        effects.promised.add(&resources);
        effects.delta.allocated.add(&resources);
        effects.touched = true;
        baton.tally.recovered();
        baton.directory.counts(self.leaf_facts.slot).allocated += 1;
        self.book.booked(&resources, now_ns, &mut self.changes);
        effects.delta.running += self.tell_changes(baton);
        let node = Arc::clone(baton.books.nodes.id(node));
        if form == Form::Unified {
            baton.notices.append(&mut effects.discharged);
            let application = Arc::clone(&self.book.id);
            baton.notices.push(Notice::Allocated(Box::new(Allocated {
                application,
                key,
                uuid,
                node,
                resources,
                priority,
                originator,
                preemption,
                task_group,
                tags: None,
                queue: Arc::clone(&self.book.queue),
                user: Arc::clone(&self.book.user),
                group: self.group().cloned(),
                at_ns: now_ns,
            })));
        } else {
            baton.happens(|at| {
                let added = Event::of(EventKind::NodeAllocationAdded, &node, at);
                added.referring(&uuid).amount(&resources)
            });
            self.tell_charge(&resources, baton, effects);
            baton.happens(|at| {
                self.event(EventKind::AllocationAdded, at).referring(&uuid).amount(&resources)
            });
        }
    }

    /// Withdraws the ask with this key, or all of the form (`None`: of every form). Says how many
    /// were pending.
    fn withdraw(
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
            let shape = self.book.asks.ask(slot).resources().clone();
            self.give_up_ask(slot, baton, effects);
            let pending = self.book.asks.withdraw(slot);
            if pending.is_empty() {
                continue;
            }
            effects.happens(baton, |at| {
                self.event(EventKind::AskRemoved, at).referring(&key).amount(&shape)
            });
            effects.delta.pending.subtract(&pending);
            effects.touched = true;
            effects.judge = true;
            n_withdrawn += 1;
        }
        n_withdrawn
    }

    fn release(
        &mut self,
        which: &Which,
        cause: Cause,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let ids: Vec<AllocationId> = match which {
            Which::Uuid(uuid) => self.book.allocations.get(uuid).copied().into_iter().collect(),
            Which::Key(key) => match self.book.asks.slot_of(key) {
                Some(slot) => self.book.asks.ask(slot).live.to_vec(),
                None => Vec::new(),
            },
            Which::All => self.all_allocations(),
        };
        let n_ended = ids.len();
        for id in ids {
            let answer = (cause == Cause::Stopped).then_some("released by the resource manager");
            if cause == Cause::SchedulingFailed && self.may_wait_again(id, baton) {
                self.give_back(id, baton, effects);
            } else {
                self.unbook(id, cause.event(), answer, baton, effects);
            }
        }
        let n_withdrawn = if matches!(cause, Cause::ConfirmedTimeout | Cause::SchedulingFailed) {
            0
        } else {
            match which {
                Which::Uuid(key) | Which::Key(key) => {
                    self.withdraw_named(which, key, baton, effects)
                }
                Which::All => self.withdraw(None, Some(Form::Unified), baton, effects),
            }
        };
        if n_ended + n_withdrawn == 0 {
            baton.notices.push(Notice::Ignored(Ignored::ReleaseOfUnknown));
        }
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
        live && baton.books.allocations.get(id).is_some_and(|entry| !entry.released)
    }

    /// Its allocations in order of their UUIDs.
    fn all_allocations(&self) -> Vec<AllocationId> {
        let mut all: Vec<_> = self.book.allocations.iter().collect();
        all.sort();
        all.into_iter().map(|(_, id)| *id).collect()
    }

    /// Takes an allocation off every holder; tells the RM where there is a message. `row` is the
    /// event that says why.
    fn unbook(
        &mut self,
        id: AllocationId,
        row: EventKind,
        answer: Option<&'static str>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> Option<AskSlot> {
        let entry = baton.books.allocations.remove(id)?;
        baton.disarmed.extend(entry.deadline);
        self.book.allocations.remove(&entry.uuid);
        self.book.unbooked(&entry.resources);
        effects.delta.allocated.subtract(&entry.resources);
        effects.loosens = true;
        effects.touched = true;
        effects.judge = true;
        self.tell_discharge(&entry.resources, baton, effects);
        baton.tally.released();
        baton.directory.counts(self.leaf_facts.slot).released += 1;
        let ends_with_node = row == EventKind::AllocationLostNode;
        effects.happens(baton, |at| {
            self.event(row, at).referring(&entry.uuid).amount(&entry.resources)
        });
        if !ends_with_node {
            effects.happens(baton, |at| {
                let node = baton.books.nodes.id(entry.node);
                let gone = Event::of(EventKind::NodeAllocationRemoved, node, at);
                gone.referring(&entry.uuid).amount(&entry.resources)
            });
        }
        let slot = self.book.asks.slot_of(&entry.key);
        if let Some(slot) = slot {
            self.book.asks.ask_mut(slot).live.retain(|live| *live != id);
            let ask = self.book.asks.ask(slot);
            let is_over = ask.live.is_empty() && ask.unsettled.is_empty() && ask.repeat == 0;
            let ends = is_over && !ask.withdrawn;
            if ends && !ends_with_node && row != EventKind::AllocationTimedOut {
                effects.happens(baton, |at| {
                    self.event(EventKind::AskRemoved, at)
                        .referring(&ask.key)
                        .amount(ask.resources())
                });
            }
            self.book.asks.drop_if_done(slot);
        }
        if let Some(message) = answer {
            baton.notices.push(Notice::Released(Box::new(Released {
                application: Arc::clone(&self.book.id),
                key: entry.key,
                uuid: entry.uuid,
                ending: Ending::StoppedByRm,
                message,
            })));
        }
        baton.books.unsettled.changed(entry.node);
        baton.node_work.push((entry.node, NodeWork::Release(id, entry.resources)));
        slot
    }

    /// The RM could not bind it: off every holder, and pending again (5.2).
    fn give_back(&mut self, id: AllocationId, baton: &mut Baton, effects: &mut VisitEffects) {
        let Some(entry) = baton.books.allocations.get(id) else { return };
        // Outstanding first, so that the ask is not dropped as done when its allocation leaves.
        if let Some(slot) = self.book.asks.slot_of(&entry.key) {
            let pending = self.book.asks.give_back(slot);
            effects.promised.add(&pending);
            effects.delta.pending.add(&pending);
        }
        self.unbook(id, EventKind::AllocationCancelled, None, baton, effects);
    }

    /// Everything it asked for and holds goes (1.5); the partition forgets it after this step.
    fn remove(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        self.withdraw(None, None, baton, effects);
        effects.happens(baton, |at| self.unplaced(at));
        effects.happens(baton, |at| self.event(EventKind::AppUnlinked, at));
        let message = Some("application removed by the resource manager");
        for id in self.all_allocations() {
            self.unbook(id, EventKind::AllocationCancelled, message, baton, effects);
        }
        if self.book.state() == ApplicationState::Running {
            effects.delta.running -= 1;
        }
        let counts = baton.directory.counts(self.leaf_facts.slot);
        counts.moved(Some(self.book.state()), None);
        effects.judge = false;
        effects.touched = true;
        baton.ended.push((self.slot, self.row));
    }

    /// `retry` numbers the refusal that the deadline belongs to: a later one has its own.
    fn retry(&mut self, key: &Arc<str>, retry: u32, effects: &mut VisitEffects) {
        let Some(slot) = self.book.asks.slot_of(key) else { return };
        let Some(class) = self.book.asks.class_of(slot) else { return };
        let ask = self.book.asks.ask_mut(slot);
        if ask.retry == retry {
            ask.retried_by_time = true;
            ask.standing = Standing::Fresh;
            self.book.asks.set_waits(class, WaitSet::Due);
            effects.touched = true;
        }
    }

    fn completing_over(&mut self, since_ns: i64, baton: &Baton) {
        let same = self.book.log().last() == Some(&(since_ns, ApplicationState::Completing));
        if same {
            self.book.fire(ApplicationEvent::Complete, baton.now_ns, &mut self.changes);
        }
    }

    /// The node took its holdings with it: everything but the node lets go (5.4).
    fn stranded(&mut self, ids: &[AllocationId], baton: &mut Baton, effects: &mut VisitEffects) {
        for id in ids {
            let Some(entry) = baton.books.allocations.get(*id) else { continue };
            if entry.question.is_some() {
                self.give_up(&[*id], baton, effects);
            } else {
                self.unbook(
                    *id,
                    EventKind::AllocationLostNode,
                    Some("node removed"),
                    baton,
                    effects,
                );
            }
            // The entry on the node is gone with the node.
            baton.node_work.pop();
        }
    }

    fn overdue(&mut self, id: AllocationId, baton: &mut Baton) {
        let Some(entry) = baton.books.allocations.get_mut(id) else { return };
        if entry.released {
            return;
        }
        entry.released = true;
        let released = Released {
            application: Arc::clone(&self.book.id),
            key: Arc::clone(&entry.key),
            uuid: Arc::clone(&entry.uuid),
            ending: Ending::Timeout,
            message: "execution timeout",
        };
        baton.notices.push(Notice::Released(Box::new(released)));
    }
}
