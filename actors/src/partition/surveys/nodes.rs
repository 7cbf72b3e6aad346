//! Nodes as REST shows them, and their loads for metrics. They are two surveys, because a scrape
//! would otherwise copy every allocation of every node.

use monoceros_rules::values::resources::Resources;
use tokio::sync::oneshot;

use super::{Partition, answer};
use crate::node::Node;
use crate::snapshot::NodeSnapshot;
use crate::step::{Baton, Route, Survey};

/// Every node, by id.
pub(crate) struct Nodes {
    found: Vec<NodeSnapshot>,
    reply: oneshot::Sender<Vec<NodeSnapshot>>,
}

impl Nodes {
    pub(crate) fn new(reply: oneshot::Sender<Vec<NodeSnapshot>>) -> Self {
        Self { found: Vec::new(), reply }
    }
}

impl Survey for Nodes {
    fn route(&mut self, _: &Partition, baton: &Baton) -> Route {
        Route::default().all_nodes(baton)
    }

    fn at_node(&mut self, node: &mut Node, baton: &mut Baton) {
        self.found.push(node.snapshot(baton));
    }

    fn home(self: Box<Self>, _: &mut Partition, _: &mut Baton) {
        answer(self.reply, self.found);
    }
}

/// Capacity of each node, and what of it is allocated.
pub(crate) struct NodeLoads {
    found: Vec<(Resources, Resources)>,
    reply: oneshot::Sender<Vec<(Resources, Resources)>>,
}

impl NodeLoads {
    pub(crate) fn new(reply: oneshot::Sender<Vec<(Resources, Resources)>>) -> Self {
        Self { found: Vec::new(), reply }
    }
}

impl Survey for NodeLoads {
    fn route(&mut self, _: &Partition, baton: &Baton) -> Route {
        Route::default().all_nodes(baton)
    }

    fn at_node(&mut self, node: &mut Node, _: &mut Baton) {
        self.found.push(node.load());
    }

    fn home(self: Box<Self>, _: &mut Partition, _: &mut Baton) {
        answer(self.reply, self.found);
    }
}
