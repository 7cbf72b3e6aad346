//! Decides how an application uses an offer for its asks that have a node reserved.
//!
//! # Two rounds
//! First, each of these asks is tried on its reserved node. Then each ask that does not require its
//! node is tried on all other nodes that are open and not reserved. So an ask is placed on
//! whichever node has capacity first, and no ask takes another node while the reserved node of a
//! later ask would do. Neither the age of an application nor its back-off delays a try here.
//!
//! If quotas or limits do not let an ask run even with capacity, its reservation is suspended. The
//! ask is tried when it may run again.
//!
//! As in [`attempt`](super::attempt), nothing changes during the decision; the application carries
//! it out, and asks again.

use super::attempt::{Attempt, Candidate, Next, Parking};
use super::reservations::Patience;
use crate::pending::nominations::Preemptor;
use crate::pending::reservations::Reserver;
use crate::values::ids::{AskSlot, ClassId, NodeSlot};
use crate::waiting::obstacle::Obstacle;

/// The next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextReserved {
    /// The result of an attempt, as for any ask.
    Do(Next),
    /// The reservation was suspended, and the ask may run now: the node is reserved for it again.
    Resume(AskSlot),
    /// The reserved node cannot take this class now. The class is tried on other nodes next.
    PassOver(ClassId),
    /// The ask has not fitted its quotas for too long: its reservation ends.
    GiveUp(AskSlot),
}

/// Decides what is to be done next for the asks of an application that have a node reserved;
/// changes nothing.
pub fn next(attempt: &Attempt<'_>, patience: &Patience, now_ns: i64) -> NextReserved {
    let at_reserved = attempt.asks.first_at_reserved(attempt.view);
    let first = at_reserved.or_else(|| attempt.asks.first_beside_reserved(attempt.view));
    let Some((class, ask)) = first else {
        return NextReserved::Do(Next::Decline(attempt.view.epoch()));
    };
    let park = |obstacle| NextReserved::Do(Next::Park(Parking { class, ask, obstacle }));
    let who = Reserver { application: attempt.application, ask };
    let reservation = attempt.books.reservations.of(who);
    if let Some(obstacle) = attempt.over_quota(class).or_else(|| {
        attempt.over_nominations(Preemptor::Ask(who), attempt.asks.shape(class).resources())
    }) {
        let waited = reservation.is_some_and(|it| it.has_waited(now_ns, patience.wait_timeout));
        return if waited { NextReserved::GiveUp(ask) } else { park(obstacle) };
    }
    if reservation.is_some_and(|it| it.is_suspended) {
        return NextReserved::Resume(ask);
    }
    let is_required = attempt.asks.ask(ask).required_node.is_some();
    if at_reserved.is_some() {
        let node = reservation.map(|reservation| reservation.node);
        return match node.filter(|node| attempt.may_use_reserved(ask, *node)) {
            Some(node) => NextReserved::Do(Next::Place(attempt.at_reserved(ask, node))),
            None if is_required => park(attempt.why_not_reserved(ask)),
            None => NextReserved::PassOver(class),
        };
    }
    if is_required {
        return park(attempt.why_not_reserved(ask));
    }
    match attempt.node_for(ask) {
        Ok(candidate) => NextReserved::Do(Next::Place(candidate)),
        Err(Obstacle::NoNode) => park(attempt.why_not_reserved(ask)),
        Err(obstacle) => park(obstacle),
    }
}

impl Attempt<'_> {
    /// Whether an ask may be placed on the node that it has reserved: the node is open, or the ask
    /// requires it; it has capacity; and it has not refused the ask.
    fn may_use_reserved(&self, slot: AskSlot, node: NodeSlot) -> bool {
        let (ask, nodes) = (self.asks.ask(slot), &self.books.nodes);
        let (request, id) = (ask.request(), nodes.id(node));
        (request.required.is_some() || nodes.is_open(node))
            && nodes.has_room(node, request.resources)
            && nodes.admits(node, &request)
            && !self.was_refused_there(slot, id)
    }

    fn was_refused_there(&self, slot: AskSlot, node: &str) -> bool {
        let ask = self.asks.ask(slot);
        let by_answer = self.trying(slot).is_some_and(|trying| trying.refused().contains(node));
        ask.is_refused_at_reserved() || by_answer
    }

    fn at_reserved(self, ask: AskSlot, node: NodeSlot) -> Candidate {
        let is_continued = self.trying(ask).is_some();
        Candidate { is_continued, ..Candidate::first(ask, node) }
    }

    /// The obstacle of an ask that neither its reserved node nor any other can take.
    fn why_not_reserved(&self, slot: AskSlot) -> Obstacle {
        let ask = self.asks.ask(slot);
        let is_refused = ask.is_refused_at_reserved() || self.trying(slot).is_some();
        match (is_refused, &ask.required_node) {
            (true, _) => Obstacle::Refused,
            (false, Some(_)) => Obstacle::RequiredNode,
            (false, None) => Obstacle::NoNode,
        }
    }
}

#[cfg(test)]
mod tests;
