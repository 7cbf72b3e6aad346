//! Tables of the documented semantics, and random histories against a naive reading of them.

mod volumes;

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::Scene;
use crate::objects::{Namespace, Node, Pod};

fn from<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).expect("an object"))
}

fn node(name: &str, labels: &Value) -> Arc<Node> {
    let mut labels = labels.clone();
    labels["kubernetes.io/hostname"] = json!(name);
    from(json!({"metadata": {"name": name, "labels": labels}}))
}

fn pod(name: &str, labels: &Value, spec: &Value) -> Arc<Pod> {
    from(json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "labels": labels},
                "spec": spec}))
}

/// The nodes that pass, of three: `a1` and `a2` in zone a, `b1` in zone b with a disk.
struct Play(Scene);

impl Play {
    fn new() -> Self {
        let mut scene = Scene::default();
        scene.set_node(node("a1", &json!({"zone": "a", "cores": "8"})));
        scene.set_node(node("a2", &json!({"zone": "a", "cores": "16"})));
        scene.set_node(node("b1", &json!({"zone": "b", "disk": "ssd"})));
        Self(scene)
    }

    fn running(mut self, key: &str, node: &str, labels: &Value, spec: &Value) -> Self {
        self.0.settle(key, node, &pod(key, labels, spec));
        self
    }

    fn passing(&mut self, labels: &Value, spec: &Value) -> Vec<&'static str> {
        self.0.expect("asked", pod("asked", labels, spec));
        ["a1", "a2", "b1"].into_iter().filter(|node| self.0.check("asked", node).is_ok()).collect()
    }

    fn reason(&mut self, spec: &Value, node: &str) -> String {
        self.0.expect("asked", pod("asked", &json!({}), spec));
        self.0.check("asked", node).expect_err("refused")
    }
}

#[test]
fn node_selectors_and_affinity_admit_nodes_by_labels_and_name() {
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
fn taints_keep_away_whoever_does_not_tolerate_them() {
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
        ("NoSchedule", json!([{"key": "gpu", "operator": "Gt", "value": "1"}]), false),
    ] {
        let nodes = tainted(effect).passing(&json!({}), &json!({"tolerations": tolerations}));
        assert_eq!(nodes.contains(&"a1"), passes, "{effect} {tolerations}");
    }
    let reason = tainted("NoSchedule").reason(&json!({}), "a1");
    assert_eq!(reason, "the node has the taint gpu=yes:NoSchedule, which is not tolerated");
}

#[test]
fn a_cordoned_node_takes_only_who_tolerates_that() {
    let mut play = Play::new();
    play.0.set_node(from(json!({"metadata": {"name": "a1"}, "spec": {"unschedulable": true}})));
    assert_eq!(play.passing(&json!({}), &json!({})), ["a2", "b1"]);
    let daemon = json!({"tolerations": [
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]});
    assert_eq!(play.passing(&json!({}), &daemon), ["a1", "a2", "b1"]);
}

