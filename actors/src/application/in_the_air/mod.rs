//! A declared gang whose places are found waits until the RM's predicates have passed for each of
//! its members, where those are answered later.
//!
//! # The way of a bundle
//! All members are charged in the step in which their places are found, those for which places are
//! only held, too. Questions are asked about the members with asks, as many at a time as the window
//! lets. When the last has passed, all of them are settled in one step, and only then. A member that
//! is refused moves to another node at once. If there is none for it, or anything happens that makes
//! a place impossible, the whole bundle is taken back.
//!
//! # Void answers
//! Mates do not make each other's answers void, since each question names the places of all. One
//! that moves does, as whatever else is placed or ends. What an answer rests on may change after it
//! has come, too, as long as others are asked about; so all answers are looked at again once the
//! last member has passed, and members whose answers are void by then are asked about anew.
//!
//! From the first void answer on nothing else is placed, so that answers that rest on everything can
//! be taken in the end; and a bundle that goes on like that for too long is taken back and tried
//! later. Answers that a mate's move made void do not count: each move leaves a node that is not
//! tried again, so there is an end to them.
//!
//! # Invariants
//! * At most one bundle of a partition is in the air.
//! * Whoever takes a member of it out of the table takes back the whole bundle, or settles it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use monoceros_rules::decide::bundle::Found;
use monoceros_rules::decide::predicates::{
    BundleInTheAir, Confirmation, OpenQuestion, Scope, confirm,
};
use monoceros_rules::nodes::{NodeSlot, Taken};
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::order::waits::{Parked, WaitSet};
use monoceros_rules::values::epoch::{Epoch, Loosening};
use monoceros_rules::values::resources::Resources;
use monoceros_rules::work::allocations::{Allocation, AllocationId, Pairing};
use monoceros_rules::work::asks::AskSlot;
use monoceros_rules::work::native::{Bundled, Stage};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Application;
use super::ops::VisitEffects;
use crate::api::predicates::QuestionBundle;
use crate::step::{Alarm, Baton, Consequences, NodeWork, Op, Placement, Resume, Settlement};

/// How often a member is asked about anew before its bundle is taken back.
const ANEW_MAX: u32 = 3;
/// After how long the bundle is taken back since its first void answer.
const VOID_MAX: Duration = Duration::from_secs(30);

/// A bundle that waits for its predicates.
pub(super) struct Air {
    members: Vec<Member>,
    /// The members that have still to be asked about, by their places in the list.
    to_ask: VecDeque<usize>,
    /// The member of each open question.
    open: FxHashMap<u64, usize>,
    /// Its number.
    id: u64,
    /// What questions say of all of its members with asks, unless one has moved since.
    mates: Option<Arc<QuestionBundle>>,
    /// How many changes of the partition there had been when a member moved last.
    moved_at: u64,
    /// When the first answer was void, ns since the epoch.
    void_since_ns: Option<i64>,
}

struct Member {
    id: AllocationId,
    ask: AskSlot,
    /// The place of its group in the declaration.
    group: usize,
    /// A place is held for it, and nobody is asked.
    is_held: bool,
    /// The answer that it may run.
    passed: Option<Pass>,
    /// How often it was asked about anew because an answer did not count.
    anew: u32,
    refused: FxHashSet<Arc<str>>,
    /// A refusal was for want of an answer.
    was_silent: bool,
}

/// An answer that a member may run at its place.
struct Pass {
    number: u64,
    question: OpenQuestion,
    /// What it rests on.
    scope: Scope,
    assumed: bool,
}

/// Why a member is asked about again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anew {
    /// There is no answer.
    Unanswered,
    /// What the answer rests on has changed since it was asked, when there had been so many changes
    /// of the partition.
    Void { asked_at: u64 },
}

/// Why a bundle is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grounded {
    /// It changed, or one of its nodes did: places are looked for anew.
    Anew,
    /// Predicates keep it from its places: it waits for a node to grow, or for some time.
    Refused,
    /// There are no answers that count: as if it had been refused.
    Unanswered,
}

