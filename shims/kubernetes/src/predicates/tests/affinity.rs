//! Affinity and anti-affinity between pods.

use super::*;

const HOST: &str = "kubernetes.io/hostname";

/// Required terms.
fn terms(kind: &str, terms: &Value) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

/// A term about pods with this label.
fn about(key: &str, value: &str, topology: &str) -> Value {
    json!({"topologyKey": topology, "labelSelector": {"matchLabels": {key: value}}})
}

/// A pod of another namespace.
fn elsewhere(namespace: &str, name: &str, labels: &Value, spec: &Value) -> Arc<Pod> {
    from(json!({"metadata": {"name": name, "namespace": namespace, "uid": name, "labels": labels},
        "spec": spec}))
}

#[test]
fn affinity_and_anti_affinity_by_topology_key() {
    let db = json!({"app": "db"});
    let play = || Play::new().running("db", "a1", &db, &json!({}));
    let none = json!({});
    let host = "kubernetes.io/hostname";
    assert_eq!(play().passing(&none, &near("podAffinity", "zone", &none)), ["a1", "a2"]);
    assert_eq!(play().passing(&none, &near("podAffinity", host, &none)), ["a1"]);
    assert_eq!(play().passing(&none, &near("podAffinity", "rack", &none)), [""; 0]);
    assert_eq!(play().passing(&none, &near("podAntiAffinity", "zone", &none)), ["b1"]);
    // A node without the label belongs to no domain, so nothing keeps the pod away.
    assert_eq!(play().passing(&none, &near("podAntiAffinity", "rack", &none)).len(), 3);
    // Namespaces by name, by label, and all.
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
    // A pod that must be near its own kind may run anywhere while there is none. A pod that must be
    // near another kind may run nowhere.
    assert_eq!(Play::new().passing(&db, &near("podAffinity", "zone", &none)).len(), 3);
    assert_eq!(Play::new().passing(&none, &near("podAffinity", "zone", &none)), [""; 0]);
}

#[test]
fn running_pod_keeps_others_away() {
    let none = json!({});
    let spec = near("podAntiAffinity", "zone", &none);
    let mut play = Play::new().running("r", "a1", &none, &spec);
    assert_eq!(play.passing(&json!({"app": "db"}), &none), ["b1"]);
    assert_eq!(play.passing(&json!({"app": "web"}), &none), ["a1", "a2", "b1"]);
    play.0.clear("r");
    assert_eq!(play.passing(&json!({"app": "db"}), &none), ["a1", "a2", "b1"]);
}

#[test]
fn match_label_keys_narrow_a_term() {
    let labels = |version: &str| json!({"app": "db", "version": version});
    let spec = near("podAntiAffinity", "zone", &json!({"matchLabelKeys": ["version"]}));
    let mut play = Play::new().running("r", "a1", &labels("1"), &json!({}));
    assert_eq!(play.passing(&labels("1"), &spec), ["b1"]);
    assert_eq!(play.passing(&labels("2"), &spec), ["a1", "a2", "b1"]);
    let spec = near("podAntiAffinity", "zone", &json!({"mismatchLabelKeys": ["version"]}));
    assert_eq!(play.passing(&labels("2"), &spec), ["b1"]);
}

#[test]
fn one_pod_must_match_all_terms() {
    let none = json!({});
    let both = json!({"app": "db", "tier": "back"});
    let two = |first: &str, second: &str| {
        terms("podAffinity", &json!([about("app", "db", first), about("tier", "back", second)]))
    };
    // Two pods that match one term each do not count as one that matches both.
    let apart = Play::new().running("r", "a1", &json!({"app": "db"}), &none);
    let mut apart = apart.running("s", "a1", &json!({"tier": "back"}), &none);
    assert_eq!(apart.passing(&none, &two("zone", "zone")), [""; 0]);
    let mut play = Play::new().running("r", "a1", &both, &none);
    assert_eq!(play.passing(&none, &two("zone", "zone")), ["a1", "a2"]);
    assert_eq!(play.passing(&none, &two("zone", HOST)), ["a1"]);
    assert_eq!(play.passing(&none, &two(HOST, "zone")), ["a1"]);
    assert_eq!(play.passing(&none, &two("zone", "disk")), [""; 0]);
    let reason = play.reason(&two("zone", "rack"), "a1");
    assert_eq!(reason, "the node lacks the label rack, by which pods are to be together");
    // A different pod may match for each key.
    let play = Play::new().running("r", "a1", &both, &none);
    let mut play = play.running("s", "b1", &both, &none);
    assert_eq!(play.passing(&none, &two("zone", HOST)), ["a1", "b1"]);
    // Each of the terms to keep away applies by itself.
    let away = terms(
        "podAntiAffinity",
        &json!([about("app", "db", HOST), about("tier", "front", "zone")]),
    );
    let play = Play::new().running("r", "a1", &json!({"app": "db"}), &none);
    let mut play = play.running("s", "b1", &json!({"tier": "front"}), &none);
    assert_eq!(play.passing(&none, &away), ["a2"]);
}

