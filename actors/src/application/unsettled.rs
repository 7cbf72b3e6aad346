//! Placements whose predicate is answered later: from the node that holds them to the allocation,
//! or back (scheduler-interface chapter, 2.4–2.6).
//!
//! # The way of a placement
//! An offer picks a node as it always does; the node holds the amount and asks nobody. The placement
//! is booked *unsettled*: what is pending shrinks, application and queues count it as allocated, so
//! that order and quota see it, and the question leaves. It has no UUID, its application enters no
//! state, and no release can name it. The answer enters through the inbox and is an [`Op`] here:
//!
//! * passed by the first candidate: it is an allocation;
//! * passed by another: so it is, there, if that node still has room;
//! * failed: refunded, and its ask goes on with the nodes that have not refused ([`Try`]);
//! * presumed to fail, because nobody answered: the same, but no request for more machines;
//! * void, unanswered, or nothing to be had where it passed: refunded, and asked again.
//!
//! # Invariants
//! * Whoever takes a question out of `books.unsettled` settles its placement or refunds it, in that
//!   same visit.
//! * A placement that became impossible (its ask withdrawn or changed, its node gone) is cancelled in
//!   the step that made it so. An answer to it finds nothing.
//! * The RM is told of every question that was cancelled, and of every answer that counted on an
//!   assumption of its own and was not taken ([`Notice::Withdrawn`]).

use std::sync::Arc;

use monoceros_rules::decide::predicates::{OpenQuestion, SearchEnd, Try};
use monoceros_rules::nodes::NodeSlot;
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::order::waits::{Parked, WaitSet};
use monoceros_rules::work::allocations::AllocationId;
use monoceros_rules::work::asks::{AskSlot, ClassId, Standing};

use super::Application;
use super::ops::{Op, VisitEffects};
use crate::api::predicates::{
    AnswerSink, Invalidation, PredicateQuestion, QuestionId, Scope, Verdict,
};
use crate::step::{Baton, NodeWork, Notice, Placing};

/// Most different reasons that are kept of the refusals of one ask.
const REASONS_MAX: usize = 64;

impl Application {
    /// The node holds it: book it as unsettled and ask, and go on while nobody else comes first.
    pub(super) fn ask_later(&mut self, mut baton: Box<Baton>, placing: &Placing) {
        let priority = self.book.asks.priority();
        let may_run_soon = self.book.may_run_soon();
        self.book.asks.hold_one(placing.ask, placing.allocation);
        self.book.held(placing.allocation, &placing.resources);
        let starting = i64::from(self.book.may_run_soon()) - i64::from(may_run_soon);
        let nodes = std::iter::once(&placing.node).chain(&placing.alternatives);
        let nodes: Vec<_> = nodes.map(|slot| Arc::clone(baton.books.nodes.id(*slot))).collect();
        let growth = baton.books.nodes.growth();
        let placement = (self.slot, placing.allocation);
        let unsettled = &mut baton.books.unsettled;
        let number = unsettled.ask(placement, nodes.clone(), placing.required, growth);
        if let Some(entry) = baton.books.allocations.get_mut(placing.allocation) {
            entry.question = Some(number);
        }
        baton.offer.charge(&placing.resources);
        self.uses(&placing.resources, &mut baton);
        baton.tally.asked();
        tracing::debug!(
            application = %self.book.id,
            ask = %placing.key,
            question = number,
            candidates = nodes.len(),
            "predicate asked"
        );
        baton.notices.push(Notice::Asked(Box::new(PredicateQuestion {
            id: QuestionId(number),
            application: Arc::clone(&self.book.id),
            key: Arc::clone(&placing.key),
            nodes,
            allocate: true,
            answers: AnswerSink(Arc::clone(&baton.home)),
        })));
        self.go_on(baton, priority, &LedgerDelta { starting, ..LedgerDelta::default() });
    }

