//! Preemption, at both ends: asks of this application, or its gang, that would preempt others, and
//! allocations of it that are preempted. For people, `docs/preemption.md`.
//!
//! Rules decide whether victims may be searched for a preemptor ([`Preemptors`]) and when its turn
//! is ([`Turn`]). Preemptors whose turn it is are put on the baton, and the partition searches
//! victims when the step is home (`partition/surveys/victims.rs`). The outcome comes back as an
//! order to each application that it concerns.
//!
//! # Invariant
//! A preempted allocation holds its amount until its RM confirms that it is gone, or reports that
//! it stays; it counts as *preempting* in every queue of its path exactly as long.

use std::sync::Arc;

use monoceros_rules::allocations::{Allocation, Grounds, Leaving};
use monoceros_rules::asks::preemption::{NoPreemption, Tries};
use monoceros_rules::decide::preemption::{
    Chosen, Later, Loser, ParkedRequest, Preemptors, STAYS_FOR, Turn,
};
use monoceros_rules::limits::JoinedLane;
use monoceros_rules::pending::nominations::Preemptor;
use monoceros_rules::values::ids::{AllocationId, AskSlot};
use monoceros_rules::values::instant::after;
use monoceros_rules::waiting::WaitSet;
use monoceros_rules::waiting::obstacle::Obstacle;

use super::Application;
use super::effects::VisitEffects;
use crate::events::{Event, EventKind, Message, Preempted};
use crate::step::{
    Baton, Ending, NoVictims, Notice, Op, PreemptionOp, PreemptionRequest, Released,
};

/// Searches for victims.
impl Application {
    /// Requests preemption for an ask that was parked, if it may preempt others. Victims are
    /// searched when the step is home.
    pub(super) fn would_preempt(&mut self, slot: AskSlot, obstacle: Obstacle, baton: &mut Baton) {
        let (ask, who) = (self.book.asks.ask(slot), self.reserver(slot));
        match ParkedRequest::of(ask, who, obstacle, &baton.books) {
            Some(ParkedRequest::ForGuarantee { nodes_were_tried }) => {
                self.wish(Preemptor::Ask(who), nodes_were_tried, baton);
            }
            Some(ParkedRequest::ForNode(node)) => {
                baton.effects.preemptors.push(PreemptionRequest::ForNode(who, node));
            }
            None => {}
        }
    }

    /// Returns the view of its asks and its gang as preemptors.
    pub(crate) fn preemptors<'a>(&'a self, baton: &'a Baton) -> Preemptors<'a> {
        let mut queues = baton.directory.upward(self.leaf_facts.slot);
        Preemptors {
            book: &self.book,
            slot: self.slot,
            leaf: self.leaf_facts.slot.0,
            settings: baton.directory.settings(self.leaf_facts.slot),
            is_guaranteed: queues.any(|facts| facts.config.guaranteed.is_some()),
            is_enabled: baton.settings.preempts,
            lane: self.lane.limited(),
            counts: self.lane.lane().is_some_and(JoinedLane::counts),
            gang: self.bundle.as_deref(),
            books: &baton.books,
            now_ns: baton.now_ns,
        }
    }

    fn tries_mut(&mut self, who: Preemptor) -> &mut Tries {
        match who {
            Preemptor::Ask(of) => {
                let search = self.book.asks.ask_mut(of.ask).search.make();
                search.tries.get_or_insert_default()
            }
            Preemptor::Gang(_) => self.bundle.get_or_insert_default().tries_mut(),
        }
    }

    /// Gives a preemptor that was not placed its turn: when this step is home, later, or never.
    pub(super) fn wish(&mut self, who: Preemptor, nodes_were_tried: bool, baton: &mut Baton) {
        match self.preemptors(baton).turn(who, nodes_were_tried) {
            Turn::Now => {
                self.tries_mut(who).begin(baton.books.changes(), baton.now_ns);
                if let Some(turns) = &mut self.turns {
                    turns.forget(who);
                }
                let request = PreemptionRequest::ForGuarantee { who, nodes_were_tried };
                baton.effects.preemptors.push(request);
            }
            Turn::Later(later) => {
                self.turns.get_or_insert_default().put_off(who, later);
                self.await_turns(baton);
            }
            Turn::Never => {}
        }
    }

