//! Builds a scene in a control plane, and removes it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures::TryStreamExt as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::run::BETWEEN_LOOKS;
use super::{Asked, Call, Outcome, Row, Scene};
use crate::cluster::{Cluster, SOON, merge};

/// The `schedulerName` of pods in both control planes.
pub const NAME: &str = "monoceros";
/// Most concurrent calls to an API server.
pub const CALLS: usize = 16;
/// Pause between two creations that must be ordered, since creation times are whole seconds.
const A_SECOND_LATER: Duration = Duration::from_millis(1_100);

/// Instance of a row: for all nodes, or for one.
pub struct Instance<'r> {
    pub row: &'r Row,
    pub asked: &'r Asked,
    pub id: String,
    pub node: Option<String>,
    /// Whether its running pods are created.
    pub has_runs: bool,
}

/// Returns the resource that only this node has.
pub fn pin(node: &str) -> String {
    format!("pin.example.com/{node}")
}

impl Instance<'_> {
    pub fn name(&self) -> String {
        let node = self.node.as_deref().map(|node| format!(" on {node}")).unwrap_or_default();
        format!("{}: {}{node}", self.row.what, self.asked.name)
    }

    pub fn namespace(&self) -> String {
        format!("ns{}", self.id)
    }

    fn fill(&self, object: &Value) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&object.to_string().replace('$', &self.id))?)
    }

    async fn call(&self, cluster: &Cluster, call: &Call) -> anyhow::Result<()> {
        let call = Call {
            path: call.path.replace('$', &self.id),
            body: self.fill(&call.body)?,
            ..call.clone()
        };
        run(cluster, &call).await
    }

    async fn pod(&self, cluster: &Cluster, name: &str, pod: &Value) -> anyhow::Result<()> {
        let mut pod = self.fill(pod)?;
        let spoken = pod["metadata"]["namespace"].as_str().map(str::to_owned);
        let namespace = spoken.unwrap_or_else(|| self.namespace());
        pod["metadata"]["name"] = json!(name);
        complete(&mut pod);
        cluster.create(&format!("/api/v1/namespaces/{namespace}/pods"), pod).await.map(drop)
    }
}

/// Returns the instances of each row: for each of its pods, or for each node and for all.
pub fn instances(scene: &Scene) -> Vec<Instance<'_>> {
    static SCENES: AtomicUsize = AtomicUsize::new(0);
    let scene_number = SCENES.fetch_add(1, Ordering::Relaxed);
    let mut all = Vec::new();
    for (number, row) in scene.rows.iter().enumerate() {
        let goes = |asked: &Asked| {
            matches!(asked.outcomes.first(), Some(Outcome::Goes(_) | Outcome::Alike))
        };
        let id = |copy: usize| format!("{scene_number}x{number}x{copy}");
        match &row.asked[..] {
            [asked] if goes(asked) => {
                // A pod that may go anywhere is pending only if no node fits. If some fit, each is
                // tried.
                let is_none = |outcome: &Outcome| *outcome == Outcome::Goes(Vec::new());
                let has_none = asked.outcomes.iter().any(is_none);
                let of_ours = row.ours.iter().flat_map(|(outcomes, _)| outcomes);
                let has_some = !asked.outcomes.iter().chain(of_ours).all(is_none);
                if has_none && !row.is_pinned {
                    all.push(Instance { row, asked, id: id(0), node: None, has_runs: true });
                }
                if !has_some && !row.is_pinned {
                    continue;
                }
                let names = scene.nodes.iter().filter_map(|node| node["metadata"]["name"].as_str());
                for (copy, node) in names.filter(|name| name.ends_with(&row.suffix)).enumerate() {
                    let node = Some(node.to_owned());
                    let has_runs = !row.is_pinned || copy == 0;
                    all.push(Instance { row, asked, id: id(copy + 1), node, has_runs });
                }
            }
            several => {
                all.extend(several.iter().map(|asked| {
                    assert!(!goes(asked), "{}: one of several pods", row.what);
                    Instance { row, asked, id: id(0), node: None, has_runs: true }
                }));
            }
        }
    }
    all
}

