//! Victims of a pod with a higher priority.
//!
//! Both schedulers are alike for a pod that may use one node only, as a member of a DaemonSet: ours
//! evicts pods with a lower priority there. Otherwise ours preempts for the guarantee of a queue,
//! which kube-scheduler does not have, so it is not compared.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::run::on_both;
use super::{pod, with};
use crate::cluster::{Cluster, eventually};

/// How long there must be no victim to conclude that there will be none.
const NOBODY_GOES: Duration = Duration::from_secs(3);

/// The member waits for as long as the other pod exists.
const NOT_FOR_OTHERS: &str =
    "found: where there is room, nobody goes for a port or for being too near";

/// A node of four cores, its pods, and the member.
struct Story {
    what: &'static str,
    /// Running pods: names, cores and priority classes.
    running: &'static [(&'static str, &'static str, &'static str)],
    /// Pods whose budget allows no disruption.
    spared: Option<&'static str>,
    /// Pods with the host port that the member needs.
    listens: Option<&'static str>,
    /// Pods that the member has anti-affinity to.
    away: Option<&'static str>,
    /// Cores and priority class of the member of a DaemonSet.
    wants: (&'static str, &'static str),
    /// Victims of kube-scheduler.
    victims: &'static [&'static str],
    /// Different victims of our scheduler, with the reason.
    ours: Option<(&'static [&'static str], &'static str)>,
}

fn story(
    what: &'static str,
    running: &'static [(&'static str, &'static str, &'static str)],
    wants: (&'static str, &'static str),
    victims: &'static [&'static str],
) -> Story {
    let (spared, listens, away, ours) = (None, None, None, None);
    Story { what, running, spared, listens, away, wants, victims, ours }
}

/// Victims that make room.
fn for_room() -> Vec<Story> {
    vec![
        story(
            "the least important goes",
            &[("low", "2", "low"), ("middle", "2", "middle")],
            ("2", "high"),
            &["low"],
        ),
        story(
            "both go where one is not enough",
            &[("low", "2", "low"), ("middle", "2", "middle")],
            ("3", "high"),
            &["low", "middle"],
        ),
        story(
            "whoever is more important stays",
            &[("low", "1", "low"), ("highest", "3", "highest")],
            ("1", "high"),
            &["low"],
        ),
        story(
            "nobody goes in vain",
            &[("low", "1", "low"), ("highest", "3", "highest")],
            ("2", "high"),
            &[],
        ),
        story(
            "all go who are less important, and nobody else",
            &[("low", "1", "low"), ("middle", "1", "middle"), ("high", "2", "high")],
            ("2", "high"),
            &["low", "middle"],
        ),
        story(
            "who would not be enough stays",
            &[("low", "1", "low"), ("middle", "3", "middle")],
            ("3", "high"),
            &["middle"],
        ),
        story(
            "the small one is enough",
            &[("low", "3", "low"), ("middle", "1", "middle")],
            ("1", "high"),
            &["low"],
        ),
        story("nobody goes where there is room", &[("low", "1", "low")], ("2", "high"), &[]),
        Story {
            ours: Some((
                &["low"],
                "found: a member of a DaemonSet preempts, whatever its `preemptionPolicy`",
            )),
            ..story("for one that never preempts", &[("low", "4", "low")], ("2", "never"), &[])
        },
        Story {
            spared: Some("a"),
            ..story(
                "a budget spares its pod",
                &[("a", "2", "low"), ("b", "2", "low")],
                ("2", "high"),
                &["b"],
            )
        },
        Story {
            ours: Some((
                &["equal"],
                "a required node is taken from equals, too (docs/preemption.md)",
            )),
            ..story("one that is as important", &[("equal", "4", "high")], ("2", "high"), &[])
        },
    ]
}

/// Victims beside which the member may not run.
fn for_others() -> Vec<Story> {
    vec![
        Story {
            listens: Some("middle"),
            ours: Some((
                &["low", "middle"],
                "found: the least important goes first, though who has the port is enough",
            )),
            ..story(
                "who has the port and the room goes",
                &[("low", "2", "low"), ("middle", "2", "middle")],
                ("2", "high"),
                &["middle"],
            )
        },
        Story {
            listens: Some("middle"),
            ours: Some((&[], NOT_FOR_OTHERS)),
            ..story(
                "who has the port goes",
                &[("low", "1", "low"), ("middle", "1", "middle")],
                ("1", "high"),
                &["middle"],
            )
        },
        Story {
            away: Some("middle"),
            ours: Some((&[], NOT_FOR_OTHERS)),
            ..story(
                "who is too near goes",
                &[("low", "1", "low"), ("middle", "1", "middle")],
                ("1", "high"),
                &["middle"],
            )
        },
    ]
}

