//! A declared gang is decided: all of its members get their places at once, or none does. For
//! people, `docs/gangs.md#declared-gangs`.
//!
//! # How
//! As long as the gang is undecided none of its asks is tried by itself. An offer that reaches the
//! application looks for places for the whole *bundle* ([`monoceros_rules::decide::bundle`]): the
//! asks of its members, and internal ones for members without an ask. Quota is looked at for all of
//! them together. If each has a place and the RM's predicate agrees, everything is booked in this
//! step, node by node: real asks become allocations, internal ones holds.
//!
//! # Invariants
//! * Either all members of a bundle are booked in a step, or nothing is.
//! * Between two visits an undecided gang asks for each member that its RM has not asked for.
//! * A bundle that was looked for in vain is not looked for again before something has changed that
//!   may help it.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::audit::BundleFact;
use monoceros_rules::decide::bundle::{self, BundleWaits, Found, Group, Members, Shortage};
use monoceros_rules::decide::explain::{Cause, GangWhy};
use monoceros_rules::decide::parking::{Obstacle, retry_after};
use monoceros_rules::nodes::{NodeIndex, NodeLacks, NodeRequest, NodeSlot};
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::order::waits::{Parked, Phase, WaitSet};
use monoceros_rules::values::resources::Resources;
use monoceros_rules::work::allocations::{Allocation, AllocationId, Form};
use monoceros_rules::work::asks::{AskSlot, Asks, TaskGroup};
use monoceros_rules::work::native::{Bundled, MissingAsks, Stage};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Application;
use super::in_the_air::{Air, Grounded};
use super::ops::VisitEffects;
use crate::events::{Event, EventKind};
use crate::step::{Alarm, Baton, Consequences, NodeWork, Notice, Resume};

/// The search for places of a declared gang.
#[derive(Default)]
pub(super) struct Bundle {
    /// When an offer is to come here.
    pub(super) waits: WaitSet,
    /// What it waits for, if it found too few places.
    places: Option<BundleWaits>,
    /// What kept it from its places when it was looked at last, and since when that has been so, ns
    /// since the epoch.
    obstacle: Option<(BundleObstacle, i64)>,
    /// When it is tried again after a refusal though nothing changed, ns since the epoch.
    retry_ns: Option<i64>,
    /// How often a member was refused in a row when nothing but time had passed.
    in_a_row: u32,
    /// Numbers the refusals, so that an earlier deadline is known to be stale.
    retry: u32,
    by_time: bool,
    /// Its members have places and wait for the RM's predicates.
    pub(super) air: Option<Box<Air>>,
}

/// What keeps a gang from its places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BundleObstacle {
    /// A group whose members have no size lacks asks.
    Asks(MissingAsks),
    /// What its queues leave does not hold all of it.
    Quota(Resources),
    /// What its user and group leave does not hold all of it.
    Limits(Resources),
    /// Members of this size find too few places.
    Places { group: TaskGroup, size: Resources, lacks: u64 },
    /// Every node with room refused this member of this group.
    Refused { group: TaskGroup, ask: AskSlot },
}

impl Bundle {
    /// Notes what keeps it from its places. Where it was the same kind of thing before, the earlier
    /// time counts.
    pub(super) fn note(&mut self, obstacle: BundleObstacle, now_ns: i64) {
        let kind = std::mem::discriminant(&obstacle);
        let before = self.obstacle.as_ref();
        let before = before.filter(|(before, _)| std::mem::discriminant(before) == kind);
        let since_ns = before.map_or(now_ns, |(_, since_ns)| *since_ns);
        self.obstacle = Some((obstacle, since_ns));
    }