impl Air {
    /// What questions say of all members with asks.
    fn mates(&mut self, baton: &Baton) -> Arc<QuestionBundle> {
        let (table, nodes) = (&baton.books.allocations, &baton.books.nodes);
        let (members, id) = (&self.members, self.id);
        let mates = self.mates.get_or_insert_with(|| {
            let real = members.iter().filter(|member| !member.is_held);
            let places = real.filter_map(|member| {
                let entry = table.get(member.id)?;
                Some((Arc::clone(entry.key()), Arc::clone(nodes.id(entry.node))))
            });
            Arc::new(QuestionBundle { id, places: places.collect() })
        });
        Arc::clone(mates)
    }
}

impl Member {
    /// Its answer does not count any more, and the RM may not count on it either.
    fn forget_pass(&mut self, baton: &mut Baton) {
        if let Some(pass) = self.passed.take()
            && pass.assumed
        {
            Application::tell_cancelled(pass.number, baton);
        }
    }
}

impl Application {
    /// Charges a bundle whose places are found, and asks about its members.
    pub(super) fn launch_bundle(
        &mut self,
        mut baton: Box<Baton>,
        bundled: &Bundled,
        found: &Found,
        total: &Resources,
    ) {
        let priority = self.book.asks.priority();
        let standing = self.standing();
        baton.offer.charge(total);
        self.uses(total, &mut baton);
        let mut work: BTreeMap<NodeSlot, (Vec<AllocationId>, Resources)> = BTreeMap::new();
        let mut members = Vec::with_capacity(found.places().len());
        for place in found.places() {
            let (slot, _) = bundled[place.of.group][place.of.members];
            let ask = self.book.asks.ask(slot);
            let (spec, created_ns, now_ns) = (Arc::clone(&ask.spec), ask.created_ns, baton.now_ns);
            let whose = self.slot;
            let mut entry =
                Allocation::new(whose, Arc::clone(&spec), place.node, created_ns, now_ns);
            entry.pairing = Pairing::InBundle;
            let id = baton.books.allocations.insert(entry);
            self.book.asks.hold_one(slot, id);
            self.book.held(id, &spec.resources);
            let (ids, sum) = work.entry(place.node).or_default();
            ids.push(id);
            sum.add(&spec.resources);
            members.push(Member {
                id,
                ask: slot,
                group: place.of.group,
                is_held: spec.placeholder,
                passed: None,
                anew: 0,
                refused: FxHashSet::default(),
                was_silent: false,
            });
        }
        if let Some(native) = self.book.native_mut() {
            native.stage = Stage::InTheAir;
        }
        let to_ask = (0..members.len()).filter(|at| !members[*at].is_held).collect();
        let id = baton.books.unsettled.next_bundle();
        let open = FxHashMap::default();
        let air = Air { members, to_ask, open, id, mates: None, moved_at: 0, void_since_ns: None };
        if let Some(bundle) = &mut self.bundle {
            (bundle.waits, bundle.air) = (WaitSet::Nothing, Some(Box::new(air)));
        }
        self.ask_members(&mut baton);
        // The offer goes on with what the window has left.
        let room = u32::try_from(baton.books.unsettled.room()).unwrap_or(u32::MAX);
        baton.offer.budget = baton.offer.budget.min(baton.offer.decided.saturating_add(room));
        let starting = self.moved_on(standing, &baton.books.nodes);
        let delta = LedgerDelta { starting, ..LedgerDelta::default() };
        let work = work.into_iter().map(|(node, (ids, sum))| (node, NodeWork::HoldAll(ids, sum)));
        let address = Arc::clone(&baton.directory.applications[self.slot].address);
        baton.follow(Consequences {
            node_work: work.collect(),
            climbing: None,
            resume: Some((address, Resume { priority, delta })),
        });
    }

    fn air(&mut self) -> Option<&mut Air> {
        self.bundle.as_mut()?.air.as_deref_mut()
    }

    /// Asks about as many members as the window lets.
    pub(super) fn ask_members(&mut self, baton: &mut Baton) {
        let whose = self.slot;
        while baton.books.unsettled.room() > 0 {
            let Some(air) = self.air() else { return };
            let Some(at) = air.to_ask.pop_front() else { break };
            let (id, ask, mates) = (air.members[at].id, air.members[at].ask, air.mates(baton));
            let Some(entry) = baton.books.allocations.get(id) else { continue };
            let placement = Placement {
                application: whose,
                ask,
                spec: Arc::clone(&entry.spec),
                node: entry.node,
                alternatives: Vec::new(),
                allocation: id,
                takes: None,
                refusals: BTreeMap::new(),
            };
            let number = crate::node::ask_later(&placement, Some(mates), baton);
            if let Some(air) = self.air() {
                air.open.insert(number, at);
            }
        }
        self.note_air(baton);
    }

