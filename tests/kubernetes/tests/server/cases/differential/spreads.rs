//! Spread constraints.

use serde_json::{Value, json};

use super::run::alike;
use super::{Outcome, Row, create, delete, given, goes, node, own, pod, scene, three, with};
use crate::cluster::Cluster;

const HOST: &str = "kubernetes.io/hostname";
const ALL: &[&str] = &["a1", "a2", "b1"];

/// Hard constraints over zones, about pods with `app=db`, each with additions.
fn rules(all: &[&Value]) -> Value {
    let rule = json!({"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "db"}}});
    let all: Vec<_> = all.iter().map(|more| with(&rule, more)).collect();
    json!({"topologySpreadConstraints": all})
}

fn db() -> Value {
    json!({"app": "db"})
}

/// A pod with these labels and constraints, while pods run on these nodes.
fn spread(labels: Value, spec: &Value, runs: &[&'static str], nodes: &[&'static str]) -> Row {
    let mut row =
        goes(format!("{labels} {spec} beside {runs:?}"), pod(labels, spec.clone()), nodes);
    for node in runs {
        row = row.runs(node, pod(db(), json!({})));
    }
    row
}

fn of_zones() -> Vec<Row> {
    let (none, one, both) = (json!({}), &["a1"][..], &["a1", "b1"][..]);
    let with_a = |extra: &Value| with(&rules(&[extra]), &json!({"nodeSelector": {"zone": "a"}}));
    let host = json!({"topologyKey": HOST});
    let disk = json!({"topologyKey": "disk"});
    let soft = |extra: &Value| with(extra, &json!({"whenUnsatisfiable": "ScheduleAnyway"}));
    let extra = |extra: Value| rules(&[&extra]);
    vec![
        spread(db(), &rules(&[&none]), one, &["b1"]),
        // The pod is not among the counted ones.
        spread(none.clone(), &rules(&[&none]), one, ALL),
        spread(db(), &extra(json!({"maxSkew": 2})), one, ALL),
        spread(db(), &extra(json!({"whenUnsatisfiable": "ScheduleAnyway"})), one, ALL),
        spread(db(), &rules(&[&disk]), one, &["b1"]),
        spread(db(), &extra(json!({"topologyKey": "rack"})), one, &[]),
        // With too few domains the least number is 0.
        spread(db(), &extra(json!({"minDomains": 1})), both, ALL),
        spread(db(), &extra(json!({"minDomains": 2})), both, ALL),
        spread(db(), &extra(json!({"minDomains": 3})), both, &[]),
        // A domain that the pod's selector excludes does not count, unless the constraint ignores
        // the selector.
        spread(db(), &with_a(&none), one, &["a1", "a2"]),
        spread(db(), &with_a(&json!({"nodeAffinityPolicy": "Honor"})), one, &["a1", "a2"]),
        spread(db(), &with_a(&json!({"nodeAffinityPolicy": "Ignore"})), one, &[]),
        // Each hard constraint counts nodes with the labels of all of them.
        spread(db(), &rules(&[&none]), both, ALL),
        spread(db(), &rules(&[&none, &host]), both, &["a2"]),
        spread(db(), &rules(&[&none, &soft(&host)]), both, ALL),
        spread(db(), &rules(&[&disk]), both, &["b1"]),
        spread(db(), &rules(&[&none]), &["a1", "b1", "b1"], &["a1", "a2"]),
        spread(db(), &rules(&[&none, &disk]), &["a1", "b1", "b1"], &["b1"]),
        spread(db(), &rules(&[&none, &soft(&disk)]), &["a1", "b1", "b1"], &["a1", "a2"]),
        spread(db(), &extra(json!({"topologyKey": HOST})), both, &["a2"]),
        spread(db(), &extra(json!({"topologyKey": HOST})), &["a1", "a2", "b1"], ALL),
    ]
}

fn of_selectors() -> Vec<Row> {
    let first = json!({"app": "db", "version": "1"});
    let second = json!({"app": "db", "version": "2"});
    let beside = |labels: &Value, extra: Value, nodes: &[&'static str]| {
        let what = format!("{labels} {extra}");
        let row = goes(what, pod(labels.clone(), rules(&[&extra])), nodes);
        row.runs("a1", pod(json!({"app": "db", "version": "1"}), json!({})))
    };
    let elsewhere = given("of another namespace")
        .has(create("/api/v1/namespaces", json!({"metadata": {"name": "other$"}})));
    let ignored = rules(&[&json!({"nodeAffinityPolicy": "Ignore"})]);
    let in_a = with(&ignored, &json!({"nodeSelector": {"zone": "a"}}));
    let there = with(&pod(db(), json!({})), &json!({"metadata": {"namespace": "other$"}}));
    vec![
        beside(&first, json!({}), &["b1"]),
        beside(&first, json!({"matchLabelKeys": ["version"]}), &["b1"]),
        beside(&first, json!({"matchLabelKeys": ["lacking"]}), &["b1"]),
        beside(&second, json!({"matchLabelKeys": ["version"]}), ALL),
        // A selector of all pods of the namespace, and selectors of none.
        beside(&first, json!({"labelSelector": {"matchLabels": null}}), ALL).ours(
            vec![Outcome::Goes(vec!["b1"])],
            "found: kube-scheduler counts nobody by a selector that says nothing, ours everybody",
        ),
        beside(&first, json!({"labelSelector": null}), ALL),
        elsewhere.runs("a1", there).asks(
            "asked",
            pod(db(), rules(&[&json!({})])),
            Outcome::Goes(ALL.to_vec()),
        ),
        // A terminating pod is not counted.
        goes("who is going", pod(db(), in_a.clone()), &["a1", "a2"])
            .runs("a1", pod(db(), json!({})))
            .happened(delete(&own("pods/r0"), 30)),
        goes("who begins to go", pod(db(), in_a), &[])
            .runs("a1", pod(db(), json!({})))
            .then(vec![delete(&own("pods/r0"), 30)], [Outcome::Goes(vec![])])
            .ours(
                vec![Outcome::Goes(vec![]), Outcome::Goes(vec!["a1", "a2"])],
                "kube-scheduler does not try again when a pod begins to go, but when it is gone",
            ),
    ]
}

/// Rows with a taint on `b1`.
fn of_taints() -> Vec<Row> {
    let in_a = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["a"]}]}]}}}});
    let tolerant = json!({"tolerations": [{"key": "x", "operator": "Exists"}]});
    let none = json!({});
    let honour = json!({"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Honor"});
    let ignore = json!({"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Ignore"});
    let mut rows = Vec::new();
    for (policy, more, nodes) in [
        (&honour, &in_a, &["a1", "a2"][..]),
        (&ignore, &in_a, &[]),
        (&none, &in_a, &["a1", "a2"]),
        (&honour, &tolerant, &["b1"]),
        (&honour, &none, &["a1", "a2"]),
        (&ignore, &tolerant, &["b1"]),
        (&ignore, &none, &[]),
        (&none, &none, &[]),
    ] {
        rows.push(spread(db(), &with(&rules(&[policy]), more), &["a1"], nodes));
    }
    rows
}