    /// Sets the alarm for the next turn of its preemptors, and lists the application in the
    /// directory if one of them waits for a change.
    fn await_turns(&mut self, baton: &mut Baton) {
        let Some(turns) = &mut self.turns else { return };
        if turns.is_empty() {
            self.turns = None;
            return;
        }
        if turns.wait_for_change() {
            baton.directory.preempt_later.insert(self.slot);
        }
        if let Some(at_ns) = turns.due_to_arm() {
            let alarm = self.alarm(Op::Preemption(PreemptionOp::MayPreempt { at_ns: Some(at_ns) }));
            baton.effects.remind_at(at_ns, baton.now_ns, alarm);
        }
    }

    /// Has all pending asks tried again after a change of the leaf's settings. Each preemptor gets
    /// its turn by the new settings.
    pub(super) fn search_victims_again(&mut self, baton: &mut Baton) {
        self.book.asks.wake_all(&baton.books.nodes);
        if let Some(bundle) = self.bundle.as_mut().filter(|_| self.in_flight.is_none()) {
            bundle.make_due();
        }
        if let Some(turns) = &mut self.turns {
            turns.all_at_change();
            baton
                .effects
                .revisit(self.slot, Op::Preemption(PreemptionOp::MayPreempt { at_ns: None }));
        }
    }

    /// Gives their turn to the preemptors that are due at this time, ns since the epoch; `None`: to
    /// those that wait for a change.
    pub(super) fn look_for_victims(
        &mut self,
        at_ns: Option<i64>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(turns) = &mut self.turns else { return };
        for (who, nodes_were_tried) in turns.take_due(at_ns, baton.now_ns) {
            if !self.preemptors(baton).is_waiting(who) {
                continue;
            }
            if let Preemptor::Ask(of) = who
                && self.book.asks.ask(of.ask).required_node.is_some()
            {
                effects.touched |= self.book.asks.try_again(of.ask);
                continue;
            }
            self.tries_mut(who).waits_for_nominations = false;
            self.wish(who, nodes_were_tried, baton);
        }
        self.await_turns(baton);
    }

    /// Notes that no victims were found for the ask with this key, or for the gang. Does nothing if
    /// the preemptor is not pending any more.
    pub(super) fn not_preempted(&mut self, key: Option<&str>, found: NoVictims, baton: &mut Baton) {
        let NoVictims { why, nodes_were_tried, changes, bound_ends_ns } = found;
        let Some(who) = self.preemptors(baton).named(key) else { return };
        tracing::debug!(application = %self.book.id, ask = key, %why, "nothing is preempted");
        if let Preemptor::Ask(of) = who
            && self.book.asks.ask(of.ask).required_node.is_some()
        {
            return self.node_not_cleared(of.ask, why, bound_ends_ns, baton);
        }
        let (tries, nominations) = (self.tries_mut(who), &baton.books.nominations);
        let any_nominated = !nominations.is_empty();
        if tries.found_nothing(why, bound_ends_ns, any_nominated, (changes, baton.now_ns)) {
            baton.directory.wait_for_nominations(self.slot, nominations.len());
        }
        self.wish(who, nodes_were_tried, baton);
    }

    /// Notes that no victims are evicted from the node that an ask requires. The ask waits for that
    /// node; after a refusal by the RM, whose answer may change at any time, it is tried again
    /// after a while.
    fn node_not_cleared(
        &mut self,
        slot: AskSlot,
        why: NoPreemption,
        bound_ends_ns: Option<i64>,
        baton: &mut Baton,
    ) {
        if let Some(node) = &self.book.asks.ask(slot).required_node {
            baton.directory.named.enter(node, self.slot);
        }
        if why == NoPreemption::Refused
            && let Some(class) = self.book.asks.class_of(slot)
        {
            let waits = self.book.asks.waits_of(class).clone();
            self.book.asks.single_out(slot, waits);
            self.arm_retry(slot, baton);
        }
        let who = Preemptor::Ask(self.reserver(slot));
        let by_now = (baton.books.changes(), baton.now_ns);
        let not_cleared = self.tries_mut(who).not_cleared(why, bound_ends_ns, by_now);
        if let Some(at_ns) = not_cleared.again_ns {
            let later = Later { at_ns: Some(at_ns), at_change: false, nodes_were_tried: true };
            self.turns.get_or_insert_default().put_off(who, later);
            self.await_turns(baton);
        }
        if not_cleared.is_event {
            let ask = self.book.asks.ask(slot);
            let node = ask.required_node.clone().unwrap_or_else(|| Arc::from(""));
            let event = |at| Event::about_ask(&self.book, EventKind::NodeNotCleared, ask, at);
            baton.happens(|at| event(at).with_message(Message::NodeNotCleared(node)));
        }
    }

