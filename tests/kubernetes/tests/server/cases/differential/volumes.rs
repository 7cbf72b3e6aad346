//! Claims and volumes. Both control planes run the volume controller of Kubernetes.

use serde_json::{Value, json};

use super::run::alike;
use super::{
    Call, Outcome, Row, beside, create, delete, given, goes, node, own, pod, reasons, scene, three,
    with,
};
use crate::cluster::Cluster;

const ALL: &[&str] = &["a1", "a2", "b1"];
/// Controllers that bind claims and create ephemeral ones.
const CONTROLLERS: &[&str] = &["persistentvolume-binder-controller", "ephemeral-volume-controller"];
const DRIVER: &str = "disks.example.com";

/// Both schedulers are right: nothing binds such a claim.
const NO_CLASS: &str =
    "kube-scheduler takes a class that is not there for one that makes volumes at once";

/// A class that waits for a consumer, unless `more` differs.
fn class(name: &str, provisioner: &str, more: Value) -> Call {
    let class = json!({"metadata": {"name": name}, "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer"});
    create("/apis/storage.k8s.io/v1/storageclasses", with(&class, &more))
}

/// A class of the row, for existing volumes.
fn local() -> Call {
    class("local$", "kubernetes.io/no-provisioner", json!({}))
}

/// Node affinity of a volume.
fn in_zone(zone: &str) -> Value {
    json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]}}}})
}

/// A volume of 10 Gi of that class that all nodes reach, unless `more` differs.
fn volume(name: &str, more: Value) -> Call {
    let volume = json!({"metadata": {"name": format!("{name}$")}, "spec": {
        "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local$", "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": DRIVER, "volumeHandle": format!("{name}$")}}});
    create("/api/v1/persistentvolumes", with(&volume, &more))
}

/// A claim of 1 Gi of that class, unless `more` differs.
fn claim(name: &str, more: Value) -> Call {
    let claim = json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": "local$", "resources": {"requests": {"storage": "1Gi"}}}});
    create(&own("persistentvolumeclaims"), with(&claim, &more))
}

/// A volume and the claim of the same name, which refer to each other.
fn bound(row: Row, name: &str, of_volume: Value, of_claim: Value) -> Row {
    let kept = json!({"spec": {"claimRef": {"namespace": "ns$", "name": name}}});
    let has = json!({"spec": {"volumeName": format!("{name}$")}});
    let row = row.has(volume(name, with(&kept, &of_volume)));
    row.has(claim(name, with(&has, &of_claim)))
}

fn mounting(claims: &[&str]) -> Value {
    let volumes = claims.iter().enumerate().map(|(number, claim)| {
        json!({"name": format!("v{number}"), "persistentVolumeClaim": {"claimName": claim}})
    });
    pod(json!({}), json!({"volumes": volumes.collect::<Vec<_>>()}))
}

fn mounts(what: &str, claims: &[&str], nodes: &[&'static str]) -> Row {
    goes(what, mounting(claims), nodes)
}

fn of_class(class: &str) -> Value {
    json!({"spec": {"storageClassName": class}})
}

fn that_are_bound() -> Vec<Row> {
    let once = json!({"spec": {"accessModes": ["ReadWriteOncePod"]}});
    let keeps = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    vec![
        bound(mounts("one of a zone", &["v"], &["b1"]).has(local()), "v", in_zone("b"), json!({})),
        bound(mounts("one of all", &["v"], ALL).has(local()), "v", json!({}), json!({})),
        bound(
            bound(mounts("two zones", &["v", "w"], &[]).has(local()), "v", in_zone("b"), json!({})),
            "w",
            in_zone("a"),
            json!({}),
        ),
        // The pod has anti-affinity to another one, too.
        bound(
            goes(
                "out of reach, and too near",
                with(
                    &mounting(&["v"]),
                    &json!({"spec": {"affinity":
                {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}]}}}}),
                ),
                &[],
            )
            .has(local())
            .runs("a1", pod(json!({"app": "db"}), json!({})))
            .runs("b1", pod(json!({"app": "db"}), json!({})))
            .counts(reasons::ANOTHER_FIRST),
            "v",
            in_zone("b"),
            json!({}),
        ),
        mounts("a volume that is not there", &["v"], &[])
            .has(local())
            .has(claim("v", json!({"spec": {"volumeName": "nowhere$"}}))),
        mounts("a claim that is not there", &["v"], &[]),
        // The claim may be used by one pod at a time.
        bound(mounts("free", &["v"], ALL).has(local()), "v", once.clone(), once.clone()),
        bound(
            mounts("used by another pod", &["v"], &[]).has(local()).runs("a1", mounting(&["v"])),
            "v",
            once.clone(),
            once,
        ),
        mounts("a claim that is deleted", &["v"], &[])
            .has(class("going$", DRIVER, json!({})))
            .has(claim("v", with(&keeps, &of_class("going$"))))
            .happened(delete(&own("persistentvolumeclaims/v"), 0)),
    ]
}

