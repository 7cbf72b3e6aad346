//! Gangs of which a scheduler before this one held places: what fits is held again. For people,
//! `docs/gangs.md#held-again-after-a-restart`.
//!
//! # How
//! Its RM reports what runs, opens nodes, and says then how many places were held. The gang is undecided once more,
//! although members run, and so many places are looked for as for any other gang. Where they do not all fit, it
//! settles for fewer and looks once more, until what is left has its places or nothing is left. Then it is decided,
//! and the RM is told: it may ask for what others want.
//!
//! # Invariants
//! * Such a gang looks for places for [`SOUGHT_FOR`] at most, whatever is in the way, and preempts nobody.
//! * Places are looked for only while the application is Running and has a real allocation.
//! * Places are held no longer than they would have been without the restart.
//! * Each order to hold places again is answered once, unless the application is removed before.

use std::time::Duration;

use monoceros_rules::applications::application_state::ApplicationState;
use monoceros_rules::applications::native::{Native, Stage};
use monoceros_rules::decide::gang::{GangObstacle, over_quota};
use monoceros_rules::specs::hold_again::HoldAgain;
use monoceros_rules::specs::tags::HELD_AGAIN;

use super::Application;
use super::effects::{Grounded, VisitEffects};
use super::placeholders::holding_time_left;
use crate::step::{Baton, Op};

/// The longest search: what it asks for waits meanwhile.
const SOUGHT_FOR: Duration = Duration::from_secs(5);

impl Application {
    /// Whether places are looked for that were held before.
    pub(super) fn holds_again(&self) -> bool {
        self.book.undecided().is_some_and(Native::holds_again)
    }

    /// Has places be looked for that were held before, if its gang runs in part: as many as are not held already. An
    /// order that comes while places of an earlier one are looked for takes its place.
    pub(super) fn hold_again(
        &mut self,
        again: &HoldAgain,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        if self.holds_again() {
            self.give_up_holding_again(baton, effects);
        }
        let native = self.book.gang.as_ref().and_then(|gang| gang.native.as_deref());
        let runs = native.is_some_and(|native| native.stage == Stage::Decided && native.has_real);
        if !runs || !self.may_hold_again() {
            return self.tell_held_again(baton);
        }
        self.recall_asks(baton, effects);
        if let Some(gang) = &mut self.book.gang {
            gang.hold_again(again, baton.now_ns);
        }
        self.ask_internally(baton, effects);
        effects.touched = true;
        let left = self.holding_time_left(baton.now_ns);
        if left.is_zero() || self.book.undecided().is_none_or(|native| native.wanted() == 0) {
            return self.decide_without_places(baton, effects);
        }
        let order = self.bundle.as_mut().map_or(0, |bundle| bundle.next_hold_order());
        baton.effects.remind(left.min(SOUGHT_FOR), self.alarm(Op::HoldAgainOver { order }));
    }

    /// Ends the search that this order began, if it goes on.
    pub(super) fn hold_again_over(
        &mut self,
        order: u32,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let is_meant = self.bundle.as_ref().is_some_and(|bundle| bundle.is_last_hold_order(order));
        if is_meant && self.holds_again() {
            self.give_up_holding_again(baton, effects);
        }
    }

    /// Whether the application is in a state in which places may be held for it.
    fn may_hold_again(&self) -> bool {
        let has_real = !self.book.allocated().same_amount(self.book.placeholders());
        has_real && self.book.state() == ApplicationState::Running
    }

    /// How long places that were held before may still be held.
    fn holding_time_left(&self, now_ns: i64) -> Duration {
        let native = self.book.undecided();
        let since_ns = native.and_then(Native::held_since_ns).unwrap_or(now_ns);
        holding_time_left(self.book.execution_timeout_ms, since_ns, now_ns)
    }

    /// Tells the RM that what fits is held.
    pub(super) fn tell_held_again(&self, baton: &mut Baton) {
        let held = self.entered(self.book.state(), HELD_AGAIN, baton.now_ns);
        baton.effects.notify(held);
    }

    /// Looks for no places any more, and holds none.
    fn give_up_holding_again(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        self.ground_bundle(Grounded::Anew, None, baton, effects);
        self.decide_without_places(baton, effects);
    }

    /// Looks on only while the application runs: what is over has nothing held.
    pub(super) fn review_held_before(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        if self.holds_again() && !self.may_hold_again() {
            self.give_up_holding_again(baton, effects);
        }
    }

    /// Looks for fewer places than were not there; decides where none are left to be looked for.
    pub(super) fn settle_for_less(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let native = self.book.undecided().filter(|_| self.holds_again());
        let Some(native) = native.filter(|native| native.stage == Stage::Undecided) else { return };
        let before = native.wanted();
        let n_fit = self.bundle.as_mut().and_then(|bundle| bundle.take_fitting());
        let obstacle = self.bundle.as_ref().and_then(|bundle| bundle.obstacle());
        let book = &mut self.book;
        let Some(native) = book.gang.as_mut().and_then(|gang| gang.native.as_deref_mut()) else {
            return;
        };
        match obstacle {
            Some(GangObstacle::Places(short)) => {
                for (slot, lacks) in short {
                    let ask = book.asks.find(*slot);
                    if let Some(group) = ask.and_then(|ask| ask.spec.task_group.as_ref()) {
                        native.settle_for_fewer(group, *lacks);
                    }
                }
            }
            Some(GangObstacle::Domain(short)) => {
                native.settle_for_fewer(&short.group, short.lacks);
            }
            Some(GangObstacle::Refused { group, .. }) => {
                let wanted = native.group(group).map_or(0, |group| u64::from(group.wanted()));
                let fewer = n_fit.map_or(1, |n_fit| wanted.saturating_sub(n_fit));
                native.settle_for_fewer(group, fewer);
            }
            _ => {
                let fewer = n_fit.map_or(1, |n_fit| before.saturating_sub(n_fit));
                native.settle_for_fewer_in_all(fewer);
            }
        }
        if native.wanted() == before {
            // Whatever it was that did not fit, it fits with fewer.
            native.settle_for_fewer_in_all(1);
        }
        if native.wanted() > 0 {
            self.wake_bundle();
            effects.touched = true;
        } else {
            self.decide_without_places(baton, effects);
        }
    }

    /// Counts the members that quotas and limits have room for, where they are what is in the way.
    pub(super) fn count_within_quota(&mut self, obstacle: &GangObstacle, baton: &Baton) {
        let is_quota = matches!(obstacle, GangObstacle::Quota(_) | GangObstacle::Limits(_));
        let Some(native) = self.book.undecided().filter(|_| is_quota) else { return };
        // So many are too few to leave out, and so many are enough.
        let (wanted, mut too_few, mut enough) = (native.wanted(), 0, native.wanted());
        while too_few + 1 < enough {
            let fewer = u64::midpoint(too_few, enough);
            let amount = native.amount_without(fewer);
            match self.attempt_gang(baton, |attempt| over_quota(attempt, &amount)) {
                Some(_) => too_few = fewer,
                None => enough = fewer,
            }
        }
        if let Some(bundle) = &mut self.bundle {
            bundle.note_fitting(wanted - enough);
        }
    }
}