    /// What keeps it from its places beside quotas and limits, as far as that is known to be so
    /// still, and since when, ns since the epoch. The counts of nodes are left out.
    pub(super) fn why(&self, nodes: &NodeIndex) -> Option<(GangWhy, Option<i64>)> {
        let WaitSet::Parked(parked) = &self.waits else { return None };
        let (obstacle, since_ns) = match &self.obstacle {
            Some((obstacle, since_ns)) => (Some(obstacle), Some(*since_ns)),
            None => (None, None),
        };
        if parked.refused.is_some() && self.retry_ns.is_some() && self.rests(nodes) {
            let retry_ns = self.retry_ns;
            return Some(match obstacle {
                Some(BundleObstacle::Refused { group, .. }) => {
                    (GangWhy::Refused { group: Arc::clone(group), retry_ns }, since_ns)
                }
                // The answers came later, one by one.
                _ => (GangWhy::Refused { group: TaskGroup::default(), retry_ns }, None),
            });
        }
        match obstacle? {
            BundleObstacle::Asks(MissingAsks { group, missing }) => {
                let (group, missing) = (Arc::clone(group), *missing);
                Some((GangWhy::Asks { group, missing }, since_ns))
            }
            BundleObstacle::Places { group, size, lacks } => {
                let mut places = self.places.clone()?;
                let (group, size, lacks) = (Arc::clone(group), size.clone(), *lacks);
                let nodes_lack = NodeLacks::default();
                let why = GangWhy::Places { group, size, lacks, nodes: nodes_lack };
                (!places.is_due(nodes)).then_some((why, since_ns))
            }
            // The sums say by themselves whether quota is short; what was refused may pass now.
            BundleObstacle::Quota(_)
            | BundleObstacle::Limits(_)
            | BundleObstacle::Refused { .. } => None,
        }
    }

    /// What keeps it from its places is no longer what it was.
    pub(super) fn forget_obstacle(&mut self) {
        self.obstacle = None;
    }

    /// The member that every node with room refused when it was looked at last.
    pub(super) fn refused(&self) -> Option<AskSlot> {
        match self.obstacle.as_ref()?.0 {
            BundleObstacle::Refused { ask, .. } => Some(ask),
            _ => None,
        }
    }

    /// The quota that it was over when it was looked at last, and since when, ns since the epoch.
    pub(super) fn over_since(&self) -> Option<(Cause, i64)> {
        let (obstacle, since_ns) = self.obstacle.as_ref()?;
        let cause = match obstacle {
            BundleObstacle::Quota(_) => Cause::QueueQuota,
            BundleObstacle::Limits(_) => Cause::UserQuota,
            _ => return None,
        };
        Some((cause, *since_ns))
    }

    /// Whether it was looked for, and waits for any node to grow that can take a member, which none
    /// has.
    fn rests(&self, nodes: &NodeIndex) -> bool {
        let WaitSet::Parked(parked) = &self.waits else { return false };
        if let Some(least) = &parked.refused {
            return !nodes.may_hold_grown_since(parked.refused_at, least);
        }
        let several = self.places.as_ref().filter(|places| !places.is_of_one_size());
        several.is_some_and(|places| !places.clone().is_due(nodes))
    }
}

/// Which nodes refused which ask, while places are looked for.
type Refusals = FxHashMap<AskSlot, FxHashSet<Arc<str>>>;

impl Application {
    /// The application has joined its queue: it asks for each member that it declared with a size.
    pub(super) fn declare(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        self.bundle = Some(Box::default());
        self.ask_internally(baton, effects);
        if !self.book.asks.pending().is_empty() {
            self.book.ask_added(baton.now_ns, &mut self.changes);
        }
    }

    /// Asks for every member that has no ask: the gang is undecided from now on.
    pub(super) fn ask_internally(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let book = &mut self.book;
        let Some(gang) = &mut book.gang else { return };
        let Some(native) = &mut gang.native else { return };
        native.stage = Stage::Undecided;
        for group in native.groups_mut() {
            let spec = group.spec.clone();
            let sequence = baton.books.arrival();
            let ask = spec.map(|spec| book.asks.put_internal(spec, baton.now_ns, sequence));
            group.ask = ask;
        }
        let pending = gang.complete(&mut book.asks);
        effects.pends(&pending);
        if !pending.is_empty() {
            self.join_lane(baton);
        }
    }

    /// The asks of an undecided gang may have changed: it asks for as many members as are missing,
    /// and is to be looked at.
    pub(super) fn complete_bundle(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let is_undecided =
            self.book.undecided().is_some_and(|native| native.stage == Stage::Undecided);
        if !is_undecided {
            return;
        }
        if let Some(gang) = &mut self.book.gang {
            let change = gang.complete(&mut self.book.asks);
            if !change.is_empty() {
                effects.pends(&change);
            }
        }
        match effects.grounded {
            Some(why @ (Grounded::Refused | Grounded::Unanswered)) => {
                self.park_grounded(why, baton)
            }
            _ if effects.touched => self.wake_bundle(),
            _ => {}
        }
    }

