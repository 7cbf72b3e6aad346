//! Rules about the node alone, and host ports.

use serde_json::{Value, json};

use super::run::alike;
use super::{Outcome, Row, beside, given, goes, node, own, patch, pod, scene, three, with};
use crate::cluster::Cluster;

fn required(terms: &Value) -> Value {
    json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

fn expression(key: &str, operator: &str, values: &Value) -> Value {
    let mut expression = json!({"key": key, "operator": operator});
    if !values.is_null() {
        expression["values"] = values.clone();
    }
    required(&json!([{"matchExpressions": [expression]}]))
}

fn field(operator: &str, name: &str) -> Value {
    json!({"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]})
}

/// Nodes without a heartbeat, and one that is being deleted. A node is used until it is tainted or
/// removed.
fn of_lost_nodes() -> Vec<super::Scene> {
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False",
        "reason": "KubeletNotReady", "message": "", "lastHeartbeatTime": null,
        "lastTransitionTime": null}]}});
    let not_ready = "node.kubernetes.io/not-ready";
    let nodes = vec![
        node("unready", json!({}), unready),
        // Every pod tolerates this taint for some minutes.
        tainted("executes", &json!([taint(not_ready, "", "NoExecute")])),
        tainted("schedules", &json!([taint(not_ready, "", "NoSchedule")])),
    ];
    let plain = || goes("plain", pod(json!({}), json!({})), &["unready", "executes"]);
    let kept = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    let nodes_of_going = vec![node("going", json!({}), kept), node("stays", json!({}), json!({}))];
    let going = given("a node that is being deleted");
    let going = going.happened(super::delete("/api/v1/nodes/going", 0));
    let asks = json!({"nodeSelector": {"kubernetes.io/hostname": "going"}});
    let going = going.asks("asked", pod(json!({}), asks), Outcome::Among(vec!["going"]));
    let gone = patch("/api/v1/nodes/going", json!({"metadata": {"finalizers": null}}));
    let gated = given("a gate that is lifted").asks(
        "asked",
        pod(json!({}), json!({"schedulingGates": [{"name": "example.com/gate"}]})),
        Outcome::Untried,
    );
    let lifted = patch(&own("pods/asked"), json!({"spec": {"schedulingGates": null}}));
    let alone = vec![node("a1", json!({}), json!({}))];
    vec![
        scene("lost nodes", nodes, vec![plain()]),
        scene(
            "a node that goes",
            nodes_of_going,
            vec![going.then(vec![gone], [Outcome::Among(vec!["going"])])],
        ),
        scene("gates", alone, vec![gated.then(vec![lifted], [Outcome::Among(vec!["a1"])])]),
    ]
}

