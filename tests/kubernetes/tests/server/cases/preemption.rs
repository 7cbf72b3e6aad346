//! Preemption: choice of victims, and disruption budgets.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::faults::{Fault, Proxy, Sent};
use super::ruling::{HALVES, of};
use crate::bed::SHIM;
use crate::cluster::{Cluster, eventually, merge};

/// Pause after which an object is newer in whole seconds, the resolution of creation times.
const A_SECOND_LATER: Duration = Duration::from_millis(1_100);

/// A pod of a queue; `more` is merged into it.
pub fn with(queue: &str, more: Value) -> Value {
    let mut pod = of(queue);
    merge(&mut pod, more);
    pod
}

pub async fn victim_ends_gracefully_before_its_room_is_used(
    cluster: &mut Cluster,
) -> anyhow::Result<()> {
    cluster.create_namespace("victims", json!({})).await?;
    cluster.queues("monoceros-configs", HALVES).await?;
    cluster.node("a", 4, json!({})).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    cluster.pods("victims", 4, of("low")).await?;
    cluster.wait_bound("victims", 4).await?;
    cluster.pod("victims", "urgent", of("high")).await?;
    goes_for(cluster, "victims", "urgent").await?;
    cluster.agrees(&scheduler).await
}

/// Waits for a victim, checks that its room is not used before it is gone, and returns its name.
async fn goes_for(cluster: &Cluster, namespace: &str, who: &str) -> anyhow::Result<String> {
    let victims = cluster.wait_going(namespace, 1).await?;
    let victim = victims.first().context("a victim")?.clone();
    let pod = cluster.read_pod(namespace, &victim).await?;
    ensure!(pod["metadata"]["deletionGracePeriodSeconds"] == 1, "it has its grace: {pod}");
    sleep(Duration::from_millis(500)).await;
    let pod = cluster.read_pod(namespace, who).await?;
    ensure!(pod["spec"]["nodeName"].is_null(), "its room was used before it was gone");
    cluster.delete_pod(namespace, &victim).await?;
    cluster.wait_node(namespace, who).await?;
    Ok(victim)
}

/// The parent queue is at its maximum, and the node has room.
pub async fn priority_decides_the_victim(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("priority", json!({})).await?;
    let queues = "
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: lab
            resources: {max: {vcore: 4}}
            queues:
              - name: low
              - {name: high, resources: {guaranteed: {vcore: 3}}, properties: {preemption.delay: 1s}}";
    cluster.queues("monoceros-configs", queues).await?;
    for (name, value) in [("modest", 10), ("middling", 100), ("urgent", 1_000)] {
        cluster.priority_class(name, value).await?;
    }
    cluster.node("a", 16, json!({})).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    let of_class = |queue: &str, class: &str| {
        let labels = json!({"applicationId": format!("{queue}-{class}"), "queue": format!("root.lab.{queue}")});
        json!({"metadata": {"labels": labels}, "spec": {"priorityClassName": class}})
    };
    // Among equals the newest would be chosen, but these have a higher priority.
    for (class, name) in [("modest", "m"), ("urgent", "u")] {
        for number in 0..2 {
            cluster.pod("priority", &format!("{name}{number}"), of_class("low", class)).await?;
        }
        cluster.wait_bound("priority", if class == "modest" { 2 } else { 4 }).await?;
        sleep(A_SECOND_LATER).await;
    }
    for number in 0..2 {
        let who = format!("who{number}");
        cluster.pod("priority", &who, of_class("high", "middling")).await?;
        let victim = goes_for(cluster, "priority", &who).await?;
        ensure!(victim.starts_with('m'), "{victim} had to go for one that is less important");
        cluster.agrees(&scheduler).await?;
    }
    // The guarantee allows one more pod, and the remaining pods have a higher priority.
    cluster.pod("priority", "last", of_class("high", "middling")).await?;
    cluster.wait_reason("priority", "last", "QueueQuota", "root.lab").await?;
    sleep(Duration::from_secs(3)).await;
    let going = cluster.going("priority").await?;
    ensure!(going.is_empty(), "{going:?} had to go for one that is less important");
    Ok(())
}

/// Marks a pod as running, as a kubelet does. Budgets only apply to running pods.
async fn runs(cluster: &Cluster, namespace: &str, name: &str) -> anyhow::Result<()> {
    let status = json!({"status": {"phase": "Running", "conditions": [
        {"type": "Ready", "status": "True"}]}});
    cluster.patch(&format!("/api/v1/namespaces/{namespace}/pods/{name}/status"), status).await?;
    Ok(())
}