    /// Answers of predicates may be wrong by now: a gang that was refused is tried again. Says
    /// whether it is.
    pub(super) fn invalidate_bundle(&mut self) -> bool {
        let was_refused = self.bundle.as_ref().is_some_and(
            |bundle| matches!(&bundle.waits, WaitSet::Parked(parked) if parked.refused.is_some()),
        );
        if was_refused {
            self.wake_bundle();
        }
        was_refused
    }

    pub(super) fn wake_bundle(&mut self) {
        if let Some(bundle) = &mut self.bundle {
            (bundle.waits, bundle.places, bundle.by_time) = (WaitSet::Due, None, false);
        }
    }

    /// What an undecided gang waits for.
    pub(super) fn bundle_waits(&self) -> WaitSet {
        let waits = self.bundle.as_ref().map_or(WaitSet::Nothing, |bundle| bundle.waits.clone());
        waits.declined(self.declined.at(Phase::Normal))
    }

    /// What an undecided gang says of itself to an audit.
    pub(super) fn bundle_fact(&self, nodes: &NodeIndex) -> Option<BundleFact> {
        let native = self.book.undecided()?;
        let groups = native.groups().iter();
        let rests = self.bundle.as_ref().is_some_and(|bundle| bundle.rests(nodes));
        Some(BundleFact {
            groups: groups.clone().map(|it| (Arc::clone(&it.name), it.min_members)).collect(),
            sized: groups.filter(|it| it.spec.is_some()).map(|it| Arc::clone(&it.name)).collect(),
            rests,
            in_the_air: native.stage == Stage::InTheAir,
        })
    }

    /// Some time has passed since a member was refused.
    pub(super) fn retry_bundle(&mut self, retry: u32, effects: &mut VisitEffects) {
        let is_meant = self.bundle.as_ref().is_some_and(|bundle| bundle.retry == retry);
        if is_meant && self.book.undecided().is_some() {
            self.wake_bundle();
            if let Some(bundle) = &mut self.bundle {
                bundle.by_time = true;
            }
            effects.touched = true;
        }
    }

    /// Looks for places for the whole gang, or gives the offer back.
    pub(super) fn place_bundle(&mut self, mut baton: Box<Baton>) {
        match self.decide_bundle(&mut baton) {
            Ok((bundled, found)) => {
                for (slot, _) in bundled.iter().flatten() {
                    self.displace(*slot, &mut baton);
                }
                let mut slots = bundled.iter().flatten().map(|(slot, _)| *slot);
                let asks = &self.book.asks;
                if baton.offer.asks_later && slots.any(|slot| !asks.ask(slot).spec.placeholder) {
                    let total = total(asks, &bundled);
                    self.launch_bundle(baton, &bundled, &found, &total);
                } else {
                    self.book_bundle(baton, &bundled, &found);
                }
            }
            Err(obstacle) => {
                if let Some(obstacle) = obstacle {
                    tracing::debug!(application = %self.book.id, ?obstacle, "gang not placed");
                    if let Some(bundle) = &mut self.bundle {
                        bundle.note(obstacle, baton.now_ns);
                    }
                }
                let at = self.epoch(&baton);
                self.declined.note(Phase::Normal, at);
                self.rise(baton);
            }
        }
    }

