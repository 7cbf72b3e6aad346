//! Affinity and anti-affinity between pods.

use serde_json::{Value, json};

use super::run::alike;
use super::{
    Outcome, Row, create, delete, given, goes, own, patch, pod, reasons, scene, three, with,
};
use crate::cluster::Cluster;

const HOST: &str = "kubernetes.io/hostname";
const ALL: &[&str] = &["a1", "a2", "b1"];
const NEAR: &str = "podAffinity";
const AWAY: &str = "podAntiAffinity";

/// Required terms.
fn terms(kind: &str, terms: &Value) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

/// A required term about pods with `app=db`.
fn near(kind: &str, key: &str, extra: &Value) -> Value {
    let term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": "db"}}});
    terms(kind, &json!([with(&term, extra)]))
}

/// A term about pods with this label.
fn about(key: &str, value: &str, topology: &str) -> Value {
    json!({"topologyKey": topology, "labelSelector": {"matchLabels": {key: value}}})
}

fn app(app: &str) -> Value {
    json!({"app": app})
}

/// A second namespace of the row.
fn namespace(labels: Value) -> super::Call {
    create("/api/v1/namespaces", json!({"metadata": {"name": "other$", "labels": labels}}))
}

/// A pod of that namespace.
fn elsewhere(labels: Value, spec: Value) -> Value {
    with(&pod(labels, spec), &json!({"metadata": {"namespace": "other$"}}))
}

/// A pod with these labels and this spec, while a pod with `app=db` runs on `a1`.
fn beside_db(what: &str, labels: &Value, spec: &Value, nodes: &[&'static str]) -> Row {
    let row = goes(format!("{what} {spec}"), pod(labels.clone(), spec.clone()), nodes);
    row.runs("a1", pod(app("db"), json!({})))
}

/// The same in an empty cluster.
fn first(what: &str, labels: &Value, spec: &Value, nodes: &[&'static str]) -> Row {
    goes(format!("{what} {spec}"), pod(labels.clone(), spec.clone()), nodes)
}

fn by_labels_of_nodes() -> Vec<Row> {
    let none = json!({});
    let rows = vec![
        beside_db("near", &none, &near(NEAR, "zone", &none), &["a1", "a2"]),
        beside_db("near", &none, &near(NEAR, HOST, &none), &["a1"]),
        beside_db("near", &none, &near(NEAR, "rack", &none), &[]),
        beside_db("away", &none, &near(AWAY, "zone", &none), &["b1"]),
        beside_db("away", &none, &near(AWAY, HOST, &none), &["a2", "b1"]),
        // A node without the label belongs to no domain, so nothing keeps the pod away.
        beside_db("away", &none, &near(AWAY, "rack", &none), ALL),
        // A pod that must be near its own kind may be anywhere while there is none. A pod that must
        // be near another kind may be nowhere.
        first("own", &app("db"), &near(NEAR, "zone", &none), ALL),
        first("other", &none, &near(NEAR, "zone", &none), &[]),
        // An empty selector matches all pods, a missing one none.
        beside_db(
            "all",
            &none,
            &near(AWAY, "zone", &json!({"labelSelector": {"matchLabels": null}})),
            &["b1"],
        ),
        beside_db("nobody", &none, &near(AWAY, "zone", &json!({"labelSelector": null})), ALL),
        beside_db("nobody", &none, &near(NEAR, "zone", &json!({"labelSelector": null})), &[]),
        // A preference excludes no node.
        beside_db(
            "preferred",
            &none,
            &json!({"affinity": {AWAY: {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "podAffinityTerm": about("app", "db", "zone")}]}}}),
            ALL,
        ),
    ];
    let guard = |what: &str, guard: &Value, labels: &Value, nodes: &[&'static str]| {
        let row = goes(format!("{what} {guard}"), pod(labels.clone(), json!({})), nodes);
        row.runs("a1", pod(json!({}), guard.clone()))
    };
    let by_zone = near(AWAY, "zone", &none);
    let guards = [
        guard("who runs keeps away", &by_zone, &app("db"), &["b1"]),
        guard("who runs keeps away", &by_zone, &app("web"), ALL),
        guard(
            "who runs keeps all away",
            &near(AWAY, "zone", &json!({"labelSelector": {"matchLabels": null}})),
            &app("web"),
            &["b1"],
        ),
        guard(
            "who runs keeps nobody away",
            &near(AWAY, "zone", &json!({"labelSelector": null})),
            &app("db"),
            ALL,
        ),
    ];
    rows.into_iter().chain(guards).collect()
}

