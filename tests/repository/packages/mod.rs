//! Packages and monitoring: the image, the chart, plain manifests, the systemd unit, the Debian
//! package, published crates, the workflow of releases, dashboards and alerts.
//!
//! The tests do not need a container runtime: they check what such a tool would check. If the tool
//! of a format is installed (`helm`, `promtool`, `actionlint`, `systemd-analyze`), it is run, too;
//! otherwise a line says so. `MONOCEROS_TOOLS=install` builds those that are written in Go, if Go
//! is installed. A failed build is then an error.

mod chart;
mod crates;
mod debian;
mod guided;
mod image;
mod manual;
mod members;
mod native;
mod queries;
mod unit;
mod watching;
mod workflow;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use clap::{Args as _, FromArgMatches as _};
use monoceros::cli::ServeArgs;
use serde_json::Value;

use crate::harness::programs::{on_path, skipped};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Reads a file of the repository.
fn text(path: &str) -> String {
    let read = std::fs::read_to_string(root().join(path));
    read.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Parses a YAML document.
fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns the text at a JSON pointer of a document.
fn at<'v>(value: &'v Value, pointer: &str) -> &'v str {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_else(|| panic!("no text at `{pointer}` in {value:#}"))
}

/// Parses a command line of `monoceros serve`.
fn served<'a>(line: impl IntoIterator<Item = &'a str>) -> ServeArgs {
    let command = clap::Command::new("monoceros")
        .subcommand_required(true)
        .subcommand(ServeArgs::augment_args(clap::Command::new("serve")));
    let line: Vec<_> = line.into_iter().collect();
    let matches = command.try_get_matches_from(&line).unwrap_or_else(|error| panic!("{error}"));
    let (_, matches) = matches.subcommand().unwrap();
    ServeArgs::from_arg_matches(matches).unwrap()
}

/// Tools written in Go, each with its module.
const OF_GO: [(&str, &str); 2] = [
    ("helm", "helm.sh/helm/v3/cmd/helm@v3.19.0"),
    ("actionlint", "github.com/rhysd/actionlint/cmd/actionlint@v1.7.7"),
];

/// Returns an installed program, or builds it if requested. Otherwise prints which check is
/// skipped.
fn tool(name: &str) -> Option<Command> {
    let found = on_path(name).or_else(|| built(name));
    if found.is_none() {
        let how = OF_GO.iter().any(|(tool, _)| *tool == name);
        let how = if how { "; MONOCEROS_TOOLS=install and Go 1.26 build it" } else { "" };
        skipped(&format!("there is no {name}{how}"));
    }
    found.map(Command::new)
}

/// Held while a tool is built, so that two tests do not build the same one.
static BUILDING: Mutex<()> = Mutex::new(());

/// Builds a tool, if that is requested.
fn built(name: &str) -> Option<PathBuf> {
    match std::env::var("MONOCEROS_TOOLS").as_deref() {
        Err(_) => return None,
        Ok("install") => {}
        Ok(other) => panic!("MONOCEROS_TOOLS is `{other}`, and can be `install`"),
    }
    let (_, module) = OF_GO.iter().find(|(tool, _)| *tool == name)?;
    let go = on_path("go")?;
    // A folder per version, so that a cached older version is not used.
    let version = module.split_once('@').expect("a version").1;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tools").join(version);
    let program = folder.join(name);
    let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    if !program.is_file() {
        printed(Command::new(go).args(["install", module]).env("GOBIN", &folder));
    }
    Some(program)
}

/// Returns the output of a program that has to succeed.
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, error) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
    let out = String::from_utf8(out).unwrap();
    assert!(output.status.success(), "{command:?}:\n{out}\n{error}");
    out
}

/// A folder, removed when dropped.
pub(crate) struct TempFolder(pub(crate) PathBuf);

impl TempFolder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("monoceros-{}-{name}", std::process::id()));
        // Left by a killed run with the same number.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
