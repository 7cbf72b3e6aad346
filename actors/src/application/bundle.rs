//! Places are looked for, for all members of a declared gang at once. For people,
//! `docs/gangs.md#declared-gangs`.
//!
//! # How
//! As long as the gang is undecided none of its asks is tried by itself. An offer that reaches the
//! application looks for places for the whole *bundle* ([`monoceros_rules::decide::bundle`]): the
//! asks of its members, and internal ones for members without an ask. Quota is looked at for all of
//! them together. If each has a place and the RM's predicate agrees, everything is booked in this
//! step, node by node ([`super::decided`]); else the gang waits ([`super::undecided`]).
//!
//! # Invariant
//! Either all members of a bundle are booked in a step, or nothing is.

use std::sync::Arc;

use monoceros_rules::applications::native::{NativeGroup, Stage};
use monoceros_rules::asks::{Asks, Bundled};
use monoceros_rules::decide::bundle::{Found, Group, Members, MembersAt, NoDomain, Shortage};
use monoceros_rules::decide::explain::ShortDomain;
use monoceros_rules::nodes::NodeRequest;
use monoceros_rules::pending::promises::Promisee;
use monoceros_rules::values::epoch::{Epoch, Growth};
use monoceros_rules::values::ids::AskSlot;
use monoceros_rules::values::resources::Resources;
use monoceros_rules::waiting::obstacle::Obstacle;
use monoceros_rules::waiting::{BundleWaits, Parked, Phase, WaitSet};

use super::Application;
use super::ops::VisitEffects;
use super::rooms::Rooms;
use super::searching::{Avoided, Where};
use super::undecided::BundleObstacle;
use crate::step::{Baton, Op};

/// Not all members have places.
pub(super) enum NotPlaced {
    /// There are too few.
    Short(Box<(Shortage, BundleWaits)>),
    /// This member was refused wherever there was room; nodes had grown so far when the search began.
    Refused(AskSlot, Growth),
    /// A member may not have the room that was reserved for it.
    Unfit,
    /// The search goes on in a later step.
    Unfinished,
}

