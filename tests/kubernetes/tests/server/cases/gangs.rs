//! Gangs.

use anyhow::ensure;
use serde_json::{Value, json};

use crate::bed::SHIM;
use crate::cluster::{Cluster, Scheduler};

fn member(gang: &str, groups: Option<&Value>) -> Value {
    let mut annotations = json!({
        "yunikorn.apache.org/app-id": gang, "yunikorn.apache.org/task-group-name": "workers"});
    if let Some(groups) = groups {
        annotations["yunikorn.apache.org/task-groups"] = json!(groups.to_string());
    }
    json!({"metadata": {"annotations": annotations}})
}

pub async fn a_gang_of_eight_with_six_places_and_with_eight(
    cluster: &mut Cluster,
) -> anyhow::Result<()> {
    cluster.create_namespace("gang", json!({})).await?;
    cluster.node("a", 6, json!({})).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    let groups = json!([{"name": "workers", "minMember": 8, "minResource": {"cpu": "1"}}]);
    for number in 0..8 {
        let declares = (number == 0).then_some(&groups);
        cluster.pod("gang", &format!("m{number}"), member("job", declares)).await?;
    }
    let message = cluster.wait_reason("gang", "m5", "Unschedulable", "workers").await?;
    ensure!(message.contains("core"), "it says what is missing: {message}");
    ensure!(cluster.bound("gang").await? == 0);
    cluster.agrees(&scheduler).await?;
    cluster.node("b", 2, json!({})).await?;
    cluster.wait_bound("gang", 8).await?;
    ensure!(cluster.places("gang").await?.len() == 8, "there are pods that nobody has made");
    cluster.agrees(&scheduler).await
}

pub async fn a_gang_of_eight_that_keeps_apart_on_seven_hosts(
    cluster: &mut Cluster,
) -> anyhow::Result<()> {
    let scheduler = cluster.start(SHIM, &[]).await?;
    gang_that_keeps_apart(cluster, &scheduler, "apart").await
}

/// A gang whose pods have anti-affinity to each other, with a local or a remote scheduler.
pub async fn gang_that_keeps_apart(
    cluster: &Cluster,
    scheduler: &Scheduler,
    namespace: &str,
) -> anyhow::Result<()> {
    cluster.create_namespace(namespace, json!({})).await?;
    cluster.nodes(7, 4).await?;
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}]}});
    let groups = json!([{"name": "workers", "minMember": 8, "minResource": {"cpu": "1"},
        "labels": {"a": "b"}, "affinity": apart}]);
    for number in 0..8 {
        let mut pod = member("job", (number == 0).then_some(&groups));
        pod["metadata"]["labels"] = json!({"a": "b"});
        pod["spec"] = json!({"affinity": apart});
        cluster.pod(namespace, &format!("m{number}"), pod).await?;
    }
    cluster.wait_reason(namespace, "m5", "Unschedulable", "").await?;
    ensure!(cluster.bound(namespace).await? == 0);
    // No pod of the gang stays assumed: seven equal pods get a node each.
    for number in 0..7 {
        let pod = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"affinity": apart}});
        cluster.pod(namespace, &format!("s{number}"), pod).await?;
    }
    cluster.wait_bound(namespace, 7).await?;
    cluster.agrees(scheduler).await
}
