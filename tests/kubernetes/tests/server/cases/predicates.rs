//! Each predicate: a pod goes to the only node that passes, and otherwise reports why none does.

use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bed::SHIM;
use crate::cluster::{Cluster, Scheduler, eventually, merge};

pub struct Row {
    pub name: &'static str,
    /// Merged into the node that must fail, and into the one that must pass.
    pub wrong: Value,
    pub right: Value,
    /// Pods of another scheduler on the nodes: none, one or several.
    pub on_wrong: Value,
    pub on_right: Value,
    /// Merged into a third node, if there is one.
    pub third: Value,
    /// The pod.
    pub pod: Value,
    /// Reason for which the first node fails.
    pub why: &'static str,
}

/// Defaults for a pod and equal nodes.
pub fn row(name: &'static str, why: &'static str, pod: Value) -> Row {
    let nothing = json!({});
    let (wrong, right) = (nothing.clone(), nothing.clone());
    let (on_wrong, on_right, third) = (Value::Null, Value::Null, Value::Null);
    Row { name, wrong, right, on_wrong, on_right, third, pod, why }
}

pub fn labels(labels: Value) -> Value {
    json!({"metadata": {"labels": labels}})
}

fn taint(effect: &str) -> Value {
    json!({"spec": {"taints": [{"key": "k", "effect": effect}]}})
}

/// A term about pods with this label on the same host; `more` is merged into it.
pub fn pod_term(kind: &str, app: &str, more: Value) -> Value {
    let mut term = json!({"topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": app}}});
    merge(&mut term, more);
    json!({"spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}})
}

fn node_affinity(term: Value) -> Value {
    json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [term]}}}}})
}

pub fn pod_terms(kind: &str, app: &str) -> Value {
    pod_term(kind, app, json!({}))
}

