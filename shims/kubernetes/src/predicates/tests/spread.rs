//! Spread constraints.

use super::*;

#[test]
fn spread_over_domains() {
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
    // With too few domains the least number is 0.
    let second =
        play().running("s", "b1", &db, &none).passing(&db, &spread(&json!({"minDomains": 3})));
    assert_eq!(second, [""; 0]);
    // A domain that the pod's selector excludes does not count, unless the constraint ignores the
    // selector.
    let mut only_a = spread(&none);
    only_a["nodeSelector"] = json!({"zone": "a"});
    assert_eq!(play().passing(&db, &only_a), ["a1", "a2"]);
    let mut ignored = spread(&json!({"nodeAffinityPolicy": "Ignore"}));
    ignored["nodeSelector"] = json!({"zone": "a"});
    assert_eq!(play().passing(&db, &ignored), [""; 0]);
    // A domain that taints exclude counts, unless the constraint honours taints.
    for (policy, nodes) in [("Ignore", vec![]), ("Honor", vec!["a1", "a2"])] {
        let mut tainted = play();
        tainted.0.set_node(from(json!({"metadata": {"name": "b1", "labels": {"zone": "b"}},
            "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}})));
        let rule = spread(&json!({"nodeTaintsPolicy": policy}));
        assert_eq!(tainted.passing(&db, &rule), nodes, "{policy}");
    }
    // A pod that is being deleted is not counted.
    let mut going = Play::new();
    going.0.settle(
        "r",
        "a1",
        &from(json!({"metadata": {"name": "r", "namespace": "ns", "uid": "r",
        "labels": db, "deletionTimestamp": "2026-01-01T00:00:00Z"}})),
    );
    assert_eq!(going.passing(&db, &spread(&none)).len(), 3);
}

/// Several constraints, each merged with the usual one.
fn rules<const N: usize>(all: [&Value; N]) -> Value {
    let rule = |extra: &Value| spread(extra)["topologySpreadConstraints"][0].clone();
    json!({"topologySpreadConstraints": Vec::from(all.map(rule))})
}

#[test]
fn spread_counts_nodes_with_the_labels_of_all_constraints() {
    let (none, db) = (json!({}), json!({"app": "db"}));
    let host = json!({"topologyKey": "kubernetes.io/hostname"});
    let soft = |extra: &Value| with(extra, &json!({"whenUnsatisfiable": "ScheduleAnyway"}));
    let disk = json!({"topologyKey": "disk"});
    let play = || {
        let play = Play::new().running("r", "a1", &db, &none);
        play.running("s", "b1", &db, &none)
    };
    assert_eq!(play().passing(&db, &rules([&none])).len(), 3);
    assert_eq!(play().passing(&db, &rules([&none, &host])), ["a2"]);
    assert_eq!(play().passing(&db, &rules([&none, &soft(&host)])).len(), 3);
    // Only `b1` has all labels, so it alone counts for both constraints.
    assert_eq!(play().passing(&db, &rules([&disk])), ["b1"]);
    let mut uneven = play().running("t", "b1", &db, &none);
    assert_eq!(uneven.passing(&db, &rules([&none])), ["a1", "a2"]);
    assert_eq!(uneven.passing(&db, &rules([&none, &disk])), ["b1"]);
    assert_eq!(uneven.passing(&db, &rules([&none, &soft(&disk)])), ["a1", "a2"]);
    let spec = rules([&none, &disk]);
    let reason = uneven.reason(&spec, "a1");
    assert_eq!(reason, "the node lacks the label disk, by which pods are spread");
}

#[test]
fn spread_counts_matching_pods_of_the_namespace() {
    let (none, db) = (json!({}), json!({"app": "db", "version": "1"}));
    let mut play = Play::new().running("r", "a1", &db, &none);
    for (extra, nodes) in [
        (none.clone(), vec!["b1"]),
        (json!({"matchLabelKeys": ["version"]}), vec!["b1"]),
        (json!({"matchLabelKeys": ["lacking"]}), vec!["b1"]),
        // A selector of all pods of the namespace, and selectors of none.
        (json!({"labelSelector": {"matchLabels": null}}), vec!["b1"]),
        (json!({"labelSelector": null}), vec!["a1", "a2", "b1"]),
        (json!({"labelSelector": null, "matchLabelKeys": ["version"]}), vec!["a1", "a2", "b1"]),
    ] {
        assert_eq!(play.passing(&db, &spread(&extra)), nodes, "{extra}");
    }
    let second = json!({"app": "db", "version": "2"});
    let keyed = spread(&json!({"matchLabelKeys": ["version"]}));
    assert_eq!(play.passing(&second, &keyed).len(), 3, "another version");
    let other = from(json!({"metadata": {"name": "asked", "namespace": "other", "uid": "asked",
        "labels": db}, "spec": spread(&none)}));
    assert_eq!(play.ask(other).len(), 3, "another namespace");
}

#[test]
fn min_domains_decides_the_least_count() {
    let (none, db) = (json!({}), json!({"app": "db"}));
    let play = || {
        let play = Play::new().running("r", "a1", &db, &none);
        play.running("s", "b1", &db, &none)
    };
    for (least, passes) in [(1, true), (2, true), (3, false)] {
        let nodes = play().passing(&db, &spread(&json!({"minDomains": least})));
        assert_eq!(nodes.len() == 3, passes, "{least}");
    }
    // A third zone without pods, and its removal.
    let three = spread(&json!({"minDomains": 3}));
    let mut play = play();
    play.0.expect("asked", pod("asked", &db, &three));
    play.0.set_node(node("c1", &json!({"zone": "c"})));
    assert!(play.0.check("asked", "a1").is_err());
    play.0.settle("t", "c1", &pod("t", &db, &none));
    assert_eq!(play.0.check("asked", "a1"), Ok(()));
    play.0.remove_node("c1");
    assert!(play.0.check("asked", "a1").is_err());
}

#[test]
fn node_policies_decide_the_counted_domains() {
    let (none, db) = (json!({}), json!({"app": "db"}));
    let in_a = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["a"]}]}]}}}});
    let tolerant = json!({"tolerations": [{"key": "x", "operator": "Exists"}]});
    let play = || {
        let mut play = Play::new().running("r", "a1", &db, &none);
        play.0.set_node(from(json!({"metadata": {"name": "b1", "labels": {"zone": "b"}},
            "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}})));
        play
    };
    let honour = json!({"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Honor"});
    let ignore = json!({"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Ignore"});
    for (policy, more, nodes) in [
        (&honour, &in_a, vec!["a1", "a2"]),
        (&ignore, &in_a, vec![]),
        (&none, &in_a, vec!["a1", "a2"]),
        (&honour, &tolerant, vec!["b1"]),
        (&honour, &none, vec!["a1", "a2"]),
        (&ignore, &tolerant, vec!["b1"]),
        (&ignore, &none, vec![]),
        (&none, &none, vec![]),
    ] {
        let spec = with(&spread(policy), more);
        assert_eq!(play().passing(&db, &spec), nodes, "{spec}");
    }
}
