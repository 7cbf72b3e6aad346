//! Rules about the node alone, and host ports.

use super::*;

#[test]
fn node_selector_and_affinity_admit_nodes() {
    let required = |terms: &Value| {
        json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    };
    let expressions = |key: &str, operator: &str, values: &Value| {
        required(
            &json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]),
        )
    };
    for (spec, nodes) in [
        (json!({}), vec!["a1", "a2", "b1"]),
        (json!({"nodeSelector": {"zone": "a"}}), vec!["a1", "a2"]),
        (json!({"nodeSelector": {"zone": "a", "disk": "ssd"}}), vec![]),
        (expressions("zone", "In", &json!(["b", "c"])), vec!["b1"]),
        (expressions("disk", "NotIn", &json!(["ssd"])), vec!["a1", "a2"]),
        (expressions("disk", "Exists", &json!([])), vec!["b1"]),
        (expressions("disk", "DoesNotExist", &json!([])), vec!["a1", "a2"]),
        (expressions("cores", "Gt", &json!(["8"])), vec!["a2"]),
        (expressions("cores", "Lt", &json!(["16"])), vec!["a1"]),
        (expressions("cores", "Gt", &json!(["many"])), vec![]),
        (expressions("cores", "Lt", &json!([])), vec![]),
        (expressions("zone", "Gt", &json!(["1"])), vec![]),
        (expressions("zone", "Near", &json!(["a"])), vec![]),
        (required(&json!([])), vec![]),
        (required(&json!([{}])), vec![]),
        (
            required(&json!([{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["a2"]}]}])),
            vec!["a2"],
        ),
        (
            required(&json!([{"matchFields": [
                {"key": "metadata.namespace", "operator": "In", "values": ["a2"]}]}])),
            vec![],
        ),
        // Both requirements of a term, and one of two terms.
        (
            required(&json!([{"matchExpressions": [
                {"key": "zone", "operator": "In", "values": ["a"]},
                {"key": "cores", "operator": "In", "values": ["16"]}]}])),
            vec!["a2"],
        ),
        (
            required(&json!([
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]},
                {"matchExpressions": [{"key": "cores", "operator": "In", "values": ["16"]}]}])),
            vec!["a2", "b1"],
        ),
        // Selector and affinity together.
        (
            with(
                &expressions("zone", "In", &json!(["a"])),
                &json!({"nodeSelector": {"cores": "8"}}),
            ),
            vec!["a1"],
        ),
        (
            with(
                &expressions("zone", "In", &json!(["b"])),
                &json!({"nodeSelector": {"cores": "8"}}),
            ),
            vec![],
        ),
        (
            required(&json!([{"matchFields": [
                {"key": "metadata.name", "operator": "NotIn", "values": ["a2"]}],
                "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
                {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}])),
            vec!["a1", "b1"],
        ),
    ] {
        assert_eq!(Play::new().passing(&json!({}), &spec), nodes, "{spec}");
    }
}