    /// The books know of the bundle what others have to know.
    fn note_air(&mut self, baton: &mut Baton) {
        let application = self.slot;
        let Some(air) = self.air() else { return };
        baton.books.unsettled.bundle = Some(BundleInTheAir {
            application,
            unasked: air.members.len() - air.open.len(),
            to_ask: air.to_ask.len(),
            stops_offers: air.void_since_ns.is_some(),
        });
    }

    /// Whether the question is about a member of the bundle.
    pub(super) fn is_about_bundle(&self, number: u64) -> bool {
        let air = self.bundle.as_ref().and_then(|bundle| bundle.air.as_ref());
        air.is_some_and(|air| air.open.contains_key(&number))
    }

    /// Carries out what an answer about one member means for the bundle.
    pub(super) fn take_bundle_answer(
        &mut self,
        number: u64,
        settlement: Settlement,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        match settlement {
            Settlement::Confirmed { scope, assumed, .. } => {
                if let Some((at, question)) = self.close_question(number, baton)
                    && let Some(air) = self.air()
                {
                    air.members[at].passed = Some(Pass { number, question, scope, assumed });
                }
            }
            Settlement::NotTaken { assumed, is_void: false, .. } => {
                // Its node takes nothing any more, or has too little.
                let Some((at, _)) = self.close_question(number, baton) else { return };
                if assumed {
                    Self::tell_cancelled(number, baton);
                }
                self.move_member(at, baton, effects);
            }
            Settlement::NotTaken { assumed, is_void: true, .. }
            | Settlement::NodeGone { assumed } => {
                let Some((at, question)) = self.close_question(number, baton) else { return };
                if assumed {
                    Self::tell_cancelled(number, baton);
                }
                self.ask_anew(at, Anew::Void { asked_at: question.asked_at() }, baton, effects);
            }
            Settlement::Unanswered => {
                baton.tally.predicate_unanswered();
                baton.books.unsettled.window.answered(true);
                if let Some((at, _)) = self.close_question(number, baton) {
                    self.ask_anew(at, Anew::Unanswered, baton, effects);
                }
            }
            Settlement::Failed { reasons } => {
                baton.tally.predicate_failed();
                self.member_refused(number, reasons, false, baton, effects);
            }
            Settlement::Presumed { reasons } => {
                baton.tally.predicate_unanswered();
                self.member_refused(number, reasons, true, baton, effects);
            }
            Settlement::Senseless { verdict } => {
                tracing::error!(application = %self.book.id, question = number, ?verdict,
                    "no answer that makes sense, taken as a refusal for now");
                baton.tally.predicate_unanswered();
                self.ground_bundle(Grounded::Unanswered, None, baton, effects);
            }
        }
    }

    /// Goes on once all answers of a visit are taken: asks about more members, or settles all.
    pub(super) fn go_on_with_bundle(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let Some(air) = self.air() else { return };
        if !air.members.iter().all(|member| member.is_held || member.passed.is_some()) {
            return self.ask_members(baton);
        }
        for at in 0..air.members.len() {
            self.look_again(at, baton, effects);
        }
        let Some(air) = self.air() else { return };
        if air.to_ask.is_empty() {
            self.settle_bundle(baton, effects);
        } else {
            self.ask_members(baton);
        }
    }

    /// Others may have come or gone since a member passed: whether its answer still counts.
    fn look_again(&mut self, at: usize, baton: &mut Baton, effects: &mut VisitEffects) {
        let Some(air) = self.air() else { return };
        let Some(pass) = &air.members[at].passed else { return };
        let Some(entry) = baton.books.allocations.get(air.members[at].id) else { return };
        match confirm(&baton.books, &pass.question, entry.node, pass.scope) {
            Confirmation::Confirmed => {}
            Confirmation::Void => {
                let asked_at = pass.question.asked_at();
                self.ask_anew(at, Anew::Void { asked_at }, baton, effects);
            }
            Confirmation::Refused => self.move_member(at, baton, effects),
        }
    }

