//! The queues of a partition, from its configuration.

use std::sync::Arc;

use actix::prelude::*;
use monoceros_rules::config::{PartitionConfig, QueueConfig};
use monoceros_rules::nodes::NodeOrder;
use monoceros_rules::object_state::ObjectState;

use crate::baton::{Directory, QueueEntry, QueueSlot, RowSlot};
use crate::metrics::Metrics;
use crate::queue::{AddQueue, Queue, QueueFacts};

/// The configured order of nodes.
pub(super) fn node_order(config: &PartitionConfig) -> NodeOrder {
    NodeOrder::new(config.node_order.policy, &config.node_order.weights).unwrap_or_default()
}

/// Starts the actor of a queue and of all below it, parents before children.
pub(super) fn plant(
    config: &QueueConfig,
    parent: Option<(QueueSlot, Arc<Addr<Queue>>, RowSlot)>,
    priority_first: bool,
    metrics: &Arc<Metrics>,
    directory: &mut Directory,
) {
    let slot = directory.next_queue_slot(parent.as_ref().map(|(slot, _, _)| *slot));
    let mut own = config.clone();
    let children = std::mem::take(&mut own.children);
    let facts = Arc::new(QueueFacts {
        slot,
        parent: parent.as_ref().map(|(slot, _, _)| *slot),
        config: Arc::new(own),
        state: ObjectState::Active,
        fair_max: None,
        priority_first,
    });
    let above = parent.as_ref().map(|(_, address, row)| (Arc::clone(address), *row));
    let address = Arc::new(Queue::new(Arc::clone(&facts), above, Arc::clone(metrics)).start());
    let row = parent.as_ref().map(|(_, _, row)| *row);
    if let Some((_, above, row)) = parent {
        above.do_send(AddQueue { row, address: Arc::clone(&address) });
    }
    directory.enter_queue(QueueEntry::new(facts, Arc::clone(&address), row));
    for (row, child) in children.iter().enumerate() {
        let row = RowSlot(u32::try_from(row).expect("the children of a queue fit u32"));
        let above = (slot, Arc::clone(&address), row);
        plant(child, Some(above), config.settings.priority_sort, metrics, directory);
    }
}