#[test]
fn first_pod_must_match_all_its_own_terms() {
    let none = json!({});
    let two =
        terms("podAffinity", &json!([about("app", "db", "zone"), about("tier", "back", HOST)]));
    let both = json!({"app": "db", "tier": "back"});
    assert_eq!(Play::new().passing(&both, &two).len(), 3);
    assert_eq!(Play::new().passing(&json!({"app": "db"}), &two), [""; 0]);
    // The node needs the labels all the same.
    let lacking =
        terms("podAffinity", &json!([about("app", "db", "zone"), about("app", "db", "disk")]));
    assert_eq!(Play::new().passing(&both, &lacking), ["b1"]);
    // A pod that matches on a node without the label does not count.
    let by_disk = terms("podAffinity", &json!([about("app", "db", "disk")]));
    let mut play = Play::new().running("r", "a1", &json!({"app": "db"}), &none);
    assert_eq!(play.passing(&json!({"app": "db"}), &by_disk), ["b1"]);
    assert_eq!(play.passing(&none, &by_disk), [""; 0]);
    // A pod of another namespace is no pod of its kind.
    let other = near("podAffinity", "zone", &json!({"namespaces": ["other"]}));
    assert_eq!(Play::new().passing(&json!({"app": "db"}), &other), [""; 0]);
    let by_labels =
        near("podAffinity", "zone", &json!({"namespaceSelector": {"matchLabels": {"team": "x"}}}));
    let mut play = Play::new();
    assert_eq!(play.passing(&json!({"app": "db"}), &by_labels), [""; 0]);
    let mut play = play.namespace("ns", &json!({"team": "x"}));
    assert_eq!(play.passing(&json!({"app": "db"}), &by_labels).len(), 3);
}

