//! Plain pods and their nodes.

use anyhow::ensure;
use serde_json::json;

use crate::bed::SHIM;
use crate::cluster::Cluster;

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

    // What ran on a node that goes is off the books; what waits goes elsewhere.
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
    // Both fill it at the same moment.
    for number in 0..3 {
        let theirs = json!({"spec": {"schedulerName": "theirs", "nodeName": "small"}});
        cluster.pod("other", &format!("t{number}"), theirs).await?;
        cluster.pod("other", &format!("o{number}"), json!({})).await?;
    }
    cluster.agrees(&scheduler).await?;
    let before = cluster.bound("other").await?;
    cluster.pod("other", "late", json!({})).await?;
    cluster.wait_reason("other", "late", "Unschedulable", "").await.or_else(|why| {
        // A cluster that is full is a quota as well.
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
