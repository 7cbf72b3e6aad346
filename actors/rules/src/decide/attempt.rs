//! Decides how an application uses an offer: which of its asks is placed on which node, or why none
//! is.
//!
//! # Why a rule
//! All other rules serve this decision. It is made from plain values: the application's asks, the
//! headroom of queues, user and group, and the nodes. Nothing changes during the decision. It
//! returns what is to be done ([`Next`]), and the application's actor does it. An ask that was not
//! placed has an [`Obstacle`]; [`why`](Attempt::why) adds the figures.
//!
//! # The phases of one attempt
//! 1. The first class in order that may use the offer; if there is none, the offer is declined.
//!    Members of a task group that lost members come before all other asks of their priority.
//! 2. Back-off: the pass ends after as many asks without a node as the leaf allows.
//! 3. A real member of a task group waits for the placeholders of its group, as long as there are
//!    any; [`super::pairs`] decides how it takes the place of one.
//! 4. Quota: the headroom by the limits of user and group, then that of the queues.
//! 5. A node. In the usual case it is the first in order with capacity. If predicates are asked by
//!    questions and the ask is already being searched for, it is one that has not refused the ask.
//!    If there is no such node, it is a node that another ask has reserved and
//!    [lends](super::lending).
//!
//! Parking an ask changes which ask comes first, so the actor parks it and decides again, until an
//! ask is placed or none is left.
//!
//! ```
//! use monoceros_rules::asks::Asks;
//! use monoceros_rules::books::Books;
//! use monoceros_rules::decide::attempt::{Attempt, Next, next};
//! use monoceros_rules::nodes::NodeOrder;
//! use monoceros_rules::specs::ask::AskSpec;
//! use monoceros_rules::values::epoch::Loosening;
//! use monoceros_rules::values::ids::ApplicationSlot;
//! use monoceros_rules::values::resources::{Limits, Resources};
//! use monoceros_rules::waiting::View;
//! use monoceros_rules::waiting::obstacle::Obstacle;
//! use std::sync::Arc;
//!
//! let vcores = |n| Resources::of(&[("vcore", n)]);
//! let mut books = Books::new(NodeOrder::default());
//! let node = books.nodes.insert(Arc::from("n1"), vcores(4), vcores(4), true).unwrap();
//! let mut asks = Asks::new();
//! asks.put(AskSpec::new("big", vcores(8)), 0, 1);
//! asks.put(AskSpec::new("small", vcores(2)), 0, 2);
//!
//! let headroom = Limits::unlimited();
//! let (loosening, nodes) = (Loosening::NONE, Some(&books.nodes));
//! let (limits, queues) = (None, None);
//! let view = View { headroom: &headroom, loosening, may_start: true, nodes, limits, queues };
//! let decide = |asks: &Asks| {
//!     let (view, books) = (&view, &books);
//!     let (application, gang, lane, beside_nominations) = (ApplicationSlot::at(0), None, None, None);
//!     let (leaf, backoff_asks, asks_later) = (0, 0, false);
//!     let owed = &[];
//!     next(&Attempt {
//!         application, leaf, owed, asks, gang, view, beside_nominations, lane, books, backoff_asks, asks_later,
//!     })
//! };
//!
//! let Next::Park(parking) = decide(&asks) else { panic!("it is too big") };
//! assert_eq!(parking.obstacle, Obstacle::NoNode);
//! let waits = parking.obstacle.waits(&asks.ask(parking.ask).spec, &view);
//! asks.set_waits(parking.class, waits);
//! let Next::Place(candidate) = decide(&asks) else { panic!("it fits") };
//! assert_eq!((&*asks.ask(candidate.ask).key, candidate.node), ("small", node));
//! ```

use super::explain::{self, QueueRoom, Why};
use super::lending::Lent;
use super::pairs::FreePlaces;
use crate::applications::gang::Gang;
use crate::asks::{Asks, SearchEnd, Try};
use crate::books::Books;
use crate::limits::LaneId;
use crate::nodes::{Fits, NodeRequest};
use crate::order::keys::AskKey;
use crate::pending::nominations::Preemptor;
use crate::specs::ask::{Shape, TaskGroup};
use crate::values::epoch::Epoch;
use crate::values::ids::{ApplicationSlot, AskSlot, ClassId, NodeSlot};
use crate::values::resources::{Limits, Resources};
use crate::waiting::obstacle::Obstacle;
use crate::waiting::{View, WaitSet};

/// The facts for an application's decision when an offer reaches it.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The asks of the application.
    pub asks: &'a Asks,
    /// The placeholders of the application, if it has any.
    pub gang: Option<&'a Gang>,
    /// The task groups whose asks come first, because the groups lost members.
    pub owed: &'a [TaskGroup],
    /// The slot of the application.
    pub application: ApplicationSlot,
    /// The slot of its leaf.
    pub leaf: u32,
    /// The headroom of its queues, its user and its group together. For a preemptor it includes the
    /// nominated amounts.
    pub view: &'a View<'a>,
    /// The headroom of its queues after all nominations are subtracted, for applications that may
    /// have a nomination themselves; `None` while there are no nominations.
    pub beside_nominations: Option<&'a Limits>,
    /// The lane of the application, if a limit concerns its user or group.
    pub lane: Option<LaneId>,
    /// The nodes, the placements that wait for a predicate, and the trackers.
    pub books: &'a Books,
    /// The number of asks without a node after which a pass ends; 0: never.
    pub backoff_asks: u64,
    /// Whether predicates are asked by questions, which are answered later.
    pub asks_later: bool,
}

