//! PodGroups: how many of their pods start, and the condition of the group.
//!
//! Each story has nodes of its own, selected by its pods. The number of bound pods is compared, not
//! which pods they are.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::run::on_both;
use crate::cluster::{Cluster, eventually};

/// How long the result must stay unchanged.
const STAYS: Duration = Duration::from_secs(1);

struct Story {
    what: &'static str,
    policy: Value,
    /// Cores of the nodes, number of pods of one core, and how many of them start.
    cores: &'static [u32],
    pods: usize,
    starts: usize,
    /// Cores of a new node, number of new pods, and how many run afterwards.
    then: Option<(u32, usize, usize)>,
}

fn stories() -> Vec<Story> {
    let gang = |count: usize| json!({"gang": {"minCount": count}});
    let story = |what, count, cores, pods, starts| Story {
        what,
        policy: gang(count),
        cores,
        pods,
        starts,
        then: None,
    };
    vec![
        story("all have room", 3, &[3], 3, 3),
        Story {
            then: Some((1, 0, 3)),
            ..story("one has no room, and then it has", 3, &[1, 1], 3, 0)
        },
        Story {
            then: Some((0, 1, 3)),
            ..story("one is missing, and then it comes", 3, &[4], 2, 0)
        },
        story("more than it needs, with room for as many as it needs", 4, &[2, 2], 6, 4),
        story("more than it needs, with too little room", 4, &[3], 6, 0),
        Story { policy: json!({"basic": {}}), ..story("each by itself", 0, &[2], 3, 2) },
    ]
}

pub async fn pod_groups_as_a_whole(cluster: &mut Cluster) -> anyhow::Result<()> {
    let stories = stories();
    on_both(cluster, async |cluster, is_ours| {
        let who = if is_ours { "ours" } else { "kube-scheduler" };
        let all = stories.iter().enumerate().map(|(number, story)| async move {
            play(cluster, story, number).await.with_context(|| format!("{who}: {}", story.what))
        });
        futures::future::join_all(all).await.into_iter().collect()
    })
    .await
}

async fn play(cluster: &Cluster, story: &Story, number: usize) -> anyhow::Result<()> {
    let space = format!("gang-{number}");
    cluster.create_namespace(&space, json!({})).await?;
    for (at, cores) in story.cores.iter().enumerate() {
        cluster.node(&format!("{space}-{at}"), *cores, json!({"pool": space})).await?;
    }
    let group = json!({"metadata": {"name": "g"}, "spec": {"schedulingPolicy": story.policy}});
    let groups = format!("/apis/scheduling.k8s.io/v1beta1/namespaces/{space}/podgroups");
    cluster.create(&groups, group).await?;
    let member = json!({"spec": {"schedulingGroup": {"podGroupName": "g"},
        "nodeSelector": {"pool": space}}});
    cluster.pods(&space, story.pods, member.clone()).await?;
    run(cluster, &space, story.starts).await?;
    if let Some((cores, pods, runs)) = story.then {
        if cores > 0 {
            cluster.node(&format!("{space}-later"), cores, json!({"pool": space})).await?;
        }
        cluster.pods_from(&space, story.pods, pods, member).await?;
        run(cluster, &space, runs).await?;
        eventually("the group to say so", async || {
            let group = cluster.get(&format!("{groups}/g")).await?;
            let conditions = group["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is_it = |one: &Value| {
                one["type"] == "PodGroupInitiallyScheduled" && one["status"] == "True"
            };
            Ok(if conditions.iter().any(is_it) { Ok(()) } else { Err(group["status"].to_string()) })
        })
        .await?;
    }
    Ok(())
}

/// Waits until this many pods are bound, and checks that the number stays.
async fn run(cluster: &Cluster, space: &str, count: usize) -> anyhow::Result<()> {
    cluster.wait_bound(space, count).await?;
    sleep(STAYS).await;
    let bound = cluster.bound(space).await?;
    ensure!(bound == count, "{bound} are bound, and {count} should be");
    Ok(())
}
