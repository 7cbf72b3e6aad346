//! Measured use of nodes and allocations: summed up, and compared with the accounts. `observing`
//! decides what is kept.

use std::collections::BTreeSet;
use std::sync::Arc;

use monoceros_rules::nodes::utilization::{self, NodeFigures};
use monoceros_rules::values::resources::Resources;

use super::super::ObservedKind;
use super::listing::{ENTRIES_MAX, Found, List, Rows};
use super::{Partition, nodes};
use crate::node::Node;
use crate::snapshot::NodeRecommendation;
use crate::step::{Baton, Route};

/// Sums of measurements, each of a number of nodes or allocations.
#[derive(Clone)]
pub(crate) struct ObservedSums(pub(crate) ObservedKind);

/// A sum, and the name of its last node or allocation.
pub(crate) struct ObservedSum {
    pub(crate) used: Resources,
    last: Arc<str>,
}

impl List for ObservedSums {
    type At = Arc<str>;
    type Row = ObservedSum;
    const STOPS_MAX: usize = 1;

    fn find(
        &self,
        behind: Option<&Arc<str>>,
        slice: &mut Rows<ObservedSum>,
        partition: &mut Partition,
        baton: &Baton,
    ) -> Option<Found<Arc<str>>> {
        let sum = partition.observed.sum(self.0, behind, ENTRIES_MAX, baton.now_ns);
        let reached = sum.as_ref().map(|(_, last)| Arc::clone(last));
        if let Some((used, last)) = sum {
            slice.push::<Self>(ObservedSum { used, last });
        }
        Some(Found { route: Route::default(), reached })
    }

    fn at(row: &ObservedSum) -> Arc<str> {
        Arc::clone(&row.last)
    }

    fn parts(_: &ObservedSum) -> usize {
        1
    }
}

/// The recommended size of a node, if it differs from the actual size.
pub(crate) struct Recommended {
    node: Arc<str>,
    figures: NodeFigures,
    observed: Option<utilization::Observed>,
    now_ns: i64,
}

impl Recommended {
    /// Returns the recommendations as clients read them: at most one of each kind.
    pub(crate) fn recommendations(&self) -> Vec<NodeRecommendation> {
        let known = utilization::recommendations(&self.figures, self.observed.as_ref());
        let recommendation = |(kind, recommended)| {
            let measured = kind == utilization::RecommendationKind::ObservedOverload;
            let observed = self.observed.as_ref().filter(|_| measured);
            let at_ns = observed.map_or(self.now_ns, |observed| observed.at_ns);
            NodeRecommendation { node: self.node.to_string(), kind, recommended, at_ns }
        };
        known.into_iter().map(recommendation).collect()
    }
}

/// List of recommended sizes of nodes: the named ones, or all if none is named.
#[derive(Clone)]
pub(crate) struct Recommendations(pub(crate) Arc<BTreeSet<String>>);

impl List for Recommendations {
    type At = Arc<str>;
    type Row = Recommended;

    fn find(
        &self,
        from: Option<&Arc<str>>,
        slice: &mut Rows<Recommended>,
        _: &mut Partition,
        baton: &Baton,
    ) -> Option<Found<Arc<str>>> {
        Some(nodes::behind(&self.0, from, slice.most(), baton))
    }

    fn at_node(&self, node: &Node, baton: &Baton) -> Option<Recommended> {
        let (node, figures) = (Arc::clone(&node.id), node.figures());
        Some(Recommended { node, figures, observed: None, now_ns: baton.now_ns })
    }

    fn complete(&self, rows: &mut [Recommended], partition: &Partition, baton: &Baton) {
        for row in rows {
            row.observed = partition.observed.of_node(&row.node, baton.now_ns).cloned();
        }
    }

    fn at(row: &Recommended) -> Arc<str> {
        Arc::clone(&row.node)
    }

    fn parts(_: &Recommended) -> usize {
        1
    }
}