/// The next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// No ask may use the offer. Contains the epoch of the search.
    Decline(Epoch),
    /// No ask is tried for a while, because too many have found no node. Contains the key of the
    /// last one.
    BackOff(AskKey),
    /// An ask is placed on a node, if that takes it.
    Place(Candidate),
    /// An ask is parked, and its class with it.
    Park(Parking),
}

/// An ask and the node that it is to be placed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The ask.
    pub ask: AskSlot,
    /// The node that is asked first.
    pub node: NodeSlot,
    /// The nodes that are asked after `node` in the same question, in order.
    pub alternatives: Vec<NodeSlot>,
    /// Whether the search continues, after nodes have refused the ask.
    pub is_continued: bool,
    /// If the RM prefers this node: the first node in order, and the number of nodes with capacity
    /// before this one.
    pub preferred_to: Option<(NodeSlot, usize)>,
    /// The loan, if another ask has reserved the node and lends it.
    pub lent: Option<Lent>,
}

impl Candidate {
    /// A candidate on the first node that was found for an ask.
    pub fn first(ask: AskSlot, node: NodeSlot) -> Self {
        let (alternatives, preferred_to, lent) = (Vec::new(), None, None);
        Self { ask, node, alternatives, is_continued: false, preferred_to, lent }
    }

    /// A candidate on a node that another ask has reserved.
    pub fn lent(ask: AskSlot, lent: Lent) -> Self {
        Self { lent: Some(lent), ..Self::first(ask, lent.node) }
    }

    /// A candidate of a continued search: the first node, and the alternatives.
    pub fn next(ask: AskSlot, node: NodeSlot, alternatives: Vec<NodeSlot>) -> Self {
        Self { alternatives, is_continued: true, ..Self::first(ask, node) }
    }
}

/// An ask that was not placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parking {
    /// The class of the ask.
    pub class: ClassId,
    /// The ask that was tried for its class.
    pub ask: AskSlot,
    /// The obstacle.
    pub obstacle: Obstacle,
}

/// Decides what is to be done next; changes nothing.
pub fn next(attempt: &Attempt<'_>) -> Next {
    let owed = attempt.asks.first_of(attempt.owed, attempt.view);
    let first = owed.or_else(|| attempt.asks.first(attempt.view));
    if owed.is_none()
        && let Some(reached) = attempt.end_of_pass(first.map(|(class, _)| class))
    {
        return Next::BackOff(reached);
    }
    let Some((class, ask)) = first else {
        return Next::Decline(attempt.view.epoch());
    };
    let found = if attempt.waits_for_placeholders(attempt.asks.shape(class)) {
        Err(Obstacle::Placeholders)
    } else if attempt.gives_way(ask) {
        Err(Obstacle::GivesWay)
    } else {
        match attempt.over_quota(class) {
            Some(obstacle) => Err(obstacle),
            None => attempt.node_for(ask),
        }
    };
    match found {
        Ok(candidate) => Next::Place(candidate),
        Err(obstacle) => Next::Park(Parking { class, ask, obstacle }),
    }
}

