//! A declared gang that has no places yet: what it asks for itself, and what it waits for.
//!
//! # Invariants
//! * Between two visits an undecided gang asks for each member that its RM has not asked for.
//! * A bundle that was looked for in vain is not looked for again before something has changed that
//!   may help it.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::applications::native::{MissingAsks, Native, Stage};
use monoceros_rules::asks::preemption::Tries;
use monoceros_rules::audit::BundleFact;
use monoceros_rules::decide::explain::{Cause, GangWhy, ShortDomain};
use monoceros_rules::nodes::{NodeIndex, NodeLacks};
use monoceros_rules::specs::ask::TaskGroup;
use monoceros_rules::values::ids::AskSlot;
use monoceros_rules::values::resources::Resources;
use monoceros_rules::values::retries::Retries;
use monoceros_rules::waiting::{BundleWaits, Phase, WaitSet};
use smallvec::SmallVec;

use super::Application;
use super::in_the_air::{Air, Grounded};
use super::ops::VisitEffects;
use super::searching::Search;
use crate::step::{Baton, Op};

/// The search for places of a declared gang.
#[derive(Default)]
pub(super) struct Bundle {
    /// When an offer is to come here.
    pub(super) waits: WaitSet,
    /// What it waits for, if it found too few places.
    pub(super) places: Option<BundleWaits>,
    /// A search for places that goes on with the next offer.
    pub(super) search: Option<Box<Search>>,
    /// What kept it from its places when it was looked at last, and since when that has been so, ns
    /// since the epoch.
    pub(super) obstacle: Option<(BundleObstacle, i64)>,
    /// When it is tried again after a refusal though nothing changed.
    pub(super) retries: Retries,
    /// Its members have places and wait for the RM's predicates.
    pub(super) air: Option<Box<Air>>,
    /// When it was declared, ns since the epoch.
    pub(super) declared_ns: i64,
    /// Numbers the orders to hold places again, so that an earlier deadline is known to be stale.
    pub(super) hold_orders: u32,
    /// The number of members that would have had places at the last look, where that is known: of the group that was
    /// refused, or of all where a quota was too small.
    pub(super) n_fit: Option<u64>,
    /// What became of its tries to preempt others.
    pub(super) tries: Option<Box<Tries>>,
}

/// What keeps a gang from its places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BundleObstacle {
    /// A group whose members have no size lacks asks.
    Asks(MissingAsks),
    /// What its queues leave does not hold all of it.
    Quota(Resources),
    /// What its user and group leave does not hold all of it.
    Limits(Resources),
    /// The number of members without a place, by an ask of each group that is short.
    Places(Vec<(AskSlot, u64)>),
    /// No domain takes the whole of a group that has to stay in one.
    Domain(Box<ShortDomain>),
    /// Every node with room refused this member of this group.
    Refused { group: TaskGroup, ask: AskSlot },
    /// Something was taken from its application for another, which comes first.
    GivesWay,
}

impl Bundle {
    /// Notes what keeps it from its places. Where it was the same kind of thing before, the earlier
    /// time counts.
    pub(super) fn note(&mut self, obstacle: BundleObstacle, now_ns: i64) {
        let kind = std::mem::discriminant(&obstacle);
        let before = self.obstacle.as_ref();
        let before = before.filter(|(before, _)| std::mem::discriminant(before) == kind);
        let since_ns = before.map_or(now_ns, |(_, since_ns)| *since_ns);
        self.obstacle = Some((obstacle, since_ns));
    }

    /// The members that found no place at the last search, by an ask of each group with their number, and
    /// since when, ns since the epoch. `None` if there may be places by now.
    pub(super) fn short_of_places(&self, nodes: &NodeIndex) -> Option<(&[(AskSlot, u64)], i64)> {
        let WaitSet::Parked(_) = &self.waits else { return None };
        let Some((BundleObstacle::Places(short), since_ns)) = &self.obstacle else { return None };
        let is_so = !self.places.clone()?.is_due(nodes);
        is_so.then_some((&**short, *since_ns))
    }

