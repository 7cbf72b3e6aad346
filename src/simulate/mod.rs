//! `monoceros simulate`: replays a trace of a real cluster through the scheduler.
//!
//! The trace lists machines, and pods with the times of their creation, start and end. The replay
//! drives the same actors that run in production, on a clock that jumps from event to event: weeks
//! of a cluster take seconds. A report states the fate of each pod and the state of the cluster
//! over time. `docs/simulation.md` explains it.
//!
//! Reading order: `trace`, `wishes` and `read` (input), `start` and `replay` with `decisions` (the
//! replay), `evictions` and `fairness` (measures), `report` with `policy`, `plots`, `summary` and
//! `files` (output), `figures` (what two replays are compared by). The parts that a replay of
//! anything else needs, too, are in `crate::replay`.
//!
//! # Invariant
//! One trace, one queue configuration, one set of options and one seed give one report, byte for
//! byte.

mod amount;
#[cfg(test)]
mod contention;
mod decisions;
mod evictions;
mod fairness;
mod figures;
mod files;
mod fragmentation;
mod history;
mod jobs;
#[cfg(test)]
mod outcomes;
mod plots;
mod policy;
mod queues;
mod read;
mod replay;
mod report;
mod sample;
mod start;
mod summary;
mod table;
mod trace;
mod wishes;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use crate::cli::output;
use crate::logging::clean_lines;
use crate::replay::compare::Comparison;
use crate::replay::folder::{make_writable, write_files};
use crate::{input, validate, whatif};

use figures::figures;
use files::{comparison_files, report_files};
use replay::Assumptions;
use report::Report;
use start::replay_in_virtual_time;
use trace::Trace;

/// Replays a trace in virtual time and reports on it.
///
/// Without a trace, a made-up one of sixty nodes and two days is replayed.
#[derive(Clone, Debug, clap::Args)]
pub struct SimulateArgs {
    /// The nodes, as CSV with the columns sn, `cpu_milli`, `memory_mib`, gpu and model.
    #[arg(long, value_name = "CSV", requires = "pods")]
    pub nodes: Option<PathBuf>,

    /// The pods, as CSV in the OpenB format.
    #[arg(long, value_name = "CSV", requires = "nodes")]
    pub pods: Option<PathBuf>,

    /// What the pods' file does not say, as CSV with the column name and any of priority, preempts,
    /// preemptable, tags and constraint.
    #[arg(long, value_name = "CSV")]
    pub wishes: Option<PathBuf>,

    /// A queue configuration; by default there is one leaf for each QoS class of the trace.
    #[arg(long, value_name = "YAML")]
    pub queues: Option<PathBuf>,

    /// Replays the trace with each of two queue configurations and reports on both, side by side.
    #[arg(long, num_args = 2, value_names = ["A.yaml", "B.yaml"], conflicts_with = "queues")]
    pub compare: Option<Vec<PathBuf>>,

    /// Goes on from this snapshot of a scheduler, in place of a trace; its pods end as they are
    /// expected to.
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["nodes", "pods", "wishes", "queues", "compare", "seed",
                                "no_reservations", "all_preempt", "keep_progress"])]
    pub snapshot: Option<PathBuf>,

    /// How far to go on from a snapshot, in hours.
    #[arg(long, value_name = "HOURS", requires = "snapshot", default_value_t = 24,
          value_parser = clap::value_parser!(u32).range(1..=LONGEST_HORIZON))]
    pub horizon: u32,

    /// The resource manager of the snapshot, where there are several.
    #[arg(long = "of", value_name = "RM", requires = "snapshot")]
    pub manager: Option<String>,

    /// Shuffles pods that are created in the same second, and makes the made-up trace. With 0,
    /// pods of one second come in the order of their rows.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u64,

    /// The folder that the report is written to; it is made if it is not there.
    #[arg(long, value_name = "FOLDER", default_value = "report")]
    pub report: PathBuf,

    /// No pod that finds no node reserves one.
    #[arg(long)]
    pub no_reservations: bool,

    /// Others may be preempted for every pod of which nothing else is said.
    #[arg(long)]
    pub all_preempt: bool,

    /// How many seconds a preempted pod needs to leave.
    #[arg(long, value_name = "SECONDS", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(..=LONGEST_LEAVE))]
    pub confirm_after: u32,

    /// What a preempted pod has done is not lost: it asks again for what is left.
    #[arg(long)]
    pub keep_progress: bool,
}

/// A year, in hours.
const LONGEST_HORIZON: i64 = 366 * 24;
/// A day, in seconds.
const LONGEST_LEAVE: i64 = 86_400;

