//! PodGroups of Kubernetes.

use anyhow::ensure;
use serde_json::{Value, json};

use super::preemption::with;
use super::ruling::{HALVES, of};
use crate::bed::SHIM;
use crate::cluster::{Cluster, eventually, merge};

/// A group that starts with this many pods; `more` is merged into its spec.
async fn group(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    count: usize,
    more: Value,
) -> anyhow::Result<()> {
    let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": count}}});
    merge(&mut spec, more);
    let group = json!({"metadata": {"name": name}, "spec": spec});
    cluster.create(&groups(namespace), group).await.map(drop)
}

fn groups(namespace: &str) -> String {
    format!("/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups")
}

fn member(group: &str) -> Value {
    json!({"spec": {"schedulingGroup": {"podGroupName": group}}})
}

async fn members(
    cluster: &Cluster,
    namespace: &str,
    group: &str,
    count: usize,
    more: Value,
) -> anyhow::Result<()> {
    let mut pod = member(group);
    merge(&mut pod, more);
    for number in 0..count {
        cluster.pod(namespace, &format!("{group}-{number}"), pod.clone()).await?;
    }
    Ok(())
}

/// Returns a condition of a group. `None` if it does not exist.
async fn condition(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    type_: &str,
) -> anyhow::Result<Value> {
    let group = cluster.get(&format!("{}/{name}", groups(namespace))).await?;
    let all = group["status"]["conditions"].as_array().cloned().unwrap_or_default();
    Ok(all.into_iter().find(|one| one["type"] == type_).unwrap_or_default())
}

async fn wait_condition(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    (type_, status, reason): (&str, &str, &str),
) -> anyhow::Result<()> {
    eventually(&format!("{type_} to be {status} ({reason})"), async || {
        let it = condition(cluster, namespace, name, type_).await?;
        let is_it = it["status"] == status && it["reason"] == reason;
        Ok(if is_it { Ok(()) } else { Err(it.to_string()) })
    })
    .await
}

const WAITS: (&str, &str, &str) = ("PodGroupInitiallyScheduled", "False", "Unschedulable");
const SCHEDULED: (&str, &str, &str) = ("PodGroupInitiallyScheduled", "True", "Scheduled");

pub async fn four_out_of_six(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("group", json!({})).await?;
    cluster.node("a", 3, json!({})).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    group(cluster, "group", "g", 4, json!({})).await?;
    members(cluster, "group", "g", 3, json!({})).await?;
    cluster.wait_reason("group", "g-0", "WaitingForGang", "starts with 4").await?;
    for number in 3..6 {
        cluster.pod("group", &format!("g-{number}"), member("g")).await?;
    }
    wait_condition(cluster, "group", "g", WAITS).await?;
    ensure!(cluster.bound("group").await? == 0, "three places are not four");
    cluster
        .patch(
            "/api/v1/nodes/a/status",
            json!({"status": {"allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"}}}),
        )
        .await?;
    cluster.wait_bound("group", 4).await?;
    wait_condition(cluster, "group", "g", SCHEDULED).await?;
    cluster.agrees(&scheduler).await?;
    cluster.node("b", 2, json!({})).await?;
    cluster.wait_bound("group", 6).await?;
    cluster.agrees(&scheduler).await
}

pub async fn group_created_after_its_pods(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("later", json!({})).await?;
    cluster.node("a", 8, json!({})).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    members(cluster, "later", "g", 3, json!({})).await?;
    cluster.wait_reason("later", "g-2", "WaitingForGang", "PodGroup g is not there").await?;
    // The pending group does not hold up other pods.
    cluster.pod("later", "other", json!({})).await?;
    cluster.wait_node("later", "other").await?;
    ensure!(cluster.bound("later").await? == 1);
    group(cluster, "later", "g", 3, json!({})).await?;
    cluster.wait_bound("later", 4).await?;
    wait_condition(cluster, "later", "g", SCHEDULED).await?;
    cluster.agrees(&scheduler).await
}

pub async fn group_with_a_lowered_minimum(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("fewer", json!({})).await?;
    cluster.node("a", 6, json!({})).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    group(cluster, "fewer", "g", 8, json!({})).await?;
    members(cluster, "fewer", "g", 8, json!({})).await?;
    wait_condition(cluster, "fewer", "g", WAITS).await?;
    ensure!(cluster.bound("fewer").await? == 0, "six places are not eight");
    let six = json!({"spec": {"schedulingPolicy": {"gang": {"minCount": 6}}}});
    cluster.patch(&format!("{}/g", groups("fewer")), six).await?;
    cluster.wait_bound("fewer", 6).await?;
    wait_condition(cluster, "fewer", "g", SCHEDULED).await?;
    cluster.agrees(&scheduler).await?;
    cluster.node("b", 2, json!({})).await?;
    cluster.wait_bound("fewer", 8).await?;
    cluster.agrees(&scheduler).await
}

