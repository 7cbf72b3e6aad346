//! Placements: the decisions about an offer that has reached the application are carried out here.
//!
//! The decision itself is a rule ([`monoceros_rules::decide::attempt`]). An offer that has reached
//! the application tries one class after the other. An ask that is to be placed is sent to a node,
//! which answers in the same step; an ask that cannot be placed is parked, with its obstacle
//! ([`super::parking`]). After a placement the application continues while no other comes first,
//! because an offer that went home after each decision would pass every queue again.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::allocations::Allocation;
use monoceros_rules::allocations::course::Course;
use monoceros_rules::asks::AskWish;
use monoceros_rules::decide::attempt::{Attempt, Candidate, Next, next};
use monoceros_rules::decide::lending::after_refusal;
use monoceros_rules::decide::reservations::Claimed;
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::pending::nominations::Preemptor;
use monoceros_rules::pending::reservations::End;
use monoceros_rules::values::epoch::Epoch;
use monoceros_rules::values::ids::{AllocationId, AskSlot, NodeSlot};
use monoceros_rules::waiting::{Phase, WaitSet};

use super::{Application, Blocked, events};
use crate::metrics::ActorKind;
use crate::node::NodeMail;
use crate::queue::Narrowed;
use crate::step::{Allocated, Baton, DueOp, Op, Placement, RowKey, StartTime, Takes};

/// Offers.
impl Application {
    /// Tries the asks that an offer in this phase may decide.
    pub(super) fn consider(&mut self, baton: Box<Baton>) {
        match baton.offer.phase {
            Phase::Reserved => self.place_reserved(baton),
            Phase::Pairs => self.pair(baton),
            Phase::Normal => self.place_any(baton),
        }
    }

    /// Tries one class after the other until there is a node to ask. Returns the offer to the leaf
    /// if there is none.
    fn place_any(&mut self, mut baton: Box<Baton>) {
        events::blocked(&mut self.blocked, Blocked::default(), &self.book, &mut baton);
        self.backoff = None;
        if self.book.undecided().is_some() {
            return self.place_bundle(baton);
        }
        let mut has_tried = false;
        loop {
            baton.tally.node_round_begins();
            match self.attempt(&baton, next) {
                Next::Place(candidate) => {
                    let ask = self.book.asks.ask(candidate.ask);
                    let candidate = baton.preferred_node(self.slot, ask, candidate);
                    return self.place(baton, candidate, None);
                }
                Next::Park(parking) => {
                    has_tried = true;
                    let claimed = self.park(&parking, &mut baton);
                    if claimed != Claimed::Asked {
                        self.would_preempt(parking.ask, parking.obstacle, &mut baton);
                    }
                    self.book.asks.note_parked(parking.ask, parking.obstacle, baton.now_ns);
                    if claimed != Claimed::Nothing {
                        return self.go_on_claimed(baton, claimed);
                    }
                }
                // If nothing was tried and no ask may use the offer (it came back after a
                // placement), this was no pass.
                Next::BackOff(_) if !has_tried && !self.may_use(&baton) => {
                    baton.tally.node_round_given_up();
                    let at = self.epoch(&baton);
                    self.declined.note(Phase::Normal, at);
                    break;
                }
                Next::BackOff(reached) => {
                    baton.tally.node_round_given_up();
                    self.back_off(reached, &mut baton);
                    break;
                }
                Next::Decline(at) => {
                    baton.tally.node_round_given_up();
                    self.declined.note(Phase::Normal, at);
                    break;
                }
            }
        }
        self.rise(baton);
    }

    /// Whether any of its asks may use the offer.
    fn may_use(&self, baton: &Baton) -> bool {
        self.attempt(baton, |attempt| attempt.asks.first(attempt.view).is_some())
    }

