//! The bound of pending asks of one kind ([`WaitSet`]), and the bound over asks that were tried
//! without result ([`Parked`]).

use serde::{Deserialize, Serialize};

use super::borrows::{self, Borrows};
use super::bundle::BundleWaits;
use super::passed::{self, Passed};
use super::view::View;
use crate::limits::{SharedLimits, Trackers};
use crate::nodes::NodeIndex;
use crate::order::tree::Bound;
use crate::queues::figures::QueueTable;
use crate::values::epoch::{Epoch, Growth, Loosening};
use crate::values::resources::Resources;
use crate::values::usual::is_usual;

/// The bound of pending asks of one kind: there are none, some that must be tried, or only asks
/// that were tried without result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum WaitSet {
    /// No ask is pending.
    #[default]
    Nothing,
    /// An ask is pending that was not tried since it changed.
    Due,
    /// Every pending ask was tried without result.
    Parked(Box<Parked>),
}

/// The bound over asks that were tried without result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Parked {
    /// The component-wise least amount of asks that wait for quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<Resources>,
    /// The loosening up to which all of `short` was tried; the oldest of the joined ones.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub short_at: Loosening,
    /// The component-wise least amount of asks that wait for capacity on a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roomless: Option<Resources>,
    /// The growth of the node index up to which all of `roomless` was tried; the oldest.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub roomless_at: Growth,
    /// The component-wise least amount of asks that predicates refused on every node with capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Resources>,
    /// The growth of the node index up to which all of `refused` was tried; the oldest.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub refused_at: Growth,
    /// Whether an ask that waits for capacity, or was refused, may also reserve a node, however
    /// full that is.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub reserves: bool,
    /// The bound of asks that may reserve a node once enough growths have passed them by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<Box<Passed>>,
    /// The bound of asks that wait for capacity, or were refused, and may use nodes that others
    /// have reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrows: Option<Borrows>,
    /// The component-wise least amount of members of bundles that found too few places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<Resources>,
    /// The least number of further places for which any of these bundles waits.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub places_lacking: u64,
    /// The least number of places in all that any of these bundles needs.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub places_needed: u64,
    /// The growth of the node index up to which all of these bundles were tried; the oldest.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub places_at: Growth,
    /// The bound of asks that wait for shared limits of users and groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<Box<Limited>>,
    /// Loosening and growth at the last visit without result; the oldest of the joined ones.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub judged: Epoch,
}

/// The bound of asks that wait for shared limits of users and groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limited {
    /// The component-wise least amount of these asks.
    pub least: Resources,
    /// The limits; each of these asks is held back by one of them.
    pub by: SharedLimits,
    /// The loosening up to which all of them were tried; the oldest of the joined ones.
    pub at: Loosening,
}

impl Limited {
    fn may(&self, view: &View<'_>) -> bool {
        let let_on =
            |limits: &Trackers| limits.let_on(self.by, &self.least, view.loosening, self.at);
        view.headroom.allows(&self.least) && view.limits.is_none_or(let_on)
    }

    /// Returns the part that a queue shows its parent, as in [`WaitSet::as_seen_from_above`].
    fn as_seen_from_above(mut self: Box<Self>, own: &View<'_>) -> Option<Box<Self>> {
        if !own.headroom.allows(&self.least) {
            return None;
        }
        if own.loosening > self.at {
            // Asks that the queue itself held back were not tried since, however far the limits
            // were loosened before.
            self.at = Loosening::NONE;
        }
        Some(self)
    }
}

impl Parked {
    /// Builds the bound of an ask that did not fit the headroom of an offer with this `view`.
    pub fn short(ask: &Resources, view: &View<'_>) -> Self {
        let judged = view.epoch();
        Self { short: Some(ask.clone()), short_at: view.loosening, judged, ..Self::default() }
    }

    /// Builds the bound of an ask that fitted the headroom but found no node.
    pub fn roomless(ask: &Resources, view: &View<'_>) -> Self {
        let judged = view.epoch();
        Self { roomless: Some(ask.clone()), roomless_at: judged.growth, judged, ..Self::default() }
    }

    /// Builds the bound of an ask that predicates refused on every node with capacity; `judged` was
    /// the [`View::epoch`] then, with 0 for an unknown loosening.
    pub fn refused(ask: &Resources, judged: Epoch) -> Self {
        Self { refused: Some(ask.clone()), refused_at: judged.growth, judged, ..Self::default() }
    }

    /// Builds the bound of a bundle that fitted the headroom but found too few places; `judged` was
    /// the [`View::epoch`] then.
    pub fn bundle(waits: &BundleWaits, judged: Epoch) -> Self {
        Self {
            places: Some(waits.least()),
            places_lacking: waits.lacks(),
            places_needed: waits.needs(),
            places_at: waits.at(),
            judged,
            ..Self::default()
        }
    }

    /// Builds the bound of an ask that waits for a named object, which makes the ask due when it
    /// arrives.
    pub fn named(view: &View<'_>) -> Self {
        Self { judged: view.epoch(), ..Self::default() }
    }

