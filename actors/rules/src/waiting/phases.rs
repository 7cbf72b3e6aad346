//! The bounds below a row, by phase, and in each phase for running applications and for those that
//! have still to start.
//!
//! Most rows have asks only in the last phase; the bounds of the others are behind one pointer
//! ([`Early`]).
//!
//! # Applications that limits keep from starting
//! A limit of a user or group on running applications applies to a lane. Applications that it holds
//! back are hidden from the queues above, like asks that its quota holds back. If many lanes share
//! the limit, its number is shown if any application waits for it ([`LimitedStarts`]). The asks of
//! the application do not matter: they were not tried since, so the application is tried when the
//! limit lets it start.

use serde::{Deserialize, Serialize};

use super::view::{Declined, Phase, View};
use super::waits::WaitSet;
use crate::limits::{SharedLimits, ShownBy, Trackers};
use crate::order::tree::Bound;
use crate::values::epoch::{Epoch, Loosening};

/// The bounds of running applications and of those that have still to start. They are separate,
/// because the second count only if one more application may run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// The bound of the asks of running applications.
    pub running: WaitSet,
    /// The bound of the asks of applications that are Accepted and hold nothing yet.
    pub starting: WaitSet,
    /// The bound of applications of the second kind that shared limits keep from starting.
    pub limited: Option<Box<LimitedStarts>>,
}

/// The bound of applications that shared limits of users and groups keep from starting. It is
/// visible to the queues above.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitedStarts {
    /// The limits; each of the applications is held back by one of them.
    pub by: SharedLimits,
    /// The loosening up to which all of them were tried; the oldest of the joined ones.
    pub at: Loosening,
}

impl LimitedStarts {
    fn may(&self, view: &View<'_>) -> bool {
        let let_start = |limits: &Trackers| limits.let_start(self.by, view.loosening, self.at);
        view.limits.is_none_or(let_start)
    }

    /// Returns the part that a queue shows its parent, as in [`WaitSet::as_seen_from_above`].
    fn as_seen_from_above(&self, own: &View<'_>, declined_at: Epoch) -> Self {
        let at = self.at.max(declined_at.loosening);
        // Asks that the queue itself held back were not tried since, however far the limits were
        // loosened before.
        Self { by: self.by, at: if own.loosening > at { Loosening::NONE } else { at } }
    }
}

impl Bound for LimitedStarts {
    fn join(&mut self, other: &Self) {
        self.by.include(other.by);
        self.at = self.at.min(other.at);
    }
}

impl Started {
    /// Builds the bounds of one application.
    pub fn of(waits: WaitSet, is_starting: bool) -> Self {
        if is_starting {
            Self { starting: waits, ..Self::default() }
        } else {
            Self { running: waits, ..Self::default() }
        }
    }

    fn may(&self, view: &View<'_>) -> bool {
        let is_limited_no_more = || self.limited.as_ref().is_some_and(|limited| limited.may(view));
        self.running.may(view)
            || (view.may_start && (self.starting.may(view) || is_limited_no_more()))
    }

    fn is_starting(&self) -> bool {
        self.starting != WaitSet::Nothing || self.limited.is_some()
    }

    fn seen_past(&self, own: &View<'_>, declined_at: Epoch, by: ShownBy) -> Self {
        let running = self.running.seen_past(own, declined_at, by.quota);
        if own.may_start {
            let limited = self.limited.as_ref();
            let limited = limited.map(|it| Box::new(it.as_seen_from_above(own, declined_at)));
            let starting = self.starting.seen_past(own, declined_at, by.quota);
            return Self { running, starting, limited };
        }
        let starts = by.starts.filter(|_| self.starting != WaitSet::Nothing);
        let limited = starts.map(|by| Box::new(LimitedStarts { by, at: declined_at.loosening }));
        Self { running, starting: WaitSet::Nothing, limited }
    }
}

impl Bound for Started {
    fn join(&mut self, other: &Self) {
        self.running.join(&other.running);
        self.starting.join(&other.starting);
        match (&mut self.limited, &other.limited) {
            (_, None) => {}
            (None, theirs) => self.limited.clone_from(theirs),
            (Some(mine), Some(theirs)) => mine.join(theirs),
        }
    }

