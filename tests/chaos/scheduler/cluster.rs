//! Three members of a cluster, and what may happen to the owner of the resource manager.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep};

use crate::bed::{Bed, PATIENCE};
use crate::harness::Service;

const LEASE: Duration = Duration::from_secs(3);
/// How long a member stands still.
const STILL: Duration = Duration::from_millis(1_500);

pub(crate) struct Members {
    bed: Bed,
    /// Time at which no member stands still any more.
    thawed: Instant,
    /// The right to use the machine: a member that gets no processor loses its lease.
    _alone: MutexGuard<'static, ()>,
}

impl Members {
    /// Starts the members. `None` without a program of etcd.
    pub(crate) async fn start() -> Option<Self> {
        static ALONE: Mutex<()> = Mutex::const_new(());
        let alone = ALONE.lock().await;
        let bed = Bed::start(LEASE).await?;
        Some(Self { bed, thawed: Instant::now(), _alone: alone })
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.bed.addresses(0)
    }

    pub(super) async fn owner(&self) -> Option<&Service> {
        self.place().await.map(|at| self.bed.service(at))
    }

    async fn place(&self) -> Option<usize> {
        self.bed.owners().await.get("rm").copied()
    }

    pub(super) fn cut(&self) {
        for slot in &self.bed.members {
            slot.front.cut();
        }
    }

    /// Lets the owner fail in one of four ways.
    pub(super) async fn fail(&mut self, how: usize) -> &'static str {
        let Some(at) = self.place().await else { return "there is no owner" };
        match how {
            0 => {
                self.bed.restart(at, true);
                "the owner is killed"
            }
            1 => {
                self.bed.restart(at, false);
                "the owner is killed, and comes back as another member"
            }
            2 => {
                self.bed.service(at).terminate();
                self.bed.members[at].service.as_mut().unwrap().wait(PATIENCE).await;
                self.bed.restart(at, true);
                "the owner has ended in order"
            }
            _ => {
                let process = self.bed.service(at).process();
                signal("-STOP", process);
                self.thawed = Instant::now() + STILL;
                // Requests to it wait until then.
                tokio::spawn(async move {
                    sleep(STILL).await;
                    signal("-CONT", process);
                });
                "the owner stands still"
            }
        }
    }

    pub(super) async fn mend(&mut self) {
        sleep(self.thawed.saturating_duration_since(Instant::now())).await;
        self.bed.until_ready().await;
    }
}

/// Sends a signal. The process may have been killed meanwhile.
fn signal(name: &str, process: u32) {
    let _ = Command::new("kill").args([name, &process.to_string()]).status();
}
