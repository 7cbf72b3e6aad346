//! What an application does with an offer: which of its asks goes to which node, or why none does.
//!
//! # Why a rule
//! This is the decision that everything else leads to. It is made here of plain values: what the
//! application asks for, what queues, user and group leave to it, what nodes have. Nothing moves
//! while it decides; it says what is to be done ([`Next`]), and the application's actor does it.
//! What was not placed says why ([`Obstacle`]); whoever wants the figures asks
//! [`why`](Attempt::why).
//!
//! # The phases of one attempt
//! 1. The first class in order that may use the offer; none: the offer is declined.
//! 2. Back-off: as many asks as the leaf allows have found no node in this pass.
//! 3. A real member of a task group waits for the placeholders of its group, as long as there are
//!    any; how it takes the place of one is decided in [`super::pairs`].
//! 4. Quota: what the limits of user and group leave, then what the queues leave.
//! 5. A node: of those that have not refused where predicates are asked by questions and the ask is
//!    being searched for already, else the first in order with room.
//!
//! What is parked changes what comes first, so the actor parks it and asks again, until something
//! is placed or nothing is left.
//!
//! ```
//! use std::sync::Arc;
//! use monoceros_rules::books::Books;
//! use monoceros_rules::decide::attempt::{Attempt, Next, next};
//! use monoceros_rules::decide::parking::Obstacle;
//! use monoceros_rules::nodes::NodeOrder;
//! use monoceros_rules::order::waits::View;
//! use monoceros_rules::values::epoch::Loosening;
//! use monoceros_rules::values::resources::{Limits, Resources};
//! use monoceros_rules::work::asks::{AskSpec, Asks};
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
//! let view = View { headroom: &headroom, loosening, may_start: true, nodes };
//! let decide = |asks: &Asks| {
//!     let (view, books) = (&view, &books);
//!     let gang = None;
//!     next(&Attempt { asks, gang, view, lane: None, books, backoff_asks: 0, asks_later: false })
//! };
//!
//! let Next::Park(parking) = decide(&asks) else { panic!("it is too big") };
//! assert_eq!(parking.obstacle, Obstacle::NoNode);
//! let waits = parking.obstacle.waits(&asks.ask(parking.ask).spec, &view);
//! asks.set_waits(parking.class, waits);
//! let Next::Place(candidate) = decide(&asks) else { panic!("it fits") };
//! assert_eq!((&*asks.ask(candidate.ask).key, candidate.node), ("small", node));
//! ```

use std::fmt;
use std::sync::Arc;

use super::parking::Obstacle;
use super::predicates::SearchEnd;
use crate::books::Books;
use crate::limits::{LaneId, Subject};
use crate::nodes::{NodeLacks, NodeRequest, NodeSlot};
use crate::order::keys::AskKey;
use crate::order::waits::View;
use crate::values::epoch::Epoch;
use crate::values::resources::{Limits, Resources};
use crate::work::asks::{AskSlot, Asks, ClassId, Shape};
use crate::work::gang::Gang;

/// All that an application has in hand when an offer reaches it.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The asks of the application.
    pub asks: &'a Asks,
    /// Its placeholders, if it has any.
    pub gang: Option<&'a Gang>,
    /// What its queues, its user and its group leave together.
    pub view: &'a View<'a>,
    /// The lane of the application, if something limits its user or group.
    pub lane: Option<LaneId>,
    /// The nodes, the placements that wait for a predicate, and the trackers.
    pub books: &'a Books,
    /// After how many asks without a node a pass ends; 0: never.
    pub backoff_asks: u64,
    /// Predicates are asked by questions, not in the middle of a placement.
    pub asks_later: bool,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing may use the offer; up to where it was looked for.
    Decline(Epoch),
    /// Nothing for a while: too many asks have found no node, this one last.
    BackOff(AskKey),
    /// An ask goes to a node.
    Place(Candidate),
    /// An ask, and its class with it, waits.
    Park(Parking),
}

/// An ask on its way to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The ask.
    pub ask: AskSlot,
    /// The node to be asked.
    pub node: NodeSlot,
    /// The nodes to be asked after it in the same question, in order.
    pub alternatives: Vec<NodeSlot>,
    /// Its search goes on where others have refused it.
    pub is_continued: bool,
}