#[test]
fn terminating_pod_counts_until_gone() {
    let going = || {
        let mut play = Play::new();
        let pod = json!({"metadata": {"name": "r", "namespace": "ns", "uid": "r",
            "labels": {"app": "db"}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": terms("podAntiAffinity", &json!([about("app", "web", "zone")]))});
        play.0.settle("r", "a1", &from(pod));
        play
    };
    let none = json!({});
    assert_eq!(going().passing(&none, &near("podAffinity", "zone", &none)), ["a1", "a2"]);
    assert_eq!(going().passing(&none, &near("podAntiAffinity", "zone", &none)), ["b1"]);
    assert_eq!(going().passing(&json!({"app": "web"}), &none), ["b1"]);
}

#[test]
fn empty_selector_matches_all_and_missing_one_none() {
    let none = json!({});
    let all = near("podAntiAffinity", "zone", &json!({"labelSelector": {"matchLabels": null}}));
    let mut play = Play::new().running("r", "a1", &json!({"any": "thing"}), &none);
    assert_eq!(play.passing(&none, &all), ["b1"]);
    play.0.settle("r", "a1", &elsewhere("other", "r", &none, &none));
    assert_eq!(play.passing(&none, &all).len(), 3, "of its namespace");
    let nobody = near("podAffinity", "zone", &json!({"labelSelector": null}));
    assert_eq!(play.passing(&none, &nobody), [""; 0]);
    // Running pods keep others away in the same way.
    let mut play = Play::new().running("r", "a1", &none, &all);
    assert_eq!(play.passing(&json!({"some": "label"}), &none), ["b1"]);
    let nobody = near("podAntiAffinity", "zone", &json!({"labelSelector": null}));
    let mut play = Play::new().running("r", "a1", &none, &nobody);
    assert_eq!(play.passing(&json!({"app": "db"}), &none).len(), 3);
}

#[test]
fn expressions_of_a_term_match_labels() {
    let none = json!({});
    for (expressions, nodes) in [
        (json!([{"key": "app", "operator": "In", "values": ["web", "db"]}]), vec!["b1"]),
        (json!([{"key": "app", "operator": "In", "values": ["web"]}]), vec!["a1", "a2", "b1"]),
        (json!([{"key": "app", "operator": "In", "values": []}]), vec!["a1", "a2", "b1"]),
        (json!([{"key": "app", "operator": "NotIn", "values": ["web"]}]), vec!["b1"]),
        (json!([{"key": "app", "operator": "Exists"}]), vec!["b1"]),
        (json!([{"key": "tier", "operator": "DoesNotExist"}]), vec!["b1"]),
        (
            json!([{"key": "app", "operator": "Exists"}, {"key": "tier", "operator": "Exists"}]),
            vec!["a1", "a2", "b1"],
        ),
        (json!([{"key": "app", "operator": "Near", "values": ["db"]}]), vec!["a1", "a2", "b1"]),
    ] {
        let selector =
            json!({"labelSelector": {"matchLabels": null, "matchExpressions": expressions}});
        let spec = near("podAntiAffinity", "zone", &selector);
        let mut play = Play::new().running("r", "a1", &json!({"app": "db"}), &none);
        assert_eq!(play.passing(&none, &spec), nodes, "{spec}");
    }
}

#[test]
fn absent_label_keys_narrow_nothing() {
    let db = |version: &str| json!({"app": "db", "version": version});
    let none = json!({});
    let keyed = |kind: &str| near(kind, "zone", &json!({"matchLabelKeys": ["lacking", "version"]}));
    let mut play = Play::new().running("r", "a1", &db("1"), &none);
    assert_eq!(play.passing(&db("1"), &keyed("podAffinity")), ["a1", "a2"]);
    assert_eq!(
        play.passing(&db("2"), &keyed("podAffinity")).len(),
        3,
        "it is the first of its own"
    );
    assert_eq!(play.passing(&json!({"version": "2"}), &keyed("podAffinity")), [""; 0]);
    // For a pod without the label the term matches every pod with `app=db`.
    assert_eq!(play.passing(&json!({"app": "db"}), &keyed("podAffinity")), ["a1", "a2"]);
    assert_eq!(play.passing(&json!({"app": "db"}), &keyed("podAntiAffinity")), ["b1"]);
    let mismatched =
        near("podAffinity", "zone", &json!({"mismatchLabelKeys": ["lacking", "version"]}));
    assert_eq!(play.passing(&db("2"), &mismatched), ["a1", "a2"]);
    assert_eq!(play.passing(&db("1"), &mismatched), [""; 0]);
}

#[test]
fn running_pod_keeps_others_away_by_namespace_labels() {
    let none = json!({});
    let of_x = near(
        "podAntiAffinity",
        "zone",
        &json!({"namespaces": ["named"], "namespaceSelector": {"matchLabels": {"team": "x"}}}),
    );
    let db = json!({"app": "db"});
    let asked = |namespace: &str| elsewhere(namespace, "asked", &db, &none);
    let play = Play::new().namespace("of-x", &json!({"team": "x"}));
    let mut play = play.namespace("of-y", &json!({"team": "y"})).running("r", "a1", &none, &of_x);
    for (namespace, nodes) in [
        ("of-x", vec!["b1"]),
        ("named", vec!["b1"]),
        ("of-y", vec!["a1", "a2", "b1"]),
        ("ns", vec!["a1", "a2", "b1"]),
    ] {
        assert_eq!(play.ask(asked(namespace)), nodes, "{namespace}");
    }
    let mut play = Play::new().running(
        "r",
        "a1",
        &none,
        &near("podAntiAffinity", "zone", &json!({"namespaceSelector": {}})),
    );
    assert_eq!(play.ask(asked("any")), ["b1"]);
    let mut play = Play::new().running("r", "a1", &none, &near("podAntiAffinity", "zone", &none));
    assert_eq!(play.ask(asked("other")).len(), 3, "it is about its own namespace");
}

#[test]
fn changed_namespace_labels_change_the_matching_pods() {
    let (none, db) = (json!({}), json!({"app": "db"}));
    let of_x = json!({"namespaceSelector": {"matchLabels": {"team": "x"}}});
    let [near_x, away_x] = ["podAffinity", "podAntiAffinity"].map(|kind| near(kind, "zone", &of_x));
    let mut play = Play::new().running("r", "a1", &db, &away_x);
    for (key, spec) in [("near", &near_x), ("away", &away_x), ("plain", &none)] {
        let labels = if key == "plain" { &db } else { &none };
        play.0.expect(key, pod(key, labels, spec));
    }
    // Two more pods after the questions; one is in another namespace, which stays as it is.
    play.0.settle("s", "a2", &pod("s", &db, &none));
    play.0.settle("t", "b1", &elsewhere("other", "t", &db, &none));
    let passing = |scene: &Scene, key: &str| -> Vec<&str> {
        ["a1", "a2", "b1"].into_iter().filter(|node| scene.check(key, node).is_ok()).collect()
    };
    for (labels, near, away, plain) in [
        (None, vec![], vec!["a1", "a2", "b1"], vec!["a1", "a2", "b1"]),
        (Some(json!({"team": "x"})), vec!["a1", "a2"], vec!["b1"], vec!["b1"]),
        (Some(json!({"team": "y"})), vec![], vec!["a1", "a2", "b1"], vec!["a1", "a2", "b1"]),
        (Some(json!({"team": "x", "more": ""})), vec!["a1", "a2"], vec!["b1"], vec!["b1"]),
        (None, vec![], vec!["a1", "a2", "b1"], vec!["a1", "a2", "b1"]),
    ] {
        let namespace: Option<Arc<Namespace>> = labels
            .as_ref()
            .map(|labels| from(json!({"metadata": {"name": "ns", "labels": labels}})));
        play.0.set_namespace("ns", namespace.as_deref());
        assert_eq!(play.0.check_books(), [""; 0]);
        assert_eq!(passing(&play.0, "near"), near, "{labels:?}");
        assert_eq!(passing(&play.0, "away"), away, "{labels:?}");
        assert_eq!(passing(&play.0, "plain"), plain, "{labels:?}");
    }
}
