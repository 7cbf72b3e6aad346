//! Shared limits: limits of users and groups for which several lanes wait. Asks that wait for one
//! of them are visible to the queues above.
//!
//! # Why
//! A lane whose asks its own limits hold back is hidden from the queues above, and its leaf is
//! notified when it may continue. If a thousand leaves waited for one limit, a release that frees
//! room for one of them would notify all, and each would get an offer, too late in all cases except
//! one. So a limit that several lanes count for gets a *number*, an id below [`MOST`], and asks
//! that wait for it stay visible with that number ([`Limited`](crate::waiting::Limited),
//! [`LimitedStarts`](crate::waiting::LimitedStarts)). An offer checks the limit itself, finds the
//! first ask that may continue in the order of the queues, and skips all others once the room is
//! used again.
//!
//! # Which limits
//! There are [`MOST`] numbers, so that a set of them is one word. A limit may get one when it holds
//! back an ask: if `n` lanes count for it, while fewer than `n - 1` numbers are in use. So limits
//! of few lanes cannot take the numbers from limits of many. Lanes of a limit without a number are
//! notified instead ([`super::waiting`]).
//!
//! A limit keeps its number as long as a lane shows asks with it. So if many lanes wait for more
//! than 64 limits at the same time, 64 have a number, and lanes of the others are notified instead.
//!
//! # Invariants
//! * A number is free again when no lane shows it any more. Queues above may still show it until
//!   the step ends. That is harmless: no lane below uses it.
//! * A lane shows at most one number of a limit on amounts, which holds back the least amount that
//!   waits in the lane, and at most one of a limit on running applications. For what it does not
//!   show so, it reports to the trackers what it holds back.

use super::ids::{LaneId, PlaceId};
use super::numbers::{SharedLimits, ShownBy};
use super::places::Place;
use super::trackers::Trackers;
use crate::values::epoch::Loosening;
use crate::values::resources::Resources;

impl Trackers {
    /// Returns a numbered limit that does not leave this amount to the lane now. A limit may get
    /// its number here.
    pub fn shared_limit(&mut self, lane: LaneId, least: &Resources) -> Option<SharedLimits> {
        self.numbered(lane, |place| !place.allows(least))
    }

    /// Returns a numbered limit that lets no more applications of this lane start now. A limit may
    /// get its number here.
    pub fn shared_limit_of_starts(&mut self, lane: LaneId) -> Option<SharedLimits> {
        self.numbered(lane, |place| !place.may_start())
    }

    /// Returns the first limit of a lane that holds back asks and has a number, or gets one.
    fn numbered(
        &mut self,
        lane: LaneId,
        holds_back: impl Fn(&Place) -> bool,
    ) -> Option<SharedLimits> {
        let limited = &self.lanes.get(lane).limited;
        limited.iter().find_map(|id| {
            let place = self.forest.get_mut(*id);
            if !holds_back(place) {
                return None;
            }
            if place.number.is_none() {
                place.number = self.numbers.give(*id, place.n_lanes);
            }
            place.number.map(SharedLimits::only)
        })
    }

    /// Records the limits with which a lane shows its waiting asks. A number that no lane shows any
    /// more is free. Does nothing for a lane that was closed.
    pub fn show(&mut self, lane: LaneId, shown: ShownBy) {
        let Some(slot) = self.lanes.find_mut(lane) else { return };
        let before = std::mem::replace(&mut slot.shown, shown);
        for number in shown.numbers() {
            self.numbers.show(number);
        }
        for number in before.numbers() {
            if let Some(place) = self.numbers.hide(number) {
                self.forest.get_mut(place).number = None;
            }
        }
    }

    /// Whether one of these limits leaves this amount, and there was a loosening after `tried`: of
    /// the limit itself, of all limits by a reload, or of a queue on the path (`loosening`).
    pub fn let_on(
        &self,
        by: SharedLimits,
        least: &Resources,
        loosening: Loosening,
        tried: Loosening,
    ) -> bool {
        self.any_loosened(by, loosening, tried, |place| place.allows(least))
    }

    /// Whether one of these limits lets one more application run, and there was a loosening after
    /// `tried`, as for [`Self::let_on`].
    pub fn let_start(&self, by: SharedLimits, loosening: Loosening, tried: Loosening) -> bool {
        self.any_loosened(by, loosening, tried, Place::may_start)
    }

