//! The search for places of one declared gang: what it waits for, and what kept it from its places last.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

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
#[derive(Debug, Default)]
pub struct GangSearch {
    /// When an offer is to come here.
    waits: WaitSet,
    /// What it waits for, if it found too few places.
    places: Option<BundleWaits>,
    /// A search that goes on with the next offer.
    search: Option<Box<MemberSearch>>,
    /// The obstacle at the last offer, and since when there is one of this kind, ns since the epoch.
    obstacle: Option<(GangObstacle, i64)>,
    /// When it is tried again after a refusal though nothing changed.
    retries: Retries,
    /// When it was declared, ns since the epoch.
    declared_ns: i64,
    /// Numbers the orders to hold places again, so that an earlier deadline is known to be stale.
    hold_orders: u32,
    /// The number of members that would have had places at the last offer, where that is known: of the group
    /// that was refused, or of all where a quota was too small.
    n_fit: Option<u64>,
    /// The tries to preempt others; `None` while there was none.
    tries: Option<Box<Tries>>,
}

/// What it waits for.
impl GangSearch {
    /// That of a gang that was declared at this time, ns since the epoch.
    pub fn new(declared_ns: i64) -> Self {
        Self { declared_ns, ..Self::default() }
    }

    /// What an undecided gang waits for. While it backs off no offer is to come here.
    pub fn waits(&self, native: &Native) -> WaitSet {
        if native.backs_off() { WaitSet::Nothing } else { self.waits.clone() }
    }

    /// Whether the gang is tried with the next offer, whatever has changed.
    pub fn is_due(&self) -> bool {
        self.waits == WaitSet::Due
    }

    /// Has the gang wait for this; `places` is what it lacked, if it found too few.
    pub fn park(&mut self, parked: Box<Parked>, places: Option<BundleWaits>) {
        self.waits = WaitSet::Parked(parked);
        (self.places, self.search) = (places, None);
        self.retries.stop();
    }

    /// Has the gang wait after a refusal. Returns the pause until it is tried again though nothing changed, and the
    /// number of the refusal.
    pub fn park_refused(&mut self, parked: Box<Parked>, now_ns: i64) -> (Duration, u32) {
        self.park(parked, None);
        self.retries.refused();
        self.retries.pause(now_ns)
    }

    /// Has the gang tried with the next offer, since something has changed for it.
    pub fn wake(&mut self) {
        (self.waits, self.places) = (WaitSet::Due, None);
        self.retries.begin_anew();
        if let Some(search) = &mut self.search {
            search.tries_domains_again();
        }
    }

    /// Has the gang tried with the next offer, from what is known of it.
    pub fn make_due(&mut self) {
        self.waits = WaitSet::Due;
    }

    /// Has the gang tried with the next offer from the beginning: members of it may use more nodes.
    pub fn begin_anew(&mut self) {
        (self.waits, self.places, self.search) = (WaitSet::Due, None, None);
    }

    /// Notes that the members have places and that the RM's predicates are asked: no offer is to come here.
    pub fn in_flight(&mut self) {
        self.waits = WaitSet::Nothing;
    }

    /// The pause after the refusal of this number is over. Returns whether the gang is to be tried.
    pub fn retry(&mut self, number: u32) -> bool {
        self.retries.begin(number)
    }

    /// Notes that nothing but time has passed since the last try.
    pub fn begin_by_time(&mut self) {
        self.retries.begin_by_time();
    }

    /// Whether the gang waits because predicates refused it: no room that comes back helps.
    pub fn is_refused(&self) -> bool {
        matches!(&self.waits, WaitSet::Parked(parked) if parked.refused.is_some())
    }

    /// Forgets answers of predicates, which may be wrong by now. A gang that is undecided and was refused is woken;
    /// returns whether it was.
    pub fn invalidate(&mut self, is_undecided: bool) -> bool {
        // A search that is under way has answers, too.
        self.search = None;
        let was_refused = is_undecided && self.is_refused();
        if was_refused {
            self.wake();
        }
        was_refused
    }

    /// Whether it was looked for, and waits for any node to grow that can take a member, which none has.
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

    /// Takes out what the bundle lacked at its last search.
    pub fn take_places(&mut self) -> Option<BundleWaits> {
        self.places.take()
    }
}