fn by_namespaces() -> Vec<Row> {
    let none = json!({});
    let x = json!({"team": "x$"});
    let of = |team: &str| json!({"namespaceSelector": {"matchLabels": {"team": team}}});
    let away = |extra: Value, nodes: &[&'static str]| {
        // A label of its own in each row, since some terms are about all namespaces.
        let extra = with(&json!({"labelSelector": {"matchLabels": {"app": "db$"}}}), &extra);
        let spec = near(AWAY, "zone", &extra);
        let row = goes(format!("away {extra}"), pod(json!({}), spec), nodes);
        row.labelled(json!({"team": "x$"})).runs("a1", pod(app("db$"), json!({})))
    };
    let mut rows = vec![
        away(json!({"namespaces": ["other$"]}), ALL),
        away(json!({"namespaces": ["other$", "ns$"]}), &["b1"]),
        away(json!({"namespaceSelector": {}}), &["b1"]),
        away(of("x$"), &["b1"]),
        away(of("y$"), ALL),
        away(json!({"labelSelector": null}), ALL),
    ];
    // The first pod of a kind, with a term about another namespace, or about this one by its
    // labels.
    let own = |extra: &Value| pod(app("db"), near(NEAR, "zone", extra));
    rows.push(goes("first of elsewhere", own(&json!({"namespaces": ["other$"]})), &[]));
    rows.push(goes("first by labels", own(&of("x$")), &[]));
    rows.push(goes("first by its labels", own(&of("x$")), ALL).labelled(x.clone()));
    // Running pods keep others away, in namespaces with some labels.
    let guard = near(AWAY, "zone", &with(&json!({"namespaces": ["named"]}), &of("x$")));
    for (labels, nodes) in [(x.clone(), &["b1"][..]), (json!({"team": "y$"}), ALL)] {
        let row = goes(format!("kept away by {labels}"), pod(app("db"), none.clone()), nodes);
        let row = row.labelled(labels).has(namespace(json!({})));
        rows.push(row.runs("a1", elsewhere(json!({}), guard.clone())));
    }
    let everywhere = json!({"namespaceSelector": {},
        "labelSelector": {"matchLabels": {"app": "db$"}}});
    for (extra, nodes) in [(everywhere, &["b1"][..]), (none.clone(), ALL)] {
        let guard = near(AWAY, "zone", &extra);
        let row = goes(
            format!("kept away from elsewhere by {extra}"),
            pod(app("db$"), none.clone()),
            nodes,
        );
        rows.push(row.has(namespace(json!({}))).runs("a1", elsewhere(json!({}), guard)));
    }
    for (extra, nodes) in [
        (json!({"namespaces": ["other$"]}), &["a1", "a2"][..]),
        (of("z$"), &["a1", "a2"]),
        (none.clone(), &[]),
    ] {
        let row = goes(
            format!("near elsewhere {extra}"),
            pod(json!({}), near(NEAR, "zone", &extra)),
            nodes,
        );
        let row = row.has(namespace(json!({"team": "z$"})));
        rows.push(row.runs("a1", elsewhere(app("db"), json!({}))));
    }
    rows
}

