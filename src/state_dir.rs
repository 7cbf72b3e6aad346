//! Files in `service.state_dir`: what this process keeps between two starts.
//!
//! # Invariant
//! A file is whole at any time: a new one is written beside it, reaches the disk, and replaces it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Makes the folder of a file, if it does not exist.
pub(crate) fn make_folder_of(path: &Path) -> anyhow::Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    fs::create_dir_all(folder).with_context(|| {
        format!("`service.state_dir`: cannot make the folder of `{}`", path.display())
    })
}

/// Replaces a file, or makes it, with what `write` writes.
pub(crate) fn replace(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let new = beside(path, "new");
    let mut file = File::create(&new)?;
    write(&mut file)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // The name has reached the disk, too, once the folder has.
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Returns the path with another ending after its own.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}
