//! What has become of pods, as each side tells it.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::Value;

use super::Outcome;
use super::build::{CALLS, Instance};
use crate::cluster::{Cluster, Scheduler};

/// What is seen of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// Nobody has tried to place it, as far as is known.
    #[default]
    Nothing,
    Bound(String),
    Makes(String),
    Waits(String),
}

impl Seen {
    /// Whether both are placed or both wait.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Waits(_), Self::Waits(_)) => true,
            (one, other) => *one != Self::Nothing && one == other,
        }
    }

    pub fn is(&self, outcome: &Outcome, node: Option<&str>) -> bool {
        match (self, outcome) {
            (Self::Bound(bound) | Self::Makes(bound), Outcome::Goes(nodes)) => {
                nodes.contains(&&**bound) && node.is_none_or(|node| node == bound)
            }
            (Self::Bound(bound), Outcome::Among(nodes)) => nodes.contains(&&**bound),
            (Self::Waits(_), Outcome::Goes(nodes)) => match node {
                Some(node) => !nodes.contains(&node),
                None => nodes.is_empty(),
            },
            (Self::Waits(_), Outcome::Waits) | (Self::Nothing, Outcome::Untried) => true,
            _ => false,
        }
    }
}

pub fn wanted(outcome: &Outcome, node: Option<&str>) -> String {
    match (outcome, node) {
        (Outcome::Goes(nodes), Some(node)) if nodes.contains(&node) => "bound".to_owned(),
        (Outcome::Goes(_), Some(_)) => "waiting".to_owned(),
        (outcome, _) => format!("{outcome:?}"),
    }
}

/// What has become of the pods. What ours says is what it explains; it is on the pod a moment later.
pub async fn see(
    cluster: &Cluster,
    scheduler: Option<&Scheduler>,
    instances: &[&Instance<'_>],
) -> anyhow::Result<Vec<Seen>> {
    let name = |it: &Value| {
        let text = |key: &str| it["metadata"][key].as_str().unwrap_or_default().to_owned();
        (text("namespace"), text("name"))
    };
    let pods = cluster.list("/api/v1/pods?limit=100000").await?;
    let pods: BTreeMap<_, _> = pods.iter().map(|pod| (name(pod), pod)).collect();
    let has_claims = instances.iter().any(|it| !it.row.objects.is_empty());
    let claims = if has_claims {
        cluster.list("/api/v1/persistentvolumeclaims?limit=100000").await?
    } else {
        Vec::new()
    };
    let makes = |namespace: &str| {
        let mut of_it = claims.iter().filter(|claim| name(claim).0 == namespace);
        let key = "volume.kubernetes.io/selected-node";
        let node = of_it.find_map(|claim| claim["metadata"]["annotations"][key].as_str());
        node.map(str::to_owned)
    };
    let all = instances.iter().map(|instance| async {
        let namespace = instance.namespace();
        let Some(pod) = pods.get(&(namespace.clone(), instance.asked.name.to_owned())) else {
            return Ok(Seen::Nothing);
        };
        if let Some(node) = pod["spec"]["nodeName"].as_str() {
            return Ok(Seen::Bound(node.to_owned()));
        }
        if let Some(node) = makes(&namespace) {
            return Ok(Seen::Makes(node));
        }
        let said = match scheduler {
            Some(scheduler) => explained(scheduler, &namespace, pod).await?,
            None => condition(pod, "Unschedulable"),
        };
        Ok(said.map_or(Seen::Nothing, Seen::Waits))
    });
    futures::stream::iter(all).buffered(CALLS).try_collect().await
}

/// The message of the pod's condition, if that has this reason.
fn condition(pod: &Value, reason: &str) -> Option<String> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let is_it = |one: &&Value| one["type"] == "PodScheduled" && one["reason"] == reason;
    let said = conditions.iter().find(is_it)?["message"].as_str()?;
    Some(said.to_owned())
}

/// Why the pod waits, as ours says; nothing before it was tried and nodes were counted.
async fn explained(
    scheduler: &Scheduler,
    namespace: &str,
    pod: &Value,
) -> anyhow::Result<Option<String>> {
    let uid = pod["metadata"]["uid"].as_str().context("a UID")?;
    let path =
        format!("/ws/v1/partition/default/application/{namespace}-autogen/explain?ask={uid}");
    let (status, text) = scheduler.ask(&path).await?;
    match status {
        200 => {}
        // It was refused before any node was asked.
        404 => return Ok(condition(pod, "NotSupported")),
        _ => bail!("{path}: {status} {text}"),
    }
    let answer: Value = serde_json::from_str(&text)?;
    let entry = &answer[0];
    let is_tried = entry["cause"].as_str().is_some_and(|cause| cause != "next");
    let message = entry["message"].as_str().filter(|_| is_tried);
    // What nodes say by themselves is known a moment later.
    let message = message.filter(|message| !message.contains("is being counted"));
    Ok(message.map(str::to_owned))
}
