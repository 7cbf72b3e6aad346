//! The partition as a whole: its totals, and the rules by which applications find their queue.

use monoceros_rules::values::resources::Resources;
use tokio::sync::oneshot;

use super::{Partition, answer};
use crate::queue::Queue;
use crate::snapshot::{PartitionSnapshot, ShownRule};
use crate::step::{Baton, QueueSlot, Route, Survey};
use crate::views::PartitionView;

/// The overview of a partition. Only root is visited: it has the allocated amount.
pub(crate) struct Overview {
    allocated: Resources,
    reply: oneshot::Sender<PartitionSnapshot>,
}

impl Overview {
    pub(crate) fn new(reply: oneshot::Sender<PartitionSnapshot>) -> Self {
        Self { allocated: Resources::new(), reply }
    }
}

impl Survey for Overview {
    fn route(&mut self, _: &mut Partition, _: &Baton) -> Route {
        Route::default().queues([QueueSlot::ROOT])
    }

    fn at_queue(&mut self, root: &mut Queue, _: &mut Baton) {
        self.allocated = root.allocated().clone();
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        let view = PartitionView {
            name: &partition.name,
            config: &partition.config,
            state: partition.state,
            state_since_ns: partition.state_since_ns,
            ended: partition.ended.applications(),
        };
        answer(self.reply, crate::views::partition(&view, baton, self.allocated));
    }
}

/// Survey of the rules of placement, in the order in which they are tried.
pub(crate) struct PlacementRules(oneshot::Sender<Vec<ShownRule>>);

impl PlacementRules {
    pub(crate) fn new(reply: oneshot::Sender<Vec<ShownRule>>) -> Self {
        Self(reply)
    }
}

impl Survey for PlacementRules {
    fn home(self: Box<Self>, partition: &mut Partition, _: &mut Baton) {
        answer(self.0, partition.config.rules.shown());
    }
}

/// Survey of the number of the last step that may have changed anything, and of the partition's
/// incarnation.
pub(crate) struct StepNow(oneshot::Sender<(u64, u64)>);

impl StepNow {
    pub(crate) fn new(reply: oneshot::Sender<(u64, u64)>) -> Self {
        Self(reply)
    }
}

impl Survey for StepNow {
    fn home(self: Box<Self>, partition: &mut Partition, _: &mut Baton) {
        answer(self.0, (partition.incarnation, partition.steps));
    }
}