    fn any_loosened(
        &self,
        by: SharedLimits,
        loosening: Loosening,
        tried: Loosening,
        lets_on: impl Fn(&Place) -> bool,
    ) -> bool {
        by.numbers().any(|number| {
            let numbered = self.numbers.given.get(number).and_then(Option::as_ref);
            let Some(place) = numbered.map(|it| self.forest.get(it.place)) else { return false };
            place.loosened.max(self.loosened).max(loosening) > tried && lets_on(place)
        })
    }

    /// Counts one lane more or less at this entry and at all above it.
    pub(super) fn count_lane(&mut self, end: PlaceId, is_more: bool) {
        self.forest.change(end, |place: &mut Place| {
            if is_more {
                place.n_lanes += 1;
            } else {
                place.n_lanes -= 1;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::limits::numbers::{MOST, Numbers};
    use crate::queues::{LimitConfig, QueueConfig};
    use crate::values::resources::Limits;

    #[test]
    fn a_limit_of_many_lanes_gets_a_number_where_one_of_few_gets_none_any_more() {
        let mut numbers = Numbers::default();
        let place = PlaceId::at(0);
        assert_eq!(numbers.give(place, 1), None, "one lane alone shares nothing");
        assert_eq!([0, 1].map(|_| numbers.give(place, 2)), [Some(0), None]);
        assert_eq!(numbers.give(place, 3), Some(1));
        for number in [0, 0, 1] {
            numbers.show(number);
        }
        assert_eq!(numbers.hide(0), None, "another lane shows it");
        assert_eq!(numbers.give(place, 3), None);
        assert_eq!(numbers.hide(0), Some(place));
        assert_eq!(numbers.give(place, 3), Some(0), "a number is given again");
        for _ in 2..MOST {
            assert!(numbers.give(place, 1_000).is_some());
        }
        assert_eq!(numbers.give(place, 1_000), None, "there are no more");
    }

    /// Adds an application of this group to each of `n_leaves` leaves; each leaf has a lane for it.
    /// Their usage reaches the limit of the group.
    fn lanes_of(trackers: &mut Trackers, group: usize, n_leaves: usize) -> Vec<LaneId> {
        let user: Arc<str> = Arc::from("ann");
        let groups = [format!("g{group}")];
        let join = |leaf| {
            let [application, leaf]: [Arc<str>; 2] =
                [format!("a{group}-{leaf}"), format!("root.l{leaf}")].map(Arc::from);
            trackers.join(&user, &groups, &application, &leaf).lane
        };
        let lanes: Vec<LaneId> = (0..n_leaves).map(join).collect();
        trackers.charge(lanes[0], &Resources::of(&[("vcore", 1)]), Loosening::NONE);
        lanes
    }

    #[test]
    fn a_number_is_free_again_for_another_limit_when_no_lane_shows_it_any_more() {
        let mut root = QueueConfig::bare("root", false);
        root.limits = (0..=MOST)
            .map(|group| LimitConfig {
                groups: vec![format!("g{group}")],
                max_resources: Some(Limits::of(&[("vcore", 1)])),
                ..LimitConfig::default()
            })
            .collect();
        let mut trackers = Trackers::new(&root);
        let more = Resources::of(&[("vcore", 1)]);
        let show = |trackers: &mut Trackers, lane| {
            let quota = trackers.shared_limit(lane, &more);
            trackers.show(lane, ShownBy { quota, starts: None });
            quota.is_some()
        };
        let all: Vec<Vec<LaneId>> =
            (0..=MOST).map(|group| lanes_of(&mut trackers, group, MOST + 2)).collect();
        for lanes in &all[..MOST] {
            assert!(show(&mut trackers, lanes[0]) && show(&mut trackers, lanes[1]));
        }
        let waits = all[MOST][0];
        assert!(!show(&mut trackers, waits), "there are no more numbers");
        trackers.show(all[3][0], ShownBy::default());
        assert!(!show(&mut trackers, waits), "the limit's other lane shows it");
        // The lane is removed with its application.
        trackers.leave(all[3][1], "a3-1");
        assert!(show(&mut trackers, waits));
        assert!(!show(&mut trackers, all[3][0]), "and is another's now");
    }

    #[test]
    fn a_set_of_limits_has_the_numbers_of_both() {
        let mut all = SharedLimits::only(0);
        all.include(SharedLimits::only(63));
        assert_eq!(all.numbers().collect::<Vec<_>>(), [0, 63]);
        assert_eq!(SharedLimits::default().numbers().next(), None);
    }
}
