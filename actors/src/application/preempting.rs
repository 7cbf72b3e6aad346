//! Asks of this application, or its gang, that would preempt others: `docs/preemption.md`.
//!
//! Rules decide whether a preemptor may look for victims ([`Preemptors`]) and when its turn is ([`Turn`]).
//! Those whose turn it is are put on the baton, and the partition looks for victims when the step is home
//! (`partition/surveys/victims.rs`). The outcome comes back as an order to each application that it
//! concerns.

use std::sync::Arc;

use monoceros_rules::asks::preemption::{NoPreemption, TRY_AGAIN, Tries};
use monoceros_rules::decide::gang::GangSearch;
use monoceros_rules::decide::preemption::{Kind, Later, Preemptors, Turn};
use monoceros_rules::limits::JoinedLane;
use monoceros_rules::pending::nominations::Preemptor;
use monoceros_rules::queues::QueueSettings;
use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::values::ids::AskSlot;
use monoceros_rules::values::instant::after;
use monoceros_rules::waiting::WaitSet;
use monoceros_rules::waiting::obstacle::Obstacle;

use super::Application;
use super::effects::VisitEffects;
use crate::events::{Event, EventKind, Message};
use crate::step::{Baton, NoVictims, Op, PreemptionRequest};

/// Looking for victims.
impl Application {
    /// An ask was parked: if it may preempt others, victims are looked for when the step is home.
    pub(super) fn would_preempt(&mut self, slot: AskSlot, obstacle: Obstacle, baton: &mut Baton) {
        if self.book.asks.ask(slot).required_node.is_some() {
            return self.would_clear_its_node(slot, obstacle, baton);
        }
        let nodes_were_tried = match obstacle {
            Obstacle::Quota => false,
            Obstacle::NoNode | Obstacle::Constraints | Obstacle::Refused => true,
            _ => return,
        };
        self.wish(Preemptor::Ask(self.reserver(slot)), nodes_were_tried, baton);
    }

    /// An ask found no room on the node that it requires: what is less important leaves the node.
    fn would_clear_its_node(&mut self, slot: AskSlot, obstacle: Obstacle, baton: &mut Baton) {
        let (ask, who) = (self.book.asks.ask(slot), self.reserver(slot));
        if obstacle != Obstacle::RequiredNode || ask.starts().is_some() {
            return;
        }
        // While others leave for it nobody else does.
        let is_nominated = baton.books.nominations.of(Preemptor::Ask(who)).is_some();
        let node = ask.required_node.as_ref().and_then(|id| baton.books.nodes.slot_of(id));
        if let Some(node) = node.filter(|_| !is_nominated) {
            baton.effects.preemptors.push(PreemptionRequest::ForNode(who, node));
        }
    }

    /// What an ask wants, in all and of nodes, if it is pending.
    pub(crate) fn pending(&self, slot: AskSlot) -> Option<(Arc<AskSpec>, Kind)> {
        let ask = self.book.asks.find(slot).filter(|ask| ask.outstanding > 0)?;
        Some((Arc::clone(&ask.spec), Kind::of(ask)))
    }

    /// Its asks, and its gang, as preemptors.
    pub(crate) fn preemptors<'a>(&'a self, baton: &'a Baton) -> Preemptors<'a> {
        let mut queues = baton.directory.upward(self.leaf_facts.slot);
        let tries = |bundle: &'a GangSearch| (bundle.declared_ns(), bundle.tries());
        Preemptors {
            book: &self.book,
            slot: self.slot,
            leaf: self.leaf_facts.slot.0,
            settings: self.leaf_settings(baton),
            is_guaranteed: queues.any(|facts| facts.config.guaranteed.is_some()),
            is_enabled: baton.settings.preempts,
            lane: self.limited_lane(),
            counts: self.lane.as_ref().is_some_and(JoinedLane::counts),
            gang: self.bundle.as_deref().map(tries),
            books: &baton.books,
            now_ns: baton.now_ns,
        }
    }

