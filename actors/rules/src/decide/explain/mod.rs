//! The explanation of a pending ask: every obstacle, and the smallest change that lets the ask run.
//!
//! # Why beside `attempt`
//! An [attempt](super::attempt) stops at the first obstacle, since that is enough to park an ask. A
//! person needs all of them: it is useless to raise a quota if no node has capacity either. The
//! rules here read the same sums and list every obstacle. They never run the scheduler and change
//! nothing.
//!
//! # The parts
//! [`Why`] is an obstacle with its figures and its sentence; [`cure`] returns what removes
//! obstacles. The functions here find obstacles where the figures are: in a queue ([`QueueRoom`]),
//! in the trackers of users and groups, among the nodes. The caller puts them [in order](in_order).
//!
//! # Invariants
//! * An ask without an obstacle would be placed by the next offer that reaches it.
//! * An obstacle exists as long as the ask is not placed: it is found from the sums as they are,
//!   not from the notes of the last try.
//! * All changes of the cure together remove every obstacle.
//!
//! ```
//! use std::sync::Arc;
//! use monoceros_rules::decide::explain::{QueueRoom, cure, sentence};
//! use monoceros_rules::values::resources::{Limits, Resources};
//!
//! let gib = |n: i64| Resources::of(&[("memory", n << 30)]);
//! let etl = QueueRoom {
//!     queue: &Arc::from("root.prod.etl"),
//!     is_stopped: false,
//!     max: Some(&Limits::from(gib(40))),
//!     used: &gib(40),
//!     running: 3,
//!     most_running: 0,
//! };
//! let obstacles = etl.obstacles(&gib(2), false);
//! assert_eq!(
//!     obstacles[0].sentence(Some("this ask")),
//!     "root.prod.etl is at its maximum of memory (40 of 40 GiB used); 2 GiB more would let this \
//!      ask run"
//! );
//! assert_eq!(
//!     sentence(&cure(&obstacles)),
//!     "raise the maximum of root.prod.etl by 2 GiB of memory, or free as much there"
//! );
//! ```

mod cure;
mod gang;
mod members;
#[cfg(test)]
mod tests;
mod why;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use cure::{Change, cure, sentence};
pub use gang::{GangWhy, ShortDomain};
pub use members::{asks_of, constraint_of, count_places, required_nodes, short_of_domain};
pub use why::{Cause, HeldNode, Over, RequiredState, Why};

use super::pairs::FreePlaces;
use crate::applications::gang::Gang;
use crate::asks::{Ask, AskWish, Asks};
use crate::books::Books;
use crate::limits::{LaneId, Trackers};
use crate::nodes::{Fits, NodeIndex, NodeLacks, NodeRequest, Wish};
use crate::values::resources::{Limits, Resources};
use crate::waiting::WaitSet;
use crate::waiting::obstacle::Obstacle;

/// A queue, with what decides whether it has capacity.
#[derive(Clone, Copy, Debug)]
pub struct QueueRoom<'a> {
    /// The path of the queue.
    pub queue: &'a Arc<str>,
    /// The queue is stopped.
    pub is_stopped: bool,
    /// The maximum of the queue; `None`: unlimited.
    pub max: Option<&'a Limits>,
    /// The used amount.
    pub used: &'a Resources,
    /// The number of applications that run, or will once their placements are settled.
    pub running: u64,
    /// The most running applications; 0 is unlimited.
    pub most_running: u64,
}

impl QueueRoom<'_> {
    /// Returns the obstacles in the queue for an ask of this amount. `starts`: its application does
    /// not run yet.
    pub fn obstacles(&self, wanted: &Resources, starts: bool) -> Vec<Why> {
        let queue = || Arc::clone(self.queue);
        let mut found = Vec::new();
        if self.is_stopped {
            found.push(Why::QueueStopped { queue: queue() });
        }
        if starts && self.most_running > 0 && self.running >= self.most_running {
            let (running, most) = (self.running, self.most_running);
            found.push(Why::QueueRuns { queue: queue(), running, most });
        }
        found.extend(self.over(wanted));
        found
    }

    /// Returns the obstacle if the amount does not fit the maximum of the queue.
    pub fn over(&self, wanted: &Resources) -> Option<Why> {
        let over = Over::of(self.max?, self.used, wanted)?;
        Some(Why::Queue { queue: Arc::clone(self.queue), over })
    }
}

/// Returns the obstacles by limits of user and group for an ask of this amount, of an application
/// in this lane. `starts`: the application does not run yet.
pub fn limits(trackers: &Trackers, lane: LaneId, wanted: &Resources, starts: bool) -> Vec<Why> {
    let mut found = Vec::new();
    for limit in trackers.limits_of(lane) {
        let (whose, queue) = (limit.subject.clone(), Arc::clone(limit.path));
        if let Some(over) = limit.max.and_then(|max| Over::of(max, limit.usage, wanted)) {
            found.push(Why::Limit { whose: whose.clone(), queue: Arc::clone(&queue), over });
        }
        let (running, most) = (limit.running, limit.most_running);
        if starts && most > 0 && running >= most {
            found.push(Why::LimitRuns { whose, queue, running, most });
        }
    }
    found
}