fn rows() -> Vec<Row> {
    let expression = |key: &str, operator: &str, values: Value| {
        let mut wanted = json!({"key": key, "operator": operator});
        if !values.is_null() {
            wanted["values"] = values;
        }
        node_affinity(json!({"matchExpressions": [wanted]}))
    };
    let refuses = "node selector or affinity";
    vec![
        Row { wrong: taint("NoSchedule"), ..row("taint", "the taint k:NoSchedule", json!({})) },
        Row { wrong: taint("NoExecute"), ..row("execute", "the taint k:NoExecute", json!({})) },
        Row {
            wrong: json!({"spec": {"unschedulable": true}}),
            ..row("cordon", "cordoned", json!({}))
        },
        Row {
            right: labels(json!({"disk": "ssd"})),
            ..row("selector", refuses, json!({"spec": {"nodeSelector": {"disk": "ssd"}}}))
        },
        Row {
            right: labels(json!({"disk": "ssd"})),
            ..row("in", refuses, expression("disk", "In", json!(["ssd", "nvme"])))
        },
        Row {
            wrong: labels(json!({"disk": "hdd"})),
            ..row("notin", refuses, expression("disk", "NotIn", json!(["hdd"])))
        },
        Row {
            right: labels(json!({"disk": ""})),
            ..row("exists", refuses, expression("disk", "Exists", Value::Null))
        },
        Row {
            wrong: labels(json!({"disk": ""})),
            ..row("absent", refuses, expression("disk", "DoesNotExist", Value::Null))
        },
        Row {
            wrong: labels(json!({"generation": "3"})),
            right: labels(json!({"generation": "5"})),
            ..row("gt", refuses, expression("generation", "Gt", json!(["4"])))
        },
        Row {
            wrong: labels(json!({"generation": "5"})),
            right: labels(json!({"generation": "3"})),
            ..row("lt", refuses, expression("generation", "Lt", json!(["4"])))
        },
        row(
            "field",
            refuses,
            node_affinity(json!({"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["field-right"]}]})),
        ),
        Row {
            on_wrong: json!({"spec": {"containers": [{"name": "c", "image": "c",
                "ports": [{"containerPort": 1, "hostPort": 8080}]}]}}),
            ..row(
                "port",
                "port 8080/TCP",
                json!({"spec": {"containers": [{"name": "c", "image": "c",
                    "ports": [{"containerPort": 1, "hostPort": 8080}]}]}}),
            )
        },
        Row {
            on_right: labels(json!({"app": "near"})),
            ..row("near", "together with", pod_terms("podAffinity", "near"))
        },
        Row {
            on_wrong: labels(json!({"app": "far"})),
            ..row("far", "keeps away from", pod_terms("podAntiAffinity", "far"))
        },
        Row {
            on_wrong: pod_terms("podAntiAffinity", "guest"),
            ..row("guard", "keeps this one away", labels(json!({"app": "guest"})))
        },
        Row {
            on_wrong: labels(json!({"app": "spread"})),
            ..row(
                "spread",
                "spread over kubernetes.io/hostname",
                json!({"metadata": {"labels": {"app": "spread"}}, "spec": {"topologySpreadConstraints": [{
                    "maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "DoNotSchedule",
                    // Otherwise a pod restricted to one node would be spread over that node alone.
                    "nodeAffinityPolicy": "Ignore",
                    "labelSelector": {"matchLabels": {"app": "spread"}}}]}}),
            )
        },
    ]
}

async fn set_up(cluster: &Cluster, own: &str, row: &Row) -> anyhow::Result<()> {
    let Row { name, .. } = row;
    for (side, change, guests) in [
        ("wrong", &row.wrong, &row.on_wrong),
        ("right", &row.right, &row.on_right),
        ("third", &row.third, &Value::Null),
    ] {
        if side == "third" && change.is_null() {
            continue;
        }
        let node = format!("{name}-{side}");
        cluster.node(&node, 8, json!({"case": name, "side": side})).await?;
        if change.as_object().is_some_and(|all| !all.is_empty()) {
            cluster.patch(&format!("/api/v1/nodes/{node}"), change.clone()).await?;
        }
        let guests = match guests {
            Value::Array(all) => all.clone(),
            Value::Null => Vec::new(),
            one => vec![one.clone()],
        };
        for (number, mut guest) in guests.into_iter().enumerate() {
            merge(&mut guest, json!({"spec": {"schedulerName": "theirs", "nodeName": node}}));
            let namespace = guest["metadata"]["namespace"].as_str().unwrap_or(own);
            let namespace = namespace.to_owned();
            cluster.pod(&namespace, &format!("{node}-{number}"), guest).await?;
        }
    }
    Ok(())
}

/// Checks that each pod goes to the node that passes, and otherwise reports the reason.
pub async fn go_where_they_may(
    cluster: &Cluster,
    namespace: &str,
    rows: Vec<Row>,
) -> anyhow::Result<Scheduler> {
    cluster.create_namespace(namespace, json!({})).await?;
    for row in &rows {
        set_up(cluster, namespace, row).await?;
    }
    let scheduler = cluster.start(SHIM, &[]).await?;
    scheduler.ready().await?;
    // Pods that fit nowhere come first, since pods bound later would count for their affinity.
    for Row { name, pod, .. } in &rows {
        let mut lost = pod.clone();
        merge(&mut lost, json!({"spec": {"nodeSelector": {"case": name, "side": "wrong"}}}));
        cluster.pod(namespace, &format!("{name}-lost"), lost).await?;
    }
    for Row { name, why, .. } in &rows {
        let lost = format!("{name}-lost");
        cluster.wait_reason(namespace, &lost, "Unschedulable", why).await?;
        cluster.delete_pod(namespace, &lost).await?;
    }
    for Row { name, pod, .. } in &rows {
        let mut found = pod.clone();
        merge(&mut found, json!({"spec": {"nodeSelector": {"case": name}}}));
        cluster.pod(namespace, &format!("{name}-found"), found).await?;
    }
    for Row { name, .. } in &rows {
        let node = cluster.wait_node(namespace, &format!("{name}-found")).await?;
        ensure!(node == format!("{name}-right"), "{name} is bound to {node}");
    }
    Ok(scheduler)
}

pub async fn each_pod_goes_where_it_may(cluster: &mut Cluster) -> anyhow::Result<()> {
    let scheduler = go_where_they_may(cluster, "predicates", rows()).await?;
    volumes(cluster).await?;
    let devices =
        json!({"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}});
    cluster.pod("predicates", "devices", devices).await?;
    cluster.wait_reason("predicates", "devices", "NotSupported", "dynamic resource claims").await?;
    cluster.agrees(&scheduler).await
}

fn on_node(name: &str) -> Value {
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}]}})
}

