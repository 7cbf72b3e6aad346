//! Gangs of which a scheduler before this one held places: what fits is held again. For people,
//! `docs/gangs.md#held-places`.
//!
//! # How
//! Its RM reports what runs, opens nodes, and says then how many places were held. The gang is undecided once more,
//! although members run, and so many places are looked for as for any other gang. Where they do not all fit, it
//! settles for fewer and looks once more, until what is left has its places or nothing is left. Then it is decided,
//! and the RM is told: it may ask for what others want.
//!
//! # Invariants
//! * Such a gang never waits for places that are not there, and preempts nobody.
//! * Places are held no longer than they would have been without the restart.
//! * Each order to hold places again is answered once.

use std::time::Duration;

use monoceros_rules::work::hold_again::HoldAgain;
use monoceros_rules::work::native::{Native, Stage};
use monoceros_rules::work::tags::HELD_AGAIN;

use super::Application;
use super::ops::VisitEffects;
use super::placeholders::holding_time;
use super::undecided::BundleObstacle;
use crate::step::Baton;

impl BundleObstacle {
    /// Whether fewer members may have places where all of them have none.
    pub(super) fn may_be_gone_with_fewer(&self) -> bool {
        !matches!(self, Self::Asks(_) | Self::GivesWay)
    }
}

impl Application {
    /// Has places be looked for that were held before, if its gang is decided and lacks members.
    pub(super) fn hold_again(
        &mut self,
        again: &HoldAgain,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let is_terminated = self.book.state().is_terminated();
        let native = self.book.native_mut().filter(|_| !is_terminated);
        if !native.is_some_and(|native| native.stage == Stage::Decided && native.has_real) {
            return self.tell_held_again(baton);
        }
        self.take_back_places(baton, effects);
        if let Some(native) = self.book.native_mut() {
            native.hold_again(again, baton.now_ns);
        }
        self.ask_internally(baton, effects);
        effects.touched = true;
        let is_over = self.is_held_long_enough(baton.now_ns);
        if is_over || self.book.undecided().is_some_and(|native| native.wanted() == 0) {
            self.decide_without_places(baton, effects);
        }
    }

    /// Tells the RM that what fits is held again.
    pub(super) fn tell_held_again(&self, baton: &mut Baton) {
        let held = self.entered(self.book.state(), HELD_AGAIN, baton.now_ns);
        baton.notices.push(held);
    }

    /// Whether it is a gang whose places are to be held again, and settles for what there is.
    pub(super) fn may_settle_for_less(&self) -> bool {
        self.book.undecided().is_some_and(|native| native.holds_again().is_some())
    }

    /// Whether the places that are looked for again would not be held any more by now.
    fn is_held_long_enough(&self, now_ns: i64) -> bool {
        let before = self.book.undecided().and_then(Native::holds_again);
        before.is_some_and(|before| {
            let time = holding_time(self.book.execution_timeout_ms);
            is_over(before.since_ns, time, now_ns)
        })
    }

    /// Looks for fewer places than were not there; decides where none are left to be looked for.
    pub(super) fn settle_for_less(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let is_over = self.is_held_long_enough(baton.now_ns);
        let obstacle = self.bundle.as_ref().and_then(|bundle| bundle.obstacle.as_ref());
        let obstacle = obstacle.map(|(obstacle, _)| obstacle);
        let book = &mut self.book;
        let Some(native) = book.gang.as_mut().and_then(|gang| gang.native.as_deref_mut()) else {
            return;
        };
        if native.holds_again().is_none() || native.stage != Stage::Undecided {
            return;
        }
        let before = native.wanted();
        match obstacle {
            _ if is_over => native.settle_for_none(),
            Some(BundleObstacle::Places(short)) => {
                for (slot, lacks) in short {
                    let ask = book.asks.find(*slot);
                    if let Some(group) = ask.and_then(|ask| ask.spec.task_group.as_ref()) {
                        native.settle_for_fewer(group, *lacks);
                    }
                }
            }
            Some(BundleObstacle::Domain(short)) => {
                native.settle_for_fewer(&short.group, short.lacks);
            }
            Some(BundleObstacle::Refused { group, .. }) => native.settle_for_less(Some(group)),
            Some(_) | None => {}
        }
        if native.wanted() == before {
            native.settle_for_less(None);
        }
        if native.wanted() > 0 {
            self.wake_bundle();
            effects.touched = true;
        } else {
            self.decide_without_places(baton, effects);
        }
    }
}

/// Whether places that are held since then, for this time, are held no more.
fn is_over(since_ns: i64, time: Duration, now_ns: i64) -> bool {
    let time_ns = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    since_ns.saturating_add(time_ns) <= now_ns
}
