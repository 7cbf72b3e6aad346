//! Updates the figures in docs/performance.md: `cargo bench --bench figures` runs every benchmark
//! that the page names, except a few long ones, and writes their tables. `-- NAME` runs one
//! benchmark, however long it takes, and `-- NAME ARGUMENTS` updates one table. The changes are
//! left in the working tree for review.
//!
//! # How the document names them
//!
//! A table stands between two comments: `<!-- figures: scheduling lone -->`, which has the
//! benchmark with its arguments, and `<!-- end of figures -->`. `<!-- figures: machine -->` is the
//! line with the machine and the date. Other lines than rows of a table are not copied.
//!
//! Below a table are its time and commit, the share of the machine that other processes used
//! meanwhile, and the duration of a fixed walk through memory before and after. They show figures
//! that were taken beside other work, or while the machine was slow. Memory is touched before the
//! first benchmark, because the host of a virtual machine has to map unused pages, at some 8 µs a
//! page.
//!
//! # When things go wrong
//!
//! If a benchmark fails, its table stays unchanged, the others are written, and the failure is
//! reported at the end. Each table is written as soon as it is complete, into the document as it is
//! then.

#![allow(clippy::print_stdout, missing_docs, reason = "a program for people")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, fs};

use nix::sys::resource::{UsageWho, getrusage};
use tokio::time::Instant;

const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end of figures -->";
const MACHINE: &str = "machine";

/// Benchmarks that take minutes for one table, or need etcd, and are run only if named.
const LONG: [&str; 7] = [
    "arbiters",
    "churn",
    "forwarding",
    "preemption in vain",
    "soak",
    "takeovers",
    "takeovers_large",
];

/// Returns the marks of a document, in order.
fn marks(document: &str) -> Vec<String> {
    let behind = document.split(BEGIN).skip(1);
    behind.filter_map(|text| Some(text.split_once(" -->")?.0.to_owned())).collect()
}

/// Whether a mark has this benchmark, perhaps with more arguments.
fn names(mark: &str, wanted: &str) -> bool {
    mark.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// Returns the marks to update.
fn chosen(document: &str, wanted: &str) -> Result<Vec<String>, String> {
    let mut marks = marks(document);
    if wanted.is_empty() {
        marks.retain(|mark| !LONG.iter().any(|long| names(mark, long)));
    } else {
        marks.retain(|mark| names(mark, wanted));
    }
    if marks.is_empty() { Err(format!("no mark names `{wanted}`")) } else { Ok(marks) }
}

fn cargo() -> Command {
    Command::new(env::var("CARGO").unwrap_or("cargo".to_owned()))
}

/// Builds the benchmarks of these marks, so that nothing is built during a measurement.
fn build(marks: &[String]) -> Result<(), String> {
    let named = marks.iter().filter(|mark| *mark != MACHINE);
    let benches: BTreeSet<&str> = named.filter_map(|mark| mark.split(' ').next()).collect();
    if benches.is_empty() {
        return Ok(());
    }
    let mut command = cargo();
    command.args(["bench", "--quiet", "--no-run"]);
    command.args(benches.iter().flat_map(|bench| ["--bench", bench]));
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the benchmarks cannot be built: {status}")),
        Err(error) => Err(format!("the benchmarks cannot be built: {error}")),
    }
}

