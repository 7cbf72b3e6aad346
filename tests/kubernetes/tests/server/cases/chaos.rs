//! Everything at once, for a minute; then all books agree.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::faults::{Fault, Proxy};
use crate::cluster::{Cluster, Scheduler, eventually};

const NODES: u64 = 12;
const CORES: u64 = 8;
const MINUTE: Duration = Duration::from_secs(60);

/// Numbers from a seed.
#[derive(Clone)]
struct Dice(Arc<AtomicU64>);

impl Dice {
    fn below(&self, bound: u64) -> u64 {
        let mut mixed = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

async fn one_thing(cluster: &Cluster, dice: &Dice, number: u64) -> anyhow::Result<()> {
    let node = format!("n{}", dice.below(NODES));
    let path = format!("/api/v1/nodes/{node}");
    match dice.below(20) {
        0..9 => {
            let labels = json!({"applicationId": format!("app-{}", dice.below(5))});
            let cpu = (1 + dice.below(3)).to_string();
            let containers = json!([{"name": "c", "image": "c",
                "resources": {"requests": {"cpu": cpu}}}]);
            let more = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
            cluster.pod("chaos", &format!("p{number}"), more).await?;
        }
        9..14 => {
            let places = cluster.places("chaos").await?;
            let at = usize::try_from(dice.below(places.len().max(1) as u64))?;
            if let Some(name) = places.keys().nth(at) {
                cluster.delete_pod("chaos", name).await?;
            }
        }
        14 => {
            let is_closed = dice.below(2) == 0;
            drop(cluster.patch(&path, json!({"spec": {"unschedulable": is_closed}})).await);
        }
        15 => {
            let label = dice.below(3).to_string();
            drop(cluster.patch(&path, json!({"metadata": {"labels": {"l": label}}})).await);
        }
        16 => {
            let taints = match dice.below(2) {
                0 => json!([{"key": "k", "effect": "NoSchedule"}]),
                _ => json!([]),
            };
            drop(cluster.patch(&path, json!({"spec": {"taints": taints}})).await);
        }
        17 => {
            cluster.delete(&path).await?;
            if let Ok(cores) = u32::try_from(CORES) {
                cluster.node(&node, cores, json!({})).await?;
            }
        }
        18 => {
            let theirs = json!({"spec": {"schedulerName": "theirs", "nodeName": node}});
            cluster.pod("chaos", &format!("t{number}"), theirs).await?;
        }
        _ => {
            let groups = json!([{"name": "g", "minMember": 3, "minResource": {"cpu": "1"}}]);
            for member in 0..3 {
                let annotations = json!({"yunikorn.apache.org/app-id": format!("gang-{number}"),
                    "yunikorn.apache.org/task-group-name": "g",
                    "yunikorn.apache.org/task-groups": groups.to_string()});
                let more = json!({"metadata": {"annotations": annotations}});
                cluster.pod("chaos", &format!("g{number}-{member}"), more).await?;
            }
        }
    }
    Ok(())
}

fn cores(pod: &Value) -> u64 {
    let cpu = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].as_str();
    cpu.and_then(|cpu| cpu.parse().ok()).unwrap_or(0)
}

pub async fn a_minute_of_everything(cluster: &mut Cluster) -> anyhow::Result<()> {
    let dice = Dice(Arc::new(AtomicU64::new(7)));
    cluster.create_namespace("chaos", json!({})).await?;
    cluster.nodes(usize::try_from(NODES)?, u32::try_from(CORES)?).await?;
    // A node that is reserved for a large pod is room that a small one does not get.
    cluster.environment.push(("MONOCEROS__SCHEDULER__RESERVATIONS", "false"));
    let rolled = dice.clone();
    let proxy = Proxy::start(cluster, move |method, path| {
        let is_binding = method == "POST" && path.ends_with("/binding");
        match rolled.below(20) {
            0 if is_binding => Fault::Refused(500),
            1 if is_binding => Fault::DoneAndCut,
            2 if is_binding => Fault::DoneAndRefused(500),
            3 if is_binding => Fault::Refused(409),
            _ => Fault::None,
        }
    })
    .await?;
    // Two bindings at once would have the server refuse the second; what counts is what it has taken.
    let mut scheduler: Scheduler = cluster.start_with(&proxy.kubeconfig, &[]).await?;
    let begun = Instant::now();
    let (mut number, mut next_kill, mut server_was_killed) = (0, 12, false);
    while begun.elapsed() < MINUTE {
        number += 1;
        one_thing(cluster, &dice, number).await?;
        let seconds = begun.elapsed().as_secs();
        if seconds >= next_kill {
            next_kill += 12;
            scheduler.end(Signal::SIGKILL).await?;
            scheduler = cluster.start_with(&proxy.kubeconfig, &[]).await?;
        }
        if seconds >= 30 && !server_was_killed {
            server_was_killed = true;
            cluster.bed.kill_server()?;
            sleep(Duration::from_secs(2)).await;
            cluster.bed.start_server().await?;
        }
        sleep(Duration::from_millis(10)).await;
    }
    for node in 0..NODES {
        let open = json!({"spec": {"unschedulable": false, "taints": []}});
        drop(cluster.patch(&format!("/api/v1/nodes/n{node}"), open).await);
    }
    // A node that others have filled above what it has is room that the whole cluster lacks.
    for pod in cluster.list("/api/v1/namespaces/chaos/pods?limit=10000").await? {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        if name.starts_with('t') {
            cluster.delete_pod("chaos", name).await?;
        }
    }
    cluster.agrees(&scheduler).await?;
    eventually("nothing to wait that fits", async || {
        let pods = cluster.list("/api/v1/namespaces/chaos/pods?limit=10000").await?;
        let on = |node: &str| -> u64 {
            pods.iter().filter(|pod| pod["spec"]["nodeName"] == *node).map(cores).sum()
        };
        let most = (0..NODES).map(|node| CORES.saturating_sub(on(&format!("n{node}")))).max();
        let most = most.unwrap_or(0);
        let waits = |pod: &&Value| {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            pod["spec"]["nodeName"].is_null() && name.starts_with('p') && cores(pod) <= most
        };
        Ok(match pods.iter().find(waits) {
            None => Ok(()),
            Some(pod) => Err(format!("{pod} would fit into {most} cores")),
        })
    })
    .await?;
    let pods = cluster.list("/api/v1/namespaces/chaos/pods?limit=10000").await?;
    for node in 0..NODES {
        let name = format!("n{node}");
        let used: u64 = pods.iter().filter(|pod| pod["spec"]["nodeName"] == *name).map(cores).sum();
        ensure!(used <= CORES, "{name} has {used} cores in use");
    }
    cluster.agrees(&scheduler).await
}
