//! The declared gang of this application while it is undecided: the search for places for all of
//! its members at once. For people, `docs/gangs.md#declared-gangs`.
//!
//! Rules decide whether places are searched, and where ([`monoceros_rules::decide::gang`]); the
//! application carries that out. If each member has a place, all members are booked in this step,
//! or asked about ([`super::bundle_placed`]). Otherwise the gang is parked.

use std::sync::Arc;

use monoceros_rules::asks::Bundled;
use monoceros_rules::audit::Decision;
use monoceros_rules::decide::attempt::Attempt;
use monoceros_rules::decide::bundle::Found;
use monoceros_rules::decide::gang::{
    GangObstacle, GangRooms, GangSearch, GangTurn, Hold, NotPlaced, count_fitting, is_asked_about,
    least, note_tried, note_unanswered, over_quota, parked_short, total,
};
use monoceros_rules::decide::in_flight::WithdrawReason;
use monoceros_rules::pending::nominations::Preemptor;
use monoceros_rules::values::epoch::{Epoch, Loosening};
use monoceros_rules::values::resources::Resources;
use monoceros_rules::waiting::obstacle::Obstacle;
use monoceros_rules::waiting::{Parked, Phase};

use super::effects::VisitEffects;
use super::{Application, events};
use crate::step::{Baton, GangOp, Op};

