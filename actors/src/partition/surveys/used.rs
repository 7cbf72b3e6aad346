//! What is in use of the queues that a proposed configuration lets use less. The RM's session gets
//! it with the answer that this partition could change, so that the difference which an operator
//! reads says whom it concerns.

use std::collections::BTreeSet;
use std::sync::Arc;

use monoceros_config::difference::{PartitionUsage, Used};
use monoceros_rules::audit::QueueFact;
use monoceros_rules::books::Books;
use monoceros_rules::limits::Subject;
use monoceros_rules::values::resources::Resources;

use super::Partition;
use crate::queue::Queue;
use crate::step::{Baton, Directory, Prepared, QueueSlot, Route, Survey};

/// The survey that asks queues what they use before a configuration is changed.
pub(in crate::partition) struct InUse {
    concerned: Vec<QueueSlot>,
    /// How many further queues may use less and are not asked.
    left_out: usize,
    queues: Vec<QueueFact>,
}

impl InUse {
    /// A survey of these queues.
    pub(in crate::partition) fn of(concerned: Vec<QueueSlot>, left_out: usize) -> Self {
        Self { concerned, left_out, queues: Vec::new() }
    }
}

impl Survey for InUse {
    fn route(&mut self, _: &mut Partition, _: &Baton) -> Route {
        Route::default().queues(std::mem::take(&mut self.concerned))
    }

    fn at_queue(&mut self, queue: &mut Queue, _: &mut Baton) {
        self.queues.push(queue.fact());
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        let usage = PartitionUsage { left_out: self.left_out, ..usage(&self.queues, baton) };
        let partition_name = Arc::clone(&partition.name);
        partition.session.prepared.post(Prepared { partition: partition_name, answer: Ok(usage) });
    }
}

/// What the visited queues use, and the users and groups that are tracked in them.
fn usage(queues: &[QueueFact], baton: &Baton) -> PartitionUsage {
    let mut usage = PartitionUsage { types: types(baton), ..PartitionUsage::default() };
    if queues.is_empty() {
        return usage;
    }
    let applications = applications_below(&baton.directory);
    for queue in queues {
        let (allocated, running) = (queue.ledger.allocated().clone(), queue.ledger.running());
        let applications = applications[queue.slot as usize];
        let used = Used { allocated, running, applications };
        usage.queues.insert(queue.config.path.to_string(), used);
    }
    let paths: BTreeSet<&str> = queues.iter().map(|queue| &*queue.config.path).collect();
    baton.books.trackers.each_use(|subject, path, allocated, running| {
        if paths.contains(path) {
            let (of_path, name) = match subject {
                Subject::User(name) => (&mut usage.users, name),
                Subject::Group(name) => (&mut usage.groups, name),
            };
            let allocated = allocated.clone();
            let used = Used { allocated, running, applications: running };
            of_path.entry(path.to_owned()).or_default().insert(name.to_string(), used);
        }
    });
    usage
}

/// The resource types that nodes have and requests name.
fn types(baton: &Baton) -> BTreeSet<String> {
    let Books { nodes, promised, .. } = &baton.books;
    let named = [nodes.capacity(), promised].into_iter().flat_map(Resources::entries);
    named.filter_map(|(name, _)| Some(name.find_text()?.to_string())).collect()
}

/// By slot, how many applications are in a queue and below it.
fn applications_below(directory: &Directory) -> Vec<u64> {
    let mut counts = vec![0; directory.queues.bound()];
    for entry in directory.all_queues().rev() {
        let at = entry.facts.slot.0 as usize;
        counts[at] += entry.applications as u64;
        if let Some(parent) = entry.facts.parent {
            counts[parent.0 as usize] += counts[at];
        }
    }
    counts
}
