//! Condition of pending pods, by which autoscalers add nodes: both schedulers must use the same
//! reason.

use std::collections::BTreeMap;

use anyhow::ensure;
use serde_json::{Value, json};

use super::run::on_both;
use super::{node, with};
use crate::cluster::{Cluster, eventually};

/// The only reason of kube-scheduler.
const UNSCHEDULABLE: &str = "Unschedulable";

/// Pending pods by name, with the reason of our scheduler.
fn waiting() -> Vec<(&'static str, Value, &'static str)> {
    let spec = |spec: Value| json!({"spec": spec});
    let cpu = |cpu: &str| {
        spec(
            json!({"containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}}]}),
        )
    };
    let member = json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1",
        "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true}]}});
    let on_full = spec(json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["small"]}]}]}}}}));
    vec![
        ("large", cpu("4"), UNSCHEDULABLE),
        ("of-no-label", spec(json!({"nodeSelector": {"no": "where"}})), UNSCHEDULABLE),
        (
            "near-nobody",
            spec(
                json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}]}}}),
            ),
            UNSCHEDULABLE,
        ),
        (
            "without-a-claim",
            spec(
                json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]}),
            ),
            UNSCHEDULABLE,
        ),
        // No node is added for a pod that needs one particular node.
        ("member", with(&with(&cpu("4"), &on_full), &member), "RequiredNode"),
        (
            "with-a-disk",
            spec(
                json!({"volumes": [{"name": "v", "iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2026-01.com.example:x",
                "lun": 0}}], "nodeSelector": {"no": "where"}}),
            ),
            "NotSupported",
        ),
    ]
}

pub async fn reasons_of_conditions(cluster: &mut Cluster) -> anyhow::Result<()> {
    on_both(cluster, async |cluster, is_ours| {
        cluster.create_namespace("waiting", json!({})).await?;
        cluster.pod("waiting", "early", json!({})).await?;
        wait_reasons(cluster, &[("early", UNSCHEDULABLE)]).await?;
        cluster.delete_pod("waiting", "early").await?;
        let small = node("small", json!({}), json!({"status": {"allocatable": {"cpu": "2"}}}));
        cluster.create("/api/v1/nodes", small).await?;
        let waiting = waiting();
        for (name, pod, _) in &waiting {
            cluster.pod("waiting", name, pod.clone()).await?;
        }
        let right: Vec<_> = waiting
            .iter()
            .map(|(name, _, ours)| (*name, if is_ours { *ours } else { UNSCHEDULABLE }))
            .collect();
        wait_reasons(cluster, &right).await
    })
    .await
}

/// Waits until each pod has this reason.
async fn wait_reasons(cluster: &Cluster, right: &[(&str, &str)]) -> anyhow::Result<()> {
    eventually("each pod to say why it waits", async || {
        let pods = cluster.list("/api/v1/namespaces/waiting/pods").await?;
        let mut reasons = BTreeMap::new();
        for pod in &pods {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            ensure!(pod["spec"]["nodeName"].is_null(), "{name} is bound");
            let conditions = pod["status"]["conditions"].as_array();
            let is_it = |one: &&Value| one["type"] == "PodScheduled" && one["status"] == "False";
            let reason = conditions.into_iter().flatten().find(is_it);
            reasons.insert(name, reason.and_then(|one| one["reason"].as_str()).unwrap_or_default());
        }
        let wrong = right.iter().find(|(name, reason)| reasons.get(name) != Some(reason));
        Ok(wrong.map_or(Ok(()), |(name, reason)| {
            Err(format!("{name} says {:?}, not {reason}", reasons.get(name)))
        }))
    })
    .await
}