    /// What its leaf is set to now: what it took over of that itself may be older, since a reload that
    /// changes nothing of how applications are ordered does not visit them.
    pub(super) fn leaf_settings<'a>(&self, baton: &'a Baton) -> &'a QueueSettings {
        &baton.directory.queue(self.leaf_facts.slot).facts.config.settings
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

    /// Gives a preemptor that was not placed its turn: now, when the step is home, or later.
    pub(super) fn wish(&mut self, who: Preemptor, nodes_were_tried: bool, baton: &mut Baton) {
        let preemptors = self.preemptors(baton);
        let bound_ends_ns = preemptors.tries(who).and_then(|tries| tries.bound_ends_ns);
        match Turn::of(&preemptors.may_try(who), bound_ends_ns, nodes_were_tried) {
            Turn::Now => {
                let tries = self.tries_mut(who);
                tries.last = Some((baton.now_ns, baton.books.changes()));
                (tries.why, tries.waits_for_nominations, tries.bound_ends_ns) = (None, false, None);
                if let Some(turns) = &mut self.turns {
                    turns.forget(who);
                }
                baton
                    .effects
                    .preemptors
                    .push(PreemptionRequest::ForGuarantee { who, nodes_were_tried });
            }
            Turn::Later(later) => self.put_off(who, later, baton),
            Turn::Never => {}
        }
    }

    /// Lets a preemptor look later.
    fn put_off(&mut self, who: Preemptor, later: Later, baton: &mut Baton) {
        self.turns.get_or_insert_default().put_off(who, later);
        self.await_turns(baton);
    }

    /// Has the application reminded of the next turn of its preemptors.
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
            let alarm = self.alarm(Op::MayPreempt { at_ns: Some(at_ns) });
            baton.effects.remind_at(at_ns, baton.now_ns, alarm);
        }
    }

    /// The leaf is set otherwise: whoever waits is tried again, and it is found out anew who may look for
    /// victims, and when.
    pub(super) fn look_for_victims_anew(&mut self, baton: &mut Baton) {
        self.book.asks.wake_all(&baton.books.nodes);
        if let Some(bundle) = self.bundle.as_mut().filter(|_| self.in_flight.is_none()) {
            bundle.make_due();
        }
        if let Some(turns) = &mut self.turns {
            turns.all_at_change();
            baton.effects.revisit(self.slot, Op::MayPreempt { at_ns: None });
        }
    }

    /// Has the preemptors look whose turn comes at this time, ns since the epoch; `None`: with a change.
    pub(super) fn look_for_victims(
        &mut self,
        at_ns: Option<i64>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(turns) = &mut self.turns else { return };
        for (who, nodes_were_tried) in turns.take_due(at_ns, baton.now_ns) {
            if !self.is_asking(who) {
                continue;
            }
            if let Preemptor::Ask(of) = who
                && self.book.asks.ask(of.ask).required_node.is_some()
            {
                self.try_again(of.ask, effects);
                continue;
            }
            self.tries_mut(who).waits_for_nominations = false;
            self.wish(who, nodes_were_tried, baton);
        }
        self.await_turns(baton);
    }

    /// Whether one waits in vain still. What is due is tried anyway, and wishes again if that is in
    /// vain.
    fn is_asking(&self, who: Preemptor) -> bool {
        match who {
            Preemptor::Ask(of) => {
                let asks = &self.book.asks;
                let class = asks.find(of.ask).and_then(|_| asks.class_of(of.ask));
                class.is_some_and(|class| *asks.waits_of(class) != WaitSet::Due)
            }
            Preemptor::Gang(_) => {
                let bundle =
                    self.bundle.as_ref().filter(|_| self.book.undecided_bundle().is_some());
                bundle.is_some_and(|bundle| !bundle.is_due())
            }
        }
    }

    /// No victims were found for the ask with this key, or for the gang.
    pub(super) fn not_preempted(&mut self, key: Option<&str>, found: NoVictims, baton: &mut Baton) {
        let NoVictims { why, nodes_were_tried, changes, bound_ends_ns } = found;
        let slot = key.and_then(|key| self.book.asks.slot_of(key));
        let slot = slot.filter(|slot| self.book.asks.class_of(*slot).is_some());
        let who = match slot {
            Some(slot) => Preemptor::Ask(self.reserver(slot)),
            None if key.is_none() && self.book.undecided_bundle().is_some() => {
                Preemptor::Gang(self.slot)
            }
            // It is not pending any more.
            None => return,
        };
        tracing::debug!(application = %self.book.id, ask = key, %why, "nothing is preempted");
        if let Some(slot) = slot.filter(|slot| self.book.asks.ask(*slot).required_node.is_some()) {
            return self.node_not_cleared(slot, why, bound_ends_ns, baton);
        }
        let waits = why == NoPreemption::NodesAreNominated && !baton.books.nominations.is_empty();
        let last = (!waits).then_some((baton.now_ns, changes));
        let tries = self.tries_mut(who);
        (tries.waits_for_nominations, tries.why, tries.last) = (waits, Some(why), last);
        tries.bound_ends_ns = bound_ends_ns;
        if waits {
            baton.directory.wait_for_nominations(self.slot, baton.books.nominations.len());
        }
        self.wish(who, nodes_were_tried, baton);
    }

    /// What an ask waits for may have come: it is tried with the next offer.
    fn try_again(&mut self, slot: AskSlot, effects: &mut VisitEffects) {
        if self.book.asks.ask(slot).is_reserved() {
            effects.touched |= self.book.asks.wake_at_reserved(slot);
        } else if let Some(class) = self.book.asks.class_of(slot) {
            self.book.asks.set_waits(class, WaitSet::Due);
            effects.touched = true;
        }
    }

    /// Nothing leaves the node that an ask requires: that is told, unless it was a moment ago. The ask
    /// is tried again when something changes there, also where it does not fit a full cluster; a while
    /// later if it was the RM that refused, or something that is not of the node; and when a bound ends
    /// that keeps somebody there.
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
        let waits = matches!(
            why,
            NoPreemption::OverLimits | NoPreemption::OverMaximum | NoPreemption::RoomIsComing
        );
        let changes = baton.books.changes();
        let tries = self.book.asks.ask_mut(slot).search.make().tries.get_or_insert_default();
        tries.why = Some(why);
        let who = Preemptor::Ask(self.reserver(slot));
        let at_ns = if waits { Some(after(baton.now_ns, TRY_AGAIN)) } else { bound_ends_ns };
        if at_ns.is_some() {
            // The ask is tried again then, though nothing may change on its node.
            let later = Later { at_ns, at_change: false, nodes_were_tried: true };
            self.put_off(who, later, baton);
        }
        if waits {
            return;
        }
        let tries = self.tries_mut(who);
        let again_ns = i64::try_from(TRY_AGAIN.as_nanos()).unwrap_or(i64::MAX);
        if tries.last.is_some_and(|(at_ns, _)| baton.now_ns < at_ns.saturating_add(again_ns)) {
            return;
        }
        tries.last = Some((baton.now_ns, changes));
        let ask = self.book.asks.ask(slot);
        let node = ask.required_node.clone().unwrap_or_else(|| Arc::from(""));
        let event = |at| Event::about_ask(&self.book, EventKind::NodeNotCleared, ask, at);
        baton.happens(|at| event(at).with_message(Message::NodeNotCleared(node)));
    }

    /// Reserves this node for an ask whose victims leave it. The nomination exists already.
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
        self.cancel_claim(slot, baton);
        baton.displace_for(self.book.asks.ask(slot));
        let reserved = baton.books.reservations.node_of(self.reserver(slot));
        if reserved.is_some_and(|reserved| reserved != node) {
            baton.move_reservation(self.reserver(slot));
            self.book.asks.unreserve(slot);
        }
        if reserved != Some(node) {
            baton.keep_nomination(self.decided_for(), &self.book.asks.ask(slot).spec, node);
            self.reserve(slot, node, WaitSet::Due, baton);
        }
        let books = &mut baton.books;
        books.reservations.note_preempted(&mut books.nodes, self.reserver(slot));
        self.counts_as_running(baton);
        effects.touched = true;
    }
}
