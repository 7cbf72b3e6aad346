//! Hints of a watch: something has changed, so reading is worth while.

use monoceros_cluster::Revision;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Hints about one kind of records. Several changes between two calls are one hint. The watch ends
/// when this is dropped.
#[derive(Debug)]
pub struct Hints {
    latest: watch::Receiver<Revision>,
    task: JoinHandle<()>,
}

impl Hints {
    /// Hints that come from a task. It has to run until it is aborted.
    pub(crate) fn new(latest: watch::Receiver<Revision>, task: JoinHandle<()>) -> Self {
        Self { latest, task }
    }

    /// Waits for a change, and returns the newest revision at which one is known. After an
    /// interruption of the watch there may be hints without a change. While the store is away there
    /// are none.
    pub async fn next(&mut self) -> Revision {
        if self.latest.changed().await.is_err() {
            // The task has panicked: hints may be missing, as while the store is away.
            std::future::pending::<()>().await;
        }
        *self.latest.borrow_and_update()
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Pause before a watch that has ended begins again: 50 ms, doubled up to 2 s with each end until
/// an event arrives.
#[derive(Debug, Default)]
pub(crate) struct Pause(u32);

impl Pause {
    /// Waits, longer each time.
    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(std::time::Duration::from_millis((50 << self.0).min(2_000))).await;
        self.0 = (self.0 + 1).min(6);
    }

    /// Begins with short pauses again: the watch works.
    pub(crate) fn reset(&mut self) {
        self.0 = 0;
    }
}
