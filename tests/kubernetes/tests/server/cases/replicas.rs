//! Two replicas, one of which schedules.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::faults::{Fault, Proxy};
use crate::bed::SHIM;
use crate::cluster::{Cluster, Scheduler, eventually};

const FLAGS: [&str; 1] = ["--lease=monoceros"];

async fn leads(scheduler: &Scheduler) -> anyhow::Result<bool> {
    Ok(scheduler.ask("/ws/v1/partitions").await.is_ok_and(|(status, _)| status == 200)
        && scheduler.ask("/readyz").await.is_ok_and(|(_, text)| text == "serving\n"))
}

/// Returns the leader and the standby replica.
async fn two(cluster: &Cluster) -> anyhow::Result<(Scheduler, Scheduler)> {
    let kubeconfig = cluster.bed.kubeconfig(SHIM)?;
    two_with(cluster, &kubeconfig, &kubeconfig).await
}

/// Same as above, with a proxy for each replica.
async fn two_with(
    cluster: &Cluster,
    leader: &Path,
    other: &Path,
) -> anyhow::Result<(Scheduler, Scheduler)> {
    let first = cluster.start_with(leader, &FLAGS).await?;
    eventually("one to lead", async || {
        Ok(if leads(&first).await? { Ok(()) } else { Err(first.log()) })
    })
    .await?;
    let second = cluster.start_with(other, &FLAGS).await?;
    second.ready().await?;
    eventually("the other to stand by and say who leads", async || {
        let (status, text) = second.ask("/ws/v1/partitions").await?;
        Ok(if status == 503 && text.contains("schedules") { Ok(()) } else { Err(text) })
    })
    .await?;
    Ok((first, second))
}

async fn takes_over(scheduler: &Scheduler) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    eventually("the other to take over", async || {
        Ok(if leads(scheduler).await? { Ok(()) } else { Err(String::new()) })
    })
    .await?;
    Ok(begun.elapsed())
}

pub async fn a_leader_that_is_killed(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("two", json!({})).await?;
    cluster.nodes(10, 32).await?;
    let (mut first, second) = two(cluster).await?;
    cluster.pods("two", 100, json!({})).await?;
    first.end(Signal::SIGKILL).await?;
    let took = takes_over(&second).await?;
    ensure!(took < Duration::from_secs(16), "it took {took:?}");
    cluster.wait_bound("two", 100).await?;
    cluster.agrees(&second).await
}

/// A replica that wakes after its lease has queued bindings and pending pods, and sends no binding.
pub async fn a_leader_that_is_paused(cluster: &mut Cluster) -> anyhow::Result<()> {
    /// Default limit of a leader's bindings in flight.
    const AT_ONCE: usize = 64;
    cluster.create_namespace("paused", json!({})).await?;
    cluster.nodes(10, 32).await?;
    // For a while after it wakes, the paused leader does not learn of the new one. It has to notice
    // by its own clock that it may not act.
    let has_slept = Arc::new(AtomicBool::new(false));
    let is_deaf = Arc::clone(&has_slept);
    let slow = Proxy::start(cluster, move |method, path| {
        if method == "POST" && path.ends_with("/binding") {
            Fault::Late(Duration::from_secs(4))
        } else if path.contains("/leases/") && is_deaf.load(Ordering::Relaxed) {
            Fault::Late(Duration::from_secs(3))
        } else {
            Fault::None
        }
    })
    .await?;
    let quick = Proxy::start(cluster, |_, _| Fault::None).await?;
    let (mut first, second) = two_with(cluster, &slow.kubeconfig, &quick.kubeconfig).await?;
    cluster.pods("paused", 200, json!({})).await?;
    eventually("bindings to be under way", async || {
        let sent = slow.bindings().len();
        Ok(if sent == AT_ONCE { Ok(()) } else { Err(format!("{sent} are")) })
    })
    .await?;
    first.signal(Signal::SIGSTOP)?;
    let sent = slow.bindings().len();
    ensure!(sent == AT_ONCE, "{sent} were under way: it was stopped too late");
    takes_over(&second).await?;
    cluster.wait_bound("paused", 200).await?;
    ensure!(slow.bindings().len() == AT_ONCE, "it has sent something in its sleep");
    let before = cluster.places("paused").await?;
    let more = cluster.pods_from("paused", 200, 40, json!({}));
    let wake = async {
        sleep(Duration::from_millis(20)).await;
        has_slept.store(true, Ordering::Relaxed);
        first.signal(Signal::SIGCONT)
    };
    let (made, woken) = tokio::join!(more, wake);
    made?;
    woken?;
    eventually("the one that slept to end", async || {
        Ok(if first.has_ended()? { Ok(()) } else { Err(String::new()) })
    })
    .await?;
    cluster.wait_bound("paused", 240).await?;
    let sent = slow.bindings().len();
    ensure!(sent == AT_ONCE, "it has sent {} bindings when it woke", sent - AT_ONCE);
    let after = cluster.places("paused").await?;
    ensure!(before.iter().all(|(name, node)| after.get(name) == Some(node)), "something moved");
    cluster.agrees(&second).await
}

pub async fn a_leader_that_leaves(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.nodes(2, 8).await?;
    let (mut first, second) = two(cluster).await?;
    first.signal(Signal::SIGTERM)?;
    let took = takes_over(&second).await.context("after it was given back")?;
    ensure!(took < Duration::from_secs(4), "a lease that is given back is taken at once: {took:?}");
    first.end(Signal::SIGKILL).await
}
