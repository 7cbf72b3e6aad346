//! Predicates about taints, host ports and affinity.

use serde_json::{Value, json};

use super::predicates::{Row, go_where_they_may, labels, pod_term, pod_terms, row};
use crate::cluster::{Cluster, merge};

fn tainted(key: &str, value: &str, effect: &str) -> Value {
    json!({"spec": {"taints": [{"key": key, "value": value, "effect": effect}]}})
}

/// A pod with a host port.
fn on_port(port: Value) -> Value {
    json!({"spec": {"containers": [{"name": "c", "image": "c", "ports": [port]}]}})
}

/// Namespaces of an affinity term, besides the pod's own.
const ELSEWHERE: &str = "elsewhere";

/// A pod of another namespace.
fn elsewhere(app: &str) -> Value {
    json!({"metadata": {"namespace": ELSEWHERE, "labels": {"app": app}}})
}

/// A pod that is spread with others of its label, over nodes with a label of the same name.
fn spread(app: &str, more: Value) -> Value {
    let mut constraint = json!({"maxSkew": 1, "topologyKey": app, "whenUnsatisfiable": "DoNotSchedule",
        "nodeAffinityPolicy": "Ignore", "labelSelector": {"matchLabels": {"app": app}}});
    merge(&mut constraint, more);
    json!({"metadata": {"labels": {"app": app}}, "spec": {"topologySpreadConstraints": [constraint]}})
}

/// A pod with this label and a version.
fn version(app: &str, hash: &str) -> Value {
    labels(json!({"app": app, "pod-template-hash": hash}))
}

fn rows_of_taints_and_ports() -> Vec<Row> {
    let tolerating = |toleration: Value| json!({"spec": {"tolerations": [toleration]}});
    let port = |number: u16, more: Value| {
        let mut port = json!({"containerPort": 1, "hostPort": number});
        merge(&mut port, more);
        on_port(port)
    };
    vec![
        Row {
            wrong: tainted("k", "other", "NoSchedule"),
            right: tainted("k", "v", "NoSchedule"),
            ..row(
                "equal",
                "the taint k=other:NoSchedule",
                tolerating(
                    json!({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}),
                ),
            )
        },
        Row {
            wrong: tainted("other", "v", "NoExecute"),
            right: tainted("k", "v", "NoExecute"),
            ..row(
                "there",
                "the taint other=v:NoExecute",
                tolerating(json!({"key": "k", "operator": "Exists"})),
            )
        },
        Row {
            wrong: tainted("k", "v", "NoExecute"),
            right: tainted("k", "v", "NoSchedule"),
            ..row(
                "effect",
                "the taint k=v:NoExecute",
                tolerating(json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"})),
            )
        },
        Row {
            right: json!({"spec": {"unschedulable": true}}),
            wrong: tainted("k", "v", "NoSchedule"),
            ..row(
                "cordoned",
                "the taint k=v:NoSchedule",
                tolerating(
                    json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}),
                ),
            )
        },
        Row {
            on_wrong: port(53, json!({"protocol": "UDP"})),
            on_right: port(53, json!({"protocol": "TCP"})),
            ..row("udp", "port 53/UDP", port(53, json!({"protocol": "UDP"})))
        },
        Row {
            on_wrong: port(81, json!({"hostIP": "10.0.0.1"})),
            on_right: port(81, json!({"hostIP": "10.0.0.2"})),
            ..row("address", "port 81/TCP", port(81, json!({"hostIP": "10.0.0.1"})))
        },
        Row {
            on_wrong: port(82, json!({})),
            on_right: port(83, json!({})),
            ..row("all-addresses", "port 82/TCP", port(82, json!({"hostIP": "10.0.0.1"})))
        },
    ]
}

