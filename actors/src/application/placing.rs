//! An offer becomes placements: what the attempt decides is carried out here.
//!
//! The decision itself is a rule ([`monoceros_rules::decide::attempt`]). An offer that has reached
//! the application tries one class after the other. An ask that is to be placed goes to a node,
//! which answers in the same step; one that cannot be placed is parked, with the reason. After a
//! placement the application goes on while no other comes first, because an offer that went home
//! after each decision would pass every queue again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use monoceros_rules::allocations::Allocation;
use monoceros_rules::allocations::course::Course;
use monoceros_rules::asks::AskWish;
use monoceros_rules::decide::attempt::{Attempt, Candidate, Next, Parking, next};
use monoceros_rules::decide::explain::QueueRoom;
use monoceros_rules::decide::lending::{Lent, Loan};
use monoceros_rules::decide::reservations::Claimed;
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::pending::reservations::End;
use monoceros_rules::values::epoch::Epoch;
use monoceros_rules::values::ids::{AllocationId, AskSlot, ClassId, NodeSlot};
use monoceros_rules::waiting::obstacle::{Obstacle, refused};
use monoceros_rules::waiting::{Phase, WaitSet};

use super::effects::VisitEffects;
use super::{Application, Blocked, events};
use crate::api::callback::Preferences;
use crate::metrics::ActorKind;
use crate::node::NodeMail;
use crate::step::{Alarm, Allocated, Baton, Notice, Op, Placement, Takes};

/// Nodes that are compared where an RM prefers some for an ask.
const NODES_COMPARED: usize = 1_000;

impl Application {
    /// An offer came here: what it looks for is tried.
    pub(super) fn consider(&mut self, baton: Box<Baton>) {
        match baton.offer.phase {
            Phase::Reserved => self.place_reserved(baton),
            Phase::Pairs => self.pair(baton),
            Phase::Normal => self.place_any(baton),
        }
    }