    /// Calls `look` with the present offer and all facts that the rules need.
    pub(super) fn attempt<T>(&self, baton: &Baton, look: impl FnOnce(&Attempt<'_>) -> T) -> T {
        self.attempt_in(baton.offer.phase, baton, look)
    }

    /// As [`Self::attempt`], as if the offer were in this phase.
    pub(super) fn attempt_in<T>(
        &self,
        phase: Phase,
        baton: &Baton,
        look: impl FnOnce(&Attempt<'_>) -> T,
    ) -> T {
        let frame = baton.offer.frames.last().expect("a leaf's offer has the leaf's frame");
        let view = frame.view(phase, &baton.books.nodes, &baton.books.queues);
        Narrowed::looking(self.lane.limited(), &view, &baton.books.trackers, |view| {
            let frame = baton.offer.frames.last().filter(|_| phase == Phase::Reserved);
            let frame = frame.filter(|frame| frame.with_nominated.is_some());
            look(&Attempt {
                application: self.slot,
                leaf: self.leaf_facts.slot.0,
                beside_nominations: frame.map(|frame| &frame.headroom),
                asks: &self.book.asks,
                owed: self.book.owed_groups(),
                gang: self.book.gang.as_deref(),
                view,
                lane: self.lane.limited(),
                books: &baton.books,
                backoff_asks: self.leaf_facts.config.settings.backoff_asks,
                asks_later: baton.offer.asks_later,
            })
        })
    }

    /// Returns the present epoch: the last loosening on the offer's path, and the last growth.
    pub(super) fn epoch(&self, baton: &Baton) -> Epoch {
        self.attempt(baton, |attempt| attempt.view.epoch())
    }

    /// Continues after a decision, while no other application comes first. `priority`: the highest
    /// pending priority before the decision. `delta`: the changes of the counts of running
    /// applications.
    pub(super) fn go_on(&mut self, mut baton: Box<Baton>, priority: i32, delta: &LedgerDelta) {
        baton.books.note_change();
        self.book.review_owed(&baton.books.allocations);
        let leaf = self.leaf_facts.slot;
        self.listed.review_allocating(&self.book, leaf, &mut baton.directory);
        baton.count_application(self.slot, self.book.counted());
        let frames = baton.offer.frames.len();
        if delta.running != 0 || delta.starting != 0 {
            baton.offer.charged.running += delta.running;
            baton.offer.charged.starting += delta.starting;
            // A queue that limits running applications must see that one more runs.
            let limited = baton.offer.frames.iter().position(|frame| frame.counts_running);
            if let Some(first) = limited {
                baton.offer.rise_to(first + 1);
            }
        }
        if baton.books.nodes.has_woken() {
            // Constraints may admit other asks to a node now, and these may come before all else.
            baton.offer.rise_to(0);
        }
        if baton.offer.phase == Phase::Normal && *self.pairs.waits() == WaitSet::Due {
            // A member may take a place now, which comes before anything else.
            baton.offer.rise_to(0);
        }
        let stays = baton.offer.level() >= frames && priority == self.book.asks.priority();
        let leads = || {
            let runner_up = baton.offer.runner_up.as_ref();
            runner_up.is_none_or(|other| {
                self.book
                    .sort_key(&self.leaf_facts.config)
                    .is_some_and(|key| RowKey::Application(key) < *other)
            })
        };
        if stays && leads() {
            self.consider(baton);
        } else {
            self.rise(baton);
        }
    }
}

/// Placements.
impl Application {
    /// Asks a node to hold one instance of an ask that fits its quotas, or that is to take the
    /// place of a placeholder. Every placement begins here.
    pub(super) fn place(
        &mut self,
        mut baton: Box<Baton>,
        candidate: Candidate,
        takes: Option<Takes>,
    ) {
        let slot = candidate.ask;
        if takes.is_none() {
            events::within_user_quota(&mut self.book, slot, &mut baton);
            events::within_quota(&mut self.book, slot, &mut baton);
            baton.displace_for(self.book.asks.ask(slot));
            if let Some(lent) = candidate.lent {
                baton.borrow(lent);
            }
            self.book.asks.begin_instance(slot);
        }
        baton.note_found((self.slot, self.book.asks.ask(slot)), &candidate, takes);
        let Candidate { node, alternatives, is_continued, .. } = candidate;
        let ask = self.book.asks.ask_mut(slot);
        baton.cancel_claim(ask);
        if !is_continued {
            ask.begin_again();
        }
        let spec = Arc::clone(&ask.spec);
        let open = ask.wish().map_or(usize::MAX, AskWish::open);
        let (created_ns, now_ns) = (ask.created_ns, baton.now_ns);
        let mut entry = Allocation::new(self.slot, Arc::clone(&spec), node, created_ns, now_ns);
        entry.follow(Course::of(&spec, now_ns, || baton.services.clock.now_ns()));
        let placement = Placement {
            application: self.slot,
            ask: slot,
            spec,
            node,
            alternatives,
            allocation: baton.books.allocations.insert(entry),
            open,
            takes,
            refusals: BTreeMap::new(),
        };
        ask_node(baton, node, placement);
    }

    /// Handles the refusal of a placement by its node, which has no room for it, or by the
    /// predicate: the next node in order is asked, if there is one.
    pub(super) fn refused(&mut self, mut baton: Box<Baton>, mut placement: Placement) {
        baton.tally.refused();
        baton.offer.refused += 1;
        let (slot, who) = (placement.ask, self.reserver(placement.ask));
        if let Some(takes) = placement.takes.filter(|takes| takes.in_place) {
            return self.pair_refused(baton, &placement, takes);
        }
        let is_pair = placement.takes.is_some();
        // If its own reserved node refuses the ask, the reserved nodes of other asks are next, and
        // all other nodes after those.
        let is_at_reserved = !is_pair && baton.books.reservations.is_at(who, placement.node);
        let (ask, leaf) = (self.book.asks.ask(slot), self.leaf_facts.slot.0);
        if !is_at_reserved
            && let Some((node, lent)) =
                after_refusal((leaf, ask), placement.node, is_pair, &baton.books)
        {
            if let Some(lent) = lent {
                baton.borrow(lent);
            }
            baton.note_next(ask, placement.node, node);
            placement.node = node;
            placement.alternatives.clear();
            if let Some(entry) = baton.books.allocations.get_mut(placement.allocation) {
                entry.node = node;
            }
            return ask_node(baton, node, placement);
        }
        baton.tally.node_round_over();
        if let Some(takes) = placement.takes {
            return self.pair_refused(baton, &placement, takes);
        }
        baton.books.allocations.remove(placement.allocation);
        let claimed = if is_at_reserved {
            self.book.asks.refused_at_reserved(slot, placement.refusals);
            baton.nomination_refused(Preemptor::Ask(who));
            Claimed::Nothing
        } else {
            self.book.asks.ask_mut(slot).refused_by_all(placement.refusals);
            self.park_refused_by_all(slot, &mut baton)
        };
        if claimed != Claimed::Nothing {
            self.go_on_claimed(baton, claimed);
        } else if baton.offer.level() >= baton.offer.frames.len() {
            self.consider(baton);
        } else {
            self.rise(baton);
        }
    }

    /// Books a placement that its node holds: it is an allocation. The application goes on while no
    /// other comes first.
    pub(super) fn book(&mut self, mut baton: Box<Baton>, placement: &Placement) {
        let (slot, resources) = (placement.ask, &placement.spec.resources);
        let uuid = self.book.next_uuid(slot);
        baton.note_placed(self.decided_for(), placement);
        let priority = self.book.asks.priority();
        let progress = self.book.progress();
        self.book.asks.take_one(slot);
        self.book.asks.ask_mut(slot).live.push(placement.allocation);
        let allocated = self.bind(&mut baton, slot, placement.allocation, uuid);
        baton.charge(resources);
        self.lane.charge(&self.book.id, resources, &mut baton.books.trackers);
        let is_placeholder = placement.spec.placeholder;
        self.book.booked(resources, is_placeholder, baton.now_ns, &mut self.changes);
        if is_placeholder {
            self.placeholder_settled(placement.allocation, &mut baton);
        }
        self.book.note_real(placement.spec.member_of());
        let running = self.tell_changes(&mut baton);
        let starting = self.moved_on(progress, &baton.books.nodes);
        baton.tell_allocated(allocated);
        self.go_on(baton, priority, &LedgerDelta { running, starting, ..LedgerDelta::default() });
    }

    /// Books a placement as unsettled: its node holds it and has asked the RM. The application goes
    /// on while no other comes first.
    pub(super) fn await_answer(
        &mut self,
        mut baton: Box<Baton>,
        placement: &Placement,
        question: u64,
    ) {
        debug_assert!(
            baton.books.unsettled.get(question).is_some(),
            "the node booked the question"
        );
        baton.note_on_its_way(self.decided_for(), placement);
        let priority = self.book.asks.priority();
        let progress = self.book.progress();
        let resources = &placement.spec.resources;
        self.book.asks.hold_one(placement.ask, placement.allocation);
        self.book.held(placement.allocation, resources);
        let starting = self.moved_on(progress, &baton.books.nodes);
        baton.charge(resources);
        self.lane.charge(&self.book.id, resources, &mut baton.books.trackers);
        self.go_on(baton, priority, &LedgerDelta { starting, ..LedgerDelta::default() });
    }

    /// Makes a placement an allocation, with its UUID and its deadline. Returns the notice of it
    /// for the RM.
    pub(super) fn bind(
        &mut self,
        baton: &mut Baton,
        ask: AskSlot,
        id: AllocationId,
        uuid: Arc<str>,
    ) -> Option<Allocated> {
        self.end_reservation(ask, End::Placed, baton);
        let course = baton.bind(id, &uuid);
        self.book.allocations.insert(uuid, id);
        if let Some(entry) = baton.books.allocations.get(id) {
            self.book.member_joined(entry);
        }
        if let Some(over) = StartTime::of(self.book.asks.ask(ask)) {
            let alarm = self.alarm(Op::Due(DueOp::StartTimeOver(over)));
            baton.effects.remind(baton.settings.start_retry.longest, alarm);
        }
        baton.keep_allocation(self.decided_for(), id);
        baton.books.nodes.settled(id);
        baton.tally.placed();
        baton.directory.counts(self.leaf_facts.slot).allocated += 1;
        let entry = baton.books.allocations.get(id)?;
        tracing::debug!(
            placement = %id,
            application = %self.book.id,
            ask = %entry.key(),
            node = %baton.books.nodes.id(entry.node),
            allocation = %entry.uuid,
            "placed"
        );
        Some(Allocated { course, ..baton.allocated(&self.owner, entry) })
    }
}

/// Hands the baton to the node that is to hold a placement.
fn ask_node(mut baton: Box<Baton>, node: NodeSlot, placement: Placement) {
    tracing::debug!(
        placement = %placement.allocation,
        application = %baton.directory.application_id(placement.application),
        ask = %placement.spec.key,
        node = %baton.books.nodes.id(node),
        "node asked"
    );
    baton.tally.post(ActorKind::Node);
    let address = Arc::clone(&baton.directory.nodes[node]);
    address.hand(baton, NodeMail::Place(placement));
}