    fn may(&self, view: &View<'_>) -> bool {
        // The epoch of a view does not count loosenings of limits.
        if self.limited.as_ref().is_some_and(|limited| limited.may(view)) {
            return true;
        }
        if view.epoch().is_no_later_than(self.judged) {
            return false;
        }
        self.quota_may(view)
            || self.room_may(view)
            || self.refused_may(view)
            || self.places_may(view)
            || (self.reserves && self.may_reserve(view))
            || self.passed.as_ref().is_some_and(|passed| passed.may(view))
            || self.borrows.is_some_and(|borrows| borrows.may(self, view))
    }

    /// Whether an ask here may have capacity on a node now; quota is not considered.
    fn may_have_room(&self, view: &View<'_>) -> bool {
        let Some(nodes) = view.nodes else { return false };
        let grew = |least: &Option<Resources>, holds: &dyn Fn(&Resources) -> bool| {
            least.as_ref().is_some_and(holds)
        };
        view.epoch().growth > self.judged.growth
            && (grew(&self.roomless, &|least| nodes.may_hold_since(self.roomless_at, least))
                || grew(&self.refused, &|least| nodes.may_hold_grown_since(self.refused_at, least)))
    }

    fn places_may(&self, view: &View<'_>) -> bool {
        let (Some(least), Some(nodes)) = (&self.places, view.nodes) else {
            return false;
        };
        view.headroom.allows(least)
            && nodes.may_place_since(self.places_at, least, self.places_lacking)
            && nodes.may_place(least, self.places_needed)
    }

    fn quota_may(&self, view: &View<'_>) -> bool {
        view.loosening > self.short_at
            && self.short.as_ref().is_some_and(|least| view.headroom.allows(least))
    }

    fn room_may(&self, view: &View<'_>) -> bool {
        let (Some(least), Some(nodes)) = (&self.roomless, view.nodes) else {
            return false;
        };
        nodes.growth() > self.roomless_at
            && view.headroom.allows(least)
            && nodes.may_hold_since(self.roomless_at, least)
    }

    fn refused_may(&self, view: &View<'_>) -> bool {
        let (Some(least), Some(nodes)) = (&self.refused, view.nodes) else {
            return false;
        };
        view.headroom.allows(least) && nodes.may_hold_grown_since(self.refused_at, least)
    }

    fn may_reserve(&self, view: &View<'_>) -> bool {
        let Some(nodes) = view.nodes else { return false };
        let may = |least: &Option<Resources>, mark| {
            least.as_ref().is_some_and(|least| {
                view.headroom.allows(least) && nodes.may_reserve_since(mark, least)
            })
        };
        may(&self.roomless, self.roomless_at) || may(&self.refused, self.refused_at)
    }
}

/// Two equal bounds need not cover each other: a join removes explicit zeros.
impl Bound for Parked {
    fn join(&mut self, other: &Self) {
        self.reserves |= other.reserves;
        borrows::join(&mut self.borrows, other.borrows);
        passed::join(&mut self.passed, other.passed.as_deref());
        join_least(&mut self.short, &mut self.short_at, other.short.as_ref(), other.short_at);
        join_least(
            &mut self.roomless,
            &mut self.roomless_at,
            other.roomless.as_ref(),
            other.roomless_at,
        );
        join_least(
            &mut self.refused,
            &mut self.refused_at,
            other.refused.as_ref(),
            other.refused_at,
        );
        if other.places.is_some() {
            let theirs = (other.places_lacking, other.places_needed);
            let (lacking, needed) = match self.places {
                Some(_) => (self.places_lacking.min(theirs.0), self.places_needed.min(theirs.1)),
                None => theirs,
            };
            (self.places_lacking, self.places_needed) = (lacking, needed);
        }
        join_least(&mut self.places, &mut self.places_at, other.places.as_ref(), other.places_at);
        match (&mut self.limited, &other.limited) {
            (_, None) => {}
            (None, theirs) => self.limited.clone_from(theirs),
            (Some(mine), Some(theirs)) => {
                mine.least.lower_to(&theirs.least);
                mine.by.include(theirs.by);
                mine.at = mine.at.min(theirs.at);
            }
        }
        self.judged = self.judged.older(other.judged);
    }
}

fn join_least<M: Copy + Ord>(
    mine: &mut Option<Resources>,
    mark: &mut M,
    other: Option<&Resources>,
    theirs: M,
) {
    match (mine.as_mut(), other) {
        (_, None) => {}
        (None, Some(least)) => {
            *mine = Some(least.clone());
            *mark = theirs;
        }
        (Some(mine), Some(least)) => {
            mine.lower_to(least);
            *mark = (*mark).min(theirs);
        }
    }
}

impl WaitSet {
    /// Whether a pending ask here may be able to use an offer with this view. `true` may be wrong,
    /// `false` never is.
    pub fn may(&self, view: &View<'_>) -> bool {
        match self {
            Self::Nothing => false,
            Self::Due => true,
            Self::Parked(parked) => parked.may(view),
        }
    }

