//! Changes around a node that concern more than its actor: reservations there, the applications
//! that wait for the node, and its usage of the RM's quotas.

use std::collections::BTreeSet;
use std::sync::Arc;

use monoceros_rules::asks::Ask;
use monoceros_rules::books::Books;
use monoceros_rules::decide::lending::{Lent, Loan};
use monoceros_rules::decide::reservations::displaced_by;
use monoceros_rules::pending::nominations::Preemptor;
use monoceros_rules::pending::reservations::{End, Reservation, Reserver};
use monoceros_rules::specs::quotas::{Held, QUEUE_BYTES, QuotaUsage};
use monoceros_rules::values::ids::{ApplicationSlot, NodeSlot};

use super::Baton;
use super::op::{Op, ReservationOp};
use crate::events::{Event, EventKind};

impl Baton {
    /// Works out again which asks may use nodes that are reserved for others; called when queues
    /// are configured again.
    pub(crate) fn lend_again(&mut self) {
        self.books.nodes.rank_otherwise(self.books.queues.changes_priorities());
        self.books.nodes.lend_again();
    }

    /// Suspends a reservation: its node is open to all asks until the ask could run. The
    /// application is visited before anything else is decided.
    pub(crate) fn suspend(&mut self, who: Reserver) {
        let Books { nodes, reservations, .. } = &mut self.books;
        let Some(reservation) = reservations.of(who) else {
            debug_assert!(false, "whoever suspends a reservation has found it");
            return;
        };
        let key = Arc::clone(&reservation.spec.key);
        if reservations.suspend(nodes, who) {
            tracing::debug!(ask = %key, "reservation suspended");
            self.effects.revisit(who.application, Op::Reservation(ReservationOp::Suspended(key)));
            self.offer.rise_to(0);
        }
    }

    /// Lets an ask use a node that another ask has reserved. If that other ask could not run, its
    /// reservation is suspended.
    pub(crate) fn borrow(&mut self, lent: Lent) {
        tracing::debug!(node = %self.books.nodes.id(lent.node), why = ?lent.loan, "node is lent");
        if lent.loan == Loan::Suspended {
            self.suspend(lent.by);
        }
    }

    /// Returns the RM's quotas with their present usage.
    pub(crate) fn quotas(&self) -> QuotaUsage {
        let mut standing = self.books.quotas;
        let queues = self.directory.queues.len() as u64;
        standing.here.queues = queues;
        standing.here.bytes += queues * QUEUE_BYTES;
        standing
    }

    /// Counts the present usage of a node against the RM's quotas.
    pub(crate) fn note_node(&mut self, node: NodeSlot, now: Held) {
        let before = self.directory.held_by_nodes.take(node).unwrap_or_default();
        self.directory.held_by_nodes.insert_at(node, now);
        self.books.quotas.change(before, now);
    }

    /// Takes a removed node off the RM's quotas.
    pub(crate) fn forget_held_by_node(&mut self, node: NodeSlot) {
        let before = self.directory.held_by_nodes.take(node).unwrap_or_default();
        self.books.quotas.change(before, Held::default());
    }

    /// Wakes the applications that wait for a node by its id, and those that have it reserved,
    /// because the node appeared or changed.
    pub(crate) fn wake_named(&mut self, node: NodeSlot, id: &Arc<str>) {
        let mut waiting = self.directory.named.take(id);
        waiting.extend(self.reservers(node));
        let woken = waiting.into_iter().map(|slot| (slot, Arc::clone(id)));
        self.effects.follow_ups.woken.extend(woken);
    }

    /// Wakes the same applications as [`Self::wake_named`] and keeps them waiting: a failed
    /// placement returned its capacity to the node.
    pub(crate) fn wake_named_by_return(&mut self, node: NodeSlot, id: &Arc<str>) {
        let mut waiting: BTreeSet<_> = self.directory.named.waiting_for(id).collect();
        waiting.extend(self.reservers(node));
        let woken = waiting.into_iter().map(|slot| (slot, Arc::clone(id)));
        self.effects.follow_ups.woken_by_return.extend(woken);
    }

    /// Returns the applications that have the node reserved.
    fn reservers(&self, node: NodeSlot) -> impl Iterator<Item = ApplicationSlot> {
        self.books.reservations.on_node(node).map(|(who, _)| who.application)
    }

    /// Ends the reservation of an ask of any application; the application is visited before
    /// anything else is decided. The offer under way rises, because an earlier queue may wait for a
    /// node that is open to all again.
    pub(crate) fn unreserve(&mut self, who: Reserver, why: End) {
        if let Some(key) = self.end_reservation(who, why) {
            self.effects.follow_ups.unreserved.push((who.application, key, why));
            self.offer.rise_to(0);
        }
    }

    /// Ends the reservation of the node that this ask requires, if the reservation belongs to an
    /// ask that may use other nodes.
    pub(crate) fn displace_for(&mut self, ask: &Ask) {
        if let Some(who) = displaced_by(ask, &self.books) {
            self.unreserve(who, End::Displaced);
        }
    }

    /// Suspends the reservation of an ask that could not run even if its node had capacity. A node
    /// that the ask requires stays reserved.
    pub(crate) fn suspend_if_possible(&mut self, who: Reserver) {
        if self.books.reservations.of(who).is_some_and(Reservation::may_be_suspended) {
            self.suspend(who);
        }
    }

    /// Ends the reservation of an ask in the books, and the nomination made with it. Returns the key of
    /// the ask, if it had a reservation.
    pub(crate) fn end_reservation(&mut self, who: Reserver, why: End) -> Option<Arc<str>> {
        let key = self.take_reservation(who, why)?;
        self.end_nomination(Preemptor::Ask(who), why == End::Placed);
        Some(key)
    }

    /// Ends the reservation of an ask that now has a nomination of another node.
    pub(crate) fn move_reservation(&mut self, who: Reserver) {
        self.take_reservation(who, End::Moved);
    }

    fn take_reservation(&mut self, who: Reserver, why: End) -> Option<Arc<str>> {
        let Books { nodes, reservations, .. } = &mut self.books;
        let ended = reservations.end(nodes, who)?;
        if nodes.is_reserved(ended.node) {
            // The node stays reserved by other asks; a search for victims may succeed now.
            self.books.note_change();
        } else {
            self.offer.rise_to(0);
        }
        let nodes = &self.books.nodes;
        let (node, spec) = (Arc::clone(nodes.id(ended.node)), ended.spec);
        tracing::debug!(ask = %spec.key, %node, %why, "reservation ended");
        let event = |at| Event::of(EventKind::NodeUnreserved, &node, at);
        self.happens(|at| event(at).asked_for(&spec));
        Some(Arc::clone(&spec.key))
    }
}