    /// The question has its answer. Says which member it was about.
    fn close_question(&mut self, number: u64, baton: &mut Baton) -> Option<(usize, OpenQuestion)> {
        let question = baton.books.unsettled.take(number)?;
        if let Some(entry) = baton.books.allocations.get_mut(question.allocation) {
            entry.question = None;
        }
        Some((self.air()?.open.remove(&number)?, question))
    }

    /// A node refuses a member, or is presumed to.
    fn member_refused(
        &mut self,
        number: u64,
        reasons: Vec<(String, u32)>,
        is_presumed: bool,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some((at, _)) = self.close_question(number, baton) else { return };
        let Some(air) = self.air() else { return };
        let member = &mut air.members[at];
        member.was_silent |= is_presumed;
        let ask = member.ask;
        self.note_reasons(ask, reasons);
        self.move_member(at, baton, effects);
    }

    /// There is no answer that counts: the member is asked about again, on its place.
    fn ask_anew(&mut self, at: usize, why: Anew, baton: &mut Baton, effects: &mut VisitEffects) {
        let (whose, now_ns) = (self.slot, baton.now_ns);
        let id = Arc::clone(&self.book.id);
        let Some(air) = self.air() else { return };
        air.to_ask.push_back(at);
        air.members[at].forget_pass(baton);
        if let Anew::Void { asked_at } = why
            && asked_at < air.moved_at
        {
            return;
        }
        air.members[at].anew += 1;
        let has_enough = air.members[at].anew > ANEW_MAX;
        if air.void_since_ns.is_none() {
            air.void_since_ns = Some(now_ns);
            let alarm = Alarm::BundleVoid { application: whose, id, since_ns: now_ns };
            baton.alarms.push((VOID_MAX, alarm));
        }
        if has_enough {
            self.ground_bundle(Grounded::Unanswered, None, baton, effects);
        }
    }

    /// The bundle has waited for too long since an answer was void first.
    pub(super) fn bundle_void(
        &mut self,
        since_ns: i64,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        if self.air().is_some_and(|air| air.void_since_ns == Some(since_ns)) {
            self.ground_bundle(Grounded::Unanswered, None, baton, effects);
        }
    }

    /// The member's node refused it: it moves to another one.
    fn move_member(&mut self, at: usize, baton: &mut Baton, effects: &mut VisitEffects) {
        baton.tally.refused();
        let Some(air) = self.bundle.as_mut().and_then(|bundle| bundle.air.as_deref_mut()) else {
            return;
        };
        let member = &mut air.members[at];
        member.forget_pass(baton);
        let Some(entry) = baton.books.allocations.get_mut(member.id) else { return };
        let before = entry.node;
        member.refused.insert(Arc::clone(baton.books.nodes.id(before)));
        let request = self.book.asks.ask(member.ask).request().passing_over(&member.refused);
        let Some(node) = baton.books.nodes.first(&request) else {
            let ask = member.ask;
            let why = if member.was_silent { Grounded::Unanswered } else { Grounded::Refused };
            self.tell_refusals(baton, ask);
            let obstacle = self.refused_member(ask);
            if let Some(bundle) = &mut self.bundle {
                bundle.note(obstacle, baton.now_ns);
            }
            return self.ground_bundle(why, None, baton, effects);
        };
        entry.node = node;
        let resources = entry.resources().clone();
        // At once, so that no other member of this visit counts on the same room, and one that is
        // refused, too, may have what this one leaves.
        Taken::default().take(&mut baton.books.nodes, node, &resources);
        let left = baton.books.nodes.available(before).plus(&resources);
        baton.books.nodes.take_back(before, &left);
        let id = member.id;
        effects.node_work.push((before, NodeWork::Return(id, resources.clone())));
        effects.node_work.push((node, NodeWork::HoldAll(vec![id], resources)));
        air.to_ask.push_back(at);
        air.mates = None;
        baton.books.unsettled.changed(before);
        baton.books.unsettled.changed(node);
        air.moved_at = baton.books.unsettled.changes();
    }