/// An ask that was not placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parking {
    /// The class of the ask.
    pub class: ClassId,
    /// The ask, which speaks for its class.
    pub ask: AskSlot,
    /// What is in the way.
    pub obstacle: Obstacle,
}

/// Decides what is to be done next; changes nothing.
pub fn next(attempt: &Attempt<'_>) -> Next {
    let first = attempt.asks.first(attempt.view);
    if let Some(reached) = attempt.end_of_pass(first.map(|(class, _)| class)) {
        return Next::BackOff(reached);
    }
    let Some((class, ask)) = first else {
        return Next::Decline(attempt.view.epoch());
    };
    let found = if attempt.waits_for_placeholders(attempt.asks.shape(class)) {
        Err(Obstacle::Placeholders)
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
    fn end_of_pass(&self, next: Option<ClassId>) -> Option<AskKey> {
        if self.backoff_asks == 0 {
            return None;
        }
        let waits_otherwise = |shape: &Shape| self.waits_for_placeholders(shape);
        self.asks.last_of_pass(self.backoff_asks, self.view, next, waits_otherwise)
    }

    /// Whether asks of this shape take the places of placeholders, and some are still to come or to
    /// go.
    fn waits_for_placeholders(&self, shape: &Shape) -> bool {
        self.gang.is_some_and(|gang| shape.member_of().is_some_and(|group| gang.is_usable(group)))
    }

    /// Whether a member of the class is more than what is left: by the limits of its user or group
    /// first, since nobody else's queue is to blame then.
    fn over_quota(&self, class: ClassId) -> Option<Obstacle> {
        let wanted = self.asks.shape(class).resources();
        if self.view.headroom.allows(wanted) {
            return None;
        }
        let trackers = &self.books.trackers;
        let by_limits = self.lane.is_some_and(|lane| !trackers.headroom(lane).allows(wanted));
        Some(if by_limits { Obstacle::Limits } else { Obstacle::Quota })
    }

    /// The node to be asked for an ask that fits its quotas.
    ///
    /// # Errors
    /// What is in the way of it.
    pub fn node_for(&self, slot: AskSlot) -> Result<Candidate, Obstacle> {
        let ask = self.asks.ask(slot);
        let (books, request) = (self.books, ask.request());
        let trying = ask.trying().filter(|it| self.asks_later && it.holds(books.unsettled.era()));
        let Some(trying) = trying else {
            return match books.nodes.first(&request) {
                Some(node) => {
                    Ok(Candidate { ask: slot, node, alternatives: Vec::new(), is_continued: false })
                }
                None if request.required.is_some() => Err(Obstacle::RequiredNode),
                None => Err(Obstacle::NoNode),
            };
        };
        let mut candidates = trying.candidates(&books.nodes, &request);
        if candidates.is_empty() {
            return Err(match trying.out_of_candidates(&books.unsettled, &books.nodes, &request) {
                SearchEnd::Anew => Obstacle::GrewMeanwhile,
                SearchEnd::Returns => Obstacle::HeldByOthers,
                SearchEnd::Nothing => Obstacle::Refused,
            });
        }
        let node = candidates.remove(0);
        Ok(Candidate { ask: slot, node, alternatives: candidates, is_continued: true })
    }

    /// Why an ask was parked, with figures: for people. `queues` is its path from root, each with
    /// what it and those above leave. It may look at every node.
    pub fn why<'q>(
        &self,
        parking: &Parking,
        queues: impl IntoIterator<Item = (&'q Arc<str>, &'q Limits)>,
    ) -> Why {
        let ask = self.asks.ask(parking.ask);
        let request = match ask.trying() {
            Some(trying) => ask.request().passing_over(trying.refused()),
            None => ask.request(),
        };
        match parking.obstacle {
            Obstacle::Placeholders => {
                let group = ask.task_group.as_ref().map_or("", |group| group.as_str());
                Why::Placeholders { group: Arc::from(group) }
            }
            Obstacle::Quota => over_queue(queues, &ask.resources),
            Obstacle::Limits => self.over_limit(&ask.resources),
            Obstacle::NoNode => Why::Nodes(self.books.nodes.lacks(&request)),
            Obstacle::RequiredNode => {
                let node = ask.required_node.clone().unwrap_or_else(|| Arc::from(""));
                if request.is_excluded_from(&node) {
                    Why::RequiredNodeExcluded { node }
                } else {
                    Why::RequiredNode { node, lacks: self.required_lacks(&request) }
                }
            }
            Obstacle::Refused | Obstacle::HeldByOthers | Obstacle::GrewMeanwhile => {
                Why::Refused(self.books.nodes.lacks(&request))
            }
        }
    }

    fn over_limit(&self, wanted: &Resources) -> Why {
        let rooms = self.lane.into_iter().flat_map(|lane| self.books.trackers.named_rooms(lane));
        let mut over = rooms.map(|(whose, queue, left)| (whose, queue, lacks(wanted, &left)));
        match over.find(|(_, _, lacks)| !lacks.is_empty()) {
            Some((whose, queue, lacks)) => {
                Why::Limit { whose: whose.clone(), queue: Arc::clone(queue), lacks }
            }
            None => Why::Loosened,
        }
    }

    /// What the node that is required has too little of; `None`: it is not there.
    fn required_lacks(&self, request: &NodeRequest<'_>) -> Option<Resources> {
        let nodes = &self.books.nodes;
        let slot = nodes.slot_of(request.required?)?;
        let mut lacks = Resources::new();
        for (name, wanted) in request.resources.entries() {
            let short = wanted.saturating_sub(nodes.available(slot).get(name));
            if short > 0 {
                lacks.set(name, short);
            }
        }
        Some(lacks)
    }
}

