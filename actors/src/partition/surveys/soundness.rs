//! Checks of a partition's accounts: its sums, and, as lists, its nodes and its applications. Each
//! row shows one moment; values of different actors are compared only within a row.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use monoceros_rules::audit::sound::{is_balanced, orphan_of_application, orphan_on_node};
use monoceros_rules::values::resources::Resources;
use tokio::sync::oneshot;

use super::listing::{Found, List, Rows};
use super::{Partition, answer, nodes};
use crate::application::Application;
use crate::node::Node;
use crate::queue::Queue;
use crate::step::{Baton, QueueSlot, Route, Survey};
use crate::views::health::orphan;

/// Most allocations of one node or application that are compared: some 0.1 ms.
const LOOKED_AT: usize = 4_096;

/// The number of comparisons that cost as much as reading one part of a row.
const LOOKS_PER_PART: usize = 8;

/// The sums of a partition.
pub(crate) struct PartitionSums {
    /// The amount that root has allocated.
    pub(crate) allocated: Resources,
    /// The capacity of all nodes.
    pub(crate) total: Resources,
    pub(crate) n_nodes: usize,
    pub(crate) n_reservations: usize,
    pub(crate) n_allocations: usize,
}

/// Survey of the sums.
pub(crate) struct Sums {
    allocated: Resources,
    reply: oneshot::Sender<PartitionSums>,
}

impl Sums {
    pub(crate) fn new(reply: oneshot::Sender<PartitionSums>) -> Self {
        Self { allocated: Resources::new(), reply }
    }
}

impl Survey for Sums {
    fn route(&mut self, _: &mut Partition, _: &Baton) -> Route {
        Route::default().queues([QueueSlot::ROOT])
    }

    fn at_queue(&mut self, root: &mut Queue, _: &mut Baton) {
        self.allocated = root.allocated().clone();
    }

    fn home(self: Box<Self>, _: &mut Partition, baton: &mut Baton) {
        let books = &baton.books;
        let sums = PartitionSums {
            allocated: self.allocated,
            total: books.nodes.capacity().clone(),
            n_nodes: books.nodes.len(),
            n_reservations: books.reservations.len(),
            n_allocations: books.n_booked(),
        };
        answer(self.reply, sums);
    }
}

/// The check of a node.
pub(crate) struct CheckedNode {
    pub(crate) id: Arc<str>,
    pub(crate) total: Resources,
    /// The number of its amounts that have a negative value.
    pub(crate) n_negative: usize,
    /// Whether an amount other than the available one is negative.
    pub(crate) uses_negative: bool,
    pub(crate) is_even: bool,
    /// Allocations that no application has, in words.
    pub(crate) orphans: Vec<String>,
    parts: usize,
}

/// Every node, by id.
#[derive(Clone, Copy)]
pub(crate) struct CheckedNodes;

impl List for CheckedNodes {
    type At = Arc<str>;
    type Row = CheckedNode;

    fn find(
        &self,
        from: Option<&Arc<str>>,
        slice: &mut Rows<CheckedNode>,
        _: &mut Partition,
        baton: &Baton,
    ) -> Option<Found<Arc<str>>> {
        Some(nodes::behind(&BTreeSet::new(), from, slice.most(), baton))
    }

    fn at_node(&self, node: &Node, baton: &Baton) -> Option<CheckedNode> {
        let lives = |slot| baton.directory.application(slot).is_some();
        let occupied = node.others();
        let amounts = [&node.total, &node.allocated, &occupied, node.available()];
        let held = node.holds.iter().take(LOOKED_AT);
        let orphans = held.filter_map(|id| {
            let found = orphan_on_node(*id, node.slot, &baton.books, lives)?;
            Some(orphan(&found, &format!("node {}", node.id)))
        });
        Some(CheckedNode {
            id: Arc::clone(&node.id),
            uses_negative: amounts[..3].iter().any(|amount| amount.has_negative()),
            n_negative: amounts.iter().filter(|amount| amount.has_negative()).count(),
            is_even: is_balanced(&node.total, &node.allocated, &occupied, node.available()),
            orphans: orphans.collect(),
            parts: 1 + node.holds.len().min(LOOKED_AT) / LOOKS_PER_PART,
            total: (*node.total).clone(),
        })
    }

    fn at(row: &CheckedNode) -> Arc<str> {
        Arc::clone(&row.id)
    }

    fn parts(row: &CheckedNode) -> usize {
        row.parts
    }
}

/// The check of an application's allocations.
pub(crate) struct CheckedApplication {
    id: Arc<str>,
    /// Allocations that no node has, in words.
    pub(crate) orphans: Vec<String>,
    parts: usize,
}

/// Every live application, by id.
#[derive(Clone, Copy)]
pub(crate) struct CheckedApplications;

impl List for CheckedApplications {
    type At = Arc<str>;
    type Row = CheckedApplication;

    fn find(
        &self,
        from: Option<&Arc<str>>,
        slice: &mut Rows<CheckedApplication>,
        _: &mut Partition,
        baton: &Baton,
    ) -> Option<Found<Arc<str>>> {
        let from = from.map_or(Bound::Unbounded, |id| Bound::Excluded(&**id));
        let mut behind =
            baton.directory.application_by_id.range::<str, _>((from, Bound::Unbounded));
        let (mut slots, mut reached) = (Vec::new(), None);
        for (id, slot) in behind.by_ref().take(slice.most()) {
            slots.push(*slot);
            reached = Some(Arc::clone(id));
        }
        let reached = reached.filter(|_| behind.next().is_some());
        Some(Found { route: Route::default().applications(slots), reached })
    }

    fn at_application(
        &self,
        application: &Application,
        baton: &Baton,
    ) -> Option<CheckedApplication> {
        let (book, slot) = (application.known(), application.slot);
        let is_there = |node| baton.directory.node(node).is_some();
        let its = book.allocations.values().take(LOOKED_AT);
        let orphans = its.filter_map(|id| {
            let found = orphan_of_application(*id, slot, &baton.books, is_there)?;
            Some(orphan(&found, &format!("application {}", book.id)))
        });
        Some(CheckedApplication {
            id: Arc::clone(&book.id),
            orphans: orphans.collect(),
            parts: 1 + book.allocations.len().min(LOOKED_AT) / LOOKS_PER_PART,
        })
    }

    fn at(row: &CheckedApplication) -> Arc<str> {
        Arc::clone(&row.id)
    }

    fn parts(row: &CheckedApplication) -> usize {
        row.parts
    }
}
