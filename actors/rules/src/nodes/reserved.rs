//! Reserved nodes: nodes set aside for the asks that reserved them.
//!
//! # Why in the index
//! A reservation keeps a node from being filled by smaller asks, so every search has to leave it
//! out, and asks that wait for capacity must not be woken by capacity that only one ask may use. To
//! searches and to bounds a node that is set aside is therefore like a closed one, while whether it
//! is *open* (it neither drains nor is unready) stays a fact of its own. The table of reservations
//! names the ask that reserved it ([`crate::decide::reservations`]); that ask tries it by its slot,
//! and is woken by its name.
//!
//! # Vacancies
//! An ask that may reserve and finds no node for it waits for a *vacancy*: a node that became
//! available for a reservation. It was added or opened, was given back, became larger in total, or
//! is admitted by a placement constraint that excluded it before. Vacancies are growths, too, and
//! have their numbers; whether a node has free capacity plays no part.

use super::index::NodeIndex;
use super::request::NodeRequest;
use crate::nodes::set_aside::SetAside;
use crate::values::epoch::Growth;
use crate::values::ids::NodeSlot;
use crate::values::resources::Resources;

impl NodeIndex {
    /// Sets a node aside for asks, or gives it back to all. Giving back an open node counts as a
    /// growth of it, whatever it has free.
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
            // It was lent to others before, or to no ask.
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

    /// Whether searches that do not name the node may find it: it is open and not reserved.
    pub fn is_open_to_all(&self, slot: NodeSlot) -> bool {
        self.entry(slot).is_open_to_all()
    }

    /// Whether the node that the request has reserved takes it now.
    pub fn own_holds(&self, request: &NodeRequest<'_>) -> bool {
        request.own.is_some_and(|own| {
            let node = self.entry(own);
            node.open && node.has_room(request.resources) && self.admits(own, request)
        })
    }

    /// Whether the node holds the ask in total and in its available amount, be it open or not,
    /// reserved or not.
    pub fn has_room(&self, slot: NodeSlot, ask: &Resources) -> bool {
        self.entry(slot).has_room(ask)
    }

    /// Whether a node that became available for a reservation after the growth number `mark`, and
    /// still is, holds `least` in total, and reservations may set aside any more. `false` is
    /// certain.
    pub fn may_reserve_since(&self, mark: Growth, least: &Resources) -> bool {
        self.may_set_aside_any(least)
            && self.one_since(&self.vacancies, mark, |node| node.total.holds(least))
    }

    /// Notes that a node was opened or closed, set aside or given back, and may be available for a
    /// reservation or not any more. A node that is vacant for a moment only is soon forgotten, so
    /// the list is short where every node is reserved again as soon as it is given back.
    pub(super) fn judge_vacancy(&mut self, slot: NodeSlot) {
        if self.entry(slot).is_open_to_all() {
            self.log_vacancy(slot);
            self.list_growth(slot);
        } else {
            self.vacancies.forget(slot);
        }
    }

    /// Notes a growth of a node that became available for a reservation.
    pub(super) fn log_vacancy(&mut self, slot: NodeSlot) {
        self.log_growth(slot);
        self.vacancies.log(slot, self.grown);
    }
}

impl NodeIndex {
    /// Sets the share of the capacity of open nodes that may be set aside for asks that reserve them,
    /// in percent.
    pub fn set_reservation_share(&mut self, percent: u32) {
        self.share.percent = percent;
    }

    /// Whether the node may be set aside for an ask of this amount, if another node (`instead`) is
    /// given back for it. Two nodes may be in any case.
    pub fn may_set_aside(
        &self,
        slot: NodeSlot,
        wanted: &Resources,
        instead: Option<NodeSlot>,
    ) -> bool {
        let instead = instead.map(|slot| &**self.total(slot));
        self.share.allows(self.total(slot), wanted, instead)
    }

    /// Whether some node may be set aside for an ask of at least `least`. `false` is certain.
    pub(super) fn may_set_aside_any(&self, least: &Resources) -> bool {
        let share = &self.share;
        share.of_other_sizes > 0
            || share
                .sizes
                .iter()
                .any(|(total, _)| total.holds(least) && share.allows(total, least, None))
    }
}