impl Application {
    /// Looks for places for the whole gang, or gives the offer back.
    pub(super) fn place_bundle(&mut self, mut baton: Box<Baton>) {
        match self.decide_bundle(&mut baton) {
            Ok((bundled, found)) => {
                for (slot, _) in bundled.iter().flatten() {
                    baton.displace_for(self.book.asks.ask(*slot));
                }
                if self.needs_answers(&bundled, &baton) {
                    let total = total(&self.book.asks, &bundled);
                    self.launch_bundle(baton, &bundled, &found, &total);
                } else {
                    self.book_bundle(baton, &bundled, &found);
                }
            }
            Err(obstacle) => {
                if let Some(obstacle) = obstacle {
                    tracing::debug!(application = %self.book.id, ?obstacle, "gang not placed");
                    if obstacle.may_be_gone_with_fewer() && self.holds_again() {
                        self.count_within_quota(&obstacle, &baton);
                        baton.effects.revisit(self.slot, Op::SettleForLess);
                    } else {
                        self.gang_would_preempt(&obstacle, &mut baton);
                    }
                    if let Some(bundle) = &mut self.bundle {
                        bundle.note(obstacle, baton.now_ns);
                    }
                }
                if self.bundle.as_ref().is_some_and(|bundle| bundle.search.is_some()) {
                    // Others have their turn before it goes on.
                    baton.offer.rise_to(0);
                    baton.offer.budget = baton.offer.decided;
                } else {
                    let at = self.epoch(&baton);
                    self.declined.note(Phase::Normal, at);
                }
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
        if self.bundle_gives_way(&bundled, baton) {
            let waits = self.attempt(baton, |attempt| Parked::named(attempt.view));
            self.park_bundle(waits, None);
            return Err(Some(BundleObstacle::GivesWay));
        }
        let total = total(&self.book.asks, &bundled);
        let over = self.over_quota_of_bundle(&total, baton);
        // The first of its asks speaks for the gang.
        let mut slots = bundled.iter().flatten().map(|(slot, _)| *slot);
        let speaker = slots.find(|slot| !self.book.asks.ask(*slot).spec.placeholder);
        if let Some(speaker) = speaker {
            self.note_quota(speaker, over.as_ref().map(|(obstacle, _)| *obstacle), baton);
        }
        if let Some((obstacle, waits)) = over {
            self.park_bundle(waits, None);
            if obstacle == Obstacle::Limits {
                return Err(Some(BundleObstacle::Limits(total)));
            }
            self.mark_tried(&bundled);
            return Err(Some(BundleObstacle::Quota(total)));
        }
        if let Some(mut places) = self.bundle.as_mut().and_then(|bundle| bundle.places.take())
            && !places.is_due(&baton.books.nodes)
        {
            self.park_bundle(Parked::bundle(&places, at), Some(places));
            return Err(None);
        }
        if self.needs_answers(&bundled, baton) && baton.books.unsettled.bundle.is_some() {
            // One bundle is in the air at a time.
            baton.books.unsettled.bundles_waiting.insert(self.slot);
            let waits = self.attempt(baton, |attempt| Parked::named(attempt.view));
            self.park_bundle(waits, None);
            return Err(None);
        }
        let rooms = self.rooms(baton);
        self.lift_rooms(true, baton);
        baton.tally.node_round_begins();
        let outcome = match rooms {
            Rooms::Free => self.place_in_rooms(&bundled, baton),
            Rooms::None | Rooms::Leaving => self.place_members(&bundled, baton),
        };
        baton.tally.node_round_over();
        if outcome.is_err() {
            self.lift_rooms(false, baton);
        }
        match outcome {
            Ok(mut found) => {
                if let Some(bundle) = &mut self.bundle {
                    bundle.search = None;
                }
                found.keep(&mut baton.books.nodes);
                Ok((bundled, found))
            }
            Err(NotPlaced::Unfit) => {
                self.give_up_rooms(baton);
                Err(None)
            }
            Err(NotPlaced::Unfinished) => Err(None),
            Err(NotPlaced::Short(short)) => {
                let (shortage, places) = *short;
                if self.widen_bundle(&bundled, baton) {
                    return self.decide_bundle(baton);
                }
                if rooms == Rooms::Leaving {
                    // What it has room for itself is no growth, and counts all the same.
                    let least = least(&self.book.asks, &bundled);
                    let waits =
                        self.attempt(baton, |attempt| Parked::roomless(&least, attempt.view));
                    self.park_bundle(waits, None);
                } else {
                    self.park_bundle(Parked::bundle(&places, at), Some(places));
                }
                self.note_attempt(&bundled, baton);
                Err(Some(self.lacks_places(&bundled, shortage)))
            }
            Err(NotPlaced::Refused(refused, since)) => {
                self.refuse_bundle(refused, since, baton);
                Err(Some(self.refused_member(refused)))
            }
        }
    }

    /// Whether the RM has to be asked about some of its members, and answers later.
    fn needs_answers(&self, bundled: &Bundled, baton: &Baton) -> bool {
        let mut members = bundled.iter().flatten();
        let is_asked = |(slot, _): &(AskSlot, u32)| {
            baton.offer.asks_about_holds || !self.book.asks.ask(*slot).spec.placeholder
        };
        baton.offer.asks_later && members.any(is_asked)
    }

    /// Whether one of its asks came after something was taken from its application for another.
    fn bundle_gives_way(&self, bundled: &Bundled, baton: &Baton) -> bool {
        !baton.books.promises.is_empty()
            && self.attempt(baton, |attempt| {
                bundled.iter().flatten().any(|(slot, _)| attempt.gives_way(*slot))
            })
    }

    /// By what the gang is over its quota, if it is: what was promised to it is for it.
    pub(super) fn over_quota_of_bundle(
        &self,
        total: &Resources,
        baton: &Baton,
    ) -> Option<(Obstacle, Parked)> {
        let gang = Promisee::Gang(self.slot);
        let phase = match baton.books.promises.of(gang) {
            Some(_) => Phase::Reserved,
            None => baton.offer.phase,
        };
        self.attempt_in(phase, baton, |attempt| {
            let over = attempt.over_quota_of(total);
            let obstacle = over.or_else(|| attempt.over_promises(gang, total))?;
            Some((obstacle, Parked::short(total, attempt.view)))
        })
    }

    /// All members get the rooms that were reserved for them, if predicates in this process pass
    /// each of them there.
    fn place_in_rooms(&self, bundled: &Bundled, baton: &mut Baton) -> Result<Found, NotPlaced> {
        let mut found = self.take_rooms(bundled, baton).ok_or(NotPlaced::Unfit)?;
        if baton.offer.asks_later {
            return Ok(found);
        }
        let mut assumed = Vec::new();
        for at in 0..found.places().len() {
            let place = found.places()[at];
            let ask = self.book.asks.ask(bundled[place.of.group][place.of.members].0);
            let node = Arc::clone(baton.books.nodes.id(place.node));
            if baton.predicate((self.slot, &ask.spec), &node, true).is_err() {
                found.undo(&mut baton.books.nodes);
                self.forget_members(assumed, baton);
                return Err(NotPlaced::Unfit);
            }
            self.assume_member(ask.spec.clone(), place.node, &mut assumed, baton);
        }
        Ok(found)
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

    /// Placement constraints may let members of the gang use more nodes, now or later. Says whether
    /// they may now.
    fn widen_bundle(&mut self, bundled: &Bundled, baton: &mut Baton) -> bool {
        let mut may_now = false;
        for (slot, _) in bundled.iter().flatten() {
            let Some(wish) = self.book.asks.ask(*slot).wish() else { continue };
            let terms = Arc::clone(wish.terms());
            may_now |= self.book.asks.tried_in_vain(*slot, baton.now_ns);
            baton.books.nodes.wait_for(&terms);
            self.arm_wish(*slot, baton);
        }
        may_now
    }

    /// The time has come at which a choice of a constraint of a member may open.
    pub(super) fn choice_of_gang_opens(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let bundled = self.book.undecided().map(|native| native.bundle(&self.book.asks));
        let Some(Ok(bundled)) = bundled else { return };
        let mut may_now = false;
        for (slot, _) in bundled.iter().flatten() {
            may_now |= self.book.asks.wish_is_due(*slot, baton.now_ns);
            self.arm_wish(*slot, baton);
        }
        if let Some(bundle) = self.bundle.as_mut().filter(|bundle| may_now && bundle.air.is_none())
        {
            (bundle.waits, bundle.places, bundle.search) = (WaitSet::Due, None, None);
            effects.touched = true;
        }
    }

    fn park_bundle(&mut self, parked: Parked, places: Option<BundleWaits>) {
        if let Some(bundle) = &mut self.bundle {
            bundle.waits = WaitSet::Parked(Box::new(parked));
            (bundle.places, bundle.search) = (places, None);
            bundle.retries.stop();
        }
    }

    fn lacks_places(&self, bundled: &Bundled, shortage: Shortage) -> BundleObstacle {
        let Some(NoDomain { key, value }) = shortage.domain else {
            return BundleObstacle::Places(short_members(bundled, &shortage.short));
        };
        let group = &bundled[shortage.of.group];
        let (slot, _) = group[shortage.of.members];
        let spec = &self.book.asks.ask(slot).spec;
        BundleObstacle::Domain(Box::new(ShortDomain {
            group: spec.task_group.clone().unwrap_or_default(),
            size: Resources::clone(&spec.resources),
            members: group.iter().map(|(_, count)| u64::from(*count)).sum(),
            lacks: shortage.lacks,
            key,
            value,
        }))
    }

    pub(super) fn note_bundle_attempt(&mut self, baton: &mut Baton) {
        let bundled = self.book.undecided().map(|native| native.bundle(&self.book.asks));
        if let Some(Ok(bundled)) = bundled {
            self.note_attempt(&bundled, baton);
        }
    }

    /// There were no answers that count: it is not known whether more machines would help its asks.
    pub(super) fn note_bundle_unanswered(&mut self) {
        let bundled = self.book.undecided().map(|native| native.bundle(&self.book.asks));
        for (slot, _) in bundled.into_iter().flatten().flatten().flatten() {
            self.book.asks.ask_mut(slot).unanswered = true;
        }
    }

    /// The asks of the gang were tried. More machines would help them if nothing but root and the
    /// nodes is too small, which the scale-up signal looks at.
    fn mark_tried(&mut self, bundled: &Bundled) {
        for (slot, _) in bundled.iter().flatten() {
            let ask = self.book.asks.ask_mut(*slot);
            (ask.attempted, ask.unanswered) = (true, false);
        }
    }

    /// The gang fits its quotas and found no places: any change of a node that one of its asks names
    /// may help it.
    fn note_attempt(&mut self, bundled: &Bundled, baton: &mut Baton) {
        self.mark_tried(bundled);
        for (slot, _) in bundled.iter().flatten() {
            if let Some(node) = &self.book.asks.ask(*slot).required_node {
                baton.directory.named.enter(node, self.slot);
            }
        }
    }

    pub(super) fn refused_member(&self, ask: AskSlot) -> BundleObstacle {
        let group = self.book.asks.ask(ask).spec.task_group.clone().unwrap_or_default();
        BundleObstacle::Refused { group, ask }
    }

    /// Every node with room refused a member: the gang waits for one to grow, or for some time.
    fn refuse_bundle(&mut self, refused: AskSlot, since: Growth, baton: &mut Baton) {
        self.note_bundle_attempt(baton);
        self.tell_refusals(baton, refused);
        let at = Epoch { growth: since, ..self.epoch(baton) };
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
        bundle.retries.refused();
        let (pause, retry) = bundle.retries.pause(baton.now_ns);
        baton.effects.remind(pause, self.alarm(Op::RetryBundle { retry }));
        // What a node said counts until something changes.
        baton.directory.refused.insert(self.slot);
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

/// The asks of members that lack places, with the number of members of their group that do.
pub(super) fn short_members(bundled: &Bundled, short: &[(MembersAt, u64)]) -> Vec<(AskSlot, u64)> {
    short.iter().map(|(of, lacks)| (bundled[of.group][of.members].0, *lacks)).collect()
}

/// The least that any member takes of each resource.
fn least(asks: &Asks, bundled: &Bundled) -> Resources {
    let mut sizes = bundled.iter().flatten().map(|(slot, _)| &*asks.ask(*slot).resources);
    let mut least = sizes.next().cloned().unwrap_or_default();
    for size in sizes {
        least.lower_to(size);
    }
    least
}

/// The bundle as the search for places wants it.
pub(super) fn groups<'a>(
    asks: &'a Asks,
    native: &'a [NativeGroup],
    bundled: &Bundled,
    avoid: &'a Avoided,
    nodes: Where,
) -> Vec<Group<'a>> {
    let request = |slot: AskSlot| -> NodeRequest<'a> { nodes.request(asks.ask(slot)) };
    let members = |(slot, count): &(AskSlot, u32)| Members {
        request: request(*slot),
        count: *count,
        tags: asks.ask(*slot).spec.tags.as_ref(),
    };
    let group = |(at, group): (usize, &Vec<(AskSlot, u32)>)| Group {
        members: group.iter().map(members).collect(),
        topology: native.get(at).and_then(NativeGroup::sought_topology).map(|it| &**it),
        avoid: avoid.get(&at).map_or(&[], Vec::as_slice),
    };
    bundled.iter().enumerate().map(group).collect()
}
