//! Writes the figures of docs/performance.md anew: `cargo bench --bench figures` runs every benchmark that
//! is named there and puts its tables where they are; `-- NAME` only those of one benchmark. What was
//! changed is seen in the working tree, and is for whoever measured to look at.
//!
//! # How the document names them
//! A table stands between two comments: `<!-- figures: scheduling U -->`, which is the benchmark with
//! its arguments, and `<!-- end of figures -->`. `<!-- figures: machine -->` is the line that says what was
//! measured on, and when. Lines of a benchmark that are no rows of a table are not taken over.

#![allow(clippy::print_stdout, missing_docs, reason = "a program for people")]

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs};

const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end of figures -->";

/// The rows that a benchmark with its arguments prints.
fn measured(name: &str) -> Result<String, String> {
    if name == "machine" {
        return machine();
    }
    let mut words = name.split_whitespace();
    let bench = words.next().ok_or("a mark names no benchmark")?;
    let cargo = env::var("CARGO").unwrap_or("cargo".to_owned());
    let mut command = Command::new(cargo);
    command.args(["bench", "--quiet", "--bench", bench]);
    command.arg("--").args(words);
    let output = command.output().map_err(|error| format!("`{name}` cannot be run: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{name}` failed: {said}"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // Between two tables there is an empty line.
    let rows: Vec<&str> =
        text.lines().filter(|line| line.starts_with('|') || line.is_empty()).collect();
    let rows = rows.join("\n");
    match rows.trim_matches('\n') {
        "" => Err(format!("`{name}` printed no table")),
        rows => Ok(rows.to_owned()),
    }
}

/// What it is measured on, and when.
fn machine() -> Result<String, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    let cpus = read("/proc/cpuinfo")?;
    let models: Vec<&str> = cpus
        .lines()
        .filter(|line| line.starts_with("model name"))
        .filter_map(|line| Some(line.split_once(':')?.1.trim()))
        .collect();
    let load = read("/proc/loadavg")?;
    let load = load.split_whitespace().next().unwrap_or("?");
    #[expect(clippy::disallowed_methods, reason = "when people measured")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
    let day = monoceros_actors::rfc3339(i64::try_from(now.as_nanos()).unwrap_or(i64::MAX));
    let day = day.split('T').next().unwrap_or_default();
    let model = models.first().copied().unwrap_or("a machine of unknown kind");
    Ok(format!("Measured on {day}: {model}, {} cores, load {load} at the start.", models.len()))
}

/// The document with the figures of the benchmarks that are wanted.
fn renewed(document: &str, wanted: &str) -> Result<String, String> {
    let mut written = String::with_capacity(document.len());
    let mut rest = document;
    while let Some((before, marked)) = rest.split_once(BEGIN) {
        let (name, old) = marked.split_once(" -->\n").ok_or("a mark has no end")?;
        let (old, behind) = old.split_once(END).ok_or(format!("`{name}` has no end"))?;
        written.extend([before, BEGIN, name, " -->\n"]);
        if name.starts_with(wanted) {
            println!("{name}");
            let rows = measured(name)?;
            println!("{rows}\n");
            written.extend([&rows, "\n"]);
        } else {
            written.push_str(old);
        }
        written.push_str(END);
        rest = behind;
    }
    written.push_str(rest);
    Ok(written)
}

fn main() -> ExitCode {
    let wanted = env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/performance.md");
    let document = fs::read_to_string(&path).map_err(|error| error.to_string());
    let renewed = document.and_then(|document| renewed(&document, &wanted));
    match renewed.and_then(|document| fs::write(&path, document).map_err(|error| error.to_string()))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}
