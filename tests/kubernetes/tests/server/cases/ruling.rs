//! Queues and limits.

use anyhow::ensure;
use serde_json::{Value, json};

use crate::bed::SHIM;
use crate::cluster::{Cluster, eventually};

/// Two queues: one may be preempted, one is guaranteed two cores.
pub const HALVES: &str = "
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: low
          - {name: high, resources: {guaranteed: {vcore: 2}}, properties: {preemption.delay: 1s}}";

/// A pod of the queue, in an application of that name.
pub fn of(queue: &str) -> Value {
    json!({"metadata": {"labels": {"applicationId": queue, "queue": format!("root.{queue}")}}})
}

pub async fn a_queue_at_its_maximum_and_a_user_at_a_limit(
    cluster: &mut Cluster,
) -> anyhow::Result<()> {
    cluster.create_namespace("limits", json!({})).await?;
    cluster.nodes(2, 8).await?;
    let queues = "
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - {name: small, resources: {max: {vcore: 1}}}
          - {name: shared, limits: [{limit: each, users: ['*'], maxresources: {vcore: 1}}]}";
    cluster.queues("yunikorn-configs", queues).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    for (queue, reason) in [("small", "QueueQuota"), ("shared", "UserQuota")] {
        for number in 0..2 {
            cluster.pod("limits", &format!("{queue}-{number}"), of(queue)).await?;
            if number == 0 {
                cluster.wait_node("limits", &format!("{queue}-0")).await?;
            }
        }
        let name = format!("{queue}-1");
        let said = cluster.wait_reason("limits", &name, reason, "").await?;
        let explained = scheduler.command(&["explain", queue, "-o", "json"]).await?;
        ensure!(explained.contains(&said), "`{said}` is not in {explained}");
    }
    cluster.agrees(&scheduler).await
}

pub async fn queues_that_cannot_be_used(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("queues", json!({})).await?;
    cluster.node("a", 8, json!({})).await?;
    cluster.queues("monoceros-configs", HALVES).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    cluster.pod("queues", "before", of("low")).await?;
    cluster.wait_node("queues", "before").await?;
    let broken = HALVES.replace("guaranteed: {vcore: 2}", "guaranteed: {vcore: many}");
    cluster.queues("monoceros-configs", &broken).await?;
    eventually("an event about the ConfigMap", async || {
        let events = cluster.list("/apis/events.k8s.io/v1/namespaces/monoceros/events").await?;
        let event = events.iter().find(|event| event["reason"] == "QueuesRefused");
        let note = event.map(|event| event["note"].as_str().unwrap_or_default().to_owned());
        Ok(match note {
            Some(note) if note.contains("many") && note.contains("line 9") => Ok(()),
            note => Err(format!("{note:?}")),
        })
    })
    .await?;
    cluster.pod("queues", "after", of("high")).await?;
    cluster.wait_node("queues", "after").await?;
    cluster.queues("monoceros-configs", &HALVES.replace("name: low", "name: lower")).await?;
    cluster.pod("queues", "lower", of("lower")).await?;
    cluster.wait_node("queues", "lower").await?;
    cluster.agrees(&scheduler).await
}

pub async fn pods_are_shown_by_their_names(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("named", json!({})).await?;
    cluster.node("a", 1, json!({})).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    cluster.pod("named", "runs", json!({})).await?;
    cluster.wait_node("named", "runs").await?;
    cluster.pod("named", "waits", json!({})).await?;
    cluster.wait_reason("named", "waits", "Unschedulable", "").await?;
    let described = scheduler.command(&["describe", "app", "named-autogen"]).await?;
    ensure!(described.contains("named/runs"), "{described}");
    let explained = scheduler.command(&["explain", "named-autogen"]).await?;
    ensure!(explained.contains("named/waits"), "{explained}");
    Ok(())
}