/// An offer.
impl Application {
    /// Searches places for the whole gang. Returns the offer to the leaf if there are too few.
    pub(super) fn place_bundle(&mut self, mut baton: Box<Baton>) {
        match self.decide_bundle(&mut baton) {
            Ok((bundled, found)) => {
                for (slot, _) in bundled.iter().flatten() {
                    baton.displace_for(self.book.asks.ask(*slot));
                }
                let (asks, offer) = (&self.book.asks, &baton.offer);
                if offer.asks_later && is_asked_about(asks, &bundled, offer.asks_about_holds) {
                    let total = total(asks, &bundled);
                    self.launch_bundle(baton, &bundled, &found, &total);
                } else {
                    self.book_bundle(baton, &bundled, &found);
                }
            }
            Err(obstacle) => {
                if let Some(obstacle) = obstacle {
                    self.note_obstacle(obstacle, &mut baton);
                }
                if self.bundle.as_ref().is_some_and(|bundle| bundle.is_searching()) {
                    // Other steps have their turn before the search goes on.
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

    /// Notes the obstacle of a gang that was not placed. When the step is home, a gang that
    /// searches places held before is tried with fewer members, if that may help; otherwise
    /// victims are searched, if that may help.
    fn note_obstacle(&mut self, obstacle: GangObstacle, baton: &mut Baton) {
        tracing::debug!(application = %self.book.id, ?obstacle, "gang not placed");
        if obstacle.may_be_gone_with_fewer() && self.book.holds_again() {
            let is_quota = matches!(obstacle, GangObstacle::Quota(_) | GangObstacle::Limits(_));
            let native = self.book.undecided().filter(|_| is_quota);
            let fits = |amount: &Resources| {
                self.attempt_gang(baton, |attempt| over_quota(attempt, amount).is_none())
            };
            let n_fit = native.map(|native| count_fitting(native, fits));
            if let (Some(n_fit), Some(bundle)) = (n_fit, &mut self.bundle) {
                bundle.note_fitting(n_fit);
            }
            baton.effects.revisit(self.slot, Op::Gang(GangOp::SettleForLess));
        } else if obstacle.may_be_gone_by_preemption() {
            self.wish(Preemptor::Gang(self.slot), false, baton);
        }
        if let Some(bundle) = &mut self.bundle {
            bundle.note(obstacle, baton.now_ns);
        }
    }

    /// Finds a place for each member, and takes the places from the node index. If there are too
    /// few, none is taken, and the gang is parked.
    ///
    /// # Errors
    /// The obstacle; `None` if it is the same as before, or is not known yet.
    fn decide_bundle(
        &mut self,
        baton: &mut Baton,
    ) -> Result<(Bundled, Found), Option<GangObstacle>> {
        let bundled = self.bundle_to_place(baton)?;
        let (at, gang) = (self.epoch(baton), Preemptor::Gang(self.slot));
        let rooms = GangRooms::of(self.slot, &baton.books.nominations);
        baton.lift_nomination(gang, true);
        baton.tally.node_round_begins();
        let placed = match rooms {
            GangRooms::Free => baton.place_in_rooms(self.slot, &self.book, &bundled),
            GangRooms::None | GangRooms::Leaving => {
                let gang = (&mut self.book, &mut **self.bundle.get_or_insert_default());
                baton.search_places(self.slot, gang, &bundled)
            }
        };
        baton.tally.node_round_over();
        match placed {
            Ok(mut found) => {
                if let Some(bundle) = &mut self.bundle {
                    bundle.end_search();
                }
                found.keep(&mut baton.books.nodes);
                Ok((bundled, found))
            }
            Err(why) => {
                baton.lift_nomination(gang, false);
                if matches!(why, NotPlaced::Short(_)) && self.widen_bundle(&bundled, baton) {
                    return self.decide_bundle(baton);
                }
                Err(self.without_places(&bundled, why, (rooms, at), baton))
            }
        }
    }

    /// Returns the members for which places are searched now. If there is no search now, the gang
    /// is parked.
    ///
    /// # Errors
    /// The obstacle, as for [`Self::decide_bundle`].
    fn bundle_to_place(&mut self, baton: &mut Baton) -> Result<Bundled, Option<GangObstacle>> {
        debug_assert!(self.bundle.is_some(), "a gang is declared when it joins its queue");
        let native = self.book.undecided().filter(|_| self.book.seeks_places()).ok_or(None)?;
        let bundled = native.bundle(&self.book.asks).map_err(|missing| {
            let parked = self.attempt(baton, |attempt| Box::new(Parked::named(attempt.view)));
            if let Some(bundle) = &mut self.bundle {
                bundle.park(parked, None);
            }
            Some(GangObstacle::Asks(missing))
        })?;
        let total = total(&self.book.asks, &bundled);
        let places = self.bundle.as_mut().and_then(|bundle| bundle.take_places());
        let turn = self.attempt_gang(baton, |attempt| {
            GangTurn::of(attempt, (&bundled, &total), places, baton.offer.asks_about_holds)
        });
        let why = match &turn {
            GangTurn::Search => None,
            GangTurn::Wait { why, .. } => Some(*why),
        };
        if why != Some(Hold::GivesWay) {
            let lane = self.lane.limited();
            events::tell_gang_quota(lane, &mut self.book, &bundled, why, baton);
        }
        let GangTurn::Wait { why, parked, places } = turn else { return Ok(bundled) };
        if let Some(bundle) = &mut self.bundle {
            bundle.park(parked, places);
        }
        match why {
            Hold::OverQuota(Obstacle::Quota) => note_tried(&mut self.book.asks, &bundled),
            Hold::OtherInFlight => {
                baton.books.unsettled.bundles_waiting.insert(self.slot);
            }
            _ => {}
        }
        Err(why.obstacle(total))
    }

    /// Calls `look` with the offer as it applies to the whole gang, with its nomination if it has
    /// one.
    pub(super) fn attempt_gang<T>(&self, baton: &Baton, look: impl FnOnce(&Attempt<'_>) -> T) -> T {
        let nomination = baton.books.nominations.of(Preemptor::Gang(self.slot));
        let phase = nomination.map_or(baton.offer.phase, |_| Phase::Reserved);
        self.attempt_in(phase, baton, look)
    }
}

/// A search without result.
impl Application {
    /// Parks the gang after a search without result, `at` this epoch. Returns the obstacle, if it
    /// is known.
    fn without_places(
        &mut self,
        bundled: &Bundled,
        why: NotPlaced,
        (rooms, at): (GangRooms, Epoch),
        baton: &mut Baton,
    ) -> Option<GangObstacle> {
        match why {
            NotPlaced::Unfinished => None,
            NotPlaced::Unfit => {
                self.give_up_rooms(baton);
                None
            }
            NotPlaced::Short(short) => {
                let (shortage, places) = *short;
                let (parked, places) = self
                    .attempt(baton, |attempt| parked_short(attempt, bundled, places, (rooms, at)));
                if let Some(bundle) = &mut self.bundle {
                    bundle.park(parked, places);
                }
                self.note_bundle_attempt(baton);
                Some(GangObstacle::of(shortage, &self.book.asks, bundled))
            }
            NotPlaced::Refused(refused, growth) => {
                self.note_bundle_attempt(baton);
                events::tell_refusals(&mut self.book, refused, baton);
                let at = Epoch { growth, ..self.epoch(baton) };
                self.park_bundle_refused(at, baton);
                Some(GangObstacle::refused(refused, &self.book.asks))
            }
        }
    }

    /// Ends the nomination of the gang, because a member may not have the capacity that is kept for
    /// it. This counts as a decision.
    fn give_up_rooms(&mut self, baton: &mut Baton) {
        tracing::debug!(application = %self.book.id, "the rooms of the gang are given up");
        let application = Arc::clone(&self.book.id);
        baton.offer.silent = Some(Decision::GiveUpRooms { application });
        baton.end_nomination(Preemptor::Gang(self.slot), false);
        self.wake_bundle();
        baton.offer.decided += 1;
        baton.offer.rise_to(0);
    }

    /// Lets members of the gang use more nodes, as far as their placement constraints allow that
    /// now. If they allow it later, an alarm is set. Returns whether members may use more nodes
    /// now.
    fn widen_bundle(&mut self, bundled: &Bundled, baton: &mut Baton) -> bool {
        let mut may_now = false;
        for (slot, _) in bundled.iter().flatten() {
            let Some(wish) = self.book.asks.ask(*slot).wish() else { continue };
            let terms = Arc::clone(wish.terms());
            may_now |= self.book.asks.tried_without_result(*slot, baton.now_ns);
            baton.books.nodes.wait_for(&terms);
            self.arm_wish(*slot, baton);
        }
        may_now
    }

    /// Notes that the gang fits its quotas and has no places. The application waits for a change of
    /// each node that an ask of the gang requires.
    pub(super) fn note_bundle_attempt(&mut self, baton: &mut Baton) {
        let Some((_, bundled)) = self.book.undecided_bundle() else { return };
        note_tried(&mut self.book.asks, &bundled);
        for (slot, _) in bundled.iter().flatten() {
            if let Some(node) = &self.book.asks.ask(*slot).required_node {
                baton.directory.named.enter(node, self.slot);
            }
        }
    }

    /// Parks a gang whose places predicates refused, or about which the RM did not answer: it waits
    /// for a node to grow after this epoch, or for some time.
    pub(super) fn park_bundle_refused(&mut self, at: Epoch, baton: &mut Baton) {
        let Some((_, bundled)) = self.book.undecided_bundle() else { return };
        let parked = Parked::refused(&least(&self.book.asks, &bundled), at);
        let Some(bundle) = &mut self.bundle else { return };
        let (pause, retry) = bundle.park_refused(Box::new(parked), baton.now_ns);
        baton.effects.remind(pause, self.alarm(Op::Gang(GangOp::RetryBundle { retry })));
        // The refusals hold until something changes.
        baton.directory.refused.insert(self.slot);
    }
}

/// Orders, and changes of asks.
impl Application {
    /// Begins the gang of an application that has joined its queue: it asks for each member
    /// declared with a size.
    pub(super) fn declare(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        self.bundle = Some(Box::new(GangSearch::new(baton.now_ns)));
        self.ask_internally(baton, effects);
        if !self.book.asks.pending().is_empty() {
            self.book.ask_added(baton.now_ns, &mut self.changes);
        }
    }

    /// Asks for every member that has no ask: the gang is undecided from now on.
    pub(super) fn ask_internally(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let (slot, now_ns, books) = (self.slot, baton.now_ns, &mut baton.books);
        let pending = self.book.ask_internally(slot, now_ns, || books.arrival());
        self.book.internal_asks_join_domains(&mut books.nodes);
        effects.pends(&pending);
        if !pending.is_empty() {
            self.join_lane(baton);
        }
    }

    /// Makes an undecided gang ask for the members that are missing, and has it tried if something
    /// has changed. The nomination of a gang that is not undecided any more ends.
    pub(super) fn complete_bundle(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        if self.book.holds_again() && !self.book.may_hold_again() {
            // The application is not Running any more, or has no real allocation.
            self.give_up_holding_again(baton, effects);
        }
        if !self.book.seeks_places() {
            if self.book.undecided().is_none() && !baton.books.nominations.is_empty() {
                baton.end_nomination(Preemptor::Gang(self.slot), false);
            }
            return;
        }
        if let Some(gang) = &mut self.book.gang {
            let change = gang.complete(&mut self.book.asks);
            if !change.is_empty() {
                effects.pends(&change);
            }
        }
        match effects.withdrawn {
            Some(why @ (WithdrawReason::Refused | WithdrawReason::Unanswered)) => {
                self.park_withdrawn(why, baton);
            }
            _ if effects.touched => {
                self.wake_bundle();
                if let Some(bundle) = self.bundle.as_mut().filter(|_| effects.retries_bundle) {
                    bundle.begin_by_time();
                }
            }
            _ => {}
        }
    }

    /// Parks a gang whose bundle was withdrawn because predicates refused its places or the RM did
    /// not answer.
    fn park_withdrawn(&mut self, why: WithdrawReason, baton: &mut Baton) {
        if why == WithdrawReason::Refused {
            self.note_bundle_attempt(baton);
        } else if let Some(bundle) = &mut self.bundle {
            bundle.forget_obstacle();
            if let Some((_, bundled)) = self.book.undecided_bundle() {
                note_unanswered(&mut self.book.asks, &bundled);
            }
        }
        let growth = baton.books.nodes.growth();
        self.park_bundle_refused(Epoch { loosening: Loosening::NONE, growth }, baton);
        if why == WithdrawReason::Refused && self.book.holds_again() {
            baton.effects.revisit(self.slot, Op::Gang(GangOp::SettleForLess));
        }
    }

    /// Has the gang tried with the next offer: something has changed for it.
    pub(super) fn wake_bundle(&mut self) {
        if let Some(bundle) = &mut self.bundle {
            bundle.wake();
        }
    }

    /// Opens the choices of members' placement constraints that are due, and begins the search
    /// again if one has opened.
    pub(super) fn choice_of_gang_opens(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let bundled = self.book.undecided().map(|native| native.bundle(&self.book.asks));
        let Some(Ok(bundled)) = bundled else { return };
        let mut may_now = false;
        for (slot, _) in bundled.iter().flatten() {
            may_now |= self.book.asks.wish_is_due(*slot, baton.now_ns);
            self.arm_wish(*slot, baton);
        }
        let is_in_flight = self.in_flight.is_some();
        if let Some(bundle) = self.bundle.as_mut().filter(|_| may_now && !is_in_flight) {
            bundle.begin_again();
            effects.touched = true;
        }
    }
}