    /// Finds a place for each member. Places that are found are taken from the node index; where
    /// there are not enough nothing is, and the gang waits. No obstacle: what was in the way still
    /// is.
    fn decide_bundle(
        &mut self,
        baton: &mut Baton,
    ) -> Result<(Bundled, Found), Option<BundleObstacle>> {
        let at = self.epoch(baton);
        let bundled = match self.book.undecided() {
            Some(native) if native.stage == Stage::Undecided => native.bundle(&self.book.asks),
            _ => return Err(None),
        };
        let bundled = bundled.map_err(|missing| {
            let waits = self.attempt(baton, |attempt| Parked::named(attempt.view));
            self.park_bundle(waits, None);
            Some(BundleObstacle::Asks(missing))
        })?;
        let total = total(&self.book.asks, &bundled);
        let over = self.attempt(baton, |attempt| {
            let obstacle = attempt.over_quota_of(&total)?;
            Some((obstacle, Parked::short(&total, attempt.view)))
        });
        // The first of its asks speaks for the gang.
        let mut slots = bundled.iter().flatten().map(|(slot, _)| *slot);
        let speaker = slots.find(|slot| !self.book.asks.ask(*slot).spec.placeholder);
        if let Some(speaker) = speaker {
            self.note_quota(speaker, over.as_ref().map(|(obstacle, _)| *obstacle), baton);
        }
        if let Some((obstacle, waits)) = over {
            self.park_bundle(waits, None);
            return Err(Some(match obstacle {
                Obstacle::Limits => BundleObstacle::Limits(total),
                _ => BundleObstacle::Quota(total),
            }));
        }
        if let Some(mut places) = self.bundle.as_mut().and_then(|bundle| bundle.places.take())
            && !places.is_due(&baton.books.nodes)
        {
            self.park_bundle(Parked::bundle(&places, at), Some(places));
            return Err(None);
        }
        let needs_answers = baton.offer.asks_later
            && bundled
                .iter()
                .flatten()
                .any(|(slot, _)| !self.book.asks.ask(*slot).spec.placeholder);
        if needs_answers && baton.books.unsettled.bundle.is_some() {
            // One bundle is in the air at a time.
            baton.books.unsettled.bundles_waiting.insert(self.slot);
            let waits = self.attempt(baton, |attempt| Parked::named(attempt.view));
            self.park_bundle(waits, None);
            return Err(None);
        }
        let mut found = match self.find_places(&bundled, baton) {
            Ok(found) => found,
            Err(short) => {
                let (shortage, places) = *short;
                self.park_bundle(Parked::bundle(&places, at), Some(places));
                self.note_attempt(&bundled, baton);
                return Err(Some(self.lacks_places(&bundled, &shortage)));
            }
        };
        if baton.offer.asks_later {
            return Ok((bundled, found));
        }
        match self.ask_predicates(&bundled, &mut found, baton) {
            Ok(()) => Ok((bundled, found)),
            Err(refused) => {
                found.undo(&mut baton.books.nodes);
                self.refuse_bundle(refused, baton);
                Err(Some(self.refused_member(refused)))
            }
        }
    }

    /// The gang is over its quota, or over that of its user and group, or within both.
    fn note_quota(&mut self, speaker: AskSlot, over: Option<Obstacle>, baton: &mut Baton) {
        match over {
            Some(Obstacle::Limits) => self.over_user_quota(speaker, baton),
            Some(_) => {
                self.within_user_quota(speaker, baton);
                self.over_quota(speaker, baton);
            }
            None => {
                self.within_user_quota(speaker, baton);
                self.within_quota(speaker, baton);
            }
        }
    }

    fn find_places(
        &self,
        bundled: &Bundled,
        baton: &mut Baton,
    ) -> Result<Found, Box<(Shortage, BundleWaits)>> {
        let (groups, nodes) = (groups(&self.book.asks, bundled), &mut baton.books.nodes);
        bundle::find(nodes, &groups).map_err(|shortage| {
            let places = BundleWaits::new(&groups, &shortage, nodes.growth());
            Box::new((shortage, places))
        })
    }

    fn park_bundle(&mut self, parked: Parked, places: Option<BundleWaits>) {
        if let Some(bundle) = &mut self.bundle {
            bundle.waits = WaitSet::Parked(Box::new(parked));
            (bundle.places, bundle.retry_ns) = (places, None);
        }
    }

    fn lacks_places(&self, bundled: &Bundled, shortage: &Shortage) -> BundleObstacle {
        let (slot, _) = bundled[shortage.of.group][shortage.of.members];
        let spec = &self.book.asks.ask(slot).spec;
        BundleObstacle::Places {
            group: spec.task_group.clone().unwrap_or_default(),
            size: spec.resources.clone(),
            lacks: shortage.lacks,
        }
    }

    pub(super) fn note_bundle_attempt(&mut self, baton: &mut Baton) {
        let bundled = self.book.undecided().map(|native| native.bundle(&self.book.asks));
        if let Some(Ok(bundled)) = bundled {
            self.note_attempt(&bundled, baton);
        }
    }

