//! What breaks, and comes back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::ensure;
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::time::sleep;

use super::faults::{Fault, Proxy};
use crate::bed::SHIM;
use crate::cluster::Cluster;

pub async fn bindings_that_fail_in_every_way(cluster: &mut Cluster) -> anyhow::Result<()> {
    const WAYS: [Fault; 5] = [
        Fault::Refused(409),
        Fault::Refused(500),
        Fault::DoneAndRefused(500),
        Fault::DoneAndCut,
        Fault::Cut,
    ];
    cluster.create_namespace("faults", json!({})).await?;
    cluster.nodes(4, 32).await?;
    let count = AtomicUsize::new(0);
    let tried: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let counted = Arc::clone(&tried);
    let proxy = Proxy::start(cluster, move |method, path| {
        if method != "POST" || !path.ends_with("/binding") {
            return Fault::None;
        }
        let mut tried = counted.lock().unwrap();
        let times = tried.entry(path.to_owned()).or_default();
        *times += 1;
        // The first attempt of each fails, each in another way.
        if *times > 1 {
            return Fault::None;
        }
        WAYS[count.fetch_add(1, Ordering::Relaxed) % WAYS.len()]
    })
    .await?;
    let scheduler = cluster.start_with(&proxy.kubeconfig, &[]).await?;
    cluster.pods("faults", 50, json!({})).await?;
    cluster.wait_bound("faults", 50).await?;
    cluster.agrees(&scheduler).await?;
    let tried = tried.lock().unwrap().clone();
    ensure!(tried.len() == 50 && tried.values().all(|times| *times <= 2), "{tried:?}");
    let again = tried.values().filter(|times| **times == 2).count();
    ensure!(again == 30, "{again} were tried again, and 30 were not bound the first time");
    Ok(())
}

pub async fn a_scheduler_killed_in_the_middle(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("killed", json!({})).await?;
    cluster.nodes(50, 32).await?;
    cluster.pods("killed", 1_000, json!({})).await?;
    let mut scheduler = cluster.start(SHIM, &[]).await?;
    while cluster.bound("killed").await? < 200 {
        sleep(Duration::from_millis(20)).await;
    }
    scheduler.end(Signal::SIGKILL).await?;
    let bound = cluster.places("killed").await?;
    let so_far = bound.values().flatten().count();
    ensure!(so_far < 1_000, "it was done before it could be killed");
    let scheduler = cluster.start(SHIM, &[]).await?;
    cluster.wait_bound("killed", 1_000).await?;
    let after = cluster.places("killed").await?;
    for (name, node) in bound {
        ensure!(node.is_none() || after[&name] == node, "{name} was moved");
    }
    cluster.agrees(&scheduler).await
}

pub async fn an_api_server_killed_for_ten_seconds(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("server", json!({})).await?;
    cluster.nodes(20, 32).await?;
    let mut scheduler = cluster.start(SHIM, &["--lease=monoceros"]).await?;
    cluster.pods("server", 300, json!({})).await?;
    cluster.bed.kill_server()?;
    sleep(Duration::from_secs(10)).await;
    cluster.bed.start_server().await?;
    ensure!(!scheduler.has_ended()?, "{}", scheduler.log());
    cluster.wait_bound("server", 300).await?;
    for number in 300..320 {
        cluster.pod("server", &format!("p{number}"), json!({})).await?;
    }
    cluster.wait_bound("server", 320).await?;
    cluster.agrees(&scheduler).await
}
