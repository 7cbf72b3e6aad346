//! `monoceros simulate`: replays a trace of a real cluster through the scheduler.
//!
//! The trace names machines, and pods with the time they came and the time they ran. The replay
//! drives the very actors that run in production, on a clock that jumps from event to event: weeks
//! of a cluster pass in seconds. A report says what would have become of each pod and how the
//! cluster looked over time; `docs/simulation.md` says how to read it.
//!
//! Reading order: `trace`, `wishes` and `read` (what goes in), `replay` with `decisions` (what
//! happens), `evictions` and `fairness` (what is judged), `report` with `policy`, `charts` and `page`
//! (what comes out), `compare` (two of them).
//!
//! # Invariant
//! One trace, one queue configuration, one set of options and one seed give one report, byte for byte.

mod amount;
mod charts;
mod compare;
#[cfg(test)]
mod contention;
mod decisions;
mod evictions;
mod fairness;
mod fragmentation;
mod history;
mod jobs;
mod page;
mod policy;
mod queues;
mod read;
mod replay;
mod report;
mod sample;
mod series;
mod table;
mod trace;
mod wishes;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use monoceros_actors::{ResourceManagerCallback, Scheduler};
use monoceros_proto::si::v1::RegisterResourceManagerRequest;

use crate::logging::clean_lines;
use crate::{input, validate};

use compare::Comparison;
use decisions::Decisions;
use history::History;
use replay::Assumptions;
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

/// A day, in seconds.
const LONGEST_LEAVE: i64 = 86_400;

/// Whether pods that find no node reserve one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reservations {
    AsByDefault,
    Never,
}

/// Runs the command: reads, replays, writes the report and prints a summary of it. When a queue
/// configuration has errors, they are printed instead.
///
/// Makes a runtime of its own, so it must not be called from within one.
pub fn run(args: SimulateArgs) -> anyhow::Result<ExitCode> {
    let trace = Arc::new(trace_of(&args)?);
    let replaying = Replaying {
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
    // Before the replay, which may take minutes.
    make_writable(&args.report)?;
    let summary = match <[String; 2]>::try_from(configurations) {
        Ok([a, b]) => compare_both(&trace, [a, b], replaying, &args.report)?,
        Err(mut one) => {
            let queues = one.pop().unwrap_or_else(|| queues::default_queues(&trace));
            let report = replaying.report(&trace, queues)?;
            write_files(&report_files(&report)?, &args.report)?;
            page::summary(&report)
        }
    };
    let place = args.report.join("index.html");
    let mut out = io::stdout().lock();
    writeln!(out, "{}The report is in {}", clean_lines(&summary), place.display())
        .context("cannot print the summary")?;
    Ok(ExitCode::SUCCESS)
}

/// The trace that is to be replayed, with what is said of its pods.
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

/// Replays with one configuration after the other and writes both reports and the comparison.
/// Returns its summary.
fn compare_both(
    trace: &Arc<Trace>,
    [a, b]: [String; 2],
    replaying: Replaying,
    folder: &Path,
) -> anyhow::Result<String> {
    let reports = [("a", a), ("b", b)].map(|(name, queues)| {
        let report = replaying.report(trace, queues)?;
        let folder = folder.join(name);
        make_writable(&folder)?;
        write_files(&report_files(&report)?, &folder)?;
        Ok::<_, anyhow::Error>(report)
    });
    let [a, b] = reports;
    let comparison = Comparison::of(&a?, &b?);
    write_files(&comparison_files(&comparison), folder)?;
    Ok(page::comparison_summary(&comparison))
}

/// How a trace is replayed, whatever the queues.
#[derive(Clone, Copy, Debug)]
struct Replaying {
    reservations: Reservations,
    assumptions: Assumptions,
    seed: u64,
}

impl Replaying {
    fn report(self, trace: &Arc<Trace>, queues: String) -> anyhow::Result<Report> {
        let history = replay_in_virtual_time(Arc::clone(trace), queues, self)?;
        Ok(Report::new(trace, &history, self.seed, self.assumptions))
    }
}

/// Starts a scheduler on a paused clock and drives it through the trace.
fn replay_in_virtual_time(
    trace: Arc<Trace>,
    queues: String,
    replaying: Replaying,
) -> anyhow::Result<History> {
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
        tokio::task::spawn_local(start_and_replay(trace, queues, replaying))
            .await
            .context("the replay broke")?
    })
}

