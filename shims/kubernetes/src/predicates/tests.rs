//! Tables of the documented semantics, and random histories against a naive model. The books are
//! checked after each question.

mod affinity;
mod assumed;
mod fits;
mod histories;
mod nodes;
mod spread;
mod unblocking;
mod volumes;

use std::sync::Arc;

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

/// A scene of three nodes: `a1` and `a2` in zone a, `b1` in zone b with a disk.
struct Play(Scene);

impl Play {
    fn new() -> Self {
        let mut scene = Scene::default();
        scene.set_node(node("a1", &json!({"zone": "a", "cores": "8"})));
        scene.set_node(node("a2", &json!({"zone": "a", "cores": "16"})));
        scene.set_node(node("b1", &json!({"zone": "b", "disk": "ssd"})));
        Self(scene)
    }

    /// Adds a namespace with these labels.
    fn namespace(mut self, name: &str, labels: &Value) -> Self {
        let namespace: Arc<Namespace> = from(json!({"metadata": {"name": name, "labels": labels}}));
        self.0.set_namespace(name, Some(&namespace));
        self
    }

    fn running(mut self, key: &str, node: &str, labels: &Value, spec: &Value) -> Self {
        self.0.settle(key, node, &pod(key, labels, spec));
        self
    }

    fn passing(&mut self, labels: &Value, spec: &Value) -> Vec<&'static str> {
        self.ask(pod("asked", labels, spec))
    }

    fn ask(&mut self, pod: Arc<Pod>) -> Vec<&'static str> {
        self.0.expect("asked", pod);
        assert_eq!(self.0.check_books(), [""; 0]);
        ["a1", "a2", "b1"].into_iter().filter(|node| self.0.check("asked", node).is_ok()).collect()
    }

    fn reason(&mut self, spec: &Value, node: &str) -> String {
        self.0.expect("asked", pod("asked", &json!({}), spec));
        self.0.check("asked", node).expect_err("refused")
    }
}

/// Merges `more` into an object.
fn with(object: &Value, more: &Value) -> Value {
    match (object, more) {
        (Value::Object(object), Value::Object(more)) => {
            let mut merged = object.clone();
            for (key, value) in more {
                let merged_value = with(object.get(key).unwrap_or(&Value::Null), value);
                merged.insert(key.clone(), merged_value);
            }
            Value::Object(merged)
        }
        (_, more) => more.clone(),
    }
}

/// A required term about pods with `app=db`. `kind` is `podAffinity` or `podAntiAffinity`.
fn near(kind: &str, key: &str, extra: &Value) -> Value {
    let mut term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": "db"}}});
    for (name, value) in extra.as_object().into_iter().flatten() {
        term[name] = value.clone();
    }
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

/// A hard spread constraint over zones, about pods with `app=db`.
fn spread(extra: &Value) -> Value {
    let mut rule = json!({"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "db"}}});
    for (name, value) in extra.as_object().into_iter().flatten() {
        rule[name] = value.clone();
    }
    json!({"topologySpreadConstraints": [rule]})
}

#[test]
fn devices_are_refused_by_name() {
    let spec = json!({"resourceClaims": [{"name": "gpu"}, {"name": "nic"}]});
    let reason = Play::new().reason(&spec, "a1");
    assert_eq!(reason, "dynamic resource claims are not supported (`gpu`, `nic`)");
}

#[test]
fn preferences_are_weighed_and_exclude_no_node() {
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
