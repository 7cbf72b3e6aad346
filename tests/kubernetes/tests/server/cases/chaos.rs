//! Random changes for a minute, after which all books agree.

use std::collections::BTreeSet;
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

/// Random numbers from a seed.
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

/// Adds a pod of an application, or a gang of three, in one of three ways.
async fn create(cluster: &Cluster, dice: &Dice, number: u64) -> anyhow::Result<()> {
    match dice.below(16) {
        0..9 => {
            let labels = json!({"applicationId": format!("app-{}", dice.below(5))});
            let cpu = (1 + dice.below(3)).to_string();
            let containers = json!([{"name": "c", "image": "c",
                "resources": {"requests": {"cpu": cpu}}}]);
            let more = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
            cluster.pod("chaos", &format!("p{number}"), more).await?;
        }
        // Anti-affinity between these pods.
        9 | 10 => {
            let kind = format!("kind-{}", dice.below(3));
            let term = json!({"topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {APART: kind}}});
            let affinity = json!({"podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [term]}});
            let more =
                json!({"metadata": {"labels": {APART: kind}}, "spec": {"affinity": affinity}});
            cluster.pod("chaos", &format!("a{number}"), more).await?;
        }
        // A host port for these pods.
        11 | 12 => {
            let port = json!([{"containerPort": 1, "hostPort": 9_000 + dice.below(3)}]);
            let containers = json!([{"name": "c", "image": "c", "ports": port,
                "resources": {"requests": {"cpu": "1"}}}]);
            let more = json!({"spec": {"containers": containers}});
            cluster.pod("chaos", &format!("h{number}"), more).await?;
        }
        13 => {
            let path = "/apis/scheduling.k8s.io/v1beta1/namespaces/chaos/podgroups";
            let name = format!("g{number}");
            let group = json!({"metadata": {"name": name},
                "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}});
            cluster.create(path, group).await?;
            for member in 0..4 {
                let more = json!({"spec": {"schedulingGroup": {"podGroupName": name}}});
                cluster.pod("chaos", &format!("m{number}-{member}"), more).await?;
            }
        }
        _ => {
            let groups = json!([{"name": "g", "minMember": 3, "minResource": {"cpu": "1"}}]);
            for member in 0..3 {
                // Places of deleted members are held only for a short time, since no pod replaces
                // them.
                let annotations = json!({"yunikorn.apache.org/app-id": format!("gang-{number}"),
                    "yunikorn.apache.org/schedulingPolicyParameters": "placeholderTimeoutInSeconds=3",
                    "yunikorn.apache.org/task-group-name": "g",
                    "yunikorn.apache.org/task-groups": groups.to_string()});
                let more = json!({"metadata": {"annotations": annotations}});
                cluster.pod("chaos", &format!("g{number}-{member}"), more).await?;
            }
        }
    }
    Ok(())
}

async fn one_thing(cluster: &Cluster, dice: &Dice, number: u64) -> anyhow::Result<()> {
    let node = format!("n{}", dice.below(NODES));
    let path = format!("/api/v1/nodes/{node}");
    match dice.below(21) {
        0..10 => create(cluster, dice, number).await?,
        10..16 => {
            let places = cluster.places("chaos").await?;
            let at = usize::try_from(dice.below(places.len().max(1) as u64))?;
            if let Some(name) = places.keys().nth(at) {
                cluster.delete_pod("chaos", name).await?;
            }
        }
        16 => {
            let is_closed = dice.below(2) == 0;
            drop(cluster.patch(&path, json!({"spec": {"unschedulable": is_closed}})).await);
        }
        17 => {
            let label = dice.below(3).to_string();
            drop(cluster.patch(&path, json!({"metadata": {"labels": {"l": label}}})).await);
        }
        18 => {
            let taints = match dice.below(2) {
                0 => json!([{"key": "k", "effect": "NoSchedule"}]),
                _ => json!([]),
            };
            drop(cluster.patch(&path, json!({"spec": {"taints": taints}})).await);
        }
        19 => {
            cluster.delete(&path).await?;
            if let Ok(cores) = u32::try_from(CORES) {
                cluster.node(&node, cores, json!({})).await?;
            }
        }
        _ => {
            let theirs = json!({"spec": {"schedulerName": "theirs", "nodeName": node}});
            cluster.pod("chaos", &format!("t{number}"), theirs).await?;
        }
    }
    Ok(())
}

/// Label of pods with anti-affinity to pods that have the same value.
const APART: &str = "apart";

fn cores(pod: &Value) -> u64 {
    let cpu = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].as_str();
    cpu.and_then(|cpu| cpu.parse().ok()).unwrap_or(0)
}

/// Returns what no two pods of a node may share: the value of the label [`APART`], or a host port.
fn alone(pod: &Value) -> Option<String> {
    let kind = pod["metadata"]["labels"][APART].as_str().map(str::to_owned);
    let port = pod["spec"]["containers"][0]["ports"][0]["hostPort"].as_u64();
    kind.or_else(|| Some(format!("port {}", port?)))
}

/// Use of a node.
#[derive(Debug, Default)]
struct Used {
    cores: u64,
    alone: BTreeSet<String>,
    /// Whether two pods share a value or port.
    is_shared: bool,
}

fn used(pods: &[Value], node: &str) -> Used {
    let mut used = Used::default();
    for pod in pods.iter().filter(|pod| pod["spec"]["nodeName"] == *node) {
        used.cores += cores(pod);
        used.is_shared |= alone(pod).is_some_and(|it| !used.alone.insert(it));
    }
    used
}

fn nodes() -> impl Iterator<Item = String> {
    (0..NODES).map(|node| format!("n{node}"))
}

pub async fn a_minute_of_everything(cluster: &mut Cluster) -> anyhow::Result<()> {
    let dice = Dice(Arc::new(AtomicU64::new(7)));
    cluster.create_namespace("chaos", json!({})).await?;
    cluster.nodes(usize::try_from(NODES)?, u32::try_from(CORES)?).await?;
    // Without this setting a node reserved for a large pod would be closed to small ones.
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
    // The server refuses the second of two concurrent bindings. Only accepted ones count.
    let mut scheduler: Scheduler = cluster.start_with(&proxy.kubeconfig, &[]).await?;
    let begun = Instant::now();
    let (mut number, mut next_kill, mut server_kills) = (0, 12, vec![42, 21]);
    while begun.elapsed() < MINUTE {
        number += 1;
        one_thing(cluster, &dice, number).await?;
        let seconds = begun.elapsed().as_secs();
        if seconds >= next_kill {
            next_kill += 12;
            scheduler.end(Signal::SIGKILL).await?;
            scheduler = cluster.start_with(&proxy.kubeconfig, &[]).await?;
        }
        if server_kills.last().is_some_and(|at| seconds >= *at) {
            server_kills.pop();
            cluster.bed.kill_server()?;
            sleep(Duration::from_secs(2)).await;
            cluster.bed.start_server().await?;
        }
        sleep(Duration::from_millis(10)).await;
    }
    for node in nodes() {
        let open = json!({"spec": {"unschedulable": false, "taints": []}});
        drop(cluster.patch(&format!("/api/v1/nodes/{node}"), open).await);
    }
    cluster.agrees(&scheduler).await?;
    eventually("nothing to wait that fits", async || {
        let pods = cluster.list("/api/v1/namespaces/chaos/pods?limit=10000").await?;
        let all: Vec<_> = nodes().map(|node| used(&pods, &node)).collect();
        // Members of gangs wait for each other, which is correct.
        let is_plain = |pod: &Value| {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            name.starts_with(['p', 'a', 'h'])
        };
        let fits = |pod: &Value, used: &Used| {
            used.cores + cores(pod) <= CORES
                && alone(pod).is_none_or(|it| !used.alone.contains(&it))
        };
        let is_wrong = |pod: &&Value| {
            pod["spec"]["nodeName"].is_null()
                && is_plain(pod)
                && all.iter().any(|used| fits(pod, used))
        };
        Ok(match pods.iter().find(is_wrong) {
            None => Ok(()),
            Some(pod) => Err(format!("{pod} would fit: {all:?}")),
        })
    })
    .await?;
    let pods = cluster.list("/api/v1/namespaces/chaos/pods?limit=10000").await?;
    // Pods bound by others may exceed the capacity of the node.
    let by_others =
        |pod: &Value| pod["metadata"]["name"].as_str().is_some_and(|it| it.starts_with('t'));
    let ours: Vec<_> = pods.iter().filter(|pod| !by_others(pod)).cloned().collect();
    for node in nodes() {
        let used = used(&ours, &node);
        ensure!(used.cores <= CORES, "{node} has {} cores in use", used.cores);
        ensure!(!used.is_shared, "two on {node} have what one may have there: {pods:?}");
    }
    cluster.agrees(&scheduler).await
}
