//! Making snapshots for the edges of a service, one at a time: each holds a copy of the state.

use std::sync::Arc;

use monoceros_actors::{ConfigurationError, SchedulerHandle};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use super::{About, Replaced, SnapshotError, Written, write};
use crate::clock::now_ns;

/// Most bytes of a resource manager, before compression, unless the settings say otherwise: 1 GiB.
const BYTES: u64 = 1 << 30;

/// Makes snapshots, one at a time. Clones share the turn.
#[derive(Clone, Debug)]
pub struct Snapshots {
    bytes: u64,
    cluster: Arc<str>,
    turn: Arc<Semaphore>,
}

/// The permission to make a snapshot; returned on drop.
#[derive(Debug)]
pub struct Turn {
    _permit: OwnedSemaphorePermit,
}

impl Default for Snapshots {
    fn default() -> Self {
        Self::new(BYTES, "")
    }
}

impl Snapshots {
    /// Snapshots of at most so many bytes per resource manager, of a cluster of this name.
    pub fn new(bytes: u64, cluster: &str) -> Self {
        Self { bytes, cluster: cluster.into(), turn: Arc::new(Semaphore::new(1)) }
    }

    /// Takes the turn.
    ///
    /// # Errors
    /// [`SnapshotError::Busy`] if another snapshot is being made.
    pub fn turn(&self) -> Result<Turn, SnapshotError> {
        let permit = Arc::clone(&self.turn).try_acquire_owned();
        permit.map(|permit| Turn { _permit: permit }).map_err(|_| SnapshotError::Busy)
    }

    /// Makes the snapshot of a resource manager, or of all.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn make(
        &self,
        handle: &SchedulerHandle,
        rm_id: Option<&str>,
        replaced: Replaced,
        turn: Turn,
    ) -> Result<Written, SnapshotError> {
        let rms = rm_id.map_or_else(|| handle.resource_managers(), |rm| vec![rm.to_owned()]);
        let mut images = Vec::with_capacity(rms.len());
        for rm in &rms {
            match handle.image(rm).await {
                Ok(image) => images.push(image),
                // One that was removed since it was listed is no part of the snapshot.
                Err(ConfigurationError::NotRegistered(_)) if rm_id.is_none() => {}
                Err(error) => return Err(SnapshotError::NotRead(error.to_string())),
            }
        }
        let about = About { cluster: self.cluster.to_string(), now_ns: now_ns(), replaced };
        let limit = self.bytes;
        let written = spawn_blocking(move || {
            let _turn = turn;
            write(&images, &about, limit)
        });
        written.await.map_err(|panic| SnapshotError::Unwritten(panic.to_string()))?
    }
}