/// Returns the first instance in each namespace. Each pod of a row is an instance.
fn places<'i, 'r>(instances: &'i [Instance<'r>]) -> impl Iterator<Item = &'i Instance<'r>> {
    let is_first = |(at, it): &(usize, &Instance<'_>)| *at == 0 || instances[*at - 1].id != it.id;
    instances.iter().enumerate().filter(is_first).map(|(_, it)| it)
}

async fn run(cluster: &Cluster, call: &Call) -> anyhow::Result<()> {
    let Call { method, path, body } = call;
    let sent = cluster.send(method, path, body).await;
    sent.map(drop).with_context(|| format!("{method} {path} {body}"))
}

/// Creates nodes, waits until the scheduler has them, and creates everything that exists before the
/// pods.
pub async fn build(
    cluster: &Cluster,
    scene: &Scene,
    instances: &[Instance<'_>],
) -> anyhow::Result<()> {
    let nodes = scene.nodes.iter().map(Ok);
    let make_node =
        async |node: &Value| cluster.create("/api/v1/nodes", node.clone()).await.map(drop);
    futures::stream::iter(nodes).try_for_each_concurrent(CALLS, make_node).await?;
    for object in &scene.objects {
        run(cluster, object).await?;
    }
    see_nodes(cluster, scene).await?;
    futures::stream::iter(places(instances).map(Ok))
        .try_for_each_concurrent(CALLS, |instance| async move {
            let mut labels = json!({});
            merge(&mut labels, instance.fill(&instance.row.labels)?);
            let space = json!({"metadata": {"name": instance.namespace(), "labels": labels}});
            cluster.create("/api/v1/namespaces", space).await?;
            for object in &instance.row.objects {
                instance.call(cluster, object).await?;
            }
            let runs = instance.row.runs.iter().filter(|_| instance.has_runs);
            for (number, (node, pod)) in runs.enumerate() {
                let node = format!("{node}{}", instance.row.suffix);
                let mut pod = pod.clone();
                merge(&mut pod, json!({"spec": {"nodeName": node, "schedulerName": "theirs"}}));
                instance.pod(cluster, &format!("r{number}"), &pod).await?;
            }
            for call in instance.row.happened.iter().filter(|_| instance.has_runs) {
                instance.call(cluster, call).await?;
            }
            Ok(())
        })
        .await
}

/// Waits until the scheduler has bound a pod to each node, and deletes these pods.
async fn see_nodes(cluster: &Cluster, scene: &Scene) -> anyhow::Result<()> {
    let path = "/api/v1/namespaces/default/pods";
    let names = scene.nodes.iter().filter_map(|node| node["metadata"]["name"].as_str());
    futures::stream::iter(names.map(Ok))
        .try_for_each_concurrent(CALLS, async |node| {
            let mut pod = json!({"metadata": {"name": node},
                "spec": {"tolerations": [{"operator": "Exists"}]}});
            complete(&mut pod);
            pin_to(&mut pod, node);
            cluster.create(path, pod).await?;
            let path = format!("{path}/{node}");
            let until = Instant::now() + SOON;
            while cluster.get(&path).await?["spec"]["nodeName"].is_null() {
                ensure!(Instant::now() < until, "{node} is not known");
                sleep(BETWEEN_LOOKS).await;
            }
            cluster.delete(&path).await
        })
        .await
}

/// Creates the pods, those of each row in order.
pub async fn ask(cluster: &Cluster, instances: &[Instance<'_>]) -> anyhow::Result<()> {
    let of_row = instances.chunk_by(|one, other| one.id == other.id);
    futures::stream::iter(of_row.map(Ok))
        .try_for_each_concurrent(CALLS, |of_row| async move {
            for (number, instance) in of_row.iter().enumerate() {
                if number > 0 {
                    sleep(A_SECOND_LATER).await;
                }
                let mut pod = instance.asked.pod.clone();
                complete(&mut pod);
                if let Some(node) = &instance.node {
                    pin_to(&mut pod, node);
                }
                instance.pod(cluster, instance.asked.name, &pod).await?;
            }
            Ok(())
        })
        .await
}

pub async fn make(
    cluster: &Cluster,
    instances: &[Instance<'_>],
    change: usize,
) -> anyhow::Result<()> {
    for instance in places(instances).filter(|it| it.has_runs) {
        for call in instance.row.changes.get(change).into_iter().flatten() {
            instance.call(cluster, call).await?;
        }
    }
    Ok(())
}

/// Deletes everything that the next scene could see. Namespaces and the claims in them stay.
pub async fn clear(cluster: &Cluster, scene: &Scene, all: &[Instance<'_>]) -> anyhow::Result<()> {
    let pods = cluster.list("/api/v1/pods?limit=100000").await?;
    let spaces: BTreeSet<_> =
        pods.iter().filter_map(|pod| pod["metadata"]["namespace"].as_str()).collect();
    futures::stream::iter(spaces.into_iter().map(Ok))
        .try_for_each_concurrent(CALLS, |space| async move {
            cluster.delete(&format!("/api/v1/namespaces/{space}/pods")).await
        })
        .await?;
    cluster.delete("/api/v1/nodes").await?;
    if !scene.objects.is_empty() || all.iter().any(|it| !it.row.objects.is_empty()) {
        for kind in ["persistentvolumes", "storageclasses", "csinodes"] {
            let group = if kind.starts_with('p') { "/api/v1" } else { "/apis/storage.k8s.io/v1" };
            cluster.delete(&format!("{group}/{kind}")).await?;
        }
    }
    Ok(())
}

/// Adds fields that a pod needs and a table leaves out.
fn complete(pod: &mut Value) {
    let spec = &mut pod["spec"];
    merge_missing(spec, "schedulerName", json!(NAME));
    merge_missing(spec, "terminationGracePeriodSeconds", json!(1));
    merge_missing(spec, "containers", json!([{}]));
    for kind in ["containers", "initContainers"] {
        for (number, one) in spec[kind].as_array_mut().into_iter().flatten().enumerate() {
            merge_missing(one, "name", json!(format!("{}{number}", &kind[..1])));
            merge_missing(one, "image", json!("c"));
            for port in one["ports"].as_array_mut().into_iter().flatten() {
                let number = port["hostPort"].clone();
                merge_missing(port, "containerPort", number);
            }
        }
    }
    spec.as_object_mut().into_iter().for_each(|spec| spec.retain(|_, value| !value.is_null()));
}

fn merge_missing(object: &mut Value, key: &str, value: Value) {
    if object[key].is_null() {
        object[key] = value;
    }
}

/// Adds a request for the resource that only this node has.
fn pin_to(pod: &mut Value, node: &str) {
    for kind in ["requests", "limits"] {
        pod["spec"]["containers"][0]["resources"][kind][pin(node)] = json!("1");
    }
}
