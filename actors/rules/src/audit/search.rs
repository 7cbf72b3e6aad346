//! The reference scheduler: it sorts everything again, and examines every ask and every node.
//!
//! The search takes time in proportion to the whole partition for each decision, which a live
//! scheduler cannot afford. In return it has no bounds, marks or caches that could be stale, so it
//! can judge a scheduler that has them.
//!
//! If a decision depends on a deadline that is about to end, or on a second try of a node that
//! refused to be reserved, the search cannot know whether the live scheduler has tried already.
//! Then its result is [`Foreseen::Unknown`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::lost::for_owed;
use super::{
    AllocationFact, ApplicationFact, AskFact, Decision, Facts, Foreseen, NodeFact, QueueFact,
    ReservationFact,
};
use crate::allocations::Pairing;
use crate::decide::reservations::Patience;
use crate::nodes::recount::{Counted, Picture, admits, alternatives};
use crate::nodes::{Domain, NodeOrder};
use crate::order::keys::{ApplicationKey, ApplicationView, AskKey, QueueKey, QueueView};
use crate::order::ledger;
use crate::pending::nominations::{Nominations, Preemptor};
use crate::pending::reservations::{Rank, Reserver};
use crate::values::ids::{AllocationId, NodeSlot};
use crate::values::resources::{Limits, Resources};
use crate::waiting::Phase;

/// The subject of a question to the RM's predicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About<'a> {
    /// The ask with this key.
    Request(&'a str),
    /// A place that would be held for a member of a declared gang.
    Hold {
        /// The application.
        application: &'a str,
        /// The task group of the member.
        group: &'a str,
    },
}

/// The RM's predicates: a function of the subject, the id of the node, and whether the subject
/// would be allocated there now.
pub type Passes<'a> = dyn Fn(About<'_>, &str, bool) -> bool + 'a;

/// The RM's preferences: a function of the key of the ask and the id of a node. Returns how much
/// the ask prefers the node, and whether only among nodes with the same score; `None` if it has no
/// preference.
pub type Prefers<'a> = dyn Fn(&str, &str) -> Option<(i64, bool)> + 'a;

/// The answers of an RM.
#[derive(Clone, Copy)]
pub struct Answers<'a> {
    /// The predicates.
    pub passes: &'a Passes<'a>,
    /// The preferences.
    pub prefers: &'a Prefers<'a>,
}

impl fmt::Debug for Answers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").finish_non_exhaustive()
    }
}

impl Facts {
    /// Returns the decision that a full search makes next, at this time, with these answers of the
    /// RM.
    pub fn next_decision(
        &self,
        answers: Answers<'_>,
        order: &NodeOrder,
        patience: &Patience,
        now_ns: i64,
    ) -> Foreseen {
        if self.nodes.is_empty() {
            return Foreseen::Nothing;
        }
        let shown: Vec<NodeFact> = self.nodes.iter().map(|node| self.as_shown(node)).collect();
        let mut nodes: Vec<&NodeFact> = shown.iter().collect();
        nodes.sort_by(|a, b| {
            let score = |node: &NodeFact| order.score(&node.total, &node.available);
            score(a).total_cmp(&score(b)).then_with(|| a.id.cmp(&b.id))
        });
        let (root, none) = (self.queue(0), Limits::unlimited());
        let protected = self.reservations.iter().filter(|it| !it.is_suspended);
        let reserved: BTreeSet<NodeSlot> = protected.map(|it| it.node).collect();
        let (nodes, reserved) = (&nodes, &reserved);
        let mut phases = [Phase::Reserved, Phase::Pairs, Phase::Normal].into_iter();
        let found = phases.find_map(|phase| {
            let facts = self;
            let search = Search { facts, phase, nodes, order, reserved, answers, patience, now_ns };
            search.queue(root?, [&none, &none], true)
        });
        found.unwrap_or(Foreseen::Nothing)
    }

    /// Returns a node as the index shows it: without the capacity kept for gangs.
    fn as_shown(&self, node: &NodeFact) -> NodeFact {
        let kept = self.nominations.kept(node.slot).unwrap_or_default();
        NodeFact { available: node.available.minus(&kept).pruned(), ..node.clone() }
    }
}

