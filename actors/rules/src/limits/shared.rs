//! Limits that many lanes wait for: what waits for one of them is seen from above.
//!
//! # Why
//! A lane that its own limits hold back is hidden from the queues above, and told when it may go on.
//! Where a thousand leaves wait for one limit, a release of room for one of them would tell all, and
//! each would be offered to in order to find that another one was first. So a limit that several
//! lanes count for gets a number, and what waits for it stays visible with that number
//! ([`Limited`](crate::order::waits::Limited), [`LimitedStarts`](crate::order::waits::LimitedStarts)): an offer asks the limit itself, finds the first that
//! may go on in the order of the queues, and skips all others once the room is used again.
//!
//! # Which limits
//! There are [`MOST`] numbers, so that a set of them is one word. A limit gets one when something is
//! held back by it, the more lanes count for it the sooner: of `n` lanes, while fewer than `n - 1`
//! numbers are given. So small limits cannot take the numbers from large ones. Whoever gets none is
//! told as before ([`super::waiting`]).
//!
//! # Invariants
//! * A number is given back when no lane counts for its limit any more; then nobody shows it.
//! * A lane shows at most one number of a limit on what may be used, which holds back the least of
//!   what waits there, and one of a limit on running applications; or it tells the trackers what it
//!   holds back.

use super::places::{Place, PlaceId};
use super::{LaneId, Trackers};
use crate::values::epoch::Loosening;
use crate::values::resources::Resources;

/// How many limits can have a number at a time.
const MOST: usize = u64::BITS as usize;

/// A set of limits, by their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedLimits(u64);

/// The limits that have a number.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    given: Vec<Option<PlaceId>>,
}

impl SharedLimits {
    fn only(number: u8) -> Self {
        Self(1 << number)
    }

    /// Adds those of another set.
    pub fn include(&mut self, other: Self) {
        self.0 |= other.0;
    }

    fn numbers(self) -> impl Iterator<Item = usize> {
        (0..MOST).filter(move |number| self.0 & (1 << number) != 0)
    }
}

impl Numbers {
    /// A number for a limit that so many lanes count for.
    fn give(&mut self, place: PlaceId, n_lanes: u32) -> Option<u8> {
        let n_given = self.given.iter().flatten().count();
        if n_given == MOST || (n_lanes as usize) < n_given + 2 {
            return None;
        }
        let free = self.given.iter().position(Option::is_none).unwrap_or_else(|| {
            self.given.push(None);
            self.given.len() - 1
        });
        self.given[free] = Some(place);
        u8::try_from(free).ok()
    }

    fn take_back(&mut self, number: u8) {
        self.given[usize::from(number)] = None;
    }
}

impl Trackers {
    /// A numbered limit that does not hold so much for this lane now. It gets its number here.
    pub fn shared_limit(&mut self, lane: LaneId, least: &Resources) -> Option<SharedLimits> {
        self.numbered(lane, |place| !place.allows(least))
    }

    /// A numbered limit by which no more applications of this lane may run now. It gets its number
    /// here.
    pub fn shared_limit_of_starts(&mut self, lane: LaneId) -> Option<SharedLimits> {
        self.numbered(lane, |place| !place.may_start())
    }

    /// The first limit of a lane that holds something back and has a number, or gets one.
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

    /// Whether one of these limits holds so much, and was loosened after `tried`: it itself, or a
    /// queue on the path, which was at `loosening` last.
    pub fn let_on(
        &self,
        by: SharedLimits,
        least: &Resources,
        loosening: Loosening,
        tried: Loosening,
    ) -> bool {
        self.any_loosened(by, loosening, tried, |place| place.allows(least))
    }

    /// Whether one of these limits lets one more application run, and was loosened after `tried`, as
    /// in [`Self::let_on`].
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
            let place = self.numbers.given.get(number).copied().flatten();
            let Some(place) = place.map(|id| self.forest.get(id)) else {
                debug_assert!(false, "a limit without lanes is shown");
                return true;
            };
            place.loosened.max(self.loosened).max(loosening) > tried && lets_on(place)
        })
    }

    /// One more lane, or one less, counts for these places and those above them.
    pub(super) fn count_lane(&mut self, end: PlaceId, is_more: bool) {
        let numbers = &mut self.numbers;
        self.forest.change(end, |place: &mut Place| {
            if is_more {
                place.n_lanes += 1;
                return;
            }
            place.n_lanes -= 1;
            if place.n_lanes == 0
                && let Some(number) = place.number.take()
            {
                numbers.take_back(number);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_many_lanes_gets_a_number_where_one_of_few_gets_none_any_more() {
        let mut numbers = Numbers::default();
        let place = PlaceId::at(0);
        assert_eq!(numbers.give(place, 1), None, "one lane alone shares nothing");
        assert_eq!([0, 1].map(|_| numbers.give(place, 2)), [Some(0), None]);
        assert_eq!(numbers.give(place, 3), Some(1));
        numbers.take_back(0);
        assert_eq!(numbers.give(place, 3), Some(0), "a number is given again");
        for _ in 2..MOST {
            assert!(numbers.give(place, 1_000).is_some());
        }
        assert_eq!(numbers.give(place, 1_000), None, "there are no more");
    }

    #[test]
    fn a_set_of_limits_has_the_numbers_of_both() {
        let mut all = SharedLimits::only(0);
        all.include(SharedLimits::only(63));
        assert_eq!(all.numbers().collect::<Vec<_>>(), [0, 63]);
    }
}