fn by_several_terms() -> Vec<Row> {
    let (none, db) = (json!({}), app("db"));
    let both = json!({"app": "db", "tier": "back"});
    let two = |first: &str, second: &str| {
        terms(NEAR, &json!([about("app", "db", first), about("tier", "back", second)]))
    };
    let asks =
        |what: &str, spec: &Value, nodes: &[&'static str]| first(what, &json!({}), spec, nodes);
    let runs = |row: Row, node: &'static str, labels: &Value| {
        row.runs(node, pod(labels.clone(), json!({})))
    };
    // Two pods that match one term each do not count as one that matches both.
    let apart = runs(asks("apart", &two("zone", "zone"), &[]), "a1", &db);
    let mut rows = vec![runs(apart, "a1", &json!({"tier": "back"}))];
    for (spec, nodes) in [
        (two("zone", "zone"), &["a1", "a2"][..]),
        (two("zone", HOST), &["a1"]),
        (two(HOST, "zone"), &["a1"]),
        (two("zone", "disk"), &[]),
        (two("zone", "rack"), &[]),
    ] {
        rows.push(runs(asks("one of both", &spec, nodes), "a1", &both));
    }
    // A different pod may match for each key.
    let by_each = runs(asks("by each key", &two("zone", HOST), &["a1", "b1"]), "a1", &both);
    rows.push(runs(by_each, "b1", &both));
    // Each of the terms to keep away applies by itself.
    let away = terms(AWAY, &json!([about("app", "db", HOST), about("tier", "front", "zone")]));
    let away = runs(asks("away from each", &away, &["a2"]), "a1", &db);
    rows.push(runs(away, "b1", &json!({"tier": "front"})));
    // The first pod of a kind must match all its own terms, and its node needs the labels all the
    // same.
    let two = terms(NEAR, &json!([about("app", "db", "zone"), about("tier", "back", HOST)]));
    rows.push(first("first of all terms", &both, &two, ALL));
    rows.push(first("first of one term", &db, &two, &[]));
    let by_disk = terms(NEAR, &json!([about("app", "db", "zone"), about("app", "db", "disk")]));
    rows.push(first("first with labels", &both, &by_disk, &["b1"]));
    // A pod that matches on a node without the label does not count.
    let by_disk = terms(NEAR, &json!([about("app", "db", "disk")]));
    rows.push(beside_db("on no domain", &db, &by_disk, &["b1"]));
    rows.push(beside_db("on no domain", &none, &by_disk, &[]));
    // A spread and an affinity that fit no node.
    let rule = json!({"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3,
        "labelSelector": {"matchLabels": {"app": "db"}}}]});
    let row = first("both", &db, &with(&near(AWAY, "zone", &none), &rule), &[]);
    rows.push(runs(runs(row, "a1", &db), "b1", &db).counts(reasons::ANOTHER_FIRST));
    // Near some pods and away from others.
    let mixed = with(&near(NEAR, "zone", &none), &near(AWAY, HOST, &none));
    rows.push(beside_db("near and away", &none, &mixed, &["a2"]));
    // A terminating pod counts until it is gone.
    let going = |what: &str, labels: &Value, spec: &Value, nodes: &[&'static str]| {
        let row = first(what, labels, spec, nodes);
        let web = terms(AWAY, &json!([about("app", "web", "zone")]));
        let row = row.runs("a1", pod(app("db"), web));
        row.happened(delete(&own("pods/r0"), 30))
    };
    rows.push(going("near who is going", &none, &near(NEAR, "zone", &none), &["a1", "a2"]));
    rows.push(going("away from who is going", &none, &near(AWAY, "zone", &none), &["b1"]));
    rows.push(going("kept away by who is going", &app("web"), &none, &["b1"]));
    rows
}

fn by_keys_and_expressions() -> Vec<Row> {
    let labels = |version: &str| json!({"app": "db", "version": version});
    let mut rows = Vec::new();
    for (kind, keys, asked, nodes) in [
        (AWAY, json!({"matchLabelKeys": ["version"]}), labels("1"), &["b1"][..]),
        (AWAY, json!({"matchLabelKeys": ["version"]}), labels("2"), ALL),
        (AWAY, json!({"mismatchLabelKeys": ["version"]}), labels("2"), &["b1"]),
        (NEAR, json!({"matchLabelKeys": ["lacking", "version"]}), labels("1"), &["a1", "a2"]),
        // The pod is the first of its own kind.
        (NEAR, json!({"matchLabelKeys": ["lacking", "version"]}), labels("2"), ALL),
        (NEAR, json!({"matchLabelKeys": ["lacking", "version"]}), json!({"version": "2"}), &[]),
        // For a pod without the label the term matches every pod with `app=db`.
        (NEAR, json!({"matchLabelKeys": ["lacking", "version"]}), app("db"), &["a1", "a2"]),
        (AWAY, json!({"matchLabelKeys": ["lacking", "version"]}), app("db"), &["b1"]),
        (NEAR, json!({"mismatchLabelKeys": ["lacking", "version"]}), labels("2"), &["a1", "a2"]),
        (NEAR, json!({"mismatchLabelKeys": ["lacking", "version"]}), labels("1"), &[]),
    ] {
        let what = format!("{kind} {keys} of {asked}");
        let row = goes(what, pod(asked, near(kind, "zone", &keys)), nodes);
        rows.push(row.runs("a1", pod(labels("1"), json!({}))));
    }
    for (expressions, nodes) in [
        (json!([{"key": "app", "operator": "In", "values": ["web", "db"]}]), &["b1"][..]),
        (json!([{"key": "app", "operator": "In", "values": ["web"]}]), ALL),
        (json!([{"key": "app", "operator": "NotIn", "values": ["web"]}]), &["b1"]),
        (json!([{"key": "app", "operator": "Exists"}]), &["b1"]),
        (json!([{"key": "tier", "operator": "DoesNotExist"}]), &["b1"]),
        (json!([{"key": "app", "operator": "Exists"}, {"key": "tier", "operator": "Exists"}]), ALL),
    ] {
        let selector =
            json!({"labelSelector": {"matchLabels": null, "matchExpressions": expressions}});
        rows.push(beside_db("", &json!({}), &near(AWAY, "zone", &selector), nodes));
    }
    rows
}

