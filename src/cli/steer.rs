//! Commands that change something: they close and open nodes, and end sessions or the scheduler.
//!
//! # Invariants
//! * A command that cannot be undone asks for confirmation, and does nothing without it. Scripts,
//!   whose standard input has ended, pass `--yes`.
//! * The scheduler logs who did it, with the reason given, and that it came from the command line.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use monoceros_proto::v1;
use tokio::time::{Instant, sleep};

use super::cluster::Cluster;
use super::output;
use crate::logging::clean;

/// Most bytes of an answer that are read.
const LONGEST_ANSWER: u64 = 64;

/// Interval between checks whether a node is empty.
const LOOK: Duration = Duration::from_millis(500);

/// Arguments of commands that name nodes.
#[derive(Clone, Debug, Args)]
pub(super) struct NodesArgs {
    /// Their ids
    #[arg(value_name = "NODE", required = true)]
    pub(super) nodes: Vec<String>,
    /// Why, for the log of the scheduler
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,
}

/// Arguments of `monoceros drain`.
#[derive(Clone, Debug, Args)]
pub(super) struct DrainArgs {
    /// Which nodes, and why
    #[command(flatten)]
    pub(super) of: NodesArgs,
    /// Wait until nothing runs on them any more
    #[arg(long)]
    pub(super) wait: bool,
    /// Give up waiting after so many seconds
    #[arg(long, value_name = "SECONDS", requires = "wait")]
    pub(super) timeout: Option<u32>,
}

/// Arguments of commands that ask first.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ConfirmArgs {
    /// Do not ask
    #[arg(short, long)]
    pub(super) yes: bool,
    /// Why, for the log of the scheduler
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,
}

/// Returns the reason for the scheduler's log.
pub(super) fn reason(given: Option<&str>) -> String {
    given.unwrap_or("monoceros command line").to_owned()
}

/// Closes nodes, and optionally waits until they are empty.
pub(super) async fn drain(cluster: &mut Cluster, args: &DrainArgs) -> anyhow::Result<ExitCode> {
    let answer = switch(cluster, &args.of, true).await?;
    if !any_known(&answer, &args.of) {
        return Ok(say_unknown(&answer)?);
    }
    let (changed, left) = (answer.changed, answer.remaining_allocations);
    output::write(&format!("{} closed, {} on them\n", nodes(changed), allocations(left.into())))?;
    if args.wait {
        let patience = args.timeout.map(|seconds| Duration::from_secs(seconds.into()));
        until_empty(cluster, &args.of.nodes, patience).await?;
    }
    Ok(say_unknown(&answer)?)
}

pub(super) async fn cordon(cluster: &mut Cluster, args: &NodesArgs) -> anyhow::Result<ExitCode> {
    let answer = switch(cluster, args, true).await?;
    if any_known(&answer, args) {
        output::write(&format!("{} closed\n", nodes(answer.changed)))?;
    }
    Ok(say_unknown(&answer)?)
}

pub(super) async fn uncordon(cluster: &mut Cluster, args: &NodesArgs) -> anyhow::Result<ExitCode> {
    let answer = switch(cluster, args, false).await?;
    if any_known(&answer, args) {
        output::write(&format!("{} opened\n", nodes(answer.changed)))?;
    }
    Ok(say_unknown(&answer)?)
}

async fn switch(
    cluster: &mut Cluster,
    args: &NodesArgs,
    drain: bool,
) -> anyhow::Result<v1::DrainNodesResponse> {
    let request = v1::DrainNodesRequest {
        rm_id: cluster.rm.clone(),
        partition_name: cluster.partition.clone(),
        node_ids: args.nodes.clone(),
        drain,
        reason: reason(args.reason.as_deref()),
    };
    Ok(cluster.admin.drain_nodes(request).await?.into_inner())
}

/// Whether any of the named nodes exists. If none does, the error alone is printed.
fn any_known(answer: &v1::DrainNodesResponse, args: &NodesArgs) -> bool {
    args.nodes.iter().any(|node| !answer.unknown_node_ids.contains(node))
}

