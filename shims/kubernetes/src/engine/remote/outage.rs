//! What the log says while the service cannot be reached: not each attempt.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tonic::Status;
use tracing::{info, warn};

use super::shown;

/// It is said again after this.
const AGAIN: Duration = Duration::from_secs(60);

/// Since when the service has been away, and what was said of it.
#[derive(Debug, Default)]
pub(super) struct Outage(Mutex<Option<Instant>>);

impl Outage {
    /// The connection is lost, or there is none.
    pub(super) fn note(&self, why: &Status) {
        let mut said = self.said();
        if said.is_none_or(|said| said.elapsed() >= AGAIN) {
            *said = Some(Instant::now());
            warn!(why = shown(why), "the scheduler cannot be reached, and is tried again");
        }
    }

    /// It is there.
    pub(super) fn is_over(&self) {
        if self.said().take().is_some() {
            info!("the scheduler can be reached again");
        }
    }

    fn said(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