/// A pod with this spec may go to these nodes.
fn spec(spec: &Value, nodes: &[&'static str]) -> Row {
    goes(spec.to_string(), pod(json!({}), spec.clone()), nodes)
}

pub async fn selectors_and_affinity(cluster: &mut Cluster) -> anyhow::Result<()> {
    let in_zone = |zone: &str| json!({"key": "zone", "operator": "In", "values": [zone]});
    let cores = |cores: &str| json!({"key": "cores", "operator": "In", "values": [cores]});
    let a_and_cores = |more: &Value| with(&expression("zone", "In", &json!(["a"])), more);
    let rows = vec![
        spec(&json!({}), &["a1", "a2", "b1"]),
        spec(&json!({"nodeSelector": {"zone": "a"}}), &["a1", "a2"]),
        spec(&json!({"nodeSelector": {"zone": "a", "disk": "ssd"}}), &[]),
        spec(&json!({"nodeSelector": {"no": "where"}}), &[]),
        spec(&expression("zone", "In", &json!(["b", "c"])), &["b1"]),
        spec(&expression("disk", "NotIn", &json!(["ssd"])), &["a1", "a2"]),
        spec(&expression("disk", "Exists", &Value::Null), &["b1"]),
        spec(&expression("disk", "DoesNotExist", &Value::Null), &["a1", "a2"]),
        spec(&expression("cores", "Gt", &json!(["8"])), &["a2"]),
        spec(&expression("cores", "Lt", &json!(["16"])), &["a1"]),
        spec(&expression("zone", "Gt", &json!(["1"])), &[]),
        spec(&required(&json!([{}])), &[]),
        spec(&required(&json!([field("In", "a2")])), &["a2"]),
        spec(&required(&json!([field("NotIn", "a2")])), &["a1", "b1"]),
        spec(&required(&json!([field("In", "nowhere")])), &[]),
        // Both requirements of a term, and one of two terms.
        spec(&required(&json!([{"matchExpressions": [in_zone("a"), cores("16")]}])), &["a2"]),
        spec(
            &required(&json!([
                {"matchExpressions": [in_zone("b")]}, {"matchExpressions": [cores("16")]}])),
            &["a2", "b1"],
        ),
        // Selector and affinity together.
        spec(&a_and_cores(&json!({"nodeSelector": {"cores": "8"}})), &["a1"]),
        spec(&a_and_cores(&json!({"nodeSelector": {"disk": "ssd"}})), &[]),
        spec(
            &required(
                &json!([with(&field("NotIn", "a2"), &json!({"matchExpressions": [in_zone("a")]})),
                {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]),
            ),
            &["a1", "b1"],
        ),
        // A preference excludes no node.
        spec(
            &json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
                [{"weight": 10, "preference": {"matchExpressions": [in_zone("c")]}}]}}}),
            &["a1", "a2", "b1"],
        ),
    ];
    let label = |value: &str| {
        vec![patch("/api/v1/nodes/b1", json!({"metadata": {"labels": {"disk": value}}}))]
    };
    let later =
        goes("a label that comes", pod(json!({}), json!({"nodeSelector": {"disk": "nvme"}})), &[]);
    let later = later.then(label("nvme"), [Outcome::Goes(vec!["b1"])]);
    let scenes = vec![scene("selectors", three(), rows), scene("labels", three(), vec![later])];
    alike(cluster, &[], scenes).await
}

fn tainted(name: &'static str, taints: &Value) -> Value {
    node(name, json!({}), json!({"spec": {"taints": taints}}))
}

fn taint(key: &str, value: &str, effect: &str) -> Value {
    json!({"key": key, "value": value, "effect": effect})
}