    /// The gang fits its quotas and found no places: more machines would help its asks, and so would
    /// any change of a node that one of them names.
    fn note_attempt(&mut self, bundled: &Bundled, baton: &mut Baton) {
        for (slot, _) in bundled.iter().flatten() {
            let ask = self.book.asks.ask_mut(*slot);
            ask.attempted = true;
            if let Some(node) = &ask.required_node {
                baton.directory.named.enter(node, self.slot);
            }
        }
    }

    /// Asks the RM in this process whether each member with an ask may run at its place; one that
    /// may not moves to another node. `Err`: no node will have this one.
    fn ask_predicates(
        &mut self,
        bundled: &Bundled,
        found: &mut Found,
        baton: &mut Baton,
    ) -> Result<(), AskSlot> {
        let mut refusals = Refusals::default();
        for at in 0..found.places().len() {
            let place = found.places()[at];
            let (slot, _) = bundled[place.of.group][place.of.members];
            if self.book.asks.ask(slot).spec.placeholder {
                continue;
            }
            let mut node = place.node;
            loop {
                let id = Arc::clone(baton.books.nodes.id(node));
                let key = Arc::clone(&self.book.asks.ask(slot).key);
                let known = refusals.get(&slot).is_some_and(|refused| refused.contains(&id));
                if !known {
                    let Err(why) = crate::node::predicate(&key, &id, true, baton) else { break };
                    baton.tally.refused();
                    baton.offer.refused += 1;
                    if baton.tracking.is_on() {
                        let reasons = &mut self.book.asks.ask_mut(slot).refusals_mut().reasons;
                        *reasons.entry(why).or_default() += 1;
                    }
                    refusals.entry(slot).or_default().insert(id);
                }
                let request = self.book.asks.ask(slot).request();
                let refused = refusals.entry(slot).or_default();
                let request = request.passing_over(refused);
                let next = found.move_member(&mut baton.books.nodes, at, &request);
                node = next.ok_or(slot)?;
            }
        }
        Ok(())
    }

    pub(super) fn refused_member(&self, ask: AskSlot) -> BundleObstacle {
        let group = self.book.asks.ask(ask).spec.member_of().cloned().unwrap_or_default();
        BundleObstacle::Refused { group, ask }
    }

    /// Every node with room refused a member: the gang waits for one to grow, or for some time.
    fn refuse_bundle(&mut self, refused: AskSlot, baton: &mut Baton) {
        self.note_bundle_attempt(baton);
        self.tell_refusals(baton, refused);
        let at = self.epoch(baton);
        self.park_bundle_refused(|least| Parked::refused(least, at), baton);
    }

    /// Predicates keep the gang from its places: it waits for a node to grow, or for some time.
    pub(super) fn park_bundle_refused(
        &mut self,
        parked: impl FnOnce(&Resources) -> Parked,
        baton: &mut Baton,
    ) {
        let Some(native) = self.book.undecided() else { return };
        let Ok(bundled) = native.bundle(&self.book.asks) else { return };
        let least = least(&self.book.asks, &bundled);
        self.park_bundle(parked(&least), None);
        let Some(bundle) = &mut self.bundle else { return };
        let by_time = std::mem::take(&mut bundle.by_time);
        bundle.in_a_row = if by_time { bundle.in_a_row.saturating_add(1) } else { 1 };
        bundle.retry = bundle.retry.wrapping_add(1);
        let id = Arc::clone(&self.book.id);
        let alarm = Alarm::BundleRetry { application: self.slot, id, retry: bundle.retry };
        let delay = retry_after(bundle.in_a_row);
        let delay_ns = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
        bundle.retry_ns = Some(baton.now_ns.saturating_add(delay_ns));
        baton.alarms.push((delay, alarm));
        // What a node said counts until something changes.
        baton.directory.refused.insert(self.slot);
    }

