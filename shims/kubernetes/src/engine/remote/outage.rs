//! Limits the log lines about a service that cannot be reached.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tonic::Status;
use tracing::{info, warn};

use super::describe_status;

/// Pause between two log lines.
const AGAIN: Duration = Duration::from_secs(60);

/// Time of the last log line about the current outage; `None` while the service is reached.
#[derive(Debug, Default)]
pub(super) struct Outage(Mutex<Option<Instant>>);

impl Outage {
    /// Logs that the service cannot be reached, if a line is due.
    pub(super) fn note(&self, why: &Status) {
        let mut last_line = self.last_line();
        if last_line.is_none_or(|last_line| last_line.elapsed() >= AGAIN) {
            *last_line = Some(Instant::now());
            warn!(
                why = describe_status(why),
                "the scheduler cannot be reached, and is tried again"
            );
        }
    }

    /// Logs that the service is reached again.
    pub(super) fn is_over(&self) {
        if self.last_line().take().is_some() {
            info!("the scheduler can be reached again");
        }
    }

    fn last_line(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