    /// Tries one class after the other until there is a node to ask, or gives the offer back.
    fn place_any(&mut self, mut baton: Box<Baton>) {
        self.set_blocked(Blocked::default(), &mut baton);
        self.backoff = None;
        if self.book.undecided().is_some() {
            return self.place_bundle(baton);
        }
        let mut has_tried = false;
        loop {
            baton.tally.node_round_begins();
            match self.attempt(&baton, next) {
                Next::Place(candidate) => {
                    let candidate = self.preferred(candidate, &mut baton);
                    return self.send(baton, candidate);
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
                // An offer that came here after a placement, and not for what waits, is no pass.
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

    /// The same with the node that the RM prefers for the ask, where it prefers any.
    fn preferred(&self, candidate: Candidate, baton: &mut Baton) -> Candidate {
        let ask = self.book.asks.ask(candidate.ask);
        let has_choice = ask.required_node.is_none() && ask.constraint.is_none();
        if baton.offer.asks_later || !has_choice {
            return candidate;
        }
        let only_equal = match baton.preferences(&ask.key) {
            Preferences::None => return candidate,
            Preferences::AmongEqualNodes => true,
            Preferences::AmongAllNodes => false,
        };
        let nodes = &baton.books.nodes;
        if ask.has_failed_on(nodes.id(candidate.node)) {
            // Those are the last resort, in their order.
            return candidate;
        }
        let request = ask.request_elsewhere().unwrap_or_else(|| ask.request());
        let nodes = nodes.from(candidate.node, &request, only_equal, NODES_COMPARED);
        match baton.preferred((self.slot, &ask.key), &nodes) {
            Some(at) if at > 0 => {
                let preferred_to = Some((candidate.node, at));
                Candidate { node: nodes[at], preferred_to, ..candidate }
            }
            // It is the first, or all of them refuse it, as the search will find.
            _ => candidate,
        }
    }

    /// Whether any of its asks may use the offer.
    fn may_use(&self, baton: &Baton) -> bool {
        self.attempt(baton, |attempt| attempt.asks.first(attempt.view).is_some())
    }

    /// Sends an ask that fits its quotas to a node.
    pub(super) fn send(&mut self, mut baton: Box<Baton>, candidate: Candidate) {
        events::within_user_quota(&mut self.book, candidate.ask, &mut baton);
        events::within_quota(&mut self.book, candidate.ask, &mut baton);
        baton.displace_for(self.book.asks.ask(candidate.ask));
        if let Some(lent) = candidate.lent {
            Self::borrow(lent, &mut baton);
        }
        let asks = &mut self.book.asks;
        if asks.ask(candidate.ask).may_not_reserve()
            && let Some(class) = asks.class_of(candidate.ask)
        {
            // Its next instance begins as if no node had refused to be reserved.
            asks.set_waits(class, WaitSet::Due);
        }
        self.place(baton, candidate, None);
    }

    /// Looks at the offer that is here with all that the rules want to see.
    pub(super) fn attempt<T>(&self, baton: &Baton, look: impl FnOnce(&Attempt<'_>) -> T) -> T {
        self.attempt_in(baton.offer.phase, baton, look)
    }

    /// As an offer in this phase would be looked at.
    pub(super) fn attempt_in<T>(
        &self,
        phase: Phase,
        baton: &Baton,
        look: impl FnOnce(&Attempt<'_>) -> T,
    ) -> T {
        self.looking(phase, baton, |view| {
            let frame = baton.offer.frames.last().filter(|_| phase == Phase::Reserved);
            let frame = frame.filter(|frame| frame.with_nominated.is_some());
            look(&Attempt {
                application: self.slot,
                leaf: self.leaf_facts.slot.0,
                beside_nominations: frame.map(|frame| &frame.headroom),
                asks: &self.book.asks,
                owed: &self.owed,
                gang: self.book.gang.as_deref(),
                view,
                lane: self.limited_lane(),
                books: &baton.books,
                backoff_asks: self.leaf_facts.config.settings.backoff_asks,
                asks_later: baton.offer.asks_later,
            })
        })
    }

    /// Up to where things were loosened when the offer came here.
    pub(super) fn epoch(&self, baton: &Baton) -> Epoch {
        self.attempt(baton, |attempt| attempt.view.epoch())
    }

    /// Parks an ask and its class until what may cure the obstacle has happened. An ask that found
    /// no node may reserve one.
    pub(super) fn park(&mut self, parking: &Parking, baton: &mut Baton) -> Claimed {
        let Parking { class, ask: slot, obstacle } = *parking;
        if obstacle.is_before_nodes() {
            baton.tally.node_round_given_up();
        } else {
            baton.tally.node_round_over();
        }
        // What was noted of an earlier search is not about this ask.
        let _ = baton.decisions.search();
        if tracing::enabled!(tracing::Level::DEBUG) {
            self.log_why(parking, baton);
        }
        let waits = self
            .attempt(baton, |attempt| obstacle.waits(&attempt.asks.ask(slot).spec, attempt.view));
        let waits = self.or_to_borrow(slot, waits, baton);
        match obstacle {
            Obstacle::Placeholders | Obstacle::GivesWay => {
                self.book.asks.set_waits(class, waits);
                return Claimed::Nothing;
            }
            Obstacle::Limits => {
                events::over_user_quota(self.limited_lane(), &mut self.book, slot, baton);
                self.book.asks.set_waits(class, waits);
                return Claimed::Nothing;
            }
            Obstacle::Quota => {
                events::within_user_quota(&mut self.book, slot, baton);
                events::over_quota(&mut self.book, slot, baton);
                self.book.asks.set_waits(class, waits);
                return Claimed::Nothing;
            }
            _ => {}
        }
        events::within_user_quota(&mut self.book, slot, baton);
        events::within_quota(&mut self.book, slot, baton);
        if self.widen(class, slot, baton) {
            return Claimed::Nothing;
        }
        match obstacle {
            Obstacle::NoNode | Obstacle::Constraints | Obstacle::RequiredNode => {
                if let Some(domain) = &self.book.asks.ask(slot).search.domain {
                    // Another search for the ask is likely.
                    baton.books.nodes.keep_domains(&domain.key);
                }
                let ask = self.book.asks.ask_mut(slot);
                ask.begin_anew();
                ask.attempted = true;
                if let Some(node) = &ask.required_node {
                    baton.directory.named.enter(node, self.slot);
                }
                return self.claim(class, slot, waits, baton);
            }
            Obstacle::GrewMeanwhile => {
                self.book.asks.ask_mut(slot).refresh();
                self.book.asks.set_waits(class, waits);
            }
            Obstacle::HeldByOthers => self.park_held(slot, waits, baton),
            Obstacle::Refused => {
                self.book.asks.ask_mut(slot).attempted = true;
                return self.park_refused_by_all(slot, baton);
            }
            Obstacle::Quota | Obstacle::Limits | Obstacle::Placeholders | Obstacle::GivesWay => {}
        }
        Claimed::Nothing
    }

    /// A placement constraint may let an ask that found no node use more nodes, now or later. Says
    /// whether it may now, so that it is to be tried again at once.
    fn widen(&mut self, class: ClassId, slot: AskSlot, baton: &mut Baton) -> bool {
        let Some(wish) = self.book.asks.ask(slot).wish() else { return false };
        let terms = Arc::clone(wish.terms());
        if self.book.asks.tried_in_vain(slot, baton.now_ns) {
            self.book.asks.set_waits(class, WaitSet::Due);
            return true;
        }
        baton.books.nodes.wait_for(&terms);
        self.arm_wish(slot, baton);
        false
    }

    /// Has an ask looked at when the next choice of its constraint opens.
    pub(super) fn arm_wish(&mut self, slot: AskSlot, baton: &mut Baton) {
        let Some(at_ns) = self.book.asks.arm_wish(slot) else { return };
        let key = Arc::clone(&self.book.asks.ask(slot).key);
        baton.effects.remind_at(at_ns, baton.now_ns, self.alarm(Op::ChoiceOpens(key)));
    }

    /// The time has come at which a choice of the constraint of an ask may open.
    pub(super) fn choice_opens(
        &mut self,
        key: &Arc<str>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        if self.book.undecided().is_some() {
            return self.choice_of_gang_opens(baton, effects);
        }
        let Some(slot) = self.book.asks.slot_of(key) else { return };
        if self.book.asks.wish_is_due(slot, baton.now_ns) {
            if let Some(class) = self.book.asks.class_of(slot) {
                self.book.asks.ask_mut(slot).refresh();
                self.book.asks.set_waits(class, WaitSet::Due);
                effects.touched = true;
            }
        } else if self.book.asks.class_of(slot).is_some() {
            self.arm_wish(slot, baton);
        }
    }

    /// Parks an ask that every node with room has refused now; it may reserve one all the same.
    fn park_refused_by_all(&mut self, slot: AskSlot, baton: &mut Baton) -> Claimed {
        let at = self.epoch(baton);
        self.park_refused(slot, at, baton);
        let Some(class) = self.book.asks.class_of(slot) else { return Claimed::Nothing };
        let waits = WaitSet::Parked(Box::new(refused(&self.book.asks.ask(slot).spec, at)));
        let waits = self.or_to_borrow(slot, waits, baton);
        self.claim(class, slot, waits, baton)
    }

    /// The same of an ask that may come to use what others have reserved.
    fn or_to_borrow(&self, slot: AskSlot, waits: WaitSet, baton: &Baton) -> WaitSet {
        let ask = self.book.asks.ask(slot);
        if ask.required_node.is_some() {
            return waits;
        }
        waits.or_to_borrow(ask.priority, self.leaf_facts.slot.0, &baton.books.queues)
    }

    fn log_why(&self, parking: &Parking, baton: &Baton) {
        let queues = baton.offer.frames.iter().map(|frame| {
            let config = &frame.facts.config;
            QueueRoom {
                queue: &config.path,
                is_stopped: false,
                max: config.max.as_ref(),
                used: &frame.allocated,
                running: 0,
                most_running: 0,
            }
        });
        let why = self.attempt(baton, |attempt| attempt.why(parking, queues));
        let ask = self.book.asks.ask(parking.ask);
        tracing::debug!(application = %self.book.id, ask = %ask.key, %why, "not placed");
    }

    /// Parks an ask whose search goes on when another placement gives back the room it holds on a
    /// node.
    fn park_held(&mut self, slot: AskSlot, waits: WaitSet, baton: &mut Baton) {
        if let Some(trying) = self.book.asks.ask_mut(slot).trying_mut()
            && trying.waits_again()
            && let Some(class) = self.book.asks.class_of(slot)
        {
            // The ask is alone in its class already, and its deadline is armed.
            self.book.asks.set_waits(class, waits);
            return;
        }
        self.book.asks.single_out(slot, waits);
        baton.directory.refused.insert(self.slot);
        self.arm_retry(slot, baton);
    }

    /// Every node that had room refused the ask up to this epoch, or the one it names did: it waits
    /// alone.
    pub(super) fn park_refused(&mut self, slot: AskSlot, at: Epoch, baton: &mut Baton) {
        events::tell_refusals(&mut self.book, slot, baton);
        let ask = self.book.asks.ask(slot);
        if let Some(node) = &ask.required_node {
            baton.directory.named.enter(node, self.slot);
        }
        let waits = WaitSet::Parked(Box::new(refused(&ask.spec, at)));
        let waits = self.or_to_borrow(slot, waits, baton);
        self.book.asks.single_out(slot, waits);
        self.book.asks.ask_mut(slot).rest();
        self.book.asks.note_parked(slot, Obstacle::Refused, baton.now_ns);
        baton.directory.refused.insert(self.slot);
        self.arm_retry(slot, baton);
    }

    /// Has an ask that was just singled out tried again when some time has passed.
    pub(super) fn arm_retry(&mut self, slot: AskSlot, baton: &mut Baton) {
        let ask = self.book.asks.ask_mut(slot);
        let key = Arc::clone(&ask.key);
        let (pause, retry) = ask.refusals_mut().retries.pause(baton.now_ns);
        baton.effects.remind(pause, self.alarm(Op::Retry { key, retry }));
    }

    /// Asks a node to hold one instance of an ask, perhaps in place of a placeholder. The one place
    /// where a placement begins.
    pub(super) fn place(
        &mut self,
        mut baton: Box<Baton>,
        candidate: Candidate,
        takes: Option<Takes>,
    ) {
        if baton.decisions.is_on() {
            let is_its_own = baton.books.reservations.node_of(self.reserver(candidate.ask))
                == Some(candidate.node);
            baton.note_found(self.book.asks.ask(candidate.ask), &candidate, is_its_own, takes);
        }
        let Candidate { ask: slot, node, alternatives, is_continued, .. } = candidate;
        self.cancel_claim(slot, &mut baton);
        let ask = self.book.asks.ask_mut(slot);
        if !is_continued {
            ask.begin_anew();
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
        Self::ask_node(baton, node, placement);
    }

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

    /// The node has no room for a placement or its predicate refused it: the next node in order, if
    /// there is one.
    pub(super) fn refused(&mut self, mut baton: Box<Baton>, mut placement: Placement) {
        baton.tally.refused();
        baton.offer.refused += 1;
        let slot = placement.ask;
        if let Some(takes) = placement.takes.filter(|takes| takes.in_place) {
            return self.pair_refused(baton, &placement, takes);
        }
        if placement.takes.is_none() && self.is_at_reserved(&placement, &baton) {
            baton.tally.node_round_over();
            return self.refused_at_reserved(baton, placement);
        }
        if let Some(node) = self.next_node(&placement, &mut baton) {
            baton.note_next(self.book.asks.ask(slot), placement.node, node);
            placement.node = node;
            placement.alternatives.clear();
            if let Some(entry) = baton.books.allocations.get_mut(placement.allocation) {
                entry.node = node;
            }
            Self::ask_node(baton, node, placement);
            return;
        }
        baton.tally.node_round_over();
        if let Some(takes) = placement.takes {
            return self.pair_refused(baton, &placement, takes);
        }
        baton.books.allocations.remove(placement.allocation);
        let ask = self.book.asks.ask_mut(slot);
        ask.attempted = true;
        if !placement.refusals.is_empty() || ask.refusals().is_some() {
            ask.refusals_mut().reasons = placement.refusals;
        }
        match self.park_refused_by_all(slot, &mut baton) {
            Claimed::Nothing => self.go_on_undecided(baton),
            claimed => self.go_on_claimed(baton, claimed),
        }
    }

    /// The node that is asked after the one that refused a placement.
    fn next_node(&self, placement: &Placement, baton: &mut Baton) -> Option<NodeSlot> {
        let ask = self.book.asks.ask(placement.ask);
        let (books, request) = (&baton.books, ask.request_to_borrow());
        let last_lent = books.nodes.is_lent(placement.node).then_some(placement.node);
        if last_lent.is_none()
            && let Some(node) = ask.node_after(placement.node, &books.nodes)
        {
            return Some(node);
        }
        if placement.takes.is_some() || request.required.is_some() {
            return None;
        }
        let preemptor = (self.leaf_facts.slot.0, &*ask.spec);
        let lent = Lent::first(preemptor, last_lent, &request, books)?;
        Self::borrow(lent, baton);
        Some(lent.node)
    }

    /// An ask goes to a node that another has reserved. Where that could not run, its reservation is
    /// suspended.
    fn borrow(lent: Lent, baton: &mut Baton) {
        tracing::debug!(node = %baton.books.nodes.id(lent.node), why = ?lent.loan, "node is lent");
        if lent.loan == Loan::Suspended {
            baton.suspend(lent.by);
        }
    }

    /// Goes on where nothing was decided.
    pub(super) fn go_on_undecided(&mut self, mut baton: Box<Baton>) {
        if baton.offer.level() >= baton.offer.frames.len() {
            self.consider(baton);
        } else {
            self.rise(baton);
        }
    }

    /// The node holds the placement: it is an allocation. The application goes on while no other
    /// comes first.
    pub(super) fn book(&mut self, mut baton: Box<Baton>, placement: &Placement) {
        let (slot, resources) = (placement.ask, &placement.spec.resources);
        let uuid = self.book.next_uuid(slot);
        if baton.decisions.is_on() {
            let is_its_own = self.is_at_reserved(placement, &baton);
            baton.note_placed(self.decided_for(), placement, is_its_own);
        }
        let priority = self.book.asks.priority();
        let progress = self.book.progress();
        self.book.asks.take_one(slot);
        self.book.asks.ask_mut(slot).live.push(placement.allocation);
        let allocated = self.bind(&mut baton, slot, placement.allocation, uuid);
        baton.charge(resources);
        self.uses(resources, &mut baton);
        let is_placeholder = placement.spec.placeholder;
        self.book.booked(resources, is_placeholder, baton.now_ns, &mut self.changes);
        if is_placeholder {
            self.placeholder_settled(placement.allocation, &mut baton);
        }
        self.book.note_real(placement.spec.member_of());
        let running = self.tell_changes(&mut baton);
        let starting = self.moved_on(progress, &baton.books.nodes);
        Self::tell_allocated(&mut baton, allocated);
        self.go_on(baton, priority, &LedgerDelta { running, starting, ..LedgerDelta::default() });
    }

    /// The node holds the placement and has asked the RM: it is booked as unsettled. The
    /// application goes on while no other comes first.
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
        if baton.decisions.is_on() {
            let is_its_own = self.is_at_reserved(placement, &baton);
            baton.note_on_its_way(self.decided_for(), placement, is_its_own);
        }
        let priority = self.book.asks.priority();
        let progress = self.book.progress();
        let resources = &placement.spec.resources;
        self.book.asks.hold_one(placement.ask, placement.allocation);
        self.book.held(placement.allocation, resources);
        let starting = self.moved_on(progress, &baton.books.nodes);
        baton.charge(resources);
        self.uses(resources, &mut baton);
        self.go_on(baton, priority, &LedgerDelta { starting, ..LedgerDelta::default() });
    }

    /// A placement becomes an allocation: it has a name and its deadline. Returns what the RM is
    /// told of it.
    pub(super) fn bind(
        &mut self,
        baton: &mut Baton,
        ask: AskSlot,
        id: AllocationId,
        uuid: Arc<str>,
    ) -> Option<Allocated> {
        let now_ns = baton.now_ns;
        self.end_reservation(ask, End::Placed, baton);
        // From now on it may be a victim.
        baton.books.note_change();
        let entry = baton.books.allocations.get_mut(id)?;
        entry.uuid = Arc::clone(&uuid);
        entry.bound_ns = now_ns;
        debug_assert!(entry.is_assumed, "what is placed is assumed before it is told");
        entry.is_assumed = false;
        let course = entry.take_course().map(|mut course| {
            course.decided_ns = baton.services.clock.now_ns();
            Box::new((id, *course))
        });
        if let Some(timeout) = entry.spec.execution_timeout_ms {
            let alarm = Alarm::ExecutionTimeout { allocation: id };
            let deadline = baton.effects.arm(Duration::from_millis(timeout.get()), alarm);
            if let Some(entry) = baton.books.allocations.get_mut(id) {
                entry.change().deadline = Some(deadline);
            }
        }
        self.book.allocations.insert(uuid, id);
        self.joined(id, baton);
        self.watch_start(ask, baton);
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
        Some(Allocated { course, ..self.allocated(entry, baton) })
    }

    /// What the RM is told of an allocation.
    pub(super) fn allocated(&self, entry: &Allocation, baton: &Baton) -> Allocated {
        Allocated {
            owner: Arc::clone(&self.owner),
            spec: Arc::clone(&entry.spec),
            uuid: Arc::clone(&entry.uuid),
            node: Arc::clone(baton.books.nodes.id(entry.node)),
            at_ns: baton.now_ns,
            course: None,
        }
    }

    pub(super) fn tell_allocated(baton: &mut Baton, allocated: Option<Allocated>) {
        let Some(allocated) = allocated else {
            debug_assert!(false, "a placement on its way is in the table");
            return;
        };
        baton.effects.notify(Notice::Allocated(Arc::new(allocated)));
    }

    /// Goes on after a decision, while no other application comes first. `priority` is what it was
    /// before,
    /// `delta` how the counts of running applications changed.
    pub(super) fn go_on(&mut self, mut baton: Box<Baton>, priority: i32, delta: &LedgerDelta) {
        baton.books.note_change();
        self.review_lost(&baton);
        self.list_allocating(&mut baton);
        self.count_held(&mut baton);
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
            // Where this one is now, others may come, who may come before anything else.
            baton.offer.rise_to(0);
        }
        if baton.offer.phase == Phase::Normal && *self.pairs.waits() == WaitSet::Due {
            // A member may take a place now, which comes before anything else.
            baton.offer.rise_to(0);
        }
        let goes_on = baton.offer.level() >= frames
            && priority == self.book.asks.priority()
            && self.leads(&baton);
        if goes_on {
            self.consider(baton);
        } else {
            self.rise(baton);
        }
    }

    /// Whether this application still comes before the next one of its leaf.
    fn leads(&self, baton: &Baton) -> bool {
        match (&baton.offer.runner_up, self.key()) {
            (None, _) => true,
            (Some(runner_up), Some(key)) => key < *runner_up,
            (Some(_), None) => false,
        }
    }
}
