//! Nodes as lists have them, and their loads for metrics. They are two lists, because a scrape
//! would otherwise look at every allocation of every node.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use monoceros_rules::nodes::NodeSlot;
use monoceros_rules::values::resources::Resources;
use tokio::sync::oneshot;

use super::listing::{Found, List, Rows};
use super::{Partition, answer};
use crate::node::Node;
use crate::step::{Baton, Route, Survey};
use crate::views::rows::NodeRow;

/// The next nodes behind an id, of all or of those that are named, at most `most`.
pub(super) fn behind(
    named: &BTreeSet<String>,
    behind: Option<&Arc<str>>,
    most: usize,
    baton: &Baton,
) -> Found<Arc<str>> {
    let index = &baton.books.nodes;
    let id = behind.map_or("", |id| id);
    let mut reached = None;
    let slots: Vec<NodeSlot> = if named.is_empty() {
        let mut slots: Vec<NodeSlot> = index.behind(id).take(most + 1).collect();
        if slots.len() > most {
            slots.pop();
            reached = slots.last().map(|slot| Arc::clone(index.id(*slot)));
        }
        slots
    } else {
        let from = behind.map_or(Bound::Unbounded, |_| Bound::Excluded(id));
        let mut named = named.range::<str, _>((from, Bound::Unbounded));
        let these: Vec<&String> = named.by_ref().take(most).collect();
        if named.next().is_some() {
            reached = these.last().map(|id| Arc::from(id.as_str()));
        }
        these.into_iter().filter_map(|id| index.slot_of(id)).collect()
    };
    Found { route: Route::default().nodes(slots), reached }
}

/// Nodes by id: those that are named, or all if none is.
#[derive(Clone, Default)]
pub(crate) struct Nodes(pub(crate) Arc<BTreeSet<String>>);

impl List for Nodes {
    type At = Arc<str>;
    type Row = NodeRow;

    fn find(
        &self,
        from: Option<&Arc<str>>,
        slice: &mut Rows<NodeRow>,
        _: &mut Partition,
        baton: &Baton,
    ) -> Option<Found<Arc<str>>> {
        Some(behind(&self.0, from, slice.most(), baton))
    }

    fn at_node(&self, node: &Node, baton: &Baton) -> Option<NodeRow> {
        Some(NodeRow::of(node, baton))
    }

    fn at(row: &NodeRow) -> Arc<str> {
        Arc::clone(&row.id)
    }

    fn parts(row: &NodeRow) -> usize {
        row.parts()
    }
}

/// The node of this id, if there is one.
pub(crate) struct OneNode {
    id: String,
    found: Option<NodeRow>,
    reply: oneshot::Sender<Option<NodeRow>>,
}

impl OneNode {
    pub(crate) fn new(id: String, reply: oneshot::Sender<Option<NodeRow>>) -> Self {
        Self { id, found: None, reply }
    }
}

impl Survey for OneNode {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        Route::default().nodes(baton.books.nodes.slot_of(&self.id))
    }

    fn at_node(&mut self, node: &mut Node, baton: &mut Baton) {
        self.found = Some(NodeRow::of(node, baton));
    }

    fn home(self: Box<Self>, _: &mut Partition, _: &mut Baton) {
        answer(self.reply, self.found);
    }
}

/// What a node has, and what of it is allocated.
pub(crate) struct NodeLoad {
    id: Arc<str>,
    pub(crate) total: Resources,
    pub(crate) allocated: Resources,
}

/// Capacity of each node, and what of it is allocated.
#[derive(Clone, Copy)]
pub(crate) struct NodeLoads;

impl List for NodeLoads {
    type At = Arc<str>;
    type Row = NodeLoad;

    fn find(
        &self,
        from: Option<&Arc<str>>,
        slice: &mut Rows<NodeLoad>,
        _: &mut Partition,
        baton: &Baton,
    ) -> Option<Found<Arc<str>>> {
        Some(behind(&BTreeSet::new(), from, slice.most(), baton))
    }

    fn at_node(&self, node: &Node, _: &Baton) -> Option<NodeLoad> {
        let (total, allocated) = node.load();
        Some(NodeLoad { id: Arc::clone(&node.id), total, allocated })
    }

    fn at(row: &NodeLoad) -> Arc<str> {
        Arc::clone(&row.id)
    }

    fn parts(_: &NodeLoad) -> usize {
        1
    }
}
