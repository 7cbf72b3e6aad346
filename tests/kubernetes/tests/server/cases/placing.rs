//! Plain pods and their nodes.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::bed::SHIM;
use crate::cluster::{Cluster, Scheduler, eventually};

pub async fn two_thousand_pods_on_a_hundred_nodes(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("many", json!({})).await?;
    cluster.nodes(100, 32).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    cluster.pods("many", 2_000, json!({})).await?;
    cluster.wait_bound("many", 2_000).await?;
    cluster.agrees(&scheduler).await
}

pub async fn nodes_that_change_and_go(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("nodes", json!({})).await?;
    cluster.node("a", 8, json!({"disk": "ssd"})).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    cluster.pod("nodes", "first", json!({})).await?;
    cluster.wait_node("nodes", "first").await?;

    let taint = |taints: serde_json::Value| json!({"spec": {"taints": taints}});
    let closed = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    cluster.patch("/api/v1/nodes/a", taint(closed)).await?;
    cluster.pod("nodes", "second", json!({})).await?;
    cluster.wait_reason("nodes", "second", "Unschedulable", "the taint k=v:NoSchedule").await?;
    cluster.patch("/api/v1/nodes/a", taint(json!([]))).await?;
    cluster.wait_node("nodes", "second").await?;

    cluster.patch("/api/v1/nodes/a", json!({"metadata": {"labels": {"disk": "hdd"}}})).await?;
    let selecting = json!({"spec": {"nodeSelector": {"disk": "ssd"}}});
    cluster.pod("nodes", "third", selecting).await?;
    cluster.wait_reason("nodes", "third", "Unschedulable", "node selector").await?;
    cluster.patch("/api/v1/nodes/a", json!({"metadata": {"labels": {"disk": "ssd"}}})).await?;
    cluster.wait_node("nodes", "third").await?;

    cluster.patch("/api/v1/nodes/a", json!({"spec": {"unschedulable": true}})).await?;
    cluster.pod("nodes", "fourth", json!({})).await?;
    cluster.wait_reason("nodes", "fourth", "Unschedulable", "cordoned").await?;
    cluster.patch("/api/v1/nodes/a", json!({"spec": {"unschedulable": false}})).await?;
    cluster.wait_node("nodes", "fourth").await?;
    cluster.agrees(&scheduler).await?;

    // Pods of a removed node are not counted any more; pending pods go to other nodes.
    cluster.delete("/api/v1/nodes/a").await?;
    cluster.agrees(&scheduler).await?;
    cluster.node("b", 8, json!({})).await?;
    cluster.pod("nodes", "fifth", json!({})).await?;
    let node = cluster.wait_node("nodes", "fifth").await?;
    ensure!(node == "b", "bound to {node}");
    cluster.agrees(&scheduler).await
}

pub async fn another_scheduler_on_the_same_node(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("other", json!({})).await?;
    cluster.node("small", 4, json!({})).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    scheduler.ready().await?;
    // Both schedulers fill the node at the same time.
    for number in 0..3 {
        let theirs = json!({"spec": {"schedulerName": "theirs", "nodeName": "small"}});
        cluster.pod("other", &format!("t{number}"), theirs).await?;
        cluster.pod("other", &format!("o{number}"), json!({})).await?;
    }
    cluster.agrees(&scheduler).await?;
    let before = cluster.bound("other").await?;
    cluster.pod("other", "late", json!({})).await?;
    cluster.wait_reason("other", "late", "Unschedulable", "").await.or_else(|why| {
        // A full cluster acts as a quota too.
        if why.to_string().contains("QueueQuota") { Ok(String::new()) } else { Err(why) }
    })?;
    ensure!(cluster.bound("other").await? == before, "more was placed on a full node");
    cluster.agrees(&scheduler).await
}

pub async fn a_namespace_with_a_quota(cluster: &mut Cluster) -> anyhow::Result<()> {
    let quota = json!({"yunikorn.apache.org/namespace.quota": "{\"cpu\": \"3\"}"});
    cluster.create_namespace("quota", quota).await?;
    cluster.nodes(2, 8).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    cluster.pods("quota", 5, json!({})).await?;
    cluster.wait_bound("quota", 3).await?;
    let places = cluster.places("quota").await?;
    let (waiting, _) = places.iter().find(|(_, node)| node.is_none()).unwrap();
    cluster.wait_reason("quota", waiting, "QueueQuota", "root.quota").await?;
    cluster.agrees(&scheduler).await
}

