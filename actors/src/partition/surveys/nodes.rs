//! Lists of nodes, and their loads for metrics. They are two lists, because a scrape would
//! otherwise read every allocation of every node.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use monoceros_rules::values::ids::NodeSlot;
use monoceros_rules::values::resources::Resources;

use super::Partition;
use super::listing::{BRIEF_STOPS_MAX, Found, List, Named as _, PARTS_MAX, Rows, Within};
use crate::node::Node;
use crate::step::{Baton, Route};
use crate::views::rows::{NodeProgress, NodeRow};

/// Returns the next nodes behind an id, at most `most`: of the named nodes, or of all if none is
/// named.
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

/// Nodes by id: the named ones, or all if none is named.
#[derive(Clone, Default)]
pub(crate) struct Nodes {
    named: Arc<BTreeSet<String>>,
    is_brief: bool,
    /// The row that the next slice continues.
    within: Option<(Arc<str>, NodeProgress)>,
}

type Place = Within<NodeProgress>;

impl Nodes {
    /// A list of nodes. Brief rows have the numbers of allocations and foreign allocations instead
    /// of the allocations.
    pub(crate) fn new(named: BTreeSet<String>, is_brief: bool) -> Self {
        Self { named: Arc::new(named), is_brief, within: None }
    }
}

impl List for Nodes {
    type At = Place;
    type Row = NodeRow;

    fn find(
        &self,
        from: Option<&Place>,
        slice: &mut Rows<NodeRow>,
        _: &mut Partition,
        baton: &Baton,
    ) -> Option<Found<Place>> {
        let Found { route, reached } =
            behind(&self.named, from.map(|from| &from.name), slice.most(), baton);
        let reached = reached.map(Place::behind);
        // The node whose row is continued comes first, if it still exists.
        let first = self.within.as_ref().and_then(|(id, _)| baton.books.nodes.slot_of(id));
        Some(Found { route: route.node_first(first), reached })
    }

    fn going_on(self, behind: &Place) -> Self {
        let within = behind.taken.clone().map(|taken| (Arc::clone(&behind.name), taken));
        Self { within, ..self }
    }

    fn join(row: &mut NodeRow, next: NodeRow) -> Option<NodeRow> {
        row.append(next)
    }

    fn behind_all_of(row: &NodeRow) -> Place {
        Place::behind(Arc::clone(&row.id))
    }

    fn stops_max(&self) -> usize {
        if self.is_brief { BRIEF_STOPS_MAX } else { Self::STOPS_MAX }
    }

    fn at_node(&self, node: &Node, baton: &Baton) -> Option<NodeRow> {
        if self.is_brief {
            return Some(NodeRow::brief(node, baton));
        }
        let within = self.within.as_ref().filter(|(id, _)| *id == node.id);
        Some(NodeRow::part(node, within.map(|(_, taken)| taken), PARTS_MAX, baton))
    }

    fn at(row: &NodeRow) -> Place {
        Within { name: Arc::clone(&row.id), taken: row.progress.clone() }
    }

    fn parts(row: &NodeRow) -> usize {
        row.parts
    }
}

/// A node's capacity, and the part of it that is allocated.
#[derive(Clone, Debug)]
pub struct NodeLoad {
    /// The node's id.
    pub id: Arc<str>,
    /// Its capacity.
    pub total: Resources,
    /// The part that is allocated, without what others occupy.
    pub allocated: Resources,
}

/// Capacity of each node, and the part of it that is allocated.
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