impl Attempt<'_> {
    /// Returns what the parked ask waits for, and its class with it.
    pub fn waits(&self, parking: &Parking) -> WaitSet {
        let ask = self.asks.ask(parking.ask);
        let waits = parking.obstacle.waits(&ask.spec, self.view);
        ask.or_to_borrow(waits, self.leaf, &self.books.queues)
    }

    fn end_of_pass(&self, next: Option<ClassId>) -> Option<AskKey> {
        if self.backoff_asks == 0 {
            return None;
        }
        let waits_otherwise = |shape: &Shape| self.waits_for_placeholders(shape);
        self.asks.last_of_pass(self.backoff_asks, self.view, next, waits_otherwise)
    }

    /// Whether asks of this shape take the places of placeholders, and some placeholders are still
    /// to be placed or to end.
    fn waits_for_placeholders(&self, shape: &Shape) -> bool {
        self.gang.is_some_and(|gang| shape.member_of().is_some_and(|group| gang.is_usable(group)))
    }

    /// Whether the ask arrived after an allocation of its application was evicted for another ask,
    /// which has still to be placed.
    pub fn gives_way(&self, slot: AskSlot) -> bool {
        let nominations = &self.books.nominations;
        !nominations.is_empty()
            && nominations.bars(self.application, self.asks.ask(slot).sequence).is_some()
    }

    /// Returns the obstacle if the amount of a member of the class exceeds the headroom. Limits of
    /// the user or group are named first, since no other user's queue is to blame for them.
    pub(super) fn over_quota(&self, class: ClassId) -> Option<Obstacle> {
        self.over_quota_of(self.asks.shape(class).resources())
    }

    /// Returns the obstacle if this amount exceeds the headroom.
    pub fn over_quota_of(&self, wanted: &Resources) -> Option<Obstacle> {
        if self.view.headroom.allows(wanted) {
            return None;
        }
        let trackers = &self.books.trackers;
        let by_limits = self.lane.is_some_and(|lane| !trackers.headroom(lane).allows(wanted));
        Some(if by_limits { Obstacle::Limits } else { Obstacle::Quota })
    }

    /// Returns the obstacle if this amount exceeds what the nominations of others leave. The
    /// preemptor's own nomination is available to it.
    pub fn over_nominations(&self, preemptor: Preemptor, wanted: &Resources) -> Option<Obstacle> {
        let mut left = self.beside_nominations?.clone();
        left.give(&self.books.nominations.own(preemptor));
        (!left.allows(wanted)).then_some(Obstacle::Quota)
    }

    /// Finds the node to be asked for an ask that fits its quotas.
    ///
    /// # Errors
    /// The obstacle that keeps the ask from all nodes.
    pub fn node_for(&self, slot: AskSlot) -> Result<Candidate, Obstacle> {
        let ask = self.asks.ask(slot);
        let (books, request) = (self.books, ask.request());
        let Some(trying) = self.trying(slot) else {
            return match ask.first_node(&books.nodes) {
                Some(node) => Ok(Candidate::first(slot, node)),
                None if request.required.is_some() => Err(Obstacle::RequiredNode),
                None if let Some(lent) = self.lent(slot, &ask.request_to_borrow()) => {
                    Ok(Candidate::lent(slot, lent))
                }
                None if request.is_kept_off(&books.nodes) => Err(Obstacle::Constraints),
                None => Err(Obstacle::NoNode),
            };
        };
        let elsewhere = ask.request_elsewhere();
        let mut candidates =
            elsewhere.map_or_else(Vec::new, |other| trying.candidates(&books.nodes, &other));
        if candidates.is_empty() {
            candidates = trying.candidates(&books.nodes, &request);
        }
        if candidates.is_empty() {
            let lent = self.lent(slot, &ask.request_to_borrow().passing_over(trying.refused()));
            if let Some(lent) = lent.filter(|_| request.required.is_none()) {
                return Ok(Candidate { is_continued: true, ..Candidate::lent(slot, lent) });
            }
            return Err(
                match trying.out_of_candidates(&books.nodes, &request, |request| {
                    books.unsettled.may_return(&books.nodes, request)
                }) {
                    SearchEnd::Anew => Obstacle::GrewMeanwhile,
                    SearchEnd::Returns => Obstacle::HeldByOthers,
                    SearchEnd::Nothing => Obstacle::Refused,
                },
            );
        }
        let node = candidates.remove(0);
        Ok(Candidate::next(slot, node, candidates))
    }

    /// Returns the first node that is lent to the ask.
    fn lent(&self, slot: AskSlot, request: &NodeRequest<'_>) -> Option<Lent> {
        Lent::first((self.leaf, &self.asks.ask(slot).spec), None, request, self.books)
    }

    /// Returns the search of the ask if it continues: predicates are asked by questions, and the
    /// answers still count.
    pub(super) fn trying(&self, slot: AskSlot) -> Option<&Try> {
        let era = self.books.unsettled.era();
        self.asks.ask(slot).trying().filter(|it| self.asks_later && it.holds(era))
    }

    /// Returns why an ask was parked, with figures, for people. `queues` is the path of the ask
    /// from root. It may read every node.
    pub fn why<'q>(
        &self,
        parking: &Parking,
        queues: impl IntoIterator<Item = QueueRoom<'q>>,
    ) -> Why {
        let ask = self.asks.ask(parking.ask);
        let wanted = &ask.resources;
        let why = match parking.obstacle {
            Obstacle::Quota => queues.into_iter().find_map(|queue| queue.over(wanted)),
            Obstacle::Limits => self.lane.and_then(|lane| {
                explain::limits(&self.books.trackers, lane, wanted, false).into_iter().next()
            }),
            Obstacle::Placeholders => self.gang.and_then(|gang| {
                // The ask is parked before any of them is tried.
                let free = gang.group(ask.member_of()?)?.free.len() as u64;
                let free = FreePlaces { untried: free, ..FreePlaces::default() };
                explain::placeholders(self.asks, gang, ask, free, 0)
            }),
            Obstacle::GrewMeanwhile | Obstacle::GivesWay => None,
            Obstacle::NoNode
            | Obstacle::Constraints
            | Obstacle::RequiredNode
            | Obstacle::Refused
            | Obstacle::HeldByOthers => {
                let lacks = self.books.nodes.lacks(&explain::request(ask), &Fits::Unknown);
                explain::nodes(self.books, ask, &WaitSet::Due, &lacks, &Fits::Unknown)
            }
        };
        why.unwrap_or(Why::Loosened)
    }
}

#[cfg(test)]
mod tests;
