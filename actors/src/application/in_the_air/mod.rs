//! A declared gang whose places are found waits until the RM's predicates have passed for each of
//! its members, where those are answered later.
//!
//! # The way of a bundle
//! All members are charged in the step in which their places are found, those for which places are
//! only held, too. Questions are asked about the members with asks, and about the others where the RM
//! judges places that are held, as many at a time as the window lets. When the last has passed, all of them are settled in one step, and only then. A member that
//! is refused, or whose node is lost or takes it no longer, moves to another node at once. If there
//! is none for it the whole bundle is taken back, and it is when an ask of it changes or goes: that
//! is another gang, for which places are looked for at once.
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

mod answers;
mod moves;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use monoceros_rules::allocations::course::Course;
use monoceros_rules::allocations::{Allocation, Pairing};
use monoceros_rules::applications::native::Stage;
use monoceros_rules::asks::{AskWish, Bundled};
use monoceros_rules::decide::bundle::Found;
use monoceros_rules::decide::gang::note_unanswered;
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::pending::nominations::Preemptor;
use monoceros_rules::pending::unsettled::{BundleInTheAir, OpenQuestion, Scope};
use monoceros_rules::values::epoch::{Epoch, Loosening};
use monoceros_rules::values::hashing::SeededSet;
use monoceros_rules::values::ids::{AllocationId, AskSlot, NodeSlot};
use monoceros_rules::values::resources::Resources;
use rustc_hash::FxHashMap;

use super::Application;
use super::effects::{Grounded, VisitEffects};
use crate::api::predicates::{BundlePlace, QuestionBundle};
use crate::step::{Baton, Consequences, NodeWork, Op, Placement, Resume};