pub async fn victims_of_preemption(cluster: &mut Cluster) -> anyhow::Result<()> {
    let stories: Vec<_> = for_room().into_iter().chain(for_others()).collect();
    on_both(cluster, async |cluster, is_ours| {
        let mut wrong = Vec::new();
        for (name, value) in [("low", 10), ("middle", 100), ("high", 1_000), ("highest", 10_000)] {
            cluster.priority_class(name, value).await?;
        }
        let never =
            json!({"metadata": {"name": "never"}, "value": 1_000, "preemptionPolicy": "Never"});
        cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", never).await?;
        let all = stories.iter().enumerate().map(|(number, story)| async move {
            let node = format!("n{number}");
            play(cluster, story, &node).await.context(story.what)
        });
        for (story, victims) in stories.iter().zip(futures::future::try_join_all(all).await?) {
            let right = match story.ours {
                Some((victims, _)) if is_ours => victims,
                _ => story.victims,
            };
            let right: BTreeSet<_> = right.iter().map(|name| (*name).to_owned()).collect();
            if victims != right {
                let who = if is_ours { "ours" } else { "kube-scheduler" };
                wrong.push(format!("{}: {who}: {victims:?}, not {right:?}", story.what));
            }
        }
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    })
    .await
}

/// Plays a story on a node of its own, and returns the victims.
async fn play(cluster: &Cluster, story: &Story, node: &str) -> anyhow::Result<BTreeSet<String>> {
    let namespace = format!("for-{node}");
    cluster.create_namespace(&namespace, json!({})).await?;
    cluster.node(node, 4, json!({})).await?;
    for (name, cpu, class) in story.running {
        let mut spec = json!({"priorityClassName": class, "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}}]});
        if story.listens == Some(name) {
            spec["containers"][0]["ports"] = port();
        }
        cluster.pod(&namespace, name, pod(json!({"name": name}), spec)).await?;
        cluster.wait_node(&namespace, name).await?;
    }
    if let Some(spared) = story.spared {
        spare(cluster, &namespace, spared).await?;
    }
    let (cpu, class) = story.wants;
    let mut member = json!({"priorityClassName": class, "affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": [node]}]}]}}},
        "containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}}]});
    if story.listens.is_some() {
        member["containers"][0]["ports"] = port();
    }
    if let Some(away) = story.away {
        member["affinity"]["podAntiAffinity"] = json!({
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"name": away}}}]});
    }
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d",
        "controller": true}]);
    let member = with(&pod(json!({}), member), &json!({"metadata": {"ownerReferences": owner}}));
    cluster.pod(&namespace, "member", member).await?;
    let going = settled(cluster, &namespace).await?;
    for victim in &going {
        cluster.delete_pod(&namespace, victim).await?;
    }
    if !going.is_empty() {
        cluster.wait_node(&namespace, "member").await?;
    }
    Ok(going)
}

fn port() -> Value {
    json!([{"containerPort": 80, "hostPort": 80}])
}

/// Creates a budget for this pod, with the status that a controller sets.
async fn spare(cluster: &Cluster, namespace: &str, name: &str) -> anyhow::Result<()> {
    let path = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets");
    let budget = json!({"metadata": {"name": name}, "spec": {"minAvailable": 1,
        "selector": {"matchLabels": {"name": name}}}});
    cluster.create(&path, budget).await?;
    let status = json!({"status": {"disruptionsAllowed": 0, "currentHealthy": 1,
        "desiredHealthy": 1, "expectedPods": 1, "observedGeneration": 1}});
    cluster.patch(&format!("{path}/{name}/status"), status).await?;
    // Neither scheduler reports when it has read the budget.
    sleep(Duration::from_millis(500)).await;
    Ok(())
}

/// Returns the victims a moment after the first one. Empty if there is none for a while.
async fn settled(cluster: &Cluster, namespace: &str) -> anyhow::Result<BTreeSet<String>> {
    let begun = tokio::time::Instant::now();
    eventually("somebody to go", async || {
        let is_some = !cluster.going(namespace).await?.is_empty();
        let is_over = is_some || begun.elapsed() > NOBODY_GOES;
        Ok(if is_over { Ok(()) } else { Err("nobody goes".to_owned()) })
    })
    .await?;
    sleep(Duration::from_millis(500)).await;
    cluster.going(namespace).await
}
