//! What the service is installed with: the image, the chart, the unit of systemd, the Debian package, the
//! workflow of releases, and what watches it: boards and alerts.
//!
//! No machine of these tests has a container runtime, so what such a tool would find is looked for here.
//! Where there is the tool of a format (`helm`, `promtool`, `actionlint`, `systemd-analyze`), it is asked,
//! too; where there is not, one line says so.

mod chart;
mod debian;
mod image;
mod manual;
mod queries;
mod unit;
mod watching;
mod workflow;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args as _, FromArgMatches as _};
use monoceros::cli::ServeArgs;
use serde_json::Value;

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the repository.
fn text(path: &str) -> String {
    let read = std::fs::read_to_string(root().join(path));
    read.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A document in YAML.
fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The text at a place in a document.
fn at<'v>(value: &'v Value, pointer: &str) -> &'v str {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_else(|| panic!("no text at `{pointer}` in {value:#}"))
}

/// What a command line of `monoceros serve` says; anything else fails.
fn served<'a>(line: impl IntoIterator<Item = &'a str>) -> ServeArgs {
    let command = clap::Command::new("monoceros")
        .subcommand_required(true)
        .subcommand(ServeArgs::augment_args(clap::Command::new("serve")));
    let line: Vec<_> = line.into_iter().collect();
    let matches = command.try_get_matches_from(&line).unwrap_or_else(|error| panic!("{error}"));
    let (_, matches) = matches.subcommand().unwrap();
    ServeArgs::from_arg_matches(matches).unwrap()
}

/// A program of this machine; where there is none, a line says what is not tried.
fn tool(name: &str) -> Option<Command> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|it| it.is_file());
    if found.is_none() {
        skipped(&format!("there is no {name}"));
    }
    found.map(Command::new)
}

/// Says so past the test harness, which shows the output of tests that fail only.
fn skipped(why: &str) {
    writeln!(std::io::stderr().lock(), "skipped: {why}").unwrap();
}

/// What a program prints that has to succeed.
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, error) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
    let out = String::from_utf8(out).unwrap();
    assert!(output.status.success(), "{command:?}:\n{out}\n{error}");
    out
}

/// A folder that lives as long as this value.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("monoceros-{}-{name}", std::process::id()));
        // Of a run with the same number that was killed.
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