/// Creates a budget for pods with the label `keep`, with the status that a controller sets.
async fn budget(cluster: &Cluster, namespace: &str, allowed: u32) -> anyhow::Result<()> {
    let path = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets");
    let budget = json!({"metadata": {"name": "keep"}, "spec": {
        "minAvailable": 2, "selector": {"matchLabels": {"keep": "yes"}}}});
    cluster.create(&path, budget).await?;
    allow(cluster, namespace, allowed).await
}

async fn allow(cluster: &Cluster, namespace: &str, allowed: u32) -> anyhow::Result<()> {
    let path = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/keep/status");
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed,
        "currentHealthy": 2 + allowed, "desiredHealthy": 2, "expectedPods": 2 + allowed}});
    cluster.patch(&path, status).await.map(drop)
}

pub async fn spent_budget_protects_its_pods(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("spared", json!({})).await?;
    cluster.queues("monoceros-configs", HALVES).await?;
    cluster.node("a", 4, json!({})).await?;
    budget(cluster, "spared", 0).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    // Among equals the newest would be chosen.
    let keep = with("low", json!({"metadata": {"labels": {"keep": "yes"}}}));
    for (more, name) in [(of("low"), "old"), (keep, "kept")] {
        for number in 0..2 {
            cluster.pod("spared", &format!("{name}{number}"), more.clone()).await?;
            cluster.wait_node("spared", &format!("{name}{number}")).await?;
            // Creation times are whole seconds.
            sleep(A_SECOND_LATER).await;
        }
    }
    cluster.pod("spared", "first", of("high")).await?;
    let victim = goes_for(cluster, "spared", "first").await?;
    ensure!(victim.starts_with("old"), "{victim} had to go, and its budget allows none");
    // The budget allows one disruption now, so the newest is chosen as usual.
    allow(cluster, "spared", 1).await?;
    cluster.pod("spared", "second", of("high")).await?;
    let victim = goes_for(cluster, "spared", "second").await?;
    ensure!(victim.starts_with("kept"), "{victim} had to go, and is older");
    cluster.agrees(&scheduler).await
}

/// If only protected victims are left, the budget is asked, and forbids the eviction for a while.
pub async fn refused_eviction_is_retried_then_the_pod_deleted(
    cluster: &mut Cluster,
) -> anyhow::Result<()> {
    cluster.create_namespace("refused", json!({})).await?;
    cluster.queues("monoceros-configs", HALVES).await?;
    cluster.node("a", 2, json!({})).await?;
    budget(cluster, "refused", 0).await?;
    cluster.environment.push(("MONOCEROS__KUBERNETES__EVICTION_TIMEOUT", "2"));
    let proxy = Proxy::start(cluster, |_, _| Fault::None).await?;
    let scheduler = cluster.start_with(&proxy.kubeconfig, &[]).await?;
    let keep = with("low", json!({"metadata": {"labels": {"keep": "yes"}}}));
    cluster.pods("refused", 2, keep).await?;
    cluster.wait_bound("refused", 2).await?;
    for name in ["p0", "p1"] {
        runs(cluster, "refused", name).await?;
    }
    cluster.pod("refused", "urgent", of("high")).await?;
    let evictions = || -> Vec<Sent> {
        let all = proxy.sent().into_iter();
        all.filter(|one| one.method == "POST" && one.path.ends_with("/eviction")).collect()
    };
    eventually("an eviction", async || {
        Ok(if evictions().is_empty() { Err(String::new()) } else { Ok(()) })
    })
    .await?;
    let begun = Instant::now();
    eventually("an event that says what keeps it", async || {
        let events = cluster.list("/apis/events.k8s.io/v1/namespaces/refused/events").await?;
        let is_it = |event: &&Value| event["reason"] == "NotEvicted";
        let note = events.iter().find(is_it).map(|event| event["note"].to_string());
        Ok(match note {
            Some(note) if note.contains("disruption budget") => Ok(()),
            note => Err(format!("{note:?}")),
        })
    })
    .await?;
    let victim = cluster.wait_going("refused", 1).await?;
    let took = begun.elapsed();
    ensure!(took >= Duration::from_millis(1_500), "it was not waited for the budget: {took:?}");
    let sent = evictions();
    ensure!(sent.len() >= 3, "it was not tried again: {sent:?}");
    ensure!(sent.iter().all(|one| one.status == Some(429)), "{sent:?}");
    let deletions: Vec<_> = proxy.sent().into_iter().filter(|one| one.method == "DELETE").collect();
    ensure!(deletions.len() == 1 && deletions[0].is_done(), "{deletions:?}");
    for name in victim {
        let pod = cluster.read_pod("refused", &name).await?;
        ensure!(pod["metadata"]["deletionGracePeriodSeconds"] == 1, "it has its grace: {pod}");
        cluster.delete_pod("refused", &name).await?;
    }
    cluster.wait_node("refused", "urgent").await?;
    cluster.agrees(&scheduler).await
}