    /// Whether some nodes have refused the ask and others have still to be asked.
    pub(super) fn is_trying(&self, slot: AskSlot, baton: &Baton) -> bool {
        self.try_of(slot).is_some_and(|trying| trying.holds(baton.books.unsettled.era()))
    }

    fn try_of(&self, slot: AskSlot) -> Option<&Try> {
        match &self.book.asks.ask(slot).standing {
            Standing::Trying(trying) => Some(trying),
            Standing::Fresh | Standing::Resting => None,
        }
    }

    /// The nodes that the next question of a try names.
    pub(super) fn next_candidates(&self, slot: AskSlot, baton: &Baton) -> Vec<NodeSlot> {
        let ask = self.book.asks.ask(slot);
        match self.try_of(slot) {
            // There is no other node.
            Some(_) if ask.required_node().is_some() => Vec::new(),
            Some(trying) => trying.candidates(&baton.books.nodes, ask.resources()),
            None => Vec::new(),
        }
    }

    /// A try has nobody left to ask.
    pub(super) fn out_of_candidates(&mut self, baton: &mut Baton, class: ClassId, slot: AskSlot) {
        let judged = self.now(baton);
        let ask = self.book.asks.ask(slot);
        let books = &baton.books;
        let next = match self.try_of(slot) {
            Some(trying) if ask.required_node().is_none() => {
                trying.out_of_candidates(&books.unsettled, &books.nodes, ask.resources())
            }
            _ => SearchEnd::Nothing,
        };
        match next {
            SearchEnd::Anew => {
                self.book.asks.ask_mut(slot).standing = Standing::Fresh;
                self.book.asks.set_waits(class, WaitSet::Due);
            }
            SearchEnd::Returns => {
                let (refused, roomless) =
                    (Parked::refused(ask.resources(), judged), ask.resources());
                let parked =
                    Parked { roomless: Some(roomless.clone()), node_mark: judged.1, ..refused };
                let waits = WaitSet::Parked(Box::new(parked));
                let standing = &mut self.book.asks.ask_mut(slot).standing;
                if let Standing::Trying(trying) = standing
                    && trying.waits_again()
                {
                    // It is alone in its class already, and its deadline is armed.
                    self.book.asks.set_waits(class, waits);
                    return;
                }
                self.book.asks.single_out(slot, waits);
                baton.directory.refused.insert(self.slot);
                self.arm_retry(baton, slot);
            }
            SearchEnd::Nothing => {
                self.book.asks.ask_mut(slot).attempted = true;
                self.park_refused(baton, slot, judged);
            }
        }
    }

    /// The RM's answer to a question; `None`: it could not be asked.
    pub(super) fn answered(
        &mut self,
        QuestionId(number): QuestionId,
        verdict: Option<Verdict>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(question) = baton.books.unsettled.get(number) else { return };
        match verdict {
            Some(Verdict::Passed { position, scope, assumed })
                if position < question.candidates.len() =>
            {
                self.passed(number, (position, scope, assumed), baton, effects);
            }
            Some(Verdict::Failed { reasons }) => {
                baton.tally.predicate_failed();
                tracing::debug!(application = %self.book.id, question = number, ?reasons,
                    "refused by predicate");
                self.failed(number, reasons, baton, effects);
            }
            Some(Verdict::Presumed { reasons }) => {
                baton.tally.predicate_unanswered();
                tracing::debug!(application = %self.book.id, question = number, ?reasons,
                    "taken as refused by predicate for want of an answer");
                if let Some(slot) = self.failed(number, reasons, baton, effects) {
                    self.book.asks.ask_mut(slot).unanswered = true;
                }
            }
            Some(Verdict::Unanswered) => {
                baton.tally.predicate_unanswered();
                // Whoever has no time for an answer is to be asked less.
                baton.books.unsettled.window.answered(true);
                self.refund(number, baton, effects);
            }
            verdict => {
                tracing::error!(application = %self.book.id, question = number, ?verdict,
                    "no answer that makes sense, taken as a refusal for now");
                baton.tally.predicate_unanswered();
                if let Some((slot, question)) = self.refund(number, baton, effects) {
                    self.park_refused(baton, slot, (0, question.growth));
                }
            }
        }
    }