fn that_wait_for_a_consumer() -> Vec<Row> {
    let size = |size: &str| json!({"spec": {"capacity": {"storage": size}}});
    let wants = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
    let zone_b = json!([{"matchLabelExpressions": [{"key": "zone", "values": ["b"]}]}]);
    let existing = |what: &str, more: Value, nodes: &[&'static str]| {
        let row = mounts(what, &["v"], nodes).has(local());
        row.has(volume("pv", in_zone("a"))).has(claim("v", more))
    };
    let made = |what: &str, more: Value, nodes: &[&'static str]| {
        let row = mounts(what, &["v"], nodes).has(class("made$", DRIVER, more));
        row.has(claim("v", of_class("made$")))
    };
    let two = |what: &str, sizes: &[&str], nodes: &[&'static str]| {
        let mut row = mounts(what, &["large", "small"], nodes).has(local());
        for (number, each) in sizes.iter().enumerate() {
            row = row.has(volume(&format!("pv{number}-"), size(each)));
        }
        row.has(claim("large", wants("5Gi"))).has(claim("small", wants("1Gi")))
    };
    let free = |what: &str, more: Value, nodes: &[&'static str]| {
        let row = mounts(what, &["v"], nodes).has(local());
        row.has(volume("pv", more)).has(claim("v", json!({})))
    };
    vec![
        existing("one that is there", json!({}), &["a1", "a2"]),
        existing("too large", wants("50Gi"), &[]),
        existing("of another access", json!({"spec": {"accessModes": ["ReadWriteMany"]}}), &[]),
        existing("of another mode", json!({"spec": {"volumeMode": "Block"}}), &[]),
        existing(
            "none of the selector",
            json!({"spec": {"selector": {"matchLabels": {"no": "such"}}}}),
            &[],
        ),
        free("one of the selector", json!({"metadata": {"labels": {"tier": "fast"}}}), ALL),
        free("of another class", of_class("other$"), &[]),
        free("kept for another claim",
            json!({"spec": {"claimRef": {"namespace": "ns$", "name": "other"}}}), &[]),
        free("kept for this claim", with(&in_zone("b"),
            &json!({"spec": {"claimRef": {"namespace": "ns$", "name": "v"}}})), &["b1"]),
        free("kept for another of its name", with(&in_zone("b"),
            &json!({"spec": {"claimRef": {"namespace": "ns$", "name": "v", "uid": "old"}}})), &[]),
        two("one for two", &["10Gi"], &[]),
        two("two, one too small for the large one", &["2Gi", "10Gi"], ALL),
        two("two, both too small for the large one", &["2Gi", "4Gi"], &[]),
        two("two of a size", &["10Gi", "10Gi"], ALL),
        made("one is made", json!({}), ALL),
        made("one is made in a zone", json!({"allowedTopologies": zone_b}), &["b1"]),
        made("one is made at once, and is not there", json!({"volumeBindingMode": "Immediate"}), &[]),
        mounts("no such class", &["v"], &[])
            .has(claim("v", of_class("nowhere$")))
            .counts(Some(NO_CLASS)),
        goes(
            "a disk that it names itself",
            pod(json!({}), json!({"volumes": [{"name": "v", "iscsi": {"targetPortal": "10.0.0.1",
                "iqn": "iqn.2026-01.com.example:x", "lun": 0}}]})),
            ALL,
        )
        .ours(vec![Outcome::Goes(vec![])], "documented: volumes of this kind by claims alone"),
        // A claim with a volume, and one that gets one.
        bound(
            mounts("one has a volume, one is made", &["v", "w"], &["b1"])
                .has(local())
                .has(class("made$", DRIVER, json!({})))
                .has(claim("w", of_class("made$"))),
            "v",
            in_zone("b"),
            json!({}),
        ),
        goes(
            "one that comes with its pod",
            pod(json!({}), json!({"volumes": [{"name": "scratch", "ephemeral": {
                "volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"],
                    "storageClassName": "made$", "resources": {"requests": {"storage": "1Gi"}}}}}}]})),
            &["b1"],
        )
        .has(class("made$", DRIVER, json!({"allowedTopologies": zone_b}))),
    ]
}

