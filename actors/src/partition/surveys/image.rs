//! Surveys of the image of a partition: the first begins it, and each further one visits a bounded
//! number of actors, so that decisions are made in between.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use super::{Partition, answer};
use crate::api::callback::ResourceManagerCallback;
use crate::api::mirror::MirrorMaker;
use crate::partition::imaged::PartitionImage;
use crate::queue::{Queue, QueueImage};
use crate::step::{Baton, Route, Survey};

/// Survey that begins an image. The answer is the mirror of the RM at this step.
pub(crate) struct BeginImage {
    queues: Vec<QueueImage>,
    /// Whether the RM is asked for its mirror.
    is_mirrored: bool,
    reply: oneshot::Sender<Option<MirrorMaker>>,
}

impl BeginImage {
    pub(crate) fn new(is_mirrored: bool, reply: oneshot::Sender<Option<MirrorMaker>>) -> Self {
        Self { queues: Vec::new(), is_mirrored, reply }
    }
}

/// Asks the RM for its mirror. A panic there is none of the partition's, and leaves no mirror.
fn mirror(callback: &dyn ResourceManagerCallback) -> Option<MirrorMaker> {
    catch_unwind(AssertUnwindSafe(|| callback.mirror())).unwrap_or_else(|_| {
        tracing::error!("the mirror of a resource manager panicked, its image has none");
        None
    })
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
        let mirror = self.is_mirrored.then(|| mirror(&*baton.services.callback)).flatten();
        answer(self.reply, mirror);
    }
}

/// Survey that goes on with the image: it only brings the baton to actors, which give their states.
/// The answer is `None` until the image is complete.
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
