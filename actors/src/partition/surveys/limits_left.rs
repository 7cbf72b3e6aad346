//! What the limits of its user and group leave to one for whom others are to go, beside what others
//! were nominated that count for the same limits: nobody goes for what would wait for a limit then.
//!
//! A nomination says who asks, and applications know their lanes; so a survey asks those of them that
//! have nominations.

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
    /// The applications to be asked, where the one that looks is in this lane.
    pub(super) fn to_ask(lane: Option<LaneId>, baton: &Baton) -> BTreeSet<ApplicationSlot> {
        let all = lane.map(|_| baton.books.nominations.all()).into_iter().flatten();
        all.map(|(preemptor, _)| preemptor.application()).collect()
    }

    /// Asks one of them.
    pub(super) fn ask(&mut self, application: &Application) {
        if let Some(lane) = application.limited_lane() {
            self.lanes.insert(application.slot(), lane);
        }
    }

    /// What is left to this one, in this lane.
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

/// What each limit leaves.
#[derive(Default)]
pub(super) struct LimitsLeft {
    left: Vec<Limits>,
}

impl LimitsLeft {
    /// Whether all of them allow so much.
    pub(super) fn allow(&self, amount: &Resources) -> bool {
        self.left.iter().all(|left| left.allows(amount))
    }

    /// So much of it is nominated now.
    pub(super) fn take(&mut self, amount: &Resources) {
        self.left.iter_mut().for_each(|left| left.take(amount));
    }
}