fn rows_between_pods() -> Vec<Row> {
    let host = "kubernetes.io/hostname";
    // Two nodes with different values, and a third with one of them.
    let domain = |app: &str, value: &str| labels(json!({app: value}));
    vec![
        Row {
            on_right: elsewhere("listed"),
            ..row(
                "listed",
                "together with",
                pod_term("podAffinity", "listed", json!({"namespaces": [ELSEWHERE]})),
            )
        },
        Row {
            on_right: elsewhere("selected"),
            ..row(
                "selected",
                "together with",
                pod_term(
                    "podAffinity",
                    "selected",
                    json!({"namespaceSelector":
                    {"matchLabels": {"kubernetes.io/metadata.name": ELSEWHERE}}}),
                ),
            )
        },
        Row {
            on_wrong: elsewhere("anywhere"),
            ..row(
                "anywhere",
                "keeps away from",
                pod_term("podAntiAffinity", "anywhere", json!({"namespaceSelector": {}})),
            )
        },
        // By default the term is about the pod's own namespace.
        Row {
            on_wrong: labels(json!({"app": "own"})),
            on_right: elsewhere("own"),
            ..row("own", "keeps away from", pod_terms("podAntiAffinity", "own"))
        },
        Row {
            on_wrong: version("versions", "2"),
            on_right: version("versions", "1"),
            ..row("versions", "keeps away from", {
                let same = json!({"matchLabelKeys": ["pod-template-hash"]});
                let mut pod = pod_term("podAntiAffinity", "versions", same);
                merge(&mut pod, version("versions", "2"));
                pod
            })
        },
        Row {
            wrong: domain("keys", "1"),
            right: domain("keys", "2"),
            on_wrong: version("keys", "2"),
            on_right: version("keys", "1"),
            ..row("keys", "spread over keys", {
                let mut pod = spread("keys", json!({"matchLabelKeys": ["pod-template-hash"]}));
                merge(&mut pod, version("keys", "2"));
                pod
            })
        },
        // Two domains are fewer than three, so an empty one counts too.
        Row {
            wrong: domain("domains", "1"),
            right: domain("domains", "2"),
            on_wrong: json!([labels(json!({"app": "domains"})), labels(json!({"app": "domains"}))]),
            on_right: labels(json!({"app": "domains"})),
            ..row(
                "domains",
                "spread over domains",
                spread("domains", json!({"maxSkew": 2, "minDomains": 3})),
            )
        },
        // A node with an untolerated taint is no domain. Otherwise no pod could run in the other
        // one.
        Row {
            wrong: domain("tolerated", "1"),
            right: domain("tolerated", "2"),
            third: {
                let mut node = domain("tolerated", "3");
                merge(&mut node, tainted("k", "v", "NoSchedule"));
                node
            },
            on_wrong: json!([
                labels(json!({"app": "tolerated"})),
                labels(json!({"app": "tolerated"}))
            ]),
            on_right: labels(json!({"app": "tolerated"})),
            ..row(
                "tolerated",
                "spread over tolerated",
                spread("tolerated", json!({"nodeTaintsPolicy": "Honor"})),
            )
        },
        Row {
            on_wrong: labels(json!({"app": "mismatch", "tenant": "other"})),
            on_right: labels(json!({"app": "mismatch", "tenant": "own"})),
            ..row("mismatch", "keeps away from", {
                let others = json!({"topologyKey": host, "mismatchLabelKeys": ["tenant"]});
                let mut pod = pod_term("podAntiAffinity", "mismatch", others);
                merge(&mut pod, labels(json!({"app": "mismatch", "tenant": "own"})));
                pod
            })
        },
    ]
}

pub async fn taints_and_ports(cluster: &mut Cluster) -> anyhow::Result<()> {
    let scheduler = go_where_they_may(cluster, "ports", rows_of_taints_and_ports()).await?;
    cluster.agrees(&scheduler).await
}

pub async fn pods_near_and_far(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace(ELSEWHERE, json!({})).await?;
    let scheduler = go_where_they_may(cluster, "pods", rows_between_pods()).await?;
    cluster.agrees(&scheduler).await
}
