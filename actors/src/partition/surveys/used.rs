//! Usage of the queues whose maximum a proposed configuration lowers. The RM's session gets it with
//! the answer that this partition could change, so that the difference which an operator reads
//! names the users concerned.
//!
//! # Groups
//! An application that counts for no group counts for one as soon as a limit names it, with all its
//! allocations. So the usage of groups is reported as it will be, and not as it is: otherwise a
//! limit that is exceeded the moment it comes into force would look unused.

use std::collections::BTreeSet;
use std::sync::Arc;

use monoceros_config::difference::{PartitionUsage, Used};
use monoceros_rules::audit::QueueFact;
use monoceros_rules::limits::{Moves, Regrouping, Subject};
use monoceros_rules::values::resources::Resources;

use super::Partition;
use crate::application::Application;
use crate::queue::Queue;
use crate::step::{Baton, Directory, Prepared, QueueSlot, Route, Survey};

/// The survey that reads the usage of queues before a configuration is changed.
pub(in crate::partition) struct InUse {
    concerned: Vec<QueueSlot>,
    /// The number of further queues whose maximum is lowered and that are not visited.
    left_out: usize,
    queues: Vec<QueueFact>,
    /// The resource types that nodes have and requests name.
    types: BTreeSet<String>,
    /// The applications whose group is chosen again.
    regrouping: Option<Regrouping>,
    moving: Vec<Moving>,
}

/// An application that will count for another group.
struct Moving {
    leaf: Arc<str>,
    moves: Moves,
    used: Resources,
    is_running: bool,
}

impl InUse {
    /// Returns a survey of these queues.
    pub(in crate::partition) fn of(
        concerned: Vec<QueueSlot>,
        left_out: usize,
        regrouping: Option<Regrouping>,
    ) -> Self {
        Self {
            concerned,
            left_out,
            queues: Vec::new(),
            types: BTreeSet::new(),
            regrouping,
            moving: Vec::new(),
        }
    }
}

impl Survey for InUse {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        let choosing = match &self.regrouping {
            Some(regrouping) if !self.concerned.is_empty() => {
                regrouping.leaves(&baton.books.trackers)
            }
            _ => BTreeSet::new(),
        };
        let by_path = &baton.directory.queue_by_path;
        let leaves: BTreeSet<_> = choosing.iter().filter_map(|leaf| by_path.get(leaf)).collect();
        // The totals of root name every resource type that is pending or allocated.
        let route =
            Route::default().queues(self.concerned.iter().copied().chain([QueueSlot::ROOT]));
        if leaves.is_empty() {
            return route;
        }
        route.applications_that(baton, |entry| leaves.contains(&entry.leaf))
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        let Some(regrouping) = &self.regrouping else { return };
        let (known, trackers) = (application.known(), &baton.books.trackers);
        let Some(lane) = application.lane.lane() else { return };
        let Some(moves) = regrouping.moves(trackers, lane.id(), &known.groups) else { return };
        let is_running = lane.counts();
        let (leaf, used) = (Arc::clone(&known.queue), known.allocated().clone());
        self.moving.push(Moving { leaf, moves, used, is_running });
    }

    fn at_queue(&mut self, queue: &mut Queue, baton: &mut Baton) {
        let fact = queue.fact();
        if queue.slot() == QueueSlot::ROOT {
            let ledger = &fact.ledger;
            let pending = ledger.pending().shown();
            let amounts = [baton.books.nodes.capacity(), ledger.allocated(), pending];
            let names = amounts.into_iter().flat_map(Resources::entries);
            let names = names.filter_map(|(name, _)| Some(name.find_text()?.to_string()));
            self.types.extend(names);
        }
        if self.concerned.contains(&queue.slot()) {
            self.queues.push(fact);
        }
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        let Self { left_out, queues, types, moving, .. } = *self;
        let usage = PartitionUsage { left_out, types, ..usage(&queues, &moving, baton) };
        let partition_name = Arc::clone(&partition.name);
        partition.session.prepared.post(Prepared { partition: partition_name, answer: Ok(usage) });
    }
}

/// Returns the usage of the visited queues, and of the users and groups that are tracked in them.
fn usage(queues: &[QueueFact], moving: &[Moving], baton: &Baton) -> PartitionUsage {
    let mut usage = PartitionUsage::default();
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
    for Moving { leaf, moves, used, is_running } in moving {
        let running = u64::from(*is_running);
        let upward = std::iter::successors(Some(&**leaf), |path| Some(path.rsplit_once('.')?.0));
        for path in upward.filter(|path| paths.contains(path)) {
            let groups = usage.groups.entry(path.to_owned()).or_default();
            if let Some(from) = moves.from.as_deref().and_then(|from| groups.get_mut(from)) {
                from.allocated.subtract(used);
                from.running -= running;
                from.applications -= running;
            }
            if let Some(to) = &moves.to {
                let to = groups.entry(to.to_string()).or_default();
                to.allocated.add(used);
                to.running += running;
                to.applications += running;
            }
        }
    }
    usage
}

/// Returns by slot the number of applications in a queue and below it.
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