impl Facts {
    /// Returns the picture by which a constraint of an ask of this application is checked, without
    /// the allocation `gone`. For a declared gang, its own held places count like allocations.
    pub(super) fn picture(
        &self,
        application: &ApplicationFact,
        gone: Option<AllocationId>,
    ) -> Picture<'_> {
        let nodes = self.nodes.iter().map(|node| (node.slot, Some(&*node.attributes))).collect();
        let there = self.allocations.iter();
        let there = there.filter(|fact| fact.is_on_node() && Some(fact.id) != gone);
        let counted = there.map(|fact| {
            let is_mate = application.is_native && fact.application == application.slot;
            let is_together = fact.is_hold || fact.pairing == Pairing::InBundle;
            let waits = fact.question.is_some() || fact.takes_a_place() || is_together;
            let is_booked = !waits || (is_mate && is_together);
            Counted { node: fact.node, tags: fact.tags.as_deref().map(|tags| &**tags), is_booked }
        });
        Picture { nodes, counted: counted.collect() }
    }
}

/// The state of a full search.
pub(super) struct Search<'a> {
    pub(super) facts: &'a Facts,
    phase: Phase,
    /// The nodes in the order of the policy.
    pub(super) nodes: &'a [&'a NodeFact],
    pub(super) order: &'a NodeOrder,
    /// The reserved nodes.
    pub(super) reserved: &'a BTreeSet<NodeSlot>,
    pub(super) answers: Answers<'a>,
    patience: &'a Patience,
    now_ns: i64,
}

/// An application under examination, with the limits of its asks.
pub(super) struct Looking<'a> {
    pub(super) application: &'a ApplicationFact,
    /// The asks in order.
    asks: Vec<&'a AskFact>,
    headroom: &'a Limits,
    /// The headroom before nominations are subtracted.
    whole: &'a Limits,
    nominations: &'a Nominations,
    of_user: Limits,
}

impl Looking<'_> {
    fn fits_quota(&self, ask: &AskFact) -> bool {
        self.of_user.allows(&ask.resources) && self.headroom.allows(&ask.resources)
    }

    /// Whether an ask with a reserved node fits: its own nomination is available to it.
    fn fits_with_nomination(&self, ask: &AskFact) -> bool {
        let who = Reserver { application: self.application.slot, ask: ask.slot };
        self.has_quota_for(Preemptor::Ask(who), &ask.resources)
    }

    /// Whether this amount fits, with the preemptor's own nomination.
    pub(super) fn has_quota_for(&self, preemptor: Preemptor, amount: &Resources) -> bool {
        let mut left = self.headroom.clone();
        left.give(&self.nominations.own(preemptor));
        self.of_user.allows(amount) && self.whole.allows(amount) && left.allows(amount)
    }

    pub(super) fn gives_way(&self, ask: &AskFact) -> bool {
        self.nominations.bars(self.application.slot, ask.sequence).is_some()
    }

    fn names(&self, ask: &AskFact, node: &NodeFact) -> (Arc<str>, Arc<str>, Arc<str>) {
        (Arc::clone(&self.application.id), Arc::clone(&ask.key), Arc::clone(&node.id))
    }

    pub(super) fn places(&self, ask: &AskFact, node: &NodeFact) -> Foreseen {
        let (application, key, node) = self.names(ask, node);
        Foreseen::Next(Decision::Place { application, key, node })
    }

    fn reserves(&self, ask: &AskFact, node: &NodeFact) -> Foreseen {
        let (application, key, node) = self.names(ask, node);
        Foreseen::Next(Decision::Reserve { application, key, node })
    }

    fn gives_up(&self, ask: &AskFact, node: &NodeFact) -> Foreseen {
        let (application, key, node) = self.names(ask, node);
        Foreseen::Next(Decision::GiveUp { application, key, node })
    }
}

