//! The state of the search for places of one declared gang: what it waits for, and its last
//! obstacle.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::applications::native::{MissingAsks, Native};
use crate::asks::preemption::Tries;
use crate::asks::{Asks, Bundled};
use crate::decide::explain::{Cause, GangWhy};
use crate::nodes::{NodeIndex, NodeLacks};
use crate::specs::ask::TaskGroup;
use crate::values::ids::AskSlot;
use crate::values::retries::Retries;
use crate::waiting::{BundleWaits, Parked, WaitSet};

use super::obstacle::{GangObstacle, NotPlaced};
use super::search::MemberSearch;

/// The search for places of a declared gang.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GangSearch {
    /// What the gang waits for: it decides whether an offer reaches the application.
    waits: WaitSet,
    /// The missing places, if the last search found too few.
    places: Option<BundleWaits>,
    /// The search that continues with the next offer.
    search: Option<Box<MemberSearch>>,
    /// The obstacle at the last offer, and the time since which there is one of this kind, ns since
    /// the epoch.
    obstacle: Option<(GangObstacle, i64)>,
    /// The times at which the gang is tried again after a refusal, without a change.
    retries: Retries,
    /// The time of the declaration, ns since the epoch.
    declared_ns: i64,
    /// The number of orders to hold places again, by which the deadline of an earlier order is
    /// known to be stale.
    hold_orders: u32,
    /// The number of members that would have had places at the last offer, if it is known: of the
    /// group that was refused, or of all groups if a quota was too small.
    n_fit: Option<u64>,
    /// The tries to preempt others; `None` before the first.
    tries: Option<Box<Tries>>,
}

/// Waiting.
impl GangSearch {
    /// The state of a gang that was declared at this time, ns since the epoch.
    pub fn new(declared_ns: i64) -> Self {
        Self { declared_ns, ..Self::default() }
    }

    /// Returns what an undecided gang waits for. While it backs off, no offer has to reach it.
    pub fn waits(&self, native: &Native) -> WaitSet {
        if native.backs_off() { WaitSet::Nothing } else { self.waits.clone() }
    }

    /// Whether the gang is tried with the next offer, whatever has changed.
    pub fn is_due(&self) -> bool {
        self.waits == WaitSet::Due
    }

    /// Parks the gang. `places` are the missing places, if the search found too few.
    pub fn park(&mut self, parked: Box<Parked>, places: Option<BundleWaits>) {
        self.waits = WaitSet::Parked(parked);
        (self.places, self.search) = (places, None);
        self.retries.stop();
    }

    /// Parks the gang after a refusal. Returns the pause until it is tried again without a change,
    /// and the number of the refusal.
    pub fn park_refused(&mut self, parked: Box<Parked>, now_ns: i64) -> (Duration, u32) {
        self.park(parked, None);
        self.retries.refused();
        self.retries.pause(now_ns)
    }

    /// Has the gang tried with the next offer, after a change that concerns it.
    pub fn wake(&mut self) {
        (self.waits, self.places) = (WaitSet::Due, None);
        self.retries.begin_again();
        if let Some(search) = &mut self.search {
            search.tries_domains_again();
        }
    }

    /// Has the gang tried with the next offer, and keeps the results of its search.
    pub fn make_due(&mut self) {
        self.waits = WaitSet::Due;
    }

    /// Has the gang tried with the next offer from the beginning: members may use more nodes than
    /// before.
    pub fn begin_again(&mut self) {
        (self.waits, self.places, self.search) = (WaitSet::Due, None, None);
    }

    /// Notes that the members have places and that the RM's predicates are asked: no offer has to
    /// reach the gang.
    pub fn in_flight(&mut self) {
        self.waits = WaitSet::Nothing;
    }

    /// Handles the end of the pause after the refusal of this number. Returns whether the gang has
    /// to be tried.
    pub fn retry(&mut self, number: u32) -> bool {
        self.retries.begin(number)
    }

    /// Notes that nothing but time has passed since the last try.
    pub fn begin_by_time(&mut self) {
        self.retries.begin_by_time();
    }

