//! Reserved nodes: each is set aside for the asks that reserved it.
//!
//! # Why in the index
//! A reservation keeps a node from being filled by smaller asks. So every search has to exclude it,
//! and asks that wait for capacity must not be woken by capacity that only one ask may use. For
//! searches and bounds a node that is set aside is therefore like a closed one; whether it is
//! *open* (it neither drains nor is unready) is a separate fact. The table of reservations names
//! the ask that reserved it ([`crate::decide::reservations`]); that ask tries it by its slot, and
//! is woken by its name.
//!
//! # Vacancies
//! An ask that may reserve and finds no node to reserve waits for a *vacancy*: a node that became
//! available for a reservation. It was added or opened, was given back, became larger in total, or
//! a placement constraint no longer excludes it. Vacancies are growths, too, and have their
//! numbers; whether a node has free capacity does not matter.

use super::index::NodeIndex;
use super::request::NodeRequest;
use crate::nodes::set_aside::SetAside;
use crate::values::epoch::Growth;
use crate::values::ids::NodeSlot;
use crate::values::resources::Resources;

impl NodeIndex {
    /// Sets a node aside for asks, or gives it back to all. Giving back an open node counts as a
    /// growth, whatever its free capacity.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use monoceros_rules::nodes::{NodeIndex, NodeOrder, NodeRequest, SetAside};
    /// use monoceros_rules::values::resources::Resources;
    ///
    /// let one = Resources::of(&[("vcore", 1)]);
    /// let mut nodes = NodeIndex::new(NodeOrder::default());
    /// let n1 = nodes.insert(Arc::from("n1"), one.clone(), one.clone(), true)?;
    /// nodes.set_aside(n1, SetAside::Bounded(0));
    /// assert_eq!(nodes.first(&NodeRequest::of(&one)), None);
    /// assert!(nodes.is_open(n1) && nodes.has_room(n1, &one), "for those who reserved it");
    ///
    /// let mark = nodes.growth();
    /// nodes.set_aside(n1, SetAside::No);
    /// assert!(nodes.may_hold_since(mark, &one), "whoever waits is to look again");
    /// # Ok::<(), monoceros_rules::nodes::NodeExists>(())
    /// ```
    pub fn set_aside(&mut self, slot: NodeSlot, aside: SetAside) {
        let entry = &mut self.nodes[slot];
        if entry.aside == aside {
            return;
        }
        let was_open_to_all = entry.is_open_to_all();
        self.share.change(&entry.total, (entry.open, entry.aside), (entry.open, aside));
        entry.aside = aside;
        if self.follow_lending(slot) && !was_open_to_all {
            // Other asks than before may borrow it now.
            self.log_growth(slot);
        }
        let entry = &self.nodes[slot];
        if !was_open_to_all && !entry.is_open_to_all() {
            return;
        }
        let known = self.tree.set_bound(&entry.key, entry.room());
        debug_assert!(known, "every node is in the tree");
        self.domains.follow(slot, &entry.key, entry);
        self.judge_vacancy(slot);
    }

    /// Whether the node is set aside for the asks that reserved it.
    pub fn is_reserved(&self, slot: NodeSlot) -> bool {
        self.entry(slot).aside != SetAside::No
    }

    /// Whether searches that do not require the node may find it: it is open and not reserved.
    pub fn is_open_to_all(&self, slot: NodeSlot) -> bool {
        self.entry(slot).is_open_to_all()
    }

    /// Whether the node that the request has reserved holds it now.
    pub fn own_holds(&self, request: &NodeRequest<'_>) -> bool {
        request.own.is_some_and(|own| {
            let node = self.entry(own);
            node.open && node.has_room(request.resources) && self.admits(own, request)
        })
    }

    /// Whether total and available amount of the node hold the ask, open or not, reserved or not.
    pub fn has_room(&self, slot: NodeSlot, ask: &Resources) -> bool {
        self.entry(slot).has_room(ask)
    }

    /// Whether an ask of at least `least` may be able to reserve a node that became available after
    /// the growth number `mark`, and still is. `true` may be wrong, `false` never is.
    pub fn may_reserve_since(&self, mark: Growth, least: &Resources) -> bool {
        self.may_set_aside_any(least)
            && self.one_since(&self.vacancies, mark, |node| node.total.holds(least))
    }

    /// Updates whether a node is available for a reservation, after it was opened or closed, set
    /// aside or given back. A node that is no longer vacant is removed from the list at once, so
    /// the list is short where every node is reserved again as soon as it is given back.
    pub(super) fn judge_vacancy(&mut self, slot: NodeSlot) {
        if self.entry(slot).is_open_to_all() {
            self.log_vacancy(slot);
            self.list_growth(slot);
        } else {
            self.vacancies.forget(slot);
        }
    }

    /// Records a growth of a node that became available for a reservation.
    pub(super) fn log_vacancy(&mut self, slot: NodeSlot) {
        self.log_growth(slot);
        self.vacancies.log(slot, self.grown);
    }
}

impl NodeIndex {
    /// Sets how much of the total capacity of schedulable nodes reservations may set aside, in
    /// percent.
    pub fn set_reservation_share(&mut self, percent: u32) {
        self.share.percent = percent;
    }

    /// Whether the node may be set aside for an ask of this amount, if another node (`instead`) is
    /// given back for it. The first two nodes always may.
    pub fn may_set_aside(
        &self,
        slot: NodeSlot,
        wanted: &Resources,
        instead: Option<NodeSlot>,
    ) -> bool {
        let instead = instead.map(|slot| &**self.total(slot));
        self.share.allows(self.total(slot), wanted, instead)
    }

    /// Whether a node may be set aside for an ask of at least `least`. `true` may be wrong, `false`
    /// never is.
    pub(super) fn may_set_aside_any(&self, least: &Resources) -> bool {
        let share = &self.share;
        share.of_other_sizes > 0
            || share
                .sizes
                .iter()
                .any(|(total, _)| total.holds(least) && share.allows(total, least, None))
    }
}