    /// Reserves this node for an ask whose victims are evicted from it. The nomination exists
    /// already.
    pub(super) fn nominated(
        &mut self,
        key: &str,
        node: &str,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let (Some(slot), Some(node)) =
            (self.book.asks.slot_of(key), baton.books.nodes.slot_of(node))
        else {
            debug_assert!(false, "the ask and its node were looked at in this step");
            return;
        };
        let who = self.reserver(slot);
        baton.cancel_claim(self.book.asks.ask_mut(slot));
        baton.displace_for(self.book.asks.ask(slot));
        let reserved = baton.books.reservations.node_of(who);
        if reserved.is_some_and(|reserved| reserved != node) {
            baton.move_reservation(who);
            self.book.asks.unreserve(slot);
        }
        if reserved != Some(node) {
            baton.keep_nomination(self.decided_for(), &self.book.asks.ask(slot).spec, node);
            self.reserve(slot, node, WaitSet::Due, baton);
        }
        let books = &mut baton.books;
        books.reservations.note_preempted(&mut books.nodes, who);
        self.lane.start(&self.book.id, &mut baton.books.trackers);
        effects.touched = true;
    }
}

/// Allocations that are preempted.
impl Application {
    /// Returns the view of the application as one whose allocations may be preempted.
    pub(crate) fn loser<'a>(&'a self, baton: &'a Baton) -> Loser<'a> {
        let bounds = &baton.directory.settings(self.leaf_facts.slot).eviction;
        let (book, books, now_ns) = (&self.book, &baton.books, baton.now_ns);
        Loser { book, slot: self.slot, bounds, books, now_ns }
    }

    /// Has the RM end these allocations, which are preempted. Held places end at once: the RM does not
    /// know of them.
    pub(super) fn preempted(
        &mut self,
        ids: &[AllocationId],
        (grounds, chosen): (&Arc<Grounds>, &[Chosen]),
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let mut lost_holds = false;
        let short = self.loser(baton).left_short_by(ids);
        for id in ids {
            let Some(entry) = baton.books.allocations.get_mut(*id) else { continue };
            if entry.leaving.is_some() {
                continue;
            }
            if entry.is_hold() {
                lost_holds = true;
                self.end_hold(*id, EventKind::AllocationPreempted, None, baton, effects);
                continue;
            }
            entry.preempt(grounds);
            effects.delta.preempting.add(entry.resources());
            effects.touched = true;
            let spec = Arc::clone(&entry.spec);
            let leaves_short = spec.member_of().is_some_and(|group| short.contains(group));
            let why = Preempted { grounds: Arc::clone(grounds), leaves_short };
            let released = Released::of(&self.book.id, entry, Ending::Preempted, why.to_string());
            tracing::debug!(placement = %id, application = %self.book.id, allocation = %entry.uuid,
                %why, "preempted");
            baton.effects.notify(Notice::Released(Box::new(released)));
            let chosen = chosen.iter().find(|chosen| chosen.victim == *id);
            baton.keep_eviction(self.decided_for(), *id, chosen, grounds);
            effects.happens(baton, |at| {
                let event = Event::of(EventKind::VictimChosen, &spec.key, at);
                let event = event.referring(&self.book.id).of_pod(spec.pod());
                event.amount(&spec.resources).with_message(Message::Preempted(why))
            });
            if spec.placeholder
                && let Some(entry) = baton.books.allocations.get(*id)
            {
                self.book.take_free(*id, entry);
            }
        }
        if lost_holds {
            self.holds_lost(baton, effects);
        }
    }

    /// Keeps an allocation that was preempted, because its RM reports that it stays. It is
    /// protected for a while, and its preemptor does not get its capacity.
    pub(super) fn stay(&mut self, id: AllocationId, baton: &mut Baton, effects: &mut VisitEffects) {
        let until_ns = after(baton.now_ns, STAYS_FOR);
        let Some(entry) = baton.books.allocations.known_mut(id) else { return };
        if !entry.stay(until_ns) {
            return;
        }
        effects.delta.preempting.subtract(entry.resources());
        effects.touched = true;
        tracing::debug!(placement = %id, application = %self.book.id, allocation = %entry.uuid,
            "preempted, and stays");
        if entry.spec.placeholder {
            self.placeholder_settled(id, baton);
        }
        baton.victim_stays(id);
    }
}

impl VisitEffects {
    /// Subtracts an allocation that has ended from the preempting amount, if it was a victim.
    pub(super) fn victim_left(&mut self, id: AllocationId, entry: &Allocation, baton: &mut Baton) {
        if entry.leaving == Some(Leaving::Preempted) {
            self.delta.preempting.subtract(entry.resources());
            baton.victim_left(id, entry.node);
        }
    }
}