    /// Every member has passed: all of them are settled.
    fn settle_bundle(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let Some(air) = self.bundle.as_mut().and_then(|bundle| bundle.air.take()) else { return };
        let now_ns = baton.now_ns;
        self.book.decided(now_ns, &mut self.changes);
        effects.delta.running += self.tell_changes(baton);
        baton.notices.append(&mut effects.discharged);
        let groups = self.book.gang.as_ref().and_then(|gang| gang.native.as_ref());
        let mut n_held = vec![0_u64; groups.map_or(0, |native| native.groups().len())];
        for member in &air.members {
            let Some(entry) = baton.books.allocations.get_mut(member.id) else { continue };
            entry.pairing = Pairing::None;
            let (spec, node) = (Arc::clone(&entry.spec), entry.node);
            if member.is_held {
                n_held[member.group] += 1;
                self.name_hold(member.group, member.id, baton);
                let amount = (&spec.resources, true);
                self.book.settled(member.id, amount, now_ns, &mut self.changes);
                continue;
            }
            let uuid = self.book.next_uuid(member.ask);
            self.book.asks.settle_one(member.ask, member.id);
            let allocated = self.bind(baton, member.id, uuid);
            self.book.settled(member.id, (&spec.resources, false), now_ns, &mut self.changes);
            Self::tell_allocated(baton, allocated);
            self.note_real(spec.member_of());
            if member.passed.as_ref().is_none_or(|pass| !pass.assumed) {
                baton.books.unsettled.changed(node);
            }
        }
        self.forget_internal();
        let mut held = Vec::new();
        if let Some(native) = self.book.native_mut() {
            (native.stage, native.is_over) = (Stage::Decided, false);
            let groups = native.groups().iter().zip(&n_held).filter(|(_, n_held)| **n_held > 0);
            held.extend(groups.map(|(group, _)| Arc::clone(&group.name)));
        }
        for group in &held {
            // Members that have come since may take their places.
            self.look_for_pairs(group);
        }
        effects.touched = true;
        self.tell_holds(&n_held, baton);
        self.arm_placeholders(baton);
        Self::clear_the_air(baton);
    }

    /// Takes the whole bundle back, if it is in the air. What was held goes with its node, if that
    /// is the one that is `gone`.
    pub(super) fn ground_bundle(
        &mut self,
        why: Grounded,
        gone: Option<NodeSlot>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(air) = self.bundle.as_mut().and_then(|bundle| bundle.air.take()) else { return };
        tracing::debug!(application = %self.book.id, ?why, "gang taken back");
        let mut open: Vec<(u64, usize)> = air.open.into_iter().collect();
        open.sort_unstable();
        for (number, _) in open {
            if baton.books.unsettled.take(number).is_some() {
                Self::tell_cancelled(number, baton);
            }
        }
        let mut members = air.members;
        for member in &mut members {
            member.forget_pass(baton);
        }
        let mut asks = BTreeSet::new();
        for member in &members {
            let Some(entry) = baton.books.allocations.remove(member.id) else { continue };
            asks.insert(member.ask);
            self.book.refunded(member.id, entry.resources());
            effects.delta.allocated.subtract(entry.resources());
            if !member.is_held {
                baton.books.unsettled.changed(entry.node);
            }
            if gone != Some(entry.node) {
                let work = NodeWork::Return(member.id, entry.resources().clone());
                effects.node_work.push((entry.node, work));
            }
        }
        for slot in asks {
            let pending = self.book.asks.take_back_all(slot);
            effects.delta.pending.add(&pending);
        }
        (effects.loosens, effects.touched) = (true, true);
        if let Some(native) = self.book.native_mut() {
            native.stage = Stage::Undecided;
        }
        Self::clear_the_air(baton);
        effects.grounded = Some(why);
    }

    /// Another bundle may take off.
    fn clear_the_air(baton: &mut Baton) {
        baton.books.unsettled.bundle = None;
        for slot in std::mem::take(&mut baton.books.unsettled.bundles_waiting) {
            baton.revisits.push((slot, Op::WakeBundle));
        }
    }

    /// A bundle was taken back because predicates keep it from its places: it waits.
    pub(super) fn park_grounded(&mut self, why: Grounded, baton: &mut Baton) {
        if why == Grounded::Refused {
            self.note_bundle_attempt(baton);
        } else if let Some(bundle) = &mut self.bundle {
            bundle.forget_obstacle();
            self.note_bundle_unanswered();
        }
        let growth = baton.books.nodes.growth();
        let at = Epoch { loosening: Loosening::NONE, growth };
        self.park_bundle_refused(|least| Parked::refused(least, at), baton);
    }
}