    /// One of the candidates passes: it becomes an allocation there, if nothing came between.
    fn passed(
        &mut self,
        number: u64,
        (position, scope, assumed): (usize, Scope, bool),
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let books = &baton.books;
        let Some(question) = books.unsettled.get(number) else { return };
        let node = books.nodes.slot_of(&question.candidates[position]);
        let is_void = node.is_none_or(|node| books.unsettled.is_void(question, scope, node));
        let takes_it = node.filter(|node| !is_void && takes(question, *node, baton));
        baton.books.unsettled.window.answered(is_void);
        baton.tally.predicate_passed(is_void);
        if let Some(node) = takes_it {
            self.settle_there(number, node, assumed, baton, effects);
            return;
        }
        let refunded = if assumed {
            // What it assumed does not hold, and its other answers may rest on it.
            let refunded = self.cancel(number, baton, effects);
            if let Some(node) = node {
                baton.books.unsettled.changed(node);
            }
            refunded
        } else {
            self.refund(number, baton, effects)
        };
        if let Some((slot, question)) = refunded.filter(|_| !is_void && position > 0) {
            let refused = &question.candidates[..position];
            self.trying(slot, question.growth, baton).passed_over(refused);
        }
    }

    fn settle_there(
        &mut self,
        number: u64,
        node: NodeSlot,
        assumed: bool,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(question) = baton.books.unsettled.take(number) else { return };
        let id = question.allocation;
        let Some(entry) = baton.books.allocations.get_mut(id) else { return };
        entry.question = None;
        let from = std::mem::replace(&mut entry.node, node);
        if from != node {
            let resources = entry.resources.clone();
            baton.node_work.push((from, NodeWork::Return(id, resources.clone())));
            baton.node_work.push((node, NodeWork::Hold(id, resources)));
        }
        if !assumed {
            baton.books.unsettled.changed(node);
        }
        let slot = self.book.asks.slot_of(&entry.key);
        let slot = slot.expect("an ask stays while a placement of it waits");
        let uuid = self.book.next_uuid(slot);
        self.book.asks.settle_one(slot, id);
        let allocated = self.bind(baton, slot, id, uuid);
        self.book.settled(id, baton.now_ns, &mut self.changes);
        effects.delta.running += self.tell_changes(baton);
        baton.notices.append(&mut effects.discharged);
        Self::tell_allocated(baton, allocated);
    }

