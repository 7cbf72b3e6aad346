//! Failures of the API server and of connections.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::ensure;
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::faults::{Fault, Proxy};
use crate::bed::SHIM;
use crate::cluster::{Cluster, eventually};

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
        // The first attempt of each binding fails, each in a different way.
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

/// Requests that the server does not answer are given up after ten seconds. The server decides
/// their outcome.
pub async fn bindings_that_are_not_answered(cluster: &mut Cluster) -> anyhow::Result<()> {
    // Never done; done at once; done between the timeout and the next attempt; done after that.
    const WAYS: [Fault; 4] = [
        Fault::Hangs,
        Fault::DoneAndHangs(Duration::ZERO),
        Fault::DoneAndHangs(Duration::from_millis(10_500)),
        Fault::DoneAndHangs(Duration::from_secs(14)),
    ];
    cluster.create_namespace("hanging", json!({})).await?;
    cluster.nodes(4, 32).await?;
    let ways: Arc<Mutex<BTreeMap<String, Fault>>> = Arc::default();
    let chosen = Arc::clone(&ways);
    let proxy = Proxy::start(cluster, move |method, path| {
        let mut chosen = chosen.lock().unwrap();
        if method != "POST" || !path.ends_with("/binding") || chosen.contains_key(path) {
            return Fault::None;
        }
        let way = WAYS[chosen.len() % WAYS.len()];
        chosen.insert(path.to_owned(), way);
        way
    })
    .await?;
    let scheduler = cluster.start_with(&proxy.kubeconfig, &[]).await?;
    cluster.pods("hanging", 20, json!({})).await?;
    cluster.wait_bound("hanging", 20).await?;
    let until = Instant::now() + Duration::from_secs(14);
    // Everything sent has reached the server, except the request that never does.
    eventually("bindings to be done", async || {
        let is_under_way = proxy.bindings().iter().filter(|one| one.status.is_none()).count() > 5;
        Ok(if Instant::now() < until && is_under_way { Err(String::new()) } else { Ok(()) })
    })
    .await?;
    let ways = ways.lock().unwrap().clone();
    ensure!(ways.len() == 20, "{ways:?}");
    for (path, way) in ways {
        let sent: Vec<_> = proxy.bindings().into_iter().filter(|one| one.path == path).collect();
        let done = sent.iter().filter(|one| one.is_done()).count();
        ensure!(done == 1, "{path} was bound {done} times: {sent:?}");
        let expected = match way {
            // The pod is bound, which the scheduler notices before the next attempt.
            Fault::DoneAndHangs(time) if time < Duration::from_secs(11) => 1,
            _ => 2,
        };
        ensure!(sent.len() == expected, "{path} ({way:?}) was sent {} times: {sent:?}", sent.len());
    }
    cluster.agrees(&scheduler).await
}

pub async fn a_scheduler_killed_in_the_middle(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("killed", json!({})).await?;
    cluster.nodes(50, 32).await?;
    cluster.pods("killed", 1_000, json!({})).await?;
    // Slow enough that the check is made during the work.
    let proxy = Proxy::start(cluster, |method, path| {
        let is_binding = method == "POST" && path.ends_with("/binding");
        if is_binding { Fault::Late(Duration::from_millis(300)) } else { Fault::None }
    })
    .await?;
    let mut scheduler = cluster.start_with(&proxy.kubeconfig, &[]).await?;
    while proxy.bindings().iter().filter(|one| one.is_done()).count() < 300 {
        sleep(Duration::from_millis(5)).await;
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
    // With a shorter one the process would end, and a supervisor start it again.
    cluster.environment.push(("MONOCEROS__KUBERNETES__LEASE_DURATION", "20"));
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
