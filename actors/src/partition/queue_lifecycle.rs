//! Adding and removing queues: those of the configuration, and those that applications need
//! (`docs/partitions.md#states-of-a-queue`).
//!
//! A new queue gets its fair maximum from its parent, so the cost does not depend on the number of
//! queues. A draining queue is removed as soon as it is empty, because it is not configured any
//! more. A dynamic queue is removed when it has been empty for a while (`dynamic`), because another
//! application is likely to need it.

use std::sync::Arc;

use monoceros_rules::queues::QueueConfig;
use monoceros_rules::queues::object_state::ObjectState;

use super::{AtHome, Partition, Task};
use crate::events::{Event, EventKind};
use crate::metrics::Metrics;
use crate::queue::{AddBelow, AddQueue, Detach, Queue, QueueFacts, quota_delay_ns};
use crate::step::{Baton, BatonAddress, Directory, QueueEntry, QueueSlot, RowSlot};

impl Directory {
    /// Starts the actor of a queue and of all below it, parents before children.
    pub(super) fn start_queues(
        &mut self,
        config: &QueueConfig,
        parent: Option<(QueueSlot, Arc<BatonAddress<Queue>>, RowSlot)>,
        priority_first: bool,
        preempts_for_quotas: bool,
        metrics: &Arc<Metrics>,
    ) {
        let slot = self.next_queue_slot(parent.as_ref().map(|(slot, _, _)| *slot));
        let mut own = config.clone();
        let children = std::mem::take(&mut own.children);
        let facts = Arc::new(QueueFacts {
            slot,
            parent: parent.as_ref().map(|(slot, _, _)| *slot),
            config: Arc::new(own),
            state: ObjectState::Active,
            fair_max: None,
            priority_first,
            quota_delay_ns: quota_delay_ns(config, preempts_for_quotas),
        });
        let above = parent.as_ref().map(|(_, address, row)| (Arc::clone(address), *row));
        let address =
            BatonAddress::start(Queue::new(Arc::clone(&facts), above, Arc::clone(metrics)));
        let row = parent.as_ref().map(|(_, _, row)| *row);
        if let Some((_, above, row)) = parent {
            above.do_send(AddQueue { row, address: Arc::clone(&address) });
        }
        self.enter_queue(QueueEntry::new(facts, Arc::clone(&address), row));
        for (row, child) in children.iter().enumerate() {
            let row = RowSlot(u32::try_from(row).expect("the children of a queue fit u32"));
            let above = (slot, Arc::clone(&address), row);
            let priority_first = config.settings.priority_sort;
            self.start_queues(child, Some(above), priority_first, preempts_for_quotas, metrics);
        }
    }
}

impl Partition {
    /// Sends the baton to the parent of the queue that is to be added.
    pub(super) fn add_queue(&self, config: Arc<QueueConfig>, baton: Box<Baton>) -> AtHome {
        let directory = &baton.directory;
        let above = config.parent_path().and_then(|path| directory.queue_by_path.get(path));
        let above = *above.expect("a queue is added after the one above it");
        let parent = directory.queue(above);
        let facts = QueueFacts {
            slot: directory.next_queue_slot(Some(above)),
            parent: Some(above),
            state: ObjectState::Active,
            fair_max: None,
            priority_first: parent.facts.config.settings.priority_sort,
            quota_delay_ns: quota_delay_ns(&config, self.config.preemption.quota),
            config,
        };
        let address = Arc::clone(&parent.address);
        address.do_send(AddBelow { baton, facts: Box::new(facts) });
        None
    }

    /// Removes an empty queue. Its parent follows if it is empty now, and dynamic or draining.
    pub(super) fn remove_queue(&mut self, slot: QueueSlot, mut baton: Box<Baton>) -> AtHome {
        let entry = baton.directory.queue(slot);
        let (Some(above), Some(row)) = (entry.facts.parent, entry.row) else {
            debug_assert!(false, "root is always configured");
            return Some(baton);
        };
        let entry = baton.directory.forget_queue(slot);
        baton.books.queues.forget(slot.0);
        self.empty.forget(slot);
        let config = &entry.facts.config;
        let removed = if config.is_dynamic {
            EventKind::DynamicQueueRemoved
        } else {
            EventKind::QueueRemoved
        };
        baton.happens(|at| Event::of(removed, &config.path, at));
        entry.address.do_send(crate::Halt);
        let parent = baton.directory.queue(above);
        let address = Arc::clone(&parent.address);
        if parent.facts.config.is_dynamic && parent.is_empty() {
            self.agenda.push_back(Task::RemoveQueue(above));
        }
        self.agenda.extend(removal_if_over(above, &baton));
        address.do_send(Detach { baton, row });
        None
    }
}

/// Returns the task of removing the queue, if it drains and is empty.
pub(super) fn removal_if_over(slot: QueueSlot, baton: &Baton) -> Option<Task> {
    let entry = baton.directory.queue(slot);
    let is_over = entry.facts.state == ObjectState::Draining && entry.is_empty();
    is_over.then_some(Task::RemoveQueue(slot))
}