    /// The obstacle of the gang in addition to quotas, limits and [too few places], and since when, ns
    /// since the epoch. `None` if it may be gone by now. The counts of nodes are left out, and what they said.
    ///
    /// [too few places]: Self::short_of_places
    pub(super) fn why(&self, nodes: &NodeIndex) -> Option<(GangWhy, Option<i64>)> {
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
                Some(BundleObstacle::Refused { group, .. }) => {
                    (refused(Arc::clone(group)), since_ns)
                }
                // The answers came later, one by one.
                _ => (refused(TaskGroup::default()), None),
            });
        }
        match obstacle? {
            BundleObstacle::Asks(MissingAsks { group, missing }) => {
                let (group, missing) = (Arc::clone(group), *missing);
                Some((GangWhy::Asks { group, missing }, since_ns))
            }
            BundleObstacle::Domain(short) => {
                let mut places = self.places.clone()?;
                let (short, nodes_lack) = ((**short).clone(), NodeLacks::default());
                let why = GangWhy::Domain { short, nodes: nodes_lack, constraint: None };
                (!places.is_due(nodes)).then_some((why, since_ns))
            }
            // The sums say by themselves whether quota is short; what was refused may pass now.
            BundleObstacle::Places(_)
            | BundleObstacle::Quota(_)
            | BundleObstacle::Limits(_)
            | BundleObstacle::GivesWay
            | BundleObstacle::Refused { .. } => None,
        }
    }

    /// What keeps it from its places is no longer what it was.
    pub(super) fn forget_obstacle(&mut self) {
        self.obstacle = None;
    }

    /// The member that every node with room refused when it was looked at last.
    pub(super) fn refused(&self) -> Option<AskSlot> {
        match self.obstacle.as_ref()?.0 {
            BundleObstacle::Refused { ask, .. } => Some(ask),
            _ => None,
        }
    }

    /// The quota that it was over when it was looked at last, and since when, ns since the epoch.
    pub(super) fn over_since(&self) -> Option<(Cause, i64)> {
        let (obstacle, since_ns) = self.obstacle.as_ref()?;
        let cause = match obstacle {
            BundleObstacle::Quota(_) => Cause::QueueQuota,
            BundleObstacle::Limits(_) => Cause::UserQuota,
            _ => return None,
        };
        Some((cause, *since_ns))
    }

    /// Whether it was looked for, and waits for any node to grow that can take a member, which none
    /// has.
    fn rests(&self, nodes: &NodeIndex) -> bool {
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
}

impl Application {
    /// The application has joined its queue: it asks for each member that it declared with a size.
    pub(super) fn declare(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let declared_ns = baton.now_ns;
        self.bundle = Some(Box::new(Bundle { declared_ns, ..Bundle::default() }));
        self.ask_internally(baton, effects);
        if !self.book.asks.pending().is_empty() {
            self.book.ask_added(baton.now_ns, &mut self.changes);
        }
    }

    /// Asks for every member that has no ask: the gang is undecided from now on.
    pub(super) fn ask_internally(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        self.forget_domains();
        let book = &mut self.book;
        let Some(gang) = &mut book.gang else { return };
        let Some(native) = &mut gang.native else { return };
        native.stage = Stage::Undecided;
        native.forget_lost();
        for group in native.groups_mut() {
            let Some(spec) = group.spec.clone() else { continue };
            let sequence = baton.books.arrival();
            let ask = book.asks.put_internal(spec, baton.now_ns, sequence);
            if let Some(terms) = &group.terms {
                book.asks.set_wish(ask, Arc::clone(terms), baton.now_ns, Some(self.slot));
            }
            group.ask = Some(ask);
        }
        let pending = gang.complete(&mut book.asks);
        let asks: SmallVec<[AskSlot; 4]> =
            gang.native.iter().flat_map(|native| native.groups()).filter_map(|it| it.ask).collect();
        for ask in asks {
            self.join_domain(ask, baton);
        }
        effects.pends(&pending);
        if !pending.is_empty() {
            self.join_lane(baton);
        }
    }