pub async fn a_node_that_an_operator_drains(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("drained", json!({})).await?;
    cluster.nodes(2, 4).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    cluster.pods("drained", 2, json!({})).await?;
    cluster.wait_bound("drained", 2).await?;
    let before = cluster.places("drained").await?;
    scheduler.command(&["drain", "n0"]).await?;
    cluster.pods_from("drained", 2, 5, json!({})).await?;
    let waiting = 2 + 5 - 4 - before.values().filter(|node| node.as_deref() == Some("n0")).count();
    cluster.wait_bound("drained", 7 - waiting).await?;
    let after = cluster.places("drained").await?;
    for (name, node) in &after {
        match before.get(name) {
            Some(there) => ensure!(there == node, "{name} was moved"),
            None => ensure!(node.as_deref() != Some("n0"), "{name} came to a node that drains"),
        }
    }
    let (waits, _) = after.iter().find(|(_, node)| node.is_none()).context("one that waits")?;
    cluster.wait_said("drained", waits).await?;
    cluster.agrees(&scheduler).await?;
    scheduler.command(&["uncordon", "n0"]).await?;
    cluster.wait_bound("drained", 7).await?;
    cluster.agrees(&scheduler).await
}

/// Pods of a removed node are charged to no queue, user or group, although they exist until they
/// are deleted.
pub async fn deleted_node_releases_the_usage_of_its_pods(
    cluster: &mut Cluster,
) -> anyhow::Result<()> {
    let quota = json!({"monoceros.io/namespace.quota": "{\"cpu\": \"3\"}"});
    cluster.create_namespace("deleted", quota).await?;
    cluster.node("a", 8, json!({})).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    cluster.pods("deleted", 3, json!({})).await?;
    cluster.wait_bound("deleted", 3).await?;
    cluster.node("b", 8, json!({})).await?;
    cluster.pods_from("deleted", 3, 3, json!({})).await?;
    cluster.wait_reason("deleted", "p5", "QueueQuota", "root.deleted").await?;
    ensure!(cluster.bound("deleted").await? == 3);
    cluster.delete("/api/v1/nodes/a").await?;
    cluster.wait_bound("deleted", 6).await?;
    for number in 3..6 {
        let node = cluster.wait_node("deleted", &format!("p{number}")).await?;
        ensure!(node == "b", "p{number} is bound to {node}");
    }
    cluster.agrees(&scheduler).await
}

/// Waits until this many cores of the node are in use by the engine's books.
async fn wait_used(scheduler: &Scheduler, node: &str, cores: i64) -> anyhow::Result<()> {
    eventually(&format!("{cores} cores of {node} in use"), async || {
        let nodes = scheduler.read("/ws/v1/partition/default/nodes").await?;
        let it = nodes.as_array().into_iter().flatten().find(|one| one["nodeID"] == node);
        let used = &it.context("the node")?["allocated"]["vcore"];
        Ok(if *used == 1_000 * cores { Ok(()) } else { Err(format!("{used} are")) })
    })
    .await
}

pub async fn a_pod_that_is_resized_in_place(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("resized", json!({})).await?;
    cluster.node("a", 8, json!({})).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    cluster.pod("resized", "p", json!({})).await?;
    cluster.wait_node("resized", "p").await?;
    wait_used(&scheduler, "a", 1).await?;
    let path = "/api/v1/namespaces/resized/pods/p";
    // Allocated amounts, and the status of the resize.
    let status = async |cpu: &str, conditions: Value| {
        let container = json!({"name": "c", "image": "c", "imageID": "", "ready": true,
            "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            "allocatedResources": {"cpu": cpu}, "resources": {"requests": {"cpu": cpu}}});
        let status = json!({"phase": "Running", "containerStatuses": [container],
            "conditions": conditions});
        cluster.patch(&format!("{path}/status"), json!({"status": status})).await
    };
    let resize = async |cpu: &str| {
        let containers =
            json!([{"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}}]);
        cluster.patch(&format!("{path}/resize"), json!({"spec": {"containers": containers}})).await
    };
    status("1", json!([])).await?;
    // Desired amounts count at once, so that no other pod gets the room.
    resize("5").await?;
    wait_used(&scheduler, "a", 5).await?;
    status("5", json!([])).await?;
    // Released amounts are free once the kubelet has applied them.
    resize("2").await?;
    cluster.pods_from("resized", 0, 4, json!({})).await?;
    cluster.wait_bound("resized", 4).await?;
    wait_used(&scheduler, "a", 8).await?;
    status("2", json!([])).await?;
    cluster.wait_bound("resized", 5).await?;
    wait_used(&scheduler, "a", 6).await?;
    // Amounts that the node can never provide are not counted.
    resize("7").await?;
    wait_used(&scheduler, "a", 11).await?;
    let infeasible =
        json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
    status("2", infeasible).await?;
    wait_used(&scheduler, "a", 6).await?;
    cluster.agrees(&scheduler).await
}