async fn volume(cluster: &Cluster, name: &str, node: &str, more: Value) -> anyhow::Result<()> {
    let mut volume = json!({"metadata": {"name": name}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "nodeAffinity": on_node(node), "hostPath": {"path": "/x"}, "storageClassName": "local"}});
    merge(&mut volume, more);
    cluster.create("/api/v1/persistentvolumes", volume).await?;
    // Status of a volume without a claim, as the volume controller sets it.
    let status = json!({"status": {"phase": "Available"}});
    cluster.patch(&format!("/api/v1/persistentvolumes/{name}/status"), status).await.map(drop)
}

async fn claim(cluster: &Cluster, name: &str, class: &str, mode: &str) -> anyhow::Result<()> {
    let claim = json!({"metadata": {"name": name}, "spec": {"accessModes": [mode],
        "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}}});
    let path = "/api/v1/namespaces/predicates/persistentvolumeclaims";
    cluster.create(path, claim).await.map(drop)
}

/// Binds a claim, as the volume controller does.
async fn bind_claim(cluster: &Cluster, name: &str, volume: &str) -> anyhow::Result<()> {
    let path = format!("/api/v1/namespaces/predicates/persistentvolumeclaims/{name}");
    let bound = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": volume}});
    cluster.patch(&path, bound).await?;
    let status = json!({"status": {"phase": "Bound"}});
    cluster.patch(&format!("{path}/status"), status).await.map(drop)
}

fn mounting(claim: &str, nodes: Value) -> Value {
    json!({"spec": {"nodeSelector": nodes,
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}})
}

async fn volumes(cluster: &Cluster) -> anyhow::Result<()> {
    for side in ["left", "right"] {
        cluster.node(&format!("v-{side}"), 32, json!({"case": "v", "side": side})).await?;
    }
    let any = json!({"case": "v"});
    for (class, provisioner) in
        [("local", "kubernetes.io/no-provisioner"), ("made", "disks.example.com")]
    {
        let mut class = json!({"metadata": {"name": class}, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer"});
        if provisioner == "disks.example.com" {
            class["allowedTopologies"] = json!([{"matchLabelExpressions": [
                {"key": "kubernetes.io/hostname", "values": ["v-right"]}]}]);
        }
        cluster.create("/apis/storage.k8s.io/v1/storageclasses", class).await?;
    }

    // A bound volume is reached from one node.
    let once = json!({"spec": {"accessModes": ["ReadWriteOncePod"]}});
    volume(cluster, "bound", "v-right", once).await?;
    claim(cluster, "bound", "local", "ReadWriteOncePod").await?;
    bind_claim(cluster, "bound", "bound").await?;
    cluster.pod("predicates", "v-bound", mounting("bound", any.clone())).await?;
    ensure!(cluster.wait_node("predicates", "v-bound").await? == "v-right");
    // Its claim is used by one pod at a time.
    cluster.pod("predicates", "v-second", mounting("bound", any.clone())).await?;
    let why = "by one at a time";
    cluster.wait_reason("predicates", "v-second", "Unschedulable", why).await?;
    cluster.delete_pod("predicates", "v-second").await?;
    let wrong = json!({"case": "v", "side": "left"});
    cluster.delete_pod("predicates", "v-bound").await?;
    cluster.pod("predicates", "v-left", mounting("bound", wrong)).await?;
    let why = "cannot be reached";
    cluster.wait_reason("predicates", "v-left", "Unschedulable", why).await?;

    // An existing volume is reserved, and the pod bound once the controller has bound the claim.
    volume(cluster, "static", "v-left", json!({})).await?;
    claim(cluster, "static", "local", "ReadWriteOnce").await?;
    cluster.pod("predicates", "v-static", mounting("static", any.clone())).await?;
    eventually("the volume to be set aside", async || {
        let volume = cluster.get("/api/v1/persistentvolumes/static").await?;
        let name = &volume["spec"]["claimRef"]["name"];
        Ok(if name == "static" { Ok(()) } else { Err(name.to_string()) })
    })
    .await?;
    let set_aside = cluster.get("/api/v1/persistentvolumes/static").await?;
    let kept_for = &set_aside["spec"]["claimRef"]["uid"];
    let path = "/api/v1/namespaces/predicates/persistentvolumeclaims/static";
    ensure!(*kept_for == cluster.get(path).await?["metadata"]["uid"], "{set_aside}");
    let by = &set_aside["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"];
    ensure!(by == "yes", "{set_aside}");
    ensure!(cluster.read_pod("predicates", "v-static").await?["spec"]["nodeName"].is_null());
    bind_claim(cluster, "static", "static").await?;
    ensure!(cluster.wait_node("predicates", "v-static").await? == "v-left");

    // A new volume is provisioned on a node for which its class can do so.
    claim(cluster, "made", "made", "ReadWriteOnce").await?;
    cluster.pod("predicates", "v-made", mounting("made", any.clone())).await?;
    let path = "/api/v1/namespaces/predicates/persistentvolumeclaims/made";
    eventually("a volume to be wanted", async || {
        let claim = cluster.get(path).await?;
        let node = &claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"];
        Ok(if node == "v-right" { Ok(()) } else { Err(node.to_string()) })
    })
    .await?;
    // The provisioner gives up, and the volume is requested again.
    let taken_off =
        json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": null}}});
    let given_up = cluster.patch(path, taken_off).await?["metadata"]["resourceVersion"].clone();
    eventually("a volume to be wanted again", async || {
        let claim = cluster.get(path).await?;
        let node = &claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"];
        let is_again = node == "v-right" && claim["metadata"]["resourceVersion"] != given_up;
        Ok(if is_again { Ok(()) } else { Err(node.to_string()) })
    })
    .await?;
    let driver = json!({"spec": {"storageClassName": "made", "hostPath": null,
        "csi": {"driver": "disks.example.com", "volumeHandle": "h"}}});
    volume(cluster, "made", "v-right", driver.clone()).await?;
    bind_claim(cluster, "made", "made").await?;
    ensure!(cluster.wait_node("predicates", "v-made").await? == "v-right");

    // The node can attach one disk, and has it.
    let limits = json!({"metadata": {"name": "v-right"}, "spec": {"drivers": [
        {"name": "disks.example.com", "nodeID": "x", "topologyKeys": [], "allocatable": {"count": 1}}]}});
    cluster.create("/apis/storage.k8s.io/v1/csinodes", limits).await?;
    sleep(Duration::from_millis(300)).await;
    let mut other = driver;
    other["spec"]["csi"]["volumeHandle"] = json!("i");
    volume(cluster, "more", "v-right", other).await?;
    claim(cluster, "more", "made", "ReadWriteOnce").await?;
    bind_claim(cluster, "more", "more").await?;
    cluster.pod("predicates", "v-more", mounting("more", any.clone())).await?;
    let why = "no more volumes of disks.example.com";
    cluster.wait_reason("predicates", "v-more", "Unschedulable", why).await?;

    // A claim whose class provisions immediately is awaited.
    let immediate = json!({"metadata": {"name": "at-once"}, "provisioner": "disks.example.com"});
    cluster.create("/apis/storage.k8s.io/v1/storageclasses", immediate).await?;
    claim(cluster, "at-once", "at-once", "ReadWriteOnce").await?;
    cluster.pod("predicates", "v-at-once", mounting("at-once", any)).await?;
    let why = "`at-once` has no volume yet";
    cluster.wait_reason("predicates", "v-at-once", "Unschedulable", why).await?;
    Ok(())
}
