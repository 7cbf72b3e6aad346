//! The amounts that the limits of a preemptor's user and group leave to it, less the nominations of
//! other preemptors that count for the same limits. No victim is evicted for an ask that would then
//! wait for a limit.
//!
//! A nomination names its preemptor, and applications know their lanes; so a survey visits the
//! applications that have nominations.

use std::collections::{BTreeMap, BTreeSet};

use monoceros_rules::limits::{LaneId, LimitId};
use monoceros_rules::pending::nominations::Preemptor;
use monoceros_rules::values::ids::ApplicationSlot;
use monoceros_rules::values::resources::{Limits, Resources};

use crate::application::Application;
use crate::step::Baton;

/// Gathers the lanes of applications with nominations.
#[derive(Default)]
pub(super) struct OtherNominations {
    lanes: BTreeMap<ApplicationSlot, LaneId>,
}

impl OtherNominations {
    /// Returns the applications to be visited for a preemptor in this lane.
    pub(super) fn to_ask(lane: Option<LaneId>, baton: &Baton) -> BTreeSet<ApplicationSlot> {
        let all = lane.map(|_| baton.books.nominations.all()).into_iter().flatten();
        all.map(|(preemptor, _)| preemptor.application()).collect()
    }

    /// Records the lane of one application.
    pub(super) fn ask(&mut self, application: &Application) {
        if let Some(lane) = application.lane.limited() {
            self.lanes.insert(application.slot, lane);
        }
    }

    /// Returns the amounts left to this preemptor, in this lane.
    pub(super) fn left(&self, who: Preemptor, lane: Option<LaneId>, baton: &Baton) -> LimitsLeft {
        let trackers = &baton.books.trackers;
        let Some(lane) = lane else { return LimitsLeft::default() };
        let mut left: BTreeMap<LimitId, Limits> = trackers.rooms(lane).collect();
        for (other, nomination) in baton.books.nominations.all().filter(|(other, _)| *other != who)
        {
            let Some(theirs) = self.lanes.get(&other.application()) else { continue };
            for (limit, _) in trackers.rooms(*theirs) {
                if let Some(left) = left.get_mut(&limit) {
                    left.take(&nomination.amount);
                }
            }
        }
        LimitsLeft { left: left.into_values().collect() }
    }
}

/// The amounts that limits leave to a preemptor.
#[derive(Default)]
pub(super) struct LimitsLeft {
    left: Vec<Limits>,
}

impl LimitsLeft {
    /// Whether all limits allow this amount.
    pub(super) fn allow(&self, amount: &Resources) -> bool {
        self.left.iter().all(|left| left.allows(amount))
    }

    /// Subtracts the amount of a new nomination.
    pub(super) fn take(&mut self, amount: &Resources) {
        self.left.iter_mut().for_each(|left| left.take(amount));
    }
}
