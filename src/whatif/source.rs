//! The snapshot from which a question is answered.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use monoceros_actors::image::ResourceManagerImage;

use crate::snapshot::{self, READ_BYTES, SnapshotError};

/// A snapshot has no state to go on from.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It cannot be read.
    #[error("{0}")]
    Refused(#[from] SnapshotError),
    /// There is no resource manager in it.
    #[error("no resource manager is in the snapshot")]
    Empty,
    /// There is no such resource manager.
    #[error("resource manager `{0}` is not in the snapshot")]
    NoSuchManager(String),
    /// There are several, and none is named.
    #[error("say with --rm which one is meant: {0}")]
    Several(String),
    /// The snapshot is a report only.
    #[error("the snapshot has no state of resource manager `{0}` to go on from")]
    NoState(String),
}

/// Reads a file with a snapshot.
pub fn read_snapshot(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(READ_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the state of a resource manager in a snapshot. An empty id means the only one.
pub fn image_in(snapshot: &[u8], rm: &str) -> Result<ResourceManagerImage, SourceError> {
    let mut managers = snapshot::read(snapshot, READ_BYTES)?.managers;
    if !rm.is_empty() {
        managers.retain(|manager| manager.rm_id == rm);
    }
    match managers.len() {
        1 => {
            let manager = managers.remove(0);
            manager.image.ok_or(SourceError::NoState(manager.rm_id))
        }
        0 if rm.is_empty() => Err(SourceError::Empty),
        0 => Err(SourceError::NoSuchManager(rm.to_owned())),
        _ => {
            let ids = managers.iter().map(|manager| format!("`{}`", manager.rm_id));
            Err(SourceError::Several(ids.collect::<Vec<_>>().join(", ")))
        }
    }
}
