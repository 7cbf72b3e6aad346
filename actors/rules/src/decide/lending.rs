//! Lending: which asks may use a node that another ask has reserved; the rule of
//! `docs/scheduling.md#reservations`.
//!
//! # Why
//! The capacity that is free on a reserved node stays idle until the ask that reserved it fits.
//! That is justified against asks that would come later. It is not justified against asks that come
//! first anyway: those of a higher effective priority, and those whose queue is owed the capacity
//! by its guarantee. A reservation protects nothing if its ask could not run even with the
//! capacity.
//!
//! A node is not lent if victims were evicted for the ask that reserved it, if that ask requires
//! the node, or if a gang has set the capacity aside.
//!
//! ```
//! use monoceros_rules::books::Books;
//! use monoceros_rules::decide::lending::{Borrower, Loan};
//! use monoceros_rules::nodes::NodeOrder;
//! use monoceros_rules::pending::reservations::{Reservation, Reserver};
//! use monoceros_rules::queues::QueueConfig;
//! use monoceros_rules::specs::ask::AskSpec;
//! use monoceros_rules::values::ids::{ApplicationSlot, AskSlot};
//! use monoceros_rules::values::resources::Resources;
//! use std::sync::Arc;
//!
//! let vcores = |n| Resources::of(&[("vcore", n)]);
//! let mut books = Books::new(NodeOrder::default());
//! books.queues.enter(0, None, Arc::new(QueueConfig::bare("root", true)));
//! let node = books.nodes.insert(Arc::from("n1"), vcores(8), vcores(4), true).unwrap();
//! let large = Arc::new(AskSpec::new("large", vcores(6)));
//! let who = Reserver { application: ApplicationSlot::at(0), ask: AskSlot::at(0) };
//! books.reservations.make(&mut books.nodes, who, Reservation::new(node, large, 0));
//!
//! let reservation = books.reservations.of(who).unwrap();
//! let small = AskSpec::new("small", vcores(2));
//! assert_eq!(Borrower::of(0, &small, &books).loan(reservation, &books), None);
//! let urgent = AskSpec { priority: 1, ..small };
//! assert_eq!(Borrower::of(0, &urgent, &books).loan(reservation, &books), Some(Loan::Priority));
//! ```

use std::cmp::Ordering;

use crate::asks::Ask;
use crate::books::Books;
use crate::nodes::NodeRequest;
use crate::pending::reservations::{EffectivePriority, Reservation, Reserver};
use crate::specs::ask::AskSpec;
use crate::values::ids::NodeSlot;

/// Why an ask may use a node that another ask has reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loan {
    /// The effective priority of the borrower is higher.
    Priority,
    /// The borrower fits the unused guarantee of its queue, and the queue of the lender has no
    /// unused guarantee.
    Guarantee,
    /// The ask that reserved the node could not run even with the capacity.
    Suspended,
}

/// A node that an ask may use though another has reserved it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// The node.
    pub node: NodeSlot,
    /// The ask that has reserved the node.
    pub by: Reserver,
    /// Why it may be used.
    pub loan: Loan,
}

/// An ask that may borrow reserved nodes.
#[derive(Debug)]
pub struct Borrower {
    effective: EffectivePriority,
    is_owed: bool,
}

impl Borrower {
    /// The borrower for an ask of an application in this leaf.
    pub fn of(leaf: u32, ask: &AskSpec, books: &Books) -> Self {
        Self {
            effective: EffectivePriority::in_leaf(&books.queues, leaf, ask.priority),
            is_owed: books.queues.fits_guarantee(leaf, &ask.resources),
        }
    }

    /// Returns why the borrower may use the node of a reservation; `None` if it may not.
    pub fn loan(&self, reservation: &Reservation, books: &Books) -> Option<Loan> {
        if !reservation.is_bounded() {
            return None;
        }
        let (of, wanted) = (&reservation.holder, &reservation.spec.resources);
        let theirs =
            || EffectivePriority::in_leaf(&books.queues, of.leaf, reservation.spec.priority);
        if self.is_owed && !books.queues.is_below_guarantee(of.leaf, wanted) {
            Some(Loan::Guarantee)
        } else if self.effective.compare(&theirs()) == Ordering::Greater {
            Some(Loan::Priority)
        } else {
            (!could_run(reservation, books)).then_some(Loan::Suspended)
        }
    }
}

impl Lent {
    /// Returns the first node in order that is lent to an ask of an application in this leaf.
    /// `request` is the ask's request; only nodes behind `after` are considered, if it is given.
    pub fn first(
        (leaf, ask): (u32, &AskSpec),
        after: Option<NodeSlot>,
        request: &NodeRequest<'_>,
        books: &Books,
    ) -> Option<Self> {
        if !books.nodes.may_lend(request.resources) {
            return None;
        }
        let borrower = Borrower::of(leaf, ask, books);
        books.nodes.first_lent(after, request, |node| {
            let by = books.reservations.normal_on(node)?;
            let loan = borrower.loan(books.reservations.of(by)?, books)?;
            Some(Self { node, by, loan })
        })
    }
}

/// Returns the next node to be asked after `node` refused an ask of an application in this leaf,
/// with the loan if another ask has reserved it. `is_pair`: the ask takes the place of a
/// placeholder, and borrows no node.
pub fn after_refusal(
    (leaf, ask): (u32, &Ask),
    node: NodeSlot,
    is_pair: bool,
    books: &Books,
) -> Option<(NodeSlot, Option<Lent>)> {
    let last_lent = books.nodes.is_lent(node).then_some(node);
    if last_lent.is_none()
        && let Some(next) = ask.node_after(node, &books.nodes)
    {
        return Some((next, None));
    }
    let request = ask.request_to_borrow();
    if is_pair || request.required.is_some() {
        return None;
    }
    let lent = Lent::first((leaf, &ask.spec), last_lent, &request, books)?;
    Some((lent.node, Some(lent)))
}

/// Whether the ask of a reservation could run if there were capacity: its queues leave enough
/// beside the nominations of others, and the limits of its user and group leave enough.
pub fn could_run(reservation: &Reservation, books: &Books) -> bool {
    let (of, wanted) = (&reservation.holder, &reservation.spec.resources);
    let is_allowed = books.queues.upward(of.leaf).all(|(_, queue)| {
        queue.left().is_none_or(|left| match books.nominations.taken_off(&queue.config().path) {
            None => left.allows(wanted),
            Some(nominated) => left.less(nominated).allows(wanted),
        })
    });
    is_allowed && of.lane.is_none_or(|lane| books.trackers.headroom(lane).allows(wanted))
}

#[cfg(test)]
mod tests;