    /// Whether the gang waits because predicates refused it: returned capacity does not help it.
    pub fn is_refused(&self) -> bool {
        matches!(&self.waits, WaitSet::Parked(parked) if parked.refused.is_some())
    }

    /// Forgets answers of predicates, which may be wrong now. Wakes the gang if it is undecided and
    /// was refused; returns whether it did.
    pub fn invalidate(&mut self, is_undecided: bool) -> bool {
        // A search that continues has answers, too.
        self.search = None;
        let was_refused = is_undecided && self.is_refused();
        if was_refused {
            self.wake();
        }
        was_refused
    }

    /// Whether the last search was without result, and no node that can take a member has grown
    /// since.
    pub fn rests(&self, nodes: &NodeIndex) -> bool {
        let WaitSet::Parked(parked) = &self.waits else { return false };
        if let Some(least) = &parked.refused {
            return !nodes.may_hold_grown_since(parked.refused_at, least);
        }
        if let Some(least) = &parked.roomless {
            return !nodes.may_hold_since(parked.roomless_at, least);
        }
        let several = self.places.as_ref().filter(|places| !places.is_of_one_size());
        several.is_some_and(|places| !places.clone().is_due(nodes))
    }

    /// Removes and returns the places that the bundle lacked at its last search.
    pub fn take_places(&mut self) -> Option<BundleWaits> {
        self.places.take()
    }
}

/// The search that continues.
impl GangSearch {
    /// Whether a search continues with the next offer.
    pub fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    /// Removes and returns the search that continues, for a bundle that may have changed; or begins
    /// a new search.
    pub fn take_search(
        &mut self,
        asks: &Asks,
        bundled: &Bundled,
        nodes: &NodeIndex,
    ) -> Box<MemberSearch> {
        match self.search.take() {
            Some(mut search) => {
                search.goes_on_with(bundled);
                search
            }
            None => Box::new(MemberSearch::new(asks, bundled, nodes.growth())),
        }
    }

    /// Stores a search after its part of this step. An unfinished search continues with the next
    /// offer.
    pub fn put_search(&mut self, search: Box<MemberSearch>, why: Option<&NotPlaced>) {
        self.n_fit = search.n_fit().or(self.n_fit);
        if matches!(why, Some(NotPlaced::Unfinished)) {
            (self.waits, self.search) = (WaitSet::Due, Some(search));
        }
    }

    /// Forgets a search that would continue.
    pub fn end_search(&mut self) {
        self.search = None;
    }
}

/// Obstacles.
impl GangSearch {
    /// The obstacle at the last offer.
    pub fn obstacle(&self) -> Option<&GangObstacle> {
        self.obstacle.as_ref().map(|(obstacle, _)| obstacle)
    }

    /// Records the obstacle of the gang. If the last obstacle was of the same kind, its time is
    /// kept.
    pub fn note(&mut self, obstacle: GangObstacle, now_ns: i64) {
        let kind = std::mem::discriminant(&obstacle);
        let before = self.obstacle.as_ref();
        let before = before.filter(|(before, _)| std::mem::discriminant(before) == kind);
        let since_ns = before.map_or(now_ns, |(_, since_ns)| *since_ns);
        self.obstacle = Some((obstacle, since_ns));
    }

    /// Forgets the obstacle: the gang has another one, which is not recorded here.
    pub fn forget_obstacle(&mut self) {
        self.obstacle = None;
    }

    /// Returns the members that found no place at the last search, as an ask of each group with
    /// their number, and the time since when, ns since the epoch. `None` if there may be places
    /// now.
    pub fn short_of_places(&self, nodes: &NodeIndex) -> Option<(&[(AskSlot, u64)], i64)> {
        let WaitSet::Parked(_) = &self.waits else { return None };
        let Some((GangObstacle::Places(short), since_ns)) = &self.obstacle else { return None };
        let is_so = !self.places.clone()?.is_due(nodes);
        is_so.then_some((&**short, *since_ns))
    }