pub async fn group_in_one_rack(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("rack", json!({})).await?;
    // Other nodes have more room each, but no rack has enough.
    for (node, cores, rack) in [("a", 2, "1"), ("b", 2, "1"), ("c", 3, "2"), ("d", 3, "3")] {
        cluster.node(node, cores, json!({"rack": rack})).await?;
    }
    let scheduler = cluster.start(SHIM, &[]).await?;
    let in_rack = json!({"schedulingConstraints": {"topology": [{"key": "rack"}]}});
    group(cluster, "rack", "first", 4, in_rack.clone()).await?;
    members(cluster, "rack", "first", 4, json!({})).await?;
    cluster.wait_bound("rack", 4).await?;
    let places = cluster.places("rack").await?;
    let is_there = |node: &Option<String>| matches!(node.as_deref(), Some("a" | "b"));
    ensure!(places.values().all(is_there), "{places:?}");
    // Six more pods fit, but no four of them in one rack.
    group(cluster, "rack", "second", 4, in_rack).await?;
    members(cluster, "rack", "second", 4, json!({})).await?;
    wait_condition(cluster, "rack", "second", WAITS).await?;
    let said = condition(cluster, "rack", "second", WAITS.0).await?;
    ensure!(said["message"].to_string().contains("rack"), "it says why: {said}");
    ensure!(cluster.bound("rack").await? == 4);
    cluster.agrees(&scheduler).await?;
    cluster.node("e", 1, json!({"rack": "3"})).await?;
    cluster.wait_bound("rack", 8).await?;
    let places = cluster.places("rack").await?;
    let second = places.iter().filter(|(name, _)| name.starts_with("second"));
    let is_there = |node: &Option<String>| matches!(node.as_deref(), Some("d" | "e"));
    ensure!(second.into_iter().all(|(_, node)| is_there(node)), "{places:?}");
    cluster.agrees(&scheduler).await
}

/// Older asks wait. The group has the priority, which its pods do not repeat.
pub async fn group_with_a_priority(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("important", json!({})).await?;
    cluster.priority_class("important", 1_000).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    scheduler.ready().await?;
    cluster.pods("important", 2, json!({})).await?;
    cluster.wait_said("important", "p1").await?;
    group(cluster, "important", "g", 2, json!({"priorityClassName": "important"})).await?;
    members(cluster, "important", "g", 2, json!({})).await?;
    wait_condition(cluster, "important", "g", WAITS).await?;
    cluster.node("a", 2, json!({})).await?;
    cluster.wait_bound("important", 2).await?;
    let places = cluster.places("important").await?;
    let bound: Vec<_> = places.iter().filter(|(_, node)| node.is_some()).collect();
    ensure!(bound.iter().all(|(name, _)| name.starts_with('g')), "{bound:?} came first");
    cluster.agrees(&scheduler).await
}

pub async fn members_preempted_together(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("together", json!({})).await?;
    // The victims have to fit into the guarantee.
    cluster.queues("monoceros-configs", &HALVES.replace("vcore: 2", "vcore: 3")).await?;
    cluster.node("a", 3, json!({})).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    group(cluster, "together", "g", 3, json!({"disruptionMode": {"all": {}}})).await?;
    members(cluster, "together", "g", 3, of("low")).await?;
    cluster.wait_bound("together", 3).await?;
    wait_condition(cluster, "together", "g", SCHEDULED).await?;
    // One core is wanted, and all three pods of the group are evicted for it.
    cluster.pod("together", "urgent", with("high", json!({}))).await?;
    let victims = cluster.wait_going("together", 3).await?;
    let disrupted = ("DisruptionTarget", "True", "PreemptionByScheduler");
    wait_condition(cluster, "together", "g", disrupted).await?;
    for victim in victims {
        cluster.delete_pod("together", &victim).await?;
    }
    cluster.wait_node("together", "urgent").await?;
    let it = condition(cluster, "together", "g", SCHEDULED.0).await?;
    ensure!(it["status"] == "True", "it was scheduled, and that stays: {it}");
    cluster.agrees(&scheduler).await
}

/// The group stays scheduled whatever happens to its pods and to the scheduler.
pub async fn scheduled_group_stays_scheduled(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("stays", json!({})).await?;
    cluster.node("a", 2, json!({})).await?;
    let scheduler = cluster.start(SHIM, &[]).await?;
    group(cluster, "stays", "g", 2, json!({})).await?;
    members(cluster, "stays", "g", 2, json!({})).await?;
    cluster.wait_bound("stays", 2).await?;
    wait_condition(cluster, "stays", "g", SCHEDULED).await?;
    let nowhere = json!({"spec": {"nodeSelector": {"no": "where"}}});
    let mut lost = member("g");
    merge(&mut lost, nowhere);
    cluster.pod("stays", "third", lost.clone()).await?;
    cluster.wait_said("stays", "third").await?;
    drop(scheduler);
    for name in ["g-0", "g-1", "third"] {
        cluster.delete_pod("stays", name).await?;
    }
    let scheduler = cluster.start(SHIM, &[]).await?;
    scheduler.ready().await?;
    for name in ["fourth", "fifth"] {
        cluster.pod("stays", name, lost.clone()).await?;
    }
    cluster.wait_said("stays", "fifth").await?;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let it = condition(cluster, "stays", "g", SCHEDULED.0).await?;
    ensure!(it["status"] == "True", "it was scheduled, and that stays: {it}");
    cluster.agrees(&scheduler).await
}
