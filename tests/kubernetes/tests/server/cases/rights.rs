//! Missing rights: each is logged at a limited rate, and work that does not need it continues.

use std::time::Duration;

use anyhow::ensure;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::faults::{Fault, Proxy};
use super::preemption::with;
use super::ruling::{HALVES, of};
use crate::bed::{NOBODY, SHIM};
use crate::cluster::{Cluster, Scheduler, eventually};
use crate::rights::Right;

/// How long log lines are counted.
const WHILE: Duration = Duration::from_secs(5);

fn right(group: &'static str, resource: &'static str, verb: &'static str) -> Right {
    Right { group, resource, verb }
}

/// Waits until the log names each of these rights, and checks that it neither repeats them nor
/// names others.
async fn are_missed(scheduler: &Scheduler, rights: &[Right]) -> anyhow::Result<()> {
    for right in rights {
        eventually(&format!("{right:?} to be missed"), async || {
            let log = scheduler.log();
            Ok(if right.missed(&log) > 0 { Ok(()) } else { Err(log) })
        })
        .await?;
    }
    sleep(WHILE).await;
    let log = scheduler.log();
    for right in rights {
        let lines = right.missed(&log);
        ensure!(lines <= 2, "{right:?} is missed in {lines} lines:\n{log}");
    }
    let all = log.lines().filter(|line| line.contains("is forbidden")).count();
    let known: usize = rights.iter().map(|right| right.missed(&log)).sum();
    ensure!(all == known, "something else is missing:\n{log}");
    Ok(())
}

/// Checks that from now on the log has these lines only.
fn fresh_log(cluster: &mut Cluster, name: &str) {
    cluster.log = cluster.bed.folder().join(format!("rights-{name}.log"));
}

async fn is_not_ready(scheduler: &Scheduler) -> anyhow::Result<()> {
    let (status, text) = scheduler.ask("/readyz").await?;
    ensure!(status == 503, "{status} {text}");
    Ok(())
}

pub async fn none_at_all(cluster: &mut Cluster) -> anyhow::Result<()> {
    let mut scheduler = cluster.start(NOBODY, &["--lease=monoceros"]).await?;
    let pods = right("", "pods", "list");
    eventually("it to say what is missing", async || {
        let log = scheduler.log();
        Ok(if pods.missed(&log) > 0 { Ok(()) } else { Err(log) })
    })
    .await?;
    is_not_ready(&scheduler).await?;
    let before = pods.missed(&scheduler.log());
    sleep(WHILE).await;
    let after = pods.missed(&scheduler.log());
    ensure!(after == before, "the log says it again and again: {before}, then {after} times");
    ensure!(!scheduler.has_ended()?);
    scheduler.end(Signal::SIGTERM).await
}

pub async fn to_read_the_cluster(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("reading", json!({})).await?;
    cluster.node("a", 8, json!({})).await?;
    for (name, missing) in [
        ("nodes", right("", "nodes", "list")),
        ("maps", right("", "configmaps", "list")),
        ("groups", right("scheduling.k8s.io", "podgroups", "list")),
    ] {
        fresh_log(cluster, name);
        cluster.take(&[missing]).await?;
        let scheduler = cluster.start(SHIM, &[]).await?;
        cluster.pod("reading", name, json!({})).await?;
        are_missed(&scheduler, &[missing]).await?;
        is_not_ready(&scheduler).await?;
        let pod = cluster.read_pod("reading", name).await?;
        ensure!(pod["spec"]["nodeName"].is_null(), "it was bound by who had not read all");
        // The scheduler continues without a restart.
        cluster.give(&[missing]).await?;
        cluster.wait_node("reading", name).await?;
        scheduler.ready().await?;
    }
    Ok(())
}

pub async fn to_hold_the_lease(cluster: &mut Cluster) -> anyhow::Result<()> {
    let leases = "/apis/coordination.k8s.io/v1/namespaces/monoceros/leases";
    cluster.create_namespace("leading", json!({})).await?;
    cluster.node("a", 8, json!({})).await?;
    for verb in ["create", "get", "update"] {
        fresh_log(cluster, verb);
        if verb == "update" {
            // As if the earlier holder had released it.
            let given_back =
                json!({"metadata": {"name": "monoceros"}, "spec": {"holderIdentity": ""}});
            cluster.create(leases, given_back).await?;
        }
        let missing = right("coordination.k8s.io", "leases", verb);
        cluster.take(&[missing]).await?;
        let mut scheduler = cluster.start(SHIM, &["--lease=monoceros"]).await?;
        cluster.pod("leading", verb, json!({})).await?;
        are_missed(&scheduler, &[missing]).await?;
        ensure!(!scheduler.has_ended()?);
        let pod = cluster.read_pod("leading", verb).await?;
        ensure!(pod["spec"]["nodeName"].is_null(), "it was bound by who does not lead");
        cluster.give(&[missing]).await?;
        cluster.wait_node("leading", verb).await?;
        scheduler.end(Signal::SIGKILL).await?;
        cluster.delete(&format!("{leases}/monoceros")).await?;
    }
    Ok(())
}