#[test]
fn taints_refuse_pods_without_toleration() {
    let tainted = |effect: &str| {
        let mut play = Play::new();
        play.0.set_node(from(json!({"metadata": {"name": "a1"},
            "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": effect}]}})));
        play
    };
    for (effect, tolerations, passes) in [
        ("NoSchedule", json!([]), false),
        ("NoExecute", json!([]), false),
        ("PreferNoSchedule", json!([]), true),
        ("NoSchedule", json!([{"key": "gpu", "value": "yes"}]), true),
        ("NoSchedule", json!([{"key": "gpu", "operator": "Equal", "value": "no"}]), false),
        ("NoSchedule", json!([{"key": "gpu", "operator": "Exists"}]), true),
        ("NoSchedule", json!([{"operator": "Exists"}]), true),
        ("NoSchedule", json!([{"operator": "Exists", "effect": "NoExecute"}]), false),
        ("NoSchedule", json!([{"key": "cpu", "operator": "Exists"}]), false),
        ("NoExecute", json!([{"key": "gpu", "operator": "Exists"}]), true),
        ("NoExecute", json!([{"key": "gpu", "value": "yes", "effect": "NoExecute"}]), true),
        // The duration of a toleration does not matter for the start.
        (
            "NoExecute",
            json!([{"key": "gpu", "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 5}]),
            true,
        ),
        ("NoExecute", json!([{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]), false),
        // Without a value, it equals only a taint without one.
        ("NoSchedule", json!([{"key": "gpu", "operator": "Equal"}]), false),
        ("NoSchedule", json!([{"value": "yes"}]), false),
        ("NoSchedule", json!([{"key": "gpu", "operator": "Near", "value": "yes"}]), false),
        ("NoSchedule", json!([{"key": "gpu", "operator": "Gt", "value": "1"}]), false),
    ] {
        let nodes = tainted(effect).passing(&json!({}), &json!({"tolerations": tolerations}));
        assert_eq!(nodes.contains(&"a1"), passes, "{effect} {tolerations}");
    }
    let reason = tainted("NoSchedule").reason(&json!({}), "a1");
    assert_eq!(reason, "the node has the taint gpu=yes:NoSchedule, which is not tolerated");
}

#[test]
fn every_taint_must_be_tolerated() {
    let play = |taints: &Value| {
        let mut play = Play::new();
        play.0.set_node(from(json!({"metadata": {"name": "a1"}, "spec": {"taints": taints}})));
        play
    };
    let two =
        json!([{"key": "gpu", "effect": "NoSchedule"}, {"key": "spot", "effect": "NoExecute"}]);
    let gpu = json!({"key": "gpu", "operator": "Exists"});
    let spot = json!({"key": "spot", "operator": "Exists"});
    for (tolerations, passes) in [
        (json!([gpu]), false),
        (json!([spot]), false),
        (json!([spot, gpu]), true),
        (json!([{"operator": "Exists"}]), true),
        (json!([{"operator": "Exists", "effect": "NoSchedule"}]), false),
        // Both have no value.
        (json!([{"key": "gpu"}, {"key": "spot", "operator": "Equal"}]), true),
    ] {
        let spec = json!({"tolerations": tolerations});
        assert_eq!(play(&two).passing(&json!({}), &spec).contains(&"a1"), passes, "{spec}");
    }
    let reason = play(&two).reason(&json!({"tolerations": [gpu]}), "a1");
    assert_eq!(reason, "the node has the taint spot:NoExecute, which is not tolerated");
}

#[test]
fn numeric_tolerations_compare_values() {
    for (taint, operator, value, passes) in [
        ("950", "Gt", "900", true),
        ("900", "Gt", "900", false),
        ("850", "Gt", "900", false),
        ("850", "Lt", "900", true),
        ("900", "Lt", "900", false),
        ("-3", "Lt", "0", true),
        ("9223372036854775807", "Gt", "0", true),
        // Text that is no number, or not in canonical form, is not compared.
        ("9223372036854775808", "Gt", "0", false),
        ("0950", "Gt", "900", false),
        ("950", "Gt", "0900", false),
        ("+950", "Gt", "900", false),
        ("95.5", "Gt", "9", false),
        ("high", "Gt", "900", false),
        ("950", "Gt", "low", false),
        ("", "Lt", "900", false),
    ] {
        let mut play = Play::new();
        play.0.set_node(from(json!({"metadata": {"name": "a1"}, "spec": {"taints": [
            {"key": "sla", "value": taint, "effect": "NoSchedule"}]}})));
        let spec = json!({"tolerations": [{"key": "sla", "operator": operator, "value": value}]});
        assert_eq!(
            play.passing(&json!({}), &spec).contains(&"a1"),
            passes,
            "{taint} {operator} {value}"
        );
    }
}

#[test]
fn features_are_required_of_nodes() {
    let restarts = json!([{"action": "Restart"}, {"action": "RestartAllContainers"}]);
    for (feature, spec) in [
        (
            "",
            json!({"containers": [{"restartPolicyRules": [{"action": "Restart"}],
            "volumeMounts": [{"name": "x", "bindMountOptions": []}, {"name": "y"}]}]}),
        ),
        ("", json!({"hostNetwork": true, "hostUsers": true})),
        ("", json!({"hostUsers": false})),
        (
            "RestartAllContainersOnContainerExits",
            json!({"containers": [{"restartPolicyRules": restarts}]}),
        ),
        (
            "RestartAllContainersOnContainerExits",
            json!({"initContainers": [{"restartPolicyRules": restarts}]}),
        ),
        ("UserNamespacesHostNetworkSupport", json!({"hostNetwork": true, "hostUsers": false})),
        (
            "VolumeBindMountOptions",
            json!({"containers": [
            {"volumeMounts": [{"name": "x", "bindMountOptions": ["noexec"]}]}]}),
        ),
    ] {
        let mut play = Play::new();
        let nodes = if feature.is_empty() { vec!["a1", "a2", "b1"] } else { vec![] };
        assert_eq!(play.passing(&json!({}), &spec), nodes, "{spec}");
        if feature.is_empty() {
            continue;
        }
        let reason = format!("the node lacks the feature {feature}, which the pod needs");
        assert_eq!(play.reason(&spec, "a1"), reason);
        play.0.set_node(from(json!({"metadata": {"name": "a1"},
            "status": {"declaredFeatures": ["Other", feature]}})));
        assert_eq!(play.passing(&json!({}), &spec), ["a1"], "{spec}");
    }
}

#[test]
fn cordoned_node_admits_only_tolerating_pods() {
    let mut play = Play::new();
    play.0.set_node(from(json!({"metadata": {"name": "a1"}, "spec": {"unschedulable": true}})));
    assert_eq!(play.passing(&json!({}), &json!({})), ["a2", "b1"]);
    let daemon = json!({"tolerations": [
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]});
    assert_eq!(play.passing(&json!({}), &daemon), ["a1", "a2", "b1"]);
}

#[test]
fn host_port_is_used_by_one_pod() {
    let ports = |port: &Value| json!({"containers": [{"ports": [port]}]});
    let wanted = ports(&json!({"hostPort": 80, "hostIP": "10.0.0.1"}));
    for (other, collides) in [
        (json!({"hostPort": 80}), true),
        (json!({"hostPort": 80, "hostIP": "0.0.0.0"}), true),
        (json!({"hostPort": 80, "hostIP": "10.0.0.1"}), true),
        (json!({"hostPort": 80, "hostIP": "10.0.0.2"}), false),
        (json!({"hostPort": 80, "protocol": "UDP"}), false),
        (json!({"hostPort": 81}), false),
        (json!({"containerPort": 80}), false),
    ] {
        let mut play = Play::new().running("r", "a1", &json!({}), &ports(&other));
        assert_eq!(!play.passing(&json!({}), &wanted).contains(&"a1"), collides, "{other}");
    }
}

#[test]
fn host_ports_of_sidecars_count() {
    let port = json!([{"hostPort": 80}]);
    let plain = json!({"containers": [{"ports": port}]});
    for (spec, collides) in [
        (plain.clone(), true),
        (json!({"containers": [{}, {"ports": port}]}), true),
        (json!({"containers": [{"ports": [{"hostPort": 8080}, {"hostPort": 80}]}]}), true),
        (json!({"initContainers": [{"ports": port, "restartPolicy": "Always"}]}), true),
        // An init container has ended when the pod listens.
        (json!({"initContainers": [{"ports": port}]}), false),
        (json!({"containers": [{"ports": [{"hostPort": 0, "containerPort": 80}]}]}), false),
    ] {
        let mut play = Play::new().running("r", "a1", &json!({}), &spec);
        assert_eq!(!play.passing(&json!({}), &plain).contains(&"a1"), collides, "{spec}");
        let mut play = Play::new().running("r", "a1", &json!({}), &plain);
        assert_eq!(!play.passing(&json!({}), &spec).contains(&"a1"), collides, "{spec}");
    }
    let zero = json!({"containers": [{"ports": [{"hostPort": 0}]}]});
    let mut play = Play::new().running("r", "a1", &json!({}), &zero);
    assert_eq!(play.passing(&json!({}), &zero).len(), 3, "0 is none");
}
