//! Health of the scheduler: the outcome of the last check.
//!
//! # Invariants
//! * A reader gets the outcome of the last check and never causes one: a check visits all nodes and
//!   applications, and a dashboard may ask each second.
//! * A finding is logged when it first appears, and not again while it lasts.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::SchedulerHandle;
use monoceros_actors::snapshot::{HealthCheckSnapshot, HealthSnapshot};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::locked::locked;

/// Whether a check found a fault of the scheduler. Faults of outside input were logged when they
/// arrived.
fn is_wrong_here(check: &HealthCheckSnapshot) -> bool {
    !check.succeeded && !check.from_outside
}

/// The outcome of the last health check. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct HealthRecord(Arc<Mutex<Option<HealthSnapshot>>>);

impl HealthRecord {
    /// Returns the outcome. `None` before the first check.
    pub fn outcome(&self) -> Option<HealthSnapshot> {
        locked(&self.0).clone()
    }

    /// Checks the scheduler, and logs new findings and their end.
    pub(super) async fn check(&self, handle: &SchedulerHandle) {
        let found = handle.check_health().await;
        let before = locked(&self.0).replace(found.clone());
        let before = before.unwrap_or_default();
        let wrong = |outcome: &HealthSnapshot| -> BTreeSet<&'static str> {
            let checks = outcome.health_checks.iter();
            checks.filter(|check| is_wrong_here(check)).map(|check| check.description).collect()
        };
        let (was_wrong, is_wrong) = (wrong(&before), wrong(&found));
        let is_new = |check: &&HealthCheckSnapshot| {
            is_wrong.contains(check.description) && !was_wrong.contains(check.description)
        };
        // One line for all: the log drops lines of one kind that follow too fast.
        let new = found.health_checks.iter().filter(is_new);
        let text =
            |check: &HealthCheckSnapshot| format!("{}: {}", check.name, check.diagnosis_message);
        let new: Vec<String> = new.map(text).collect();
        if !new.is_empty() {
            warn!(found = new.join("; "), "the scheduler does not look sound");
        }
        if !was_wrong.is_empty() && is_wrong.is_empty() {
            info!("the scheduler looks sound again");
        }
    }

    /// Checks the scheduler with this pause in between, or never while it is `None`. A changed
    /// pause begins when it is set.
    pub(super) async fn check_regularly(
        self,
        handle: SchedulerHandle,
        mut pause: watch::Receiver<Option<Duration>>,
    ) {
        loop {
            let now = *pause.borrow_and_update();
            let over = async {
                match now {
                    Some(pause) => sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => self.check(&handle).await,
                changed = pause.changed() => if changed.is_err() {
                    return;
                },
            }
        }
    }
}
