//! Who has to go for whom, and what budgets say to it.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::faults::{Fault, Proxy, Sent};
use super::ruling::{HALVES, of};
use crate::bed::SHIM;
use crate::cluster::{Cluster, eventually, merge};

/// What is created later than this is newer by the clock of the API, which has seconds.
const A_SECOND_LATER: Duration = Duration::from_millis(1_100);

/// A pod of a queue, with more.
pub fn with(queue: &str, more: Value) -> Value {
    let mut pod = of(queue);
    merge(&mut pod, more);
    pod
}

pub async fn a_victim_goes_in_peace_and_its_room_is_used_when_it_is_gone(
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

/// Waits for a victim, sees that its room is not used before it is gone, and says who it was.
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

/// The queue above both is at its maximum, and the node has room.
pub async fn priority_says_who_goes(cluster: &mut Cluster) -> anyhow::Result<()> {
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
    // Of equals the newest would go: those that are more important are.
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
    // It is guaranteed one more, and what is left is more important.
    cluster.pod("priority", "last", of_class("high", "middling")).await?;
    cluster.wait_reason("priority", "last", "QueueQuota", "root.lab").await?;
    sleep(Duration::from_secs(3)).await;
    let going = cluster.going("priority").await?;
    ensure!(going.is_empty(), "{going:?} had to go for one that is less important");
    Ok(())
}

/// What a kubelet says of a pod: a budget is not asked about one that does not run.
async fn runs(cluster: &Cluster, namespace: &str, name: &str) -> anyhow::Result<()> {
    let status = json!({"status": {"phase": "Running", "conditions": [
        {"type": "Ready", "status": "True"}]}});
    cluster.patch(&format!("/api/v1/namespaces/{namespace}/pods/{name}/status"), status).await?;
    Ok(())
}

/// A budget of pods with the label `keep`, as a controller has it.
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

pub async fn a_budget_that_allows_nothing_spares_its_pods(
    cluster: &mut Cluster,
) -> anyhow::Result<()> {
    cluster.create_namespace("spared", json!({})).await?;
    cluster.queues("monoceros-configs", HALVES).await?;
    cluster.node("a", 4, json!({})).await?;
    budget(cluster, "spared", 0).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    // Of equals the newest would go.
    let keep = with("low", json!({"metadata": {"labels": {"keep": "yes"}}}));
    for (more, name) in [(of("low"), "old"), (keep, "kept")] {
        for number in 0..2 {
            cluster.pod("spared", &format!("{name}{number}"), more.clone()).await?;
            cluster.wait_node("spared", &format!("{name}{number}")).await?;
            // Times of creation are whole seconds.
            sleep(A_SECOND_LATER).await;
        }
    }
    cluster.pod("spared", "first", of("high")).await?;
    let victim = goes_for(cluster, "spared", "first").await?;
    ensure!(victim.starts_with("old"), "{victim} had to go, and its budget allows none");
    // It allows one now: then the newest goes as always.
    allow(cluster, "spared", 1).await?;
    cluster.pod("spared", "second", of("high")).await?;
    let victim = goes_for(cluster, "spared", "second").await?;
    ensure!(victim.starts_with("kept"), "{victim} had to go, and is older");
    cluster.agrees(&scheduler).await
}

/// Where nobody else is left, the budget is asked, and for a while it forbids it.
pub async fn an_eviction_that_is_refused_is_tried_again_and_then_the_pod_is_deleted(
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