    /// Books all members of the gang at their places. The nodes are told one after another, and
    /// then the offer goes on from here.
    fn book_bundle(&mut self, mut baton: Box<Baton>, bundled: &Bundled, found: &Found) {
        let priority = self.book.asks.priority();
        let standing = self.standing();
        let total = total(&self.book.asks, bundled);
        baton.offer.charge(&total);
        self.uses(&total, &mut baton);
        self.book.decided(baton.now_ns, &mut self.changes);
        let running = self.tell_changes(&mut baton);
        let mut work: BTreeMap<NodeSlot, (Vec<AllocationId>, Resources)> = BTreeMap::new();
        let mut n_held = vec![0_u64; bundled.len()];
        for place in found.places() {
            let (slot, _) = bundled[place.of.group][place.of.members];
            let ask = self.book.asks.ask(slot);
            let (spec, created_ns) = (Arc::clone(&ask.spec), ask.created_ns);
            let entry =
                Allocation::new(self.slot, Arc::clone(&spec), place.node, created_ns, baton.now_ns);
            let id = baton.books.allocations.insert(entry);
            if spec.placeholder {
                n_held[place.of.group] += 1;
                self.book_hold(place.of.group, slot, id, &mut baton);
            } else {
                self.book_member(slot, id, &mut baton);
            }
            let (ids, sum) = work.entry(place.node).or_default();
            ids.push(id);
            sum.add(&spec.resources);
        }
        self.forget_internal();
        if let Some(native) = self.book.native_mut() {
            (native.stage, native.is_over) = (Stage::Decided, false);
        }
        self.tell_holds(&n_held, &mut baton);
        if baton.offer.is_watched {
            let held = self.placed_at(found, bundled, &baton);
            baton.notices.push(Notice::GangPlaced { application: Arc::clone(&self.book.id), held });
        }
        self.arm_placeholders(&mut baton);
        let starting = self.moved_on(standing, &baton.books.nodes);
        let delta = LedgerDelta { running, starting, ..LedgerDelta::default() };
        let work = work.into_iter().map(|(node, (ids, sum))| (node, NodeWork::HoldAll(ids, sum)));
        let address = Arc::clone(&baton.directory.applications[self.slot].address);
        baton.follow(Consequences {
            node_work: work.collect(),
            climbing: None,
            resume: Some((address, Resume { priority, delta })),
        });
    }

    /// A member whose ask is there: it is an allocation.
    fn book_member(&mut self, slot: AskSlot, id: AllocationId, baton: &mut Baton) {
        let uuid = self.book.next_uuid(slot);
        self.book.asks.take_one(slot);
        let ask = self.book.asks.ask_mut(slot);
        ask.live.push(id);
        let spec = Arc::clone(&ask.spec);
        self.book.booked(&spec.resources, false, baton.now_ns, &mut self.changes);
        let allocated = self.bind(baton, id, uuid);
        Self::tell_allocated(baton, allocated);
        self.note_real(spec.member_of());
    }

    /// A member without an ask: its place is held, and the RM is not told.
    fn book_hold(&mut self, group: usize, slot: AskSlot, id: AllocationId, baton: &mut Baton) {
        self.book.asks.take_one(slot);
        let spec = Arc::clone(&self.book.asks.ask(slot).spec);
        self.name_hold(group, id, baton);
        self.book.booked(&spec.resources, true, baton.now_ns, &mut self.changes);
    }

    /// A place is held from now on: it has a name for people, and is free to be taken.
    pub(super) fn name_hold(&mut self, group: usize, id: AllocationId, baton: &mut Baton) {
        let Some(native) = self.book.native_mut() else { return };
        let uuid = native.groups_mut()[group].next_hold();
        native.holds.insert(id);
        if let Some(entry) = baton.books.allocations.get_mut(id) {
            entry.uuid = Arc::clone(&uuid);
            let key = (entry.created_ns, uuid);
            if let Some(name) = entry.spec.place_in() {
                self.book.gang_mut().put_free(name, key, id);
            }
        }
        baton.directory.counts(self.leaf_facts.slot).allocated += 1;
    }

    /// An allocation that is not a placeholder was reported. If the gang is undecided here, it was
    /// decided before, by a scheduler that is no more: what it asks for is scheduled as usual. If it
    /// is decided, the allocation has the place of one that is held.
    pub(super) fn real_reported(
        &mut self,
        group: Option<&TaskGroup>,
        node: NodeSlot,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        self.ground_bundle(Grounded::Anew, None, baton, effects);
        if self.book.undecided().is_none() {
            if let Some(group) = group {
                self.report_takes_hold(group, node, baton, effects);
            }
            return self.note_real(group);
        }
        let Some(gang) = &mut self.book.gang else { return };
        let Some(native) = &mut gang.native else { return };
        (native.stage, native.has_real) = (Stage::Decided, true);
        let asks = &self.book.asks;
        let missing = native.groups().iter().filter_map(|group| {
            Some((Arc::clone(&group.name), u64::from(asks.ask(group.ask?).outstanding)))
        });
        for (name, missing) in missing.collect::<Vec<_>>() {
            gang.take_off(&name, missing);
        }
        let pending = self.forget_internal();
        effects.delta.pending.subtract(&pending);
        effects.touched = true;
    }