/// The first queue from root on that leaves too little.
fn over_queue<'q>(
    queues: impl IntoIterator<Item = (&'q Arc<str>, &'q Limits)>,
    wanted: &Resources,
) -> Why {
    let over = queues.into_iter().find(|(_, left)| !left.allows(wanted));
    over.map_or(Why::Loosened, |(queue, left)| Why::Queue {
        queue: Arc::clone(queue),
        lacks: lacks(wanted, left),
    })
}

/// How much of each resource is wanted beyond what is left.
fn lacks(wanted: &Resources, left: &Limits) -> Resources {
    let mut lacks = Resources::new();
    for (name, wanted) in wanted.entries() {
        let short = left.find(name).map_or(0, |left| wanted.saturating_sub(left.max(0)));
        if short > 0 {
            lacks.set(name, short);
        }
    }
    lacks
}

/// Why an ask is not placed, with figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The highest queue whose maximum leaves too little, and how much is missing there.
    Queue {
        /// The path of the queue.
        queue: Arc<str>,
        /// How much of each resource is missing there.
        lacks: Resources,
    },
    /// The limit of its user or group that leaves too little.
    Limit {
        /// The user or group.
        whose: Subject,
        /// The path of the queue that the limit is set on.
        queue: Arc<str>,
        /// How much of each resource is missing there.
        lacks: Resources,
    },
    /// No node has room, takes new allocations, and can run it.
    Nodes(NodeLacks),
    /// The one node that it may use has no room.
    RequiredNode {
        /// The id of the node.
        node: Arc<str>,
        /// Of each resource, what is missing there; `None`: there is no such node.
        lacks: Option<Resources>,
    },
    /// The one node that it may use can never run it, its RM said.
    RequiredNodeExcluded {
        /// The id of the node.
        node: Arc<str>,
    },
    /// Every node with room has refused it, or its RM did not answer in time.
    Refused(NodeLacks),
    /// It waits for a placeholder of its task group, to take its place.
    Placeholders {
        /// The name of the task group.
        group: Arc<str>,
    },
    /// What kept it is loosened by now.
    Loosened,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue { queue, lacks } => write!(f, "queue `{queue}` lacks {lacks}"),
            Self::Limit { whose, queue, lacks } => {
                write!(f, "the limit of {whose} in `{queue}` lacks {lacks}")
            }
            Self::Nodes(lacks) => write!(f, "no node takes it: {lacks}"),
            Self::RequiredNode { node, lacks: None } => write!(f, "node `{node}` is not there"),
            Self::RequiredNode { node, lacks: Some(lacks) } => {
                write!(f, "node `{node}` lacks {lacks}")
            }
            Self::RequiredNodeExcluded { node } => {
                write!(f, "node `{node}`, which it requires, can never run it")
            }
            Self::Refused(lacks) => write!(f, "predicates keep it waiting: {lacks}"),
            Self::Placeholders { group } => {
                write!(f, "it waits for a placeholder of task group `{group}`")
            }
            Self::Loosened => f.write_str("what kept it is loosened by now"),
        }
    }
}

#[cfg(test)]
mod tests;
