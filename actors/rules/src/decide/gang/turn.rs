//! Decides whether an undecided gang searches for places when an offer reaches it.

use crate::asks::Bundled;
use crate::decide::attempt::Attempt;
use crate::pending::nominations::Preemptor;
use crate::values::epoch::Epoch;
use crate::values::resources::Resources;
use crate::waiting::obstacle::Obstacle;
use crate::waiting::{BundleWaits, Parked};

use super::members::{is_asked_about, least};
use super::obstacle::GangObstacle;
use super::rooms::GangRooms;

/// What a gang does with an offer.
#[derive(Debug)]
pub enum GangTurn {
    /// Places are searched for.
    Search,
    /// No places are searched for now.
    Wait {
        /// The reason.
        why: Hold,
        /// What the gang waits for.
        parked: Box<Parked>,
        /// The places that the bundle lacked at its last search, if it still lacks them.
        places: Option<BundleWaits>,
    },
}

/// Why no places are searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// An allocation of its application was evicted for another ask, which comes first.
    GivesWay,
    /// Its quota, or the limits of its user and group ([`Obstacle::Limits`]), leave too little for
    /// all of it.
    OverQuota(Obstacle),
    /// The last search found too few places, and too few were added since.
    TooFewPlaces,
    /// The RM has to be asked about the gang, and another bundle is in flight: only one may be.
    OtherInFlight,
}

impl Hold {
    /// Returns the obstacle of a gang that takes `total`. `None` if the recorded obstacle still
    /// holds, or if the obstacle is another gang's bundle.
    pub fn obstacle(self, total: Resources) -> Option<GangObstacle> {
        match self {
            Self::GivesWay => Some(GangObstacle::GivesWay),
            Self::OverQuota(Obstacle::Limits) => Some(GangObstacle::Limits(total)),
            Self::OverQuota(_) => Some(GangObstacle::Quota(total)),
            Self::TooFewPlaces | Self::OtherInFlight => None,
        }
    }
}

impl GangTurn {
    /// Decides about a bundle that takes `total`. `places` are the places that it lacked at its
    /// last search. `asks_about_holds`: the RM judges held places, too.
    pub fn of(
        attempt: &Attempt<'_>,
        (bundled, total): (&Bundled, &Resources),
        places: Option<BundleWaits>,
        asks_about_holds: bool,
    ) -> Self {
        let named = || Box::new(Parked::named(attempt.view));
        let wait = |why, parked| Self::Wait { why, parked, places: None };
        if bundled.iter().flatten().any(|(slot, _)| attempt.gives_way(*slot)) {
            return wait(Hold::GivesWay, named());
        }
        if let Some(obstacle) = over_quota(attempt, total) {
            let parked = Parked::short(total, attempt.view);
            return wait(Hold::OverQuota(obstacle), Box::new(parked));
        }
        if let Some(mut places) = places
            && !places.is_due(&attempt.books.nodes)
        {
            let parked = Box::new(Parked::bundle(&places, attempt.view.epoch()));
            return Self::Wait { why: Hold::TooFewPlaces, parked, places: Some(places) };
        }
        let other_in_flight = attempt.asks_later && attempt.books.unsettled.bundle.is_some();
        if other_in_flight && is_asked_about(attempt.asks, bundled, asks_about_holds) {
            return wait(Hold::OtherInFlight, named());
        }
        Self::Search
    }
}

/// Returns what the gang waits for after its search found too few places; `at` is the epoch at the
/// beginning of the search. While victims of the gang are still to be released, the gang is tried
/// on the capacity that is free besides its reserved rooms.
pub fn parked_short(
    attempt: &Attempt<'_>,
    bundled: &Bundled,
    places: BundleWaits,
    (rooms, at): (GangRooms, Epoch),
) -> (Box<Parked>, Option<BundleWaits>) {
    if rooms == GangRooms::Leaving {
        // The capacity of its own rooms is no growth of a node, and counts nevertheless.
        let least = least(attempt.asks, bundled);
        return (Box::new(Parked::roomless(&least, attempt.view)), None);
    }
    (Box::new(Parked::bundle(&places, at)), Some(places))
}

/// Returns the quota that a gang of this amount exceeds, if any. The gang's own nomination is
/// available to it.
pub fn over_quota(attempt: &Attempt<'_>, total: &Resources) -> Option<Obstacle> {
    let gang = Preemptor::Gang(attempt.application);
    attempt.over_quota_of(total).or_else(|| attempt.over_nominations(gang, total))
}
