//! Surveys of the image of a partition: the first begins it, and each further one visits a bounded
//! number of actors, so that decisions are made in between.

use tokio::sync::oneshot;

use super::{Partition, answer};
use crate::partition::imaged::PartitionImage;
use crate::queue::{Queue, QueueImage};
use crate::step::{Baton, Route, Survey};

/// Survey that begins an image.
pub(crate) struct BeginImage {
    queues: Vec<QueueImage>,
    reply: oneshot::Sender<()>,
}

impl BeginImage {
    pub(crate) fn new(reply: oneshot::Sender<()>) -> Self {
        Self { queues: Vec::new(), reply }
    }
}

impl Survey for BeginImage {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        Route::default().all_queues(baton)
    }

    fn at_queue(&mut self, queue: &mut Queue, _: &mut Baton) {
        self.queues.push(queue.image());
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        partition.begin_image(self.queues, baton);
        answer(self.reply, ());
    }
}

/// Survey that goes on with the image: it only brings the baton to actors, which give their states. The answer is `None` until the image is complete.
pub(crate) struct ImageSlice {
    reply: oneshot::Sender<Option<Box<PartitionImage>>>,
}

impl ImageSlice {
    pub(crate) fn new(reply: oneshot::Sender<Option<Box<PartitionImage>>>) -> Self {
        Self { reply }
    }
}

impl Survey for ImageSlice {
    fn route(&mut self, partition: &mut Partition, baton: &Baton) -> Route {
        partition.next_for_image(baton)
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        // A caller without an image sees that its reply was dropped.
        if partition.has_image() {
            answer(self.reply, partition.go_on_with_image(baton));
        }
    }
}
