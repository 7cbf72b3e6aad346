//! Outcomes of pods, as each side reports them.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::Value;

use super::Outcome;
use super::build::{CALLS, Instance};
use crate::cluster::{Cluster, Scheduler};

/// Observed outcome of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Observed {
    /// No try is known.
    #[default]
    Nothing,
    Bound(String),
    Makes(String),
    Waits(String),
}

impl Observed {
    /// Returns whether both are placed or both are pending.
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

/// Returns the outcomes of pods. Ours are taken from explanations, which reach the pods' conditions
/// a moment later.
pub async fn observe(
    cluster: &Cluster,
    scheduler: Option<&Scheduler>,
    instances: &[&Instance<'_>],
) -> anyhow::Result<Vec<Observed>> {
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
            return Ok(Observed::Nothing);
        };
        if let Some(node) = pod["spec"]["nodeName"].as_str() {
            return Ok(Observed::Bound(node.to_owned()));
        }
        if let Some(node) = makes(&namespace) {
            return Ok(Observed::Makes(node));
        }
        let reason = match scheduler {
            Some(scheduler) => explained(scheduler, &namespace, pod).await?,
            None => condition(pod, "Unschedulable"),
        };
        Ok(reason.map_or(Observed::Nothing, Observed::Waits))
    });
    futures::stream::iter(all).buffered(CALLS).try_collect().await
}

/// Returns the message of the pod's condition, if it has this reason.
fn condition(pod: &Value, reason: &str) -> Option<String> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let is_it = |one: &&Value| one["type"] == "PodScheduled" && one["reason"] == reason;
    let message = conditions.iter().find(is_it)?["message"].as_str()?;
    Some(message.to_owned())
}

/// Returns why the pod waits, by our explanation. `None` before the pod was tried and nodes were
/// counted.
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
        // The pod was refused before any node was checked.
        404 => return Ok(condition(pod, "NotSupported")),
        _ => bail!("{path}: {status} {text}"),
    }
    let answer: Value = serde_json::from_str(&text)?;
    let entry = &answer[0];
    let is_tried = entry["cause"].as_str().is_some_and(|cause| cause != "next");
    let message = entry["message"].as_str().filter(|_| is_tried);
    // Results about nodes alone are known a moment later.
    let message = message.filter(|message| !message.contains("is being counted"));
    Ok(message.map(str::to_owned))
}