/// The search that is under way.
impl GangSearch {
    /// Whether a search goes on with the next offer.
    pub fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    /// Takes out the search that is under way, for a bundle that may be another by now; or begins one.
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

    /// Takes back a search after its part of this step. If it is unfinished it goes on with the next offer.
    pub fn put_search(&mut self, search: Box<MemberSearch>, why: Option<&NotPlaced>) {
        self.n_fit = search.n_fit().or(self.n_fit);
        if matches!(why, Some(NotPlaced::Unfinished)) {
            (self.waits, self.search) = (WaitSet::Due, Some(search));
        }
    }

    /// Forgets a search that is under way.
    pub fn end_search(&mut self) {
        self.search = None;
    }
}

/// What keeps it from its places.
impl GangSearch {
    /// The obstacle at the last offer.
    pub fn obstacle(&self) -> Option<&GangObstacle> {
        self.obstacle.as_ref().map(|(obstacle, _)| obstacle)
    }

    /// Notes what keeps the gang from its places. If it was the same kind of obstacle before, the earlier time
    /// counts.
    pub fn note(&mut self, obstacle: GangObstacle, now_ns: i64) {
        let kind = std::mem::discriminant(&obstacle);
        let before = self.obstacle.as_ref();
        let before = before.filter(|(before, _)| std::mem::discriminant(before) == kind);
        let since_ns = before.map_or(now_ns, |(_, since_ns)| *since_ns);
        self.obstacle = Some((obstacle, since_ns));
    }

    /// Forgets the obstacle: another one keeps the gang from its places, which is not noted.
    pub fn forget_obstacle(&mut self) {
        self.obstacle = None;
    }

    /// The members that found no place at the last search, by an ask of each group with their number, and
    /// since when, ns since the epoch. `None` if there may be places by now.
    pub fn short_of_places(&self, nodes: &NodeIndex) -> Option<(&[(AskSlot, u64)], i64)> {
        let WaitSet::Parked(_) = &self.waits else { return None };
        let Some((GangObstacle::Places(short), since_ns)) = &self.obstacle else { return None };
        let is_so = !self.places.clone()?.is_due(nodes);
        is_so.then_some((&**short, *since_ns))
    }

    /// The obstacle of the gang in addition to quotas, limits and [too few places], and since when, ns
    /// since the epoch. `None` if it may be gone by now. The counts of nodes are left out, and the texts of
    /// predicates.
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
                // The answers came later, one by one.
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
            // The sums say by themselves whether quota is short; what was refused may pass now.
            GangObstacle::Places(_)
            | GangObstacle::Quota(_)
            | GangObstacle::Limits(_)
            | GangObstacle::GivesWay
            | GangObstacle::Refused { .. } => None,
        }
    }

    /// The member that every node with room refused at the last offer.
    pub fn refused(&self) -> Option<AskSlot> {
        match self.obstacle()? {
            GangObstacle::Refused { ask, .. } => Some(*ask),
            _ => None,
        }
    }

    /// The quota that the gang was over at the last offer, and since when, ns since the epoch.
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

/// Preemption, and places that a scheduler before this one held.
impl GangSearch {
    /// When the gang was declared, ns since the epoch.
    pub fn declared_ns(&self) -> i64 {
        self.declared_ns
    }

    /// The tries of the gang to preempt others.
    pub fn tries(&self) -> Option<&Tries> {
        self.tries.as_deref()
    }

    /// The same, to be changed.
    pub fn tries_mut(&mut self) -> &mut Tries {
        self.tries.get_or_insert_default()
    }

    /// Numbers an order to hold places again.
    pub fn next_hold_order(&mut self) -> u32 {
        self.hold_orders = self.hold_orders.wrapping_add(1);
        self.hold_orders
    }

    /// Whether this is the last order to hold places again.
    pub fn is_last_hold_order(&self, order: u32) -> bool {
        self.hold_orders == order
    }

    /// Notes how many members would have had places at this offer.
    pub fn note_fitting(&mut self, members: u64) {
        self.n_fit = Some(members);
    }

    /// Takes out how many members would have had places at the last offer, where that is known.
    pub fn take_fitting(&mut self) -> Option<u64> {
        self.n_fit.take()
    }
}
