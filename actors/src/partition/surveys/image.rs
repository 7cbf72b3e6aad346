//! Survey of the image of a partition: the state of every actor, copied in one step.

use tokio::sync::oneshot;

use super::{Partition, answer};
use crate::application::Application;
use crate::node::Node;
use crate::partition::imaged::{ActorImages, PartitionImage};
use crate::queue::Queue;
use crate::step::{Baton, Route, Survey};

/// Survey of the image of a partition.
pub(crate) struct Image {
    actors: ActorImages,
    reply: oneshot::Sender<Box<PartitionImage>>,
}

impl Image {
    pub(crate) fn new(reply: oneshot::Sender<Box<PartitionImage>>) -> Self {
        Self { actors: ActorImages::default(), reply }
    }
}

impl Survey for Image {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        Route::default().all_applications(baton).all_queues(baton).all_nodes(baton)
    }

    fn at_application(&mut self, application: &mut Application, _: &mut Baton) {
        self.actors.applications.push(application.image());
    }

    fn at_queue(&mut self, queue: &mut Queue, _: &mut Baton) {
        self.actors.queues.push(queue.image());
    }

    fn at_node(&mut self, node: &mut Node, _: &mut Baton) {
        self.actors.nodes.push(node.image());
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        answer(self.reply, Box::new(partition.image(self.actors, baton)));
    }
}
