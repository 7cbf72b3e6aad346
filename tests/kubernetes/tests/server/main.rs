//! Cases of the scheduler against a real API server. The cases do the work of kubelets and
//! controllers.
//!
//! Cases run in lanes, each with its own control plane. The cases of a lane run one after the other,
//! each with its own nodes. `cargo test -p monoceros-on-kubernetes -- WORD` runs those with the word
//! in their name.
#![allow(clippy::unwrap_used, unreachable_pub)]
#![allow(clippy::needless_pass_by_value)] // JSON as it is written down.

mod bed;
mod cases;
mod cluster;
mod rights;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use bed::{Bed, Programs, say};
use cases::Case;
use cluster::Cluster;
use futures::future::try_join_all;
use tokio::time::Instant;

fn main() -> ExitCode {
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let lists = std::env::args().any(|word| word == "--list");
    if lists {
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let outcome = runtime.block_on(run(&words));
    runtime.shutdown_timeout(Duration::from_secs(1));
    match outcome {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            say(&format!("{failed} failed"));
            ExitCode::FAILURE
        }
        Err(why) => {
            say(&format!("failed: {why:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs the cases, and returns the number of failures.
async fn run(words: &[String]) -> anyhow::Result<usize> {
    let Some(programs) = Programs::find()? else { return Ok(0) };
    let is_wanted =
        |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    let lanes = cases::lanes().map(|mut lane| {
        lane.retain(|(name, _)| is_wanted(name));
        run_lane(&programs, lane)
    });
    Ok(try_join_all(lanes).await?.into_iter().sum())
}

/// Runs cases one after the other on a control plane of their own, and returns the number of
/// failures.
async fn run_lane(programs: &Programs, cases: Vec<(&str, Case)>) -> anyhow::Result<usize> {
    if cases.is_empty() {
        return Ok(0);
    }
    let mut cluster = Cluster::new(Bed::start(programs).await?).await?;
    let mut failed = 0;
    for (name, case) in cases {
        let begun = Instant::now();
        let starts = cluster.bed.starts;
        cluster.log = cluster.bed.folder().join(format!("{}.log", name.replace("::", "-")));
        let mut outcome = case(&mut cluster).await;
        // A server that has just started knows no roles for a moment.
        if outcome.is_ok() && !name.starts_with("rights::") && cluster.bed.starts == starts {
            outcome = nothing_was_forbidden(&cluster.log);
        }
        let took = begun.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => say(&format!("case {name} ... ok ({took:.1} s)")),
            Err(why) => {
                failed += 1;
                say(&format!("case {name} ... FAILED ({took:.1} s): {why:#}"));
            }
        }
        cluster.clear().await?;
    }
    Ok(failed)
}

/// Checks that the scheduler used no right that the manifests do not grant. Cases about rights have
/// their own checks.
fn nothing_was_forbidden(log: &Path) -> anyhow::Result<()> {
    let log = std::fs::read_to_string(log).unwrap_or_default();
    match log.lines().find(|line| line.contains("is forbidden")) {
        Some(line) => anyhow::bail!("a right is missing: {line}"),
        None => Ok(()),
    }
}