impl Search<'_> {
    /// Searches a queue. `above` is the headroom of the queues above: after nominations are
    /// subtracted, and before.
    fn queue(&self, queue: &QueueFact, above: [&Limits; 2], may_start: bool) -> Option<Foreseen> {
        let [mut headroom, mut whole] = above.map(Clone::clone);
        if let Some(max) = &queue.ledger.max {
            whole.narrow(&max.less(queue.ledger.allocated()));
            let nominated = self.facts.nominations.taken_off(&queue.config.path);
            let used = queue.ledger.allocated().plus(nominated.unwrap_or(&Resources::new()));
            headroom.narrow(&max.less(&used));
        }
        if queue.parent.is_none() {
            queue.ledger.narrow_to_countable(&self.facts.capacity, &mut headroom);
            queue.ledger.narrow_to_countable(&self.facts.capacity, &mut whole);
        }
        let rooms = [&headroom, &whole];
        let limit = queue.ledger.max_running;
        let counted = queue.ledger.running() + queue.ledger.starting();
        let may_start = may_start && (limit == 0 || counted < limit);
        if queue.config.is_leaf {
            return self.leaf(queue, rooms, may_start);
        }
        let mut children: Vec<(QueueKey, &QueueFact)> = self
            .facts
            .children(queue.slot)
            .filter(|child| {
                child.state.is_scheduled() && child.ledger.pending().shown().is_positive()
            })
            .map(|child| (self.queue_key(queue, child), child))
            .collect();
        children.sort_by(|a, b| a.0.cmp(&b.0));
        children.into_iter().find_map(|(_, child)| self.queue(child, rooms, may_start))
    }

    fn queue_key(&self, parent: &QueueFact, child: &QueueFact) -> QueueKey {
        QueueKey::new(
            parent.config.settings.priority_sort,
            &QueueView {
                priority: child.priority,
                allocated: child.ledger.allocated(),
                guaranteed: child.config.guaranteed.as_ref(),
                fair_max: self.fair_max(child).as_ref(),
                pending: child.ledger.pending().shown(),
                path: &child.config.path,
            },
        )
    }

    fn fair_max(&self, queue: &QueueFact) -> Option<Limits> {
        match queue.parent.and_then(|parent| self.facts.queue(parent)) {
            None => queue.ledger.capacity.clone(),
            Some(parent) => {
                ledger::fair_max(self.fair_max(parent).as_ref(), queue.config.max.as_ref())
            }
        }
    }

    fn leaf(&self, leaf: &QueueFact, rooms: [&Limits; 2], may_start: bool) -> Option<Foreseen> {
        let ([headroom, whole], nominations) = (rooms, &self.facts.nominations);
        let settings = &leaf.config.settings;
        let mut applications: BTreeMap<ApplicationKey, &ApplicationFact> = BTreeMap::new();
        for application in self.facts.applications.iter().filter(|a| a.leaf == leaf.slot) {
            let starts = application.is_starting();
            let may_run = (!starts || may_start) && self.facts.may_run(application);
            let is_passed_over = match self.phase {
                Phase::Reserved => !may_run,
                Phase::Pairs => false,
                Phase::Normal => !may_run || application.backs_off,
            };
            if !application.pending.shown().is_positive() || is_passed_over {
                continue;
            }
            let owed = self.facts.owed(application);
            let asks: Vec<&AskFact> = application.asks.iter().collect();
            let view = ApplicationView {
                priority: application.priority,
                lacks_members: !for_owed(application, &owed, &asks).is_empty(),
                submitted: application.submitted_ns,
                allocated: &application.allocated,
                guaranteed: leaf.config.guaranteed.as_ref(),
                id: &application.id,
            };
            let key = ApplicationKey::new(settings.sort_policy, settings.priority_sort, &view);
            applications.insert(key, application);
        }
        let most = settings.backoff_asks;
        let mut applications = applications.into_values();
        applications.find_map(|application| {
            let mut asks: Vec<&AskFact> = application.asks.iter().collect();
            asks.sort_by_key(|ask| AskKey::new(ask.priority, ask.created_ns, ask.sequence));
            let of_user = self.facts.user_headroom(application);
            let looking = Looking { application, asks, headroom, whole, nominations, of_user };
            match self.phase {
                Phase::Reserved => self.at_reserved(&looking),
                Phase::Pairs => self.pair(application).map(Foreseen::Next),
                Phase::Normal => self.any(&looking, most),
            }
        })
    }

    /// Searches asks with a reserved node: first their reserved nodes, then other nodes.
    fn at_reserved(&self, looking: &Looking<'_>) -> Option<Foreseen> {
        for ask in looking.asks.iter().filter(|ask| ask.is_reserved) {
            let (reservation, node) = self.reservation_of(looking.application, ask)?;
            if !looking.fits_with_nomination(ask) {
                let timeout_ns = i64::try_from(self.patience.wait_timeout.as_nanos());
                let waited_ns = self.now_ns.saturating_sub(reservation.since_ns);
                if waited_ns > timeout_ns.unwrap_or(i64::MAX) && ask.is_due_at_reserved {
                    return Some(looking.gives_up(ask, node));
                }
                if reservation.is_bounded {
                    // The live scheduler suspends the reservation when it tries the ask, which is
                    // no decision.
                    return Some(Foreseen::Unknown);
                }
                continue;
            }
            if reservation.is_suspended {
                // The live scheduler closes the node to others again when it tries the ask.
                return Some(Foreseen::Unknown);
            }
            let may_come = node.open || ask.required_node.is_some();
            let admits = self.may_use(looking.application, ask, node.slot, None);
            if may_come && fits(ask, node) && admits && self.takes(ask, node.slot, true) {
                return Some(looking.places(ask, node));
            }
        }
        let mut elsewhere = looking.asks.iter().filter(|ask| {
            ask.is_reserved && ask.required_node.is_none() && looking.fits_with_nomination(ask)
        });
        elsewhere.find_map(|ask| match self.first_node(looking.application, ask) {
            Some(node) => Some(looking.places(ask, node)),
            None => self.lent(looking, ask),
        })
    }

    fn reservation_of(
        &self,
        application: &ApplicationFact,
        ask: &AskFact,
    ) -> Option<(&ReservationFact, &NodeFact)> {
        let mut reservations = self.facts.reservations.iter();
        let reservation =
            reservations.find(|it| it.application == application.slot && it.key == ask.key)?;
        let node = self.nodes.iter().find(|node| node.slot == reservation.node)?;
        Some((reservation, node))
    }

    /// Returns the first member that takes the place of a placeholder, with the placeholder; see
    /// [`crate::decide::pairs`].
    fn pair(&self, application: &ApplicationFact) -> Option<Decision> {
        let is_member = |ask: &&AskFact| !ask.placeholder && !ask.backs_off;
        let mut members: Vec<&AskFact> = application.asks.iter().filter(is_member).collect();
        members.sort_by_key(|ask| AskKey::new(ask.priority, ask.created_ns, ask.sequence));
        let mut places: Vec<&AllocationFact> = self.facts.allocations.iter().collect();
        places.retain(|fact| {
            let is_free = fact.pairing == Pairing::None && !fact.leaves && fact.question.is_none();
            fact.application == application.slot && fact.place_in.is_some() && is_free
        });
        if application.is_native {
            let position =
                |fact: &AllocationFact| self.nodes.iter().position(|node| node.slot == fact.node);
            places.sort_by_key(|fact| (position(fact), fact.id));
        } else {
            places.sort_by(|a, b| (a.created_ns, &a.uuid).cmp(&(b.created_ns, &b.uuid)));
        }
        let mut first = None;
        for ask in members {
            // A placeholder that is too small for a member ends, so it is not free for later
            // members.
            let (mut taken, mut where_it_failed) = (None, None);
            places.retain(|place| {
                let is_meant = taken.is_none() && place.place_in == ask.task_group;
                if is_meant && place.resources.minus(&ask.resources).has_negative() {
                    return false;
                }
                if is_meant {
                    first = first.or(Some((ask, *place)));
                    let admits = self.may_use(application, ask, place.node, Some(place.id));
                    if admits && self.takes(ask, place.node, false) {
                        let has_failed = self.has_failed_on(ask, place.node);
                        let found = if has_failed { &mut where_it_failed } else { &mut taken };
                        *found = found.or(Some(*place));
                    }
                }
                true
            });
            if let Some(place) = taken.or(where_it_failed) {
                let node = self.nodes.iter().find(|node| node.slot == place.node)?;
                return Some(replace(application, ask, place, node));
            }
        }
        let (ask, place) = first?;
        // Only the remaining placeholders count: an earlier one may have been too small for a later
        // member.
        let still = places.iter().find(|still| still.place_in == ask.task_group);
        let place = still.copied().unwrap_or(place);
        still?;
        let node = self.first_node(application, ask)?;
        debug_assert!(self.takes(ask, node.slot, true));
        Some(replace(application, ask, place, node))
    }

    /// Whether the member passes on a node: that of a placeholder, or any other.
    pub(super) fn takes(&self, ask: &AskFact, node: NodeSlot, allocate: bool) -> bool {
        let node = self.nodes.iter().find(|fact| fact.slot == node);
        node.is_some_and(|node| {
            ask.required_node.as_ref().is_none_or(|required| *required == node.id)
                && !ask.excluded.contains(&node.id)
                && (self.answers.passes)(About::Request(&ask.key), &node.id, allocate)
        })
    }

    /// Whether a start of the ask failed on the node.
    fn has_failed_on(&self, ask: &AskFact, node: NodeSlot) -> bool {
        let fact = self.nodes.iter().find(|fact| fact.slot == node);
        fact.is_some_and(|fact| ask.failed_nodes.contains(&fact.id))
    }

    /// Returns the first node on which the ask can be placed. Nodes where a start of it failed come
    /// last.
    fn first_node(&self, application: &ApplicationFact, ask: &AskFact) -> Option<&NodeFact> {
        let elsewhere = || self.first_node_of(application, ask, &ask.failed_nodes);
        let elsewhere = elsewhere().filter(|_| !ask.failed_nodes.is_empty());
        elsewhere.or_else(|| self.first_node_of(application, ask, &[]))
    }

    /// Returns the first node outside `but`, by the first alternative of the ask's constraint that
    /// has one.
    fn first_node_of(
        &self,
        application: &ApplicationFact,
        ask: &AskFact,
        but: &[Arc<str>],
    ) -> Option<&NodeFact> {
        let nodes = self.nodes.iter().copied().filter(|node| !but.contains(&node.id));
        let mut nodes = nodes.filter(|node| self.has_room(ask, node));
        let Some((constraint, open)) = &ask.constraint else { return nodes.next() };
        let nodes: Vec<&NodeFact> = nodes.collect();
        let picture = self.facts.picture(application, None);
        alternatives(constraint.constraint()).iter().take(*open).find_map(|alternative| {
            let mut nodes = nodes.iter().copied();
            nodes.find(|node| alternative.admits(constraint, node.slot, &picture))
        })
    }

    /// Returns the node that the ask prefers to `first`.
    fn preferred<'n>(&'n self, ask: &AskFact, first: &'n NodeFact) -> &'n NodeFact {
        let preference = |node: &NodeFact| (self.answers.prefers)(&ask.key, &node.id);
        let has_choice = ask.required_node.is_none() && ask.constraint.is_none();
        let has_choice = has_choice && !ask.failed_nodes.contains(&first.id);
        let Some((_, only_equal)) = preference(first).filter(|_| has_choice) else { return first };
        let score = |node: &NodeFact| self.order.score(&node.total, &node.available).to_bits();
        let is_meant = |node: &&NodeFact| !only_equal || score(node) == score(first);
        let nodes = self.nodes.iter().copied().filter(|node| !ask.failed_nodes.contains(&node.id));
        let nodes = nodes.filter(|node| self.has_room(ask, node));
        // If preferences are equal, the first node is chosen.
        let best = nodes
            .filter(is_meant)
            .reduce(|best, next| if preference(next) > preference(best) { next } else { best });
        best.unwrap_or(first)
    }

    /// Whether the constraint of the ask admits the node, without an allocation that ends there.
    pub(super) fn may_use(
        &self,
        application: &ApplicationFact,
        ask: &AskFact,
        node: NodeSlot,
        gone: Option<AllocationId>,
    ) -> bool {
        let fact = self.nodes.iter().find(|fact| fact.slot == node);
        if !fact.is_some_and(|fact| is_within(ask.domain.as_deref(), fact)) {
            return false;
        }
        let Some((constraint, open)) = &ask.constraint else { return true };
        let picture = self.facts.picture(application, gone);
        admits(constraint, *open, node, &picture)
    }

    /// Whether the ask can be placed on the node.
    fn has_room(&self, ask: &AskFact, node: &NodeFact) -> bool {
        (ask.required_node.is_some() || self.is_for_all(node))
            && fits(ask, node)
            && is_within(ask.domain.as_deref(), node)
            && self.takes(ask, node.slot, true)
    }

    pub(super) fn is_for_all(&self, node: &NodeFact) -> bool {
        node.open && !self.reserved.contains(&node.slot)
    }

    /// Searches all asks. Gives up when `most` asks have found no node and another ask is pending;
    /// 0: never.
    fn any(&self, looking: &Looking<'_>, most: u64) -> Option<Foreseen> {
        if let Some(bundle) = &looking.application.bundle {
            return self.bundle(looking, bundle).map(Foreseen::Next);
        }
        let owed = self.facts.owed(looking.application);
        let first = for_owed(looking.application, &owed, &looking.asks);
        let mut n_unplaceable = 0;
        for (ask, counts) in
            first.iter().map(|ask| (ask, false)).chain(looking.asks.iter().map(|ask| (ask, true)))
        {
            if counts && most > 0 && n_unplaceable >= most {
                return None;
            }
            if ask.backs_off {
                continue;
            }
            let member_of = ask.task_group.as_ref().filter(|_| !ask.placeholder);
            if member_of.is_some_and(|group| looking.application.waits_for_placeholders(group)) {
                continue;
            }
            if looking.gives_way(ask) || !looking.fits_quota(ask) {
                continue;
            }
            if !ask.is_reserved {
                if let Some(node) = self.first_node(looking.application, ask) {
                    return Some(looking.places(ask, self.preferred(ask, node)));
                }
                if ask.required_node.is_none()
                    && let Some(foreseen) = self.lent(looking, ask)
                {
                    return Some(foreseen);
                }
                if let Some((constraint, open)) = &ask.constraint
                    && *open < alternatives(constraint.constraint()).len()
                {
                    // One more attempt without result may let it use more nodes.
                    return Some(Foreseen::Unknown);
                }
                if let Some(foreseen) = self.reserves(looking, ask) {
                    return Some(foreseen);
                }
            }
            let fits_in_all = self.is_free_in_all(&ask.resources);
            n_unplaceable += u64::from(counts && ask.required_node.is_none() && fits_in_all);
        }
        None
    }

    /// Returns the node that an ask without a node reserves.
    fn reserves(&self, looking: &Looking<'_>, ask: &AskFact) -> Option<Foreseen> {
        if ask.has_failed {
            return None;
        }
        let is_large =
            |node: &NodeFact| node.total.holds(&ask.resources) && !ask.excluded.contains(&node.id);
        if let Some(required) = &ask.required_node {
            let node = self.nodes.iter().find(|node| *required == node.id)?;
            let may_use = self.may_use(looking.application, ask, node.slot, None);
            return (is_large(node) && may_use).then(|| looking.reserves(ask, node));
        }
        let delay_ns = i64::try_from(self.patience.delay?.as_nanos()).unwrap_or(i64::MAX);
        if self.now_ns.saturating_sub(ask.created_ns) <= delay_ns {
            return None;
        }
        if !self.is_free_in_all(&ask.resources) && !ask.is_passed_by {
            return None;
        }
        let may_use = |node: &&NodeFact| self.may_use(looking.application, ask, node.slot, None);
        let large = self.nodes.iter().copied();
        let large = large.filter(|node| self.is_for_all(node) && is_large(node) && may_use(node));
        // Equal fractions of small numbers may differ in the last bits of their sums.
        let node = large.reduce(|best, next| {
            let gain = lack(&ask.resources, best) - lack(&ask.resources, next);
            if gain > 1e-9 { next } else { best }
        });
        let Some(node) = node.filter(|node| self.may_set_aside(ask, node)) else {
            // The live scheduler decides at the next try whether the ask reserves in place of
            // another, and makes no try for that alone.
            let may_replace = self.may_replace(looking.application, ask);
            return may_replace.then_some(Foreseen::Unknown);
        };
        if !(self.answers.passes)(About::Request(&ask.key), &node.id, false) {
            return None;
        }
        let may_be_overdue = looking.application.aging_ns.is_some_and(|at| at <= self.now_ns);
        if may_be_overdue || ask.may_not_reserve {
            return Some(Foreseen::Unknown);
        }
        Some(looking.reserves(ask, node))
    }
}