/// A bundle that waits for its predicates.
pub(super) struct Air {
    members: Vec<Member>,
    /// The members that have still to be asked about, by their places in the list.
    to_ask: VecDeque<usize>,
    /// The member of each open question.
    open: FxHashMap<u64, usize>,
    /// Its number.
    id: u64,
    /// What questions say of all of its members that are asked about, unless one has moved since.
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
    /// A place is held for it.
    is_held: bool,
    /// The RM is asked whether it may run there.
    is_asked: bool,
    /// The answer that it may run.
    passed: Option<Pass>,
    /// How often it was asked about anew because an answer did not count.
    anew: u32,
    refused: SeededSet<Arc<str>>,
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

impl Air {
    /// What questions say of all members that are asked about.
    fn mates(&mut self, baton: &Baton) -> Arc<QuestionBundle> {
        let (table, nodes) = (&baton.books.allocations, &baton.books.nodes);
        let (members, id) = (&self.members, self.id);
        let mates = self.mates.get_or_insert_with(|| {
            let asked = members.iter().filter(|member| member.is_asked);
            let places = asked.filter_map(|member| {
                let entry = table.get(member.id)?;
                let group = entry.spec.task_group.as_ref().filter(|_| member.is_held);
                Some(BundlePlace {
                    key: Arc::clone(entry.key()),
                    group: group.map(|group| Arc::from(group.as_str())),
                    node: Arc::clone(nodes.id(entry.node)),
                })
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
            baton.question_cancelled(pass.number);
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
        let progress = self.book.progress();
        self.book.choose_domains(found.chosen());
        baton.charge(total);
        self.uses(total, &mut baton);
        let asks_about_holds = baton.offer.asks_about_holds;
        let mut work: BTreeMap<NodeSlot, (Vec<AllocationId>, Resources)> = BTreeMap::new();
        let mut members = Vec::with_capacity(found.places().len());
        for place in found.places() {
            let (slot, _) = bundled[place.of.group][place.of.members];
            let ask = self.book.asks.ask(slot);
            let (spec, created_ns, now_ns) = (Arc::clone(&ask.spec), ask.created_ns, baton.now_ns);
            let whose = self.slot;
            let mut entry =
                Allocation::new(whose, Arc::clone(&spec), place.node, created_ns, now_ns);
            entry.change().pairing = Pairing::InBundle;
            entry.follow(Course::of(&spec, now_ns, || baton.services.clock.now_ns()));
            let is_asked = asks_about_holds || !spec.placeholder;
            if let Some(course) = entry.course_mut() {
                course.is_asked_rm = is_asked;
            }
            let id = baton.books.allocations.insert(entry);
            self.book.asks.hold_one(slot, id);
            self.book.held(id, &spec.resources);
            if !spec.placeholder {
                baton.note_member(self.decided_for(), id, true);
            }
            let (ids, sum) = work.entry(place.node).or_default();
            ids.push(id);
            sum.add(&spec.resources);
            members.push(Member {
                id,
                ask: slot,
                group: place.of.group,
                is_held: spec.placeholder,
                is_asked,
                passed: None,
                anew: 0,
                refused: SeededSet::default(),
                was_silent: false,
            });
        }
        if let Some(native) = self.book.native_mut() {
            native.stage = Stage::InTheAir;
        }
        let to_ask = (0..members.len()).filter(|at| members[*at].is_asked).collect();
        let id = baton.books.unsettled.next_bundle();
        let open = FxHashMap::default();
        let air = Air { members, to_ask, open, id, mates: None, moved_at: 0, void_since_ns: None };
        self.in_flight = Some(Box::new(air));
        if let Some(bundle) = &mut self.bundle {
            bundle.in_flight();
        }
        self.ask_members(&mut baton);
        // The offer goes on with what the window has left.
        let room = u32::try_from(baton.books.unsettled.room()).unwrap_or(u32::MAX);
        baton.offer.budget = baton.offer.budget.min(baton.offer.decided.saturating_add(room));
        let starting = self.moved_on(progress, &baton.books.nodes);
        let delta = LedgerDelta { starting, ..LedgerDelta::default() };
        let work = work.into_iter().map(|(node, (ids, sum))| (node, NodeWork::HoldAll(ids, sum)));
        baton.follow(Consequences {
            node_work: work.collect(),
            climbing: None,
            resume: Some((self.slot, Resume { priority, delta })),
        });
    }

    fn air(&mut self) -> Option<&mut Air> {
        self.in_flight.as_deref_mut()
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
                open: self.book.asks.ask(ask).wish().map_or(usize::MAX, AskWish::open),
                takes: None,
                refusals: BTreeMap::new(),
            };
            let number = baton.ask_later(&placement, Some(mates));
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

    /// Every member has passed: all of them are settled.
    fn settle_bundle(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let Some(air) = self.in_flight.take() else { return };
        let now_ns = baton.now_ns;
        baton.end_nomination(Preemptor::Gang(self.slot), true);
        // What is held for its members may be taken from now on.
        baton.books.note_change();
        self.book.decided(now_ns, &mut self.changes);
        effects.delta.running += self.tell_changes(baton);
        baton.effects.notices.append(&mut effects.discharged);
        let groups = self.book.gang.as_ref().and_then(|gang| gang.native.as_ref());
        let mut n_held = vec![0_u64; groups.map_or(0, |native| native.groups().len())];
        for member in &air.members {
            let Some(entry) = baton.books.allocations.get_mut(member.id) else { continue };
            entry.change().pairing = Pairing::None;
            let (spec, node) = (Arc::clone(&entry.spec), entry.node);
            baton.assume(member.id);
            if member.is_held {
                n_held[member.group] += 1;
                self.name_hold(member.group, member.id, baton);
                let amount = (&*spec.resources, true);
                self.book.settled(member.id, amount, now_ns, &mut self.changes);
                if member.is_asked {
                    baton.books.unsettled.changed(node);
                }
                continue;
            }
            let uuid = self.book.next_uuid(member.ask);
            self.book.asks.settle_one(member.ask, member.id);
            let allocated = self.bind(baton, member.ask, member.id, uuid);
            self.book.settled(member.id, (&spec.resources, false), now_ns, &mut self.changes);
            Self::tell_allocated(baton, allocated);
            self.book.note_real(spec.member_of());
            if member.passed.as_ref().is_none_or(|pass| !pass.assumed) {
                baton.books.unsettled.changed(node);
            }
        }
        self.book.forget_internal();
        self.decide(baton);
        let mut held = Vec::new();
        if let Some(native) = self.book.native_mut() {
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
        let Some(air) = self.in_flight.take() else { return };
        tracing::debug!(application = %self.book.id, ?why, "gang taken back");
        let gang = Preemptor::Gang(self.slot);
        if why == Grounded::Refused {
            baton.end_nomination(gang, false);
        } else {
            baton.lift_nomination(gang, false);
        }
        let mut open: Vec<(u64, usize)> = air.open.into_iter().collect();
        open.sort_unstable();
        for (number, _) in open {
            if baton.books.unsettled.take(number).is_some() {
                baton.question_cancelled(number);
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
            if member.is_asked {
                baton.books.unsettled.changed(entry.node);
            }
            if gone != Some(entry.node) {
                let work = NodeWork::Return(member.id, entry.resources().clone());
                effects.node_work.push((entry.node, work));
            }
        }
        for slot in asks {
            let pending = self.book.asks.take_back_all(slot);
            effects.delta.pending.add_sum(&pending);
        }
        (effects.loosens, effects.touched) = (true, true);
        if let Some(native) = self.book.native_mut() {
            native.stage = Stage::Undecided;
        }
        self.book.forget_domains();
        Self::clear_the_air(baton);
        effects.grounded = Some(why);
    }

    /// Another bundle may take off.
    fn clear_the_air(baton: &mut Baton) {
        baton.books.unsettled.bundle = None;
        for slot in std::mem::take(&mut baton.books.unsettled.bundles_waiting) {
            baton.effects.revisit(slot, Op::WakeBundle);
        }
    }

    /// A bundle was taken back because predicates keep it from its places: it waits.
    pub(super) fn park_grounded(&mut self, why: Grounded, baton: &mut Baton) {
        if why == Grounded::Refused {
            self.note_bundle_attempt(baton);
        } else if let Some(bundle) = &mut self.bundle {
            bundle.forget_obstacle();
            if let Some((_, bundled)) = self.book.undecided_bundle() {
                note_unanswered(&mut self.book.asks, &bundled);
            }
        }
        let growth = baton.books.nodes.growth();
        let at = Epoch { loosening: Loosening::NONE, growth };
        self.park_bundle_refused(at, baton);
    }
}