    fn covers(&self, other: &Self) -> bool {
        let covers_limited = match (&self.limited, &other.limited) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(mine), Some(theirs)) => mine.covers(theirs),
        };
        covers_limited
            && self.running.covers(&other.running)
            && self.starting.covers(&other.starting)
    }
}

/// The bounds of all pending asks below a row of a queue, by phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// The bound of asks that may use any node.
    pub normal: Started,
    /// The bounds of asks in earlier phases; `None` if there are none.
    early: Option<Box<Early>>,
}

/// The bounds in the phases before the last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Early {
    /// The bound of asks that have a node reserved.
    pub reserved: Started,
    /// The bound of asks that may replace a placeholder. They need no quota and no permission to
    /// run.
    pub pairs: WaitSet,
}

impl Waits {
    /// Builds the bounds of one application, which runs or has still to start.
    pub fn new(normal: WaitSet, reserved: WaitSet, pairs: WaitSet, is_starting: bool) -> Self {
        let mut waits = Self { normal: Started::of(normal, is_starting), early: None };
        if reserved != WaitSet::Nothing || pairs != WaitSet::Nothing {
            let reserved = Started::of(reserved, is_starting);
            waits.early = Some(Box::new(Early { reserved, pairs }));
        }
        waits
    }

    /// Returns the bounds in the phases before the last, if an ask is pending there.
    pub fn early(&self) -> Option<&Early> {
        self.early.as_deref()
    }

    /// See [`WaitSet::may`].
    pub fn may(&self, phase: Phase, view: &View<'_>) -> bool {
        match (phase, &self.early) {
            (Phase::Normal, _) => self.normal.may(view),
            (_, None) => false,
            (Phase::Reserved, Some(early)) => early.reserved.may(view),
            (Phase::Pairs, Some(early)) => early.pairs.may_have_room(view),
        }
    }

    /// Returns every bound that depends on quota, in any phase, of running and of starting
    /// applications.
    pub fn bound_by_quota(&self) -> impl Iterator<Item = &WaitSet> {
        let early = self.early.as_ref().map(|early| &early.reserved);
        std::iter::once(&self.normal)
            .chain(early)
            .flat_map(|started| [&started.running, &started.starting])
    }

    /// Whether an application that has still to start has pending asks.
    pub fn has_starting(&self) -> bool {
        let early = self.early.as_ref().map(|early| &early.reserved);
        let mut all = std::iter::once(&self.normal).chain(early);
        all.any(Started::is_starting)
    }

    /// Returns the bounds that a queue shows its parent; see [`WaitSet::as_seen_from_above`].
    /// `own.may_start` is whether the queue itself lets one more application run.
    #[must_use]
    pub fn as_seen_from_above(&self, own: &View<'_>, declined: &Declined) -> Self {
        self.as_seen_past_limits(own, declined, ShownBy::default())
    }

    /// Returns the bounds that a lane shows; asks that the limits in `by` hold back are shown with
    /// the numbers of these. Without limits, the same as [`Self::as_seen_from_above`].
    #[must_use]
    pub fn as_seen_past_limits(&self, own: &View<'_>, declined: &Declined, by: ShownBy) -> Self {
        let normal = self.normal.seen_past(own, declined.at(Phase::Normal), by);
        let early = self.early.as_ref().map(|early| {
            let reserved = early.reserved.seen_past(own, declined.at(Phase::Reserved), by);
            let pairs = early.pairs.clone().declined(declined.at(Phase::Pairs));
            Early { reserved, pairs }
        });
        let early = early.filter(|early| *early != Early::default());
        Self { normal, early: early.map(Box::new) }
    }
}

impl Bound for Waits {
    fn join(&mut self, other: &Self) {
        self.normal.join(&other.normal);
        match (&mut self.early, &other.early) {
            (_, None) => {}
            (None, Some(_)) => self.early.clone_from(&other.early),
            (Some(mine), Some(theirs)) => {
                mine.reserved.join(&theirs.reserved);
                mine.pairs.join(&theirs.pairs);
            }
        }
    }

    fn covers(&self, other: &Self) -> bool {
        let covers_early = match (&self.early, &other.early) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(mine), Some(theirs)) => {
                mine.reserved.covers(&theirs.reserved) && mine.pairs.covers(&theirs.pairs)
            }
        };
        covers_early && self.normal.covers(&other.normal)
    }
}
