//! The committed bundle equals the one that its sources give, byte for byte.
//!
//! It is built in a copy of `web/`, so that the working tree does not change. npm installs the
//! tools of the lock file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::harness::programs::skipped;

const WEB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/web");

/// The oldest Node.js that supports the tools.
const NODE: u32 = 20;

/// A copy of the sources, removed when dropped.
struct Sources(PathBuf);

impl Sources {
    fn copied() -> Self {
        let folder = std::env::temp_dir().join(format!("monoceros-web-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        copy(Path::new(WEB), &folder);
        Self(folder)
    }

    fn npm(&self, arguments: &[&str]) -> Output {
        Command::new("npm").args(arguments).current_dir(&self.0).output().unwrap()
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_name() == "node_modules" || entry.file_name() == "dist" {
            continue;
        }
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// Returns all files of a folder, by relative path.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(
                    path.strip_prefix(folder).unwrap().to_owned(),
                    fs::read(&path).unwrap(),
                );
            }
        }
    }
    found
}

/// Returns the first number of the output of `node --version`.
fn node() -> Option<u32> {
    let printed = Command::new("node").arg("--version").output().ok()?.stdout;
    let printed = String::from_utf8(printed).ok()?;
    printed.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

fn text(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Whether npm could not reach its registry. Then the test proves nothing.
fn is_unreachable(printed: &str) -> bool {
    let signs = [
        "ENOTFOUND",
        "EAI_AGAIN",
        "ECONNREFUSED",
        "ETIMEDOUT",
        "ENETUNREACH",
        "ENOTCACHED",
        "ECONNRESET",
    ];
    signs.iter().any(|sign| printed.contains(sign))
}

#[test]
fn the_bundle_matches_its_sources() {
    if Command::new("npm").arg("--version").output().is_err()
        || node().is_none_or(|node| node < NODE)
    {
        return skipped(&format!("there is no npm with Node.js {NODE} or later"));
    }
    let sources = Sources::copied();
    let installed = sources.npm(&["ci", "--no-audit", "--no-fund", "--fetch-retries=1"]);
    let printed = text(&installed);
    if !installed.status.success() && is_unreachable(&printed) {
        return skipped("npm cannot reach its packages");
    }
    assert!(installed.status.success(), "{printed}");
    for step in ["test", "build"] {
        let done = sources.npm(&["run", step]);
        assert!(done.status.success(), "npm run {step}: {}", text(&done));
    }
    let (built, committed) = (files(&sources.0.join("dist")), files(&Path::new(WEB).join("dist")));
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&built), names(&committed), "run `npm run build` in web/ and commit web/dist");
    for (name, bytes) in &built {
        assert!(committed[name] == *bytes, "{}: run `npm run build` in web/", name.display());
    }
}