/// Later changes that let pods in, or do not.
fn with_changes() -> Vec<Row> {
    let none = json!({});
    let all = || Outcome::Goes(ALL.to_vec());
    let away = near(AWAY, "zone", &none);
    let two = |row: Row| {
        let row = row.runs("a1", pod(app("db"), json!({})));
        row.runs("b1", pod(app("db"), json!({})))
    };
    let gone = |number: usize| vec![delete(&own(&format!("pods/r{number}")), 0)];
    let relabelled = vec![patch(&own("pods/r0"), json!({"metadata": {"labels": {"app": "web"}}}))];
    let comes = with(
        &pod(app("db"), json!({})),
        &json!({"metadata": {"name": "late"},
        "spec": {"nodeName": "b1", "schedulerName": "theirs", "containers": [{"name": "c", "image": "c"}]}}),
    );
    let team = |team: &str| {
        vec![patch("/api/v1/namespaces/ns$", json!({"metadata": {"labels": {"team": team}}}))]
    };
    let of_x = near(NEAR, "zone", &json!({"namespaceSelector": {"matchLabels": {"team": "x$"}}}));
    vec![
        two(goes("the last one goes", pod(none.clone(), away.clone()), &[]))
            .then(gone(1), [Outcome::Goes(vec!["b1"])])
            .then(vec![], [Outcome::Goes(vec!["b1"])]),
        two(goes("one has another label", pod(none.clone(), away.clone()), &[]))
            .then(relabelled, [Outcome::Goes(vec!["a1", "a2"])]),
        goes("one comes", pod(none.clone(), near(NEAR, "zone", &none)), &[])
            .then(vec![create(&own("pods"), comes)], [Outcome::Goes(vec!["b1"])]),
        goes("one goes that kept away", pod(app("db"), none.clone()), &[])
            .runs("a1", pod(none.clone(), near(AWAY, "disk", &none)))
            .runs("a1", pod(none.clone(), away.clone()))
            .runs("b1", pod(none.clone(), away.clone()))
            .then(gone(1), [Outcome::Goes(vec!["a1", "a2"])]),
        goes("its namespace gets the label", pod(app("db"), of_x), &[])
            .then(team("x$"), [Outcome::Goes(vec![])])
            .ours(
                vec![Outcome::Goes(vec![]), all()],
                "kube-scheduler does not try again when a namespace has other labels",
            ),
    ]
}

/// Several pods in order: each counts the earlier ones.
fn one_after_the_other() -> Vec<Row> {
    let none = json!({});
    let own = |spec: Value| pod(app("db"), spec);
    let waits = |row: Row, pods: [&'static str; 2], pod: Value| {
        let row = row.asks(pods[0], pod.clone(), Outcome::Among(vec!["b1"]));
        row.asks(pods[1], pod, Outcome::Waits)
    };
    let at_b = json!({"nodeSelector": {"zone": "b"}});
    vec![
        waits(
            given("two apart by zone"),
            ["p0", "p1"],
            own(with(&near(AWAY, "zone", &none), &at_b)),
        ),
        waits(given("two apart by host"), ["p0", "p1"], own(with(&near(AWAY, HOST, &none), &at_b))),
        waits(
            given("two with a port"),
            ["p0", "p1"],
            own(with(&json!({"containers": [{"ports": [{"hostPort": 80}]}]}), &at_b)),
        ),
        given("the second is near the first")
            .asks("p0", own(with(&near(NEAR, "zone", &none), &at_b)), Outcome::Among(vec!["b1"]))
            .asks("p1", own(near(NEAR, "zone", &none)), Outcome::Among(vec!["b1"])),
    ]
}

pub async fn affinity_and_anti_affinity(cluster: &mut Cluster) -> anyhow::Result<()> {
    let scenes = vec![
        scene("labels of nodes", three(), by_labels_of_nodes()),
        scene("namespaces", three(), by_namespaces()),
        scene("several terms", three(), by_several_terms()),
        scene("keys and expressions", three(), by_keys_and_expressions()),
        scene("changes", three(), with_changes()),
        scene("order", three(), one_after_the_other()),
    ];
    alike(cluster, &[], scenes).await
}