    /// The asks of an undecided gang may have changed: it asks for as many members as are missing,
    /// and is to be looked at.
    pub(super) fn complete_bundle(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let is_undecided =
            self.book.undecided().is_some_and(|native| native.stage == Stage::Undecided);
        if !is_undecided {
            return self.leave_rooms(baton);
        }
        if let Some(gang) = &mut self.book.gang {
            let change = gang.complete(&mut self.book.asks);
            if !change.is_empty() {
                effects.pends(&change);
            }
        }
        match effects.grounded {
            Some(why @ (Grounded::Refused | Grounded::Unanswered)) => {
                self.park_grounded(why, baton);
                if why == Grounded::Refused && self.holds_again() {
                    baton.effects.revisit(self.slot, Op::SettleForLess);
                }
            }
            _ if effects.touched => {
                self.wake_bundle();
                if let Some(bundle) = self.bundle.as_mut().filter(|_| effects.retries_bundle) {
                    bundle.retries.begin_by_time();
                }
            }
            _ => {}
        }
    }

    /// Answers of predicates may be wrong by now: a gang that was refused is tried again. Says
    /// whether it is.
    pub(super) fn invalidate_bundle(&mut self) -> bool {
        if let Some(bundle) = &mut self.bundle {
            // One that is under way has answers, too.
            bundle.search = None;
        }
        let was_refused = self.is_bundle_refused();
        if was_refused {
            self.wake_bundle();
        }
        was_refused
    }

    /// Whether an undecided gang waits because predicates refused it: no room that comes back helps.
    pub(super) fn is_bundle_refused(&self) -> bool {
        let waits = self.book.undecided().and(self.bundle.as_ref()).map(|bundle| &bundle.waits);
        matches!(waits, Some(WaitSet::Parked(parked)) if parked.refused.is_some())
    }

    pub(super) fn wake_bundle(&mut self) {
        if let Some(bundle) = &mut self.bundle {
            (bundle.waits, bundle.places) = (WaitSet::Due, None);
            bundle.retries.begin_anew();
            bundle.search.iter_mut().for_each(|search| search.tries_domains_again());
        }
    }

    /// What an undecided gang waits for.
    pub(super) fn bundle_waits(&self) -> WaitSet {
        if self.book.native().is_some_and(Native::backs_off) {
            return WaitSet::Nothing;
        }
        let waits = self.bundle.as_ref().map_or(WaitSet::Nothing, |bundle| bundle.waits.clone());
        waits.declined(self.declined.at(Phase::Normal))
    }

    /// What an undecided gang says of itself to an audit.
    pub(super) fn bundle_fact(&self, nodes: &NodeIndex) -> Option<BundleFact> {
        let native = self.book.undecided()?;
        let groups = native.groups().iter();
        let rests = self.bundle.as_ref().is_some_and(|bundle| bundle.rests(nodes));
        let backs_off = native.backs_off();
        Some(BundleFact {
            groups: groups.clone().map(|it| (Arc::clone(&it.name), it.wanted())).collect(),
            topologies: groups.clone().map(|it| it.sought_topology().cloned()).collect(),
            sized: groups.filter(|it| it.spec.is_some()).map(|it| Arc::clone(&it.name)).collect(),
            rests,
            backs_off,
            in_the_air: native.stage == Stage::InTheAir,
        })
    }

    /// Some time has passed since a member was refused.
    pub(super) fn retry_bundle(&mut self, retry: u32, effects: &mut VisitEffects) {
        let is_meant = self.bundle.as_mut().is_some_and(|bundle| bundle.retries.begin(retry));
        if is_meant && self.book.undecided().is_some() {
            (effects.touched, effects.retries_bundle) = (true, true);
        }
    }
}
