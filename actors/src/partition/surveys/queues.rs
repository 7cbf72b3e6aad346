//! The tree of queues as REST shows it. Children are visited before their parents, so that each
//! queue can be completed with those below it.

use monoceros_config as config;
use tokio::sync::oneshot;

use super::{LeftBelow, Partition, answer};
use crate::queue::Queue;
use crate::snapshot::QueueSnapshot;
use crate::step::{Baton, Route, Survey};

/// The whole tree: each queue takes up what those below it left, and root is the answer.
pub(crate) struct Queues {
    below: LeftBelow<QueueSnapshot>,
    root: QueueSnapshot,
    reply: oneshot::Sender<QueueSnapshot>,
}

impl Queues {
    pub(crate) fn new(reply: oneshot::Sender<QueueSnapshot>) -> Self {
        Self { below: LeftBelow::default(), root: QueueSnapshot::default(), reply }
    }
}

impl Survey for Queues {
    fn route(&mut self, _: &Partition, baton: &Baton) -> Route {
        Route::default().all_queues(baton)
    }

    fn at_queue(&mut self, queue: &mut Queue, baton: &mut Baton) {
        let entry = baton.directory.queue(queue.slot());
        let mut snapshot = queue.snapshot(&entry.counts, self.below.take(queue.slot()));
        let below = snapshot.children.iter().flat_map(|child| &child.allocating_accepted_apps);
        let mut allocating: Vec<String> = below.cloned().collect();
        allocating.extend(entry.allocating.iter().map(ToString::to_string));
        allocating.sort_unstable();
        snapshot.allocating_accepted_apps = allocating;
        match queue.parent() {
            Some(above) => self.below.leave(above, snapshot),
            None => self.root = snapshot,
        }
    }

    fn home(self: Box<Self>, partition: &mut Partition, _: &mut Baton) {
        let Self { mut root, reply, .. } = *self;
        crate::views::inherit(&mut root);
        config::plain_name(&partition.name).clone_into(&mut root.partition);
        answer(reply, root);
    }
}