pub async fn to_bind(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("binding", json!({})).await?;
    cluster.nodes(2, 8).await?;
    let missing = right("", "pods/binding", "create");
    cluster.take(&[missing]).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    cluster.pods("binding", 5, json!({})).await?;
    let nowhere = json!({"spec": {"nodeSelector": {"no": "where"}}});
    cluster.pod("binding", "nowhere", nowhere).await?;
    are_missed(&scheduler, &[missing]).await?;
    cluster.wait_reason("binding", "nowhere", "Unschedulable", "node selector").await?;
    eventually("an event that says why", async || {
        let events = cluster.list("/apis/events.k8s.io/v1/namespaces/binding/events").await?;
        let is_it = |event: &&Value| event["reason"] == "FailedBinding";
        let note = events.iter().find(is_it).map(|event| event["note"].to_string());
        Ok(match note {
            Some(note) if note.contains("pods/binding") => Ok(()),
            note => Err(format!("{note:?}")),
        })
    })
    .await?;
    ensure!(cluster.bound("binding").await? == 0);
    cluster.give(&[missing]).await?;
    cluster.wait_bound("binding", 5).await?;
    cluster.agrees(&scheduler).await
}

/// Without the right to read pods the outcome of a failed binding is unknown until the watch
/// reports it.
pub async fn to_look_up_bindings(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("outcomes", json!({})).await?;
    cluster.nodes(2, 8).await?;
    let missing = right("", "pods", "get");
    cluster.take(&[missing]).await?;
    let proxy = Proxy::start(cluster, |method, path| match path.strip_suffix("/binding") {
        Some(pod) if method == "POST" && pod.ends_with("p1") => Fault::DoneAndRefused(500),
        Some(pod) if method == "POST" && pod.ends_with("p3") => Fault::DoneAndCut,
        _ => Fault::None,
    })
    .await?;
    let scheduler = cluster.start_with(&proxy.kubeconfig, &[]).await?;
    cluster.pods("outcomes", 5, json!({})).await?;
    are_missed(&scheduler, &[missing]).await?;
    cluster.wait_bound("outcomes", 5).await?;
    cluster.agrees(&scheduler).await?;
    let done = proxy.bindings().iter().filter(|one| one.is_done()).count();
    ensure!(done == 5, "{:?}", proxy.bindings());
    cluster.give(&[missing]).await
}

pub async fn to_write_conditions_and_events(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("telling", json!({})).await?;
    cluster.node("a", 64, json!({})).await?;
    let own = json!({"spec": {"schedulerName": "theirs"}});
    cluster.pod("monoceros", "own", own).await?;
    cluster.environment.push(("POD_NAME", "own"));
    let missing = [
        right("", "pods/status", "patch"),
        right("events.k8s.io", "events", "create"),
        right("scheduling.k8s.io", "podgroups/status", "patch"),
        right("", "pods", "patch"),
    ];
    cluster.take(&missing).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    let groups = "/apis/scheduling.k8s.io/v1beta1/namespaces/telling/podgroups";
    let group = json!({"metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}});
    cluster.create(groups, group).await?;
    let nowhere = json!({"no": "where"});
    let member =
        json!({"spec": {"nodeSelector": nowhere, "schedulingGroup": {"podGroupName": "g"}}});
    for number in 0..2 {
        cluster.pod("telling", &format!("m{number}"), member.clone()).await?;
    }
    for number in 0..10 {
        let lost = json!({"spec": {"nodeSelector": nowhere}});
        cluster.pod("telling", &format!("lost{number}"), lost).await?;
    }
    cluster.pods("telling", 20, json!({})).await?;
    cluster.wait_bound("telling", 20).await?;
    are_missed(&scheduler, &missing).await?;
    cluster.agrees(&scheduler).await?;
    // New failures are logged again.
    cluster.give(&missing).await?;
    cluster.pod("telling", "late", json!({"spec": {"nodeSelector": nowhere}})).await?;
    cluster.wait_reason("telling", "late", "Unschedulable", "node selector").await?;
    cluster.pod("telling", "told", json!({})).await?;
    cluster.wait_node("telling", "told").await?;
    eventually("an event", async || {
        let events = cluster.list("/apis/events.k8s.io/v1/namespaces/telling/events").await?;
        let is_it = |event: &Value| event["regarding"]["name"] == "told";
        Ok(if events.iter().any(is_it) { Ok(()) } else { Err(format!("{events:?}")) })
    })
    .await?;
    eventually("the label of the leader", async || {
        let pod = cluster.read_pod("monoceros", "own").await?;
        let label = &pod["metadata"]["labels"]["monoceros.io/leader"];
        Ok(if label == "true" { Ok(()) } else { Err(label.to_string()) })
    })
    .await
}

pub async fn to_evict_victims(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("keeping", json!({})).await?;
    cluster.queues("monoceros-configs", HALVES).await?;
    cluster.node("a", 4, json!({})).await?;
    cluster.environment.push(("MONOCEROS__KUBERNETES__EVICTION_TIMEOUT", "2"));
    let missing = [right("", "pods/eviction", "create"), right("", "pods", "delete")];
    cluster.take(&missing).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    cluster.pods("keeping", 4, of("low")).await?;
    cluster.wait_bound("keeping", 4).await?;
    let urgent = with("high", json!({"spec": {"nodeSelector": {"kubernetes.io/hostname": "a"}}}));
    cluster.pod("keeping", "urgent", urgent).await?;
    are_missed(&scheduler, &missing).await?;
    ensure!(cluster.going("keeping").await?.is_empty());
    // Other pods are scheduled all the same.
    cluster.node("b", 1, json!({"only": "b"})).await?;
    let other = json!({"metadata": {"labels": {"applicationId": "others"}},
        "spec": {"nodeSelector": {"only": "b"}}});
    let other = with("low", other);
    cluster.pod("keeping", "other", other).await?;
    cluster.wait_node("keeping", "other").await?;
    cluster.give(&missing).await?;
    let victim = cluster.wait_going("keeping", 1).await?;
    for name in victim {
        cluster.delete_pod("keeping", &name).await?;
    }
    cluster.wait_node("keeping", "urgent").await?;
    cluster.agrees(&scheduler).await
}
