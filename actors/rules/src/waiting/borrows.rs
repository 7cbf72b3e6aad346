//! The bound over pending asks that may use a node which another ask has reserved; the rule is
//! `decide::lending`.
//!
//! Either of two conditions allows it: such a node has grown, and the ask comes before the one with
//! the reservation; or the guarantee of its queue is unused, whenever the capacity became free.

use serde::{Deserialize, Serialize};

use super::view::View;
use super::waits::Parked;
use crate::queues::figures::QueueTable;
use crate::values::resources::Resources;

/// The bound over asks that found no capacity, or were refused on every node with capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Borrows {
    /// The highest priority of these asks.
    priority: i32,
    owed: Owed,
}

/// The queue whose unused guarantee may cover these asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Owed {
    /// No queue.
    Nothing,
    /// This queue.
    By(u32),
    /// Several queues: the rows below know which queue covers which ask.
    BySome,
}

impl Borrows {
    /// Builds the bound of an ask with this priority in this leaf.
    pub(super) fn of(priority: i32, leaf: u32, queues: &QueueTable) -> Self {
        Self { priority, owed: queues.guaranteed_by(leaf).map_or(Owed::Nothing, Owed::By) }
    }

    pub(super) fn may(self, parked: &Parked, view: &View<'_>) -> bool {
        let Some(nodes) = view.nodes else { return false };
        let sets = [
            (&parked.roomless, parked.roomless_at, false),
            (&parked.refused, parked.refused_at, true),
        ];
        sets.into_iter().any(|(least, mark, is_refused)| {
            least.as_ref().is_some_and(|least| {
                let comes_first =
                    || nodes.may_lend_since(mark, least, Some(self.priority), is_refused);
                // A refused ask waits for a growth even if a guarantee covers it.
                let is_owed = || {
                    self.is_owed(least, view)
                        && (!is_refused || nodes.may_lend_since(mark, least, None, true))
                };
                nodes.may_lend(least) && view.headroom.allows(least) && (comes_first() || is_owed())
            })
        })
    }

    fn is_owed(self, least: &Resources, view: &View<'_>) -> bool {
        let Some(queues) = view.queues else { return false };
        match self.owed {
            Owed::Nothing => false,
            Owed::By(queue) => queues.may_fit_guarantee(queue, least),
            Owed::BySome => true,
        }
    }
}

/// Joins two of these bounds.
pub(super) fn join(mine: &mut Option<Borrows>, other: Option<Borrows>) {
    let Some(theirs) = other else { return };
    let Some(mine) = mine else {
        *mine = Some(theirs);
        return;
    };
    mine.priority = mine.priority.max(theirs.priority);
    mine.owed = match (mine.owed, theirs.owed) {
        (Owed::Nothing, owed) | (owed, Owed::Nothing) => owed,
        (Owed::By(one), Owed::By(other)) if one == other => Owed::By(one),
        _ => Owed::BySome,
    };
}
