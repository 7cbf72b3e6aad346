//! Writes files to the folder of a report.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// Creates the folder if it is missing, and tests that a file can be written to it.
pub(crate) fn make_writable(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let trial = folder.join(".monoceros-trial");
    fs::write(&trial, "")
        .and_then(|()| fs::remove_file(&trial))
        .with_context(|| format!("cannot write to `{}`", folder.display()))
}

pub(crate) fn write_files(files: &[(&'static str, String)], folder: &Path) -> anyhow::Result<()> {
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(())
}
