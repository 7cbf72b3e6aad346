//! Scheduler in the same process.

use monoceros_actors::{Scheduler, SchedulerHandle};
use monoceros_kubernetes::engine::Embedded;
use monoceros_kubernetes::shim::{Notification, SharedScene};
use tokio::sync::mpsc::UnboundedSender;

use crate::world::RM;

/// Whether the scheduler is reached over the network.
pub const IS_ELSEWHERE: bool = false;

/// Number of random histories.
pub const CASES: u32 = 60;

/// A scheduler, and its engine for the shim.
pub struct Side {
    pub scheduler: SchedulerHandle,
    pub engine: Embedded,
}

impl Side {
    pub fn new(scene: SharedScene, notify: UnboundedSender<Notification>) -> Self {
        // Without it a node reserved for a large pod would be closed to small ones.
        let scheduler = Scheduler::builder().reservation_delay(None).start_local().unwrap();
        let engine = Embedded::new(scheduler.clone(), RM, scene, notify, false);
        Self { scheduler, engine }
    }

    /// Waits until everything sent is decided and its notifications have arrived.
    pub async fn settle(&self) {
        self.scheduler.settle().await;
        tokio::task::yield_now().await;
    }
}
