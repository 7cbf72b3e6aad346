//! Two replicas, one of which schedules.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::bed::SHIM;
use crate::cluster::{Cluster, Scheduler, eventually};

const FLAGS: [&str; 1] = ["--lease=monoceros"];

async fn leads(scheduler: &Scheduler) -> anyhow::Result<bool> {
    Ok(scheduler.ask("/ws/v1/partitions").await.is_ok_and(|(status, _)| status == 200)
        && scheduler.ask("/readyz").await.is_ok_and(|(_, text)| text == "serving\n"))
}

/// The one that schedules, and the one that stands by.
async fn two(cluster: &Cluster) -> anyhow::Result<(Scheduler, Scheduler)> {
    let first = cluster.start(SHIM, &FLAGS).await?;
    eventually("one to lead", async || {
        Ok(if leads(&first).await? { Ok(()) } else { Err(first.log()) })
    })
    .await?;
    let second = cluster.start(SHIM, &FLAGS).await?;
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
    ensure!(took < Duration::from_secs(25), "it took {took:?}");
    cluster.wait_bound("two", 100).await?;
    cluster.agrees(&second).await
}

pub async fn a_leader_that_is_paused(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("paused", json!({})).await?;
    cluster.nodes(10, 32).await?;
    let (mut first, second) = two(cluster).await?;
    // It has work when it is stopped, and would go on with it.
    let many = cluster.pods("paused", 200, json!({}));
    let pause = async {
        sleep(Duration::from_millis(200)).await;
        first.signal(Signal::SIGSTOP)
    };
    let (made, paused) = tokio::join!(many, pause);
    made?;
    paused?;
    takes_over(&second).await?;
    cluster.wait_bound("paused", 200).await?;
    let before = cluster.places("paused").await?;
    // No room that the other could not give away by itself: what wakes would see these as its own.
    for number in 200..220 {
        cluster
            .pod(
                "paused",
                &format!("p{number}"),
                json!({"spec": {"schedulingGates": [{"name": "g"}]}}),
            )
            .await?;
    }
    first.signal(Signal::SIGCONT)?;
    eventually("the one that slept to end", async || {
        Ok(if first.has_ended()? { Ok(()) } else { Err(String::new()) })
    })
    .await?;
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