fn say_unknown(answer: &v1::DrainNodesResponse) -> io::Result<ExitCode> {
    for node in &answer.unknown_node_ids {
        writeln!(io::stderr(), "there is no node `{}`", clean(node))?;
    }
    let all_known = answer.unknown_node_ids.is_empty();
    Ok(if all_known { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Waits until nothing runs on the nodes, and prints the remaining allocations whenever they
/// change.
async fn until_empty(
    cluster: &mut Cluster,
    ids: &[String],
    patience: Option<Duration>,
) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut before = None;
    loop {
        let found = cluster.nodes(ids, false, usize::MAX).await?;
        let left: BTreeMap<_, _> = found
            .into_iter()
            .filter(|node| node.allocations > 0)
            .map(|node| (node.node_id, node.allocations))
            .collect();
        let n_left: u64 = left.values().map(|n| u64::from(*n)).sum();
        if n_left == 0 {
            return output::write("empty\n");
        }
        if before.is_some_and(|before| before != n_left) {
            let on = nodes(u32::try_from(left.len()).unwrap_or(u32::MAX));
            output::write(&format!("{} left on {on}\n", allocations(n_left)))?;
        }
        before = Some(n_left);
        if patience.is_some_and(|patience| began.elapsed() >= patience) {
            let names: Vec<_> = left.keys().take(5).map(String::as_str).collect();
            let (on, allocations) = (names.join("`, `"), allocations(n_left));
            anyhow::bail!(
                "{allocations} still run after {} s, on `{on}`",
                began.elapsed().as_secs()
            );
        }
        sleep(LOOK).await;
    }
}

fn nodes(n: u32) -> String {
    if n == 1 { "1 node".to_owned() } else { format!("{n} nodes") }
}

fn allocations(n: u64) -> String {
    if n == 1 { "1 allocation".to_owned() } else { format!("{n} allocations") }
}

/// Makes a resource manager report everything again.
pub(super) async fn resync(cluster: &mut Cluster) -> anyhow::Result<ExitCode> {
    let rm_id = cluster.only_rm().await?;
    let request = v1::TriggerResyncRequest { rm_id, reason: reason(None) };
    let answer = cluster.admin.trigger_resync(request).await?.into_inner();
    output::write(&format!("{} streams closed\n", answer.closed_streams))?;
    Ok(ExitCode::SUCCESS)
}

/// Ends the session of a resource manager.
pub(super) async fn deregister(
    cluster: &mut Cluster,
    args: ConfirmArgs,
) -> anyhow::Result<ExitCode> {
    let rm_id = cluster.only_rm().await?;
    let registered = cluster.check_registered(&rm_id).await;
    let has_session = match registered {
        Ok(()) => true,
        Err(_) if is_claimed(cluster, &rm_id).await => false,
        Err(error) => return Err(error),
    };
    let what = format!(
        "end the session of resource manager `{}`, and forget its applications, allocations and nodes",
        clean(&rm_id)
    );
    confirm(&args, &what)?;
    let request = v1::DeregisterResourceManagerRequest {
        rm_id,
        session_id: 0,
        reason: reason(args.reason.as_deref()),
    };
    let answer = cluster.admin.deregister_resource_manager(request).await?.into_inner();
    if !has_session {
        output::write("it had no session: its claim is free\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    output::write(&format!(
        "{} applications, {} allocations, {} nodes forgotten\n",
        answer.removed_applications, answer.released_allocations, answer.removed_nodes
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a member has the claim of a resource manager.
async fn is_claimed(cluster: &mut Cluster, rm_id: &str) -> bool {
    let claims = cluster.admin.list_claims(v1::ListClaimsRequest {}).await;
    let claims = claims.map(|answer| answer.into_inner().claims).unwrap_or_default();
    claims.iter().any(|claim| claim.rm_id == rm_id && !claim.member_id.is_empty())
}

/// Ends the scheduler.
pub(super) async fn shutdown(cluster: &mut Cluster, args: ConfirmArgs) -> anyhow::Result<ExitCode> {
    confirm(&args, "end the scheduler")?;
    let request = v1::ShutdownRequest { reason: reason(args.reason.as_deref()) };
    let answer = cluster.admin.shutdown(request).await?.into_inner();
    output::write(&format!("ends within {} ms\n", answer.grace_ms))?;
    Ok(ExitCode::SUCCESS)
}

/// Asks for confirmation, unless `--yes` was given. Fails unless the answer is yes.
pub(super) fn confirm(args: &ConfirmArgs, what: &str) -> anyhow::Result<()> {
    if args.yes {
        return Ok(());
    }
    let mut stderr = io::stderr();
    write!(stderr, "This will {what}. Go on? [y/N] ").and_then(|()| stderr.flush())?;
    let mut answer = String::new();
    // Input that is not text counts as no.
    let read = io::stdin().lock().take(LONGEST_ANSWER).read_line(&mut answer);
    if is_yes(&answer) && read.is_ok() {
        return Ok(());
    }
    if answer.is_empty() {
        writeln!(stderr)?;
    }
    anyhow::bail!("nothing was done, as that was not confirmed; `--yes` does it without asking")
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].iter().any(|yes| answer.trim().eq_ignore_ascii_case(yes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_yes() {
        for (answer, expected) in [
            ("y\n", true),
            ("Yes\r\n", true),
            ("", false),
            ("\n", false),
            ("n\n", false),
            ("yesterday\n", false),
        ] {
            assert_eq!(is_yes(answer), expected, "{answer:?}");
        }
    }
}