/// The share of the cluster that may be reserved, and the order of reservations.
impl Search<'_> {
    /// Whether all nodes together have this amount left.
    fn is_free_in_all(&self, wanted: &Resources) -> bool {
        let left = |name| -> i128 {
            self.nodes.iter().map(|node| i128::from(node.available.get(name).max(0))).sum()
        };
        wanted.entries().all(|(name, wanted)| wanted <= 0 || left(name) >= i128::from(wanted))
    }

    /// Whether the share of capacity that may be reserved allows this node, too.
    fn may_set_aside(&self, ask: &AskFact, node: &NodeFact) -> bool {
        let bounded = self.facts.reservations.iter().filter(|it| it.is_bounded);
        let aside: Vec<NodeSlot> = bounded.map(|it| it.node).collect();
        let wanted = ask.resources.entries().filter(|(_, wanted)| *wanted > 0);
        aside.len() < 2
            || wanted.into_iter().all(|(name, _)| {
                let sum = |is_one: &dyn Fn(&NodeFact) -> bool| -> i128 {
                    let those = self.nodes.iter().filter(|it| is_one(it));
                    those.map(|it| i128::from(it.total.get(name))).sum()
                };
                let with_it = sum(&|it| it.slot == node.slot || aside.contains(&it.slot));
                with_it * 100 <= sum(&|it| it.open) * i128::from(self.patience.share_percent)
            })
    }

    /// Whether the ask would replace another reservation, if no more capacity may be reserved.
    fn may_replace(&self, application: &ApplicationFact, ask: &AskFact) -> bool {
        let rank = Rank {
            effective: self.facts.effective(application.leaf, ask.priority),
            created_ns: ask.created_ns,
            was_replaced: ask.was_replaced,
        };
        let rank_of = |it: &ReservationFact| Rank {
            effective: self.facts.effective(it.holder.leaf, it.priority),
            created_ns: it.holder.created_ns,
            was_replaced: it.holder.was_replaced,
        };
        let mut bounded = self.facts.reservations.iter().filter(|it| it.is_bounded);
        bounded.any(|it| rank.replaces(&rank_of(it)))
    }
}

/// Whether the node is in the domain, if there is one.
pub(super) fn is_within(domain: Option<&Domain>, node: &NodeFact) -> bool {
    domain.is_none_or(|domain| {
        node.attributes.get(&domain.key).is_some_and(|value| *value == *domain.value)
    })
}

pub(super) fn fits(ask: &AskFact, node: &NodeFact) -> bool {
    node.total.holds(&ask.resources) && node.available.holds(&ask.resources)
}

/// Returns the sum of the parts of the amount that a node lacks.
fn lack(wanted: &Resources, node: &NodeFact) -> f64 {
    let parts = wanted.entries().map(|(name, wanted)| {
        let missing = wanted.saturating_sub(node.available.get(name).max(0)).max(0);
        missing as f64 / wanted.max(1) as f64
    });
    parts.sum()
}

fn replace(
    application: &ApplicationFact,
    ask: &AskFact,
    place: &AllocationFact,
    node: &NodeFact,
) -> Decision {
    Decision::Replace {
        application: Arc::clone(&application.id),
        key: Arc::clone(&ask.key),
        placeholder: Arc::clone(&place.uuid),
        node: Arc::clone(&node.id),
    }
}
