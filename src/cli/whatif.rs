//! `monoceros whatif`: what would happen if something were changed, told from a snapshot.
//!
//! Nothing is tried on the scheduler that runs: two replays go on from the snapshot in this process,
//! one as it is, and one with the changes.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use monoceros_actors::image::ResourceManagerImage;
use monoceros_actors::tags::run_time_limit;

use super::cluster::Cluster;
use super::config::queues_in;
use super::connect::{self, ConnectArgs};
use super::output::{self, WrongLine};
use super::snapshot;
use crate::logging::{clean_json, clean_lines};
use crate::replay::folder::make_writable;
use crate::whatif::{self, AddedNodes, Changes, Options, SourceError, Submission};
use crate::{input, validate};

/// The exit code if something is evicted that is not evicted without the changes.
const NOT_SAFE: u8 = 3;

/// Arguments of `monoceros whatif`.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct WhatIfArgs {
    /// Another queue configuration (YAML), or a ConfigMap with one
    #[arg(long, value_name = "NEW.yaml")]
    queues: Option<PathBuf>,
    /// So many nodes more, each like the one with this id, empty
    #[arg(long, value_name = "N:NODE", value_parser = added_nodes)]
    add_nodes: Vec<AddedNodes>,
    /// Without this node; what runs there asks anew
    #[arg(long, value_name = "NODE")]
    remove_node: Vec<String>,
    /// With this node closed for new allocations
    #[arg(long, value_name = "NODE")]
    drain: Vec<String>,
    /// Without this application, which ends with all that it holds
    #[arg(long, value_name = "APP")]
    release: Vec<String>,
    /// With these applications and requests (JSON); `-` is standard input
    #[arg(long, value_name = "FILE")]
    submit: Option<PathBuf>,
    /// Begin with this snapshot, in place of one of the scheduler that runs
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// How far to look ahead, at most 366 days
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration)]
    horizon: Duration,
    /// Answer from so many runs, whose durations are drawn from what was measured; one has medians
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(whatif::RUNS_MAX)))]
    runs: u32,
    /// Draws other durations
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    /// How long an allocation needs to leave when it is evicted
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    confirm_after: Duration,
    /// Also write a page with charts, and all numbers, into this folder
    #[arg(long, value_name = "FOLDER")]
    report: Option<PathBuf>,
    /// How to print it
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    output: Shape,
}

/// A form of output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// Lines that say whether it is safe, then tables
    #[default]
    Table,
    /// One document
    Json,
}

fn duration(text: &str) -> Result<Duration, String> {
    match run_time_limit(text) {
        Ok(Some(milliseconds)) => Ok(Duration::from_millis(milliseconds.get())),
        Ok(None) => Err("it is zero".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn added_nodes(text: &str) -> Result<AddedNodes, String> {
    let parts = text.split_once(':').and_then(|(count, like)| Some((count.parse().ok()?, like)));
    match parts {
        Some((count, like)) if count > 0 && !like.is_empty() => {
            Ok(AddedNodes { count, like: like.to_owned() })
        }
        _ => Err("it is a number, a colon, and the id of a node, such as 3:node-7".to_owned()),
    }
}

/// Answers the question. The exit code says whether something is evicted because of the changes.
pub(super) fn run(args: &WhatIfArgs, connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let Some(changes) = changes(args)? else { return Ok(ExitCode::FAILURE) };
    // Checked before the replays, which may take a while.
    args.report.as_deref().map(make_writable).transpose()?;
    let image = image(args, connect)?;
    let options = Options {
        horizon: args.horizon,
        runs: args.runs,
        seed: args.seed,
        leave_after: args.confirm_after,
        ..Options::default()
    };
    let answer = whatif::answer(&image, &changes, &options)?;
    if let Some(folder) = &args.report {
        whatif::write_report(&answer, folder)?;
    }
    match args.output {
        Shape::Table => output::write(&clean_lines(&answer.text()))?,
        Shape::Json => output::write(&clean_json(&answer.to_json()?))?,
    }
    Ok(if answer.is_safe() { ExitCode::SUCCESS } else { ExitCode::from(NOT_SAFE) })
}

/// Reads the changes. `None`: the queue configuration has errors, which are printed.
fn changes(args: &WhatIfArgs) -> anyhow::Result<Option<Changes>> {
    let queues = match &args.queues {
        None => None,
        Some(path) => match queue_text(path)? {
            None => return Ok(None),
            text => text,
        },
    };
    let submit = match &args.submit {
        None => Submission::default(),
        Some(path) => {
            let text = input::read_given(path)?;
            Submission::read(&text).with_context(|| format!("`{}`", input::name(path)))?
        }
    };
    Ok(Some(Changes {
        queues,
        add_nodes: args.add_nodes.clone(),
        remove_nodes: args.remove_node.clone(),
        drain_nodes: args.drain.clone(),
        release_applications: args.release.clone(),
        submit,
    }))
}

/// Returns the queue configuration in a file, if it is valid; else its errors are printed.
fn queue_text(path: &Path) -> anyhow::Result<Option<String>> {
    let given = input::read_given(path)?;
    let checked = validate::Checked::of(input::name(path), &given);
    checked.print();
    if checked.configuration.is_none() {
        return Ok(None);
    }
    queues_in(path, &given).map(Some)
}

/// Returns the state of the resource manager that is meant.
fn image(args: &WhatIfArgs, connect: &ConnectArgs) -> anyhow::Result<ResourceManagerImage> {
    let bytes = match &args.snapshot {
        Some(path) => {
            let unreadable = || format!("cannot read `{}`", path.display());
            whatif::read_snapshot(path).with_context(unreadable)?
        }
        None => connect::run(connect, taken(connect))?,
    };
    whatif::image_in(&bytes, &connect.rm()).map_err(|error| match error {
        SourceError::Several(_) => WrongLine(error.to_string()).into(),
        error => anyhow::Error::from(error),
    })
}

/// Says in at most ten lines what another queue configuration would do to what runs and waits. Where
/// that cannot be known, it says why: the check has its answer without it.
pub(super) async fn told(cluster: &mut Cluster, queues: String) -> String {
    let answered = async {
        let bytes = snapshot::bytes(cluster).await?;
        let rm = cluster.rm.clone();
        let changes = Changes { queues: Some(queues), ..Changes::default() };
        let answer = move || {
            let image = whatif::image_in(&bytes, &rm)?;
            Ok::<_, anyhow::Error>(whatif::answer(&image, &changes, &Options::default())?)
        };
        tokio::task::spawn_blocking(answer).await?
    };
    match answered.await {
        Ok(answer) => {
            // That it is of now goes without saying.
            let lines = answer.lines().into_iter();
            let told = lines.filter(|line| !line.starts_with("from the snapshot of "));
            told.collect::<Vec<_>>().join("\n") + "\n"
        }
        Err(error) => format!("what it would do to what runs and waits is not known: {error:#}\n"),
    }
}

/// Takes a snapshot of the scheduler that runs.
async fn taken(connect: &ConnectArgs) -> anyhow::Result<Vec<u8>> {
    let mut cluster = Cluster::connect(connect).await?;
    match snapshot::bytes(&mut cluster).await {
        Err(error) => Err(cluster.name_managers(error).await),
        bytes => bytes,
    }
}