/// Rows with an empty third zone.
fn of_three_zones() -> Vec<Row> {
    let least = |least: u32| rules(&[&json!({"minDomains": least})]);
    let gone = |number: usize| vec![delete(&own(&format!("pods/r{number}")), 0)];
    vec![
        spread(db(), &rules(&[&json!({})]), &["a1", "b1"], &["c1"]),
        spread(db(), &rules(&[&json!({})]), &["a1", "b1", "c1"], &["a1", "a2", "b1", "c1"]),
        spread(db(), &least(3), &["a1", "b1", "c1"], &["a1", "a2", "b1", "c1"]),
        spread(db(), &least(4), &["a1", "b1", "c1"], &[]),
        spread(db(), &rules(&[&json!({"maxSkew": 2})]), &["a1", "a2", "b1"], &["b1", "c1"]),
        // The spread becomes more even.
        spread(db(), &least(4), &["a1", "b1", "c1"], &[])
            .then(gone(2), [Outcome::Goes(vec!["c1"])]),
        spread(db(), &least(4), &["a1", "b1", "c1"], &[])
            .then(gone(0), [Outcome::Goes(vec!["a1", "a2"])]),
    ]
}

/// Several pods in order: equally many in each zone, whichever comes first.
fn one_after_the_other() -> Row {
    let spec = rules(&[&json!({"nodeAffinityPolicy": "Ignore"})]);
    let in_zone = |zone: &str| pod(db(), with(&spec, &json!({"nodeSelector": {"zone": zone}})));
    given("one after the other")
        .asks("p0", in_zone("b"), Outcome::Among(vec!["b1"]))
        .asks("p1", in_zone("b"), Outcome::Waits)
        .then(vec![create(&own("pods"), with(&pod(db(), json!({})), &json!({"metadata": {"name": "late"},
            "spec": {"nodeName": "a1", "schedulerName": "theirs", "containers": [{"name": "c", "image": "c"}]}})))],
            [Outcome::Among(vec!["b1"]), Outcome::Among(vec!["b1"])])
}

pub async fn spread_constraints(cluster: &mut Cluster) -> anyhow::Result<()> {
    let mut tainted = three();
    tainted[2]["spec"] = json!({"taints": [{"key": "x", "effect": "NoSchedule"}]});
    let mut four = three();
    four.push(node("c1", json!({"zone": "c"}), json!({})));
    let scenes = vec![
        scene("zones", three(), of_zones()),
        scene("selectors of a spread", three(), of_selectors()),
        scene("taints", tainted, of_taints()),
        scene("three zones", four, of_three_zones()),
        scene("order", three(), vec![one_after_the_other()]),
    ];
    alike(cluster, &[], scenes).await
}