    /// A member of this task group runs from now on, or did.
    pub(super) fn note_real(&mut self, group: Option<&TaskGroup>) {
        let Some(group) = group else { return };
        if let Some(native) = self.book.native_mut()
            && native.has(group)
        {
            native.has_real = true;
        }
    }

    /// Nothing is asked for internally any more. Returns what was pending of it.
    pub(super) fn forget_internal(&mut self) -> Resources {
        let mut pending = Resources::new();
        let book = &mut self.book;
        let Some(native) = book.gang.as_mut().and_then(|gang| gang.native.as_mut()) else {
            return pending;
        };
        for slot in native.groups_mut().iter_mut().filter_map(|group| group.ask.take()) {
            pending.add(&book.asks.remove_internal(slot));
        }
        pending
    }

    /// The groups of the members for which places are held, each with its node.
    fn placed_at(
        &self,
        found: &Found,
        bundled: &Bundled,
        baton: &Baton,
    ) -> Vec<(TaskGroup, Arc<str>)> {
        let native = self.book.gang.as_ref().and_then(|gang| gang.native.as_ref());
        let groups = native.map_or(&[][..], |native| native.groups());
        let held = found.places().iter().filter(|place| {
            let (slot, _) = bundled[place.of.group][place.of.members];
            // Internal asks are forgotten by now.
            self.book.asks.find(slot).is_none_or(|ask| ask.form == Form::Internal)
        });
        held.map(|place| {
            let node = Arc::clone(baton.books.nodes.id(place.node));
            (Arc::clone(&groups[place.of.group].name), node)
        })
        .collect()
    }

    /// Makes one event for each group of which places are held, and says what user and group use by
    /// them.
    pub(super) fn tell_holds(&self, n_held: &[u64], baton: &mut Baton) {
        let Some(native) = self.book.gang.as_ref().and_then(|gang| gang.native.as_ref()) else {
            return;
        };
        let mut sum = Resources::new();
        for (group, held) in native.groups().iter().zip(n_held) {
            if let (Some(spec), 1..) = (&group.spec, *held) {
                let kind = EventKind::AllocationAdded;
                baton.happens(|at| self.group_event(kind, spec, *held, at));
                let times = i64::try_from(*held).unwrap_or(i64::MAX);
                sum.add(&spec.resources.times(times));
            }
        }
        if sum.is_zero() {
            return;
        }
        let charged = |kind, whose: &Arc<str>, at| {
            Event::of(kind, whose, at).referring(&self.book.queue).amount(&sum)
        };
        baton.happens(|at| charged(EventKind::UserCharged, &self.book.user, at));
        if let Some(group) = self.group() {
            baton.happens(|at| charged(EventKind::GroupCharged, group, at));
        }
    }
}

/// What all members take together.
pub(super) fn total(asks: &Asks, bundled: &Bundled) -> Resources {
    let mut total = Resources::new();
    for (slot, count) in bundled.iter().flatten() {
        total.add(&asks.ask(*slot).resources.times(i64::from(*count)));
    }
    total
}

/// The least that any member takes of each resource.
fn least(asks: &Asks, bundled: &Bundled) -> Resources {
    let mut sizes = bundled.iter().flatten().map(|(slot, _)| &asks.ask(*slot).resources);
    let mut least = sizes.next().cloned().unwrap_or_default();
    for size in sizes {
        least.lower_to(size);
    }
    least
}

/// The bundle as the search for places wants it.
fn groups<'a>(asks: &'a Asks, bundled: &Bundled) -> Vec<Group<'a>> {
    let request = |slot: AskSlot| -> NodeRequest<'a> { asks.ask(slot).request() };
    let members =
        |(slot, count): &(AskSlot, u32)| Members { request: request(*slot), count: *count };
    bundled.iter().map(|group| Group { members: group.iter().map(members).collect() }).collect()
}
