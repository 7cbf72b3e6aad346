//! The scheduler in the same process.

use monoceros_actors::{Scheduler, SchedulerHandle};
use monoceros_kubernetes::engine::Embedded;
use monoceros_kubernetes::shim::{Notification, SharedScene};
use tokio::sync::mpsc::UnboundedSender;

use crate::world::RM;

/// Whether it is asked over a wire.
pub const IS_ELSEWHERE: bool = false;

/// Random histories that are tried.
pub const CASES: u32 = 60;

/// A scheduler, and the engine that it is to the shim.
pub struct Side {
    pub scheduler: SchedulerHandle,
    pub engine: Embedded,
}

impl Side {
    pub fn new(scene: SharedScene, notify: UnboundedSender<Notification>) -> Self {
        // A node that is reserved for a large pod is room that a small one does not get.
        let scheduler = Scheduler::builder().reservation_delay(None).start_local().unwrap();
        let engine = Embedded::new(scheduler.clone(), RM, scene, notify, false);
        Self { scheduler, engine }
    }

    /// Waits until everything that was told is decided, and said.
    pub async fn settle(&self) {
        self.scheduler.settle().await;
        tokio::task::yield_now().await;
    }
}