/// A pod with these tolerations may go to these nodes.
fn tolerates(tolerations: &Value, nodes: &[&'static str]) -> Row {
    spec(&json!({"tolerations": tolerations}), nodes)
}

pub async fn cordons_taints_and_tolerations(cluster: &mut Cluster) -> anyhow::Result<()> {
    let nodes = vec![
        tainted("no", &json!([taint("gpu", "yes", "NoSchedule")])),
        tainted("go", &json!([taint("gpu", "yes", "NoExecute")])),
        tainted("soft", &json!([taint("gpu", "yes", "PreferNoSchedule")])),
        tainted("bare", &json!([taint("gpu", "", "NoSchedule")])),
        tainted("two", &json!([taint("gpu", "", "NoSchedule"), taint("spot", "", "NoExecute")])),
        node("shut", json!({}), json!({"spec": {"unschedulable": true}})),
    ];
    let exists = |key: &str| json!({"key": key, "operator": "Exists"});
    let cordon = "node.kubernetes.io/unschedulable";
    let rows = vec![
        tolerates(&json!([]), &["soft"]),
        tolerates(&json!([{"key": "gpu", "value": "yes"}]), &["no", "go", "soft"]),
        tolerates(&json!([{"key": "gpu", "operator": "Equal", "value": "no"}]), &["soft"]),
        tolerates(&json!([exists("gpu")]), &["no", "go", "soft", "bare"]),
        tolerates(&json!([exists("cpu")]), &["soft"]),
        tolerates(&json!([{"operator": "Exists"}]), &["no", "go", "soft", "bare", "two", "shut"]),
        tolerates(&json!([{"operator": "Exists", "effect": "NoExecute"}]), &["go", "soft"]),
        tolerates(
            &json!([{"operator": "Exists", "effect": "NoSchedule"}]),
            &["no", "soft", "bare", "shut"],
        ),
        tolerates(&json!([{"key": "gpu", "value": "yes", "effect": "NoExecute"}]), &["go", "soft"]),
        // The duration of a toleration does not matter for the start.
        tolerates(
            &json!([{"key": "gpu", "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 5}]),
            &["go", "soft"],
        ),
        // Without a value, it equals only a taint without one.
        tolerates(&json!([{"key": "gpu", "operator": "Equal"}]), &["soft", "bare"]),
        tolerates(&json!([exists("spot"), exists("gpu")]), &["no", "go", "soft", "bare", "two"]),
        tolerates(
            &json!([{"key": "gpu"}, {"key": "spot", "operator": "Equal"}]),
            &["soft", "bare", "two"],
        ),
        tolerates(&json!([exists("spot")]), &["soft"]),
        tolerates(
            &json!([{"key": cordon, "operator": "Exists", "effect": "NoSchedule"}]),
            &["soft", "shut"],
        ),
        tolerates(&json!([exists("gpu"), exists(cordon)]), &["no", "go", "soft", "bare", "shut"]),
    ];
    let change = |spec: Value| vec![patch("/api/v1/nodes/a1", json!({"spec": spec}))];
    let off = goes("a taint that goes", pod(json!({}), json!({})), &["a2"]);
    let off = off.then(change(json!({"taints": null})), [Outcome::Goes(vec!["a1", "a2"])]);
    let open = goes("a cordon that goes", pod(json!({}), json!({})), &["a2"]);
    let open =
        open.then(change(json!({"unschedulable": false})), [Outcome::Goes(vec!["a1", "a2"])]);
    let beside = || node("a2", json!({}), json!({}));
    let no = tainted("a1", &json!([taint("k", "v", "NoSchedule")]));
    let shut = node("a1", json!({}), json!({"spec": {"unschedulable": true}}));
    // If no node is open, all nodes are counted.
    let closed = vec![
        tainted("no", &json!([taint("gpu", "yes", "NoSchedule")])),
        tainted("go", &json!([taint("spot", "yes", "NoExecute")])),
        node("shut", json!({}), json!({"spec": {"unschedulable": true}})),
        node("b1", json!({"zone": "b"}), json!({})),
    ];
    let of_a = json!({"nodeSelector": {"zone": "a"}});
    let mut scenes = vec![
        scene("taints", nodes, rows),
        scene("taint-off", vec![no, beside()], vec![off]),
        scene("cordon-off", vec![shut, beside()], vec![open]),
        scene("closed", closed, vec![spec(&of_a, &[])]),
    ];
    scenes.extend(of_lost_nodes());
    alike(cluster, &[], scenes).await
}

pub async fn numbers_of_taints(cluster: &mut Cluster) -> anyhow::Result<()> {
    let numbered = |name: &'static str, value: &str| {
        tainted(name, &json!([taint("sla", value, "NoSchedule")]))
    };
    let nodes = vec![
        numbered("n850", "850"),
        numbered("n900", "900"),
        numbered("n950", "950"),
        numbered("padded", "0950"),
        numbered("largest", "9223372036854775807"),
        numbered("larger", "9223372036854775808"),
        numbered("decimal", "95.5"),
        numbered("word", "high"),
        numbered("none", ""),
    ];
    let compares = |operator: &str, value: &str, nodes: &[&'static str]| {
        tolerates(&json!([{"key": "sla", "operator": operator, "value": value}]), nodes)
    };
    let rows = vec![
        compares("Gt", "900", &["n950", "largest"]),
        compares("Lt", "900", &["n850"]),
        compares("Gt", "-3", &["n850", "n900", "n950", "largest"]),
        compares("Lt", "9223372036854775807", &["n850", "n900", "n950"]),
        compares("Equal", "900", &["n900"]),
        compares("Gt", "950", &["largest"]),
        compares("Lt", "0", &[]).counts(Some("ours names eight texts at most, and these are nine")),
    ];
    alike(cluster, &[], vec![scene("numbers", nodes, rows)]).await
}

pub async fn features_that_nodes_declare(cluster: &mut Cluster) -> anyhow::Result<()> {
    let declares = |name: &'static str, features: &Value| {
        node(name, json!({}), json!({"status": {"declaredFeatures": features}}))
    };
    let restarts = "RestartAllContainersOnContainerExits";
    let nodes = vec![
        declares("none", &json!([])),
        declares("other", &json!(["Other"])),
        declares("restarts", &json!(["Other", restarts])),
    ];
    let rule = |action: &str| {
        json!({"restartPolicy": "Never", "restartPolicyRules": [{"action": action,
            "exitCodes": {"operator": "In", "values": [3]}}]})
    };
    let never = |containers: Value| with(&json!({"restartPolicy": "Never"}), &containers);
    let rows = vec![
        spec(&json!({}), &["none", "other", "restarts"]),
        spec(&never(json!({"containers": [rule("Restart")]})), &["none", "other", "restarts"]),
        spec(&never(json!({"containers": [rule("RestartAllContainers")]})), &["restarts"]),
        spec(
            &never(json!({"containers": [{}], "initContainers": [rule("RestartAllContainers")]})),
            &["restarts"],
        ),
        spec(&json!({"hostUsers": false}), &["none", "other", "restarts"]),
        spec(&json!({"hostNetwork": true}), &["none", "other", "restarts"]),
    ];
    alike(cluster, &[], vec![scene("features", nodes, rows)]).await
}

fn ports(port: &Value) -> Value {
    json!({"containers": [{"ports": [port]}]})
}

pub async fn ports_of_nodes(cluster: &mut Cluster) -> anyhow::Result<()> {
    let plain = |name: &'static str| node(name, json!({}), json!({}));
    let names = ["all", "zeros", "same", "other", "udp", "next", "inside", "free"];
    let taken = |row: Row| {
        let spec = |port: Value| pod(json!({}), ports(&port));
        row.runs("all", spec(json!({"hostPort": 80})))
            .runs("zeros", spec(json!({"hostPort": 80, "hostIP": "0.0.0.0"})))
            .runs("same", spec(json!({"hostPort": 80, "hostIP": "10.0.0.1"})))
            .runs("other", spec(json!({"hostPort": 80, "hostIP": "10.0.0.2"})))
            .runs("udp", spec(json!({"hostPort": 80, "protocol": "UDP"})))
            .runs("next", spec(json!({"hostPort": 81})))
            .runs("inside", spec(json!({"containerPort": 80})))
    };
    let wants = |port: Value, nodes: &[&'static str]| {
        taken(goes(port.to_string(), pod(json!({}), ports(&port)), nodes))
    };
    // Each in a scene of its own, since a port belongs to the node in every namespace.
    let mut pinned = Vec::new();
    for row in [
        wants(
            json!({"hostPort": 80, "hostIP": "10.0.0.1"}),
            &["other", "udp", "next", "inside", "free"],
        ),
        wants(json!({"hostPort": 80}), &["udp", "next", "inside", "free"]),
        wants(
            json!({"hostPort": 80, "protocol": "UDP"}),
            &["all", "zeros", "same", "other", "next", "inside", "free"],
        ),
    ] {
        pinned.push(scene("ports", names.map(plain).to_vec(), vec![row.pinned()]));
    }
    let port = json!([{"hostPort": 80}]);
    let listens = json!({"containers": [{"ports": port}]});
    let beside_it = [
        ("second", json!({"containers": [{}, {"ports": port}]})),
        ("ports", json!({"containers": [{"ports": [{"hostPort": 8080}, {"hostPort": 80}]}]})),
        ("sidecar", json!({"initContainers": [{"ports": port, "restartPolicy": "Always"}]})),
        // An init container has ended when the pod listens.
        ("init", json!({"initContainers": [{"ports": port}]})),
    ];
    let mut row = goes("whatever runs beside", pod(json!({}), listens.clone()), &["init"]);
    for (name, spec) in &beside_it {
        row = row.runs(name, pod(json!({}), spec.clone()));
    }
    let nodes = beside_it.iter().map(|(name, _)| plain(name)).collect();
    pinned.push(scene("listeners", nodes, vec![row.pinned()]));
    for (name, spec) in beside_it {
        let nodes: &[_] = if name == "init" { &["a1"] } else { &[] };
        let row = goes(format!("{name} wants what is had"), pod(json!({}), spec), nodes).pinned();
        let row = row.runs("a1", pod(json!({}), listens.clone()));
        pinned.push(scene("wanted", vec![plain("a1")], vec![row]));
    }
    let mut scenes = vec![beside("ports", pinned)];
    let freed = given("a port that becomes free").runs("a1", pod(json!({}), listens.clone()));
    let freed = freed.asks("asked", pod(json!({}), listens), Outcome::Waits);
    let gone = super::delete(&own("pods/r0"), 0);
    let freed = freed.then(vec![gone], [Outcome::Among(vec!["a1"])]);
    scenes.push(scene("freed", vec![plain("a1")], vec![freed]));
    alike(cluster, &[], scenes).await
}