async fn start_and_replay(
    trace: Arc<Trace>,
    queues: String,
    replaying: Replaying,
) -> anyhow::Result<History> {
    let epoch_ns = trace.start().saturating_mul(1_000_000_000);
    let mut builder = Scheduler::builder().default_queues(queues.clone()).epoch_ns(epoch_ns);
    if replaying.reservations == Reservations::Never {
        builder = builder.reservation_delay(None);
    }
    let scheduler = builder
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
    let (trace, assumptions) = (Arc::clone(&trace), replaying.assumptions);
    let history = replay::replay(scheduler, trace, decisions, assumptions, tick).await?;
    bar.finish_and_clear();
    Ok(history)
}

/// Hidden by the library where standard error is not a terminal.
fn progress_bar(n_pods: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} pods, {eta} to go")
        .expect("the template is well-formed");
    ProgressBar::new(n_pods as u64).with_style(style)
}

/// Makes the folder if it is not there, and tries that a file can be written to it.
fn make_writable(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let trial = folder.join(".monoceros-trial");
    fs::write(&trial, "")
        .and_then(|()| fs::remove_file(&trial))
        .with_context(|| format!("cannot write to `{}`", folder.display()))
}

/// Writes files into a folder.
fn write_files(files: &[(&'static str, String)], folder: &Path) -> anyhow::Result<()> {
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(())
}

/// Names and texts of `compare.json` and `index.html`.
fn comparison_files(comparison: &Comparison) -> [(&'static str, String); 2] {
    [("compare.json", comparison.to_json()), ("index.html", page::comparison_html(comparison))]
}

/// Names and texts of `report.json`, `index.html` and the charts.
fn report_files(report: &Report) -> anyhow::Result<Vec<(&'static str, String)>> {
    let charts = charts::charts(report)?;
    let mut files =
        vec![("report.json", report.to_json()), ("index.html", page::index_html(report, &charts))];
    files.extend(charts.into_iter().map(|chart| (chart.file, chart.svg)));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINES: &str = "sn,cpu_milli,memory_mib,gpu,model\nm1,4000,4096,2,T4\n";
    const POD_COLUMNS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,\
                               creation_time,deletion_time,scheduled_time\n";

    /// Replays the rows on one machine and tells for each pod: name, start, end and outcome.
    fn check(rows: &[&str], expected: &[&str]) {
        assert_eq!(told(MACHINES, rows, Reservations::AsByDefault), expected);
    }

    fn told(machines: &str, rows: &[&str], reservations: Reservations) -> Vec<String> {
        told_of(machines, &format!("{POD_COLUMNS}{}\n", rows.join("\n")), reservations)
    }

    /// As [`check`], with a column for the gang of each pod, and with room for two such machines.
    fn check_gangs(rows: &[&str], expected: &[&str]) {
        let machines = format!("{MACHINES}m2,4000,4096,2,T4\n");
        let pods = format!("{},gang\n{}\n", POD_COLUMNS.trim_end(), rows.join("\n"));
        assert_eq!(told_of(&machines, &pods, Reservations::AsByDefault), expected);
    }

    fn with(reservations: Reservations) -> Replaying {
        Replaying { reservations, assumptions: Assumptions::default(), seed: 0 }
    }

    fn told_of(machines: &str, pods: &str, reservations: Reservations) -> Vec<String> {
        let trace = Arc::new(read::parse(machines, pods).unwrap());
        let queues = queues::default_queues(&trace);
        let history =
            replay_in_virtual_time(Arc::clone(&trace), queues, with(reservations)).unwrap();
        let second = |at: Option<i64>| at.map_or("-".to_owned(), |at| (at / 1000).to_string());
        let told = trace.pods.iter().zip(&history.pods).map(|(pod, history)| {
            let (start, end) = (second(history.start), second(history.end));
            let outcome = match &history.outcome {
                history::PodOutcome::Rejected { .. } => "Rejected".to_owned(),
                outcome => format!("{outcome:?}"),
            };
            format!("{} {start} {end} {outcome}", pod.name)
        });
        told.collect()
    }

    #[test]
    fn a_pod_waits_for_room_and_then_runs_its_whole_time() {
        check(
            &["a,3000,1,0,0,,LS,Running,100,150,100", "b,3000,1,0,0,,LS,Running,110,115,110"],
            &["a 100 150 Completed", "b 150 155 Completed"],
        );
    }

    #[test]
    fn room_given_back_in_a_second_is_taken_in_that_second() {
        check(
            &["a,4000,1,0,0,,LS,Failed,0,10,0", "b,4000,1,0,0,,BE,Succeeded,10,20,10"],
            &["a 0 10 Completed", "b 10 20 Completed"],
        );
    }

    #[test]
    fn pods_that_never_ran_are_wanted_until_they_were_deleted() {
        check(
            &[
                "a,4000,1,0,0,,LS,Running,0,50,0",
                "gives-up,4000,1,0,0,,BE,Pending,10,40,",
                "gets-some,4000,1,0,0,,BE,Pending,20,70,",
                "at-once,4000,1,0,0,,BE,Pending,30,30,",
            ],
            &[
                "a 0 50 Completed",
                "gives-up - - Withdrawn",
                "gets-some 50 70 Completed",
                "at-once - - Withdrawn",
            ],
        );
    }

    #[test]
    fn pods_without_a_usable_end_run_to_the_end_of_the_trace() {
        check(
            &[
                "open,1000,1,0,0,,LS,Running,0,,0",
                "backwards,1000,1,0,0,,LS,Failed,5,3,7",
                "zero,1000,1,0,0,,LS,Failed,6,6,6",
                "last,1000,1,0,0,,LS,Running,7,90,10",
            ],
            &[
                "open 0 90 Completed",
                "backwards 5 90 Completed",
                "zero 6 6 Completed",
                "last 7 87 Completed",
            ],
        );
    }

    #[test]
    fn pods_that_fit_nowhere_stay_unplaced_and_those_that_ask_nothing_are_rejected() {
        check(
            &[
                "other-model,1000,1,1,500,V100M16|V100M32,LS,Running,0,9,0",
                "this-model,1000,1,1,500,P100|T4,LS,Running,0,9,0",
                "too-many,1000,1,4,1000,,LS,Running,0,9,0",
                "nothing,0,0,0,0,,LS,Running,0,9,0",
            ],
            &[
                "other-model - - Unplaced",
                "this-model 0 9 Completed",
                "too-many - - Unplaced",
                "nothing - - Rejected",
            ],
        );
    }

    #[test]
    fn shares_of_gpus_add_up_to_whole_ones() {
        check(
            &[
                "a,100,1,1,700,,LS,Running,0,9,0",
                "b,100,1,1,700,,LS,Running,1,9,1",
                "c,100,1,1,700,,LS,Running,2,9,2",
            ],
            &["a 0 9 Completed", "b 1 9 Completed", "c 9 16 Completed"],
        );
    }

    #[test]
    fn a_pod_that_waits_for_most_of_a_node_reserves_it_unless_nobody_does() {
        // The second machine has room for none of them, and keeps quotas out of it.
        let machines = format!("{MACHINES}m2,4000,3000,0,\n");
        let rows = [
            "first,100,3200,0,0,,LS,Running,0,50,0",
            "large,100,3600,0,0,,LS,Running,5,60,50",
            "small,100,800,1,100,,LS,Running,10,100,10",
        ];
        let told = |reservations| told(&machines, &rows, reservations);
        assert_eq!(
            told(Reservations::AsByDefault),
            ["first 0 50 Completed", "large 50 60 Completed", "small 60 150 Completed"],
        );
        assert_eq!(
            told(Reservations::Never),
            ["first 0 50 Completed", "large 100 110 Completed", "small 10 100 Completed"],
        );
    }

    #[test]
    fn a_gang_starts_in_one_instant_or_waits_whole() {
        check_gangs(
            &[
                "first,3000,1,0,0,,LS,Running,0,20,0,",
                "g1,3000,1,0,0,,LS,Running,5,15,5,g",
                "g2,3000,1,0,0,,LS,Running,5,25,5,g",
                "small,3000,1,0,0,,LS,Running,6,16,6,",
            ],
            &[
                "first 0 20 Completed",
                "g1 20 30 Completed",
                "g2 20 40 Completed",
                "small 6 16 Completed",
            ],
        );
    }

    #[test]
    fn room_is_held_for_the_pods_of_a_gang_that_have_still_to_come() {
        check_gangs(
            &[
                "g1,3000,1,0,0,,LS,Running,0,100,0,g",
                "other,3000,1,0,0,,BE,Running,10,30,10,",
                "g2,3000,1,0,0,,LS,Running,50,90,50,g",
            ],
            &["g1 0 100 Completed", "other 90 110 Completed", "g2 50 90 Completed"],
        );
        // For a quarter of an hour at most: then whoever comes later asks like any other.
        check_gangs(
            &[
                "g1,3000,1,0,0,,LS,Running,0,2000,0,g",
                "other,3000,1,0,0,,BE,Running,10,1910,10,",
                "g2,3000,1,0,0,,LS,Running,1800,1900,1800,g",
            ],
            &["g1 0 2000 Completed", "other 900 2800 Completed", "g2 2000 2100 Completed"],
        );
    }

    #[test]
    fn a_pod_of_a_gang_that_no_machine_admits_waits_while_its_mates_run() {
        check_gangs(
            &[
                "g1,1000,1,0,0,,LS,Running,0,1000,0,g",
                "g2,1000,1,1,500,V100M16,LS,Running,0,50,0,g",
                "other,3000,1,0,0,,LS,Running,0,9,0,",
            ],
            &["g1 0 1000 Completed", "g2 - - Unplaced", "other 0 9 Completed"],
        );
    }

    fn files_of(seed: u64) -> Vec<(&'static str, String)> {
        let mut trace = sample::sample_trace(7);
        // Busy enough for pods to wait, and not so long that most of the time is spent with pods
        // which no node takes and which are tried again every half minute.
        trace.pods.retain(|pod| pod.creation < 16 * 3600);
        // Ties, so that the seed has something to shuffle.
        for pod in &mut trace.pods {
            pod.creation -= pod.creation % 7200;
        }
        trace.shuffle_ties(seed);
        let trace = Arc::new(trace);
        let queues = queues::default_queues(&trace);
        let replaying = Replaying { seed, ..with(Reservations::AsByDefault) };
        report_files(&replaying.report(&trace, queues).unwrap()).unwrap()
    }

    #[test]
    fn one_seed_gives_one_report_to_the_byte_and_another_seed_another() {
        let first = files_of(1);
        assert!(first == files_of(1), "the same seed told two stories");
        assert!(first != files_of(2), "the seed has no effect");
    }

    #[test]
    fn a_report_has_every_chart_with_its_lines_and_a_page_that_shows_them() {
        let files = files_of(0);
        let (names, texts): (Vec<_>, Vec<_>) = files.into_iter().unzip();
        let expected = [
            "report.json",
            "index.html",
            "utilisation.svg",
            "pending.svg",
            "queue-shares.svg",
            "fragmentation.svg",
            "fairness.svg",
        ];
        assert_eq!(names, expected);
        for (name, svg) in names.iter().zip(&texts).skip(2) {
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{name}");
            assert!(svg.contains("<polyline"), "{name} has lines");
            assert!(texts[1].contains(&format!("<img src=\"{name}\"")), "{name} is shown");
        }
        assert!(texts[4].contains("root.guaranteed"), "queues are in the legend");
        let json: serde_json::Value = serde_json::from_str(&texts[0]).unwrap();
        assert!(json["pods"].as_array().unwrap().len() > 100);
        let times = json["series"]["time"].as_array().unwrap().len();
        assert_eq!(json["series"]["pending"]["vcore"].as_array().unwrap().len(), times);
    }
}