/// Returns the rows that a benchmark prints, and the load of the machine.
fn measured(mark: &str) -> Result<String, String> {
    if mark == MACHINE {
        return machine();
    }
    let mut words = mark.split_whitespace();
    let bench = words.next().ok_or("a mark names no benchmark")?;
    let mut command = cargo();
    command.args(["bench", "--quiet", "--bench", bench]);
    command.arg("--").args(words);
    let (quick, before) = (walk(), Busy::now()?);
    let output = command.output().map_err(|error| format!("`{mark}` cannot be run: {error}"))?;
    let others = Busy::now()?.others_since(&before);
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{mark}` failed: {said}"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // An empty line separates two tables.
    let rows: Vec<&str> =
        text.lines().filter(|line| line.starts_with('|') || line.is_empty()).collect();
    let rows = rows.join("\n");
    match rows.trim_matches('\n') {
        "" => Err(format!("`{mark}` printed no table")),
        rows => {
            let walks = [quick, walk()].map(|walk| walk.as_secs_f64() * 1e3);
            let [before, after] = walks;
            Ok(format!(
                "{rows}\n\nOn {}{}{}, beside other work on {others:.1} cores; a walk through memory took \
                 {before:.0} ms before and {after:.0} ms after.",
                today()?,
                commit().map_or(String::new(), |commit| format!(", commit {commit}")),
                if is_guided() { ", guided by a profile" } else { "" },
            ))
        }
    }
}

/// Touches as much memory as most benchmarks use, or half of the free memory if that is less.
fn touch_memory() {
    const MOST: usize = 4 << 30;
    let free = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = free.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let free = free.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    let half = free.unwrap_or(0).saturating_mul(1024) / 2;
    std::hint::black_box(vec![1_u8; half.min(MOST)]);
}

/// Measures a fixed walk: some million dependent steps through 32 MiB. Its duration shows whether
/// the machine was fast or slow.
fn walk() -> Duration {
    const PLACES: usize = 1 << 22;
    let mut memory: Vec<usize> = vec![1; PLACES];
    let (start, mut at) = (Instant::now(), 0);
    for step in 0..2 * PLACES {
        memory[at] += step;
        at = memory[at].wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS - 22);
    }
    std::hint::black_box(at);
    start.elapsed()
}

/// Whether this build is profile-guided (`deploy/build/profile-guided.sh`).
fn is_guided() -> bool {
    env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("-Cprofile-use="))
}

/// Returns the commit, and whether the tree was changed since. `None` outside a repository.
fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=8", "HEAD"])?;
    // The document itself is being changed.
    let changed = git(&["status", "--porcelain", "--", ":!docs"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit} and changes") })
}

/// CPU time of all cores, and of this program's children, since their start.
struct Busy {
    /// Time since the start of the machine: busy and idle time of all cores, divided by their
    /// number.
    passed: Duration,
    all: Duration,
    ours: Duration,
}

impl Busy {
    fn now() -> Result<Self, String> {
        let stat = read("/proc/stat")?;
        let cores = stat.lines().filter(|line| line.starts_with("cpu")).count().max(2) - 1;
        let ticks = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
        let ticks: Result<Vec<u64>, _> = ticks.map(str::parse).collect();
        let ticks = ticks.map_err(|error| format!("/proc/stat: {error}"))?;
        // In hundredths of a second.
        let time = |ticks: u64| Duration::from_millis(10 * ticks);
        // User, nice, system, idle, waiting for a disk, two kinds of interrupts, and steal time.
        // Guest time is part of the first two.
        let [user, nice, system, idle, waiting, irq, softirq, steal, ..] = ticks[..] else {
            return Err("/proc/stat has no times".to_owned());
        };
        let all = [user, nice, system, irq, softirq, steal].map(time).iter().sum();
        let passed = (all + time(idle) + time(waiting)) / u32::try_from(cores).unwrap_or(1);
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| error.to_string())?;
        let spent = [usage.user_time(), usage.system_time()];
        let micros = spent.map(|time| 1_000_000 * time.tv_sec() + time.tv_usec());
        let ours = Duration::from_micros(micros.iter().sum::<i64>().unsigned_abs());
        Ok(Self { passed, all, ours })
    }

    /// Returns the number of cores that other processes used since the measurement `before`.
    fn others_since(&self, before: &Self) -> f64 {
        // The system's times do not decrease.
        let since = |now: Duration, before: Duration| now.saturating_sub(before);
        let ours = since(self.ours, before.ours);
        let others = since(self.all, before.all).saturating_sub(ours);
        others.as_secs_f64() / since(self.passed, before.passed).as_secs_f64().max(0.01)
    }
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

fn today() -> Result<String, String> {
    #[expect(clippy::disallowed_methods, reason = "when people measured")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
    let now = monoceros_actors::rfc3339(i64::try_from(now.as_nanos()).unwrap_or(i64::MAX));
    Ok(now.split('T').next().unwrap_or_default().to_owned())
}

/// Returns the line with the machine and the date.
fn machine() -> Result<String, String> {
    let cpus = read("/proc/cpuinfo")?;
    let models: Vec<&str> = cpus
        .lines()
        .filter(|line| line.starts_with("model name"))
        .filter_map(|line| Some(line.split_once(':')?.1.trim()))
        .collect();
    let model = models.first().copied().unwrap_or("a machine of unknown kind");
    let n_cores = models.len();
    Ok(format!("Measured on {}: {model}, {n_cores} cores.", today()?))
}

/// Returns the document with the text between this mark and its end replaced.
fn renewed(document: &str, mark: &str, figures: &str) -> Result<String, String> {
    let begin = format!("{BEGIN}{mark} -->\n");
    let (before, old) = document.split_once(&begin).ok_or(format!("`{mark}` has gone"))?;
    let (_, behind) = old.split_once(END).ok_or(format!("`{mark}` has no end"))?;
    Ok([before, &begin, figures, "\n", END, behind].concat())
}

fn write_figures(path: &Path, mark: &str) -> Result<(), String> {
    println!("{mark}");
    let figures = measured(mark)?;
    println!("{figures}\n");
    // It may have been edited during the benchmark.
    let document = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let renewed = renewed(&document, mark, &figures)?;
    fs::write(path, renewed).map_err(|error| error.to_string())
}

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/performance.md")
}

fn main() -> ExitCode {
    let wanted: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let path = document();
    let document = fs::read_to_string(&path).map_err(|error| error.to_string());
    let marks = document.and_then(|document| chosen(&document, &wanted.join(" ")));
    let built = marks.and_then(|marks| build(&marks).map(|()| marks));
    let marks = match built {
        Ok(marks) => marks,
        Err(error) => {
            println!("{}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    };
    touch_memory();
    let failed = marks.iter().filter_map(|mark| write_figures(&path, mark).err());
    let failed: Vec<String> = failed.collect();
    for error in &failed {
        println!("{}: {error}", path.display());
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