#[test]
fn a_port_of_a_node_is_had_by_one() {
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

fn near(kind: &str, key: &str, extra: &Value) -> Value {
    let mut term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": "db"}}});
    for (name, value) in extra.as_object().into_iter().flatten() {
        term[name] = value.clone();
    }
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

#[test]
fn pods_are_together_and_apart_by_the_labels_of_nodes() {
    let db = json!({"app": "db"});
    let play = || Play::new().running("db", "a1", &db, &json!({}));
    let none = json!({});
    let host = "kubernetes.io/hostname";
    assert_eq!(play().passing(&none, &near("podAffinity", "zone", &none)), ["a1", "a2"]);
    assert_eq!(play().passing(&none, &near("podAffinity", host, &none)), ["a1"]);
    assert_eq!(play().passing(&none, &near("podAffinity", "rack", &none)), [""; 0]);
    assert_eq!(play().passing(&none, &near("podAntiAffinity", "zone", &none)), ["b1"]);
    // A node without the label is no domain, so nobody is there.
    assert_eq!(play().passing(&none, &near("podAntiAffinity", "rack", &none)).len(), 3);
    // Another namespace, one by its labels, and all.
    let mut elsewhere = play();
    elsewhere.0.set_namespace(
        "ns",
        Some(&from::<Namespace>(json!({"metadata": {"name": "ns", "labels": {"team": "x"}}}))),
    );
    for (extra, nodes) in [
        (json!({"namespaces": ["other"]}), vec!["a1", "a2", "b1"]),
        (json!({"namespaces": ["other", "ns"]}), vec!["b1"]),
        (json!({"namespaceSelector": {}}), vec!["b1"]),
        (json!({"namespaceSelector": {"matchLabels": {"team": "x"}}}), vec!["b1"]),
        (json!({"namespaceSelector": {"matchLabels": {"team": "y"}}}), vec!["a1", "a2", "b1"]),
        (json!({"labelSelector": null}), vec!["a1", "a2", "b1"]),
    ] {
        let spec = near("podAntiAffinity", "zone", &extra);
        assert_eq!(elsewhere.passing(&none, &spec), nodes, "{extra}");
    }
    // The first of a kind that wants to be with its own kind may be anywhere; of another kind, nowhere.
    assert_eq!(Play::new().passing(&db, &near("podAffinity", "zone", &none)).len(), 3);
    assert_eq!(Play::new().passing(&none, &near("podAffinity", "zone", &none)), [""; 0]);
}

#[test]
fn what_runs_keeps_others_away_too() {
    let none = json!({});
    let spec = near("podAntiAffinity", "zone", &none);
    let mut play = Play::new().running("r", "a1", &none, &spec);
    assert_eq!(play.passing(&json!({"app": "db"}), &none), ["b1"]);
    assert_eq!(play.passing(&json!({"app": "web"}), &none), ["a1", "a2", "b1"]);
    play.0.clear("r");
    assert_eq!(play.passing(&json!({"app": "db"}), &none), ["a1", "a2", "b1"]);
}

#[test]
fn keys_of_labels_narrow_a_term_to_pods_of_the_same_kind() {
    let labels = |version: &str| json!({"app": "db", "version": version});
    let spec = near("podAntiAffinity", "zone", &json!({"matchLabelKeys": ["version"]}));
    let mut play = Play::new().running("r", "a1", &labels("1"), &json!({}));
    assert_eq!(play.passing(&labels("1"), &spec), ["b1"]);
    assert_eq!(play.passing(&labels("2"), &spec), ["a1", "a2", "b1"]);
    let spec = near("podAntiAffinity", "zone", &json!({"mismatchLabelKeys": ["version"]}));
    assert_eq!(play.passing(&labels("2"), &spec), ["b1"]);
}

fn spread(extra: &Value) -> Value {
    let mut rule = json!({"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "db"}}});
    for (name, value) in extra.as_object().into_iter().flatten() {
        rule[name] = value.clone();
    }
    json!({"topologySpreadConstraints": [rule]})
}

#[test]
fn pods_are_spread_over_domains() {
    let db = json!({"app": "db"});
    let none = json!({});
    let play = || Play::new().running("r", "a1", &db, &none);
    assert_eq!(play().passing(&db, &spread(&none)), ["b1"]);
    assert_eq!(play().passing(&none, &spread(&none)).len(), 3, "it is not one of them");
    assert_eq!(play().passing(&db, &spread(&json!({"maxSkew": 2}))).len(), 3);
    assert_eq!(
        play().passing(&db, &spread(&json!({"whenUnsatisfiable": "ScheduleAnyway"}))).len(),
        3
    );
    assert_eq!(play().passing(&db, &spread(&json!({"topologyKey": "disk"}))), ["b1"]);
    // With too few domains the least is none.
    let second =
        play().running("s", "b1", &db, &none).passing(&db, &spread(&json!({"minDomains": 3})));
    assert_eq!(second, [""; 0]);
    // A domain that the pod does not admit does not count, unless the rule says so.
    let mut only_a = spread(&none);
    only_a["nodeSelector"] = json!({"zone": "a"});
    assert_eq!(play().passing(&db, &only_a), ["a1", "a2"]);
    let mut ignored = spread(&json!({"nodeAffinityPolicy": "Ignore"}));
    ignored["nodeSelector"] = json!({"zone": "a"});
    assert_eq!(play().passing(&db, &ignored), [""; 0]);
    // The same with taints.
    for (policy, nodes) in [("Ignore", vec![]), ("Honor", vec!["a1", "a2"])] {
        let mut tainted = play();
        tainted.0.set_node(from(json!({"metadata": {"name": "b1", "labels": {"zone": "b"}},
            "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}})));
        let rule = spread(&json!({"nodeTaintsPolicy": policy}));
        assert_eq!(tainted.passing(&db, &rule), nodes, "{policy}");
    }
    // Who is going is not counted.
    let mut going = Play::new();
    going.0.settle(
        "r",
        "a1",
        &from(json!({"metadata": {"name": "r", "namespace": "ns", "uid": "r",
        "labels": db, "deletionTimestamp": "2026-01-01T00:00:00Z"}})),
    );
    assert_eq!(going.passing(&db, &spread(&none)).len(), 3);
}

#[test]
fn devices_are_refused_by_name() {
    let spec = json!({"resourceClaims": [{"name": "gpu"}, {"name": "nic"}]});
    let reason = Play::new().reason(&spec, "a1");
    assert_eq!(reason, "dynamic resource claims are not supported (`gpu`, `nic`)");
}

#[test]
fn a_preemption_needs_so_many_to_leave() {
    let port = json!({"containers": [{"ports": [{"hostPort": 80}]}]});
    let mut play = Play::new().running("r", "a1", &json!({}), &json!({})).running(
        "s",
        "a1",
        &json!({}),
        &port,
    );
    play.0.expect("asked", pod("asked", &json!({}), &port));
    let leaving = ["r".to_owned(), "s".to_owned()];
    assert_eq!(play.0.check_without("asked", "a1", &leaving, 0), Some(2));
    assert_eq!(play.0.check_without("asked", "a1", &leaving[..1], 1), None);
    assert_eq!(play.0.check_without("asked", "a2", &[], 0), Some(0));
    assert!(play.0.check("asked", "a1").is_err(), "all are back");
}

/// A random step: a pod comes to a node, goes, or a node changes its zone.
#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8, u8),
    Clear(u8),
    Zone(u8, u8),
    Remove(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..12_u8, 0..4_u8, 0..3_u8).prop_map(|(pod, node, kind)| Step::Put(pod, node, kind)),
        2 => (0..12_u8).prop_map(Step::Clear),
        1 => (0..4_u8, 0..3_u8).prop_map(|(node, zone)| Step::Zone(node, zone)),
        1 => (0..4_u8).prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Counting as pods come and go finds what a count of everything finds.
    #[test]
    fn tallies_are_what_a_full_count_says(steps in steps()) {
        let kinds = ["db", "web", "job"];
        let none = json!({});
        let mut scene = Scene::default();
        let mut zones = [None::<u8>; 4];
        let mut places: std::collections::BTreeMap<u8, (u8, u8)> = std::collections::BTreeMap::new();
        let apart = near("podAntiAffinity", "zone", &none);
        let spec_of = |kind: u8| if kind == 0 { apart.clone() } else { json!({}) };
        scene.expect("apart", pod("apart", &json!({"app": "job"}), &apart));
        scene.expect("near", pod("near", &json!({"app": "job"}), &near("podAffinity", "zone", &none)));
        scene.expect("even", pod("even", &json!({"app": "db"}), &spread(&none)));
        scene.expect("db", pod("db", &json!({"app": "db"}), &none));
        for step in steps {
            match step {
                Step::Put(one, on, kind) => {
                    let key = format!("p{one}");
                    let labels = json!({"app": kinds[usize::from(kind)]});
                    scene.settle(&key, &format!("n{on}"), &pod(&key, &labels, &spec_of(kind)));
                    places.insert(one, (on, kind));
                }
                Step::Clear(one) => {
                    scene.clear(&format!("p{one}"));
                    places.remove(&one);
                }
                Step::Zone(on, zone) => {
                    scene.set_node(node(&format!("n{on}"), &json!({"zone": format!("z{zone}")})));
                    zones[usize::from(on)] = Some(zone);
                }
                Step::Remove(on) => {
                    scene.remove_node(&format!("n{on}"));
                    zones[usize::from(on)] = None;
                }
            }
            prop_assert_eq!(scene.check_books(), [""; 0]);
            let in_zone = |zone: u8, kind: Option<u8>| {
                let is_there = |(on, of): &&(u8, u8)| {
                    zones[usize::from(*on)] == Some(zone) && kind.is_none_or(|kind| kind == *of)
                };
                places.values().filter(is_there).count()
            };
            for on in 0..4_u8 {
                let Some(zone) = zones[usize::from(on)] else { continue };
                let name = format!("n{on}");
                let with_db = in_zone(zone, Some(0)) > 0;
                prop_assert_eq!(scene.check("apart", &name).is_ok(), !with_db);
                prop_assert_eq!(scene.check("near", &name).is_ok(), with_db);
                let known: std::collections::BTreeSet<_> = zones.iter().flatten().copied().collect();
                let least = known.iter().map(|zone| in_zone(*zone, Some(0))).min().unwrap_or(0);
                // Pods of the first kind keep each other away, so nobody of them may join one.
                let even = in_zone(zone, Some(0)) < least + 1 && !with_db;
                prop_assert_eq!(scene.check("even", &name).is_ok(), even);
                prop_assert_eq!(scene.check("db", &name).is_ok(), !with_db);
            }
        }
    }
}

#[test]
fn what_a_pod_prefers_is_weighed_and_keeps_it_off_no_node() {
    let web = json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"});
    let weighted = |weight: i32| json!([{"weight": weight, "podAffinityTerm": web}]);
    let by_node = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 10, "preference": {"matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["b"]}]}},
        {"weight": 3, "preference": {"matchExpressions": [
            {"key": "cores", "operator": "Gt", "values": ["8"]}]}},
    ]}});
    let near = json!({"podAffinity":
        {"preferredDuringSchedulingIgnoredDuringExecution": weighted(5)}});
    let away = json!({"podAntiAffinity":
        {"preferredDuringSchedulingIgnoredDuringExecution": weighted(5)}});
    for (affinity, weights) in [(by_node, [0, 3, 10]), (near, [10, 10, 0]), (away, [-10, -10, 0])] {
        let web = json!({"app": "web"});
        let play = Play::new().running("w1", "a1", &web, &json!({}));
        let mut play = play.running("w2", "a2", &web, &json!({}));
        let nodes = play.passing(&json!({}), &json!({"affinity": affinity}));
        assert_eq!(nodes, ["a1", "a2", "b1"]);
        assert!(play.0.has_preferences("asked"));
        assert_eq!(["a1", "a2", "b1"].map(|node| play.0.preference("asked", node)), weights);
    }
    let mut plain = Play::new();
    plain.passing(&json!({}), &json!({}));
    assert!(!plain.0.has_preferences("asked"));
}
