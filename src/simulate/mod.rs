//! `monoceros simulate`: replays a trace of a real cluster through the scheduler.
//!
//! The trace names machines, and pods with the time they came and the time they ran. The replay
//! drives the very actors that run in production, on a clock that jumps from event to event: weeks
//! of a cluster pass in seconds. A report says what would have become of each pod and how the
//! cluster looked over time; `docs/simulation.md` says how to read it.
//!
//! Reading order: [`trace`] and [`read`] (what goes in), [`replay`] with [`decisions`] (what
//! happens), [`report`], [`charts`] and [`page`] (what comes out).
//!
//! # Invariant
//! One trace, one queue configuration and one seed give one report, byte for byte.

mod amount;
mod chance;
mod charts;
mod decisions;
mod fragmentation;
mod history;
mod page;
mod queues;
mod read;
mod replay;
mod report;
mod sample;
mod series;
mod trace;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use monoceros_actors::{ResourceManagerCallback, Scheduler};
use monoceros_proto::si::v1::RegisterResourceManagerRequest;

use decisions::Decisions;
use history::History;
use report::Report;
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

    /// A queue configuration; by default there is one leaf for each QoS class of the trace.
    #[arg(long, value_name = "YAML")]
    pub queues: Option<PathBuf>,

    /// Shuffles pods that are created in the same second, and makes the made-up trace. With 0,
    /// pods of one second come in the order of their rows.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u64,

    /// The folder that the report is written to; it is made if it is not there.
    #[arg(long, value_name = "FOLDER", default_value = "report")]
    pub report: PathBuf,
}

/// Runs the command: reads, replays, writes the report and prints a summary of it.
///
/// Makes a runtime of its own, so it must not be called from within one.
pub fn run(args: SimulateArgs) -> anyhow::Result<()> {
    let mut trace = match (&args.nodes, &args.pods) {
        (Some(nodes), Some(pods)) => read::read_trace(nodes, pods)?,
        _ => sample::sample_trace(args.seed),
    };
    trace.shuffle_ties(args.seed);
    let queues = match &args.queues {
        Some(path) => {
            fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?
        }
        None => queues::default_queues(&trace),
    };
    let trace = Arc::new(trace);
    let history = replay_in_virtual_time(Arc::clone(&trace), queues)?;
    let report = Report::new(&trace, &history, args.seed);
    write_report(&report, &args.report)?;
    let place = args.report.join("index.html");
    let mut out = io::stdout().lock();
    write!(out, "{}\nThe report is in {}\n", page::summary(&report), place.display())
        .context("cannot print the summary")
}

/// Starts a scheduler on a paused clock and drives it through the trace.
fn replay_in_virtual_time(trace: Arc<Trace>, queues: String) -> anyhow::Result<History> {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime without threads needs only a poller of the system")
    };
    // The replay is a task, not the root future: the runtime looks at its root far too often.
    let system = actix_rt::System::with_tokio_rt(runtime);
    system.block_on(async {
        tokio::task::spawn_local(start_and_replay(trace, queues))
            .await
            .context("the replay broke")?
    })
}

async fn start_and_replay(trace: Arc<Trace>, queues: String) -> anyhow::Result<History> {
    let epoch_ns = trace.start().saturating_mul(1_000_000_000);
    let scheduler = Scheduler::builder()
        .default_queues(queues.clone())
        .epoch_ns(epoch_ns)
        .start_local()
        .context("the scheduler does not start with this queue configuration")?;
    let decisions = Arc::new(Decisions::new(Arc::clone(&trace)));
    let registration = RegisterResourceManagerRequest {
        rm_id: replay::RM.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        policy_group: "queues".to_owned(),
        config: queues,
        ..RegisterResourceManagerRequest::default()
    };
    let callback: Arc<dyn ResourceManagerCallback> = Arc::clone(&decisions) as _;
    scheduler
        .register_resource_manager(registration, callback)
        .await
        .context("the scheduler refuses the simulator")?;
    let bar = progress_bar(trace.pods.len());
    let tick = |done: usize| bar.set_position(done as u64);
    let history = replay::replay(scheduler, Arc::clone(&trace), decisions, tick).await?;
    bar.finish_and_clear();
    Ok(history)
}

/// Hidden by the library where standard error is not a terminal.
fn progress_bar(n_pods: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} pods, {eta} to go")
        .expect("the template is well-formed");
    ProgressBar::new(n_pods as u64).with_style(style)
}

/// Writes `report.json`, the charts and `index.html`.
fn write_report(report: &Report, folder: &Path) -> anyhow::Result<()> {
    let charts = charts::charts(report)?;
    let mut files =
        vec![("report.json", report.to_json()), ("index.html", page::index_html(report, &charts))];
    files.extend(charts.into_iter().map(|chart| (chart.file, chart.svg)));
    fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(())
}