/// Rows with later changes.
fn that_come() -> Vec<Row> {
    let goes_to = |nodes: &[&'static str]| [Outcome::Goes(nodes.to_vec())];
    vec![
        mounts("the claim comes", &["v"], &[])
            .has(local())
            .has(volume("pv", in_zone("a")))
            .then(vec![claim("v", json!({}))], goes_to(&["a1", "a2"])),
        mounts("the volume comes", &["v"], &[])
            .has(local())
            .has(claim("v", json!({})))
            .then(vec![volume("pv", in_zone("b"))], goes_to(&["b1"])),
        mounts("the class comes", &["v"], &[])
            .has(claim("v", of_class("late$")))
            .then(vec![class("late$", DRIVER, json!({}))], goes_to(ALL))
            .counts(Some(NO_CLASS)),
    ]
}

/// Volumes whose labels name their zones.
fn of_labels() -> Vec<Row> {
    const ZONE: &str = "topology.kubernetes.io/zone";
    const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
    const REGION: &str = "topology.kubernetes.io/region";
    let mut rows = Vec::new();
    for (labels, nodes) in [
        (json!({ZONE: "z1"}), &["z1", "plain"][..]),
        (json!({OLD_ZONE: "z1"}), &["z1", "plain"]),
        (json!({ZONE: "z1__z2"}), &["z1", "z2", "plain"]),
        (json!({OLD_ZONE: "z1__z2"}), &["z1", "z2", "plain"]),
        (json!({ZONE: "z3"}), &["plain"]),
        (json!({REGION: "q", ZONE: "z1"}), &["plain"]),
        (json!({REGION: "r", ZONE: "z1"}), &["z1", "plain"]),
        (json!({}), &["z1", "z2", "plain"]),
    ] {
        let row = mounts(&labels.to_string(), &["v"], nodes).has(local());
        rows.push(bound(row, "v", json!({"metadata": {"labels": labels}}), json!({})));
    }
    rows
}

/// Nodes that can attach one disk, and one without a limit. `a1` has one disk.
fn of_limits() -> Vec<Row> {
    let disk = |row: Row, name: &str| bound(row, name, json!({}), json!({}));
    let has = |row: Row| disk(row.has(local()).pinned(), "v").runs("a1", mounting(&["v"]));
    vec![
        disk(has(mounts("one more", &["w"], &["b1"])), "w"),
        has(mounts("the same again", &["v"], &["a1"])),
        has(mounts("one is made there", &["w"], &["b1"]))
            .has(class("made$", DRIVER, json!({})))
            .has(claim("w", of_class("made$"))),
        disk(has(mounts("room when the other one goes", &["w"], &[])), "w")
            .then(vec![delete(&own("pods/r0"), 0)], [Outcome::Goes(vec!["a1"])]),
    ]
}

/// Several pods in order.
fn in_order() -> Row {
    given("one volume for two claims")
        .has(local())
        .has(volume("pv", in_zone("a")))
        .has(claim("v", json!({})))
        .has(claim("w", json!({})))
        .asks("p0", mounting(&["v"]), Outcome::Among(vec!["a1", "a2"]))
        .asks("p1", mounting(&["w"]), Outcome::Waits)
}

pub async fn claims_and_volumes(cluster: &mut Cluster) -> anyhow::Result<()> {
    let zoned = |name: &str, zone: &str| {
        let labels =
            json!({"topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": "r"});
        node(name, labels, json!({}))
    };
    let nodes = vec![zoned("z1", "z1"), zoned("z2", "z2"), node("plain", json!({}), json!({}))];
    let mut scenes = vec![
        scene("bound", three(), that_are_bound()),
        scene("consumers", three(), that_wait_for_a_consumer()),
        scene("later", three(), that_come()),
        scene("zones of volumes", nodes, of_labels()),
        scene("order", three(), vec![in_order()]),
    ];
    let limits = of_limits().into_iter().map(|row| {
        // Of the pods that share the claim of a running pod, only one can be placed.
        let is_alone = row.asked[0].outcomes[0] != Outcome::Goes(vec!["b1"]);
        let mut nodes = vec![node("a1", json!({}), json!({})), node("b1", json!({}), json!({}))];
        nodes.truncate(if is_alone { 1 } else { 2 });
        let limit = json!({"metadata": {"name": "a1@"}, "spec": {"drivers": [{"name": DRIVER,
            "nodeID": "x", "topologyKeys": [], "allocatable": {"count": 1}}]}});
        scene("limits", nodes, vec![row]).with(create("/apis/storage.k8s.io/v1/csinodes", limit))
    });
    scenes.push(beside("limits", limits.collect()));
    alike(cluster, CONTROLLERS, scenes).await
}
