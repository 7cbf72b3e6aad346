//! Whether places are looked for when an offer reaches an undecided gang.

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

/// What becomes of the gang that an offer has reached.
#[derive(Debug)]
pub enum GangTurn {
    /// Places are looked for.
    Search,
    /// None are looked for now.
    Wait {
        /// Why.
        why: Hold,
        /// What the gang waits for.
        parked: Box<Parked>,
        /// What the bundle lacked at its last search, if it lacks that still.
        places: Option<BundleWaits>,
    },
}

/// Why no places are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Something was taken from its application for another, which comes first.
    GivesWay,
    /// Its quota, or that of its user and group ([`Obstacle::Limits`]), does not hold all of it.
    OverQuota(Obstacle),
    /// The last search found too few places, and too few have come since.
    TooFewPlaces,
    /// The RM has to be asked about it, and another bundle is in flight: there is one at a time.
    OtherInFlight,
}

impl Hold {
    /// The obstacle of a gang that takes `total`; `None` if it is the one that was noted before, or is not the
    /// gang's.
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
    /// Decides about a bundle that takes `total`. `places` is what it lacked at its last search;
    /// `asks_about_holds` says that the RM judges held places, too.
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

/// What the gang waits for whose search found too few places; `at` this epoch the search began. While victims of
/// the gang have still to leave, it is tried on whatever is free beside its rooms.
pub fn parked_short(
    attempt: &Attempt<'_>,
    bundled: &Bundled,
    places: BundleWaits,
    (rooms, at): (GangRooms, Epoch),
) -> (Box<Parked>, Option<BundleWaits>) {
    if rooms == GangRooms::Leaving {
        // What it has room for itself is no growth, and counts all the same.
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