/// Whether pods that fit no node reserve one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reservations {
    AsByDefault,
    Never,
}

/// Runs the command: reads the trace, replays it, writes the report and prints a summary. If a
/// queue configuration has errors, they are printed instead.
///
/// It makes its own runtime, so it must not be called within one.
pub fn run(args: SimulateArgs) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.snapshot {
        return go_on(path, &args);
    }
    let trace = Arc::new(trace_of(&args)?);
    let options = ReplayOptions {
        reservations: if args.no_reservations {
            Reservations::Never
        } else {
            Reservations::AsByDefault
        },
        assumptions: Assumptions {
            all_preempt: args.all_preempt,
            confirm_after: i64::from(args.confirm_after) * 1000,
            keep_progress: args.keep_progress,
        },
        seed: args.seed,
    };
    let paths = args.compare.or(args.queues.map(|path| vec![path])).unwrap_or_default();
    let mut configurations = Vec::with_capacity(paths.len());
    for path in &paths {
        let yaml = input::read_text(path)?;
        configurations.extend(validate::check(path, &yaml).is_some().then_some(yaml));
    }
    if configurations.len() < paths.len() {
        return Ok(ExitCode::FAILURE);
    }
    // Checked before the replay, which may take minutes.
    make_writable(&args.report)?;
    let summary = match <[String; 2]>::try_from(configurations) {
        Ok([a, b]) => compare_both(&trace, [a, b], options, &args.report)?,
        Err(mut one) => {
            let queues = one.pop().unwrap_or_else(|| queues::default_queues(&trace));
            let report = options.report(&trace, queues)?;
            write_files(&report_files(&report)?, &args.report)?;
            summary::summary(&report)
        }
    };
    let place = args.report.join("index.html");
    output::write(&format!("{}The report is in {}\n", clean_lines(&summary), place.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Goes on from a snapshot, writes the report and prints a summary.
fn go_on(path: &Path, args: &SimulateArgs) -> anyhow::Result<ExitCode> {
    make_writable(&args.report)?;
    let unreadable = || format!("cannot read `{}`", path.display());
    let snapshot = whatif::read_snapshot(path).with_context(unreadable)?;
    let image = whatif::image_in(&snapshot, args.manager.as_deref().unwrap_or_default())?;
    let options = whatif::Options {
        horizon: Duration::from_secs(u64::from(args.horizon) * 3_600),
        leave_after: Duration::from_secs(args.confirm_after.into()),
        ..whatif::Options::default()
    };
    let ahead = whatif::ahead(&image, &options)?;
    ahead.write(&args.report)?;
    let place = args.report.join("index.html");
    let text = format!("{}\nThe report is in {}\n", ahead.text(), place.display());
    output::write(&clean_lines(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads or generates the trace, and adds the wishes of its pods.
fn trace_of(args: &SimulateArgs) -> anyhow::Result<Trace> {
    let wishes = args.wishes.as_deref();
    let mut trace = if let (Some(nodes), Some(pods)) = (&args.nodes, &args.pods) {
        read::read_trace(nodes, pods, wishes)?
    } else {
        let mut trace = sample::sample_trace(args.seed);
        if let Some(wishes) = wishes {
            read::read_wishes(wishes, &mut trace)?;
        }
        trace
    };
    trace.shuffle_ties(args.seed);
    Ok(trace)
}

/// Replays with both configurations, and writes both reports and the comparison. Returns its
/// summary.
fn compare_both(
    trace: &Arc<Trace>,
    [a, b]: [String; 2],
    options: ReplayOptions,
    folder: &Path,
) -> anyhow::Result<String> {
    let reports = [("a", a), ("b", b)].map(|(name, queues)| {
        let report = options.report(trace, queues)?;
        let folder = folder.join(name);
        make_writable(&folder)?;
        write_files(&report_files(&report)?, &folder)?;
        Ok::<_, anyhow::Error>(report)
    });
    let [a, b] = reports;
    let comparison = Comparison::of(figures(&a?), figures(&b?));
    write_files(&comparison_files(&comparison)?, folder)?;
    Ok(summary::comparison_summary(&comparison))
}

/// Options of a replay, except the queues.
#[derive(Clone, Copy, Debug)]
struct ReplayOptions {
    reservations: Reservations,
    assumptions: Assumptions,
    seed: u64,
}

impl ReplayOptions {
    fn report(self, trace: &Arc<Trace>, queues: String) -> anyhow::Result<Report> {
        let history = replay_in_virtual_time(Arc::clone(trace), queues, self)?;
        Ok(Report::new(trace, &history, self.seed, self.assumptions))
    }
}