    /// Returns the obstacle of the gang in addition to quotas, limits and [too few places], and the
    /// time since when, ns since the epoch. `None` if the obstacle may be gone now. The counts of
    /// nodes and the texts of predicates are left empty.
    ///
    /// [too few places]: Self::short_of_places
    pub fn why(&self, nodes: &NodeIndex) -> Option<(GangWhy, Option<i64>)> {
        let WaitSet::Parked(parked) = &self.waits else { return None };
        let (obstacle, since_ns) = match &self.obstacle {
            Some((obstacle, since_ns)) => (Some(obstacle), Some(*since_ns)),
            None => (None, None),
        };
        let retry_ns = self.retries.until_ns();
        if parked.refused.is_some() && retry_ns.is_some() && self.rests(nodes) {
            let refused = |group| {
                let (texts, nodes) = (BTreeMap::new(), None);
                GangWhy::Refused { group, texts, nodes, retry_ns }
            };
            return Some(match obstacle {
                Some(GangObstacle::Refused { group, .. }) => (refused(Arc::clone(group)), since_ns),
                // The RM answered later, one question after the other.
                _ => (refused(TaskGroup::default()), None),
            });
        }
        match obstacle? {
            GangObstacle::Asks(MissingAsks { group, missing }) => {
                let (group, missing) = (Arc::clone(group), *missing);
                Some((GangWhy::Asks { group, missing }, since_ns))
            }
            GangObstacle::Domain(short) => {
                let mut places = self.places.clone()?;
                let (short, nodes_lack) = ((**short).clone(), NodeLacks::default());
                let why = GangWhy::Domain { short, nodes: nodes_lack, constraint: None };
                (!places.is_due(nodes)).then_some((why, since_ns))
            }
            // Present sums show whether quota is short; a refused member may pass now.
            GangObstacle::Places(_)
            | GangObstacle::Quota(_)
            | GangObstacle::Limits(_)
            | GangObstacle::GivesWay
            | GangObstacle::Refused { .. } => None,
        }
    }

    /// Returns the ask of the member that every node with capacity refused at the last offer.
    pub fn refused(&self) -> Option<AskSlot> {
        match self.obstacle()? {
            GangObstacle::Refused { ask, .. } => Some(*ask),
            _ => None,
        }
    }

    /// Returns which quota the gang exceeded at the last offer, and the time since when, ns since
    /// the epoch.
    pub fn over_since(&self) -> Option<(Cause, i64)> {
        let (obstacle, since_ns) = self.obstacle.as_ref()?;
        let cause = match obstacle {
            GangObstacle::Quota(_) => Cause::QueueQuota,
            GangObstacle::Limits(_) => Cause::UserQuota,
            _ => return None,
        };
        Some((cause, *since_ns))
    }
}

/// Preemption, and places that an earlier scheduler held.
impl GangSearch {
    /// Returns the time of the declaration, ns since the epoch.
    pub fn declared_ns(&self) -> i64 {
        self.declared_ns
    }

    /// The tries of the gang to preempt others.
    pub fn tries(&self) -> Option<&Tries> {
        self.tries.as_deref()
    }

    /// Returns the tries for a change.
    pub fn tries_mut(&mut self) -> &mut Tries {
        self.tries.get_or_insert_default()
    }

    /// Returns the number of a new order to hold places again.
    pub fn next_hold_order(&mut self) -> u32 {
        self.hold_orders = self.hold_orders.wrapping_add(1);
        self.hold_orders
    }

    /// Whether this is the number of the last order to hold places again.
    pub fn is_last_hold_order(&self, order: u32) -> bool {
        self.hold_orders == order
    }

    /// Records how many members would have had places at this offer.
    pub fn note_fitting(&mut self, members: u64) {
        self.n_fit = Some(members);
    }

    /// Removes and returns how many members would have had places at the last offer, if it is
    /// known.
    pub fn take_fitting(&mut self) -> Option<u64> {
        self.n_fit.take()
    }
}