    /// Whether a pending ask here that needs no quota may have capacity on a node now.
    pub fn may_have_room(&self, view: &View<'_>) -> bool {
        match self {
            Self::Nothing => false,
            Self::Due => true,
            Self::Parked(parked) => parked.may_have_room(view),
        }
    }

    /// Whether a pending ask here that was short of quota may have enough now. `true` may be wrong,
    /// `false` never is.
    pub fn may_have_quota(&self, view: &View<'_>) -> bool {
        matches!(self, Self::Parked(parked) if parked.quota_may(view))
    }

    /// Whether all asks here are short of quota, and wait for nothing else.
    pub fn is_short(&self) -> bool {
        matches!(self, Self::Parked(parked) if parked.short.is_some()
            && parked.roomless.is_none() && parked.refused.is_none())
    }

    /// Whether an ask here could be tried with any quota and with permission to run. Only asks that
    /// predicates refused on every node with capacity could not, as long as no such node has grown.
    pub fn may_be_tried(&self, nodes: &NodeIndex) -> bool {
        match self {
            Self::Nothing => false,
            Self::Due => true,
            Self::Parked(parked) => parked
                .refused
                .as_ref()
                .is_none_or(|least| nodes.may_hold_grown_since(parked.refused_at, least)),
        }
    }

    /// Whether an ask here found no node, or may have found none.
    pub fn may_lack_node(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Due => true,
            Self::Parked(parked) => parked.roomless.is_some() || parked.refused.is_some(),
        }
    }

    /// Returns the bound of an ask that may also reserve a node, and found none to reserve.
    #[must_use]
    pub fn or_to_reserve(mut self) -> Self {
        if let Self::Parked(parked) = &mut self {
            parked.reserves = true;
        }
        self
    }

    /// Returns the bound of an ask that may also reserve a node once `times` more growths have
    /// passed it by.
    #[must_use]
    pub fn or_when_passed_by(mut self, ask: &Resources, times: u8) -> Self {
        if let Self::Parked(parked) = &mut self {
            parked.passed = Some(Box::new(Passed::of(ask, parked.judged.growth, times)));
        }
        self
    }

    /// Returns the bound of an ask in this leaf that may use nodes that others have reserved.
    #[must_use]
    pub fn or_to_borrow(mut self, priority: i32, leaf: u32, queues: &QueueTable) -> Self {
        if let Self::Parked(parked) = &mut self {
            parked.borrows = Some(Borrows::of(priority, leaf, queues));
        }
        self
    }

    /// Returns the bound after an offer was declined; `declined_at` was the [`View::epoch`] then.
    /// Each part may have been skipped for a reason of its own, and the join of the parts must not
    /// call for another visit before anything was loosened.
    #[must_use]
    pub fn declined(mut self, declined_at: Epoch) -> Self {
        if let Self::Parked(parked) = &mut self {
            parked.judged = parked.judged.newer(declined_at);
            if let Some(limited) = &mut parked.limited {
                limited.at = limited.at.max(declined_at.loosening);
            }
        }
        self
    }

    /// Returns the bound that a queue shows its parent.
    ///
    /// Asks that the queue's own quota holds back are left out, because no loosening above can help
    /// them. A loosening of the queue itself recomputes this value: if the queue's last loosening
    /// (`own.loosening`) may have helped an ask, the queue is due. `declined_at` was the
    /// [`View::epoch`] when the queue last declined an offer.
    #[must_use]
    pub fn as_seen_from_above(&self, own: &View<'_>, declined_at: Epoch) -> Self {
        self.seen_past(own, declined_at, None)
    }

    /// Returns the bound that a lane or a queue shows above. Asks that a lane holds back are shown
    /// as [`Limited`] if a limit in `by` is the reason.
    pub(super) fn seen_past(
        &self,
        own: &View<'_>,
        declined_at: Epoch,
        by: Option<SharedLimits>,
    ) -> Self {
        let Self::Parked(mut seen) = self.clone().declined(declined_at) else {
            return self.clone();
        };
        if own.loosening > seen.judged.loosening && seen.quota_may(own) {
            return Self::Due;
        }
        seen.limited = seen.limited.and_then(|limited| limited.as_seen_from_above(own));
        if let Some(least) = seen.short.take_if(|least| !own.headroom.allows(least))
            && let Some(by) = by
        {
            debug_assert!(seen.limited.is_none(), "a lane is below all that shows limits");
            let at = seen.short_at.max(seen.judged.loosening);
            seen.limited = Some(Box::new(Limited { least, by, at }));
        }
        Self::Parked(seen)
    }
}

impl Bound for WaitSet {
    fn join(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Due, _) | (_, Self::Nothing) => {}
            (_, Self::Due) => *self = Self::Due,
            (Self::Nothing, Self::Parked(_)) => *self = other.clone(),
            (Self::Parked(mine), Self::Parked(theirs)) => mine.join(theirs),
        }
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Due, _) | (_, Self::Nothing) => true,
            (_, Self::Due) | (Self::Nothing, _) => false,
            (Self::Parked(mine), Self::Parked(theirs)) => mine.covers(theirs),
        }
    }
}
