//! Programs that a test needs beside Rust, and what it says where they are not.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The program of this name, where a shell would find it.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Says once why something is skipped; past the test harness, which shows the output of tests that
/// fail only.
pub fn skipped(why: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(why.to_owned()) {
        writeln!(std::io::stderr().lock(), "skipped: {why}").unwrap();
    }
}