/// Returns the placeholders that an ask waits for, if it is a member of a task group that has some.
/// The ask takes the place of one of them; no quota, limit or node of its own matters as long as
/// there are any. `free`: placeholders that no member is about to take. `asked`: the number of
/// placements of members of the group that wait for predicates.
pub fn placeholders(
    asks: &Asks,
    gang: &Gang,
    ask: &Ask,
    free: FreePlaces,
    asked: u64,
) -> Option<Why> {
    let group = ask.member_of()?;
    let counted = gang.group(group).filter(|_| gang.is_usable(group))?;
    let left = counted.count.saturating_sub(counted.replaced + counted.timed_out);
    let pending = asks.pending_placeholders(group);
    let placed = pending + counted.free.len() as u64;
    let in_flight = asked.min(left.saturating_sub(placed));
    let leaving = left.saturating_sub(placed + in_flight);
    let group = Arc::clone(group);
    let (asked, refused) = (in_flight, None);
    Some(Why::Placeholders { group, pending, free, asked, leaving, is_held: false, refused })
}

/// Returns the obstacle in a required node for this whole amount, which may be placed on no other
/// node.
pub fn required_of(index: &NodeIndex, node: &Arc<str>, want: &Resources) -> Option<Why> {
    let state = match index.missing(node, want) {
        None => RequiredState::Missing,
        Some(missing) if missing.is_empty() => return None,
        Some(missing) => {
            let holds = index.slot_of(node).is_some_and(|slot| index.total(slot).holds(want));
            let needs = index.size_for(node, want).filter(|_| !holds);
            needs.map_or(RequiredState::Lacks(missing), |needs| RequiredState::TooSmall { needs })
        }
    };
    Some(Why::RequiredNode { node: Arc::clone(node), state, want: want.clone() })
}

/// Returns the obstacle in the nodes for an ask. `waits` is what its class waits for. `lacks` is
/// the result of [`NodeIndex::lacks`] for its [request] with `fits`, which tells the nodes that the
/// ask may use.
pub fn nodes(
    books: &Books,
    ask: &Ask,
    waits: &WaitSet,
    lacks: &NodeLacks,
    fits: &Fits,
) -> Option<Why> {
    let (index, request) = (&books.nodes, request(ask));
    // Capacity on nodes that the ask may not use does not count.
    let is_room_usable = !fits.is_known() || ask.required_node.is_some() || lacks.holding > 0;
    if is_room_usable && (index.first(&request).is_some() || index.own_holds(&request)) {
        return is_refused(index, ask, waits).then(|| refused(ask, lacks));
    }
    let is_kept_off = lacks.constraints > 0
        && (request.is_kept_off(index) || (lacks.lacking.is_empty() && lacks.refused == 0));
    if let Some(wish) = ask.wish().filter(|_| is_kept_off) {
        return Some(constraints(index, ask, wish, lacks, fits));
    }
    if let Some(node) = &ask.required_node {
        return Some(required(index, ask, node, lacks));
    }
    let in_domain = ask.search.domain.as_ref().map(|domain| Why::Topology {
        domain: (**domain).clone(),
        lacks: lacks.clone(),
        nearest: index.nearest(&request, fits).filter(|nearest| !nearest.lacks.is_empty()),
        want: Resources::clone(&ask.resources),
    });
    let has_room_outside = || index.first(&NodeRequest { domains: &[], ..request }).is_some();
    if in_domain.is_some() && has_room_outside() {
        return in_domain;
    }
    if lacks.refused > 0 || is_room_excluded(index, ask) {
        return Some(refused(ask, lacks));
    }
    // A node outside of the domain would not help, whatever its capacity.
    if in_domain.is_some() {
        return in_domain;
    }
    let want = Resources::clone(&ask.resources);
    if lacks.are_all_unfit() {
        return Some(Why::Unfit { lacks: lacks.clone(), want });
    }
    // If no node is large enough, free capacity on one would not help: the nearest node is not
    // computed.
    let nearest = if lacks.lacking.is_empty() { None } else { index.nearest(&request, fits) };
    let drained = match &nearest {
        None if lacks.closed > 0 => index.first_drained(&request, fits).cloned(),
        _ => None,
    };
    let held = HeldNode::first(books, &request, fits);
    Some(Why::Nodes { lacks: lacks.clone(), nearest, drained, held, want })
}

