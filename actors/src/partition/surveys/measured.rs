//! What others measure of nodes and allocations: summed up, and compared with what is
//! accounted. What is kept of it is in `observing`.

use std::collections::BTreeSet;
use std::sync::Arc;

use monoceros_rules::nodes::utilization::NodeFigures;
use monoceros_rules::values::resources::Resources;
use tokio::sync::oneshot;

use super::{Partition, answer};
use crate::node::Node;
use crate::snapshot::NodeRecommendation;
use crate::step::{Baton, Route, Survey};

/// The sums of what was measured, by nodes and by allocations.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) nodes: Resources,
    pub(crate) allocations: Resources,
}

/// The sums of what was measured.
pub(crate) struct ObservedSums(oneshot::Sender<Observed>);

impl ObservedSums {
    pub(crate) fn new(reply: oneshot::Sender<Observed>) -> Self {
        Self(reply)
    }
}

impl Survey for ObservedSums {
    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        answer(self.0, partition.observed_sums(baton.now_ns));
    }
}

/// What size nodes should have.
pub(crate) struct Recommendations {
    /// The nodes that are asked about; if none is named, all.
    wanted: Vec<String>,
    figures: Vec<(Arc<str>, NodeFigures)>,
    reply: oneshot::Sender<Vec<NodeRecommendation>>,
}

impl Recommendations {
    pub(crate) fn new(
        wanted: Vec<String>,
        reply: oneshot::Sender<Vec<NodeRecommendation>>,
    ) -> Self {
        Self { wanted, figures: Vec::new(), reply }
    }
}

impl Survey for Recommendations {
    fn route(&mut self, _: &Partition, baton: &Baton) -> Route {
        if self.wanted.is_empty() {
            return Route::default().all_nodes(baton);
        }
        let wanted: BTreeSet<&String> = self.wanted.iter().collect();
        let slots = wanted.into_iter().filter_map(|id| baton.books.nodes.slot_of(id));
        Route::default().nodes(slots)
    }

    fn at_node(&mut self, node: &mut Node, _: &mut Baton) {
        self.figures.push((Arc::clone(&node.id), node.figures()));
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        answer(self.reply, partition.recommend(self.figures, baton.now_ns));
    }
}
