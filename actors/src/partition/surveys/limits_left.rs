//! What the limits of its user and group leave to one for whom others are to go, beside what others
//! were promised that count for the same limits: nobody goes for what would wait for a limit then.
//!
//! A promise says who asks, and applications know their lanes; so a survey asks those of them that
//! have promises.

use std::collections::{BTreeMap, BTreeSet};

use monoceros_rules::limits::{LaneId, LimitId};
use monoceros_rules::pending::promises::Promisee;
use monoceros_rules::values::ids::ApplicationSlot;
use monoceros_rules::values::resources::{Limits, Resources};

use crate::application::Application;
use crate::step::Baton;

/// Gathers the lanes of those who were promised something.
#[derive(Default)]
pub(super) struct OtherPromises {
    lanes: BTreeMap<ApplicationSlot, LaneId>,
}

impl OtherPromises {
    /// The applications to be asked, where the one that looks is in this lane.
    pub(super) fn to_ask(lane: Option<LaneId>, baton: &Baton) -> BTreeSet<ApplicationSlot> {
        let all = lane.map(|_| baton.books.promises.all()).into_iter().flatten();
        all.map(|(promisee, _)| promisee.application()).collect()
    }

    /// Asks one of them.
    pub(super) fn ask(&mut self, application: &Application) {
        if let Some(lane) = application.limited_lane() {
            self.lanes.insert(application.slot(), lane);
        }
    }

    /// What is left to this one, in this lane.
    pub(super) fn left(&self, who: Promisee, lane: Option<LaneId>, baton: &Baton) -> LimitsLeft {
        let trackers = &baton.books.trackers;
        let Some(lane) = lane else { return LimitsLeft::default() };
        let mut left: BTreeMap<LimitId, Limits> = trackers.rooms(lane).collect();
        for (other, promise) in baton.books.promises.all().filter(|(other, _)| *other != who) {
            let Some(theirs) = self.lanes.get(&other.application()) else { continue };
            for (limit, _) in trackers.rooms(*theirs) {
                if let Some(left) = left.get_mut(&limit) {
                    left.take(&promise.amount);
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

    /// So much of it is promised now.
    pub(super) fn take(&mut self, amount: &Resources) {
        self.left.iter_mut().for_each(|left| left.take(amount));
    }
}