    /// None of the candidates passes: its ask goes on with others. The ask, if it does.
    fn failed(
        &mut self,
        number: u64,
        reasons: Vec<(String, u32)>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> Option<AskSlot> {
        let (slot, question) = self.refund(number, baton, effects)?;
        baton.tally.refused();
        self.note_reasons(slot, reasons, baton);
        if self.book.asks.ask(slot).is_resting() {
            // Another instance of it has been through all nodes meanwhile.
            self.park_refused(baton, slot, (0, question.growth));
            return None;
        }
        let widest = baton.books.unsettled.widest;
        self.trying(slot, question.growth, baton).refused_by(&question.candidates, widest);
        Some(slot)
    }

    /// Keeps what predicates said of an ask, for the event when no node will have it.
    fn note_reasons(&mut self, slot: AskSlot, reasons: Vec<(String, u32)>, baton: &Baton) {
        if !baton.tracking.is_on() {
            return;
        }
        let noted = &mut self.book.asks.ask_mut(slot).reasons;
        for (reason, nodes) in reasons {
            // Whoever answers is outside: what it says must not grow without end.
            if noted.len() < REASONS_MAX || noted.contains_key(&reason) {
                let count = noted.entry(reason).or_default();
                *count = count.saturating_add(nodes);
            }
        }
    }

    /// The ask's try; where there is none, one that began at this growth of the node index.
    fn trying(&mut self, slot: AskSlot, growth: u64, baton: &mut Baton) -> &mut Try {
        baton.directory.refused.insert(self.slot);
        let era = baton.books.unsettled.era();
        let ask = self.book.asks.ask_mut(slot);
        let standing = &mut ask.standing;
        if !matches!(standing, Standing::Trying(trying) if trying.holds(era)) {
            *standing = Standing::Trying(Box::new(Try::new(era, growth)));
        }
        match standing {
            Standing::Trying(trying) => trying,
            Standing::Fresh | Standing::Resting => unreachable!("just begun"),
        }
    }

    /// Takes a placement back from its node and its queues: its ask waits as before.
    fn refund(
        &mut self,
        number: u64,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> Option<(AskSlot, OpenQuestion)> {
        let question = baton.books.unsettled.take(number)?;
        let id = question.allocation;
        let entry = baton.books.allocations.remove(id)?;
        let slot = self.book.asks.slot_of(&entry.key);
        let slot = slot.expect("an ask stays while a placement of it waits");
        self.book.refunded(id, &entry.resources);
        effects.delta.allocated.subtract(&entry.resources);
        let pending = self.book.asks.take_back(slot, id);
        effects.delta.pending.add(&pending);
        effects.loosens = true;
        effects.touched = true;
        baton.node_work.push((entry.node, NodeWork::Return(id, entry.resources)));
        Some((slot, question))
    }

    /// As [`Self::refund`], and its answer is not wanted any more.
    fn cancel(
        &mut self,
        number: u64,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> Option<(AskSlot, OpenQuestion)> {
        let refunded = self.refund(number, baton, effects)?;
        baton.tally.predicate_cancelled();
        baton.notices.push(Notice::Withdrawn(QuestionId(number)));
        Some(refunded)
    }

    /// Cancels these placements, as far as they are unsettled.
    pub(super) fn give_up(
        &mut self,
        ids: &[AllocationId],
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        for id in ids {
            let entry = baton.books.allocations.get(*id);
            let Some(number) = entry.and_then(|entry| entry.question) else { continue };
            let Some((_, question)) = self.cancel(number, baton, effects) else { continue };
            // The RM may have assumed any of these, and answered others on top of it.
            for candidate in &question.candidates {
                if let Some(node) = baton.books.nodes.slot_of(candidate) {
                    baton.books.unsettled.changed(node);
                }
            }
        }
    }

    /// Cancels every placement of an ask that waits for its predicate.
    pub(super) fn give_up_ask(
        &mut self,
        slot: AskSlot,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let unsettled = self.book.asks.ask(slot).unsettled.clone();
        self.give_up(&unsettled, baton, effects);
    }

    /// What predicates said may be wrong by now.
    pub(super) fn invalidated(
        &mut self,
        invalidation: &Invalidation,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let keys = &invalidation.keys;
        let is_meant = |key: &str| invalidation.all || keys.iter().any(|meant| meant == key);
        effects.touched |= self.book.asks.wake_refused(|ask| is_meant(&ask.key));
        if self.book.asks.any_refused() {
            baton.directory.refused.insert(self.slot);
        }
    }
}

/// Whether the placement can be settled on the node: it holds it and has not run out of what it
/// takes, or has room for it.
fn takes(question: &OpenQuestion, node: NodeSlot, baton: &Baton) -> bool {
    let (books, nodes) = (&baton.books, &baton.books.nodes);
    let Some(entry) = books.allocations.get(question.allocation) else { return false };
    let available = nodes.available(node);
    if entry.node == node {
        return !entry.resources.overdraws(available);
    }
    nodes.is_open(node)
        && available.holds(&entry.resources)
        && nodes.total(node).holds(&entry.resources)
}

impl Op {
    /// Whether another op for the same application may join it in one visit: it must not need what
    /// the visit leaves on nodes.
    pub(crate) fn may_share_a_visit(&self) -> bool {
        match self {
            Self::Answered { verdict: Some(Verdict::Passed { position, .. }), .. } => {
                *position == 0
            }
            _ => true,
        }
    }
}