/// Returns the obstacle of an ask whose placement constraint admits no node with capacity.
fn constraints(
    index: &NodeIndex,
    ask: &Ask,
    wish: &AskWish,
    lacks: &NodeLacks,
    fits: &Fits,
) -> Why {
    let request = request(ask);
    let has_node = |open: &usize| {
        let wish = Some(Wish { open: *open, ..wish.wish() });
        index.first(&NodeRequest { wish, ..request }).is_some()
    };
    let opens = (wish.open() + 1..=wish.terms().len()).find(has_node);
    Why::Constraints {
        lacks: lacks.clone(),
        excluding: index.excluding(&wish.wish()),
        nearest: index.nearest(&request, fits).filter(|nearest| !nearest.lacks.is_empty()),
        opens_ns: opens.and_then(|open| wish.opens_ns(open)),
        want: Resources::clone(&ask.resources),
    }
}

/// Returns the request for a node, except the nodes that have refused the ask in its present
/// search.
pub fn request(ask: &Ask) -> NodeRequest<'_> {
    match ask.trying() {
        Some(trying) => ask.request().passing_over(trying.refused()),
        None => ask.request(),
    }
}

/// Returns the reasons of predicates about an ask, each with the number of nodes: from the present
/// search for a node if it has any, else from the last one.
pub fn texts(ask: &Ask) -> BTreeMap<String, u32> {
    match ask.refusals() {
        Some(refusals) if !refusals.reasons.is_empty() => refusals.reasons.clone(),
        Some(refusals) => refusals.last_reasons.clone(),
        None => BTreeMap::new(),
    }
}

/// Sorts obstacles for a reader: the outermost queue first.
pub fn in_order(obstacles: &mut [Why]) {
    obstacles.sort_by_key(Why::place);
}

/// Returns the cause that was noted when an ask was parked.
pub fn noted(obstacle: Obstacle) -> Cause {
    match obstacle {
        Obstacle::Quota => Cause::QueueQuota,
        Obstacle::Limits => Cause::UserQuota,
        Obstacle::NoNode => Cause::NoNode,
        Obstacle::Constraints => Cause::Constraints,
        Obstacle::RequiredNode => Cause::RequiredNode,
        Obstacle::Refused | Obstacle::HeldByOthers => Cause::Predicates,
        Obstacle::Placeholders => Cause::Placeholders,
        Obstacle::GivesWay => Cause::Delay,
        Obstacle::GrewMeanwhile => Cause::Next,
    }
}

/// Whether every node with capacity refused the ask, and no node that could take it has grown
/// since. An ask that waits for a node held by another placement is not refused: the RM has still
/// to be asked about that node.
fn is_refused(index: &NodeIndex, ask: &Ask, waits: &WaitSet) -> bool {
    let WaitSet::Parked(parked) = waits else { return false };
    match &parked.refused {
        Some(least) => {
            parked.roomless.is_none() && !index.may_hold_grown_since(parked.refused_at, least)
        }
        // An ask that requires a node waits for the node's id.
        None => ask.required_node.is_some() && ask.is_resting(),
    }
}

/// Whether a node has capacity on which the ask can never run, according to its RM.
fn is_room_excluded(index: &NodeIndex, ask: &Ask) -> bool {
    let request = NodeRequest { excluded: &[], ..request(ask) };
    !ask.request().excluded.is_empty() && index.first(&request).is_some()
}

/// The reason of an ask for which predicates refuse every node with capacity.
pub fn refused(ask: &Ask, lacks: &NodeLacks) -> Why {
    let excluded = ask.request().excluded.iter().map(|excluded| excluded.until_ns).min();
    let retry = ask.refusals().and_then(|refusals| refusals.retries.until_ns());
    let retry_ns = match (retry, excluded) {
        (Some(retry), Some(excluded)) => Some(retry.min(excluded)),
        (retry, excluded) => retry.or(excluded),
    };
    let node = ask.required_node.clone();
    let mut texts = texts(ask);
    if node.is_none() {
        // Reasons of the nodes themselves are counted in `lacks`.
        texts.retain(|text, _| !lacks.unfit.contains_key(&**text));
    } else {
        let unfit = lacks.unfit.iter();
        texts.extend(unfit.map(|(reason, _)| (reason.to_string(), 1)));
    }
    Why::Refused { node, lacks: lacks.clone(), texts, retry_ns }
}

fn required(index: &NodeIndex, ask: &Ask, node: &Arc<str>, lacks: &NodeLacks) -> Why {
    if let Some(why) = required_of(index, node, &ask.resources) {
        return why;
    }
    let request = ask.request();
    match request.excluded.iter().find(|excluded| *excluded.node == **node) {
        Some(excluded) => Why::RequiredNode {
            node: Arc::clone(node),
            state: RequiredState::Excluded { until_ns: excluded.until_ns },
            want: Resources::clone(&ask.resources),
        },
        // The node itself refused the ask, in the present search.
        None => refused(ask, lacks),
    }
}
